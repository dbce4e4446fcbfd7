-- Questions that a healthy store answers with no rows, or with what is to be reported.

-- name: objects
SELECT type, name FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%'

-- name: meta
SELECT name, value FROM store_meta ORDER BY name

-- name: version
SELECT coalesce(max(version), 0) FROM schema_version

-- name: users
SELECT user_id, head, slots FROM memory_users ORDER BY user_id

-- name: journal_gaps
SELECT u.user_id, u.head, coalesce(c.entries, 0), coalesce(c.last, 0) FROM memory_users u
LEFT JOIN (SELECT user_id, count(*) AS entries, max(seq) AS last FROM memory_changes GROUP BY user_id) c USING (user_id)
WHERE coalesce(c.entries, 0) <> u.head OR coalesce(c.last, 0) <> u.head ORDER BY u.user_id

-- name: changes_of_nobody
SELECT DISTINCT c.user_id, c.seq FROM memory_changes c LEFT JOIN memory_users u USING (user_id) WHERE u.user_id IS NULL

-- name: versions_of_nothing
SELECT v.user_id, v.kind, v.id FROM memory_versions v
LEFT JOIN memory_changes c ON c.user_id = v.user_id AND c.seq = v.seq WHERE c.seq IS NULL

-- name: records_without_version
SELECT r.user_id, r.kind, r.id FROM memory_records r
LEFT JOIN memory_versions v ON v.user_id = r.user_id AND v.slot = r.slot AND v.seq = r.seq AND v.kind = r.kind AND v.id = r.id
WHERE v.payload IS NULL

-- name: records_out_of_date
SELECT r.user_id, r.kind, r.id FROM memory_records r
WHERE EXISTS (SELECT 1 FROM memory_versions v WHERE v.user_id = r.user_id AND v.slot = r.slot AND v.seq > r.seq)

-- name: records_missing
SELECT v.user_id, v.kind, v.id FROM memory_versions v
LEFT JOIN memory_records r ON r.user_id = v.user_id AND r.slot = v.slot
WHERE v.payload IS NOT NULL AND r.slot IS NULL
  AND v.seq = (SELECT max(w.seq) FROM memory_versions w WHERE w.user_id = v.user_id AND w.slot = v.slot)

-- name: slots_shared
SELECT user_id, slot, count(DISTINCT kind || char(31) || id) FROM memory_versions GROUP BY user_id, slot
HAVING count(DISTINCT kind || char(31) || id) > 1

-- name: records_in_two_slots
SELECT user_id, kind, id FROM memory_versions WHERE erased = 0 GROUP BY user_id, kind, id HAVING count(DISTINCT slot) > 1

-- name: slots_beyond
SELECT v.user_id, v.kind, v.id FROM memory_versions v JOIN memory_users u USING (user_id) WHERE v.slot >= u.slots

-- name: erased_but_kept
SELECT user_id, kind, id FROM memory_versions WHERE erased = 1 AND payload IS NOT NULL

-- name: other_tokenizer
SELECT user_id FROM word_state WHERE tokenizer <> ? ORDER BY user_id

-- name: tail_slots
SELECT slot FROM word_tail WHERE user_id = ?

-- name: block_slots
SELECT postings FROM word_blocks WHERE user_id = ? AND term = ''

-- name: searchable_slots
SELECT slot FROM memory_records WHERE user_id = ? AND length > 0

-- name: known_slots
SELECT DISTINCT slot FROM memory_versions WHERE user_id = ? AND payload IS NOT NULL

-- name: shadow_edges
CREATE TEMP TABLE graph_edges (user_id TEXT NOT NULL, source INTEGER NOT NULL, kind TEXT NOT NULL, target INTEGER NOT NULL,
    edge INTEGER NOT NULL, owner INTEGER NOT NULL, PRIMARY KEY (user_id, source, kind, target, edge)) WITHOUT ROWID

-- name: edges_that_differ
SELECT count(*) FROM (
    SELECT source, kind, target, edge FROM temp.graph_edges WHERE user_id = ?1
    EXCEPT SELECT source, kind, target, edge FROM main.graph_edges WHERE user_id = ?1
    UNION ALL
    SELECT source, kind, target, edge FROM (
        SELECT source, kind, target, edge FROM main.graph_edges WHERE user_id = ?1
        EXCEPT SELECT source, kind, target, edge FROM temp.graph_edges WHERE user_id = ?1))

-- name: lag
SELECT u.user_id, u.head - coalesce(w.seq, 0) FROM memory_users u
LEFT JOIN projection_watermarks w ON w.projection = ?1 AND w.user_id = u.user_id
WHERE u.head <> coalesce(w.seq, 0) ORDER BY 2 DESC, 1

-- name: graph_cleared
SELECT user_id, seq FROM projection_watermarks WHERE projection = 'graph' ORDER BY user_id

-- name: parked
SELECT projection, user_id, seq, reason FROM parked_changes WHERE attempts >= ? ORDER BY projection, user_id, seq

-- name: ahead_of_time
SELECT user_id, last_at FROM memory_users WHERE last_at > ? ORDER BY last_at DESC

-- name: long_leases
SELECT name, owner, CAST(until - unixepoch('subsec') AS INTEGER) FROM leases WHERE until > unixepoch('subsec') + ? ORDER BY name
