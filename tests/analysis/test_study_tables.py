"""Tables of a study: hotspot functions by hand, rarefaction curves by listing all subsets."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import pdist

from wcbench.analysis.pairing import pair
from wcbench.analysis.rarefaction_curves import rarefaction_curves
from wcbench.analysis.study_hotspots import hotspot_tables
from wcbench.analysis.vendi import gaussian, vendi_score

CPU, MODEL = "measured CPU", "roofline-predicted"


@pytest.fixture(scope="module")
def tables() -> dict[str, pd.DataFrame]:
    rows = [
        ("one", CPU, "cpu", "aten::mm", 6.0),
        ("one", CPU, "cpu", "aten::relu", 3.0),
        ("one", CPU, "cpu", "aten::nothing_known", 1.0),
        ("two", CPU, "cpu", "aten::mm", 1.0),
        ("two", CPU, "cpu", "aten::relu", 1.0),
        ("two", MODEL, "GPU X", "aten::mm", 0.5),
        ("three", MODEL, "GPU X", "aten::mm", 0.995),
        ("three", MODEL, "GPU X", "aten::relu", 0.005),
    ]
    columns = ["workload", "source", "device", "function", "seconds"]
    return hotspot_tables(pd.DataFrame(rows, columns=columns), ["one", "two"], ["three"])


def test_shares_are_of_a_workloads_time_from_one_source(tables: dict[str, pd.DataFrame]) -> None:
    found = tables["hotspots"].set_index(["workload", "source", "function"])
    assert found["share"].to_dict() == pytest.approx({
        ("one", CPU, "aten::mm"): 0.6,
        ("one", CPU, "aten::relu"): 0.3,
        ("one", CPU, "aten::nothing_known"): 0.1,
        ("two", CPU, "aten::mm"): 0.5,
        ("two", CPU, "aten::relu"): 0.5,
        ("two", MODEL, "aten::mm"): 1.0,
        ("three", MODEL, "aten::mm"): 0.995,
        ("three", MODEL, "aten::relu"): 0.005,
    })  # fmt: skip
    assert found.loc[("one", CPU, "aten::mm"), "category"] == "GEMM"
    assert found.loc[("one", CPU, "aten::relu"), "paper"] == "ReLU activation"
    assert tables["hotspots"].iloc[0]["function"] == "aten::mm"  # longest first


def test_categories_of_a_workload_and_source_add_up_to_one(tables: dict[str, pd.DataFrame]) -> None:
    sums = tables["categories"].groupby(["workload", "source", "view"])["share"].sum()
    assert len(sums) == 8
    assert sums.tolist() == pytest.approx([1.0] * 8)


def test_functions_for_80_percent(tables: dict[str, pd.DataFrame]) -> None:
    found = tables["hotspot_counts"].set_index(["workload", "source"])
    assert found["for_80"].to_dict() == {("one", CPU): 2, ("three", MODEL): 1, ("two", CPU): 2, ("two", MODEL): 1}
    assert found["functions"].to_dict() == {("one", CPU): 3, ("three", MODEL): 2, ("two", CPU): 2, ("two", MODEL): 1}
    assert found.loc[("one", CPU), "top_share"] == pytest.approx(0.6)


def test_functions_count_tasks_of_each_group_by_source(tables: dict[str, pd.DataFrame]) -> None:
    found = tables["hotspot_functions"].set_index(["source", "function"])
    assert found.loc[(CPU, "aten::mm"), ["tasks", "a", "b"]].tolist() == [2, 2, 0]
    assert found.loc[(MODEL, "aten::mm"), ["tasks", "a", "b"]].tolist() == [2, 1, 1]
    assert found.loc[(MODEL, "aten::relu"), ["tasks", "a", "b"]].tolist() == [0, 0, 0]  # half a per cent
    assert found.loc[(CPU, "aten::mm"), "mean_share"] == pytest.approx(0.55)


def test_overlap_of_two_workloads_of_one_source(tables: dict[str, pd.DataFrame]) -> None:
    found = tables["hotspot_overlap"].set_index(["source", "one", "other"])["overlap"]
    # minima 0.5 + 0.3 + 0, maxima 0.6 + 0.5 + 0.1
    assert found.to_dict() == pytest.approx({(CPU, "one", "two"): 0.8 / 1.2, (MODEL, "three", "two"): 0.995 / 1.005})


def test_without_times_there_are_no_tables_and_without_a_second_group_no_counts_of_it() -> None:
    assert hotspot_tables(pd.DataFrame(), ["one"], None) == {}
    rows = pd.DataFrame([("one", CPU, "cpu", "aten::mm", 1.0)],
                        columns=["workload", "source", "device", "function", "seconds"])  # fmt: skip
    assert hotspot_tables(rows, ["one"], None)["hotspot_functions"]["b"].isna().all()


# --- rarefaction ------------------------------------------------------------------------------------------------------


def test_curves_are_means_over_all_subsets_of_a_size() -> None:
    points = np.random.default_rng(1).normal(size=(9, 3))
    both = pair([f"a{i}" for i in range(6)], [f"b{i}" for i in range(3)], labels=("A", "B"))
    found = rarefaction_curves(both, points).set_index(["measure", "suite", "m"]).sort_index()
    assert found["exact"].all()
    for m in (2, 4):
        values = [pdist(points[list(picks)]).mean() for picks in combinations(range(6), m)]
        row = found.loc[("mean pairwise distance", "A", m)]
        assert row["subsets"] == len(values)
        assert row["mean"] == pytest.approx(np.mean(values))
        assert [row["low"], row["high"]] == pytest.approx(np.percentile(values, [2.5, 97.5]))
    # unbiased: the mean does not move with m; a range grows
    distance = found.loc[("mean pairwise distance", "A"), "mean"]
    assert distance.tolist() == pytest.approx([distance.iloc[0]] * 5)
    assert found.loc[("range", "A"), "mean"].is_monotonic_increasing
    spread = [np.ptp(points[list(picks)], axis=0).mean() for picks in combinations(range(6, 9), 2)]
    assert found.loc[("range", "B", 2), "mean"] == pytest.approx(np.mean(spread))
    kernel = gaussian(np.array([[np.linalg.norm(p - q) for q in points] for p in points]), np.median(pdist(points)))
    score = found.loc[("Vendi score, q = 1, bandwidth 1 x median", "B", 3)]
    assert score["mean"] == score["low"] == score["high"] == pytest.approx(vendi_score(kernel[6:, 6:]))


def test_too_many_subsets_are_drawn_and_said_so() -> None:
    points = np.random.default_rng(2).normal(size=(14, 2))
    both = pair([f"a{i:02d}" for i in range(12)], ["b0", "b1"], labels=("A", "B"))
    found, again = (rarefaction_curves(both, points, draws=50) for _ in range(2))
    pd.testing.assert_frame_equal(found, again)
    rows = found[(found["measure"] == "range") & (found["suite"] == "A")].set_index("m")
    assert (rows.loc[6, "subsets"], rows.loc[6, "exact"]) == (50, False)
    assert (rows.loc[12, "subsets"], rows.loc[12, "exact"]) == (1, True)


def test_workloads_that_coincide_have_no_bandwidth_and_no_score() -> None:
    found = rarefaction_curves(pair(["a0", "a1"], ["b0"]), np.zeros((3, 2)))
    assert set(found["measure"]) == {"mean pairwise distance", "range"}
