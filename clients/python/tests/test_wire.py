"""What happens to a request when the network or the server misbehaves."""

import asyncio
import json
import socket
import time
import traceback
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from datetime import date
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import httpx
import pytest

from folio_client import AsyncFolio, Busy, Closed, Event, Folio, FolioError, Invalid, Refused, Unreachable, shapes
from folio_client.coding import header_word
from folio_client.events import Messages
from folio_client.outage import WAIT_FIRST


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    waited: list[float] = []
    monkeypatch.setattr("time.sleep", waited.append)
    return waited


def asking(answer: Callable[[httpx.Request], httpx.Response]) -> Folio:
    return Folio("http://folio.test/", token="secret", http=httpx.Client(transport=httpx.MockTransport(answer)))


def answered(shape: Any, **fields: Any) -> httpx.Response:
    """A successful answer that has all fields of `shape`."""
    return httpx.Response(200, json={**dict.fromkeys(shape.__required_keys__), **fields})


def busy(code: str, status: int = 503) -> httpx.Response:
    return httpx.Response(
        status, json={"code": code, "detail": "later", "hints": ["wait"]}, headers={"Retry-After": "2"}
    )


def test_request_with_lost_answer_is_retried_with_the_same_key(waits: list[float]) -> None:
    seen: list[tuple[str, str]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append((request.headers["Idempotency-Key"], request.headers["Authorization"]))
        if len(seen) == 1:
            raise httpx.ReadError("gone")
        return busy("store_unavailable") if len(seen) == 2 else answered(shapes.WrittenObservation, handle="e1")

    assert asking(answer).observe("x")["handle"] == "e1"
    assert len(seen) == 3
    assert len(set(seen)) == 1
    assert seen[0][1] == "Bearer secret"
    assert waits == [WAIT_FIRST, 2.0]


def test_retried_import_keeps_its_idempotency_key() -> None:
    seen: list[tuple[str, bytes]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append((request.headers["Idempotency-Key"], request.content))
        return busy("store_unavailable") if len(seen) == 1 else answered(shapes.Received, entries=1)

    assert asking(answer).import_(b"{}", key="k")["entries"] == 1
    assert seen == [("k", b"{}")] * 2


LONG: list[tuple[Callable[[Folio], Any], float]] = [
    (lambda folio: folio.import_(b"{}"), 600.0),
    (lambda folio: folio.export(), 600.0),
    (lambda folio: folio.forget(entries=["e1"]), 600.0),
    (lambda folio: folio.turn_export("t1"), 600.0),
    (lambda folio: folio.run("r1").fork("a"), 600.0),
    (lambda folio: folio.thread("a").offload([]), 150.0),
    (lambda folio: folio.begin_turn("x"), 60.0),
    (lambda folio: folio.end_turn("t1"), 60.0),
]


@pytest.mark.parametrize(
    "too_slow", [httpx.ReadTimeout("nothing came"), busy("too_slow"), httpx.Response(504, text="<html>")]
)
@pytest.mark.parametrize(("asks", "least"), LONG)
def test_slow_operations_have_longer_timeouts_and_are_not_retried(
    asks: Callable[[Folio], Any], least: float, too_slow: httpx.Response | httpx.ReadTimeout
) -> None:
    waited: list[float] = []

    def answer(request: httpx.Request) -> httpx.Response:
        waited.append(request.extensions["timeout"]["read"])
        if isinstance(too_slow, httpx.Response):
            return too_slow
        raise too_slow

    with pytest.raises(FolioError):
        asks(asking(answer))
    (read,) = waited
    assert least < read < least + 15
    patient = httpx.Client(transport=httpx.MockTransport(answer), timeout=None)
    with pytest.raises(FolioError):
        asks(Folio("http://folio.test", http=patient))
    assert waited[1:] == [None]


def test_client_closes_only_connections_it_opened() -> None:
    http = httpx.Client(transport=httpx.MockTransport(lambda _: httpx.Response(200, json={})))
    with Folio("http://folio.test", http=http):
        pass
    assert not http.is_closed
    own = Folio("http://folio.test")
    with own.in_turn("t1"):
        pass
    assert not own._http.is_closed
    own.close()
    assert own._http.is_closed


def test_abandoned_event_stream_is_closed() -> None:
    class Stream(httpx.SyncByteStream):
        is_closed = False

        def __iter__(self) -> Iterator[bytes]:
            while True:
                yield b'id: 1\nevent: note\ndata: {}\n\n'

        def close(self) -> None:
            self.is_closed = True

    tells: list[Callable[[Folio], Generator[Event, None, None]]] = [
        lambda folio: folio.run("r1").events(),
        lambda folio: folio.events(after=0),
    ]
    for told in tells:
        stream = Stream()
        answer = httpx.Response(200, headers=EVENTS, stream=stream)
        folio = Folio("http://folio.test", http=httpx.Client(transport=httpx.MockTransport(lambda _: answer)))
        with closing(told(folio)) as events:
            assert next(events).name == "note"
        assert stream.is_closed


def test_names_are_escaped_into_one_path_segment() -> None:
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.raw_path.decode())
        return answered(shapes.ListOfScratchItem)

    for name in [".", "..", "a/../b", "x.y", "é ?"]:
        asking(answer).thread(name).items()
    before, after = "/v1/spaces/main/threads/", "/scratchbook/items"
    names = ["%2E", "%2E%2E", "a%2F..%2Fb", "x.y", "%C3%A9%20%3F"]
    assert asked == [f"{before}{name}{after}" for name in names]


def test_unreachable_server_is_tried_three_times() -> None:
    tries = []

    def answer(request: httpx.Request) -> httpx.Response:
        tries.append(request.url)
        raise httpx.ConnectError("nobody is there")

    with pytest.raises(Unreachable) as caught:
        asking(answer).observations()
    assert (len(tries), caught.value.code, caught.value.status) == (3, "unreachable", 0)


def test_error_without_a_server_names_its_address_and_how_to_start_one() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
        # Nothing listens there.
        asks: list[Callable[[Folio], Any]] = [
            lambda folio: folio.goals(),
            lambda folio: list(folio.run("r1").events()),
        ]
        for ask in asks:
            named = url.replace("//", "//user:pass@")
            with Folio(named, stream_timeout=0) as folio, pytest.raises(Unreachable) as caught:
                ask(folio)
            error = caught.value
            assert str(error).startswith(f"unreachable: no server answers at {url}: ConnectError")
            assert ["folio serve" in hint for hint in error.hints] == [True]
            assert error.hints[0] in "".join(traceback.format_exception(error))


def test_broken_connection_does_not_advise_to_start_a_server() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        raise httpx.ReadTimeout("nothing came")

    with pytest.raises(Unreachable, match="the connection to http://folio.test broke or timed out") as caught:
        asking(answer).observations()
    assert not any("folio serve" in hint for hint in caught.value.hints)


@pytest.mark.parametrize("hints", [None, 5, "wait", {"a": "b"}])
def test_hints_of_another_type_are_ignored(hints: object) -> None:
    with pytest.raises(FolioError) as caught:
        asking(lambda _: httpx.Response(500, json={"code": "broken", "hints": hints})).observations()
    assert (caught.value.code, caught.value.hints) == ("broken", [])


def test_update_without_key_is_not_retried() -> None:
    tries = []

    def answer(request: httpx.Request) -> httpx.Response:
        tries.append(request.url)
        return busy("store_unavailable")

    with pytest.raises(Busy) as caught:
        asking(answer).update_observation("e1", content="y")
    assert (len(tries), caught.value.retry_after, caught.value.hints) == (1, 2.0, ["wait"])


@pytest.mark.parametrize("status", [502, 503, 504])
def test_status_of_a_proxy_without_a_server_is_retried_where_repeating_is_safe(
    status: int, waits: list[float]
) -> None:
    tries: list[str | None] = []

    def answer(request: httpx.Request) -> httpx.Response:
        tries.append(request.headers.get("Idempotency-Key"))
        if len(tries) < 3:
            return httpx.Response(status, text="<html>")
        return answered(shapes.ListOfObservation if request.method == "GET" else shapes.WrittenObservation)

    safe: list[Callable[[Folio], Any]] = [
        lambda folio: folio.observations(),
        lambda folio: folio.observe("x"),
        lambda folio: folio.update_observation("e1", content="y", key="k"),
    ]
    for asks in safe:
        tries.clear()
        asks(asking(answer))
        assert (len(tries), len(set(tries))) == (3, 1)
    assert waits == [WAIT_FIRST, WAIT_FIRST * 2] * 3
    tries.clear()
    with pytest.raises(FolioError, match=f"status_{status}"):
        asking(answer).update_observation("e1", content="y")
    assert len(tries) == 1


def test_unauthorized_answer_raises_refused() -> None:
    folio = asking(lambda _: httpx.Response(401, json={"code": "token_invalid", "detail": "no"}))
    with pytest.raises(Refused, match="token_invalid"):
        folio.observations()


def test_error_status_without_problem_document_is_an_error() -> None:
    with pytest.raises(Busy, match="status_503"):
        asking(lambda _: httpx.Response(503, text="<html>")).observations()


def test_stream_messages_are_independent_of_chunk_boundaries() -> None:
    stream = ': hello\n\nid: 7\nevent: note\ndata: {"text": "a\u2028b\x85c"}\n\nevent: end\r\ndata: {}\r\n\r\n'.encode()
    wanted = [Event("note", {"text": "a\u2028b\x85c"}, 7), Event("end", {}, None)]
    for size in range(1, len(stream) + 1):
        messages = Messages()
        pieces = (stream[at : at + size] for at in range(0, len(stream), size))
        assert [event for piece in pieces for event in messages.push(piece)] == wanted


def test_long_stream_message_is_parsed_in_linear_time() -> None:
    messages, piece, pieces = Messages(), b"x" * 8192, 4096
    began = time.process_time()
    assert list(messages.push(b'data: {"text": "')) == []
    for _ in range(pieces):
        assert list(messages.push(piece)) == []
    (event,) = messages.push(b'"}\n\n')
    assert len(event.data["text"]) == pieces * len(piece)
    assert time.process_time() - began < 5, "its square takes several times that"


@pytest.mark.parametrize("status", [None, "soon", [5]])
def test_problem_event_in_a_stream_is_an_error_whatever_its_status(status: object) -> None:
    problem = json.dumps({"status": status, "code": "store_unavailable", "detail": "later"})
    stream = f"event: problem\ndata: {problem}\n\n"
    kind = {"Content-Type": "text/event-stream"}
    with pytest.raises(FolioError, match="store_unavailable: later"):
        list(asking(lambda _: httpx.Response(200, headers=kind, text=stream)).run("r1").events())


@pytest.mark.parametrize("body", [b"[1]", b'{"data": {}}', b'"x"'])
def test_event_data_must_be_a_json_object(body: bytes) -> None:
    stream = b"data: " + body + b"\n\n"
    if body.startswith(b"{"):
        assert [event.data for event in Messages().push(stream)] == [{"data": {}}]
    else:
        with pytest.raises(ValueError, match="not an object"):
            list(Messages().push(stream))


CANNOT_BE_SAID: list[Callable[[Folio], Any]] = [
    lambda folio: folio.observe("x", confidence=float("nan")),
    lambda folio: folio.observe("x", metadata={"on": date(2026, 1, 2)}),
    lambda folio: folio.observe("x", metadata={"some": {1, 2}}),
    lambda folio: folio.observe("half of a pair: \ud800"),
    lambda folio: folio.observe("x", key="\ud800"),
    lambda folio: folio.observations(context={"a": float("inf")}),
    lambda folio: folio.search("\ud800"),
    lambda folio: folio.thread("\ud800"),
    lambda folio: folio.page("\udc80"),
    lambda folio: Folio("http://folio.test", token="secret\n").spaces(),
    lambda folio: Folio("http://folio.test", token="secr\u00e9t").spaces(),
    lambda folio: list(Folio("http://folio.test", token="secret ").run("r1").events()),
    lambda folio: Folio("folio.test").spaces(),
    lambda folio: Folio("http://folio.test:port").spaces(),
    lambda folio: folio.observation(3),  # type: ignore[arg-type]
    lambda folio: folio.observation(None),  # type: ignore[arg-type]
    lambda folio: folio.observation(""),
    lambda folio: folio.thread(None),  # type: ignore[arg-type]
    lambda folio: folio.in_turn(3),  # type: ignore[arg-type]
    lambda folio: folio.observe("x", key=3),  # type: ignore[arg-type]
    lambda folio: folio.observe("x", tags=3),  # type: ignore[arg-type]
    lambda folio: folio.observations(tags=[3]),  # type: ignore[list-item]
    lambda folio: folio.observations(tags=3),  # type: ignore[arg-type]
    lambda folio: folio.runs(status=[None]),  # type: ignore[list-item]
    lambda folio: folio.start({}, allow_tools=[b"shell"]),  # type: ignore[list-item]
    lambda folio: Folio(space=""),
    lambda folio: Folio(retries=-1),
    lambda folio: Folio(retries=1.5),  # type: ignore[arg-type]
    lambda folio: Folio(timeout=-1),
    lambda folio: Folio(timeout=0),
    lambda folio: Folio(timeout=float("nan")),
    lambda folio: Folio(timeout="30"),  # type: ignore[arg-type]
    lambda folio: Folio(stream_timeout=-1),
    lambda folio: AsyncFolio(retries=-1),
]


@pytest.mark.parametrize("says", CANNOT_BE_SAID)
def test_unencodable_request_is_invalid_and_never_sent(says: Callable[[Folio], Any], waits: list[float]) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        raise AssertionError("was asked")

    with pytest.raises(Invalid) as caught:
        says(asking(answer))
    assert (caught.value.code, caught.value.status, waits) == ("invalid", 0, [])
    assert "secr" not in str(caught.value)


MISTAKES: list[tuple[Callable[[Folio], Any], str]] = [
    (lambda folio: folio.observations(tags=["a", 3]), "`tags` takes a text or several texts, not 3"),  # type: ignore[list-item]
    (lambda folio: folio.runs(status=3), "`status` takes a text or several texts, not 3"),  # type: ignore[arg-type]
    (lambda folio: folio.start({}, allow_hosts=3), "`allow_hosts` takes a text or several texts, not 3"),  # type: ignore[arg-type]
    (lambda folio: folio.observation(None), "a name, a handle or an id is a text, not None"),  # type: ignore[arg-type]
    (lambda _: Folio(retries=-1), "`retries` is -1, not a number from 0"),
    (lambda _: Folio(timeout=-1), "`timeout` is -1, not a positive number of seconds, or None for no limit"),
]


@pytest.mark.parametrize(("says", "told"), MISTAKES)
def test_error_for_a_mistake_in_a_call_says_what_it_takes(says: Callable[[Folio], Any], told: str) -> None:
    with pytest.raises(Invalid) as caught:
        says(asking(lambda _: httpx.Response(500)))
    assert str(caught.value) == f"invalid: {told}"


def test_client_without_a_timeout_waits_as_long_as_it_takes() -> None:
    assert Folio(timeout=None)._http.timeout == httpx.Timeout(None)


def test_closed_client_raises_closed(waits: list[float]) -> None:
    folio = Folio("http://folio.test")
    run, turn = folio.run("r1"), folio.in_turn("t1")
    events = folio.events(after=0)
    folio.close()
    folio.close()
    asks: list[Callable[[], Any]] = [
        folio.spaces,
        lambda: folio.observe("x"),
        turn.goals,
        folio.export,
        run.wait,
        lambda: next(events),
        lambda: next(run.events()),
    ]
    for ask in asks:
        with pytest.raises(Closed, match="closed: the client has been closed") as caught:
            ask()
        assert isinstance(caught.value, RuntimeError), "which httpx raises"
    assert waits == []


def test_closed_async_client_raises_closed() -> None:
    async def ask() -> None:
        async with AsyncFolio("http://folio.test") as folio:
            pass
        await folio.spaces()

    with pytest.raises(Closed):
        asyncio.run(ask())


def test_representations_name_what_they_stand_for_without_secrets() -> None:
    named = Folio("http://user:pass@127.0.0.1:7717/prefix?token=pass", token="secret", space="a b")
    assert repr(named) == "Folio('http://127.0.0.1:7717/prefix', space='a b')"
    assert repr(Folio("http://user:p@ss/@folio.test:port")) == "Folio('http://folio.test:port', space='main')"
    assert repr(Folio("user:pass@folio.test").in_turn("t1")) == "Folio('folio.test', space='main')"
    assert (repr(named.run("r3")), repr(named.thread("a"))) == ("Run('r3')", "Scratchbook('a')")
    other = AsyncFolio()
    assert repr(other) == "AsyncFolio('http://127.0.0.1:7717', space='main')"
    assert (repr(other.run("r3")), repr(other.thread("a"))) == ("AsyncRun('r3')", "AsyncScratchbook('a')")


HTML = httpx.Response(200, text="<html>Log in first", headers={"Content-Type": "text/html"})
EVENTS = {"Content-Type": "text/event-stream"}
OF_SOMEBODY_ELSE: list[tuple[httpx.Response, Callable[[Folio], Any]]] = [
    (HTML, lambda folio: folio.observations()),
    (HTML, lambda folio: folio.observe("x")),
    (HTML, lambda folio: folio.import_(b"{}")),
    (HTML, lambda folio: folio.export()),
    (HTML, lambda folio: folio.page_markdown("p1")),
    (HTML, lambda folio: list(folio.run("r1").events())),
    (httpx.Response(200, json=["ok"]), lambda folio: folio.observations()),
    (httpx.Response(200, json={"status": "ok"}), lambda folio: folio.observe("x")),
    (httpx.Response(200, json={"replayed": False}), lambda folio: folio.restore_observation("e1")),
    (httpx.Response(200, json={"status": "ok"}), lambda folio: folio.run("r1").wait()),
    (httpx.Response(200, json={"items": [], "total": 0}), lambda folio: list(folio.each_observation())),
    (httpx.Response(200, json={"entries": 1}), lambda folio: folio.import_(b"{}")),
    (httpx.Response(200, content=b'{"a": "\xff"}'), lambda folio: folio.spaces()),
    (httpx.Response(200, text="data: {\n\n", headers=EVENTS), lambda folio: list(folio.run("r1").events())),
    (httpx.Response(200, text="id: one\n\n", headers=EVENTS), lambda folio: list(folio.run("r1").events())),
]


@pytest.mark.parametrize(("given", "asks"), OF_SOMEBODY_ELSE)
def test_answer_that_is_not_from_folio_raises_not_folio(
    given: httpx.Response, asks: Callable[[Folio], Any], waits: list[float]
) -> None:
    with pytest.raises(FolioError) as caught:
        asks(asking(lambda _: given))
    assert (caught.value.code, caught.value.status, waits) == ("not_folio", 200, [])


def test_server_that_is_not_folio_raises_not_folio() -> None:
    class Models(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = b'{"object":"list","data":[]}'
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    asks: list[Callable[[Folio], Any]] = [
        lambda folio: folio.goals(),
        lambda folio: folio.active(),
        lambda folio: folio.observation("e1"),
        lambda folio: folio.thread().view(),
        lambda folio: folio.run("r1").get(),
    ]
    with ThreadingHTTPServer(("127.0.0.1", 0), Models) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        with Folio(f"http://127.0.0.1:{server.server_port}") as folio:
            for ask in asks:
                with pytest.raises(FolioError, match="lacks ") as caught:
                    ask(folio)
                assert (caught.value.code, caught.value.status) == ("not_folio", 200)
        server.shutdown()


def test_answer_with_broken_compression_raises_not_folio() -> None:
    class Rubbish(httpx.SyncByteStream):
        def __iter__(self) -> Iterator[bytes]:
            yield b"not packed"

    with pytest.raises(FolioError) as caught:
        asking(lambda _: httpx.Response(200, headers={"Content-Encoding": "gzip"}, stream=Rubbish())).observations()
    assert caught.value.code == "not_folio"


def keys(*said: str | None) -> list[str]:
    """The idempotency key that the server receives for each key."""
    told: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        told.append(request.headers["Idempotency-Key"])
        return answered(shapes.WrittenObservation)

    for key in said:
        asking(answer).observe("x", key=key)
    return told


def test_idempotency_key_may_be_any_text() -> None:
    plain = "plan:review:src/a b.py 100%"
    assert keys(plain) == [plain], "as other clients send it"
    assert keys("plan:\u00e9t\u00e9 1%.py", " a ", "a\nb") == ["plan:%C3%A9t%C3%A9%201%25.py", "%20a%20", "a%0Ab"]
    long = ["k" * 255, "k" * 256, "\u00e9" * 43, "\u00e9" * 42, "\u00e8" * 43]
    told = keys(*long)
    assert told[0] == long[0]
    assert told[3] == "%C3%A9" * 42
    for word in (told[1], told[2], told[4]):
        assert (word[:7], len(word)) == ("sha256:", 71)
    assert len(set(told)) == 5
    assert keys(long[1]) == [told[1]], "the same again"
    one, other = keys(None, None)
    assert one != other


def test_non_ascii_turn_is_percent_encoded_in_its_header() -> None:
    told: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        told.append(request.headers["Folio-Turn"])
        return answered(shapes.ListOfObservation)

    asking(answer).in_turn("\u00e9").observations()
    assert told == ["%C3%A9"] == [header_word("\u00e9")]
