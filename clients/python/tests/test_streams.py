"""What happens to a stream, and to whoever waits for a run, when the server goes away. The clock is simulated."""

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest

from folio_client import Busy, Event, Folio, FolioError, Unreachable
from folio_client.outage import WAIT_FIRST, WAIT_MOST, Outage
from folio_client.shapes import RunInFull
from folio_client.synchronous import run, wire


class Clock:
    """A simulated clock, which advances when somebody waits, and when the test says so."""

    def __init__(self) -> None:
        self.now = 0.0
        self.looks = 0
        self.waited: list[float] = []
        self.at: dict[float, Callable[[], None]] = {}
        """What happens at which time."""

    def monotonic(self) -> float:
        self.looks += 1
        return self.now

    def sleep(self, seconds: float) -> None:
        self.waited.append(seconds)
        self.now += seconds
        for moment in [moment for moment in self.at if moment <= self.now]:
            self.at.pop(moment)()


class Connection(BaseHTTPRequestHandler):
    """One connection; the script of its server says what is sent over it."""

    server: "Server"

    def do_GET(self) -> None:
        self.server.asked.append(self.headers["Last-Event-ID"])
        self.server.script.pop(0)(self)

    def answer(self, status: int = 200, kind: str = "text/event-stream", **headers: str) -> None:
        looks = self.server.clock.looks
        self.send_response(status)
        self.send_header("Content-Type", kind)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        # The client looks at the clock when it is answered; time may pass only after that.
        while status == 200 and self.server.clock.looks == looks:
            threading.Event().wait(0.001)

    def tell(self, *events: tuple[int | None, str], **data: object) -> None:
        for number, name in events:
            told = f"id: {number}\n" if number is not None else ""
            self.wfile.write(f"{told}event: {name}\ndata: {json.dumps(data)}\n\n".encode())

    def log_message(self, format: str, *args: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    """A server that goes through a script, one part for each connection."""

    def __init__(self, clock: Clock, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Connection)
        self.clock = clock
        self.script: list[Callable[[Connection], None]] = []
        self.asked: list[str | None] = []
        self._thread = threading.Thread(target=self.serve_forever, args=(0.01,))
        self._thread.start()

    def leave(self) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    for module in (wire, run):
        monkeypatch.setattr(module, "time", clock)
    return clock


@pytest.fixture
def server(clock: Clock) -> Iterator[Server]:
    server = Server(clock)
    yield server
    server.leave()


def events(server: Server, *, of: str = "run", **said: float) -> Iterator[Event]:
    with Folio(f"http://127.0.0.1:{server.server_port}", **said) as folio:  # type: ignore[arg-type]
        yield from folio.run("r1").events() if of == "run" else folio.events(after=90)


def ends(connection: Connection) -> None:
    connection.answer()
    connection.tell((7, "finished"), (None, "end"))


def test_broken_stream_resumes_after_the_last_event(server: Server) -> None:
    def breaks(connection: Connection) -> None:
        connection.answer()
        connection.tell((1, "started"), (2, "finished"))

    server.script = [breaks, ends]
    assert [event.id for event in events(server)] == [1, 2, 7, None]
    assert server.asked == ["0", "2"]


def test_stream_breaks_far_apart_do_not_add_up_to_a_timeout(server: Server, clock: Clock) -> None:
    def quiet(connection: Connection) -> None:
        connection.answer()
        clock.now += 15
        connection.wfile.write(b": alive\n\n")

    def cut_off(connection: Connection) -> None:
        connection.answer()
        clock.now += 6

    server.script = [quiet, quiet, quiet, cut_off, cut_off, quiet, ends]
    assert [event.name for event in events(server, stream_timeout=1)] == ["finished", "end"]
    assert clock.waited == [WAIT_FIRST] * 6


def test_stream_that_keeps_ending_immediately_is_unreachable(server: Server, clock: Clock) -> None:
    def alive(connection: Connection) -> None:
        connection.answer()
        connection.wfile.write(b": alive\n\n")

    server.script = [alive] * 100
    with pytest.raises(Unreachable, match="keeps ending"):
        list(events(server, retries=0))
    assert sum(clock.waited) == pytest.approx(60)
    assert max(clock.waited) == WAIT_MOST


def test_silent_server_is_unreachable(clock: Clock) -> None:
    class Silent(httpx.SyncByteStream):
        def __iter__(self) -> Iterator[bytes]:
            clock.now += 45
            assert clock.now < 45 * 9
            raise httpx.ReadTimeout("silent")
            yield b""

    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, headers={"Content-Type": "text/event-stream"}, stream=Silent())

    with (
        pytest.raises(Unreachable, match="silent"),
        Folio("http://folio.test", http=httpx.Client(transport=httpx.MockTransport(answer))) as folio,
    ):
        list(folio.run("r1").events())


def test_stream_survives_a_server_outage_of_fifty_seconds(server: Server, clock: Clock) -> None:
    later: list[Server] = []

    def comes_back() -> None:
        later.append(Server(clock, server.server_port))
        later[0].script = [ends]

    def breaks(connection: Connection) -> None:
        connection.answer()
        connection.tell((6, "started"))

    server.script, clock.at = [breaks], {50.0: comes_back}
    told = events(server)
    assert next(told).id == 6
    server.leave()
    assert [event.id for event in told] == [7, None]
    assert later[0].asked == ["6"]
    assert 50 <= clock.now <= 50 + WAIT_MOST
    later[0].leave()


def test_stream_timeout_limits_reconnecting(server: Server, clock: Clock) -> None:
    server.leave()
    with pytest.raises(Unreachable, match="ConnectError"):
        list(events(server, stream_timeout=3))
    assert clock.now == pytest.approx(3)
    clock.waited.clear()
    with pytest.raises(Unreachable):
        list(events(server, stream_timeout=0))
    assert clock.waited == []


def test_busy_server_is_retried_after_its_retry_after(server: Server, clock: Clock) -> None:
    def breaks(connection: Connection) -> None:
        connection.answer()
        connection.tell((1, "started"))

    def busy(status: int, **headers: str) -> Callable[[Connection], None]:
        return lambda connection: connection.answer(status, "application/problem+json", **headers)

    def lost_its_store(connection: Connection) -> None:
        connection.answer()
        connection.tell((None, "problem"), status=503, code="store_unavailable", detail="later")

    server.script = [breaks, busy(503, Retry_After="7"), busy(429, Retry_After="0"), busy(502), lost_its_store, ends]
    assert [event.id for event in events(server)] == [1, 7, None]
    assert server.asked == ["0", "1", "1", "1", "1", "1"]
    assert clock.waited == pytest.approx([WAIT_FIRST, 7, WAIT_FIRST, WAIT_FIRST * 8, WAIT_FIRST * 16])


def test_server_busy_beyond_the_timeout_raises_busy(server: Server, clock: Clock) -> None:
    server.script = [lambda connection: connection.answer(503, "application/problem+json", Retry_After="40")] * 3
    with pytest.raises(Busy) as caught:
        list(events(server))
    assert caught.value.retry_after == 40
    assert clock.waited == [40, 20]


def test_stream_resumes_from_the_position_of_a_gap(server: Server) -> None:
    def gap(number: int | None, **data: object) -> Callable[[Connection], None]:
        def tells(connection: Connection) -> None:
            connection.answer()
            connection.tell((number, "gap"), reason="unknown", **data)

        return tells

    server.script = [gap(40), gap(None, head=30), ends]
    assert [event.name for event in events(server, of="space")] == ["gap", "gap", "finished", "end"]
    assert server.asked == ["90", "40", "30"]
    server.asked, server.script = [], [gap(None), ends]
    assert [event.name for event in events(server)] == ["gap", "finished", "end"]
    assert server.asked == ["0", "0"], "all events of the run follow"


Look = Callable[[httpx.Request], httpx.Response]


def waiting(look: Look, *, timeout: float | None, **said: float) -> str:
    """Waits for a run on a server that answers each poll with `look`, and returns its status."""
    http = httpx.Client(transport=httpx.MockTransport(look), timeout=30)
    with Folio("http://folio.test", http=http, **said) as folio:  # type: ignore[arg-type]
        return folio.run("r1").wait(timeout=timeout)["status"]


def looks_like(status: str, finished_at: str | None) -> httpx.Response:
    fields = {"status": status, "finished_at": finished_at}
    return httpx.Response(200, json={**dict.fromkeys(RunInFull.__required_keys__), **fields})


def hangs(clock: Clock) -> Look:
    def look(request: httpx.Request) -> httpx.Response:
        clock.now += request.extensions["timeout"]["read"]
        raise httpx.ReadTimeout("nothing came")

    return look


@pytest.mark.parametrize("away", [httpx.ConnectError("restarts"), httpx.Response(502), httpx.Response(503)])
@pytest.mark.parametrize("timeout", [None, 100])
def test_waiting_for_a_run_survives_a_server_outage_of_fifty_seconds(
    clock: Clock, away: httpx.Response | httpx.ConnectError, timeout: float | None
) -> None:
    def look(request: httpx.Request) -> httpx.Response:
        if not 5 <= clock.now < 55:
            return looks_like("running", None) if clock.now < 60 else looks_like("ok", "2026-01-01T00:00:00Z")
        if isinstance(away, httpx.Response):
            return away
        raise away

    assert waiting(look, timeout=timeout, retries=0) == "ok"
    assert 60 <= clock.now <= 61


def test_outages_of_a_server_do_not_add_up_while_a_run_is_waited_for(clock: Clock) -> None:
    def look(request: httpx.Request) -> httpx.Response:
        if clock.now % 20 < 10:
            raise httpx.ConnectError("restarts")
        return looks_like("ok", "then") if clock.now > 300 else looks_like("running", None)

    assert waiting(look, timeout=None, stream_timeout=15) == "ok"


def test_waiting_for_a_run_without_a_server_ends_with_stream_timeout(clock: Clock) -> None:
    def look(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("nobody")

    with pytest.raises(Unreachable, match="no server answers"):
        waiting(look, timeout=None, stream_timeout=7)
    assert clock.now == pytest.approx(7)


@pytest.mark.parametrize("timeout", [1, 2.5, 45, 50])
def test_waiting_with_a_timeout_on_a_silent_server_ends_in_time(clock: Clock, timeout: float) -> None:
    with pytest.raises(TimeoutError, match=f"r1 is not known to have ended after {timeout} s") as caught:
        waiting(hangs(clock), timeout=timeout)
    assert timeout <= clock.now <= timeout + 1
    assert isinstance(caught.value.__cause__, Unreachable)


def test_waiting_for_no_time_still_looks_once(clock: Clock) -> None:
    assert waiting(lambda _: looks_like("ok", "then"), timeout=0) == "ok"
    with pytest.raises(TimeoutError, match="r1 has not ended after 0 s"):
        waiting(lambda _: looks_like("running", None), timeout=0)
    assert (clock.now, clock.waited) == (0, [])
    with pytest.raises(TimeoutError):
        waiting(hangs(clock), timeout=0)
    assert clock.now == 1


def test_waiting_for_a_run_that_is_not_there_fails_at_once(clock: Clock) -> None:
    with pytest.raises(FolioError, match="not_found"):
        waiting(lambda _: httpx.Response(404, json={"code": "not_found"}), timeout=9)
    assert clock.waited == []


def test_outage_pauses_double_and_end_at_the_time_limit() -> None:
    outage = Outage(10)
    assert [outage.pause(now) for now in (100, 101, 102)] == pytest.approx([0.2, 0.4, 0.8])
    assert outage.pause(109.5) == pytest.approx(0.5), "the last try is at the end"
    assert outage.pause(110) is None
    outage.is_over()
    assert outage.pause(200) == pytest.approx(0.2)
    assert outage.pause(201, told=3) == 3
    assert outage.pause(202, told=100) == 8
    patient = Outage(1e9)
    assert max(patient.pause(now) or 0 for now in range(3000)) == WAIT_MOST
