-- Every index that a turn touches costs its commit a page, so those go that little asks for. A process that still runs
-- with the schema before goes on: no statement of it names one of them.

-- Times grow with positions, so a position is found by its time without an index.
DROP INDEX memory_changes_at;

-- An operation of one change without a key has that change's id, which is indexed already.
DROP INDEX memory_changes_operation;
CREATE INDEX memory_changes_operation ON memory_changes (user_id, operation_id) WHERE operation_id <> change_id;

-- What a turn states ends at the turn, and is found there.
DROP INDEX graph_edges_owner;
CREATE INDEX graph_edges_owner ON graph_edges (user_id, owner) WHERE owner <> target;

-- In a file audit rows are read by user and time; for other questions it is walked.
DROP INDEX idx_audit_session;
CREATE INDEX idx_audit_session ON memory_audit_log (session_id, timestamp) WHERE session_id IS NOT NULL;
DROP INDEX idx_audit_operation;
DROP INDEX idx_audit_memory_type;
DROP INDEX idx_audit_source_channel;
