-- What the worker needs to run in proportion to what changed, and receipts that outlive the process.

-- How a recall was answered; kept at the audit levels that keep queries.
CREATE TABLE receipts (
    user_id TEXT NOT NULL,
    id TEXT NOT NULL,
    at INTEGER NOT NULL,
    receipt TEXT NOT NULL,                 -- JSON
    PRIMARY KEY (user_id, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX receipts_at ON receipts (at);

-- Where each job stands with each user. `seq` is the journal position it has looked at, `due_at` when it looks again.
CREATE TABLE job_states (
    user_id TEXT NOT NULL,
    job TEXT NOT NULL,
    seq INTEGER NOT NULL DEFAULT 0,
    due_at INTEGER,
    attempts INTEGER NOT NULL DEFAULT 0,   -- runs that failed, one after the other
    at INTEGER,                            -- the last run
    report TEXT NOT NULL DEFAULT '{}',     -- JSON: counts and durations of the last run, no text of the user's
    PRIMARY KEY (user_id, job)
) STRICT, WITHOUT ROWID;
CREATE INDEX job_states_due ON job_states (job, due_at) WHERE due_at IS NOT NULL;

-- Who wrote lately, and which records cross a threshold, each by an index.
CREATE INDEX memory_users_last_at ON memory_users (last_at);
ALTER TABLE memory_usage ADD COLUMN due_for TEXT NOT NULL DEFAULT '';
CREATE INDEX memory_usage_due ON memory_usage (due_for, due_at) WHERE due_at IS NOT NULL;

-- What fades, as of now: facts and entities with the values that recall would use, by the default numbers of decay.
CREATE VIEW current_memory AS
SELECT user_id, kind, id, channel, status, tier, text, salience,
       iif(kind = 'Entity' AND days >= 1.0, salience * pow(0.95, days), salience) AS salience_now, confidence,
       iif(inferred AND days >= 7.0, confidence * pow(0.95, days / 7.0), confidence) AS confidence_now,
       iif(tier = 'short', pow(use_count + 1, 0.6) * exp(-ln(2.0) * days / 3.0) * strength, NULL) AS score_now,
       0.3 * exp(-ln(2.0) * age / 30.0) + 0.3 * min(1.0, ln(access_count + 1) / ln(101.0)) + 0.4 * importance AS importance_now,
       access_count, use_count, strength,
       strftime('%Y-%m-%dT%H:%M:%fZ', last_accessed / 1000000.0, 'unixepoch') AS last_accessed,
       strftime('%Y-%m-%dT%H:%M:%fZ', due_at / 1000000.0, 'unixepoch') AS due_at, due_for
FROM (
    SELECT r.user_id, r.kind, r.id, r.channel, r.status,
           iif(r.kind = 'Fact', coalesce(r.payload ->> 'tier', 'long'), NULL) AS tier,
           coalesce(r.payload ->> 'claim', r.payload ->> 'name') AS text,
           coalesce(r.payload ->> 'salience', 0.5) AS salience,
           iif(r.kind = 'Fact', coalesce(r.payload ->> 'confidence', 0.8), NULL) AS confidence,
           coalesce(r.payload ->> 'certainty' IN ('inferred', 'uncertain'), 0)
               OR coalesce(r.payload ->> 'source' = 'inferred', 0) AS inferred,
           coalesce(r.payload ->> 'importance', 0.5) AS importance, coalesce(u.access_count, 0) AS access_count,
           coalesce(u.use_count, 0) AS use_count, coalesce(u.strength, 1.0) AS strength, u.last_accessed, u.due_at,
           coalesce(u.due_for, '') AS due_for,
           max(0.0, julianday('now') - 2440587.5 - coalesce(u.last_accessed, r.recorded_at) / 86400000000.0) AS days,
           max(0.0, julianday('now') - 2440587.5 - r.recorded_at / 86400000000.0) AS age
    FROM current_records r LEFT JOIN memory_usage u ON u.user_id = r.user_id AND u.kind = r.kind AND u.id = r.id
    WHERE r.kind IN ('Fact', 'Entity') AND r.superseded_at IS NULL);

-- What was stored before records were due for anything is looked at once.
INSERT INTO memory_usage (user_id, kind, id, conversations, due_at, due_for)
SELECT user_id, kind, id, json_array(), recorded_at, 'decay' FROM current_records
WHERE status = 'active' AND superseded_at IS NULL
  AND (kind IN ('Entity', 'Conversation') OR kind = 'Fact' AND payload ->> 'tier' = 'short')
ON CONFLICT (user_id, kind, id) DO UPDATE SET due_at = excluded.due_at, due_for = excluded.due_for;

-- The documents' profiles, with the summary of the user in sentences: one of them for each channel that has one.
DROP VIEW user_profiles;
CREATE VIEW user_profiles AS
SELECT user_id,
       strftime('%Y-%m-%dT%H:%M:%fZ', recorded_at / 1000000.0, 'unixepoch') AS created_at,
       payload ->> 'updated_at' AS updated_at, coalesce(payload -> 'preferences', '{}') AS preferences,
       coalesce(payload -> 'expertise_areas', '[]') AS expertise_areas,
       coalesce(payload -> 'communication_style', '{}') AS communication_style,
       coalesce(payload -> 'metadata', '{}') AS metadata,
       (SELECT json_group_object(s.channel, json_object(
                   'identity', json(s.payload -> '$.identity.sentences'), 'context', json(s.payload -> '$.context.sentences')))
        FROM current_records s
        WHERE s.user_id = u.user_id AND s.kind = 'Synopsis' AND s.superseded_at IS NULL) AS synopsis
FROM (SELECT user_id, recorded_at, payload FROM current_records WHERE kind = 'User'
      UNION ALL
      SELECT user_id, min(recorded_at), '{}' FROM current_records k
      WHERE kind = 'Synopsis' AND NOT EXISTS (
          SELECT 1 FROM memory_records r WHERE r.user_id = k.user_id AND r.kind = 'User')
      GROUP BY user_id) u;
