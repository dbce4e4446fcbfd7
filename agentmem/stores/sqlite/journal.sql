-- What was done, and what stood when. A version with a payload is an after-image; without one the record left.

-- name: head
SELECT (SELECT value FROM store_meta WHERE name = 'embedder'), u.head, u.erasures, u.last_at
FROM (SELECT ? AS user_id) asked LEFT JOIN memory_users u ON u.user_id = asked.user_id

-- name: seq_at
-- The last change up to a position.
SELECT seq, at FROM memory_changes WHERE user_id = ? AND seq <= ? ORDER BY seq DESC LIMIT 1

-- name: last_seq_until
-- Of changes up to a position the last one with a time up to a moment: those behind it have a wrong time.
SELECT seq FROM memory_changes WHERE user_id = ? AND seq <= ? AND at <= ? ORDER BY seq DESC LIMIT 1

-- name: changes_after
SELECT seq, change_id, operation_id, operation, actor, cause, at FROM memory_changes
WHERE user_id = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3

-- name: changes_among
SELECT seq, change_id, operation_id, operation, actor, cause, at FROM memory_changes
WHERE user_id = ?1 AND seq IN (SELECT value FROM json_each(?2)) ORDER BY seq

-- name: versions_among
SELECT v.seq, v.slot, v.kind, v.id, v.channel, v.recorded_at, v.payload, v.erased
FROM json_each(?2) s CROSS JOIN memory_versions v
WHERE v.user_id = ?1 AND v.seq = s.value ORDER BY v.seq, v.rowid

-- name: operation
SELECT seq FROM memory_changes WHERE user_id = ?1 AND operation_id = ?2 AND operation_id <> change_id
UNION ALL
SELECT seq FROM memory_changes WHERE user_id = ?1 AND change_id = ?2 AND operation_id = change_id
ORDER BY seq

-- name: applied
SELECT seq, payload FROM memory_changes WHERE user_id = ? AND change_id = ?

-- name: history
SELECT v.kind, v.payload, v.id, v.channel, v.recorded_at, v.seq, c.operation_id
FROM memory_versions v CROSS JOIN memory_changes c
WHERE v.user_id = ?1 AND v.kind = ?2 AND v.id = ?3 AND v.payload IS NOT NULL AND c.user_id = v.user_id AND c.seq = v.seq
ORDER BY v.seq

-- name: changed_keys
SELECT DISTINCT kind, id FROM memory_versions WHERE user_id = ? AND seq > ? ORDER BY kind, id

-- name: states
SELECT v.kind, v.payload, v.id, v.channel, v.recorded_at, v.seq, c.operation_id
FROM json_each(?2) j
CROSS JOIN memory_versions v ON v.rowid = (
    SELECT w.rowid FROM memory_versions w
    WHERE w.user_id = ?1 AND w.kind = j.value ->> 0 AND w.id = j.value ->> 1 AND w.seq <= ?3 ORDER BY w.seq DESC LIMIT 1)
CROSS JOIN memory_changes c ON c.user_id = ?1 AND c.seq = v.seq
WHERE v.payload IS NOT NULL
ORDER BY v.kind, v.id

-- name: touched_since
SELECT j.value ->> 0, j.value ->> 1, max(v.seq) FROM json_each(?2) j CROSS JOIN memory_versions v
WHERE v.user_id = ?1 AND v.kind = j.value ->> 0 AND v.id = j.value ->> 1 AND v.seq > ?3
GROUP BY j.key
