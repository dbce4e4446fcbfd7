-- The journal as it is stored, out and back in.

-- name: counters
SELECT head, slots, erasures, last_at FROM memory_users WHERE user_id = :user_id

-- name: add_user
INSERT INTO memory_users (user_id) VALUES (:user_id) ON CONFLICT (user_id) DO NOTHING

-- name: changes
SELECT seq, change_id, operation_id, operation, actor, cause, payload, at FROM memory_changes
WHERE user_id = :user_id AND seq > :after ORDER BY seq LIMIT :limit

-- name: versions
-- Of as many positions as there may be changes, because a journal has no gaps.
SELECT seq, slot, kind, id, channel, recorded_at, format, payload, erased FROM memory_versions
WHERE user_id = :user_id AND seq > :after AND seq <= :after + :limit ORDER BY seq, rowid

-- name: usage
SELECT kind, id, access_count, use_count, last_accessed, strength, conversations, review_priority, last_review_at,
       review_count, cross_domain_count, due_at, due_for
FROM memory_usage WHERE user_id = :user_id AND (kind, id) > (:kind, :id) ORDER BY kind, id LIMIT :limit

-- name: put_usage
INSERT INTO memory_usage (user_id, kind, id, access_count, use_count, last_accessed, strength, conversations,
    review_priority, last_review_at, review_count, cross_domain_count, due_at, due_for)
VALUES (:user_id, :kind, :id, :access_count, :use_count, :last_accessed, :strength, :conversations, :review_priority,
    :last_review_at, :review_count, :cross_domain_count, :due_at, :due_for)
ON CONFLICT (user_id, kind, id) DO UPDATE SET access_count = excluded.access_count, use_count = excluded.use_count,
    last_accessed = excluded.last_accessed, strength = excluded.strength, conversations = excluded.conversations,
    review_priority = excluded.review_priority, last_review_at = excluded.last_review_at,
    review_count = excluded.review_count, cross_domain_count = excluded.cross_domain_count, due_at = excluded.due_at,
    due_for = excluded.due_for

-- name: raise_counters
UPDATE memory_users SET head = :head, slots = max(slots, :slots), erasures = max(erasures, :erasures),
    last_at = max(last_at, :last_at)
WHERE user_id = :user_id

-- name: make_due
INSERT INTO memory_usage (user_id, kind, id, conversations, due_at, due_for)
SELECT r.user_id, r.kind, r.id, json_array(), r.recorded_at, 'decay'
FROM memory_records r
JOIN memory_versions v ON v.user_id = r.user_id AND v.slot = r.slot AND v.seq = r.seq
LEFT JOIN memory_usage u ON u.user_id = r.user_id AND u.kind = r.kind AND u.id = r.id
WHERE r.user_id = :user_id AND r.status = 'active' AND r.superseded_at IS NULL AND u.due_at IS NULL
  AND (r.kind = 'Entity' OR r.kind = 'Conversation' AND NOT coalesce(v.payload ->> 'archived', 0)
       OR r.kind = 'Fact' AND v.payload ->> 'tier' = 'short')
ON CONFLICT (user_id, kind, id) DO UPDATE SET due_at = excluded.due_at, due_for = excluded.due_for
