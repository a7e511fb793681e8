"""What stays light: the public names, and the modules that the cheap commands do not load."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import wcbench

HEAVY = ("torch", "torchvision", "transformers", "numpy", "pandas", "pyarrow", "matplotlib", "sklearn", "scipy")

PUBLIC = [
    "Built",
    "Config",
    "Profile",
    "Settings",
    "Task",
    "WcbenchError",
    "diff",
    "doctor",
    "export",
    "load",
    "load_study",
    "place",
    "profile",
    "profile_suite",
    "read",
    "report",
    "runs",
    "study",
    "summary",
    "sweep",
]

# Runs the command line inside the child, then says which heavy modules are there.
HARNESS = """
import sys
arguments = sys.argv[1:]
if arguments == ["import"]:
    import wcbench
elif arguments == ["import api"]:
    import wcbench.api
else:
    from wcbench.cli import main
    try:
        main()
    except SystemExit as ended:
        assert not ended.code, ended.code
heavy = %r
print("LOADED", *[name for name in heavy if name in sys.modules])
"""


@pytest.mark.parametrize("arguments", [["import"], ["import api"], ["--help"], ["list"], ["list", "--json"]], ids=str)
def test_nothing_heavy_is_loaded(arguments: list[str]) -> None:
    command = [sys.executable, "-c", HARNESS % (HEAVY,), *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "LOADED"
    assert done.stderr == ""


def test_python_m_is_the_same_command_and_as_light() -> None:
    command = [sys.executable, "-X", "importtime", "-m", "wcbench", "list"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    loaded = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
    assert "typer" in loaded  # the list is one of modules
    assert not loaded.intersection(HEAVY)
    assert "spatial-transformer" in done.stdout


def test_a_name_mistyped_is_told_without_loading_torch() -> None:
    harness = HARNESS.replace("assert not ended.code, ended.code", "assert ended.code == 2")
    command = [sys.executable, "-c", harness % (HEAVY,), "profile", "resnt"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    assert done.stdout == "LOADED\n"


def test_the_public_names_are_pinned() -> None:
    assert wcbench.__all__ == PUBLIC
    assert set(PUBLIC) <= set(dir(wcbench))


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_resolves_the_same_way_each_time(name: str) -> None:
    """Twice: a name that is also a submodule's would change its meaning after the first use."""
    first = getattr(wcbench, name)
    assert getattr(wcbench, name) is first
    assert first.__name__ == name


def test_no_public_name_is_hidden_by_a_submodule() -> None:
    folder = Path(wcbench.__file__).parent
    modules = {path.stem for path in folder.iterdir()}
    assert not modules.intersection(PUBLIC)


def test_type_checkers_see_the_same_names() -> None:
    source = Path(wcbench.__file__).read_text(encoding="utf-8")
    blocks = [node for node in ast.parse(source).body if isinstance(node, ast.If)]
    assert len(blocks) == 1
    imports = [node for node in blocks[0].body if isinstance(node, ast.ImportFrom)]
    seen = {alias.name: node.module for node in imports for alias in node.names}
    assert seen == wcbench._HOMES
    assert sorted(seen) == PUBLIC


def test_an_unknown_attribute_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'wcbench' has no attribute 'profil'"):
        _ = wcbench.profil
