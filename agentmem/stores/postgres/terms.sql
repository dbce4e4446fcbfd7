-- The word index: a tail with a row per recent record, and packed blocks per term. The block of the empty term lists
-- every record that is in blocks.

-- name: put
INSERT INTO word_tail (user_id, slot, terms)
SELECT %(user_id)s, * FROM unnest(%(ordinal)s::integer[], %(terms)s::text[]::jsonb[])
ON CONFLICT (user_id, slot) DO UPDATE SET terms = excluded.terms

-- name: put_new
-- `put` of records that the index has not known, which lengthen the tail.
WITH put AS (
    INSERT INTO word_tail (user_id, slot, terms)
    SELECT %(user_id)s, * FROM unnest(%(ordinal)s::integer[], %(terms)s::text[]::jsonb[])
)
INSERT INTO word_state (user_id, tail, tokenizer)
VALUES (%(user_id)s, cardinality(%(ordinal)s::integer[]), %(tokenizer)s)
ON CONFLICT (user_id) DO UPDATE SET tail = word_state.tail + excluded.tail,
    tokenizer = CASE WHEN word_state.tokenizer = excluded.tokenizer THEN excluded.tokenizer ELSE '' END

-- name: recount
INSERT INTO word_state (user_id, tail, generation, tokenizer)
SELECT %(user_id)s, count(*), 1, %(tokenizer)s FROM word_tail WHERE user_id = %(user_id)s
ON CONFLICT (user_id) DO UPDATE SET tail = excluded.tail, generation = word_state.generation + 1,
    tokenizer = CASE WHEN word_state.tokenizer = excluded.tokenizer THEN excluded.tokenizer ELSE '' END
RETURNING tail

-- name: delta_after
SELECT slot, terms FROM word_tail WHERE user_id = %(user_id)s AND slot > %(after)s ORDER BY slot

-- name: matching
-- What the terms match, at one go: packed blocks (0), matches in the tail (1), and all that the tail lists (2). Columns as
-- they are sent, because a row each would cost more than to find them.
SELECT 0 AS part, term, block, postings, NULL::bytea FROM word_blocks
WHERE user_id = %(user_id)s AND term = ANY(%(terms)s::text[])
UNION ALL
SELECT 1, j.term, 0, string_agg(int4send(t.slot), '' ORDER BY t.slot),
       string_agg(int4send((t.terms ->> j.term)::integer), '' ORDER BY t.slot)
FROM (SELECT slot, terms FROM word_tail WHERE user_id = %(user_id)s AND terms ?| %(terms)s::text[]) t
JOIN unnest(%(terms)s::text[]) AS j(term) ON t.terms ? j.term
GROUP BY j.term
UNION ALL
SELECT 2, '', 0, string_agg(int4send(slot), '' ORDER BY slot), NULL FROM word_tail WHERE user_id = %(user_id)s
ORDER BY part, term, block

-- name: take
DELETE FROM word_tail WHERE user_id = %(user_id)s AND slot = ANY(%(ordinals)s::integer[]) RETURNING slot

-- name: tokenizer
SELECT tokenizer FROM word_state WHERE user_id = %(user_id)s

-- name: set_tokenizer
UPDATE word_state SET tokenizer = %(tokenizer)s WHERE user_id = %(user_id)s

-- name: take_delta
DELETE FROM word_tail WHERE user_id = %(user_id)s

-- name: blocks
SELECT term, postings FROM word_blocks WHERE user_id = %(user_id)s AND term = ANY(%(terms)s::text[]) ORDER BY term, block

-- name: blocks_of
SELECT term, block, postings FROM word_blocks WHERE user_id = %(user_id)s AND term = ANY(%(terms)s::text[])

-- name: all_blocks
SELECT term, block, postings FROM word_blocks WHERE user_id = %(user_id)s

-- name: last_blocks
SELECT b.term, b.block, length(b.postings), CASE WHEN length(b.postings) < %(full)s THEN b.postings END
FROM unnest(%(terms)s::text[]) AS j(term)
CROSS JOIN LATERAL (
    SELECT * FROM word_blocks w WHERE w.user_id = %(user_id)s AND w.term = j.term ORDER BY w.block DESC LIMIT 1) b

-- name: rewrite
UPDATE word_blocks w SET postings = j.postings
FROM unnest(%(term)s::text[], %(block)s::integer[], %(postings)s::bytea[]) AS j(term, block, postings)
WHERE w.user_id = %(user_id)s AND w.term = j.term AND w.block = j.block

-- name: empty
DELETE FROM word_blocks w USING unnest(%(term)s::text[], %(block)s::integer[]) AS j(term, block)
WHERE w.user_id = %(user_id)s AND w.term = j.term AND w.block = j.block

-- name: add
INSERT INTO word_blocks (user_id, term, block, postings)
SELECT %(user_id)s, * FROM unnest(%(term)s::text[], %(block)s::integer[], %(postings)s::bytea[])

-- name: erase_blocks
DELETE FROM word_blocks WHERE user_id = %(user_id)s
