"""The record: what was saved comes back exactly, and whatever goes wrong leaves the old state and says so."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from wcbench import record
from wcbench.errors import RecordError, UnknownNameError, UsageError, WcbenchError
from wcbench.lookup import find_run, list_runs, run_folder, runs_root
from wcbench.record import Manifest, Note, PassInfo, Profile, new_profile
from wcbench.schema import TABLES, TableSchema, to_arrow

EXACT = 1796052111433335499  # its nearest float64 is another number

TENSOR = {"storage": 3, "offset": EXACT, "shape": [2, 0], "stride": [0, 1], "dtype": "float32"}
ACCESS = {"write": False, "kind": "contiguous", "nbytes": EXACT}

# What a column of each type holds below: (required, optional).
VALUES: dict[str, tuple[list[Any], list[Any]]] = {
    "int": ([0, EXACT, -1], [EXACT, None, 7]),
    "float": ([0.5, 1e-300, 2.0], [0.5, None, 1e-300]),
    "bool": ([True, False, True], [True, None, False]),
    "text": (["a", "b", "a"], ["ü", None, ""]),
    "ints": ([[1, 2], [], [EXACT]], [[EXACT], None, []]),
    "tensors": ([[{**TENSOR, "version": EXACT}], [], [{**TENSOR, "version": 0}] * 2], []),
    "accesses": ([[{**TENSOR, **ACCESS}], [], [{**TENSOR, **ACCESS, "write": True}] * 2], []),
}

INFO = PassInfo(
    preset="tiny",
    settings={"batch_size": 4, "lr": 0.1},
    batch_size=4,
    samples=4,
    precision="fp32",
    device="cpu",
    tensors="real",
    seed=0,
    steps=2,
    warmup=1,
    seconds=0.25,
    torch={"threads": 2},
)


def values(table: TableSchema) -> dict[str, list[Any]]:
    return {column.name: VALUES[column.type][not column.required] for column in table.columns}


def steps(*durations: int) -> pa.Table:
    rows = len(durations)
    columns = {"rank": [0] * rows, "index": list(range(rows)), "role": ["measured"] * rows, "kind": ["train"] * rows}
    return to_arrow("steps", {**columns, "duration_ns": list(durations), "samples": [4] * rows}, "timing")


def profile(task: str = "toy", tables: Mapping[str, pa.Table] | None = None, **changes: Any) -> Profile:
    options: dict[str, Any] = {
        "task": task,
        "variant": None,
        "suites": ("suite-1",),
        "machine": {"cpu": {"model": "abacus"}},
        "command": ("wcbench", "profile", task),
        "passes": {"timing": INFO},
        "tables": {"steps": steps(5, 7)} if tables is None else tables,
        "notes": [Note("power", "there is no NVML")],
    }
    return new_profile(**{**options, **changes})


def files(folder: Path) -> dict[str, bytes]:
    """Everything under a folder, hidden files too."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def edit(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    file = folder / "manifest.json"
    data = json.loads(file.read_text(encoding="utf-8"))
    change(data)
    file.write_text(json.dumps(data), encoding="utf-8")


# round trip


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Profile:
    """A record with three rows in every table, nulls wherever they may be."""
    tables = {name: to_arrow(name, values(table)) for name, table in TABLES.items()}
    return profile(tables=tables).save(tmp_path_factory.mktemp("runs") / "full")


@pytest.mark.parametrize("name", TABLES)
def test_every_table_comes_back_exactly(full: Profile, name: str) -> None:
    table = full.arrow(name)
    assert table.schema.equals(TABLES[name].arrow(), check_metadata=True)
    assert table.to_pydict() == values(TABLES[name])


@pytest.mark.parametrize("name", TABLES)
def test_plain_pyarrow_reads_values_units_and_version(full: Profile, name: str) -> None:
    assert full.path is not None
    table = pq.read_table(full.path / f"{name}.parquet")
    assert table.to_pydict() == values(TABLES[name])
    assert table.schema.metadata[b"wcbench.schema_version"] == b"4"
    assert table.schema.metadata[b"wcbench.table"] == name.encode()
    for column in TABLES[name].columns:
        metadata = table.schema.field(column.name).metadata
        assert metadata[b"unit"] == column.unit.encode()
        assert metadata[b"meaning"] == column.meaning.encode()


def test_whole_numbers_stay_whole_in_data_frames(full: Profile) -> None:
    kernels = full.table("kernels")
    assert kernels["duration_ns"].tolist() == [0, EXACT, -1]
    assert kernels["launch"].dtype == pd.Int64Dtype()
    assert kernels["launch"][0] == EXACT
    assert pd.isna(kernels["launch"][1])
    assert kernels["op"].isna().tolist() == [False, True, False]
    assert full.table("parameters")["trainable"].tolist() == [True, False, True]


def test_plain_json_reads_the_manifest(full: Profile) -> None:
    assert full.path is not None
    data = json.loads((full.path / "manifest.json").read_text(encoding="utf-8"))
    assert data["schema_version"] == 4
    assert data["tables"] == dict.fromkeys(TABLES, 3)
    assert data["notes"] == [{"about": "power", "text": "there is no NVML"}]
    assert data["passes"]["timing"]["torch"] == {"threads": 2}
    assert data["variant"] is None


def test_the_manifest_comes_back(tmp_path: Path) -> None:
    made = profile()
    loaded = made.save(tmp_path / "run")
    assert loaded.path == tmp_path / "run"
    assert loaded.manifest.passes == made.manifest.passes
    assert loaded.manifest.to_dict() == made.manifest.to_dict()
    assert loaded.notes == (Note("power", "there is no NVML"),)
    assert loaded.name == "toy"


def test_a_table_that_was_not_recorded_has_no_rows(tmp_path: Path) -> None:
    loaded = profile(tables={"steps": steps(1), "power": to_arrow("power", {})}).save(tmp_path / "run")
    assert loaded.tables == ["steps"]
    assert loaded.table("kernels").empty
    assert list(loaded.table("kernels").columns) == TABLES["kernels"].column_names()
    with pytest.raises(UnknownNameError, match="Did you mean 'kernels'"):
        loaded.table("kernel")


def test_a_note_said_twice_is_kept_once() -> None:
    assert len(profile(notes=[Note("a", "b"), Note("a", "c"), Note("a", "b")]).notes) == 2


def test_settings_that_json_has_no_word_for_become_text(tmp_path: Path) -> None:
    info = dataclasses.replace(INFO, settings={"lr": float("nan"), "clip": float("inf"), "at": Path("x"), "n": (1, 2)})
    loaded = profile(passes={"timing": info}).save(tmp_path / "run")
    assert loaded.manifest.passes["timing"].settings == {"lr": "nan", "clip": "inf", "at": "x", "n": [1, 2]}
    assert "NaN" not in (tmp_path / "run" / "manifest.json").read_text(encoding="utf-8")


# views


def test_an_unknown_view_suggests() -> None:
    with pytest.raises(UnknownNameError, match="Unknown view 'hotspot'") as caught:
        profile().view("hotspot")
    assert caught.value.suggestions == ["hotspots"]


def test_every_view_stands_an_empty_profile() -> None:
    empty = profile(passes={}, tables={}, notes=[])
    for name in record.VIEWS.names():
        empty.view(name)
    assert "toy" in repr(empty)
    assert "toy" in empty._repr_html_()


# nothing is overwritten, nothing half is left


def test_an_existing_folder_is_refused(tmp_path: Path) -> None:
    profile().save(tmp_path / "run")
    before = files(tmp_path)
    with pytest.raises(RecordError, match=r"run exists and is left as it is.*\n.*--force"):
        profile().save(tmp_path / "run")
    assert files(tmp_path) == before


def test_force_replaces_a_record_whole(tmp_path: Path) -> None:
    profile(tables={"power": to_arrow("power", values(TABLES["power"]))}).save(tmp_path / "run")
    profile().save(tmp_path / "run", force=True)
    assert sorted(files(tmp_path)) == ["run/manifest.json", "run/steps.parquet"]


def test_force_fills_an_empty_folder(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    profile().save(tmp_path / "run", force=True)
    assert sorted(files(tmp_path)) == ["run/manifest.json", "run/steps.parquet"]


@pytest.mark.parametrize(
    "foreign",
    [
        {"thesis.tex": "ten years of work"},
        {"manifest.json": '{"name": "my web app", "icons": []}', "app.js": "x"},
        {"manifest.json": "[1, 2]"},
        {"manifest.json": "no json"},
        {"sub/manifest.json": "{}"},
    ],
)
def test_force_never_replaces_a_foreign_folder(tmp_path: Path, foreign: dict[str, str]) -> None:
    for name, text in foreign.items():
        (tmp_path / "mine" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "mine" / name).write_text(text, encoding="utf-8")
    before = files(tmp_path)
    with pytest.raises(RecordError, match="is not a record of wcbench, so --force does not replace it"):
        profile().save(tmp_path / "mine", force=True)
    assert files(tmp_path) == before


def test_force_never_replaces_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    with pytest.raises(RecordError, match="is not a record"):
        profile().save(tmp_path / "file", force=True)
    assert files(tmp_path) == {"file": b"x"}


def test_a_record_can_be_saved_over_itself(tmp_path: Path) -> None:
    loaded = profile().save(tmp_path / "run")
    again = record.load(tmp_path / "run").save(tmp_path / "run", force=True)
    assert again.manifest == loaded.manifest
    assert again.table("steps")["duration_ns"].tolist() == [5, 7]


def test_a_record_that_appears_while_one_is_written_is_not_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = Profile._write_files

    def slow(self: Profile, folder: Path) -> None:
        write(self, folder)
        (tmp_path / "run").mkdir()
        (tmp_path / "run" / "manifest.json").write_text("theirs", encoding="utf-8")

    monkeypatch.setattr(Profile, "_write_files", slow)
    with pytest.raises(RecordError, match="could not be written"):
        profile().save(tmp_path / "run")
    assert files(tmp_path) == {"run/manifest.json": b"theirs"}


class UnforeseenError(Exception):
    pass


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OSError(28, "No space left on device"), RecordError),
        (KeyboardInterrupt(), KeyboardInterrupt),
        (UnforeseenError(), UnforeseenError),
    ],
)
def test_a_failure_while_writing_leaves_only_the_old_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, force: bool, error: BaseException, told: type[BaseException]
) -> None:
    if force:
        profile().save(tmp_path / "run")
    before = files(tmp_path)

    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(Path, "write_text", fail)  # the manifest comes last: the tables are written by then
    with pytest.raises(told) as caught:
        profile().save(tmp_path / "run", force=force)
    monkeypatch.undo()
    assert files(tmp_path) == before
    assert sorted(p.name for p in tmp_path.iterdir()) == (["run"] if force else [])
    if told is RecordError:
        assert "run could not be written: No space left on device." in str(caught.value)
        assert "--runs or -o" in str(caught.value)


@pytest.mark.parametrize("error", [OSError(5, "Input/output error"), KeyboardInterrupt()])
def test_the_old_record_survives_a_failure_in_the_moment_of_replacing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    profile().save(tmp_path / "run")
    before = files(tmp_path)
    rename = Path.rename

    def fail(self: Path, target: Path) -> Path:
        if self.name.endswith(".partial"):
            raise error
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fail)
    with pytest.raises((RecordError, KeyboardInterrupt)):
        profile().save(tmp_path / "run", force=True)
    assert files(tmp_path) == before


def test_the_parent_being_a_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    with pytest.raises(RecordError, match="cannot be written: Not a directory"):
        profile().save(tmp_path / "file" / "run")


CHILD = """
import sys, time
from pathlib import Path
import pyarrow.parquet as pq
from wcbench import record
from wcbench.errors import WcbenchError
from wcbench.schema import to_arrow

n = 5000
columns = {"rank": [0] * n, "index": list(range(n)), "role": ["measured"] * n, "kind": ["train"] * n}
columns["samples"] = [1] * n
steps = to_arrow("steps", {**columns, "duration_ns": [i * i * 7919 % 1000003 for i in range(n)]}, "timing")
made = record.new_profile(
    task="toy", variant=None, suites=(), machine={}, command=(), passes={}, tables={"steps": steps}, notes=()
)
folder = Path(sys.argv[1])
"""

FULL_DISK = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
try:
    made.save(folder, force=True)
except WcbenchError as error:
    print(error)
"""

SLEEPING = """
write = pq.write_table
def slow(*args, **options):
    write(*args, **options)
    Path(sys.argv[2]).touch()
    time.sleep(60)
pq.write_table = slow
made.save(folder)
"""


def test_a_full_disk_leaves_the_old_record_and_a_clear_message(tmp_path: Path) -> None:
    """A limit on file size stands in for the disk: the kernel refuses the write in the middle of a table."""
    profile().save(tmp_path / "runs" / "run")
    before = files(tmp_path)
    command = [sys.executable, "-c", CHILD + FULL_DISK, str(tmp_path / "runs" / "run")]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "run could not be written: " in done.stdout
    assert "File too large" in done.stdout
    assert "Free some space" in done.stdout
    assert files(tmp_path) == before


def test_a_killed_run_leaves_no_record_that_is_found(tmp_path: Path) -> None:
    root, marker = tmp_path / "runs", tmp_path / "marker"
    folder = root / "toy" / "20260101T000000.000Z-aaaaaaaa"
    child = subprocess.Popen([sys.executable, "-c", CHILD + SLEEPING, str(folder), str(marker)])
    try:
        deadline = time.monotonic() + 60
        while not marker.exists() and child.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
    finally:
        child.kill()
    assert child.wait() == -signal.SIGKILL
    assert any(name.endswith("steps.parquet") for name in files(root))  # it was in the middle of it
    assert list(list_runs(root)) == []
    for run in ("toy", "toy:latest", str(folder)):
        with pytest.raises(UsageError, match="No record"):
            find_run(run, root)
    profile().save(folder)
    assert find_run("toy", root) == folder


# where records lie


def test_the_default_place() -> None:
    manifest = dataclasses.replace(
        profile().manifest, created="2026-07-31T23:59:58.007+00:00", id="0badcafe", variant="lstm"
    )
    assert run_folder(Path("r"), manifest) == Path("r/toy@lstm/20260731T235958.007Z-0badcafe")
    own = dataclasses.replace(manifest, task="my.mod:Task", variant=None)
    assert run_folder(Path("r"), own) == Path("r/my.mod.Task/20260731T235958.007Z-0badcafe")


def test_runs_of_one_millisecond_do_not_collide() -> None:
    manifests = [dataclasses.replace(profile().manifest, created="2026-07-31T00:00:00.000+00:00") for _ in range(50)]
    assert len({run_folder(Path("r"), manifest) for manifest in manifests}) == 50


def test_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WCBENCH_RUNS", raising=False)
    assert runs_root() == Path("runs")
    monkeypatch.setenv("WCBENCH_RUNS", "/elsewhere")
    assert runs_root() == Path("/elsewhere")
    assert runs_root("here") == Path("here")
    monkeypatch.setenv("WCBENCH_RUNS", "")
    assert runs_root() == Path("runs")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Three records of `toy`, one of its variant, one of a task of one's own; names in time order."""
    names = ("toy/20260101T000000.000Z-bbbb1111", "toy/20260102T000000.000Z-aaaa2222")
    for name in (*names, "toy/20260103T000000.000Z-aaaa3333", "toy@v/20260101T000000.000Z-cccc0000"):
        profile().save(tmp_path / name)
    profile("my.mod:Task").save(tmp_path / "my.mod.Task" / "20260101T000000.000Z-dddd0000")
    (tmp_path / "toy" / "unrelated").mkdir()
    (tmp_path / "toy" / ".hidden.partial").mkdir()
    (tmp_path / "toy" / ".hidden.partial" / "manifest.json").write_text("{}", encoding="utf-8")
    (tmp_path / "stray-file").write_text("", encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("run", "name"),
    [
        ("toy", "toy/20260103T000000.000Z-aaaa3333"),
        ("toy:latest", "toy/20260103T000000.000Z-aaaa3333"),
        ("toy:", "toy/20260103T000000.000Z-aaaa3333"),
        ("toy:bbbb1111", "toy/20260101T000000.000Z-bbbb1111"),
        ("toy:b", "toy/20260101T000000.000Z-bbbb1111"),
        ("toy:aaaa2", "toy/20260102T000000.000Z-aaaa2222"),
        ("toy:20260102", "toy/20260102T000000.000Z-aaaa2222"),
        ("toy:20260102T000000.000Z-aaaa2222", "toy/20260102T000000.000Z-aaaa2222"),
        ("toy@v", "toy@v/20260101T000000.000Z-cccc0000"),
        ("my.mod:Task", "my.mod.Task/20260101T000000.000Z-dddd0000"),
        ("my.mod:Task:latest", "my.mod.Task/20260101T000000.000Z-dddd0000"),
        ("my.mod:Task:dd", "my.mod.Task/20260101T000000.000Z-dddd0000"),
    ],
)
def test_find_run_by_name(root: Path, run: str, name: str) -> None:
    assert find_run(run, root) == root / name


def test_find_run_by_path(root: Path) -> None:
    folder = root / "toy" / "20260101T000000.000Z-bbbb1111"
    for run in (folder, str(folder), f"{folder}/", folder / "manifest.json"):
        assert find_run(run, root / "no such root") == folder


@pytest.mark.parametrize(
    ("run", "message"),
    [
        ("tyo", r"No record 'tyo' under .*\nThere are records of: my\.mod\.Task, toy, toy@v\."),
        ("toy:zzz", r"No record 'toy:zzz' under .*\nThere are: 20260101.*-bbbb1111, .*-aaaa2222, .*-aaaa3333\."),
        ("a" * 5000, "No record 'aaa"),
        ("a\0b", "No record 'a"),
    ],
)
def test_a_run_that_is_not_there(root: Path, run: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        find_run(run, root)
    assert caught.value.exit_code == 2


def test_a_folder_without_a_manifest_and_an_empty_root(root: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"unrelated holds no manifest\.json, so it is no record\."):
        find_run(root / "toy" / "unrelated", root)
    (tmp_path / "trace.json.gz").write_text("")
    with pytest.raises(
        UsageError, match=r"is a file and no record\.\nRead it first: `wcbench import .*trace\.json\.gz`"
    ):
        find_run(tmp_path / "trace.json.gz", root)
    with pytest.raises(UsageError, match=r"There are no records yet\. `wcbench profile TASK`"):
        find_run("toy", tmp_path / "nowhere")


def test_list_runs_is_oldest_first_and_leaves_out_what_is_no_record(root: Path) -> None:
    assert [str(p.relative_to(root)) for p in list_runs(root)] == [
        "my.mod.Task/20260101T000000.000Z-dddd0000",
        "toy/20260101T000000.000Z-bbbb1111",
        "toy/20260102T000000.000Z-aaaa2222",
        "toy/20260103T000000.000Z-aaaa3333",
        "toy@v/20260101T000000.000Z-cccc0000",
    ]


# older, newer and damaged records


OLD_MANIFEST: dict[str, Any] = {
    "task": "toy",
    "variant": None,
    "suites": ["suite-1"],
    "machine": {},
    "command": ["wcbench"],
    "created": "2026-01-01T00:00:00.000+00:00",
    "id": "00000001",
    "wcbench": "0.0.9",
    "passes": {
        "timing": {
            "preset": "tiny",
            "settings": {},
            "batch_size": 4,
            "samples": 4,
            "precision": "fp32",
            "device": "cpu",
            "tensors": "real",
            "seed": 3,
            "steps": 2,
            "warmup": 1,
            "seconds": 1.5,
        }
    },
    "tables": {"steps": 3},
    "notes": ["there is no NVML", "the machine was busy"],
    "source": None,
    "schema_version": 1,
}


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A record of version 1 as that version wrote it: notes as texts, warm-up told by a flag."""
    folder = tmp_path / "old"
    folder.mkdir()
    (folder / "manifest.json").write_text(json.dumps(OLD_MANIFEST), encoding="utf-8")
    table = pa.table(
        {
            "pass": ["timing"] * 3,
            "index": [0, 1, 2],
            "warmup": [True, False, False],
            "kind": ["train"] * 3,
            "duration_ns": [EXACT, 20, 40],
            "samples": [4, 4, 4],
        }
    )
    pq.write_table(table, folder / "steps.parquet")
    return folder


def test_a_record_of_version_1_is_read_with_todays_meaning(old: Path) -> None:
    loaded = record.load(old)
    assert loaded.manifest.schema_version == 4
    assert loaded.notes == (Note("record", "there is no NVML"), Note("record", "the machine was busy"))
    assert loaded.manifest.passes["timing"].data_in_step is False
    assert loaded.arrow("steps").to_pydict() == {
        "pass": ["timing"] * 3,
        "rank": [0, 0, 0],
        "index": [0, 1, 2],
        "role": ["warmup", "measured", "measured"],
        "kind": ["train"] * 3,
        "duration_ns": [EXACT, 20, 40],
        "samples": [4, 4, 4],
        "loss": [None] * 3,
    }
    assert loaded.view("steps")["timing"].median_ns == 30


def test_an_upgraded_record_is_saved_in_todays_form(old: Path, tmp_path: Path) -> None:
    record.load(old).save(tmp_path / "new")
    assert json.loads((tmp_path / "new" / "manifest.json").read_text())["schema_version"] == 4
    assert "role" in pq.read_table(tmp_path / "new" / "steps.parquet").column_names


def test_a_newer_version_is_refused_with_the_remedy(old: Path) -> None:
    edit(old, lambda data: data.update(schema_version=5))
    with pytest.raises(RecordError, match=r"has schema version 5; this wcbench reads up to 4\.\nUpgrade wcbench\."):
        record.load(old)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"task": "toy"', "is not valid JSON: "),
        ("", "is not valid JSON: "),
        ("[]", "names no schema version"),
        ("{}", "names no schema version"),
        ('{"schema_version": "2"}', "names no schema version"),
        ('{"schema_version": true}', "names no schema version"),
        ('{"schema_version": 0}', "names no schema version"),
        ('{"schema_version": 3}', "is not a manifest that wcbench wrote: "),
        ('{"schema_version": 1}', "is not a manifest that wcbench wrote: 'notes'"),
    ],
)
def test_a_manifest_that_is_none(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "manifest.json").write_text(text, encoding="utf-8")
    with pytest.raises(RecordError, match=message) as caught:
        record.load(tmp_path)
    assert str(tmp_path / "manifest.json") in caught.value.message


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda data: data.pop("task"), "task"),
        (lambda data: data.pop("passes"), "passes"),
        (lambda data: data.update(colour="red"), "colour"),
        (lambda data: data["passes"]["timing"].update(colour="red"), "colour"),
        (lambda data: data["passes"]["timing"].pop("device"), "device"),
        (lambda data: data.update(passes=[]), "list"),
        (lambda data: data.update(notes=[{"text": "x"}]), "about"),
        (lambda data: data.update(notes=None), "None"),
        (lambda data: data.update(machine="abacus"), "dictionary"),
        (lambda data: data.update(suites=None), "None"),
        (lambda data: data.update(tables=["steps"]), "list"),
    ],
)
def test_a_wrong_field_is_named_with_the_file(
    tmp_path: Path, change: Callable[[dict[str, Any]], object], named: str
) -> None:
    profile().save(tmp_path / "run")
    edit(tmp_path / "run", change)
    with pytest.raises(RecordError, match=named) as caught:
        record.load(tmp_path / "run")
    assert "manifest.json is not a manifest that wcbench wrote" in caught.value.message


def test_what_is_not_there_or_is_a_binary_file(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(RecordError, match=r"holds no manifest\.json, so it is no record\."):
            record.load(folder)
    (tmp_path / "manifest.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(RecordError, match="is not valid JSON"):
        record.load(tmp_path)


def test_a_manifest_that_is_a_folder(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").mkdir()
    with pytest.raises(RecordError, match=r"manifest\.json cannot be read: Is a directory"):
        record.load(tmp_path)


def _truncate(file: Path) -> None:
    data = file.read_bytes()
    file.write_bytes(data[: len(data) // 2])


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_truncate, "cannot be read: "),
        (lambda file: file.write_bytes(b""), "cannot be read: "),
        (lambda file: file.unlink(), "cannot be read: it is not there"),
        (lambda file: pq.write_table(pa.table({"pass": ["timing"]}), file), "is not the table steps: .*rank"),
        (
            lambda file: pq.write_table(steps(5).set_column(5, "duration_ns", pa.array(["soon"])), file),
            "is not the table steps: ",
        ),
        (
            lambda file: pq.write_table(steps(5, 7, 9), file),
            "is not the table steps: it has 3 rows, the manifest says 2",
        ),
    ],
)
@pytest.mark.parametrize("read", [Profile.arrow, Profile.columns, Profile.batches])
def test_a_damaged_table_is_named_by_its_file(
    tmp_path: Path, damage: Callable[[Path], object], message: str, read: Callable[..., Any]
) -> None:
    loaded = profile().save(tmp_path / "run")
    damage(tmp_path / "run" / "steps.parquet")
    asked = () if read is Profile.arrow else (["pass", "rank", "duration_ns"],)
    with pytest.raises(RecordError, match=f"steps.parquet {message}") as caught:
        list(read(loaded, "steps", *asked))
    assert caught.value.hint == "The record is damaged; profile or import again."


def test_a_table_in_batches_is_the_table(full: Profile, tmp_path: Path) -> None:
    """Groups of two rows of three, of a folder and of a record in memory."""
    folder = tmp_path / "run"
    full.save(folder)
    kernels = full.arrow("kernels")
    pq.write_table(kernels, folder / "kernels.parquet", row_group_size=2)
    asked = ["name", "step", "pass"]
    parts = list(record.load(folder).batches("kernels", asked))
    assert [part.num_rows for part in parts] == [2, 1]
    assert pa.concat_tables(parts).to_pylist() == kernels.select(asked).to_pylist()
    held = profile(tables={"kernels": kernels})
    assert pa.concat_tables(held.batches("kernels", asked)).to_pylist() == kernels.select(asked).to_pylist()
    assert [part.num_rows for part in held.batches("totals", ["name"])] == [0]


def test_a_table_of_version_1_without_its_flag_is_damaged(old: Path) -> None:
    pq.write_table(pa.table({"pass": ["timing"]}), old / "steps.parquet")
    with pytest.raises(RecordError, match=r"steps\.parquet is not the table steps: .*warmup"):
        record.load(old).table("steps")


def test_every_failure_is_one_that_the_command_line_tells(tmp_path: Path) -> None:
    """No damage to a manifest leads to an error of another kind: drop or spoil each field in turn."""
    made = profile().save(tmp_path / "run").manifest.to_dict()
    for key in made:
        for spoiled in ("drop", None, 7, "text", [7], {"a": 7}):
            data = {k: v for k, v in made.items() if k != key}
            if spoiled != "drop":
                data[key] = spoiled
            (tmp_path / "run" / "manifest.json").write_text(json.dumps(data), encoding="utf-8")
            with contextlib.suppress(WcbenchError):
                assert isinstance(record.load(tmp_path / "run").manifest, Manifest)


@pytest.mark.parametrize(
    ("field", "value"),
    [("steps", 0), ("steps", None), ("samples", 0), ("batch_size", "4"), ("warmup", -1), ("steps", True)],
)
def test_counts_that_figures_are_divided_by_are_checked(tmp_path: Path, field: str, value: object) -> None:
    made = profile().save(tmp_path / "run").manifest.to_dict()
    name = next(iter(made["passes"]))
    made["passes"][name][field] = value
    (tmp_path / "run" / "manifest.json").write_text(json.dumps(made), encoding="utf-8")
    with pytest.raises(RecordError, match=f"{field} of pass {name} is {value!r}"):
        record.load(tmp_path / "run")


def test_json_nested_without_end_is_told(tmp_path: Path) -> None:
    profile().save(tmp_path / "run")
    (tmp_path / "run" / "manifest.json").write_text("[" * 100_000, encoding="utf-8")
    with pytest.raises(RecordError, match=r"manifest\.json"):
        record.load(tmp_path / "run")
