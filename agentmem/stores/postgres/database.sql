-- How every transaction begins. One that only reads needs no more than `limits`: what a pipeline sends up to its end is
-- one transaction by itself, and `session` says of which kind. Behind a pooler `session` would be that of others, too: a
-- read begins with `read` there, and all settings end with their transaction.

-- name: is_direct
SELECT current_setting(%(setting)s, true) = 'on'

-- name: prepared_as
-- The names under which the server knows this very statement. A pooler that keeps statements for its clients renames them.
SELECT name FROM pg_prepared_statements WHERE statement LIKE '%pg_prepared_statements WHERE statement%'

-- name: read
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY

-- name: write
BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE

-- name: limits
-- What one user's write looks up and changes it finds by keys: no table is read whole, and no plan made for one value. So
-- does a lookup, which joins many tables in the order written: to plan its joins would take longer than to run them.
SELECT set_config('agentmem.user_id', %(user_id)s, true), set_config('agentmem.operator', %(operator)s, true),
       set_config('statement_timeout', %(patience)s, true), set_config('lock_timeout', %(patience)s, true),
       CASE WHEN NOT %(lasting)s THEN set_config('synchronous_commit', 'off', true) END,
       CASE WHEN %(keyed)s THEN set_config('plan_cache_mode', 'force_generic_plan', true) END,
       CASE WHEN %(keyed)s THEN set_config('enable_seqscan', 'off', true) END,
       CASE WHEN %(lookup)s THEN set_config('join_collapse_limit', '1', true) END,
       CASE WHEN %(lookup)s THEN set_config('enable_hashjoin', 'off', true) END,
       CASE WHEN %(lookup)s THEN set_config('enable_mergejoin', 'off', true) END,
       CASE WHEN %(pooled)s THEN set_config('jit', 'off', true) END

-- name: user
SELECT set_config('agentmem.user_id', %(user_id)s, true)

-- name: may_operate
SELECT coalesce((SELECT pg_has_role(oid, 'USAGE') FROM pg_roles WHERE rolname = 'agentmem_worker'), true)

-- name: commit
COMMIT

-- name: session
-- Each statement that a transaction does without is a tenth of what a small read costs.
SELECT set_config('default_transaction_isolation', 'repeatable read', false),
       set_config('default_transaction_read_only', 'on', false), set_config('jit', 'off', false),
       set_config('tcp_keepalives_idle', '30', false), set_config('tcp_keepalives_interval', '10', false),
       set_config('tcp_keepalives_count', '3', false)
