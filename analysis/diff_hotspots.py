"""Where the time of two profiles differs: category by category, function by function, adding up to the whole.

Functions are paired by name and category; those left over by their names without numbers (tile sizes, versions); those
left over then by what remains without templates and the generation of a GPU too. The last two are guesses, and say so.
Sums are of the rows themselves, so that parts add up to the difference of the totals.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from wcbench.analysis.diff_time import per_of, step_samples

Row = Mapping[str, Any]
Pair = tuple[list[Row], list[Row], str | None]

BY_NAME, BY_NUMBERS, BY_SHAPE = "name", "name without numbers", "shape of the name"
_GENERATION = re.compile(
    r"(?:maxwell|pascal|volta|turing|ampere|ada|hopper|blackwell|sm\d+|gfx\w+|cutlass|cudnn|xmma)_?", re.IGNORECASE
)
_NUMBERS = re.compile(r"\d+")
_WORD = re.compile(r"[A-Za-z]+")
WORDS = {"steps": "a step", "trace": "a whole trace", "sums": "the sums of a whole run", "all": "a whole record"}


def hotspots(a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, Any] | None:
    """Blocks "hotspots" of two summaries side by side; None where one of them has none."""
    left, right = a["hotspots"], b["hotspots"]
    if not (left and right and left["rows"] and right["rows"]):
        return None
    stepped = left["basis"] == right["basis"] == "steps"
    samples = [step_samples(side, side["hotspots"]["pass"]) if stepped else None for side in (a, b)]
    per, divisors = per_of(samples[0], samples[1])
    found = compared(left, right, divisors)
    unlike = []
    if left["of"] != right["of"]:
        unlike.append(f"{left['of']} against {right['of']}")
    if left["basis"] != right["basis"]:
        unlike.append(f"{WORDS[left['basis']]} against {WORDS[right['basis']]}")
    return {
        **found,
        "per": per if stepped else "record" if left["basis"] == right["basis"] else None,
        "unlike": "; ".join(unlike) or None,
        "ranks": [left.get("ranks"), right.get("ranks")],
        "coverage": [left.get("coverage"), right.get("coverage")],
    }


def compared(a: Mapping[str, Any], b: Mapping[str, Any], per: tuple[float, float]) -> dict[str, Any]:
    """Rows and categories in ns; ``per`` is what each one's times and calls are divided by.

    Differences are of times where both are of the same basis (a step, a whole record), else None: then only shares of
    each one's own time can be compared. ``calls_ns`` is what a pair would differ by if each call took as long as the
    mean of both, ``length_ns`` the rest, from how long a call takes.

    Returns
    -------
    ``of``, ``basis``, ``total_a_ns, total_b_ns, difference_ns``, ``matched_share`` (of each one's time, what has a
    partner), ``by_name_share`` (of that, paired by whole names), ``parts`` (the difference as ``calls_ns, length_ns``
    of pairs, ``only_a_ns, only_b_ns``), ``rows`` of functions and ``full`` and ``paper`` of categories, greatest
    difference first; null where one of the two has none of it.
    """
    same = a.get("basis") == b.get("basis")
    left, right = (_scaled(block, divisor) for block, divisor in zip((a, b), per, strict=True))
    totals = [math.fsum(row["time_ns"] for row in side) for side in (left, right)]
    rows = [_pair(*pair, totals, same) for pair in _paired(left, right)]
    partners = [row for row in rows if row["matched"] is not None]
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
        "difference_ns": totals[1] - totals[0] if same else None,
        "matched_share": shares,
        "by_name_share": (_sum(named, "a_ns") + _sum(named, "b_ns")) / both if both else None,
        "parts": _parts(rows) if same else None,
        "rows": _ordered(rows),
        "full": _categories(left, right, "category", totals, same),
        "paper": _categories(left, right, "paper", totals, same),
    }


def _sum(rows: Iterable[Row], side: str) -> float:
    return math.fsum(row[side] for row in rows)


def _scaled(block: Mapping[str, Any], divisor: float) -> list[dict[str, Any]]:
    return [
        {
            **row,
            "time_ns": float(row["time_ns"]) / divisor,
            "calls": None if row.get("calls") is None else float(row["calls"]) / divisor,
        }
        for row in block.get("rows") or ()
        if row.get("time_ns") is not None
    ]


# --- which belongs to which -------------------------------------------------------------------------------------------


def _paired(left: Sequence[Row], right: Sequence[Row]) -> Iterator[Pair]:
    """Rows of both sides that belong together, and by what; one side may have none."""
    rest = (list(left), list(right))
    for key, word in ((str, BY_NAME), (without_numbers, BY_NUMBERS), (shape, BY_SHAPE)):
        pairs, rest = _round(*rest, key, word)
        yield from pairs
    yield from (([row], [], None) for row in rest[0])
    yield from (([], [row], None) for row in rest[1])


def _round(
    left: Sequence[Row], right: Sequence[Row], key: Callable[[str], str], word: str
) -> tuple[list[Pair], tuple[list[Row], list[Row]]]:
    """What one key pairs within a category, and what it leaves of each side."""
    groups: tuple[dict[tuple[str, str], list[Row]], ...] = (defaultdict(list), defaultdict(list))
    for rows, found in zip((left, right), groups, strict=True):
        for row in rows:
            found[key(str(row["name"])), str(row.get("category"))].append(row)
    both = [group for group in groups[0] if group in groups[1]]
    rest = tuple(
        [row for group, rows in found.items() if group not in other for row in rows]
        for found, other in (groups, reversed(groups))
    )
    return [(groups[0][group], groups[1][group], word) for group in both], (rest[0], rest[1])


def without_numbers(name: str) -> str:
    """A name in which every number is the same: ``kernel<4>`` and ``kernel<8>``, tiles of 128 and of 256."""
    return _NUMBERS.sub("#", re.sub(r"\s+", "", name)) if _WORD.search(name) else name


def shape(name: str) -> str:
    """A name without numbers, templates and generations: what two builds of one kernel have in common."""
    head = re.split(r"[<(]", name, maxsplit=1)[0] or name
    return "_".join(_WORD.findall(_NUMBERS.sub("", _GENERATION.sub("", head)).lower())) or name


# --- how much ---------------------------------------------------------------------------------------------------------


def _pair(
    ours: Sequence[Row], theirs: Sequence[Row], matched: str | None, totals: Sequence[float], same: bool
) -> dict[str, Any]:
    first = (ours or theirs)[0]
    names = list(dict.fromkeys(str(row["name"]) for row in (*ours, *theirs)))
    sides: dict[str, Any] = {}
    for side, rows, total in (("a", ours, totals[0]), ("b", theirs, totals[1])):
        time = _sum(rows, "time_ns") if rows else None
        counted = bool(rows) and all(row["calls"] is not None for row in rows)
        sides |= {f"{side}_ns": time, f"{side}_calls": _sum(rows, "calls") if counted else None}
        sides[f"{side}_share"] = time / total if time is not None and total else None
    calls, length = _causes(sides) if same else (None, None)
    return {"name": names[0], "names": names, "category": first.get("category"), "matched": matched, **sides,
            **_difference(sides, same), "calls_ns": calls, "length_ns": length}  # fmt: skip


def _difference(sides: Mapping[str, Any], same: bool) -> dict[str, float | None]:
    return {
        "difference_ns": (sides["b_ns"] or 0.0) - (sides["a_ns"] or 0.0) if same else None,
        "difference_share": (sides["b_share"] or 0.0) - (sides["a_share"] or 0.0),
    }


def _causes(sides: Mapping[str, Any]) -> tuple[float | None, float | None]:
    """The difference of a pair by its calls, and by how long one takes; alike for both sides, so that exchanging them
    only turns the signs. None where a side has no calls."""
    a, b = sides["a_calls"], sides["b_calls"]
    if not a or not b:
        return None, None
    mean_a, mean_b = sides["a_ns"] / a, sides["b_ns"] / b
    return (b - a) * (mean_a + mean_b) / 2, (mean_b - mean_a) * (a + b) / 2


def _parts(rows: Sequence[Row]) -> dict[str, float]:
    """The whole difference: of pairs by calls and by length (what tells no calls, apart), and of what only one has."""
    paired = [row for row in rows if row["matched"] is not None]
    return {
        "calls_ns": math.fsum(row["calls_ns"] or 0.0 for row in paired),
        "length_ns": math.fsum(row["length_ns"] or 0.0 for row in paired),
        "uncounted_ns": math.fsum(row["difference_ns"] for row in paired if row["calls_ns"] is None),
        "only_a_ns": math.fsum(row["difference_ns"] for row in rows if row["b_ns"] is None),
        "only_b_ns": math.fsum(row["difference_ns"] for row in rows if row["a_ns"] is None),
    }


def _categories(
    left: Sequence[Row], right: Sequence[Row], view: str, totals: Sequence[float], same: bool
) -> list[dict[str, Any]]:
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
        sides = {"a_ns": times[0], "b_ns": times[1], "a_share": shares[0], "b_share": shares[1]}
        rows.append({"category": name, **sides, **_difference(sides, same)})
    return _ordered(rows)


def _ordered(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Greatest difference first, of shares where times cannot be compared; equal ones by name."""

    def size(row: Row) -> float:
        time = row["difference_ns"]
        return abs(float(row["difference_share"] if time is None else time))

    return sorted(rows, key=lambda row: (-size(row), str(row.get("name") or row.get("category"))))
