"""Names that tell what somebody built are gone, and what they cost stays."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import wcbench
from wcbench import api
from wcbench.analysis.anonymity import anonymous, stand_ins
from wcbench.record import Note, PassInfo, Profile, new_profile
from wcbench.schema import to_arrow

SECRET = "acme_secret_gemm_v3_kernel"
OWN = "acme::fused_router"
FACTS: dict[str, Any] = {
    "preset": "small", "settings": {}, "batch_size": 4, "samples": 4, "precision": "fp32", "device": "cuda",
    "tensors": "real", "seed": 0, "steps": 1, "warmup": 0, "seconds": 1.0,
}  # fmt: skip


def profile(*names: str) -> Profile:
    """A record of kernels, 1000 ns each, launched by an operator of the user's own in a module."""
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
        task="acme.nets:Router",
        variant=None,
        suites=[],
        machine={"cpu": {}, "gpus": []},
        command=["wcbench", "import", "acme.json"],
        passes={"timeline": PassInfo(**FACTS)},
        tables={"kernels": to_arrow("kernels", columns, "timeline"), "steps": to_arrow("steps", steps, "timeline")},
        notes=[Note("timeline", f"{SECRET} ran long.")],
    )


def test_equal_names_have_one_stand_in_that_tells_the_category() -> None:
    found = stand_ins(profile(SECRET, "aten_like_nothing", SECRET), profile("other_relu_kernel", SECRET))
    assert found[SECRET] == "GEMM kernel 1"
    assert found["other_relu_kernel"].endswith("kernel 3")
    assert found[OWN] == "operator 1"
    assert found["acme_net.router"] == "module 1"
    assert "aten::addmm" not in found
    assert len(set(found.values())) == len(found)


def test_names_go_from_texts_keys_and_lists_and_the_rest_stays() -> None:
    given = {"run": "/x", "command": ["a"], "rows": [{"name": SECRET, "n": 3}], "says": f"see {SECRET}!", SECRET: 1.5}
    found = anonymous(given, {SECRET: "GEMM kernel 1"})
    assert found == {
        "run": None, "command": [], "rows": [{"name": "GEMM kernel 1", "n": 3}], "says": "see GEMM kernel 1!",
        "GEMM kernel 1": 1.5,
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
