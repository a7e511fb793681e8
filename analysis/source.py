"""Which pass a result came from, and under which conditions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wcbench.record import Profile


@dataclass(frozen=True)
class Source:
    """The pass behind a result. A result never goes without it: batch and preset change every number.

    An imported file may tell neither: then they are None.
    """

    passname: str
    preset: str | None
    batch_size: int | None
    device: str
    tensors: str

    def to_dict(self) -> dict[str, str | int | None]:
        return {
            "pass": self.passname,
            "preset": self.preset,
            "batch_size": self.batch_size,
            "device": self.device,
        }

    def __str__(self) -> str:
        words = [
            f"pass {self.passname}",
            "" if self.preset is None else f"preset {self.preset}",
            "" if self.batch_size is None else f"batch {self.batch_size}",
            self.device,
            "fake tensors" if self.tensors == "fake" else "",
        ]
        return ", ".join(word for word in words if word)


def imported(profile: Profile) -> bool:
    """Whether the record was read from foreign files: what these do not tell is unknown, not 0."""
    return profile.manifest.source is not None


def timed_pass(profile: Profile) -> str:
    """The pass whose kernels are looked at: the timeline; of an imported record without one, that of its counters,
    whose files list single executions with their durations too."""
    passes = profile.manifest.passes
    if imported(profile) and "timeline" not in passes and "counters" in passes:
        return "counters"
    return "timeline"


def source(profile: Profile, passname: str) -> Source | None:
    """The source of results of a pass, or None where the record has no such pass."""
    info = profile.manifest.passes.get(passname)
    if info is None:
        return None
    return Source(passname, info.preset, info.batch_size, info.device, info.tensors)
