"""One report of every kind, each of a small input of its own, and names of people, places and hostile ones in them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd

from tests.profilers.readers.test_mlperf import mllog, training
from tests.profilers.readers.traces import call, kernel, mark, op, trace
from tests.reports.conftest import HOSTILE, usual
from tests.reports.test_study_report import NAMES, QUICK, inputs, more_tables, rows_of
from wcbench import api
from wcbench.analysis.features import table_of
from wcbench.analysis.study import Group, Inputs, Study, make_study
from wcbench.analysis.study_inputs import Changed
from wcbench.analysis.sweep import Point, Sweep
from wcbench.record import Note, PassInfo, Profile, new_profile
from wcbench.reports.build import of_sweep
from wcbench.reports.document import Made
from wcbench.reports.model import Report, Section
from wcbench.reports.profile_report import profile_report
from wcbench.schema import to_arrow

PERSON = {"home": "/srv/people/evelyn", "user": "evelyn", "hostname": "gpubox7.lab.example"}
"""Whose names no report may hold."""
PRIVATE = ("evelyn", "gpubox7")
WHERE = f"{PERSON['home']}/work on {PERSON['hostname']} by {PERSON['user']}, and /home/mallory/x"
ELSEWHERE = "/home/mallory/work"
"""A folder on a machine whose record of itself, and with it whose names, is not at hand."""
SECRET, OWN, MODULE = "acme_secret_gemm_v3_kernel", "acme::fused_router", "acme_net.router"
"""Names of a kernel, an operator and a module that --anonymize hides."""


def record(
    gemm_ns: int = 600_000,
    *,
    names: tuple[str, str, str] = (SECRET, "relu_kernel", "copy_kernel"),
    task: str = "acme.nets:Router",
    batch: int = 4,
    words: str = WHERE,
) -> Profile:
    """Seven timed steps of a device with three kernels each, on a person's machine."""
    times, count = [gemm_ns, 300_000, 100_000], 7
    span = sum(times) + 50_000
    columns = {
        "name": [*names] * count,
        "rank": [0] * 3 * count,
        "device": ["cuda:0"] * 3 * count,
        "start_ns": [n * span + sum(times[:i]) for n in range(count) for i in range(3)],
        "duration_ns": [*times] * count,
        "step": [n for n in range(count) for _ in range(3)],
        "phase": ["forward"] * 3 * count,
        "op": [OWN, "aten::relu", "aten::copy_"] * count,
        "module": [MODULE] * 3 * count,
    }
    timed = {
        "rank": [0] * count, "index": list(range(count)), "role": ["measured"] * count, "kind": ["train"] * count,
        "duration_ns": [span + 11_000 * n for n in range(count)], "samples": [batch] * count,
    }  # fmt: skip
    facts: dict[str, Any] = {
        "preset": "small", "settings": {}, "batch_size": batch, "samples": batch, "precision": "fp32",
        "device": "cuda", "tensors": "real", "seed": 0, "steps": count, "warmup": 0, "seconds": 1.25,
    }  # fmt: skip
    return new_profile(
        task=task,
        variant=None,
        suites=[],
        machine={"cpu": {"model": "AMD EPYC 7B13"}, "gpus": [{"name": f"GPU of {PERSON['hostname']}"}],
                 "identity": PERSON},
        command=["wcbench", "profile", task, "-o", f"{PERSON['home']}/runs/a"],
        passes={"timeline": PassInfo(**facts), "timing": PassInfo(**facts)},
        tables={
            "kernels": to_arrow("kernels", columns, "timeline"),
            "steps": to_arrow("steps", {k: [*v, *v] for k, v in timed.items()} | {
                "pass": ["timeline"] * count + ["timing"] * count}),
        },
        notes=[Note("timeline", f"{SECRET} ran long in {words}.")],
    )  # fmt: skip


def profile() -> Made:
    """Of a summary in which every block is there; what `api.make_report` does with it, without a capture of seconds."""
    summary = usual()
    return Made(profile_report(summary), summary, None)


def hotspots_of_a_device() -> Made:
    return api.make_report(record())


def read(content: str, name: str) -> Made:
    """The report of a file, read; its tables are loaded before the file is gone."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / name
        file.write_text(content, encoding="utf-8")
        return api.make_report(api.read(file))


def imported(name: str = "sm80_xmma_gemm_f16") -> Made:
    """A trace of two steps on a device: kernels, a copy, host operators, one of which is called by somebody's path, and
    an event that does not close."""
    events = []
    for step in range(2):
        at = 1000 * step
        events += [
            mark(f"ProfilerStep#{step + 3}", at, 900 + 7 * step), op(f"{ELSEWHERE}/net.py(7): forward", at + 5, 300),
            op("aten::mm", at + 10, 40), call(at + 20, 10 * step + 1), kernel(at + 60, 10 * step + 1, 333, name),
            op("aten::relu", at + 60, 20), call(at + 65, 10 * step + 2),
            kernel(at + 420, 10 * step + 2, 111, "vectorized_elementwise_kernel"),
            kernel(at + 700, 10 * step + 3, 57, "Memcpy HtoD (Pageable -> Device)", cat="gpu_memcpy", bytes=4096),
        ]  # fmt: skip
    top = {"deviceProperties": [{"id": 0, "name": "NVIDIA A100-SXM4-80GB"}]}
    return read(trace(*events, {"ph": "X", "cat": "kernel", "name": "odd", "ts": 5}, **top), "rank0.json")


def trained() -> Made:
    """Three runs to quality in one MLPerf log, of which one did not reach it."""
    runs = [
        *training(evaluations=((60, 1, 0.5), (125, 2, 0.71), (183, 3, 0.8)), stop=184.25, seed=7),
        *training(evaluations=((61, 1, 0.4), (127, 2, 0.79)), stop=130.5, at=1000, seed=8),
        *training(evaluations=((59, 1, 0.2),), stop=70, at=2000, seed=9, status="aborted"),
    ]
    return read(mllog(runs), "result_0.txt")


def two() -> Made:
    return api.make_report(record(), against=record(433_000, batch=8))


@cache
def whole_study() -> Study:
    """Ten workloads in two suites with all that a study has, in one that is small."""
    made = make_study(inputs(), replace(QUICK, robust=False))
    device = {"reason": "", "device": "A100", "peak_flops": 1.56e14, "bandwidth_bytes_s": 2.0e12, "ridge": 78.0}
    document = {**made.to_dict(), "roofline": device, "population": {"reason": "none is given"}}
    spots = [(workload, "acme_fused_attention_v2", 1.5, 0.75) for workload in document["table"]["workloads"]]
    functions = pd.DataFrame(spots, columns=["workload", "function", "seconds", "share"])
    return Study(document, {**made.tables, **more_tables(), "hotspots": functions})


def study() -> Made:
    return api.make_report(whole_study())


def sweep() -> Made:
    """Two batch sizes, and a third that failed."""
    points = [Point(batch, None, "fp32", record(150_000 * batch, batch=batch)) for batch in (4, 8)]
    return of_sweep(Sweep((*points, Point(16, None, "fp32", None, f"out of memory in {WHERE}"))))


def bare(*notes: Note) -> Made:
    made = new_profile(
        task="spatial-transformer", variant=None, suites=[], machine={}, command=[], passes={}, tables={}, notes=notes
    )
    return api.make_report(made)


def nothing() -> Made:
    return bare()


def only_notes() -> Made:
    return bare(Note("timing", "The task failed in its first step."), Note("record", "No pass ended."))


KINDS: Mapping[str, Callable[[], Made]] = {
    "profile": profile,
    "profile of a device": hotspots_of_a_device,
    "imported": imported,
    "trained": trained,
    "two": two,
    "study": study,
    "sweep": sweep,
    "nothing": nothing,
    "only notes": only_notes,
}


# --- names that try everything --------------------------------------------------------------------------------------

LONG = f"{'L' * 9_995}END"


def hostile_two() -> Made:
    names = (HOSTILE, LONG, f"{HOSTILE}{LONG}")
    return api.make_report(record(names=names, task=HOSTILE, words=HOSTILE), against=record(names=names, task=LONG))


def hostile_study() -> Made:
    """Names of workloads, functions, suites and reasons, in every table and in the document."""
    found = whole_study()
    names = {str(w): f"{HOSTILE}{i}" for i, w in enumerate(found.document["table"]["workloads"])}
    names["a2"] = LONG
    return api.make_report(renamed(found, {**names, "aten::mm": HOSTILE, "suite A": HOSTILE, "suite B": HOSTILE * 9}))


def renamed(found: Study, names: Mapping[str, str]) -> Study:
    """The study with other names, wherever one stands as a whole."""

    def change(value: Any) -> Any:
        if isinstance(value, str):
            return names.get(value, value)
        if isinstance(value, Mapping):
            return {change(key): change(child) for key, child in value.items()}
        if isinstance(value, list | tuple):
            return [change(child) for child in value]
        return value

    tables = {name: frame.map(change) for name, frame in found.tables.items()}
    return replace(found, document=change(found.document), tables=tables)


def hostile_tables(found: Mapping[str, Made]) -> Report:
    """One row of every table of every kind with a hostile name in each of its cells that is text; first names are long
    ones, each with its own end."""
    tables = {table.id: table for made in found.values() for s in made.report.sections for table in s.tables()}
    hostile = []
    for number, table in enumerate(table for table in tables.values() if table.rows):
        row = tuple(_hostile(value, f"{number}c{i}") for i, value in enumerate(table.rows[0]))
        hostile.append(replace(table, caption=f"{HOSTILE} {number}", rows=(row,)))
    section = Section("names", HOSTILE, tuple(hostile))
    return replace(found["profile"].report, sections=(section,))


def _hostile(value: Any, place: str) -> Any:
    if not isinstance(value, str):
        return value
    return f"{HOSTILE}at{place}{LONG}" if place.endswith("c0") and place.startswith("1") else f"{HOSTILE}at{place}"


HOSTILE_KINDS: Mapping[str, Callable[[], Made]] = {
    "imported": lambda: imported(HOSTILE + LONG),
    "two": hostile_two,
    "study": hostile_study,
}


# --- many workloads ---------------------------------------------------------------------------------------------------


def large(ours: int, theirs: int, width: int = 20) -> Study:
    """A study of two suites with names of so many characters, no two alike; features as in the small one."""
    names = [f"task-{i:03d}-".ljust(width - 3, "n") + f"{i:03d}" for i in range(ours + theirs)]
    one, two_ = tuple(names[:ours]), tuple(names[ours:])
    rng = np.random.default_rng(7)
    found = pd.DataFrame(10 ** rng.uniform(3, 9, (len(names), len(NAMES))), index=names, columns=list(NAMES))
    found[NAMES[6]] = rng.uniform(0.2, 0.8, len(names))
    found[NAMES[7]] = 1 - found[NAMES[6]]
    table = replace(table_of(rows_of(found)), costs=dict.fromkeys(one, 1.0), cost_unit="FLOP", cost_of="FLOPs")
    changed = rows_of(found.assign(**{NAMES[0]: found[NAMES[0]] * 1.05})).assign(change="batch x2")
    states = pd.DataFrame([(name, "batch x2", "batch", "made", "") for name in names],
                          columns=["workload", "change", "kind", "state", "reason"])  # fmt: skip
    made = make_study(
        Inputs(
            table=table,
            facet_table=table,
            studied=Group("s", "suite A", one),
            against=Group("t", "suite B", two_),
            changed=Changed(changed, states),
            classes={name: f"domain {i % 7}" for i, name in enumerate(names)},
            levels={name: {"optimizer": f"optimizer {i % 5}"} for i, name in enumerate(names)},
            provenance={"wcbench": "0.1.0"},
        ),
        replace(QUICK, robust=False),
    )
    return Study(
        made.to_dict(), {**made.tables, **{key: _widened(frame, names) for key, frame in more_tables().items()}}
    )


def _widened(frame: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    """What a table says of its first workload, of all; of every two what it says of the first two."""
    if "one" in frame:
        pairs = pd.DataFrame([(x, y) for i, x in enumerate(names) for y in names[i + 1 :]], columns=["one", "other"])
        return pairs.assign(**{str(key): frame[key].iloc[0] for key in frame if key not in pairs})
    if "workload" not in frame:
        return frame
    first = frame[frame["workload"] == frame["workload"].iloc[0]]
    return pd.concat([first.assign(workload=name) for name in names], ignore_index=True)
