"""The verbs as a notebook calls them, on a real task at its smallest."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch

import wcbench
from wcbench import Built, Config, Profile, Settings, Task, api, record
from wcbench.errors import RecordError, TaskError, UnknownNameError, UsageError
from wcbench.tasks import load as load_module


class Toy(Task):
    """One weight; the loss of step i is its square, known in advance."""

    presets: ClassVar[Mapping[str, Settings]] = {name: Settings(batch_size=2) for name in ("paper", "small", "tiny")}

    def build(self, config: Config) -> Built:
        model = torch.nn.Linear(1, 1, bias=False)
        torch.nn.init.constant_(model.weight, 3.0)

        def step(batch: torch.Tensor) -> torch.Tensor:
            loss: torch.Tensor = model(batch).square().mean()
            loss.backward()
            return loss.detach()

        return Built(step, lambda index: torch.full((2, 1), float(index)), {"model": model}, 2)


@pytest.fixture(autouse=True)
def _own_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test in a folder of its own; the path that `module:Class` extends is put back."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WCBENCH_RUNS", raising=False)
    monkeypatch.setattr(sys, "path", list(sys.path))


def quick(task: Any = Toy, **options: Any) -> Profile:
    return wcbench.profile(task, **{"device": "cpu", "preset": "tiny", "passes": ["timing"], "steps": 2, **options})


# profile


@pytest.mark.usefixtures("torch_unchanged")
def test_an_alias_is_recorded_by_its_name_and_found_by_both(tmp_path: Path) -> None:
    made = quick("DC-AI-C15")
    assert made.path is not None
    assert made.path.parent == Path("runs/spatial-transformer")
    assert made.manifest.task == "spatial-transformer"
    assert made.manifest.suites == ("aibench-training-v1.1",)
    assert made.manifest.passes["timing"].batch_size == 2
    for run in ("spatial-transformer", "DC-AI-C15", "DC-AI-C15:latest", f"DC-AI-C15:{made.manifest.id[:6]}"):
        assert wcbench.load(run).manifest == made.manifest
    assert wcbench.load(made.path / "manifest.json").manifest == made.manifest
    assert [run.manifest for run in wcbench.runs()] == [made.manifest]


@pytest.mark.usefixtures("torch_unchanged")
def test_steps_and_losses_of_a_task_of_ones_own() -> None:
    """Batches 0, 1, ... and weight 3: the loss of step i is 9 i^2."""
    made = quick(Toy, warmup=1, steps=3)
    steps = made.table("steps")
    assert steps["role"].tolist() == ["warmup", "measured", "measured", "measured"]
    assert steps["loss"].tolist() == [0.0, 9.0, 36.0, 81.0]
    assert steps["samples"].tolist() == [2] * 4
    assert (steps["duration_ns"] > 0).all()
    assert made.manifest.suites == ()


def test_a_task_object_and_its_record_by_name() -> None:
    made = quick(Toy())
    assert made.name == f"{Toy.__module__}:Toy"
    assert wcbench.load(made.name).manifest == made.manifest


def test_without_saving_nothing_is_written(tmp_path: Path) -> None:
    made = quick(save=False)
    assert made.path is None
    assert list(tmp_path.iterdir()) == []
    assert wcbench.summary(made)["run"] is None
    assert "Toy" in repr(made)
    assert "Toy" in made._repr_html_()


def test_progress_is_told_step_by_step() -> None:
    told: list[tuple[str, int, int]] = []
    quick(warmup=1, steps=2, save=False, progress=lambda name, done, total: told.append((name, done, total)))
    assert told == [("timing", 1, 3), ("timing", 2, 3), ("timing", 3, 3)]


def test_an_existing_place_is_refused_before_the_task_is_built(tmp_path: Path) -> None:
    class Never(Toy):
        def build(self, config: Config) -> Built:
            raise AssertionError

    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis").touch()
    with pytest.raises(RecordError, match="exists and is left as it is"):
        quick(Never, out="mine")
    with pytest.raises(RecordError, match="is not a record"):
        quick(Never, out="mine", force=True)


def test_out_and_force(tmp_path: Path) -> None:
    first = quick(out="here")
    second = quick(out=tmp_path / "here", force=True)
    assert wcbench.load("here").manifest.id == second.manifest.id != first.manifest.id
    assert [p.name for p in tmp_path.iterdir()] == ["here"]


@pytest.mark.parametrize("task", [3, int, "", None, lambda: None])
def test_what_is_no_task(task: Any) -> None:
    with pytest.raises(UsageError, match=r"is no task|Unknown task"):
        quick(task)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch size 0 is refused: a training step needs at least one sample"),
        ({"batch_size": -3}, "batch size -3 is refused"),
        ({"settings": {"batch_size": 0}}, "batch size 0 is refused"),
        ({"settings": {"foo": 1}}, "Unknown setting 'foo'"),
        ({"settings": {"batch_size": "two"}}, "setting batch_size=two: 'two' is not a value of type int"),
        ({"preset": "huge"}, "Unknown preset 'huge'"),
        ({"precision": "fp64"}, "Unknown precision 'fp64'"),
        ({"passes": ["nothing"]}, "Unknown pass 'nothing'"),
        ({"passes": []}, r"No pass is named\.\nName one or more of: operators, memory, timing"),
        ({"steps": 0}, "--steps 0 is refused"),
        ({"warmup": -1}, "--warmup -1 is refused"),
        ({"threads": 0}, "--threads 0 is refused"),
        ({"seed": -1}, "seed -1 is refused"),
        ({"seed": 2**63}, "seed 9223372036854775808 is refused"),
        ({"device": "tpu"}, "Unknown device 'tpu'"),
        ({"device": ""}, "Unknown device ''"),
        ({"device": "meta"}, "Device 'meta' is not supported"),
    ],
)
def test_a_request_that_cannot_work_is_refused_with_the_reason(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        quick(**options)
    assert list(tmp_path.iterdir()) == []


def test_a_variant_that_a_task_does_not_have() -> None:
    with pytest.raises(UnknownNameError, match="Unknown variant 'x'"):
        quick("spatial-transformer@x")


@pytest.mark.usefixtures("torch_unchanged")
@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ValueError("the data set is gone\nsecond line"), "ValueError: the data set is gone$"),
        (RuntimeError(), "RuntimeError$"),
        (MemoryError(), "Out of memory at .* on cpu: MemoryError"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"), "Out of memory at .*can't allocate"),
    ],
)
@pytest.mark.parametrize("where", ["build", "step 2"])
def test_what_a_task_raises_is_told_as_the_tasks(tmp_path: Path, error: Exception, message: str, where: str) -> None:
    class Raising(Toy):
        def build(self, config: Config) -> Built:
            if where == "build":
                raise error
            built = super().build(config)

            def step(batch: torch.Tensor) -> torch.Tensor:
                if batch[0, 0] == 2:
                    raise error
                return built.step(batch)

            return Built(step, built.batch, built.modules, 2)

    with pytest.raises(TaskError, match=message.rstrip("$")) as caught:
        quick(Raising, passes=["timing", "timeline"])
    assert f"{where} of pass timing (preset tiny, batch size 2)" in caught.value.message
    assert "\n" not in caught.value.message
    assert caught.value.__cause__ is error
    assert list(tmp_path.iterdir()) == []


def test_a_build_that_returns_something_else() -> None:
    class Odd(Toy):
        def build(self, config: Config) -> Built:
            return None  # type: ignore[return-value]

    with pytest.raises(TaskError, match=r"Odd\.build returned NoneType, not wcbench\.tasks\.base\.Built"):
        quick(Odd)


def test_a_task_without_presets() -> None:
    class Bare(Task):
        def build(self, config: Config) -> Built:
            raise AssertionError

    with pytest.raises(UsageError, match="Bare defines no presets"):
        quick(Bare)


# module:Class


@pytest.mark.parametrize(
    ("source", "name", "message", "kind"),
    [
        ("class T: pass", "T", "is not a subclass of wcbench.Task", UsageError),
        ("T = 3", "T", "is not a subclass of wcbench.Task", UsageError),
        ("", "T", "cannot be imported: .*has no attribute 'T'", UsageError),
        ("", "", "cannot be imported", UsageError),
        ("import nowhere_to_be_found", "T", "cannot be imported: No module named 'nowhere_to_be_found'", UsageError),
        ("1 / 0", "T", "failed on import: ZeroDivisionError: division by zero", TaskError),
        ("def (", "T", "failed on import: SyntaxError", TaskError),
        ("import wcbench\nclass T(wcbench.Task): presets = {}", "T", "has no method build", UsageError),
        (
            "import wcbench\nclass T(wcbench.Task):\n  def __init__(self, size): pass\n  def build(self, config): pass",
            "T",
            "cannot be created: TypeError: .*size",
            TaskError,
        ),
    ],
)
def test_a_module_of_ones_own_that_is_no_task(
    tmp_path: Path, source: str, name: str, message: str, kind: type[Exception]
) -> None:
    (tmp_path / "own_odd_module.py").write_text(source, encoding="utf-8")
    sys.modules.pop("own_odd_module", None)
    try:
        with pytest.raises(kind, match=f"'own_odd_module:{name}' {message}"):
            load_module.load_task(f"own_odd_module:{name}")
    finally:
        sys.modules.pop("own_odd_module", None)


def test_a_name_without_module() -> None:
    with pytest.raises((UsageError, TaskError), match="':T'"):
        load_module.load_task(":T")


# load, runs


def test_unreadable_records_are_left_out_and_named() -> None:
    good, bad = quick(), quick()
    assert bad.path is not None
    (bad.path / "manifest.json").write_text("{", encoding="utf-8")
    with pytest.warns(UserWarning, match=f"{bad.path}/manifest.json is not valid JSON"):
        assert [run.manifest.id for run in wcbench.runs()] == [good.manifest.id]


def test_the_variable_for_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WCBENCH_RUNS", str(tmp_path / "elsewhere"))
    made = quick()
    assert made.path is not None
    assert made.path.parent.parent == tmp_path / "elsewhere"
    assert wcbench.load(made.name).path == made.path
    with pytest.raises(UsageError, match="There are no records yet"):
        wcbench.load(made.name, runs="other")


@pytest.mark.parametrize("run", ["spatial-transformer", "resnt", "a" * 5000, "a\0b", "x:y:z"])
def test_a_run_that_is_not_there(run: str) -> None:
    with pytest.raises(UsageError, match=r"No record '.* under runs\.\nThere are no records yet"):
        wcbench.load(run)


# summary


def test_summary_is_plain_json_and_names_the_run() -> None:
    made = quick()
    found = wcbench.summary(made)
    assert found["task"] == made.name
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert found["run"] == str(made.path)
    assert found["passes"]["timing"]["overhead"] == 1
    assert found["hotspots"] is None


# report


WHO = {"hostname": "lab-node-7", "user": "mdoe", "home": "/home/mdoe"}


@pytest.fixture
def private(tmp_path: Path) -> Profile:
    """A record that tells in many places whose it is."""
    made = quick(save=False)
    manifest = record.Manifest(
        **{
            **vars(made.manifest),
            "machine": {"identity": WHO, "environment": {"LD_PRELOAD": "/home/mdoe/lib.so"}},
            "command": ("wcbench", "profile", "/home/mdoe/train.py", "--runs", "/home/mdoe/runs"),
            "notes": (record.Note("power", "lab-node-7 has no NVML, says mdoe@lab-node-7 in /home/mdoe/log"),),
        }
    )
    return Profile(manifest, {"steps": made.arrow("steps")}).save(tmp_path / "home" / "mdoe" / "run")


def test_a_report_hides_whose_record_it_is(private: Profile, tmp_path: Path) -> None:
    path = wcbench.report(private, tmp_path / "shared.html")
    text = path.read_text(encoding="utf-8")
    assert "</html>" in text
    for word in ("mdoe", "lab-node-7"):
        assert word not in text
    named = wcbench.report(private, tmp_path / "named.html", redact=False).read_text(encoding="utf-8")
    assert "lab-node-7" in named
    assert "/home/mdoe" in named


def test_a_report_lies_in_its_records_folder(private: Profile) -> None:
    assert private.path is not None
    path = wcbench.report(str(private.path))
    assert path == private.path / "report.html"
    with pytest.raises(RecordError, match=r"report\.html exists and is left as it is"):
        wcbench.report(private.path)
    assert wcbench.report(private.path, force=True) == path
    assert record.load(private.path).manifest == private.manifest


def test_an_existing_file_is_kept_unless_forced(private: Profile, tmp_path: Path) -> None:
    target = tmp_path / "r.html"
    target.write_text("mine", encoding="utf-8")
    with pytest.raises(RecordError, match=r"r\.html exists and is left as it is\.\n.*--force"):
        wcbench.report(private, target)
    assert target.read_text(encoding="utf-8") == "mine"
    wcbench.report(private, target, force=True)
    assert "</html>" in target.read_text(encoding="utf-8")


def test_a_report_that_cannot_be_written(private: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    with pytest.raises(RecordError, match=r"file/r\.html could not be written: "):
        wcbench.report(private, tmp_path / "file" / "r.html")
    (tmp_path / "folder").mkdir()
    with pytest.raises(RecordError, match="folder is a folder"):
        wcbench.report(private, tmp_path / "folder", force=True)

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    before = sorted(tmp_path.rglob("*"))
    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(RecordError, match=r"file could not be written: No space left on device\."):
        wcbench.report(private, tmp_path / "file", force=True)
    assert sorted(tmp_path.rglob("*")) == before
    assert (tmp_path / "file").read_text(encoding="utf-8") == "mine"


def test_a_record_without_a_folder_needs_a_file_for_its_report(tmp_path: Path) -> None:
    made = quick(save=False)
    with pytest.raises(UsageError, match="Name a file"):
        wcbench.report(made)
    assert wcbench.report(made, tmp_path / "new" / "r.html").is_file()


# tasks, doctor


def test_the_catalogue_is_what_is_listed() -> None:
    names = [row.name for row in api.tasks()]
    assert (names[0], names[18], names[19]) == ("image-classification", "natural-language", "mlperf-resnet")
    assert len(names) >= 19 + 8 + 3


def test_doctor_tells_each_state_with_a_finding(tmp_path: Path) -> None:
    found = api.doctor(tmp_path / "not" / "yet")
    assert {check.state for check in found.checks} <= {"ok", "absent"}
    assert all(check.finding for check in found.checks)
    assert not (tmp_path / "not").exists()
    data = found.to_dict()
    assert data["schema"] == "wcbench.doctor/1"
    assert json.loads(json.dumps(data)) == data


def test_doctor_finds_a_runs_folder_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    broken = [check for check in api.doctor(tmp_path / "file").checks if check.state == "broken"]
    assert [check.name for check in broken] == ["runs folder"]
