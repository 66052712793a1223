#!/usr/bin/env bash
# A private PostgreSQL for tests: a cluster in a folder of its own, on a free port of this machine, behind a password.
#
#   tests/postgres/cluster.sh find                whether it is installed
#   tests/postgres/cluster.sh mounts              whether it can be put on a disk of its own (FOLIO_CLUSTER_MB)
#   tests/postgres/cluster.sh start FOLDER        makes and starts it; prints its URL
#   tests/postgres/cluster.sh standby FOLDER OF   makes and starts a standby of the one in the folder OF
#   tests/postgres/cluster.sh promote FOLDER      promotes a standby to the primary
#   tests/postgres/cluster.sh kill FOLDER         kills every process of it with SIGKILL
#   tests/postgres/cluster.sh again FOLDER        starts it again at its port
#   tests/postgres/cluster.sh stop FOLDER         stops it, and those in folders below it, and removes the folder
#   tests/postgres/cluster.sh at FOLDER ...       runs a program of PostgreSQL as the user that the cluster runs as
#
# PostgreSQL refuses to run as root: then it runs as the user postgres, or nobody. FOLIO_CLUSTER_CONF adds lines to its
# settings, FOLIO_CLUSTER_MB is the size of a disk in memory for its files, FOLIO_CLUSTER_FSYNC is on or off.

set -euo pipefail

folder=${2:-}

# Uses the newest installed version. Debian keeps the server programs outside of PATH.
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

# Starts the cluster in the folder at port $1.
run_at() {
    as pg_ctl -D "$folder/data" -o "-p $1 -c unix_socket_directories='$folder'" -l "$folder/log" -w -t 60 start >>"$folder.log" 2>&1
}

# Starts the cluster at a free port, and prints its URL.
run_somewhere() {
    local port
    for _ in 1 2 3 4 5; do
        port=$(shuf -i 20000-59999 -n 1)
        if run_at "$port"; then
            echo "$port" >"$folder/port"
            echo "postgres://folio:$(cat "$folder/password")@127.0.0.1:$port/postgres?sslmode=disable"
            return 0
        fi
    done
    cat "$folder.log" "$folder/log" >&2
    exit 1
}

make_folder() {
    mkdir -p "$folder/data"
    if [ -n "${FOLIO_CLUSTER_MB:-}" ]; then
        mount -t tmpfs -o "size=${FOLIO_CLUSTER_MB}m" tmpfs "$folder/data"
    fi
    chown -R "$user" "$folder"
    chmod 700 "$folder" "$folder/data"
}

start() {
    make_folder
    od -An -N12 -tx1 /dev/urandom | tr -d ' \n' >"$folder/password"
    chown "$user" "$folder/password"
    # Small segments of the write-ahead log if there is little room.
    as initdb -D "$folder/data" -U folio --auth=scram-sha-256 --pwfile="$folder/password" --encoding=UTF8 --locale=C.UTF-8 \
        --wal-segsize="$([ -n "${FOLIO_CLUSTER_MB:-}" ] && echo 1 || echo 16)" --no-sync >"$folder.log" 2>&1 ||
        { cat "$folder.log" >&2; exit 1; }
    # Tests have no power loss, so fsync is off, except for those that measure the disk.
    as tee -a "$folder/data/postgresql.conf" >/dev/null <<CONF
listen_addresses = '127.0.0.1'
max_connections = 400
shared_buffers = 256MB
fsync = ${FOLIO_CLUSTER_FSYNC:-off}
full_page_writes = ${FOLIO_CLUSTER_FSYNC:-off}
autovacuum_naptime = 5s
log_min_messages = warning
${FOLIO_CLUSTER_CONF:-}
CONF
    run_somewhere
}

standby() {
    local of=$1
    make_folder
    cp "$of/password" "$folder/password"
    chown "$user" "$folder/password"
    as env PGPASSWORD="$(cat "$of/password")" pg_basebackup -D "$folder/data" -h 127.0.0.1 -p "$(cat "$of/port")" -U folio \
        --checkpoint=fast --wal-method=stream --write-recovery-conf --no-sync >"$folder.log" 2>&1 || { cat "$folder.log" >&2; exit 1; }
    run_somewhere
}

# Kills all at once, so that none of the processes notices that another is gone.
kill_all() {
    local server
    server=$(head -n 1 "$folder/data/postmaster.pid")
    # shellcheck disable=SC2046
    kill -STOP "$server" && kill -KILL $(ps -o pid= --ppid "$server") "$server"
    while kill -0 "$server" 2>/dev/null; do sleep 0.02; done
}

again() {
    # Its shared memory is freed a moment after its processes are gone.
    for _ in $(seq 50); do
        run_at "$(cat "$folder/port")" && return 0
        sleep 0.1
    done
    cat "$folder.log" "$folder/log" >&2
    exit 1
}

stop() {
    local data
    while read -r data; do
        as pg_ctl -D "$data" -m immediate -w stop >/dev/null 2>&1 || true
        ! mountpoint -q "$data" || umount -l "$data"
    done < <(find "$folder" -name data -type d -prune 2>/dev/null)
    rm -rf "$folder" "$folder.log"
}

mounts() {
    local place
    [ "$(id -u)" -eq 0 ] || return 1
    place=$(mktemp -d) && mount -t tmpfs -o size=1m tmpfs "$place" 2>/dev/null && umount "$place"
    local code=$?
    rmdir "$place"
    return "$code"
}

case "${1:-}" in
    find) initdb --version && exit 0 ;;
    mounts) mounts && exit 0 || exit 1 ;;
    start | standby | promote | kill | again | stop | at) : "${folder:?the folder of the cluster}" ;;
esac
case "${1:-}" in
    start) start ;;
    standby) standby "${3:?the folder of the cluster that it follows}" ;;
    promote) as pg_ctl -D "$folder/data" -w promote >>"$folder.log" ;;
    kill) kill_all ;;
    again) again ;;
    stop) stop ;;
    at) shift 2; as "$@" ;;
    *) sed -n '2,17s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
