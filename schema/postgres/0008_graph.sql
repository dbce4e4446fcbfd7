-- Edges between records, made from them by the transaction that writes them. `source` and `target` are the slots of records; a
-- negative number made from its key stands for a record that is not stored. `edge` is the slot of an Edge record, -1 for
-- edges that a record states by its fields.
CREATE TABLE graph_edges (
    user_id TEXT COLLATE "C" NOT NULL,
    source BIGINT NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    target BIGINT NOT NULL,
    edge INTEGER NOT NULL DEFAULT -1,
    owner INTEGER NOT NULL,                -- slot of the record that states it: it goes when that record goes
    PRIMARY KEY (user_id, source, kind, target, edge)
);
CREATE INDEX graph_edges_target ON graph_edges (user_id, target, kind, source, edge);
CREATE INDEX graph_edges_owner ON graph_edges (user_id, owner) WHERE owner <> target;
SELECT wall_off('graph_edges');

-- `migrate`, as the owner, makes the edges of these users, and takes each of these rows out.
ALTER TABLE memory_users NO FORCE ROW LEVEL SECURITY;
ALTER TABLE projection_watermarks NO FORCE ROW LEVEL SECURITY;
INSERT INTO projection_watermarks (user_id, projection, seq) SELECT user_id, 'edges', 0 FROM memory_users WHERE head > 0;
ALTER TABLE memory_users FORCE ROW LEVEL SECURITY;
ALTER TABLE projection_watermarks FORCE ROW LEVEL SECURITY;
CREATE POLICY owner_sees_missing_edges ON projection_watermarks FOR SELECT TO CURRENT_USER USING (projection = 'edges');
