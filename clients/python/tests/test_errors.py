"""The errors as objects: other processes get them whole."""

import copy
import multiprocessing
import pickle
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor

import pytest

from folio_client import Busy, Closed, Conflict, FolioError, Invalid, NotFound, Refused, Unreachable
from folio_client.errors import error_of

PROBLEM = {
    "code": "stale_version",
    "detail": "it is at version 3",
    "hints": ["read it again"],
    "current": {"version": 3},
}
ERRORS: list[FolioError] = [
    FolioError("not_folio", "the answer is not valid JSON", status=200),
    Unreachable("unreachable", "no server answers", hints=["start a server"]),
    Closed("closed", "the client has been closed"),
    Invalid("invalid", "the request cannot be encoded"),
    *(error_of(status, PROBLEM) for status in (401, 404, 409, 422, 500)),
    error_of(503, PROBLEM, 2.5),
]


def pickled(error: FolioError) -> FolioError:
    again: FolioError = pickle.loads(pickle.dumps(error))
    return again


@pytest.mark.parametrize("copied", [pickled, copy.copy, copy.deepcopy])
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_pickled_or_copied_error_keeps_all_it_says(
    error: FolioError, copied: Callable[[FolioError], FolioError]
) -> None:
    again = copied(error)
    assert (type(again), str(again), again.args) == (type(error), str(error), error.args)
    assert vars(again) == vars(error)
    assert again.hints == error.hints
    assert getattr(again, "__notes__", []) == [f"hint: {hint}" for hint in error.hints]


def test_every_kind_of_error_is_copied() -> None:
    kinds = {FolioError, Closed, Unreachable, Invalid, Refused, NotFound, Conflict, Busy}
    assert {type(error) for error in ERRORS} == kinds == {FolioError, *FolioError.__subclasses__()}
    assert isinstance(again := pickled(ERRORS[-1]), Busy)
    assert again.retry_after == 2.5
    assert isinstance(again := pickled(error_of(409, PROBLEM)), Conflict)
    assert again.current == {"version": 3}


def fail() -> None:
    raise error_of(409, PROBLEM)


def test_error_in_another_process_reaches_whoever_waits_for_it() -> None:
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        with pytest.raises(Conflict, match="it is at version 3") as caught:
            pool.submit(fail).result(timeout=60)
        assert caught.value.current == {"version": 3}
        assert pool.submit(len, "abc").result(timeout=60) == 3
