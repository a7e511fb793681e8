"""The notebooks run from top to bottom in a fresh kernel, and are kept without their outputs."""

from __future__ import annotations

import ast
import os
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest

import wcbench

FOLDER = Path(__file__).resolve().parent.parent / "notebooks"
NOTEBOOKS = sorted(path.name for path in FOLDER.glob("*.ipynb"))
QUICK = "03-choose-a-subset.ipynb"
every_notebook = pytest.mark.parametrize("name", NOTEBOOKS)


def notebook(name: str) -> Any:
    return nbformat.read(FOLDER / name, as_version=4)


def code(name: str) -> list[str]:
    """Cells of code, without magics."""
    cells = [cell.source for cell in notebook(name).cells if cell.cell_type == "code"]
    return [source for source in cells if not source.lstrip().startswith("%%")]


def test_there_are_five() -> None:
    assert [name[:2] for name in NOTEBOOKS] == ["01", "02", "03", "04", "05"]
    assert QUICK in NOTEBOOKS


@every_notebook
def test_it_is_valid_and_holds_no_output(name: str) -> None:
    found = notebook(name)
    nbformat.validate(found)
    for cell in found.cells:
        if cell.cell_type == "code":
            assert (cell.outputs, cell.execution_count) == ([], None)
    assert found.cells[0].cell_type == "markdown"
    assert found.cells[0].source.startswith("# ")


@every_notebook
def test_it_parses_and_takes_only_public_names(name: str) -> None:
    for source in code(name):
        plain = "\n".join("pass" if line.lstrip().startswith(("%", "!")) else line for line in source.splitlines())
        for node in ast.walk(ast.parse(plain)):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "wcbench":
                assert node.attr in wcbench.__all__, f"{name}: wcbench.{node.attr}"


@every_notebook
def test_it_names_no_place_of_this_machine(name: str) -> None:
    text = (FOLDER / name).read_text(encoding="utf-8")
    assert not re.search(r"/(?:home|root|work|Users)/", text)


def executed(name: str, folder: Path) -> Any:
    from nbclient import NotebookClient

    made = notebook(name)
    environment = {**os.environ, "PYDEVD_DISABLE_FILE_VALIDATION": "1"}
    client = NotebookClient(made, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(folder)}})
    client.execute(env=environment)
    return made


def shown(made: Any) -> list[str]:
    """What cells show as HTML."""
    outputs = [output for cell in made.cells if cell.cell_type == "code" for output in cell.outputs]
    return [output.data["text/html"] for output in outputs if "text/html" in getattr(output, "data", {})]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name == QUICK else [pytest.mark.slow]) for name in NOTEBOOKS]
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of jupyter's own packages
def test_it_runs_from_a_fresh_kernel(name: str, tmp_path: Path) -> None:
    made = executed(name, tmp_path)
    assert shown(made), "a notebook shows something"
    errors = [output for cell in made.cells if cell.cell_type == "code" for output in cell.outputs
              if output.output_type == "error" and "raises-exception" not in cell.metadata.get("tags", [])]  # fmt: skip
    assert errors == []
