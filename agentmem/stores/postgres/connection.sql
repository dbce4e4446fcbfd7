-- How every transaction begins.

-- name: read
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY

-- name: write
BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE

-- name: limits
SELECT set_config('agentmem.user_id', %(user_id)s, true), set_config('agentmem.operator', %(operator)s, true),
       set_config('statement_timeout', %(patience)s, true), set_config('lock_timeout', %(patience)s, true),
       set_config('jit', 'off', true)

-- name: user
SELECT set_config('agentmem.user_id', %(user_id)s, true)

-- name: may_operate
SELECT coalesce((SELECT pg_has_role(oid, 'USAGE') FROM pg_roles WHERE rolname = 'agentmem_worker'), true)

-- name: commit
COMMIT

-- name: keepalives
SELECT set_config('tcp_keepalives_idle', '30', false), set_config('tcp_keepalives_interval', '10', false),
       set_config('tcp_keepalives_count', '3', false)
