"""Generated files are up to date with their sources."""

import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).parent.parent / "tools"


@pytest.mark.parametrize("tool", ["shapes.py", "unasync.py"])
def test_generated_files_are_up_to_date(tool: str) -> None:
    subprocess.run([sys.executable, str(TOOLS / tool), "--check"], check=True)
