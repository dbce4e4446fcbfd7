-- Keys of the server.

-- name: add
SELECT add_api_key(%(id)s, %(secret_hash)s, %(channel)s, %(agent_id)s, %(scopes)s, %(created_at)s, %(expires_at)s)

-- name: present
SELECT set_config('agentmem.secret_hash', %(secret_hash)s, true)

-- name: find
SELECT secret_hash, id, user_id, scopes, created_at, channel, agent_id, expires_at, last_used_at, revoked_at FROM api_keys
WHERE secret_hash = %(secret_hash)s

-- name: list
SELECT id, user_id, scopes, created_at, channel, agent_id, expires_at, last_used_at, revoked_at FROM api_keys
WHERE %(user_id)s::text IS NULL OR user_id = %(user_id)s ORDER BY created_at DESC, id DESC

-- name: revoke
SELECT revoke_api_key(%(id)s, %(at)s)

-- name: set_last_use
SELECT set_api_key_use(%(id)s, %(at)s)

-- name: were_made
SELECT 1 FROM store_meta WHERE user_id = '_system' AND name = %(name)s
