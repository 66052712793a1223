# Made by tools/unasync.py of asynchronous; changed there and nowhere else.
"""One request and its answer; one stream and what it tells."""

import time
import uuid
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

import httpx

from ..errors import FolioError, Unreachable, error_of
from ..events import Event, Messages
from ..filters import query_of

WAIT_FIRST, WAIT_MOST = 0.2, 5.0
"""Seconds before the second try, and before any."""
SILENCE_MOST = 45.0
"""Seconds after which a stream without a sign of life is dead; the server gives one every 15."""


class Wire:
    """Asks a server, and asks again where that is safe."""

    def __init__(self, http: httpx.Client, base: str, headers: Mapping[str, str], retries: int) -> None:
        self.http = http
        self.base = base
        self.headers = dict(headers)
        self.retries = retries

    def with_header(self, name: str, value: str) -> "Wire":
        """The same, saying something more with each request."""
        return Wire(self.http, self.base, {**self.headers, name: value}, self.retries)

    def get(self, path: str, query: Mapping[str, Any] | None = None) -> Any:
        return (self.ask("GET", path, query=query)).json()

    def post(
        self, path: str, body: Any = None, *, query: Mapping[str, Any] | None = None, key: str | None = None
    ) -> Any:
        """Does it once, however often it has to be asked: `key` names the request, a new one if it is not said."""
        return (self.ask("POST", path, query=query, json=body, headers=new_key(key))).json()

    def change(
        self, method: str, path: str, body: Any, *, version: int | None, query: Mapping[str, Any] | None = None
    ) -> Any:
        headers = {} if version is None else {"If-Match": f'"{version}"'}
        return (self.ask(method, path, query=query, json=body, headers=headers)).json()

    def ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        json: Any = None,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        """The answer, if it is a success.

        What reads, and what has a key, is asked again after a broken connection and when the server is busy; any other
        change only if there were too many requests, for then nothing was done.
        """
        said = {**self.headers, **(headers or {})}
        params = httpx.QueryParams(tuple(query_of(query or {})))
        again = method == "GET" or "Idempotency-Key" in said
        for tried in range(self.retries + 1):
            is_last = tried == self.retries
            try:
                response = self.http.request(
                    method, self.base + path, params=params, json=json, content=content, headers=said
                )
            except httpx.TransportError as error:
                if is_last or not again:
                    raise unreachable(error) from error
                time.sleep(wait_before(tried, None))
                continue
            if response.is_success:
                return response
            failed = failure_of(response)
            if is_last or not (response.status_code == 429 or (again and response.status_code == 503)):
                raise failed
            time.sleep(wait_before(tried, getattr(failed, "retry_after", None)))
        raise AssertionError("the last try returns or raises")

    def events(self, path: str, after: int | None) -> Iterator[Event]:
        """What happens, each thing once, over as many connections as it takes, until the server says that nothing follows."""
        failures = 0
        while True:
            try:
                headers = self.headers if after is None else {**self.headers, "Last-Event-ID": str(after)}
                timeout = httpx.Timeout(self.http.timeout.connect, read=SILENCE_MOST)
                with self.http.stream("GET", self.base + path, headers=headers, timeout=timeout) as response:
                    if not response.is_success:
                        response.read()
                        raise failure_of(response)
                    messages = Messages()
                    for piece in response.iter_bytes():
                        for event in messages.push(piece):
                            failures = 0
                            if event.name == "problem":
                                raise error_of(int(event.data.get("status", 0)), event.data)
                            if event.id is not None:
                                after = event.id
                            yield event
                            if event.name == "end":
                                return
            except httpx.TransportError as error:
                if failures >= self.retries:
                    raise unreachable(error) from error
            if failures >= self.retries:
                raise Unreachable("unreachable", "the stream ends again and again")
            time.sleep(wait_before(failures, None))
            failures += 1


def new_key(key: str | None) -> dict[str, str]:
    """The header that names a request: `key`, or a name that no other has."""
    return {"Idempotency-Key": key or uuid.uuid4().hex}


def wait_before(tried: int, told: float | None) -> float:
    """Seconds to wait after `tried` tries more than one: what the server says, or twice as long each time."""
    return min(WAIT_MOST, WAIT_FIRST * 2.0**tried if told is None else told)


def failure_of(response: httpx.Response) -> FolioError:
    """The error that `response` stands for; its body has been read."""
    try:
        problem = response.json()
    except ValueError:
        problem = None
    told = response.headers.get("Retry-After", "")
    return error_of(response.status_code, problem, float(told) if told.isdigit() else None)


def unreachable(error: httpx.TransportError) -> Unreachable:
    return Unreachable("unreachable", f"{type(error).__name__}: {error}")


def part(name: str) -> str:
    """`name` as one part of a path. Dots alone would lead elsewhere."""
    return quote(name, safe="").replace(".", "%2E") if name in {".", ".."} else quote(name, safe="")
