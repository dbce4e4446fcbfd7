-- Where each job stands with each user, and who has something to do.

-- name: state
SELECT job, user_id, seq, due_at, attempts, at, report FROM job_states WHERE user_id = :user_id AND job = :job

-- name: put_state
INSERT INTO job_states (user_id, job, seq, due_at, attempts, at, report)
VALUES (:user_id, :job, :seq, :due_at, :attempts, :at, :report)
ON CONFLICT (user_id, job) DO UPDATE SET seq = max(seq, excluded.seq), due_at = excluded.due_at,
    attempts = excluded.attempts, at = excluded.at, report = excluded.report

-- name: states
SELECT job, user_id, seq, due_at, attempts, at, report FROM job_states
WHERE user_id = :user_id ORDER BY job

-- name: queue
SELECT job, user_id, seq, due_at, attempts, at, report FROM job_states
WHERE job = :job AND due_at IS NOT NULL ORDER BY due_at, user_id LIMIT :limit

-- name: users_changed_since
SELECT user_id, last_at FROM memory_users WHERE (last_at, user_id) > (:since, :after) ORDER BY last_at, user_id LIMIT :limit

-- name: enqueue
-- Who wrote nothing of these kinds has nothing to wait for, and what he wrote is not looked through again.
-- The index is named, or the planner would go through all of the user's versions.
WITH n AS MATERIALIZED (
    SELECT u.user_id, u.head, coalesce(s.seq, 0) AS seq, :kinds = '[]' OR EXISTS (
        SELECT 1 FROM memory_changes c
        LEFT JOIN memory_versions v INDEXED BY memory_versions_seq ON v.user_id = c.user_id AND v.seq = c.seq
        WHERE c.user_id = :user_id AND c.seq > coalesce(s.seq, 0)
          AND (v.kind IS NULL OR v.kind IN (SELECT value FROM json_each(:kinds)))) AS concerned
    FROM memory_users u LEFT JOIN job_states s ON s.user_id = u.user_id AND s.job = :job
    WHERE u.user_id = :user_id AND u.head > coalesce(s.seq, 0)
)
INSERT INTO job_states (user_id, job, seq, due_at)
SELECT user_id, :job, iif(concerned, seq, head), iif(concerned, :due_at, NULL) FROM n WHERE true
ON CONFLICT (user_id, job) DO UPDATE SET due_at = coalesce(due_at, excluded.due_at),
    seq = iif(due_at IS NULL, max(seq, excluded.seq), seq)

-- name: pending_users
-- What is due later than any wait can be was noted under a wrong clock.
SELECT user_id, due_at FROM job_states WHERE job = :job AND due_at <= :now
UNION ALL SELECT user_id, due_at FROM job_states WHERE job = :job AND due_at > :too_late
ORDER BY due_at, user_id LIMIT :limit

-- name: due_users
SELECT user_id FROM memory_usage WHERE due_for = :job AND due_at <= :now ORDER BY due_at, user_id LIMIT :limit

-- name: due_records
-- By the user's own rows: the index over what is due holds everybody's.
SELECT u.kind, u.id FROM memory_usage u
WHERE u.user_id = :user_id AND +u.due_for = :job AND +u.due_at <= :now ORDER BY u.due_at, u.kind, u.id LIMIT :limit

-- name: set_due_date
INSERT INTO memory_usage (user_id, kind, id, due_at, due_for, review_priority, conversations)
SELECT :user_id, :kind, :id, :due_at, :due_for, :priority, json_array()
WHERE EXISTS (SELECT 1 FROM memory_records r WHERE r.user_id = :user_id AND r.kind = :kind AND r.id = :id)
ON CONFLICT (user_id, kind, id) DO UPDATE SET due_at = excluded.due_at, due_for = excluded.due_for,
    review_priority = excluded.review_priority
