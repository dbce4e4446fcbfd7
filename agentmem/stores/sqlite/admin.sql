-- Looking after a store: words anew, embedders in and out, what there is of a user.

-- name: last_images
SELECT v.slot, v.kind, v.payload, v.id, v.channel, v.recorded_at, v.seq FROM memory_versions v
JOIN (SELECT slot, max(seq) AS seq FROM memory_versions WHERE user_id = :user_id AND payload IS NOT NULL GROUP BY slot) l
  ON v.slot = l.slot AND v.seq = l.seq
WHERE v.user_id = :user_id AND v.seq > :after ORDER BY v.slot

-- name: drop_dead_letters
DELETE FROM parked_changes WHERE projection = :projection AND user_id = :user_id

-- name: lagging_projections
SELECT u.user_id, p.value, u.head - coalesce(w.seq, 0) AS behind FROM json_each(:projections) p CROSS JOIN memory_users u
LEFT JOIN projection_watermarks w ON w.projection = p.value AND w.user_id = u.user_id
WHERE u.head <> coalesce(w.seq, 0) ORDER BY behind DESC, p.value, u.user_id LIMIT :limit

-- name: heads
SELECT user_id, head FROM memory_users WHERE user_id > :after AND head > 0 ORDER BY user_id LIMIT :limit

-- name: heads_of
SELECT user_id, head FROM memory_users
WHERE user_id IN (SELECT value FROM json_each(:users)) AND user_id > :after AND head > 0 ORDER BY user_id LIMIT :limit

-- name: operations_at
SELECT c.user_id, c.operation_id FROM json_each(:users) u JOIN json_each(:seqs) s ON s.key = u.key
CROSS JOIN memory_changes c WHERE c.user_id = u.value AND c.seq = s.value

-- name: tombstones
SELECT v.kind, v.id, max(c.at) FROM memory_versions v JOIN memory_changes c ON c.user_id = v.user_id AND c.seq = v.seq
WHERE v.user_id = :user_id AND v.erased AND (v.kind, v.id) > (:kind, :id)
GROUP BY v.kind, v.id ORDER BY v.kind, v.id LIMIT :limit

-- name: total_lag
SELECT coalesce(sum(abs(u.head - coalesce(w.seq, 0))), 0) FROM memory_users u
LEFT JOIN projection_watermarks w ON w.projection = :projection AND w.user_id = u.user_id

-- name: embedders_in_use
SELECT (SELECT value FROM store_meta WHERE name = 'embedder'),
       (SELECT value FROM store_meta WHERE name = 'embedder_next')

-- name: set_meta
INSERT INTO store_meta (name, value) VALUES (:name, :value) ON CONFLICT (name) DO UPDATE SET value = excluded.value

-- name: drop_meta
DELETE FROM store_meta WHERE name = :name

-- name: block_writes
-- A file has one writer, this one.
SELECT 1

-- name: drop_all_dead_letters
DELETE FROM parked_changes WHERE projection = :projection

-- name: drop_watermarks
DELETE FROM projection_watermarks WHERE projection = :projection

-- name: by_kind
SELECT kind, count(*) FROM memory_records WHERE user_id = :user_id GROUP BY kind ORDER BY kind

-- name: by_status
SELECT status, count(*) FROM memory_records WHERE user_id = :user_id GROUP BY status ORDER BY status

-- name: by_channel
SELECT channel, count(*) FROM memory_records WHERE user_id = :user_id GROUP BY channel ORDER BY channel

-- name: journal
SELECT (SELECT count(*) FROM memory_changes WHERE user_id = :user_id) AS changes,
       (SELECT count(*) FROM memory_versions WHERE user_id = :user_id) AS versions,
       (SELECT count(*) FROM graph_edges WHERE user_id = :user_id) AS edges,
       (SELECT count(*) FROM memory_usage WHERE user_id = :user_id) AS usage

-- name: words
SELECT (SELECT coalesce(sum(length), 0) FROM memory_records WHERE user_id = :user_id) AS terms,
       (SELECT count(*) FROM memory_records WHERE user_id = :user_id AND length > 0) AS records,
       (SELECT count(*) FROM word_tail WHERE user_id = :user_id) AS tail,
       (SELECT count(*) FROM word_blocks WHERE user_id = :user_id) AS blocks

-- name: embedders
SELECT identity, number, dimensions FROM embedders ORDER BY identity

-- name: passages
SELECT count(*) FROM passages_{dimensions} WHERE user_id = :user_id AND embedder = :number
