-- The session cache, in a file of its own. `until` is in microseconds since 1970, by the injected clock.

-- name: create
CREATE TABLE IF NOT EXISTS kv (
    user_id TEXT NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL,                   -- JSON
    until INTEGER NOT NULL,
    PRIMARY KEY (user_id, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS kv_until ON kv (until);

-- name: get
SELECT value, until FROM kv WHERE user_id = :user_id AND key = :key AND until > :now;

-- name: set
INSERT OR REPLACE INTO kv (user_id, key, value, until) VALUES (:user_id, :key, :value, :until);

-- name: renew
UPDATE kv SET until = :until WHERE user_id = :user_id AND key = :key AND until > :now;

-- name: delete
DELETE FROM kv WHERE user_id = :user_id AND key = :key;

-- name: items
SELECT key, value FROM kv
WHERE user_id = :user_id AND key >= :prefix AND substr(key, 1, length(:prefix)) = :prefix AND until > :now ORDER BY key;

-- name: clear
DELETE FROM kv WHERE user_id = :user_id AND key >= :prefix AND substr(key, 1, length(:prefix)) = :prefix;

-- name: sweep
DELETE FROM kv WHERE until <= :now;
