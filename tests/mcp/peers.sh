#!/usr/bin/env bash
# Third-party clients of the Model Context Protocol, with `folio mcp` and `folio serve`.
#
#   peers.sh FOLIO TOOLS python|node|conformance|inspector
#
# FOLIO is the program, TOOLS the folder that ./test installs them into.

set -uo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folio=$1 tools=$2 which=$3
node=$tools/node/node_modules/node/bin/node
modules=$tools/node/node_modules/@modelcontextprotocol
export NODE_PACKAGES=$tools/node PYTHONWARNINGS=ignore FOLIO_MODEL=scripted:$here/colour.json

folder=$(mktemp -d) || exit 1
export HOME=$folder
server=
trap '[ -n "$server" ] && kill "$server" 2>/dev/null; rm -rf "$folder"' EXIT

# Starts a server on a free port; $url is its MCP address.
serve() {
    "$folio" --store "sqlite:$folder/served.db" serve --listen 127.0.0.1:0 --tools observe,memory,plan,run >"$folder/url" &
    server=$!
    for _ in $(seq 100); do
        [ -s "$folder/url" ] && break
        sleep 0.1
    done
    url=$(cat "$folder/url")mcp
}

failed=0
# Runs a command and reports the result; prints its output only if it failed.
try() {
    local name=$1
    shift
    if timeout 120 "$@" >"$folder/said" 2>&1; then
        echo "$name: ok"
    else
        echo "$name: FAILED"
        tail -n 40 "$folder/said"
        failed=1
    fi
}

# Fails unless the command ends with the exit code that comes first.
ends_with() {
    local wanted=$1
    shift
    "$@"
    local code=$?
    [ "$code" -eq "$wanted" ] || { echo "exit code $code, not $wanted: $*"; return 1; }
}

serve
case $which in
    python | node)
        client=("$tools/python/bin/python" "$here/client.py")
        [ "$which" = node ] && client=("$node" "$here/client.mjs")
        for mode in legacy auto 2026-07-28; do
            try "$which, stdio, $mode" "${client[@]}" stdio "$folio" "$mode"
            try "$which, http, $mode" "${client[@]}" http "$url" "$mode"
        done
        ;;
    conformance)
        for revision in 2025-11-25 2026-07-28; do
            try "conformance, $revision" "$node" "$modules/conformance/dist/index.js" server --url "$url" \
                --requirements "$revision" -o "$folder/$revision" --expected-failures "$here/conformance-$revision.yml"
        done
        ;;
    inspector)
        export -f ends_with
        for target in "$folio --store memory: mcp --tools observe,memory,plan,run" "$url"; do
            for era in legacy modern; do
                # shellcheck disable=SC2206 # a command and its arguments
                inspector=(ends_with 0 "$node" "$tools/node/node_modules/.bin/mcp-inspector" --cli $target --protocol-era $era)
                try "inspector, $era, schemas of ${target##* }" bash -c '"$@"' - "${inspector[@]}" --method tools/list --strict
                try "inspector, $era, a call" bash -c '"$@"' - "${inspector[@]}" --method tools/call --tool-name scratch_add \
                    --tool-arg kind=note title=Inspector
                try "inspector, $era, a resource" bash -c '"$@"' - "${inspector[@]}" --method resources/read --uri folio://view/x
                # An answer that is an error.
                inspector[1]=5
                try "inspector, $era, a refusal" bash -c '"$@"' - "${inspector[@]}" --method tools/call --tool-name scratch_pin \
                    --tool-arg id=e99999
            done
        done
        ;;
    *)
        echo "peers.sh: there is no $which" >&2
        exit 2
        ;;
esac
exit "$failed"
