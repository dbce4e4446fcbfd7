-- How records were used.

-- name: records
-- With what decides when a record is due, of those that fade.
SELECT r.slot, r.kind, r.id, v.payload, r.channel, r.recorded_at, r.seq FROM json_each(:keys) j CROSS JOIN memory_records r
LEFT JOIN memory_versions v
    ON r.kind IN ('Fact', 'Entity') AND v.user_id = r.user_id AND v.slot = r.slot AND v.seq = r.seq
WHERE r.user_id = :user_id AND r.kind = j.value ->> 0 AND r.id = j.value ->> 1

-- name: open_receipt
SELECT slots FROM usage_receipts WHERE user_id = :user_id AND receipt_id = :receipt_id AND used = :used

-- name: put_receipt
INSERT INTO usage_receipts (user_id, receipt_id, used, at, slots) VALUES (:user_id, :receipt_id, :used, :at, :ordinals)
ON CONFLICT (user_id, receipt_id, used) DO UPDATE SET slots = excluded.slots

-- name: drop_empty_receipt
DELETE FROM usage_receipts WHERE user_id = :user_id AND receipt_id = :receipt_id AND used = :used AND slots = '[]'

-- name: count
INSERT INTO memory_usage (user_id, kind, id, access_count, use_count, last_accessed, conversations, strength,
    last_review_at, review_count, cross_domain_count)
VALUES (:user_id, :kind, :id, :accesses, :uses, :at, :conversations, min(1.0 + :boost, :strongest),
    iif(:uses, :at, NULL), :reviews, :crossed)
ON CONFLICT (user_id, kind, id) DO UPDATE SET
    access_count = access_count + excluded.access_count,
    use_count = use_count + excluded.use_count,
    last_accessed = max(coalesce(last_accessed, excluded.last_accessed), excluded.last_accessed),
    strength = min(strength + excluded.strength - 1.0, max(strength, :strongest)),
    last_review_at = max(coalesce(last_review_at, excluded.last_review_at),
                         coalesce(excluded.last_review_at, last_review_at)),
    review_count = review_count + excluded.review_count,
    cross_domain_count = cross_domain_count + excluded.cross_domain_count,
    conversations = iif(json_array_length(excluded.conversations) = 0 OR json_array_length(conversations) >= :most
                        OR EXISTS (SELECT 1 FROM json_each(memory_usage.conversations) WHERE value = :conversations ->> 0),
                        conversations, json_insert(conversations, '$[#]', :conversations ->> 0))

-- name: usage
SELECT u.kind, u.id, u.access_count, u.use_count, u.last_accessed, u.strength, json_array_length(u.conversations),
       u.review_priority, u.last_review_at, u.review_count, u.cross_domain_count
FROM json_each(:keys) j CROSS JOIN memory_usage u
WHERE u.user_id = :user_id AND u.kind = j.value ->> 0 AND u.id = j.value ->> 1

-- name: clear_due_dates
UPDATE memory_usage SET due_at = NULL, due_for = ''
WHERE user_id = :user_id AND due_at IS NOT NULL
  AND (kind, id) IN (SELECT j.value ->> 0, j.value ->> 1 FROM json_each(:keys) j)

-- name: continue_conversations
-- A conversation that is due for nothing was put away: it is looked at again.
UPDATE memory_usage SET due_at = :at, due_for = 'cleanup'
WHERE user_id = :user_id AND kind = 'Conversation' AND due_at IS NULL AND id IN (SELECT value FROM json_each(:ids))

-- name: drop_receipts
DELETE FROM usage_receipts WHERE at < :before
