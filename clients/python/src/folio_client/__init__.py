"""Folio, the working memory of agents.

    from folio_client import Folio

    with Folio() as folio:
        book = folio.thread("trip")
        book.add("task", "Book the flight")
        print(book.view(limit=300)["view"])

`Folio` blocks; `AsyncFolio` has the same methods for programs that use `asyncio` (and `aclose` for `close`). Answers are dictionaries with
the types of `folio_client.shapes`; failures are raised as a `FolioError` with a `code`.
"""

from . import shapes
from .asynchronous import AsyncFolio, AsyncRun, AsyncScratchbook
from .errors import Busy, Closed, Conflict, FolioError, Invalid, NotFound, Refused, Unreachable
from .events import Event
from .filters import Filters
from .synchronous import Folio, Run, Scratchbook

__all__ = [
    "AsyncFolio",
    "AsyncRun",
    "AsyncScratchbook",
    "Busy",
    "Closed",
    "Conflict",
    "Event",
    "Filters",
    "Folio",
    "FolioError",
    "Invalid",
    "NotFound",
    "Refused",
    "Run",
    "Scratchbook",
    "Unreachable",
    "shapes",
]
