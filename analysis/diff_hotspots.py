"""Where the time of two profiles differs: category by category, function by function, adding up to the whole.

Functions are paired by name; those left over by what remains of a name without what differs between architectures and
library versions (numbers, tile sizes, prefixes of a GPU's generation), within one category. A pair of the second kind
says so, since it is a guess. Sums are of the rows themselves, so that parts add up to the difference of the totals.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]

BY_NAME, BY_SHAPE = "name", "shape of the name"
_GENERATION = re.compile(
    r"(?:maxwell|pascal|volta|turing|ampere|ada|hopper|blackwell|sm\d+|gfx\w+|cutlass|cudnn|xmma)_?", re.IGNORECASE
)
_NUMBERS = re.compile(r"\d+")
_WORD = re.compile(r"[A-Za-z]+")


def compared(a: Mapping[str, Any], b: Mapping[str, Any], per: tuple[float, float]) -> dict[str, Any]:
    """Blocks "hotspots" of two summaries side by side, in ns; ``per`` is what each one's times are divided by.

    Returns
    -------
    ``of`` (what the times are of in each), ``total_a_ns, total_b_ns, difference_ns``, ``matched_share`` (of each one's
    time, what has a partner), ``by_name_share`` (of that, paired by whole names), ``rows`` of functions and ``full``
    and ``paper`` of categories: ``{..., a_ns, b_ns, difference_ns, a_share, b_share}``, greatest difference first; null
    where one of the two has none of it.
    """
    left, right = (_scaled(block, divisor) for block, divisor in zip((a, b), per, strict=True))
    totals = [math.fsum(row["time_ns"] for row in side) for side in (left, right)]
    rows = [_pair(*pair, totals) for pair in _paired(left, right)]
    partners = [row for row in rows if row["a_ns"] is not None and row["b_ns"] is not None]
    named = [row for row in partners if row["matched"] == BY_NAME]
    shares = [
        _sum(partners, side) / total if total else None for side, total in zip(("a_ns", "b_ns"), totals, strict=True)
    ]
    both = _sum(partners, "a_ns") + _sum(partners, "b_ns")
    return {
        "of": [a.get("of"), b.get("of")],
        "basis": [a.get("basis"), b.get("basis")],
        "total_a_ns": totals[0],
        "total_b_ns": totals[1],
        "difference_ns": totals[1] - totals[0],
        "matched_share": shares,
        "by_name_share": (_sum(named, "a_ns") + _sum(named, "b_ns")) / both if both else None,
        "rows": _ordered(rows),
        "full": _categories(left, right, "category", totals),
        "paper": _categories(left, right, "paper", totals),
    }


def _sum(rows: Iterable[Row], side: str) -> float:
    return math.fsum(row[side] for row in rows)


def _scaled(block: Mapping[str, Any], divisor: float) -> list[dict[str, Any]]:
    return [
        {**row, "time_ns": float(row["time_ns"]) / divisor, "calls": float(row["calls"] or 0) / divisor}
        for row in block.get("rows") or ()
        if row.get("time_ns") is not None
    ]


def _paired(left: Sequence[Row], right: Sequence[Row]) -> Iterable[tuple[list[Row], list[Row], str | None]]:
    """Rows of both sides that belong together, and by what; one side may have none."""
    named_left, named_right = ({row["name"]: row for row in side} for side in (left, right))
    for name, row in named_left.items():
        if name in named_right:
            yield [row], [named_right[name]], BY_NAME
    rest: tuple[dict[Any, list[Row]], dict[Any, list[Row]]] = (defaultdict(list), defaultdict(list))
    for groups, mine, others in ((rest[0], named_left, named_right), (rest[1], named_right, named_left)):
        for name, row in mine.items():
            if name not in others:
                groups[shape(str(name)), row.get("category")].append(row)
    for key in dict.fromkeys((*rest[0], *rest[1])):
        ours, theirs = rest[0].get(key, []), rest[1].get(key, [])
        if ours and theirs:
            yield ours, theirs, BY_SHAPE
        else:
            yield from (([row], [], None) for row in ours)
            yield from (([], [row], None) for row in theirs)


def shape(name: str) -> str:
    """A name without numbers, templates and generations: what two builds of one kernel have in common."""
    head = re.split(r"[<(]", name, maxsplit=1)[0] or name
    return "_".join(_WORD.findall(_NUMBERS.sub("", _GENERATION.sub("", head)).lower())) or name


def _pair(ours: Sequence[Row], theirs: Sequence[Row], matched: str | None, totals: Sequence[float]) -> dict[str, Any]:
    first = (ours or theirs)[0]
    names = list(dict.fromkeys(str(row["name"]) for row in (*ours, *theirs)))
    sides: dict[str, Any] = {}
    for side, rows, total in (("a", ours, totals[0]), ("b", theirs, totals[1])):
        time = _sum(rows, "time_ns") if rows else None
        sides |= {f"{side}_ns": time, f"{side}_calls": _sum(rows, "calls") if rows else None}
        sides[f"{side}_share"] = time / total if time is not None and total else None
    difference = (sides["b_ns"] or 0.0) - (sides["a_ns"] or 0.0)
    return {"name": names[0], "names": names, "category": first.get("category"), "matched": matched,
            **sides, "difference_ns": difference}  # fmt: skip


def _categories(left: Sequence[Row], right: Sequence[Row], view: str, totals: Sequence[float]) -> list[dict[str, Any]]:
    sums: list[dict[str, list[float]]] = []
    for side in (left, right):
        found: dict[str, list[float]] = defaultdict(list)
        for row in side:
            found[str(row.get(view))].append(row["time_ns"])
        sums.append(found)
    rows = []
    for name in dict.fromkeys((*sums[0], *sums[1])):
        times = [math.fsum(found[name]) if name in found else None for found in sums]
        shares = [None if t is None or not total else t / total for t, total in zip(times, totals, strict=True)]
        rows.append({
            "category": name, "a_ns": times[0], "b_ns": times[1], "a_share": shares[0], "b_share": shares[1],
            "difference_ns": (times[1] or 0.0) - (times[0] or 0.0),
        })  # fmt: skip
    return _ordered(rows)


def _ordered(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Greatest difference first; equal ones by name."""
    return sorted(rows, key=lambda row: (-abs(row["difference_ns"]), str(row.get("name") or row.get("category"))))
