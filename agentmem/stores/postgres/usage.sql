-- How records were used.

-- name: slots
SELECT r.slot, r.kind, r.id FROM unnest(%(kinds)s::text[], %(ids)s::text[]) AS j(kind, id)
JOIN memory_records r ON r.user_id = %(user_id)s AND r.kind = j.kind AND r.id = j.id

-- name: open_receipt
INSERT INTO usage_receipts (user_id, receipt_id, used, at, slots)
VALUES (%(user_id)s, %(receipt_id)s, %(used)s, %(at)s, '{}')
ON CONFLICT (user_id, receipt_id, used) DO UPDATE SET at = usage_receipts.at RETURNING slots

-- name: note_receipt
UPDATE usage_receipts SET slots = %(slots)s
WHERE user_id = %(user_id)s AND receipt_id = %(receipt_id)s AND used = %(used)s

-- name: drop_empty_receipt
DELETE FROM usage_receipts
WHERE user_id = %(user_id)s AND receipt_id = %(receipt_id)s AND used = %(used)s AND slots = '{}'

-- name: count
INSERT INTO memory_usage AS u (user_id, kind, id, access_count, use_count, last_accessed, conversations)
SELECT %(user_id)s, j.kind, j.id, %(accesses)s, %(uses)s, %(at)s, %(conversations)s::text[]
FROM unnest(%(kinds)s::text[], %(ids)s::text[]) AS j(kind, id) ORDER BY j.kind, j.id
ON CONFLICT (user_id, kind, id) DO UPDATE SET
    access_count = u.access_count + excluded.access_count,
    use_count = u.use_count + excluded.use_count,
    last_accessed = greatest(u.last_accessed, excluded.last_accessed),
    conversations = CASE WHEN cardinality(u.conversations) < %(most)s AND NOT u.conversations @> excluded.conversations
                         THEN u.conversations || excluded.conversations ELSE u.conversations END

-- name: usage
SELECT u.kind, u.id, u.access_count, u.use_count, u.last_accessed, u.strength, cardinality(u.conversations),
       u.review_priority, u.last_review_at, u.review_count, u.cross_domain_count
FROM unnest(%(kinds)s::text[], %(ids)s::text[]) AS j(kind, id)
JOIN memory_usage u ON u.user_id = %(user_id)s AND u.kind = j.kind AND u.id = j.id

-- name: forget_receipts
WITH gone AS (DELETE FROM usage_receipts WHERE at < %(before)s RETURNING 1) SELECT count(*) FROM gone
