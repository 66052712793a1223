#!/usr/bin/env bash
# OpenCode, a third-party agent program, as the executor of a run: by the Agent Client Protocol and as a plain program.
# Its model answers by a script, so it needs no account.
#
#   opencode.sh FOLIO TOOLS AIMOCK
#
# FOLIO is the program, TOOLS the folder that ./test installs OpenCode into, AIMOCK the folder of the mock server for
# models.

set -uo pipefail
# shellcheck source=tests/tried.sh
. "$(dirname "$0")/../tried.sh"

folio=$1 opencode=$2/opencode/node_modules/.bin/opencode
aimock=$(cd "$3" && pwd)/node_modules/@copilotkit/aimock/dist/cli.js

folder=$(mktemp -d) || exit 1
export HOME=$folder/home OPENCODE_DISABLE_AUTOUPDATE=1 OPENCODE_DISABLE_MODELS_FETCH=1 OPENCODE_DISABLE_DEFAULT_PLUGINS=1
# A store and settings of its own, wherever the caller keeps theirs.
export XDG_CONFIG_HOME=$HOME/.config XDG_DATA_HOME=$HOME/.local/share
mkdir -p "$XDG_CONFIG_HOME/opencode" "$folder/work"
model=
trap '[ -n "$model" ] && kill "$model" 2>/dev/null; rm -rf "$folder"' EXIT
cd "$folder/work" || exit 1

most=240

# The model answers the task; any other request, such as for a title, gets one word.
cat >"$folder/fixtures.json" <<'END'
{"fixtures": [
  {"match": {"userMessage": "You were interrupted"}, "response": {"content": "{\"status\": \"ok\", \"notes\": \"The bell rings again.\"}",
    "usage": {"prompt_tokens": 1300, "completion_tokens": 30}}},
  {"match": {"userMessage": "FOLIO-BELL"}, "latency": 500, "chunkSize": 2,
    "response": {"content": "I will have a look at the bell first, and it takes a long time until I have seen all of it."}},
  {"match": {"userMessage": "FOLIO-CLOCK"}, "response": {"content": "{\"status\": \"ok\", \"notes\": \"The clock ticks again.\"}",
    "usage": {"prompt_tokens": 1200, "completion_tokens": 34}}},
  {"match": {}, "response": {"content": "Clock"}}
]}
END
node "$aimock" --port 0 --log-level debug --fixtures "$folder/fixtures.json" >"$folder/model.log" 2>&1 &
model=$!
for _ in $(seq 100); do
    url=$(sed -n 's/.*listening on //p' "$folder/model.log" | head -n 1)
    [ -n "$url" ] && break
    sleep 0.1
done

cat >"$XDG_CONFIG_HOME/opencode/opencode.json" <<END
{"\$schema": "https://opencode.ai/config.json", "model": "fake/m", "small_model": "fake/m", "share": "disabled", "autoupdate": false,
 "provider": {"fake": {"npm": "@ai-sdk/openai-compatible", "name": "fake", "options": {"baseURL": "$url/v1", "apiKey": "none"},
                       "models": {"m": {"name": "m", "limit": {"context": 128000, "output": 4096}}}}}}
END

passes='["OPENCODE_DISABLE_AUTOUPDATE", "OPENCODE_DISABLE_MODELS_FETCH", "OPENCODE_DISABLE_DEFAULT_PLUGINS"]'
cat >folio.toml <<END
[agents.talking]
command = ["$opencode", "acp"]
form = "acp"
environment = $passes
time_s = 180

[agents.printing]
command = ["$opencode", "run", "--format", "json"]
form = "opencode"
prompt = "argument"
environment = $passes
time_s = 180
END
"$folio" trust >/dev/null

works() {
    "$folio" run "Mend the FOLIO-CLOCK" --model "agent:$1" --planning never --allow-shell || return 1
    "$folio" show "$2" --json >"$2.json" && holds 'The clock ticks again.' "$2.json" && holds '"ok"' "$2.json"
}
# Folio is killed while OpenCode waits for its model, and continues with its session.
goes_on() {
    "$folio" run "Ring the FOLIO-BELL" --model agent:talking --planning never --allow-shell --quiet &
    local running=$! asked
    for _ in $(seq 600); do
        asked=$(grep -c "matched.*FOLIO-BELL" "$folder/model.log")
        [ "$asked" -gt 0 ] && break
        sleep 0.1
    done
    [ "$asked" -gt 0 ] || { echo "the model was not asked"; return 1; }
    sleep 2
    kill -9 "$running"
    wait "$running" 2>/dev/null
    "$folio" resume r3 --model agent:talking || return 1
    "$folio" show r3 --json >r3.json && holds 'The bell rings again.' r3.json && holds '"ok"' r3.json
}
export -f works holds goes_on
export folio folder
try "by the Agent Client Protocol" bash -c 'works talking r1'
try "as a plain program" bash -c 'works printing r2'
try "killed with Folio at work, and given its session back" bash -c goes_on
exit "$failed"
