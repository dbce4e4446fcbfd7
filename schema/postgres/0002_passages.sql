-- Vectors: one table per number of dimensions, made when an embedder needs it, by whoever opens the memory.
CREATE EXTENSION IF NOT EXISTS vector;

-- Makes passages_<dimensions> with its wall, and the documents' tables with an embedding as views; nothing when it is there.
-- A vector stays in its row (PLAIN): from elsewhere it would be fetched and put together once per row and search. No index
-- over vectors: one that all users share would let one user's rows change what another finds.
CREATE FUNCTION make_passages(dimensions INTEGER) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    made TEXT := 'passages_' || dimensions;
    shown TEXT := 'memories_' || dimensions;
    parts TEXT;
    reader TEXT;
    half TEXT := (SELECT format('%I.halfvec', nspname) FROM pg_extension JOIN pg_namespace n ON n.oid = extnamespace
                  WHERE extname = 'vector'); -- which may lie in a schema of its own
BEGIN
    IF to_regtype(half) IS NULL THEN
        RAISE EXCEPTION 'the extension vector must be 0.7 or newer' USING ERRCODE = 'feature_not_supported';
    END IF;
    IF dimensions IS NULL OR dimensions NOT BETWEEN 1 AND 4000 THEN
        RAISE EXCEPTION 'dimensions must be 1 to 4000' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended('agentmem passages', 0));
    IF to_regclass(made) IS NOT NULL THEN
        RETURN;
    END IF;
    EXECUTE format(
        'CREATE TABLE %1$I (
            user_id TEXT COLLATE "C" NOT NULL,
            id BIGINT GENERATED ALWAYS AS IDENTITY, -- grows within a user in the order of commits: a cache is topped up by it
            embedder INTEGER NOT NULL,
            slot INTEGER NOT NULL,
            part INTEGER NOT NULL,
            start INTEGER NOT NULL,
            "end" INTEGER NOT NULL,
            asks BOOLEAN NOT NULL DEFAULT false,
            kind TEXT COLLATE "C" NOT NULL,
            channel TEXT COLLATE "C" NOT NULL,
            grain TEXT COLLATE "C" NOT NULL CHECK (grain IN (''whole'', ''sentence'')),
            vector %2$s(%3$s) STORAGE PLAIN NOT NULL,
            PRIMARY KEY (user_id, embedder, id),
            UNIQUE (user_id, embedder, slot, grain, part)
        ) WITH (toast_tuple_target = 8160)', -- else long names would be moved out of a row to make room for nothing
        made, half, dimensions);
    PERFORM wall_off(made);
    EXECUTE format(
        'CREATE VIEW %I WITH (security_invoker = true) AS
        SELECT r.id, r.user_id, r.payload ->> ''session_id'' AS session_id,
               coalesce(r.payload ->> ''content'', r.payload ->> ''claim'', r.payload ->> ''name'',
                        r.payload ->> ''description'') AS content,
               p.vector AS embedding, coalesce(r.payload ->> ''memory_type'', lower(r.kind)) AS memory_type,
               coalesce((r.payload ->> ''importance'')::float, (r.payload ->> ''salience'')::float, 0.5) AS importance,
               moment(r.recorded_at) AS created_at, moment(u.last_accessed) AS accessed_at,
               coalesce(u.access_count, 0) AS access_count, r.channel, e.identity AS embedder
        FROM %I p
        JOIN current_records r ON r.user_id = p.user_id AND r.slot = p.slot
        JOIN embedders e ON e.number = p.embedder
        LEFT JOIN memory_usage u ON u.user_id = r.user_id AND u.kind = r.kind AND u.id = r.id
        WHERE p.grain = ''whole'' AND p.part = 0', shown, made);
    SELECT string_agg(format('SELECT user_id, slot, vector::%s AS embedding, embedder FROM %I '
                             'WHERE grain = ''whole'' AND part = 0', half, relname), ' UNION ALL ' ORDER BY relname) INTO parts
    FROM pg_class WHERE relname ~ '^passages_[0-9]+$' AND relkind = 'r' AND relnamespace = current_schema()::regnamespace;
    EXECUTE format(
        'CREATE OR REPLACE VIEW conversation_log_vectors WITH (security_invoker = true) AS
        SELECT l.*, p.embedding, e.identity AS embedder FROM conversation_logs l
        JOIN (%s) p ON p.user_id = l.user_id AND p.slot = l.id JOIN embedders e ON e.number = p.embedder', parts);
    EXECUTE format(
        'CREATE OR REPLACE VIEW memory_timeline_vectors WITH (security_invoker = true) AS
        SELECT t.*, p.embedding, e.identity AS embedder FROM memory_timeline t
        JOIN (%s) p ON p.user_id = t.user_id AND p.slot = t.id JOIN embedders e ON e.number = p.embedder', parts);
    FOR reader IN SELECT rolname FROM pg_roles WHERE rolname IN ('agentmem_app', 'agentmem_worker') LOOP
        EXECUTE format('GRANT SELECT ON %I, conversation_log_vectors, memory_timeline_vectors TO %I', shown, reader);
    END LOOP;
END $$;

DO $$
DECLARE
    role TEXT;
BEGIN
    REVOKE ALL ON FUNCTION make_passages FROM PUBLIC;
    FOR role IN SELECT rolname FROM pg_roles WHERE rolname IN ('agentmem_app', 'agentmem_worker') LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION make_passages TO %I', role);
    END LOOP;
END $$;
