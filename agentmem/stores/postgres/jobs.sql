-- Where each job stands with each user, and who has something to do.

-- name: state
SELECT job, user_id, seq, due_at, attempts, at, report FROM job_states
WHERE user_id = %(user_id)s AND job = %(job)s

-- name: note
INSERT INTO job_states AS s (user_id, job, seq, due_at, attempts, at, report)
VALUES (%(user_id)s, %(job)s, %(seq)s, %(due_at)s, %(attempts)s, %(at)s, %(report)s)
ON CONFLICT (user_id, job) DO UPDATE SET seq = greatest(s.seq, excluded.seq), due_at = excluded.due_at,
    attempts = excluded.attempts, at = excluded.at, report = excluded.report

-- name: of_user
SELECT job, user_id, seq, due_at, attempts, at, report FROM job_states WHERE user_id = %(user_id)s ORDER BY job

-- name: of_job
SELECT job, user_id, seq, due_at, attempts, at, report FROM job_states
WHERE job = %(job)s AND due_at IS NOT NULL ORDER BY due_at, user_id LIMIT %(limit)s

-- name: changed
SELECT user_id, max(at) AS last_at FROM memory_changes WHERE at >= %(since)s
GROUP BY user_id HAVING (max(at), user_id) > (%(since)s, %(after)s) ORDER BY last_at, user_id LIMIT %(limit)s

-- name: await_run
INSERT INTO job_states AS s (user_id, job, due_at)
SELECT u.user_id, %(job)s, %(due_at)s FROM memory_users u
WHERE u.user_id = %(user_id)s AND u.head > coalesce(
    (SELECT b.seq FROM job_states b WHERE b.user_id = %(user_id)s AND b.job = %(job)s), 0)
ON CONFLICT (user_id, job) DO UPDATE SET due_at = coalesce(s.due_at, excluded.due_at)

-- name: waiting
SELECT user_id FROM job_states WHERE job = %(job)s AND due_at <= %(now)s ORDER BY due_at, user_id LIMIT %(limit)s

-- name: due
SELECT user_id FROM memory_usage WHERE due_for = %(job)s AND due_at <= %(now)s
ORDER BY due_at, user_id LIMIT %(limit)s

-- name: due_records
SELECT kind, id FROM memory_usage
WHERE user_id = %(user_id)s AND due_for = %(job)s AND due_at <= %(now)s
ORDER BY due_at, kind, id LIMIT %(limit)s

-- name: settle
INSERT INTO memory_usage AS u (user_id, kind, id, due_at, due_for, review_priority)
SELECT %(user_id)s, j.kind, j.id, j.due_at, j.due_for, j.priority
FROM unnest(%(kinds)s::text[], %(ids)s::text[], %(dues)s::bigint[], %(jobs)s::text[], %(priorities)s::float8[])
     AS j(kind, id, due_at, due_for, priority)
JOIN memory_records r ON r.user_id = %(user_id)s AND r.kind = j.kind AND r.id = j.id
ORDER BY j.kind, j.id
ON CONFLICT (user_id, kind, id) DO UPDATE SET due_at = excluded.due_at, due_for = excluded.due_for,
    review_priority = excluded.review_priority
