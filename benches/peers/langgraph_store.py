"""Durable puts into LangGraph's SqliteStore: one item each, as an agent's tool makes them.

Usage: langgraph_store.py [SECONDS]

Every put is a commit of its own in SQLite with `synchronous = FULL`, first with the journal that SQLite begins with, then
with a write-ahead log, which is the quicker of the two and what Folio is compared with.
"""

import sqlite3
import sys
import tempfile
import threading
import time
from importlib.metadata import version
from pathlib import Path

from langgraph.store.sqlite import SqliteStore

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 5.0


def puts_a_second(folder: Path, journal: str, writers: int) -> float:
    path = folder / f"{journal}-{writers}.db"
    connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
    connection.execute(f"PRAGMA journal_mode = {journal}")
    connection.execute("PRAGMA synchronous = FULL")
    store = SqliteStore(connection)
    store.setup()
    end = time.monotonic() + SECONDS
    counts = [0] * writers

    def write(writer: int) -> None:
        number = 0
        while time.monotonic() < end:
            value = {
                "type": "contextual_insight",
                "content": f"observation {number} of writer {writer}: the price is higher than last week",
                "confidence": 0.9,
                "tags": ["price", "wine"],
                "context": {"goal_id": f"goal-{number % 100}"},
            }
            store.put(("observations", f"w{writer}"), f"{number}", value)
            number += 1
        counts[writer] = number

    began = time.monotonic()
    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    elapsed = time.monotonic() - began
    connection.close()
    return sum(counts) / elapsed


def main() -> None:
    print(f"langgraph-checkpoint-sqlite {version('langgraph-checkpoint-sqlite')}, SQLite {sqlite3.sqlite_version}")
    with tempfile.TemporaryDirectory() as folder:
        for journal in ("delete", "wal"):
            for writers in (1, 64):
                rate = puts_a_second(Path(folder), journal, writers)
                print(f"journal_mode {journal:6} {writers:3} writers {rate:9.0f} puts a second")


main()
