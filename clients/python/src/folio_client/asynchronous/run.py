"""One run: a plan or a goal that the server carries out."""

import asyncio
import time
from collections.abc import AsyncGenerator
from typing import Any

from ..coding import part
from ..errors import FolioError
from ..events import Event
from ..filters import body_of
from ..outage import Outage
from ..shapes import (
    DiffShape,
    EditedShape,
    LimitsShape,
    ListOfPlanVersionShape,
    ListOfQuestionShape,
    NodeInFull,
    PlanShape,
    ReplayShape,
    RunInFull,
    TreeShape,
    WrittenRunInFull,
)
from .wire import WHOLE_MOST, AsyncWire, may_pass

LOOK_FIRST, LOOK_MOST = 0.02, 1.0
"""Seconds between two polls of a run that is waited for: at first, and at most."""
LOOK_LEAST = 1.0
"""Seconds for one poll, even if less is left. So a run that has ended is seen, however short the timeout is."""


class AsyncRun:
    """A run, by its handle (`r3`) or id."""

    def __init__(self, wire: AsyncWire, run: str, *, replayed: bool = False) -> None:
        self.run = run
        self.replayed = replayed
        """Whether `start` did not start it, since an earlier call with the same key had."""
        self._wire = wire
        self._path = f"/runs/{part(run)}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.run!r})"

    async def get(self) -> RunInFull:
        """Returns the state of the run, and its result once it has ended."""
        return await self._wire.get(RunInFull, self._path)

    async def tree(self, *, limit: int | None = None, cursor: str | None = None) -> TreeShape:
        """Returns the nodes of the run, at most 10,000 without a `limit`; `next` of the answer is the `cursor` for the
        next call."""
        query = {"limit": limit, "cursor": cursor}
        return await self._wire.get(TreeShape, f"{self._path}/tree", query)

    async def node(self, node: str) -> NodeInFull:
        """Returns one node with its result and evidence."""
        return await self._wire.get(NodeInFull, f"{self._path}/nodes/{part(node)}")

    def events(self, *, after: int = 0) -> AsyncGenerator[Event, None]:
        """Yields the events of the run after the event `after`, each once, up to the last one, which is called `end`.
        If you stop before that, close the generator (`contextlib.aclosing`)."""
        return self._wire.events(f"{self._path}/events", after)

    async def wait(self, *, timeout: float | None = None) -> RunInFull:
        """Waits until the run has ended, and returns its state. Like a stream, it waits for a server that is away or
        busy, for at most `stream_timeout` seconds.

        :raises TimeoutError: after `timeout` seconds, or one more if the server is slow to answer.
        """
        until = None if timeout is None else time.monotonic() + timeout
        outage = Outage(self._wire.stream_timeout)
        pause: float | None
        steady = LOOK_FIRST
        while True:
            failed: FolioError | None = None
            within = None if until is None else max(LOOK_LEAST, until - time.monotonic())
            try:
                run = await self._wire.look(RunInFull, self._path, within)
            except FolioError as error:
                if not may_pass(error):
                    raise
                failed = error
            else:
                if run.get("finished_at"):
                    return run
                outage.is_over()
            now = time.monotonic()
            if until is not None and now >= until:
                told = "has not ended" if failed is None else "is not known to have ended"
                raise TimeoutError(f"{self.run} {told} after {timeout} s") from failed
            if failed is None:
                pause, steady = steady, min(LOOK_MOST, steady * 1.5)
            else:
                pause = outage.pause(now, getattr(failed, "retry_after", None))
                if pause is None:
                    raise failed
            await asyncio.sleep(pause if until is None else min(pause, until - now))

    async def cancel(self, node: str | None = None) -> RunInFull:
        """Cancels the run, or one node of it."""
        return await self._wire.post(RunInFull, f"{self._path}/cancel", body_of({"node": node}))

    async def pause(self, node: str | None = None) -> RunInFull:
        """Pauses the run, or one node of it: no call begins until `go_on`."""
        return await self._wire.post(RunInFull, f"{self._path}/pause", body_of({"node": node}))

    async def go_on(self, node: str | None = None) -> RunInFull:
        """Continues what was paused."""
        return await self._wire.post(RunInFull, f"{self._path}/continue", body_of({"node": node}))

    async def fork(
        self, at: str | None = None, *, before_limit: bool = False, paused: bool = False, key: str | None = None
    ) -> WrittenRunInFull:
        """Begins another run at the moment of this one when `at` was about to begin, or before a limit stopped anything
        in it."""
        body = body_of({"at": at, "before_limit": before_limit, "paused": paused})
        return await self._wire.post(WrittenRunInFull, f"{self._path}/fork", body, key=key, takes=WHOLE_MOST)

    async def diff(self, other: str, *, limit: int | None = None, cursor: str | None = None) -> DiffShape:
        """Compares the run with another one: what was done, what came out and what it cost. At most 1,000 nodes without
        a `limit`; `next` of the answer, if it has one, is the `cursor` for the next call."""
        query = {"limit": limit, "cursor": cursor}
        return await self._wire.get(DiffShape, f"{self._path}/diff/{part(other)}", query, takes=WHOLE_MOST)

    async def replay(self) -> ReplayShape:
        """Folds the journal of the run from its first event, and compares the result with what is stored: `differences`
        is empty if that is the same. Nothing is carried out again."""
        return await self._wire.get(ReplayShape, f"{self._path}/replay", takes=WHOLE_MOST)

    async def plan(self, *, node: str | None = None) -> PlanShape:
        """Returns the current plan, as markdown and as steps."""
        return await self._wire.get(PlanShape, f"{self._path}/plan", {"node": node})

    async def plan_versions(self, *, node: str | None = None) -> ListOfPlanVersionShape:
        """Returns the versions of the plan."""
        return await self._wire.get(ListOfPlanVersionShape, f"{self._path}/plan/versions", {"node": node})

    async def edit_plan(
        self, plan: dict[str, Any] | list[Any] | str, *, version: int, node: str | None = None
    ) -> EditedShape:
        """Replaces the plan of version `version` by `plan` (a document, or YAML or the markdown of `plan` as text).
        Steps that have begun stay as they are."""
        query = {"node": node}
        return await self._wire.change(EditedShape, "PUT", f"{self._path}/plan", plan, version=version, query=query)

    async def limits(self, *, node: str | None = None) -> LimitsShape:
        """Returns the limits of the run, or of a node of it, with what is used up and set aside."""
        return await self._wire.get(LimitsShape, f"{self._path}/limits", {"node": node})

    async def change_limits(self, limits: dict[str, Any], *, node: str | None = None) -> LimitsShape:
        """Changes limits, under the names that `GET …/limits` uses, and `deadline`; never below what is used up."""
        path, query = f"{self._path}/limits", {"node": node}
        return await self._wire.change(LimitsShape, "PATCH", path, limits, version=None, query=query)

    async def questions(self) -> ListOfQuestionShape:
        """Returns the questions of the run that wait for people."""
        return await self._wire.get(ListOfQuestionShape, f"{self._path}/questions")
