"""Signs that a machine was busy with other work while steps were timed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wcbench.analysis.steps import LEAST_OVERHEAD, WIDE_SPREAD, bare_median_ns, step_times

if TYPE_CHECKING:
    from wcbench.record import Profile

DRIFT = 1.5
"""Factor between the same steps in two passes from which the machine's speed is said to have changed."""

BUSY = 1.25
"""Load average over usable cores, at the start of the timed steps, from which others are said to have run."""


def noise(profile: Profile) -> list[tuple[str, str]]:
    """Reasons to doubt a record's times, as (pass, text); empty where none shows.

    Tight quartiles do not prove a quiet machine: a neighbour that runs all the time slows every step alike. So passes
    are compared with each other, and the load average that was recorded is looked at.
    """
    return [*_spread(profile), *_drift(profile), *_load(profile)]


def _spread(profile: Profile) -> list[tuple[str, str]]:
    timing = step_times(profile).get("timing")
    if timing is None or timing.spread <= WIDE_SPREAD:
        return []
    return [("timing", f"Step times are noisy: the quartiles lie {100 * timing.spread:.0f} % of the median apart.")]


def _drift(profile: Profile) -> list[tuple[str, str]]:
    """Steps without an instrument, timed in two passes of one preset, batch, device and precision."""
    passes, timing = profile.manifest.passes, step_times(profile).get("timing")
    found = []
    for name, info in passes.items():
        bare = bare_median_ns(profile, name)
        if timing is None or bare is None or _conditions(info) != _conditions(passes["timing"]):
            continue
        factor = bare / timing.median_ns
        if not 1 / DRIFT < factor < DRIFT:
            here, there = bare / 1e6, timing.median_ns / 1e6
            text = f"Steps without the instrument took {here:.3g} ms in {name} and {there:.3g} ms in timing"
            found.append((name, f"{text}: the machine's speed changed between the passes."))
    return found


def _conditions(info: object) -> tuple[object, ...]:
    return tuple(getattr(info, name) for name in ("preset", "batch_size", "device", "precision", "data_in_step"))


def _load(profile: Profile) -> list[tuple[str, str]]:
    info = profile.manifest.passes.get("timing")
    cores = (profile.manifest.machine.get("cpu") or {}).get("usable_cores")
    if info is None or info.load is None or not cores or info.load <= BUSY * cores:
        return []
    return [("timing", f"The machine was shared: load average {info.load:.1f} on {cores} usable cores.")]


def unresolved_overheads(profile: Profile) -> list[tuple[str, str]]:
    """Overheads that cannot be; they put no doubt on the times themselves."""
    return [
        (
            name,
            f"The overhead of {times.overhead:.2f} is noise: no instrument makes a step faster. These few steps do not "
            "resolve it on this machine.",
        )
        for name, times in step_times(profile).items()
        if times.overhead is not None and times.overhead < LEAST_OVERHEAD
    ]
