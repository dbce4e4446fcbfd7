#!/bin/sh
# Runs once, on a new volume: the roles that the schema grants to; the owner of the database, who is no superuser, so that
# row-level security binds it, and logins for workers and agents, who own nothing; the extension, which needs a superuser.
# Passwords come from files, and psql reads them itself: none is on a command line.
set -e
export SECRETS="${SECRETS:-/run/secrets}"
psql --set ON_ERROR_STOP=1 --username "${POSTGRES_USER:-postgres}" --dbname postgres <<'SQL'
\set owner `cat "$SECRETS/postgres-owner"`
\set worker `cat "$SECRETS/postgres-worker"`
\set agent `cat "$SECRETS/postgres-agent"`
SET log_statement = 'none';
CREATE ROLE agentmem_app NOLOGIN;
CREATE ROLE agentmem_worker NOLOGIN;
CREATE ROLE agentmem_auditor NOLOGIN;
CREATE ROLE agentmem LOGIN PASSWORD :'owner' IN ROLE agentmem_app, agentmem_worker;
CREATE ROLE worker LOGIN PASSWORD :'worker' IN ROLE agentmem_app, agentmem_worker;
CREATE ROLE agent LOGIN PASSWORD :'agent' IN ROLE agentmem_app;
CREATE DATABASE agentmem OWNER agentmem;
\connect agentmem
CREATE EXTENSION vector;
SQL
