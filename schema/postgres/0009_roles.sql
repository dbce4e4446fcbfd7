-- The least that each role needs. `agentmem_app` adds to the journal and the audit log, and changes nothing there;
-- what an erasure changes, keys of the server and what concerns the whole store are changed by functions that look who asks.

-- Whether the caller may act for the store as a whole: a worker, or the owner. In a function of the owner's `current_user` is the
-- owner, so the caller is the login or what it set its role to.
CREATE FUNCTION acts_as_operator() RETURNS BOOLEAN
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    caller TEXT := coalesce(nullif(current_setting('role'), 'none'), session_user);
BEGIN
    RETURN pg_has_role(caller, current_user, 'USAGE')
        OR EXISTS (SELECT FROM pg_roles WHERE rolname = 'agentmem_worker' AND pg_has_role(caller, oid, 'USAGE'));
END $$;

-- Stops everybody but the owner of the table, with the message that the trigger gives.
CREATE FUNCTION allow_owner_alone() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT pg_has_role((SELECT relowner FROM pg_class WHERE oid = TG_RELID), 'USAGE') THEN
        RAISE EXCEPTION '%', TG_ARGV[0] USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER memory_changes_kept BEFORE UPDATE OR DELETE OR TRUNCATE ON memory_changes
FOR EACH STATEMENT EXECUTE FUNCTION allow_owner_alone('rows of the journal cannot be changed or deleted');
CREATE TRIGGER memory_versions_kept BEFORE UPDATE OR DELETE OR TRUNCATE ON memory_versions
FOR EACH STATEMENT EXECUTE FUNCTION allow_owner_alone('rows of the journal cannot be changed or deleted');
CREATE TRIGGER memory_users_counted BEFORE UPDATE ON memory_users FOR EACH ROW
WHEN (NEW.head < OLD.head OR NEW.slots < OLD.slots OR NEW.erasures < OLD.erasures OR NEW.user_id <> OLD.user_id)
EXECUTE FUNCTION allow_owner_alone('the counters of a user''s journal cannot go back');
CREATE TRIGGER memory_audit_log_timely BEFORE INSERT ON memory_audit_log FOR EACH ROW
WHEN (NEW.timestamp NOT BETWEEN now() - INTERVAL '1 hour' AND now() + INTERVAL '1 hour')
EXECUTE FUNCTION allow_owner_alone('the time of an audit row must be within an hour of the database server''s clock');

-- A change takes the next position of its user. A version belongs to a change of the same transaction.
CREATE FUNCTION check_journal_end() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    is_wrong BOOLEAN;
BEGIN
    IF pg_has_role((SELECT relowner FROM pg_class WHERE oid = TG_RELID), 'USAGE') THEN
        RETURN NULL;
    ELSIF TG_TABLE_NAME = 'memory_changes' THEN
        is_wrong := EXISTS (
            SELECT FROM (SELECT user_id, min(seq) AS first, max(seq) AS last, count(*) AS changes FROM added GROUP BY user_id) a
            WHERE a.first < 1 OR a.last - a.first + 1 <> a.changes OR a.first > 1 AND NOT EXISTS (
                SELECT FROM memory_changes c WHERE c.user_id = a.user_id AND c.seq = a.first - 1));
    ELSE
        is_wrong := EXISTS (
            SELECT FROM (SELECT DISTINCT user_id, seq FROM added) a WHERE NOT EXISTS (
                SELECT FROM memory_changes c
                WHERE c.user_id = a.user_id AND c.seq = a.seq AND c.xmin = pg_current_xact_id()::xid));
    END IF;
    IF is_wrong THEN
        RAISE EXCEPTION 'the journal is written at its end alone' USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER memory_changes_follow AFTER INSERT ON memory_changes REFERENCING NEW TABLE AS added
FOR EACH STATEMENT EXECUTE FUNCTION check_journal_end();
CREATE TRIGGER memory_versions_follow AFTER INSERT ON memory_versions REFERENCING NEW TABLE AS added
FOR EACH STATEMENT EXECUTE FUNCTION check_journal_end();

-- -- what an erasure changes

-- The transaction's user, if the last entry of that journal is an erasure that this transaction wrote: none goes unseen.
CREATE FUNCTION get_erasing_user() RETURNS TEXT LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    whose TEXT := current_setting('agentmem.user_id');
BEGIN
    IF (SELECT operation = 'erase' AND xmin = pg_current_xact_id()::xid FROM memory_changes
        WHERE user_id = whose ORDER BY seq DESC LIMIT 1) IS NOT TRUE THEN
        RAISE EXCEPTION 'only an erasure changes the journal and the audit log' USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN whose;
END $$;

-- Blanks the changes that made these versions, as `drop_versions` selects them. NULL: all changes before this erasure.
CREATE FUNCTION blank_changes(slots INTEGER[], before BIGINT DEFAULT NULL)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    whose TEXT := get_erasing_user();
BEGIN
    IF slots IS NULL THEN
        UPDATE memory_changes SET change_id = 'erased-' || seq, cause = '', payload = 'erased', actor = ''
        WHERE user_id = whose AND seq < (SELECT max(seq) FROM memory_changes WHERE user_id = whose);
    ELSE
        UPDATE memory_changes SET cause = '', payload = 'erased' WHERE user_id = whose AND seq IN (
            SELECT seq FROM memory_versions
            WHERE user_id = whose AND slot = ANY(slots) AND (before IS NULL OR seq < before));
    END IF;
END $$;

-- Deletes the versions in these slots, of before a position where one is given. NULL: all of the user.
CREATE FUNCTION drop_versions(slots INTEGER[], before BIGINT DEFAULT NULL)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    whose TEXT := get_erasing_user();
BEGIN
    IF slots IS NULL THEN
        DELETE FROM memory_versions WHERE user_id = whose;
    ELSE
        DELETE FROM memory_versions
        WHERE user_id = whose AND slot = ANY(slots) AND (before IS NULL OR seq < before);
    END IF;
END $$;

CREATE OR REPLACE FUNCTION blank_audit_text(texts BIGINT[], settings BIGINT[])
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    whose TEXT := get_erasing_user();
BEGIN
    PERFORM set_config('agentmem.audit_gate', 'erasure', true);
    IF texts IS NULL THEN
        UPDATE memory_audit_log SET query_text = NULL, error_message = NULL, metadata = '{}', config_snapshot = '{}',
            session_id = NULL, conversation_id = NULL, conversation = NULL, agent_id = NULL, source_channel = NULL,
            target_channels = '{}', promoted_from_channel = NULL
        WHERE user_id = whose;
    ELSE
        UPDATE memory_audit_log SET query_text = NULL, error_message = NULL, metadata = '{}'
        WHERE user_id = whose AND id = ANY(texts);
        UPDATE memory_audit_log SET config_snapshot = '{}' WHERE user_id = whose AND id = ANY(settings);
    END IF;
    PERFORM set_config('agentmem.audit_gate', '', true);
END $$;

-- -- keys of the server

-- The transaction's user, whose keys are to change. Those of all users ('*') are an operator's.
CREATE FUNCTION get_key_user() RETURNS TEXT LANGUAGE plpgsql STABLE SET search_path FROM CURRENT AS $$
BEGIN
    IF current_setting('agentmem.user_id') = '*' AND NOT acts_as_operator() THEN
        RAISE EXCEPTION 'keys for all users are made and changed by a role with agentmem_worker alone'
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN current_setting('agentmem.user_id');
END $$;

CREATE FUNCTION add_api_key(
    id TEXT, secret_hash TEXT, channel TEXT, agent_id TEXT, scopes TEXT, created_at BIGINT, expires_at BIGINT)
RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path FROM CURRENT AS $$
    INSERT INTO api_keys (user_id, id, secret_hash, channel, agent_id, scopes, created_at, expires_at)
    VALUES (get_key_user(), $1, $2, $3, $4, $5, $6, $7)
$$;

CREATE FUNCTION revoke_api_key(key_id TEXT, at BIGINT)
RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path FROM CURRENT AS $$
    UPDATE api_keys SET revoked_at = coalesce(revoked_at, at) WHERE user_id = get_key_user() AND id = key_id
$$;

CREATE FUNCTION set_api_key_use(key_id TEXT, at BIGINT)
RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path FROM CURRENT AS $$
    UPDATE api_keys SET last_used_at = greatest(last_used_at, at)
    WHERE user_id = current_setting('agentmem.user_id') AND id = key_id
$$;

CREATE FUNCTION drop_api_keys() RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path FROM CURRENT AS $$
    DELETE FROM api_keys WHERE user_id = get_key_user()
$$;

-- -- what concerns the store as a whole

-- Records values by name. A caller who is no operator may say once which embedder a new store has and that keys were made, and
-- report a job's run; the store's id is the owner's.
CREATE FUNCTION set_store_meta(names TEXT[], given TEXT[], overwrite BOOLEAN)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    caller TEXT := coalesce(nullif(current_setting('role'), 'none'), session_user);
    refused TEXT;
BEGIN
    SELECT n.name INTO refused FROM unnest(names, given) AS n(name, value)
    LEFT JOIN store_meta m ON m.user_id = '_system' AND m.name = n.name
    WHERE n.name = 'store_id' AND NOT pg_has_role(caller, current_user, 'USAGE') OR NOT (acts_as_operator() OR n.name LIKE 'job:%:report'
        OR n.name IN ('embedder', 'embedder_fallback', 'api_keys_made') AND (NOT overwrite OR coalesce(m.value, n.value) = n.value))
    LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'this role may not set % of the store', refused USING ERRCODE = 'insufficient_privilege';
    END IF;
    INSERT INTO store_meta AS m (name, value) SELECT n.name, n.value FROM unnest(names, given) AS n(name, value) ORDER BY n.name
    ON CONFLICT (user_id, name) DO UPDATE SET value = excluded.value WHERE overwrite AND m.value <> excluded.value;
END $$;

CREATE FUNCTION drop_store_meta(dropped TEXT)
RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path FROM CURRENT AS $$
    DELETE FROM store_meta WHERE user_id = '_system' AND name = dropped AND name <> 'store_id'
$$;

CREATE FUNCTION count_opening() RETURNS BIGINT LANGUAGE sql SECURITY DEFINER SET search_path FROM CURRENT AS $$
    UPDATE store_meta SET value = (value::bigint + 1)::text WHERE user_id = '_system' AND name = 'openings'
    RETURNING value::bigint
$$;

-- Makes an embedder known, and the table of its vectors. Who is no operator may do so for those that the store names.
CREATE FUNCTION register_embedder(added TEXT, size INTEGER)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    IF NOT acts_as_operator() AND NOT EXISTS (
        SELECT FROM store_meta WHERE user_id = '_system' AND name IN ('embedder', 'embedder_next') AND value = added) THEN
        RAISE EXCEPTION 'this role may not add the embedder %', added USING ERRCODE = 'insufficient_privilege';
    END IF;
    PERFORM make_passages(coalesce((SELECT dimensions FROM embedders WHERE identity = added), size));
    INSERT INTO embedders (identity, number, dimensions, added_at)
    SELECT added, coalesce(max(number), 0) + 1, size, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
    FROM embedders ON CONFLICT (user_id, identity) DO NOTHING;
END $$;

CREATE FUNCTION drop_embedder(dropped TEXT)
RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path FROM CURRENT AS $$
    DELETE FROM embedders WHERE identity = dropped
$$;

-- -- who may what

-- Makes a policy where it is missing, or is another role's: a dump restored where a role is missing comes without it.
CREATE FUNCTION put_policy(walled TEXT, policy TEXT, command TEXT, grantee TEXT, condition TEXT) RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_policies WHERE schemaname = current_schema() AND tablename = walled AND policyname = policy
                   AND cmd = command AND roles = ARRAY[grantee]::name[]) THEN
        EXECUTE format('DROP POLICY IF EXISTS %I ON %I', policy, walled);
        EXECUTE format('CREATE POLICY %I ON %I FOR %s TO %I %s (%s)', policy, walled, command, grantee,
                       CASE command WHEN 'INSERT' THEN 'WITH CHECK' ELSE 'USING' END, condition);
    END IF;
END $$;

-- The role that reads over all users: the owner where there are no roles.
CREATE FUNCTION get_operator_role(walled TEXT) RETURNS TEXT LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT coalesce((SELECT rolname FROM pg_roles WHERE rolname = 'agentmem_worker'),
                    (SELECT pg_get_userbyid(relowner) FROM pg_class WHERE oid = format('%I', walled)::regclass))
$$;

CREATE OR REPLACE FUNCTION wall_off(walled TEXT, shared BOOLEAN DEFAULT false) RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    own TEXT := CASE WHEN shared THEN 'user_id = ''_system''' ELSE
        'user_id = current_setting(''agentmem.user_id'', true) AND user_id <> ''''' END;
    allowed TEXT := CASE
        WHEN walled IN ('memory_changes', 'memory_versions', 'memory_audit_log') THEN 'SELECT, INSERT'
        WHEN walled IN ('store_meta', 'embedders', 'api_keys') THEN 'SELECT'
        WHEN walled = 'memory_users' THEN 'SELECT, INSERT, UPDATE'
        ELSE 'SELECT, INSERT, UPDATE, DELETE' END;
    owner TEXT;
    role TEXT;
BEGIN
    SELECT pg_get_userbyid(relowner) INTO owner FROM pg_class WHERE oid = format('%I', walled)::regclass;
    IF NOT (SELECT relrowsecurity AND relforcerowsecurity FROM pg_class WHERE oid = format('%I', walled)::regclass) THEN
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', walled);
    END IF;
    IF allowed LIKE '%UPDATE%' THEN
        PERFORM put_policy(walled, 'own_rows', 'ALL', 'public', own);
    ELSE
        PERFORM put_policy(walled, 'own_reads', 'SELECT', 'public', own);
        PERFORM put_policy(walled, 'owner_rows', 'ALL', owner, own);
        IF allowed LIKE '%INSERT%' THEN
            PERFORM put_policy(walled, 'own_additions', 'INSERT', 'public', own);
        END IF;
        EXECUTE format('DROP POLICY IF EXISTS own_rows ON %I', walled);
    END IF;
    PERFORM put_policy(walled, 'operator_reads', 'SELECT', get_operator_role(walled),
                       'current_setting(''agentmem.operator'', true) = ''on''');
    FOR role IN SELECT rolname FROM pg_roles WHERE rolname IN ('agentmem_app', 'agentmem_worker') LOOP
        EXECUTE format('REVOKE ALL ON %I FROM %I', walled, role);
        EXECUTE format('GRANT %s ON %I TO %I', allowed, walled, role);
    END LOOP;
END $$;

-- Makes the roles that are missing, and gives each what it needs. Returns what an administrator has to run first; '' for nothing.
-- `migrate` calls it every time, because roles are the cluster's: a restored database may find none.
CREATE FUNCTION grant_roles() RETURNS TEXT LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    wanted TEXT;
    walled TEXT;
    missing TEXT[] := '{}';
BEGIN
    FOREACH wanted IN ARRAY ARRAY['agentmem_app', 'agentmem_worker', 'agentmem_auditor'] LOOP
        BEGIN
            IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = wanted) THEN
                EXECUTE format('CREATE ROLE %I NOLOGIN', wanted);
            END IF;
            IF wanted <> 'agentmem_auditor' AND NOT pg_has_role(wanted, 'USAGE') THEN
                EXECUTE format('GRANT %I TO CURRENT_USER', wanted);
            END IF;
        EXCEPTION WHEN insufficient_privilege OR duplicate_object OR unique_violation THEN
            missing := missing || CASE WHEN EXISTS (SELECT FROM pg_roles WHERE rolname = wanted) THEN '{}'::text[]
                ELSE ARRAY[format('CREATE ROLE %I NOLOGIN', wanted)] END;
            IF wanted <> 'agentmem_auditor' THEN
                missing := missing || format('GRANT %I TO %I', wanted, current_user);
            END IF;
        END;
    END LOOP;
    FOR walled IN
        SELECT c.relname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'user_id'
        WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition ORDER BY 1
    LOOP
        PERFORM wall_off(walled, walled IN ('store_meta', 'embedders', 'leases'));
    END LOOP;
    FOR walled IN SELECT inhrelid::regclass FROM pg_inherits WHERE inhparent = 'memory_audit_log'::regclass LOOP
        PERFORM put_policy(walled, 'upkeep', 'ALL', (SELECT pg_get_userbyid(relowner) FROM pg_class WHERE oid = walled::regclass),
                           'current_setting(''agentmem.audit_gate'', true) = ''retention''');
    END LOOP;
    FOREACH walled IN ARRAY ARRAY['receipts', 'usage_receipts'] LOOP
        PERFORM put_policy(walled, 'operator_forgets', 'DELETE', get_operator_role(walled),
                           'current_setting(''agentmem.operator'', true) = ''on''');
    END LOOP;
    PERFORM put_policy('projection_watermarks', 'owner_sees_missing_edges', 'SELECT', (
        SELECT pg_get_userbyid(relowner) FROM pg_class WHERE oid = 'projection_watermarks'::regclass), 'projection = ''edges''');
    PERFORM grant_rest();
    RETURN array_to_string(missing, '; ');
END $$;

-- What is no table with a user's rows: views, sequences, functions, and what the auditor reads.
CREATE FUNCTION grant_rest() RETURNS void LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    role TEXT;
    shown TEXT;
BEGIN
    EXECUTE format('REVOKE CREATE ON SCHEMA %I FROM PUBLIC', current_schema());
    REVOKE ALL ON FUNCTION create_audit_partitions, drop_old_audit_partitions, close_audit_partition, blank_audit_text, wall_off,
        make_passages, acts_as_operator, get_erasing_user, blank_changes, drop_versions, get_key_user, add_api_key, revoke_api_key,
        set_api_key_use, drop_api_keys, set_store_meta, drop_store_meta, count_opening, register_embedder, drop_embedder,
        put_policy, get_operator_role, grant_roles, grant_rest FROM PUBLIC;
    FOR role IN SELECT rolname FROM pg_roles WHERE rolname IN ('agentmem_app', 'agentmem_worker', 'agentmem_auditor') LOOP
        EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', current_schema(), role);
        EXECUTE format('GRANT SELECT ON schema_version TO %I', role);
        CONTINUE WHEN role = 'agentmem_auditor';
        FOR shown IN SELECT oid::regclass FROM pg_class
                     WHERE relnamespace = current_schema()::regnamespace AND relkind = 'v'
                       AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = pg_class.oid AND d.deptype = 'e') LOOP
            EXECUTE format('GRANT SELECT ON %s TO %I', shown, role);
        END LOOP;
        EXECUTE format('REVOKE ALL ON FUNCTION make_passages FROM %I', role);
        EXECUTE format('GRANT USAGE ON SEQUENCE lease_tokens, memory_audit_log_id_seq TO %I', role);
        EXECUTE format('GRANT EXECUTE ON FUNCTION blank_audit_text, blank_changes, drop_versions, add_api_key, revoke_api_key, '
                       'set_api_key_use, drop_api_keys, set_store_meta, count_opening, register_embedder TO %I', role);
    END LOOP;
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'agentmem_worker') THEN
        GRANT EXECUTE ON FUNCTION create_audit_partitions, drop_old_audit_partitions, drop_store_meta, drop_embedder
            TO agentmem_worker;
    END IF;
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'agentmem_auditor') THEN
        GRANT SELECT ON memory_audit_log TO agentmem_auditor;
        PERFORM put_policy('memory_audit_log', 'auditor_reads', 'SELECT', 'agentmem_auditor', 'true');
    END IF;
END $$;
