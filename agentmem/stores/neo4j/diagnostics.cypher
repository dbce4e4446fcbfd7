// What a database says of itself, for a look at its health.

// name: server
CALL dbms.components() YIELD name, versions, edition
WHERE name = 'Neo4j Kernel'
RETURN versions[0], edition LIMIT 1;

// name: constraints
SHOW CONSTRAINTS YIELD name
RETURN name ORDER BY name;

// name: indexes
SHOW INDEXES YIELD name, state, populationPercent
RETURN name, state, populationPercent ORDER BY name;

// name: watermarks
MATCH (p:Projection)
USING INDEX p:Projection(user_id, name)
WHERE p.user_id > $after AND p.name = 'graph'
RETURN p.user_id, p.seq, coalesce(p.operation_id, ''), p.holder IS NOT NULL, coalesce(p.held_until, 0) >= timestamp()
ORDER BY p.user_id LIMIT $limit;

// name: known
UNWIND $users AS user_id
MATCH (p:Projection {user_id: user_id, name: 'graph'})
USING INDEX SEEK p:Projection(user_id, name)
RETURN p.user_id LIMIT $count;
