"""What becomes of a request when the network or the server is not as one would wish."""

import json
from collections.abc import Callable, Iterator

import httpx
import pytest

from folio_client import Busy, Event, Folio, Refused, Unreachable
from folio_client.events import Messages
from folio_client.synchronous import wire


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    waited: list[float] = []
    monkeypatch.setattr("time.sleep", waited.append)
    return waited


def asking(answer: Callable[[httpx.Request], httpx.Response]) -> Folio:
    return Folio("http://folio.test/", token="secret", http=httpx.Client(transport=httpx.MockTransport(answer)))


def busy(code: str, status: int = 503) -> httpx.Response:
    return httpx.Response(
        status, json={"code": code, "detail": "later", "hints": ["wait"]}, headers={"Retry-After": "2"}
    )


def test_a_request_whose_answer_is_lost_is_made_again_under_the_same_name(waits: list[float]) -> None:
    seen: list[tuple[str, str]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append((request.headers["Idempotency-Key"], request.headers["Authorization"]))
        if len(seen) == 1:
            raise httpx.ReadError("gone")
        return busy("store_unavailable") if len(seen) == 2 else httpx.Response(201, json={"handle": "e1"})

    assert asking(answer).observe("x")["handle"] == "e1"
    assert len(seen) == 3
    assert len(set(seen)) == 1
    assert seen[0][1] == "Bearer secret"
    assert waits == [wire.WAIT_FIRST, 2.0]


def test_an_import_whose_answer_is_lost_is_made_again_under_the_same_name() -> None:
    seen: list[tuple[str, bytes]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append((request.headers["Idempotency-Key"], request.content))
        return busy("store_unavailable") if len(seen) == 1 else httpx.Response(200, json={"entries": 1})

    assert asking(answer).import_(b"{}", key="k")["entries"] == 1
    assert seen == [("k", b"{}")] * 2


def test_a_name_is_one_part_of_a_path_whatever_it_is() -> None:
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.raw_path.decode())
        return httpx.Response(200, json={})

    for name in [".", "..", "a/../b", "x.y", "é ?"]:
        asking(answer).thread(name).items()
    before, after = "/v1/spaces/main/threads/", "/scratchbook/items"
    names = ["%2E", "%2E%2E", "a%2F..%2Fb", "x.y", "%C3%A9%20%3F"]
    assert asked == [f"{before}{name}{after}" for name in names]


def test_it_is_not_tried_for_ever() -> None:
    tries = []

    def answer(request: httpx.Request) -> httpx.Response:
        tries.append(request.url)
        raise httpx.ConnectError("nobody is there")

    with pytest.raises(Unreachable) as caught:
        asking(answer).observations()
    assert (len(tries), caught.value.code, caught.value.status) == (3, "unreachable", 0)


def test_a_change_that_may_have_been_made_is_not_made_again() -> None:
    tries = []

    def answer(request: httpx.Request) -> httpx.Response:
        tries.append(request.url)
        return busy("store_unavailable")

    with pytest.raises(Busy) as caught:
        asking(answer).update_observation("e1", content="y")
    assert (len(tries), caught.value.retry_after, caught.value.hints) == (1, 2.0, ["wait"])


def test_a_refusal_is_not_asked_again() -> None:
    folio = asking(lambda _: httpx.Response(401, json={"code": "token_invalid", "detail": "no"}))
    with pytest.raises(Refused, match="token_invalid"):
        folio.observations()


def test_an_answer_that_is_no_problem_of_folios_is_an_error_all_the_same() -> None:
    with pytest.raises(Busy, match="status_503"):
        asking(lambda _: httpx.Response(503, text="<html>")).observations()


def lines(*events: tuple[int | None, str]) -> bytes:
    text = ""
    for number, name in events:
        text += f"id: {number}\n" if number is not None else ""
        text += f"event: {name}\ndata: {json.dumps({'n': number})}\n\n"
    return text.encode()


def test_a_stream_that_breaks_goes_on_after_the_last_event() -> None:
    asked: list[str | None] = []

    class Broken(httpx.SyncByteStream):
        def __iter__(self) -> Iterator[bytes]:
            yield lines((1, "started"), (2, "finished"))
            raise httpx.ReadError("gone")

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.headers.get("Last-Event-ID"))
        if len(asked) == 1:
            return httpx.Response(200, stream=Broken())
        return httpx.Response(200, content=lines((3, "started"), (None, "end")))

    events = list(asking(answer).run("r1").events())
    assert [event.id for event in events] == [1, 2, 3, None]
    assert asked == ["0", "2"]


def test_a_stream_that_gives_nothing_is_given_up() -> None:
    with pytest.raises(Unreachable):
        list(asking(lambda _: httpx.Response(200, content=b": alive\n\n")).run("r1").events())


def test_messages_are_the_same_however_they_are_cut() -> None:
    stream = ': hello\n\nid: 7\nevent: note\ndata: {"text": "a\u2028b\x85c"}\n\nevent: end\r\ndata: {}\r\n\r\n'.encode()
    wanted = [Event("note", {"text": "a\u2028b\x85c"}, 7), Event("end", {}, None)]
    for size in range(1, len(stream) + 1):
        messages = Messages()
        pieces = (stream[at : at + size] for at in range(0, len(stream), size))
        assert [event for piece in pieces for event in messages.push(piece)] == wanted
