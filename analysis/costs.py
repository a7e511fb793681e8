"""What running a workload costs, for the choice of a subset: measured or published seconds, modelled ones, or FLOPs.

A cost always says which of these it is. Until something was measured it is the FLOPs of a step, an epoch or a training,
or the least seconds that its operators take under the roof of a named device (Williams, Waterman and Patterson 2009).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from wcbench import devices
from wcbench.analysis.definitions import stream
from wcbench.analysis.definitions.base import TOYS, NotMeasuredError, device_of, pass_of
from wcbench.analysis.definitions.opmix import types
from wcbench.analysis.definitions.training import measured, published, published_samples
from wcbench.analysis.roofline import roofline
from wcbench.analysis.steps import step_times
from wcbench.errors import UnknownNameError

if TYPE_CHECKING:
    from wcbench.record import Profile
    from wcbench.suites import Fact

STEP, EPOCH, TRAINING = "step", "epoch", "training"
UNITS_OF_WORK = (STEP, EPOCH, TRAINING)
SECONDS, FLOP = "s", "FLOP"
_SCALES = {"s": 1.0, "min": 60.0, "minutes": 60.0, "h": 3600.0, "hours": 3600.0}


@dataclass(frozen=True)
class Cost:
    """One way to say what a workload costs: ``value`` in ``unit`` (None where ``reason`` says why) of a step, an epoch
    or a training (``work``), and ``source``, which says whether it is measured, published, modelled or counted."""

    value: float | None
    unit: str
    work: str
    source: str
    reason: str = ""

    def __repr__(self) -> str:
        value = f"none: {self.reason}" if self.value is None else f"{self.value:.4g} {self.unit}"
        return f"Cost of a {self.work}, {self.source}: {value}"


@dataclass(frozen=True)
class Costs:
    """Costs of workloads, all of one kind; ``of`` says which. Empty where no kind is known of all of them, and
    ``reasons`` tells what each workload lacks."""

    values: Mapping[str, float]
    unit: str
    of: str
    reasons: Mapping[str, str]

    def to_frame(self) -> pd.DataFrame:
        names = sorted({*self.values, *self.reasons})
        return pd.DataFrame(
            {
                "workload": names,
                "cost": [self.values.get(name, math.nan) for name in names],
                "reason": [self.reasons.get(name, "") for name in names],
            }
        )

    def __repr__(self) -> str:
        lines = [f"  {value:12.4g} {self.unit}  {name}" for name, value in sorted(self.values.items())]
        return "\n".join([f"Costs of {len(self.values)} workloads: {self.of or 'none known of all'}", *lines])


def workload_costs(profile: Profile, work: str = STEP, on: str | None = None) -> tuple[Cost, ...]:
    """All ways to say what a record's workload costs, best first: measured, published, modelled, counted.

    Parameters
    ----------
    work : "step" (an average one, at the preset's batch), "epoch" or "training" (to the published target).
    on : id of a device in devices.toml on whose roof seconds are modelled; None: no seconds are modelled.

    Raises UnknownNameError for another unit of work or an unknown device.
    """
    if work not in UNITS_OF_WORK:
        raise UnknownNameError("unit of work", work, UNITS_OF_WORK)
    return tuple(_ways(profile, work, on))


def _ways(profile: Profile, work: str, on: str | None) -> Iterator[Cost]:
    yield _tried("measured", SECONDS, work, lambda: _measured(profile, work))
    if work != STEP:
        yield _tried("published", SECONDS, work, lambda: (_published(profile, work), ""))
    if on is not None:
        device = devices.device(on)
        yield _tried(
            f"modelled by the roofline of {device.name}", SECONDS, work, lambda: (_modelled(profile, work, device), "")
        )
    yield _tried("counted", FLOP, work, lambda: (_flops(profile) * _steps(profile, work), ""))


def _tried(source: str, unit: str, work: str, make: Callable[[], tuple[float, str]]) -> Cost:
    """A cost; ``make`` gives the value and what its source has besides (the device that it was measured on)."""
    try:
        value, where = make()
    except NotMeasuredError as error:
        return Cost(None, unit, work, source, str(error))
    return Cost(value, unit, work, f"{source} on {where}" if where else source)


def _steps(profile: Profile, work: str) -> float:
    """Steps of the unit of work: 1, those of an epoch, or those to the published target."""
    if work == STEP:
        return 1.0
    steps = float(_number(published_samples(profile))) / stream.samples(profile)
    return steps if work == EPOCH else steps * _number(published(profile, "epochs to target, mean"))


def _number(fact: Fact) -> float:
    if isinstance(fact.value, str) or fact.value is None:
        raise NotMeasuredError(f"{fact.quantity} is '{fact.value}', no number")
    return float(fact.value)


def _flops(profile: Profile) -> float:
    continued = stream.at_preset_length(profile)
    return float(stream.work(profile).flops_all_step if continued is None else continued["flops_all_step"])


def _modelled(profile: Profile, work: str, device: devices.Device) -> float:
    frame = stream.calls(profile)
    if stream.at_preset_length(profile) is not None:
        raise NotMeasuredError("the stream was counted at a shorter length than the preset's")
    found, reason = roofline(frame["name"].tolist(), frame["flops"], frame["bytes"], types(profile), device)
    if found is None:
        raise NotMeasuredError(reason or "no roofline")
    seconds = found.rows["time_s"].to_numpy(np.float64, na_value=0.0) * frame["share"].to_numpy()
    return float(seconds.sum()) * _steps(profile, work)


def _measured(profile: Profile, work: str) -> tuple[float, str]:
    if work != STEP:
        return _measured_training(profile, work)
    _, info = pass_of(profile, "timing")
    operators = profile.manifest.passes.get("operators")
    if operators is not None and operators.preset != info.preset:
        raise NotMeasuredError(f"steps were timed at preset {info.preset}, and operators counted at {operators.preset}")
    times = step_times(profile).get("timing")
    if times is None or not times.median_ns:
        raise NotMeasuredError("pass timing has no measured steps")
    toy = f", preset {info.preset}" if info.preset in TOYS else ""
    return times.median_ns / 1e9, device_of(profile, info) + toy


def _measured_training(profile: Profile, work: str) -> tuple[float, str]:
    found = measured(profile, "seconds")
    if found is None:
        raise NotMeasuredError("the record holds no training runs")
    group, seconds = found
    place = group.system or "an unnamed system"
    if work == TRAINING:
        return float(np.median(seconds)), place
    epochs = measured(profile, "epochs")
    if epochs is None or len(epochs[1]) != len(seconds):
        raise NotMeasuredError("the runs do not tell their epochs")
    return float(np.median(seconds / epochs[1])), place


def _published(profile: Profile, work: str) -> float:
    fact = published(profile, "time to target, mean" if work == TRAINING else "cost of an epoch")
    if fact.unit not in _SCALES:
        raise NotMeasuredError(f"{fact.quantity} is in {fact.unit}, no time")
    return _number(fact) * _SCALES[fact.unit]


def one_kind(by_workload: Mapping[str, Sequence[Cost]]) -> Costs:
    """The best kind of cost (source and unit) that is known of every workload; empty where there is none."""
    names = sorted(by_workload)
    kinds = [(cost.source, cost.unit) for cost in by_workload[names[0]]] if names else []
    for source, unit in kinds:
        found = {name: _of(by_workload[name], source, unit) for name in names}
        known = {name: cost.value for name, cost in found.items() if cost is not None and cost.value is not None}
        if len(known) == len(names):
            work = by_workload[names[0]][0].work
            words = "FLOPs" if unit == FLOP else "seconds"
            return Costs(known, unit, f"{words} of a {work}, {source}", {})
    return Costs({}, "", "", {name: _lacks(by_workload[name]) for name in names})


def _of(costs: Sequence[Cost], source: str, unit: str) -> Cost | None:
    return next((cost for cost in costs if (cost.source, cost.unit) == (source, unit)), None)


def _lacks(costs: Sequence[Cost]) -> str:
    return "; ".join(f"{cost.source}: {cost.reason}" if cost.value is None else f"{cost.source}: known"
                     for cost in costs)  # fmt: skip
