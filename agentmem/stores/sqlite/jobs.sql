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
INSERT INTO job_states (user_id, job, due_at) SELECT u.user_id, ?2, ?3 FROM memory_users u
WHERE u.user_id = ?1
  AND u.head > coalesce((SELECT s.seq FROM job_states s WHERE s.user_id = ?1 AND s.job = ?2), 0)
ON CONFLICT (user_id, job) DO UPDATE SET due_at = coalesce(due_at, excluded.due_at)

-- name: waiting
SELECT user_id FROM job_states WHERE job = ?1 AND due_at <= ?2 ORDER BY due_at, user_id LIMIT ?3

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
