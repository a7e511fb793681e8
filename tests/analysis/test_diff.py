"""Two profiles compared: by hand arithmetic on small records, and order statistics by their definition."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import wcbench
from wcbench.analysis.diff import Diff, diff
from wcbench.analysis.diff_hotspots import shape
from wcbench.analysis.diff_interval import Middle, middle, ratio, weighed
from wcbench.errors import UsageError
from wcbench.record import PassInfo, Profile, new_profile
from wcbench.schema import to_arrow

KERNELS_A = [("sm80_xmma_gemm_f32_tn_n_tilesize128x64", 600), ("vectorized_elementwise_kernel<4>", 300), ("old", 100)]
KERNELS_B = [("sm90_xmma_gemm_f32_tn_n_tilesize64x32", 200), ("vectorized_elementwise_kernel<4>", 350), ("new", 50)]
STEPS_A = [10.0, 10.2, 10.4, 10.6, 10.8, 11.0, 11.2]
STEPS_B = [5.0, 5.1, 5.2, 5.3, 5.4, 5.5, 5.6]


def info(**changes: Any) -> PassInfo:
    values: dict[str, Any] = {
        "preset": "paper", "settings": {}, "batch_size": 4, "samples": 4, "precision": "fp32", "device": "cuda",
        "tensors": "real", "seed": 0, "steps": 1, "warmup": 0, "seconds": 1.0,
    }  # fmt: skip
    return PassInfo(**{**values, **changes})


def record(
    kernels: Sequence[tuple[str, int]], steps_ms: Sequence[float] = (), task: str = "toy", **changes: Any
) -> Profile:
    """A record of one step's kernels (ns), and of timed steps (ms)."""
    passes: dict[str, PassInfo] = {"timeline": info(**changes)}
    start = list(itertools.accumulate([0, *(ns for _, ns in kernels)]))[: len(kernels)]
    columns = {
        "name": [name for name, _ in kernels], "rank": [0] * len(kernels), "device": ["cuda:0"] * len(kernels),
        "start_ns": start, "duration_ns": [ns for _, ns in kernels], "step": [0] * len(kernels),
        "phase": ["forward"] * len(kernels),
    }  # fmt: skip
    row: Mapping[str, Any] = {"rank": [0], "index": [0], "role": ["measured"], "kind": ["train"], "samples": [4]}
    tables = {
        "kernels": to_arrow("kernels", columns, "timeline"),
        "steps": to_arrow("steps", {**row, "duration_ns": [5000]}, "timeline"),
    }
    if steps_ms:
        passes["timing"] = info(**changes, **{"steps": len(steps_ms)})
        times = {name: value * len(steps_ms) for name, value in row.items()}
        times |= {"index": list(range(len(steps_ms))), "duration_ns": [round(1e6 * ms) for ms in steps_ms]}
        import pyarrow as pa

        timing = to_arrow("steps", times, "timing")
        tables["steps"] = pa.concat_tables([tables["steps"], timing]).unify_dictionaries()
    return new_profile(task=task, variant=None, suites=[], machine={"cpu": {"model": "abacus"}, "gpus": []},
                       command=["wcbench"], passes=passes, tables=tables, notes=[])  # fmt: skip


@pytest.fixture(scope="module")
def two() -> Diff:
    return diff(record(KERNELS_A, STEPS_A), record(KERNELS_B, STEPS_B))


# --- intervals --------------------------------------------------------------------------------------------------------


def test_the_interval_of_a_median_holds_at_least_the_level_between_order_statistics() -> None:
    values = list(range(1, 12))  # 11 values: from the 2nd to the 10th holds 98.8 %, from the 3rd to the 9th 93.5 %
    found = middle(values)
    assert found.value == 6
    assert 1 - 2 * binom.cdf(1, 11, 0.5) > 0.95 > 1 - 2 * binom.cdf(2, 11, 0.5)
    assert found.low is not None
    assert found.high is not None
    assert 2 < found.low < 3
    assert 9 < found.high < 10
    assert found.low + found.high == pytest.approx(12)


def test_too_few_values_have_no_interval() -> None:
    assert middle([3.0, 1.0, 2.0]) == Middle(2.0, None, None)
    assert ratio(Middle(2, None, None), Middle(4, 3, 5)) == (2.0, None, None)
    assert ratio(Middle(0, 0, 0), Middle(4, 3, 5)) == (None, None, None)


def test_the_interval_of_a_ratio_covers_the_truth_as_often_as_it_says() -> None:
    random = np.random.default_rng(0)
    held = 0
    for _ in range(400):
        a, b = middle(random.lognormal(0, 0.3, 20).tolist()), middle(random.lognormal(math.log(2), 0.3, 20).tolist())
        _, low, high = ratio(a, b)
        held += low is not None and high is not None and low <= 2 <= high
    assert 0.92 <= held / 400 <= 0.99  # 95 %, give or take three deviations of 400 draws


def test_kinds_of_steps_weigh_as_they_occur() -> None:
    found = weighed({"x": Middle(10, 9, 11), "y": Middle(100, 96, 104)}, {"x": 0.75, "y": 0.25})
    assert found.value == 32.5
    assert found.low == pytest.approx(32.5 - math.hypot(0.75, 1))
    assert found.high == pytest.approx(32.5 + math.hypot(0.75, 1))


# --- the comparison ---------------------------------------------------------------------------------------------------


def test_medians_and_their_ratio(two: Diff) -> None:
    time = two.document["time"]
    assert (time["a_ms"], time["b_ms"]) == (10.6, 5.3)
    assert time["ratio"] == pytest.approx(0.5)
    assert time["told_apart"] is True
    assert "0.5 times as long" in two.answer[1]


def test_a_difference_that_another_run_may_make_is_called_so(two: Diff) -> None:
    """Steps of 10.6 and of 10.3 ms without scatter are told apart; what runs differ by is not known from them."""
    near = diff(record(KERNELS_A, [10.6] * 8), record(KERNELS_A, [10.3] * 8))
    assert near.document["time"]["told_apart"] is True
    assert any("running again" in sentence for sentence in near.answer)
    assert not any("running again" in sentence for sentence in two.answer)


def test_a_guessed_pair_says_that_it_is_one(two: Diff) -> None:
    """sm80's kernel does not run in B: it is paired by the shape of its name."""
    assert "sm80_xmma_gemm_f32_tn_n_tilesize128x64 with 1 of a like name, taken for its partner" in two.answer[-1]
    same = diff(record(KERNELS_A, STEPS_A), record([(KERNELS_A[0][0], 900), *KERNELS_A[1:]], STEPS_A))
    assert "of a like name" not in " ".join(same.answer)


def test_like_profiles_are_not_told_apart() -> None:
    found = diff(record(KERNELS_A, STEPS_A), record(KERNELS_A, [*STEPS_A, 10.7]))
    assert found.document["time"]["told_apart"] is False
    assert "not told apart" in found.answer[1]
    assert found.document["conditions"] == []
    assert "run alike" in found.answer[0]


def test_functions_are_paired_by_name_and_then_without_generation_within_a_category(two: Diff) -> None:
    rows = {row["names"][0]: row for row in two.document["hotspots"]["rows"]}
    gemm = rows["sm80_xmma_gemm_f32_tn_n_tilesize128x64"]
    assert (gemm["matched"], gemm["a_ns"], gemm["b_ns"], gemm["difference_ns"]) == (
        "name without numbers", 600, 200, -400,
    )  # fmt: skip
    assert gemm["names"] == [KERNELS_A[0][0], KERNELS_B[0][0]]
    assert rows["vectorized_elementwise_kernel<4>"]["matched"] == "name"
    assert (rows["old"]["b_ns"], rows["new"]["a_ns"]) == (None, None)
    assert (rows["old"]["difference_ns"], rows["new"]["difference_ns"]) == (-100, 50)


def test_parts_add_up_to_the_difference_of_the_whole(two: Diff) -> None:
    spots = two.document["hotspots"]
    assert (spots["total_a_ns"], spots["total_b_ns"], spots["difference_ns"]) == (1000, 600, -400)
    for view in ("rows", "full", "paper"):
        assert math.fsum(row["difference_ns"] for row in spots[view]) == -400
    assert spots["matched_share"] == pytest.approx([0.9, 550 / 600])
    assert spots["by_name_share"] == pytest.approx(650 / 1450)
    gemm = next(row for row in spots["paper"] if row["category"] == "GEMM")
    assert (gemm["a_share"], gemm["b_share"]) == pytest.approx((0.6, 1 / 3))


def test_another_batch_makes_it_per_sample() -> None:
    found = diff(record(KERNELS_A, STEPS_A), record(KERNELS_A, STEPS_A, batch_size=8, samples=8))
    assert found.document["per"] == "sample"
    assert found.document["time"]["ratio"] == pytest.approx(0.5)
    assert found.document["hotspots"]["difference_ns"] == pytest.approx(1000 / 8 - 1000 / 4)
    assert "batch size 4 against 8" in found.answer[0]


def test_what_one_lacks_is_told_and_never_zero() -> None:
    found = diff(record(KERNELS_A, STEPS_A), record(KERNELS_B))
    time = found.document["time"]
    assert (time["a_ms"], time["b_ms"], time["ratio"]) == (10.6, None, None)
    assert time["reason"] == "no step of B was timed"
    assert "no step of B was timed" in found.answer[1]
    lacks = {row["name"]: row for row in found.document["quantities"]}
    assert lacks["parameters"]["ratio"] is None
    assert lacks["parameters"]["reason"] == "not known of A and B"
    assert found.document["energy"]["reason"] == "no energy was counted of A and B"


def test_nothing_in_common_is_refused_with_what_each_holds() -> None:
    empty = new_profile(task="x", variant=None, suites=[], machine={}, command=[], passes={}, tables={}, notes=[])
    with pytest.raises(UsageError, match="nothing in common") as refused:
        diff(empty, record(KERNELS_A))
    assert refused.value.hint is not None
    assert "A: no tables" in refused.value.hint


def test_unlike_workloads_are_compared_and_said_to_be_unlike() -> None:
    assert "the workload itself" in diff(record(KERNELS_A), record(KERNELS_B, task="other")).answer[0]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (
            "sm80_xmma_gemm_f32f32_tn_n_tilesize32x32x8_stage3",
            "sm90_xmma_gemm_f32f32_tn_n_tilesize64x32x8_stage4",
            True,
        ),
        ("ampere_sgemm_128x64_nn", "volta_sgemm_64x64_nn", True),
        ("void f<float, 4>(int)", "void f<double, 2>(int)", True),
        ("ampere_sgemm_128x64_nn", "ampere_sgemm_128x64_nt", False),
        ("123", "456", False),
    ],
)
def test_the_shape_of_a_name(one: str, other: str, same: bool) -> None:
    assert (shape(one) == shape(other)) is same


def test_it_is_public_and_becomes_frames(two: Diff) -> None:
    found = wcbench.diff(record(KERNELS_A, STEPS_A), record(KERNELS_B, STEPS_B))
    assert found.document["hotspots"] == two.document["hotspots"]
    assert found.to_frame()["difference_ns"].sum() == -400
    assert repr(found).startswith("Diff (A = toy, B = toy)")
