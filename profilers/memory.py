"""Peak memory, in a pass of its own: a profiler that records shapes keeps tensors alive (pytorch issue 133444)."""

from __future__ import annotations

import contextlib
import ctypes
import gc
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from wcbench.profilers.base import Collector, Columns
from wcbench.tasks.base import Built

_STATUS = Path("/proc/self/status")
_CLEAR_REFS = Path("/proc/self/clear_refs")
_RESET_PEAK = "5"  # proc(5): reset the peak resident set to the current one


class Memory(Collector):
    """Resident memory of the process, and of torch's allocator on a GPU, at four moments of a run.

    On a CPU the figures are the whole process's, interpreter and libraries included: the moment `start` says what
    stood before the task was built, and differences to it are the task's own.
    """

    name = "memory"
    purpose = "peak memory: resident set of the process, allocator of the GPU"
    rehearse = True
    warmup = 2
    steps = 3

    def __init__(self, device: str) -> None:
        super().__init__(device)
        self._rows: list[dict[str, Any]] = []
        self._can_reset = True

    def starting(self) -> None:
        gc.collect()
        _return_free_pages()
        self._reset()
        self._read("start")

    def built(self, built: Built) -> None:
        self._read("built")

    def warmed(self) -> None:
        self._read("warmup")

    @contextlib.contextmanager
    def measuring(self, built: Built) -> Iterator[None]:
        yield
        self._read("steps")

    def tables(self) -> Mapping[str, Columns]:
        if not self._rows:
            return {}
        return {"memory": {key: [row[key] for row in self._rows] for key in self._rows[0]}}

    def _read(self, moment: str) -> None:
        """Note the memory now and the peak since the moment before, then start a new peak."""
        status = _resident()
        if status is None:
            if moment == "start":
                self.note(f"Resident memory was not measured: {_STATUS} does not tell it (it is Linux's).")
        else:
            if moment == "start" and "VmHWM" not in status:
                self.note(f"Peak resident memory is not known: this kernel's {_STATUS} has no VmHWM.")
            peak = status.get("VmHWM") if self._can_reset else None
            self._add(moment, "cpu", status["VmRSS"], peak, None)
        if torch.device(self.device).type == "cuda":
            current, peak, reserved = _allocated(self.device)
            self._add(moment, self.device, current, peak, reserved)
        self._reset()

    def _add(self, moment: str, device: str, current: int, peak: int | None, reserved: int | None) -> None:
        self._rows.append(
            {
                "moment": moment,
                "device": device,
                "current_bytes": current,
                "peak_bytes": peak,
                "reserved_bytes": reserved,
            }
        )

    def _reset(self) -> None:
        try:
            _CLEAR_REFS.write_text(_RESET_PEAK)
        except OSError as error:
            if self._can_reset and _STATUS.exists():
                self.note(f"Peak resident memory is not known: {_CLEAR_REFS} cannot be written ({error.strerror}).")
            self._can_reset = False
        if torch.device(self.device).type == "cuda":
            torch.cuda.reset_peak_memory_stats(self.device)


def _resident() -> dict[str, int] | None:
    """VmRSS and, where the kernel tells it, VmHWM in bytes (it prints KiB); None where there is no /proc."""
    try:
        lines = _STATUS.read_text().splitlines()
    except OSError:
        return None
    fields = dict(line.split(":", 1) for line in lines if ":" in line)
    sizes: dict[str, int] = {name: int(fields[name].split()[0]) * 1024 for name in ("VmRSS", "VmHWM") if name in fields}
    return sizes if "VmRSS" in sizes else None


def _allocated(device: str) -> tuple[int, int, int]:
    torch.cuda.synchronize(device)
    return (
        torch.cuda.memory_allocated(device),
        torch.cuda.max_memory_allocated(device),
        torch.cuda.max_memory_reserved(device),
    )


def _return_free_pages() -> None:
    """Give pages that earlier work freed back to the system, or they would hide growth (glibc keeps them)."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
