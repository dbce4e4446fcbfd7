#!/bin/sh
# Runs once, on a new volume: the database and its owner, who is no superuser, so that row-level security binds it; the roles
# that the schema grants to; the extension, which needs a superuser.
set -e
psql --set ON_ERROR_STOP=1 --set password="${AGENTMEM_PASSWORD:?}" --username "${POSTGRES_USER:-postgres}" --dbname postgres <<'SQL'
CREATE ROLE agentmem_app NOLOGIN;
CREATE ROLE agentmem_worker NOLOGIN;
CREATE ROLE agentmem_auditor NOLOGIN;
CREATE ROLE agentmem LOGIN PASSWORD :'password' IN ROLE agentmem_app, agentmem_worker;
CREATE DATABASE agentmem OWNER agentmem;
\connect agentmem
CREATE EXTENSION vector;
SQL
