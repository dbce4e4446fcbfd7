-- The graph: edges between slots. An end that is not stored is a negative mark made from its key, until it is stored.

-- name: slot_of
SELECT slot FROM memory_records WHERE user_id = :user_id AND kind = :kind AND id = :id;

-- name: slot_at
SELECT slot FROM memory_records
WHERE user_id = :user_id AND conversation_id = :conversation_id AND position = :position AND kind = 'Turn';

-- name: add
INSERT OR IGNORE INTO graph_edges (user_id, source, kind, target, edge, owner)
VALUES (?, ?, ?, ?, ?, ?);

-- name: forget_owner
DELETE FROM graph_edges WHERE user_id = :user_id AND owner = :slot AND owner <> target;

-- name: forget_own
DELETE FROM graph_edges INDEXED BY graph_edges_target WHERE user_id = :user_id AND target = :slot AND owner = :slot;

-- name: leave_source
UPDATE graph_edges SET source = :mark WHERE user_id = :user_id AND source = :slot;

-- name: leave_target
UPDATE graph_edges INDEXED BY graph_edges_target SET target = :mark WHERE user_id = :user_id AND target = :slot;

-- name: held_by_place
SELECT e.owner, r.conversation_id, r.position FROM graph_edges e
CROSS JOIN memory_records r ON r.user_id = e.user_id AND r.slot = e.owner
WHERE e.user_id = :user_id AND e.source = :slot AND e.kind = 'FOLLOWED_BY' AND e.edge < 0;

-- name: leave_place
UPDATE graph_edges SET source = :mark
WHERE user_id = :user_id AND source = :slot AND kind = 'FOLLOWED_BY' AND target = :owner AND edge < 0;

-- name: waiting
SELECT j.value,
       EXISTS (SELECT 1 FROM graph_edges e WHERE e.user_id = :user_id AND e.source = j.value),
       EXISTS (SELECT 1 FROM graph_edges e INDEXED BY graph_edges_target WHERE e.user_id = :user_id AND e.target = j.value)
FROM json_each(:marks) j;

-- name: arrive_source
UPDATE graph_edges SET source = :slot WHERE user_id = :user_id AND source = :mark;

-- name: arrive_target
UPDATE graph_edges INDEXED BY graph_edges_target SET target = :slot WHERE user_id = :user_id AND target = :mark;

-- name: forget_user
DELETE FROM graph_edges WHERE user_id = :user_id;

-- name: records
SELECT r.slot, r.kind, v.payload, r.id, r.channel, r.recorded_at, r.seq
FROM memory_records r CROSS JOIN memory_versions v ON v.user_id = r.user_id AND v.slot = r.slot AND v.seq = r.seq
WHERE r.user_id = :user_id AND r.slot > :after ORDER BY r.slot LIMIT :limit;

-- name: count
SELECT count(*) FROM graph_edges WHERE user_id = :user_id AND source >= 0 AND target >= 0;

-- name: watermark
SELECT CASE WHEN EXISTS (SELECT 1 FROM projection_watermarks WHERE projection = 'graph' AND user_id = :user_id) THEN 0
       ELSE coalesce((SELECT head FROM memory_users WHERE user_id = :user_id), 0) END;

-- name: mark_cleared
INSERT OR REPLACE INTO projection_watermarks (projection, user_id, seq) VALUES ('graph', :user_id, 0);

-- name: mark_rebuilt
DELETE FROM projection_watermarks WHERE projection = 'graph' AND user_id = :user_id;

-- name: starts
SELECT r.slot FROM json_each(:keys) j
CROSS JOIN memory_records r ON r.user_id = :user_id AND r.kind = j.value ->> 0 AND r.id = j.value ->> 1
WHERE r.channel IN (SELECT value FROM json_each(:channels)) AND r.status NOT IN ('forgotten', 'archived')
  AND (:retired OR (r.superseded_at IS NULL AND (r.valid_to IS NULL OR r.valid_to > :now)))
ORDER BY j.key;

-- name: hop
-- For each record of the frontier and each kind, the newest visible neighbours of either direction: a hub of one kind
-- cannot crowd out the others.
SELECT f.value, k.value, (
    SELECT json_group_array(json_array(target, edge, kind, id)) FROM (
        SELECT e.target, e.edge, r.kind, r.id FROM graph_edges e
        CROSS JOIN memory_records r ON r.user_id = e.user_id AND r.slot = e.target
        LEFT JOIN memory_records s ON s.user_id = e.user_id AND s.slot = e.edge
        WHERE e.user_id = :user_id AND e.source = f.value AND e.kind = k.value AND e.target >= 0
          AND r.channel IN (SELECT value FROM json_each(:channels)) AND r.status NOT IN ('forgotten', 'archived')
          AND (:retired OR (r.superseded_at IS NULL AND (r.valid_to IS NULL OR r.valid_to > :now)))
          AND (e.edge < 0 OR (
              s.channel IN (SELECT value FROM json_each(:channels)) AND s.status NOT IN ('forgotten', 'archived')
              AND (:retired OR (s.superseded_at IS NULL AND (s.valid_to IS NULL OR s.valid_to > :now)))))
        ORDER BY e.target DESC LIMIT :cap)
), (
    SELECT json_group_array(json_array(source, edge, kind, id)) FROM (
        SELECT e.source, e.edge, r.kind, r.id FROM graph_edges e
        CROSS JOIN memory_records r ON r.user_id = e.user_id AND r.slot = e.source
        LEFT JOIN memory_records s ON s.user_id = e.user_id AND s.slot = e.edge
        WHERE e.user_id = :user_id AND e.target = f.value AND e.kind = k.value AND e.source >= 0
          AND r.channel IN (SELECT value FROM json_each(:channels)) AND r.status NOT IN ('forgotten', 'archived')
          AND (:retired OR (r.superseded_at IS NULL AND (r.valid_to IS NULL OR r.valid_to > :now)))
          AND (e.edge < 0 OR (
              s.channel IN (SELECT value FROM json_each(:channels)) AND s.status NOT IN ('forgotten', 'archived')
              AND (:retired OR (s.superseded_at IS NULL AND (s.valid_to IS NULL OR s.valid_to > :now)))))
        ORDER BY e.source DESC LIMIT :cap)
)
FROM json_each(:frontier) f CROSS JOIN json_each(:kinds) k
ORDER BY f.key, k.key;

-- name: describe
SELECT e.kind, a.kind, a.id, b.kind, b.id, e.edge, o.id, o.channel, o.recorded_at, o.seq, c.operation_id,
       CASE WHEN e.edge >= 0 THEN v.payload END
FROM json_each(:edges) j
CROSS JOIN graph_edges e ON e.user_id = :user_id AND e.source = j.value ->> 0 AND e.kind = j.value ->> 1
    AND e.target = j.value ->> 2 AND e.edge = j.value ->> 3
CROSS JOIN memory_records a ON a.user_id = e.user_id AND a.slot = e.source
CROSS JOIN memory_records b ON b.user_id = e.user_id AND b.slot = e.target
CROSS JOIN memory_records o ON o.user_id = e.user_id AND o.slot = e.owner
CROSS JOIN memory_changes c ON c.user_id = o.user_id AND c.seq = o.seq
CROSS JOIN memory_versions v ON v.user_id = o.user_id AND v.slot = o.slot AND v.seq = o.seq
ORDER BY j.key;
