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
       review_count, cross_domain_count, due_at
FROM memory_usage WHERE user_id = ?1 AND (kind, id) > (?2, ?3) ORDER BY kind, id LIMIT ?4

-- name: put_change
INSERT INTO memory_changes (user_id, seq, change_id, operation_id, operation, actor, cause, payload, at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: put_version
INSERT INTO memory_versions (user_id, slot, seq, kind, id, channel, recorded_at, payload, format, erased)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: put_usage
INSERT INTO memory_usage (user_id, kind, id, access_count, use_count, last_accessed, strength, conversations,
    review_priority, last_review_at, review_count, cross_domain_count, due_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (user_id, kind, id) DO UPDATE SET access_count = excluded.access_count, use_count = excluded.use_count,
    last_accessed = excluded.last_accessed, strength = excluded.strength, conversations = excluded.conversations,
    review_priority = excluded.review_priority, last_review_at = excluded.last_review_at,
    review_count = excluded.review_count, cross_domain_count = excluded.cross_domain_count, due_at = excluded.due_at

-- name: settle
INSERT INTO memory_users (user_id, head, slots, erasures, last_at) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (user_id) DO UPDATE SET head = excluded.head, slots = max(slots, excluded.slots),
    erasures = max(erasures, excluded.erasures), last_at = max(last_at, excluded.last_at)
