-- Passages and their vectors. {dimensions} is an integer, put in by the code; every value is bound.
-- No statement orders by a distance: so none can be answered from an index over vectors, which would filter afterwards.

-- name: known
SELECT e.number, e.dimensions, to_regclass('passages_{dimensions}') IS NOT NULL FROM (SELECT) one
LEFT JOIN embedders e ON e.user_id = '_system' AND e.identity = %(identity)s;

-- name: no_new
-- An erasure goes through all embedders: until it is done, none is added that would still be given what it erases.
SELECT pg_advisory_xact_lock_shared(hashtextextended('agentmem embedders', 0));

-- name: alone
SELECT pg_advisory_xact_lock(hashtextextended('agentmem embedders', 0));

-- name: register
SELECT register_embedder(%(identity)s, %(dimensions)s);

-- name: embedders
SELECT identity, number, dimensions FROM embedders ORDER BY number;

-- name: drop_embedder
SELECT drop_embedder(%(identity)s);

-- name: holders
SELECT user_id FROM projection_watermarks WHERE projection = %(projection)s ORDER BY user_id;

-- name: state
SELECT e.number, e.added_at, coalesce(w.generation, 0), coalesce(w.seq, 0)
FROM embedders e LEFT JOIN projection_watermarks w ON w.user_id = %(user_id)s AND w.projection = %(projection)s
WHERE e.user_id = '_system' AND e.identity = %(identity)s;

-- name: kept
-- While somebody writes vectors of an embedder, it is not taken out.
SELECT pg_advisory_xact_lock_shared(hashtextextended(%(projection)s, 0));

-- name: unused
SELECT pg_advisory_xact_lock(hashtextextended(%(projection)s, 0));

-- name: begin
INSERT INTO projection_watermarks (user_id, projection, seq) VALUES (%(user_id)s, %(projection)s, 0)
ON CONFLICT (user_id, projection) DO NOTHING;

-- name: locked
-- Whoever writes a user's passages holds this row first: so ids grow in the order of commits, and an erasure sees them.
SELECT w.generation, w.seq, e.number
FROM projection_watermarks w LEFT JOIN embedders e ON e.user_id = '_system' AND e.identity = %(identity)s
WHERE w.user_id = %(user_id)s AND w.projection = %(projection)s FOR UPDATE OF w;

-- name: hold
-- Before `put` where the user's lock is not held: `put` then sees what an erasure did that this waited for.
SELECT 1 FROM projection_watermarks WHERE user_id = %(user_id)s AND projection = %(projection)s FOR UPDATE;

-- name: put
-- All that a small batch changes, as `insert` and `advance` do it; nothing when the vectors stand elsewhere, or when
-- somebody else is writing them: an append does not wait for that. Held before ids are given out, as by `locked`.
WITH held AS MATERIALIZED (
    SELECT e.number FROM projection_watermarks w JOIN embedders e ON e.user_id = '_system' AND e.identity = %(identity)s
    WHERE w.user_id = %(user_id)s AND w.projection = %(projection)s AND w.seq = %(after)s
    FOR UPDATE OF w SKIP LOCKED
), put AS (
{passages}
)
UPDATE projection_watermarks SET seq = %(through)s FROM held
WHERE user_id = %(user_id)s AND projection = %(projection)s RETURNING seq;

-- name: advance
UPDATE projection_watermarks SET seq = %(seq)s WHERE user_id = %(user_id)s AND projection = %(projection)s;

-- name: removed
INSERT INTO projection_watermarks (user_id, projection, seq, generation) VALUES (%(user_id)s, %(projection)s, 0, 1)
ON CONFLICT (user_id, projection) DO UPDATE SET generation = projection_watermarks.generation + 1;

-- name: reset
INSERT INTO projection_watermarks (user_id, projection, seq, generation) VALUES (%(user_id)s, %(projection)s, 0, 1)
ON CONFLICT (user_id, projection) DO UPDATE SET seq = 0, generation = projection_watermarks.generation + 1;

-- name: insert
WITH held AS (SELECT %(embedder)s::int AS number)
{passages};

-- name: passages
-- The part that `insert` and `put` share.
-- What is there stays, since a record's text is the same in all its versions; what was erased meanwhile stays out.
INSERT INTO passages_{dimensions} (user_id, embedder, slot, part, start, "end", asks, kind, channel, grain, vector)
SELECT %(user_id)s, held.number, n.*
FROM held CROSS JOIN
     unnest(%(slots)s::int[], %(parts)s::int[], %(starts)s::int[], %(ends)s::int[], %(asks)s::boolean[],
            %(kinds)s::text[], %(channels)s::text[], %(grains)s::text[], %(vectors)s::halfvec[]) AS n (slot)
WHERE (SELECT count(*) FROM memory_versions v WHERE v.user_id = %(user_id)s AND v.slot = n.slot AND v.erased) = 0
ON CONFLICT (user_id, embedder, slot, grain, part) DO NOTHING;

-- name: insert_tokens
INSERT INTO passage_tokens (user_id, embedder, slot, ids, vectors)
SELECT %(user_id)s, %(embedder)s, n.* FROM unnest(%(slots)s::int[], %(ids)s::bytea[], %(vectors)s::bytea[]) AS n (slot)
WHERE (SELECT count(*) FROM memory_versions v WHERE v.user_id = %(user_id)s AND v.slot = n.slot AND v.erased) = 0
ON CONFLICT (user_id, embedder, slot) DO UPDATE SET ids = excluded.ids, vectors = excluded.vectors;

-- name: remove
WITH gone AS (
    DELETE FROM passages_{dimensions}
    WHERE user_id = %(user_id)s AND embedder = %(embedder)s AND slot = ANY(%(slots)s::int[]) RETURNING id
), counted AS (
    UPDATE projection_watermarks SET generation = generation + 1
    WHERE user_id = %(user_id)s AND projection = %(projection)s AND EXISTS (SELECT FROM gone)
)
SELECT id FROM gone;

-- name: remove_tokens
DELETE FROM passage_tokens
WHERE user_id = %(user_id)s AND embedder = %(embedder)s AND slot = ANY(%(slots)s::int[]);

-- name: remove_user
WITH gone AS (
    DELETE FROM passages_{dimensions} WHERE user_id = %(user_id)s AND embedder = %(embedder)s RETURNING id
)
SELECT count(*) FROM gone;

-- name: remove_user_tokens
DELETE FROM passage_tokens WHERE user_id = %(user_id)s AND embedder = %(embedder)s;

-- name: count
SELECT count(*) FROM (
    SELECT FROM passages_{dimensions} WHERE user_id = %(user_id)s AND embedder = %(embedder)s LIMIT %(most)s
) counted;

-- name: passages_after
SELECT id, slot, part, asks, grain = 'whole', kind, channel, halfvec_send(vector) FROM passages_{dimensions}
WHERE user_id = %(user_id)s AND embedder = %(embedder)s AND id > %(after)s ORDER BY id LIMIT {rows};

-- name: ids
SELECT string_agg(int8send(id), '' ORDER BY id) FROM passages_{dimensions}
WHERE user_id = %(user_id)s AND embedder = %(embedder)s;

-- name: cosines
-- Columns as they are sent, because a row each would cost more than the cosines. A vector of zeros has none.
SELECT string_agg(int4send(slot), ''), string_agg(int4send(part), ''), string_agg(boolsend(asks), ''),
       string_agg(boolsend(grain = 'whole'), ''),
       string_agg(int2send(round(%(units)s * coalesce(nullif(1 - (vector <=> %(query)s::halfvec), 'NaN'), 0))::int2), '')
FROM passages_{dimensions}
WHERE user_id = %(user_id)s AND embedder = %(embedder)s AND channel = ANY(%(channels)s::text[])
  AND (%(kinds)s::text[] IS NULL OR kind = ANY(%(kinds)s::text[]));

-- name: whole_of
SELECT slot, halfvec_send(vector) FROM passages_{dimensions}
WHERE user_id = %(user_id)s AND embedder = %(embedder)s AND slot = ANY(%(slots)s::int[]) AND grain = 'whole' AND part = 0
ORDER BY slot;

-- name: tokens
SELECT slot, ids, vectors FROM passage_tokens
WHERE user_id = %(user_id)s AND embedder = %(embedder)s AND slot = ANY(%(slots)s::int[]);
