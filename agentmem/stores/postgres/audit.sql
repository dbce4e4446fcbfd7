-- The audit log. Text is blanked and days are dropped by the functions of the schema alone.

-- name: insert
INSERT INTO memory_audit_log (timestamp, operation, memory_type, user_id, session_id, conversation_id, conversation,
    agent_id, operation_id, source_channel, target_channels, query_text, result_count, latency_ms, success, error_message,
    promoted_from_channel, promotion_confidence, promotion_access_count, promotion_conversation_count, config_snapshot,
    metadata, actor)
VALUES (%(timestamp)s, %(operation)s, %(memory_type)s, %(user_id)s, %(session_id)s, %(conversation_uuid)s, %(conversation_id)s,
    %(agent_id)s, %(operation_id)s, %(source_channel)s, %(target_channels)s, %(query_text)s, %(result_count)s,
    %(latency_ms)s, %(success)s, %(error_message)s, %(promoted_from_channel)s, %(promotion_confidence)s,
    %(promotion_access_count)s, %(promotion_conversation_count)s, %(config_snapshot)s::jsonb, %(metadata)s::jsonb, %(actor)s)

-- name: wait_for_erasure
SELECT 1 FROM memory_users WHERE user_id = %(user_id)s FOR KEY SHARE

-- name: erased_since
SELECT 1 FROM memory_versions WHERE user_id = %(user_id)s AND seq > %(seen)s AND erased LIMIT 1

-- name: rows
SELECT id, timestamp, operation, memory_type, user_id, session_id, conversation AS conversation_id, agent_id, operation_id,
       source_channel, target_channels, query_text, result_count, latency_ms, success, error_message,
       promoted_from_channel, promotion_confidence, promotion_access_count, promotion_conversation_count,
       config_snapshot, metadata, actor
FROM memory_audit_log
WHERE user_id = %(user_id)s
  AND (%(operation)s::text IS NULL OR operation = %(operation)s)
  AND (%(memory_type)s::text IS NULL OR memory_type = %(memory_type)s)
  AND (%(session_id)s::text IS NULL OR session_id = %(session_id)s)
  AND (%(success)s::boolean IS NULL OR success = %(success)s)
  -- An agent reads rows about its own private channel, never about another agent's.
  AND (%(own_channel)s::text IS NULL OR source_channel IS NULL OR source_channel = %(own_channel)s
       OR NOT starts_with(source_channel, '_self_'))
  AND (%(since)s::timestamptz IS NULL OR timestamp >= %(since)s)
  AND (%(until)s::timestamptz IS NULL OR timestamp < %(until)s)
ORDER BY timestamp DESC, id DESC LIMIT %(limit)s

-- name: drop_old_days
SELECT drop_old_audit_partitions(%(days)s, %(today)s)

-- name: make_days
SELECT create_audit_partitions(%(days)s, %(today)s)

-- name: texts
SELECT id, coalesce(operation_id, ''), coalesce(query_text, ''), coalesce(error_message, ''), metadata::text,
       config_snapshot::text
FROM memory_audit_log
WHERE user_id = %(user_id)s
  AND (query_text IS NOT NULL OR error_message IS NOT NULL OR metadata <> '{}' OR config_snapshot <> '{}')

-- name: blank
SELECT blank_audit_text(%(texts)s::bigint[], %(settings)s::bigint[])

-- name: put_receipt
INSERT INTO receipts (user_id, id, at, receipt) VALUES (%(user_id)s, %(id)s, %(at)s, %(receipt)s)
ON CONFLICT (user_id, id) DO UPDATE SET at = excluded.at, receipt = excluded.receipt

-- name: receipt
SELECT receipt FROM receipts WHERE user_id = %(user_id)s AND id = %(id)s

-- name: drop_receipts
WITH gone AS (DELETE FROM receipts WHERE at < %(before)s RETURNING 1) SELECT count(*) FROM gone
