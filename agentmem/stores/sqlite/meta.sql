-- What concerns the store as a whole: its meta data, leases, projections that lag, upkeep, health.

-- name: all
SELECT name, value FROM store_meta UNION ALL SELECT 'schema_version', CAST(max(version) AS TEXT) FROM schema_version

-- name: set
INSERT INTO store_meta (name, value) VALUES (:name, :value) ON CONFLICT (name) DO UPDATE SET value = excluded.value

-- name: set_default
INSERT INTO store_meta (name, value) VALUES (:name, :value) ON CONFLICT (name) DO NOTHING

-- name: increment_openings
UPDATE store_meta SET value = value + 1 WHERE name = 'openings' RETURNING CAST(value AS INTEGER)

-- name: prepare_lease
-- The token that a new holder gets.
UPDATE store_meta SET value = value + 1 WHERE name = 'lease_token'

-- name: acquire_lease
INSERT INTO leases (name, owner, token, until)
VALUES (:name, :owner, (SELECT CAST(value AS INTEGER) FROM store_meta WHERE name = 'lease_token'),
        unixepoch('subsec') + :ttl)
ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, until = excluded.until,
    token = iif(owner = excluded.owner, token, excluded.token)
WHERE owner = excluded.owner OR until <= unixepoch('subsec')
RETURNING token

-- name: release_lease
DELETE FROM leases WHERE name = :name AND owner = :owner

-- name: users
SELECT u.user_id FROM memory_users u WHERE u.user_id > :after
AND EXISTS (SELECT 1 FROM memory_records r WHERE r.user_id = u.user_id) ORDER BY u.user_id LIMIT :limit

-- name: lagging_users
SELECT u.user_id FROM memory_users u
LEFT JOIN projection_watermarks w ON w.projection = :projection AND w.user_id = u.user_id
WHERE u.head > coalesce(w.seq, 0)
ORDER BY (SELECT c.at FROM memory_changes c WHERE c.user_id = u.user_id AND c.seq = coalesce(w.seq, 0) + 1), u.user_id
LIMIT :limit

-- name: set_watermark
INSERT INTO projection_watermarks (projection, user_id, seq) VALUES (:projection, :user_id, :seq)
ON CONFLICT (projection, user_id) DO UPDATE SET seq = excluded.seq
WHERE excluded.seq > projection_watermarks.seq

-- name: put_dead_letter
INSERT INTO parked_changes (projection, user_id, seq, reason, attempts, at) 
VALUES (:projection, :user_id, :seq, :reason, :attempts, :at)
ON CONFLICT (projection, user_id, seq) DO UPDATE SET reason = excluded.reason, attempts = excluded.attempts, at = excluded.at

-- name: dead_letters
SELECT projection, user_id, seq, reason, attempts, at FROM parked_changes
WHERE user_id = :user_id ORDER BY projection, seq

-- name: all_dead_letters
SELECT projection, user_id, seq, reason, attempts, at FROM parked_changes ORDER BY user_id, projection, seq

-- name: users_with_delta
SELECT user_id FROM word_state WHERE tail > 0 ORDER BY user_id

-- name: records_by_kind
SELECT kind, count(*) FROM memory_records GROUP BY kind ORDER BY kind

-- name: totals
SELECT (SELECT count(*) FROM memory_users) AS users, (SELECT count(*) FROM memory_changes) AS changes,
       (SELECT count(*) FROM memory_versions) AS versions, (SELECT count(*) FROM memory_audit_log) AS audit_rows,
       (SELECT count(*) FROM graph_edges) AS edges, (SELECT count(*) FROM parked_changes) AS parked

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
