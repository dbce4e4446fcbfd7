-- Current records, and rows for the columns.

-- name: by_id
SELECT r.slot, r.kind, v.payload, r.id, r.channel, r.recorded_at, r.seq, c.operation_id
FROM unnest(%(ids)s::text[]) WITH ORDINALITY AS j(id, n)
JOIN memory_records r ON r.user_id = %(user_id)s AND r.kind = %(kind)s AND r.id = j.id
JOIN memory_versions v ON v.user_id = %(user_id)s AND v.slot = r.slot AND v.seq = r.seq
JOIN memory_changes c ON c.user_id = %(user_id)s AND c.seq = r.seq
ORDER BY j.n

-- name: by_ordinal
SELECT r.slot, r.kind, v.payload, r.id, r.channel, r.recorded_at, r.seq, c.operation_id
FROM unnest(%(ordinals)s::integer[]) WITH ORDINALITY AS j(slot, n)
JOIN memory_records r ON r.user_id = %(user_id)s AND r.slot = j.slot
JOIN memory_versions v ON v.user_id = %(user_id)s AND v.slot = r.slot AND v.seq = r.seq
JOIN memory_changes c ON c.user_id = %(user_id)s AND c.seq = r.seq
ORDER BY j.n

-- name: by_ordinal_through
SELECT v.slot, v.kind, v.payload, v.id, v.channel, v.recorded_at, v.seq, c.operation_id
FROM unnest(%(ordinals)s::integer[]) WITH ORDINALITY AS j(slot, n)
CROSS JOIN LATERAL (
    SELECT * FROM memory_versions w WHERE w.user_id = %(user_id)s AND w.slot = j.slot AND w.seq <= %(through)s
    ORDER BY w.seq DESC LIMIT 1) v
JOIN memory_changes c ON c.user_id = %(user_id)s AND c.seq = v.seq
WHERE v.payload IS NOT NULL
ORDER BY j.n

-- name: find
SELECT r.slot, r.kind, v.payload, r.id, r.channel, r.recorded_at, r.seq, c.operation_id
FROM (SELECT * FROM memory_records r WHERE {where} ORDER BY {order} LIMIT %(limit)s OFFSET %(offset)s) r
JOIN memory_versions v ON v.user_id = %(user_id)s AND v.slot = r.slot AND v.seq = r.seq
JOIN memory_changes c ON c.user_id = %(user_id)s AND c.seq = r.seq
ORDER BY {order}

-- name: find_field
SELECT r.slot, v.payload::json ->> %(field)s
FROM (SELECT r.slot, r.seq FROM memory_records r WHERE {where} ORDER BY {order} LIMIT %(limit)s) r
JOIN memory_versions v ON v.user_id = %(user_id)s AND v.slot = r.slot AND v.seq = r.seq
ORDER BY r.seq

-- name: count
SELECT count(*) FROM memory_records r WHERE {where}

-- name: columns
-- Columns as they are sent, because a row each would cost more than the rest.
SELECT string_agg(int4send(slot), ''), string_agg(int8send(seq), ''), array_agg(kind), array_agg(id), array_agg(channel),
       array_agg(status), array_agg(conversation_id), string_agg(int4send(position), ''), array_agg(speaker),
       string_agg(int8send(coalesce(valid_from, %(always)s)), ''), string_agg(int8send(coalesce(valid_to, %(never)s)), ''),
       string_agg(int8send(recorded_at), ''), string_agg(int8send(coalesce(superseded_at, %(never)s)), ''),
       string_agg(int4send(words), ''), string_agg(int4send(length), ''), string_agg(int4send(asks), ''),
       string_agg(float8send(salience), ''), string_agg(float8send(confidence), ''), array_agg(turn_id)
FROM memory_records WHERE user_id = %(user_id)s AND seq > %(after)s

-- name: gone_after
SELECT DISTINCT v.slot FROM memory_versions v WHERE v.user_id = %(user_id)s AND v.seq > %(after)s
AND NOT EXISTS (SELECT 1 FROM memory_records r WHERE r.user_id = %(user_id)s AND r.slot = v.slot)

-- name: changed_ordinals
SELECT DISTINCT slot FROM memory_versions WHERE user_id = %(user_id)s AND seq > %(after)s ORDER BY slot
