-- Looking after a database: words anew, embedders in and out, what there is of a user.

-- name: last_images
SELECT DISTINCT ON (slot) slot, kind, payload, id, channel, recorded_at, seq FROM memory_versions
WHERE user_id = %(user_id)s AND seq > %(after)s AND payload IS NOT NULL ORDER BY slot, seq DESC

-- name: drop_dead_letters
WITH gone AS (DELETE FROM parked_changes WHERE user_id = %(user_id)s AND projection = %(projection)s RETURNING 1)
SELECT count(*) FROM gone

-- name: lagging_projections
SELECT u.user_id, p.name, u.head - coalesce(w.seq, 0) AS behind
FROM unnest(%(projections)s::text[]) AS p(name) CROSS JOIN memory_users u
LEFT JOIN projection_watermarks w ON w.projection = p.name AND w.user_id = u.user_id
WHERE u.head <> coalesce(w.seq, 0) ORDER BY behind DESC, p.name COLLATE "C", u.user_id LIMIT %(limit)s

-- name: heads
SELECT user_id, head FROM memory_users WHERE user_id > %(after)s AND head > 0 ORDER BY user_id LIMIT %(limit)s

-- name: heads_of
SELECT user_id, head FROM memory_users
WHERE user_id = ANY(%(users)s::text[]) AND user_id > %(after)s AND head > 0 ORDER BY user_id LIMIT %(limit)s

-- name: operations_at
SELECT c.user_id, c.operation_id FROM unnest(%(users)s::text[], %(seqs)s::bigint[]) AS j(user_id, seq)
JOIN memory_changes c ON c.user_id = j.user_id AND c.seq = j.seq

-- name: tombstones
SELECT v.kind, v.id, max(c.at) FROM memory_versions v JOIN memory_changes c ON c.user_id = v.user_id AND c.seq = v.seq
WHERE v.user_id = %(user_id)s AND v.erased AND (v.kind, v.id) > (%(kind)s, %(id)s)
GROUP BY v.kind, v.id ORDER BY v.kind, v.id LIMIT %(limit)s

-- name: total_lag
SELECT coalesce(sum(abs(u.head - coalesce(w.seq, 0))), 0)::bigint FROM memory_users u
LEFT JOIN projection_watermarks w ON w.projection = %(projection)s AND w.user_id = u.user_id

-- name: block_writes
-- Every write of a user updates its row: this waits for those that did, and the others wait for this.
LOCK TABLE memory_users IN SHARE MODE

-- name: embedders_in_use
SELECT (SELECT value FROM store_meta WHERE user_id = '_system' AND name = 'embedder'),
       (SELECT value FROM store_meta WHERE user_id = '_system' AND name = 'embedder_next')

-- name: set_meta
SELECT set_store_meta(ARRAY[%(name)s::text], ARRAY[%(value)s::text], true)

-- name: drop_meta
SELECT drop_store_meta(%(name)s)

-- name: users_with_dead_letters
SELECT DISTINCT user_id FROM parked_changes WHERE projection = %(projection)s ORDER BY user_id

-- name: by_kind
SELECT kind, count(*) FROM memory_records WHERE user_id = %(user_id)s GROUP BY kind ORDER BY kind

-- name: by_status
SELECT status, count(*) FROM memory_records WHERE user_id = %(user_id)s GROUP BY status ORDER BY status

-- name: by_channel
SELECT channel, count(*) FROM memory_records WHERE user_id = %(user_id)s GROUP BY channel ORDER BY channel

-- name: journal
SELECT (SELECT count(*) FROM memory_changes WHERE user_id = %(user_id)s) AS changes,
       (SELECT count(*) FROM memory_versions WHERE user_id = %(user_id)s) AS versions,
       (SELECT count(*) FROM memory_usage WHERE user_id = %(user_id)s) AS usage

-- name: words
SELECT (SELECT coalesce(sum(length), 0) FROM memory_records WHERE user_id = %(user_id)s) AS terms,
       (SELECT count(*) FROM memory_records WHERE user_id = %(user_id)s AND length > 0) AS records,
       (SELECT count(*) FROM word_tail WHERE user_id = %(user_id)s) AS tail,
       (SELECT count(*) FROM word_blocks WHERE user_id = %(user_id)s) AS blocks

-- name: embedders
SELECT identity, number, dimensions FROM embedders ORDER BY identity

-- name: passages
SELECT count(*) FROM passages_{dimensions} WHERE user_id = %(user_id)s AND embedder = %(number)s

-- name: size
SELECT pg_database_size(current_database())
