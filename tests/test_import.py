"""`wcbench import` and `wcbench.read` from end to end: what is printed, written and refused, and how failures end."""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.profilers.readers.traces import call, kernel, mark, op, trace
from wcbench import api
from wcbench.cli import main
from wcbench.errors import ReadError, UnknownNameError, UsageError
from wcbench.record import load


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str


Cli = Callable[..., Ended]


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Cli:
    """Run `wcbench import ARGUMENTS` in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WCBENCH_RUNS", raising=False)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)  # typer puts its own there

    def run(*arguments: str | Path) -> Ended:
        monkeypatch.setattr(sys, "argv", ["wcbench", "import", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        code = ended.value.code
        return Ended(code if isinstance(code, int) else 0 if code is None else 1, printed.out, printed.err)

    return run


def events() -> list[dict[str, Any]]:
    gemm = "ampere_sgemm_128x64_nn"
    made = []
    for step, lasted in enumerate((40, 20)):
        at = 100 * step
        made += [mark(f"ProfilerStep#{step}", at, 100), op("aten::mm", at + 5, 20), call(at + 6, step)]
        made.append(kernel(at + 30, step, dur=lasted, name=gemm))
    return made


def write(file: Path, rank: int | None = None) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    info: dict[str, Any] = {} if rank is None else {"distributedInfo": {"rank": rank}}
    file.write_text(trace(*events(), deviceProperties=[{"id": 0, "name": "NVIDIA A100-SXM4-80GB"}], **info))
    return file


def records(folder: Path) -> list[Path]:
    return sorted(path.parent for path in folder.rglob("manifest.json"))


def no_constant(text: str) -> Any:
    raise AssertionError(f"{text} is no JSON")


def test_one_file_is_shown_and_written(cli: Cli, tmp_path: Path) -> None:
    write(tmp_path / "my trace.pt.trace.json", 0)
    ended = cli("my trace.pt.trace.json")
    assert ended.code == 0, ended.err
    made = records(tmp_path / "runs")
    assert len(made) == 1
    assert f"Wrote {made[0].relative_to(tmp_path)}" in ended.out
    assert "Next: wcbench report" in ended.out
    assert "GEMM" in ended.out
    record = load(made[0])
    assert record.manifest.task == "my-trace"
    assert record.manifest.command == ("wcbench", "import", "my trace.pt.trace.json")
    assert record.table("kernels")["duration_ns"].tolist() == [40_000, 20_000]
    assert record.manifest.source is not None
    assert record.manifest.source["files"][0]["path"] == "my trace.pt.trace.json"


def test_a_folder_of_ranks_is_one_record(cli: Cli, tmp_path: Path) -> None:
    for rank in range(3):
        file = write(tmp_path / "job" / f"rank{rank}.json", rank)
        file.with_suffix(".json.gz").write_bytes(gzip.compress(file.read_bytes()))
        file.unlink()
    ended = cli("job", "--jobs", "1", "--quiet")
    assert (ended.code, ended.out, ended.err) == (0, "", "")
    record = load(records(tmp_path / "runs")[0])
    assert record.manifest.task == "job"
    assert sorted(record.table("kernels")["rank"]) == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize("damage", [False, True])
def test_json_is_valid_and_alone_on_standard_output(cli: Cli, tmp_path: Path, damage: bool) -> None:
    file = write(tmp_path / "t.json")
    if damage:
        file.write_text(file.read_text().replace('"dur": 40', '"dur": NaN').replace('"ts": 106', '"ts": "n/a"'))
    ended = cli("t.json", "--json")
    assert ended.code == 0, ended.err
    result = json.loads(ended.out, parse_constant=no_constant)
    assert isinstance(result, dict)
    assert "Wrote" in ended.err
    if damage:
        assert json.dumps(result).count("t.json") >= 1


def test_quiet_json_is_json_alone(cli: Cli, tmp_path: Path) -> None:
    write(tmp_path / "t.json")
    ended = cli("t.json", "--json", "--quiet")
    assert ended.err == ""
    json.loads(ended.out, parse_constant=no_constant)


def test_the_name_and_the_place_can_be_chosen(cli: Cli, tmp_path: Path) -> None:
    write(tmp_path / "t.json")
    assert cli("t.json", "--as", "resnet-a100", "-o", "here/it/is", "--quiet").code == 0
    assert load(tmp_path / "here" / "it" / "is").manifest.task == "resnet-a100"
    assert not (tmp_path / "runs").exists()
    assert cli("t.json", "--runs", "elsewhere", "--quiet").code == 0
    assert len(records(tmp_path / "elsewhere")) == 1


def test_what_is_there_is_kept_unless_forced(cli: Cli, tmp_path: Path) -> None:
    write(tmp_path / "t.json")
    assert cli("t.json", "-o", "out", "--quiet").code == 0
    first = load(tmp_path / "out").manifest.id
    ended = cli("t.json", "-o", "out")
    assert ended.code == 1
    assert "out exists" in ended.err
    assert "--force" in ended.err
    assert load(tmp_path / "out").manifest.id == first
    assert cli("t.json", "-o", "out", "--force", "--quiet").code == 0
    assert load(tmp_path / "out").manifest.id != first
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("all of it")
    assert cli("t.json", "-o", "mine", "--force").code == 1
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "all of it"


@pytest.mark.parametrize(
    ("content", "message", "remedy"),
    [
        (None, "t.json does not exist", "Check the path"),
        (b"", "t.json is empty (0 bytes)", "profile again"),
        (b"hello", "t.json is of no format", "--format"),
        (b'{"traceEvents": [{"ph": "X", "ts": 1}]}', "t.json is a Chrome trace", "another export"),
        (trace().encode(), "t.json holds no events in time", "active"),
        (b'{"schemaVersion": 1, "deviceProperties": [], "traceEv', "t.json", None),
        (b"\x28\xb5\x2f\xfd____", "zstd", "zstd -d"),
        (gzip.compress(b"", mtime=0), "t.json", None),
    ],
)
def test_what_cannot_be_read_is_told_with_file_and_remedy(
    cli: Cli, tmp_path: Path, content: bytes | None, message: str, remedy: str | None
) -> None:
    if content is not None:
        (tmp_path / "t.json").write_bytes(content)
    ended = cli("t.json")
    assert ended.code == 1
    assert ended.out == ""
    assert message in ended.err
    assert remedy is None or remedy in ended.err
    assert len(ended.err.strip().splitlines()) == 2, "what happened, and what to do"
    assert "Traceback" not in ended.err
    assert "defect" not in ended.err
    assert {path.name for path in tmp_path.iterdir()} <= {"t.json"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["t.json", "--format", "kinetto"], "Did you mean 'kineto'"),
        (["t.json", "--jobs", "0"], "--jobs"),
        ([], "FILE"),
        (["t.json", "--no-such-option"], "no-such-option"),
    ],
)
def test_wrong_usage_ends_with_2(cli: Cli, tmp_path: Path, arguments: list[str], message: str) -> None:
    write(tmp_path / "t.json")
    ended = cli(*arguments)
    assert ended.code == 2
    assert message in ended.err
    assert ended.out == ""


def test_a_format_that_the_file_is_not_of_is_refused(cli: Cli, tmp_path: Path) -> None:
    write(tmp_path / "t.json")
    ended = cli("t.json", "--format", "mlperf")
    assert ended.code == 1
    assert "t.json" in ended.err
    assert "defect" not in ended.err
    assert cli("t.json", "--format", "kineto", "--quiet").code == 0


def test_losses_are_shown(cli: Cli, tmp_path: Path) -> None:
    file = write(tmp_path / "t.json")
    file.write_text(file.read_text()[:-40])
    ended = cli("t.json")
    assert ended.code == 0
    record = load(records(tmp_path / "runs")[0])
    assert [loss.what for loss in record.manifest.losses] == ["the last event"]
    assert record.manifest.losses[0].offset
    assert json.loads(cli("t.json", "--json").out)


# --- wcbench.read ---------------------------------------------------------------------------------------------------


def test_reading_takes_paths_texts_and_lists(tmp_path: Path) -> None:
    file = write(tmp_path / "t.json")
    for what in (file, str(file), [file], [str(file)]):
        profile = api.read(what)
        assert profile.path is None
        assert len(profile.table("kernels")) == 2
    assert "ampere_sgemm" in repr(profile)
    assert profile._repr_html_()


def test_reading_refuses_what_makes_no_sense(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        api.read([])
    with pytest.raises(ReadError, match="does not exist"):
        api.read(tmp_path / "nothing")
    with pytest.raises(UnknownNameError):
        api.read(write(tmp_path / "t.json"), form="nothing")


def test_an_import_has_what_a_record_has_and_null_where_the_file_is_silent(tmp_path: Path) -> None:
    profile = api.read(write(tmp_path / "t.json"))
    timeline = profile.manifest.passes["timeline"]
    assert (timeline.batch_size, timeline.samples, timeline.precision, timeline.preset, timeline.seed) == (None,) * 5
    assert timeline.device == "cuda"
    assert timeline.steps == 2
    hotspots = profile.view("hotspots").to_frame()
    assert hotspots.iloc[0]["name"] == "ampere_sgemm_128x64_nn"
    assert [gpu["name"] for gpu in profile.manifest.machine["gpus"]] == ["NVIDIA A100-SXM4-80GB"]
