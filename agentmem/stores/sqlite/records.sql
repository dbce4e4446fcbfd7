-- Current records, and rows for the columns.

-- name: by_id
SELECT r.slot, r.kind, v.payload, r.id, r.channel, r.recorded_at, r.seq, c.operation_id
FROM json_each(:ids) j
CROSS JOIN memory_records r ON r.user_id = :user_id AND r.kind = :kind AND r.id = j.value
CROSS JOIN memory_versions v ON v.user_id = :user_id AND v.slot = r.slot AND v.seq = r.seq
CROSS JOIN memory_changes c ON c.user_id = :user_id AND c.seq = r.seq
ORDER BY j.key

-- name: by_ordinal
SELECT r.slot, r.kind, v.payload, r.id, r.channel, r.recorded_at, r.seq, c.operation_id
FROM json_each(:ordinals) j
CROSS JOIN memory_records r ON r.user_id = :user_id AND r.slot = j.value
CROSS JOIN memory_versions v ON v.user_id = :user_id AND v.slot = r.slot AND v.seq = r.seq
CROSS JOIN memory_changes c ON c.user_id = :user_id AND c.seq = r.seq
ORDER BY j.key

-- name: by_ordinal_through
SELECT v.slot, v.kind, v.payload, v.id, v.channel, v.recorded_at, v.seq, c.operation_id
FROM json_each(:ordinals) j
CROSS JOIN memory_versions v ON v.user_id = :user_id AND v.slot = j.value AND v.seq = (
    SELECT max(w.seq) FROM memory_versions w WHERE w.user_id = :user_id AND w.slot = j.value AND w.seq <= :through)
CROSS JOIN memory_changes c ON c.user_id = :user_id AND c.seq = v.seq
WHERE v.payload IS NOT NULL
ORDER BY j.key

-- name: find
SELECT r.slot, r.kind, v.payload, r.id, r.channel, r.recorded_at, r.seq, c.operation_id
FROM (SELECT * FROM memory_records r INDEXED BY {index} WHERE {where} ORDER BY {order} LIMIT :limit OFFSET :offset) r
CROSS JOIN memory_versions v ON v.user_id = r.user_id AND v.slot = r.slot AND v.seq = r.seq
CROSS JOIN memory_changes c ON c.user_id = r.user_id AND c.seq = r.seq
ORDER BY {order}

-- name: find_field
SELECT r.slot, json_extract(v.payload, '$.' || :field)
FROM (SELECT r.slot, r.seq FROM memory_records r INDEXED BY {index} WHERE {where} ORDER BY {order} LIMIT :limit) r
CROSS JOIN memory_versions v ON v.user_id = :user_id AND v.slot = r.slot AND v.seq = r.seq
ORDER BY r.seq

-- name: is_many
SELECT count(*) FROM (SELECT 1 FROM memory_records r INDEXED BY memory_records_unique WHERE {where} LIMIT :many)

-- name: count
SELECT count(*) FROM memory_records r INDEXED BY {index} WHERE {where}

-- name: columns
SELECT slot, seq, kind, id, channel, status, conversation_id, position, speaker, valid_from, valid_to, recorded_at,
       superseded_at, words, length, asks, salience, confidence, turn_id
FROM memory_records WHERE user_id = :user_id

-- name: columns_after
SELECT slot, seq, kind, id, channel, status, conversation_id, position, speaker, valid_from, valid_to, recorded_at,
       superseded_at, words, length, asks, salience, confidence, turn_id
FROM memory_records INDEXED BY memory_records_seq WHERE user_id = :user_id AND seq > :after

-- name: gone_after
SELECT DISTINCT v.slot FROM memory_versions v WHERE v.user_id = :user_id AND v.seq > :after
AND NOT EXISTS (SELECT 1 FROM memory_records r WHERE r.user_id = v.user_id AND r.slot = v.slot)

-- name: changed_ordinals
SELECT DISTINCT slot FROM memory_versions WHERE user_id = :user_id AND seq > :after ORDER BY slot
