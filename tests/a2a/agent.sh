#!/usr/bin/env bash
# An agent on another machine as the executor of a run: a third-party server of the Agent2Agent protocol (the official
# Python SDK), with an executor that mends clocks (agent.py).
#
#   agent.sh FOLIO PYTHON
#
# FOLIO is the program, PYTHON an interpreter that has the SDK.

set -uo pipefail
# shellcheck source=tests/tried.sh
. "$(dirname "$0")/../tried.sh"

folio=$1 python=$2
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d) || exit 1
export HOME=$folder/home
# A store and settings of its own, wherever the caller keeps theirs.
export XDG_CONFIG_HOME=$HOME/.config XDG_DATA_HOME=$HOME/.local/share
mkdir -p "$HOME" "$folder/work"
agent=
trap '[ -n "$agent" ] && kill "$agent" 2>/dev/null; rm -rf "$folder"' EXIT
cd "$folder/work" || exit 1

# Waits until $2 contains $1.
comes() {
    for _ in $(seq 300); do
        grep -q -- "$1" "$2" 2>/dev/null && return 0
        sleep 0.1
    done
    echo "$2 never had $1"
    return 1
}
begun() { grep -c -- "$1" "$folder/begun" 2>/dev/null; }

"$python" "$here/agent.py" "$folder" >"$folder/agent.log" 2>&1 &
agent=$!
comes '^http' "$folder/agent.log" || { cat "$folder/agent.log"; exit 1; }
url=$(grep -m 1 '^http' "$folder/agent.log")
echo "the-token" >token
cat >folio.toml <<END
[agents.mender]
form = "a2a"
url = "$url"
token_file = "token"

[agents.stranger]
form = "a2a"
url = "$url"
END
"$folio" trust >/dev/null

works() {
    "$folio" run "Mend the clock" --model agent:mender --planning never --allow-tool agent:mender || return 1
    "$folio" show r1 --json >r1.json && holds 'It ticks again, mended QUICKLY' r1.json && holds '"ok"' r1.json
}
# Without approval, the agent is given nothing; without its token it refuses; what it cannot do, it says.
refused() {
    "$folio" run "Mend the clock" --model agent:mender --planning never --non-interactive && return 1
    "$folio" show r2 --json >r2.json && holds '"policy_denied"' r2.json && holds 'allow-tool agent:mender' r2.json || return 1
    [ "$(begun QUICKLY)" = 1 ] || { echo "it was given a task"; return 1; }
    "$folio" run "Mend the clock" --model agent:stranger --planning never --allow-tool agent:stranger && return 1
    "$folio" show r3 --json >r3.json && holds '"auth"' r3.json || return 1
    "$folio" run "ASK which clock" --model agent:mender --planning never --allow-tool agent:mender && return 1
    "$folio" show r4 --json >r4.json && holds 'Which clock?' r4.json || return 1
    "$folio" run "BREAK the clock" --model agent:mender --planning never --allow-tool agent:mender && return 1
    "$folio" show r5 --json >r5.json && holds 'the spring is broken' r5.json
}
# A cancelled run is cancelled at the agent, too.
cancelled() {
    "$folio" run "Mend it SLOWLY" --model agent:mender --planning never --allow-tool agent:mender --quiet &
    local running=$!
    comes SLOWLY "$folder/begun" || return 1
    sleep 1
    "$folio" cancel r6 || return 1
    wait "$running"
    comes yes "$folder/stopped"
}
# Folio is killed while the agent works, and continues with what the agent has done meanwhile.
goes_on() {
    local before
    before=$(begun SLOWLY)
    "$folio" run "Mend it SLOWLY" --model agent:mender --planning never --allow-tool agent:mender --quiet &
    local running=$!
    for _ in $(seq 300); do
        "$folio" trace --run r7 2>/dev/null | grep -q "has a session" && break
        sleep 0.1
    done
    kill -9 "$running"
    wait "$running" 2>/dev/null
    touch "$folder/go"
    "$folio" resume r7 --model agent:mender || return 1
    "$folio" show r7 --json >r7.json && holds 'mended SLOWLY' r7.json && holds '"ok"' r7.json || return 1
    [ "$(begun SLOWLY)" = $((before + 1)) ] || { echo "it was given the task again"; return 1; }
}
# Waits until $1 asks which clock.
asks() {
    for _ in $(seq 300); do
        "$folio" questions 2>/dev/null | grep -q "$1.*Which clock" && return 0
        sleep 0.1
    done
    echo "$1 asked nothing"
    return 1
}
# The agent's question goes to a person, and it continues with their answer, even if Folio was killed meanwhile.
answered() {
    local running
    "$folio" run "ASK which clock" --model agent:mender --planning never --allow-tool agent:mender --attended --quiet &
    running=$!
    asks r8 || return 1
    "$folio" answer r8 "the tall one" || return 1
    wait "$running" || return 1
    "$folio" show r8 --json >r8.json && holds 'It ticks again: the tall one.' r8.json || return 1
    "$folio" run "ASK another clock" --model agent:mender --planning never --allow-tool agent:mender --attended --quiet &
    running=$!
    asks r9 || return 1
    kill -9 "$running"
    wait "$running" 2>/dev/null
    "$folio" answer r9 "the small one" || return 1
    "$folio" resume r9 --model agent:mender || return 1
    "$folio" show r9 --json >r9.json && holds 'It ticks again: the small one.' r9.json || return 1
    [ "$(wc -l <"$folder/answered")" = 2 ] || { cat "$folder/answered"; return 1; }
}
# If nobody answers any more, the agent is told.
called_off() {
    local before running
    before=$(wc -l <"$folder/stopped")
    "$folio" run "ASK which clock" --model agent:mender --planning never --allow-tool agent:mender --attended --quiet &
    running=$!
    asks r10 || return 1
    "$folio" cancel r10 || return 1
    wait "$running"
    [ "$(wc -l <"$folder/stopped")" = $((before + 1)) ] || { echo "it still waits"; return 1; }
}
export -f works refused cancelled goes_on answered called_off asks holds comes begun
export folio folder
try "does a task" bash -c works
try "may not, or cannot" bash -c refused
try "is told to stop" bash -c cancelled
try "killed with the agent at work, and asked for what it did" bash -c goes_on
try "asks a person" bash -c answered
try "asked, and nobody answers" bash -c called_off
exit "$failed"
