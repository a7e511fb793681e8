"""The answer of a study in three sentences, made of its document alone."""

from __future__ import annotations

from collections.abc import Mapping
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
    names = ", ".join(found["members"])
    if "upper" in found:
        return (
            f"A smallest subset of the {found['of']} workloads of {who} at r = {found['radius']:.3g} has "
            f"{found['lower']} to {found['upper']} members."
        )
    if radius["how"] == "shown":
        return (
            f"How many of the {found['of']} workloads of {who} are needed cannot be told, since {radius['reason']}; at "
            f"the median distance to the nearest neighbour, {found['radius']:.3g}, {found['size']} would do: {names}."
        )
    what = (
        f"r* = {found['radius']:.3g}" if radius["how"] == "measured" else f"the given radius of {found['radius']:.3g}"
    )
    if found["size"] == found["of"]:
        return f"All {found['of']} workloads of {who} are needed: no two lie within {what} of each other."
    others = len(found["optima"])
    alone = "no other set of that size does" if others == 1 and found["optima_complete"] else (
        f"{'' if found['optima_complete'] else 'at least '}{others} sets of that size do, and this is the cheapest"
    )  # fmt: skip
    limit = f"; {len(found['uncovered'])} have nobody within it" if found["uncovered"] else ""
    return (
        f"{found['size']} of the {found['of']} workloads of {who} are needed, and no fewer, to have one within {what} "
        f"of each: {names} (proof by {found['certificate']['proof']}; {alone}{limit})."
    )


def _cost(document: Document) -> str:
    cost, stable = document["cost"], document["stability"]
    if cost["saved"] is None:
        first = f"What they save is not known ({cost['reason']})"
    elif document["subset"]["size"] == document["subset"]["of"]:
        first = "So nothing is saved"
    else:
        measured = "" if cost["measured"] else ", which is counted or modelled and not measured"
        first = f"They save {cost['saved']:.0%} of the {cost['of'] or 'cost given'}{measured}"
    if stable["reason"]:
        return f"{first}."
    sizes = ", ".join(f"{k}: {n}" for k, n in stable["sizes"].items())
    return (
        f"{first}; over {stable['draws']} draws of 80 % of the workloads the subset shares {stable['jaccard']:.0%} "
        f"with theirs (mean Jaccard; sizes {sizes})."
    )


def _shape(document: Document) -> str:
    clusters, pca = document["clusters"], document["pca"]
    if clusters.get("reason"):
        return f"Clusters and components are not told: {clusters['reason']}."
    words = [row["words"] for row in pca.get("components", [])[:2]]
    axes = f"; the widest directions are {' and '.join(words)}" if words else ""
    return f"There are {clusters['verdict']}{axes}."


def _suites(document: Document) -> str:
    found = document["comparisons"][0]
    if found["reason"]:
        return f"The suites cannot be compared: {found['reason']}"
    facets = found["facets"]
    said = f"facets compared: {facets['compared']} of {facets['of']}" if facets else "facets were not compared"
    gaps = f", missing {' and '.join(facets['gaps'])}" if facets and facets["gaps"] else ""
    by = facets["hotspots_by"] if facets else []
    only = f" (hotspots only as {by[0]})" if by == ["roofline-predicted"] else ""
    return f"{_per_task(found)}; {_as_shipped(found)}; {said}{only}{gaps}."


def _per_task(found: Document) -> str:
    a, b = found["labels"]
    row = found["verdict"]
    if row["reason"]:
        return f"Per task, {a} and {b} cannot be compared ({row['reason']})"
    head = f"{found['favours']} spreads wider" if found["favours"] else f"{a} and {b} are not told apart"
    low = "" if row["low"] is None else f", jackknife {row['low']:.2f} to {row['high']:.2f}"
    changes = len(found["changed_by"])
    of = f" (another verdict in {changes} of {len(found['repeats'])} repeats)" if found["repeats"] else ""
    return f"Per task, {head}: dispersion ratio {row['dispersion_ratio']:.2f}{low}, p = {row['p']:.2g}{of}"


def _as_shipped(found: Document) -> str:
    one, two = found["novelty"]
    if one["novel"] is None:
        return f"as shipped, new tasks are not counted ({one['reason']})"
    return (
        f"as shipped, {len(one['novel'])} of {one['size']} tasks of {one['of']} are new to {one['to']}, and "
        f"{len(two['novel'])} of {two['size']} the other way"
    )
