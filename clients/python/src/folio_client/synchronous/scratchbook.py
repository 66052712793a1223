# Made by tools/unasync.py of asynchronous; changed there and nowhere else.
"""The scratchbook of one thread: what a model reads before it goes on, and what it writes down meanwhile."""

from typing import Any, Literal, Unpack, cast

from ..coding import part
from ..filters import ItemFields, Some, body_of, several
from ..shapes import (
    Conversation,
    EvictedShape,
    ListOfScratchItem,
    ResultOf,
    SaidShape,
    ScratchItem,
    ViewShape,
    WrittenScratchItem,
)
from .wire import OFFLOAD_MOST, Wire


class Scratchbook:
    """The scratchbook of one thread. Items are named by their handle (`e4`) or id."""

    def __init__(self, wire: Wire, thread: str) -> None:
        self.thread = thread
        self._wire = wire
        self._path = f"/threads/{part(thread)}"

    def view(
        self,
        *,
        limit: int | None = None,
        items: int | None = None,
        window: int | None = None,
        model: str | None = None,
    ) -> ViewShape:
        """What a model reads of it: `view`, within `limit` tokens, with the receipt of what is shown and left out."""
        query = {"view_token_limit": limit, "max_rendered_items": items, "window": window, "model": model}
        return cast(ViewShape, self._wire.get(f"{self._path}/scratchbook", query))

    def items(
        self,
        *,
        kind: Some | None = None,
        status: Some | None = None,
        tags: Some | None = None,
        all: bool = False,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> ListOfScratchItem:
        """Its items; archived ones with `all`. `next` of the answer is the `cursor` of the next one."""
        query = {"kind": kind, "status": status, "tags": tags, "all": all or None, "limit": limit, "cursor": cursor}
        return cast(ListOfScratchItem, self._wire.get(f"{self._path}/scratchbook/items", query))

    def item(self, item: str) -> ScratchItem:
        """One item."""
        return cast(ScratchItem, self._wire.get(self._item(item)))

    def add(
        self,
        kind: Literal["note", "todo", "task"],
        title: str | None = None,
        *,
        body: str = "",
        tags: Some | None = None,
        phase: str | None = None,
        progress: float | None = None,
        key: str | None = None,
    ) -> WrittenScratchItem:
        """Adds an item: once, however often it is tried. `key` is for who may ask again after a restart of its own."""
        said = {
            "kind": kind,
            "title": title,
            "body": body,
            "tags": several(tags),
            "phase": phase,
            "progress": progress,
        }
        return cast(
            WrittenScratchItem, self._wire.post(f"{self._path}/scratchbook/items", body_of(said), key=key)
        )

    def update(
        self,
        item: str,
        *,
        version: int | None = None,
        key: str | None = None,
        **fields: Unpack[ItemFields],
    ) -> WrittenScratchItem:
        """Changes what is said; `None` is to have nothing in it. With `version`, only an item that is still at that version
        (else `Conflict`)."""
        body: dict[str, Any] = dict(fields)
        if "tags" in fields:
            body["tags"] = several(fields["tags"])
        changed = self._wire.change("PATCH", self._item(item), body, version=version, key=key)
        return cast(WrittenScratchItem, changed)

    def complete(
        self, item: str, *, reason: str | None = None, version: int | None = None
    ) -> WrittenScratchItem:
        """It is done."""
        path = f"{self._item(item)}/complete"
        return cast(WrittenScratchItem, self._wire.post(path, body_of({"reason": reason}), version=version))

    def pin(
        self, item: str, *, reason: str | None = None, version: int | None = None
    ) -> WrittenScratchItem:
        """It stands first in every view."""
        path = f"{self._item(item)}/pin"
        return cast(WrittenScratchItem, self._wire.post(path, body_of({"reason": reason}), version=version))

    def unpin(
        self, item: str, *, reason: str | None = None, version: int | None = None
    ) -> WrittenScratchItem:
        """It stands where it belongs again."""
        path = f"{self._item(item)}/unpin"
        return cast(WrittenScratchItem, self._wire.post(path, body_of({"reason": reason}), version=version))

    def offload(
        self,
        messages: list[Any],
        *,
        window: int | None = None,
        share: float | None = None,
        keep: int | None = None,
        summary: int | None = None,
        model: str | None = None,
        force: bool = False,
    ) -> Conversation:
        """Puts the older ones of `messages` away if they fill too much of the window: `messages` of the answer is what to go
        on with, and what went is in `history`."""
        said = {
            "messages": messages,
            "window": window,
            "share": share,
            "keep": keep,
            "summary": summary,
            "model": model,
        }
        body = {**body_of(said), "force": force}
        path = f"{self._path}/history"
        return cast(Conversation, self._wire.post(path, body, takes=OFFLOAD_MOST))

    def history(self, first: int | None = None, last: int | None = None) -> SaidShape:
        """The messages that were put away, by their numbers from 1."""
        return cast(SaidShape, self._wire.get(f"{self._path}/history", {"from": first, "to": last}))

    def evict(
        self,
        result: Any,
        *,
        limit: int | None = None,
        tool: str | None = None,
        model: str | None = None,
        of: ResultOf | None = None,
    ) -> EvictedShape:
        """What stands in a prompt for `result`: itself, or if it costs more than `limit` tokens a notice with its beginning and
        a reference that `blob` reads. What can be read again where it came from is said with `of`, and never put away."""
        said = body_of({"limit": limit, "tool": tool, "model": model, "of": of})
        return cast(EvictedShape, self._wire.post(f"{self._path}/evict", {**said, "result": result}))

    def _item(self, item: str) -> str:
        return f"{self._path}/scratchbook/items/{part(item)}"
