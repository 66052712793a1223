#!/usr/bin/env bash
# A private PostgreSQL for tests: a cluster in a folder of its own, on a free port of this machine, behind a password.
#
#   tests/postgres/cluster.sh find            whether it is installed
#   tests/postgres/cluster.sh start FOLDER    makes and starts it; prints its URL
#   tests/postgres/cluster.sh stop FOLDER     stops it and removes the folder
#   tests/postgres/cluster.sh at FOLDER ...   runs a program of PostgreSQL as the user that the cluster runs as
#
# PostgreSQL does not run as root: then it runs as the user postgres, or nobody.

set -euo pipefail

folder=${2:-}

# The newest that is installed. Debian keeps the programs of a server out of the way.
programs=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -n 1 || true)
[ -n "$programs" ] && PATH="$programs:$PATH"
command -v initdb >/dev/null && command -v pg_ctl >/dev/null || { echo "PostgreSQL: not found"; exit 3; }

user=$(id -un)
as() { "$@"; }
if [ "$(id -u)" -eq 0 ]; then
    user=postgres
    id -u "$user" >/dev/null 2>&1 || user=nobody
    as() { (cd / && setpriv --reuid "$user" --regid "$(id -g "$user")" --clear-groups env HOME="$folder" "$@"); }
fi

start() {
    mkdir -p "$folder"
    local password
    password=$(od -An -N12 -tx1 /dev/urandom | tr -d ' \n')
    echo "$password" >"$folder/password"
    chown -R "$user" "$folder"
    chmod 700 "$folder"
    as initdb -D "$folder/data" -U folio --auth=scram-sha-256 --pwfile="$folder/password" --encoding=UTF8 --locale=C.UTF-8 \
        --no-sync >"$folder.log" 2>&1 || { cat "$folder.log" >&2; exit 1; }
    # Nobody cuts the power of a test. What measures how long the disk takes says so.
    as tee -a "$folder/data/postgresql.conf" >/dev/null <<CONF
listen_addresses = '127.0.0.1'
unix_socket_directories = '$folder'
max_connections = 400
shared_buffers = 256MB
fsync = ${FOLIO_CLUSTER_FSYNC:-off}
full_page_writes = ${FOLIO_CLUSTER_FSYNC:-off}
autovacuum_naptime = 5s
log_min_messages = warning
CONF
    local port
    for _ in 1 2 3 4 5; do
        port=$(shuf -i 20000-59999 -n 1)
        if as pg_ctl -D "$folder/data" -o "-p $port" -l "$folder/log" -w -t 60 start >>"$folder.log" 2>&1; then
            echo "$port" >"$folder/port"
            echo "postgres://folio:$password@127.0.0.1:$port/postgres?sslmode=disable"
            return 0
        fi
    done
    cat "$folder.log" "$folder/log" >&2
    exit 1
}

stop() {
    as pg_ctl -D "$folder/data" -m immediate -w stop >/dev/null 2>&1 || true
    rm -rf "$folder" "$folder.log"
}

case "${1:-}" in
    find) initdb --version && exit 0 ;;
    start | stop | at) : "${folder:?the folder of the cluster}" ;;
esac
case "${1:-}" in
    start) start ;;
    stop) stop ;;
    at) shift 2; as "$@" ;;
    *) sed -n '2,10s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
