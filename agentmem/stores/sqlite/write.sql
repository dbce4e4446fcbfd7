-- One write, step by step. A look-up by its whole key takes 3 µs, so a thousand records are looked up one by one.

-- name: user
SELECT head, slots, last_at FROM memory_users WHERE user_id = ?

-- name: fence
SELECT 1 FROM leases WHERE token = ?

-- name: held
SELECT v.slot, v.recorded_at, r.seq, r.channel, r.unique_key, r.conversation_id, r.position
FROM memory_versions v LEFT JOIN memory_records r ON r.user_id = v.user_id AND r.slot = v.slot
WHERE v.user_id = ? AND v.kind = ? AND v.id = ? AND v.erased = 0 ORDER BY v.seq DESC LIMIT 1

-- name: holders
SELECT slot FROM memory_records INDEXED BY memory_records_unique
WHERE user_id = ? AND kind = ? AND channel = ? AND unique_key = ? AND unique_key <> ''

-- name: newest
SELECT coalesce(max(seq), 0) FROM memory_records INDEXED BY memory_records_kind WHERE user_id = ? AND kind = ?

-- name: last_turn
SELECT position, slot FROM memory_records INDEXED BY memory_records_position
WHERE user_id = ? AND conversation_id = ? AND kind = 'Turn' ORDER BY position DESC LIMIT 1

-- name: at_position
SELECT slot FROM memory_records INDEXED BY memory_records_position
WHERE user_id = ? AND conversation_id = ? AND position = ? AND kind = 'Turn'

-- name: last_payloads
SELECT v.slot, v.kind, v.payload, v.id, v.channel, v.recorded_at, v.seq
FROM json_each(:ordinals) j
CROSS JOIN memory_versions v ON v.rowid = (
    SELECT w.rowid FROM memory_versions w
    WHERE w.user_id = :user_id AND w.slot = j.value AND w.seq < :before AND w.payload IS NOT NULL ORDER BY w.seq DESC LIMIT 1)

-- name: put_change
INSERT INTO memory_changes (user_id, seq, change_id, operation_id, operation, actor, cause, payload, at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: put_version
INSERT INTO memory_versions (user_id, slot, seq, kind, id, channel, recorded_at, payload, format, erased)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: put_record
INSERT INTO memory_records (unique_key, user_id, slot, seq, kind, id, channel, status, conversation_id, position, speaker,
    valid_from, valid_to, recorded_at, superseded_at, words, length, asks, salience, confidence,
    turn_id)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: drop_record
DELETE FROM memory_records WHERE user_id = ? AND slot = ?

-- name: put_user
INSERT INTO memory_users (user_id, head, slots, erasures, last_at) VALUES (:user_id, :head, :slots, :erasures, :last_at)
ON CONFLICT (user_id) DO UPDATE SET head = excluded.head, slots = max(slots, excluded.slots),
    erasures = max(erasures, excluded.erasures), last_at = excluded.last_at
