-- The word index: a tail with a row per recent record, and packed blocks per term. The block of the empty term lists
-- every record that is in blocks.

-- name: generation
SELECT generation FROM word_state WHERE user_id = :user_id;

-- name: delta_size
SELECT tail FROM word_state WHERE user_id = :user_id;

-- name: put
INSERT INTO word_tail (user_id, slot, terms) VALUES (:user_id, :ordinal, :terms)
ON CONFLICT (user_id, slot) DO UPDATE SET terms = excluded.terms;

-- name: put_new
-- `put` of a record that the index has not known, which lengthens the delta: two statements for each row.
INSERT INTO word_tail (user_id, slot, terms) VALUES (:user_id, :ordinal, :terms);
INSERT INTO word_state (user_id, tail, tokenizer) VALUES (:user_id, 1, :tokenizer)
ON CONFLICT (user_id) DO UPDATE SET tail = tail + 1, tokenizer = iif(tokenizer = excluded.tokenizer, tokenizer, '');

-- name: recount
INSERT INTO word_state (user_id, tail, generation, tokenizer)
SELECT :user_id, count(*), 1, :tokenizer FROM word_tail WHERE user_id = :user_id
ON CONFLICT (user_id) DO UPDATE SET tail = excluded.tail, generation = generation + 1,
    tokenizer = iif(tokenizer = excluded.tokenizer, tokenizer, '') RETURNING tail;

-- name: tokenizer
SELECT tokenizer FROM word_state WHERE user_id = :user_id;

-- name: set_tokenizer
UPDATE word_state SET tokenizer = :tokenizer WHERE user_id = :user_id;

-- name: delta_after
SELECT slot, terms FROM word_tail WHERE user_id = :user_id AND slot > :after ORDER BY slot;

-- name: take
DELETE FROM word_tail WHERE user_id = :user_id AND slot IN (SELECT value FROM json_each(:ordinals)) RETURNING slot;

-- name: take_delta
DELETE FROM word_tail WHERE user_id = :user_id;

-- name: blocks
SELECT b.term, b.postings FROM json_each(:terms) j CROSS JOIN word_blocks b
WHERE b.user_id = :user_id AND b.term = j.value ORDER BY j.id, b.block;

-- name: blocks_of
SELECT b.term, b.block, b.postings FROM json_each(:terms) j CROSS JOIN word_blocks b
WHERE b.user_id = :user_id AND b.term = j.value;

-- name: all_blocks
SELECT term, block, postings FROM word_blocks INDEXED BY word_blocks_term WHERE user_id = :user_id;

-- name: last_blocks
SELECT b.term, b.block, length(b.postings), CASE WHEN length(b.postings) < :full THEN b.postings END
FROM json_each(:terms) j CROSS JOIN word_blocks b
WHERE b.user_id = :user_id AND b.term = j.value
  AND b.block = (SELECT max(l.block) FROM word_blocks l WHERE l.user_id = :user_id AND l.term = j.value);

-- name: rewrite
UPDATE word_blocks SET postings = :postings WHERE user_id = :user_id AND term = :term AND block = :block;

-- name: empty
DELETE FROM word_blocks WHERE user_id = :user_id AND term = :term AND block = :block;

-- name: add
INSERT INTO word_blocks (user_id, term, block, postings) VALUES (:user_id, :term, :block, :postings);

-- name: erase_blocks
DELETE FROM word_blocks INDEXED BY word_blocks_term WHERE user_id = :user_id;
