-- Looking after a store: words anew, embedders in and out, what there is of a user.

-- name: last_images
SELECT v.slot, v.kind, v.payload, v.id, v.channel, v.recorded_at, v.seq FROM memory_versions v
JOIN (SELECT slot, max(seq) AS seq FROM memory_versions WHERE user_id = ?1 AND payload IS NOT NULL GROUP BY slot) l
  ON v.slot = l.slot AND v.seq = l.seq
WHERE v.user_id = ?1 AND v.seq > ?2 ORDER BY v.slot

-- name: unpark
DELETE FROM parked_changes WHERE projection = ? AND user_id = ?

-- name: lagging
SELECT u.user_id, p.value, u.head - coalesce(w.seq, 0) AS behind FROM json_each(?1) p CROSS JOIN memory_users u
LEFT JOIN projection_watermarks w ON w.projection = p.value AND w.user_id = u.user_id
WHERE u.head <> coalesce(w.seq, 0) ORDER BY behind DESC, p.value, u.user_id LIMIT ?2

-- name: heads
SELECT user_id, head FROM memory_users WHERE user_id > ?1 AND head > 0 ORDER BY user_id LIMIT ?2

-- name: heads_of
SELECT user_id, head FROM memory_users
WHERE user_id IN (SELECT value FROM json_each(?3)) AND user_id > ?1 AND head > 0 ORDER BY user_id LIMIT ?2

-- name: erased
SELECT v.kind, v.id, max(c.at) FROM memory_versions v JOIN memory_changes c ON c.user_id = v.user_id AND c.seq = v.seq
WHERE v.user_id = ?1 AND v.erased AND (v.kind, v.id) > (?2, ?3)
GROUP BY v.kind, v.id ORDER BY v.kind, v.id LIMIT ?4

-- name: behind
SELECT coalesce(sum(abs(u.head - coalesce(w.seq, 0))), 0) FROM memory_users u
LEFT JOIN projection_watermarks w ON w.projection = ?1 AND w.user_id = u.user_id

-- name: meta
SELECT value FROM store_meta WHERE name = ?

-- name: set_meta
INSERT INTO store_meta (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value

-- name: drop_meta
DELETE FROM store_meta WHERE name = ?

-- name: drop_parked
DELETE FROM parked_changes WHERE projection = ?

-- name: drop_marks
DELETE FROM projection_watermarks WHERE projection = ?

-- name: by_kind
SELECT kind, count(*) FROM memory_records WHERE user_id = ? GROUP BY kind ORDER BY kind

-- name: by_status
SELECT status, count(*) FROM memory_records WHERE user_id = ? GROUP BY status ORDER BY status

-- name: by_channel
SELECT channel, count(*) FROM memory_records WHERE user_id = ? GROUP BY channel ORDER BY channel

-- name: journal
SELECT (SELECT count(*) FROM memory_changes WHERE user_id = ?1), (SELECT count(*) FROM memory_versions WHERE user_id = ?1),
       (SELECT count(*) FROM graph_edges WHERE user_id = ?1), (SELECT count(*) FROM memory_usage WHERE user_id = ?1)

-- name: words
SELECT (SELECT coalesce(sum(length), 0) FROM memory_records WHERE user_id = ?1),
       (SELECT count(*) FROM memory_records WHERE user_id = ?1 AND length > 0),
       (SELECT count(*) FROM word_tail WHERE user_id = ?1),
       (SELECT count(*) FROM word_blocks WHERE user_id = ?1)

-- name: embedders
SELECT identity, number, dimensions FROM embedders ORDER BY identity

-- name: passages
SELECT count(*) FROM passages_{dimensions} WHERE user_id = ? AND embedder = ?
