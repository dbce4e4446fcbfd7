-- How records were used.

-- name: records
-- With what decides when a record is due, of those that fade.
SELECT r.slot, r.kind, r.id, v.payload, r.channel, r.recorded_at, r.seq
FROM unnest(%(kinds)s::text[], %(ids)s::text[]) AS j(kind, id)
JOIN memory_records r ON r.user_id = %(user_id)s AND r.kind = j.kind AND r.id = j.id
LEFT JOIN memory_versions v
    ON r.kind IN ('Fact', 'Entity') AND v.user_id = r.user_id AND v.slot = r.slot AND v.seq = r.seq

-- name: open_receipt
INSERT INTO usage_receipts (user_id, receipt_id, used, at, slots)
VALUES (%(user_id)s, %(receipt_id)s, %(used)s, %(at)s, '{}')
ON CONFLICT (user_id, receipt_id, used) DO UPDATE SET at = usage_receipts.at RETURNING slots

-- name: put_receipt
UPDATE usage_receipts SET slots = %(ordinals)s
WHERE user_id = %(user_id)s AND receipt_id = %(receipt_id)s AND used = %(used)s

-- name: drop_empty_receipt
DELETE FROM usage_receipts
WHERE user_id = %(user_id)s AND receipt_id = %(receipt_id)s AND used = %(used)s AND slots = '{}'

-- name: count
INSERT INTO memory_usage AS u (user_id, kind, id, access_count, use_count, last_accessed, conversations, strength,
    last_review_at, review_count, cross_domain_count)
SELECT %(user_id)s, j.kind, j.id, %(accesses)s, %(uses)s, %(at)s, %(conversations)s::text[],
       least(1.0 + j.boost, %(strongest)s::float8), CASE WHEN %(uses)s > 0 THEN %(at)s::bigint END, %(reviews)s, j.crossed
FROM unnest(%(kind)s::text[], %(id)s::text[], %(boost)s::float8[], %(crossed)s::bigint[])
    AS j(kind, id, boost, crossed) ORDER BY j.kind, j.id
ON CONFLICT (user_id, kind, id) DO UPDATE SET
    access_count = u.access_count + excluded.access_count,
    use_count = u.use_count + excluded.use_count,
    last_accessed = greatest(u.last_accessed, excluded.last_accessed),
    strength = least(u.strength + excluded.strength - 1.0, greatest(u.strength, %(strongest)s::float8)),
    last_review_at = greatest(u.last_review_at, excluded.last_review_at),
    review_count = u.review_count + excluded.review_count,
    cross_domain_count = u.cross_domain_count + excluded.cross_domain_count,
    conversations = CASE WHEN cardinality(u.conversations) < %(most)s AND NOT u.conversations @> excluded.conversations
                         THEN u.conversations || excluded.conversations ELSE u.conversations END

-- name: usage
SELECT u.kind, u.id, u.access_count, u.use_count, u.last_accessed, u.strength, cardinality(u.conversations),
       u.review_priority, u.last_review_at, u.review_count, u.cross_domain_count
FROM unnest(%(kinds)s::text[], %(ids)s::text[]) AS j(kind, id)
JOIN memory_usage u ON u.user_id = %(user_id)s AND u.kind = j.kind AND u.id = j.id

-- name: clear_due_dates
UPDATE memory_usage u SET due_at = NULL, due_for = ''
FROM unnest(%(kinds)s::text[], %(ids)s::text[]) AS j(kind, id)
WHERE u.user_id = %(user_id)s AND u.kind = j.kind AND u.id = j.id AND u.due_at IS NOT NULL

-- name: continue_conversations
-- A conversation that is due for nothing was put away: it is looked at again.
UPDATE memory_usage SET due_at = %(at)s, due_for = 'cleanup'
WHERE user_id = %(user_id)s AND kind = 'Conversation' AND due_at IS NULL AND id = ANY(%(ids)s::text[])

-- name: drop_receipts
WITH gone AS (DELETE FROM usage_receipts WHERE at < %(before)s RETURNING 1) SELECT count(*) FROM gone
