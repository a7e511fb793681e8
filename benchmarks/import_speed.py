"""How fast and in how much memory `wcbench import` reads a large trace, against Holistic Trace Analysis (HTA).

    python benchmarks/import_speed.py --peer /path/to/an/environment/with/HTA/bin/python

The trace is made from `../shared/traces/kineto/hta_df_index_resolver__*`, repeated with times and ids moved on: 12
copies are about 570 MB and 2.6 million events. Both tools read it in a process of their own, turn about, on this
machine: load, link, and break kernels down by name. wcbench also writes its record. The figures are ratios of medians
of wall time and of the greatest resident memory. `--scale` compares four times the events with one, for wcbench alone.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SOURCE = "hta_df_index_resolver__df_index_resolver.json.gz"
IDS = ("External id", "external id", "correlation", "Ev Idx", "Sequence number")
ID_STEP, TIME_STEP_US = 1_000_000, 2_000_000

PEER = """
import sys
from hta.trace_analysis import TraceAnalysis
analysis = TraceAnalysis(trace_files={0: sys.argv[1]}, trace_dir="/")
analysis.get_gpu_kernel_breakdown(visualize=False)
"""
OURS = """
import sys, tempfile
from wcbench import api
with tempfile.TemporaryDirectory() as folder:
    record = api.read(sys.argv[1], out=folder + "/record")
    record.view("hotspots"), record.view("categories")
"""


def make(source: Path, target: Path, copies: int) -> int:
    """Write the repeated trace; returns its number of events."""
    trace = json.loads(gzip.decompress(source.read_bytes()))
    events = trace.pop("traceEvents")
    moved = [event for event in events if event["ph"] != "M"]
    written = 0
    with target.open("w") as out:
        out.write(json.dumps(trace)[:-1] + ', "traceEvents": [\n')
        for copy in range(copies):
            for event in events if copy == 0 else moved:
                out.write((",\n" if written else "") + json.dumps(_moved(event, copy)))
                written += 1
        out.write("\n]}\n")
    return written


def _moved(event: dict[str, Any], copy: int) -> dict[str, Any]:
    made = dict(event)
    if isinstance(made.get("ts"), int | float):
        made["ts"] += copy * TIME_STEP_US
    if "id" in made and isinstance(made["id"], int):
        made["id"] += copy * ID_STEP
    if isinstance(made.get("args"), dict):
        made["args"] = {
            key: value + copy * ID_STEP if key in IDS and isinstance(value, int) else value
            for key, value in made["args"].items()
        }
    return made


def measure(python: str, code: str, trace: Path) -> tuple[float, float]:
    """Seconds and greatest resident memory in MiB of one run in a process of its own."""
    begin = time.perf_counter()
    child = subprocess.Popen([python, "-c", code, str(trace)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    _, status, usage = os.wait4(child.pid, 0)
    took = time.perf_counter() - begin
    if status:
        assert child.stderr is not None
        sys.exit(f"{python} failed:\n{child.stderr.read().decode()[-3000:]}")
    return took, usage.ru_maxrss / 1024


def compare(args: argparse.Namespace, trace: Path) -> None:
    tools = {"wcbench": (sys.executable, OURS)}
    if args.peer:
        tools["HTA"] = (args.peer, PEER)
    runs: dict[str, list[tuple[float, float]]] = {name: [] for name in tools}
    for turn in range(args.repeats):
        for name in tools if turn % 2 == 0 else reversed(list(tools)):
            runs[name].append(measure(*tools[name], trace))
            print(f"  {name}: {runs[name][-1][0]:.1f} s, {runs[name][-1][1]:.0f} MiB", flush=True)
    middle = {name: [statistics.median(column) for column in zip(*found, strict=True)] for name, found in runs.items()}
    for name, (seconds, memory) in middle.items():
        print(f"{name}: median {seconds:.1f} s, {memory:.0f} MiB")
    if args.peer:
        (ours_s, ours_m), (peer_s, peer_m) = middle["wcbench"], middle["HTA"]
        print(f"wcbench is {peer_s / ours_s:.1f} times as fast, in 1/{peer_m / ours_m:.1f} of the memory")


def scale(args: argparse.Namespace, folder: Path) -> None:
    found = []
    for copies in (args.copies, 4 * args.copies):
        trace = folder / f"trace-{copies}.json"
        events = make(args.source, trace, copies) if not trace.exists() else 0
        runs = [measure(sys.executable, OURS, trace) for _ in range(args.repeats)]
        found.append([statistics.median(column) for column in zip(*runs, strict=True)])
        print(
            f"{copies} copies ({events or 'kept'} events, {trace.stat().st_size / 1e6:.0f} MB): "
            f"{found[-1][0]:.1f} s, {found[-1][1]:.0f} MiB",
            flush=True,
        )
    (one_s, one_m), (four_s, four_m) = found
    print(f"four times the events cost {four_s / one_s:.2f} times the time, {four_m / one_m:.2f} times the memory")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, default=ROOT.parent / "shared/traces/kineto" / SOURCE)
    parser.add_argument("--peer", help="python of an environment with HolisticTraceAnalysis")
    parser.add_argument("--copies", type=int, default=12)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--scale", action="store_true", help="four times the events against one")
    parser.add_argument("--folder", type=Path, default=Path("/tmp/wcbench-import-speed"))
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if args.scale:
        scale(args, args.folder)
        return
    trace = args.folder / f"trace-{args.copies}.json"
    if not trace.exists():
        events = make(args.source, trace, args.copies)
        print(f"{trace}: {events} events, {trace.stat().st_size / 1e6:.0f} MB")
    compare(args, trace)


if __name__ == "__main__":
    main()
