"""The scratchbook of one thread: a model reads it before it continues, and writes to it meanwhile."""

from typing import Any, Literal, Unpack

from ..coding import part
from ..filters import ItemFields, Some, body_of, several
from ..shapes import (
    Claimed,
    Conversation,
    EvictedShape,
    ListOfScratchItem,
    ResultOf,
    SaidShape,
    ScratchItem,
    ViewShape,
    WrittenScratchItem,
)
from .wire import OFFLOAD_MOST, AsyncWire


class AsyncScratchbook:
    """The scratchbook of one thread. Items are named by their handle (`e4`) or id."""

    def __init__(self, wire: AsyncWire, thread: str) -> None:
        self.thread = thread
        self._wire = wire
        self._path = f"/threads/{part(thread)}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.thread!r})"

    async def view(
        self,
        *,
        limit: int | None = None,
        items: int | None = None,
        window: int | None = None,
        model: str | None = None,
    ) -> ViewShape:
        """Returns what a model reads of the scratchbook: `view`, within `limit` tokens, with the receipt of what is
        shown and left out."""
        query = {"view_token_limit": limit, "max_rendered_items": items, "window": window, "model": model}
        return await self._wire.get(ViewShape, f"{self._path}/scratchbook", query)

    async def items(
        self,
        *,
        kind: Some | None = None,
        status: Some | None = None,
        tags: Some | None = None,
        all: bool = False,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> ListOfScratchItem:
        """Returns the items; archived ones, too, with `all`. `next` of the answer is the `cursor` for the next call."""
        query = {"kind": kind, "status": status, "tags": tags, "all": all or None, "limit": limit, "cursor": cursor}
        return await self._wire.get(ListOfScratchItem, f"{self._path}/scratchbook/items", query)

    async def item(self, item: str, *, whole: bool = False) -> ScratchItem:
        """Returns one item; with the whole of a long text if `whole`."""
        return await self._wire.get(ScratchItem, self._item(item), {"whole": whole or None})

    async def add(
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
        """Adds an item, once, however often the request is retried. Pass a `key` of your own if you may repeat the call
        after a restart."""
        said = {
            "kind": kind,
            "title": title,
            "body": body,
            "tags": several(tags),
            "phase": phase,
            "progress": progress,
        }
        return await self._wire.post(WrittenScratchItem, f"{self._path}/scratchbook/items", body_of(said), key=key)

    async def update(
        self,
        item: str,
        *,
        version: int | None = None,
        key: str | None = None,
        **fields: Unpack[ItemFields],
    ) -> WrittenScratchItem:
        """Changes the given fields; `None` empties a field. With `version`, raises `Conflict` if the item is at a later
        version, unless it already is as the change wants it: of two equal changes at one version, both succeed. So this
        does not claim a task for one of several workers; `claim` does."""
        body: dict[str, Any] = dict(fields)
        if "tags" in fields:
            body["tags"] = several(fields["tags"])
        return await self._wire.change(WrittenScratchItem, "PATCH", self._item(item), body, version=version, key=key)

    async def complete(
        self, item: str, *, reason: str | None = None, version: int | None = None
    ) -> WrittenScratchItem:
        """Marks the item as done."""
        path = f"{self._item(item)}/complete"
        return await self._wire.post(WrittenScratchItem, path, body_of({"reason": reason}), version=version)

    async def claim(
        self,
        item: str,
        owner: str,
        *,
        lease_minutes: int | None = None,
        reason: str | None = None,
        version: int | None = None,
        key: str | None = None,
    ) -> WrittenScratchItem:
        """Claims a todo or a task for `owner`, a name that each worker has for itself, for `lease_minutes` or until it is
        done or released. Raises `Conflict` if somebody else has it, or if it is not open work. Whoever has it already
        renews the claim."""
        said = {"owner": owner, "lease_minutes": lease_minutes, "reason": reason}
        path = f"{self._item(item)}/claim"
        return await self._wire.post(WrittenScratchItem, path, body_of(said), version=version, key=key)

    async def claim_next(self, owner: str, *, lease_minutes: int | None = None) -> Claimed:
        """Claims the next todo or task that is ready: one that `owner` has begun, or else the most urgent one that is
        open and waits for nothing. `claimed` is `None` if there is none."""
        said = {"owner": owner, "lease_minutes": lease_minutes}
        return await self._wire.post(Claimed, f"{self._path}/scratchbook/claim", body_of(said))

    async def release(
        self,
        item: str,
        owner: str,
        *,
        reason: str | None = None,
        version: int | None = None,
        key: str | None = None,
    ) -> WrittenScratchItem:
        """Releases an item that `owner` has claimed: it is open again for anybody."""
        path = f"{self._item(item)}/release"
        body = body_of({"owner": owner, "reason": reason})
        return await self._wire.post(WrittenScratchItem, path, body, version=version, key=key)

    async def pin(
        self, item: str, *, reason: str | None = None, version: int | None = None
    ) -> WrittenScratchItem:
        """Pins the item: it stands first in every view."""
        path = f"{self._item(item)}/pin"
        return await self._wire.post(WrittenScratchItem, path, body_of({"reason": reason}), version=version)

    async def unpin(
        self, item: str, *, reason: str | None = None, version: int | None = None
    ) -> WrittenScratchItem:
        """Unpins the item: it stands in its usual place again."""
        path = f"{self._item(item)}/unpin"
        return await self._wire.post(WrittenScratchItem, path, body_of({"reason": reason}), version=version)

    async def offload(
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
        """Offloads the older of `messages` if they fill too much of the window. `messages` of the answer is what to
        continue with; the offloaded ones are in `history`."""
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
        return await self._wire.post(Conversation, path, body, takes=OFFLOAD_MOST)

    async def history(
        self,
        first: int | None = None,
        last: int | None = None,
        *,
        search: str | None = None,
        limit: int | None = None,
        messages: bool | None = None,
    ) -> SaidShape:
        """Returns the offloaded messages (`items`), by their numbers from 1; with `search`, those that contain all its
        words: at most 100. `next` of the answer is the `first` for the next call. With `messages=False` the answer does
        not repeat them as `messages`."""
        query = {"from": first, "to": last, "search": search, "limit": limit, "messages": messages}
        return await self._wire.get(SaidShape, f"{self._path}/history", query)

    async def evict(
        self,
        result: Any,
        *,
        limit: int | None = None,
        tool: str | None = None,
        model: str | None = None,
        of: ResultOf | None = None,
    ) -> EvictedShape:
        """Returns what to put into a prompt for `result`: the result itself or, if it costs more than `limit` tokens, a
        notice with its beginning and a reference that `blob` reads. Use `of` for a result that can be read again at its
        source; such a result is never put away."""
        said = body_of({"limit": limit, "tool": tool, "model": model, "of": of})
        return await self._wire.post(EvictedShape, f"{self._path}/evict", {**said, "result": result})

    def _item(self, item: str) -> str:
        return f"{self._path}/scratchbook/items/{part(item)}"
