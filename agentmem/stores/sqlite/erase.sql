-- Erasing records, or a whole user. What stays is a tombstone per record: its key, its slot, and when it went.

-- name: user
SELECT head, last_at FROM memory_users WHERE user_id = :user_id

-- name: derived_since
SELECT 1 FROM memory_records WHERE user_id = :user_id AND seq > :seen AND kind IN (
    'Fact', 'Edge', 'Gloss', 'Review', 'Entity', 'Goal', 'Strategy', 'Procedure', 'ToolInvocation', 'Outcome', 'Synopsis',
    'Community')
LIMIT 1

-- name: targets
SELECT DISTINCT v.slot, v.kind, v.id FROM json_each(:keys) j CROSS JOIN memory_versions v
WHERE v.user_id = :user_id AND v.kind = j.value ->> 0 AND v.id = j.value ->> 1 AND v.erased = 0

-- name: targets_of_user
SELECT DISTINCT slot, kind, id FROM memory_versions WHERE user_id = :user_id

-- name: payloads
SELECT v.slot, v.kind, v.payload, v.id, v.channel, v.recorded_at, v.seq FROM json_each(:ordinals) j CROSS JOIN memory_versions v
WHERE v.user_id = :user_id AND v.slot = j.value AND v.payload IS NOT NULL ORDER BY v.slot, v.seq

-- name: operations
SELECT DISTINCT c.operation_id FROM json_each(:ordinals) j
CROSS JOIN memory_versions v ON v.user_id = :user_id AND v.slot = j.value
CROSS JOIN memory_changes c ON c.user_id = :user_id AND c.seq = v.seq

-- name: put_change
INSERT INTO memory_changes (user_id, seq, change_id, operation_id, operation, actor, at)
VALUES (:user_id, :seq, :change_id, :operation_id, 'erase', 'user', :at)

-- name: blank_changes
UPDATE memory_changes SET cause = '', payload = 'erased' WHERE user_id = :user_id AND seq IN (
    SELECT v.seq FROM json_each(:ordinals) j CROSS JOIN memory_versions v WHERE v.user_id = :user_id AND v.slot = j.value)

-- name: blank_dead_letters
UPDATE parked_changes SET reason = 'erased' WHERE user_id = :user_id AND seq IN (
    SELECT v.seq FROM json_each(:ordinals) j CROSS JOIN memory_versions v WHERE v.user_id = :user_id AND v.slot = j.value)

-- name: drop_versions
DELETE FROM memory_versions WHERE user_id = :user_id AND slot IN (SELECT value FROM json_each(:ordinals))

-- name: blank_older
UPDATE memory_changes SET cause = '', payload = 'erased' WHERE user_id = :user_id AND seq IN (
    SELECT seq FROM memory_versions WHERE user_id = :user_id AND slot = :ordinal AND seq < :latest)

-- name: drop_older
DELETE FROM memory_versions WHERE user_id = :user_id AND slot = :ordinal AND seq < :latest

-- name: drop_records
DELETE FROM memory_records WHERE user_id = :user_id AND slot IN (SELECT value FROM json_each(:ordinals))

-- name: drop_usage
DELETE FROM memory_usage WHERE user_id = :user_id
  AND (kind, id) IN (SELECT j.value ->> 0, j.value ->> 1 FROM json_each(:keys) j)

-- name: put_tombstone
INSERT INTO memory_versions (user_id, slot, seq, kind, id, payload, erased)
VALUES (:user_id, :ordinal, :seq, :kind, :id, NULL, 1)

-- name: put_user
UPDATE memory_users SET head = :seq, last_at = :at, erasures = erasures + 1 WHERE user_id = :user_id

-- name: remaining_terms
SELECT DISTINCT b.term FROM word_blocks b WHERE b.user_id = :user_id AND b.term IN (SELECT value FROM json_each(:terms))
UNION
SELECT t.key FROM word_tail w CROSS JOIN json_each(w.terms) t
WHERE w.user_id = :user_id AND t.key IN (SELECT value FROM json_each(:terms))

-- name: user_changes
UPDATE memory_changes SET change_id = 'erased-' || seq, cause = '', payload = 'erased', actor = ''
WHERE user_id = :user_id AND seq < :seq

-- name: user_versions
DELETE FROM memory_versions WHERE user_id = :user_id

-- name: user_records
DELETE FROM memory_records WHERE user_id = :user_id

-- name: user_usage
DELETE FROM memory_usage WHERE user_id = :user_id

-- name: user_usage_receipts
DELETE FROM usage_receipts WHERE user_id = :user_id

-- name: user_dead_letters
DELETE FROM parked_changes WHERE user_id = :user_id

-- name: user_receipts
DELETE FROM receipts WHERE user_id = :user_id

-- name: user_jobs
DELETE FROM job_states WHERE user_id = :user_id

-- name: user_keys
DELETE FROM api_keys WHERE user_id = :user_id

-- name: receipts
SELECT id, receipt FROM receipts WHERE user_id = :user_id

-- name: drop_receipts
DELETE FROM receipts WHERE user_id = :user_id AND id IN (SELECT value FROM json_each(:ids))
