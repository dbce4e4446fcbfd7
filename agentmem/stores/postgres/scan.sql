-- Where an erasure looks for what it should have taken. Each block counts rows that should not be there; `ordinals` is
-- NULL when a whole user was erased.

-- name: memory_versions
SELECT count(*) FROM memory_versions WHERE user_id = %(user_id)s AND (payload IS NOT NULL OR NOT erased)
AND (%(ordinals)s::integer[] IS NULL OR slot = ANY(%(ordinals)s::integer[]))

-- name: memory_records
SELECT count(*) FROM memory_records WHERE user_id = %(user_id)s
AND (%(ordinals)s::integer[] IS NULL OR slot = ANY(%(ordinals)s::integer[]))

-- name: memory_usage
SELECT count(*) FROM memory_usage WHERE user_id = %(user_id)s
AND (%(ordinals)s::integer[] IS NULL OR (kind, id) IN (SELECT * FROM unnest(%(kinds)s::text[], %(ids)s::text[])))

-- name: usage_receipts
SELECT count(*) FROM usage_receipts WHERE user_id = %(user_id)s AND %(ordinals)s::integer[] IS NULL

-- name: word_tail
SELECT count(*) FROM word_tail WHERE user_id = %(user_id)s
AND (%(ordinals)s::integer[] IS NULL OR slot = ANY(%(ordinals)s::integer[]))

-- name: graph_edges
SELECT count(*) FROM graph_edges WHERE user_id = %(user_id)s
AND (%(ordinals)s::integer[] IS NULL OR source = ANY(%(ordinals)s::integer[]) OR target = ANY(%(ordinals)s::integer[])
     OR edge = ANY(%(ordinals)s::integer[]) OR owner = ANY(%(ordinals)s::integer[]))

-- name: receipts
SELECT count(*) FROM receipts WHERE user_id = %(user_id)s AND %(ordinals)s::integer[] IS NULL

-- name: job_states
SELECT count(*) FROM job_states WHERE user_id = %(user_id)s AND %(ordinals)s::integer[] IS NULL

-- name: api_keys
SELECT count(*) FROM api_keys WHERE user_id = %(user_id)s AND %(ordinals)s::integer[] IS NULL

-- name: parked_changes
SELECT count(*) FROM parked_changes WHERE user_id = %(user_id)s AND %(ordinals)s::integer[] IS NULL

-- name: memory_changes
SELECT count(*) FROM memory_changes WHERE user_id = %(user_id)s AND %(ordinals)s::integer[] IS NULL
AND (cause <> '' OR payload NOT IN ('', 'erased'))

-- name: memory_audit_log
SELECT count(*) FROM memory_audit_log WHERE user_id = %(user_id)s AND %(ordinals)s::integer[] IS NULL
AND timestamp <= %(until)s
AND (query_text IS NOT NULL OR error_message IS NOT NULL OR metadata <> '{}' OR config_snapshot <> '{}')

-- name: in_table
SELECT count(*) FROM {table} WHERE user_id = %(user_id)s
AND (%(ordinals)s::integer[] IS NULL OR slot = ANY(%(ordinals)s::integer[]))

-- name: word_blocks
SELECT term, block, postings FROM word_blocks WHERE user_id = %(user_id)s

-- name: texts
SELECT 'memory_changes.cause', cause FROM memory_changes WHERE user_id = %(user_id)s AND cause <> ''
UNION ALL SELECT 'parked_changes.reason', reason FROM parked_changes WHERE user_id = %(user_id)s
UNION ALL SELECT 'memory_audit_log.query_text', query_text FROM memory_audit_log WHERE user_id = %(user_id)s AND query_text <> ''
UNION ALL SELECT 'memory_audit_log.error_message', error_message FROM memory_audit_log
    WHERE user_id = %(user_id)s AND error_message <> ''

-- name: json
SELECT 'memory_audit_log.metadata', metadata::text FROM memory_audit_log WHERE user_id = %(user_id)s AND metadata <> '{}'
UNION ALL SELECT 'memory_audit_log.config_snapshot', config_snapshot::text FROM memory_audit_log
    WHERE user_id = %(user_id)s AND config_snapshot <> '{}'
UNION ALL SELECT 'receipts', receipt FROM receipts WHERE user_id = %(user_id)s
UNION ALL SELECT 'store_meta', jsonb_build_array(name, value)::text FROM store_meta
UNION ALL SELECT 'leases', jsonb_build_array(name, owner)::text FROM leases
UNION ALL SELECT 'embedders', jsonb_build_array(identity)::text FROM embedders
