"""Which pass a result came from, and under which conditions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wcbench.record import Profile


@dataclass(frozen=True)
class Source:
    """The pass behind a result. A result never goes without it: batch and preset change every number."""

    passname: str
    preset: str
    batch_size: int
    device: str
    tensors: str

    def to_dict(self) -> dict[str, str | int]:
        return {
            "pass": self.passname,
            "preset": self.preset,
            "batch_size": self.batch_size,
            "device": self.device,
        }

    def __str__(self) -> str:
        fake = ", fake tensors" if self.tensors == "fake" else ""
        return f"pass {self.passname}, preset {self.preset}, batch {self.batch_size}, {self.device}{fake}"


def source(profile: Profile, passname: str) -> Source | None:
    """The source of results of a pass, or None where the record has no such pass."""
    info = profile.manifest.passes.get(passname)
    if info is None:
        return None
    return Source(passname, info.preset, info.batch_size, info.device, info.tensors)
