"""Small Kineto traces, written for a test event by event."""

from __future__ import annotations

import json
from typing import Any

from wcbench.profilers.readers.kineto import Kineto

KINETO = Kineto()


def span(cat: str, name: str, ts: float, dur: float, *, tid: Any = 1, pid: Any = 1, **args: Any) -> dict[str, Any]:
    """A complete event; ``ts`` and ``dur`` in microseconds, underscores in the names of args stand for blanks."""
    named = {key.replace("_", " "): value for key, value in args.items()}
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": named}


def op(name: str, ts: float, dur: float, **options: Any) -> dict[str, Any]:
    return span("cpu_op", name, ts, dur, **options)


def mark(name: str, ts: float, dur: float, **options: Any) -> dict[str, Any]:
    return span("user_annotation", name, ts, dur, **options)


def call(ts: float, correlation: int, dur: float = 1, name: str = "cudaLaunchKernel", **options: Any) -> dict[str, Any]:
    return span("cuda_runtime", name, ts, dur, correlation=correlation, **options)


def kernel(ts: float, correlation: int, dur: float = 1, name: str = "gemm", **options: Any) -> dict[str, Any]:
    given = {"device": 0, "stream": 7, **options}
    cat = given.pop("cat", "kernel")
    return span(cat, name, ts, dur, tid=given["stream"], pid=given["device"], correlation=correlation, **given)


def trace(*events: Any, indent: int | None = None, **top: Any) -> str:
    """A file as Kineto writes it: what it says of itself in front of the events."""
    return json.dumps({"schemaVersion": 1, **top, "traceEvents": list(events)}, indent=indent)
