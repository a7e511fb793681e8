"""The documents are tests: generated pages match the code, and commands in prose exist."""

from __future__ import annotations

import gzip
import importlib.util
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from wcbench.cli import app
from wcbench.suites import suite_ids
from wcbench.tasks.catalog import TASKS

ROOT = Path(__file__).resolve().parent.parent
_spec = importlib.util.spec_from_file_location("docs_build", ROOT / "docs" / "build.py")
assert _spec is not None
assert _spec.loader is not None
build = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(build)

PROSE = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("name", list(build.PAGES))
def test_generated_page_is_current(name: str) -> None:
    page = (ROOT / "docs" / name).read_text(encoding="utf-8")
    assert page.split("\n", 2)[2] == build.PAGES[name](), "run `make docs`"


def _commands() -> list[str]:
    """Every `wcbench ...` line of a console block in the prose."""
    found = []
    for path in PROSE:
        for block in re.findall(r"```(?:console|bash|sh)\n(.*?)```", path.read_text(encoding="utf-8"), re.S):
            found += [line[2:] for line in block.splitlines() if line.startswith(("$ wcbench", "$ .venv/bin/wcbench"))]
    return found


def test_commands_in_the_prose_exist_with_their_options() -> None:
    commands = _commands()
    assert commands, "the README shows no command"
    root = get_command(app)
    for line in commands:
        words = shlex.split(line.split("#")[0])[1:]
        command = getattr(root, "commands")[words[0]]  # noqa: B009
        options = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
        used = {word.split("=")[0] for word in words[1:] if word.startswith("-")}
        assert used <= options | {"--help"}, line
        if words[0] == "profile":
            suite = words[1] == "--suite" and words[2] in suite_ids()
            assert suite or words[1] in TASKS or ":" in words[1], line


def test_readme_opens_with_the_two_commands_and_they_are_targets() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    first = re.search(r"```console\n(.*?)```", readme, re.S)
    assert first is not None
    shown = re.findall(r"^\$ make (\S+)", first[1], re.M)
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    assert shown[0] == "run"
    assert "test" in re.findall(r"^\$ make (\S+)", readme, re.M)
    assert set(shown) <= set(targets)
    run = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "make check" in run
    assert "make test" in run


def test_links_between_documents_lead_somewhere() -> None:
    for path in PROSE:
        for target in re.findall(r"\]\(([^)#]+)\)", path.read_text(encoding="utf-8")):
            if "://" not in target:
                assert (path.parent / target).exists(), f"{path.name}: {target}"


def test_the_tasks_page_holds_ours_against_public_numbers() -> None:
    """ResNet-50: 8,178,368,512 FLOP are 4,089,184,256 MAC, against torchvision's 4.089 GMAC; half of it in FLOP."""
    page = build.tasks()
    for row in TASKS:
        assert f"\n## {row.name}\n" in page
    ours = page.partition("\n## image-classification\n")[2].partition("\n## ")[0]
    parameters = "| parameters | 25,557,032 | 25,557,032 | parameters | 1.000 | torchvision weights meta | published |"
    assert parameters in ours
    assert "| forward FLOPs | 4,089,184,256 | 4,089,000,000 | MAC | 1.000 |" in ours
    assert "| forward FLOPs | 4,089,184,256 | 3,800,000,000 | MAC | 1.076 |" in ours  # 4,089,184,256 / 3.8e9
    assert "| target | 0.749 | top-1 accuracy |" in ours
    assert "| forward FLOPs | 416,890,880 | no public count was found | FLOP |" in page
    assert "face-embedding@resnet34` (24,934,096 parameters, 5,181,967,744 FLOP)" in page
    assert "members of the WC subset | not known: " in page
    assert "- Llama 3.1 405B" in page


def test_the_tasks_page_is_written_without_torch() -> None:
    script = f"""
import importlib.util, sys
spec = importlib.util.spec_from_file_location("docs_build", {str(ROOT / "docs" / "build.py")!r})
build = importlib.util.module_from_spec(spec)
spec.loader.exec_module(build)
build.tasks()
assert not {{"torch", "numpy", "pandas"}} & set(sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_every_command_is_documented() -> None:
    page = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    for name in getattr(get_command(app), "commands"):  # noqa: B009
        assert f"## wcbench {name}\n" in page
        assert CliRunner().invoke(app, [name, "--help"]).exit_code == 0


def test_the_readmes_python_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    code = re.search(r"```python\n(.*?)```", readme, re.S)
    assert code is not None
    monkeypatch.chdir(tmp_path)
    kernel = {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 5, "dur": 9, "args": {"stream": 7}}
    trace = json.dumps({"schemaVersion": 1, "traceEvents": [kernel]})
    Path("trace.json.gz").write_bytes(gzip.compress(trace.encode()))
    names: dict[str, object] = {}
    exec(code[1], names)
    assert repr(names["profile"]).startswith("spatial-transformer")
    assert "gemm" in repr(names["trace"].view("hotspots"))  # type: ignore[attr-defined]
    assert [path.name for path in tmp_path.iterdir()] == ["trace.json.gz"]


def test_the_task_in_contributing_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = re.search(r"```python\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.S)
    assert code is not None
    names: dict[str, object] = {}
    exec(code[1], names)
    import wcbench

    profile = wcbench.profile(names["Mlp"], device="cpu", passes=["operators", "timing"], save=False)  # type: ignore[arg-type]
    summary = wcbench.summary(profile)
    # 784 x 128 + 128 and 128 x 10 + 10; two products of 256 rows, 2 FLOP a multiply-accumulate
    assert summary["complexity"]["params_total"] == 784 * 128 + 128 + 128 * 10 + 10
    assert summary["complexity"]["flops_matrix_forward"] == 2 * 256 * (784 * 128 + 128 * 10)
    assert summary["passes"]["timing"]["batch_size"] == 32
