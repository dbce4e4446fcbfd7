-- One write. What it must know is asked in one go behind the user's lock, what it changes is sent in one go too.

-- name: lock
SELECT head, slots, last_at FROM memory_users WHERE user_id = %(user_id)s FOR UPDATE

-- name: add_user
INSERT INTO memory_users (user_id) VALUES (%(user_id)s) ON CONFLICT (user_id) DO NOTHING

-- name: fence
SELECT 1 FROM leases WHERE user_id = '_system' AND token = %(fence)s FOR SHARE

-- name: held
SELECT v.kind, v.id, v.slot, v.recorded_at, r.seq, r.channel, r.unique_key, r.conversation_id, r.position
FROM unnest(%(kinds)s::text[], %(ids)s::text[]) AS j(kind, id)
CROSS JOIN LATERAL (
    SELECT * FROM memory_versions w
    WHERE w.user_id = %(user_id)s AND w.kind = j.kind AND w.id = j.id AND NOT w.erased ORDER BY w.seq DESC LIMIT 1) v
LEFT JOIN memory_records r ON r.user_id = %(user_id)s AND r.slot = v.slot

-- name: holders
SELECT r.kind, r.channel, r.unique_key, r.slot
FROM unnest(%(kinds)s::text[], %(channels)s::text[], %(keys)s::text[]) AS j(kind, channel, unique_key)
JOIN memory_records r ON r.user_id = %(user_id)s AND r.kind = j.kind AND r.unique_key = j.unique_key
    AND r.channel = j.channel AND r.unique_key <> ''

-- name: newest
SELECT j.kind, (SELECT coalesce(max(r.seq), 0) FROM memory_records r WHERE r.user_id = %(user_id)s AND r.kind = j.kind)
FROM unnest(%(kinds)s::text[]) AS j(kind)

-- name: last_turns
SELECT j.conversation, l.position, l.slot FROM unnest(%(conversations)s::text[]) AS j(conversation)
CROSS JOIN LATERAL (
    SELECT r.position, r.slot FROM memory_records r
    WHERE r.user_id = %(user_id)s AND r.conversation_id = j.conversation AND r.kind = 'Turn'
    ORDER BY r.position DESC LIMIT 1) l

-- name: at_positions
SELECT r.conversation_id, r.position, r.slot
FROM unnest(%(conversations)s::text[], %(positions)s::integer[]) AS j(conversation, position)
JOIN memory_records r ON r.user_id = %(user_id)s AND r.conversation_id = j.conversation AND r.position = j.position
    AND r.kind = 'Turn'

-- name: last_payloads
SELECT v.slot, v.kind, v.payload, v.id, v.channel, v.recorded_at, v.seq FROM unnest(%(slots)s::integer[]) AS j(slot)
CROSS JOIN LATERAL (
    SELECT * FROM memory_versions w
    WHERE w.user_id = %(user_id)s AND w.slot = j.slot AND w.seq < %(before)s AND w.payload IS NOT NULL
    ORDER BY w.seq DESC LIMIT 1) v

-- name: put_changes
INSERT INTO memory_changes (user_id, seq, change_id, operation_id, operation, actor, cause, payload, at)
SELECT %(user_id)s, * FROM unnest(%(seq)s::bigint[], %(change_id)s::text[], %(operation_id)s::text[],
    %(operation)s::text[], %(actor)s::text[], %(cause)s::text[], %(payload)s::text[], %(at)s::bigint[])

-- name: put_versions
INSERT INTO memory_versions (user_id, slot, seq, kind, id, channel, recorded_at, payload, format, erased, part)
SELECT %(user_id)s, * FROM unnest(%(slot)s::integer[], %(seq)s::bigint[], %(kind)s::text[], %(id)s::text[],
    %(channel)s::text[], %(recorded_at)s::bigint[], %(payload)s::text[], %(format)s::integer[], %(erased)s::boolean[])
    WITH ORDINALITY

-- name: drop_records
DELETE FROM memory_records WHERE user_id = %(user_id)s AND slot = ANY(%(slots)s::integer[])

-- name: put_records
INSERT INTO memory_records (user_id, slot, seq, kind, id, channel, status, conversation_id, position, speaker,
    valid_from, valid_to, recorded_at, superseded_at, words, length, asks, salience, confidence, turn_id,
    unique_key, conversation_uuid)
SELECT %(user_id)s, * FROM unnest(%(slot)s::integer[], %(seq)s::bigint[], %(kind)s::text[], %(id)s::text[],
    %(channel)s::text[], %(status)s::text[], %(conversation_id)s::text[], %(position)s::integer[], %(speaker)s::text[],
    %(valid_from)s::bigint[], %(valid_to)s::bigint[], %(recorded_at)s::bigint[], %(superseded_at)s::bigint[],
    %(words)s::integer[], %(length)s::integer[], %(asks)s::integer[], %(salience)s::float8[], %(confidence)s::float8[],
    %(turn_id)s::text[], %(unique_key)s::text[], %(conversation_uuid)s::uuid[])

-- name: put_user
UPDATE memory_users SET head = %(head)s, slots = %(slots)s, last_at = %(at)s WHERE user_id = %(user_id)s
