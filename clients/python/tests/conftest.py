"""Starts a server for each test module: the program that the variable FOLIO_PROGRAM names."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from folio_client import Folio

PROGRAM = os.environ.get("FOLIO_PROGRAM", "folio")


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    home = tmp_path_factory.mktemp("house")
    environment = {"HOME": str(home), "PATH": os.environ["PATH"]}
    command = [PROGRAM, "--store", f"sqlite:{home / 'f.db'}", "serve", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, cwd=home, env=environment, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield server.stdout.readline().strip()
        server.terminate()
        server.wait(20)


@pytest.fixture
def folio(url: str) -> Iterator[Folio]:
    with Folio(url) as folio:
        yield folio


@pytest.fixture
def examples(monkeypatch: pytest.MonkeyPatch) -> Path:
    at = Path(__file__).parent.parent / "examples"
    monkeypatch.syspath_prepend(str(at))
    return at
