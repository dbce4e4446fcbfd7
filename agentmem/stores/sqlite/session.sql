-- The session cache, in a file of its own. `until` and `written` are in microseconds since 1970, by the injected clock.

-- name: create
CREATE TABLE IF NOT EXISTS kv (
    user_id TEXT NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL,                   -- JSON
    until INTEGER NOT NULL,
    written INTEGER,                       -- of a key that takes room of a limited size
    PRIMARY KEY (user_id, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS kv_until ON kv (until);

-- name: is_old
SELECT NOT EXISTS (SELECT * FROM pragma_table_info('kv') WHERE name = 'written');

-- name: upgrade
ALTER TABLE kv ADD COLUMN written INTEGER;

-- name: get
SELECT value, until FROM kv WHERE user_id = :user_id AND key = :key AND until > :now;

-- name: set
INSERT OR REPLACE INTO kv (user_id, key, value, until, written) VALUES (:user_id, :key, :value, :until, :written);

-- name: make_room
-- The keys written longest ago go until all, with the one just written, take at most so many bytes.
DELETE FROM kv WHERE user_id = :user_id AND key IN (
    SELECT key FROM (
        SELECT key, sum(octet_length(key) + octet_length(value)) OVER newest_first AS bytes
        FROM kv WHERE user_id = :user_id AND written IS NOT NULL AND until > :now
        WINDOW newest_first AS (ORDER BY key = :key DESC, written DESC, key DESC ROWS UNBOUNDED PRECEDING)
    ) WHERE bytes > :max_bytes AND key != :key
);

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
