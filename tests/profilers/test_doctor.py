"""What the doctor finds, also on machines that lack everything."""

from __future__ import annotations

from pathlib import Path

import pytest

from wcbench.profilers import doctor
from wcbench.profilers.doctor import ABSENT, BROKEN, OK, Check, examine


def found(runs: Path) -> dict[str, Check]:
    return {check.name: check for check in examine(runs)}


def test_every_check_answers_once_with_words(tmp_path: Path) -> None:
    checks = list(examine(tmp_path))
    assert [check.name for check in checks] == list(dict.fromkeys(check.name for check in checks))
    assert {"python", "torch", "cuda", "power", "fake tensors", "oneDNN", "peak memory", "counters", "runs folder"} == {
        check.name for check in checks
    }
    for check in checks:
        assert check.state in (OK, ABSENT, BROKEN)
        assert check.finding
        assert check.state == OK or check.remedy, check  # what is missing has a way out


def test_a_check_that_fails_does_not_stop_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> Check:
        raise RuntimeError("no torch today")

    monkeypatch.setattr(doctor, "_torch", fails)
    checks = found(tmp_path)
    assert (checks["torch"].state, checks["torch"].finding) == (BROKEN, "RuntimeError: no torch today")
    assert checks["python"].state == OK
    assert checks["runs folder"].state == OK


def test_a_runs_folder_that_is_not_there_yet_is_tried_at_its_parent(tmp_path: Path) -> None:
    check = found(tmp_path / "a" / "b")["runs folder"]
    assert check.state == OK
    assert list(tmp_path.iterdir()) == []


def test_a_runs_folder_that_is_a_file_is_broken(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("")
    check = found(tmp_path / "runs")["runs folder"]
    assert check.state == BROKEN
    assert check.remedy == "Choose one with --runs."


def test_missing_things_are_absent_and_not_broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("torch.backends.mkldnn.is_available", lambda: False)
    checks = found(tmp_path)
    assert checks["counters"].state == ABSENT
    assert checks["oneDNN"].state == ABSENT


def test_tools_on_the_path_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for tool in ("ncu", "nsys"):
        (tmp_path / tool).write_text("#!/bin/sh\n")
        (tmp_path / tool).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert found(tmp_path)["counters"] == Check("counters", OK, "on the PATH: ncu, nsys")
