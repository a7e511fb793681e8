"""Names that tell what somebody built, taken out of what is shared: kernels, operators of their own, modules, files.

Names of public libraries' operators (``aten::``, ``c10d::``, ...) stay: everybody has them. A kernel becomes its
category and a number, equal names the same, so that a report still says what the time goes to.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from wcbench.kernels import classify

if TYPE_CHECKING:
    from wcbench.record import Profile

PUBLIC = (
    "aten::", "prim::", "prims::", "c10d::", "torch::", "torchvision::", "autograd::", "nccl:", "quantized::",
    "ProfilerStep", "Optimizer.", "(",
)  # fmt: skip
"""How names begin that everybody's programs hold."""
_KERNEL_COLUMNS = (("kernels", "name"), ("counters", "kernel"), ("totals", "name"))
_HOST_COLUMNS = (("ops", "name"), ("operators", "name"), ("kernels", "op"))
_MODULE_COLUMNS = (("kernels", "module"), ("operators", "module"), ("modules", "name"))
LONG_ENOUGH = 4
"""Characters of a name from which it is looked for within texts: a shorter one would be found in words."""


def stand_ins(*profiles: Profile) -> dict[str, str]:
    """What stands for each name of records that is not public, e.g. ``{"sm90_xmma_gemm_...": "gemm kernel 3"}``; equal
    names of several records have one."""
    found: dict[str, str] = {}
    for word, columns in (("kernel", _KERNEL_COLUMNS), ("operator", _HOST_COLUMNS), ("module", _MODULE_COLUMNS)):
        new = [name for name in dict.fromkeys(_names(profiles, columns)) if name not in found]
        for number, name in enumerate(new, start=1):
            kind = f"{classify(name).full} kernel" if word == "kernel" else word
            found[name] = f"{kind} {number}"
    files = [str(f.get("path")) for p in profiles for f in (p.manifest.source or {}).get("files", [])]
    for number, path in enumerate(dict.fromkeys(files), start=1):
        for name in (path, path.rpartition("/")[2], path.rpartition(":")[2]):
            found.setdefault(name, f"file {number}")
    for profile in profiles:
        if profile.manifest.source is not None or ":" in profile.manifest.task:
            found.setdefault(profile.manifest.task, "a workload")
    return found


def _names(profiles: Iterable[Profile], columns: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Names in some columns that are not public, in the order of their first rows."""
    for profile, (table, column) in itertools.product(profiles, columns):
        if table in profile.tables and column in profile.arrow(table).column_names:
            for name in profile.arrow(table)[column].unique().to_pylist():
                if name and not str(name).startswith(PUBLIC):
                    yield str(name)


def anonymous(value: Any, names: Mapping[str, str]) -> Any:
    """A copy of nested mappings and lists in which every name is replaced, also within texts and keys; the command
    and the folder of the record go, since they name files."""
    found = _replaced(value, names, sorted((n for n in names if len(n) >= LONG_ENOUGH), key=len, reverse=True))
    if isinstance(found, dict):
        found |= {key: empty for key, empty in (("run", None), ("command", [])) if key in found}
    return found


def _replaced(value: Any, names: Mapping[str, str], within: list[str]) -> Any:
    if isinstance(value, str):
        return names[value] if value in names else text(value, names, within)
    if isinstance(value, Mapping):
        return {_replaced(key, names, within): _replaced(child, names, within) for key, child in value.items()}
    if isinstance(value, list | tuple):
        return [_replaced(child, names, within) for child in value]
    return value


def text(value: str, names: Mapping[str, str], within: Iterable[str]) -> str:
    """A text without the names, the longest first."""
    for name in within:
        if name in value:
            value = value.replace(name, names[name])
    return value
