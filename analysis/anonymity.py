"""Names that tell what somebody built, taken out of what is shared: kernels, operators of their own, modules, files.

Names of public libraries' operators (``aten::``, ``c10d::``, ...) stay: everybody has them. A kernel becomes its
category and a number, equal names the same, so that a report still says what the time goes to.

A module may be called "memory" and a kernel "profile": the words that documents themselves are made of (their fields,
categories, passes, units) are no names, and stay whatever a module is called.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from wcbench import kernels
from wcbench.analysis.convergence import convergence
from wcbench.analysis.study_records import RECORDS
from wcbench.kernels import classify
from wcbench.suites import suite_ids
from wcbench.tasks.catalog import TASKS

if TYPE_CHECKING:
    from wcbench.analysis.study import Study
    from wcbench.record import Profile

_PUBLIC = re.compile(
    r"(?:aten|prims?|c10d|nccl|torch|torchvision|quantized|inductor)::[\w.:]+|nccl:\w+"
    r"|(?:autograd::engine::evaluate_function: )?(?:\w+Backward\d+|torch::autograd::\w+)"
    r"|ProfilerStep.*|Optimizer\.\w+#(?:Adadelta|Adafactor|Adagrad|Adam|AdamW|Adamax|ASGD|LBFGS|Muon|NAdam|RAdam|RMSprop"
    r"|Rprop|SGD|SparseAdam)\.\w+|\([a-z ]+\)"
)
"""Names that everybody's programs hold, as wholes: what a template is filled with may be somebody's own. Nodes of
autograd that torch generates end in a number; those that people write do not."""
_CATEGORY = re.compile(r"events of category (.+?) are left out")
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
_SETTING, FUNCTION = "setting ", "function"
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
_SMALL_WORDS = frozenset({
    "a", "all", "an", "and", "any", "are", "as", "at", "be", "by", "do", "for", "has", "if", "in", "is", "it", "its",
    "lie", "new", "no", "not", "of", "on", "one", "or", "per", "set", "so", "the", "to", "two", "way",
})  # fmt: skip
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
    for number, name in enumerate(dict.fromkeys(_series(profiles)), start=1):
        found.setdefault(name, f"series {number}")
    for profile in profiles:
        if profile.manifest.source is not None or ":" in profile.manifest.task:
            found.setdefault(profile.manifest.task, "a workload")
    for number, name in enumerate(dict.fromkeys(_own_settings(profiles)), start=1):
        found.setdefault(name, f"{_SETTING}{number}")
    notes = (note.text for profile in profiles for note in profile.manifest.notes)
    categories = dict.fromkeys(name for text in notes for name in _CATEGORY.findall(text))
    for number, name in enumerate(categories, start=1):
        found.setdefault(name, f"category {number}")
    return found


def _with_beginnings(path: str) -> Iterator[str]:
    """``a``, ``a.b`` and ``a.b.c`` of ``a.b.c``: a module that only holds others is in no column of its own."""
    parts = path.split(".")
    yield from (".".join(parts[: i + 1]) for i in range(len(parts)))


def _series(profiles: Iterable[Profile]) -> Iterator[str]:
    """What names of files of runs have in common, by which groups of runs are called."""
    for profile in profiles:
        found = convergence(profile) if "trainings" in profile.tables else None
        yield from (group.series for group in (found.groups if found is not None else ()) if group.series)


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


def is_public(name: str) -> bool:
    """Whether a name is one of a public library, or of wcbench."""
    return _PUBLIC.fullmatch(name) is not None


def _names(profiles: Iterable[Profile], columns: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Names in some columns that are not public, in the order of their first rows."""
    for profile, (table, column) in itertools.product(profiles, columns):
        if table in profile.tables and column in profile.arrow(table).column_names:
            for name in profile.arrow(table)[column].unique().to_pylist():
                if name and not is_public(str(name)):
                    yield str(name)


def stand_ins_of_study(study: Study) -> dict[str, str]:
    """The same of a study: of its functions, of workloads that are not of the catalogue, and of somebody's own table
    its name, suites and families."""
    there = [(table, column) for table, column in _FUNCTION_COLUMNS if column in study.tables.get(table, ())]
    functions = {str(name) for table, column in there for name in study.tables[table][column].dropna()}
    table = study.document["table"]
    named = {
        FUNCTION: [name for name in functions if not is_public(name)],
        "workload": [str(name) for name in table["workloads"] if str(name) not in TASKS],
        "suite": [name for side in ("studied", "against") for name in _titles(study.document.get(side))],
        "family": [] if _of_records(study) else {str(name) for name in (table.get("families") or {}).values()},
    }
    found: dict[str, str] = {}
    for word, names in named.items():
        new = sorted(name for name in set(names) if name not in found)
        found |= {name: f"{word} {number}" for number, name in enumerate(new, start=1)}
    return found


def _of_records(study: Study) -> bool:
    return bool((study.document.get("provenance") or {}).get("records"))


def _titles(group: Any) -> Iterator[str]:
    """How a group of somebody's own table is called; suites of the catalogue are public."""
    if isinstance(group, Mapping) and not {*str(group.get("id")).split("+")} <= {*suite_ids(), RECORDS}:
        yield from (str(group[name]) for name in ("id", "title") if group.get(name))


def anonymous(value: Any, names: Mapping[str, str], keys: Collection[str] = ()) -> Any:
    """A copy of nested mappings and lists in which every name is replaced, also within texts; commands and the folders
    of records go, since they name files. ``keys`` : names that are names wherever they stand, also as keys."""
    return _Replacing(names, frozenset(keys)).replaced(value)


class _Replacing:
    """The names, and which of them are looked for within texts."""

    def __init__(self, names: Mapping[str, str], keys: frozenset[str]) -> None:
        self._names, self._keys = names, keys
        within = [name for name in names if name in keys or (_findable(name) and not _is_setting(names[name]))]
        self._within = sorted((name for name in within if name not in _SMALL_WORDS), key=len, reverse=True)
        self._forced = [name for name in self._within if name in keys]

    def replaced(self, value: Any, field: str = "") -> Any:
        if isinstance(value, str):
            if field in _FIELDS or (field == "about" and _is_ours(value)):
                return text(value, self._names, self._forced)
            return self._names[value] if value in self._names else text(value, self._names, self._within)
        if isinstance(value, Mapping):
            return {
                self._key(key, field): _dropped(key, child) if _names_files(key, child) else self.replaced(child, key)
                for key, child in value.items()
            }
        if isinstance(value, list | tuple):
            return [self.replaced(child, field) for child in value]
        return value

    def _key(self, key: Any, field: str) -> Any:
        """A key is a name as a whole or not at all; a field of the document stays."""
        if key not in self._names or (key not in self._keys and field != "settings" and _is_ours(str(key))):
            return key
        return self._names[key]


def _is_setting(stands: str) -> bool:
    return stands.startswith(_SETTING)


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
    """A text without the names, the longest first; one that is short or a plain word only where it is a word."""
    for name in within:
        if name not in value:
            continue
        if len(name) < LONG_ENOUGH or _PLAIN.match(name) is not None:
            value = re.sub(rf"(?<![\w:]){re.escape(name)}(?!\w|::)", names[name].replace("\\", ""), value)
        else:
            value = value.replace(name, names[name])
    return value
