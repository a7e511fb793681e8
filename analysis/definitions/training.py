"""Features of a whole training: how long to the target, how much runs differ; measured, or as the suite's file has it.

Facts that are known from memory alone are not used: they are no basis for a decision.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from wcbench import suites
from wcbench.analysis.convergence import SUCCESS, Group, convergence
from wcbench.analysis.definitions import stream
from wcbench.analysis.definitions.base import (
    MEASURED,
    NEEDS,
    PUBLISHED,
    Found,
    NotMeasuredError,
    feature,
    pass_of,
)
from wcbench.analysis.telemetry import power
from wcbench.suites import Fact
from wcbench.tasks.catalog import TASKS

if TYPE_CHECKING:
    from wcbench.record import Profile

FROM_MEMORY = "from memory"
LEAST_RUNS = 4
"""Runs from which a variation between seeds is told."""

_MAD = 1.4826


def published(profile: Profile, quantity: str) -> Fact:
    """A fact that a suite's file states of the record's task and variant, with a value and a source.

    Raises NotMeasuredError with the file's own reason where there is none.
    """
    manifest, why = profile.manifest, "no suite's file has it for this task"
    for suite in map(suites.load_suite, suites.suites_of(manifest.task)):
        member = suite.member(manifest.task)
        facts = [f for f in (member.facts if member else ()) if f.quantity == quantity]
        for fact in facts:
            if fact.variant != manifest.variant:
                why = f"{suite.id} tells it of another variant"
            elif fact.value is None:
                why = f"{suite.id}: {fact.reason}"
            elif fact.kind == FROM_MEMORY:
                why = f"{suite.id} has it from memory only"
            else:
                return fact
    raise NotMeasuredError(f"{quantity}: {why}; and the record lacks {NEEDS['convergence']}")


def published_samples(profile: Profile, *, from_memory: bool = False) -> Fact:
    """Samples of the reference's training set, as the catalogue has them.

    Raises NotMeasuredError where it has none, or (unless ``from_memory``) none but from memory.
    """
    task = profile.manifest.task
    if task not in TASKS or profile.manifest.variant is not None:
        raise NotMeasuredError("the catalogue does not tell the size of this training set")
    fact: Fact = TASKS.row(task).factors.samples  # type: ignore[attr-defined]  # rows of the catalogue are TaskRows
    if fact.value is None:
        raise NotMeasuredError(f"size of the training set: {fact.reason}")
    if fact.kind == FROM_MEMORY and not from_memory:
        raise NotMeasuredError(f"the size of the training set ({fact.source}) is known from memory only")
    return fact


def _cited(fact: Fact) -> str:
    return f"{fact.kind}: {fact.source}" + (f" ({fact.note})" if fact.note else "")


def _value(fact: Fact) -> float:
    if isinstance(fact.value, str) or fact.value is None:
        raise NotMeasuredError(f"{fact.quantity} is '{fact.value}', no number")
    return float(fact.value) / (100 if fact.unit == "%" else 1)


def measured(profile: Profile, quantity: str) -> tuple[Group, np.ndarray[tuple[int], np.dtype[np.float64]]] | None:
    """The record's one group of runs and a quantity of those that reached the target; None without training runs."""
    if "trainings" not in profile.manifest.tables:
        return None
    pass_of(profile, "convergence")
    found = convergence(profile)
    if found is None:
        return None
    if len(found.groups) > 1:
        raise NotMeasuredError(f"the record holds runs of {len(found.groups)} systems or benchmarks: import one alone")
    runs = [run for run in found.runs if run["status"] == SUCCESS and run[quantity] is not None]
    if not runs:
        raise NotMeasuredError(f"no run reached its target and tells its {quantity}")
    return found.groups[0], np.array([run[quantity] for run in runs], np.float64)


def _median(profile: Profile, quantity: str) -> Found | None:
    found = measured(profile, quantity)
    if found is None:
        return None
    group, values = found
    failed = len(group.runs) - group.success
    remark = f"median of {len(values)} runs" + (f"; {failed} more did not reach the target" if failed else "")
    return Found(float(np.median(values)), MEASURED, remark=remark)


@feature("epochs_to_quality", unit="epochs", needs="convergence", transform="log2", block="epochs", tier="core",
         origin=PUBLISHED)  # fmt: skip
def epochs_to_quality(profile: Profile) -> Found:
    """Epochs to the target: the median of the record's runs, or the published mean."""
    own = _median(profile, "epochs")
    if own is not None:
        return own
    fact = published(profile, "epochs to target, mean")
    return Found(_value(fact), PUBLISHED, remark=_cited(fact))


@feature("samples_to_quality", unit="samples", needs="convergence", transform="log10", block="epochs", tier="core",
         origin=PUBLISHED)  # fmt: skip
def samples_to_quality(profile: Profile) -> Found:
    """Samples to the target: the median of the record's runs, or the published epochs times the training set."""
    own = None
    if measured_samples(profile):
        own = _median(profile, "samples")
    if own is not None:
        return own
    size, epochs = published_samples(profile), published(profile, "epochs to target, mean")
    return Found(_value(size) * _value(epochs), PUBLISHED, remark=f"{_cited(size)}; {_cited(epochs)}")


def measured_samples(profile: Profile) -> bool:
    """Whether a run of the record tells samples."""
    return "trainings" in profile.manifest.tables and bool(profile.table("trainings")["samples"].notna().any())


@feature("flops_to_quality", unit="FLOP", needs="convergence", transform="log10", block="training work",
         origin=PUBLISHED)  # fmt: skip
def flops_to_quality(profile: Profile) -> Found:
    """FLOPs per sample times samples to the target; in logarithms a sum of the two, so never all three together."""
    count = samples_to_quality.evaluate(profile)
    if count.reason:
        raise NotMeasuredError(count.reason)
    work, _ = stream.fit(profile, "flops_all")
    return Found(work * float(count.values.iloc[0]), count.origin, remark=count.remark)


@feature("seed_cv_epochs", unit="fraction", needs="convergence", transform="sqrt", block="variation", tier="core",
         origin=PUBLISHED, reference="AIBench's run-to-run variation; Sokal and Braumann 1980")  # fmt: skip
def seed_cv_epochs(profile: Profile) -> Found:
    """Standard deviation over mean of the epochs (samples where logs count those) to the target, of four or more runs,
    times 1 + 1 / (4 n)."""
    own = measured(profile, "epochs" if not measured_samples(profile) else "samples")
    if own is not None:
        _, values = own
        if len(values) < LEAST_RUNS:
            raise NotMeasuredError(f"{len(values)} successful runs are too few: {LEAST_RUNS} are needed")
        return Found(_corrected(float(values.std(ddof=1) / values.mean()), len(values)), MEASURED)
    fact, runs = published(profile, "epochs to target, coefficient of variation"), published(profile, "runs per result")
    if _value(runs) < LEAST_RUNS:
        raise NotMeasuredError(f"{runs.value} published runs are too few: {LEAST_RUNS} are needed")
    return Found(_corrected(_value(fact), int(_value(runs))), PUBLISHED, remark=_cited(fact))


def _corrected(cv: float, n: int) -> float:
    return cv * (1 + 1 / (4 * n))


@feature("step_time_cv", unit="fraction", needs="timing", transform="log", block="step times", floor=1e-4,
         origin=MEASURED)  # fmt: skip
def step_time_cv(profile: Profile) -> float:
    """Robust variation of the step time, 1.4826 MAD / median, of the kind with most measured steps."""
    pass_of(profile, "timing")
    rows = profile.table("steps")
    rows = rows[(rows["pass"] == "timing") & (rows["role"] == "measured")]
    if rows.empty:
        raise NotMeasuredError("pass timing has no measured steps")
    kind = rows["kind"].astype(str).mode().iloc[0]
    times = rows.loc[rows["kind"].astype(str) == kind, "duration_ns"].to_numpy(np.float64)
    middle = np.median(times)
    return float(_MAD * np.median(np.abs(times - middle)) / middle)


@feature("energy_per_sample", unit="J/sample", needs="timing", transform="log10", block="energy", origin=MEASURED)
def energy_per_sample(profile: Profile) -> float:
    """Energy of the devices during the measured steps over their samples."""
    pass_of(profile, "timing")
    found = power(profile)
    energies = pd.Series(dtype="float64") if found is None else found.rows["energy_per_sample_j"].dropna()
    if energies.empty:
        raise NotMeasuredError("no power was sampled: a GPU with NVML beside pass timing gives it")
    return float(energies.astype("float64").sum())


@feature("time_per_epoch", unit="s", needs="convergence", transform="log10", block="cost", tier="meta",
         origin=MEASURED)  # fmt: skip
def time_per_epoch(profile: Profile) -> float:
    """Median over runs of the time to the target over its epochs: a cost, never a feature of a set."""
    seconds, epochs = measured(profile, "seconds"), measured(profile, "epochs")
    if seconds is None or epochs is None or len(seconds[1]) != len(epochs[1]):
        raise NotMeasuredError(f"the record lacks {NEEDS['convergence']}")
    return float(np.median(seconds[1] / epochs[1]))
