-- What the worker needs to run in proportion to what changed, and receipts that outlive the process.

-- How a recall was answered; kept at the audit levels that keep queries.
CREATE TABLE receipts (
    user_id TEXT COLLATE "C" NOT NULL,
    id TEXT COLLATE "C" NOT NULL,
    at BIGINT NOT NULL,
    receipt TEXT NOT NULL,                 -- JSON
    PRIMARY KEY (user_id, id)
);
CREATE INDEX receipts_at ON receipts USING BRIN (at);

-- Where each job stands with each user. `seq` is the journal position it has looked at, `due_at` when it looks again.
CREATE TABLE job_states (
    user_id TEXT COLLATE "C" NOT NULL,
    job TEXT COLLATE "C" NOT NULL,
    seq BIGINT NOT NULL DEFAULT 0,
    due_at BIGINT,
    attempts INTEGER NOT NULL DEFAULT 0,   -- runs that failed, one after the other
    at BIGINT,                             -- the last run
    report TEXT NOT NULL DEFAULT '{}',     -- JSON: counts and durations of the last run, no text of the user's
    PRIMARY KEY (user_id, job)
);
CREATE INDEX job_states_due ON job_states (job, due_at) WHERE due_at IS NOT NULL;

-- Which records cross a threshold, by an index. Who wrote lately is found by memory_changes_time.
ALTER TABLE memory_usage ADD COLUMN due_for TEXT COLLATE "C" NOT NULL DEFAULT '';
CREATE INDEX memory_usage_due ON memory_usage (due_for, due_at) WHERE due_at IS NOT NULL;

-- What fades, as of now: facts and entities with the values that recall would use, by the default numbers of decay.
CREATE VIEW current_memory WITH (security_invoker = true) AS
SELECT user_id, kind, id, channel, status, tier, text, salience,
       CASE WHEN kind = 'Entity' AND days >= 1 THEN salience * power(0.95::float8, days) ELSE salience END AS salience_now,
       confidence,
       CASE WHEN inferred AND days >= 7 THEN confidence * power(0.95::float8, days / 7) ELSE confidence END AS confidence_now,
       CASE WHEN tier = 'short' THEN power(use_count + 1::float8, 0.6) * exp(-ln(2::float8) * days / 3) * strength END
           AS score_now,
       0.3 * exp(-ln(2::float8) * age / 30) + 0.3 * least(1, ln(access_count + 1::float8) / ln(101::float8)) + 0.4 * importance
           AS importance_now,
       access_count, use_count, strength, moment(last_accessed) AS last_accessed, moment(due_at) AS due_at, due_for
FROM (
    SELECT r.user_id, r.kind, r.id, r.channel, r.status,
           CASE WHEN r.kind = 'Fact' THEN coalesce(r.payload ->> 'tier', 'long') END AS tier,
           coalesce(r.payload ->> 'claim', r.payload ->> 'name') AS text,
           coalesce((r.payload ->> 'salience')::float8, 0.5) AS salience,
           CASE WHEN r.kind = 'Fact' THEN coalesce((r.payload ->> 'confidence')::float8, 0.8) END AS confidence,
           coalesce(r.payload ->> 'certainty', '') IN ('inferred', 'uncertain')
               OR coalesce(r.payload ->> 'source', '') = 'inferred' AS inferred,
           coalesce((r.payload ->> 'importance')::float8, 0.5) AS importance, coalesce(u.access_count, 0) AS access_count,
           coalesce(u.use_count, 0) AS use_count, coalesce(u.strength, 1) AS strength, u.last_accessed, u.due_at,
           coalesce(u.due_for, '') AS due_for,
           greatest(0, extract(epoch FROM now())::float8 / 86400 - coalesce(u.last_accessed, r.recorded_at) / 86400000000.0::float8)
               AS days,
           greatest(0, extract(epoch FROM now())::float8 / 86400 - r.recorded_at / 86400000000.0::float8) AS age
    FROM current_records r LEFT JOIN memory_usage u ON u.user_id = r.user_id AND u.kind = r.kind AND u.id = r.id
    WHERE r.kind IN ('Fact', 'Entity') AND r.superseded_at IS NULL) AS seen;

DO $$
DECLARE
    reader TEXT;
BEGIN
    FOR reader IN SELECT rolname FROM pg_roles WHERE rolname IN ('agentmem_app', 'agentmem_worker') LOOP
        EXECUTE format('GRANT SELECT ON current_memory TO %I', reader);
    END LOOP;
END $$;

-- What was stored before records were due for anything is looked at once. Walls stand in the owner's way, too.
ALTER TABLE memory_usage NO FORCE ROW LEVEL SECURITY;
ALTER TABLE memory_records NO FORCE ROW LEVEL SECURITY;
ALTER TABLE memory_versions NO FORCE ROW LEVEL SECURITY;
INSERT INTO memory_usage (user_id, kind, id, due_at, due_for)
SELECT r.user_id, r.kind, r.id, r.recorded_at, 'decay' FROM memory_records r
JOIN memory_versions v ON v.user_id = r.user_id AND v.slot = r.slot AND v.seq = r.seq
WHERE r.status = 'active' AND r.superseded_at IS NULL
  AND (r.kind IN ('Entity', 'Conversation') OR r.kind = 'Fact' AND v.payload::json ->> 'tier' = 'short')
ON CONFLICT (user_id, kind, id) DO UPDATE SET due_at = excluded.due_at, due_for = excluded.due_for;
ALTER TABLE memory_usage FORCE ROW LEVEL SECURITY;
ALTER TABLE memory_records FORCE ROW LEVEL SECURITY;
ALTER TABLE memory_versions FORCE ROW LEVEL SECURITY;

SELECT wall_off(name) FROM unnest(ARRAY['receipts', 'job_states']) AS name;

DO $$
DECLARE
    operator TEXT := CASE WHEN EXISTS (SELECT FROM pg_roles WHERE rolname = 'agentmem_worker')
                          THEN 'agentmem_worker' ELSE 'CURRENT_USER' END;
BEGIN
    EXECUTE format('CREATE POLICY operator_forgets ON receipts FOR DELETE TO %s '
                   'USING (current_setting(''agentmem.operator'', true) = ''on'')', operator);
END $$;

-- The documents' profiles, with the summary of the user in sentences: one of them for each channel that has one.
CREATE OR REPLACE VIEW user_profiles WITH (security_invoker = true) AS
SELECT user_id, moment(recorded_at) AS created_at, (payload ->> 'updated_at')::timestamptz AS updated_at,
       coalesce(payload -> 'preferences', '{}') AS preferences, coalesce(payload -> 'expertise_areas', '[]') AS expertise_areas,
       coalesce(payload -> 'communication_style', '{}') AS communication_style, coalesce(payload -> 'metadata', '{}') AS metadata,
       (SELECT jsonb_object_agg(s.channel, jsonb_build_object(
                   'identity', s.payload -> 'identity' -> 'sentences', 'context', s.payload -> 'context' -> 'sentences'))
        FROM current_records s
        WHERE s.user_id = u.user_id AND s.kind = 'Synopsis' AND s.superseded_at IS NULL) AS synopsis
FROM (SELECT user_id, recorded_at, payload FROM current_records WHERE kind = 'User'
      UNION ALL
      SELECT k.user_id, min(k.recorded_at), '{}'::jsonb FROM current_records k
      WHERE k.kind = 'Synopsis' AND NOT EXISTS (
          SELECT FROM memory_records r WHERE r.user_id = k.user_id AND r.kind = 'User')
      GROUP BY k.user_id) u;
