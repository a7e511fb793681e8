"""Features of workloads: the list of all, named sets, and the table of a study.

A feature is a function of a record with pinned names (`definitions/`); the list is explicit and loaded when asked for.
What was not measured is NaN with the reason. Every value declares its origin (exact: counted from the operator stream;
modelled; measured; published; toy: of a preset that no suite means), preset, device and precision, and a table that
mixes them is refused unless it is asked for.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

import pandas as pd

from wcbench.analysis.costs import STEP, Cost, one_kind, workload_costs
from wcbench.analysis.definitions.base import NEEDS, PUBLISHED, Definition, forget
from wcbench.analysis.table import Feature, FeatureTable
from wcbench.errors import UnknownNameError, UsageError
from wcbench.registry import Registry, Row
from wcbench.tasks.catalog import TASKS

if TYPE_CHECKING:
    from wcbench.record import Profile

_HOME = "wcbench.analysis.definitions"


def _rows(module: str, *names: str) -> list[Row]:
    return [Row(name, f"{_HOME}.{module}:{name}") for name in names]


FEATURES = Registry(
    "feature",
    [
        *_rows("work", "flops_per_sample", "flops_fixed", "params_trainable", "params_sparse_share",
               "bwd_fwd_flop_ratio", "optimizer_byte_share", "samples_per_step"),
        *_rows("opmix", "op_class_flop_share", "op_class_byte_share", "kernel_class_time_share",
               "kernel_class_time_modelled", "op_types_distinct", "op_entropy_hill1", "ops_per_step",
               "shape_distinct_per_op", "shape_change_rate", "gemm_aspect", "gemm_dim_geomean", "dtype_byte_share"),
        *_rows("memcap", "footprint_peak", "footprint_per_sample", "footprint_fixed", "footprint_class_share",
               "unique_bytes_per_step", "activation_per_param", "tensor_size_median"),
        *_rows("traffic", "bytes_op_level", "bytes_op_level_fixed", "bytes_compulsory", "fusion_headroom",
               "ai_op_level", "ai_at_capacity", "ai_spread", "ai_spread_bytes", "time_mem_bound_share", "write_share",
               "copy_layout_share"),
        *_rows("timeline", "h2d_bytes_per_sample"),
        *_rows("temporal", "mrc_miss_ratio", "wss_50", "wss_90", "wss_99", "reuse_dist_median", "cold_share",
               "reuse_class_share", "reuse_count_mean", "lifetime_median"),
        *_rows("spatial", "noncontig_byte_share", "stride_bucket_share", "indirect_byte_share", "line_utilisation_pred",
               "line_utilisation_128B"),
        *_rows("counter", "gld_efficiency", "gst_efficiency", "sectors_per_request_ld"),
        *_rows("parallel", "dag_width_mean", "dlp_median", "serial_depth_per_sample"),
        *_rows("timeline", "warps_launched_median", "kernels_per_step", "kernel_dur_median", "kernel_dur_p90",
               "gpu_idle_share", "launch_gap_median", "top1_kernel_share", "kernels_for_80pct", "comm_share",
               "stream_overlap", "dataloader_wait_share"),
        *_rows("counter", "achieved_occupancy", "ipc_efficiency", "dram_utilization", "tensor_util", "l1_hit", "l2_hit",
               "warp_exec_eff", "branch_eff"),
        *_rows("training", "epochs_to_quality", "samples_to_quality", "flops_to_quality", "seed_cv_epochs",
               "step_time_cv", "time_per_epoch", "energy_per_sample"),
    ],
)  # fmt: skip
"""All features, in the order of the catalogue."""

AIBENCH5 = ("achieved_occupancy", "ipc_efficiency", "gld_efficiency", "gst_efficiency", "dram_utilization")
_GPU = ("timeline", "counters")

FACETS: Mapping[str, tuple[str, ...]] = {
    "model complexity": ("params_trainable", "params_sparse_share", "serial_depth_per_sample"),
    "computational cost": ("flops_per_sample", "flops_fixed", "bytes_op_level"),
    "convergence": ("epochs_to_quality", "samples_to_quality", "seed_cv_epochs"),
    "computation and memory access patterns": (
        "op_class_flop_share", "op_class_byte_share", "unique_bytes_per_step", "bytes_compulsory", "ai_at_capacity",
        "copy_layout_share", "wss_50", "wss_90", "wss_99", "reuse_class_share", "noncontig_byte_share",
        "indirect_byte_share", "line_utilisation_pred", "dag_width_mean", "dlp_median", *AIBENCH5,
    ),
    "hotspot functions": ("kernel_class_time_share",),
    "learning dynamics": (),
}  # fmt: skip
"""Features of each of the six facets in which AIBench Training claims diversity. Learning dynamics is compared by the
factors of the catalogue (`factors.coverage`), not by numbers; the modelled time shares are no measured hotspots and
stand in no facet: `kernel_class_time_modelled` is the third labelled source beside GPU and CPU."""


@cache
def definitions() -> tuple[Definition, ...]:
    """All features in the order of the list."""
    return tuple(_load(name) for name in FEATURES.names())


def _load(name: str) -> Definition:
    found: Definition = FEATURES.load(name)
    assert found.name == name
    return found


def sets() -> dict[str, tuple[str, ...]]:
    """Named sets of features, each a tuple of names of the list.

    operators (default): the core ones of an operator stream. gpu: those of a GPU's timeline and counters. training:
    those of whole trainings. core: these three. aibench5: the counters of AIBench Training. all: everything but
    metadata.
    """
    core = [d for d in definitions() if d.tier == "core"]
    return {
        "operators": tuple(d.name for d in core if d.needs == "operators"),
        "gpu": tuple(d.name for d in core if d.needs in _GPU),
        "training": tuple(d.name for d in core if d.needs == "convergence"),
        "core": tuple(d.name for d in core),
        "aibench5": AIBENCH5,
        "all": tuple(d.name for d in definitions() if d.tier != "meta"),
    }


def chosen(features: str | Iterable[str] = "operators") -> tuple[Definition, ...]:
    """Definitions of sets and names (a comma list or several texts), each once, in the order of the list.

    Raises UnknownNameError, with the nearest names, and UsageError where nothing is named.
    """
    texts = [features] if isinstance(features, str) else list(features)
    words = [word.strip() for text in texts for word in text.split(",") if word.strip()]
    if not words:
        raise UsageError("No feature is named.", f"Sets: {', '.join(sets())}; or names with commas between them.")
    named = sets()
    wanted: set[str] = set()
    for word in words:
        wanted.update(named[word] if word in named else (_family(word, named),))
    return tuple(d for d in definitions() if d.name in wanted)


def _family(word: str, named: Mapping[str, object]) -> str:
    """The name in the list of a feature, or of the family that a name in full is a part of: parts go together."""
    by_name = {name: d.name for d in definitions() for name in (d.name, *d.names)}
    if word not in by_name:
        raise UnknownNameError("feature or set", word, [*by_name, *named])
    return by_name[word]


# --- values -----------------------------------------------------------------------------------------------------------

COLUMNS = ("workload", "feature", "value", "origin", "preset", "device", "precision", "needs", "reason", "remark")


def evaluate(profile: Profile, features: str | Iterable[str] = "operators", name: str | None = None) -> pd.DataFrame:
    """A row a value of one record, with its conditions: the columns of COLUMNS; NaN values have a reason.

    ``name`` is the workload's, by default ``task`` or ``task@variant``.
    """
    workload, rows = name or profile.name, []
    for definition in chosen(features):
        found = definition.evaluate(profile)
        for full, value in found.values.items():
            reason = "" if math.isfinite(value) else found.reason
            conditions = (found.origin, found.preset, found.device, found.precision, definition.needs)
            rows.append((workload, str(full), float(value), *conditions, reason, found.remark))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def build_table(
    profiles: Iterable[Profile] | Mapping[str, Profile],
    features: str | Iterable[str] = "operators",
    *,
    mix: bool = False,
    cost: str = STEP,
    on: str | None = None,
) -> FeatureTable:
    """The feature table of some records, one a workload.

    Parameters
    ----------
    profiles : records, read one after the other (a generator need not hold them all); a mapping names the workloads.
    features : as `chosen` takes them.
    mix : let origins, presets, devices and precisions mix.
    cost, on : which cost the workloads have (`costs.workload_costs`); the best kind that is known of all.

    Raises UsageError for two records of one workload, for no record, and for a table that mixes.
    """
    texts = (features,) if isinstance(features, str) else tuple(features)
    parts, costs, suites, families = [], {}, {}, {}
    for name, profile in _named(profiles):
        if name in costs:
            raise UsageError(f"Two records are of the workload '{name}'.", "Name one of them, or leave it out.")
        parts.append(evaluate(profile, texts, name))
        costs[name] = workload_costs(profile, cost, on)
        forget(profile)
        suites[name] = tuple(profile.manifest.suites)
        if profile.manifest.task in TASKS:
            families[name] = str(getattr(TASKS.row(profile.manifest.task), "family", ""))
    if not parts:
        raise UsageError("A feature table needs records.", "Make some: `wcbench profile TASK --passes operators`.")
    return table_of(pd.concat(parts, ignore_index=True), mix=mix, costs=costs, suites=suites, families=families)


def _named(profiles: Iterable[Profile] | Mapping[str, Profile]) -> Iterator[tuple[str, Profile]]:
    if isinstance(profiles, Mapping):
        yield from profiles.items()
    else:
        yield from ((profile.name, profile) for profile in profiles)


def table_of(
    values: pd.DataFrame,
    *,
    mix: bool = False,
    costs: Mapping[str, Sequence[Cost]] | None = None,
    suites: Mapping[str, tuple[str, ...]] | None = None,
    families: Mapping[str, str] | None = None,
) -> FeatureTable:
    """The table of rows as `evaluate` makes them, without their records; raises UsageError where they mix."""
    if not mix:
        refuse_mixtures(values)
    known = {feature.name: feature for d in definitions() for feature in d.features}
    names = [name for name in known if name in set(values["feature"])]
    wide = values.pivot(index="workload", columns="feature", values="value").reindex(columns=names)
    nulls = values[values["value"].isna()]
    told = one_kind(costs or {})
    return FeatureTable(
        values=wide.sort_index().astype("float64").rename_axis(index=None, columns=None),
        features=tuple(known[name] for name in names),
        reasons={(str(w), str(f)): str(r) for w, f, r in zip(nulls["workload"], nulls["feature"], nulls["reason"],
                                                              strict=True)},
        suites=suites or {},
        families=families or {},
        costs=told.values,
        cost_unit=told.unit,
        cost_of=told.of,
        origins={name: _origins(values[values["feature"] == name]) for name in names},
    )  # fmt: skip


def _origins(rows: pd.DataFrame) -> str:
    there = rows[rows["value"].notna()]
    return ", ".join(sorted(set((there if len(there) else rows)["origin"])))


# --- mixtures ---------------------------------------------------------------------------------------------------------


def refuse_mixtures(values: pd.DataFrame) -> None:
    """Raise UsageError where values of one table, or of one of its features, hold under different conditions.

    Presets and precisions must agree over the whole table, origins and devices within a feature, and the device of
    whatever was measured over all of it. Published values have none of these but their origin.
    """
    there = values[values["value"].notna()]
    own = there[there["origin"] != PUBLISHED]
    for column in ("preset", "precision"):
        _agree(own, column, "The table")
    _agree(own[own["needs"] != "operators"], "device", "What was measured")
    for name in dict.fromkeys(there["feature"]):
        mine = there[there["feature"] == name]
        _agree(mine, "origin", f"Feature {name}")
        _agree(mine[mine["origin"] != PUBLISHED], "device", f"Feature {name}")


def _agree(rows: pd.DataFrame, column: str, what: str) -> None:
    texts = rows[column].map(lambda value: "not told" if pd.isna(value) else str(value))
    if texts.nunique() < 2:
        return
    groups = []
    for text in sorted(set(texts)):
        names = sorted(set(rows.loc[texts == text, "workload"]))
        groups.append(f"{text} ({', '.join(names[:6])}{' ...' if len(names) > 6 else ''})")
    raise UsageError(
        f"{what} mixes {column}s: {'; '.join(groups)}.",
        "Profile them alike, leave some out, or ask for the mixture with --mix.",
    )


# --- documentation ----------------------------------------------------------------------------------------------------


def features_page() -> str:
    """docs/features.md: every feature with unit, transform, block and meaning; sets and facets."""
    from wcbench.analysis.definitions.page import page

    return page(definitions(), sets(), FACETS, NEEDS)


def all_features() -> tuple[Feature, ...]:
    """Every column that a table can have."""
    return tuple(feature for d in definitions() for feature in d.features)
