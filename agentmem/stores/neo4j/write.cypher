// Writing. All of it happens under the lock that `lock` takes on each user's watermark.
// Each MATCH names its index: a plan made while the graph is small would read that from end to end, and is kept.

// name: lock
// Writing to the node locks it until the end of the transaction; what was read of it before may be out of date.
UNWIND $users AS user_id
MERGE (p:Projection {user_id: user_id, name: 'graph'})
ON CREATE SET p.seq = 0
SET p.written_at = timestamp();

// name: hold
// The vectors on nodes go with the nodes, and begin anew as well.
MATCH (p:Projection {user_id: $user_id})
USING INDEX SEEK p:Projection(user_id, name)
WHERE p.name STARTS WITH 'graph'
SET p.seq = 0
WITH p WHERE p.name = 'graph'
SET p.holder = $holder, p.held_until = timestamp() + $milliseconds;

// name: keep
MATCH (p:Projection {user_id: $user_id, name: 'graph'})
USING INDEX SEEK p:Projection(user_id, name)
WHERE p.holder = $holder
SET p.held_until = timestamp() + $milliseconds
RETURN p.seq LIMIT 1;

// name: forget
MATCH (p:Projection {user_id: $user_id})
USING INDEX SEEK p:Projection(user_id, name)
WHERE p.name STARTS WITH 'graph'
DELETE p;

// name: take_out
MATCH (n:Record {user_id: $user_id})
USING INDEX SEEK n:Record(user_id, key)
WHERE n.key > ''
WITH n LIMIT $limit
DETACH DELETE n
RETURN count(*) LIMIT 1;

// name: unlink
// What these records stated by their fields, and what held a turn because of where it stood. `stated` is what `put` says
// of them, which has written over it. Returns the empty nodes at the other ends, for `sweep`.
UNWIND $records AS record
MATCH (n:Record {user_id: record.user_id, key: record.key})
USING INDEX SEEK n:Record(user_id, key)
WHERE record.stated OR n.states > 0
MATCH (n)-[r]-(m)
WHERE r.owner = n.key OR (type(r) = 'FOLLOWED_BY' AND r.owner = m.key)
DELETE r
WITH DISTINCT m WHERE m.ordinal IS NULL
RETURN m.user_id, m.key LIMIT $count;

// name: unstate
// The next block stands in it once for each type.
UNWIND $relations AS relation
CALL (relation) {
STATED
}
DELETE r
WITH a, b
UNWIND [a, b] AS m
WITH DISTINCT m WHERE m.ordinal IS NULL
RETURN m.user_id, m.key LIMIT $count;

// name: held
UNWIND $relations AS relation
CALL (relation) {
STATED
}
RETURN count(r) LIMIT 1;

// name: stated
MATCH (a)-[r:KIND {user_id: relation.user_id, id: relation.id}]->(b)
USING INDEX SEEK r:KIND(user_id, id)
RETURN a, r, b

// name: leave
UNWIND $records AS record
MATCH (n:Record {user_id: record.user_id, key: record.key})
USING INDEX SEEK n:Record(user_id, key)
REMOVE n:$(record.kind)
SET n = {user_id: record.user_id, key: record.key};

// name: put
// Times come as seconds and nanoseconds, because the driver takes long to send times of its own. Returns those that stated
// something before, which most do not, because they are new, and whether they stated a relation of others.
UNWIND $records AS record
MERGE (n:Record {user_id: record.user_id, key: record.key})
WITH n, record, coalesce(n.states, 0) > 0 AS stated, n.relation IS NOT NULL AS related
SET n = record.properties
SET n:$(record.kind)
FOREACH (name IN keys(record.times) |
  SET n[name] = datetime({epochSeconds: record.times[name][0], nanosecond: record.times[name][1]})
)
WITH record, stated, related WHERE stated
RETURN record.user_id, record.key, related LIMIT $count;

// name: standing
UNWIND $places AS place
MATCH (n:Turn {user_id: place.user_id, conversation_id: place.conversation_id, index: place.index})
USING INDEX SEEK n:Turn(user_id, conversation_id, index)
WITH n LIMIT $count
RETURN collect([n.user_id, n.conversation_id, n.index, n {.key, .channel, .visible_until}]);

// name: link
UNWIND $relations AS relation
MERGE (a:Record {user_id: relation.user_id, key: relation.source})
MERGE (b:Record {user_id: relation.user_id, key: relation.target})
CREATE (a)-[r:$(relation.kind)]->(b)
SET r = relation.properties
FOREACH (name IN keys(relation.times) |
  SET r[name] = datetime({epochSeconds: relation.times[name][0], nanosecond: relation.times[name][1]})
);

// name: sweep
UNWIND $records AS record
MATCH (n:Record {user_id: record.user_id, key: record.key})
USING INDEX SEEK n:Record(user_id, key)
WHERE n.ordinal IS NULL AND NOT EXISTS { (n)--() }
DELETE n;

// name: erased
UNWIND $records AS record
MERGE (e:Erased {user_id: record.user_id, key: record.key})
SET e.at = record.at;
