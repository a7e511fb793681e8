"""From the tables of foreign files to a record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wcbench.profilers.readers.base import PassFacts
from wcbench.profilers.readers.gather import Gathered
from wcbench.record import PassInfo, Profile, imported_profile


def to_profile(gathered: Gathered, name: str, command: Sequence[str], keeper: Any) -> Profile:
    """The record of what was gathered; its machine is the files', as far as they tell of it."""
    return imported_profile(
        task=name,
        machine=gathered.facts,
        command=command,
        passes={passname: _pass(facts) for passname, facts in gathered.passes.items()},
        folder=gathered.folder,
        rows=gathered.rows,
        notes=gathered.notes,
        losses=gathered.losses,
        source={"files": gathered.files},
        keeper=keeper,
    )


def _pass(facts: PassFacts) -> PassInfo:
    return PassInfo(
        preset=facts.preset,
        settings=dict(facts.settings),
        batch_size=facts.batch_size,
        samples=facts.samples,
        precision=facts.precision,
        device=facts.device,
        tensors=facts.tensors,
        seed=facts.seed,
        steps=max(1, facts.steps),
        warmup=facts.warmup,
        seconds=facts.seconds,
    )
