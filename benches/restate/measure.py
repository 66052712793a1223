#!/usr/bin/env python3
"""What runs cost that Restate hands out, beside the same in one process and beside a bare service of Restate.

    cargo build --release -p folio-cli && cargo build --release -p folio-restate --example bare
    benches/restate/measure.py target/release/folio target/release/examples/bare RESTATE_SERVER [REPEATS [PART…]]

RESTATE_SERVER is the program `restate-server`; PART is `tree`, `many` or `busy`, all of them if none is named; `busy=2` gives each worker two places instead of four. Starts a PostgreSQL and a Restate of its own, both of which wait for the disk, and
ends with a line of JSON. Needs PostgreSQL, psql and taskset. Nothing else should work meanwhile: all parts share the machine.
"""

import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

PROGRAM, BARE, RESTATE = (os.path.realpath(path) for path in sys.argv[1:4])
REPEATS = int(sys.argv[4]) if len(sys.argv) > 4 else 5
PARTS = dict(part.partition("=")[::2] for part in sys.argv[5:]) or dict.fromkeys(("tree", "many", "busy"))
PLACES = PARTS.get("busy") or "4"
HERE = os.path.dirname(os.path.realpath(__file__))
CLUSTER = os.path.join(HERE, "../../tests/postgres/cluster.sh")
LEAF = {"do": {"tool": "text", "args": {"op": "echo", "value": 1}}}
BUDGET = {"nodes": 100000, "depth": 8, "children": 1000, "concurrency": 64}

folder = tempfile.mkdtemp(prefix="folio-restate.")
os.chmod(folder, 0o755)
started = []


def free():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def start(*command, **more):
    log = open(os.path.join(folder, f"log.{len(started)}"), "w")
    process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=folder, **more)
    started.append(process)
    return process


def stop(process):
    process.kill()
    process.wait()


def ask(url, body=None, timeout=600):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=timeout) as answer:
        return json.loads(answer.read() or b"null")


def until(wanted):
    for _ in range(6000):
        try:
            if wanted():
                return
        except (OSError, AssertionError):
            pass
        time.sleep(0.05)
    raise SystemExit("what was waited for did not come")


def tree(branching, depth):
    members = []
    for number in range(branching):
        inner = dict(LEAF) if depth == 1 else {"plan": {"steps": tree(branching, depth - 1)}}
        members.append({"id": f"n{number}", **inner})
    return [{"parallel": members}]


def plan(name, steps):
    path = os.path.join(folder, f"{name}.json")
    with open(path, "w") as file:
        json.dump({"title": name, "budget": BUDGET, "steps": steps}, file)
    return path


def say(sql):
    done = subprocess.run(["psql", "-X", "-q", "-A", "-t", "-d", url, "-c", sql], capture_output=True, text=True,
                          env={**os.environ, "PGOPTIONS": "-c search_path=folio,public"})
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def took(store):
    """How long the newest run took, from its first commit to its last event, in ms."""
    runs = subprocess.run([PROGRAM, "--store", store, "runs", "--json"], capture_output=True, text=True, cwd=folder)
    row = json.loads(runs.stdout)["items"][0]
    assert row["status"] == "ok", row
    at = [time.mktime(time.strptime(row[name][:19], "%Y-%m-%dT%H:%M:%S")) + float("0." + row[name][20:-1] or 0)
          for name in ("created_at", "updated_at")]
    return 1000 * (at[1] - at[0])


def run(store, file, *more):
    began = time.monotonic()
    subprocess.run([PROGRAM, "--store", store, "run", "--plan", file, "--quiet", *more], check=True, cwd=folder,
                   stdout=subprocess.DEVNULL, env={"HOME": folder, "PATH": "/usr/bin:/bin"})
    return 1000 * (time.monotonic() - began), took(store)


def worker(core, at, *more):
    process = start("taskset", "-c", core, PROGRAM, "--store", url, "worker", "--runner", f"restate={ingress}", "--listen", at,
                    "--restate-admin", admin, "--non-interactive", *more, env={"HOME": folder, "PATH": "/usr/bin:/bin"})
    log = os.path.join(folder, f"log.{len(started) - 1}")
    until(lambda: "takes runs" in open(log).read())
    return process


def many(server, runs, steps, **more):
    """Seconds from the first to the last event of `runs` runs that are submitted at once."""
    before = int(say("SELECT coalesce(max(seq), 0) FROM log"))
    body = {"plan": {"title": "many", "budget": BUDGET, "steps": steps}, **more}
    for _ in range(runs):
        ask(f"http://127.0.0.1:{server}/v1/spaces/main/runs", body)
    # One question that waits: to ask again and again would take a third of a core from whoever is measured.
    say("DO $$ BEGIN WHILE EXISTS (SELECT FROM run WHERE status = 'running') LOOP PERFORM pg_sleep(0.02); END LOOP; END $$")
    assert say(f"SELECT count(*) FROM run WHERE status <> 'ok'") == "0"
    return float(say(f"SELECT (max(at) - min(at)) / 1000000000.0 FROM log WHERE seq > {before}"))


def cpu(process):
    """Seconds of CPU time that a process and all below it have used, those that have ended included."""
    below, used = {}, {}
    for name in os.listdir("/proc"):
        try:
            fields = open(f"/proc/{name}/stat").read().rsplit(") ", 1)[1].split() if name.isdigit() else None
        except OSError:
            continue
        if fields:
            below.setdefault(int(fields[1]), []).append(int(name))
            used[int(name)] = sum(int(field) for field in fields[11:15]) / os.sysconf("SC_CLK_TCK")
    found, todo = 0.0, [process]
    while todo:
        found += used.get(todo[-1], 0.0)
        todo += below.get(todo.pop(), [])
    return found


def memory(process):
    return int(open(f"/proc/{process.pid}/statm").read().split()[1]) * 4 // 1024


figures = {}
try:
    url = subprocess.run([CLUSTER, "start", os.path.join(folder, "cluster")], capture_output=True, text=True, check=True,
                         env={**os.environ, "FOLIO_CLUSTER_FSYNC": "on"}).stdout.strip()
    ports = {name: free() for name in ("fabric", "ingress", "admin", "worker", "bare", "server")}
    ingress, admin = (f"http://127.0.0.1:{ports[name]}" for name in ("ingress", "admin"))
    with open(os.path.join(folder, "restate.toml"), "w") as file:
        file.write(f"""
cluster-name = "measure"
base-dir = "{folder}/restate"
listen-mode = "tcp"
bind-address = "127.0.0.1:{ports['fabric']}"
advertised-address = "http://127.0.0.1:{ports['fabric']}/"
disable-telemetry = true
log-filter = "warn"
[admin]
bind-address = "127.0.0.1:{ports['admin']}"
[ingress]
bind-address = "127.0.0.1:{ports['ingress']}"
""")
    restate = start(RESTATE, "--no-logo", "-c", os.path.join(folder, "restate.toml"))
    until(lambda: ask(f"{admin}/health") is None or True)
    until(lambda: ask(f"{ingress}/restate/health") is None or True)
    subprocess.run([PROGRAM, "--store", url, "runs"], check=True, cwd=folder, stdout=subprocess.DEVNULL)

    if "tree" in PARTS:
        # One tree, in one process on a file, and handed out on a database.
        file = plan("tree", tree(4, 5))
        first = worker("0-1", f"127.0.0.1:{ports['worker']}")
        for name, store, more in (("in_process_sqlite", f"sqlite:{folder}/f.db", ()),
                                  ("in_process_postgres", url, ()),
                                  ("restate_postgres", url, ("--runner", f"restate={ingress}"))):
            run(store, file, *more)
            times = [run(store, file, *more) for _ in range(REPEATS)]
            figures[name] = {"ms_a_node": statistics.median(inside for _, inside in times) / 1365,
                             "whole_program_ms": statistics.median(whole for whole, _ in times)}
            print(name, figures[name], flush=True)
        small = plan("small", [{"id": "one", **LEAF}])
        for name, more in (("small_in_process", ()), ("small_restate", ("--runner", f"restate={ingress}"))):
            times = [run(url, small, *more) for _ in range(3 * REPEATS)]
            figures[name] = {"run_of_one_task_ms": statistics.median(inside for _, inside in times),
                             "whole_program_ms": statistics.median(whole for whole, _ in times)}
            print(name, figures[name], flush=True)

        # The same shape as invocations of Restate, and nothing else.
        bare = start(BARE, f"127.0.0.1:{ports['bare']}")
        until(lambda: ask(f"{admin}/deployments", {"uri": f"http://127.0.0.1:{ports['bare']}", "force": True}))
        times = []
        for _ in range(REPEATS + 1):
            began = time.monotonic()
            assert ask(f"{ingress}/Bare/solve", 5) == 1365
            times.append(1000 * (time.monotonic() - began))
        figures["bare_restate"] = {"ms_a_node": statistics.median(times[1:]) / 1365}
        print("bare_restate", figures["bare_restate"], flush=True)
        stop(bare)
        stop(first)
        figures["restate_to_bare"] = figures["restate_postgres"]["ms_a_node"] / figures["bare_restate"]["ms_a_node"]
        figures["restate_to_process"] = figures["restate_postgres"]["ms_a_node"] / figures["in_process_sqlite"]["ms_a_node"]

    server = start(PROGRAM, "--store", url, "serve", "--listen", f"127.0.0.1:{ports['server']}", "--rate", "10000",
                   "--runner", f"restate={ingress}", env={"HOME": folder})
    until(lambda: ask(f"http://127.0.0.1:{ports['server']}/v1/spaces/main/runs"))

    if "many" in PARTS:
        # Many at the same time, over two workers.
        first = worker("0-1", f"127.0.0.1:{ports['worker']}")
        second = worker("0-1", f"127.0.0.1:{ports['worker']}")
        hundred = [{"parallel": [{"id": f"g{g}-{n}", **LEAF} for n in range(10)]} for g in range(10)]
        seconds = many(ports["server"], 100, hundred)
        figures["hundred_runs"] = {"nodes_a_second": 100 * 111 / seconds, "ms_a_node": 1000 * seconds / (100 * 111)}
        figures["memory_mb"] = {"restate": memory(restate), "worker": memory(first), "other_worker": memory(second)}
        print("hundred_runs", figures["hundred_runs"], figures["memory_mb"], flush=True)
        stop(first)
        stop(second)

    if "busy" in PARTS:
        # Work for a processor: one worker that has one, then two that have one each.
        # What everybody else needs, they take from both.
        burn = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done"
        busy = [{"id": f"b{n}", "do": {"tool": "shell", "args": {"command": burn, "alone": False}}} for n in range(2)]
        times, used = {1: [], 2: []}, {1: [], 2: []}
        postmaster = int(open(os.path.join(folder, "cluster", "data", "postmaster.pid")).readline())
        for repeat in range(REPEATS):
            for workers in (1, 2):
                at = f"127.0.0.1:{ports['worker']}"
                processes = [worker(str(core), at, "--runs", PLACES) for core in range(workers)]
                parts = {"restate": restate.pid, "postgres": postmaster, "server": server.pid}
                parts |= {f"worker{number}": process.pid for number, process in enumerate(processes)}
                before = {part: cpu(pid) for part, pid in parts.items()}
                times[workers].append(many(ports["server"], 48, busy, allow_shell=True))
                used[workers].append({part: round(cpu(pid) - before[part], 2) for part, pid in parts.items()})
                print("busy", workers, times[workers][-1], used[workers][-1], flush=True)
                for process in processes:
                    stop(process)
                time.sleep(2)
        one, two = (statistics.median(times[workers]) for workers in (1, 2))
        figures["busy"] = {"one_worker_s": one, "two_workers_s": two, "times": one / two, "cpu_s": used}
        print("busy", figures["busy"], flush=True)
    print(json.dumps(figures))
finally:
    for process in started:
        stop(process)
    subprocess.run([CLUSTER, "stop", os.path.join(folder, "cluster")], stderr=subprocess.DEVNULL)
    shutil.rmtree(folder, ignore_errors=True)
