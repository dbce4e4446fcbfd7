-- Which schema there is, and the steps to this version's.

-- name: lock
SELECT pg_advisory_xact_lock(hashtextextended('agentmem migrate', 0));

-- name: search_path
SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);

-- name: is_versioned
SELECT to_regclass('schema_version') IS NOT NULL

-- name: version
SELECT coalesce(max(version), 0) FROM schema_version

-- name: tables
SELECT count(*) FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p')

-- name: server
SELECT current_setting('server_version_num')::integer

-- name: applied
INSERT INTO schema_version (version, description, applied_at) VALUES (%(version)s, %(description)s, %(at)s)

-- name: identity
INSERT INTO store_meta (name, value) VALUES ('store_id', %(store_id)s), ('openings', '0')

-- name: partitions
SELECT create_audit_partitions(%(days)s)

-- name: has_roles
SELECT to_regproc('grant_roles') IS NOT NULL

-- name: missing_roles
SELECT wanted FROM unnest(ARRAY['agentmem_app', 'agentmem_worker', 'agentmem_auditor']) WITH ORDINALITY AS w(wanted, n)
WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = wanted) ORDER BY n

-- name: grant_roles
SELECT grant_roles()
