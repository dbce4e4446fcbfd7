// Vectors on nodes. LABEL and NAME stand for one of a few labels and for the name of its index.

// name: watermarks
UNWIND $users AS user_id
MATCH (g:Projection {user_id: user_id, name: 'graph'})
USING INDEX SEEK g:Projection(user_id, name)
OPTIONAL MATCH (p:Projection {user_id: user_id, name: $name})
USING INDEX SEEK p:Projection(user_id, name)
WITH g, coalesce(p.seq, 0) AS seq LIMIT $count
RETURN collect([g.user_id, seq, g.seq]);

// name: begin
MERGE (p:Projection {user_id: $user_id, name: $name})
ON CREATE SET p.seq = 0;

// name: advance
// Under the lock on the graph's own watermark: nothing is written to nodes that the graph is just changing.
MATCH (g:Projection {user_id: $user_id, name: 'graph'})
USING INDEX SEEK g:Projection(user_id, name)
WITH g.seq AS reached
MATCH (p:Projection {user_id: $user_id, name: $name})
USING INDEX SEEK p:Projection(user_id, name)
WHERE p.seq = $after AND reached >= $through
SET p.seq = $through
RETURN p.seq LIMIT 1;

// name: others
MATCH (p:Projection {user_id: $user_id})
USING INDEX SEEK p:Projection(user_id, name)
WHERE p.name STARTS WITH 'graph_vectors/' AND p.name <> $name
DELETE p;

// name: reset
MATCH (p:Projection {user_id: $user_id})
USING INDEX SEEK p:Projection(user_id, name)
WHERE p.name STARTS WITH 'graph_vectors/'
SET p.seq = 0;

// name: put
// The procedure keeps numbers of four bytes, SET would keep eight.
UNWIND $vectors AS row
MATCH (n:Record {user_id: $user_id, key: row.key})
USING INDEX SEEK n:Record(user_id, key)
WHERE n.ordinal = row.ordinal
CALL db.create.setNodeVectorProperty(n, 'embedding', row.vector);

// name: take_off
UNWIND $keys AS key
MATCH (n:Record {user_id: $user_id, key: key})
USING INDEX SEEK n:Record(user_id, key)
REMOVE n.embedding;

// name: indexes
SHOW VECTOR INDEXES YIELD name, labelsOrTypes, properties, options
RETURN name, labelsOrTypes, properties, options.indexConfig['vector.dimensions'],
       options.indexConfig['vector.similarity_function'] ORDER BY name;

// name: drop
DROP INDEX NAME IF EXISTS;

// name: make
CREATE VECTOR INDEX NAME IF NOT EXISTS FOR (n:LABEL) ON (n.embedding)
OPTIONS {indexConfig: {`vector.dimensions`: $dimensions, `vector.similarity_function`: 'cosine'}};

// name: make_filtered
CYPHER 25 CREATE VECTOR INDEX NAME IF NOT EXISTS FOR (n:LABEL) ON (n.embedding)
WITH [n.user_id, n.channel, n.visible_until]
OPTIONS {indexConfig: {`vector.dimensions`: $dimensions, `vector.similarity_function`: 'cosine'}};
