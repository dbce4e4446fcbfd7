-- Where each job stands with each user, and who has something to do.

-- name: state
SELECT job, user_id, seq, due_at, attempts, at, report FROM job_states
WHERE user_id = %(user_id)s AND job = %(job)s

-- name: put_state
INSERT INTO job_states AS s (user_id, job, seq, due_at, attempts, at, report)
VALUES (%(user_id)s, %(job)s, %(seq)s, %(due_at)s, %(attempts)s, %(at)s, %(report)s)
ON CONFLICT (user_id, job) DO UPDATE SET seq = greatest(s.seq, excluded.seq), due_at = excluded.due_at,
    attempts = excluded.attempts, at = excluded.at, report = excluded.report

-- name: states
SELECT job, user_id, seq, due_at, attempts, at, report FROM job_states WHERE user_id = %(user_id)s ORDER BY job

-- name: queue
SELECT job, user_id, seq, due_at, attempts, at, report FROM job_states
WHERE job = %(job)s AND due_at IS NOT NULL ORDER BY due_at, user_id LIMIT %(limit)s

-- name: users_changed_since
SELECT user_id, max(at) AS last_at FROM memory_changes WHERE at >= %(since)s
GROUP BY user_id HAVING (max(at), user_id) > (%(since)s, %(after)s) ORDER BY last_at, user_id LIMIT %(limit)s

-- name: enqueue
-- Who wrote nothing of these kinds has nothing to wait for, and what he wrote is not looked through again.
INSERT INTO job_states AS s (user_id, job, seq, due_at)
SELECT n.user_id, %(job)s, CASE WHEN n.concerned THEN n.seq ELSE n.head END,
       CASE WHEN n.concerned THEN %(due_at)s::bigint END
FROM (
    SELECT u.user_id, u.head, coalesce(b.seq, 0) AS seq, cardinality(%(kinds)s::text[]) = 0 OR EXISTS (
        SELECT 1 FROM memory_changes c LEFT JOIN memory_versions v ON v.user_id = c.user_id AND v.seq = c.seq
        WHERE c.user_id = %(user_id)s AND c.seq > coalesce(b.seq, 0)
          AND (v.kind IS NULL OR v.kind = ANY (%(kinds)s))) AS concerned
    FROM memory_users u LEFT JOIN job_states b ON b.user_id = u.user_id AND b.job = %(job)s
    WHERE u.user_id = %(user_id)s AND u.head > coalesce(b.seq, 0)
) n
ON CONFLICT (user_id, job) DO UPDATE SET due_at = coalesce(s.due_at, excluded.due_at),
    seq = CASE WHEN s.due_at IS NULL THEN greatest(s.seq, excluded.seq) ELSE s.seq END

-- name: pending_users
-- What is due later than any wait can be was noted under a wrong clock.
SELECT user_id FROM job_states WHERE job = %(job)s AND (due_at <= %(now)s OR due_at > %(too_late)s)
ORDER BY due_at, user_id LIMIT %(limit)s

-- name: due_users
SELECT user_id FROM memory_usage WHERE due_for = %(job)s AND due_at <= %(now)s
ORDER BY due_at, user_id LIMIT %(limit)s

-- name: due_records
SELECT kind, id FROM memory_usage
WHERE user_id = %(user_id)s AND due_for = %(job)s AND due_at <= %(now)s
ORDER BY due_at, kind, id LIMIT %(limit)s

-- name: set_due_date
INSERT INTO memory_usage AS u (user_id, kind, id, due_at, due_for, review_priority)
SELECT %(user_id)s, j.kind, j.id, j.due_at, j.due_for, j.priority
FROM unnest(%(kind)s::text[], %(id)s::text[], %(due_at)s::bigint[], %(due_for)s::text[], %(priority)s::float8[])
     AS j(kind, id, due_at, due_for, priority)
JOIN memory_records r ON r.user_id = %(user_id)s AND r.kind = j.kind AND r.id = j.id
ORDER BY j.kind, j.id
ON CONFLICT (user_id, kind, id) DO UPDATE SET due_at = excluded.due_at, due_for = excluded.due_for,
    review_priority = excluded.review_priority
