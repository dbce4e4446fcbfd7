-- One write. What it must know is asked in one go behind the user's lock, what it changes is sent in one go too. Each
-- statement costs the client more than the server, so there are few.

-- name: lock
SELECT head, slots, last_at FROM memory_users WHERE user_id = %(user_id)s FOR UPDATE

-- name: add_user
INSERT INTO memory_users (user_id) VALUES (%(user_id)s) ON CONFLICT (user_id) DO NOTHING

-- name: fence
SELECT 1 FROM leases WHERE user_id = '_system' AND token = %(fence)s FOR SHARE

-- name: state
-- What changes must know of what is there. Behind `lock`, so that it sees what the write before did; one answer, as
-- JSON, because each of seven would cost as much.
SELECT
(SELECT json_agg(json_build_array(
        j.kind, j.id, v.slot, v.recorded_at, r.seq, r.channel, r.unique_key, r.conversation_id, r.position))
 FROM unnest(%(kinds)s::text[], %(ids)s::text[]) AS j(kind, id)
 CROSS JOIN LATERAL (
     SELECT * FROM memory_versions w
     WHERE w.user_id = %(user_id)s AND w.kind = j.kind AND w.id = j.id AND NOT w.erased ORDER BY w.seq DESC LIMIT 1) v
 LEFT JOIN memory_records r ON r.user_id = %(user_id)s AND r.slot = v.slot),
(SELECT json_agg(json_build_array(r.kind, r.channel, r.unique_key, r.slot))
 FROM unnest(%(sharing)s::text[], %(channels)s::text[], %(keys)s::text[]) AS j(kind, channel, unique_key)
 JOIN memory_records r ON r.user_id = %(user_id)s AND r.kind = j.kind AND r.unique_key = j.unique_key
     AND r.channel = j.channel AND r.unique_key <> ''),
(SELECT json_agg(json_build_array(j.kind, coalesce(
        (SELECT max(r.seq) FROM memory_records r WHERE r.user_id = %(user_id)s AND r.kind = j.kind), 0)))
 FROM unnest(%(since)s::text[]) AS j(kind)),
(SELECT json_agg(json_build_array(j.conversation, l.position, l.slot))
 FROM unnest(%(conversations)s::text[]) AS j(conversation)
 CROSS JOIN LATERAL (
     SELECT r.position, r.slot FROM memory_records r
     WHERE r.user_id = %(user_id)s AND r.conversation_id = j.conversation AND r.kind = 'Turn'
     ORDER BY r.position DESC LIMIT 1) l),
(SELECT json_agg(json_build_array(r.conversation_id, r.position, r.slot))
 FROM unnest(%(places)s::text[], %(positions)s::integer[]) AS j(conversation, position)
 JOIN memory_records r ON r.user_id = %(user_id)s AND r.conversation_id = j.conversation AND r.position = j.position
     AND r.kind = 'Turn'),
(SELECT json_agg(json_build_array(c.change_id, c.seq, c.payload)) FROM memory_changes c
 WHERE c.user_id = %(user_id)s AND c.change_id = ANY(%(change_ids)s::text[])),
(SELECT json_agg(u.id) FROM unnest(%(conversations)s::text[]) AS j(conversation)
 JOIN memory_usage u ON u.user_id = %(user_id)s AND u.kind = 'Conversation' AND u.id = j.conversation
     AND u.due_at IS NULL),
(SELECT w.tail FROM word_state w WHERE w.user_id = %(user_id)s)

-- name: last_payloads
SELECT v.slot, v.kind, v.payload, v.id, v.channel, v.recorded_at, v.seq FROM unnest(%(ordinals)s::integer[]) AS j(slot)
CROSS JOIN LATERAL (
    SELECT * FROM memory_versions w
    WHERE w.user_id = %(user_id)s AND w.slot = j.slot AND w.seq < %(before)s AND w.payload IS NOT NULL
    ORDER BY w.seq DESC LIMIT 1) v

-- name: put_journal
-- Rows as JSON, because an array for each column costs the client four times as much.
WITH changes AS (
    INSERT INTO memory_changes (user_id, seq, change_id, operation_id, operation, actor, cause, payload, at)
    SELECT %(user_id)s, seq, change_id, operation_id, operation, actor, cause, payload, at
    FROM json_populate_recordset(NULL::memory_changes, %(changes)s::json)
), versions AS (
    INSERT INTO memory_versions (user_id, slot, seq, kind, id, channel, recorded_at, payload, format, erased, part)
    SELECT %(user_id)s, slot, seq, kind, id, channel, recorded_at, payload, format, erased, part
    FROM json_populate_recordset(NULL::memory_versions, %(versions)s::json)
)
UPDATE memory_users SET head = %(head)s, slots = greatest(slots, %(slots)s),
    erasures = greatest(erasures, %(erasures)s), last_at = %(last_at)s
WHERE user_id = %(user_id)s

-- name: drop_records
DELETE FROM memory_records WHERE user_id = %(user_id)s AND slot = ANY(%(ordinals)s::integer[])

-- name: put_records
INSERT INTO memory_records (user_id, slot, seq, kind, id, channel, status, conversation_id, position, speaker,
    valid_from, valid_to, recorded_at, superseded_at, words, length, asks, salience, confidence, turn_id,
    unique_key, conversation_uuid)
SELECT %(user_id)s, slot, seq, kind, id, channel, status, conversation_id, position, speaker,
    valid_from, valid_to, recorded_at, superseded_at, words, length, asks, salience, confidence, turn_id,
    unique_key, conversation_uuid
FROM json_populate_recordset(NULL::memory_records, %(records)s::json)
