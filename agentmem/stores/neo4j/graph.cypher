// Reading. STATED stands for a block that is repeated for each type of relationships as KIND.

// name: watermark
MATCH (p:Projection {user_id: $user_id, name: 'graph'})
USING INDEX SEEK p:Projection(user_id, name)
RETURN p.seq LIMIT 1;

// name: positions
UNWIND $users AS user_id
MATCH (p:Projection {user_id: user_id, name: 'graph'})
USING INDEX SEEK p:Projection(user_id, name)
WITH p LIMIT $count
RETURN collect([p.user_id, p.seq, p.operation_id]);

// name: advance
// Under the lock of `lock`. The operation at the watermark says whose journal was followed: a log that was restored from
// a backup has another one there. Graphs of older versions have none, and get it here.
UNWIND $users AS user
MATCH (p:Projection {user_id: user.user_id, name: 'graph'})
USING INDEX SEEK p:Projection(user_id, name)
WITH p, user, p.seq = user.after AND coalesce(p.held_until, 0) < timestamp() AND (
    p.seq = 0 OR p.operation_id IS NULL OR user.operation_id IS NULL OR p.operation_id = user.operation_id) AS fits
SET p.seq = CASE WHEN fits THEN user.through ELSE p.seq END,
    p.operation_id = CASE WHEN fits THEN coalesce(user.through_operation_id, p.operation_id) ELSE p.operation_id END
RETURN user.user_id, fits, p.seq LIMIT $count;

// name: release
MATCH (p:Projection {user_id: $user_id, name: 'graph'})
USING INDEX SEEK p:Projection(user_id, name)
SET p.seq = $seq, p.operation_id = $operation_id
REMOVE p.holder, p.held_until;

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
WHERE size(keys(n)) > 2 OR NOT EXISTS { MATCH (n)-[r]-(m) WHERE r.owner = m.key AND m.ordinal IS NOT NULL }
RETURN count(n) LIMIT 1;

// name: erased
MATCH (e:Erased {user_id: $user_id})
USING INDEX SEEK e:Erased(user_id, key)
WHERE e.key > $after
RETURN e.key, e.at ORDER BY e.key LIMIT $limit;

// name: records
MATCH (n:Record {user_id: $user_id})
USING INDEX SEEK n:Record(user_id, key)
WHERE n.key > $after AND n.key < $until AND n.ordinal IS NOT NULL
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
WHERE r.id > $after AND r.owner IS NULL
RETURN r.id AS id, r.seq AS seq ORDER BY id LIMIT $limit

// name: count
// Without the types that the log has not.
MATCH (n:Record {user_id: $user_id})
USING INDEX SEEK n:Record(user_id, key)
WHERE n.key > '' AND n.ordinal IS NOT NULL
MATCH (n)-[r]->(m)
WHERE m.ordinal IS NOT NULL AND NOT type(r) IN [DESCRIPTIVE]
RETURN count(r) LIMIT 1;
