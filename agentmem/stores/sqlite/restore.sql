-- The journal as it is stored, out and back in.

-- name: reach
SELECT head, slots, erasures, last_at FROM memory_users WHERE user_id = ?

-- name: changes
SELECT seq, change_id, operation_id, operation, actor, cause, payload, at FROM memory_changes
WHERE user_id = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3

-- name: versions
SELECT seq, slot, kind, id, channel, recorded_at, format, payload, erased FROM memory_versions
WHERE user_id = ?1 AND seq BETWEEN ?2 AND ?3 ORDER BY seq, rowid

-- name: usage
SELECT kind, id, access_count, use_count, last_accessed, strength, conversations, review_priority, last_review_at,
       review_count, cross_domain_count, due_at, due_for
FROM memory_usage WHERE user_id = ?1 AND (kind, id) > (?2, ?3) ORDER BY kind, id LIMIT ?4

-- name: put_change
INSERT INTO memory_changes (user_id, seq, change_id, operation_id, operation, actor, cause, payload, at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: put_version
INSERT INTO memory_versions (user_id, slot, seq, kind, id, channel, recorded_at, payload, format, erased)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: put_usage
INSERT INTO memory_usage (user_id, kind, id, access_count, use_count, last_accessed, strength, conversations,
    review_priority, last_review_at, review_count, cross_domain_count, due_at, due_for)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (user_id, kind, id) DO UPDATE SET access_count = excluded.access_count, use_count = excluded.use_count,
    last_accessed = excluded.last_accessed, strength = excluded.strength, conversations = excluded.conversations,
    review_priority = excluded.review_priority, last_review_at = excluded.last_review_at,
    review_count = excluded.review_count, cross_domain_count = excluded.cross_domain_count, due_at = excluded.due_at,
    due_for = excluded.due_for

-- name: settle
INSERT INTO memory_users (user_id, head, slots, erasures, last_at) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (user_id) DO UPDATE SET head = excluded.head, slots = max(slots, excluded.slots),
    erasures = max(erasures, excluded.erasures), last_at = max(last_at, excluded.last_at)

-- name: look_again
INSERT INTO memory_usage (user_id, kind, id, conversations, due_at, due_for)
SELECT r.user_id, r.kind, r.id, json_array(), r.recorded_at, 'decay'
FROM memory_records r
JOIN memory_versions v ON v.user_id = r.user_id AND v.slot = r.slot AND v.seq = r.seq
LEFT JOIN memory_usage u ON u.user_id = r.user_id AND u.kind = r.kind AND u.id = r.id
WHERE r.user_id = ?1 AND r.status = 'active' AND r.superseded_at IS NULL AND u.due_at IS NULL
  AND (r.kind = 'Entity' OR r.kind = 'Conversation' AND NOT coalesce(v.payload ->> 'archived', 0)
       OR r.kind = 'Fact' AND v.payload ->> 'tier' = 'short')
ON CONFLICT (user_id, kind, id) DO UPDATE SET due_at = excluded.due_at, due_for = excluded.due_for
