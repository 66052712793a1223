# Made by tools/unasync.py of asynchronous; changed there and nowhere else.
"""A space of a server: what everybody in it knows, its threads, its runs."""

from collections.abc import Generator, Mapping
from contextlib import closing
from types import TracebackType
from typing import Any, Literal, Self, Unpack, cast

import httpx

from .. import shapes
from ..coding import header_word, json_of, new_key, part
from ..events import Event
from ..filters import Filters, Some, body_of, several
from .run import Run
from .scratchbook import Scratchbook
from .wire import IMPORT_MOST, TURN_MOST, Wire

PAGE = 200
"""Observations that are fetched at once by `each_observation`."""


class Folio:
    """A space of a Folio server (`folio serve`).

    `token` is one of `folio token new`, and needed only where the server listens for others. What is done in a turn says so
    with `turn` (or `in_turn`). What reads, and what is made under a key, is tried `retries` times more if it got no answer
    within `timeout` seconds; nothing is done twice by that. What takes a server long is waited for as long as it may take. A
    client of your own (`http`) is left open. A stream goes on when there is a server again, unless there was none for
    `stream_timeout` seconds.
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:7717",
        *,
        space: str = "main",
        token: str | None = None,
        turn: str | None = None,
        timeout: float = 30.0,
        retries: int = 2,
        stream_timeout: float = 60.0,
        http: httpx.Client | None = None,
    ) -> None:
        self.space = space
        headers = body_of(
            {
                "Authorization": f"Bearer {token}" if token else None,
                "Folio-Turn": None if turn is None else header_word(turn),
            }
        )
        base = url.rstrip("/")
        self._is_own = http is None
        self._http = http or httpx.Client(timeout=timeout)
        self._root = Wire(self._http, base, headers, retries, stream_timeout)
        self._wire = Wire(self._http, f"{base}/v1/spaces/{part(space)}", headers, retries, stream_timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections, unless they are somebody else's: of who gave them, or of where `in_turn` was asked for."""
        if self._is_own:
            self._http.close()

    def in_turn(self, turn: str) -> "Folio":
        """The same space over the same connections, from within the turn `t3` or `turn_…`."""
        other = Folio.__new__(Folio)
        other.space, other._http, other._is_own = self.space, self._http, False
        other._root = self._root.with_header("Folio-Turn", header_word(turn))
        other._wire = self._wire.with_header("Folio-Turn", header_word(turn))
        return other

    def thread(self, thread: str = "main") -> Scratchbook:
        """The scratchbook of a thread."""
        return Scratchbook(self._wire, thread)

    def spaces(self) -> shapes.ListOfSpaceShape:
        """Which space is open to who asks, and in which role."""
        return cast(shapes.ListOfSpaceShape, self._root.get("/v1/spaces"))

    # ---- the scratch page: observations --------------------------------------------------------------------------

    def observe(
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
        """Notes something that was noticed: once, however often it is tried. It holds as long as its type says, or for
        `ttl_minutes`, or to the RFC 3339 time `expires_at`, or for ever (`ttl_minutes="never"`). `source` is kept as what
        its writer claims: who it was, the connection says."""
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
        # What is not said is left out of a body, and null is for ever.
        body = {**body_of(said), **({"ttl_minutes": None} if ttl_minutes == "never" else {})}
        return cast(shapes.WrittenObservation, self._wire.post("/observations", body, key=key))

    def observations(self, **filters: Unpack[Filters]) -> shapes.ListOfObservation:
        """Observations; `next` of the answer is the `cursor` of the next one."""
        return cast(shapes.ListOfObservation, self._wire.get("/observations", filters))

    def each_observation(self, **filters: Unpack[Filters]) -> Generator[shapes.Observation, None, None]:
        """Every observation, as memory was at the first."""
        asked = Filters(**{"limit": PAGE, **filters})
        while True:
            page = self.observations(**asked)
            for observation in page["items"]:
                yield observation
            following = page.get("next")
            if not following:
                return
            asked["cursor"] = following

    def active(self, *, limit: int | None = None) -> shapes.ListOfObservation:
        """Those that matter most now."""
        return cast(shapes.ListOfObservation, self._wire.get("/observations/active", {"limit": limit}))

    def observation(self, observation: str, *, whole: bool = False) -> shapes.Observation:
        """One, by its handle (`e42`) or id; with all of a long text if `whole`."""
        query = {"whole": whole or None}
        return cast(shapes.Observation, self._wire.get(f"/observations/{part(observation)}", query))

    def update_observation(
        self,
        observation: str,
        *,
        version: int | None = None,
        key: str | None = None,
        **fields: Unpack[shapes.ObservationPatch],
    ) -> shapes.WrittenObservation:
        """Changes what is said. With `version`, only one that is still at that version (else `Conflict`)."""
        path = f"/observations/{part(observation)}"
        changed = self._wire.change("PATCH", path, fields, version=version, key=key)
        return cast(shapes.WrittenObservation, changed)

    def archive_observation(
        self, observation: str, *, reason: str | None = None, version: int | None = None
    ) -> shapes.WrittenObservation:
        """It is of no use any more."""
        path = f"/observations/{part(observation)}/archive"
        return cast(shapes.WrittenObservation, self._wire.post(path, body_of({"reason": reason}), version=version))

    def confirm_observation(
        self, observation: str, *, reason: str | None = None, version: int | None = None
    ) -> shapes.WrittenObservation:
        """It still holds: its time begins anew."""
        path = f"/observations/{part(observation)}/confirm"
        return cast(shapes.WrittenObservation, self._wire.post(path, body_of({"reason": reason}), version=version))

    def resolve_observation(
        self,
        observation: str,
        *,
        outcome: str | None = None,
        reason: str | None = None,
        version: int | None = None,
    ) -> shapes.WrittenObservation:
        """It is settled, and came true (`confirmed`) or did not (`refuted`), if that is known."""
        path = f"/observations/{part(observation)}/resolve"
        body = body_of({"outcome": outcome, "reason": reason})
        return cast(shapes.WrittenObservation, self._wire.post(path, body, version=version))

    def supersede_observation(
        self,
        observation: str,
        by: str,
        *,
        outcome: str | None = None,
        reason: str | None = None,
        version: int | None = None,
    ) -> shapes.WrittenObservation:
        """Another one takes its place; what it said came true (`confirmed`) or did not (`refuted`), if that is known."""
        path = f"/observations/{part(observation)}/supersede"
        body = body_of({"by": by, "outcome": outcome, "reason": reason})
        return cast(shapes.WrittenObservation, self._wire.post(path, body, version=version))

    def restore_observation(
        self, observation: str, *, reason: str | None = None, version: int | None = None
    ) -> shapes.WrittenObservation:
        """It comes out of the archive, which only people can do."""
        path = f"/observations/{part(observation)}/restore"
        return cast(shapes.WrittenObservation, self._wire.post(path, body_of({"reason": reason}), version=version))

    def observation_history(self, observation: str) -> shapes.ListOfVersionShape:
        """What became of it."""
        return cast(shapes.ListOfVersionShape, self._wire.get(f"/observations/{part(observation)}/history"))

    # ---- tools --------------------------------------------------------------------------------------------------------

    def ingest(
        self,
        response: Mapping[str, Any],
        *,
        tool: str | None = None,
        call: str | None = None,
        thread: str | None = None,
    ) -> shapes.TakenIn:
        """Takes in what a tool answered, item by item: `stored`, `rejected` and `warnings`."""
        query = {"tool": tool, "call": call, "thread": thread}
        return cast(shapes.TakenIn, self._wire.post("/tool-responses", dict(response), query=query))

    def tool_context(
        self,
        request: Mapping[str, Any],
        *,
        tool: str | None = None,
        call: str | None = None,
        thread: str | None = None,
    ) -> shapes.Seen:
        """What of the scratch page a tool asks to see."""
        query = {"tool": tool, "call": call, "thread": thread}
        return cast(shapes.Seen, self._wire.post("/tool-requests/context", dict(request), query=query))

    def blob(
        self,
        ref: str,
        *,
        first: int | None = None,
        to: int | None = None,
        lines: str | None = None,
        search: str | None = None,
        max_bytes: int | None = None,
    ) -> shapes.PassageShape:
        """A part of a large result, by bytes, by lines (`10:20`), or the lines with some text; at most `max_bytes` of it."""
        query = {"from": first, "to": to, "lines": lines, "search": search, "max_bytes": max_bytes}
        return cast(shapes.PassageShape, self._wire.get(f"/blobs/{part(ref)}", query))

    # ---- prompts and turns --------------------------------------------------------------------------------------------

    def context(
        self,
        *,
        prompt: str = "",
        thread: str | None = None,
        budget: int | None = None,
        turn: str | None = None,
        model: str | None = None,
        sections: list[str] | Mapping[str, int] | None = None,
    ) -> shapes.ContextShape:
        """What of memory goes into a prompt, within `budget` tokens, with its receipt."""
        said = {"thread": thread, "budget": budget, "turn": turn, "model": model, "sections": sections}
        return cast(shapes.ContextShape, self._wire.post("/context", {"prompt": prompt, **body_of(said)}))

    def begin_turn(
        self,
        input: str = "",
        *,
        thread: str | None = None,
        budget: int | None = None,
        model: str | None = None,
        background: bool = False,
        key: str | None = None,
    ) -> shapes.BegunShape:
        """Begins a turn: `question` says what to ask first, `order` what comes first, `context` what goes into the prompt."""
        said = body_of({"thread": thread, "budget": budget, "model": model})
        body = {"input": input, "background": background, **said}
        return cast(shapes.BegunShape, self._wire.post("/turns", body, key=key, takes=TURN_MOST))

    def end_turn(self, turn: str, *, key: str | None = None) -> shapes.EndedShape:
        """Ends it: goals are settled, patterns learned, what is resolved is archived."""
        path = f"/turns/{part(turn)}/end"
        return cast(shapes.EndedShape, self._wire.post(path, {}, key=key, takes=TURN_MOST))

    def turns(
        self, *, thread: str | None = None, open: bool = False, limit: int | None = None, cursor: str | None = None
    ) -> shapes.ListOfTurnShape:
        """The turns, the newest first."""
        query = {"thread": thread, "open": open or None, "limit": limit, "cursor": cursor}
        return cast(shapes.ListOfTurnShape, self._wire.get("/turns", query))

    def turn(self, turn: str) -> shapes.TurnShape:
        """One turn, with what its stages decided and why."""
        return cast(shapes.TurnShape, self._wire.get(f"/turns/{part(turn)}"))

    def turn_export(self, turn: str, *, full: bool = False) -> shapes.ExportShape:
        """What a turn left behind: the entries that it touched and a manifest of all of them; with `full`, all that they say."""
        return cast(shapes.ExportShape, self._wire.get(f"/turns/{part(turn)}/export", {"full": full or None}))

    def receipts(self, turn: str) -> shapes.ListOfReceiptShape:
        """What was shown, shortened and left out of each view and context of a turn."""
        return cast(shapes.ListOfReceiptShape, self._wire.get(f"/turns/{part(turn)}/receipts"))

    def trace(
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
        """What was done, by whom, and which entries it used: the last lines, or with `since` the first after it."""
        query = {
            "turn": turn,
            "run": run,
            "entry": entry,
            "component": component,
            "since": since,
            "limit": limit,
            "cursor": cursor,
        }
        return cast(shapes.ListOfTraceLine, self._wire.get("/trace", query))

    # ---- all of memory ------------------------------------------------------------------------------------------------

    def search(
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
        """What has these words, the best match first."""
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
        return cast(shapes.ListOfFound, self._wire.get("/search", query))

    def goals(self, *, thread: str | None = None, all: bool = False) -> shapes.ListOfGoalShape:
        """Goals and pending actions."""
        return cast(shapes.ListOfGoalShape, self._wire.get("/goals", {"thread": thread, "all": all or None}))

    def patterns(self, *, limit: int | None = None) -> shapes.ListOfObservation:
        """What was learned from many turns."""
        return cast(shapes.ListOfObservation, self._wire.get("/patterns", {"limit": limit}))

    def calibration(self) -> shapes.ListOfReliability:
        """How often what was said to be so sure turned out to be so, by tool and type."""
        return cast(shapes.ListOfReliability, self._wire.get("/calibration"))

    def pages(
        self, *, run: str | None = None, role: Some | None = None, limit: int | None = None, cursor: str | None = None
    ) -> shapes.ListOfPageShape:
        """The pages."""
        query = {"run": run, "role": role, "limit": limit, "cursor": cursor}
        return cast(shapes.ListOfPageShape, self._wire.get("/pages", query))

    def page(self, page: str) -> shapes.PageShape:
        """One page, by its handle (`p7`) or id."""
        return cast(shapes.PageShape, self._wire.get(f"/pages/{part(page)}"))

    def page_markdown(self, page: str) -> str:
        """A page as people read it."""
        return (self._wire.fetch(f"/pages/{part(page)}.md", "text/markdown")).text

    def add_page(
        self,
        title: str,
        *,
        parent: str | None = None,
        role: str | None = None,
        tags: Some | None = None,
        key: str | None = None,
    ) -> shapes.PageShape:
        """Makes a page."""
        body = body_of({"title": title, "parent": parent, "role": role, "tags": several(tags)})
        return cast(shapes.PageShape, self._wire.post("/pages", body, key=key))

    def children(self, page: str) -> shapes.ListOfPageShape:
        """The pages that a page contains."""
        return cast(shapes.ListOfPageShape, self._wire.get(f"/pages/{part(page)}/children"))

    def entries(
        self, page: str, *, tail: int | None = None, limit: int | None = None, cursor: str | None = None
    ) -> shapes.ListOfEntryShape:
        """What stands on a page; the last `tail` of it."""
        query = {"tail": tail, "limit": limit, "cursor": cursor}
        return cast(shapes.ListOfEntryShape, self._wire.get(f"/pages/{part(page)}/entries", query))

    def append(
        self, page: str, body: str, *, title: str | None = None, tags: Some | None = None, key: str | None = None
    ) -> shapes.WrittenEntryShape:
        """Adds to a page."""
        said = body_of({"body": body, "title": title, "tags": several(tags)})
        return cast(shapes.WrittenEntryShape, self._wire.post(f"/pages/{part(page)}/entries", said, key=key))

    def rollup(self, page: str, *, budget: int | None = None, model: str | None = None) -> shapes.RollupShape:
        """What the pages below a page have come to, within `budget` tokens."""
        query = {"budget": budget, "model": model}
        return cast(shapes.RollupShape, self._wire.get(f"/pages/{part(page)}/rollup", query))

    def events(self, *, after: int | None = None) -> Generator[Event, None, None]:
        """What is committed to the space, each commit once: after the commit `after`, or from now on. Has no end: who leaves
        closes it (`contextlib.closing`)."""
        if after is None:
            after = (self.observations(limit=1))["as_of"]
        with closing(self._wire.events("/events", after)) as events:
            for event in events:
                yield event

    def forget(self, *, key: str | None = None, **which: Unpack[shapes.Forget]) -> shapes.Forgot:
        """Takes the content of entries out of everything, for good, or only says which (`dry_run=True`). For people. With `key`,
        what was there when it was first asked for, and nothing that came later."""
        return cast(shapes.Forgot, self._wire.post("/forget", dict(which), key=key))

    def export(self) -> bytes:
        """The whole space as lines of JSON."""
        return (self._wire.fetch("/export", "application/x-ndjson")).content

    def import_(
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
        """Brings in what an export gave, or the file of a scratchbook: once, however often it is tried. A server takes ten
        minutes for it at most; if there is no answer then, what it has begun goes on, and nothing is tried again. With
        `distrust`, all of it counts as imported; with `merge`, what was changed in the lines is changed here, unless it was
        changed here, too."""
        kind = "application/x-ndjson" if form == "folio" else "application/json"
        query = {
            "from": form,
            "thread": thread,
            "dry_run": dry_run or None,
            "distrust": distrust or None,
            "merge": merge or None,
        }
        headers = {"Content-Type": kind, **new_key(key)}
        response = self._wire.ask(
            "POST", "/import", query=query, content=lines, headers=headers, takes=IMPORT_MOST
        )
        return cast(shapes.Received, json_of(response))

    # ---- runs ---------------------------------------------------------------------------------------------------------

    def start(
        self,
        plan: Mapping[str, Any] | str | None = None,
        *,
        goal: str | None = None,
        inputs: Mapping[str, Any] | None = None,
        thread: str | None = None,
        plan_gate: str | None = None,
        planning: shapes.Planning | None = None,
        judging: shapes.Judged | None = None,
        allow_shell: bool = False,
        allow_hosts: Some | None = None,
        allow_tools: Some | None = None,
        key: str | None = None,
    ) -> Run:
        """Has a plan carried out (a document, or YAML or JSON as text), or a goal by the server's model: once, however often it
        is tried. It goes on whether anybody watches or not.

        `plan_gate` says which plans of models wait for a person's yes (`"depth<=2"`), `planning` whether models take tasks
        apart, `judging` whose criteria a judge looks at. Only people may allow the shell, hosts, and tools that wait for a yes.
        """
        said = {
            "plan": plan,
            "goal": goal,
            "inputs": inputs,
            "thread": thread,
            "plan_gate": plan_gate,
            "planning": planning,
            "judging": judging,
            "allow_shell": allow_shell or None,
            "allow_hosts": several(allow_hosts),
            "allow_tools": several(allow_tools),
        }
        made = cast(shapes.RunInFull, self._wire.post("/runs", body_of(said), key=key))
        return self.run(made["handle"])

    def run(self, run: str) -> Run:
        """A run, by its handle (`r3`) or id."""
        return Run(self._wire, run)

    def runs(
        self, *, status: Some | None = None, limit: int | None = None, cursor: str | None = None
    ) -> shapes.ListOfRunShape:
        """The runs, the newest first."""
        query = {"status": status, "limit": limit, "cursor": cursor}
        return cast(shapes.ListOfRunShape, self._wire.get("/runs", query))

    def answer(self, question: str, answer: str, *, key: str | None = None) -> shapes.RunInFull:
        """Answers what a run asks."""
        path = f"/questions/{part(question)}/answer"
        return cast(shapes.RunInFull, self._wire.post(path, {"answer": answer}, key=key))

    def decide(
        self,
        approval: str,
        *,
        approve: bool,
        reason: str = "",
        always: Literal["tool", "arguments"] | None = None,
        key: str | None = None,
    ) -> shapes.RunInFull:
        """Says yes or no to what a run may not do by itself. A yes may hold for `always`: for the tool, or for these arguments
        of it."""
        body = {"approve": approve, "reason": reason, **body_of({"always": always})}
        return cast(shapes.RunInFull, self._wire.post(f"/approvals/{part(approval)}", body, key=key))
