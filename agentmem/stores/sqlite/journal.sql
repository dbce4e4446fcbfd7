-- What was done, and what stood when. A version with a payload is an after-image; without one the record left.

-- name: head
SELECT (SELECT value FROM store_meta WHERE name = 'embedder'), u.head, u.erasures, u.last_at, NULL,
       (SELECT operation_id FROM memory_changes WHERE user_id = :user_id AND seq = u.head),
       (SELECT operation_id FROM memory_changes WHERE user_id = :user_id AND seq = :after)
FROM (SELECT :user_id AS user_id) asked LEFT JOIN memory_users u ON u.user_id = asked.user_id

-- name: seq_at
-- The last change up to a position.
SELECT seq, at FROM memory_changes WHERE user_id = :user_id AND seq <= :through ORDER BY seq DESC LIMIT 1

-- name: last_seq_until
-- Of changes up to a position the last one with a time up to a moment: those behind it have a wrong time.
SELECT seq FROM memory_changes WHERE user_id = :user_id AND seq <= :through AND at <= :at ORDER BY seq DESC LIMIT 1

-- name: changes_after
SELECT seq, change_id, operation_id, operation, actor, cause, at FROM memory_changes
WHERE user_id = :user_id AND seq > :after ORDER BY seq LIMIT :limit

-- name: versions_after
-- Of as many positions as there may be changes, because a journal has no gaps.
SELECT seq, slot, kind, id, channel, recorded_at, payload, erased FROM memory_versions INDEXED BY memory_versions_seq
WHERE user_id = :user_id AND seq > :after AND seq <= :after + :limit ORDER BY seq, rowid

-- name: changes_among
SELECT seq, change_id, operation_id, operation, actor, cause, at FROM memory_changes
WHERE user_id = :user_id AND seq IN (SELECT value FROM json_each(:seqs)) ORDER BY seq

-- name: versions_among
SELECT v.seq, v.slot, v.kind, v.id, v.channel, v.recorded_at, v.payload, v.erased
FROM json_each(:seqs) s CROSS JOIN memory_versions v
WHERE v.user_id = :user_id AND v.seq = s.value ORDER BY v.seq, v.rowid

-- name: operation
SELECT seq FROM memory_changes WHERE user_id = :user_id AND operation_id = :operation_id AND operation_id <> change_id
UNION ALL
SELECT seq FROM memory_changes WHERE user_id = :user_id AND change_id = :operation_id AND operation_id = change_id
ORDER BY seq

-- name: applied
SELECT c.change_id, c.seq, c.payload FROM json_each(:change_ids) j CROSS JOIN memory_changes c
WHERE c.user_id = :user_id AND c.change_id = j.value

-- name: history
SELECT v.kind, v.payload, v.id, v.channel, v.recorded_at, v.seq, c.operation_id
FROM memory_versions v CROSS JOIN memory_changes c
WHERE v.user_id = :user_id AND v.kind = :kind AND v.id = :id AND v.payload IS NOT NULL AND c.user_id = v.user_id AND c.seq = v.seq
ORDER BY v.seq

-- name: changed_keys
SELECT DISTINCT kind, id FROM memory_versions WHERE user_id = :user_id AND seq > :after ORDER BY kind, id

-- name: states
SELECT v.kind, v.payload, v.id, v.channel, v.recorded_at, v.seq, c.operation_id
FROM json_each(:keys) j
CROSS JOIN memory_versions v ON v.rowid = (
    SELECT w.rowid FROM memory_versions w
    WHERE w.user_id = :user_id AND w.kind = j.value ->> 0 AND w.id = j.value ->> 1 AND w.seq <= :through ORDER BY w.seq DESC LIMIT 1)
CROSS JOIN memory_changes c ON c.user_id = :user_id AND c.seq = v.seq
WHERE v.payload IS NOT NULL
ORDER BY v.kind, v.id

-- name: changed_since
SELECT j.value ->> 0, j.value ->> 1, max(v.seq) FROM json_each(:keys) j CROSS JOIN memory_versions v
WHERE v.user_id = :user_id AND v.kind = j.value ->> 0 AND v.id = j.value ->> 1 AND v.seq > :after
GROUP BY j.key
