"""What happens to a stream when its server goes away: a real server, over real connections, with a simulated clock."""

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest

from folio_client import Busy, Event, Folio, Unreachable
from folio_client.outage import WAIT_FIRST, WAIT_MOST, Outage
from folio_client.synchronous import wire


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
    monkeypatch.setattr(wire, "time", clock)
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
