"""Files are written whole, and never in place of what is no file of one's own to replace."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from wcbench.errors import RecordError
from wcbench.files import free_file, write_whole


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A record, a study, a file and links."""
    for name in ("run/manifest.json", "run/steps.parquet", "run/report.html", "run/export/steps.parquet",
                 "s/study.json", "s/space.json", "s/tables/values.csv", "s/parts/a/base.values.parquet",
                 "s/report.html", "plain.txt"):  # fmt: skip
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link.txt").symlink_to(tmp_path / "plain.txt")
    (tmp_path / "to-manifest").symlink_to(tmp_path / "run" / "manifest.json")
    return tmp_path


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("run/manifest.json", "part of the record"),
        ("run/steps.parquet", "part of the record"),
        ("run/kernels.parquet", "part of the record"),  # not there, and would be taken for a table
        ("to-manifest", "part of the record"),
        ("s/study.json", "part of the study"),
        ("s/space.json", "part of the study"),
        ("s/tables/values.csv", "part of the study"),
        ("s/parts/a/base.values.parquet", "part of the study"),
        ("run", "is a folder"),
        ("pipe", "is no regular file"),
    ],
)
@pytest.mark.parametrize("force", [False, True])
def test_what_no_file_may_replace(folder: Path, name: str, why: str, force: bool) -> None:
    with pytest.raises(RecordError, match=why):
        free_file(folder / name, force=force)


@pytest.mark.parametrize("name", ["run/report.html", "run/export/steps.parquet", "s/report.html", "plain.txt"])
def test_what_is_there_is_replaced_only_by_force(folder: Path, name: str) -> None:
    with pytest.raises(RecordError, match="exists and is left as it is"):
        free_file(folder / name)
    assert free_file(folder / name, force=True) == folder / name
    assert free_file(folder / "new.html") == folder / "new.html"


def test_a_pipe_or_device_stays_what_it_is(folder: Path) -> None:
    with pytest.raises(RecordError, match="is no regular file"):
        write_whole(folder / "pipe", lambda file: file.write_text("x"))
    assert (folder / "pipe").is_fifo()
    assert not [file for file in folder.iterdir() if file.name.endswith(".partial")]


def test_a_link_stays_and_its_file_is_written(folder: Path) -> None:
    write_whole(folder / "link.txt", lambda file: file.write_text("new"))
    assert (folder / "link.txt").is_symlink()
    assert (folder / "plain.txt").read_text() == "new"
