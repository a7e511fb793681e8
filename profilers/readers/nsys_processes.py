"""What an export of Nsight Systems says of processes, their ranks, and the machine."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from wcbench.profilers.readers.base import Sink
from wcbench.profilers.readers.database import Connection, TableError
from wcbench.profilers.readers.database_rows import Field, fields, rows
from wcbench.profilers.readers.nsys_rows import process_of, sound

KINDS = "CUPTI_ACTIVITY_KIND_"
KERNEL, COPY, FILL, GRAPH = (KINDS + kind for kind in ("KERNEL", "MEMCPY", "MEMSET", "GRAPH_TRACE"))
_MPI = "MPI_RANKS"
_NEEDED = {COPY: " copyKind"}
"""What a row must hold to be read, beside its times, device and stream."""


def ranks(connection: Connection, sink: Sink, there: frozenset[str]) -> dict[int, int]:
    """Rank by process (see the module); sets ``sink.rank`` or ``sink.own_ranks``."""
    used = _used(connection, there)
    told = _told_ranks(connection, there)
    processes = sorted(used, key=lambda process: (used[process].most_common(1)[0][0], process))
    whole = set(processes) <= told.keys() and len({told[process] for process in processes}) == len(processes)
    if len(processes) < 2:
        sink.rank = told[processes[0]] if processes and whole else None
        return {}
    sink.own_ranks = True
    if whole:
        return {process: told[process] for process in processes}
    sink.note(
        "timeline",
        f"{connection.label} holds the work of {len(processes)} processes and not their ranks: they are numbered by "
        "device and process id.",
    )
    return {process: rank for rank, process in enumerate(processes)}


def _used(connection: Connection, there: frozenset[str]) -> dict[int, Counter[int]]:
    """How many rows of each device belong to each process, of those that are taken when their content is read."""
    found: dict[int, Counter[int]] = {}
    graph_kernels = False
    for table in (KERNEL, COPY, FILL, GRAPH):
        if table not in there or (table == GRAPH and graph_kernels):
            continue
        asked = fields("start end deviceId streamId globalPid" + _NEEDED.get(table, ""), "graphNodeId")
        try:
            for batch in rows(connection, table, asked, lambda *_args, **_named: None):
                taken = sound(batch)
                graph_kernels |= table == KERNEL and bool((batch["graphNodeId"][taken] > 0).any())
                if not taken.any():
                    continue
                pairs = np.stack([process_of(batch["globalPid"][taken]), batch["deviceId"][taken]])
                different, times = np.unique(pairs, axis=1, return_counts=True)
                for (process, device), number in zip(different.T.tolist(), times.tolist(), strict=True):
                    found.setdefault(process, Counter())[device] += number
        except TableError:
            continue  # told when its content is read
    return found


def _told_ranks(connection: Connection, there: frozenset[str]) -> dict[int, int]:
    found: dict[int, int] = {}
    if _MPI in there:
        try:
            for batch in rows(connection, _MPI, fields("globalTid rank"), lambda *_args, **_named: None):
                sound = (batch["rank"] >= 0) & (batch["rank"] < 1 << 31)
                pairs = zip(process_of(batch["globalTid"])[sound].tolist(), batch["rank"][sound].tolist(), strict=True)
                found.update(pairs)
        except TableError:
            return {}
    return found


def gpus(connection: Connection, there: frozenset[str], sink: Sink) -> list[dict[str, Any]]:
    """The GPUs of the machine as `machine` describes them, in the export's order of their ids."""
    if "TARGET_INFO_GPU" not in there:
        return []
    asked = (
        *fields("id", "totalMemory computeMajor computeMinor"),
        Field("name", "text"),
        Field("busLocation", "text", needed=False),
    )
    found = []
    try:
        for batch in rows(connection, "TARGET_INFO_GPU", asked, sink.lose, size=1024):
            for index, memory, major, minor, name, bus in zip(*(batch[f.name] for f in asked), strict=True):
                capability = f"{major}.{minor}" if major >= 0 and minor >= 0 else None
                memory_bytes = int(memory) if memory > 0 else None
                gpu = {"index": int(index), "name": name, "memory_bytes": memory_bytes, "pci": bus}
                found.append({**gpu, "compute_capability": capability})
            break  # a machine has no more
    except TableError:
        return []
    return sorted(found, key=lambda gpu: gpu["index"])


def versions(connection: Connection, there: frozenset[str], sink: Sink) -> dict[str, Any]:
    """The exporter's version and that of its schema."""
    if "META_DATA_EXPORT" not in there:
        return {}
    asked = (Field("name", "text"), Field("value", "text", needed=False))
    kept = {"EXPORT_PRODUCT_VERSION": "nsys", "EXPORT_SCHEMA_VERSION": "schema"}
    try:
        batch = next(rows(connection, "META_DATA_EXPORT", asked, sink.lose, size=1024), None)
    except TableError:
        batch = None
    pairs = zip(batch["name"], batch["value"], strict=True) if batch else ()
    return {kept[name]: value[:80] for name, value in pairs if name in kept and value}
