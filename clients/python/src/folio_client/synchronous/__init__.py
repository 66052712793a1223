# Made by tools/unasync.py of asynchronous; changed there and nowhere else.
"""The client for programs that wait."""

from .folio import Folio
from .run import Run
from .scratchbook import Scratchbook

__all__ = ["Folio", "Run", "Scratchbook"]
