"""The answer of a study in three sentences, made of its document alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Document = Mapping[str, Any]


def answer(document: Document) -> list[str]:
    """Which workloads are enough; what they save and how far to trust it; how the suites compare, or what the space is
    like where there is nothing to compare."""
    third = _suites(document) if document["comparisons"] else _shape(document)
    return [_subset(document), _cost(document), third]


def _subset(document: Document) -> str:
    found, radius = document["subset"], document["radius"]
    who = document["studied"]["title"]
    if "upper" in found:
        return (
            f"A smallest subset of the {found['of']} workloads of {who} at r = {found['radius']:.3g} has "
            f"{found['lower']} to {found['upper']} members."
        )
    if radius["how"] == "shown":
        return (
            f"How many of the {found['of']} workloads of {who} are needed cannot be told, since {radius['reason']}; at "
            f"the median distance to the nearest neighbour, {found['radius']:.3g}, {found['size']} would do: "
            f"{_members(found)}."
        )
    what = (
        f"r* = {found['radius']:.3g}" if radius["how"] == "measured" else f"the given radius of {found['radius']:.3g}"
    )
    if found["size"] == found["of"]:
        return f"All {found['of']} workloads of {who} are needed: no two lie within {what} of each other."
    if found["uncovered"]:
        return _partly(document, who, what)
    return (
        f"{found['size']} of the {found['of']} workloads of {who} are needed, and no fewer, to have one within {what} "
        f"of each: {_members(found)} ({_conditions(found)}proof by {found['certificate']['proof']}; "
        f"{_others(found, document['cost'])})."
    )


def _partly(document: Document, who: str, what: str) -> str:
    """A subset under conditions that leave some without a member."""
    found = document["subset"]
    lost = len(found["uncovered"])
    return (
        f"{lost} of the {found['of']} workloads of {who} have no permitted member within {what} (members must have "
        f"{' and '.join(found['constraints'])}); the other {found['of'] - lost} need {found['size']}, and no fewer: "
        f"{', '.join(found['members'])} (proof by {found['certificate']['proof']}; {_others(found, document['cost'])})."
    )


def _members(found: Document) -> str:
    """Their names; where they are most of all, those of the others and who stands for each."""
    members = found["members"]
    stands = {name: member for member, names in found["covers"].items() for name in names if name != member}
    left = found["of"] - found["size"]
    if found["size"] <= left or len(stands) != left:
        return ", ".join(members)
    return "all but " + ", ".join(f"{name} ({member} stands for it)" for name, member in sorted(stands.items()))


def _conditions(found: Document) -> str:
    """What members must be."""
    return f"members must have {' and '.join(found['constraints'])}; " if found["constraints"] else ""


def _others(found: Document, cost: Document) -> str:
    others = len(found["optima"])
    if others == 1 and found["optima_complete"]:
        return "no other set of that size does"
    why = "this is the cheapest" if cost["saved"] is not None else "of this one the others are nearest on average"
    return f"{'' if found['optima_complete'] else 'at least '}{others} sets of that size do, and {why}"


def _cost(document: Document) -> str:
    first, stable = _saved(document), document["stability"]
    if stable["reason"]:
        return f"{first}."
    sizes = ", ".join(f"{k} member{'' if str(k) == '1' else 's'} in {n}" for k, n in stable["sizes"].items())
    return (
        f"{first}; in {stable['draws']} draws of 80 % of the workloads, chosen anew, the subset shares "
        f"{100 * stable['jaccard']:.0f} % with theirs (mean Jaccard; {sizes})."
    )


def _saved(document: Document) -> str:
    cost, found = document["cost"], document["subset"]
    if cost["saved"] is None:
        return f"What they save is not known ({cost['reason']})"
    if found["size"] == found["of"]:
        return "So nothing is saved"
    if found["uncovered"]:
        return "What they save says nothing, as they do not stand for all"
    amount, _, how = cost["of"].partition(", ")
    if cost["measured"] or not how:  # or a column of somebody's own table, which says no more of itself
        of = cost["of"] or "cost given"
        return f"They save {100 * cost['saved']:.0f} % of {of if of.startswith('the ') else f'the {of}'}"
    if amount.endswith("of a step"):
        amount = amount.removesuffix(" of a step")
        return (
            f"One step of each takes {100 * cost['saved']:.0f} % fewer {amount} than one step of all ({how}, not "
            "measured; what whole trainings would save is not known)"
        )
    return f"They save {100 * cost['saved']:.0f} % of the {amount} ({how}, not measured)"


def _shape(document: Document) -> str:
    clusters, pca = document["clusters"], document["pca"]
    if clusters.get("reason"):
        return f"Clusters and components are not told: {clusters['reason']}."
    words = [row["words"] for row in pca.get("components", [])[:2]]
    axes = f"; the widest directions are {' and '.join(words)}" if words else ""
    return f"There are {clusters['verdict']}{axes}."


# --- suites -----------------------------------------------------------------------------------------------------------


def _suites(document: Document) -> str:
    found = document["comparisons"][0]
    if found["reason"]:
        return f"The suites cannot be compared: {found['reason']}"
    return f"{_per_task(found)}; {_as_shipped(found)}; {_facets(found)}."


def _facets(found: Document) -> str:
    facets = found["facets"]
    if not facets:
        return "facets were not compared"
    only = "".join(f", {name} only {how}" for name, how in facets["modelled"].items())
    gaps = f", missing {_listed(list(facets['gaps']))}" if facets["gaps"] else ""
    return f"facets compared: {facets['compared']} of {facets['of']}{only}{gaps}"


def _listed(names: Sequence[str]) -> str:
    """``a, b and c``."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _per_task(found: Document) -> str:
    a, b = found["labels"]
    row = found["verdict"]
    if row["reason"]:
        return f"Per task, {a} and {b} cannot be compared ({row['reason']})"
    head = f"{found['favours']} spreads wider" if found["favours"] else f"{a} and {b} are not told apart"
    low = "" if row["low"] is None else f", jackknife {row['low']:.2f} to {row['high']:.2f}"
    return f"Per task, {head}: dispersion ratio {row['dispersion_ratio']:.2f}{low}, p = {row['p']:.2g}{_held(found)}"


def _held(found: Document) -> str:
    """Whether the verdict holds under its repeats, as far as they could be made."""
    made = [row for row in found["repeats"] if not row["reason"]]
    if not made:
        return ""
    changed = len(found["changed_by"])
    if changed:
        return f" (another verdict in {changed} of {len(made)} repeats)"
    every = len(found["repeats"])
    rest = f", of the other {every - len(made)} no test is possible" if every > len(made) else ""
    return f" (the same in {'all ' if len(made) > 1 and not rest else ''}{len(made)} repeats{rest})"


def _as_shipped(found: Document) -> str:
    one, two = found["novelty"]
    if one["novel"] is None:
        return f"as shipped, new tasks are not counted ({one['reason']})"
    return (
        f"as shipped, {len(one['novel'])} of {one['size']} tasks of {one['of']} are new to {one['to']}, and "
        f"{len(two['novel'])} of {two['size']} the other way{_by_chance((one, two))}"
    )


def _by_chance(sides: Sequence[Document]) -> str:
    """What exchanged labels give, without which a count says nothing."""
    if any(side["expected"] is None for side in sides):
        return ""
    means = " and ".join(f"{side['expected']:.1f}" for side in sides)
    return f" ({means} on average if labels are exchanged)"
