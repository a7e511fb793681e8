"""Step times with nothing else switched on, and the device's power beside them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

from wcbench.profilers.base import Collector, Columns
from wcbench.profilers.power import PowerSampler
from wcbench.record import Note
from wcbench.tasks.base import Built


class Timing(Collector):
    """Times the steps; the loop's own clock is the instrument."""

    name = "timing"
    purpose = "step times, nothing else switched on"
    warmup = 3

    def __init__(self, device: str, power: bool = False) -> None:
        super().__init__(device)
        self._sampler = PowerSampler() if power else None

    @contextlib.contextmanager
    def measuring(self, built: Built) -> Iterator[None]:
        with self._sampler or contextlib.nullcontext():
            yield

    def tables(self) -> Mapping[str, Columns]:
        if self._sampler is None:
            return {}
        self.notes += [Note("power", text) for text in self._sampler.notes]
        samples = self._sampler.samples
        return {"power": {key: [sample[key] for sample in samples] for key in samples[0]}} if samples else {}
