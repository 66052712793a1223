"""An agent in plain Python with a scratchbook. It looks through a folder, and goes on where it was when it is started
again.

    folio serve &
    python plain_agent.py --folder . --steps 5      # as often as you like; the work is in the scratchbook

The loop is that of any agent: read the view, decide on one action, do it, write down what came of it. What decides here
is a few lines of Python; put a model there, and give it `view` as a part of its prompt.
"""

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from folio_client import Folio, FolioError, Scratchbook
from folio_client.shapes import ScratchItem

FILES_MOST = 200
VIEW_TOKENS = 600


@dataclass(frozen=True)
class Action:
    """What to do next, and for which task."""

    name: str
    task: ScratchItem | None = None


Decide: TypeAlias = Callable[[str, list[ScratchItem]], Action]


def by_rule(view: str, tasks: list[ScratchItem]) -> Action:
    """Plan first; then one task after the other, as the scratchbook has them. A model would be asked with `view`."""
    if "[plan]" not in view:
        return Action("plan")
    return Action("review", tasks[0]) if tasks else Action("stop")


def plan(book: Scratchbook, folder: Path) -> None:
    """Writes down what there is to do. A key for each thing: who is stopped in between adds nothing twice."""
    files = sorted(path.relative_to(folder) for path in folder.rglob("*.py") if path.is_file())[:FILES_MOST]
    for file in files:
        book.add("task", f"Review {file}", tags=["review"], key=f"plan:{book.thread}:{file}")
    note = book.add("note", f"[plan] {len(files)} files below {folder.name}", key=f"plan:{book.thread}")
    book.pin(note["handle"])


def review(folio: Folio, book: Scratchbook, folder: Path, task: ScratchItem) -> None:
    """Does one task, and notes what others should know of it."""
    file = task["title"].removeprefix("Review ")
    lines = (folder / file).read_text(encoding="utf-8", errors="replace").splitlines()
    long = sum(len(line) > 120 for line in lines)
    if long:
        folio.observe(
            f"{file} has {long} lines of more than 120 characters",
            type="quality_issue",
            confidence=0.9,
            tags=["review"],
            context={"file": file, "lines": len(lines)},
            key=f"review:{book.thread}:{file}",
        )
    book.update(task["handle"], body=f"{len(lines)} lines, {long} too long")
    book.complete(task["handle"])


def work(folio: Folio, thread: str, folder: Path, steps: int, decide: Decide = by_rule) -> int:
    """Takes at most `steps` steps; how many tasks are left."""
    book = folio.thread(thread)
    for _ in range(steps):
        view = book.view(limit=VIEW_TOKENS)["view"]
        open_tasks = book.items(kind="task", status=["open", "in_progress"], limit=1000)["items"]
        action = decide(view, open_tasks)
        if action.name == "plan":
            plan(book, folder)
        elif action.name == "review" and action.task is not None:
            review(folio, book, folder, action.task)
        else:
            break
    return book.items(kind="task", status=["open", "in_progress"], limit=1000)["returned"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--url", default="http://127.0.0.1:7717")
    parser.add_argument("--thread", default="review")
    parser.add_argument("--folder", type=Path, default=Path())
    parser.add_argument("--steps", type=int, default=1000)
    asked = parser.parse_args()
    try:
        with Folio(asked.url) as folio:
            left = work(folio, asked.thread, asked.folder.resolve(), asked.steps)
            print(folio.thread(asked.thread).view(limit=VIEW_TOKENS)["view"])
    except FolioError as error:
        print("; ".join([f"plain_agent.py: {error}", *error.hints]), file=sys.stderr)
        return 1
    print(f"{left} tasks left", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
