"""The client for programs that use `asyncio`."""

from .folio import AsyncFolio
from .run import AsyncRun
from .scratchbook import AsyncScratchbook

__all__ = ["AsyncFolio", "AsyncRun", "AsyncScratchbook"]
