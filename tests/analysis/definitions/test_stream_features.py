"""Every feature of an operator stream against the step that conftest.py works out on paper."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from wcbench.analysis import features
from wcbench.analysis.definitions import parts, spatial
from wcbench.analysis.definitions.parts import BYTE_PARTS, CATEGORY_PARTS, FLOP_PARTS, PAPER_PARTS, TIME_PARTS
from wcbench.analysis.hotspots import PHASES
from wcbench.analysis.live import CLASSES
from wcbench.analysis.locality import REUSE_CLASSES
from wcbench.analysis.memory import memory
from wcbench.kernels import FULL, NONE_OF_THE_EIGHT, PAPER, UNKNOWN
from wcbench.record import Profile

TOTAL, FLOPS, SAMPLES = 1636, 576, 4
# sizes of reuses by stack distance, the own size included: Y and R 64 (written just before); H, dW and W (written
# just before) 128; R again after L and H; R after dW and W; H after W, Y, R, L; W after Y, R, L, H, dW; W of the step
# before, after R, C, the gathered rows, ids and H
REUSES = {64: 128, 128: 384, 196: 64, 320: 64, 388: 128, 516: 128, 544: 128}


def value(profile: Profile, name: str) -> float:
    """The one value of a feature."""
    found = features.chosen(name)[0](profile)
    assert len(found) == 1
    return float(found.iloc[0])


def shares(profile: Profile, name: str) -> dict[str, float]:
    """Parts that are not 0."""
    found = features.chosen(name)[0](profile)
    assert math.isclose(found.sum(), 1.0)
    return {key.partition("[")[2].rstrip("]"): float(v) for key, v in found.items() if v}


ONE_VALUE = {
    "flops_per_sample": 136.0,
    "flops_fixed": 32.0,
    "params_trainable": 832.0,
    "params_sparse_share": 800 / 832,
    "bwd_fwd_flop_ratio": 256 / 256,
    "optimizer_byte_share": 384 / TOTAL,
    "samples_per_step": 4.0,
    "op_types_distinct": 6.0,
    "ops_per_step": 7.0,
    "shape_distinct_per_op": 1.0,
    "gemm_aspect": 1.0,  # (4, 4, 8) and (8, 4, 4)
    "gemm_dim_geomean": 128 ** (1 / 3),
    "footprint_peak": 3200 + 128 + 64 + 128 + 64 + 128,  # E, W, both ids, H, R, dW
    "footprint_per_sample": 70.0,
    "footprint_fixed": 3000.0,
    "unique_bytes_per_step": 32 + 128 + 128 + 64 + 64 + 4 + 128 + 64 + 128,  # ids H W Y R L dW C, the rows of E
    "activation_per_param": (128 + 64) / 3328,
    "tensor_size_median": 128.0,  # 1,152 of 1,636 bytes move in accesses of that size
    "bytes_op_level": 150.0,
    "bytes_op_level_fixed": 768.0,
    "bytes_compulsory": (32 + 128 + 128 + 128 + 64) / SAMPLES,  # in: ids, W, rows of E; out: W, C
    "fusion_headroom": TOTAL / 480,
    "ai_op_level": FLOPS / TOTAL,
    "time_mem_bound_share": 1.0,  # no operator reaches one FLOP a byte
    "write_share": (128 + 64 + 64 + 4 + 128 + 128 + 64) / TOTAL,
    "copy_layout_share": 128 / TOTAL,
    "wss_50": 128.0,  # 512 of 1,024 reused bytes
    "wss_90": 544.0,  # 896 fit into 516
    "wss_99": 544.0,
    "reuse_dist_median": 128.0,
    "cold_share": (TOTAL - 1024) / TOTAL,
    "reuse_count_mean": (TOTAL - 128) / 612,
    "lifetime_median": 1.0,  # weights and inputs are most of the bytes
    "noncontig_byte_share": 128 / TOTAL,
    "indirect_byte_share": 128 / TOTAL,
    "line_utilisation_pred": TOTAL / (TOTAL - 4 + 32),  # L alone is smaller than a sector
    "line_utilisation_128B": TOTAL / (768 + 384 + 256 + 256 + 384 + 384 + 256),
    "dag_width_mean": FLOPS / (256 + 16 + 256 + 32),
    "dlp_median": 16.0,  # 288 of 576 FLOPs are in operators with 16 results or fewer
    "serial_depth_per_sample": 5.0,  # embedding, mm, relu, mm, update
}


@pytest.mark.parametrize("name", ONE_VALUE)
def test_value_is_that_on_paper(hand: Profile, name: str) -> None:
    assert value(hand, name) == pytest.approx(ONE_VALUE[name], rel=1e-12)


SHARES = {
    "op_class_flop_share": {"gemm": 512 / FLOPS, "elementwise": 48 / FLOPS, "reduction": 16 / FLOPS},
    "op_class_byte_share": {
        "gemm": 640 / TOTAL,
        "elementwise": (128 + 384) / TOTAL,
        "reduction": 68 / TOTAL,
        "embedding": 288 / TOTAL,
        "layout": 128 / TOTAL,
    },
    # all are bound by bandwidth, so that times go as bytes
    "kernel_class_time_modelled": {
        "gemm": 640 / TOTAL,
        "relu": 128 / TOTAL,
        "elementwise": 384 / TOTAL,
        "arrangement": (288 + 128) / TOTAL,
        "other": 68 / TOTAL,
    },
    "dtype_byte_share": {"fp32": (TOTAL - 32) / TOTAL, "int64": 32 / TOTAL},
    "footprint_class_share": {
        "weights": 3328 / 3712,
        "gradients": 128 / 3712,
        "activations": 192 / 3712,
        "inputs": 64 / 3712,
    },
    "reuse_class_share": {"same_chain": 896 / 1024, "step_to_step": 128 / 1024},
    "stride_bucket_share": {"1_element": (TOTAL - 128) / TOTAL, "64B": 128 / TOTAL},
}


@pytest.mark.parametrize("name", SHARES)
def test_composition_is_that_on_paper(hand: Profile, name: str) -> None:
    assert shares(hand, name) == pytest.approx(SHARES[name], rel=1e-12)


def test_every_feature_of_the_stream_is_on_paper() -> None:
    tested = {*ONE_VALUE, *SHARES, "ai_at_capacity", "mrc_miss_ratio", "ai_spread", "ai_spread_bytes"}
    tested |= {"op_entropy_hill1", "shape_change_rate"}
    assert {d.name for d in features.definitions() if d.needs == "operators"} == tested


def test_capacities(hand: Profile) -> None:
    # everything fits: ids and the rows of E are read, W and C outlive the step
    assert features.chosen("ai_at_capacity")[0](hand).tolist() == pytest.approx([FLOPS / (160 + 192)] * 4)
    assert features.chosen("mrc_miss_ratio")[0](hand).tolist() == pytest.approx([612 / TOTAL] * 4)


def test_entropy_and_spread(hand: Profile) -> None:
    p = np.array([640, 512, 68, 288, 128]) / TOTAL
    assert value(hand, "op_entropy_hill1") == pytest.approx(np.exp(-(p * np.log(p)).sum()))
    flops, moved = np.array([256, 16, 16, 256, 32]), np.array([320, 128, 68, 320, 384])
    logs = np.log2(flops / moved)
    for name, weight in (("ai_spread", flops), ("ai_spread_bytes", moved)):
        spread = np.sqrt(np.cov(logs, fweights=weight, ddof=0))
        assert value(hand, name) == pytest.approx(float(spread))


def test_reuses_are_those_of_the_memory_view(hand: Profile) -> None:
    found = memory(hand)
    assert found is not None
    missed = 1024
    for distance, size in sorted(REUSES.items()):
        missed -= size
        assert int(found.logical.curve_all(distance)) - 612 == missed


# --- kinds of steps ---------------------------------------------------------------------------------------------------


def test_several_kinds_are_weighed_by_their_shares(stream: Callable[..., Profile], lines: Callable[..., Any]) -> None:
    """Three in four steps are as on paper; the others consume 8 samples and copy nothing."""
    other = {"flops_all": ("FLOP", 20.0, 50.0), "bytes_read": ("B", 0.0, 10.0), "bytes_written": ("B", 0.0, 0.0)}
    profile = stream(
        kinds=["a", "a", "b"],
        scaling=[*lines("a"), *lines("b", other)],
        edit=lambda rows: rows.pop(),
        step_kinds={"a": 0.75, "b": 0.25},
        kind_samples={"b": 8},
    )
    expected = {
        "samples_per_step": 5.0,
        "flops_per_sample": (0.75 * 4 * 136 + 0.25 * 8 * 50) / 5,
        "flops_fixed": 0.75 * 32 + 0.25 * 20,
        "bytes_op_level": (0.75 * 4 * 150 + 0.25 * 8 * 10) / 5,
        "ops_per_step": 6.75,
        "copy_layout_share": 0.75 * 128 / (TOTAL - 0.25 * 128),
        # of kind a C dies as the next step begins; of kind b nothing is copied, and R is alive at the end
        "bytes_compulsory": (0.75 * (480 - 64) + 0.25 * (480 - 64 + 64)) / 5,
        "unique_bytes_per_step": 740 - 0.25 * 64,
        "wss_50": 128.0,  # 512 of 1,008 reused bytes
        "wss_90": 544.0,  # 880 fit into 516
        "serial_depth_per_sample": 5.0,
        "cold_share": (612 - 0.25 * 64) / (TOTAL - 0.25 * 128),
    }
    assert {name: value(profile, name) for name in expected} == pytest.approx(expected)
    found = shares(profile, "reuse_class_share")  # R is reused once less
    assert found == pytest.approx({"same_chain": 1 - 128 / 1008, "step_to_step": 128 / 1008})


def test_a_shortened_stream_is_continued_and_says_so(stream: Callable[..., Profile], lines: Callable[..., Any]) -> None:
    own = {"flops_all": ("FLOP", 1.0, 2.0), "calls": ("calls", 7.0, 0.0), "live_peak_bytes": ("B", 100.0, 10.0)}
    far = {"flops_all": ("FLOP", 10.0, 20.0), "calls": ("calls", 70.0, 0.0), "live_peak_bytes": ("B", 900.0, 25.0)}
    rows = [{**row, "length": 10} for row in lines("train", own)]
    rows += [{**row, "length": 100, "recorded": False} for row in lines("train", far)]
    table = features.evaluate(stream(scaling=rows), "flops_per_sample,ops_per_step,footprint_peak,ai_op_level")
    found = dict(zip(table["feature"], table["value"], strict=True))
    assert found == pytest.approx(
        {"flops_per_sample": 20.0, "ops_per_step": 70.0, "footprint_peak": 1000.0, "ai_op_level": FLOPS / TOTAL}
    )
    assert set(table["remark"]) == {"counted at length 10 of 100"}


def test_real_tensors_tell_changes_of_shapes(stream: Callable[..., Profile]) -> None:
    def longer(rows: list[dict[str, Any]]) -> None:
        rows[2]["inputs"][0]["shape"] = [5, 4]  # relu of the first step

    assert value(stream(edit=longer, tensors="real"), "shape_change_rate") == pytest.approx(1 / 7)
    assert value(stream(tensors="real"), "shape_change_rate") == 0.0
    fake = features.evaluate(stream(), "shape_change_rate").iloc[0]
    assert math.isnan(fake["value"])
    assert "fake tensors" in fake["reason"]


# --- what is not told -------------------------------------------------------------------------------------------------


def test_without_a_fit_slopes_are_not_measured(stream: Callable[..., Profile]) -> None:
    rows = features.evaluate(stream(scaling=[]), "flops_per_sample,bytes_op_level,ai_op_level").set_index("feature")
    assert rows["value"].isna().tolist() == [True, True, False]
    assert "--no-scaling" in rows.loc["flops_per_sample", "reason"]


def test_a_stream_without_parameters_tells_none(stream: Callable[..., Profile]) -> None:
    rows = features.evaluate(stream(parameters=False), "params_trainable,params_sparse_share")
    assert rows["value"].isna().all()
    assert rows["reason"].str.contains("no list of parameters").all()


# --- tables of parts --------------------------------------------------------------------------------------------------


def test_every_category_has_a_place() -> None:
    assert set(CATEGORY_PARTS) == {*FULL, UNKNOWN}
    assert {flops for flops, _ in CATEGORY_PARTS.values()} == set(FLOP_PARTS)
    assert {nbytes for _, nbytes in CATEGORY_PARTS.values()} == set(BYTE_PARTS)
    assert set(PAPER_PARTS) == {*PAPER, NONE_OF_THE_EIGHT, UNKNOWN}
    assert set(PAPER_PARTS.values()) == set(TIME_PARTS)
    assert set(parts.FOOTPRINT_CLASSES.values()) == set(CLASSES)
    assert set(parts.REUSE_CLASSES.values()) == set(REUSE_CLASSES)
    assert "optimizer" in PHASES


def test_batched_products_stand_with_attention() -> None:
    assert parts.operator_parts("aten::bmm") == ("attention", "attention")
    assert parts.operator_parts("aten::_scaled_dot_product_flash_attention") == ("attention", "attention")
    assert parts.operator_parts("aten::addmm") == ("gemm", "gemm")
    assert parts.operator_parts("mystery::riddle") == ("other", "other")
    assert [parts.dtype_part(t) for t in ("float8_e4m3fn", "bfloat16", "uint8", "complex64")] == [
        "fp8", "bf16", "int", "fp32"]  # fmt: skip


# --- strides and sectors ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "stride", "expected"),
    [([4, 8], [8, 1], 1), ([8, 4], [1, 8], 8), ([4, 1], [3, 7], 3), ([1, 1], [5, 9], 1), ([], [], 1), ([4], [0], 0)],
)
def test_innermost_stride_drops_extents_of_one(shape: list[int], stride: list[int], expected: int) -> None:
    assert spatial.innermost(shape, stride) == expected


def test_stride_buckets_are_mica_s() -> None:
    steps = (0, 1, 2, 16, 17, 128, 129, 1024, 1025, 8192, 8193)
    found = [spatial.bucket(step, 4) for step in steps]
    assert found == ["0", "1_element", "64B", "64B", "512B", "512B", "4KiB", "4KiB", "32KiB", "32KiB", "over_32KiB"]


def sectors(shape: list[int], stride: list[int], size: int, offset: int, unit: int) -> float:
    """Useful bytes over those of the units touched, by listing every byte."""
    touched = {offset * size}
    for extent, step in zip(shape, stride, strict=True):
        touched = {at + i * step * size for at in touched for i in range(extent)}
    touched = {at + b for at in touched for b in range(size)}
    return len(touched) / (unit * len({at // unit for at in touched}))


@pytest.mark.parametrize(
    ("shape", "stride", "size", "offset"),
    [
        ([64], [1], 4, 0),
        ([3], [1], 4, 7),  # across a boundary: 12 bytes of two sectors
        ([64], [2], 4, 0),  # every other element
        ([64], [16], 4, 0),  # one element a sector
        ([64, 8], [8, 1], 4, 0),
        ([64, 8], [24, 1], 4, 0),
        ([64, 4], [12, 1], 4, 0),
        ([8, 64], [1, 8], 4, 0),  # a transpose is dense
        ([16, 5], [0, 1], 4, 0),  # a broadcast
        ([64, 2], [9, 1], 4, 3),  # an odd pitch: the mean over all alignments
    ],
)
def test_line_use_of_strided_accesses(shape: list[int], stride: list[int], size: int, offset: int) -> None:
    for unit in (spatial.SECTOR, spatial.LINE):
        found = spatial._use(shape, stride, size, offset * size % spatial.LINE, unit)
        assert found == pytest.approx(sectors(shape, stride, size, offset, unit), rel=0.03)


@pytest.mark.parametrize(("width", "expected"), [(8, 1.0), (1, 4 / 32), (4, 16 / 32), (12, 48 / 64), (3, 12 / 44)])
def test_line_use_of_rows(width: int, expected: float) -> None:
    # rows of 3 floats begin at any multiple of 4 bytes: 6 of 8 places need one sector, 2 need two: 40 bytes on the mean
    expected = 12 / 40 if width == 3 else expected
    assert spatial._row_use([100, width], [width, 1], 4, 32, single=False) == pytest.approx(expected)
    assert spatial._row_use([100, width], [width, 1], 4, 32, single=True) == pytest.approx(4 / 32)
