-- Passages and their vectors. {dimensions} is an integer, put in by the code; every value is bound.

-- name: create
CREATE TABLE IF NOT EXISTS passages_{dimensions} (
    id INTEGER PRIMARY KEY AUTOINCREMENT,      -- never used twice: a cache is topped up by it
    user_id TEXT NOT NULL,
    embedder INTEGER NOT NULL,
    slot INTEGER NOT NULL,
    kind TEXT NOT NULL,
    channel TEXT NOT NULL,
    grain TEXT NOT NULL CHECK (grain IN ('whole', 'sentence')),
    part INTEGER NOT NULL,
    start INTEGER NOT NULL,
    "end" INTEGER NOT NULL,
    asks INTEGER NOT NULL DEFAULT 0,
    vector BLOB NOT NULL                       -- float16, little-endian
) STRICT;
CREATE UNIQUE INDEX IF NOT EXISTS passages_{dimensions}_slot
    ON passages_{dimensions} (user_id, embedder, slot, grain, part);
CREATE INDEX IF NOT EXISTS passages_{dimensions}_id ON passages_{dimensions} (user_id, embedder);
CREATE VIEW IF NOT EXISTS memories_{dimensions} AS
SELECT r.id AS id, r.user_id AS user_id, r.payload ->> 'session_id' AS session_id,
       coalesce(r.payload ->> 'content', r.payload ->> 'claim', r.payload ->> 'name', r.payload ->> 'description') AS content,
       p.vector AS embedding, coalesce(r.payload ->> 'memory_type', lower(r.kind)) AS memory_type,
       coalesce(r.payload ->> 'importance', r.payload ->> 'salience', 0.5) AS importance,
       strftime('%Y-%m-%dT%H:%M:%fZ', r.recorded_at / 1000000.0, 'unixepoch') AS created_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', u.last_accessed / 1000000.0, 'unixepoch') AS accessed_at,
       coalesce(u.access_count, 0) AS access_count, r.channel AS channel, e.identity AS embedder
FROM passages_{dimensions} p
JOIN current_records r ON r.user_id = p.user_id AND r.slot = p.slot
JOIN embedders e ON e.number = p.embedder
LEFT JOIN memory_usage u ON u.user_id = r.user_id AND u.kind = r.kind AND u.id = r.id
WHERE p.grain = 'whole' AND p.part = 0;

-- name: embedder
SELECT number, dimensions, added_at FROM embedders WHERE identity = :identity;

-- name: embedders
SELECT identity, number, dimensions FROM embedders ORDER BY number;

-- name: register
INSERT INTO embedders (identity, number, dimensions, added_at)
SELECT :identity, coalesce(max(number), 0) + 1, :dimensions, CAST(unixepoch('subsec') * 1000000 AS INTEGER) FROM embedders;

-- name: drop_passages
DELETE FROM passages_{dimensions} WHERE embedder = :embedder;

-- name: drop_tokens
DELETE FROM passage_tokens WHERE embedder = :embedder;

-- name: drop_embedder
DELETE FROM embedders WHERE identity = :identity;

-- name: reset_all
UPDATE projection_watermarks SET seq = 0, generation = generation + 1 WHERE projection = :projection;

-- name: state
SELECT generation, seq FROM projection_watermarks WHERE projection = :projection AND user_id = :user_id;

-- name: advance
INSERT INTO projection_watermarks (projection, user_id, seq, generation) VALUES (:projection, :user_id, :seq, :removed)
ON CONFLICT (projection, user_id) DO UPDATE SET seq = excluded.seq, generation = generation + excluded.generation;

-- name: reset
INSERT INTO projection_watermarks (projection, user_id, seq, generation) VALUES (:projection, :user_id, 0, 1)
ON CONFLICT (projection, user_id) DO UPDATE SET seq = 0, generation = generation + 1;

-- name: removed
UPDATE projection_watermarks SET generation = generation + 1 WHERE projection = :projection AND user_id = :user_id;

-- name: insert
-- What is there stays, since a record's text is the same in all its versions; what was erased meanwhile stays out.
INSERT INTO passages_{dimensions} (user_id, embedder, slot, kind, channel, grain, part, start, "end", asks, vector)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11
WHERE NOT EXISTS (SELECT 1 FROM memory_versions v WHERE v.user_id = ?1 AND v.slot = ?3 AND v.erased = 1)
ON CONFLICT (user_id, embedder, slot, grain, part) DO NOTHING;

-- name: insert_tokens
INSERT INTO passage_tokens (user_id, embedder, slot, ids, vectors) SELECT ?1, ?2, ?3, ?4, ?5
WHERE NOT EXISTS (SELECT 1 FROM memory_versions v WHERE v.user_id = ?1 AND v.slot = ?3 AND v.erased = 1)
ON CONFLICT (user_id, embedder, slot) DO UPDATE SET ids = excluded.ids, vectors = excluded.vectors;

-- name: remove
DELETE FROM passages_{dimensions}
WHERE user_id = :user_id AND embedder = :embedder AND slot IN (SELECT value FROM json_each(:slots)) RETURNING id;

-- name: remove_tokens
DELETE FROM passage_tokens
WHERE user_id = :user_id AND embedder = :embedder AND slot IN (SELECT value FROM json_each(:slots));

-- name: remove_user
DELETE FROM passages_{dimensions} WHERE user_id = :user_id AND embedder = :embedder;

-- name: remove_user_tokens
DELETE FROM passage_tokens WHERE user_id = :user_id AND embedder = :embedder;

-- name: counts
SELECT grain, count(*) FROM passages_{dimensions} INDEXED BY passages_{dimensions}_slot
WHERE user_id = :user_id AND embedder = :embedder GROUP BY grain;

-- name: passages_after
SELECT id, slot, part, asks, grain = 'whole', kind, channel, vector FROM passages_{dimensions} INDEXED BY passages_{dimensions}_id
WHERE user_id = :user_id AND embedder = :embedder AND id > :after ORDER BY id;

-- name: ids
SELECT id FROM passages_{dimensions} INDEXED BY passages_{dimensions}_id
WHERE user_id = :user_id AND embedder = :embedder ORDER BY id;

-- name: by_id
SELECT p.id, p.vector FROM json_each(:ids) j CROSS JOIN passages_{dimensions} p
WHERE p.id = j.value AND p.user_id = :user_id AND p.embedder = :embedder ORDER BY p.id;

-- name: whole_of
SELECT p.slot, p.vector FROM json_each(:slots) j CROSS JOIN passages_{dimensions} p
WHERE p.user_id = :user_id AND p.embedder = :embedder AND p.slot = j.value AND p.grain = 'whole' AND p.part = 0
ORDER BY p.slot;

-- name: tokens
SELECT t.slot, t.ids, t.vectors FROM json_each(:slots) j CROSS JOIN passage_tokens t
WHERE t.user_id = :user_id AND t.embedder = :embedder AND t.slot = j.value;
