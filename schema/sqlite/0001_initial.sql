-- The embedded store. Times are microseconds since 1970 (UTC) in our own tables, ISO text in the tables that people query.
-- `slot` is a dense number per record and user, kept for life: the integer by which words, vectors, edges and ranking meet.

CREATE TABLE schema_version (
    version INTEGER PRIMARY KEY,
    description TEXT NOT NULL,
    applied_at TEXT NOT NULL
) STRICT;

CREATE TABLE store_meta (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE memory_users (
    user_id TEXT PRIMARY KEY,
    head INTEGER NOT NULL DEFAULT 0,       -- last seq
    slots INTEGER NOT NULL DEFAULT 0,      -- next free slot
    erasures INTEGER NOT NULL DEFAULT 0,
    last_at INTEGER NOT NULL DEFAULT 0     -- record time never runs backwards within a user
) STRICT, WITHOUT ROWID;

-- The journal: what was done, and one after-image (or departure) per record.
CREATE TABLE memory_changes (
    user_id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    change_id TEXT NOT NULL,
    operation_id TEXT NOT NULL,
    operation TEXT NOT NULL,
    actor TEXT NOT NULL,
    cause TEXT NOT NULL DEFAULT '',
    payload TEXT NOT NULL DEFAULT '',      -- fingerprint of the arguments as given
    at INTEGER NOT NULL,
    PRIMARY KEY (user_id, seq)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX memory_changes_change ON memory_changes (user_id, change_id);
CREATE INDEX memory_changes_operation ON memory_changes (user_id, operation_id);
CREATE INDEX memory_changes_at ON memory_changes (user_id, at);

CREATE TABLE memory_versions (
    user_id TEXT NOT NULL,
    slot INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    kind TEXT NOT NULL,
    id TEXT NOT NULL,
    channel TEXT NOT NULL DEFAULT '',
    recorded_at INTEGER NOT NULL DEFAULT 0, -- when the record was first stored
    format INTEGER NOT NULL DEFAULT 1,
    payload TEXT,                          -- JSON; NULL: gone
    erased INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE UNIQUE INDEX memory_versions_slot ON memory_versions (user_id, slot, seq);
CREATE INDEX memory_versions_seq ON memory_versions (user_id, seq);
CREATE INDEX memory_versions_key ON memory_versions (user_id, kind, id, seq);

-- Current state: what filters and ranking need. The payload is the version at (user_id, slot, seq).
CREATE TABLE memory_records (
    user_id TEXT NOT NULL,
    slot INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    kind TEXT NOT NULL,
    id TEXT NOT NULL,
    channel TEXT NOT NULL,
    status TEXT NOT NULL,
    conversation_id TEXT NOT NULL DEFAULT '',
    position INTEGER NOT NULL DEFAULT -1,
    speaker TEXT NOT NULL DEFAULT '',
    valid_from INTEGER,
    valid_to INTEGER,
    recorded_at INTEGER NOT NULL,
    superseded_at INTEGER,
    words INTEGER NOT NULL DEFAULT 0,
    length INTEGER NOT NULL DEFAULT 0,
    asks INTEGER NOT NULL DEFAULT 0,
    salience REAL NOT NULL DEFAULT 0.5,
    confidence REAL NOT NULL DEFAULT 1.0,
    unique_key TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (user_id, slot)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX memory_records_key ON memory_records (user_id, kind, id);
CREATE INDEX memory_records_seq ON memory_records (user_id, seq);
CREATE INDEX memory_records_kind ON memory_records (user_id, kind, seq);
CREATE UNIQUE INDEX memory_records_position ON memory_records (user_id, conversation_id, position) WHERE kind = 'Turn';
CREATE INDEX memory_records_time ON memory_records (user_id, kind, valid_from);
CREATE INDEX memory_records_unique ON memory_records (user_id, kind, unique_key, channel) WHERE unique_key <> '';

CREATE VIEW current_records AS
SELECT r.user_id, r.kind, r.id, r.channel, r.status, r.seq, c.operation_id, r.conversation_id, r.position, r.speaker,
       r.valid_from, r.valid_to, r.recorded_at, r.superseded_at, r.slot, v.payload
FROM memory_records r
JOIN memory_versions v ON v.user_id = r.user_id AND v.slot = r.slot AND v.seq = r.seq
JOIN memory_changes c ON c.user_id = r.user_id AND c.seq = r.seq;

CREATE TABLE memory_usage (
    user_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    id TEXT NOT NULL,
    access_count INTEGER NOT NULL DEFAULT 0,
    use_count INTEGER NOT NULL DEFAULT 0,
    last_accessed INTEGER,
    strength REAL NOT NULL DEFAULT 1.0,
    conversations TEXT NOT NULL DEFAULT '[]',  -- JSON list of distinct conversation ids, at most 32
    review_priority REAL NOT NULL DEFAULT 0.0,
    last_review_at INTEGER,
    review_count INTEGER NOT NULL DEFAULT 0,
    cross_domain_count INTEGER NOT NULL DEFAULT 0,
    due_at INTEGER,
    PRIMARY KEY (user_id, kind, id)
) STRICT, WITHOUT ROWID;
-- Which records a receipt has counted already, so that it counts each once however often it is sent.
CREATE TABLE usage_receipts (
    user_id TEXT NOT NULL,
    receipt_id TEXT NOT NULL,
    used INTEGER NOT NULL,
    at INTEGER NOT NULL,
    slots TEXT NOT NULL,                   -- JSON list
    PRIMARY KEY (user_id, receipt_id, used)
) STRICT, WITHOUT ROWID;
CREATE INDEX usage_receipts_at ON usage_receipts (at);

-- Words: a row per recent record, folded by and by into packed blocks per term. Block: int32 slots, then uint16 counts.
CREATE TABLE word_tail (
    user_id TEXT NOT NULL,
    slot INTEGER NOT NULL,
    terms TEXT NOT NULL,                   -- JSON {term: count}
    PRIMARY KEY (user_id, slot)
) STRICT, WITHOUT ROWID;
CREATE TABLE word_blocks (
    user_id TEXT NOT NULL,
    term TEXT NOT NULL,
    block INTEGER NOT NULL,
    postings BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX word_blocks_term ON word_blocks (user_id, term, block);
CREATE TABLE word_state (
    user_id TEXT PRIMARY KEY,
    tail INTEGER NOT NULL DEFAULT 0,       -- rows in word_tail
    generation INTEGER NOT NULL DEFAULT 0  -- grows when rows left the tail or were rewritten: drop what is cached
) STRICT, WITHOUT ROWID;

-- Edges, made from records by the same transaction. `edge` is the slot of an Edge record, -1 for structural edges.
CREATE TABLE graph_edges (
    user_id TEXT NOT NULL,
    source INTEGER NOT NULL,
    kind TEXT NOT NULL,
    target INTEGER NOT NULL,
    edge INTEGER NOT NULL DEFAULT -1,
    owner INTEGER NOT NULL,                -- slot of the record that states it: it goes when that record goes
    PRIMARY KEY (user_id, source, kind, target, edge)
) STRICT, WITHOUT ROWID;
CREATE INDEX graph_edges_target ON graph_edges (user_id, target, kind, source);
CREATE INDEX graph_edges_owner ON graph_edges (user_id, owner);

-- Projections.
CREATE TABLE embedders (
    identity TEXT PRIMARY KEY,
    number INTEGER NOT NULL UNIQUE,
    dimensions INTEGER NOT NULL,
    added_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE projection_watermarks (
    projection TEXT NOT NULL,
    user_id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    generation INTEGER NOT NULL DEFAULT 0, -- grows when passages were taken out: drop what is cached
    PRIMARY KEY (projection, user_id)
) STRICT, WITHOUT ROWID;
CREATE TABLE parked_changes (
    projection TEXT NOT NULL,
    user_id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    reason TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (projection, user_id, seq)
) STRICT, WITHOUT ROWID;
CREATE TABLE passage_tokens (
    user_id TEXT NOT NULL,
    embedder INTEGER NOT NULL,
    slot INTEGER NOT NULL,
    ids BLOB NOT NULL,
    vectors BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX passage_tokens_slot ON passage_tokens (user_id, embedder, slot);

CREATE TABLE leases (
    name TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    token INTEGER NOT NULL UNIQUE,         -- from one counter for all leases (store_meta.lease_token)
    until REAL NOT NULL                    -- seconds since 1970 by the database's clock
) STRICT, WITHOUT ROWID;

-- The audit log. Rows can be neither changed nor deleted, except whole days by retention and the blanking of text by
-- erasure: each opens a gate inside its own transaction.
CREATE TABLE memory_audit_log (
    id TEXT NOT NULL,
    timestamp TEXT NOT NULL,
    operation TEXT NOT NULL,
    memory_type TEXT NOT NULL,
    user_id TEXT NOT NULL,
    session_id TEXT,
    conversation_id TEXT,
    agent_id TEXT,
    operation_id TEXT,
    source_channel TEXT,
    target_channels TEXT NOT NULL DEFAULT '[]',
    query_text TEXT,
    result_count INTEGER,
    latency_ms REAL,
    success INTEGER NOT NULL DEFAULT 1,
    error_message TEXT,
    promoted_from_channel TEXT,
    promotion_confidence REAL,
    promotion_access_count INTEGER,
    promotion_conversation_count INTEGER,
    config_snapshot TEXT NOT NULL DEFAULT '{}',
    metadata TEXT NOT NULL DEFAULT '{}',
    PRIMARY KEY (user_id, timestamp, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX idx_audit_session ON memory_audit_log (session_id, timestamp);
CREATE INDEX idx_audit_operation ON memory_audit_log (operation, timestamp);
CREATE INDEX idx_audit_memory_type ON memory_audit_log (memory_type, timestamp);
CREATE INDEX idx_audit_source_channel ON memory_audit_log (source_channel, timestamp);
CREATE TABLE audit_gate (
    purpose TEXT PRIMARY KEY CHECK (purpose IN ('retention', 'erasure'))
) STRICT, WITHOUT ROWID;
CREATE TRIGGER memory_audit_log_no_delete BEFORE DELETE ON memory_audit_log
WHEN NOT EXISTS (SELECT 1 FROM audit_gate WHERE purpose = 'retention')
BEGIN SELECT RAISE(ABORT, 'memory_audit_log rows cannot be deleted'); END;
CREATE TRIGGER memory_audit_log_no_replace BEFORE INSERT ON memory_audit_log -- REPLACE deletes without asking the trigger above
WHEN EXISTS (SELECT 1 FROM memory_audit_log WHERE user_id = NEW.user_id AND timestamp = NEW.timestamp AND id = NEW.id)
BEGIN SELECT RAISE(ABORT, 'memory_audit_log rows cannot be replaced'); END;
CREATE TRIGGER memory_audit_log_no_update BEFORE UPDATE ON memory_audit_log
WHEN NOT EXISTS (SELECT 1 FROM audit_gate WHERE purpose = 'erasure')
  OR NEW.id IS NOT OLD.id OR NEW.timestamp IS NOT OLD.timestamp OR NEW.operation IS NOT OLD.operation
  OR NEW.user_id IS NOT OLD.user_id OR NEW.memory_type IS NOT OLD.memory_type
  OR NEW.success IS NOT OLD.success OR NEW.result_count IS NOT OLD.result_count
BEGIN SELECT RAISE(ABORT, 'memory_audit_log rows cannot be changed'); END;

-- The documents' tables as people query them: nothing is stored twice.
CREATE VIEW conversation_logs AS
SELECT slot AS id, user_id, id AS turn_id, conversation_id, position AS turn_index,
       strftime('%Y-%m-%dT%H:%M:%fZ', valid_from / 1000000.0, 'unixepoch') AS timestamp,
       coalesce(payload ->> 'role', 'user') AS role, payload ->> 'content' AS content, payload ->> 'content_hash' AS content_hash,
       payload ->> 'token_count' AS token_count, payload ->> 'model' AS model, channel,
       payload ->> 'speaker' AS speaker, payload ->> 'agent_id' AS agent_id,
       coalesce(payload -> 'metadata', '{}') AS metadata
FROM current_records WHERE kind = 'Turn';

CREATE VIEW memory_timeline AS
SELECT r.slot AS id, r.user_id, r.kind AS memory_type, r.id AS neo4j_node_id,
       strftime('%Y-%m-%dT%H:%M:%fZ', coalesce(r.valid_from, r.recorded_at) / 1000000.0, 'unixepoch') AS event_time,
       coalesce(r.payload ->> 'claim', r.payload ->> 'content', r.payload ->> 'name', r.payload ->> 'description',
                r.payload ->> 'title') AS summary,
       coalesce(r.payload ->> 'importance', r.payload ->> 'salience', 0.5) AS importance_score,
       coalesce(u.access_count, 0) AS access_count,
       strftime('%Y-%m-%dT%H:%M:%fZ', u.last_accessed / 1000000.0, 'unixepoch') AS last_accessed,
       r.channel, r.status = 'archived' AS archived, coalesce(r.payload -> 'metadata', '{}') AS metadata
FROM current_records r LEFT JOIN memory_usage u ON u.user_id = r.user_id AND u.kind = r.kind AND u.id = r.id
WHERE r.kind IN ('Turn', 'Fact', 'Entity', 'Goal', 'Conversation');

CREATE VIEW user_profiles AS
SELECT user_id,
       strftime('%Y-%m-%dT%H:%M:%fZ', recorded_at / 1000000.0, 'unixepoch') AS created_at,
       payload ->> 'updated_at' AS updated_at, coalesce(payload -> 'preferences', '{}') AS preferences,
       coalesce(payload -> 'expertise_areas', '[]') AS expertise_areas,
       coalesce(payload -> 'communication_style', '{}') AS communication_style,
       coalesce(payload -> 'metadata', '{}') AS metadata
FROM current_records WHERE kind = 'User';

CREATE VIEW tool_invocations AS
SELECT slot AS id, user_id, id AS invocation_id, conversation_id, position AS turn_index,
       strftime('%Y-%m-%dT%H:%M:%fZ', coalesce(valid_from, recorded_at) / 1000000.0, 'unixepoch') AS timestamp,
       payload ->> 'tool_name' AS tool_name, payload -> 'tool_input' AS tool_input, payload -> 'tool_output' AS tool_output,
       payload ->> 'success' AS success, payload ->> 'latency_ms' AS latency_ms,
       payload ->> 'error_message' AS error_message, channel
FROM current_records WHERE kind = 'ToolInvocation';
