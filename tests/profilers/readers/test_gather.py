"""Several files to one record: ranks, pointers, files that fail, archives, processes, and what is left behind."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import signal
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.profilers.readers.traces import call, kernel, op, trace
from wcbench import api
from wcbench.errors import ReadError, RecordError
from wcbench.profilers.readers import gather
from wcbench.record import Profile, load


def events(which: int) -> list[dict[str, Any]]:
    """Operators with children, calls and kernels, as many as no other file has, named by the file."""
    made = []
    for i in range(which + 2):
        made += [
            op(f"outer{which}.{i}", 100 * i, 90),
            op(f"inner{which}.{i}", 100 * i + 10, 20),
            call(100 * i + 12, i, name=f"launch{which}.{i}"),
            kernel(100 * i + 50, i, name=f"kernel{which}.{i}"),
        ]
    return made


def write(file: Path, which: int = 0, rank: Any = None, **top: Any) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    info = {} if rank is None else {"distributedInfo": {"rank": rank, "world_size": 4}}
    file.write_text(trace(*events(which), **info, **top))
    return file


def ranks(profile: Profile) -> dict[str, int]:
    """The rank of each file's kernels, by the number in their names."""
    found = profile.table("kernels")
    pairs = {
        (str(name).split(".")[0].removeprefix("kernel"), int(rank))
        for name, rank in zip(found["name"], found["rank"], strict=True)
    }
    assert len(dict(pairs)) == len(pairs)
    return dict(pairs)


def notes(profile: Profile) -> str:
    return "\n".join(note.text for note in profile.notes)


def losses(profile: Profile) -> str:
    return "\n".join(f"{loss.file}: {loss.what}: {loss.why}" for loss in profile.manifest.losses)


# --- ranks ----------------------------------------------------------------------------------------------------------


def test_case_20_ranks_that_files_tell(tmp_path: Path) -> None:
    files = [write(tmp_path / f"{name}.json", i, rank) for i, (name, rank) in enumerate([("a", 2), ("b", 0), ("c", 1)])]
    profile = api.read(files, jobs=1)
    assert ranks(profile) == {"0": 2, "1": 0, "2": 1}
    assert "rank" not in notes(profile)
    assert [file["rank"] for file in profile.manifest.source["files"]] == [2, 0, 1]
    assert profile.manifest.machine["world_size"] == 4
    for table in ("ops", "runtime", "kernels", "steps"):
        assert set(profile.table(table)["rank"]) == {0, 1, 2}


def test_a_single_file_has_the_rank_that_it_tells(tmp_path: Path) -> None:
    profile = api.read(write(tmp_path / "a.json", 0, 3))
    for table in ("ops", "runtime", "kernels", "steps"):
        assert set(profile.table(table)["rank"]) == {3}


@pytest.mark.parametrize(
    ("paths", "expected", "how"),
    [
        (["trace_rank3.json", "trace_rank1.json"], {"0": 3, "1": 1}, "taken from the names"),
        (["rank_5/trace.json", "rank_4/trace.json"], {"0": 5, "1": 4}, "taken from the names"),
        (["host.worker-7.pt.trace.json", "host.worker-9.pt.trace.json"], {"0": 7, "1": 9}, "taken from the names"),
        (["a.json", "b.json"], {"0": 0, "1": 1}, "numbered in the order"),
        (["rank2.json", "rank2_again.json"], {"0": 0, "1": 1}, "numbered in the order"),
        (["rank2.json", "other.json"], {"0": 0, "1": 1}, "numbered in the order"),
    ],
)
def test_case_20_ranks_that_no_file_tells_are_guessed_and_noted(
    tmp_path: Path, paths: list[str], expected: dict[str, int], how: str
) -> None:
    profile = api.read([write(tmp_path / path, i) for i, path in enumerate(paths)], jobs=1)
    assert ranks(profile) == expected
    assert how in notes(profile)


def test_case_81_two_files_of_the_same_rank_are_two_ranks_and_noted(tmp_path: Path) -> None:
    profile = api.read([write(tmp_path / f"{i}.json", i, 0) for i in range(2)], jobs=1)
    assert ranks(profile) == {"0": 0, "1": 1}
    assert "do not all say ranks of their own" in notes(profile)


def test_case_20_one_file_without_a_rank_is_rank_0_with_a_notice(tmp_path: Path) -> None:
    profile = api.read(write(tmp_path / "a.json"))
    assert ranks(profile) == {"0": 0}
    assert "does not say its rank" in notes(profile)


def test_a_file_that_is_named_twice_is_read_once(tmp_path: Path) -> None:
    file = write(tmp_path / "in" / "a.json")
    profile = api.read([file, tmp_path / "in", file], jobs=1)
    assert len(profile.table("kernels")) == 2
    assert "named more than once" in losses(profile)


# --- pointers -------------------------------------------------------------------------------------------------------


def test_pointers_are_right_after_joining(tmp_path: Path) -> None:
    profile = api.read([write(tmp_path / f"{i}.json", i, i) for i in range(3)], jobs=1)
    ops, runtime, kernels = (profile.table(name) for name in ("ops", "runtime", "kernels"))
    assert (len(ops), len(runtime), len(kernels)) == (18, 9, 9)
    for row in ops.itertuples():
        name = str(row.name)
        if name.startswith("inner"):
            assert str(ops["name"].iloc[row.parent]) == name.replace("inner", "outer")
        else:
            assert row.parent is pd.NA
    for row in runtime.itertuples():
        assert str(ops["name"].iloc[row.op]) == str(row.name).replace("launch", "inner")
    for row in kernels.itertuples():
        assert str(runtime["name"].iloc[row.launch]) == str(row.name).replace("kernel", "launch")
        assert str(row.op) == str(row.name).replace("kernel", "inner")


def test_pointers_skip_files_that_have_no_such_table(tmp_path: Path) -> None:
    bare = tmp_path / "b.json"
    bare.write_text(trace(kernel(5, 1, name="kernel9.0"), distributedInfo={"rank": 1}))
    profile = api.read([write(tmp_path / "a.json", 0, 0), bare, write(tmp_path / "c.json", 2, 2)], jobs=1)
    kernels, runtime = profile.table("kernels"), profile.table("runtime")
    linked = kernels[kernels["launch"].notna()]
    assert len(linked) == 6
    for row in linked.itertuples():
        assert str(runtime["name"].iloc[row.launch]) == str(row.name).replace("kernel", "launch")


# --- files that fail ------------------------------------------------------------------------------------------------

BAD = {
    "empty": b"", "text": b"hello", "metadata only": trace({"ph": "M", "name": "x"}).encode(),
    "zstd": b"\x28\xb5\x2f\xfd" + b"x" * 99,
    "an empty archive": None, "cut at its beginning": b'{"schemaVersion": 1, "ph": 1, "deviceProperties": [',
}  # fmt: skip


@pytest.mark.parametrize(("what", "jobs"), [*((what, 1) for what in BAD), ("text", 2)])
def test_one_bad_file_among_several_costs_no_other(tmp_path: Path, what: str, jobs: int) -> None:
    folder = tmp_path / "in"
    write(folder / "a.json", 0, 0)
    write(folder / "c.json", 1, 1)
    bad = folder / "b.json"
    if what == "an empty archive":
        with tarfile.open(bad, "w"):
            pass
    else:
        bad.write_bytes(BAD[what] or b"")
    profile = api.read(folder, jobs=jobs)
    assert ranks(profile) == {"0": 0, "1": 1}
    told = [loss for loss in profile.manifest.losses if loss.file == str(bad)]
    assert [loss.what for loss in told] == ["the file"]
    assert str(bad) in told[0].why
    if what != "an empty archive":
        assert [bool(file["refused"]) for file in profile.manifest.source["files"]] == [False, True, False]
    with pytest.raises(ReadError) as refused:
        api.read(bad)
    assert str(bad) in refused.value.message
    assert refused.value.hint


def test_where_nothing_can_be_read_the_first_reason_is_told(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text("nothing")
    with pytest.raises(ReadError, match=r"None of 2 files could be read.*a is of no format"):
        api.read(tmp_path, jobs=1)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_may_not_be_read_costs_no_other(tmp_path: Path) -> None:
    write(tmp_path / "in" / "a.json").chmod(0)
    write(tmp_path / "in" / "b.json", 1)
    assert ranks(api.read(tmp_path / "in", jobs=1)) == {"1": 0}


read_part = gather.read_part


def _kill_or_read(source: Any, folder: Path, form: str | None) -> Any:
    if "bad" in source.label:
        os.kill(os.getpid(), signal.SIGKILL)
    return read_part(source, folder, form)


def test_a_killed_process_costs_its_own_file_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [write(tmp_path / name, i, i) for i, name in enumerate(["a.json", "bad.json", "c.json"])]
    workspace = tmp_path / "work"
    workspace.mkdir()
    monkeypatch.setattr(gather, "read_part", _kill_or_read)
    monkeypatch.setattr(
        "multiprocessing.get_context", lambda _kind: __import__("multiprocessing").context.ForkContext()
    )
    made = gather.gather(files, workspace, jobs=2)
    assert [bool(file["refused"]) for file in made.files] == [False, True, False]
    assert "was killed" in made.files[1]["refused"]
    assert made.rows["kernels"] == 2 + 4


# --- archives and folders -------------------------------------------------------------------------------------------


def packed(kind: str, content: bytes) -> bytes:
    if kind == "gz":
        return gzip.compress(content)
    if kind == "two gz":
        return gzip.compress(content[:100]) + gzip.compress(content[100:])
    if kind == "bz2":
        return bz2.compress(content)
    if kind == "two bz2":
        return bz2.compress(content[:100]) + bz2.compress(content[100:])
    return lzma.compress(content) if kind == "xz" else content


@pytest.mark.parametrize("kind", ["plain", "gz", "two gz", "bz2", "two bz2", "xz"])
def test_compressed_files_give_the_same(tmp_path: Path, kind: str) -> None:
    content = trace(*events(1), distributedInfo={"rank": 0}).encode()
    (tmp_path / "t").write_bytes(packed(kind, content))
    profile = api.read(tmp_path / "t")
    assert len(profile.table("kernels")) == 3
    assert profile.manifest.losses == ()


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz", "zip"])
def test_archives_are_read_whatever_their_members_are_called(tmp_path: Path, mode: str) -> None:
    names = ["../../etc/x_rank1", "/abs/y_rank0", "rank2.json"]
    archive = tmp_path / "in" / "t.bin"
    archive.parent.mkdir()
    contents = [trace(*events(i)).encode() for i in range(3)]
    if mode == "zip":
        with zipfile.ZipFile(archive, "w") as zipped:
            for name, content in zip(names, contents, strict=True):
                zipped.writestr(name, content)
    else:
        with tarfile.open(archive, mode) as tar:  # type: ignore[call-overload]
            for name, content in zip(names, contents, strict=True):
                info = tarfile.TarInfo(name)
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
            for kind, name in (
                (tarfile.SYMTYPE, "link"),
                (tarfile.LNKTYPE, "hard"),
                (tarfile.CHRTYPE, "null"),
                (tarfile.FIFOTYPE, "pipe"),
            ):
                info = tarfile.TarInfo(name)
                info.type, info.linkname = kind, "/etc/passwd"
                tar.addfile(info)
    before = sorted(tmp_path.rglob("*"))
    profile = api.read(archive, jobs=1)
    assert ranks(profile) == {"0": 1, "1": 0, "2": 2}
    assert sorted(tmp_path.rglob("*")) == before
    assert not Path("/etc/x_rank1").exists()
    if mode != "zip":
        assert [(loss.what, loss.count) for loss in profile.manifest.losses] == [("a member of the archive", 4)]


def test_of_a_cut_archive_what_is_there_is_kept(tmp_path: Path) -> None:
    archive = tmp_path / "t.tar"
    contents = [trace(*events(which), distributedInfo={"rank": i}).encode() for i, which in enumerate((0, 200))]
    with tarfile.open(archive, "w") as tar:
        for i, content in enumerate(contents):
            info = tarfile.TarInfo(f"{i}.json")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    whole = archive.read_bytes()
    archive.write_bytes(whole[: whole.index(contents[1]) + len(contents[1]) - 300])
    profile = api.read(archive, jobs=1)
    assert 2 + 150 < len(profile.table("kernels")) < 2 + 202
    assert "rest of the archive" in losses(profile)


def test_hidden_files_and_folders_are_left_alone(tmp_path: Path) -> None:
    write(tmp_path / "in" / "a.json", 0, 0)
    write(tmp_path / "in" / ".ipynb_checkpoints" / "a-checkpoint.json", 1, 1)
    write(tmp_path / "in" / ".b.json", 2, 2)
    assert ranks(api.read(tmp_path / "in", jobs=1)) == {"0": 0}


# --- processes, places ----------------------------------------------------------------------------------------------


def test_two_processes_give_what_one_gives(tmp_path: Path) -> None:
    files = [write(tmp_path / f"{i}.json", i, i) for i in range(3)]
    files.append(tmp_path / "bad.json")
    files[-1].write_text("no trace")
    one, two = api.read(files, jobs=1), api.read(files, jobs=2)
    assert one.tables == two.tables
    for name in one.tables:
        pd.testing.assert_frame_equal(one.table(name), two.table(name))
    for part in ("notes", "losses", "source", "passes"):
        assert getattr(one.manifest, part) == getattr(two.manifest, part)


def test_progress_ends_with_all_bytes(tmp_path: Path) -> None:
    files = [write(tmp_path / f"{i}.json", i, i) for i in range(2)]
    told: list[tuple[int, int]] = []
    api.read(files, jobs=1, progress=lambda done, total: told.append((done, total)))
    total = sum(file.stat().st_size for file in files)
    assert told[-1] == (total, total)
    assert [done for done, _ in told] == sorted(done for done, _ in told)


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place for temporary files of its own, to see what is left in it."""
    place = tmp_path / "tmp"
    place.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(place))
    return place


def test_a_record_in_hand_keeps_its_tables_until_it_is_dropped(tmp_path: Path, temporary: Path) -> None:
    profile = api.read([write(tmp_path / f"{i}.json", i, i) for i in range(2)], jobs=1)
    assert len(list(temporary.iterdir())) == 1
    assert len(profile.arrow("kernels")) == 5
    del profile
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("fault", ["refused", KeyboardInterrupt, OSError(28, "No space left on device")])
def test_nothing_is_left_behind_after_a_failure(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch, fault: Any
) -> None:
    file = write(tmp_path / "a.json")
    if fault == "refused":
        file.write_text("no trace")
    else:

        def fails(*_args: Any) -> None:
            raise fault

        monkeypatch.setattr("wcbench.profilers.readers.linking.Linking.write", fails)
    with pytest.raises(KeyboardInterrupt if fault is KeyboardInterrupt else ReadError) as raised:
        api.read(file, out=tmp_path / "out")
    if isinstance(fault, OSError):
        assert "No space left" in raised.value.message
        assert "defect" not in (raised.value.hint or "")
    assert list(temporary.iterdir()) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.json", "tmp"]


def test_a_saved_record_is_the_one_in_hand(tmp_path: Path, temporary: Path) -> None:
    file = write(tmp_path / "a.json", 3)
    hand = api.read(file)
    kept = hand.save(tmp_path / "kept")
    direct = api.read(file, out=tmp_path / "direct", command=["wcbench.read(...)"])
    with pytest.raises(RecordError, match="exists"):
        api.read(file, out=tmp_path / "direct")
    api.read(file, out=tmp_path / "direct", force=True)
    del hand
    for folder in ("kept", "direct"):
        again = load(tmp_path / folder)
        assert again.tables == kept.tables == direct.tables
        for name in again.tables:
            pd.testing.assert_frame_equal(again.table(name), kept.table(name))
        assert again.manifest.losses == kept.manifest.losses
        assert again.manifest.source == kept.manifest.source
        assert json.loads((tmp_path / folder / "manifest.json").read_text())["source"]["files"][0]["format"] == "kineto"
    assert list(temporary.iterdir()) == []
    assert not [path.name for path in tmp_path.iterdir() if path.name.startswith(".")]
