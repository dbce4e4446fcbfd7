-- name: tables
SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'

-- name: is_versioned
SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'schema_version'

-- name: version
SELECT coalesce(max(version), 0) FROM schema_version

-- name: applied
INSERT INTO schema_version (version, description, applied_at) VALUES (?, ?, ?)

-- name: identity
INSERT INTO store_meta (name, value) VALUES ('store_id', ?), ('openings', '0'), ('lease_token', '0')
