-- Keys of the server.

-- name: add
INSERT INTO api_keys (user_id, id, secret_hash, channel, agent_id, scopes, created_at, expires_at)
VALUES (:user_id, :id, :secret_hash, :channel, :agent_id, :scopes, :created_at, :expires_at)

-- name: present
SELECT 1

-- name: find
SELECT secret_hash, id, user_id, scopes, created_at, channel, agent_id, expires_at, last_used_at, revoked_at FROM api_keys
WHERE secret_hash = :secret_hash

-- name: list
SELECT id, user_id, scopes, created_at, channel, agent_id, expires_at, last_used_at, revoked_at FROM api_keys
WHERE :user_id IS NULL OR user_id = :user_id ORDER BY created_at DESC, id DESC

-- name: revoke
UPDATE api_keys SET revoked_at = coalesce(revoked_at, :at) WHERE user_id = :user_id AND id = :id

-- name: set_last_use
UPDATE api_keys SET last_used_at = max(coalesce(last_used_at, 0), :at) WHERE user_id = :user_id AND id = :id

-- name: were_made
SELECT 1 FROM store_meta WHERE name = :name
