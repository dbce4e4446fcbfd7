-- Keys of the server.

-- name: add
INSERT INTO api_keys (user_id, id, secret_hash, channel, agent_id, scopes, created_at, expires_at)
VALUES (%(user_id)s, %(id)s, %(secret_hash)s, %(channel)s, %(agent_id)s, %(scopes)s, %(created_at)s, %(expires_at)s)

-- name: present
SELECT set_config('agentmem.secret_hash', %(secret_hash)s, true)

-- name: find
SELECT secret_hash, id, user_id, scopes, created_at, channel, agent_id, expires_at, last_used_at, revoked_at FROM api_keys
WHERE secret_hash = %(secret_hash)s

-- name: list
SELECT id, user_id, scopes, created_at, channel, agent_id, expires_at, last_used_at, revoked_at FROM api_keys
WHERE %(user_id)s::text IS NULL OR user_id = %(user_id)s ORDER BY created_at DESC, id DESC

-- name: revoke
UPDATE api_keys SET revoked_at = coalesce(revoked_at, %(at)s) WHERE user_id = %(user_id)s AND id = %(id)s

-- name: set_last_use
UPDATE api_keys SET last_used_at = greatest(last_used_at, %(at)s) WHERE user_id = %(user_id)s AND id = %(id)s

-- name: were_made
SELECT 1 FROM store_meta WHERE user_id = '_system' AND name = %(name)s
