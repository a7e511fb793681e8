"""What a record was made on: processor, memory, GPUs, versions, settings; and how to hide whose machine it was.

Imports only the standard library: versions come from package metadata, never from importing torch.
What is not known is None; where the why is not obvious it stands in a `reasons` mapping beside the value.
"""

from __future__ import annotations

import getpass
import math
import os
import platform
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from wcbench.nvml import NvmlDevice, NvmlSession, NvmlUnavailable, Reading, open_nvml

PACKAGES = ("torch", "torchvision", "transformers", "numpy", "pandas", "pyarrow", "scikit-learn", "nvidia-ml-py")

# Settings of the libraries that decide how fast a step runs. Only these families are ever recorded.
ENVIRONMENT_PREFIXES = (
    "ATEN_", "CUBLAS_", "CUDA_", "CUDNN_", "DNNL_", "GOMP_", "KMP_", "MKL_", "NCCL_", "NVIDIA_TF32_", "OMP_", "ONEDNN_",
    "OPENBLAS_", "PYTORCH_", "TORCH_",
)  # fmt: skip
_SECRET = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|AUTH|API_?KEY", re.IGNORECASE)

# In the order in which they are reported; x86 first, then Arm.
_ISA = (
    "avx", "avx2", "fma", "f16c", "avx_vnni", "avx512f", "avx512bw", "avx512vl", "avx512_vnni", "avx512_bf16",
    "avx512_fp16", "amx_tile", "amx_int8", "amx_bf16", "amx_fp16",
    "asimd", "asimdhp", "asimddp", "i8mm", "bf16", "sve", "sve2", "sme",
)  # fmt: skip

_ROOT = Path("/")


def describe() -> dict[str, Any]:
    """The machine as plain JSON types: identity, platform, python, cpu, gpus, packages, wcbench, environment."""
    return {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "identity": identity(),
        "platform": _platform(),
        "python": {"version": platform.python_version(), "implementation": platform.python_implementation()},
        "cpu": cpu(),
        **_gpus(),
        "packages": {name: _version(name) for name in PACKAGES},
        "wcbench": {"version": _version("wcbench"), **checkout()},
        "environment": environment(os.environ),
    }


def identity() -> dict[str, str | None]:
    """Host name, user name and home folder: what `redact` hides before anything is shared."""
    return {"hostname": platform.node() or None, "user": _or_none(getpass.getuser), "home": _or_none(_home)}


def _home() -> str:
    return str(Path.home())


def _or_none(ask: Callable[[], str]) -> str | None:
    # A container's numeric user has no entry in the password file; each Python says so with another exception.
    try:
        return ask() or None
    except (KeyError, OSError, RuntimeError, ImportError):
        return None


def _platform() -> dict[str, str | None]:
    return {
        "system": platform.system() or None,
        "distribution": _distribution(),
        "kernel": platform.release() or None,
        "architecture": platform.machine() or None,
        "libc": " ".join(platform.libc_ver()).strip() or None,
    }


def _distribution() -> str | None:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME")
    except OSError:
        return None


# The processor and its memory. Every function takes the root of the file system, so that tests can lay one out.


def cpu(root: Path = _ROOT) -> dict[str, Any]:
    """Model, cores, caches (bytes of one instance, as the first core sees them) and main memory (bytes)."""
    blocks = _cpuinfo(root)
    quota = cpu_quota(root)
    affinity = _affinity()
    caches = _caches(root)
    reasons = {}
    if blocks is None:
        reasons["isa"] = reasons["model"] = "/proc/cpuinfo cannot be read"
    if not caches:
        reasons["caches"] = "/sys/devices/system/cpu/cpu0/cache cannot be read"
    return {
        "model": _cpu_model(blocks or []),
        "physical_cores": _physical_cores(root),
        "logical_cores": os.cpu_count(),
        "affinity_cores": affinity,
        "quota_cores": quota,
        "usable_cores": _usable(affinity or os.cpu_count(), quota),
        "l1d_bytes": caches.get((1, "Data")),
        "l2_bytes": caches.get((2, "Unified")),
        "l3_bytes": caches.get((3, "Unified")),
        "isa": None if blocks is None else _isa(blocks),
        **memory(root),
        "reasons": reasons,
    }


def usable_cores() -> int:
    """Processes worth starting here: what affinity and the control group's quota leave, at least 1."""
    return _usable(_affinity() or os.cpu_count(), cpu_quota(_ROOT)) or 1


def _usable(cores: int | None, quota: float | None) -> int | None:
    """Threads worth starting: a quota of 1.5 cores keeps two threads partly busy."""
    if cores is None or quota is None:
        return cores
    return min(cores, max(1, math.ceil(quota)))


def _affinity() -> int | None:
    ask = getattr(os, "sched_getaffinity", None)  # Linux only
    return None if ask is None else len(ask(0))


def _cpuinfo(root: Path) -> list[dict[str, str]] | None:
    """One mapping a processor, or None where the file is missing."""
    text = _read(root / "proc/cpuinfo")
    if text is None:
        return None
    blocks = []
    for block in text.strip().split("\n\n"):
        pairs = (line.partition(":") for line in block.splitlines())
        blocks.append({key.strip(): value.strip() for key, _, value in pairs})
    return blocks


def _cpu_model(blocks: Sequence[Mapping[str, str]]) -> str | None:
    first = blocks[0] if blocks else {}
    if "model name" in first:
        return first["model name"]
    if "CPU part" in first:  # Arm kernels give numbers, not names
        return f"Arm implementer {first.get('CPU implementer', '?')} part {first['CPU part']}"
    return platform.processor() or None


def _isa(blocks: Sequence[Mapping[str, str]]) -> list[str]:
    first = blocks[0] if blocks else {}
    flags = set(first.get("flags", first.get("Features", "")).split())
    return [flag for flag in _ISA if flag in flags]


def _physical_cores(root: Path) -> int | None:
    """Cores counted once however many threads each has, over the whole machine."""
    cores = set()
    for folder in (root / "sys/devices/system/cpu").glob("cpu[0-9]*/topology"):
        core, package = _read(folder / "core_id"), _read(folder / "physical_package_id")
        if core is not None and package is not None:
            cores.add((package.strip(), core.strip()))
    return len(cores) or None


def _caches(root: Path) -> dict[tuple[int, str], int]:
    found = {}
    for folder in sorted((root / "sys/devices/system/cpu/cpu0/cache").glob("index*")):
        level, kind, size = (_read(folder / name) for name in ("level", "type", "size"))
        number = _size(size)
        if level is not None and kind is not None and number is not None:
            found[int(level), kind.strip()] = number
    return found


def _size(text: str | None) -> int | None:
    """Bytes of a size as sysfs writes it: ``32K``, ``1024K``, ``2M``."""
    match = re.fullmatch(r"\s*(\d+)([KMG]?)\s*", text or "")
    if match is None or int(match[1]) == 0:
        return None
    return int(match[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[match[2]]


def memory(root: Path = _ROOT) -> dict[str, int | None]:
    """Bytes of main memory, and the limit that a control group sets on this process."""
    total = _total_memory(root)
    limit = memory_limit(root)
    if limit is not None and total is not None and limit >= total:
        limit = None  # it limits nothing
    return {"memory_bytes": total, "memory_limit_bytes": limit}


def _total_memory(root: Path) -> int | None:
    match = re.search(r"^MemTotal:\s+(\d+) kB", _read(root / "proc/meminfo") or "", re.MULTILINE)
    if match is not None:
        return int(match[1]) * 1024
    try:  # macOS has no /proc
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if root == _ROOT else None
    except (AttributeError, ValueError, OSError):
        return None


def cpu_quota(root: Path = _ROOT) -> float | None:
    """Cores that the control groups (version 2 or 1) allow this process on average, or None without a quota."""
    return min((quota for folder in _cgroups(root, "cpu") if (quota := _quota(folder)) is not None), default=None)


def _quota(folder: Path) -> float | None:
    both = _read(folder / "cpu.max")  # version 2: "150000 100000" or "max 100000"
    parts = both.split() if both else [_read(folder / f"cpu.cfs_{part}_us") for part in ("quota", "period")]
    try:
        quota, period = (int(part) for part in parts if part is not None)
    except ValueError:
        return None
    return quota / period if quota > 0 and period > 0 else None


def memory_limit(root: Path = _ROOT) -> int | None:
    """The smallest memory limit, in bytes, of the control groups that hold this process."""
    return min((limit for folder in _cgroups(root, "memory") if (limit := _limit(folder)) is not None), default=None)


def _limit(folder: Path) -> int | None:
    text = _read(folder / "memory.max") or _read(folder / "memory.limit_in_bytes")
    try:
        limit = int(text or "max")
    except ValueError:
        return None
    return limit if limit < 1 << 62 else None  # version 1 writes "no limit" as the largest number of whole pages


def _cgroups(root: Path, controller: str) -> Iterator[Path]:
    """Folders of every control group from this process's own up to the mount: a limit may sit on any of them.

    Inside a container the recorded path may not exist under the mount; then only the levels that exist count,
    the mount itself (which is the container's own group there) at least.
    """
    base = root / "sys/fs/cgroup"
    for line in (_read(root / "proc/self/cgroup") or "").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            mount = base / "unified" if (base / "unified").is_dir() else base
        elif controller in controllers.split(","):
            mount = next((m for m in (base / controllers, base / controller) if m.is_dir()), base)
        else:
            continue
        inside = Path(path.lstrip("/"))
        yield from (mount / level for level in (inside, *inside.parents) if (mount / level).is_dir())


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None


# GPUs


def _gpus() -> dict[str, Any]:
    try:
        with open_nvml() as session:
            gpus = [_gpu(session, device) for device in session.devices()]
    except NvmlUnavailable as error:
        return {"gpus": [], "gpus_reason": error.reason}
    return {"gpus": gpus, "gpus_reason": None if gpus else "NVML lists no device"}


def _gpu(session: NvmlSession, device: NvmlDevice) -> dict[str, Any]:
    readings: dict[str, Reading[Any]] = {
        "name": device.name(),
        "memory_bytes": device.memory_bytes(),
        "driver": session.driver(),
        "cuda_driver": session.cuda_driver(),
        "pci": device.pci(),
        "power_limit_w": device.power_limit_w(),
        "compute_capability": device.compute_capability(),
        "max_sm_clock_hz": device.max_sm_clock_hz(),
        "max_memory_clock_hz": device.max_memory_clock_hz(),
        "mig_enabled": device.mig_enabled(),
    }
    values = {name: reading.value for name, reading in readings.items()}
    reasons = {name: reading.reason for name, reading in readings.items() if reading.reason is not None}
    return {"index": device.index, **values, "reasons": reasons}


# Versions and settings


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def wcbench_version() -> str:
    """The installed version, or ``unknown`` where wcbench runs without having been installed."""
    return _version("wcbench") or "unknown"


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    """The variables that steer the numeric libraries; a name that looks like a secret is left out."""
    names = sorted(name for name in variables if name.startswith(ENVIRONMENT_PREFIXES) and not _SECRET.search(name))
    return {name: variables[name] for name in names}


def checkout(folder: Path | None = None) -> dict[str, Any]:
    """Commit of the wcbench checkout and whether files differ from it; None and a reason where there is none."""
    top = Path(__file__).resolve().parent.parent if folder is None else folder
    # Asked for here, not found upwards: an environment inside someone else's repository is not our checkout.
    if not (top / ".git").exists():
        return {"commit": None, "dirty": None, "reasons": {"commit": "wcbench does not run from a git checkout"}}
    try:
        commit = _git(top, "rev-parse", "--verify", "--quiet", "HEAD").strip()
        dirty = bool(_git(top, "status", "--porcelain").strip())
    except (OSError, subprocess.SubprocessError) as error:
        return {"commit": None, "dirty": None, "reasons": {"commit": _git_reason(error)}}
    return {"commit": commit, "dirty": dirty, "reasons": {}}


def _git(folder: Path, *arguments: str) -> str:
    # Without GIT_DIR and its like, which a git hook sets and which would name another repository; and without
    # optional locks, for a capture must not disturb a commit that runs beside it.
    settings = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    settings |= {"GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, env=settings, capture_output=True, text=True, timeout=5, check=True).stdout


def _git_reason(error: Exception) -> str:
    if isinstance(error, subprocess.TimeoutExpired):
        return "git did not answer within 5 s"
    if isinstance(error, subprocess.CalledProcessError):
        lines = str(error.stderr).strip().splitlines()
        return f"git says: {lines[0]}" if lines else "the checkout has no commit yet"  # --quiet leaves only that silent
    return "git is not installed"


# Differences


@dataclass(frozen=True)
class Difference:
    """One place where two descriptions disagree; None stands for what one of them does not have."""

    path: str
    left: Any
    right: Any


def differences(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[Difference]:
    """Where two descriptions differ, by dotted path in sorted order; whose machine and when do not count."""
    skip = ("identity", "time")
    left, right = ({key: value for key, value in side.items() if key not in skip} for side in (a, b))
    return list(_compare("", left, right))


def _compare(path: str, left: Any, right: Any) -> Iterator[Difference]:
    left_parts, right_parts = _parts(left), _parts(right)
    if left_parts is None or right_parts is None:
        if left != right:
            yield Difference(path, left, right)
        return
    for key in sorted({*left_parts, *right_parts}):
        if key[1] != "reasons":  # they follow from the values beside them
            name = str(key[1])
            yield from _compare(f"{path}.{name}" if path else name, left_parts.get(key), right_parts.get(key))


def _parts(value: Any) -> dict[tuple[int, str], Any] | None:
    """Children under sortable keys; a list of plain values (the ISA flags) is one value."""
    if isinstance(value, Mapping):
        return {(0, str(key)): child for key, child in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str) and any(isinstance(v, Mapping) for v in value):
        return {(index, str(index)): child for index, child in enumerate(value)}
    return None
