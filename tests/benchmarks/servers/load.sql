-- One user's data again under other names: of every table that a user has rows in, the audit log excepted. Slots and ids
-- stay, because both belong to their user. The rows of those users lie mixed, as they do when all of them write.

-- name: memory_users
INSERT INTO memory_users (user_id, head, slots, erasures, last_at)
SELECT u.name, t.head, t.slots, t.erasures, t.last_at
FROM memory_users t, unnest(%(users)s::text[]) AS u(name) WHERE t.user_id = %(template)s;

-- name: memory_changes
INSERT INTO memory_changes (user_id, seq, change_id, operation_id, operation, actor, cause, payload, at)
SELECT u.name, t.seq, t.change_id, t.operation_id, t.operation, t.actor, t.cause, t.payload, t.at
FROM memory_changes t, unnest(%(users)s::text[]) AS u(name) WHERE t.user_id = %(template)s ORDER BY t.seq, u.name;

-- name: memory_versions
INSERT INTO memory_versions (user_id, slot, seq, part, kind, id, channel, recorded_at, format, payload, erased)
SELECT u.name, t.slot, t.seq, t.part, t.kind, t.id, t.channel, t.recorded_at, t.format, t.payload, t.erased
FROM memory_versions t, unnest(%(users)s::text[]) AS u(name) WHERE t.user_id = %(template)s
ORDER BY t.seq, u.name, t.part;

-- name: memory_records
INSERT INTO memory_records (user_id, slot, seq, kind, id, channel, status, conversation_id, conversation_uuid, position,
    speaker, valid_from, valid_to, recorded_at, superseded_at, words, length, asks, salience, confidence, unique_key)
SELECT u.name, t.slot, t.seq, t.kind, t.id, t.channel, t.status, t.conversation_id, t.conversation_uuid, t.position,
    t.speaker, t.valid_from, t.valid_to, t.recorded_at, t.superseded_at, t.words, t.length, t.asks, t.salience,
    t.confidence, t.unique_key
FROM memory_records t, unnest(%(users)s::text[]) AS u(name) WHERE t.user_id = %(template)s ORDER BY t.slot, u.name;

-- name: memory_usage
INSERT INTO memory_usage (user_id, kind, id, access_count, use_count, last_accessed, strength, conversations,
    review_priority, last_review_at, review_count, cross_domain_count, due_at)
SELECT u.name, t.kind, t.id, t.access_count, t.use_count, t.last_accessed, t.strength, t.conversations,
    t.review_priority, t.last_review_at, t.review_count, t.cross_domain_count, t.due_at
FROM memory_usage t, unnest(%(users)s::text[]) AS u(name) WHERE t.user_id = %(template)s;

-- name: usage_receipts
INSERT INTO usage_receipts (user_id, receipt_id, used, at, slots)
SELECT u.name, t.receipt_id, t.used, t.at, t.slots
FROM usage_receipts t, unnest(%(users)s::text[]) AS u(name) WHERE t.user_id = %(template)s;

-- name: word_tail
INSERT INTO word_tail (user_id, slot, terms)
SELECT u.name, t.slot, t.terms
FROM word_tail t, unnest(%(users)s::text[]) AS u(name) WHERE t.user_id = %(template)s ORDER BY t.slot, u.name;

-- name: word_blocks
INSERT INTO word_blocks (user_id, term, block, postings)
SELECT u.name, t.term, t.block, t.postings
FROM word_blocks t, unnest(%(users)s::text[]) AS u(name) WHERE t.user_id = %(template)s;

-- name: word_state
INSERT INTO word_state (user_id, tail, generation)
SELECT u.name, t.tail, t.generation
FROM word_state t, unnest(%(users)s::text[]) AS u(name) WHERE t.user_id = %(template)s;

-- name: projection_watermarks
INSERT INTO projection_watermarks (user_id, projection, seq, generation)
SELECT u.name, t.projection, t.seq, t.generation
FROM projection_watermarks t, unnest(%(users)s::text[]) AS u(name) WHERE t.user_id = %(template)s;

-- name: passages
-- {dimensions} is an integer, put in by the code. The ids are given anew.
INSERT INTO passages_{dimensions} (user_id, embedder, slot, part, start, "end", asks, kind, channel, grain, vector)
SELECT u.name, t.embedder, t.slot, t.part, t.start, t."end", t.asks, t.kind, t.channel, t.grain, t.vector
FROM passages_{dimensions} t, unnest(%(users)s::text[]) AS u(name) WHERE t.user_id = %(template)s ORDER BY t.id, u.name;

-- name: quick
-- For the load alone: what a lost machine would take with it is loaded again.
SELECT set_config('synchronous_commit', 'off', false), set_config('work_mem', '256MB', false);

-- name: count
SELECT count(*) FROM passages_{dimensions};

-- name: tidy
VACUUM (ANALYZE);

-- name: size
SELECT pg_database_size(current_database());

-- name: vectors
SELECT slot, halfvec_send(vector) FROM passages_{dimensions} WHERE user_id = %(user)s AND grain = 'whole' ORDER BY slot;
