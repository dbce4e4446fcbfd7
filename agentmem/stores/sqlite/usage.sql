-- How records were used.

-- name: slots
SELECT r.slot, r.kind, r.id FROM json_each(?2) j CROSS JOIN memory_records r
WHERE r.user_id = ?1 AND r.kind = j.value ->> 0 AND r.id = j.value ->> 1

-- name: counted
SELECT slots FROM usage_receipts WHERE user_id = ? AND receipt_id = ? AND used = ?

-- name: note_receipt
INSERT INTO usage_receipts (user_id, receipt_id, used, at, slots) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (user_id, receipt_id, used) DO UPDATE SET slots = excluded.slots

-- name: count
INSERT INTO memory_usage (user_id, kind, id, access_count, use_count, last_accessed, conversations)
VALUES (:user_id, :kind, :id, :accesses, :uses, :at, json_array())
ON CONFLICT (user_id, kind, id) DO UPDATE SET
    access_count = access_count + excluded.access_count,
    use_count = use_count + excluded.use_count,
    last_accessed = max(coalesce(last_accessed, excluded.last_accessed), excluded.last_accessed)

-- name: note_conversation
UPDATE memory_usage SET conversations = json_insert(conversations, '$[#]', :conversation)
WHERE user_id = :user_id AND kind = :kind AND id = :id AND json_array_length(conversations) < :most
  AND NOT EXISTS (SELECT 1 FROM json_each(conversations) WHERE value = :conversation)

-- name: usage
SELECT u.kind, u.id, u.access_count, u.use_count, u.last_accessed, u.strength, json_array_length(u.conversations),
       u.review_priority, u.last_review_at, u.review_count, u.cross_domain_count
FROM json_each(?2) j CROSS JOIN memory_usage u
WHERE u.user_id = ?1 AND u.kind = j.value ->> 0 AND u.id = j.value ->> 1

-- name: forget_receipts
DELETE FROM usage_receipts WHERE at < ?
