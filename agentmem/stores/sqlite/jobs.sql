-- Where each job stands with each user, and who has something to do.

-- name: state
SELECT job, user_id, seq, due_at, attempts, at, report FROM job_states WHERE user_id = ? AND job = ?

-- name: note
INSERT INTO job_states (user_id, job, seq, due_at, attempts, at, report)
VALUES (:user_id, :job, :seq, :due_at, :attempts, :at, :report)
ON CONFLICT (user_id, job) DO UPDATE SET seq = max(seq, excluded.seq), due_at = excluded.due_at,
    attempts = excluded.attempts, at = excluded.at, report = excluded.report

-- name: of_user
SELECT job, user_id, seq, due_at, attempts, at, report FROM job_states
WHERE user_id = ? ORDER BY job

-- name: of_job
SELECT job, user_id, seq, due_at, attempts, at, report FROM job_states
WHERE job = ?1 AND due_at IS NOT NULL ORDER BY due_at, user_id LIMIT ?2

-- name: changed
SELECT user_id, last_at FROM memory_users WHERE (last_at, user_id) > (?1, ?2) ORDER BY last_at, user_id LIMIT ?3

-- name: await_run
-- Who wrote nothing of the kinds in ?4 has nothing to wait for, and what he wrote is not looked through again.
-- The index is named, or the planner would go through all of the user's versions.
WITH n AS MATERIALIZED (
    SELECT u.user_id, u.head, coalesce(s.seq, 0) AS seq, ?4 = '[]' OR EXISTS (
        SELECT 1 FROM memory_changes c
        LEFT JOIN memory_versions v INDEXED BY memory_versions_seq ON v.user_id = c.user_id AND v.seq = c.seq
        WHERE c.user_id = ?1 AND c.seq > coalesce(s.seq, 0)
          AND (v.kind IS NULL OR v.kind IN (SELECT value FROM json_each(?4)))) AS concerned
    FROM memory_users u LEFT JOIN job_states s ON s.user_id = u.user_id AND s.job = ?2
    WHERE u.user_id = ?1 AND u.head > coalesce(s.seq, 0)
)
INSERT INTO job_states (user_id, job, seq, due_at)
SELECT user_id, ?2, iif(concerned, seq, head), iif(concerned, ?3, NULL) FROM n WHERE true
ON CONFLICT (user_id, job) DO UPDATE SET due_at = coalesce(due_at, excluded.due_at),
    seq = iif(due_at IS NULL, max(seq, excluded.seq), seq)

-- name: waiting
-- What is due later than any wait can be was noted under a wrong clock.
SELECT user_id, due_at FROM job_states WHERE job = ?1 AND due_at <= ?2
UNION ALL SELECT user_id, due_at FROM job_states WHERE job = ?1 AND due_at > ?3
ORDER BY due_at, user_id LIMIT ?4

-- name: due
SELECT user_id FROM memory_usage WHERE due_for = ?1 AND due_at <= ?2 ORDER BY due_at, user_id LIMIT ?3

-- name: due_records
-- By the user's own rows: the index over what is due holds everybody's.
SELECT u.kind, u.id FROM memory_usage u
WHERE u.user_id = ?1 AND +u.due_for = ?2 AND +u.due_at <= ?3 ORDER BY u.due_at, u.kind, u.id LIMIT ?4

-- name: settle
INSERT INTO memory_usage (user_id, kind, id, due_at, due_for, review_priority, conversations)
SELECT ?1, j.value ->> 0, j.value ->> 1, j.value ->> 2, j.value ->> 3, j.value ->> 4, json_array()
FROM json_each(?2) j
WHERE EXISTS (SELECT 1 FROM memory_records r WHERE r.user_id = ?1 AND r.kind = j.value ->> 0 AND r.id = j.value ->> 1)
ON CONFLICT (user_id, kind, id) DO UPDATE SET due_at = excluded.due_at, due_for = excluded.due_for,
    review_priority = excluded.review_priority
