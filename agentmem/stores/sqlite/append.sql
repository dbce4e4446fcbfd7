-- One write, step by step. Lists come in as JSON, so that a thousand records cost as many look-ups as one.

-- name: user
SELECT head, slots, last_at FROM memory_users WHERE user_id = ?

-- name: fence
SELECT 1 FROM leases WHERE token = ?

-- name: current
SELECT r.id, r.slot, r.seq, r.recorded_at, r.channel, r.unique_key, r.conversation_id, r.position
FROM json_each(?3) j CROSS JOIN memory_records r
WHERE r.user_id = ?1 AND r.kind = ?2 AND r.id = j.value

-- name: former
SELECT v.id, v.slot, v.recorded_at
FROM json_each(?3) j
CROSS JOIN memory_versions v ON v.rowid = (
    SELECT w.rowid FROM memory_versions w
    WHERE w.user_id = ?1 AND w.kind = ?2 AND w.id = j.value AND w.erased = 0 ORDER BY w.seq DESC LIMIT 1)

-- name: holders
SELECT r.kind, r.channel, r.unique_key, r.slot
FROM json_each(?2) j CROSS JOIN memory_records r
WHERE r.user_id = ?1 AND r.kind = j.value ->> 0 AND r.channel = j.value ->> 1 AND r.unique_key = j.value ->> 2
  AND r.unique_key <> ''

-- name: last_positions
SELECT j.value, (SELECT max(r.position) FROM memory_records r
                 WHERE r.user_id = ?1 AND r.conversation_id = j.value AND r.kind = 'Turn')
FROM json_each(?2) j

-- name: at_positions
SELECT r.conversation_id, r.position, r.slot
FROM json_each(?2) j CROSS JOIN memory_records r
WHERE r.user_id = ?1 AND r.conversation_id = j.value ->> 0 AND r.position = j.value ->> 1 AND r.kind = 'Turn'

-- name: last_payloads
SELECT v.slot, v.kind, v.payload, v.id, v.channel, v.recorded_at, v.seq
FROM json_each(?2) j
CROSS JOIN memory_versions v ON v.rowid = (
    SELECT w.rowid FROM memory_versions w
    WHERE w.user_id = ?1 AND w.slot = j.value AND w.seq < ?3 AND w.payload IS NOT NULL ORDER BY w.seq DESC LIMIT 1)

-- name: put_change
INSERT INTO memory_changes (user_id, seq, change_id, operation_id, operation, actor, cause, payload, at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: put_version
INSERT INTO memory_versions (user_id, slot, seq, kind, id, channel, recorded_at, payload, format)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: put_record
INSERT INTO memory_records (unique_key, user_id, slot, seq, kind, id, channel, status, conversation_id, position, speaker,
    valid_from, valid_to, recorded_at, superseded_at, words, length, asks, salience, confidence)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: drop_record
DELETE FROM memory_records WHERE user_id = ? AND slot = ?

-- name: put_user
INSERT INTO memory_users (user_id, head, slots, last_at) VALUES (?, ?, ?, ?)
ON CONFLICT (user_id) DO UPDATE SET head = excluded.head, slots = excluded.slots, last_at = excluded.last_at
