"""Generated files are up to date with their sources."""

import subprocess
import sys
import typing
from pathlib import Path

import pytest
from typing_extensions import is_typeddict

from folio_client import shapes

TOOLS = Path(__file__).parent.parent / "tools"


@pytest.mark.parametrize("tool", ["shapes.py", "unasync.py"])
def test_generated_files_are_up_to_date(tool: str) -> None:
    subprocess.run([sys.executable, str(TOOLS / tool), "--check"], check=True)


SHAPES = [shape for shape in vars(shapes).values() if is_typeddict(shape)]


def test_shapes_can_be_looked_at_while_a_program_runs() -> None:
    assert len(SHAPES) > 100
    for shape in SHAPES:
        assert typing.get_type_hints(shape)


def test_pydantic_checks_values_against_shapes() -> None:
    pydantic = pytest.importorskip("pydantic")
    for shape in SHAPES:
        pydantic.TypeAdapter(shape)
    adapter = pydantic.TypeAdapter(shapes.AnswerInput)
    assert adapter.validate_python({"answer": "yes"}) == {"answer": "yes"}
    with pytest.raises(pydantic.ValidationError):
        adapter.validate_python({"answer": 3})
