"""Requests with their answers, and streams of events."""

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping
from typing import Any, TypeVar

import httpx

from ..coding import at_version, body_bytes, check_headers, check_kind, json_of, new_key, not_folio, unsaid
from ..errors import Closed, FolioError, Invalid, Unreachable, error_of
from ..events import Event, Messages
from ..filters import query_of
from ..outage import STOOD_LEAST, Outage, wait_before

SILENCE_MOST = 45.0
"""Seconds without a sign of life after which a stream counts as dead; the server gives one every 15."""
WHOLE_MOST, OFFLOAD_MOST, TURN_MOST = 610.0, 160.0, 70.0
"""Timeouts in seconds for requests that take long (the first is for those that read a whole space or a whole run): the
server's own limit, and a little more for the network."""
AGAIN = frozenset({429, 502, 503, 504})
"""Status codes when there is no server now, or it is at capacity: from Folio, or from a proxy in front of it."""
NO_SERVER = "start a server with `folio serve`, or pass the address of one that runs: Folio(url)"
NO_ANSWER = "see whether the server still runs and how busy it is, or wait longer: Folio(timeout=…)"
T = TypeVar("T")


class AsyncWire:
    """Sends requests to a server, and retries them where that is safe."""

    def __init__(
        self, http: httpx.AsyncClient, base: str, headers: Mapping[str, str], retries: int, stream_timeout: float
    ) -> None:
        self.http = http
        self.base = base
        self.headers = dict(headers)
        self.retries = retries
        self.stream_timeout = stream_timeout

    def with_header(self, name: str, value: str) -> "AsyncWire":
        """Returns the same wire with one more header on each request."""
        return AsyncWire(self.http, self.base, {**self.headers, name: value}, self.retries, self.stream_timeout)

    async def get(
        self, shape: type[T], path: str, query: Mapping[str, Any] | None = None, *, takes: float | None = None
    ) -> T:
        return json_of(shape, await self.ask("GET", path, query=query, takes=takes))

    async def look(self, shape: type[T], path: str, within: float | None) -> T:
        """Returns what is at `path`, for which it asks once, for at most `within` seconds."""
        return json_of(shape, await self.ask("GET", path, retries=0, within=within))

    async def fetch(self, path: str, kind: str, *, takes: float | None = None) -> httpx.Response:
        """Returns the content at `path`, which must have the media type `kind`."""
        response = await self.ask("GET", path, takes=takes)
        check_kind(response, kind)
        return response

    async def post(
        self,
        shape: type[T],
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, Any] | None = None,
        key: str | None = None,
        version: int | None = None,
        takes: float | None = None,
    ) -> T:
        """Sends a POST that takes effect once, however often it is retried. `key` identifies the request; by default it
        gets a new key."""
        headers = {**new_key(key), **at_version(version)}
        return json_of(shape, await self.ask("POST", path, query=query, body=body, headers=headers, takes=takes))

    async def change(
        self,
        shape: type[T],
        method: str,
        path: str,
        body: Any,
        *,
        version: int | None,
        query: Mapping[str, Any] | None = None,
        key: str | None = None,
    ) -> T:
        """Sends `body` as a change; a text is sent as it is. With `key`, the change takes effect once, however often it
        is retried."""
        headers = {**({} if key is None else new_key(key)), **at_version(version)}
        return json_of(shape, await self.ask(method, path, query=query, body=body, headers=headers))

    async def ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        takes: float | None = None,
        within: float | None = None,
        retries: int | None = None,
    ) -> httpx.Response:
        """Returns the answer if it is a success, after waiting for at most `takes` seconds or the usual timeout, and
        never longer than `within`. `retries` is the client's by default.

        Reads, and requests with a key, are retried after a broken connection, and when the server is busy or a proxy
        does not reach it; other changes only if there were too many requests, since then nothing was done. A request
        with `takes` that has taken longer is not retried: the server may still be working on it.
        """
        said = {**self.headers, **(headers or {})}
        again = method == "GET" or "Idempotency-Key" in said
        if body is not None:
            kind, content = body_bytes(body)
            said = {"Content-Type": kind, **said}
        request = self.request(method, path, query, headers=said, content=content, timeout=self.waiting(takes, within))
        most = self.retries if retries is None else retries
        for tried in range(most + 1):
            is_last = tried == most
            try:
                response = await self.send(request)
            except httpx.RequestError as error:
                failed = unanswered(error, request.url)
                is_at_it = takes is not None and isinstance(error, httpx.ReadTimeout)
                if is_last or is_at_it or not again or not isinstance(failed, Unreachable):
                    raise failed from error
                await asyncio.sleep(wait_before(tried, None))
                continue
            if response.is_success:
                return response
            failed = failure_of(response)
            # 504 is the same, said by a proxy.
            is_at_it = takes is not None and (failed.code == "too_slow" or failed.status == 504)
            if is_last or is_at_it or not (failed.status == 429 or (again and failed.status in AGAIN)):
                raise failed
            await asyncio.sleep(wait_before(tried, getattr(failed, "retry_after", None)))
        raise AssertionError("the last try returns or raises")

    async def events(self, path: str, after: int | None) -> AsyncGenerator[Event, None]:
        """Yields the events, each once, over as many connections as it takes, until the server says that nothing
        follows, or there is no server for longer than `stream_timeout`."""
        outage = Outage(self.stream_timeout)
        while True:
            headers = self.headers if after is None else {**self.headers, "Last-Event-ID": str(after)}
            timeout = httpx.Timeout(self.http.timeout.connect, read=SILENCE_MOST)
            request = self.request("GET", path, headers=headers, timeout=timeout)
            # When the request was answered, and when the last sign of life came.
            began = alive = None
            failed: FolioError = Unreachable("unreachable", "the stream keeps ending")
            try:
                response = await self.send(request, stream=True)
                try:
                    if not response.is_success:
                        await response.aread()
                        raise failure_of(response)
                    check_kind(response, "text/event-stream")
                    began = alive = time.monotonic()
                    messages = Messages()
                    async for piece in response.aiter_bytes():
                        alive = time.monotonic()
                        for event in messages.push(piece):
                            if event.name == "problem":
                                status = event.data.get("status")
                                raise error_of(status if isinstance(status, int) else 0, event.data)
                            outage.is_over()
                            if event.name == "gap":
                                # What is known belongs to another past: a space continues at its head, a run at its
                                # first event.
                                after = event.data.get("head", 0) if event.id is None else event.id
                            elif event.id is not None:
                                after = event.id
                            yield event
                            if event.name == "end":
                                return
                    alive = time.monotonic()
                finally:
                    await response.aclose()
            except httpx.RequestError as error:
                failed = unanswered(error, request.url)
                failed.__cause__ = error
                if not isinstance(failed, Unreachable):
                    raise failed from error
                if alive is not None and not isinstance(error, httpx.ReadTimeout):
                    alive = time.monotonic()
            except FolioError as error:
                if not may_pass(error):
                    raise
                failed = error
            except ValueError as error:
                raise not_folio(200, f"the stream is not one of Folio's: {error}") from error
            if began is not None and alive is not None and alive - began >= STOOD_LEAST:
                outage.is_over()
            pause = outage.pause(time.monotonic(), getattr(failed, "retry_after", None))
            if pause is None:
                raise failed
            await asyncio.sleep(pause)

    async def send(self, request: httpx.Request, *, stream: bool = False) -> httpx.Response:
        try:
            return await self.http.send(request, stream=stream)
        except RuntimeError as error:
            if not self.http.is_closed:
                raise
            raise Closed("closed", "the client has been closed: nothing can be asked any more") from error

    def waiting(self, takes: float | None, within: float | None = None) -> httpx.Timeout:
        """Returns the timeout for a request that takes `takes` seconds: never shorter than the usual one, but at most
        `within`."""
        of = self.http.timeout.as_dict()
        if takes is not None and of["read"] is not None:
            of["read"] = max(of["read"], takes)
        if within is not None:
            of = {what: within if seconds is None else min(seconds, within) for what, seconds in of.items()}
        return httpx.Timeout(**of)

    def request(self, method: str, path: str, query: Mapping[str, Any] | None = None, **said: Any) -> httpx.Request:
        """Builds a request. Raises `Invalid` if it cannot be sent."""
        check_headers(said["headers"])
        try:
            params = httpx.QueryParams(tuple(query_of(query or {})))
            return self.http.build_request(method, self.base + path, params=params, **said)
        except (httpx.InvalidURL, TypeError, ValueError) as error:
            raise unsaid(error) from error


def may_pass(error: FolioError) -> bool:
    """Returns whether there is only no server now, or it is at capacity, so that asking again later may help."""
    return isinstance(error, Unreachable) or error.status in AGAIN


def unanswered(error: httpx.RequestError, url: httpx.URL) -> FolioError:
    """Returns the error for a request to `url` without an answer: it cannot be sent, what came back is not an answer,
    or nobody is there."""
    told = f"{type(error).__name__}: {error}"
    if isinstance(error, (httpx.LocalProtocolError, httpx.UnsupportedProtocol)):
        return Invalid("invalid", f"the request cannot be sent: {told}")
    if isinstance(error, httpx.TransportError):
        # The part of the URL that names the server, without a password that may stand before it.
        server = f"{url.scheme}://{url.netloc.decode('ascii')}"
        if isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout)):
            detail, hint = f"no server answers at {server}: {told}", NO_SERVER
        else:
            detail, hint = f"the connection to {server} broke or timed out: {told}", NO_ANSWER
        return Unreachable("unreachable", detail, hints=[hint])
    return not_folio(0, told)


def failure_of(response: httpx.Response) -> FolioError:
    """Returns the error for `response`, whose body has been read."""
    try:
        problem = response.json()
    except (ValueError, RecursionError):
        problem = None
    told = response.headers.get("Retry-After", "")
    return error_of(response.status_code, problem, float(told) if told.isascii() and told.isdigit() else None)
