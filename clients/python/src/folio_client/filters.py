"""What lists can be asked for, and how it is written in an address."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias, TypedDict

Some: TypeAlias = str | Sequence[str]
"""One word or several."""


class Filters(TypedDict, total=False):
    """Which observations. All that is said must hold."""

    type: Some
    status: Some
    owner: Some
    tags: Some
    """All of them."""
    tags_any: Some
    """At least one of them."""
    tags_none: Some
    """None of them."""
    context: Mapping[str, str | int | float | bool | None]
    """Values in the context by their paths: `{"trip.city": "Paris"}`. The text `"7"` is not the number `7`."""
    min_confidence: float
    text: str
    match: Literal["all", "any"]
    since: int
    """Added, changed, archived, restored or replaced after this commit: `as_of` of an earlier answer."""
    as_of: int
    """As memory stood at this commit."""
    order: Literal["newest", "oldest", "priority", "relevance"]
    limit: int
    """From 1 to 1000; 10 if it is not said."""
    cursor: str
    """`next` of an earlier answer."""
    include_expired: bool
    include_superseded: bool


class ItemFields(TypedDict, total=False):
    """What is to change of an item of a scratchbook. `None` is to have nothing in it."""

    title: str
    body: str | None
    status: str
    tags: Some | None
    """All of them."""
    phase: str | None
    progress: float | None


LISTS = frozenset({"type", "kind", "status", "owner", "role", "tags", "tags_any", "tags_none"})
"""What can have several values. A comma would stand between two of them."""


def query_of(said: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The query that says `said`: what is None is not said, several values stand one by one, each with its commas."""
    query: list[tuple[str, str]] = []
    for name, value in said.items():
        if value is None:
            continue
        if isinstance(value, Mapping):
            # What reads as JSON is taken for that: a text says that it is one.
            query += [
                (f"{name}.{path}", json.dumps(one, ensure_ascii=False, allow_nan=False)) for path, one in value.items()
            ]
        elif name in LISTS:
            query += [(name, one.replace(",", "\\,")) for one in several(value) or ()]
        else:
            query.append((name, _word(value)))
    return query


def several(said: Some | None) -> list[str] | None:
    """The list of what is said; one text is one of it."""
    if said is None:
        return None
    return [said] if isinstance(said, str) else list(said)


def body_of(said: Mapping[str, Any]) -> dict[str, Any]:
    """A body of what is said in `said`: what is None is left out."""
    return {name: value for name, value in said.items() if value is not None}


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
