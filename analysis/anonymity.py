"""Names that tell what somebody built, taken out of what is shared: kernels, operators of their own, modules, files.

Names of public libraries' operators (``aten::``, ``c10d::``, ...) stay: everybody has them. A kernel becomes its
category and a number, equal names the same, so that a report still says what the time goes to.

A module may be called "memory" and a kernel "profile": the words that documents themselves are made of (their fields,
categories, passes, units) are no names, and stay whatever a module is called.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from wcbench import kernels
from wcbench.kernels import classify

if TYPE_CHECKING:
    from wcbench.analysis.study import Study
    from wcbench.record import Profile

PUBLIC = (
    "aten::", "prim::", "prims::", "c10d::", "torch::", "torchvision::", "autograd::", "nccl:", "quantized::",
    "ProfilerStep", "Optimizer.", "(",
)  # fmt: skip
"""How names begin that everybody's programs hold."""
COLUMNS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "kernel": (("kernels", "name"), ("counters", "name"), ("totals", "name")),
    "operator": (("ops", "name"), ("operators", "name"), ("kernels", "op"), ("storages", "producer")),
    "module": (("kernels", "module"), ("operators", "module"), ("parameters", "model")),
    "parameter": (("lookups", "parameter"), ("parameters", "name"), ("parameters", "shared_with")),
    "file": (("trainings", "file"),),
    "system": (("trainings", "system"),),
    "submitter": (("trainings", "submitter"),),
}
"""Columns of a record's tables that hold names, by what they name."""
_SETTING = "setting "
_COMMON_SETTINGS = ("batch_size",)
_FUNCTION_COLUMNS = (("hotspots", "function"), ("hotspot_functions", "function"), ("hotspot_counts", "top"))
LONG_ENOUGH = 4
"""Characters of a name from which it is looked for within texts: a shorter one would be found in words."""

_FIELDS = frozenset({
    "against", "basis", "block", "category", "change", "code", "created", "device", "direction", "dtype",
    "facet", "format", "id", "implementation", "kind", "matched", "measure", "metric", "moment", "of", "on", "origin",
    "paper", "pass", "per", "phase", "precision", "preset", "primitive", "quantity", "question", "role", "schema",
    "sha256", "source", "status", "suite", "tensors", "transform", "unit", "view", "wcbench",
})  # fmt: skip
"""Fields whose values are words of wcbench, by which reports find their way."""
_PROSE = frozenset({
    "activation", "attention", "backbone", "backward", "batch", "batches", "bytes", "cache", "calls", "categories",
    "category", "check", "classifier", "class", "compute", "conv", "convolution", "copy", "count", "counted", "data",
    "decoder", "device", "dropout", "embedding", "encoder", "file", "files", "formula", "forward", "from", "head",
    "host", "input", "kernel", "kernels", "layer", "layers", "linear", "loss", "main", "memory", "model", "module",
    "modules", "name", "names", "network", "none", "norm", "operator", "operators", "optimizer", "other", "output",
    "parameter", "pass", "phase", "pool", "pooling", "precision", "profile", "record", "reduction", "samples", "self",
    "softmax", "step", "steps", "task", "tensor", "tensors", "test", "text", "than", "that", "this", "time", "timing",
    "timeline", "trace", "train", "training", "unknown", "weight", "with", "work",
})  # fmt: skip
"""Words in which notes are written: replacing them within a text would damage it and hide nobody."""
_CATEGORIES = frozenset({*kernels.FULL, *kernels.PAPER, kernels.NONE_OF_THE_EIGHT, kernels.UNKNOWN})
_PLAIN = re.compile(r"[A-Za-z]+\Z")


def stand_ins(*profiles: Profile) -> dict[str, str]:
    """What stands for each name of records that is not public, e.g. ``{"sm90_xmma_gemm_...": "gemm kernel 3"}``; equal
    names of several records have one."""
    found: dict[str, str] = {}
    for word, columns in COLUMNS.items():
        named = _names(profiles, columns)
        if word == "module":
            named = (path for name in named for path in _with_beginnings(name))
        if word == "parameter":  # "weight" alone tells nothing, and is a word of ours
            named = (name for name in named if "." in name)
        new = [name for name in dict.fromkeys(named) if name not in found]
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
    for number, name in enumerate(dict.fromkeys(_own_settings(profiles)), start=1):
        found.setdefault(name, f"{_SETTING}{number}")
    return found


def _with_beginnings(path: str) -> Iterator[str]:
    """``a``, ``a.b`` and ``a.b.c`` of ``a.b.c``: a module that only holds others is in no column of its own."""
    parts = path.split(".")
    yield from (".".join(parts[: i + 1]) for i in range(len(parts)))


def _own_settings(profiles: Iterable[Profile]) -> Iterator[str]:
    """Settings of tasks that are not of the catalogue, and what they are set to in words."""
    for profile in profiles:
        if ":" in profile.manifest.task:
            for info in profile.manifest.passes.values():
                for name, value in info.settings.items():
                    if name not in _COMMON_SETTINGS:
                        yield name
                    if isinstance(value, str):
                        yield value


def _names(profiles: Iterable[Profile], columns: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Names in some columns that are not public, in the order of their first rows."""
    for profile, (table, column) in itertools.product(profiles, columns):
        if table in profile.tables and column in profile.arrow(table).column_names:
            for name in profile.arrow(table)[column].unique().to_pylist():
                if name and not str(name).startswith(PUBLIC):
                    yield str(name)


def stand_ins_of_study(study: Study) -> dict[str, str]:
    """The same of a study: of its functions, and of workloads that are classes of the user's own."""
    there = [(table, column) for table, column in _FUNCTION_COLUMNS if column in study.tables.get(table, ())]
    named = {str(name) for table, column in there for name in study.tables[table][column].dropna()}
    own = sorted(name for name in named if not name.startswith(PUBLIC))
    workloads = sorted(str(name) for name in study.document["table"]["workloads"] if ":" in str(name))
    found = {name: f"function {number}" for number, name in enumerate(own, start=1)}
    return found | {name: f"workload {number}" for number, name in enumerate(workloads, start=1)}


def anonymous(value: Any, names: Mapping[str, str]) -> Any:
    """A copy of nested mappings and lists in which every name is replaced, also within texts; commands and the folders
    of records go, since they name files."""
    within = [name for name, stands in names.items() if _findable(name) and not stands.startswith(_SETTING)]
    return _replaced(value, names, sorted(within, key=len, reverse=True))


def _replaced(value: Any, names: Mapping[str, str], within: list[str], field: str = "") -> Any:
    if isinstance(value, str):
        if field in _FIELDS or (field == "about" and _is_ours(value)):
            return value
        return names[value] if value in names else text(value, names, within)
    if isinstance(value, Mapping):
        return {
            _key(key, names, field): _dropped(key, child)
            if _names_files(key, child)
            else _replaced(child, names, within, key)
            for key, child in value.items()
        }
    if isinstance(value, list | tuple):
        return [_replaced(child, names, within, field) for child in value]
    return value


def _key(key: Any, names: Mapping[str, str], field: str) -> Any:
    """A key is a name as a whole or not at all; a field of the document stays."""
    return names[key] if key in names and (field == "settings" or not _is_ours(str(key))) else key


def _is_ours(word: str) -> bool:
    """Whether it may be a word of wcbench: a category, or lower-case letters as in ``measured_memory``."""
    return word in _CATEGORIES or re.fullmatch(r"[a-z_ ]+", word) is not None


def _names_files(key: Any, child: Any) -> bool:
    """Commands and folders; a training's ``run`` is a number and stays."""
    return (key in ("run", "record") and isinstance(child, str)) or (key == "command" and child is not None)


def _dropped(key: Any, child: Any) -> Any:
    return [] if key == "command" and not isinstance(child, str) else None


def _findable(name: str) -> bool:
    return len(name) >= LONG_ENOUGH and name not in _PROSE and name not in _CATEGORIES


def text(value: str, names: Mapping[str, str], within: Iterable[str]) -> str:
    """A text without the names, the longest first; one that is a plain word only where it is a word."""
    for name in within:
        if name in value:
            plain = _PLAIN.match(name) is not None
            stand_in = names[name]
            value = re.sub(rf"\b{name}\b", stand_in, value) if plain else value.replace(name, stand_in)
    return value
