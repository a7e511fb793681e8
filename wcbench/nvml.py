"""A small typed layer over NVML, NVIDIA's management library: every read is a value or a reason, never a stand-in.

It is in the base layer because two layers need it: `machine.py` says which GPUs there are, and
`profilers/power.py` samples them. The binding (`pynvml`, from nvidia-ml-py) is imported only inside `open_nvml`.
Units are SI: watts, joules, hertz, bytes, degrees Celsius, fractions of one.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from wcbench.errors import WcbenchError

T = TypeVar("T")

# NVML's return codes are part of its ABI; they are named here so that a reason can be given without the binding.
NOT_SUPPORTED = 3
NO_PERMISSION = 4
DRIVER_NOT_LOADED = 9
LIBRARY_NOT_FOUND = 12
FUNCTION_NOT_FOUND = 13
GPU_IS_LOST = 15
RESET_REQUIRED = 16
VERSION_MISMATCH = 18
ARGUMENT_VERSION_MISMATCH = 25

_REASONS = {
    NOT_SUPPORTED: "this device does not report it",
    NO_PERMISSION: "the driver refuses it to this user",
    DRIVER_NOT_LOADED: "the NVIDIA driver is not loaded",
    LIBRARY_NOT_FOUND: "NVML's library was not found: no NVIDIA driver is installed, or the container was not given it",
    FUNCTION_NOT_FOUND: "the installed driver is too old to know this call",
    GPU_IS_LOST: "the device is lost (it fell off the bus or broke down)",
    RESET_REQUIRED: "the device must be reset before it answers again",
    VERSION_MISMATCH: "the NVIDIA driver and NVML's library have different versions (reboot after an update)",
}

# Asking again during one run cannot help, and a lost device may take long to say so.
_FINAL = frozenset({NOT_SUPPORTED, NO_PERMISSION, FUNCTION_NOT_FOUND, GPU_IS_LOST, RESET_REQUIRED})


class NvmlUnavailable(WcbenchError):  # noqa: N818 - it names a state of the machine, not a fault
    """NVML cannot be used here; `reason` says why, as a clause without a full stop."""

    def __init__(self, reason: str, hint: str | None = None) -> None:
        super().__init__(f"NVML is not available: {reason}.", hint)
        self.reason = reason


@dataclass(frozen=True)
class Reading(Generic[T]):
    """A value, or None and the reason; `final` says that asking again in this run is pointless."""

    value: T | None
    reason: str | None = None
    final: bool = False


class NvmlDevice:
    """One device as NVML counts it (by PCI bus address); no read raises."""

    def __init__(self, nvml: Any, index: int) -> None:
        self.index = index
        self._nvml = nvml
        self._handle: Any = None

    def _ask(self, call: Callable[[Any, Any], T]) -> Reading[T]:
        nvml = self._nvml
        try:
            if self._handle is None:
                self._handle = nvml.nvmlDeviceGetHandleByIndex(self.index)
            return Reading(call(nvml, self._handle))
        except nvml.NVMLError as error:
            return Reading(None, _reason(error), error.value in _FINAL)
        except AttributeError:  # a binding older than the call
            return Reading(None, "the installed nvidia-ml-py does not know this call", final=True)

    # What it is

    def name(self) -> Reading[str]:
        return self._ask(lambda nvml, handle: str(nvml.nvmlDeviceGetName(handle)))

    def uuid(self) -> Reading[str]:
        return self._ask(lambda nvml, handle: str(nvml.nvmlDeviceGetUUID(handle)))

    def pci(self) -> Reading[str]:
        """PCI bus address, such as ``00000000:3B:00.0``."""
        return self._ask(lambda nvml, handle: _text(nvml.nvmlDeviceGetPciInfo(handle).busId))

    def memory_bytes(self) -> Reading[int]:
        return self._ask(lambda nvml, handle: int(nvml.nvmlDeviceGetMemoryInfo(handle).total))

    def compute_capability(self) -> Reading[str]:
        """Major and minor with a point, such as ``9.0``."""
        return self._ask(lambda nvml, handle: "{}.{}".format(*nvml.nvmlDeviceGetCudaComputeCapability(handle)))

    def power_limit_w(self) -> Reading[float]:
        """The limit set by whoever administers the device, in watts."""
        return self._ask(lambda nvml, handle: nvml.nvmlDeviceGetPowerManagementLimit(handle) / 1e3)

    def max_sm_clock_hz(self) -> Reading[int]:
        return self._ask(lambda nvml, handle: nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM) * 10**6)

    def max_memory_clock_hz(self) -> Reading[int]:
        return self._ask(lambda nvml, handle: nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_MEM) * 10**6)

    def mig_enabled(self) -> Reading[bool]:
        return self._ask(lambda nvml, handle: nvml.nvmlDeviceGetMigMode(handle)[0] == 1)

    # What it does now

    def power_w(self) -> Reading[float]:
        """Power in watts. A reading of 0 W is no reading: no device that answers draws nothing."""
        reading = self._ask(lambda nvml, handle: nvml.nvmlDeviceGetPowerUsage(handle) / 1e3)
        if reading.value == 0:
            return Reading(None, "the driver says 0 W, which no running device draws (a twin die may carry its power)")
        return reading

    def energy_j(self) -> Reading[float]:
        """Joules since the driver was loaded."""
        return self._ask(lambda nvml, handle: nvml.nvmlDeviceGetTotalEnergyConsumption(handle) / 1e3)

    def utilization(self) -> Reading[float]:
        """Share of the driver's last sample period (1/6 s to 1 s) in which a kernel ran."""
        return self._ask(lambda nvml, handle: nvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100)

    def memory_utilization(self) -> Reading[float]:
        """Share of the driver's last sample period in which device memory was read or written."""
        return self._ask(lambda nvml, handle: nvml.nvmlDeviceGetUtilizationRates(handle).memory / 100)

    def memory_used_bytes(self) -> Reading[int]:
        """Bytes in use by all processes, the driver's own reserve included."""
        return self._ask(lambda nvml, handle: int(nvml.nvmlDeviceGetMemoryInfo(handle).used))

    def sm_clock_hz(self) -> Reading[int]:
        return self._ask(lambda nvml, handle: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM) * 10**6)

    def memory_clock_hz(self) -> Reading[int]:
        return self._ask(lambda nvml, handle: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM) * 10**6)

    def temperature_c(self) -> Reading[float]:
        return self._ask(_temperature)


class NvmlSession:
    """NVML while it is open; made by `open_nvml`, closed by its ``with`` block and by nothing else.

    (A generator would also close it when collected, which must not happen while a thread hangs in the driver.)
    """

    def __init__(self, nvml: Any) -> None:
        self._nvml = nvml

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(self._nvml.NVMLError):  # a driver that died meanwhile cannot be closed either
            self._nvml.nvmlShutdown()

    def device_count(self) -> int:
        """How many devices NVML lists; raises NvmlUnavailable when it cannot say."""
        try:
            return int(self._nvml.nvmlDeviceGetCount())
        except self._nvml.NVMLError as error:
            raise NvmlUnavailable(_reason(error)) from None

    def device(self, index: int) -> NvmlDevice:
        return NvmlDevice(self._nvml, index)

    def devices(self) -> list[NvmlDevice]:
        return [self.device(index) for index in range(self.device_count())]

    def driver(self) -> Reading[str]:
        return self._ask(lambda nvml: str(nvml.nvmlSystemGetDriverVersion()))

    def cuda_driver(self) -> Reading[str]:
        """The newest CUDA that the driver serves, such as ``12.4`` (NVML says 12040)."""
        return self._ask(lambda nvml: _cuda_version(nvml.nvmlSystemGetCudaDriverVersion_v2()))

    def _ask(self, call: Callable[[Any], T]) -> Reading[T]:
        try:
            return Reading(call(self._nvml))
        except self._nvml.NVMLError as error:
            return Reading(None, _reason(error), error.value in _FINAL)


def open_nvml() -> NvmlSession:
    """NVML, opened for a ``with`` block; raises NvmlUnavailable, with the reason, where there is none."""
    try:
        import pynvml
    except ImportError:
        hint = "Install it: pip install nvidia-ml-py"
        raise NvmlUnavailable("the Python package nvidia-ml-py is not installed", hint) from None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise NvmlUnavailable(_reason(error)) from None
    return NvmlSession(pynvml)


def _temperature(nvml: Any, handle: Any) -> float:
    """The versioned call where binding and driver have it: the older one goes away with CUDA 14."""
    if hasattr(nvml, "nvmlDeviceGetTemperatureV"):
        try:
            return float(nvml.nvmlDeviceGetTemperatureV(handle, nvml.NVML_TEMPERATURE_GPU))
        except nvml.NVMLError as error:
            if error.value not in (FUNCTION_NOT_FOUND, ARGUMENT_VERSION_MISMATCH):
                raise
    return float(nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU))


def _cuda_version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _reason(error: Any) -> str:
    """Our words where we have them, always with NVML's own, which is what people search for."""
    ours = _REASONS.get(error.value)
    theirs = str(error).rstrip(".")
    return f"NVML says: {theirs}" if ours is None else f"{ours} (NVML: {theirs})"
