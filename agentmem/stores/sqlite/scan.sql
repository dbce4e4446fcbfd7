-- Where an erasure looks for what it should have taken. Each block counts rows that should not be there.

-- name: memory_versions
SELECT count(*) FROM memory_versions WHERE user_id = :user_id AND (payload IS NOT NULL OR erased = 0)
AND (:ordinals IS NULL OR slot IN (SELECT value FROM json_each(:ordinals)))

-- name: memory_records
SELECT count(*) FROM memory_records WHERE user_id = :user_id
AND (:ordinals IS NULL OR slot IN (SELECT value FROM json_each(:ordinals)))

-- name: memory_usage
SELECT count(*) FROM memory_usage u WHERE user_id = :user_id
AND (:ordinals IS NULL OR EXISTS (SELECT 1 FROM json_each(:keys) j WHERE u.kind = j.value ->> 0 AND u.id = j.value ->> 1))

-- name: usage_receipts
SELECT count(*) FROM usage_receipts WHERE user_id = :user_id AND :ordinals IS NULL

-- name: word_tail
SELECT count(*) FROM word_tail WHERE user_id = :user_id
AND (:ordinals IS NULL OR slot IN (SELECT value FROM json_each(:ordinals)))

-- name: graph_edges
SELECT count(*) FROM graph_edges WHERE user_id = :user_id
AND (:ordinals IS NULL OR source IN (SELECT value FROM json_each(:ordinals)) OR target IN (SELECT value FROM json_each(:ordinals))
     OR edge IN (SELECT value FROM json_each(:ordinals)) OR owner IN (SELECT value FROM json_each(:ordinals)))

-- name: receipts
SELECT count(*) FROM receipts WHERE user_id = :user_id AND :ordinals IS NULL

-- name: job_states
SELECT count(*) FROM job_states WHERE user_id = :user_id AND :ordinals IS NULL

-- name: api_keys
SELECT count(*) FROM api_keys WHERE user_id = :user_id AND :ordinals IS NULL

-- name: parked_changes
SELECT count(*) FROM parked_changes WHERE user_id = :user_id AND :ordinals IS NULL

-- name: memory_changes
SELECT count(*) FROM memory_changes WHERE user_id = :user_id AND :ordinals IS NULL
AND (cause <> '' OR payload NOT IN ('', 'erased'))

-- name: memory_audit_log
SELECT count(*) FROM memory_audit_log WHERE user_id = :user_id AND :ordinals IS NULL AND timestamp <= :until
AND (query_text IS NOT NULL OR error_message IS NOT NULL OR metadata <> '{}' OR config_snapshot <> '{}')

-- name: in_table
SELECT count(*) FROM {table} WHERE user_id = :user_id
AND (:ordinals IS NULL OR slot IN (SELECT value FROM json_each(:ordinals)))

-- name: word_blocks
SELECT term, block, postings FROM word_blocks INDEXED BY word_blocks_term WHERE user_id = :user_id

-- name: texts
SELECT 'memory_changes.cause', cause FROM memory_changes WHERE user_id = :user_id AND cause <> ''
UNION ALL SELECT 'parked_changes.reason', reason FROM parked_changes WHERE user_id = :user_id
UNION ALL SELECT 'memory_audit_log.query_text', query_text FROM memory_audit_log WHERE user_id = :user_id AND query_text <> ''
UNION ALL SELECT 'memory_audit_log.error_message', error_message FROM memory_audit_log WHERE user_id = :user_id AND error_message <> ''

-- name: json
SELECT 'memory_audit_log.metadata', metadata FROM memory_audit_log WHERE user_id = :user_id AND metadata <> '{}'
UNION ALL SELECT 'memory_audit_log.config_snapshot', config_snapshot FROM memory_audit_log
    WHERE user_id = :user_id AND config_snapshot <> '{}'
UNION ALL SELECT 'receipts', receipt FROM receipts WHERE user_id = :user_id
UNION ALL SELECT 'store_meta', json_array(name, value) FROM store_meta
UNION ALL SELECT 'leases', json_array(name, owner) FROM leases
UNION ALL SELECT 'embedders', json_array(identity) FROM embedders
