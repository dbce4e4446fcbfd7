-- Questions that a healthy store answers with no rows, or with what is to be reported.

-- name: objects
SELECT type, name FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%'

-- name: meta
SELECT name, value FROM store_meta ORDER BY name

-- name: version
SELECT coalesce(max(version), 0) FROM schema_version

-- name: user_count
SELECT count(*) FROM memory_users

-- name: users
SELECT user_id, slots FROM memory_users ORDER BY user_id

-- name: journal_gaps
SELECT u.user_id, u.head, coalesce(c.entries, 0), coalesce(c.last, 0) FROM memory_users u
LEFT JOIN (SELECT user_id, count(*) AS entries, max(seq) AS last FROM memory_changes GROUP BY user_id) c USING (user_id)
WHERE coalesce(c.entries, 0) <> u.head OR coalesce(c.last, 0) <> u.head ORDER BY u.user_id LIMIT 20

-- name: changes_of_nobody
SELECT DISTINCT c.user_id, c.seq FROM memory_changes c LEFT JOIN memory_users u USING (user_id) WHERE u.user_id IS NULL LIMIT 20

-- name: versions_of_nothing
SELECT v.user_id, v.kind, v.id FROM memory_versions v
LEFT JOIN memory_changes c ON c.user_id = v.user_id AND c.seq = v.seq WHERE c.seq IS NULL LIMIT 20

-- name: records_without_version
SELECT r.user_id, r.kind, r.id FROM memory_records r
LEFT JOIN memory_versions v ON v.user_id = r.user_id AND v.slot = r.slot AND v.seq = r.seq AND v.kind = r.kind AND v.id = r.id
WHERE v.payload IS NULL LIMIT 20

-- name: records_out_of_date
SELECT r.user_id, r.kind, r.id FROM memory_records r
WHERE EXISTS (SELECT 1 FROM memory_versions v WHERE v.user_id = r.user_id AND v.slot = r.slot AND v.seq > r.seq) LIMIT 20

-- name: records_missing
SELECT v.user_id, v.kind, v.id FROM memory_versions v
LEFT JOIN memory_records r ON r.user_id = v.user_id AND r.slot = v.slot
WHERE v.payload IS NOT NULL AND r.slot IS NULL
  AND v.seq = (SELECT max(w.seq) FROM memory_versions w WHERE w.user_id = v.user_id AND w.slot = v.slot) LIMIT 20

-- name: slots_shared
SELECT user_id, slot, count(DISTINCT kind || char(31) || id) FROM memory_versions GROUP BY user_id, slot
HAVING count(DISTINCT kind || char(31) || id) > 1 LIMIT 20

-- name: records_in_two_slots
SELECT user_id, kind, id FROM memory_versions WHERE erased = 0 GROUP BY user_id, kind, id HAVING count(DISTINCT slot) > 1 LIMIT 20

-- name: slots_beyond
SELECT v.user_id, v.kind, v.id FROM memory_versions v JOIN memory_users u USING (user_id) WHERE v.slot >= u.slots LIMIT 20

-- name: erased_but_kept
SELECT user_id, kind, id FROM memory_versions WHERE erased = 1 AND payload IS NOT NULL LIMIT 20

-- name: other_tokenizer
SELECT count(*) FROM word_state WHERE tokenizer <> :tokenizer

-- name: delta_ordinals
SELECT slot FROM word_tail WHERE user_id = :user_id

-- name: merged_ordinals
SELECT postings FROM word_blocks WHERE user_id = :user_id AND term = ''

-- name: searchable_ordinals
SELECT slot FROM memory_records WHERE user_id = :user_id AND length > 0

-- name: known_ordinals
SELECT DISTINCT slot FROM memory_versions WHERE user_id = :user_id AND payload IS NOT NULL

-- name: behind
SELECT u.user_id, u.head - coalesce(w.seq, 0), count(*) OVER (), sum(u.head - coalesce(w.seq, 0)) OVER ()
FROM memory_users u LEFT JOIN projection_watermarks w ON w.projection = :projection AND w.user_id = u.user_id
WHERE u.head > coalesce(w.seq, 0) ORDER BY 2 DESC, 1 LIMIT 3

-- name: ahead
SELECT w.user_id, w.seq - coalesce(u.head, 0), count(*) OVER () FROM projection_watermarks w
LEFT JOIN memory_users u ON u.user_id = w.user_id
WHERE w.projection = :projection AND w.seq > coalesce(u.head, 0) ORDER BY 2 DESC, 1 LIMIT 3

-- name: cleared_graphs
SELECT user_id, seq FROM projection_watermarks WHERE projection = 'graph' ORDER BY user_id

-- name: dead_letters
SELECT projection, user_id, seq, reason, count(*) OVER () FROM parked_changes
WHERE attempts >= :attempts ORDER BY at, user_id, projection, seq LIMIT 3

-- name: ahead_of_time
SELECT user_id, last_at, count(*) OVER () FROM memory_users WHERE last_at > :until ORDER BY last_at DESC LIMIT 1

-- name: long_leases
SELECT name, owner, CAST(until - unixepoch('subsec') AS INTEGER) FROM leases WHERE until > unixepoch('subsec') + :seconds ORDER BY name LIMIT 3

-- name: unread_ends
-- Turns that are longer than what their reader, which their gloss names, reads of one; with how many there are.
SELECT t.user_id, t.id, g.extractor = :rules, count(*) OVER () FROM (
    SELECT r.user_id, r.id, v.payload ->> 'extractor' AS extractor
    FROM memory_records r JOIN memory_versions v ON v.user_id = r.user_id AND v.slot = r.slot AND v.seq = r.seq
    WHERE r.kind = 'Gloss' AND r.superseded_at IS NULL) g
JOIN memory_records t ON t.user_id = g.user_id AND t.kind = 'Turn' AND t.id = g.id AND t.superseded_at IS NULL
JOIN memory_versions w ON w.user_id = t.user_id AND w.slot = t.slot AND w.seq = t.seq
WHERE length(w.payload ->> 'content') > iif(g.extractor = :rules, :max_rule_chars, :max_model_chars)
ORDER BY t.user_id, t.seq, t.id LIMIT 20
