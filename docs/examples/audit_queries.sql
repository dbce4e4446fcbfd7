-- Questions to the audit log about one user. They run on SQLite and on Postgres; a program binds :user.
-- A line that begins with "-- #" names a question and the columns of its answer.

-- Rows of `retrieve` name the ids that were delivered; rows of `context` name none.
-- # Who read what: time | who | operation | query | records | ids
SELECT timestamp, coalesce(actor, agent_id, 'user'), operation, query_text, result_count,
       CAST(metadata -> 'delivered' AS TEXT)
FROM memory_audit_log
WHERE user_id = :user AND memory_type = 'recall' AND success
ORDER BY timestamp, id;

-- # Who erased what: time | who | operation | records | ids
SELECT timestamp, coalesce(actor, agent_id, 'user'), operation, result_count, CAST(metadata -> 'ids' AS TEXT)
FROM memory_audit_log
WHERE user_id = :user AND operation IN ('delete', 'erase') AND success
ORDER BY timestamp, id;

-- # By which key: key | writes | recalls | erasures | failures | last seen
SELECT coalesce(actor, 'no key'),
       count(*) FILTER (WHERE success AND memory_type <> 'recall'),
       count(*) FILTER (WHERE success AND memory_type = 'recall'),
       count(*) FILTER (WHERE success AND operation IN ('delete', 'erase')),
       count(*) FILTER (WHERE NOT success),
       max(timestamp)
FROM memory_audit_log
WHERE user_id = :user
GROUP BY 1
ORDER BY 1;
