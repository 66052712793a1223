#!/usr/bin/env bash
# Spans of runs, as a third-party collector receives them: rotel, which prints everything that comes in.
#
#   collector.sh FOLIO PYTHON
#
# FOLIO is the program, PYTHON the one that ./test installs rotel for.

set -uo pipefail

folio=$(realpath "$1") python=$(realpath -s "$2")
collector=$("$python" -c 'import pathlib, rotel; print(pathlib.Path(rotel.__file__).parent / "rotel-agent")') || exit 1

folder=$(mktemp -d) || exit 1
export HOME=$folder
processes=()
trap '[ ${#processes[@]} -gt 0 ] && kill "${processes[@]}" 2>/dev/null; rm -rf "$folder"' EXIT
cd "$folder" || exit 1

read -r grpc http < <("$python" - <<'PY'
import socket
sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
print(*(s.getsockname()[1] for s in sockets))
PY
)
"$collector" start --otlp-grpc-endpoint "127.0.0.1:$grpc" --otlp-http-endpoint "127.0.0.1:$http" --exporter blackhole \
    --debug-log traces --debug-log-verbosity detailed >told 2>&1 &
processes+=($!)
for _ in $(seq 100); do
    (exec 3<>"/dev/tcp/127.0.0.1/$http") 2>/dev/null && break
    sleep 0.1
done

cat >plan.yaml <<'PLAN'
title: sesame
steps:
  - id: outer
    plan:
      steps:
        - {id: inner, do: {tool: text, args: {op: echo, value: sesame}}}
  - {id: bad, optional: true, do: {tool: read, args: {path: sesame}}}
PLAN
cat >script.json <<'SCRIPT'
{"version": 1, "cues": [
  {"contains": "Decide how", "json": {"decision": "execute", "reason": "small",
    "action": {"tool": "text", "args": {"op": "echo", "value": "sesame"}}}, "usage": {"tokens_in": 70, "tokens_out": 7}},
  {"contains": "sesame", "calls": [{"tool": "finish", "args": {"notes": "opened sesame"}}], "usage": {"tokens_in": 70, "tokens_out": 7}}]}
SCRIPT
printf '[telemetry]\nendpoint = "http://127.0.0.1:%s"\n' "$http" >told.toml

# Configured by the variables of OpenTelemetry, and by the settings file.
export OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:$http OTEL_RESOURCE_ATTRIBUTES=deployment.environment.name=trial
"$folio" --store sqlite:a.db --quiet run --plan plan.yaml >said 2>&1 || { cat said; exit 1; }
unset OTEL_EXPORTER_OTLP_ENDPOINT
"$folio" --store sqlite:a.db --config told.toml --quiet run "Say sesame" --model scripted:script.json >said 2>&1 || { cat said; exit 1; }
# Not sent: not configured, or switched off.
"$folio" --store sqlite:a.db --quiet run --plan plan.yaml >said 2>&1 || { cat said; exit 1; }
OTEL_SDK_DISABLED=true "$folio" --store sqlite:a.db --config told.toml --quiet run --plan plan.yaml >said 2>&1 || { cat said; exit 1; }

# Runs that a server drives.
OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:$http "$folio" --store sqlite:a.db serve --listen 127.0.0.1:0 >url 2>said &
server=$!
processes+=("$server")
for _ in $(seq 100); do
    [ -s url ] && break
    sleep 0.1
done
"$python" - "$(cat url)" <<'PY' || exit 1
import json, pathlib, sys, urllib.request
body = json.dumps({"plan": pathlib.Path("plan.yaml").read_text()}).encode()
at = sys.argv[1] + "v1/spaces/main/runs"
urllib.request.urlopen(urllib.request.Request(at, body, {"Content-Type": "application/json"})).read()
PY
for _ in $(seq 150); do
    [ "$(grep -c 'Name  *: invoke_workflow' told)" -ge 3 ] && break
    sleep 0.1
done
kill "$server" && wait "$server"

"$python" - <<'PY'
import pathlib, re, sys

told = pathlib.Path("told").read_text()
spans = []
for line in told.splitlines():
    if re.match(r"Span #\d+", line):
        spans.append({})
    elif spans and (found := re.match(r" +(Trace ID|Parent ID|ID|Name|Kind|Status code) +: ?(.*)", line)):
        spans[-1][found[1]] = found[2].strip()
    elif spans and (found := re.match(r" +-> ([\w.]+): \w+\((.*)\)$", line)):
        spans[-1][found[1]] = found[2]

def check(what, found, wanted):
    if found != wanted:
        sys.exit(f"{what}: {found}, not {wanted}\n{told}")

by_id = {(span["Trace ID"], span["ID"]): span for span in spans}
check("spans that came twice", len(spans) - len(by_id), 0)
traces = {}
for span in spans:
    parent = by_id.get((span["Trace ID"], span["Parent ID"]), {}).get("Name", "-")
    traces.setdefault(span["Trace ID"], []).append((span["Name"], parent, span["Status code"].removeprefix("STATUS_CODE_")))
plan = [
    ("execute_tool read", "invoke_workflow", "ERROR"),
    ("execute_tool text", "plan outer", "UNSET"),
    ("invoke_workflow", "-", "UNSET"),
    ("plan outer", "invoke_workflow", "UNSET"),
]
goal = [
    ("chat script.json", "invoke_workflow", "UNSET"),
    ("chat script.json", "invoke_workflow", "UNSET"),
    ("execute_tool text", "invoke_workflow", "UNSET"),
    ("invoke_workflow", "-", "UNSET"),
]
check("traces", sorted(sorted(trace) for trace in traces.values()), sorted([plan, goal, plan]))
for span in spans:
    operation = span["Name"].split(" ")[0]
    if operation in ("chat", "execute_tool", "invoke_workflow"):
        check("gen_ai.operation.name", span["gen_ai.operation.name"], operation)
    if operation == "chat":
        check("kind", span["Kind"], "SPAN_KIND_CLIENT")
        check("gen_ai.request.model", span["gen_ai.request.model"], "script.json")
        check("tokens", int(span["gen_ai.usage.input_tokens"]) > 0 and int(span["gen_ai.usage.output_tokens"]) > 0, True)
    if span["Status code"] == "STATUS_CODE_ERROR":
        check("error.type", span["error.type"], "not_found")
check("words of people, models and tools", re.findall("sesame", told), [])
check("resources that are named", set(re.findall(r"service.name: Str\((.*)\)", told)), {"folio"})
check("the environment is told", "deployment.environment.name: Str(trial)" in told, True)
print(f"{len(spans)} spans in {len(traces)} traces")
PY
