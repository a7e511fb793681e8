"""Names that tell what somebody built are gone, and what they cost stays."""

from __future__ import annotations

import csv
import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import wcbench
from wcbench import api
from wcbench.analysis.anonymity import COLUMNS, anonymous, is_public, stand_ins, stand_ins_of_study
from wcbench.analysis.study import Study
from wcbench.record import Note, PassInfo, Profile, new_profile
from wcbench.schema import TABLES, table_schema, to_arrow

SECRET = "acme_secret_gemm_v3_kernel"
OWN = "acme::fused_router"
FACTS: dict[str, Any] = {
    "preset": "small", "settings": {}, "batch_size": 4, "samples": 4, "precision": "fp32", "device": "cuda",
    "tensors": "real", "seed": 0, "steps": 1, "warmup": 0, "seconds": 1.0,
}  # fmt: skip


def profile(
    *names: str, task: str = "acme.nets:Router", settings: dict[str, Any] | None = None, **tables: Any
) -> Profile:
    """A record of kernels, 1000 ns each, launched by an operator of the user's own in a module; ``tables`` : more."""
    columns = {
        "name": list(names),
        "rank": [0] * len(names),
        "device": ["cuda:0"] * len(names),
        "start_ns": [1000 * n for n in range(len(names))],
        "duration_ns": [1000] * len(names),
        "step": [0] * len(names),
        "phase": ["forward"] * len(names),
        "op": [OWN, *["aten::addmm"] * (len(names) - 1)],
        "module": ["acme_net.router"] * len(names),
    }
    steps = {"index": [0], "duration_ns": [5000], "role": ["measured"], "kind": ["train"], "rank": [0]}
    return new_profile(
        task=task,
        variant=None,
        suites=[],
        machine={"cpu": {}, "gpus": []},
        command=["wcbench", "import", "acme.json"],
        passes={name: PassInfo(**FACTS | {"settings": settings or {}}) for name in ("timeline", "counters")},
        tables={
            "kernels": to_arrow("kernels", columns, "timeline"),
            "steps": to_arrow("steps", steps, "timeline"),
            **tables,
        },
        notes=[Note("timeline", f"{SECRET} ran long.")],
    )


def test_equal_names_have_one_stand_in_that_tells_the_category() -> None:
    found = stand_ins(profile(SECRET, "aten_like_nothing", SECRET), profile("other_relu_kernel", SECRET))
    assert found[SECRET] == "GEMM kernel 1"
    assert found["other_relu_kernel"].endswith("kernel 3")
    assert found[OWN] == "operator 1"
    assert found["acme_net.router"] == "module 2"
    assert "aten::addmm" not in found
    assert len(set(found.values())) == len(found)


def test_names_go_from_texts_keys_and_lists_and_the_rest_stays() -> None:
    given = {"run": "/x", "command": ["a"], "rows": [{"name": SECRET, "n": 3}], "says": f"see {SECRET}!", SECRET: 1.5}
    found = anonymous(given, {SECRET: "GEMM kernel 1"})
    assert found == {
        "run": None, "command": [], "rows": [{"name": "GEMM kernel 1", "n": 3}], "says": "see GEMM kernel 1!",
        "GEMM kernel 1": 1.5,
    }  # fmt: skip


def test_words_of_wcbench_are_no_names() -> None:
    """A module called memory must not rename a field, nor one called GEMM a category, nor a kernel profile the form."""
    names = {"memory": "module 1", "GEMM": "module 2", "wcbench.profile/1": "kernel 1", "timeline": "module 3"}
    given = {
        "schema": "wcbench.profile/1", "measured_memory": {"pass": "timeline"}, "memory": {"name": "memory"},
        "full": {"GEMM": 1.0}, "rows": [{"category": "GEMM", "name": "GEMM", "module": "timeline"}],
        "text": "the peak of memory in GEMM",
    }  # fmt: skip
    assert anonymous(given, names) == {
        "schema": "wcbench.profile/1", "measured_memory": {"pass": "timeline"}, "memory": {"name": "module 1"},
        "full": {"GEMM": 1.0}, "rows": [{"category": "GEMM", "name": "module 2", "module": "module 3"}],
        "text": "the peak of memory in GEMM",
    }  # fmt: skip


def test_a_plain_word_is_replaced_only_where_it_is_a_word() -> None:
    found = anonymous({"text": "zebra, and zebras; acme_k1_v2"}, {"zebra": "module 1", "acme_k1": "kernel 1"})
    assert found == {"text": "module 1, and zebras; kernel 1_v2"}


def test_commands_and_folders_go_wherever_they_stand() -> None:
    given = {"a": {"run": "/x/acme", "command": ["wcbench", "acme"]}, "rows": [{"run": 3, "record": "/x/acme"}]}
    assert anonymous(given, {}) == {"a": {"run": None, "command": []}, "rows": [{"run": 3, "record": None}]}


def test_a_report_is_made_whatever_modules_are_called() -> None:
    """Names that are fields, categories or passes of wcbench: every section is still there."""
    plain = api.make_report(profile("memory", "GEMM", "timeline", "hotspots", "rows", "schema"))
    made = api.make_report(profile("memory", "GEMM", "timeline", "hotspots", "rows", "schema"), anonymize=True)
    assert [section.id for section in made.report.sections] == [section.id for section in plain.report.sections]
    table = made.report.section("hotspots").table("hotspots-table")
    assert all(" kernel " in name for name in table.column("kernel"))
    assert table.column("category") == plain.report.section("hotspots").table("hotspots-table").column("category")


def test_functions_and_own_tasks_of_a_study() -> None:
    tables = {
        "hotspots": pd.DataFrame({"function": [SECRET, "aten::mm"]}),
        "hotspot_counts": pd.DataFrame({"top": ["other_own_kernel", None]}),
    }
    study = Study({"table": {"workloads": ["image-classification", "acme.nets:Router", "resnet"]}}, tables)
    assert stand_ins_of_study(study) == {
        SECRET: "function 1", "other_own_kernel": "function 2", "acme.nets:Router": "workload 1",
        "resnet": "workload 2",
    }  # fmt: skip


@pytest.mark.parametrize("form", ["html", "json"])
def test_no_report_holds_a_name(form: str) -> None:
    made = api.make_report(profile(SECRET, "aten_like_nothing"), anonymize=True)
    text = made.html() if form == "html" else json.dumps(made.to_dict(), default=str)
    assert "GEMM kernel 1" in text
    for name in ("acme", "aten_like_nothing", "Router"):
        assert name not in text
    plain = api.make_report(profile(SECRET, "aten_like_nothing"))
    assert SECRET in plain.html()


def test_exports_hold_none_either(tmp_path: Path) -> None:
    file = wcbench.export(profile(SECRET, "other_relu_kernel"), tmp_path / "k.csv", table="kernels", anonymize=True)
    rows = list(csv.DictReader(file.read_text().splitlines()))
    assert rows[0]["name"] == "GEMM kernel 1"
    assert "acme" not in file.read_text()
    assert [row["duration_ns"] for row in rows] == ["1000", "1000"]


def test_tables_of_arrow_are_not_touched() -> None:
    made = profile(SECRET)
    api.make_report(made, anonymize=True)
    assert made.arrow("kernels")["name"].cast(pa.string()).to_pylist() == [SECRET]


OURS = {
    "pass", "kind", "role", "phase", "quantity", "unit", "law", "moment", "status", "action", "category", "dtype",
    "direction", "primitive",
}  # fmt: skip
PUBLIC_COLUMNS = {
    # devices as torch names them, and what oneDNN, CUDA, the device's counters and a benchmark's rules name
    *((table, "device") for table in ("kernels", "memory", "totals")),
    *(("primitives", column) for column in ("implementation", "memory", "attributes", "shape")),
    ("kernels", "collective"), ("runtime", "name"), ("operators", "overload"), ("counters", "metric"),
    ("trainings", "benchmark"), ("trainings", "metric"), ("epochs", "metric"),
}  # fmt: skip


def test_every_column_of_texts_is_told_to_hold_names_or_not() -> None:
    """A new column cannot be forgotten."""
    texts = {(table, c.name) for table in TABLES for c in table_schema(table).columns if c.type == "text"}
    names = {column for columns in COLUMNS.values() for column in columns}
    assert names | PUBLIC_COLUMNS == {column for column in texts if column[1] not in OURS}
    assert not names & PUBLIC_COLUMNS


def test_a_kernel_that_stands_in_counters_alone() -> None:
    columns = {"name": [SECRET], "metric": ["SQ_WAVES"], "unit": [""], "value": [7.0], "calls": [1], "rank": [0]}
    made = profile("other_relu_kernel", counters=to_arrow("counters", columns, "counters"))
    assert SECRET not in json.dumps(api.make_report(made, anonymize=True).to_dict(), default=str)


def test_modules_that_hold_others_have_stand_ins_too() -> None:
    """``acme_net`` launches nothing itself and stands in no column."""
    assert stand_ins(profile(SECRET))["acme_net"] == "module 1"
    assert stand_ins(profile(SECRET))["acme_net.router"] == "module 2"


def test_settings_of_a_task_of_ones_own_go_and_others_stay() -> None:
    settings = {"batch_size": 4, "acmeknob": 9, "acmemode": "acmemost"}
    made = profile(SECRET, settings=settings)
    told = json.dumps(api.make_report(made, anonymize=True).to_dict(), default=str)
    assert "acme" not in told
    assert '"setting 1": 9' in told
    assert '"batch_size": 4' in told
    ours = profile(SECRET, task="image-classification", settings=settings)
    assert '"acmeknob": 9' in json.dumps(api.make_report(ours, anonymize=True).to_dict(), default=str)


@pytest.mark.parametrize(
    ("name", "public"),
    [
        ("aten::addmm", True),
        ("autograd::engine::evaluate_function: AddmmBackward0", True),
        ("torch::autograd::AccumulateGrad", True),
        ("Optimizer.step#AdamW.step", True),
        ("nccl:all_reduce", True),
        ("ProfilerStep#3", True),
        ("(outside modules)", True),
        ("(anonymous namespace)::acme_kernel(float*)", False),  # static kernels of CUDA, as cuobjdump names them
        ("Optimizer.step#AcmeLion.step", False),
        ("torch::autograd::CppNode<acme::Fn>", False),
        ("autograd::engine::evaluate_function: AcmeFnBackward", False),  # of a Function that somebody wrote
    ],
)
def test_what_is_public(name: str, public: bool) -> None:
    assert is_public(name) is public
    assert (name in stand_ins(profile(name))) is not public


def test_a_report_of_a_table_names_none_of_its_workloads(tmp_path: Path) -> None:
    """Nine workloads, short and long names, of two suites and three families; what a trace left out is a name too."""
    names = ["zq1", "zqbert", "zq-gnn", "ZQ", "zqlm_7b", "zqdlrm", "zqvit", "zqcnn", "zqrnn"]
    rows = [f"{name},{'zqours' if i < 5 else 'zqtheirs'},zqfam{i % 3},{1 + i},{(7 * i) % 9 + 1},{2 ** i}"
            for i, name in enumerate(names)]  # fmt: skip
    file = tmp_path / "zqtable.csv"
    file.write_text("\n".join(["workload,suite,family,time,bytes,flops", "unit,,,s,B,FLOP", *rows]) + "\n")
    study = api.study(table=file, against="zqtheirs", radius=1.0, out=tmp_path / "s")
    made = api.make_report(study, anonymize=True)
    for told in (made.html(), json.dumps(made.to_dict(), default=str)):
        assert "workload 3" in told
        assert not re.findall(r"(?i).{0,60}zq.{0,60}", told)


def test_categories_that_a_program_chose_are_names(tmp_path: Path) -> None:
    made = dataclasses.replace(
        profile(SECRET).manifest, notes=[Note("timeline", "3 events of category zqcat are left out.")]
    )
    record = Profile(made, profile(SECRET)._arrow)
    assert "zqcat" not in json.dumps(api.make_report(record, anonymize=True).to_dict(), default=str)
