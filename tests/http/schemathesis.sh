#!/usr/bin/env bash
# Sends `folio serve` whatever its API description allows, and more, and checks that the answers match the description.
#
#   schemathesis.sh FOLIO TOOL
#
# FOLIO is the program, TOOL the schemathesis that ./test installs.

set -uo pipefail

folio=$(realpath "$1") tool=$(realpath -s "$2")
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

folder=$(mktemp -d) || exit 1
export HOME=$folder
server=
trap '[ -n "$server" ] && kill "$server" 2>/dev/null; rm -rf "$folder"' EXIT

# Creates something to find: an observation, an item, a page, an ended turn, a run.
store=sqlite:$folder/f.db
echo '{"title": "Echo", "steps": [{"id": "a", "do": {"tool": "text", "args": {"op": "echo", "value": 1}}}]}' >"$folder/plan.json"
folio() { "$folio" --store "$store" --thread t --quiet "$@" >"$folder/said" 2>&1 || { cat "$folder/said"; exit 1; }; }
folio observe add "There is something" --tag a
folio book add todo "Do it"
folio page new Home
folio turn begin --input "Begin"
folio turn end
folio run --plan "$folder/plan.json"

(cd "$folder" && exec "$folio" --store "$store" serve --listen 127.0.0.1:0 >"$folder/url") &
server=$!
for _ in $(seq 600); do
    [ -s "$folder/url" ] && break
    sleep 0.1
done

# Two runs that wait for people: one to steer, one to cancel.
url=$(cat "$folder/url")
post() { curl --silent --show-error --fail -H 'Content-Type: application/json' --data @- "$url$1"; }
for _ in 1 2; do
    post v1/spaces/main/runs <<'PLAN' >"$folder/said" || { cat "$folder/said"; exit 1; }
{"plan": {"title": "Wait", "steps": [{"parallel": [
    {"id": "ask", "title": "Which one?", "executor": "human"},
    {"id": "touch", "do": {"tool": "shell", "args": {"argv": ["true"]}}}]}]}}
PLAN
done
for _ in $(seq 600); do
    curl --silent "${url}v1/spaces/main/runs/r2/questions" >"$folder/asked"
    [ "$(grep -o '"node_id"' "$folder/asked" | wc -l)" -eq 2 ] && break
    sleep 0.1
done
python3 - "$here/schemathesis.toml" "$folder/asked" >"$folder/schemathesis.toml" <<'NAMES' || exit 1
import json, sys
asked = {item["kind"]: item for item in json.load(open(sys.argv[2]))["items"]}
print(open(sys.argv[1]).read()
    .replace("NODE", asked["call"]["node_id"])
    .replace("QUESTION", asked["question"]["id"])
    .replace("APPROVAL", asked["call"]["id"]))
NAMES

# Streams do not end by themselves, so they are left out.
cd "$folder" && timeout 600 "$tool" --config-file "$folder/schemathesis.toml" run "${url}openapi.json" \
    --seed 41 --max-examples 25 --workers 1 --request-timeout 60 --suppress-health-check all --no-color \
    --checks not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance \
    --exclude-path-regex '/events$'
