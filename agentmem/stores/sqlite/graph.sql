-- The graph: edges between slots. An end that is not stored is a negative mark made from its key, until it is stored.

-- name: add
INSERT OR IGNORE INTO graph_edges (user_id, source, kind, target, edge, owner)
SELECT :user_id,
       coalesce(:source,
                (SELECT slot FROM memory_records WHERE user_id = :user_id AND kind = :source_kind AND id = :source_id),
                (SELECT slot FROM memory_records WHERE user_id = :user_id AND conversation_id = :source_id
                    AND position = :source_position AND kind = 'Turn'), :source_mark),
       :kind,
       coalesce(:target,
                (SELECT slot FROM memory_records WHERE user_id = :user_id AND kind = :target_kind AND id = :target_id),
                (SELECT slot FROM memory_records WHERE user_id = :user_id AND conversation_id = :target_id
                    AND position = :target_position AND kind = 'Turn'), :target_mark),
       :edge, :owner;

-- name: delete_stated
DELETE FROM graph_edges
WHERE user_id = :user_id AND owner IN (SELECT value FROM json_each(:ordinals)) AND owner <> target;

-- name: delete_stated_at_target
DELETE FROM graph_edges INDEXED BY graph_edges_target
WHERE user_id = :user_id AND target IN (SELECT value FROM json_each(:ordinals)) AND owner = target;

-- name: detach_source
UPDATE graph_edges SET source = :mark WHERE user_id = :user_id AND source = :ordinal;

-- name: detach_target
UPDATE graph_edges INDEXED BY graph_edges_target SET target = :mark WHERE user_id = :user_id AND target = :ordinal;

-- name: held_by_position
SELECT e.source, e.owner, r.conversation_id, r.position
FROM json_each(:ordinals) j CROSS JOIN graph_edges e ON e.user_id = :user_id AND e.source = j.value
CROSS JOIN memory_records r ON r.user_id = e.user_id AND r.slot = e.owner
WHERE e.kind = 'FOLLOWED_BY' AND e.edge < 0;

-- name: detach_position
UPDATE graph_edges SET source = :mark
WHERE user_id = :user_id AND source = :ordinal AND kind = 'FOLLOWED_BY' AND target = :owner AND edge < 0;

-- name: attach_source
UPDATE graph_edges SET source = :ordinal WHERE user_id = :user_id AND source = :mark;

-- name: attach_target
UPDATE graph_edges INDEXED BY graph_edges_target SET target = :ordinal WHERE user_id = :user_id AND target = :mark;

-- name: delete_user
DELETE FROM graph_edges WHERE user_id = :user_id;

-- name: records
SELECT r.slot, r.kind, v.payload, r.id, r.channel, r.recorded_at, r.seq
FROM memory_records r CROSS JOIN memory_versions v ON v.user_id = r.user_id AND v.slot = r.slot AND v.seq = r.seq
WHERE r.user_id = :user_id AND r.slot > :after ORDER BY r.slot LIMIT :limit;

-- name: count
SELECT count(*) FROM graph_edges WHERE user_id = :user_id AND source >= 0 AND target >= 0;

-- name: stored
SELECT source, kind, target, edge FROM graph_edges WHERE user_id = :user_id;

-- name: mark_rebuilt
DELETE FROM projection_watermarks WHERE projection = 'graph' AND user_id = :user_id;

-- name: starts
SELECT r.slot, r.kind, r.id FROM json_each(:keys) j
CROSS JOIN memory_records r ON r.user_id = :user_id AND r.kind = j.value ->> 0 AND r.id = j.value ->> 1
WHERE r.channel IN (SELECT value FROM json_each(:channels)) AND r.status NOT IN ('forgotten', 'archived')
  AND (:retired OR (r.superseded_at IS NULL AND (r.valid_to IS NULL OR r.valid_to > :now)))
ORDER BY j.key;

-- name: hop_out
-- For each record of the frontier and each kind, the newest visible neighbors: a hub of one kind cannot crowd out the others.
SELECT w.value ->> 0, w.value ->> 1, (SELECT json_group_array(json_array(target, edge, kind, id)) FROM (
    SELECT e.target, e.edge, r.kind, r.id FROM graph_edges e
    CROSS JOIN memory_records r ON r.user_id = e.user_id AND r.slot = e.target
    LEFT JOIN memory_records s ON s.user_id = e.user_id AND s.slot = e.edge
    WHERE e.user_id = :user_id AND e.source = w.value ->> 0 AND e.kind = w.value ->> 1 AND e.target >= 0
      AND r.channel IN (SELECT value FROM json_each(:channels)) AND r.status NOT IN ('forgotten', 'archived')
      AND (:retired OR (r.superseded_at IS NULL AND (r.valid_to IS NULL OR r.valid_to > :now)))
      AND (e.edge < 0 OR (s.channel IN (SELECT value FROM json_each(:channels)) AND s.status NOT IN ('forgotten', 'archived')
      AND (:retired OR (s.superseded_at IS NULL AND (s.valid_to IS NULL OR s.valid_to > :now)))))
    ORDER BY e.target DESC, e.edge DESC LIMIT :cap))
FROM json_each(:outward) w;

-- name: hop_in
SELECT w.value ->> 0, w.value ->> 1, (SELECT json_group_array(json_array(source, edge, kind, id)) FROM (
    SELECT e.source, e.edge, r.kind, r.id FROM graph_edges e
    CROSS JOIN memory_records r ON r.user_id = e.user_id AND r.slot = e.source
    LEFT JOIN memory_records s ON s.user_id = e.user_id AND s.slot = e.edge
    WHERE e.user_id = :user_id AND e.target = w.value ->> 0 AND e.kind = w.value ->> 1 AND e.source >= 0
      AND r.channel IN (SELECT value FROM json_each(:channels)) AND r.status NOT IN ('forgotten', 'archived')
      AND (:retired OR (r.superseded_at IS NULL AND (r.valid_to IS NULL OR r.valid_to > :now)))
      AND (e.edge < 0 OR (s.channel IN (SELECT value FROM json_each(:channels)) AND s.status NOT IN ('forgotten', 'archived')
      AND (:retired OR (s.superseded_at IS NULL AND (s.valid_to IS NULL OR s.valid_to > :now)))))
    ORDER BY e.source DESC, e.edge DESC LIMIT :cap))
FROM json_each(:inward) w;

-- name: describe
SELECT e.kind, a.kind, a.id, b.kind, b.id, e.edge, o.kind, o.id, o.channel, o.recorded_at, o.seq, c.operation_id,
       CASE WHEN e.edge >= 0 THEN v.payload END
FROM json_each(:steps) j
CROSS JOIN graph_edges e ON e.user_id = :user_id AND e.source = j.value ->> 0 AND e.kind = j.value ->> 1
    AND e.target = j.value ->> 2 AND e.edge = j.value ->> 3
CROSS JOIN memory_records a ON a.user_id = e.user_id AND a.slot = e.source
CROSS JOIN memory_records b ON b.user_id = e.user_id AND b.slot = e.target
CROSS JOIN memory_records o ON o.user_id = e.user_id AND o.slot = e.owner
CROSS JOIN memory_changes c ON c.user_id = o.user_id AND c.seq = o.seq
CROSS JOIN memory_versions v ON v.user_id = o.user_id AND v.slot = o.slot AND v.seq = o.seq
ORDER BY j.key;
