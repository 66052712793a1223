"""The filters of lists, and how they are written in a query."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, TypedDict

from .errors import Invalid

Some: TypeAlias = str | Sequence[str]
"""One value or several."""


class Filters(TypedDict, total=False):
    """Filters for observations. All that are given must match."""

    type: Some
    status: Some
    owner: Some
    tags: Some
    """Observations that have all of these tags."""
    tags_any: Some
    """Observations that have at least one of these tags."""
    tags_none: Some
    """Observations that have none of these tags."""
    context: Mapping[str, str | int | float | bool | None]
    """Values in the context by their paths: `{"trip.city": "Paris"}`. The text `"7"` is not the number `7`."""
    min_confidence: float
    text: str
    match: Literal["all", "any"]
    since: int
    """Observations that were added, changed, archived, restored or replaced after this commit: `as_of` of an earlier
    answer."""
    as_of: int
    """Memory as it was at this commit."""
    order: Literal["newest", "oldest", "priority", "relevance"]
    limit: int
    """From 1 to 1000. Default: 10."""
    cursor: str
    """`next` of an earlier answer."""
    include_expired: bool
    include_superseded: bool


class ItemFields(TypedDict, total=False):
    """The fields of an item of a scratchbook to change. `None` empties a field."""

    title: str
    body: str | None
    status: str
    tags: Some | None
    """All tags that the item is to have."""
    phase: str | None
    progress: float | None


ANY_OF = frozenset({"type", "kind", "status", "owner", "role", "tags_any"})
"""Filters that one of several values has to match: none of no values does, and no list is asked for it."""

LISTS = frozenset({"type", "kind", "status", "owner", "role", "tags", "tags_any", "tags_none"})
"""Parameters that can have several values, which the server would otherwise separate at commas."""


def query_of(said: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Returns the query for `said`. `None` is left out; several values become one parameter each, in which commas are
    escaped."""
    query: list[tuple[str, str]] = []
    for name, value in said.items():
        if value is None:
            continue
        if isinstance(value, Mapping):
            # The server takes what parses as JSON for JSON, so a text is sent with its quotes.
            query += [
                (f"{name}.{path}", json.dumps(one, ensure_ascii=False, allow_nan=False)) for path, one in value.items()
            ]
        elif name in LISTS:
            values = several(value, name) or []
            if not values and name in ANY_OF:
                detail = f"`{name}` is an empty list, which nothing matches; leave it out to get everything"
                raise Invalid("invalid", detail)
            query += [(name, one.replace(",", "\\,")) for one in values]
        else:
            query.append((name, _word(value)))
    return query


def several(said: Some | None, name: str = "tags") -> list[str] | None:
    """Returns what is said as a list; one text is a list of one.

    :raises Invalid: if it is neither a text nor texts. The error calls it `name`.
    """
    if said is None:
        return None
    if isinstance(said, str):
        return [said]
    given: list[Any] = list(said) if isinstance(said, Iterable) else [said]
    for one in given:
        if not isinstance(one, str):
            raise Invalid("invalid", f"`{name}` takes a text or several texts, not {one!r}")
    return given


def body_of(said: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a body of `said`, without what is `None`."""
    return {name: value for name, value in said.items() if value is not None}


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
