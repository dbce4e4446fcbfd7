-- Questions that a healthy store answers with no rows, or with what is to be reported.

-- name: server
SELECT current_setting('server_version'), current_setting('server_version_num')::integer

-- name: clock
SELECT clock_timestamp()

-- name: connections
-- Counted by the statistics of the databases, because sessions of others are hidden from most roles.
SELECT sum(numbackends)::integer,
       current_setting('max_connections')::integer - current_setting('superuser_reserved_connections')::integer
       - current_setting('reserved_connections')::integer
FROM pg_stat_database

-- name: extension
SELECT (SELECT extversion FROM pg_extension WHERE extname = 'vector'),
       (SELECT default_version FROM pg_available_extensions WHERE name = 'vector')

-- name: objects
SELECT CASE relkind WHEN 'i' THEN 'INDEX' WHEN 'I' THEN 'INDEX' WHEN 'v' THEN 'VIEW' WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END,
       relname::text
FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p', 'i', 'I', 'v', 'S')
UNION ALL SELECT 'FUNCTION', proname::text FROM pg_proc WHERE pronamespace = current_schema()::regnamespace
UNION ALL SELECT 'EXTENSION', extname::text FROM pg_extension
UNION ALL SELECT 'TRIGGER', tgname::text FROM pg_trigger JOIN pg_class c ON c.oid = tgrelid
WHERE c.relnamespace = current_schema()::regnamespace AND tgenabled IN ('O', 'A') -- one that is switched off is missing

-- name: meta
SELECT name, value FROM store_meta WHERE user_id = '_system' ORDER BY name

-- name: role
SELECT rolname::text, rolsuper, rolbypassrls,
       coalesce((SELECT pg_has_role(oid, 'USAGE') FROM pg_roles WHERE rolname = 'agentmem_worker'), true),
       ARRAY(SELECT name FROM unnest(ARRAY['agentmem_app', 'agentmem_auditor', 'agentmem_worker']) AS name
             WHERE name NOT IN (SELECT rolname FROM pg_roles))
FROM pg_roles WHERE rolname = current_user

-- name: without_wall
SELECT relname::text FROM pg_class
WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p') AND relname <> 'schema_version'
  AND (relname = ANY(%(tables)s) OR relname ~ '^(passages|memory_audit_log)_[0-9]+$')
  AND NOT (relrowsecurity AND relforcerowsecurity) ORDER BY 1

-- name: without_key
SELECT c.relname::text FROM pg_class c
WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p')
  AND (c.relname = ANY(%(tables)s) OR c.relname ~ '^(passages|memory_audit_log)_[0-9]+$')
  AND NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary)
  AND c.relname <> 'memory_audit_log_default' ORDER BY 1

-- name: invalid_indexes
SELECT c.relname::text FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
WHERE c.relnamespace = current_schema()::regnamespace AND NOT (i.indisvalid AND i.indisready) ORDER BY 1

-- name: audit_days
SELECT to_date(right(c.relname, 8), 'YYYYMMDD') FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
WHERE i.inhparent = 'memory_audit_log'::regclass AND c.relname ~ '^memory_audit_log_[0-9]{8}$' ORDER BY 1

-- name: in_default
-- What no day was made for, by the ranges between the days: the partitions of those are not read. OFFSET keeps the inner
-- query apart, so that each range picks its partitions before they are read.
SELECT count(*), (min(l.timestamp) AT TIME ZONE 'UTC')::date
FROM (SELECT unnest('{(,)}'::tstzmultirange - coalesce(range_agg(tstzrange(day, day + INTERVAL '24 hours')), '{}')) AS free
      FROM (SELECT to_date(right(c.relname, 8), 'YYYYMMDD')::timestamp AT TIME ZONE 'UTC' AS day
            FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
            WHERE i.inhparent = 'memory_audit_log'::regclass AND c.relname ~ '^memory_audit_log_[0-9]{8}$') made) gaps,
LATERAL (SELECT timestamp FROM memory_audit_log
         WHERE timestamp >= coalesce(lower(free), '-infinity') AND timestamp < coalesce(upper(free), 'infinity') OFFSET 0) l

-- name: journal_gaps
SELECT u.user_id, u.head, coalesce(c.entries, 0), coalesce(c.last, 0) FROM memory_users u
LEFT JOIN (SELECT user_id, count(*) AS entries, max(seq) AS last FROM memory_changes GROUP BY user_id) c USING (user_id)
WHERE coalesce(c.entries, 0) <> u.head OR coalesce(c.last, 0) <> u.head ORDER BY u.user_id LIMIT 20

-- name: changes_of_nobody
SELECT c.user_id, c.seq FROM memory_changes c LEFT JOIN memory_users u USING (user_id) WHERE u.user_id IS NULL LIMIT 20

-- name: versions_of_nothing
SELECT v.user_id, v.kind, v.id FROM memory_versions v
LEFT JOIN memory_changes c ON c.user_id = v.user_id AND c.seq = v.seq WHERE c.seq IS NULL LIMIT 20

-- name: records_without_version
SELECT r.user_id, r.kind, r.id FROM memory_records r
LEFT JOIN memory_versions v ON v.user_id = r.user_id AND v.slot = r.slot AND v.seq = r.seq AND v.kind = r.kind AND v.id = r.id
WHERE v.payload IS NULL LIMIT 20

-- name: records_out_of_date
SELECT r.user_id, r.kind, r.id FROM memory_records r
JOIN (SELECT user_id, slot, max(seq) AS seq FROM memory_versions GROUP BY user_id, slot) v USING (user_id, slot)
WHERE v.seq > r.seq LIMIT 20

-- name: records_missing
SELECT v.user_id, v.kind, v.id FROM memory_versions v
JOIN (SELECT user_id, slot, max(seq) AS seq FROM memory_versions GROUP BY user_id, slot) last USING (user_id, slot, seq)
LEFT JOIN memory_records r ON r.user_id = v.user_id AND r.slot = v.slot
WHERE v.payload IS NOT NULL AND r.slot IS NULL LIMIT 20

-- name: slots_shared
SELECT user_id, slot FROM memory_versions GROUP BY user_id, slot
HAVING min(kind) <> max(kind) OR min(id) <> max(id) LIMIT 20

-- name: records_in_two_slots
SELECT user_id, kind, id FROM memory_versions WHERE NOT erased GROUP BY user_id, kind, id
HAVING min(slot) <> max(slot) LIMIT 20

-- name: slots_beyond
SELECT v.user_id, v.kind, v.id FROM memory_versions v JOIN memory_users u USING (user_id) WHERE v.slot >= u.slots LIMIT 20

-- name: erased_but_kept
SELECT user_id, kind, id FROM memory_versions WHERE erased AND payload IS NOT NULL LIMIT 20

-- name: user_count
SELECT count(*) FROM memory_users

-- name: embedders
SELECT e.identity, e.dimensions, a.atttypmod FROM embedders e
LEFT JOIN pg_class c ON c.relname = 'passages_' || e.dimensions AND c.relkind = 'r'
                    AND c.relnamespace = current_schema()::regnamespace
LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'vector' AND NOT a.attisdropped
ORDER BY e.number

-- name: behind
SELECT u.user_id, u.head - coalesce(w.seq, 0) AS behind, count(*) OVER (), (sum(u.head - coalesce(w.seq, 0)) OVER ())::bigint
FROM memory_users u LEFT JOIN projection_watermarks w ON w.user_id = u.user_id AND w.projection = %(projection)s
WHERE u.head > coalesce(w.seq, 0) ORDER BY 2 DESC, 1 LIMIT 3

-- name: ahead
SELECT w.user_id, w.seq - coalesce(u.head, 0), count(*) OVER () FROM projection_watermarks w
LEFT JOIN memory_users u ON u.user_id = w.user_id
WHERE w.projection = %(projection)s AND w.seq > coalesce(u.head, 0) ORDER BY 2 DESC, 1 LIMIT 3

-- name: cleared_graphs
SELECT user_id, seq FROM projection_watermarks WHERE projection = 'edges' ORDER BY user_id LIMIT 20

-- name: users
SELECT user_id, slots FROM memory_users ORDER BY user_id

-- name: dead_letters
SELECT projection, user_id, seq, reason, count(*) OVER () FROM parked_changes
WHERE attempts >= %(attempts)s ORDER BY at, user_id, projection, seq LIMIT 3

-- name: ahead_of_time
SELECT user_id, last_at, count(*) OVER () FROM memory_users WHERE last_at > %(until)s ORDER BY last_at DESC LIMIT 1

-- name: long_leases
SELECT name, owner, extract(epoch FROM until - clock_timestamp())::bigint FROM leases
WHERE until > clock_timestamp() + make_interval(secs => %(seconds)s) ORDER BY name LIMIT 3

-- name: heads
SELECT user_id, head FROM memory_users WHERE user_id = ANY(%(users)s)

-- name: heads_after
SELECT user_id, head FROM memory_users WHERE user_id > %(after)s AND head > 0 ORDER BY user_id LIMIT %(limit)s

-- name: operations_at
SELECT c.user_id, c.operation_id FROM unnest(%(users)s::text[], %(seqs)s::bigint[]) AS j(user_id, seq)
JOIN memory_changes c ON c.user_id = j.user_id AND c.seq = j.seq

-- name: other_tokenizer
SELECT count(*)::integer FROM word_state WHERE tokenizer <> %(tokenizer)s

-- name: unread_ends
-- Turns that are longer than what their reader, which their gloss names, reads of one; with how many there are.
SELECT t.user_id, t.id, g.extractor = %(rules)s, count(*) OVER () FROM (
    SELECT r.user_id, r.id, v.payload::json ->> 'extractor' AS extractor
    FROM memory_records r JOIN memory_versions v ON v.user_id = r.user_id AND v.slot = r.slot AND v.seq = r.seq
    WHERE r.kind = 'Gloss' AND r.superseded_at IS NULL) g
JOIN memory_records t ON t.user_id = g.user_id AND t.kind = 'Turn' AND t.id = g.id AND t.superseded_at IS NULL
JOIN memory_versions w ON w.user_id = t.user_id AND w.slot = t.slot AND w.seq = t.seq
WHERE length(w.payload::json ->> 'content')
      > CASE WHEN g.extractor = %(rules)s THEN %(max_rule_chars)s ELSE %(max_model_chars)s END::integer
ORDER BY t.user_id, t.seq, t.id LIMIT 20
