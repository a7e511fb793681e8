"""Torch's process-wide state, put back as it was after a capture."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.nn.modules import module as nn_module
from torch.optim import optimizer as optim_module

from wcbench.errors import CaptureError
from wcbench.profilers.streams import quiet_kineto

Flag = tuple[Callable[[], Any], Callable[[Any], Any]]


def _unless_mixed(read: Callable[[], Any]) -> Callable[[], Any]:
    """A reader that gives None where torch refuses: its old and its new interface to fp32 precision were both used."""

    def guarded() -> Any:
        try:
            return read()
        except RuntimeError:
            return None

    return guarded


def _fp32_precision(backend: str, operation: str) -> Flag:
    read = torch._C._get_fp32_precision_getter
    write = torch._C._set_fp32_precision_setter
    return partial(read, backend, operation), partial(write, backend, operation)


# In this order they are restored: what writes several settings at once comes before each of them.
_FLAGS: dict[str, Flag] = {
    "threads": (torch.get_num_threads, torch.set_num_threads),
    "default_dtype": (torch.get_default_dtype, torch.set_default_dtype),
    "grad_enabled": (torch.is_grad_enabled, torch._C._set_grad_enabled),
    "default_device": (
        lambda: str(torch.get_default_device()),
        lambda v: torch.set_default_device(None if v == "cpu" else v),
    ),
    "anomaly": (torch.is_anomaly_enabled, torch.set_anomaly_enabled),
    "float32_matmul_precision": (
        _unless_mixed(torch.get_float32_matmul_precision),
        torch.set_float32_matmul_precision,
    ),
    "cudnn_allow_tf32": (_unless_mixed(torch._C._get_cudnn_allow_tf32), torch._C._set_cudnn_allow_tf32),
    "fp32_precision": _fp32_precision("generic", "all"),
    **{
        f"fp32_precision_{backend}_{operation}": _fp32_precision(backend, operation)
        for backend in ("cuda", "mkldnn")
        for operation in ("all", "matmul", "conv", "rnn")
    },
    "deterministic": (
        lambda: [  # a list, since the manifest's JSON would make one of a tuple
            torch.are_deterministic_algorithms_enabled(),
            torch.is_deterministic_algorithms_warn_only_enabled(),
        ],
        lambda v: torch.use_deterministic_algorithms(v[0], warn_only=v[1]),
    ),
    "mkldnn": (
        lambda: torch.backends.mkldnn.enabled,
        lambda v: setattr(torch.backends.mkldnn, "enabled", v),
    ),
    "cudnn_enabled": (lambda: torch.backends.cudnn.enabled, lambda v: setattr(torch.backends.cudnn, "enabled", v)),
    "cudnn_benchmark": (
        lambda: torch.backends.cudnn.benchmark,
        lambda v: setattr(torch.backends.cudnn, "benchmark", v),
    ),
    "cudnn_deterministic": (
        lambda: torch.backends.cudnn.deterministic,
        lambda v: setattr(torch.backends.cudnn, "deterministic", v),
    ),
    "sdp_flash": (torch.backends.cuda.flash_sdp_enabled, torch.backends.cuda.enable_flash_sdp),
    "sdp_math": (torch.backends.cuda.math_sdp_enabled, torch.backends.cuda.enable_math_sdp),
    "sdp_mem_efficient": (torch.backends.cuda.mem_efficient_sdp_enabled, torch.backends.cuda.enable_mem_efficient_sdp),
    "sdp_cudnn": (torch.backends.cuda.cudnn_sdp_enabled, torch.backends.cuda.enable_cudnn_sdp),
}

_HOOKS: tuple[tuple[Any, str], ...] = tuple(
    (module, name)
    for module, names in (
        (
            nn_module,
            (
                "_global_forward_pre_hooks",
                "_global_forward_hooks",
                "_global_forward_hooks_always_called",
                "_global_forward_hooks_with_kwargs",
                "_global_backward_pre_hooks",
                "_global_backward_hooks",
                "_global_module_registration_hooks",
                "_global_parameter_registration_hooks",
                "_global_buffer_registration_hooks",
            ),
        ),
        (optim_module, ("_global_optimizer_pre_hooks", "_global_optimizer_post_hooks")),
    )
    for name in names
    if hasattr(module, name)
)


def torch_settings() -> dict[str, Any]:
    """The settings that a pass ran under, for its manifest."""
    settings = {name: read() for name, (read, _) in _FLAGS.items()}
    settings["default_dtype"] = str(settings["default_dtype"]).removeprefix("torch.")
    settings["interop_threads"] = torch.get_num_interop_threads()
    return settings


@contextlib.contextmanager
def preserved_state() -> Iterator[None]:
    """Whatever happens inside, leave RNGs, thread count, backend flags and global hooks as they were found.

    Raises
    ------
    CaptureError : a torch profiler or a dispatch mode is already active: its figures and ours would both be wrong.
    """
    _refuse_other_instruments()
    flags = {name: read() for name, (read, _) in _FLAGS.items()}
    hooks = [dict(getattr(module, name)) for module, name in _HOOKS]
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else None
    python_rng, numpy_rng, torch_rng = random.getstate(), np.random.get_state(), torch.get_rng_state()
    try:
        yield
    finally:
        _stop_left_over()
        random.setstate(python_rng)
        np.random.set_state(numpy_rng)
        torch.set_rng_state(torch_rng)
        if cuda is not None:
            torch.cuda.set_rng_state_all(cuda)
        _restore_flags(flags)
        for (module, name), content in zip(_HOOKS, hooks, strict=True):
            found = getattr(module, name)
            if dict(found) != content:
                found.clear()
                found.update(content)


def _stop_left_over() -> None:
    """Stop a profiler and leave dispatch modes that the task began and did not end: none was there before."""
    from torch.utils._python_dispatch import _get_current_dispatch_mode, _pop_mode

    while _get_current_dispatch_mode() is not None:
        _pop_mode()
    if torch._C._autograd._profiler_enabled():
        with quiet_kineto(), contextlib.suppress(RuntimeError):
            torch._C._autograd._disable_profiler()


def _restore_flags(flags: dict[str, Any]) -> None:
    for name, (read, write) in _FLAGS.items():
        if flags[name] is not None and read() != flags[name]:
            write(flags[name])


def _refuse_other_instruments() -> None:
    from torch.utils._python_dispatch import _get_current_dispatch_mode

    if torch._C._autograd._profiler_enabled():
        raise CaptureError(
            "A torch profiler is already running in this process.",
            "Stop it first: two instruments in one pass colour each other (pytorch issue 195746).",
        )
    if _get_current_dispatch_mode() is not None:
        raise CaptureError(
            "A torch dispatch mode is already active in this process.",
            "Leave it first: it doubles the calls that a profiler counts (pytorch issue 195746).",
        )
