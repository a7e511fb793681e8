"""The command line from end to end: what goes to which stream, what is written, and how each failure ends.

Most of it runs in this process, through `main` as the console script calls it; only Ctrl-C needs a child.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from wcbench.cli import main

ROOT = Path(__file__).resolve().parent.parent
SECTIONS = (
    "overview",
    "gates",
    "hotspots",
    "categories",
    "ops",
    "steps",
    "complexity",
    "primitives",
    "memory",
    "notes",
    "provenance",
)


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
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)  # typer puts its own there

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


def profile_tiny(cli: Cli, *more: str | Path, task: str = "spatial-transformer", passes: str = "timing") -> Ended:
    return cli("profile", task, "--device", "cpu", "--preset", "tiny", "--passes", passes, "--steps", "2", *more)


@pytest.fixture(scope="module")
def full_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Ended]:
    """One profile with every pass, made once by the command itself."""
    folder = tmp_path_factory.mktemp("full")
    arguments = ["profile", "spatial-transformer", "--device", "cpu", "--preset", "small", "--steps", "2", "--json"]
    command = [sys.executable, "-m", "wcbench", *arguments, "--runs", str(folder / "runs")]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120, cwd=folder)
    return folder / "runs", Ended(done.returncode, done.stdout, done.stderr)


# help, version, usage


def test_no_arguments_show_the_help(cli: Cli) -> None:
    ended = cli()
    assert ended.code == 0
    assert ended.out == cli("--help").out
    for command in ("list", "profile", "show", "report", "doctor"):
        assert re.search(rf"^  {command} ", ended.out, re.MULTILINE)


def test_version(cli: Cli) -> None:
    assert re.fullmatch(r"wcbench \d+\.\d+\.\d+\n", cli("--version").out)


@pytest.mark.parametrize("command", ["list", "profile", "show", "report", "doctor"])
def test_each_command_has_help_in_which_every_option_is_explained(cli: Cli, command: str) -> None:
    ended = cli(command, "-h")
    assert ended.code == 0
    options = re.findall(r"^  (?:-\w, )?--[\w-]+.*(?:\n {6,}.*)?", ended.out, re.MULTILINE)
    assert options
    assert all(re.search(r"\S\s{2,}\S|\n\s+\S", option) for option in options), options


@pytest.mark.parametrize(
    "arguments",
    [
        ["--bogus"],
        ["bogus"],
        ["list", "--bogus"],
        ["show"],
        ["profile", "spatial-transformer", "--steps", "1.5"],
        ["show", "x", "--rows", "0"],
        ["profile", "--", "spatial-transformer", "--json"],
    ],
)
def test_wrong_usage_exits_2_with_nothing_on_stdout(cli: Cli, arguments: list[str]) -> None:
    ended = cli(*arguments)
    assert ended.code == 2
    assert ended.out == ""
    assert "Usage: wcbench" in ended.err
    assert "Traceback" not in ended.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["resnt"], "Unknown task 'resnt'.\nDid you mean 'image-classification'?"),
        (["spatial-transformr"], "Did you mean 'spatial-transformer'?"),
        (["spatial-transformer@x"], "Unknown variant 'x'"),
        (["spatial-transformer", "--batch-size", "0"], "batch size 0 is refused: a training step needs at least one"),
        (["spatial-transformer", "--set", "foo=1"], "Unknown setting 'foo'"),
        (["natural-language", "--set", "seq"], "--set seq is not of the form key=value.\nFor example --set seq=512."),
        (["natural-language", "--set", "=512"], "--set =512 is not of the form key=value."),
        (["image-classification", "--set", "image_size=abc"], "'abc' is not a value of type int"),
        (["spatial-transformer", "--preset", "huge"], "Unknown preset 'huge'"),
        (["spatial-transformer", "--passes", "nothing"], "Unknown pass 'nothing'"),
        (["spatial-transformer", "--passes", " , "], "No pass is named."),
        (["spatial-transformer", "--steps", "0"], "--steps 0 is refused."),
        (["spatial-transformer", "--seed", "99999999999999999999"], "seed 99999999999999999999 is refused."),
        (["spatial-transformer", "--device", "tpu"], "Unknown device 'tpu'"),
        (["spatial-transformer", "--device", "cpus"], "Did you mean 'cpu'?"),
        (["spatial-transformer", "--precision", "int8"], "Unknown precision 'int8'"),
        (["nowhere:Task"], "'nowhere:Task' cannot be imported: No module named 'nowhere'."),
        (["json:loads"], "'json:loads' is not a subclass of wcbench.Task."),
    ],
)
def test_a_request_that_cannot_work_exits_2_and_says_why(
    cli: Cli, tmp_path: Path, arguments: list[str], message: str
) -> None:
    ended = cli("profile", *arguments, "--json")
    assert ended.code == 2
    assert ended.out == ""
    assert ended.err.startswith("wcbench: ")
    assert message in ended.err
    assert "Traceback" not in ended.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Name either a task or a suite."),
        (["spatial-transformer", "--suite", "mlperf-training-v0.7"], "Name either a task or a suite."),
        (["--suite", "mlperf"], "Unknown suite 'mlperf'"),
        (["--suite", "mlperf-training-v0.7", "--batch-size", "1,2"], "A suite is profiled at one point."),
        (["--suite", "mlperf-training-v0.7", "-o", "x"], "--out is the folder of a single record."),
        (["--suite", "mlperf-training-v0.7", "--jobs", "0"], "--jobs 0 is refused."),
        (["spatial-transformer", "--jobs", "2"], "--jobs is for a suite."),
        (["spatial-transformer", "--batch-size", "1,2", "-o", "x"], "--out is the folder of a single record."),
        (["spatial-transformer", "--batch-size", "1,b"], "--batch-size 1,b is no whole number."),
        (["spatial-transformer", "--sequence-length", "8"], "The task has no sequence whose length could be set."),
        (["spatial-transformer", "--zipf", "1.1"], "The task has no sparse tables"),
        (["spatial-transformer", "--mode", "dream"], "Unknown mode 'dream'"),
    ],
)
def test_knobs_that_cannot_work_are_told(cli: Cli, tmp_path: Path, arguments: list[str], message: str) -> None:
    ended = cli("profile", *arguments, "--passes", "timing", "--preset", "tiny", "--quiet")
    assert ended.code == 2
    assert ended.out == ""
    assert message in ended.err
    assert list(tmp_path.iterdir()) == []


def test_a_sweep_writes_a_record_a_point_and_shows_a_table(cli: Cli) -> None:
    knobs = ("--batch-size", "2,4", "--precision", "fp32,bf16")
    ended = cli("profile", "recommendation", "--passes", "operators", "--preset", "tiny", *knobs)
    assert ended.code == 0, ended.err
    assert len([path for path in Path("runs/recommendation").iterdir() if path.is_dir()]) == 4
    assert "[4/4] batch size 4, precision bf16: runs/recommendation/" in ended.err
    assert re.search(r"^ +4 +bf16 +", ended.out, re.MULTILINE)
    page = re.search(r"Wrote 4 of 4 records\nWrote (.+)\n\Z", ended.out)
    assert page is not None
    assert Path(page[1]).read_text(encoding="utf-8").count("<svg") >= 4
    shown = cli("profile", "recommendation", "--passes", "operators", "--preset", "tiny", *knobs, "--json", "--quiet")
    found = json.loads(shown.out)
    assert (found["schema"], found["varied"]) == ("wcbench.sweep/1", ["batch_size", "precision"])
    flops = {(p["batch_size"], p["precision"]): p["flops_matrix_forward_per_sample"] for p in found["points"]}
    assert len(set(flops.values())) == 1  # by sample, whatever the batch and the type
    moved = {(p["batch_size"], p["precision"]): p["bytes_step"] for p in found["points"]}
    assert moved[4, "fp32"] > moved[2, "fp32"]


def test_a_point_that_is_refused_costs_no_other(cli: Cli) -> None:
    ended = cli(
        "profile", "recommendation", "--passes", "timing", "--preset", "tiny", "--batch-size", "4,0,8", "--steps", "2"
    )
    assert ended.code == 1
    assert "batch size 0 is refused" in ended.out
    assert "Wrote 2 of 3 records\n" in ended.out


def test_a_point_that_fails_costs_no_other(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MINE.replace("SIZE", "if size > 4:\n            raise RuntimeError('too many')"))
    ended = cli(
        "profile", "mine:Mine", "--passes", "timing", "--preset", "tiny", "--batch-size", "4,8,2", "--steps", "2"
    )
    assert ended.code == 1
    assert "too many" in ended.out
    assert "Wrote 2 of 3 records\n" in ended.out
    assert len([path for path in Path("runs/mine.Mine").iterdir() if path.is_dir()]) == 2


MINE = """
import torch
from wcbench import Built, Settings, Task

class Mine(Task):
    presets = {"tiny": Settings(batch_size=4)}

    def build(self, config):
        size = config.settings.batch_size
        SIZE
        model = torch.nn.Linear(4, 2)
        return Built(lambda x: model(x).sum().detach(), lambda i: torch.ones(size, 4), {"model": model}, size)
"""


def test_a_suite_goes_on_where_a_task_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from wcbench.profilers.suite import TaskRun, profile_tasks

    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(MINE.replace("SIZE", ""))
    (tmp_path / "killed.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
    told: list[tuple[str, int, int]] = []

    def tell(run: TaskRun, done: int, total: int) -> None:
        told.append((run.task, done, total))

    tasks = ["nowhere:Task", "killed:Task", "mine:Mine"]
    options = {"passes": ["timing"], "preset": "tiny", "steps": 2, "runs": "there", "settings": {}, "scaling": True}
    nowhere, killed, mine = profile_tasks(tasks, options, jobs=2, told=tell)
    assert (nowhere.path, nowhere.error) == (None, "'nowhere:Task' cannot be imported: No module named 'nowhere'.")
    assert (killed.path, killed.error) == (None, "killed (out of memory?)")
    assert mine.error is None
    assert mine.path is not None
    assert (tmp_path / mine.path / "manifest.json").is_file()
    assert mine.path.parts[0] == "there"
    assert sorted(task for task, _, _ in told) == sorted(tasks)
    assert [(done, total) for _, done, total in told] == [(1, 3), (2, 3), (3, 3)]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_children_of_a_suite_end_with_it(tmp_path: Path, number: signal.Signals) -> None:
    """Also where the signal reaches the parent alone; nothing is left running."""
    (tmp_path / "slow.py").write_text("import os, time\nopen('pid', 'w').write(str(os.getpid()))\ntime.sleep(60)\n")
    script = "from wcbench.profilers.suite import profile_tasks; profile_tasks(['slow:Task', 'slow:Task'], {})"
    parent = subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509  # the background ignores it
    )
    for _ in range(300):
        if (tmp_path / "pid").is_file() and (tmp_path / "pid").read_text():
            break
        time.sleep(0.1)
    child = int((tmp_path / "pid").read_text())
    os.kill(parent.pid, number)
    parent.communicate(timeout=20)
    assert parent.returncode != 0
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


def test_options_of_a_suite_are_spelled_as_the_command_line_has_them() -> None:
    from wcbench.profilers.suite import command_options

    options = {
        "passes": ["operators", "timing"],
        "preset": None,
        "batch_size": 4,
        "force": True,
        "data_in_step": False,
        "settings": {"seq": "64", "fill": "0.5"},
        "scaling": False,
    }
    words = "--passes operators,timing --batch-size 4 --force --set seq=64 --set fill=0.5 --no-scaling"
    assert " ".join(command_options(options)) == words


def test_a_missing_gpu_is_told_with_what_is_missing(cli: Cli) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has one")
    for device in ("cuda", "cuda:1"):
        ended = profile_tiny(cli, "--device", device)
        assert ended.code == 2
        assert f"wcbench: Device '{device}' cannot be used: " in ended.err
        assert re.search("CPU build without CUDA|finds no usable GPU: .+|finds no CUDA device", ended.err)
        assert "Use --device cpu" in ended.err


# profile


TIMES = (
    "step_ms_median step_ms_q1 step_ms_q3 device_step_ms_median samples_per_s ranks loss_first loss_last overhead load"
)
PASS = (
    f"preset settings batch_size samples precision device tensors seed warmup data_in_step torch seconds steps "
    f"mode step_kinds kind_samples {TIMES}"
)
ORIGIN = "pass preset batch_size device"
LOCALITY = (
    "operator_bytes unique_bytes cold_bytes compulsory_bytes unplaced_bytes largest_operator_bytes traffic miss_ratio "
    "wss_50 wss_90 wss_99 reuse_classes reuse_count_mean"
)
FORM = {
    "steps": f"{ORIGIN} rows",
    "complexity": (
        f"{ORIGIN} tensors samples params_total params_trainable params_bytes params_shared flops_matrix_forward "
        "flops_matrix_backward flops_matrix_step flops_matrix_step_causal_half flops_all_forward "
        "flops_all_backward flops_all_step flops_matrix_forward_per_sample macs_forward_per_sample "
        "coverage_calls coverage_bytes uncounted bytes_read bytes_written operator_calls kinds continued"
    ),
    "hotspots": f"{ORIGIN} of steps total_ns basis ranks rank_steps coverage waiting_calls waiting_ns whole rows",
    "categories": f"{ORIGIN} of paper full unknown_share unknown_names phases python_share",
    "scaling": f"{ORIGIN} rows",
    "operators": f"{ORIGIN} rows",
    "modules": f"{ORIGIN} rows",
    "memory": f"{ORIGIN} tensors kind peak_bytes peak_classes peak_kinds {LOCALITY} traffic_tiled allocator fused "
    "dag_width dag_width_flops dag_depth live",
    "measured_memory": f"{ORIGIN} peak_bytes increase_bytes rows",
    "primitives": f"{ORIGIN} of steps total_ns operator_share rows",
    "ops": f"{ORIGIN} calls self_ns ranks names device_unlinked_ns rows",
}
ROWS = {
    "steps": "rank index role kind duration_ns loss",
    "hotspots": "name category paper time_ns time_share cumulative_share calls rank_min_ns rank_max_ns",
    "scaling": "kind phase quantity unit length recorded fixed per_sample error samples values",
    "operators": "name phase calls flops_matrix flops_all bytes_read bytes_written",
    "modules": "module depth calls flops_matrix flops_all bytes_read bytes_written params share",
    "measured_memory": "device moment current_bytes peak_bytes reserved_bytes",
    "primitives": "primitive implementation direction shape memory time_ns time_share calls",
    "ops": "name category calls total_ns self_ns self_share device_ns",
    "gates": "name held value limit unit text coverage",
}
TOP = (
    "schema run task variant suites created command wcbench machine source losses lost tables notes noise passes "
    "steps complexity hotspots categories scaling lookups operators modules memory roofline measured_memory power "
    "primitives gates activity ops totals counters convergence allocations"
)


def test_the_json_of_a_whole_profile_has_the_documented_form(full_run: tuple[Path, Ended]) -> None:
    """Field for field as docs/json.md says; the expected form is written out here by hand."""
    ended = full_run[1]
    assert ended.code == 0, ended.err
    found: dict[str, Any] = json.loads(ended.out)  # and nothing but JSON
    assert found["schema"] == "wcbench.profile/1"
    assert list(found) == TOP.split()
    assert set(found["passes"]) == {"operators", "memory", "timing", "timeline", "primitives"}
    for name, info in found["passes"].items():
        assert set(info) == set(PASS.split()), name
    for block, fields in FORM.items():
        assert set(found[block]) == set(fields.split()), block
        assert found[block]["pass"] in found["passes"]
    for block, fields in ROWS.items():
        assert found[block]["rows"]
        assert all(set(row) == set(fields.split()) for row in found[block]["rows"]), block
    assert all(set(note) == {"about", "text"} for note in found["notes"])


def test_every_field_of_the_json_is_documented() -> None:
    words = set(re.findall(r"\w+", (ROOT / "docs" / "json.md").read_text(encoding="utf-8")))
    names = " ".join((TOP, PASS, *FORM.values(), *ROWS.values())).split()
    assert sorted(set(names) - words) == []


AFFINE_GRID = 2 * 28 * 28 * 3 * 2  # FLOP of the product that the sampling grid hides


def test_the_numbers_of_a_whole_profile(full_run: tuple[Path, Ended]) -> None:
    found: dict[str, Any] = json.loads(full_run[1].out)
    assert found["task"] == "spatial-transformer"
    assert found["suites"] == ["aibench-training-v1.1"]
    assert found["complexity"]["params_total"] == 27_360
    assert found["complexity"]["flops_matrix_forward_per_sample"] == 1_542_600 + AFFINE_GRID
    assert found["complexity"]["flops_matrix_forward"] == (1_542_600 + AFFINE_GRID) * 64
    timing = found["passes"]["timing"]
    assert (timing["preset"], timing["batch_size"], timing["steps"], timing["overhead"]) == ("small", 64, 2, 1)
    assert timing["step_ms_q1"] <= timing["step_ms_median"] <= timing["step_ms_q3"]
    assert [row["role"] for row in found["steps"]["rows"]] == ["warmup"] * 3 + ["measured"] * 2
    assert found["power"] is None or found["power"]["devices"]
    assert sum(row["time_share"] for row in found["hotspots"]["rows"]) == pytest.approx(1)
    for view in ("paper", "full"):
        assert sum(found["categories"][view].values()) == pytest.approx(1)


def test_progress_and_closing_lines_go_to_stderr_beside_json(full_run: tuple[Path, Ended]) -> None:
    ended = full_run[1]
    run = json.loads(ended.out)["run"]
    lines = ended.err.splitlines()
    assert lines[-2:] == [f"Wrote {run}", f"Next: wcbench report {run}"]
    assert "timing: 5 steps done" in lines
    assert all(re.fullmatch(r"[\w ()]+: \d+ steps done", line) for line in lines[:-2]), lines


def test_what_was_not_measured_is_null(cli: Cli) -> None:
    ended = profile_tiny(cli, "--json", passes="timing,timeline")
    assert ended.code == 0
    found = json.loads(ended.out)
    assert set(found["passes"]) == {"timing", "timeline"}
    for block in ("complexity", "operators", "modules", "memory", "roofline", "measured_memory", "power", "primitives"):
        assert found[block] is None
    assert found["hotspots"]["rows"]
    assert found["passes"]["timeline"]["overhead"] > 0


def test_without_json_the_answer_is_shown_and_where_it_lies(cli: Cli, tmp_path: Path) -> None:
    ended = profile_tiny(cli)
    assert ended.code == 0
    runs = list((tmp_path / "runs" / "spatial-transformer").iterdir())
    run = runs[0].relative_to(tmp_path)
    assert len(runs) == 1
    assert ended.out.splitlines()[-2:] == [f"Wrote {run}", f"Next: wcbench report {run}"]
    assert "spatial-transformer" in ended.out.splitlines()[0]
    assert ended.err == "timing: 5 steps done\n"


def test_the_next_command_can_be_pasted(cli: Cli, tmp_path: Path) -> None:
    ended = profile_tiny(cli, "-o", "a folder; with [/b] 'quotes'")
    assert ended.code == 0
    command = ended.out.splitlines()[-1].removeprefix("Next: wcbench ")
    done = subprocess.run(["sh", "-c", f"printf '%s\\n' {command}"], check=True, capture_output=True, text=True)
    assert done.stdout.splitlines() == ["report", "a folder; with [/b] 'quotes'"]
    assert cli(*done.stdout.splitlines()).code == 0


def test_quiet_is_silent(cli: Cli, tmp_path: Path) -> None:
    assert profile_tiny(cli, "--quiet", "-o", "run") == Ended(0, "", "")
    assert cli("report", "run", "--quiet") == Ended(0, "", "")
    assert (tmp_path / "run" / "report.html").is_file()


def test_quiet_with_json_is_json_alone(cli: Cli) -> None:
    ended = profile_tiny(cli, "--quiet", "--json")
    assert json.loads(ended.out)["task"] == "spatial-transformer"
    assert ended.err == ""


def test_a_setting_that_is_no_number_is_noted_and_not_fatal(cli: Cli) -> None:
    ended = profile_tiny(cli, "--set", "lr=nan", "--json")
    assert ended.code == 0, ended.err
    assert json.loads(ended.out)["passes"]["timing"]["settings"]["lr"] == "nan"


def test_an_existing_folder_is_refused_and_forced(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("x", encoding="utf-8")
    for more in ([], ["--force"]):
        ended = profile_tiny(cli, "-o", "mine", *more)
        assert ended.code == 1
        assert ended.err.startswith("wcbench: mine ")
        assert "steps done" not in ended.err  # told before the work, not after it
    assert [p.name for p in (tmp_path / "mine").iterdir()] == ["thesis.tex"]
    assert profile_tiny(cli, "-o", "run").code == 0
    before = (tmp_path / "run" / "manifest.json").read_bytes()
    assert profile_tiny(cli, "-o", "run").code == 1
    assert (tmp_path / "run" / "manifest.json").read_bytes() == before
    assert profile_tiny(cli, "-o", "run", "--force").code == 0
    assert (tmp_path / "run" / "manifest.json").read_bytes() != before


def test_a_full_disk_is_told_and_leaves_nothing(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pq, "write_table", full)
    ended = profile_tiny(cli, "--json")
    assert ended.code == 1
    assert ended.out == ""
    assert "could not be written: No space left on device." in ended.err
    assert "Free some space or choose another place with --runs or -o." in ended.err
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == []
    assert not (tmp_path / "runs" / "spatial-transformer").exists()


# a task of one's own, in the current folder

OWN = """
import time
from pathlib import Path

import torch

from wcbench import Built, Config, Settings, Task


class Own(Task):
    presets = {"paper": Settings(4), "small": Settings(4), "tiny": Settings(2)}
    fails_at = None

    def build(self, config: Config) -> Built:
        model = torch.nn.Linear(3, 1)

        def step(batch: torch.Tensor) -> torch.Tensor:
            if batch[0, 0] == self.fails_at:
                self.fail()
            loss = model(batch).square().mean()
            loss.backward()
            return loss.detach()

        return Built(step, lambda index: torch.full((2, 3), float(index)), {"model": model}, 2)


class FailsInStep(Own):
    fails_at = 2

    def fail(self):
        raise ValueError("no such word: [/b]")


class FailsInBuild(Own):
    def build(self, config):
        raise KeyError("weights")


class NotBuilt(Own):
    def build(self, config):
        return 5


class TooLarge(Own):
    fails_at = 1

    def fail(self):
        torch.empty(1 << 60)


class Slow(Own):
    fails_at = 1

    def fail(self):
        Path("marker").touch()
        time.sleep(60)
"""


@pytest.fixture
def own(tmp_path: Path) -> Iterator[str]:
    """The module of the tasks above, in the current folder and nowhere else."""
    (tmp_path / "own_tasks.py").write_text(OWN, encoding="utf-8")
    yield "own_tasks"
    sys.modules.pop("own_tasks", None)


def test_a_task_of_ones_own(cli: Cli, own: str) -> None:
    ended = profile_tiny(cli, task=f"{own}:Own")
    assert ended.code == 0, ended.err
    listed = json.loads(cli("list", "--runs", "--json").out)["runs"]
    assert [row["task"] for row in listed] == ["own_tasks:Own"]
    assert "own_tasks:Own" in cli("show", "own_tasks:Own", "overview").out


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "FailsInStep",
            "The task failed at step 2 of pass timing (preset tiny, batch size 2): ValueError: no such word: [/b]",
        ),
        ("FailsInBuild", "The task failed at build of pass timing (preset tiny, batch size 2): KeyError: 'weights'"),
        ("NotBuilt", "NotBuilt.build returned int, not wcbench.tasks.base.Built."),
        ("TooLarge", "Out of memory at step 1 of pass timing (preset tiny, batch size 2) on cpu: RuntimeError: "),
    ],
)
def test_a_task_that_fails(cli: Cli, own: str, tmp_path: Path, name: str, message: str) -> None:
    ended = profile_tiny(cli, "--json", task=f"{own}:{name}")
    assert ended.code == 1
    assert ended.out == ""
    assert ended.err.startswith(f"wcbench: {message}")
    assert "Traceback" not in ended.err
    assert len(ended.err.splitlines()) == 2
    assert not (tmp_path / "runs").exists()


def test_debug_shows_the_tasks_own_traceback(cli: Cli, own: str) -> None:
    ended = profile_tiny(cli, "--debug", task=f"{own}:FailsInStep")
    assert ended.code == 1
    assert "Traceback (most recent call last)" in ended.err
    assert 'own_tasks.py", line' in ended.err
    assert ended.err.splitlines()[-2].startswith("wcbench: The task failed at step 2")


def test_ctrl_c_leaves_nothing(own: str, tmp_path: Path) -> None:
    """A real signal to a real child, in the middle of a step."""
    start = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a parent may ignore it
    command = [sys.executable, "-c", start + "from wcbench.cli import main; main()", "profile", f"{own}:Slow"]
    options = ["--device", "cpu", "--preset", "tiny", "--passes", "timing", "--runs", "kept"]
    child = subprocess.Popen(
        [*command, *options], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        deadline = time.monotonic() + 60
        while not (tmp_path / "marker").exists() and child.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=30)
    finally:
        child.kill()
    assert child.returncode == 130
    assert out == ""
    assert err == "wcbench: Interrupted; no half-written record is left.\n"
    assert not (tmp_path / "kept").exists()


# show, report, list, doctor


@pytest.mark.parametrize("section", SECTIONS)
def test_show_each_section(cli: Cli, full_run: tuple[Path, Ended], section: str) -> None:
    ended = cli("show", "spatial-transformer", section, "--runs", full_run[0])
    assert ended.code == 0, ended.err
    assert len(ended.out.splitlines()) > 1
    assert ended.err == ""


def test_show_everything_and_as_json(cli: Cli, full_run: tuple[Path, Ended]) -> None:
    root, made = full_run
    assert cli("show", "DC-AI-C15", "--runs", root).code == 0
    ended = cli("show", "spatial-transformer:latest", "--runs", root, "--json")
    assert json.loads(ended.out) == json.loads(made.out)
    assert ended.err == ""


def test_show_rows(cli: Cli, full_run: tuple[Path, Ended]) -> None:
    short = cli("show", "spatial-transformer", "hotspots", "--rows", "1", "--runs", full_run[0])
    long = cli("show", "spatial-transformer", "hotspots", "--rows", "1000", "--runs", full_run[0])
    assert len(short.out) < len(long.out)
    assert re.search(r"\.\.\. and \d+ more rows", short.out)
    assert "more rows" not in long.out


def test_show_power_says_why_there_is_none(cli: Cli, full_run: tuple[Path, Ended]) -> None:
    if json.loads(full_run[1].out)["power"] is not None:
        pytest.skip("this machine has power telemetry")
    ended = cli("show", "spatial-transformer", "power", "--runs", full_run[0])
    assert ended.code == 1
    assert ended.err.startswith("wcbench: This record has no power.")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["spatial-transformer", "hotspot"], "Unknown section 'hotspot'.\nDid you mean 'hotspots'?"),
        (["spatial-transformr"], "There are records of: spatial-transformer."),
        (["spatial-transformer:zzzz"], "There are: 20"),
        (["x" * 5000], "No record 'xxx"),
    ],
)
def test_show_what_is_not_there(cli: Cli, full_run: tuple[Path, Ended], arguments: list[str], message: str) -> None:
    ended = cli("show", *arguments, "--runs", full_run[0])
    assert ended.code == 2
    assert ended.out == ""
    assert message in ended.err


def test_a_damaged_record_is_told_in_two_lines(cli: Cli, tmp_path: Path) -> None:
    assert profile_tiny(cli, "-o", "run").code == 0
    (tmp_path / "run" / "steps.parquet").write_bytes(b"PAR1")
    ended = cli("show", "run")
    assert ended.code == 1
    assert ended.err.startswith("wcbench: run/steps.parquet cannot be read: ")
    assert ended.err.splitlines()[-1] == "The record is damaged; profile or import again."
    (tmp_path / "run" / "manifest.json").write_text("{", encoding="utf-8")
    assert "run/manifest.json is not valid JSON" in cli("show", "run").err


def test_report_writes_one_file_and_keeps_what_is_there(cli: Cli, full_run: tuple[Path, Ended], tmp_path: Path) -> None:
    arguments = ("report", "spatial-transformer", "--runs", full_run[0], "-o", "r.html")
    ended = cli(*arguments)
    assert ended.code == 0, ended.err
    assert "Wrote r.html" in ended.out.splitlines()
    assert (tmp_path / "r.html").read_text(encoding="utf-8").rstrip().endswith("</html>")
    (tmp_path / "r.html").write_text("mine", encoding="utf-8")
    ended = cli(*arguments)
    assert ended.code == 1
    assert "r.html exists and is left as it is." in ended.err
    assert (tmp_path / "r.html").read_text(encoding="utf-8") == "mine"
    assert cli(*arguments, "--force").code == 0
    assert [p.name for p in tmp_path.iterdir()] == ["r.html"]


def test_list_shows_every_task_whole(cli: Cli) -> None:
    shown, found = cli("list"), json.loads(cli("list", "--json").out)
    assert found["schema"] == "wcbench.tasks/1"
    for task in found["tasks"]:
        assert task["name"] in shown.out
        assert {"aliases", "model", "domain", "dataset", "metric", "quality", "suites", "sample"} <= set(task)
    assert "…" not in shown.out
    assert shown.err == ""


def test_list_runs(cli: Cli, full_run: tuple[Path, Ended]) -> None:
    assert "There are no records yet" in cli("list", "--runs").out
    assert json.loads(cli("list", "--runs", "--json").out) == {"schema": "wcbench.runs/1", "runs": []}
    found = json.loads(cli("list", "--runs", "--in", full_run[0], "--json").out)["runs"]
    made = json.loads(full_run[1].out)
    assert found == [
        {
            "run": made["run"],
            "task": "spatial-transformer",
            "created": made["created"],
            "passes": list(made["passes"]),
        }
    ]
    assert json.loads(cli("list", "--runs", full_run[0], "--json").out)["runs"] == found  # as other commands take it
    shown = cli("list", "--runs", "--in", full_run[0]).out
    assert "…" not in shown
    assert "spatial-transformer" in shown


def test_list_takes_a_folder_of_records_only(cli: Cli, tmp_path: Path) -> None:
    ended = cli("list", tmp_path)
    assert (ended.code, ended.out) == (2, "")
    assert f"For its records: --runs {tmp_path}." in ended.err
    assert "Give one of the two." in cli("list", "--runs", tmp_path, "--in", tmp_path).err


def test_list_runs_takes_paths_literally(cli: Cli, tmp_path: Path) -> None:
    assert profile_tiny(cli, "--runs", "[bold]a[/b").code == 0
    ended = cli("list", "--runs", "--in", "[bold]a[/b")
    assert ended.code == 0, ended.err
    assert "[bold]a[/b" in ended.out


def test_doctor(cli: Cli) -> None:
    ended = cli("doctor", "--json")
    assert ended.code == 0
    found = json.loads(ended.out)
    assert found["schema"] == "wcbench.doctor/1"
    assert {"python", "torch", "cuda", "power", "runs folder"} <= {check["name"] for check in found["checks"]}
    shown = cli("doctor")
    assert shown.code == 0
    for check in found["checks"]:
        assert check["name"] in shown.out
        assert check["state"] in shown.out


def test_doctor_fails_where_nothing_can_be_written(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "[b] file").touch()
    ended = cli("doctor", "--runs", "[b] file")
    assert ended.code == 1
    assert "[b] file cannot be written: Not a directory. Choose one with --runs." in " ".join(ended.out.split())


def test_an_error_of_the_operating_system_is_told_plainly(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied", "secret")

    monkeypatch.setattr("wcbench.api.find_run", denied)
    ended = cli("show", "x")
    assert ended == Ended(1, "", "wcbench: [Errno 13] Permission denied: 'secret'\n")


def test_a_defect_of_wcbench_is_called_one(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def defect(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr("wcbench.api.find_run", defect)
    ended = cli("show", "x")
    assert ended.code == 1
    assert ended.err.startswith("wcbench: wcbench itself failed: ZeroDivisionError: division by zero\nThis is a defect")
    assert "Traceback" in cli("show", "x", "--debug").err


def test_an_error_that_another_library_makes_of_ctrl_c_is_ctrl_c(monkeypatch: Any, capsys: Any) -> None:
    """matplotlib's extensions turn it into a TypeError of their own."""

    def drawing(**_options: Any) -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise TypeError("incompatible function arguments") from None

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        monkeypatch.setattr("wcbench.cli.app", drawing)
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 130
        assert capsys.readouterr().err == "wcbench: Interrupted; no half-written record is left.\n"
    finally:
        signal.signal(signal.SIGINT, before)
