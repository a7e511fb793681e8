"""The suites: who belongs to them, what is said of them against the published files, and what a file must hold."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from wcbench import api, suites
from wcbench.cli import app
from wcbench.errors import UnknownNameError, WcbenchError
from wcbench.suites import Fact, Member, Suite, load_suite, suite_ids
from wcbench.tasks.catalog import AIBENCH, MLPERF, MLPERF_CURRENT, TASKS

WHOLE = (AIBENCH, MLPERF, MLPERF_CURRENT)
MEMBERS = [(suite, member) for suite in map(load_suite, WHOLE) for member in suite.members]
every_member = pytest.mark.parametrize(("suite", "member"), MEMBERS, ids=[m.task for _, m in MEMBERS])


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_the_suites_and_their_sizes() -> None:
    sizes = {"aibench-training-v1.1": 19, "aibench-training-v1.1-rpr": 3, "mlperf-training-v0.7": 8}
    assert {id: len(load_suite(id).members) for id in sizes} == sizes
    assert set(WHOLE) <= set(suite_ids())


def test_every_member_is_a_task_of_the_catalogue_and_in_one_whole_suite() -> None:
    held = [member.task for _, member in MEMBERS]
    assert len(set(held)) == len(held)
    assert set(held) <= set(TASKS.names())


def test_an_unknown_suite_is_told_with_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match="Unknown suite 'aibench'"):
        load_suite("aibench")


def test_a_task_knows_its_suites() -> None:
    assert suites.suites_of("image-classification") == ("aibench-training-v1.1", "aibench-training-v1.1-rpr")
    assert suites.suites_of("mlperf-ssd") == ("mlperf-training-v0.7",)
    assert suites.suites_of("mine:Mlp") == ()


@every_member
def test_ids_are_the_tasks_aliases(suite: Suite, member: Member) -> None:
    """So that the suite's own name for a task works on the command line; today's MLPerf has none to add."""
    if suite.id != MLPERF_CURRENT:
        assert TASKS.row(member.id).name == member.task


@every_member
def test_what_is_the_same_says_so_on_both_sides(suite: Suite, member: Member) -> None:
    everything = {other.task: other for _, other in MEMBERS}
    for task in member.same_as:
        assert member.task in everything[task].same_as
        same = [(TASKS.row(name), everything[name]) for name in (member.task, task)]
        assert len({getattr(row, "parameters", None) for row, _ in same}) == 1


def test_resnet_50_is_in_both_suites() -> None:
    member = load_suite(MLPERF).member("mlperf-resnet")
    assert member is not None
    assert member.same_as == ("image-classification",)


def test_identities() -> None:
    """C17 to C19 are absent from the authors' repository."""
    proposed = {member.id for _, member in MEMBERS if member.identity == "proposed"}
    assert proposed == {"DC-AI-C17", "DC-AI-C18", "DC-AI-C19"}
    assert all(member.identity_note for _, member in MEMBERS)


@every_member
def test_a_member_has_a_target_and_a_batch_or_the_reason_why_not(suite: Suite, member: Member) -> None:
    for quantity in ("target", "batch size"):
        fact = member.fact(quantity)
        assert fact is not None, quantity
        assert (fact.value is None) == bool(fact.reason)
    assert len({fact.quantity for fact in member.facts}) == len(member.facts)
    assert member.fact("speed of light") is None


def test_the_subset_is_a_part_of_the_whole() -> None:
    whole, part = load_suite(AIBENCH), load_suite("aibench-training-v1.1-rpr")
    assert part.subset_of == AIBENCH
    assert part.tasks == ("image-classification", "object-detection", "learning-to-rank")
    assert part.source.startswith("benchcouncil.org/aibench/training/specification.html")
    assert part.member("object-detection") is whole.member("object-detection")
    assert part.member("spatial-transformer") is None


def test_the_members_of_the_wc_subset_are_said_to_be_unknown() -> None:
    (fact,) = [fact for fact in load_suite(AIBENCH).facts if "WC subset" in fact.quantity]
    assert fact.value is None
    assert "no source found lists its members" in str(fact.reason)
    assert not [id for id in suite_ids() if id.endswith("-wc")]


def test_todays_mlperf_names_what_it_leaves_out() -> None:
    left = load_suite(MLPERF_CURRENT).not_included
    assert len(left) == 7
    assert all(entry.title and entry.reason for entry in left)
    assert "405B" in left[0].title


# Against the files of published facts


def value(task: str, quantity: str, suite: str = AIBENCH) -> Any:
    member = load_suite(suite).member(task)
    assert member is not None
    fact = member.fact(quantity)
    assert fact is not None
    return fact.value


def test_aibench_against_the_published_file(shared: Path) -> None:
    """Ids, batches and the only target that a page states."""
    found = rows(shared / "published" / "aibench_tasks.csv")
    assert [row["task_id"].split()[0].removeprefix("DC-AI-") for row in found] == [f"C{n}" for n in range(1, 20)]
    for row in found:
        if not row["task_id"].startswith("DC-AI"):
            continue
        task = TASKS.row(row["task_id"]).name
        said = [int(number) for number in re.findall(r"\d+", row["pytorch_batch_size"])]
        if task not in ("video-prediction", "3d-object-reconstruction"):  # these two follow the TensorFlow code
            assert value(task, "batch size") in said, task
    assert found[0]["target_quality"] == f"{value('image-classification', 'target'):.1%}".replace("%", " %")
    assert value("recommendation", "batch size") == 65_536


def test_targets_that_no_page_states_are_from_memory() -> None:
    kinds = {m.task: m.fact("target") for s, m in MEMBERS if s.id == AIBENCH}
    published = [task for task, fact in kinds.items() if fact is not None and fact.kind == "published"]
    assert published == ["image-classification"]
    assert all(fact is not None and fact.kind in ("published", "from memory", None) for fact in kinds.values())


def test_mlperf_against_the_published_file(shared: Path) -> None:
    for row in rows(shared / "published" / "mlperf_v07_tasks.csv"):
        task = TASKS.row(row["task_id"]).name
        number = float(re.findall(r"[\d.]+", row["quality_target"])[0])
        target = value(task, "target", MLPERF)
        assert number == pytest.approx(target * (100 if "%" in row["quality_target"] else 1))
        assert value(task, "runs per result", MLPERF) == int(row["runs_per_result"])
        assert value(task, "evaluation", MLPERF) == row["evaluation_frequency"]


def test_costs_are_the_means_of_the_runs(shared: Path) -> None:
    """From the single runs that NVIDIA submitted: mean minutes and epochs of those on one DGX A100."""
    runs = rows(shared / "published" / "mlperf_v07_nvidia_runs.csv")
    checked = 0
    for member in load_suite(MLPERF).members:
        fact = member.fact("time to target, mean")
        assert fact is not None
        system, benchmark = re.findall(r"results/([\w.]+)/(\w+),", str(fact.source))[0]
        minutes = [float(run["minutes"]) for run in runs if (run["system"], run["benchmark"]) == (system, benchmark)]
        assert fact.note == f"one DGX A100 (8 GPUs), {len(minutes)} runs"
        assert fact.value == pytest.approx(sum(minutes) / len(minutes), abs=0.001)
        checked += 1
    assert checked == 8


# As `wcbench list` shows them


def listed(*arguments: str, columns: int = 110) -> str:
    ended = CliRunner(env={"COLUMNS": str(columns)}).invoke(app, ["list", *arguments])
    assert ended.exit_code == 0, ended.output
    return str(ended.output)


def test_the_list_in_a_wide_terminal() -> None:
    lines = listed().splitlines()
    assert lines[0].split() == ["task", "model", "domain", "metric", "target", "params", "FLOP"]
    rows = {line.split()[0]: re.split(r"\s{2,}", line.strip()) for line in lines if line[:1].islower()}
    assert rows["image-classification"][1:] == [
        "ResNet-50 v1.5",
        "vision",
        "top-1 accuracy",
        "0.749",
        "25.6 M",
        "8.18 G",
    ]
    assert rows["spatial-transformer"][1:] == ["STN", "vision", "top-1 accuracy", "0.99?", "27.4 k", "1.54 M"]
    assert rows["advertising"][3:] == ["no metric", "-", "541 M", "972 k"]
    assert rows["mlperf-dlrm"][4:] == ["0.8025", "24.0 G", "4.92 M"]


@pytest.mark.parametrize("columns", [80, 99, 110, 200])
@pytest.mark.parametrize("suite", [[], ["--suite", AIBENCH], ["--suite", MLPERF_CURRENT]], ids=str)
def test_nothing_is_cut_or_too_wide(columns: int, suite: list[str]) -> None:
    shown = listed(*suite, columns=columns)
    assert "…" not in shown
    assert max(map(len, shown.splitlines())) <= columns
    words = " ".join(shown.split())
    for row in api.tasks():
        if not suite or suite[1] in row.suites:
            assert f"{row.name} " in shown
            assert all(word in words for word in row.model.split())
            assert row.domain in words


def test_the_list_of_a_suite() -> None:
    shown = listed("--suite", "aibench-training-v1.1-rpr", columns=80)
    assert "learning-to-rank" in shown
    assert "spatial-transformer" not in shown
    assert "is from memory of the paper" in " ".join(shown.split())
    whole = " ".join(listed("--suite", AIBENCH).split())
    assert (
        "Proposed, not read in the authors' code: neural-architecture-search, advertising, natural-language." in whole
    )
    assert "Not known: members of the WC subset:" in whole
    assert "Not included: Llama 3.1 405B" in listed("--suite", MLPERF_CURRENT)


def test_the_list_for_a_machine_is_exact() -> None:
    found = json.loads(listed("--suite", MLPERF, "--json"))
    assert found["schema"] == "wcbench.tasks/1"
    assert found["suite"]["id"] == MLPERF
    first, *others = found["tasks"]
    assert len(others) == 7
    assert (first["name"], first["parameters"], first["forward_flops"]) == ("mlperf-resnet", 25_557_032, 8_178_368_512)
    assert first["quality"][MLPERF]["value"] == 0.759
    assert first["suites"] == [MLPERF]
    assert first["factors"]["samples"]["value"] == 1_281_167
    assert "suite" not in json.loads(listed("--json"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--suite", "mlperf"], "Unknown suite 'mlperf'"),
        (["--suite", MLPERF, "--runs"], "--suite lists tasks and --runs lists records"),
    ],
)
def test_a_list_that_cannot_be(arguments: list[str], message: str) -> None:
    error = CliRunner().invoke(app, ["list", *arguments]).exception
    assert isinstance(error, WcbenchError)
    assert message in error.message


# What a file must hold


def test_a_fact_has_a_value_with_its_source_or_a_reason() -> None:
    whole = {"quantity": "q", "value": 1, "unit": "s", "source": "here", "kind": "published"}
    Fact(**whole)  # type: ignore[arg-type]
    Fact(quantity="q", reason="not found")
    for missing in ("unit", "source", "kind"):
        with pytest.raises(WcbenchError, match="needs a unit, a source and a kind"):
            Fact(**{**whole, missing: None})  # type: ignore[arg-type]
    with pytest.raises(WcbenchError, match="needs a unit, a source and a kind"):
        Fact(**{**whole, "kind": "rumour"})  # type: ignore[arg-type]
    for both in ({}, {"value": 1, "reason": "not found"}):
        with pytest.raises(WcbenchError, match="either a value or a reason"):
            Fact(quantity="q", **both)  # type: ignore[arg-type]


MINE = """
id = "mine"
title = "Mine"
publisher = "I"
source = "here"

[[member]]
task = "spatial-transformer"
id = "M1"
title = "Digits"
identity = "verified"
identity_note = "read"
fact = [{ quantity = "target", reason = "none" }]
"""

PART = """
id = "part"
title = "Part"
publisher = "I"
source = "here"
subset_of = "mine"

[[member]]
task = "spatial-transformer"
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(suites, "FOLDER", tmp_path)
    suites._read.cache_clear()
    (tmp_path / "mine.toml").write_text(MINE, encoding="utf-8")
    (tmp_path / "part.toml").write_text(PART, encoding="utf-8")
    return tmp_path


@pytest.fixture(autouse=True)
def _own_suites_are_forgotten() -> Any:
    yield
    suites._read.cache_clear()


def test_a_suite_of_ones_own(folder: Path) -> None:
    assert load_suite("mine").tasks == load_suite("part").tasks == ("spatial-transformer",)
    assert suites.suites_of("spatial-transformer") == ("mine", "part")


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("mine", 'id = "mine"', 'id = "other"', "its id is 'other', and its name says 'mine'"),
        ("mine", 'identity = "verified"', 'identity = "guessed"', "needs an identity of verified, proposed"),
        ("mine", 'reason = "none"', 'raeson = "none"', "unexpected keyword argument 'raeson'"),
        ("mine", 'reason = "none"', "value = 3", "needs a unit, a source and a kind"),
        ("mine", 'title = "Digits"', 'titel = "Digits"', "unexpected keyword argument 'titel'"),
        ("mine", 'publisher = "I"', "", "missing 1 required keyword-only argument: 'publisher'"),
        ("part", 'task = "spatial-transformer"', 'task = "advertising"', "named by its task alone and belongs to"),
        ("part", "[[member]]", '[[member]]\nid = "M1"', "named by its task alone and belongs to"),
        ("part", 'subset_of = "mine"', 'subset_of = "nowhere"', "Unknown suite 'nowhere'"),
    ],
)
def test_a_fault_in_a_file_is_told_with_its_name(folder: Path, file: str, old: str, new: str, message: str) -> None:
    path = folder / f"{file}.toml"
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")
    with pytest.raises(WcbenchError, match=f"{file}.toml: .*{re.escape(message)}"):
        load_suite(file)


def test_loading_is_light() -> None:
    script = "import sys\nfrom wcbench import suites\nlist(suites.suites())\nprint(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True, timeout=60)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert not loaded & {"torch", "numpy", "pandas", "pyarrow", "typer", "rich"}
