"""Many who watch one run: whether each is told each event once, and what the server needs for it.

    watchers.py URL PID [WATCHERS]

Starts a run of some seconds at URL, connects while it goes on, and reads every stream to its end. PID is the server, whose memory
is read from /proc. Prints a line of JSON; fails if anybody was told something twice, or not at all.
"""

import asyncio
import json
import sys
import time
import urllib.request
from pathlib import Path

STEPS, STEP_MS = 40, 250
AT_ONCE = 64


def resident_kb(pid: str) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1])


def start(url: str) -> str:
    steps = [{"id": f"s{n}", "do": {"tool": "wait", "args": {"ms": STEP_MS}}} for n in range(STEPS)]
    body = json.dumps({"plan": {"title": "Watched", "steps": steps}}).encode()
    request = urllib.request.Request(f"{url}v1/spaces/main/runs", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return str(json.load(answer)["handle"])


async def watch(host: str, port: int, run: str, opening: asyncio.Semaphore) -> tuple[list[int], float]:
    """The ids that one stream told, and when its first message came."""
    async with opening:
        reader, writer = await asyncio.open_connection(host, port)
        asked = time.monotonic()
        writer.write(f"GET /v1/spaces/main/runs/{run}/events HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        status = await reader.readline()
        if b" 200 " not in status:
            raise SystemExit(f"refused: {status!r}")
    ids, first, is_over = [], 0.0, False
    while line := await reader.readline():
        if line.startswith(b"id:"):
            first = first or time.monotonic() - asked
            ids.append(int(line[3:]))
        elif line.startswith(b"event:") and line[6:].strip() == b"end":
            is_over = True
        elif is_over and line.strip() == b"":
            break
    writer.close()
    return ids, first


async def main() -> None:
    url, pid = sys.argv[1], sys.argv[2]
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 1000
    host, port = url.removeprefix("http://").rstrip("/").split(":")
    before = resident_kb(pid)
    run = start(url)
    opening = asyncio.Semaphore(AT_ONCE)
    watchers = [asyncio.create_task(watch(host, int(port), run, opening)) for _ in range(count)]
    most = before
    while not all(watcher.done() for watcher in watchers):
        most = max(most, resident_kb(pid))
        await asyncio.sleep(0.1)
    told = await asyncio.gather(*watchers)
    with urllib.request.urlopen(f"{url}v1/spaces/main/runs/{run}/tree") as answer:
        last = json.load(answer)["last_event_id"]
    wrong = sum(ids != list(range(1, last + 1)) for ids, _ in told)
    first = sorted(first for _, first in told)
    print(
        json.dumps(
            {
                "watchers": count,
                "events_each": last,
                "told_otherwise_than_once": wrong,
                "first_event_p99_ms": round(first[int(len(first) * 0.99)] * 1e3, 1),
                "resident_mb_before": round(before / 1024, 1),
                "resident_mb_most": round(most / 1024, 1),
            }
        )
    )
    sys.exit(1 if wrong else 0)


asyncio.run(main())
