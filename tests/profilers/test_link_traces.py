"""Linking and nesting over real Kineto files of several ages, against a pandas merge and against interval unions."""

from __future__ import annotations

import functools
import gzip
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from wcbench.profilers import link

FILES = {
    "2020, integer microseconds": "kineto_samples_resnet50_num_workers_0__2d19c63_worker0.pt.trace.json.gz",
    "2023, integer microseconds": "hta_timeline_analysis__sampled_rank-0.json.gz",
    "2023, correlations used twice": "segment_anything_fast_amg_trace.json.gz",
    "2025, float microseconds": "tracelens_h100_gaunernst_bert-small-uncased__1016001.json.gz",
    "2025, ROCm graph": "tracelens_inference_vllm_decode_full_graph_execution.json.gz",
}
OPERATORS = {"operator", "cpu_op", "user_annotation"}
RUNTIME = {"runtime", "cuda_runtime", "cuda_driver"}
DEVICE = {"kernel", "memcpy", "memset", "gpu_memcpy", "gpu_memset"}

every_file = pytest.mark.parametrize("file", FILES.values(), ids=FILES.keys())


@functools.cache
def events(path: Path) -> pd.DataFrame:
    """The complete events of a file: kind, name, thread, start and end in integer nanoseconds, correlation."""
    text = gzip.decompress(path.read_bytes()).decode()
    data: Any = json.loads(text, parse_float=Decimal)
    rows = []
    for event in data if isinstance(data, list) else data["traceEvents"]:
        if event.get("ph") == "X" and event.get("cat"):
            start, duration = (int(Decimal(event[key]) * 1000) for key in ("ts", "dur"))
            correlation = event.get("args", {}).get("correlation", -1)
            rows.append(
                (
                    event["cat"].lower(),
                    event["name"],
                    f"{event['pid']}/{event['tid']}",
                    start,
                    start + duration,
                    correlation,
                )
            )
    frame = pd.DataFrame(rows, columns=["kind", "name", "thread", "start", "end", "correlation"])
    frame["thread"] = pd.factorize(frame["thread"])[0].astype(np.int64)
    return frame


def kind(frame: pd.DataFrame, kinds: set[str]) -> pd.DataFrame:
    return frame[frame["kind"].isin(kinds)].reset_index(drop=True)


@every_file
def test_kernels_link_as_a_pandas_merge_links_them(shared: Path, file: str) -> None:
    frame = events(shared / "traces" / "kineto" / file)
    device, runtime = kind(frame, DEVICE), kind(frame, RUNTIME)
    assert len(device) > 50
    launches = link.link_launches(
        device["correlation"].to_numpy(np.int64), runtime["correlation"].to_numpy(np.int64), list(runtime["name"])
    )
    first = runtime.reset_index().drop_duplicates("correlation")[["correlation", "index"]]
    merged = device.merge(first, on="correlation", how="left")
    assert launches.launch.tolist() == merged["index"].fillna(-1).astype(int).tolist()
    assert launches.orphans == int(merged["index"].isna().sum())
    silent = runtime[runtime["name"].str.contains("launch", case=False)]
    assert launches.lost == int((~silent["correlation"].isin(device["correlation"])).sum())


def test_one_graph_launch_owns_nearly_all_kernels_of_the_rocm_trace(shared: Path) -> None:
    frame = events(shared / "traces" / "kineto" / FILES["2025, ROCm graph"])
    device, runtime = kind(frame, {"kernel"}), kind(frame, RUNTIME)
    assert len(device) == 425
    launches = link.link_launches(
        device["correlation"].to_numpy(np.int64), runtime["correlation"].to_numpy(np.int64), list(runtime["name"])
    )
    by_name = runtime["name"].iloc[launches.launch].value_counts()
    # counted in the file itself; FORMATS.md says 420
    assert by_name.to_dict() == {"hipGraphLaunch": 421, "hipLaunchKernel": 3, "hipExtModuleLaunchKernel": 1}


def union(frame: pd.DataFrame) -> int:
    """Measure of the union of intervals, by the running maximum of ends."""
    ranked = frame.sort_values("start")
    before = ranked["end"].cummax().shift(fill_value=ranked["start"].min())
    return int((ranked["end"] - np.maximum(ranked["start"], before)).clip(lower=0).sum())


@every_file
def test_self_times_are_sound_on_real_files(shared: Path, file: str) -> None:
    host = kind(events(shared / "traces" / "kineto" / file), OPERATORS)
    nesting = link.nest(*(host[column].to_numpy(np.int64) for column in ("thread", "start", "end")))
    assert (nesting.self_ns >= 0).all()
    busy = sum(union(rows) for _, rows in host.groupby("thread"))
    assert busy - nesting.clipped_ns <= int(nesting.self_ns.sum()) <= busy
    assert nesting.clipped_ns < 0.01 * busy
    inside = nesting.parent >= 0
    assert (host["start"].to_numpy()[nesting.parent[inside]] <= host["start"].to_numpy()[inside]).all()
    assert (nesting.depth[inside] == nesting.depth[nesting.parent[inside]] + 1).all()


def test_every_launch_of_a_step_finds_its_operator(shared: Path) -> None:
    """In the 2020 file each launch lies in an operator; its kernels follow it whatever their ids say (CASE 10)."""
    frame = events(shared / "traces" / "kineto" / FILES["2020, integer microseconds"])
    host, runtime = kind(frame, OPERATORS), kind(frame, RUNTIME)
    launch = runtime[runtime["name"] == "cudaLaunchKernel"].iloc[::50]
    columns = [host[column].to_numpy(np.int64) for column in ("thread", "start", "end")]
    marks = host["name"].str.contains("#").to_numpy()
    every = link.HostEvents(list(host["name"]), marks, *columns, np.full(len(host), -1, np.int64))
    nesting = link.nest(*columns)
    thread, start = (launch[column].to_numpy(np.int64) for column in ("thread", "start"))
    found = link.innermost(every, nesting, thread, start)
    for row, thread_, at in zip(found.tolist(), thread.tolist(), start.tolist(), strict=True):
        around = host[(host["thread"] == thread_) & (host["start"] <= at) & (host["end"] > at)]
        assert (row >= 0) == bool(len(around))
        if row >= 0:
            assert host["start"][row] == around["start"].max()  # the innermost began last
