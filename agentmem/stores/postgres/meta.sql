-- What concerns the store as a whole: its meta data, leases, projections that lag, upkeep, health.

-- name: all
SELECT name, value FROM store_meta WHERE user_id = '_system'
UNION ALL SELECT 'schema_version', max(version)::text FROM schema_version

-- name: set
SELECT set_store_meta(%(name)s::text[], %(value)s::text[], true)

-- name: set_default
SELECT set_store_meta(%(name)s::text[], %(value)s::text[], false)

-- name: increment_openings
SELECT count_opening()

-- name: prepare_lease
SELECT pg_advisory_xact_lock(hashtextextended('agentmem lease ' || %(name)s, 0))

-- name: acquire_lease
INSERT INTO leases AS l (name, owner, token, until)
VALUES (%(name)s, %(owner)s, nextval('lease_tokens'), clock_timestamp() + make_interval(secs => %(ttl)s))
ON CONFLICT (user_id, name) DO UPDATE SET owner = excluded.owner, until = excluded.until,
    token = CASE WHEN l.owner = excluded.owner THEN l.token ELSE excluded.token END
WHERE l.owner = excluded.owner OR l.until <= clock_timestamp()
RETURNING token

-- name: release_lease
DELETE FROM leases WHERE user_id = '_system' AND name = %(name)s AND owner = %(owner)s

-- name: users
SELECT u.user_id FROM memory_users u WHERE u.user_id > %(after)s
AND EXISTS (SELECT 1 FROM memory_records r WHERE r.user_id = u.user_id) ORDER BY u.user_id LIMIT %(limit)s

-- name: lagging_users
SELECT u.user_id FROM memory_users u
LEFT JOIN projection_watermarks w ON w.user_id = u.user_id AND w.projection = %(projection)s
WHERE u.head > coalesce(w.seq, 0)
ORDER BY (SELECT c.at FROM memory_changes c WHERE c.user_id = u.user_id AND c.seq = coalesce(w.seq, 0) + 1), u.user_id
LIMIT %(limit)s

-- name: set_watermark
INSERT INTO projection_watermarks AS w (projection, user_id, seq) VALUES (%(projection)s, %(user_id)s, %(seq)s)
ON CONFLICT (user_id, projection) DO UPDATE SET seq = excluded.seq WHERE excluded.seq > w.seq

-- name: put_dead_letter
INSERT INTO parked_changes (projection, user_id, seq, reason, attempts, at)
VALUES (%(projection)s, %(user_id)s, %(seq)s, %(reason)s, %(attempts)s, %(at)s)
ON CONFLICT (user_id, projection, seq) DO UPDATE SET
    reason = excluded.reason, attempts = excluded.attempts, at = excluded.at

-- name: dead_letters
SELECT projection, user_id, seq, reason, attempts, at FROM parked_changes
WHERE user_id = %(user_id)s ORDER BY projection, seq

-- name: all_dead_letters
SELECT projection, user_id, seq, reason, attempts, at FROM parked_changes ORDER BY user_id, projection, seq

-- name: users_with_delta
SELECT user_id FROM word_state WHERE tail > 0 ORDER BY user_id

-- name: records_by_kind
SELECT kind, count(*) FROM memory_records GROUP BY kind ORDER BY kind

-- name: totals
SELECT (SELECT count(*) FROM memory_users) AS users, (SELECT count(*) FROM memory_changes) AS changes,
       (SELECT count(*) FROM memory_versions) AS versions, (SELECT count(*) FROM memory_audit_log) AS audit_rows,
       (SELECT count(*) FROM parked_changes) AS parked, pg_database_size(current_database()) AS bytes

-- name: journal_problems
SELECT u.user_id FROM memory_users u
LEFT JOIN (SELECT user_id, count(*) AS entries, max(seq) AS last FROM memory_changes GROUP BY user_id) c USING (user_id)
WHERE coalesce(c.entries, 0) <> u.head OR coalesce(c.last, 0) <> u.head ORDER BY u.user_id LIMIT 20

-- name: record_problems
SELECT r.user_id || ' ' || r.kind || ' ' || r.id FROM memory_records r
LEFT JOIN memory_versions v ON v.user_id = r.user_id AND v.slot = r.slot AND v.seq = r.seq
WHERE v.payload IS NULL LIMIT 20

-- name: watermark_problems
SELECT w.projection || ' of ' || w.user_id FROM projection_watermarks w
LEFT JOIN memory_users u ON u.user_id = w.user_id WHERE w.seq > coalesce(u.head, 0) LIMIT 20

-- name: index_problems
SELECT i.indexrelid::regclass::text FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
WHERE c.relnamespace = current_schema()::regnamespace AND NOT i.indisvalid LIMIT 20
