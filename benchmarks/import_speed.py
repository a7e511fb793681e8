"""How fast and in how much memory `wcbench import` reads a large trace, against Holistic Trace Analysis (HTA).

    python benchmarks/import_speed.py --peer /path/to/an/environment/with/HTA/bin/python

The trace is made from `../shared/traces/kineto/hta_df_index_resolver__*`, repeated with times and ids moved on: 12
copies are about 570 MB and 2.6 million events. Both tools read it in a process of their own, turn about, on this
machine: load, link, and break kernels down by name. wcbench also writes its record. The figures are ratios of medians
of wall time and of the greatest resident memory of each tool's processes together. `--scale` compares four times the
events with one, for wcbench alone. Ends with 1 where wcbench is less than 12 times as fast or takes more than a tenth
of the memory; with `--scale`, where four times the events cost more than 4.4 times the time or 1.5 times the memory.
"""

from __future__ import annotations

import argparse
import contextlib
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
FASTER, SMALLER, SCALE_TIME, SCALE_MEMORY = 12, 10, 4.4, 1.5
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
    """Seconds and greatest memory in MiB of one run: resident memory of the process and its children together, looked
    at 50 times a second, or of one process by the kernel's own record if that is more."""
    begin = time.perf_counter()
    child = subprocess.Popen([python, "-c", code, str(trace)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    seen = 0
    while not (ended := os.wait4(child.pid, os.WNOHANG))[0]:
        seen = max(seen, sum(map(_resident, _family(child.pid))))
        time.sleep(0.02)
    took = time.perf_counter() - begin
    _, status, usage = ended
    if status:
        assert child.stderr is not None
        sys.exit(f"{python} failed:\n{child.stderr.read().decode()[-3000:]}")
    return took, max(seen, usage.ru_maxrss) / 1024


def _family(pid: int) -> list[int]:
    """A process and all that descend from it."""
    found = [pid]
    for one in found:
        with contextlib.suppress(OSError):
            for thread in os.listdir(f"/proc/{one}/task"):
                found += map(int, Path(f"/proc/{one}/task/{thread}/children").read_text().split())
    return found


def _resident(pid: int) -> int:
    """Resident memory in KiB; 0 of a process that has ended."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1])
    return 0


def compare(args: argparse.Namespace, trace: Path) -> bool:
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
        return peer_s / ours_s >= FASTER and peer_m / ours_m >= SMALLER
    return True


def scale(args: argparse.Namespace, folder: Path) -> bool:
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
    return four_s / one_s <= SCALE_TIME and four_m / one_m <= SCALE_MEMORY


def main() -> int:
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
        return 0 if scale(args, args.folder) else 1
    trace = args.folder / f"trace-{args.copies}.json"
    if not trace.exists():
        events = make(args.source, trace, args.copies)
        print(f"{trace}: {events} events, {trace.stat().st_size / 1e6:.0f} MB")
    return 0 if compare(args, trace) else 1


if __name__ == "__main__":
    sys.exit(main())
