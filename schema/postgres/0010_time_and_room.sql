-- Rows of days without a partition move to their days whenever partitions are made, whoever asks for which days.
CREATE OR REPLACE FUNCTION create_audit_partitions(days INTEGER, first DATE DEFAULT (now() AT TIME ZONE 'UTC')::date)
RETURNS INTEGER LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET timezone = 'UTC' AS $$
DECLARE
    wanted DATE[] := ARRAY(SELECT first + n FROM generate_series(0, days) AS n);
    day DATE;
    part TEXT;
    made INTEGER := 0;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('agentmem audit partitions', 0));
    PERFORM set_config('agentmem.audit_gate', 'retention', true);
    wanted := wanted || ARRAY(SELECT DISTINCT timestamp::date FROM memory_audit_log_default);
    FOR day IN SELECT DISTINCT unnest(wanted) ORDER BY 1 LOOP
        part := 'memory_audit_log_' || to_char(day, 'YYYYMMDD');
        CONTINUE WHEN to_regclass(part) IS NOT NULL;
        LOCK TABLE memory_audit_log_default IN ACCESS EXCLUSIVE MODE;
        EXECUTE format('CREATE TABLE %I (LIKE memory_audit_log INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', part);
        EXECUTE format(
            'WITH moved AS (DELETE FROM memory_audit_log_default WHERE timestamp >= %L AND timestamp < %L RETURNING *) '
            'INSERT INTO %I SELECT * FROM moved', day, day + 1, part);
        EXECUTE format('ALTER TABLE memory_audit_log ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', part, day, day + 1);
        PERFORM close_audit_partition(part);
        made := made + 1;
    END LOOP;
    PERFORM set_config('agentmem.audit_gate', '', true);
    RETURN made;
END $$;

-- The views show these times as timestamps, which no index on the numbers serves: each user's rows are found by user and kind.
DROP INDEX idx_logs_timestamp, idx_timeline_time;

CREATE OR REPLACE VIEW conversation_logs WITH (security_invoker = true) AS
SELECT slot::bigint AS id, user_id, id AS turn_id, conversation_uuid AS conversation_id, conversation_id AS conversation,
       position AS turn_index, moment(valid_from) AS timestamp, coalesce(payload ->> 'role', 'user') AS role,
       payload ->> 'content' AS content, encode(sha256(convert_to(payload ->> 'content', 'UTF8')), 'hex') AS content_hash,
       coalesce((payload ->> 'token_count')::integer, ceil(length(payload ->> 'content') / 4.0)::integer) AS token_count,
       payload ->> 'model' AS model, channel,
       payload ->> 'speaker' AS speaker, payload ->> 'agent_id' AS agent_id,
       coalesce(payload -> 'metadata', '{}') AS metadata
FROM current_records WHERE kind = 'Turn';
