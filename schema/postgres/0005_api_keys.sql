-- Keys of the server, and who asked for what the audit log tells.

-- `user_id` is a user, or '*' for a key whose caller names one. The secret itself is stored nowhere.
CREATE TABLE api_keys (
    user_id TEXT COLLATE "C" NOT NULL,
    id TEXT COLLATE "C" NOT NULL,
    secret_hash TEXT COLLATE "C" NOT NULL, -- SHA-256, hexadecimal
    channel TEXT COLLATE "C",              -- the only one it opens
    agent_id TEXT COLLATE "C",             -- the only one it is for
    scopes TEXT NOT NULL,                  -- of read, write, erase, admin, with blanks between
    created_at BIGINT NOT NULL,
    expires_at BIGINT,
    last_used_at BIGINT,
    revoked_at BIGINT,
    PRIMARY KEY (user_id, id)
);
CREATE INDEX api_keys_secret ON api_keys (secret_hash);
SELECT wall_off('api_keys');
-- Before a user is known: who presents a secret sees its row, and no other.
CREATE POLICY presented_key ON api_keys FOR SELECT
USING (secret_hash = current_setting('agentmem.secret_hash', true) AND secret_hash <> '');

-- The id of the key by which a server let the caller in.
ALTER TABLE memory_audit_log ADD COLUMN actor TEXT COLLATE "C";
