#!/usr/bin/env bash
# What the shared store does on this machine, beside what PostgreSQL does there at best.
#
#   benches/postgres/measure.sh target/release/folio [ENTRIES]
#
# Starts a PostgreSQL of its own that waits for the disk. 64 clients of pgbench insert one row each in a transaction, of as
# many bytes as one observation has in the log; before that `folio bench store` measures adds of 64 writers,
# questions to a space of ENTRIES observations (1,000,000 if nothing is said), and a tree of 1,365 nodes beside the same in a
# file. Nothing else should work on the disk meanwhile.

set -euo pipefail

program=$(realpath "${1:?the program folio}")
entries=${2:-1000000}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
folder=$(mktemp -d "${TMPDIR:-/tmp}/folio-postgres.XXXXXX")
# Whoever PostgreSQL runs as has to get there.
chmod 755 "$folder"
trap '"$here/tests/postgres/cluster.sh" stop "$folder/cluster"; rm -rf "$folder"' EXIT

url=$(FOLIO_CLUSTER_FSYNC=on FOLIO_CLUSTER_CONF="max_wal_size = 4GB" "$here/tests/postgres/cluster.sh" start "$folder/cluster")
say() { psql -X -A -t -q -d "$url" -c "$1"; }
field() { python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))'"$1"')' "$2"; }

PATH=$(ls -d /usr/lib/postgresql/*/bin | sort -V | tail -n 1):$PATH
echo "PostgreSQL $(say 'SHOW server_version'): fsync $(say 'SHOW fsync'), synchronous_commit $(say 'SHOW synchronous_commit'), full_page_writes $(say 'SHOW full_page_writes')"

cd "$folder"
folio() { env -i HOME="$folder" PATH="$PATH" "$program" --store "$url" "$@"; }
folio bench store --entries "$entries" --json >figures.json
bytes=$(field '["add_bytes"]' figures.json)
say "CREATE TABLE bare (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, row text NOT NULL)"
echo "INSERT INTO bare (row) VALUES (repeat('x', $bytes));" >insert.sql
bare() { pgbench -n -c 64 -j 2 -T 10 -f insert.sql "$url" 2>/dev/null | awk '/^tps/ { print int($3) }'; }
before=$(bare)
after=$(bare)
rate=$(field '["adds"]["per_second"]' figures.json)
python3 - "$before" "$after" "$rate" "$bytes" <<'PYTHON'
import sys
before, after, rate, size = (float(text) for text in sys.argv[1:])
bare = (before + after) / 2
print(f"bare inserts, 64 clients       {before:.0f} and {after:.0f} a second, {size:.0f} bytes each")
print(f"durable adds, 64 writers       {rate:.0f} a second: {100 * rate / bare:.0f} % of that")
PYTHON
python3 - figures.json <<'PYTHON'
import json, sys
figures = json.load(open(sys.argv[1]))
print(f"  one add                      p50 {figures['adds']['p50_us'] / 1000:.1f} ms, p99 {figures['adds']['p99_us'] / 1000:.1f} ms")
for one in figures["lists"]:
    print(f"{one['question']:<30} p50 {one['p50_ms']:.2f} ms, p99 {one['p99_ms']:.2f} ms; {one['total']} of {figures['entries']}")
print(f"tree of 1,365 nodes            {figures['tree_ms']:.0f} ms; in a file {figures['tree_in_a_file_ms']:.0f} ms: {figures['tree_to_file']:.2f} ×")
PYTHON
