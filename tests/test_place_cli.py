"""`wcbench place` and the verb behind it, from a record on disk to the text and the JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import wcbench
from wcbench import api
from wcbench.analysis.features import evaluate
from wcbench.analysis.reference import load_reference
from wcbench.cli import main


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str


Cli = Callable[..., Ended]


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Cli:
    """Run `wcbench ARGUMENTS` in an empty current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WCBENCH_RUNS", raising=False)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)

    def run(*arguments: str | Path) -> Ended:
        monkeypatch.setattr(sys, "argv", ["wcbench", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        told = capsys.readouterr()
        code = ended.value.code
        assert isinstance(code, int)
        return Ended(code, told.out, told.err)

    return run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A variant of a task of the reference, which is none of its workloads, at the paper's scale."""
    folder = tmp_path_factory.mktemp("place") / "run"
    wcbench.profile(
        "spatial-transformer", batch_size=32, device="cpu", preset="paper", passes=["operators"], out=folder
    )
    return folder


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("place") / "toy"
    wcbench.profile("spatial-transformer", device="cpu", preset="tiny", passes=["operators"], out=folder)
    return folder


def test_a_record_in_our_own_space(cli: Cli, run: Path) -> None:
    ended = cli("place", run)
    assert (ended.code, ended.err) == (0, "")
    lines = ended.out.splitlines()
    assert lines[0] == "spatial-transformer in reference-1 (30 workloads, 13 blocks)"
    assert any("spatial-transformer" in line and "this task itself" in line for line in lines)
    assert any("footprint_peak: " in line for line in lines)  # another batch has another footprint
    assert (
        len([line for line in cli("place", run, "--rows", "2").out.splitlines() if line.startswith("     ")]) == 2 * 2
    )


def test_json_says_the_same_as_the_verb(cli: Cli, run: Path) -> None:
    ended = cli("place", run, "--json")
    assert (ended.code, ended.err) == (0, "")
    told = json.loads(ended.out)
    assert told == json.loads(json.dumps(api.place(run).to_dict()))
    assert told == json.loads(json.dumps(api.place(wcbench.load(run)).to_dict()))
    assert told["schema"] == "wcbench.place/1"
    assert len(told["nearest"]) == 30
    shares = [row["share"] for row in told["features"]]
    assert sum(shares) == pytest.approx(1)
    assert sum(row["share"] for row in told["blocks"]) == pytest.approx(1)
    assert told["missing"] == told["mixed"] == []


def test_another_preset_is_refused_unless_asked_for(cli: Cli, toy: Path) -> None:
    ended = cli("place", toy)
    assert (ended.code, ended.out) == (2, "")
    assert "preset tiny here, paper there" in ended.err
    assert "--mix" in ended.err
    mixed = cli("place", toy, "--mix")
    assert mixed.code == 0
    assert "mixed: origin toy here, exact there" in mixed.out


def test_a_space_from_a_file_and_from_a_study(cli: Cli, run: Path, tmp_path: Path) -> None:
    space = load_reference()
    study = tmp_path / "study"
    study.mkdir()
    space.save(study / "space.json")
    own = json.loads(cli("place", run, "--json").out)
    for where in (study, study / "space.json", "reference-1"):
        assert json.loads(cli("place", run, "--space", where, "--json").out) == own
    ended = cli("place", run, "--space", tmp_path / "nothing")
    assert ended.code == 2
    assert "Unknown reference space" in ended.err


def test_a_record_without_operators_says_what_it_needs(cli: Cli, tmp_path: Path) -> None:
    made = wcbench.profile("spatial-transformer", device="cpu", preset="tiny", passes=["timing"], steps=1, save=False)
    folder = tmp_path / "timed"
    made.save(folder)
    assert evaluate(made)["value"].isna().all()
    ended = cli("place", folder)
    assert ended.code == 2
    assert "--passes operators" in ended.err
