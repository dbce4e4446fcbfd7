-- The log on a server. Times are microseconds since 1970 (UTC) in our own tables, TIMESTAMPTZ in those that people query.
-- Every key begins with `user_id`, so that the tables can be distributed by it; what belongs to no user is `_system`'s.
-- `slot` is a dense number per record and user, kept for life: the integer by which words, vectors and ranking meet.
-- Text of ours is compared byte by byte, whatever the database's own collation is.

CREATE TABLE schema_version (
    version INTEGER PRIMARY KEY,
    description TEXT NOT NULL,
    applied_at TIMESTAMPTZ NOT NULL DEFAULT now()
);

CREATE TABLE store_meta (
    user_id TEXT COLLATE "C" NOT NULL DEFAULT '_system' CHECK (user_id = '_system'),
    name TEXT COLLATE "C" NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (user_id, name)
);

CREATE TABLE memory_users (
    user_id TEXT COLLATE "C" PRIMARY KEY,
    head BIGINT NOT NULL DEFAULT 0,        -- last seq
    slots INTEGER NOT NULL DEFAULT 0,      -- next free slot
    erasures BIGINT NOT NULL DEFAULT 0,
    last_at BIGINT NOT NULL DEFAULT 0      -- record time never runs backwards within a user
) WITH (fillfactor = 50);                  -- each write updates its row in place

-- The journal: what was done, and one after-image (or departure) per record.
CREATE TABLE memory_changes (
    user_id TEXT COLLATE "C" NOT NULL,
    seq BIGINT NOT NULL,
    change_id TEXT COLLATE "C" NOT NULL,
    operation_id TEXT COLLATE "C" NOT NULL,
    operation TEXT NOT NULL,
    actor TEXT NOT NULL,
    cause TEXT NOT NULL DEFAULT '',
    payload TEXT NOT NULL DEFAULT '',      -- fingerprint of the arguments as given
    at BIGINT NOT NULL,
    PRIMARY KEY (user_id, seq)
);
CREATE UNIQUE INDEX memory_changes_change ON memory_changes (user_id, change_id);
CREATE INDEX memory_changes_operation ON memory_changes (user_id, operation_id);
CREATE INDEX memory_changes_at ON memory_changes (user_id, at);
CREATE INDEX memory_changes_time ON memory_changes USING BRIN (at);

CREATE TABLE memory_versions (
    user_id TEXT COLLATE "C" NOT NULL,
    slot INTEGER NOT NULL,
    seq BIGINT NOT NULL,
    part INTEGER NOT NULL DEFAULT 0,       -- the order of the records of one change
    kind TEXT COLLATE "C" NOT NULL,
    id TEXT COLLATE "C" NOT NULL,
    channel TEXT COLLATE "C" NOT NULL DEFAULT '',
    recorded_at BIGINT NOT NULL DEFAULT 0, -- when the record was first stored
    format INTEGER NOT NULL DEFAULT 1,
    payload TEXT,                          -- JSON, as text because jsonb cannot hold \u0000; NULL: gone
    erased BOOLEAN NOT NULL DEFAULT false,
    PRIMARY KEY (user_id, slot, seq)
);
CREATE INDEX memory_versions_seq ON memory_versions (user_id, seq, part);
CREATE INDEX memory_versions_key ON memory_versions (user_id, kind, id, seq);

-- Current state: what filters and ranking need. The payload is the version at (user_id, slot, seq).
CREATE TABLE memory_records (
    user_id TEXT COLLATE "C" NOT NULL,
    slot INTEGER NOT NULL,
    seq BIGINT NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    id TEXT COLLATE "C" NOT NULL,
    channel TEXT COLLATE "C" NOT NULL,
    status TEXT COLLATE "C" NOT NULL,
    conversation_id TEXT COLLATE "C" NOT NULL DEFAULT '',
    conversation_uuid UUID,                -- the same as a UUID, made from it where it is none
    position INTEGER NOT NULL DEFAULT -1,
    speaker TEXT NOT NULL DEFAULT '',
    valid_from BIGINT,
    valid_to BIGINT,
    recorded_at BIGINT NOT NULL,
    superseded_at BIGINT,
    words INTEGER NOT NULL DEFAULT 0,
    length INTEGER NOT NULL DEFAULT 0,
    asks INTEGER NOT NULL DEFAULT 0,
    salience DOUBLE PRECISION NOT NULL DEFAULT 0.5,
    confidence DOUBLE PRECISION NOT NULL DEFAULT 1.0,
    unique_key TEXT COLLATE "C" NOT NULL DEFAULT '',
    PRIMARY KEY (user_id, slot)
);
CREATE UNIQUE INDEX memory_records_key ON memory_records (user_id, kind, id);
CREATE INDEX memory_records_seq ON memory_records (user_id, seq);
CREATE INDEX memory_records_kind ON memory_records (user_id, kind, seq);
CREATE UNIQUE INDEX memory_records_position ON memory_records (user_id, conversation_id, position) WHERE kind = 'Turn';
CREATE INDEX memory_records_time ON memory_records (user_id, kind, valid_from NULLS FIRST);
CREATE INDEX memory_records_unique ON memory_records (user_id, kind, unique_key, channel) WHERE unique_key <> '';
CREATE INDEX idx_logs_timestamp ON memory_records USING BRIN (valid_from);
CREATE INDEX idx_timeline_time ON memory_records USING BRIN (recorded_at);

CREATE TABLE memory_usage (
    user_id TEXT COLLATE "C" NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    id TEXT COLLATE "C" NOT NULL,
    access_count BIGINT NOT NULL DEFAULT 0,
    use_count BIGINT NOT NULL DEFAULT 0,
    last_accessed BIGINT,
    strength DOUBLE PRECISION NOT NULL DEFAULT 1.0,
    conversations TEXT[] NOT NULL DEFAULT '{}', -- distinct conversation ids, at most 32
    review_priority DOUBLE PRECISION NOT NULL DEFAULT 0.0,
    last_review_at BIGINT,
    review_count BIGINT NOT NULL DEFAULT 0,
    cross_domain_count BIGINT NOT NULL DEFAULT 0,
    due_at BIGINT,
    PRIMARY KEY (user_id, kind, id)
);
-- Which records a receipt has counted already, so that it counts each once however often it is sent.
CREATE TABLE usage_receipts (
    user_id TEXT COLLATE "C" NOT NULL,
    receipt_id TEXT COLLATE "C" NOT NULL,
    used BOOLEAN NOT NULL,
    at BIGINT NOT NULL,
    slots INTEGER[] NOT NULL,
    PRIMARY KEY (user_id, receipt_id, used)
);
CREATE INDEX usage_receipts_at ON usage_receipts USING BRIN (at);

-- Words: a row per recent record, folded by and by into packed blocks per term. Block: int32 slots, then uint16 counts.
CREATE TABLE word_tail (
    user_id TEXT COLLATE "C" NOT NULL,
    slot INTEGER NOT NULL,
    terms JSONB NOT NULL,                  -- {term: count}
    PRIMARY KEY (user_id, slot)
);
CREATE TABLE word_blocks (
    user_id TEXT COLLATE "C" NOT NULL,
    term TEXT COLLATE "C" NOT NULL,
    block INTEGER NOT NULL,
    postings BYTEA STORAGE EXTERNAL NOT NULL,
    PRIMARY KEY (user_id, term, block)
);
CREATE TABLE word_state (
    user_id TEXT COLLATE "C" PRIMARY KEY,
    tail INTEGER NOT NULL DEFAULT 0,       -- rows in word_tail
    generation BIGINT NOT NULL DEFAULT 0   -- grows when rows left the tail or were rewritten: drop what is cached
) WITH (fillfactor = 50);

-- Projections. A function makes passages_<dimensions> when an embedder needs it.
CREATE TABLE embedders (
    user_id TEXT COLLATE "C" NOT NULL DEFAULT '_system' CHECK (user_id = '_system'),
    identity TEXT COLLATE "C" NOT NULL,
    number INTEGER NOT NULL,
    dimensions INTEGER NOT NULL,
    added_at BIGINT NOT NULL,
    PRIMARY KEY (user_id, identity),
    UNIQUE (user_id, number)
);
CREATE TABLE projection_watermarks (
    user_id TEXT COLLATE "C" NOT NULL,
    projection TEXT COLLATE "C" NOT NULL,
    seq BIGINT NOT NULL,
    generation BIGINT NOT NULL DEFAULT 0,  -- grows when passages were taken out: drop what is cached
    PRIMARY KEY (user_id, projection)
) WITH (fillfactor = 50);
CREATE TABLE parked_changes (
    user_id TEXT COLLATE "C" NOT NULL,
    projection TEXT COLLATE "C" NOT NULL,
    seq BIGINT NOT NULL,
    reason TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    at BIGINT NOT NULL,
    PRIMARY KEY (user_id, projection, seq)
);
CREATE TABLE passage_tokens (
    user_id TEXT COLLATE "C" NOT NULL,
    embedder INTEGER NOT NULL,
    slot INTEGER NOT NULL,
    ids BYTEA STORAGE EXTERNAL NOT NULL,
    vectors BYTEA STORAGE EXTERNAL NOT NULL,
    PRIMARY KEY (user_id, embedder, slot)
);

CREATE TABLE leases (
    user_id TEXT COLLATE "C" NOT NULL DEFAULT '_system' CHECK (user_id = '_system'),
    name TEXT COLLATE "C" NOT NULL,
    owner TEXT NOT NULL,
    token BIGINT NOT NULL,                 -- from one counter for all leases
    until TIMESTAMPTZ NOT NULL,            -- by the database's clock
    PRIMARY KEY (user_id, name)
);
CREATE SEQUENCE lease_tokens;

-- The audit log: a partition per day, made ahead; what no day was made for is kept in the default one. Rows can be
-- neither changed nor deleted, except whole days by retention and the blanking of text by erasure, by one function each.
CREATE TABLE memory_audit_log (
    id BIGSERIAL,
    timestamp TIMESTAMPTZ NOT NULL DEFAULT now(),
    operation TEXT COLLATE "C" NOT NULL,
    memory_type TEXT COLLATE "C" NOT NULL,
    user_id TEXT COLLATE "C" NOT NULL,
    session_id TEXT COLLATE "C",
    conversation_id UUID,
    conversation TEXT COLLATE "C",         -- its id as the caller gave it, which need not be a UUID
    agent_id TEXT COLLATE "C",
    operation_id TEXT COLLATE "C",
    source_channel TEXT COLLATE "C",
    target_channels TEXT[] NOT NULL DEFAULT '{}',
    query_text TEXT,
    result_count INTEGER,
    latency_ms DOUBLE PRECISION,
    success BOOLEAN NOT NULL DEFAULT true,
    error_message TEXT,
    promoted_from_channel TEXT COLLATE "C",
    promotion_confidence DOUBLE PRECISION,
    promotion_access_count INTEGER,
    promotion_conversation_count INTEGER,
    config_snapshot JSONB NOT NULL DEFAULT '{}',
    metadata JSONB NOT NULL DEFAULT '{}',
    PRIMARY KEY (user_id, id, timestamp)
) PARTITION BY RANGE (timestamp);
CREATE INDEX idx_audit_user ON memory_audit_log (user_id, timestamp);
CREATE INDEX idx_audit_session ON memory_audit_log (session_id, timestamp);
CREATE INDEX idx_audit_operation ON memory_audit_log (operation, timestamp);
CREATE INDEX idx_audit_memory_type ON memory_audit_log (memory_type, timestamp);
CREATE INDEX idx_audit_source_channel ON memory_audit_log (source_channel, timestamp);
CREATE INDEX idx_audit_timestamp ON memory_audit_log USING BRIN (timestamp);
CREATE TABLE memory_audit_log_default PARTITION OF memory_audit_log DEFAULT;

CREATE FUNCTION refuse_audit_change() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    gate TEXT := coalesce(current_setting('agentmem.audit_gate', true), '');
BEGIN
    IF TG_OP = 'DELETE' AND gate = 'retention' THEN
        RETURN OLD;
    ELSIF TG_OP = 'UPDATE' AND gate = 'erasure'
        AND (NEW.id, NEW.timestamp, NEW.operation, NEW.user_id, NEW.memory_type, NEW.success, NEW.result_count)
            IS NOT DISTINCT FROM
            (OLD.id, OLD.timestamp, OLD.operation, OLD.user_id, OLD.memory_type, OLD.success, OLD.result_count) THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'memory_audit_log rows cannot be changed or deleted' USING ERRCODE = 'insufficient_privilege';
END $$;
CREATE TRIGGER memory_audit_log_kept BEFORE UPDATE OR DELETE ON memory_audit_log
FOR EACH ROW EXECUTE FUNCTION refuse_audit_change();
CREATE TRIGGER memory_audit_log_kept_whole BEFORE TRUNCATE ON memory_audit_log
FOR EACH STATEMENT EXECUTE FUNCTION refuse_audit_change();

-- Makes the partitions of a day and of `days` days after it, moving what the default one holds of them.
CREATE FUNCTION create_audit_partitions(days INTEGER, first DATE DEFAULT (now() AT TIME ZONE 'UTC')::date)
RETURNS INTEGER LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET timezone = 'UTC' AS $$
DECLARE
    day DATE;
    part TEXT;
    made INTEGER := 0;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('agentmem audit partitions', 0));
    FOR day IN SELECT first + n FROM generate_series(0, days) AS n LOOP
        part := 'memory_audit_log_' || to_char(day, 'YYYYMMDD');
        CONTINUE WHEN to_regclass(part) IS NOT NULL;
        LOCK TABLE memory_audit_log_default IN ACCESS EXCLUSIVE MODE;
        EXECUTE format('CREATE TABLE %I (LIKE memory_audit_log INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', part);
        PERFORM set_config('agentmem.audit_gate', 'retention', true);
        EXECUTE format(
            'WITH moved AS (DELETE FROM memory_audit_log_default WHERE timestamp >= %L AND timestamp < %L RETURNING *) '
            'INSERT INTO %I SELECT * FROM moved', day, day + 1, part);
        PERFORM set_config('agentmem.audit_gate', '', true);
        EXECUTE format('ALTER TABLE memory_audit_log ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', part, day, day + 1);
        PERFORM close_audit_partition(part);
        made := made + 1;
    END LOOP;
    RETURN made;
END $$;

-- Lets nobody into a partition but by way of the whole log, and by the two functions that move and drop days.
CREATE FUNCTION close_audit_partition(part TEXT) RETURNS void LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', part);
    EXECUTE format('CREATE POLICY upkeep ON %I TO CURRENT_USER '
                   'USING (current_setting(''agentmem.audit_gate'', true) = ''retention'')', part);
END $$;

-- Drops the partitions of days (UTC) that lie more than `retention_days` before a day; returns how many rows went.
CREATE FUNCTION drop_old_audit_partitions(retention_days INTEGER, today DATE DEFAULT (now() AT TIME ZONE 'UTC')::date)
RETURNS BIGINT LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET timezone = 'UTC' AS $$
DECLARE
    first_kept DATE := today - retention_days;
    part TEXT;
    rows BIGINT;
    gone BIGINT := 0;
BEGIN
    IF retention_days < 1 THEN
        RAISE EXCEPTION 'retention_days must be 1 or more' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended('agentmem audit partitions', 0));
    PERFORM set_config('agentmem.audit_gate', 'retention', true);
    FOR part IN
        SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = 'memory_audit_log'::regclass AND c.relname ~ '^memory_audit_log_[0-9]{8}$'
          AND to_date(right(c.relname, 8), 'YYYYMMDD') < first_kept ORDER BY c.relname
    LOOP
        EXECUTE format('SELECT count(*) FROM %I', part) INTO rows;
        EXECUTE format('DROP TABLE %I', part);
        gone := gone + rows;
    END LOOP;
    DELETE FROM memory_audit_log_default WHERE timestamp < first_kept;
    GET DIAGNOSTICS rows = ROW_COUNT;
    PERFORM set_config('agentmem.audit_gate', '', true);
    RETURN gone + rows;
END $$;

-- Blanks query, error and details of these rows of the transaction's user, and the settings of those. NULL: of all rows,
-- and with them every name.
CREATE FUNCTION blank_audit_text(texts BIGINT[], settings BIGINT[])
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    whose TEXT := current_setting('agentmem.user_id');
BEGIN
    PERFORM set_config('agentmem.audit_gate', 'erasure', true);
    IF texts IS NULL THEN
        UPDATE memory_audit_log SET query_text = NULL, error_message = NULL, metadata = '{}', config_snapshot = '{}',
            session_id = NULL, conversation_id = NULL, conversation = NULL, agent_id = NULL, source_channel = NULL,
            target_channels = '{}', promoted_from_channel = NULL
        WHERE user_id = whose;
    ELSE
        UPDATE memory_audit_log SET query_text = NULL, error_message = NULL, metadata = '{}'
        WHERE user_id = whose AND id = ANY(texts);
        UPDATE memory_audit_log SET config_snapshot = '{}' WHERE user_id = whose AND id = ANY(settings);
    END IF;
    PERFORM set_config('agentmem.audit_gate', '', true);
END $$;

-- The documents' tables as people query them: nothing is stored twice. They show what the reader's role may see.
CREATE VIEW current_records WITH (security_invoker = true) AS
SELECT r.user_id, r.kind, r.id, r.channel, r.status, r.seq, c.operation_id, r.conversation_id, r.conversation_uuid,
       r.position, r.speaker, r.valid_from, r.valid_to, r.recorded_at, r.superseded_at, r.slot,
       replace(v.payload, '\u0000', '\ufffd')::jsonb AS payload
FROM memory_records r
JOIN memory_versions v ON v.user_id = r.user_id AND v.slot = r.slot AND v.seq = r.seq
JOIN memory_changes c ON c.user_id = r.user_id AND c.seq = r.seq;

CREATE FUNCTION moment(micros BIGINT) RETURNS TIMESTAMPTZ LANGUAGE SQL IMMUTABLE PARALLEL SAFE
RETURN TIMESTAMPTZ 'epoch' + micros * INTERVAL '1 microsecond';

CREATE VIEW conversation_logs WITH (security_invoker = true) AS
SELECT slot::bigint AS id, user_id, id AS turn_id, conversation_uuid AS conversation_id, conversation_id AS conversation,
       position AS turn_index, moment(valid_from) AS timestamp, coalesce(payload ->> 'role', 'user') AS role,
       payload ->> 'content' AS content, payload ->> 'content_hash' AS content_hash,
       (payload ->> 'token_count')::integer AS token_count, payload ->> 'model' AS model, channel,
       payload ->> 'speaker' AS speaker, payload ->> 'agent_id' AS agent_id,
       coalesce(payload -> 'metadata', '{}') AS metadata
FROM current_records WHERE kind = 'Turn';

CREATE VIEW memory_timeline WITH (security_invoker = true) AS
SELECT r.slot::bigint AS id, r.user_id, r.kind AS memory_type, r.id AS neo4j_node_id,
       moment(coalesce(r.valid_from, r.recorded_at)) AS event_time,
       coalesce(r.payload ->> 'claim', r.payload ->> 'content', r.payload ->> 'name', r.payload ->> 'description',
                r.payload ->> 'title') AS summary,
       coalesce((r.payload ->> 'importance')::float, (r.payload ->> 'salience')::float, 0.5) AS importance_score,
       coalesce(u.access_count, 0) AS access_count, moment(u.last_accessed) AS last_accessed, r.channel,
       r.status = 'archived' AS archived, coalesce(r.payload -> 'metadata', '{}') AS metadata
FROM current_records r LEFT JOIN memory_usage u ON u.user_id = r.user_id AND u.kind = r.kind AND u.id = r.id
WHERE r.kind IN ('Turn', 'Fact', 'Entity', 'Goal', 'Conversation');

CREATE VIEW user_profiles WITH (security_invoker = true) AS
SELECT user_id, moment(recorded_at) AS created_at, (payload ->> 'updated_at')::timestamptz AS updated_at,
       coalesce(payload -> 'preferences', '{}') AS preferences, coalesce(payload -> 'expertise_areas', '[]') AS expertise_areas,
       coalesce(payload -> 'communication_style', '{}') AS communication_style, coalesce(payload -> 'metadata', '{}') AS metadata
FROM current_records WHERE kind = 'User';

CREATE VIEW tool_invocations WITH (security_invoker = true) AS
SELECT slot::bigint AS id, user_id, id AS invocation_id, conversation_uuid AS conversation_id,
       conversation_id AS conversation, position AS turn_index, moment(coalesce(valid_from, recorded_at)) AS timestamp,
       payload ->> 'tool_name' AS tool_name, payload -> 'tool_input' AS tool_input, payload -> 'tool_output' AS tool_output,
       (payload ->> 'success')::boolean AS success, round((payload ->> 'latency_ms')::numeric)::integer AS latency_ms,
       payload ->> 'error_message' AS error_message, channel
FROM current_records WHERE kind = 'ToolInvocation';

-- Who may what. The roles are made where the migrating user may make them: `agentmem_app` has a user's own rows,
-- `agentmem_worker` also reads over all users when it says so, `agentmem_auditor` reads the audit log and nothing else.
DO $$
DECLARE
    wanted TEXT;
BEGIN
    FOREACH wanted IN ARRAY ARRAY['agentmem_app', 'agentmem_worker', 'agentmem_auditor'] LOOP
        BEGIN
            IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = wanted) THEN
                EXECUTE format('CREATE ROLE %I NOLOGIN', wanted);
            END IF;
            IF wanted <> 'agentmem_auditor' AND NOT pg_has_role(current_user, wanted, 'USAGE') THEN
                EXECUTE format('GRANT %I TO CURRENT_USER', wanted);
            END IF;
        EXCEPTION WHEN insufficient_privilege OR duplicate_object OR unique_violation THEN
            RAISE NOTICE 'the role % was not made or granted: %', wanted, SQLERRM;
        END;
    END LOOP;
END $$;

-- Walls off a table: the application has the rows of the transaction's user (and of `_system` where they are shared),
-- a worker reads all rows in a transaction that says so.
CREATE FUNCTION wall_off(walled TEXT, shared BOOLEAN DEFAULT false) RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    own TEXT := 'user_id = current_setting(''agentmem.user_id'', true) AND user_id <> ''''';
    operator TEXT := CASE WHEN EXISTS (SELECT FROM pg_roles WHERE rolname = 'agentmem_worker')
                          THEN 'agentmem_worker' ELSE 'CURRENT_USER' END;
BEGIN
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', walled);
    EXECUTE format('CREATE POLICY own_rows ON %I USING (%s)', walled, CASE WHEN shared THEN 'user_id = ''_system''' ELSE own END);
    EXECUTE format('CREATE POLICY operator_reads ON %I FOR SELECT TO %s '
                   'USING (current_setting(''agentmem.operator'', true) = ''on'')', walled, operator);
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'agentmem_app') THEN
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %I TO agentmem_app', walled);
    END IF;
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'agentmem_worker') THEN
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %I TO agentmem_worker', walled);
    END IF;
END $$;

SELECT wall_off(name) FROM unnest(ARRAY[
    'memory_users', 'memory_changes', 'memory_versions', 'memory_records', 'memory_usage', 'usage_receipts', 'word_tail',
    'word_blocks', 'word_state', 'projection_watermarks', 'parked_changes', 'passage_tokens', 'memory_audit_log']) AS name;
SELECT wall_off(name, true) FROM unnest(ARRAY['store_meta', 'embedders', 'leases']) AS name;
SELECT close_audit_partition('memory_audit_log_default');

DO $$
DECLARE
    role TEXT;
    operator TEXT := CASE WHEN EXISTS (SELECT FROM pg_roles WHERE rolname = 'agentmem_worker')
                          THEN 'agentmem_worker' ELSE 'CURRENT_USER' END;
BEGIN
    EXECUTE format('CREATE POLICY operator_forgets ON usage_receipts FOR DELETE TO %s '
                   'USING (current_setting(''agentmem.operator'', true) = ''on'')', operator);
    REVOKE ALL ON FUNCTION create_audit_partitions, drop_old_audit_partitions, close_audit_partition, blank_audit_text, wall_off
        FROM PUBLIC;
    FOR role IN SELECT rolname FROM pg_roles WHERE rolname IN ('agentmem_app', 'agentmem_worker') LOOP
        EXECUTE format('REVOKE UPDATE, DELETE ON memory_audit_log FROM %I', role);
        EXECUTE format('GRANT SELECT ON schema_version, current_records, conversation_logs, memory_timeline, user_profiles, '
                       'tool_invocations TO %I', role);
        EXECUTE format('GRANT USAGE ON SEQUENCE lease_tokens, memory_audit_log_id_seq TO %I', role);
        EXECUTE format('GRANT EXECUTE ON FUNCTION blank_audit_text TO %I', role);
    END LOOP;
    FOR role IN SELECT rolname FROM pg_roles WHERE rolname = 'agentmem_worker' LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION create_audit_partitions, drop_old_audit_partitions TO %I', role);
    END LOOP;
    FOR role IN SELECT rolname FROM pg_roles WHERE rolname = 'agentmem_auditor' LOOP
        EXECUTE format('GRANT SELECT ON memory_audit_log, schema_version TO %I', role);
        EXECUTE format('CREATE POLICY auditor_reads ON memory_audit_log FOR SELECT TO %I USING (true)', role);
    END LOOP;
    FOR role IN SELECT rolname FROM pg_roles WHERE rolname IN ('agentmem_app', 'agentmem_worker', 'agentmem_auditor') LOOP
        EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', current_schema(), role);
    END LOOP;
END $$;
