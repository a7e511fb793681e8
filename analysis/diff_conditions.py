"""What was unlike about two profiles, what is doubtful about each, and what only one of them has, with the reason."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from wcbench.analysis.diff_time import main_pass
from wcbench.machine import differences

Summary = Mapping[str, Any]

SETTINGS = ("preset", "batch_size", "samples", "precision", "mode", "device", "data_in_step")
"""What of a pass is named first where it differs."""

MINOR = ("tensors", "seed", "warmup", "step_kinds")
"""Named last. How many steps were measured is no condition of a step, and stands beside its time."""
_UNTOLD = ("preset", "batch_size", "precision")

SOURCES = {
    "steps": "timing", "complexity": "operators", "hotspots": "timeline", "categories": "timeline",
    "scaling": "operators", "lookups": "operators", "operators": "operators", "modules": "operators",
    "memory": "operators", "roofline": "operators", "measured_memory": "memory", "power": "timing",
    "primitives": "primitives", "activity": "timeline", "ops": "timeline", "totals": "timeline",
    "counters": "counters", "convergence": "convergence", "allocations": "memory",
}  # fmt: skip
"""The blocks of a summary, each with the pass that it comes from."""


def who(summary: Summary, name: str) -> dict[str, Any]:
    """What a side is: its label, where it lies, how it was made, and the settings of the pass whose times count."""
    info, variant = main_pass(summary)[1], summary.get("variant")
    task = f"{summary['task']}@{variant}" if variant else str(summary["task"])
    return {"name": name, "label": task, "run": summary["run"], "created": summary["created"],
            "command": summary["command"], "imported": summary.get("source") is not None,
            "noise": list(summary["noise"]), **{key: info.get(key) for key in SETTINGS}}  # fmt: skip


def conditions(a: Summary, b: Summary) -> list[dict[str, Any]]:
    """Settings that differ in passes of both, as {what, a, b, passes}: equal differences of several passes once."""
    found: dict[tuple[str, str, str], dict[str, Any]] = {}
    for name, left, right in _pairs(a, b):
        for what, one, other in _unlike(left, right):
            row = found.setdefault((what, repr(one), repr(other)), {"what": what, "a": one, "b": other, "passes": []})
            row["passes"].append(name)
    return sorted(found.values(), key=lambda row: (_rank(row["what"]), row["what"]))


def _pairs(a: Summary, b: Summary) -> Iterator[tuple[str, Mapping[str, Any], Mapping[str, Any]]]:
    """Passes of both; and those whose times count, where these are not of one name."""
    (left, one), (right, other) = main_pass(a), main_pass(b)
    if left != right and left and right:
        yield f"{left} against {right}", one, other
    for name in a["passes"]:
        if name in b["passes"]:
            yield name, a["passes"][name], b["passes"][name]


def _unlike(left: Mapping[str, Any], right: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    for key in (*SETTINGS, *MINOR):
        one, other = (None if side.get(key) == {} else side.get(key) for side in (left, right))  # {}: not told
        if one != other:
            yield key, one, other
    for group, prefix in (("settings", ""), ("torch", "torch.")):
        one, other = left.get(group) or {}, right.get(group) or {}
        for key in sorted({*one, *other} - {"batch_size"}):
            if one.get(key) != other.get(key):
                yield f"{prefix}{key}", one.get(key), other.get(key)


def _rank(what: str) -> int:
    """The order in which they are named: the pass's own settings, threads, the task's settings, torch's, the rest."""
    if what in SETTINGS:
        return SETTINGS.index(what)
    if what == "torch.threads":
        return len(SETTINGS)
    return len(SETTINGS) + (3 if what in MINOR else 2 if what.startswith("torch.") else 1)


def untold(a: Summary, b: Summary) -> list[dict[str, Any]]:
    """What imported files do not tell of the conditions: it may differ without being seen."""
    found = []
    for name, side in (("A", a), ("B", b)):
        lacks = [key for key in _UNTOLD if main_pass(side)[1].get(key) is None]
        if side.get("source") is not None and lacks:
            found.append({"side": name, "what": lacks})
    return found


def machine(a: Summary, b: Summary) -> list[dict[str, Any]]:
    """Where the machines differ, by dotted path: {what, a, b}."""
    return [{"what": d.path, "a": d.left, "b": d.right} for d in differences(a["machine"], b["machine"])]


def doubts(a: Summary, b: Summary) -> list[dict[str, str]]:
    """Checks of plausibility that failed: {side, about, text}."""
    return [
        {"side": name, "about": str(row["name"]), "text": str(row["text"])}
        for name, side in (("A", a), ("B", b))
        for row in (side.get("gates") or {}).get("rows") or ()
        if row.get("held") is False
    ]


def missing(a: Summary, b: Summary) -> list[dict[str, str]]:
    """Blocks that one of the two has and the other has not, with what the record says about the reason."""
    found = []
    for name, source in SOURCES.items():
        lacks = [(label, side) for label, side in (("A", a), ("B", b)) if not side.get(name)]
        if len(lacks) == 1:
            label, side = lacks[0]
            found.append({"about": name, "side": label, "text": f"Only {_other(label)} has it. {label}: "
                                                                f"{_why(side, name, source)}"})  # fmt: skip
    return found


def _other(label: str) -> str:
    return "B" if label == "A" else "A"


def _why(summary: Summary, name: str, source: str) -> str:
    """Notes on the block, else that its pass was not run, else that the files hold nothing for it."""
    ran = source in summary["passes"]
    # pass `memory` measures; its notes are no reason why the model's block of that name is missing
    notes = {
        about: [str(note["text"]) for note in summary.get("notes") or () if _head(note["about"]) == about]
        for about in (name, source)
    }
    own = notes[name] if name not in SOURCES.values() or name == source else []
    own = own or ([] if ran else notes[source])
    if own:
        return " ".join(own)
    if summary.get("source") is not None:
        return "the imported files hold nothing for it."
    return f"pass {source} left nothing for it." if ran else f"pass {source} was not run."


def _head(about: Any) -> str:
    """``power.energy`` is about ``power``."""
    return re.split(r"[.:/ ]", str(about), maxsplit=1)[0]
