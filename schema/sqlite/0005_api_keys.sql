-- Keys of the server, and who asked for what the audit log tells.

-- `user_id` is a user, or '*' for a key whose caller names one. The secret itself is stored nowhere.
CREATE TABLE api_keys (
    user_id TEXT NOT NULL,
    id TEXT NOT NULL,
    secret_hash TEXT NOT NULL,             -- SHA-256, hexadecimal
    channel TEXT,                          -- the only one it opens
    agent_id TEXT,                         -- the only one it is for
    scopes TEXT NOT NULL,                  -- of read, write, erase, admin, with blanks between
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    last_used_at INTEGER,
    revoked_at INTEGER,
    PRIMARY KEY (user_id, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX api_keys_secret ON api_keys (secret_hash);

-- The id of the key by which a server let the caller in.
ALTER TABLE memory_audit_log ADD COLUMN actor TEXT;
