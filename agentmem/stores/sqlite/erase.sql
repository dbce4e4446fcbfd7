-- Erasing records, or a whole user. What stays is a tombstone per record: its key, its slot, and when it went.

-- name: user
SELECT head, last_at FROM memory_users WHERE user_id = ?

-- name: built_since
SELECT 1 FROM memory_records WHERE user_id = ? AND seq > ? AND kind IN (
    'Fact', 'Edge', 'Gloss', 'Review', 'Entity', 'Goal', 'Strategy', 'Procedure', 'ToolInvocation', 'Outcome', 'Synopsis')
LIMIT 1

-- name: targets
SELECT DISTINCT v.slot, v.kind, v.id FROM json_each(?2) j CROSS JOIN memory_versions v
WHERE v.user_id = ?1 AND v.kind = j.value ->> 0 AND v.id = j.value ->> 1 AND v.erased = 0

-- name: targets_of_user
SELECT DISTINCT slot, kind, id FROM memory_versions WHERE user_id = ?

-- name: payloads
SELECT v.slot, v.kind, v.payload, v.id, v.channel, v.recorded_at, v.seq FROM json_each(?2) j CROSS JOIN memory_versions v
WHERE v.user_id = ?1 AND v.slot = j.value AND v.payload IS NOT NULL ORDER BY v.slot, v.seq

-- name: operations
SELECT DISTINCT c.operation_id FROM json_each(?2) j
CROSS JOIN memory_versions v ON v.user_id = ?1 AND v.slot = j.value
CROSS JOIN memory_changes c ON c.user_id = ?1 AND c.seq = v.seq

-- name: put_change
INSERT INTO memory_changes (user_id, seq, change_id, operation_id, operation, actor, at) VALUES (?, ?, ?, ?, 'erase', ?, ?)

-- name: blank_changes
UPDATE memory_changes SET cause = '', payload = 'erased' WHERE user_id = ?1 AND seq IN (
    SELECT v.seq FROM json_each(?2) j CROSS JOIN memory_versions v WHERE v.user_id = ?1 AND v.slot = j.value)

-- name: blank_parked
UPDATE parked_changes SET reason = 'erased' WHERE user_id = ?1 AND seq IN (
    SELECT v.seq FROM json_each(?2) j CROSS JOIN memory_versions v WHERE v.user_id = ?1 AND v.slot = j.value)

-- name: drop_versions
DELETE FROM memory_versions WHERE user_id = ? AND slot = ?

-- name: blank_older
UPDATE memory_changes SET cause = '', payload = 'erased' WHERE user_id = ?1 AND seq IN (
    SELECT seq FROM memory_versions WHERE user_id = ?1 AND slot = ?2 AND seq < ?3)

-- name: drop_older
DELETE FROM memory_versions WHERE user_id = ?1 AND slot = ?2 AND seq < ?3

-- name: drop_record
DELETE FROM memory_records WHERE user_id = ? AND slot = ?

-- name: drop_usage
DELETE FROM memory_usage WHERE user_id = ? AND kind = ? AND id = ?

-- name: put_tombstone
INSERT INTO memory_versions (user_id, slot, seq, kind, id, payload, erased) VALUES (?, ?, ?, ?, ?, NULL, 1)

-- name: put_user
UPDATE memory_users SET head = ?, last_at = ?, erasures = erasures + 1 WHERE user_id = ?

-- name: remaining_terms
SELECT DISTINCT b.term FROM word_blocks b WHERE b.user_id = ?1 AND b.term IN (SELECT value FROM json_each(?2))
UNION
SELECT t.key FROM word_tail w CROSS JOIN json_each(w.terms) t
WHERE w.user_id = ?1 AND t.key IN (SELECT value FROM json_each(?2))

-- name: user_changes
UPDATE memory_changes SET change_id = 'erased-' || seq, cause = '', payload = 'erased', actor = ''
WHERE user_id = ? AND seq < ?

-- name: user_versions
DELETE FROM memory_versions WHERE user_id = ?

-- name: user_records
DELETE FROM memory_records WHERE user_id = ?

-- name: user_usage
DELETE FROM memory_usage WHERE user_id = ?

-- name: user_receipts
DELETE FROM usage_receipts WHERE user_id = ?

-- name: user_parked
DELETE FROM parked_changes WHERE user_id = ?

-- name: user_told
DELETE FROM receipts WHERE user_id = ?

-- name: user_jobs
DELETE FROM job_states WHERE user_id = ?

-- name: user_keys
DELETE FROM api_keys WHERE user_id = ?

-- name: told
SELECT id, receipt FROM receipts WHERE user_id = ?

-- name: drop_told
DELETE FROM receipts WHERE user_id = ? AND id = ?
