#!/usr/bin/env bash
# How much `folio serve` answers: durable adds and lists over 64 connections, and a thousand who watch one run.
#
#   load.sh FOLIO [SECONDS]
#
# FOLIO is the program, best of a release build; SECONDS is how long each is measured (10). Needs wrk (Debian: apt-get install wrk) and
# Python 3. wrk and the server share the cores of this machine; it keeps one connection busy with one request after the other.

set -euo pipefail

folio=$(realpath "$1") seconds=${2:-10}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export FOLIO_LOAD=$here

folder=$(mktemp -d)
export HOME=$folder
server=
trap '[ -n "$server" ] && kill "$server" 2>/dev/null; rm -rf "$folder"' EXIT
ulimit -n 4096

# More than a space keeps live: what is put away when it is full is not what is measured here.
"$folio" --store "sqlite:$folder/f.db" --quiet policy set quota.live_observations=1000000000 >/dev/null
"$folio" --store "sqlite:$folder/f.db" serve --listen 127.0.0.1:0 >"$folder/url" 2>"$folder/said" &
server=$!
for _ in $(seq 100); do
    [ -s "$folder/url" ] && break
    sleep 0.1
done
url=$(cat "$folder/url")

load() { wrk -t1 -c64 -d"$2" --timeout 5s -s "$here/$1.lua" "$url" | tail -n 1; }

echo "watchers: $(python3 "$here/watchers.py" "$url" "$server")"
for what in adds lists; do
    load $what 2 >/dev/null # warm: of a large space, an index is made when it is asked for the first times
    echo "$what: $(load $what "$seconds")"
done
echo "resident: $(awk '/^VmRSS/ { print $2 / 1024 " MB" }' "/proc/$server/status")"
