"""Parses server-sent events."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

MESSAGE_BYTES_MAX = 64 * 1024 * 1024
"""The most bytes of one message; a longer one does not come from Folio."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a stream."""

    name: str
    """The event's name: for a run `started`, `finished`, …; `gap` means that the event to continue after is not known,
    `end` that nothing follows."""
    data: dict[str, Any] = field(default_factory=dict)
    """The event's data."""
    id: int | None = None
    """The event's number, to continue after."""


class Messages:
    """Splits a stream into events, whatever pieces it arrives in."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._name = ""
        self._id: int | None = None
        self._data: list[bytes] = []
        self._bytes = 0

    def push(self, piece: bytes) -> Iterator[Event]:
        """Yields the events that `piece` completes. Only line feeds end lines: other separators may occur within the
        data.

        :raises ValueError: if the stream is not one of Folio.
        """
        self._rest += piece
        lines: list[bytes] = []
        # Without a line feed no line ends, and scanning everything before it again would take quadratic time.
        if b"\n" in piece:
            *lines, rest = bytes(self._rest).split(b"\n")
            self._rest = bytearray(rest)
        if self._bytes + len(self._rest) > MESSAGE_BYTES_MAX:
            raise ValueError(f"a message of more than {MESSAGE_BYTES_MAX} bytes")
        for line in lines:
            event = self._take(line.removesuffix(b"\r"))
            if event is not None:
                yield event

    def _take(self, line: bytes) -> Event | None:
        if not line:
            return self._complete()
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
            self._bytes += len(value)
        elif name == b"event":
            self._name = value.decode()
        elif name == b"id":
            self._id = int(value)
        return None

    def _complete(self) -> Event | None:
        data, name, number = self._data, self._name, self._id
        self._data, self._name, self._id, self._bytes = [], "", None, 0
        if not data:
            return None
        said = json.loads(b"\n".join(data))
        if not isinstance(said, dict):
            raise ValueError(f"the data of an event is {type(said).__name__}, not an object")
        return Event(name=name or "message", data=said, id=number)
