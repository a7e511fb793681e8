"""Device peaks: real names, no sparse figures, nothing guessed, every figure with its source."""

from __future__ import annotations

from pathlib import Path

import pytest

from wcbench import devices
from wcbench.devices import DTYPES, Device, device, find, load_devices, normalize_dtype
from wcbench.errors import UnknownNameError, WcbenchError

ALL = devices.devices()
BY_ID = pytest.mark.parametrize("entry", ALL, ids=lambda entry: entry.id)

# Reported name, memory in bytes, multiprocessors or compute units: from real traces, device queries and properties.
SEEN = [
    ("NVIDIA B200", 182631 * 2**20, 148, "b200"),
    ("NVIDIA H200", 150149398528, 132, "h200-sxm"),
    ("NVIDIA H100 80GB HBM3", 85018279936, 132, "h100-sxm"),
    ("NVIDIA A100-SXM4-80GB", 84990623744, 108, "a100-sxm-80gb"),
    ("NVIDIA A100-SXM4-40GB", 42481549312, 108, "a100-sxm-40gb"),
    ("Tesla V100-SXM2-32GB", 34079899648, 80, "v100-sxm2-32gb"),
    ("NVIDIA L40S", 47576711168, 142, "l40s"),
    ("NVIDIA L4", 23612293120, 58, "l4"),
    ("AMD Instinct MI350X", 309220868096, 256, "mi350x"),
    ("AMD Instinct MI300X", 206141652992, 304, "mi300x"),
    ("AMD Instinct MI300X VF", 205571227648, 304, "mi300x"),
    ("AMD Instinct MI250X / MI250", 65520 * 2**20, 104, "mi250-gcd"),
]

NAMES_ALONE = [
    ("NVIDIA A100 80GB PCIe", "a100-pcie-80gb"),
    ("NVIDIA A100-PCIE-40GB", "a100-pcie-40gb"),
    ("NVIDIA H100 PCIe", "h100-pcie"),
    ("NVIDIA H100 NVL", "h100-nvl"),
    ("Tesla V100-SXM2-16GB", "v100-sxm2-16gb"),
    ("Tesla V100-PCIE-32GB", "v100-pcie-32gb"),
    ("Tesla T4", "t4"),
    ("NVIDIA A10", "a10"),
    ("NVIDIA A40", "a40"),
    ("NVIDIA GeForce RTX 3090", "rtx-3090"),
    ("NVIDIA GeForce RTX 4090", "rtx-4090"),
    ("AMD Instinct MI210", "mi210"),
]

UNKNOWN = [
    "NVIDIA A10G",  # a device of its own, not an A10
    "NVIDIA A100-SXM4-40GB MIG 3g.20gb",  # a slice
    "NVIDIA H200 NVL",
    "NVIDIA H100",  # which of the versions?
    "NVIDIA GeForce RTX 3090 Ti",
    "NVIDIA GeForce RTX 4090 Laptop GPU",
    "NVIDIA GeForce RTX 4090 D",
    "Tesla V100-DGXS-32GB",
    "AMD Radeon Graphics",  # what ROCm called an MI250, and every integrated device
    "AMD Instinct MI308X",
    "AMD Ryzen AI MAX+ 395 w/ Radeon 8060S",
    "Intel(R) Xeon(R) Platinum 8480C",
    "AMD EPYC 9374F 32-Core Processor",
    "cpu",
    "",
]


def known(name: str, memory_bytes: int | None = None, units: int | None = None) -> str | None:
    found = find(name, memory_bytes, units)
    return None if found is None else found.id


@pytest.mark.parametrize(("name", "memory", "units", "expected"), SEEN)
def test_devices_are_found_by_what_they_report(name: str, memory: int, units: int, expected: str) -> None:
    assert known(name, memory, units) == expected
    assert known(f"  {name.upper()} ", memory, units) == expected


@pytest.mark.parametrize(("name", "expected"), NAMES_ALONE)
def test_full_names_need_no_memory(name: str, expected: str) -> None:
    assert known(name) == expected


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_is_not_certain_has_no_figures(name: str) -> None:
    assert find(name) is None


def test_versions_of_one_name_are_told_apart_or_not_at_all() -> None:
    assert known("NVIDIA A100") is None
    assert known("NVIDIA A100", 84990623744) is None  # SXM and PCIe both have 80 GB
    assert known("AMD Instinct MI250X / MI250") is None
    assert known("AMD Instinct MI250X / MI250", units=110) == "mi250x-gcd"
    assert known("AMD Instinct MI250X", 64 * 2**30) == "mi250x-gcd"


def test_a_device_with_other_memory_is_another_device() -> None:
    assert known("NVIDIA A100-SXM4-80GB", 40 * 2**30) is None
    assert known("NVIDIA H100 80GB HBM3", 96 * 2**30) is None
    assert known("NVIDIA H200", units=16) is None


@BY_ID
def test_each_name_leads_to_its_device_or_to_none(entry: Device) -> None:
    for name in entry.names:
        assert known(name) in (entry.id, None)
        assert known(name, entry.memory_bytes) in (entry.id, None)
    assert find(entry.name) is not None or entry.id.startswith("mi250")


@BY_ID
def test_every_figure_is_positive_and_has_one_source(entry: Device) -> None:
    for figure, value in entry.figures().items():
        assert value > 0
        source = entry.source(figure)
        assert source.title
        assert source.section
        assert source.seen
        assert source.url is None or source.url.startswith("https://")


@BY_ID
def test_no_figure_is_a_sparse_one(entry: Device) -> None:
    """Each halving of the type doubles the rate of the matrix units: a sparse figure beside dense ones breaks that."""
    matrix = entry.matrix
    assert matrix.get("bfloat16", matrix["float16"]) == matrix["float16"]
    for wider, narrower in (("tf32", "float16"), ("float16", "float8")):
        if wider in matrix and narrower in matrix:
            assert matrix[narrower] == pytest.approx(2 * matrix[wider], rel=0.015)


@BY_ID
def test_dense_matrix_rate_fits_the_units(entry: Device) -> None:
    """FLOP a clock and unit are a power of two; the clock that follows is one that such chips run at."""
    if entry.units is None:
        return
    clocks = [entry.matrix["float16"] / entry.units / per_clock / 1e9 for per_clock in (512, 1024, 2048, 4096, 8192)]
    assert any(1.3 <= clock <= 2.6 for clock in clocks)
    vector = [entry.vector["float32"] / entry.units / per_clock / 1e9 for per_clock in (128, 256)]
    assert any(1.3 <= clock <= 2.6 for clock in vector)


@BY_ID
def test_sizes_are_plausible(entry: Device) -> None:
    assert 1e11 < entry.bandwidth < 1e13
    assert 2**34 <= entry.memory_bytes <= 2**39
    for size in entry.caches().values():
        assert 2**22 <= size <= 2**28
    assert 30 < entry.peak("float16") / entry.bandwidth < 500  # type: ignore[operator]


def test_sparse_slips_of_well_known_tables_are_not_here() -> None:
    # torch 2.14's own table: H100 1,979 with sparsity; L4 242 with sparsity and the bandwidth of an H100
    assert device("h100-sxm").peak("bfloat16") == 989.4e12
    assert device("l4").peak("float16") == 121e12
    assert device("l4").bandwidth == 300e9
    # CASES 52: 4096 instead of 2048 FLOP a cycle and compute unit for float16 on CDNA 3
    assert device("mi300x").peak("float16") == pytest.approx(304 * 2048 * 2.1e9, rel=1e-4)


def test_ridge_points_by_hand() -> None:
    assert device("h100-sxm").balance("bfloat16") == pytest.approx(295.343, abs=1e-3)  # 989.4e12 / 3.35e12
    assert device("h200-sxm").balance("bfloat16") == 206.125  # 989.4 / 4.8
    assert device("a100-sxm-40gb").balance("float32") == pytest.approx(12.540, abs=1e-3)  # 19.5e12 / 1.555e12
    assert device("v100-sxm2-16gb").balance("bfloat16") is None


def test_peak_takes_the_faster_unit_unless_one_is_named() -> None:
    a100 = device("a100-sxm-80gb")
    assert (a100.peak("float64"), a100.peak("float64", "vector")) == (19.5e12, 9.7e12)
    assert (a100.peak("float32"), a100.peak("tf32"), a100.peak("float32", "matrix")) == (19.5e12, 156e12, None)
    assert a100.peak("float8_e4m3fn") is None
    assert a100.peak("int64") is None
    assert device("h100-sxm").peak("torch.float8_e5m2") == 1978.9e12


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("torch.bfloat16", "bfloat16"),
        ("c10::BFloat16", "bfloat16"),
        ("float", "float32"),
        ("c10::Half", "float16"),
        ("double", "float64"),
        ("float8_e5m2fnuz", "float8"),
        ("int8", "int8"),
    ],
)
def test_types_as_torch_writes_them(written: str, meant: str) -> None:
    assert normalize_dtype(written) == meant


def test_caches_from_near_to_far() -> None:
    assert device("mi300x").caches() == {"L2": 32 * 2**20, "last level": 256 * 2**20}
    assert device("h100-sxm").caches() == {"L2": 52428800}
    assert device("h200-sxm").caches() == {"L2": 62914560}
    assert device("h100-nvl").caches() == {}


def test_figures_that_nobody_checked_are_named() -> None:
    assert device("mi355x").unchecked == ("vector.float64", "vector.float32")
    assert device("h200-sxm").unchecked == ()
    assert {entry.id for entry in ALL if entry.unchecked} == {"mi355x", "mi325x"}


def test_an_unknown_id_suggests_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="Unknown device 'h100-sxn'") as caught:
        device("h100-sxn")
    assert caught.value.suggestions[0] == "h100-sxm"
    with pytest.raises(UnknownNameError, match=r"figure of t4 'matrix\.tf32'"):
        device("t4").source("matrix.tf32")


def test_repr_is_short() -> None:
    assert repr(device("h100-sxm")) == "Device(h100-sxm: 3.35 TB/s, 80 GiB)"


GOOD = """
[[device]]
id = "x1"
vendor = "ACME"
names = ["ACME X*"]
matrix_tflops = { float16 = 10 }
bandwidth_gbs = 100
memory_gib = 8

[[device.source]]
covers = ["matrix", "bandwidth", "memory"]
title = "X1 data sheet"
section = "Specifications"
seen = "printed"
"""

BAD = [
    ('id = "x1"', "", "(no id), field id: is missing"),
    ('names = ["ACME X*"]', "names = []", "x1, field names: is missing"),
    ('names = ["ACME X*"]', "names = [1]", "x1, field names: is not a list of texts"),
    ("bandwidth_gbs = 100", "bandwidth_gbs = -1", "x1, field bandwidth_gbs: -1 is not a positive number"),
    ("bandwidth_gbs = 100", "bandwidth_gbs = inf", "x1, field bandwidth_gbs: inf is not a positive number"),
    ("memory_gib = 8", "memory_gib = true", "x1, field memory_gib: True is not a positive number"),
    ("memory_gib = 8", "memory_gib = 8\nl2_mb = 4", "x1, field l2_mb: is not known"),
    ("float16 = 10", "fp16 = 10", "x1, field matrix_tflops.fp16: is not a known type"),
    ("float16 = 10", "float16 = 0", "x1, field matrix_tflops.float16: 0 is not a positive number"),
    ('section = "Specifications"', "", "x1, field source.section: is missing"),
    ('"matrix", "bandwidth"', '"matrix"', "x1, field bandwidth: has no source"),
    ('"matrix", "bandwidth"', '"matrix", "matrix.float16", "bandwidth"', "matrix.float16: has more than one source"),
    ('"matrix", "bandwidth"', '"matrix", "vector", "bandwidth"', "'vector' is not a figure of this device"),
    ('seen = "printed"', 'seen = "printed"\nchecked = "no"', "field source.checked: is neither true nor false"),
    ("[[device.source]]", "[[device.sauce]]", "x1, field source: is missing"),
]


def test_a_good_file_loads_and_patterns_match_whole_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "mine.toml"
    longer = GOOD.replace("x1", "x2").replace("ACME X*", "ACME X2*")
    path.write_text(GOOD + longer)
    table = load_devices(path)
    assert table[0].peak("float16") == 10e12
    assert table[0].bandwidth == 100e9
    assert table[0].memory_bytes == 8 * 2**30
    monkeypatch.setattr(devices, "_table", lambda: table)
    assert (known("ACME X1"), known("acme x2 pro"), known("My ACME X1")) == ("x1", "x2", None)


@pytest.mark.parametrize(("old", "new", "message"), BAD)
def test_a_bad_file_is_refused_by_file_device_and_field(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "mine.toml"
    assert GOOD.count(old) == 1
    path.write_text(GOOD.replace(old, new))
    with pytest.raises(WcbenchError) as caught:
        load_devices(path)
    assert caught.value.message.startswith("mine.toml: device ")
    assert message in caught.value.message
    assert str(path) in str(caught.value.hint)


def test_two_devices_of_one_id_and_broken_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(GOOD + GOOD)
    with pytest.raises(WcbenchError, match="device x1, field id: given twice"):
        load_devices(path)
    path.write_text("[[device")
    with pytest.raises(WcbenchError, match=r"mine\.toml cannot be read"):
        load_devices(path)


def test_types_are_the_documented_ones() -> None:
    assert {dtype for entry in ALL for dtype in (*entry.vector, *entry.matrix)} == set(DTYPES)
