"""Characterize what AI training does to a machine.

The names below are the public ones; each is imported when first used, so that ``import wcbench`` stays light.
The list of tasks is `wcbench.api.tasks()`: as ``wcbench.tasks`` it would hide the subpackage of that name.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wcbench.api import doctor, export, load, profile, profile_suite, read, report, runs, summary, sweep
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
    "doctor": "wcbench.api",
    "export": "wcbench.api",
    "load": "wcbench.api",
    "profile": "wcbench.api",
    "profile_suite": "wcbench.api",
    "read": "wcbench.api",
    "report": "wcbench.api",
    "runs": "wcbench.api",
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
    "doctor",
    "export",
    "load",
    "profile",
    "profile_suite",
    "read",
    "report",
    "runs",
    "summary",
    "sweep",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'wcbench' has no attribute '{name}'")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
