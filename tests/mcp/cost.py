"""The cost of an idle `folio mcp`: cost.py FOLIO

Prints the time from start to the first answer, and the resident memory while it waits: the medians of twenty starts.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time

BEGIN = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "cost", "version": "1"}},
}
LISTS = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
BEGAN = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def ask(server, *messages):
    for message in messages:
        server.stdin.write(json.dumps(message).encode() + b"\n")
    server.stdin.flush()
    return json.loads(server.stdout.readline())


def resident(pid):
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) / 1000 for line in status if line.startswith("VmRSS"))


with tempfile.TemporaryDirectory() as folder:
    times, sizes = [], []
    for _ in range(20):
        command = [sys.argv[1], "--store", f"sqlite:{folder}/f.db", "mcp"]
        began = time.perf_counter()
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
            ask(server, BEGIN)
            times.append((time.perf_counter() - began) * 1000)
            ask(server, BEGAN, LISTS)
            sizes.append(resident(server.pid))
            server.stdin.close()
print(f"first answer: median {statistics.median(times):.1f} ms, slowest {max(times):.1f} ms")
print(f"resident: median {statistics.median(sizes):.1f} MB, most {max(sizes):.1f} MB")
