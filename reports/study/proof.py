"""Why no fewer will do, in a form that can be checked by hand; and which other subsets are as good."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from wcbench.reports import format as fmt
from wcbench.reports.model import Block, Column, Fact, Facts, NoteLine, Notes, Section, Table, Text
from wcbench.reports.sections._common import mapping, rows
from wcbench.reports.study._common import View, absent, csv, joined, shorter

OTHERS = 12

ARGUMENTS = {
    "packing": (
        "No two of the workloads named below have a candidate within r of both. So each needs a member of its own, "
        "and there are as many of them as members: no smaller subset exists. To check it by hand, look up their "
        f"distances in {csv('distances')}."
    ),
    "weights": (
        "Give the workloads the weights below. What any one candidate covers weighs at most 1, so that no fewer "
        "members than the sum of the weights will do (LP duality). To check it by hand, look up the distances "
        f"in {csv('distances')}."
    ),
    "solver": (
        "That no fewer will do is shown by branch and bound alone: no packing and no weights were found that prove it "
        "by hand. The largest packing is named below."
    ),
    "bounds": (
        "The lower bound are workloads no two of which have a workload within r of both: each needs a member of its "
        "own. The upper bound is a cover that was found; one of a size between them may exist."
    ),
}


def section(view: View) -> Section | NoteLine:
    """The proof, and the alternatives with what they change."""
    found = mapping(view.part("subset").get("certificate"))
    if not found:
        return absent("proof", "the study's document holds no certificate")
    proof = {"bound": "solver"}.get(str(found.get("proof")), str(found.get("proof")))
    text = ARGUMENTS.get(proof) or fmt.prose(found.get("text") or "No proof is in the document.")
    blocks: list[Block] = [Text(text), Facts(tuple(_facts(view))), *_certificate(view), *_alternatives(view)]
    return Section("proof", "Why no fewer, and which others", (*blocks, *_conditions(view)))


def _facts(view: View) -> Iterator[Fact]:
    part = view.part("subset")
    found = mapping(part.get("certificate"))
    yield Fact("Proof by", found.get("proof"))
    if "gap" in found:
        yield Fact("Dual bound", found.get("dual_bound"), "number", hint="of the integer program")
        yield Fact("Gap", found.get("gap"), "number", hint="0: the optimum is proven")
    other = view.part("alternatives")
    if other.get("smallest_covers") is not None:
        hint = "all of them" if other.get("complete") else "at least so many; the list was stopped"
        yield Fact("Smallest subsets", other["smallest_covers"], "count", hint=hint)


def _certificate(view: View) -> Iterator[Block]:
    found = mapping(view.part("subset").get("certificate"))
    packing = list(found.get("packing") or ())
    if packing:
        every = sorted(map(str, view.part("studied").get("workloads") or ()))
        yield Text(f"The packing: {shorter(packing, every)}. Its table is {csv('certificate')}.")
    weights = mapping(found.get("weights"))
    cells = tuple((name, weight) for name, weight in sorted(weights.items()))
    if cells:
        columns = (Column("workload", "name", keep=True), Column("weight", "number"))
        caption = "Weights: what any one workload has within r of it weighs at most 1"
        yield Table("proof-weights", caption, columns, cells, more=csv("certificate"))


# --- alternatives -------------------------------------------------------------------------------------------------


def _alternatives(view: View) -> Iterator[Block]:
    part, other = view.part("subset"), view.part("alternatives")
    if other.get("reason"):
        yield Text(f"Other subsets are not listed: {fmt.prose(other['reason'])}.")
    members = [str(name) for name in part.get("members") or ()]
    core = list(other.get("core") or part.get("core") or ())
    if core:
        yield Text(f"In every smallest subset: {shorter(core, members)}.")
    optima = [tuple(map(str, one)) for one in part.get("optima") or ()]
    cells = tuple(
        (number, *_changed(members, one)) for number, one in enumerate(optima, start=1) if set(one) != {*members}
    )
    if cells:
        columns = (Column("#", "count"), Column("without"), Column("with"))
        caption = "Other subsets that are as small, by what they change in the one chosen (cheapest, then nearest)"
        yield Table("proof-optima", caption, columns, cells, limit=OTHERS, more="study.json: subset.optima")
    yield from _near(view, members)


def _near(view: View, members: Sequence[str]) -> Iterator[Table]:
    """Sets of the same size by mean distance: how much the best is better than the next."""
    near = rows(view.part("alternatives").get("k_median_frame"))
    cells = tuple(
        (row.get("rank"), row.get("value"), row.get("worse_by"), *_changed(members, _split(row.get("members"))))
        for row in near
    )
    if cells:
        columns = (
            Column("rank", "count"),
            Column("sum of distances", "number"),
            Column("worse by", "share"),
            Column("without"),
            Column("with"),
        )
        caption = "Sets of this size with the least sum of distances (k-median), by what they change in the subset"
        yield Table("proof-median", caption, columns, cells, limit=OTHERS)


def _split(found: Any) -> list[str]:
    return found.split(", ") if isinstance(found, str) else list(map(str, found or ()))


def _changed(members: Sequence[str], other: Sequence[str]) -> tuple[str, str]:
    gone = [name for name in members if name not in set(other)]
    new = [name for name in other if name not in set(members)]
    return joined(gone) if gone else "", joined(new) if new else ""


def _conditions(view: View) -> Iterator[Notes]:
    """Constraints, refusals, and who has nobody."""
    part = view.part("subset")
    lines = [NoteLine("members must be", fmt.prose(text)) for text in part.get("constraints") or ()]
    lines += [NoteLine(fmt.prose(name), fmt.prose(why)) for name, why in mapping(part.get("refused")).items()]
    if part.get("uncovered"):
        lines.append(NoteLine("nobody within r", joined(part["uncovered"])))
    lines += [NoteLine("alike (distance 0)", joined(group)) for group in part.get("ties") or ()]
    if lines:
        yield Notes(tuple(lines))
