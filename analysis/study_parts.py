"""The parts of a study's workloads on disk: which code they are of, and what stands in them."""

from __future__ import annotations

import ast
import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pandas as pd

from wcbench import devices
from wcbench.analysis.costs import Cost
from wcbench.analysis.study_rows import FRAMES

_IMPORT = re.compile(r"^\s*(?:from (wcbench[\w.]*) import|import (wcbench[\w.]*))", re.MULTILINE)
_APART = (
    "analysis/definitions/page.py", "errors.py", "files.py", "machine.py", "nvml.py", "energy.py", "upgrade.py",
    "record.py", "registry.py", "schema.py", "profilers/change_jobs.py", "profilers/memory.py", "profilers/power.py",
    "profilers/primitives.py", "profilers/streams.py", "profilers/suite.py", "profilers/timeline.py",
    "profilers/timing.py",
)  # fmt: skip
"""Files that read, write, describe or run other passes: nothing of them is in the numbers."""


@cache
def code_fingerprint() -> str:
    """Twelve hex digits of all code that makes or derives rows: what other code made is not taken for this one's.

    That is `study_rows`, `profilers.changes`, `profilers.changed`, whatever these import, and all tasks; comments and
    layout do not count.
    """
    root = Path(devices.__file__).parent
    found = {root / name for name in ("analysis/study_rows.py", "profilers/changed.py", "profilers/capture.py")}
    found |= {*root.glob("analysis/definitions/*.py"), *root.glob("tasks/**/*.py"), *root.glob("*.toml")}
    apart = {root / name for name in _APART}
    found -= apart
    left = sorted(found)
    while left:
        text = left.pop().read_text(encoding="utf-8")
        names = (one or other for one, other in _IMPORT.findall(text))
        for name in names:
            file = root.joinpath(*name.split(".")[1:]).with_suffix(".py")
            if file.is_file() and file not in found | apart:
                found.add(file)
                left.append(file)
    return hashlib.sha256("".join(_essence(file) for file in sorted(found)).encode()).hexdigest()[:12]


def _essence(file: Path) -> str:
    text = file.read_text(encoding="utf-8")
    return ast.dump(ast.parse(text)) if file.suffix == ".py" else text


def costs_of(rows: pd.DataFrame, work: str) -> dict[str, tuple[Cost, ...]]:
    """Costs of a unit of work by workload, as `costs.one_kind` takes them, from stored rows."""
    found: dict[str, tuple[Cost, ...]] = {}
    for workload, group in rows[rows["work"] == work].groupby("workload", sort=True):
        found[str(workload)] = tuple(
            Cost(
                value=None if math.isnan(row["value"]) else row["value"],
                **{name: row[name] for name in ("unit", "work", "source", "reason")},
            )
            for row in group.to_dict("records")
        )
    return found


@dataclass(frozen=True, eq=False)
class Stored:
    """The parts of all workloads of a study.

    Attributes
    ----------
    values : rows of the records themselves. ``changed`` : rows of changed versions, with column ``change``.
    costs, hotspots, miss_ratios, roofline : as `study_rows.evaluate_record` makes them.
    changes : workload, change, kind, state (made, skipped or failed), reason.
    """

    values: pd.DataFrame
    changed: pd.DataFrame
    costs: pd.DataFrame
    hotspots: pd.DataFrame
    miss_ratios: pd.DataFrame = field(default_factory=pd.DataFrame)
    roofline: pd.DataFrame = field(default_factory=pd.DataFrame)
    changes: pd.DataFrame = field(default_factory=pd.DataFrame)


CHANGE_COLUMNS = ("workload", "change", "kind", "state", "reason")


def is_whole(folder: Path) -> bool:
    """Whether the record itself was evaluated and its changes planned; single changes may be missing."""
    return (folder / "plan.json").is_file() and (folder / "base.values.parquet").is_file()


def read_parts(folders: Mapping[str, Path]) -> Stored:
    """Read the parts of workloads, by name, from their folders."""
    frames: dict[str, list[pd.DataFrame]] = {name: [] for name in (*FRAMES, "changed")}
    states: list[tuple[str, str, str, str, str]] = []
    for workload, folder in sorted(folders.items()):
        for name in FRAMES:
            frames[name].append(_read(folder / f"base.{name}.parquet", workload))
        plan = json.loads((folder / "plan.json").read_text(encoding="utf-8"))
        for change, kind in plan["changes"]:
            found, reason = _read_change(folder, change, workload)
            if found is not None:
                frames["changed"].append(found.assign(change=change))
            states.append((workload, change, kind, "failed" if found is None else "made", reason))
        states += [(workload, name, name, "skipped", reason) for name, reason in plan["skipped"].items()]
    return Stored(
        **{name: _concat(parts) for name, parts in frames.items()},
        changes=pd.DataFrame(states, columns=list(CHANGE_COLUMNS)),
    )


def _read(file: Path, workload: str) -> pd.DataFrame:
    return pd.read_parquet(file).assign(workload=workload)


def _read_change(folder: Path, change: str, workload: str) -> tuple[pd.DataFrame | None, str]:
    slug = "".join(c if c.isalnum() or c in ".-" else "_" for c in change)
    file = folder / f"{slug}.values.parquet"
    if file.is_file():
        return _read(file, workload), ""
    failure = folder / f"{slug}.failed.json"
    if failure.is_file():
        return None, str(json.loads(failure.read_text(encoding="utf-8"))["reason"])
    return None, "it was not made"


def _concat(parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    full = [part for part in parts if len(part)]
    return pd.concat(full, ignore_index=True) if full else (parts[0].copy() if parts else pd.DataFrame())


def of(rows: pd.DataFrame, workloads: Iterable[str]) -> pd.DataFrame:
    """The rows of these workloads."""
    return rows[rows["workload"].isin(set(workloads))] if len(rows) else rows
