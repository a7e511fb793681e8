"""The wheel holds everything and works on its own; the type check notices when it sees a part of the package."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import types
import zipfile
from pathlib import Path
from typing import Any

import pytest

from wcbench.tasks.catalog import ROWS

ROOT = Path(__file__).resolve().parent.parent
HOMES = {
    "wcbench": "wcbench",
    "profilers": "wcbench/profilers",
    "analysis": "wcbench/analysis",
    "reports": "wcbench/reports",
}
DATA = (".py", ".toml", ".typed", ".html", ".css", ".js", ".typ", ".svg", ".json")


def package_files(root: Path) -> set[str]:
    """Every file of the four folders by the name it has in the package; the links inside wcbench/ are not followed."""
    found = set()
    for folder, home in HOMES.items():
        for where, folders, names in os.walk(root / folder):
            folders[:] = [f for f in folders if f != "__pycache__" and not (Path(where) / f).is_symlink()]
            folders[:] = [f for f in folders if Path(where) / f != root / "reports" / "samples"]  # in no package
            for name in names:
                if name.endswith(DATA):
                    relative = (Path(where) / name).relative_to(root / folder)
                    found.add(f"{home}/{relative.as_posix()}")
    return found


def copy_tree(target: Path) -> Path:
    """The checkout as a clone has it: no links, no environment, nothing built."""
    target.mkdir(parents=True)
    for name in ("pyproject.toml", "README.md", "LICENSE", "Makefile"):
        if (ROOT / name).exists():
            shutil.copy(ROOT / name, target)
    for folder in (*HOMES, ".ci"):
        names = ["__pycache__", *(["profilers", "analysis", "reports"] if folder == "wcbench" else [])]
        shutil.copytree(ROOT / folder, target / folder, ignore=shutil.ignore_patterns(*names))
    return target


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_tree(tmp_path_factory.mktemp("clone") / "tree")


@pytest.fixture(scope="module")
def wheel(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    options = ["--no-build-isolation", "--no-deps", "--no-index", "--disable-pip-version-check", "--quiet"]
    command = [sys.executable, "-m", "pip", "wheel", *options, "--wheel-dir", str(folder), "."]
    done = subprocess.run(command, check=False, cwd=tree, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_holds_every_file_of_the_package_and_nothing_else(wheel: Path, tree: Path) -> None:
    """What is missing belongs into `packages` or `package-data` of pyproject.toml."""
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    there = package_files(tree)
    assert sorted(there - held) == []
    assert sorted(held - there) == []


def test_the_wheel_holds_one_of_each_kind(wheel: Path) -> None:
    """By name, since the comparison above would also hold between two empty sets."""
    held = set(zipfile.ZipFile(wheel).namelist())
    assert held >= {
        "wcbench/py.typed",
        "wcbench/kernels.toml",
        "wcbench/cli/profile.py",
        "wcbench/tasks/vision/spatial_transformer.py",
        "wcbench/profilers/capture.py",
        "wcbench/analysis/hotspots.py",
        "wcbench/reports/sections/overview.py",
        "wcbench/reports/templates/report.html",
        "wcbench/reports/templates/report.css",
    }
    assert not [name for name in held if re.match(r"(tests|profilers|analysis|reports|benchmarks|docs)/", name)]


def test_the_wheel_names_the_command(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    (entry,) = [name for name in archive.namelist() if name.endswith("entry_points.txt")]
    assert "wcbench = wcbench.cli:main" in archive.read(entry).decode().splitlines()


CHILD = """
import sys
target, site_packages = sys.argv[1:]
sys.path[:0] = [target]
sys.path.append(site_packages)
import wcbench
from wcbench.cli import main
print(wcbench.__file__)
def run(*arguments):
    sys.argv = ["wcbench", *arguments]
    try:
        main()
    except SystemExit as ended:
        assert not ended.code, (arguments, ended.code)
run("--version")
run("list", "--json")
run("profile", "spatial-transformer", "--device", "cpu", "--preset", "tiny", "--passes", "timing,timeline",
    "--steps", "1", "--quiet", "-o", "run")
run("report", "run", "--quiet")
homes = {name: module.__file__ for name, module in sys.modules.items() if name.partition(".")[0] == "wcbench"}
assert all(file.startswith(target) for file in homes.values()), homes
"""


def test_the_wheel_works_outside_the_checkout(wheel: Path, tmp_path: Path) -> None:
    """Without site, so that the editable install of this environment has no say in what `wcbench` is."""
    target, cwd = tmp_path / "site", tmp_path / "elsewhere"
    cwd.mkdir()
    zipfile.ZipFile(wheel).extractall(target)
    (cwd / "analysis.py").write_text("raise AssertionError('a file of the user, not the package')", encoding="utf-8")
    command = [sys.executable, "-S", "-c", CHILD, str(target), sysconfig.get_path("purelib")]
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "WCBENCH_RUNS")}
    done = subprocess.run(command, check=False, cwd=cwd, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    file, version, listed = done.stdout.split("\n", 2)
    assert Path(file) == target / "wcbench" / "__init__.py"
    assert re.fullmatch(r"wcbench \d+\.\d+\.\d+", version)
    assert len(json.loads(listed)["tasks"]) == len(ROWS)
    assert (cwd / "run" / "kernels.parquet").is_file()
    assert (cwd / "run" / "report.html").read_text(encoding="utf-8").rstrip().endswith("</html>")


# .ci/types.py


@pytest.fixture
def types_check() -> types.ModuleType:
    spec = importlib.util.spec_from_file_location("ci_types", ROOT / ".ci" / "types.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def lay(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()


def linked(root: Path) -> Path:
    """A package of five files in four folders, with its links."""
    lay(root, "wcbench/__init__.py", "wcbench/cli/list.py", "wcbench/kernels.toml")
    lay(root, "profilers/timing.py", "analysis/pca.py", "reports/html.py")
    for name in ("profilers", "analysis", "reports"):
        (root / "wcbench" / name).symlink_to(f"../{name}")
    return root


def test_each_file_counts_once_whether_linked_or_not(
    types_check: types.ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(types_check, "ROOT", linked(tmp_path))
    assert types_check.source_files() == 5
    assert types_check.missing_links() == []
    (tmp_path / "wcbench" / "analysis").unlink()
    assert types_check.source_files() == 5
    assert types_check.missing_links() == ["wcbench/analysis"]


@pytest.fixture
def five_files(types_check: types.ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """The check, over a package of five files."""
    monkeypatch.setattr(types_check, "ROOT", linked(tmp_path))
    return types_check


@pytest.mark.parametrize(
    ("said", "code", "told"),
    [
        ("Success: no issues found in 5 source files\n", 0, "Success"),
        ("Success: no issues found in 4 source files\n", 1, "mypy checked 4 files, but the package has 5"),
        ("Success: no issues found in 1 source file\n", 1, "mypy checked 1 files, but"),
        ("", 1, "mypy checked no files, but the package has 5"),
    ],
)
def test_a_check_of_a_part_does_not_pass(
    five_files: types.ModuleType, capfd: pytest.CaptureFixture[str], said: str, code: int, told: str
) -> None:
    def mypy(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, 0, said, "")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess, "run", mypy)
        assert five_files.main() == code
    assert told in capfd.readouterr().out


def test_missing_links_are_told_before_mypy_runs(tmp_path: Path) -> None:
    """The script itself, in a checkout as a clone has it."""
    tree = copy_tree(tmp_path / "tree")
    command = [sys.executable, str(tree / ".ci" / "types.py")]
    done = subprocess.run(command, check=False, cwd=tree, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "Not there: wcbench/profilers, wcbench/analysis, wcbench/reports." in done.stdout
    assert "make links" in done.stdout
    assert not (tree / ".mypy_cache").exists()


def test_make_check_lays_the_links_first() -> None:
    make = shutil.which("make")
    if make is None:
        pytest.skip("no make here")
    done = subprocess.run([make, "-n", "-B", "check"], check=True, cwd=ROOT, capture_output=True, text=True)
    lines = done.stdout.splitlines()
    links = [index for index, line in enumerate(lines) if line.startswith("ln -sfn ../")]
    (types_line,) = [index for index, line in enumerate(lines) if line.endswith(".ci/types.py")]
    assert len(links) == 3
    assert max(links) < types_line
