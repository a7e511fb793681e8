"""Characterize what AI training does to a machine.

The names below are the public ones; each is imported when first used, so that ``import wcbench`` stays light.
The list of tasks is `wcbench.api.tasks()`: as ``wcbench.tasks`` it would hide the subpackage of that name.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wcbench.analysis.study import load_study
    from wcbench.api import (
        diff,
        doctor,
        export,
        load,
        place,
        profile,
        profile_suite,
        read,
        report,
        runs,
        study,
        summary,
        sweep,
    )
    from wcbench.errors import WcbenchError
    from wcbench.record import Profile
    from wcbench.tasks.base import Built, Config, Settings, Task

_HOMES = {
    "Built": "wcbench.tasks.base",
    "Config": "wcbench.tasks.base",
    "Profile": "wcbench.record",
    "Settings": "wcbench.tasks.base",
    "Task": "wcbench.tasks.base",
    "WcbenchError": "wcbench.errors",
    "diff": "wcbench.api",
    "doctor": "wcbench.api",
    "export": "wcbench.api",
    "load": "wcbench.api",
    "load_study": "wcbench.analysis.study",
    "place": "wcbench.api",
    "profile": "wcbench.api",
    "profile_suite": "wcbench.api",
    "read": "wcbench.api",
    "report": "wcbench.api",
    "runs": "wcbench.api",
    "study": "wcbench.api",
    "summary": "wcbench.api",
    "sweep": "wcbench.api",
}

__all__ = [
    "Built",
    "Config",
    "Profile",
    "Settings",
    "Task",
    "WcbenchError",
    "diff",
    "doctor",
    "export",
    "load",
    "load_study",
    "place",
    "profile",
    "profile_suite",
    "read",
    "report",
    "runs",
    "study",
    "summary",
    "sweep",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'wcbench' has no attribute '{name}'")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def load_ipython_extension(shell: Any) -> None:
    """``%load_ext wcbench`` in a notebook: registers ``%%wcbench`` (wcbench/magic.py)."""
    importlib.import_module("wcbench.magic").load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """``%unload_ext wcbench``."""
    importlib.import_module("wcbench.magic").unload(shell)
