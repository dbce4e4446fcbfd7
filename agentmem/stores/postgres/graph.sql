-- The graph: edges between slots. An end that is not stored is a negative mark made from its key, until it is stored.

-- name: add
INSERT INTO graph_edges (user_id, source, kind, target, edge, owner)
SELECT %(user_id)s,
       coalesce(w.source,
                (SELECT slot FROM memory_records WHERE user_id = %(user_id)s AND kind = w.source_kind AND id = w.source_id),
                (SELECT slot FROM memory_records WHERE user_id = %(user_id)s AND conversation_id = w.source_id
                    AND position = w.source_position AND kind = 'Turn'), w.source_mark),
       w.kind,
       coalesce(w.target,
                (SELECT slot FROM memory_records WHERE user_id = %(user_id)s AND kind = w.target_kind AND id = w.target_id),
                (SELECT slot FROM memory_records WHERE user_id = %(user_id)s AND conversation_id = w.target_id
                    AND position = w.target_position AND kind = 'Turn'), w.target_mark),
       w.edge, w.owner
FROM unnest(%(kind)s::text[], %(edge)s::integer[], %(owner)s::integer[], %(source)s::bigint[],
     %(source_kind)s::text[], %(source_id)s::text[], %(source_position)s::integer[], %(source_mark)s::bigint[],
     %(target)s::bigint[], %(target_kind)s::text[], %(target_id)s::text[], %(target_position)s::integer[],
     %(target_mark)s::bigint[])
     AS w (kind, edge, owner, source, source_kind, source_id, source_position, source_mark,
           target, target_kind, target_id, target_position, target_mark)
ON CONFLICT DO NOTHING

-- name: delete_stated
DELETE FROM graph_edges WHERE user_id = %(user_id)s AND owner = ANY(%(ordinals)s::integer[]) AND owner <> target

-- name: delete_stated_at_target
DELETE FROM graph_edges WHERE user_id = %(user_id)s AND target = ANY(%(ordinals)s::bigint[]) AND owner = target

-- name: detach_source
UPDATE graph_edges SET source = w.mark FROM unnest(%(ordinal)s::bigint[], %(mark)s::bigint[]) AS w (ordinal, mark)
WHERE user_id = %(user_id)s AND source = w.ordinal

-- name: detach_target
UPDATE graph_edges SET target = w.mark FROM unnest(%(ordinal)s::bigint[], %(mark)s::bigint[]) AS w (ordinal, mark)
WHERE user_id = %(user_id)s AND target = w.ordinal

-- name: held_by_position
SELECT e.source, e.owner, r.conversation_id, r.position
FROM graph_edges e JOIN memory_records r ON r.user_id = e.user_id AND r.slot = e.owner
WHERE e.user_id = %(user_id)s AND e.source = ANY(%(ordinals)s::bigint[]) AND e.kind = 'FOLLOWED_BY' AND e.edge < 0

-- name: detach_position
UPDATE graph_edges SET source = w.mark
FROM unnest(%(ordinal)s::bigint[], %(owner)s::bigint[], %(mark)s::bigint[]) AS w (ordinal, owner, mark)
WHERE user_id = %(user_id)s AND source = w.ordinal AND kind = 'FOLLOWED_BY' AND target = w.owner AND edge < 0

-- name: attach_source
UPDATE graph_edges SET source = w.ordinal FROM unnest(%(ordinal)s::bigint[], %(mark)s::bigint[]) AS w (ordinal, mark)
WHERE user_id = %(user_id)s AND source = w.mark

-- name: attach_target
UPDATE graph_edges SET target = w.ordinal FROM unnest(%(ordinal)s::bigint[], %(mark)s::bigint[]) AS w (ordinal, mark)
WHERE user_id = %(user_id)s AND target = w.mark

-- name: delete_user
DELETE FROM graph_edges WHERE user_id = %(user_id)s

-- name: records
SELECT r.slot, r.kind, v.payload, r.id, r.channel, r.recorded_at, r.seq
FROM memory_records r JOIN memory_versions v ON v.user_id = r.user_id AND v.slot = r.slot AND v.seq = r.seq
WHERE r.user_id = %(user_id)s AND r.slot > %(after)s ORDER BY r.slot LIMIT %(limit)s

-- name: count
SELECT count(*) FROM graph_edges WHERE user_id = %(user_id)s AND source >= 0 AND target >= 0

-- name: stored
SELECT source, kind, target, edge FROM graph_edges WHERE user_id = %(user_id)s

-- name: cleared_users
SELECT user_id FROM projection_watermarks WHERE projection = 'edges' ORDER BY user_id LIMIT %(limit)s

-- name: mark_rebuilt
DELETE FROM projection_watermarks WHERE projection = 'edges' AND user_id = %(user_id)s

-- name: starts
SELECT r.slot, r.kind, r.id FROM unnest(%(kinds)s::text[], %(ids)s::text[]) WITH ORDINALITY AS w (kind, id, place)
JOIN memory_records r ON r.user_id = %(user_id)s AND r.kind = w.kind AND r.id = w.id
WHERE r.channel = ANY(%(channels)s::text[]) AND r.status NOT IN ('forgotten', 'archived')
          AND (%(retired)s::boolean OR (r.superseded_at IS NULL AND (r.valid_to IS NULL OR r.valid_to > %(now)s)))
ORDER BY w.place

-- name: hop_out
-- For each record of the frontier and each kind, the newest visible neighbors: a hub of one kind cannot crowd out the others.
SELECT w.ordinal, w.kind, (SELECT coalesce(json_agg(json_build_array(n.other, n.edge, n.kind, n.id)), '[]')::text FROM (
    SELECT e.target AS other, e.edge, r.kind, r.id FROM graph_edges e
    JOIN memory_records r ON r.user_id = e.user_id AND r.slot = e.target
    LEFT JOIN memory_records s ON s.user_id = e.user_id AND s.slot = e.edge
    WHERE e.user_id = %(user_id)s AND e.source = w.ordinal AND e.kind = w.kind AND e.target >= 0
      AND r.channel = ANY(%(channels)s::text[]) AND r.status NOT IN ('forgotten', 'archived')
      AND (%(retired)s::boolean OR (r.superseded_at IS NULL AND (r.valid_to IS NULL OR r.valid_to > %(now)s)))
      AND (e.edge < 0 OR (s.channel = ANY(%(channels)s::text[]) AND s.status NOT IN ('forgotten', 'archived')
      AND (%(retired)s::boolean OR (s.superseded_at IS NULL AND (s.valid_to IS NULL OR s.valid_to > %(now)s)))))
    ORDER BY e.target DESC, e.edge DESC LIMIT %(cap)s) n)
FROM (SELECT (value ->> 0)::bigint AS ordinal, value ->> 1 AS kind FROM json_array_elements(%(outward)s::json)) w

-- name: hop_in
SELECT w.ordinal, w.kind, (SELECT coalesce(json_agg(json_build_array(n.other, n.edge, n.kind, n.id)), '[]')::text FROM (
    SELECT e.source AS other, e.edge, r.kind, r.id FROM graph_edges e
    JOIN memory_records r ON r.user_id = e.user_id AND r.slot = e.source
    LEFT JOIN memory_records s ON s.user_id = e.user_id AND s.slot = e.edge
    WHERE e.user_id = %(user_id)s AND e.target = w.ordinal AND e.kind = w.kind AND e.source >= 0
      AND r.channel = ANY(%(channels)s::text[]) AND r.status NOT IN ('forgotten', 'archived')
      AND (%(retired)s::boolean OR (r.superseded_at IS NULL AND (r.valid_to IS NULL OR r.valid_to > %(now)s)))
      AND (e.edge < 0 OR (s.channel = ANY(%(channels)s::text[]) AND s.status NOT IN ('forgotten', 'archived')
      AND (%(retired)s::boolean OR (s.superseded_at IS NULL AND (s.valid_to IS NULL OR s.valid_to > %(now)s)))))
    ORDER BY e.source DESC, e.edge DESC LIMIT %(cap)s) n)
FROM (SELECT (value ->> 0)::bigint AS ordinal, value ->> 1 AS kind FROM json_array_elements(%(inward)s::json)) w

-- name: describe
SELECT e.kind, a.kind, a.id, b.kind, b.id, e.edge, o.kind, o.id, o.channel, o.recorded_at, o.seq, c.operation_id,
       CASE WHEN e.edge >= 0 THEN v.payload END
FROM json_array_elements(%(steps)s::json) WITH ORDINALITY AS w (step, place)
JOIN graph_edges e ON e.user_id = %(user_id)s AND e.source = (w.step ->> 0)::bigint AND e.kind = w.step ->> 1
    AND e.target = (w.step ->> 2)::bigint AND e.edge = (w.step ->> 3)::integer
JOIN memory_records a ON a.user_id = e.user_id AND a.slot = e.source
JOIN memory_records b ON b.user_id = e.user_id AND b.slot = e.target
JOIN memory_records o ON o.user_id = e.user_id AND o.slot = e.owner
JOIN memory_changes c ON c.user_id = o.user_id AND c.seq = o.seq
JOIN memory_versions v ON v.user_id = o.user_id AND v.slot = o.slot AND v.seq = o.seq
ORDER BY w.place
