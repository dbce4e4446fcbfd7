// Reading. KINDS stands for types of relationships, STATED for a block that is repeated for each of them as KIND.

// name: hop
// For each record of the frontier, type and direction, the newest visible neighbours: a hub of one kind cannot crowd out
// the others. All in one row, because each row costs the driver time.
UNWIND range(0, size($frontier) - 1) AS place
MATCH (n:Record {user_id: $user_id, key: $frontier[place]})
USING INDEX SEEK n:Record(user_id, key)
WHERE n.channel IN $channels AND n.visible_until > $now
MATCH (n)-[r:KINDS]-(m)
WHERE m.user_id = $user_id AND m.channel IN $channels AND m.visible_until > $now
  AND r.channel IN $channels AND r.visible_until > $now
WITH place, type(r) AS kind, startNode(r) = n AS outward, m, r ORDER BY m.slot DESC, r.slot DESC
WITH place, kind, outward, collect(m.key)[..$cap] AS keys, collect(r)[..$cap] AS nearest
WITH place, kind, outward, keys, [r IN nearest | elementId(r)] AS names LIMIT $groups
RETURN collect([place, kind, outward, keys, names]);

// name: describe
// What is said of a relationship is in itself or, when it follows from a record's fields, in that record. Times as
// microseconds, because the driver takes long to make times of its own.
UNWIND $steps AS step
MATCH (a)-[r]->(b)
WHERE elementId(r) = step.edge AND r.user_id = $user_id AND a.key = step.source AND b.key = step.target
WITH step, r, CASE r.owner WHEN a.key THEN a WHEN b.key THEN b END AS owner LIMIT $count
RETURN collect([step.edge, type(r), CASE
  WHEN owner IS NULL
  THEN r {.*, recorded_at: r.recorded_at.epochSeconds * 1000000 + r.recorded_at.microsecond}
  ELSE owner {.channel, .seq, .operation_id,
              recorded_at: owner.recorded_at.epochSeconds * 1000000 + owner.recorded_at.microsecond}
END]);

// name: watermark
MATCH (p:Projection {user_id: $user_id, name: 'graph'})
USING INDEX SEEK p:Projection(user_id, name)
RETURN p.seq LIMIT 1;

// name: watermarks
UNWIND $users AS user_id
MATCH (p:Projection {user_id: user_id, name: 'graph'})
USING INDEX SEEK p:Projection(user_id, name)
WITH p LIMIT $count
RETURN collect([p.user_id, p.seq]);

// name: held
MATCH (n:Record {user_id: $user_id})
USING INDEX SEEK n:Record(user_id, key)
WHERE n.key > ''
RETURN count(n) LIMIT 1;

// name: held_of
// A mere name does not count where a record that stays says it by its fields, for there the log has it, too.
UNWIND $keys AS key
MATCH (n:Record {user_id: $user_id, key: key})
USING INDEX SEEK n:Record(user_id, key)
WHERE size(keys(n)) > 2 OR NOT EXISTS { MATCH (n)-[r]-(m) WHERE r.owner = m.key AND m.slot IS NOT NULL }
RETURN count(n) LIMIT 1;

// name: erased
MATCH (e:Erased {user_id: $user_id})
USING INDEX SEEK e:Erased(user_id, key)
WHERE e.key > $after
RETURN e.key, e.at ORDER BY e.key LIMIT $limit;

// name: records
MATCH (n:Record {user_id: $user_id})
USING INDEX SEEK n:Record(user_id, key)
WHERE n.key > $after AND n.key < $until AND n.slot IS NOT NULL
RETURN n.id, n.seq ORDER BY n.key LIMIT $limit;

// name: relations
// The next block stands in it once for each type.
CALL () {
STATED
}
RETURN id, seq ORDER BY id LIMIT $limit;

// name: stated
MATCH ()-[r:KIND {user_id: $user_id}]->()
USING INDEX SEEK r:KIND(user_id, id)
WHERE r.id > $after
RETURN r.id AS id, r.seq AS seq ORDER BY id LIMIT $limit

// name: count
MATCH (n:Record {user_id: $user_id})
USING INDEX SEEK n:Record(user_id, key)
WHERE n.key > '' AND n.slot IS NOT NULL
MATCH (n)-[r]->(m)
WHERE m.slot IS NOT NULL
RETURN count(r) LIMIT 1;
