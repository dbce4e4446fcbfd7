// What a database says of itself.

// name: state
OPTIONAL MATCH (v:SchemaVersion) WHERE v.version > 0
WITH coalesce(max(v.version), 0) AS version
OPTIONAL MATCH (s:Store {name: 'agentmem'})
RETURN version, s.store_id LIMIT 1;

// name: unfinished
SHOW INDEXES YIELD name, state WHERE state <> 'ONLINE' RETURN name, state ORDER BY state, name LIMIT 20;

// name: applied
MERGE (v:SchemaVersion {version: $version})
ON CREATE SET v.description = $description, v.applied_at = $at;

// name: claim
MERGE (s:Store {name: 'agentmem'})
ON CREATE SET s.store_id = $store_id;
