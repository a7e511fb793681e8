"""The roofline against hand arithmetic and its own inequalities."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wcbench.analysis.roofline import CapacityLine, Roofline, roofline
from wcbench.devices import DTYPES, device, devices
from wcbench.errors import WcbenchError

A100 = device("a100-sxm-40gb")  # 312e12 bfloat16, 19.5e12 float32, 1.555e12 B/s


def drawn(*args: object, **options: object) -> Roofline:
    result, reason = roofline(*args, **options)  # type: ignore[arg-type]
    assert reason is None
    assert result is not None
    return result


@pytest.fixture
def three() -> Roofline:
    """A product of 4096^3 in bfloat16, an addition of 2^24 float32 elements, a copy of as many.

    mm:   2 * 4096^3 = 137,438,953,472 FLOP; 3 * 4096^2 * 2 = 100,663,296 bytes; 1365.33 FLOP/byte, ridge 200.64
    add:  16,777,216 FLOP; 3 * 4 * 2^24 = 201,326,592 bytes; 1/12 FLOP/byte, ridge 12.54
    copy: 0 FLOP; 2 * 4 * 2^24 = 134,217,728 bytes
    """
    flops, moved = [137_438_953_472, 16_777_216, 0], [100_663_296, 201_326_592, 134_217_728]
    types = ["torch.bfloat16", "float32", "float32"]
    return drawn(["mm", "add", "copy"], flops, moved, types, A100, traffic=[(2**25, 2e8), (0, 436_207_616), (2**40, 0)])


def test_three_operators_by_hand(three: Roofline) -> None:
    rows = three.to_frame().set_index("name")
    assert rows.loc["mm", "time_s"] == pytest.approx(440.50947e-6)  # 137,438,953,472 / 312e12
    assert rows.loc["add", "time_s"] == pytest.approx(129.47047e-6)  # 201,326,592 / 1.555e12
    assert rows.loc["copy", "time_s"] == pytest.approx(86.31365e-6)  # 134,217,728 / 1.555e12
    assert list(rows["bound"]) == ["compute", "memory", "memory"]
    assert rows.loc["mm", "intensity"] == pytest.approx(4096 / 3)
    assert rows.loc["add", "intensity"] == pytest.approx(1 / 12)
    assert rows.loc["copy", "intensity"] == 0
    assert rows.loc["mm", "attainable"] == 312e12
    assert rows.loc["add", "attainable"] == pytest.approx(1.555e12 / 12)
    assert pd.isna(rows.loc["copy", "attainable"])


def test_totals_by_hand(three: Roofline) -> None:
    assert three.flops == 137_455_730_688
    assert three.bytes == 436_207_616
    assert three.intensity == pytest.approx(315.1154)
    assert three.time_s == pytest.approx(656.29359e-6)
    assert three.memory_bound_share == pytest.approx((129.47047 + 86.31365) / 656.29359)
    assert three.attainable == pytest.approx(137_455_730_688 / 656.29359e-6)
    assert three.unplaced == 0
    assert three.ridge == {"bfloat16": pytest.approx(200.643, abs=1e-3), "float32": pytest.approx(12.540, abs=1e-3)}


def test_capacity_lines(three: Roofline) -> None:
    assert three.capacities == (
        CapacityLine(0, 436_207_616, pytest.approx(315.1154)),
        CapacityLine(2**25, 2e8, pytest.approx(687.27865)),  # 137,455,730,688 / 2e8
        CapacityLine(2**40, 0, None),
    )


def test_repr_is_short(three: Roofline) -> None:
    assert repr(three) == (
        "Roofline (NVIDIA A100-SXM4-40GB; 3 operators)\n"
        "  315.12 FLOP/byte in total, machine balance bfloat16 200.6, float32 12.5\n"
        "  at least 0.656 ms, 32.9 % of it memory-bound"
    )


def test_to_frame_is_a_copy(three: Roofline) -> None:
    frame = three.to_frame()
    frame["time_s"] = 0
    assert three.rows["time_s"].sum() > 0
    assert list(three.rows) == ["name", "dtype", "flops", "bytes", "intensity", "attainable", "time_s", "bound"]


def test_no_bytes_and_no_flops_are_missing_not_infinite() -> None:
    result = drawn(["compute", "view", "copy"], [312e12, 0, 0], [0, 0, 1.555e12], "bfloat16", A100)
    rows = result.rows
    assert rows["time_s"].tolist() == [1.0, 0.0, 1.0]
    assert rows["intensity"].isna().tolist() == [True, True, False]
    assert rows["attainable"].isna().tolist() == [False, True, True]
    assert rows["bound"].isna().tolist() == [False, True, False]
    assert result.memory_bound_share == 0.5
    assert not np.isinf(rows.select_dtypes("number").to_numpy(dtype=float, na_value=0)).any()


def test_nothing_at_all() -> None:
    result = drawn([], [], [], "float32", A100, traffic=[(1, 0)])
    assert (result.intensity, result.memory_bound_share, result.attainable, result.time_s) == (None, None, None, 0)
    assert result.capacities == (CapacityLine(1, 0, None),)
    assert "n/a FLOP/byte" in repr(result)


def test_a_type_without_a_peak_has_no_time_unless_nothing_is_computed() -> None:
    result = drawn(["argmax", "gather", "gap"], [5, 0, math.nan], [10, 1555, 7], ["int64", "int64", "float32"], A100)
    assert result.rows["time_s"].isna().tolist() == [True, False, True]
    assert result.rows["attainable"].isna().all()
    assert result.rows["bound"].isna().tolist() == [True, False, True]
    assert result.time_s == pytest.approx(1e-9)
    assert (result.unplaced, result.flops, result.bytes) == (2, 5, 1565)  # the operator with a gap counts in neither
    assert "3 operators; 2 without a prediction" in repr(result)


def test_tf32_has_a_roof_of_its_own() -> None:
    result = drawn(["true", "rounded"], [156e12, 156e12], [1, 1], ["float32", "tf32"], A100)
    assert result.rows["time_s"].tolist() == [8.0, 1.0]


def test_names_are_looked_up() -> None:
    result = drawn(["mm"], [1], [1], "float16", "Tesla V100-SXM2-32GB", memory_bytes=34079899648, units=80)
    assert result.device.id == "v100-sxm2-32gb"


@pytest.mark.parametrize("name", ["NVIDIA A100", "NVIDIA A10G", "AMD Radeon Graphics"])
def test_an_unknown_device_has_no_roof_and_a_reason(name: str) -> None:
    result, reason = roofline(["mm"], [1], [1], "float16", name)
    assert result is None
    assert reason is not None
    assert name in reason
    assert "none is guessed" in reason


@pytest.mark.parametrize("name", [None, "cpu"])
def test_processors_have_no_roof_on_purpose(name: str | None) -> None:
    result, reason = roofline(["mm"], [1], [1], "float32", name)
    assert result is None
    assert reason is not None
    assert "processors" in reason


@pytest.mark.parametrize(
    ("flops", "moved", "types", "message"),
    [
        ([1, 2], [1], "float32", "one entry an operator everywhere, not name 1, dtype 1, flops 2, bytes 1"),
        ([1], [1], ["float32", "float32"], "dtype 2"),
        ([-1], [1], "float32", "finite flops of 0 or more"),
        ([1], [math.inf], "float32", "finite bytes of 0 or more"),
    ],
)
def test_bad_input_is_refused(flops: list[float], moved: list[float], types: str | list[str], message: str) -> None:
    with pytest.raises(WcbenchError, match=message):
        roofline(["mm"], flops, moved, types, A100)


COUNTS = st.integers(0, 10**15)
OPERATORS = st.lists(st.tuples(COUNTS, COUNTS, st.sampled_from(DTYPES)), max_size=20)


@given(OPERATORS, st.sampled_from(devices()))
def test_no_operator_beats_the_peak_or_the_bandwidth(operators: list[tuple[int, int, str]], where: object) -> None:
    flops, moved, types = ([row[i] for row in operators] for i in range(3))
    result = drawn([str(i) for i in range(len(operators))], flops, moved, types, where)
    for row in result.rows.itertuples():
        peak = result.device.peak(str(row.dtype))
        if pd.isna(row.time_s):
            assert peak is None
            continue
        assert row.time_s >= row.bytes / result.device.bandwidth
        assert row.flops == 0 or row.time_s >= row.flops / (peak or math.nan)
        if not pd.isna(row.attainable):
            assert row.attainable <= (peak or math.nan)
            assert row.attainable * row.time_s == pytest.approx(row.flops)
    assert result.memory_bound_share is None or 0 <= result.memory_bound_share <= 1 + 1e-12
