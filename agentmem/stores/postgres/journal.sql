-- What was done, and what stood when. A version with a payload is an after-image; without one the record left.

-- name: head
SELECT (SELECT value FROM store_meta WHERE user_id = '_system' AND name = 'embedder'), u.head, u.erasures, u.last_at,
       (SELECT json_object_agg(projection, seq) FROM projection_watermarks WHERE user_id = %(user_id)s),
       (SELECT operation_id FROM memory_changes WHERE user_id = %(user_id)s AND seq = u.head),
       (SELECT operation_id FROM memory_changes WHERE user_id = %(user_id)s AND seq = %(after)s)
FROM (SELECT %(user_id)s::text AS user_id) asked LEFT JOIN memory_users u ON u.user_id = asked.user_id

-- name: seq_at
SELECT seq FROM memory_changes WHERE user_id = %(user_id)s AND at <= %(at)s ORDER BY at DESC, seq DESC LIMIT 1

-- name: changes_after
SELECT seq, change_id, operation_id, operation, actor, cause, at FROM memory_changes
WHERE user_id = %(user_id)s AND seq > %(after)s ORDER BY seq LIMIT %(limit)s

-- name: versions_after
SELECT seq, slot, kind, id, channel, recorded_at, payload, erased FROM memory_versions
WHERE user_id = %(user_id)s AND seq > %(after)s AND seq <= %(after)s::bigint + %(limit)s ORDER BY seq, part

-- name: changes_among
SELECT seq, change_id, operation_id, operation, actor, cause, at FROM memory_changes
WHERE user_id = %(user_id)s AND seq = ANY(%(seqs)s::bigint[]) ORDER BY seq

-- name: versions_among
SELECT seq, slot, kind, id, channel, recorded_at, payload, erased FROM memory_versions
WHERE user_id = %(user_id)s AND seq = ANY(%(seqs)s::bigint[]) ORDER BY seq, part

-- name: operation
SELECT seq FROM memory_changes WHERE user_id = %(user_id)s AND operation_id = %(operation_id)s ORDER BY seq

-- name: applied
SELECT change_id, seq, payload FROM memory_changes
WHERE user_id = %(user_id)s AND change_id = ANY(%(change_ids)s::text[])

-- name: history
SELECT v.kind, v.payload, v.id, v.channel, v.recorded_at, v.seq, c.operation_id
FROM memory_versions v JOIN memory_changes c ON c.user_id = v.user_id AND c.seq = v.seq
WHERE v.user_id = %(user_id)s AND v.kind = %(kind)s AND v.id = %(id)s AND v.payload IS NOT NULL
ORDER BY v.seq

-- name: changed_keys
SELECT DISTINCT kind, id FROM memory_versions WHERE user_id = %(user_id)s AND seq > %(after)s ORDER BY kind, id

-- name: states
SELECT v.kind, v.payload, v.id, v.channel, v.recorded_at, v.seq, c.operation_id
FROM unnest(%(kinds)s::text[], %(ids)s::text[]) AS j(kind, id)
CROSS JOIN LATERAL (
    SELECT * FROM memory_versions w
    WHERE w.user_id = %(user_id)s AND w.kind = j.kind AND w.id = j.id AND w.seq <= %(through)s
    ORDER BY w.seq DESC LIMIT 1) v
JOIN memory_changes c ON c.user_id = %(user_id)s AND c.seq = v.seq
WHERE v.payload IS NOT NULL
ORDER BY v.kind, v.id

-- name: changed_since
SELECT j.kind, j.id, max(v.seq) FROM unnest(%(kinds)s::text[], %(ids)s::text[]) WITH ORDINALITY AS j(kind, id, n)
JOIN memory_versions v ON v.user_id = %(user_id)s AND v.kind = j.kind AND v.id = j.id
    AND v.seq > %(after)s
GROUP BY j.kind, j.id, j.n ORDER BY j.n
