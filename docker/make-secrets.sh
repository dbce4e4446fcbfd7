#!/bin/sh
# Makes the passwords of compose.yaml: one file each in secrets/, where it is missing. Run it again at any time: what is there stays.
# The folder is yours alone. The files can be read by everybody, because each container reads its own as another user.
set -eu
cd "$(dirname "$0")"
umask 077
mkdir -p secrets
chmod 700 secrets
make() {
  [ -s "secrets/$1" ] || {
    printf '%s\n' "${2:-}$(od -An -N24 -tx1 /dev/urandom | tr -d ' \n')" > "secrets/$1"
    chmod 444 "secrets/$1"
  }
}
make postgres-superuser # for upkeep by hand; agentmem never uses it
make postgres-owner     # role agentmem, who owns the tables: migrations alone
make postgres-worker    # role worker
make postgres-agent     # role agent, for the programs that remember
make redis-password
make neo4j-auth neo4j/ # as the image takes it
[ -s secrets/neo4j-password ] || {
  sed 's|^neo4j/||' secrets/neo4j-auth > secrets/neo4j-password
  chmod 444 secrets/neo4j-password
}
