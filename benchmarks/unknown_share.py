"""What the kernel classifier leaves unknown in every file of a folder of traces.

Run: python benchmarks/unknown_share.py FOLDER [--names]

One line for each file and side (device: kernels, copies, waiting; host: operators), read here by plain means of its
own, not by wcbench's readers. Where a file has no durations, every call counts as one. Shares are of busy time: rows
taken for waiting are counted (`sync`) and left out. `--names` lists the unknown names, what was taken for
communication, and what was taken for waiting. Exit code 0: under 1 % of device time is unknown in each file.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import io
import json
import re
import sqlite3
import tarfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from wcbench.kernels import UNKNOWN, classify

Times = dict[tuple[str, bool], float]
"""Time (in the file's own unit) or number of calls by name and side (True: host)."""

DEVICE = frozenset({"kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset", "cuda_sync"})
HOST = frozenset({"cpu_op", "operator"})
CSV_NAMES = ("Kernel Name", "KernelName", "Kernel_Name", "Kernel", "Name", "Direction", "Function")
CSV_TIMES = ("TotalDurationNs", "DurationNs", "Sil(ns)")
UNITS = {"ns": 1.0, "nsecond": 1.0, "us": 1e3, "usecond": 1e3, "ms": 1e6, "msecond": 1e6, "s": 1e9, "second": 1e9}
COPIES = {0: "[CUDA memcpy]", 1: "[CUDA memcpy HtoD]", 2: "[CUDA memcpy DtoH]", 8: "[CUDA memcpy DtoD]"}
WAITS = {0: "Unknown Sync", 1: "Event Sync", 2: "Stream Wait Event", 3: "Stream Sync", 4: "Context Sync"}
NSYS_KINDS = (("MEMCPY", "copyKind", COPIES), ("SYNCHRONIZATION", "syncType", WAITS))


def times(path: Path) -> Iterator[tuple[str, Times]]:
    """Every part of a file that has names, with its times."""
    if path.suffix == ".sqlite":
        yield from from_nsys(path)
        return
    for name, data in members(path):
        if path.suffix == ".pb":
            yield name, from_xplane(data)
        elif path.suffix == ".csv":
            yield name, from_csv(data.decode("utf-8-sig", "replace"))
        elif data.lstrip()[:1] in (b"{", b"["):
            yield name, from_json(json.loads(data.decode("utf-8", "replace"), strict=False))
        elif b"Section: " in data:
            yield name, from_ncu_text(data.decode("utf-8", "replace"))


def members(path: Path) -> Iterator[tuple[str, bytes]]:
    """The uncompressed content of a file, or of each file of a tar archive."""
    if path.name.endswith((".tar.gz", ".tgz", ".tar")):
        with tarfile.open(path) as archive:
            for member in archive.getmembers():
                if (file := archive.extractfile(member)) is not None and not member.name.endswith(".py"):
                    yield f"{path.name}:{Path(member.name).name}", file.read()
        return
    raw = path.read_bytes()
    yield path.name, gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw


# --- JSON: Kineto, TensorFlow 1, Chakra, IBM's AIU -----------------------------------------------------------------


def from_json(document: Any) -> Times:
    found: Times = defaultdict(float)
    if isinstance(document, dict) and "nodes" in document:
        for node in document["nodes"]:
            found[str(node.get("name")), True] += 1
        return found
    events = document.get("traceEvents", []) if isinstance(document, dict) else document
    events = [event for event in events if isinstance(event, dict)]
    processes = {e.get("pid"): str(e["args"].get("name")) for e in events if e.get("name") == "process_name"}
    for event in events:
        side = side_of(event, processes.get(event.get("pid"), ""))
        if side is not None:
            found[str(event["name"]), side] += event.get("dur") or 0
    return found or from_pairs(events)


def side_of(event: Mapping[str, Any], process: str) -> bool | None:
    """False: of a device, True: of the host, None: neither. TensorFlow 1 lists device work as `stream:all` again."""
    kind = str(event.get("cat", "")).lower()
    if event.get("ph") != "X":
        return None
    if kind == "op":
        return None if "stream:all" in process or "memcpy" in process else "stream:" not in process
    return False if kind in DEVICE else True if kind in HOST else None


def from_pairs(events: list[dict[str, Any]]) -> Times:
    """Begin and end events without a category: all of the device."""
    found: Times = defaultdict(float)
    begun: dict[tuple[Any, Any, str], float] = {}
    for event in events:
        key = (event.get("pid"), event.get("tid"), str(event.get("name")))
        if event.get("ph") == "B" and "cat" not in event:
            begun[key] = event["ts"]
        elif event.get("ph") == "E" and key in begun:
            found[key[2], False] += event["ts"] - begun.pop(key)
    return found


# --- tables: Nsight Compute, rocprof, PyProf, Nsight Systems -------------------------------------------------------


def from_csv(text: str) -> Times:
    """The header is the first line that has one of the known names."""
    found: Times = defaultdict(float)
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if set(next(csv.reader([line]), [])) & set(CSV_NAMES)), None)
    rows = [] if start is None else list(csv.DictReader(io.StringIO("\n".join(lines[start:]))))
    if not rows:
        return found
    if "Metric Name" in rows[0]:
        return from_ncu(rows)
    column = next(name for name in CSV_NAMES if name in rows[0])
    for row in rows:
        name = row[column] or ""
        host = "API" in (row.get("Domain") or "") or name.startswith(("hip", "__hip"))
        found[name, host] += csv_time(row)
    return found


def csv_time(row: Mapping[str, str]) -> float:
    for name in CSV_TIMES:
        if row.get(name):
            return float(row[name])
    begin, end = row.get("Start_Timestamp"), row.get("End_Timestamp")
    return float(end) - float(begin) if begin and end else 1.0


def from_ncu(rows: list[dict[str, str]]) -> Times:
    """The long layout: one row for a metric. Without a duration: cycles over their rate."""
    found: Times = defaultdict(float)
    launches: dict[str, dict[str, float]] = defaultdict(dict)
    for row in rows:
        if row.get("Metric Name"):
            value = (row["Metric Value"] or "").replace(",", "")
            launches[row["ID"]][row["Metric Name"]] = float(value) if value[:1].isdigit() else 0.0
    for number, name in {row["ID"]: row["Kernel Name"] for row in rows}.items():
        got = launches[number]
        rate = got.get("sm__cycles_elapsed.avg.per_second") or 1.0
        found[name, False] += got.get("gpu__time_duration.sum") or got.get("sm__cycles_elapsed.avg", 1.0) / rate
    return found


def from_ncu_text(text: str) -> Times:
    found: Times = defaultdict(float)
    name = ""
    for line in text.splitlines():
        if kernel := re.match(r"  (\S.*?) \(\d+, \d+, \d+\)x\(\d+, \d+, \d+\), Context", line):
            name = kernel[1]
        elif duration := re.match(r"\s+Duration\s+(\w+)\s+([\d.,]+)\s*$", line):
            found[name, False] += float(duration[2].replace(",", "")) * UNITS[duration[1]]
    return found


def from_nsys(path: Path) -> Iterator[tuple[str, Times]]:
    """Kernels by each of the names that Nsight Systems keeps of them, with copies and waiting."""
    connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
    try:
        for word in ("demangledName", "shortName", "mangledName"):
            found: Times = defaultdict(float)
            query = (
                "SELECT s.value, SUM(k.end - k.start) FROM CUPTI_ACTIVITY_KIND_KERNEL k "
                f"JOIN StringIds s ON s.id = k.{word} GROUP BY 1"
            )
            for name, spent in connection.execute(query):
                found[str(name), False] += spent
            for table, column, names in NSYS_KINDS:
                query = f"SELECT {column}, SUM(end - start) FROM CUPTI_ACTIVITY_KIND_{table} GROUP BY 1"
                for kind, spent in connection.execute(query):
                    found[names.get(kind, names[0]), False] += spent
            yield f"{path.name}:{word}", found
    finally:
        connection.close()


# --- XPlane protobuf: the few fields that are needed, by number ----------------------------------------------------


def from_xplane(data: bytes) -> Times:
    """Streams of the GPU planes: kernels; the host's calls carry no operators worth a share."""
    found: Times = defaultdict(float)
    for field, plane in fields(data):
        parts = list(fields(plane)) if field == 1 else []
        if not any(number == 2 and value.startswith(b"/device:GPU") for number, value in parts):
            continue
        metadata = [dict(fields(value)) for number, value in parts if number == 4]
        names = {entry[1]: dict(fields(entry[2])).get(2, b"").decode("utf-8", "replace") for entry in metadata}
        for line in (list(fields(value)) for number, value in parts if number == 3):
            if any(number == 2 and value.startswith(b"Stream #") for number, value in line):
                for event in (dict(fields(value)) for number, value in line if number == 4):
                    found[names[event[1]], False] += event.get(3, 0)
    return found


def fields(data: bytes) -> Iterator[tuple[int, Any]]:
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        if tag & 7 == 0:
            value, at = varint(data, at)
            yield tag >> 3, value
        else:
            size, at = varint(data, at) if tag & 7 == 2 else (4 if tag & 7 == 5 else 8, at)
            yield tag >> 3, data[at : at + size]
            at += size


def varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7


# --- the table -----------------------------------------------------------------------------------------------------


def shares(found: Times, host: bool) -> tuple[dict[str, str], dict[str, float], float]:
    """Category by name, busy time by category, busy time; of one side."""
    kinds = {name: classify(name, host=host).full for name, on_host in found if on_host == host}
    spent: dict[str, float] = defaultdict(float)
    for name, kind in kinds.items():
        spent[kind] += found[name, host]
    spent.pop("synchronization", None)
    return kinds, spent, sum(spent.values())


def report(label: str, found: Times, host: bool, show_names: bool) -> float:
    """Print one line and return the share of busy time that is unknown."""
    kinds, spent, busy = shares(found, host)
    if not kinds:
        return 0.0
    missed = sum(kind == UNKNOWN for kind in kinds.values()) / len(kinds)
    unknown, sent = (spent.get(kind, 0.0) / (busy or 1.0) for kind in (UNKNOWN, "communication"))
    waits = sum(kind == "synchronization" for kind in kinds.values())
    head = f"{label[:60]:<60} {'host' if host else 'device':<6} {len(kinds):>5} {busy:>13.6g}"
    print(f"{head} {missed:>7.2%} {unknown:>8.3%} {sent:>7.2%} {waits:>4}")
    for shown in (UNKNOWN, "communication", "synchronization") if show_names else ():
        for name in sorted((n for n in kinds if kinds[n] == shown), key=lambda n: -found[n, host]):
            print(f"    {shown:<15} {found[name, host] / (busy or 1.0):>8.3%} {name[:180]}")
    return unknown


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--names", action="store_true")
    given = parser.parse_args()
    head = ("file", "side", "names", "busy time", "unknown", "of time", "comm.", "sync")
    print("{:<60} {:<6} {:>5} {:>13} {:>7} {:>8} {:>7} {:>4}".format(*head))
    worst = 0.0
    for path in sorted(path for path in given.folder.rglob("*") if path.is_file()):
        for label, found in times(path):
            worst = max(worst, report(label, found, False, given.names))
            report(label, found, True, given.names)
    print(f"largest unknown share of device time: {worst:.3%}")
    return 0 if worst < 0.01 else 1


if __name__ == "__main__":
    raise SystemExit(main())
