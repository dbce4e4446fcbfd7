-- The audit log. The gate opens for one purpose inside one transaction and is closed by the same function.

-- name: insert
-- An id is the moment in microseconds and a number: those of one user and moment count on, in order.
INSERT INTO memory_audit_log (id, timestamp, operation, memory_type, user_id, session_id, conversation_id, agent_id,
    operation_id, source_channel, target_channels, query_text, result_count, latency_ms, success, error_message,
    promoted_from_channel, promotion_confidence, promotion_access_count, promotion_conversation_count, config_snapshot,
    metadata, actor)
VALUES (
    printf('%016d-%09d', :began, 1 + coalesce((
        SELECT CAST(substr(max(id), -9) AS INTEGER) FROM memory_audit_log
        WHERE user_id = :user_id AND timestamp = :timestamp), 0)),
    :timestamp, :operation, :memory_type, :user_id, :session_id, :conversation_id, :agent_id, :operation_id,
    :source_channel, :target_channels, :query_text, :result_count, :latency_ms, :success, :error_message,
    :promoted_from_channel, :promotion_confidence, :promotion_access_count, :promotion_conversation_count,
    :config_snapshot, :metadata, :actor)

-- name: wait_for_erasure
-- A file has one writer: no erasure is under way.
SELECT 1

-- name: erased_since
SELECT 1 FROM memory_versions INDEXED BY memory_versions_seq WHERE user_id = :user_id AND seq > :seen AND erased = 1 LIMIT 1

-- name: rows
SELECT * FROM memory_audit_log
WHERE user_id = :user_id
  AND (:operation IS NULL OR operation = :operation)
  AND (:memory_type IS NULL OR memory_type = :memory_type)
  AND (:session_id IS NULL OR session_id = :session_id)
  AND (:success IS NULL OR success = :success)
  -- An agent reads rows about its own private channel, never about another agent's.
  AND (:own_channel IS NULL OR source_channel IS NULL OR source_channel = :own_channel
       OR substr(source_channel, 1, 6) <> '_self_')
  AND (:since IS NULL OR timestamp >= :since)
  AND (:until IS NULL OR timestamp < :until)
ORDER BY timestamp DESC, id DESC LIMIT :limit

-- name: open_gate
INSERT INTO audit_gate (purpose) VALUES (:purpose)

-- name: close_gate
DELETE FROM audit_gate

-- name: drop_before
DELETE FROM memory_audit_log WHERE timestamp < :before

-- name: texts
SELECT timestamp || ' ' || id, operation_id, coalesce(query_text, ''), coalesce(error_message, ''), metadata, config_snapshot
FROM memory_audit_log
WHERE user_id = :user_id AND (query_text IS NOT NULL OR error_message IS NOT NULL OR metadata <> '{}' OR config_snapshot <> '{}')

-- name: blank
UPDATE memory_audit_log SET query_text = NULL, error_message = NULL, metadata = '{}'
WHERE user_id = :user_id AND timestamp = substr(:key, 1, 27) AND id = substr(:key, 29)

-- name: blank_settings
UPDATE memory_audit_log SET config_snapshot = '{}'
WHERE user_id = :user_id AND timestamp = substr(:key, 1, 27) AND id = substr(:key, 29)

-- name: blank_user
UPDATE memory_audit_log SET query_text = NULL, error_message = NULL, metadata = '{}', config_snapshot = '{}',
    session_id = NULL, conversation_id = NULL, agent_id = NULL, source_channel = NULL, target_channels = '[]',
    promoted_from_channel = NULL
WHERE user_id = :user_id

-- name: put_receipt
INSERT INTO receipts (user_id, id, at, receipt) VALUES (:user_id, :id, :at, :receipt)
ON CONFLICT (user_id, id) DO UPDATE SET at = excluded.at, receipt = excluded.receipt

-- name: receipt
SELECT receipt FROM receipts WHERE user_id = :user_id AND id = :id

-- name: drop_receipts
DELETE FROM receipts WHERE at < :before
