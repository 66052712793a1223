"""One run: a plan or a goal that the server carries out."""

import asyncio
import time
from collections.abc import AsyncGenerator
from typing import Any, cast

from ..coding import part
from ..events import Event
from ..filters import body_of
from ..shapes import (
    EditedShape,
    LimitsShape,
    ListOfPlanVersionShape,
    ListOfQuestionShape,
    NodeInFull,
    PlanShape,
    RunInFull,
    TreeShape,
)
from .wire import AsyncWire

LOOK_FIRST, LOOK_MOST = 0.02, 1.0
"""Seconds between two looks at a run that is waited for."""


class AsyncRun:
    """A run, by its handle (`r3`) or id."""

    def __init__(self, wire: AsyncWire, run: str) -> None:
        self.run = run
        self._wire = wire
        self._path = f"/runs/{part(run)}"

    async def get(self) -> RunInFull:
        """How it stands, and its result once it has ended."""
        return cast(RunInFull, await self._wire.get(self._path))

    async def tree(self) -> TreeShape:
        """All its nodes."""
        return cast(TreeShape, await self._wire.get(f"{self._path}/tree"))

    async def node(self, node: str) -> NodeInFull:
        """One node with its result and evidence."""
        return cast(NodeInFull, await self._wire.get(f"{self._path}/nodes/{part(node)}"))

    def events(self, *, after: int = 0) -> AsyncGenerator[Event, None]:
        """What happens in it, from the event `after` on, each event once, to the last one, which is called `end`. Who leaves
        before that closes it (`contextlib.aclosing`)."""
        return self._wire.events(f"{self._path}/events", after)

    async def wait(self, *, timeout: float | None = None) -> RunInFull:
        """How it stands when it has ended.

        :raises TimeoutError: after `timeout` seconds.
        """
        until = None if timeout is None else time.monotonic() + timeout
        pause = LOOK_FIRST
        while True:
            run = await self.get()
            if run.get("finished_at"):
                return run
            if until is not None and time.monotonic() >= until:
                raise TimeoutError(f"{self.run} has not ended after {timeout} s")
            await asyncio.sleep(pause)
            pause = min(LOOK_MOST, pause * 1.5)

    async def cancel(self, node: str | None = None) -> RunInFull:
        """Ends it, or one node of it."""
        return cast(RunInFull, await self._wire.post(f"{self._path}/cancel", body_of({"node": node})))

    async def pause(self, node: str | None = None) -> RunInFull:
        """Nothing new begins until `go_on`."""
        return cast(RunInFull, await self._wire.post(f"{self._path}/pause", body_of({"node": node})))

    async def go_on(self, node: str | None = None) -> RunInFull:
        """What was paused goes on."""
        return cast(RunInFull, await self._wire.post(f"{self._path}/continue", body_of({"node": node})))

    async def fork(
        self, at: str | None = None, *, before_limit: bool = False, paused: bool = False, key: str | None = None
    ) -> RunInFull:
        """Begins another run from where this one stood when `at` was about to begin, or before a limit stopped anything of it."""
        body = body_of({"at": at, "before_limit": before_limit, "paused": paused})
        return cast(RunInFull, await self._wire.post(f"{self._path}/fork", body, key=key))

    async def plan(self, *, node: str | None = None) -> PlanShape:
        """Its plan as it stands, as markdown and as steps."""
        return cast(PlanShape, await self._wire.get(f"{self._path}/plan", {"node": node}))

    async def plan_versions(self, *, node: str | None = None) -> ListOfPlanVersionShape:
        """The versions that its plan had."""
        return cast(ListOfPlanVersionShape, await self._wire.get(f"{self._path}/plan/versions", {"node": node}))

    async def edit_plan(
        self, plan: dict[str, Any] | list[Any] | str, *, version: int, node: str | None = None
    ) -> EditedShape:
        """Puts `plan` (a document, or YAML or the markdown of `plan` as text) in the place of the one at `version`; steps that
        have begun stay as they are."""
        query = {"node": node}
        return cast(
            EditedShape, await self._wire.change("PUT", f"{self._path}/plan", plan, version=version, query=query)
        )

    async def limits(self, *, node: str | None = None) -> LimitsShape:
        """What it, or a node of it, may use up, and what is used up and set aside."""
        return cast(LimitsShape, await self._wire.get(f"{self._path}/limits", {"node": node}))

    async def change_limits(self, limits: dict[str, Any], *, node: str | None = None) -> LimitsShape:
        """Changes limits, as `GET …/limits` calls them, and `deadline`; never below what is used up."""
        path, query = f"{self._path}/limits", {"node": node}
        return cast(LimitsShape, await self._wire.change("PATCH", path, limits, version=None, query=query))

    async def questions(self) -> ListOfQuestionShape:
        """What it waits for people to answer."""
        return cast(ListOfQuestionShape, await self._wire.get(f"{self._path}/questions"))
