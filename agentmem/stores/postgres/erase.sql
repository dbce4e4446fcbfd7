-- Erasing records, or a whole user. What stays is a tombstone per record: its key, its slot, and when it went.

-- name: user
SELECT head, last_at FROM memory_users WHERE user_id = %(user_id)s FOR UPDATE

-- name: derived_since
SELECT 1 FROM memory_records WHERE user_id = %(user_id)s AND seq > %(seen)s AND kind IN (
    'Fact', 'Edge', 'Gloss', 'Review', 'Entity', 'Goal', 'Strategy', 'Procedure', 'ToolInvocation', 'Outcome', 'Synopsis',
    'Community')
LIMIT 1

-- name: targets
SELECT v.slot, v.kind, v.id FROM unnest(%(kinds)s::text[], %(ids)s::text[]) WITH ORDINALITY AS j(kind, id, n)
JOIN memory_versions v ON v.user_id = %(user_id)s AND v.kind = j.kind AND v.id = j.id AND NOT v.erased
GROUP BY v.slot, v.kind, v.id ORDER BY min(j.n), v.slot

-- name: targets_of_user
SELECT DISTINCT slot, kind, id FROM memory_versions WHERE user_id = %(user_id)s ORDER BY slot

-- name: payloads
SELECT slot, kind, payload, id, channel, recorded_at, seq FROM memory_versions
WHERE user_id = %(user_id)s AND slot = ANY(%(ordinals)s::integer[]) AND payload IS NOT NULL ORDER BY slot, seq

-- name: operations
SELECT DISTINCT c.operation_id FROM memory_versions v JOIN memory_changes c ON c.user_id = v.user_id AND c.seq = v.seq
WHERE v.user_id = %(user_id)s AND v.slot = ANY(%(ordinals)s::integer[])

-- name: put_change
INSERT INTO memory_changes (user_id, seq, change_id, operation_id, operation, actor, at)
VALUES (%(user_id)s, %(seq)s, %(change_id)s, %(operation_id)s, 'erase', 'user', %(at)s)

-- name: blank_changes
SELECT blank_changes(%(ordinals)s::integer[])

-- name: blank_dead_letters
UPDATE parked_changes SET reason = 'erased' WHERE user_id = %(user_id)s AND seq IN (
    SELECT seq FROM memory_versions WHERE user_id = %(user_id)s AND slot = ANY(%(ordinals)s::integer[]))

-- name: drop_versions
SELECT drop_versions(%(ordinals)s::integer[])

-- name: blank_older
SELECT blank_changes(ARRAY[%(ordinal)s::integer], %(latest)s)

-- name: drop_older
SELECT drop_versions(ARRAY[%(ordinal)s::integer], %(latest)s)

-- name: drop_records
DELETE FROM memory_records WHERE user_id = %(user_id)s AND slot = ANY(%(ordinals)s::integer[])

-- name: drop_usage
DELETE FROM memory_usage u USING unnest(%(kinds)s::text[], %(ids)s::text[]) AS j(kind, id)
WHERE u.user_id = %(user_id)s AND u.kind = j.kind AND u.id = j.id

-- name: put_tombstone
INSERT INTO memory_versions (user_id, slot, seq, kind, id, erased, part)
SELECT %(user_id)s, j.ordinal, %(seq)s, j.kind, j.id, true, j.part
FROM unnest(%(ordinal)s::integer[], %(kind)s::text[], %(id)s::text[], %(part)s::integer[]) AS j(ordinal, kind, id, part)

-- name: put_user
UPDATE memory_users SET head = %(seq)s, last_at = %(at)s, erasures = erasures + 1 WHERE user_id = %(user_id)s

-- name: remaining_terms
SELECT term FROM word_blocks WHERE user_id = %(user_id)s AND term = ANY(%(terms)s::text[])
UNION
SELECT t.term FROM word_tail w CROSS JOIN LATERAL jsonb_object_keys(w.terms) AS t(term)
WHERE w.user_id = %(user_id)s AND t.term = ANY(%(terms)s::text[])

-- name: user_changes
SELECT blank_changes(NULL)

-- name: user_versions
SELECT drop_versions(NULL)

-- name: user_records
DELETE FROM memory_records WHERE user_id = %(user_id)s

-- name: user_usage
DELETE FROM memory_usage WHERE user_id = %(user_id)s

-- name: user_usage_receipts
DELETE FROM usage_receipts WHERE user_id = %(user_id)s

-- name: user_dead_letters
DELETE FROM parked_changes WHERE user_id = %(user_id)s

-- name: user_receipts
DELETE FROM receipts WHERE user_id = %(user_id)s

-- name: user_jobs
DELETE FROM job_states WHERE user_id = %(user_id)s

-- name: user_keys
SELECT drop_api_keys()

-- name: receipts
SELECT id, receipt FROM receipts WHERE user_id = %(user_id)s

-- name: drop_receipts
DELETE FROM receipts WHERE user_id = %(user_id)s AND id = ANY(%(ids)s::text[])
