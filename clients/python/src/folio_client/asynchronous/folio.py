"""A space of a server: its observations, threads, turns and runs."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from types import TracebackType
from typing import Any, Literal, Self, Unpack

import httpx

from .. import shapes
from ..coding import check_patience, header_word, json_of, new_key, part, without_secrets
from ..events import Event
from ..filters import Filters, Some, body_of, several
from .run import AsyncRun
from .scratchbook import AsyncScratchbook
from .wire import TURN_MOST, WHOLE_MOST, AsyncWire

PAGE = 200
"""Observations that `each_observation` fetches at once."""


class AsyncFolio:
    """A space of a Folio server (`folio serve`).

    `token` is one of `folio token new`, and needed only if the server listens for other machines. To record that
    something is done in a turn, pass `turn` (or use `in_turn`). A request that only reads or has a key is retried up to
    `retries` times if there was no answer within `timeout` seconds; that does nothing twice. Requests that take a
    server long have longer timeouts; `None` is no limit. A client of your own (`http`) has its own timeouts, and is not
    closed. A stream reconnects when the server is back, unless it was away for `stream_timeout` seconds.
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:7717",
        *,
        space: str = "main",
        token: str | None = None,
        turn: str | None = None,
        timeout: float | None = 30.0,
        retries: int = 2,
        stream_timeout: float = 60.0,
        http: httpx.AsyncClient | None = None,
    ) -> None:
        check_patience(timeout, retries, stream_timeout)
        self.space = space
        headers = body_of(
            {
                "Authorization": f"Bearer {token}" if token else None,
                "Folio-Turn": None if turn is None else header_word(turn),
            }
        )
        base = url.rstrip("/")
        self._is_own = http is None
        self._http = http or httpx.AsyncClient(timeout=timeout)
        self._root = AsyncWire(self._http, base, headers, retries, stream_timeout)
        self._wire = AsyncWire(self._http, f"{base}/v1/spaces/{part(space)}", headers, retries, stream_timeout)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({without_secrets(self._root.base)!r}, space={self.space!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Closes the connections, unless they belong to somebody else: to the caller who passed `http`, or to the
        object whose `in_turn` was called."""
        if self._is_own:
            await self._http.aclose()

    def in_turn(self, turn: str) -> "AsyncFolio":
        """Returns the same space over the same connections, within the turn `t3` or `turn_…`."""
        other = AsyncFolio.__new__(AsyncFolio)
        other.space, other._http, other._is_own = self.space, self._http, False
        other._root = self._root.with_header("Folio-Turn", header_word(turn))
        other._wire = self._wire.with_header("Folio-Turn", header_word(turn))
        return other

    def thread(self, thread: str = "main") -> AsyncScratchbook:
        """Returns the scratchbook of a thread."""
        return AsyncScratchbook(self._wire, thread)

    async def spaces(self) -> shapes.ListOfSpaceShape:
        """Returns the space that is open to the caller, and in which role."""
        return await self._root.get(shapes.ListOfSpaceShape, "/v1/spaces")

    # ---- the scratch page: observations --------------------------------------------------------------------------

    async def observe(
        self,
        content: str,
        *,
        type: str | None = None,
        confidence: float | Literal["low", "medium", "high"] | None = None,
        tags: Some | None = None,
        context: Mapping[str, Any] | None = None,
        title: str | None = None,
        ttl_minutes: float | Literal["never"] | None = None,
        expires_at: str | None = None,
        status: Literal["active", "pending_review", "resolved"] | None = None,
        owner: str | None = None,
        source: Any = None,
        metadata: Mapping[str, Any] | None = None,
        key: str | None = None,
    ) -> shapes.WrittenObservation:
        """Adds an observation, once, however often the request is retried. It holds as long as its type says, or for
        `ttl_minutes`, or until `expires_at` (RFC 3339), or forever (`ttl_minutes="never"`). `source` is stored as a
        claim of its writer: the connection says who that is."""
        said = {
            "content": content,
            "type": type,
            "confidence": confidence,
            "tags": several(tags),
            "context": context,
            "title": title,
            "ttl_minutes": ttl_minutes,
            "expires_at": expires_at,
            "status": status,
            "owner": owner,
            "source": source,
            "metadata": metadata,
        }
        # Arguments that are None are left out of the body, and null means forever.
        body = {**body_of(said), **({"ttl_minutes": None} if ttl_minutes == "never" else {})}
        return await self._wire.post(shapes.WrittenObservation, "/observations", body, key=key)

    async def observations(self, **filters: Unpack[Filters]) -> shapes.ListOfObservation:
        """Returns observations; `next` of the answer is the `cursor` for the next call."""
        return await self._wire.get(shapes.ListOfObservation, "/observations", filters)

    async def each_observation(self, **filters: Unpack[Filters]) -> AsyncGenerator[shapes.Observation, None]:
        """Yields every observation, all as memory was at the first request."""
        asked = Filters(**{"limit": PAGE, **filters})
        while True:
            page = await self.observations(**asked)
            for observation in page["items"]:
                yield observation
            following = page.get("next")
            if not following:
                return
            asked["cursor"] = following

    async def active(self, *, limit: int | None = None) -> shapes.ListOfObservation:
        """Returns the observations that matter most now."""
        return await self._wire.get(shapes.ListOfObservation, "/observations/active", {"limit": limit})

    async def observation(self, observation: str, *, whole: bool = False) -> shapes.Observation:
        """Returns one observation, by its handle (`e42`) or id; with the whole of a long text if `whole`."""
        query = {"whole": whole or None}
        return await self._wire.get(shapes.Observation, f"/observations/{part(observation)}", query)

    async def update_observation(
        self,
        observation: str,
        *,
        version: int | None = None,
        key: str | None = None,
        **fields: Unpack[shapes.ObservationPatch],
    ) -> shapes.WrittenObservation:
        """Changes the given fields. With `version`, raises `Conflict` if the observation is at a later version, unless
        it already is as the change wants it: of two equal changes at one version, both succeed. So a counter needs
        something in it that nobody else writes, such as the name of the writer."""
        path = f"/observations/{part(observation)}"
        return await self._wire.change(shapes.WrittenObservation, "PATCH", path, fields, version=version, key=key)

    async def archive_observation(
        self, observation: str, *, reason: str | None = None, version: int | None = None
    ) -> shapes.WrittenObservation:
        """Archives an observation that is of no more use."""
        path = f"/observations/{part(observation)}/archive"
        return await self._wire.post(shapes.WrittenObservation, path, body_of({"reason": reason}), version=version)

    async def confirm_observation(
        self, observation: str, *, reason: str | None = None, version: int | None = None
    ) -> shapes.WrittenObservation:
        """Confirms that the observation still holds: its lifetime begins again."""
        path = f"/observations/{part(observation)}/confirm"
        return await self._wire.post(shapes.WrittenObservation, path, body_of({"reason": reason}), version=version)

    async def resolve_observation(
        self,
        observation: str,
        *,
        outcome: str | None = None,
        reason: str | None = None,
        version: int | None = None,
    ) -> shapes.WrittenObservation:
        """Resolves the observation. `outcome` says whether it came true (`confirmed`) or not (`refuted`), if that is
        known."""
        path = f"/observations/{part(observation)}/resolve"
        body = body_of({"outcome": outcome, "reason": reason})
        return await self._wire.post(shapes.WrittenObservation, path, body, version=version)

    async def supersede_observation(
        self,
        observation: str,
        by: str,
        *,
        outcome: str | None = None,
        reason: str | None = None,
        version: int | None = None,
    ) -> shapes.WrittenObservation:
        """Replaces the observation by another one. `outcome` says whether it came true (`confirmed`) or not
        (`refuted`), if that is known."""
        path = f"/observations/{part(observation)}/supersede"
        body = body_of({"by": by, "outcome": outcome, "reason": reason})
        return await self._wire.post(shapes.WrittenObservation, path, body, version=version)

    async def restore_observation(
        self, observation: str, *, reason: str | None = None, version: int | None = None
    ) -> shapes.WrittenAnyEntry:
        """Restores an observation, or an item of a scratchbook, from the archive, which only people may do."""
        path = f"/observations/{part(observation)}/restore"
        return await self._wire.post(shapes.WrittenAnyEntry, path, body_of({"reason": reason}), version=version)

    async def observation_history(
        self, observation: str, *, limit: int | None = None, cursor: str | None = None
    ) -> shapes.ListOfVersionShape:
        """Returns the history of the observation; `next` of the answer is the `cursor` for the next call."""
        query = {"limit": limit, "cursor": cursor}
        return await self._wire.get(shapes.ListOfVersionShape, f"/observations/{part(observation)}/history", query)

    # ---- tools --------------------------------------------------------------------------------------------------------

    async def ingest(
        self,
        response: Mapping[str, Any],
        *,
        tool: str | None = None,
        call: str | None = None,
        thread: str | None = None,
    ) -> shapes.TakenIn:
        """Ingests the answer of a tool, item by item: `stored`, `rejected` and `warnings`."""
        query = {"tool": tool, "call": call, "thread": thread}
        return await self._wire.post(shapes.TakenIn, "/tool-responses", dict(response), query=query)

    async def tool_context(
        self,
        request: Mapping[str, Any],
        *,
        tool: str | None = None,
        call: str | None = None,
        thread: str | None = None,
    ) -> shapes.Seen:
        """Returns the part of the scratch page that a tool asks to see."""
        query = {"tool": tool, "call": call, "thread": thread}
        return await self._wire.post(shapes.Seen, "/tool-requests/context", dict(request), query=query)

    async def blob(
        self,
        ref: str,
        *,
        first: int | None = None,
        to: int | None = None,
        lines: str | None = None,
        search: str | None = None,
        max_bytes: int | None = None,
    ) -> shapes.PassageShape:
        """Returns a part of a large result: by bytes, by lines (`10:20`), or the lines that contain a text; at most
        `max_bytes` of it."""
        query = {"from": first, "to": to, "lines": lines, "search": search, "max_bytes": max_bytes}
        return await self._wire.get(shapes.PassageShape, f"/blobs/{part(ref)}", query)

    # ---- prompts and turns --------------------------------------------------------------------------------------------

    async def context(
        self,
        *,
        prompt: str = "",
        thread: str | None = None,
        budget: int | None = None,
        turn: str | None = None,
        model: str | None = None,
        sections: list[str] | Mapping[str, int] | None = None,
    ) -> shapes.ContextShape:
        """Returns the part of memory that goes into a prompt, within `budget` tokens, with its receipt."""
        said = {"thread": thread, "budget": budget, "turn": turn, "model": model, "sections": sections}
        return await self._wire.post(shapes.ContextShape, "/context", {"prompt": prompt, **body_of(said)})

    async def begin_turn(
        self,
        input: str = "",
        *,
        thread: str | None = None,
        budget: int | None = None,
        model: str | None = None,
        background: bool = False,
        clarify: bool | None = None,
        key: str | None = None,
    ) -> shapes.BegunShape:
        """Begins a turn. In the answer, `question` is what to ask first, `order` what comes first, and `context` what
        goes into the prompt. With `clarify=False` nothing is asked: the conversation that the input is part of tells
        what is meant."""
        said = body_of({"thread": thread, "budget": budget, "model": model, "clarify": clarify})
        body = {"input": input, "background": background, **said}
        return await self._wire.post(shapes.BegunShape, "/turns", body, key=key, takes=TURN_MOST)

    async def end_turn(self, turn: str, *, key: str | None = None) -> shapes.EndedShape:
        """Ends a turn: goals are settled, patterns are learned, and what is resolved is archived."""
        path = f"/turns/{part(turn)}/end"
        return await self._wire.post(shapes.EndedShape, path, {}, key=key, takes=TURN_MOST)

    async def turns(
        self, *, thread: str | None = None, open: bool = False, limit: int | None = None, cursor: str | None = None
    ) -> shapes.ListOfTurnShape:
        """Returns the turns, newest first."""
        query = {"thread": thread, "open": open or None, "limit": limit, "cursor": cursor}
        return await self._wire.get(shapes.ListOfTurnShape, "/turns", query)

    async def turn(self, turn: str) -> shapes.TurnShape:
        """Returns one turn, with what its stages decided and why."""
        return await self._wire.get(shapes.TurnShape, f"/turns/{part(turn)}")

    async def turn_export(self, turn: str, *, full: bool = False) -> shapes.ExportShape:
        """Returns the export of a turn: the entries that it touched and a manifest of all entries; with `full`, also
        their content."""
        query = {"full": full or None}
        return await self._wire.get(shapes.ExportShape, f"/turns/{part(turn)}/export", query, takes=WHOLE_MOST)

    async def receipts(self, turn: str) -> shapes.ListOfReceiptShape:
        """Returns the receipts of a turn: what each view and context showed, shortened and left out."""
        return await self._wire.get(shapes.ListOfReceiptShape, f"/turns/{part(turn)}/receipts")

    async def trace(
        self,
        *,
        turn: str | None = None,
        run: str | None = None,
        entry: str | None = None,
        component: str | None = None,
        since: int | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> shapes.ListOfTraceLine:
        """Returns what was done, by whom, and which entries it used: the last lines, or with `since` the first ones
        after it."""
        query = {
            "turn": turn,
            "run": run,
            "entry": entry,
            "component": component,
            "since": since,
            "limit": limit,
            "cursor": cursor,
        }
        return await self._wire.get(shapes.ListOfTraceLine, "/trace", query)

    async def episodes(
        self,
        text: str | None = None,
        *,
        thread: str | None = None,
        from_: str | None = None,
        until: str | None = None,
        limit: int | None = None,
    ) -> shapes.EpisodesShape:
        """Returns earlier turns with the entries that they touched, newest first: those with all words of `text`, that
        began between `from_` and `until` (RFC 3339). If the answer has `searched_from`, `until` that time searches older
        ones."""
        query = {"text": text, "thread": thread, "from": from_, "until": until, "limit": limit}
        return await self._wire.get(shapes.EpisodesShape, "/episodes", query)

    async def why(self, entry: str, *, turn: str | None = None) -> shapes.WhyShape:
        """Returns the decisions that rest on an entry; with `turn`, those of that turn, and what happened to the entry
        in each view and context of it (`shown`)."""
        return await self._wire.get(shapes.WhyShape, "/why", {"entry": entry, "turn": turn})

    # ---- all of memory ------------------------------------------------------------------------------------------------

    async def search(
        self,
        text: str,
        *,
        match: Literal["all", "any"] | None = None,
        kind: Some | None = None,
        type: Some | None = None,
        tags: Some | None = None,
        thread: str | None = None,
        all: bool = False,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> shapes.ListOfFound:
        """Returns what contains these words, best match first."""
        query = {
            "text": text,
            "match": match,
            "kind": kind,
            "type": type,
            "tags": tags,
            "thread": thread,
            "all": all or None,
            "limit": limit,
            "cursor": cursor,
        }
        return await self._wire.get(shapes.ListOfFound, "/search", query)

    async def goals(
        self, *, thread: str | None = None, all: bool = False, limit: int | None = None, cursor: str | None = None
    ) -> shapes.ListOfGoalShape:
        """Returns goals and pending actions."""
        query = {"thread": thread, "all": all or None, "limit": limit, "cursor": cursor}
        return await self._wire.get(shapes.ListOfGoalShape, "/goals", query)

    async def patterns(self, *, limit: int | None = None) -> shapes.ListOfObservation:
        """Returns what was learned from many turns."""
        return await self._wire.get(shapes.ListOfObservation, "/patterns", {"limit": limit})

    async def calibration(self) -> shapes.ListOfReliability:
        """Returns how often a stated confidence proved right, by tool and type."""
        return await self._wire.get(shapes.ListOfReliability, "/calibration")

    async def pages(
        self, *, run: str | None = None, role: Some | None = None, limit: int | None = None, cursor: str | None = None
    ) -> shapes.ListOfPageShape:
        """Returns the pages."""
        query = {"run": run, "role": role, "limit": limit, "cursor": cursor}
        return await self._wire.get(shapes.ListOfPageShape, "/pages", query)

    async def page(self, page: str) -> shapes.PageShape:
        """Returns one page, by its handle (`p7`) or id."""
        return await self._wire.get(shapes.PageShape, f"/pages/{part(page)}")

    async def page_markdown(self, page: str) -> str:
        """Returns a page as markdown."""
        return (await self._wire.fetch(f"/pages/{part(page)}.md", "text/markdown")).text

    async def add_page(
        self,
        title: str,
        *,
        parent: str | None = None,
        role: str | None = None,
        tags: Some | None = None,
        key: str | None = None,
    ) -> shapes.PageShape:
        """Adds a page."""
        body = body_of({"title": title, "parent": parent, "role": role, "tags": several(tags)})
        return await self._wire.post(shapes.PageShape, "/pages", body, key=key)

    async def children(
        self, page: str, *, limit: int | None = None, cursor: str | None = None
    ) -> shapes.ListOfPageShape:
        """Returns the pages that a page contains; `next` of the answer is the `cursor` for the next call."""
        query = {"limit": limit, "cursor": cursor}
        return await self._wire.get(shapes.ListOfPageShape, f"/pages/{part(page)}/children", query)

    async def entries(
        self, page: str, *, tail: int | None = None, limit: int | None = None, cursor: str | None = None
    ) -> shapes.ListOfEntryShape:
        """Returns the entries of a page; with `tail`, only the last ones."""
        query = {"tail": tail, "limit": limit, "cursor": cursor}
        return await self._wire.get(shapes.ListOfEntryShape, f"/pages/{part(page)}/entries", query)

    async def append(
        self, page: str, body: str, *, title: str | None = None, tags: Some | None = None, key: str | None = None
    ) -> shapes.WrittenEntryShape:
        """Appends an entry to a page."""
        said = body_of({"body": body, "title": title, "tags": several(tags)})
        return await self._wire.post(shapes.WrittenEntryShape, f"/pages/{part(page)}/entries", said, key=key)

    async def rollup(self, page: str, *, budget: int | None = None, model: str | None = None) -> shapes.RollupShape:
        """Returns a summary of the pages below a page, within `budget` tokens."""
        query = {"budget": budget, "model": model}
        return await self._wire.get(shapes.RollupShape, f"/pages/{part(page)}/rollup", query)

    def events(self, *, after: int | None = None) -> AsyncGenerator[Event, None]:
        """Yields the commits of the space, each once, after the commit `after` or from now on. The stream has no end:
        close it when you stop reading (`contextlib.aclosing`).

        With `asyncio`, "now" is when the iteration begins, since a call that is not awaited asks for nothing. If
        something may be written before that, pass `after`: the `as_of` of an earlier answer.
        """
        # blocking: after = self._head() if after is None else after
        return self._events(after)

    async def _events(self, after: int | None) -> AsyncGenerator[Event, None]:
        if after is None:
            after = await self._head()
        async with aclosing(self._wire.events("/events", after)) as events:
            async for event in events:
                yield event

    async def _head(self) -> int:
        """Returns the number of the last commit of the space."""
        return (await self.observations(limit=1))["as_of"]

    async def forget(self, *, key: str | None = None, **which: Unpack[shapes.Forget]) -> shapes.Forgot:
        """Erases the content of entries and of whole `runs` that have ended, everywhere and for good, or only lists them
        (`dry_run=True`). A `text` and nothing else also erases what was said in turns, and names the runs that say it.
        For people. With `key`, a repeated request erases what was there when it was first made, and nothing that came
        later."""
        return await self._wire.post(shapes.Forgot, "/forget", dict(which), key=key, takes=WHOLE_MOST)

    async def policy(self) -> shapes.PolicyShape:
        """Returns the policy of the space: `policy`, what was set, and `in_force`, all values."""
        return await self._wire.get(shapes.PolicyShape, "/policy")

    async def set_policy(
        self,
        policy: Mapping[str, Any],
        *,
        reason: str | None = None,
        version: int | None = None,
        key: str | None = None,
    ) -> shapes.WrittenPolicyShape:
        """Replaces the policy of the space by the document `policy`. For people. With `version`, raises `Conflict` if
        another version is in force."""
        body = {"policy": dict(policy), **body_of({"reason": reason})}
        return await self._wire.change(shapes.WrittenPolicyShape, "PUT", "/policy", body, version=version, key=key)

    async def change_policy(
        self,
        set: Mapping[str, Any] | None = None,
        *,
        unset: Some | None = None,
        reason: str | None = None,
        version: int | None = None,
        key: str | None = None,
    ) -> shapes.WrittenPolicyShape:
        """Changes single keys of the policy of the space: `set={"retention.purge_after_minutes": None}`, or resets them
        to their built-in values. For people."""
        body = body_of({"set": None if set is None else dict(set), "unset": several(unset), "reason": reason})
        return await self._wire.change(shapes.WrittenPolicyShape, "PATCH", "/policy", body, version=version, key=key)

    async def export(self) -> bytes:
        """Returns the whole space as lines of JSON."""
        return (await self._wire.fetch("/export", "application/x-ndjson", takes=WHOLE_MOST)).content

    async def import_(
        self,
        lines: bytes,
        *,
        form: Literal["folio", "colony"] = "folio",
        thread: str | None = None,
        dry_run: bool = False,
        distrust: bool = False,
        merge: bool = False,
        key: str | None = None,
    ) -> shapes.Received:
        """Imports the lines of an export, or the file of a scratchbook, once, however often the request is retried. A
        server takes at most ten minutes; if there is no answer by then, the import goes on and is not retried. With
        `distrust`, everything counts as imported. With `merge`, what was changed in the lines is changed here, unless
        it was changed here, too."""
        kind = "application/x-ndjson" if form == "folio" else "application/json"
        query = {
            "from": form,
            "thread": thread,
            "dry_run": dry_run or None,
            "distrust": distrust or None,
            "merge": merge or None,
        }
        headers = {"Content-Type": kind, **new_key(key)}
        response = await self._wire.ask(
            "POST", "/import", query=query, content=lines, headers=headers, takes=WHOLE_MOST
        )
        return json_of(shapes.Received, response)

    # ---- runs ---------------------------------------------------------------------------------------------------------

    async def start(
        self,
        plan: Mapping[str, Any] | list[Any] | str | None = None,
        *,
        goal: str | None = None,
        inputs: Mapping[str, Any] | None = None,
        thread: str | None = None,
        plan_gate: str | None = None,
        planning: shapes.Planning | None = None,
        judging: shapes.Judged | None = None,
        limits: shapes.LimitsInput | None = None,
        allow_shell: bool = False,
        allow_hosts: Some | None = None,
        allow_tools: Some | None = None,
        key: str | None = None,
    ) -> AsyncRun:
        """Starts a run of a plan (a document, a list of steps, or YAML or JSON as text), or of a goal, which the server's
        model works on; once, however often the request is retried. The run goes on whether anybody watches or not. With
        a `key` of an earlier call, returns the run that it started, which is then `replayed`.

        `plan_gate` says which plans of models wait for a person's approval (`"depth<=2"`), `planning` whether models
        split tasks into steps, and `judging` whose criteria a judge checks. `limits` (`{"tokens": 300_000}`) take the place
        of those in the plan. Only people may allow the shell, hosts, and tools that need approval.
        """
        said = {
            "plan": plan,
            "goal": goal,
            "inputs": inputs,
            "thread": thread,
            "plan_gate": plan_gate,
            "planning": planning,
            "judging": judging,
            "limits": limits,
            "allow_shell": allow_shell or None,
            "allow_hosts": several(allow_hosts, "allow_hosts"),
            "allow_tools": several(allow_tools, "allow_tools"),
        }
        made = await self._wire.post(shapes.WrittenRunInFull, "/runs", body_of(said), key=key)
        return AsyncRun(self._wire, made["handle"], replayed=made.get("replayed", False))

    def run(self, run: str) -> AsyncRun:
        """Returns a run, by its handle (`r3`) or id."""
        return AsyncRun(self._wire, run)

    async def runs(
        self, *, status: Some | None = None, limit: int | None = None, cursor: str | None = None
    ) -> shapes.ListOfRunShape:
        """Returns the runs, newest first."""
        query = {"status": status, "limit": limit, "cursor": cursor}
        return await self._wire.get(shapes.ListOfRunShape, "/runs", query)

    async def answer(self, question: str, answer: str, *, key: str | None = None) -> shapes.RunInFull:
        """Answers a question of a run."""
        path = f"/questions/{part(question)}/answer"
        return await self._wire.post(shapes.RunInFull, path, {"answer": answer}, key=key)

    async def decide(
        self,
        approval: str,
        *,
        approve: bool,
        reason: str = "",
        always: Literal["tool", "arguments"] | None = None,
        key: str | None = None,
    ) -> shapes.RunInFull:
        """Approves or rejects a plan or call that waits for approval. With `always`, an approval also holds for later
        calls: of the tool, or with these arguments."""
        body = {"approve": approve, "reason": reason, **body_of({"always": always})}
        return await self._wire.post(shapes.RunInFull, f"/approvals/{part(approval)}", body, key=key)
