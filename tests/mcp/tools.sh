#!/usr/bin/env bash
# Tools of a third-party MCP server, in runs: as a program and over HTTP.
#
#   tools.sh FOLIO TOOLS
#
# FOLIO is the program, TOOLS the folder that ./test installs the server into.

set -uo pipefail
# shellcheck source=tests/tried.sh
. "$(dirname "$0")/../tried.sh"

folio=$1 tools=$2
node=$tools/node/node_modules/node/bin/node
server=$tools/everything/node_modules/@modelcontextprotocol/server-everything/dist/index.js

folder=$(mktemp -d) || exit 1
export HOME=$folder
serving=
trap '[ -n "$serving" ] && kill "$serving" 2>/dev/null; rm -rf "$folder"' EXIT
cd "$folder" || exit 1

port=$("$node" -e 'const s = require("net").createServer().listen(0, "127.0.0.1", () => { console.log(s.address().port); s.close() })')
PORT=$port "$node" "$server" streamableHttp >"$folder/server.log" 2>&1 &
serving=$!
for _ in $(seq 100); do
    (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null && break
    sleep 0.1
done

cat >folio.toml <<END
[mcp.near]
command = ["$node", "$server", "stdio"]
allow = ["echo", "get-sum", "get-tiny-image", "get-structured-content"]

[mcp.far]
url = "http://127.0.0.1:$port/mcp"
allow = ["*"]
END
"$folio" trust >/dev/null

calls() {
    cat >plan.yaml <<END
title: Ask $1
steps:
  - {id: said, do: {tool: $1.echo, args: {message: good day}}}
  - {id: sum, do: {tool: $1.get-sum, args: {a: 2, b: '{{ results.said.output.text | length }}'}}}
  - {id: image, do: {tool: $1.get-tiny-image}}
  - {id: weather, do: {tool: $1.get-structured-content, args: {location: New York}}}
output:
  said: '{{ results.said.output.text }}'
  sum: '{{ results.sum.output.text }}'
  image: '{{ results.image.output.parts[0].mime_type }}'
  weather: '{{ results.weather.output.structured }}'
END
    "$folio" run --plan plan.yaml --quiet && "$folio" show "$2" --json >"$2.json" &&
        holds 'Echo: good day' "$2.json" && holds 'The sum of 2 and 14 is 16' "$2.json" &&
        holds 'image/png' "$2.json" && holds 'temperature' "$2.json"
}
waits() {
    printf 'title: Ask\nsteps:\n  - {id: env, do: {tool: near.get-env}}\n' >plan.yaml
    ! "$folio" run --plan plan.yaml --non-interactive >refused 2>&1 && holds 'this run does not allow it' refused &&
        "$folio" run --plan plan.yaml --quiet --allow-tool near.get-env
}
listed() {
    "$folio" tool list >listed && holds 'near.echo ' listed && holds 'far.echo ' listed
}
wrong() {
    printf 'title: Ask\nsteps:\n  - {id: sum, do: {tool: near.get-sum, args: {a: two, b: 2}}}\n' >plan.yaml
    ! "$folio" plan check plan.yaml >checked 2>&1 && holds P029 checked
}

export -f calls waits listed wrong holds
export folio
try "tools are listed" bash -c listed
try "a program" bash -c 'calls near r1'
try "over HTTP" bash -c 'calls far r2'
try "a yes is waited for" bash -c waits
try "arguments are checked" bash -c wrong
exit "$failed"
