"""Every Kineto file of ../shared/traces against an independent computation: plain json and pandas."""

from __future__ import annotations

import gzip
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.conftest import SHARED
from wcbench import api
from wcbench.errors import ReadError
from wcbench.record import Profile

KINETO = SHARED / "traces" / "kineto"
FILES = sorted(path.name for path in KINETO.glob("*")) if KINETO.is_dir() else []
WORK = {"kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset"}


def content(path: Path) -> Iterator[bytes]:
    """The JSON texts that a file holds."""
    if path.name.endswith(".tar.gz"):
        with tarfile.open(path) as archive:
            for member in archive.getmembers():
                file = archive.extractfile(member)
                if file is not None:
                    yield file.read()
        return
    data = path.read_bytes()
    yield gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data


def events(path: Path) -> list[dict[str, Any]]:
    found = []
    for text in content(path):
        trace = json.loads(text)
        found += trace if isinstance(trace, list) else trace["traceEvents"]
    return found


def work(path: Path) -> pd.DataFrame:
    """Kernels, copies and fills: name and nanoseconds."""
    rows = [
        (event["name"], round(event["dur"] * 1000))
        for event in events(path)
        if event.get("ph") == "X" and str(event.get("cat")).lower() in WORK
    ]
    return pd.DataFrame(rows, columns=["name", "ns"]).astype({"ns": "int64"})


@pytest.fixture(scope="module")
def imported() -> dict[str, Profile]:
    return {}


def read(name: str, cache: dict[str, Profile]) -> Profile:
    if name not in cache:
        cache[name] = api.read(KINETO / name, jobs=1)
    return cache[name]


@pytest.fixture(params=FILES or ["missing"])
def name(request: pytest.FixtureRequest, shared: Path) -> str:
    return str(request.param)


def test_counts_time_and_top_kernels_are_those_of_a_plain_reading(name: str, imported: dict[str, Profile]) -> None:
    if name == "ibm_aiu_allreduce_tp4.json":
        with pytest.raises(ReadError, match="no categories"):
            read(name, imported)
        return
    expected = work(KINETO / name)
    kernels = read(name, imported).table("kernels")
    found = kernels[kernels["device"] != "cpu"]
    assert len(found) == len(expected)
    assert int(found["duration_ns"].sum()) == int(expected["ns"].sum())
    ours = found.assign(name=found["name"].astype(str)).groupby("name")["duration_ns"].sum().nlargest(5)
    theirs = expected.groupby("name")["ns"].sum().nlargest(5)
    assert sorted(ours.tolist()) == sorted(theirs.tolist())
    assert {n for n, t in ours.items() if t > ours.min()} == {n for n, t in theirs.items() if t > theirs.min()}


def test_nothing_is_lost_without_a_word(name: str, imported: dict[str, Profile]) -> None:
    if name.startswith("ibm"):
        pytest.skip("refused")
    assert list(read(name, imported).manifest.losses) == []


def test_operators_and_calls_are_all_there_and_self_times_add_up(name: str, imported: dict[str, Profile]) -> None:
    if name.startswith("ibm"):
        pytest.skip("refused")
    spans = [event for event in events(KINETO / name) if event.get("ph") == "X"]
    kinds = [str(event.get("cat")).lower() for event in spans]
    old_marks = sum(
        event["name"].startswith(("ProfilerStep#", "Optimizer.")) for event in spans if event.get("cat") == "Operator"
    )
    record = read(name, imported)
    ops, runtime = record.table("ops"), record.table("runtime")
    assert len(ops) == kinds.count("cpu_op") + kinds.count("operator") - old_marks
    assert len(runtime) == sum(kind in ("runtime", "cuda_runtime", "cuda_driver") for kind in kinds)
    assert (ops["self_ns"] >= 0).all()
    assert (ops["parent"].isna() == (ops["depth"] == 0)).all()


def test_launches_are_those_of_a_dictionary_of_correlations(name: str, imported: dict[str, Profile]) -> None:
    if name.startswith("ibm") or name.endswith(".tar.gz"):
        pytest.skip("refused, or of several ranks")
    calls: dict[int, str] = {}
    spans = [event for event in events(KINETO / name) if event.get("ph") == "X"]
    for event in sorted(
        (e for e in spans if "runtime" in str(e.get("cat")).lower() or e.get("cat") == "cuda_driver"),
        key=lambda e: e["ts"],
    ):
        calls.setdefault(event["args"].get("correlation"), event["name"])
    expected = sum(
        event.get("args", {}).get("correlation") in calls for event in spans if str(event.get("cat")).lower() in WORK
    )
    record = read(name, imported)
    kernels, runtime = record.table("kernels"), record.table("runtime")
    linked = kernels[kernels["launch"].notna()]
    assert len(linked) == expected
    if expected:
        launched = runtime.iloc[linked["launch"].astype(int)]
        assert (launched["start_ns"].to_numpy() <= linked["start_ns"].to_numpy() + 1_000_000).all()
