"""Sections of a study's document: each takes results and gives plain data; nothing is computed here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from wcbench import devices
from wcbench.analysis.cluster import Clusters
from wcbench.analysis.definitions.opmix import REFERENCE_DEVICE
from wcbench.analysis.pca import Components
from wcbench.analysis.recipe import Placed
from wcbench.analysis.recipe2021 import REFERENCE, Recipe2021
from wcbench.analysis.stability import Blocks, Stability
from wcbench.analysis.study_inputs import Inputs, Radius
from wcbench.analysis.subset import Subset
from wcbench.analysis.validation import Validation

COMPONENTS = 5


def table_section(inputs: Inputs) -> dict[str, Any]:
    """What was measured of whom, and what was not."""
    table = inputs.table
    features = [
        {
            **{name: getattr(f, name) for name in ("name", "unit", "transform", "block", "floor", "reference")},
            "origin": table.origins.get(f.name, ""),
        }
        for f in table.features
    ]
    nulls = [{"workload": w, "feature": f, "reason": why} for (w, f), why in sorted(table.reasons.items())]
    return {
        "workloads": sorted(map(str, table.values.index)),
        "features": features,
        "nulls": nulls,
        "families": {name: kind for name, kind in sorted(table.families.items()) if name in set(table.values.index)},
        "conditions": _conditions(inputs),
        "notes": list(inputs.notes),
    }


def _conditions(inputs: Inputs) -> dict[str, list[str]]:
    """Presets, devices and precisions that the values hold under; nothing of a plain table."""
    rows = inputs.rows
    if rows is None:
        return {}
    there = rows[rows["value"].notna()]
    return {name: sorted(set(there[name].dropna().astype(str))) for name in ("preset", "device", "precision")}


def roofline_section(inputs: Inputs) -> dict[str, Any]:
    """The device of predicted times, at the precision of the records."""
    if inputs.roofline.empty:
        return {"reason": "no record has an operator stream"}
    device = devices.device(REFERENCE_DEVICE)
    told = _conditions(inputs).get("precision", [])
    if len(told) != 1 or (peak := device.peak(told[0])) is None:
        return {"reason": f"{device.name} has no one peak for the precisions of the records: {', '.join(told)}"}
    return {
        "reason": "",
        "device": device.name,
        "precision": told[0],
        "peak_flops": peak,
        "bandwidth_bytes_s": device.bandwidth,
        "ridge": device.balance(told[0]),
    }


def space_section(space: Placed) -> dict[str, Any]:
    """How the table became points."""
    return {
        "fingerprint": space.recipe.fingerprint,
        "workloads": space.names,
        "coordinates": len(space.blocks),
        "blocks": list(dict.fromkeys(space.blocks)),
        "dropped": dict(space.dropped),
        "notes": list(space.recipe.notes),
        "recipe": space.recipe.to_dict(),
    }


def pca_section(found: Components | None, reason: str) -> dict[str, Any]:
    if found is None:
        return {"reason": reason}
    frame = found.to_frame()
    return {
        "reason": "",
        "verdict": found.verdict,
        "kept_by_columns": found.kept_columns,
        "kept_by_blocks": found.kept_blocks,
        "effective_rank": found.effective_rank,
        "seed": found.seed,
        "components": frame.head(COMPONENTS).drop(columns=["limit_columns", "limit_blocks"]).to_dict("records"),
    }


def cluster_section(found: Clusters | None, reason: str) -> dict[str, Any]:
    if found is None:
        return {"reason": reason}
    return {
        "reason": "",
        "verdict": found.verdict,
        "natural": found.natural,
        "k": found.k,
        "silhouette": found.silhouette,
        "order": found.hierarchy.order,
        "cophenetic": found.hierarchy.cophenetic,
        "labels": dict(zip(found.names, found.labels.tolist(), strict=True)),
    }


def subset_section(found: Subset, radius: Radius) -> dict[str, Any]:
    """The subset, who covers whom, and the proof."""
    certificate = found.certificate
    return {
        "members": found.members,
        "size": len(found),
        "of": len(found.table),
        "radius": found.radius,
        "radius_is": radius.how,
        "reached": found.reached,
        "reached_in_pcs": found.reached_in_pcs,
        "distinguishable": found.distinguishable,
        "verdict": found.verdict if radius.how != "shown" else shown_verdict(found, radius),
        "covers": dict(certificate.covers),
        "core": found.core,
        "ties": found.ties,
        "constraints": found.constraints,
        "refused": dict(found.refused),
        "uncovered": found.uncovered,
        "certificate": {
            "proof": certificate.proof,
            "text": certificate.text,
            "packing": certificate.packing,
            "weights": dict(certificate.weights),
            "dual_bound": certificate.bound,
            "gap": certificate.gap,
        },
        "optima": found.optima,
        "optima_complete": found.optima_complete,
    }


def shown_verdict(found: Subset, radius: Radius) -> str:
    """What a subset at a radius that is not r* says."""
    return (
        f"No radius tells these workloads apart ({radius.reason}). To show one, {len(found)} of {len(found.table)} are "
        f"needed, and no fewer, at the median distance to the nearest neighbour, {found.radius:.4g}."
    )


def curve_section(found: Subset) -> list[dict[str, Any]]:
    return [{str(key): value for key, value in row.items()} for row in found.curve.to_dict("records")]


def alternatives_section(found: Subset) -> dict[str, Any]:
    """Other subsets that are as good, or nearly so by mean distance."""
    median = found.median
    near = None if median is None else median.to_frame()
    return {
        "smallest_covers": len(found.optima),
        "complete": found.optima_complete,
        "core": found.core,
        "k_median": None if median is None else median.members,
        "k_median_frame": None if near is None else near.to_dict("records"),
    }


def cost_section(found: Subset) -> dict[str, Any]:
    return {
        "of": found.cost_of,
        "unit": found.cost_unit,
        "saved": found.cost_saved,
        "reason": found.cost_reason,
        "measured": found.cost_of.partition(", ")[2].startswith(("measured", "published")),
    }


def stability_section(found: Stability | None, blocks: Blocks | None, reason: str) -> dict[str, Any]:
    if found is None:
        return {"reason": reason}
    return {
        "reason": "",
        "of": found.of,
        "draws": found.draws,
        "seed": found.seed,
        "sizes": {str(k): v for k, v in found.sizes.items()},
        "jaccard": found.jaccard,
        "jaccard_between": found.jaccard_between,
        "pac": found.pac,
        "frequency": dict(zip(found.table["workload"], found.table["frequency"], strict=True)),
        "blocks": [] if blocks is None else blocks.to_frame().to_dict("records"),
    }


def validation_section(found: Validation | None, reason: str) -> dict[str, Any]:
    rows = [] if found is None else found.table.to_dict("records")
    return {"reason": reason, "metrics": rows}


def recipe2021_section(found: Recipe2021 | None, reason: str) -> dict[str, Any]:
    if found is None:
        return {"reason": reason}
    return {
        "reason": "",
        "reference": REFERENCE,
        "caveat": found.caveat,
        "verdict": found.verdict,
        "metrics": found.metrics,
        "missing": found.missing,
        "clusters": found.k,
        "perplexity": found.perplexity,
        "seeds": found.seeds,
        "agreement_of_seeds": [float(x) for x in found.pairs],
        "dropped": dict(found.dropped),
    }


def changes_section(inputs: Inputs) -> dict[str, Any]:
    """Which changes r* was measured with, and which were not made."""
    if inputs.changed is None:
        return {"reason": inputs.no_changes, "made": 0, "failed": [], "skipped": []}
    states = inputs.changed.states
    reasons: Mapping[Any, pd.DataFrame] = dict(tuple(states[states["state"] == "skipped"].groupby("reason")))
    return {
        "reason": "",
        "made": int((states["state"] == "made").sum()),
        "failed": states[states["state"] == "failed"].to_dict("records"),
        "skipped": [
            {"change": sorted(set(rows["change"])), "workloads": len(set(rows["workload"])), "reason": str(reason)}
            for reason, rows in reasons.items()
        ],
    }
