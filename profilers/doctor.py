"""What can be measured on this machine, what cannot, and what to do about it."""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from wcbench.nvml import NvmlUnavailable, open_nvml

OK, ABSENT, BROKEN = "ok", "absent", "broken"


@dataclass(frozen=True)
class Check:
    """One thing looked at. ``state`` is ok, absent (wcbench works without it) or broken (it does not)."""

    name: str
    state: str
    finding: str
    remedy: str | None = None


def examine(runs: Path) -> Iterator[Check]:
    """All checks in order; one that fails on its own account is reported as broken and does not stop the others."""
    checks: list[tuple[str, Callable[[], Check]]] = [
        ("python", _python),
        ("torch", _torch),
        ("cuda", _cuda),
        ("power", _power),
        ("fake tensors", _fake_tensors),
        ("oneDNN", _onednn),
        ("peak memory", _peak_memory),
        ("counters", _counters),
        ("runs folder", lambda: _runs_folder(runs)),
    ]
    for name, check in checks:
        try:
            yield check()
        except Exception as error:
            yield Check(name, BROKEN, f"{type(error).__name__}: {error}")


def _python() -> Check:
    names = ("numpy", "pandas", "pyarrow", "scikit-learn", "torchvision", "transformers")
    return Check("python", OK, ", ".join([f"Python {platform.python_version()}", *map(_package, names)]))


def _package(name: str) -> str:
    try:
        return f"{name} {version(name)}"
    except PackageNotFoundError:
        return f"{name} missing"


def _torch() -> Check:
    import torch

    build = f"CUDA {torch.version.cuda} build" if torch.version.cuda else "CPU build"
    return Check("torch", OK, f"torch {torch.__version__} ({build}), {torch.get_num_threads()} threads")


def _cuda() -> Check:
    import torch

    from wcbench.errors import UsageError
    from wcbench.profilers.capture import check_device

    try:
        check_device("cuda")
    except UsageError as error:
        return Check("cuda", ABSENT, error.message, "Nothing to do without a GPU: operators are timed on the CPU.")
    names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return Check("cuda", OK, ", ".join(names))


def _power() -> Check:
    try:
        with open_nvml() as session:
            return Check("power", OK, f"NVML lists {session.device_count()} devices, driver {session.driver()}")
    except NvmlUnavailable as error:
        return Check("power", ABSENT, f"NVML: {error.reason}", "Power and energy are null in records made here.")


def _fake_tensors() -> Check:
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        product = torch.empty(1 << 20, 1 << 10) @ torch.empty(1 << 10, 1 << 20)  # 4 TiB, if it were real
    return Check("fake tensors", OK, f"operators are characterized without memory ({tuple(product.shape)} product)")


def _onednn() -> Check:
    import torch

    if torch.backends.mkldnn.is_available():
        return Check("oneDNN", OK, "its log of primitives can be read")
    return Check("oneDNN", ABSENT, "this torch was built without it", "The pass primitives gives nothing here.")


def _peak_memory() -> Check:
    path = Path("/proc/self/clear_refs")
    if os.access(path, os.W_OK):
        return Check("peak memory", OK, "the peak resident set can be reset and read")
    return Check("peak memory", ABSENT, f"{path} is not writable", "Peaks are null in records made here.")


def _counters() -> Check:
    tools = [tool for tool in ("ncu", "nsys") if shutil.which(tool)]
    if tools:
        return Check("counters", OK, f"on the PATH: {', '.join(tools)}")
    return Check("counters", ABSENT, "neither ncu nor nsys is on the PATH", "Hardware counters need NVIDIA's tools.")


def _runs_folder(runs: Path) -> Check:
    place = next(p for p in (runs, *runs.absolute().parents) if p.exists())
    try:
        with tempfile.TemporaryFile(dir=place):
            pass
    except OSError as error:
        return Check("runs folder", BROKEN, f"{runs} cannot be written: {error.strerror}", "Choose one with --runs.")
    free = shutil.disk_usage(place).free / 2**30
    return Check("runs folder", OK, f"{runs.absolute()} is writable, {free:.0f} GiB free")
