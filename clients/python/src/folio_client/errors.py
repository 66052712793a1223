"""What can go wrong, sorted by what to do next."""

from collections.abc import Iterable, Mapping
from typing import Any


class FolioError(Exception):
    """A request that failed. `code` has a page in Folio's `docs/errors`. A traceback shows the hints, too."""

    def __init__(
        self,
        code: str,
        detail: str,
        *,
        status: int = 0,
        problem: Mapping[str, Any] | None = None,
        hints: Iterable[str] = (),
    ) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail
        self.status = status
        """The status of the answer; 0 if there was none."""
        self.problem: dict[str, Any] = dict(problem or {})
        """The whole problem document of the server (RFC 9457)."""
        told = self.problem.get("hints")
        self.hints: list[str] = [*hints, *(map(str, told) if isinstance(told, list) else ())]
        """What can be done about the error."""
        for hint in self.hints:
            self.add_note(f"hint: {hint}")

    def __reduce__(self) -> tuple[Any, ...]:
        # By default, an exception is copied by calling its class with its message, which is not what it is made of.
        return _copied, (type(self), self.args), self.__dict__


def _copied(kind: type[FolioError], args: tuple[Any, ...]) -> FolioError:
    """Returns an error as pickle and `copy` make it, to which they then add the attributes of the original."""
    return kind.__new__(kind, *args)


class Unreachable(FolioError):
    """Nobody answered, or the connection broke, after all retries: code `unreachable`."""


class Closed(FolioError, RuntimeError):
    """The client has been closed, so nothing was sent: code `closed`."""


class Invalid(FolioError):
    """The request is invalid (400, 405, 413, 415, 421, 422), or the client cannot send it (0)."""


class Refused(FolioError):
    """The token is missing or not valid, or its role may not do this (401, 403)."""


class NotFound(FolioError):
    """What the request names does not exist (404)."""


class Conflict(FolioError):
    """Somebody else changed it first, or it is final (409)."""

    @property
    def current(self) -> dict[str, Any] | None:
        """What is there now, if the server says so."""
        return self.problem.get("current")


class Busy(FolioError):
    """There are too many requests, or the store is unavailable now (429, 503)."""

    def __init__(
        self,
        code: str,
        detail: str,
        *,
        status: int = 0,
        problem: Mapping[str, Any] | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(code, detail, status=status, problem=problem)
        self.retry_after = retry_after
        """Seconds after which to try again, if the server says so."""


def error_of(status: int, problem: Any, retry_after: float | None = None) -> FolioError:
    """Returns the error for an answer with `status` and the body `problem`."""
    said: dict[str, Any] = problem if isinstance(problem, dict) else {}
    code = str(said.get("code") or f"status_{status}")
    detail = str(said.get("detail") or said.get("title") or f"the server answered with {status}")
    if status in (429, 503):
        return Busy(code, detail, status=status, problem=said, retry_after=retry_after)
    kind: type[FolioError] = FolioError
    if status in (401, 403):
        kind = Refused
    elif status == 404:
        kind = NotFound
    elif status == 409:
        kind = Conflict
    elif 400 <= status < 500:
        kind = Invalid
    return kind(code, detail, status=status, problem=said)
