"""Where a step's time goes: by kernel or operator, and by category."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import pandas as pd

from wcbench import kernels
from wcbench.analysis.source import Source, source

if TYPE_CHECKING:
    from wcbench.record import Profile

_PASS = "timeline"
HOST_TIME, DEVICE_TIME = "operator self time", "kernel time"


@dataclass(frozen=True)
class Hotspots:
    """Time by name, per step, longest first.

    ``rows`` has the columns name, category (full view), paper, time_ns, time_share, calls, all per step; shares are
    of ``total_ns``. ``of`` says what is added up: operator self time on a CPU host, kernel time on a device.
    """

    source: Source
    of: str
    steps: int
    total_ns: float
    rows: pd.DataFrame

    def to_frame(self) -> pd.DataFrame:
        return self.rows.copy()

    def __repr__(self) -> str:
        head = f"Hotspots ({self.of}, per step; {self.source}; {len(self.rows)} names)"
        top = self.rows.head(10)
        triples = zip(top["time_share"], top["time_ns"] / 1e6, top["name"], strict=True)
        lines = [f"  {share:6.1%}  {ms:10.3f} ms  {name}" for share, ms, name in triples]
        return "\n".join([head, *lines])


@dataclass(frozen=True)
class Categories:
    """Shares of the same time by category.

    ``paper`` holds AIBench Training's eight, `none of the eight` and `unknown`; ``full`` the refined view. Each sums
    to 1. ``phases`` splits the time into forward, backward, optimizer and other. ``python_share`` is the share of the
    step's wall time outside every operator, None where kernels run on a device.
    """

    source: Source
    of: str
    paper: Mapping[str, float]
    full: Mapping[str, float]
    phases: Mapping[str, float]
    unknown_names: tuple[str, ...]
    python_share: float | None

    @property
    def unknown_share(self) -> float:
        return self.full[kernels.UNKNOWN]

    @cached_property
    def _ranked(self) -> list[tuple[str, float]]:
        return sorted(self.full.items(), key=lambda item: -item[1])

    def to_frame(self) -> pd.DataFrame:
        """Columns view, category, share."""
        rows = [("paper", *item) for item in self.paper.items()] + [("full", *item) for item in self.full.items()]
        return pd.DataFrame(rows, columns=["view", "category", "share"])

    def __repr__(self) -> str:
        lines = [f"  {share:6.1%}  {name}" for name, share in self._ranked if share > 0]
        return "\n".join([f"Categories (share of {self.of}; {self.source})", *lines])


def hotspots(profile: Profile) -> Hotspots | None:
    """Hotspots of a record, complete; None where it has no timeline."""
    origin = source(profile, _PASS)
    frame = _measured(profile)
    if origin is None or frame is None:
        return None
    steps = profile.manifest.passes[_PASS].steps
    grouped = frame.groupby("name", observed=True)["duration_ns"].agg(["sum", "size"])
    total = float(grouped["sum"].sum())
    host = _is_host(frame)
    found = [kernels.classify(str(name), host=host) for name in grouped.index]
    rows = pd.DataFrame(
        {
            "name": grouped.index.astype(str),
            "category": [c.full for c in found],
            "paper": [c.paper for c in found],
            "time_ns": grouped["sum"].to_numpy() / steps,
            "time_share": grouped["sum"].to_numpy() / total if total else 0.0,
            "calls": grouped["size"].to_numpy() / steps,
        }
    )
    rows = rows.sort_values(["time_ns", "name"], ascending=[False, True], ignore_index=True)
    return Hotspots(origin, HOST_TIME if host else DEVICE_TIME, steps, total / steps, rows)


def categories(profile: Profile) -> Categories | None:
    """Category shares of a record; None where it has no timeline or no time in it."""
    hot = hotspots(profile)
    frame = _measured(profile)
    if hot is None or frame is None or not hot.total_ns:
        return None
    full = dict.fromkeys([*kernels.FULL, kernels.UNKNOWN], 0.0)
    paper = dict.fromkeys([*kernels.PAPER, kernels.NONE_OF_THE_EIGHT, kernels.UNKNOWN], 0.0)
    for view, column in ((full, "category"), (paper, "paper")):
        for name, share in hot.rows.groupby(column)["time_share"].sum().items():
            view[str(name)] = float(share)
    unknown = hot.rows.loc[hot.rows["category"] == kernels.UNKNOWN, "name"]
    by_phase = frame.groupby("phase", observed=True)["duration_ns"].sum() / frame["duration_ns"].sum()
    phases = {phase: float(by_phase.get(phase, 0.0)) for phase in ("forward", "backward", "optimizer", "other")}
    python = _python_share(profile) if hot.of == HOST_TIME else None
    return Categories(hot.source, hot.of, paper, full, phases, tuple(unknown), python)


def _measured(profile: Profile) -> pd.DataFrame | None:
    """Kernel rows of the timeline's steps, on devices where there are any; None where nothing was recorded."""
    frame = profile.table("kernels")
    frame = frame[(frame["pass"] == _PASS) & frame["step"].notna()]
    on_device = frame["device"] != "cpu"
    if on_device.any():
        frame = frame[on_device]
    return frame if len(frame) else None


def _is_host(frame: pd.DataFrame) -> bool:
    return bool((frame["device"] == "cpu").all())


def _python_share(profile: Profile) -> float | None:
    """Share of the steps' wall time that no operator on the stepping thread covers."""
    ops, steps = profile.table("ops"), profile.table("steps")
    wall = steps.loc[(steps["pass"] == _PASS) & (steps["role"] == "measured"), "duration_ns"].sum()
    ops = ops[(ops["pass"] == _PASS) & ops["step"].notna()]
    if not wall or ops.empty:
        return None
    busy = ops.groupby("thread")["self_ns"].sum().max()  # the stepping thread does nearly all of the work
    return float(max(0.0, 1 - busy / wall))
