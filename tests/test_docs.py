"""The documents are tests: generated pages match the code, transcripts are what is printed, links lead somewhere."""

from __future__ import annotations

import difflib
import gzip
import importlib.util
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from typer.main import get_command
from typer.testing import CliRunner

import wcbench
from wcbench.cli import app
from wcbench.reports.sections import SECTIONS
from wcbench.suites import suite_ids
from wcbench.tasks.catalog import TASKS

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"


def _module(path: Path) -> ModuleType:
    """A module of docs/, which is no package; registered, since frozen dataclasses look their module up."""
    name = f"docs_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


build = _module(DOCS / "build.py")
transcripts = _module(DOCS / "transcripts.py")

PROSE = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.glob("*.md"))]
PAGES = [path.name for path in transcripts.pages()]


@pytest.mark.parametrize("name", list(build.PAGES))
def test_generated_page_is_current(name: str) -> None:
    page = (ROOT / "docs" / name).read_text(encoding="utf-8")
    assert page.split("\n", 2)[2] == build.PAGES[name](), "run `make docs`"


# --- transcripts ------------------------------------------------------------------------------------------------------


def _played(page: str, *, slow: bool) -> list[str]:
    """What a page shows otherwise than it is printed now, as readable differences."""
    wrong = []
    with transcripts.session():
        for block in transcripts.blocks(DOCS / page):
            if block.slow and not slow:
                continue
            printed = transcripts.play(block)
            if block.kind == "run" and not transcripts.same(block, printed):
                pair = (transcripts.masked(text) for text in (block.text, printed))
                wrong.append("\n".join(difflib.unified_diff(*pair, "the page", "printed now", lineterm="")))
    return wrong


@pytest.fixture
def _files_of(request: pytest.FixtureRequest) -> None:
    """Pages that show real traces need ../shared."""
    page = request.node.callspec.params["page"]
    if any("$SHARED" in block.said for block in transcripts.blocks(DOCS / page)):
        request.getfixturevalue("shared")


@pytest.mark.usefixtures("_files_of")
@pytest.mark.parametrize("page", [page for page in PAGES if page != "howto.md"])  # whose quick ones take a while
def test_quick_transcripts_are_what_is_printed(page: str) -> None:
    assert not "\n".join(_played(page, slow=False)), f"run `python docs/transcripts.py {page}`"


@pytest.mark.slow
@pytest.mark.usefixtures("_files_of")
@pytest.mark.parametrize("page", PAGES)
def test_all_transcripts_are_what_is_printed(page: str) -> None:
    assert not "\n".join(_played(page, slow=True)), f"run `python docs/transcripts.py {page}`"


def test_every_shown_output_is_a_transcript() -> None:
    """A console block that shows more than commands has a marker; the README's are the lead's own test."""
    for path in sorted(DOCS.glob("*.md")):
        text = path.read_text(encoding="utf-8")
        marked = {block.span for block in transcripts.blocks(path)}
        for match in re.finditer(r"^```console\n(.*?)^```$", text, re.M | re.S):
            free = [line for line in match[1].splitlines() if not line.startswith("$ ")]
            assert match.span(1) in marked or not free, f"{path.name}: {free[:1]} was not printed by a test"


@pytest.mark.parametrize(
    ("said", "page", "printed", "equal"),
    [
        ("", "$ x\na 1\n", "$ x\na 1\n", True),
        ("", "$ x\na 1\n", "$ x\na 2\n", False),
        ("", "$ x\na 1\n", "$ y\na 1\n", False),
        ("", "$ x\ntook 1.2 s\n", "$ x\ntook 340 ms\n", True),
        ("", "$ x\nruns/t/20261201T012437.799Z-13fc7811\n", "$ x\nruns/t/20260101T000000.000Z-ffffffff\n", True),
        ("", "$ x\n", "$ x\nsomething\n", False),
        ("measured", "$ x\nname  time\nmm 1\n", "$ x\nname time\nmul 2\n", True),
        ("measured", "$ x\nname  time\nmm 1\n", "$ x\nmul 2\n", False),
        ("measured", "$ x\n", "$ x\nsomething\n", False),
        ("free", "$ x\nhead one\n", "$ x\nhead two\n", True),
        ("free", "$ x\nhead one\n", "$ x\nother two\n", False),
        ("free", "$ x\na 1\n", "$ x\nb\n", True),
        ("free", "$ x\n", "$ x\nb\n", False),
    ],
)
def test_transcripts_are_compared_by_their_rule(said: str, page: str, printed: str, equal: bool) -> None:
    assert transcripts.same(transcripts.Block("p.md", "run", said, page), printed) is equal


def test_a_transcript_that_ends_otherwise_is_an_error() -> None:
    block = transcripts.Block("p.md", "run", "", "$ wcbench show nothing-of-that-name\n")
    with transcripts.session(), pytest.raises(RuntimeError, match=r"docs/p\.md: .* ended with 2 and not 0"):
        transcripts.play(block)


# --- commands, options, names -----------------------------------------------------------------------------------------


def _commands() -> list[str]:
    """Every `wcbench ...` line of a console block in the prose, up to a pipe or a comment."""
    found = []
    for path in PROSE:
        for block in re.findall(r"```(?:console|bash|sh)\n(.*?)```", path.read_text(encoding="utf-8"), re.S):
            found += [line[2:] for line in block.splitlines() if line.startswith(("$ wcbench", "$ .venv/bin/wcbench"))]
    return [re.split(r" (?:\||>|&&|#)", line)[0] for line in found]


def test_commands_in_the_prose_exist_with_their_options() -> None:
    commands = _commands()
    assert commands, "the README shows no command"
    root = get_command(app)
    for line in commands:
        words = shlex.split(line)[1:]
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


# --- links and pages --------------------------------------------------------------------------------------------------


def _links(path: Path) -> Iterator[str]:
    """Targets of a page's links, outside of its code."""
    text = re.sub(r"^ *(`{3,}).*?^ *\1$", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
    yield from re.findall(r"\]\(([^()\s]+(?:\([^()\s]*\))?)\)", re.sub(r"`[^`\n]*`", "", text))


def _anchors(path: Path) -> set[str]:
    """Anchors of a page's headings, as GitHub and the site give them."""
    text = re.sub(r"^ *(`{3,}).*?^ *\1$", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
    heads = [
        re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in re.findall(r"^#+ (.+?)\s*$", text, re.M)
    ]
    return {f"{head}-{n}" if n else head for i, head in enumerate(heads) for n in [heads[:i].count(head)]}


@pytest.mark.parametrize("path", PROSE, ids=lambda path: path.name)
def test_links_and_anchors_lead_somewhere(path: Path) -> None:
    for link in _links(path):
        target, _, anchor = link.partition("#")
        if "://" in target:
            assert re.fullmatch(r"https?://[\w.-]+\.\w+(/\S*)?", target), link
            continue
        found = (path.parent / target).resolve() if target else path
        assert found.exists(), f"{path.name}: {link}"
        assert found.is_relative_to(ROOT), f"{path.name}: {link} leaves the repository"
        assert not anchor or anchor in _anchors(found), f"{path.name}: {link}"


def test_every_page_is_reached_from_the_index() -> None:
    shown = re.findall(r"^```\{toctree\}\n(.*?)^```$", (DOCS / "index.md").read_text(encoding="utf-8"), re.M | re.S)
    listed = [line for part in shown for line in part.splitlines() if line and not line.startswith(":")]
    assert len(listed) == len(set(listed)), "a page twice in the contents"
    assert sorted(listed) == sorted(path.stem for path in DOCS.glob("*.md") if path.stem != "index")


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-n", "-q", str(DOCS), str(tmp_path / "html")]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    for name in wcbench.__all__:
        assert f'id="wcbench.{name}"' in (tmp_path / "html" / "api.html").read_text(encoding="utf-8") or (
            name == "WcbenchError"
        )


def test_every_public_name_has_its_text() -> None:
    page = (DOCS / "api.md").read_text(encoding="utf-8")
    for name in wcbench.__all__:
        found = getattr(wcbench, name)
        assert (found.__doc__ or "").strip(), f"wcbench.{name} has no docstring"
        assert re.search(rf"^\.\. auto\w+:: {name}$|`wcbench\.{name}`", page, re.M), f"docs/api.md lacks {name}"


def test_every_section_of_a_report_is_explained() -> None:
    page = (DOCS / "reports.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| (\w+) \| ", page, re.M)[1:] == SECTIONS.names()


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


def test_every_command_and_option_is_documented() -> None:
    page = (DOCS / "commands.md").read_text(encoding="utf-8")
    for name, command in getattr(get_command(app), "commands").items():  # noqa: B009
        assert CliRunner().invoke(app, [name, "--help"]).exit_code == 0
        section = page.partition(f"## wcbench {name}\n")[2].partition("\n## ")[0]
        for parameter in command.params:
            assert parameter.param_type_name == "argument" or parameter.help, f"{name} {parameter.name} has no help"
            missing = [opt for opt in parameter.opts if opt.startswith("-") and opt not in section]
            assert not missing, f"wcbench {name}: {missing}"


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
    profile = wcbench.profile(names["Mlp"], device="cpu", passes=["operators", "timing"], save=False)  # type: ignore[arg-type]
    summary = wcbench.summary(profile)
    # 784 x 128 + 128 and 128 x 10 + 10; two products of 256 rows, 2 FLOP a multiply-accumulate
    assert summary["complexity"]["params_total"] == 784 * 128 + 128 + 128 * 10 + 10
    assert summary["complexity"]["flops_matrix_forward"] == 2 * 256 * (784 * 128 + 128 * 10)
    assert summary["passes"]["timing"]["batch_size"] == 32
