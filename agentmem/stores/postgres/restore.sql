-- The journal as it is stored, out and back in.

-- name: counters
SELECT head, slots, erasures, last_at FROM memory_users WHERE user_id = %(user_id)s

-- name: add_user
INSERT INTO memory_users (user_id) VALUES (%(user_id)s) ON CONFLICT (user_id) DO NOTHING

-- name: changes
SELECT seq, change_id, operation_id, operation, actor, cause, payload, at FROM memory_changes
WHERE user_id = %(user_id)s AND seq > %(after)s ORDER BY seq LIMIT %(limit)s

-- name: versions
-- Of as many positions as there may be changes, because a journal has no gaps.
SELECT seq, slot, kind, id, channel, recorded_at, format, payload, erased FROM memory_versions
WHERE user_id = %(user_id)s AND seq > %(after)s AND seq <= %(after)s::bigint + %(limit)s ORDER BY seq, part

-- name: usage
SELECT kind, id, access_count, use_count, last_accessed, strength, conversations, review_priority, last_review_at,
       review_count, cross_domain_count, due_at, due_for
FROM memory_usage WHERE user_id = %(user_id)s AND (kind, id) > (%(kind)s, %(id)s) ORDER BY kind, id LIMIT %(limit)s

-- name: put_usage
INSERT INTO memory_usage (user_id, kind, id, access_count, use_count, last_accessed, strength, conversations,
    review_priority, last_review_at, review_count, cross_domain_count, due_at, due_for)
SELECT %(user_id)s, j.kind, j.id, j.accesses, j.uses, j.accessed, j.strength,
       ARRAY(SELECT c.id FROM jsonb_array_elements_text(j.conversations) WITH ORDINALITY AS c(id, n) ORDER BY c.n),
       j.priority, j.reviewed, j.reviews, j.crossed, j.due, j.due_for
FROM unnest(%(kind)s::text[], %(id)s::text[], %(access_count)s::bigint[], %(use_count)s::bigint[],
            %(last_accessed)s::bigint[], %(strength)s::float8[], %(conversations)s::text[]::jsonb[],
            %(review_priority)s::float8[], %(last_review_at)s::bigint[], %(review_count)s::bigint[],
            %(cross_domain_count)s::bigint[], %(due_at)s::bigint[], %(due_for)s::text[])
    AS j(kind, id, accesses, uses, accessed, strength, conversations, priority, reviewed, reviews, crossed, due,
         due_for)
ORDER BY j.kind, j.id
ON CONFLICT (user_id, kind, id) DO UPDATE SET access_count = excluded.access_count, use_count = excluded.use_count,
    last_accessed = excluded.last_accessed, strength = excluded.strength, conversations = excluded.conversations,
    review_priority = excluded.review_priority, last_review_at = excluded.last_review_at,
    review_count = excluded.review_count, cross_domain_count = excluded.cross_domain_count, due_at = excluded.due_at,
    due_for = excluded.due_for

-- name: raise_counters
UPDATE memory_users SET head = %(head)s, slots = greatest(slots, %(slots)s),
    erasures = greatest(erasures, %(erasures)s), last_at = greatest(last_at, %(last_at)s)
WHERE user_id = %(user_id)s

-- name: make_due
INSERT INTO memory_usage (user_id, kind, id, due_at, due_for)
SELECT r.user_id, r.kind, r.id, r.recorded_at, 'decay'
FROM memory_records r
JOIN memory_versions v ON v.user_id = r.user_id AND v.slot = r.slot AND v.seq = r.seq
LEFT JOIN memory_usage u ON u.user_id = r.user_id AND u.kind = r.kind AND u.id = r.id
WHERE r.user_id = %(user_id)s AND r.kind IN ('Entity', 'Conversation', 'Fact')
  AND r.status = 'active' AND r.superseded_at IS NULL AND u.due_at IS NULL
  AND (r.kind = 'Entity' OR r.kind = 'Conversation' AND coalesce(v.payload::json ->> 'archived', '') <> 'true'
       OR r.kind = 'Fact' AND v.payload::json ->> 'tier' = 'short')
ON CONFLICT (user_id, kind, id) DO UPDATE SET due_at = excluded.due_at, due_for = excluded.due_for
