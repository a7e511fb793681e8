"""The inter-operator reuse model against a cache of single bytes, and steps that were worked out by hand."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wcbench.analysis.locality import (
    INFINITE,
    NEVER,
    Accesses,
    Lifetimes,
    Locality,
    attention_io_lower_bound,
    conv_io_lower_bound,
    gemm_io_lower_bound,
    locality,
    to_allocator,
)

R, W = False, True
FORWARD, BACKWARD, OPTIMIZER, OTHER = range(4)


@dataclass(frozen=True)
class Row:
    op: int
    storage: int
    begin: int
    end: int
    write: bool
    step: int = 0
    phase: int = FORWARD
    unplaced: int | None = None


def accesses(rows: list[Row]) -> Accesses:
    def column(name: str) -> list[int]:
        return [int(getattr(row, name) or 0) for row in rows]

    names = ("op", "storage", "begin", "end", "write", "step", "phase")
    return Accesses(
        **{name: np.array(column(name), dtype=np.int64) for name in names},  # type: ignore[arg-type]
        weighted=np.array([row.unplaced is not None for row in rows], dtype=np.bool_),
        nbytes=np.array(column("unplaced"), dtype=np.int64),
    )


# ---- an independent simulator: an LRU cache of single bytes with dirty bits --------------------------------------

Births = Mapping[int, tuple[int, int | None]]


class ByteCache:
    """Every byte is a line of its own; eviction asks the future whether the content is needed."""

    def __init__(self, rows: list[Row], births: Births, capacity: int, flush: bool) -> None:
        self.trace = [
            ((row.storage, byte), row.write, row.step)
            for row in sorted(rows, key=lambda row: (row.op, row.write))
            for byte in range(row.begin, row.end)
        ]
        end = max((row.op for row in rows), default=0)
        died = {storage for storage, (_, op) in births.items() if op is not None and op <= end + 1}
        self.alive = {row.storage: row.storage not in died for row in rows}
        self.capacity, self.flush = capacity, flush
        self.lines: OrderedDict[tuple[int, int], bool] = OrderedDict()  # byte -> dirty, the oldest first
        self.misses = self.reads = self.write_backs = 0

    def needed(self, byte: tuple[int, int], now: int) -> bool:
        for other, write, _ in self.trace[now:]:
            if other == byte:
                return not write
        return self.alive[byte[0]]

    def boundary(self) -> None:
        """What is dirty and alive goes to memory once; it stays in the cache unless that is flushed."""
        self.misses = self.reads = self.write_backs = 0
        self.lines = OrderedDict() if self.flush else OrderedDict.fromkeys(self.lines, False)

    def run(self) -> ByteCache:
        last = max((step for *_, step in self.trace), default=0)
        entered = False
        for now, (byte, write, step) in enumerate(self.trace):
            if step == last and not entered:
                entered = True
                self.boundary()
            hit = byte in self.lines
            self.misses += not hit
            self.reads += not hit and not write
            dirty = write or (hit and self.lines[byte])
            self.lines[byte] = dirty
            self.lines.move_to_end(byte)
            while len(self.lines) > self.capacity:
                victim, was_dirty = self.lines.popitem(last=False)
                self.write_backs += was_dirty and self.needed(victim, now + 1)
        self.write_backs += sum(dirty and self.alive[byte[0]] for byte, dirty in self.lines.items())
        return self


@st.composite
def windows(draw: st.DrawFn) -> tuple[list[Row], dict[int, tuple[int, int | None]]]:
    """Up to two steps of small operators, and storages that may die at or before the window's end."""
    ops = draw(st.integers(1, 8))
    boundary = draw(st.integers(0, ops))
    rows = []
    for op in range(ops):
        for _ in range(draw(st.integers(0, 3))):
            one, other = sorted((draw(st.integers(0, 6)), draw(st.integers(0, 6))))
            step = int(op >= boundary)
            rows.append(Row(op, draw(st.integers(0, 2)), one, other, draw(st.booleans()), step))
    births = {s: (0, draw(st.sampled_from([None, 10**6, ops, ops - 1]))) for s in draw(st.sets(st.integers(0, 2)))}
    return [row for row in rows if row.end > row.begin], births


CAPACITIES = (1, 2, 3, 5, 8, 13, 30)


@settings(deadline=None)
@given(windows(), st.booleans())
def test_every_capacity_equals_a_cache_of_bytes(window: tuple[list[Row], Births], flush: bool) -> None:
    rows, births = window
    found = locality(accesses(rows), births, capacities=CAPACITIES, flush=flush)
    for at, capacity in enumerate(CAPACITIES):
        cache = ByteCache(rows, births, capacity, flush).run()
        assert found.read_misses[at] == cache.reads
        assert found.write_backs[at] == cache.write_backs
        if found.operator_bytes:
            assert found.miss_ratio[at] == pytest.approx(cache.misses / found.operator_bytes)


@settings(deadline=None)
@given(windows())
def test_flushed_infinite_traffic_is_compulsory(window: tuple[list[Row], Births]) -> None:
    rows, births = window
    for identity in (accesses(rows), to_allocator(accesses(rows), births)):
        flushed = locality(identity, births, flush=True)
        assert flushed.traffic_at(INFINITE) == flushed.compulsory_bytes
        # and warm or flushed, logical or not, what is compulsory is the same
        assert locality(identity, births).compulsory_bytes == flushed.compulsory_bytes


@settings(deadline=None)
@given(windows(), st.lists(st.tuples(st.integers(0, 7), st.integers(0, 2), st.integers(1, 9), st.booleans())))
def test_what_has_no_place_is_charged_and_named(
    window: tuple[list[Row], Births], gathers: list[tuple[int, int, int, bool]]
) -> None:
    rows, births = window
    last = max((row.step for row in rows), default=0)
    step = {row.op: row.step for row in rows}
    extra = [Row(op, s, 0, 6, write, step[op], unplaced=n) for op, s, n, write in gathers if op in step]
    births = {**births, 2: (max((row.op for row in rows), default=0), None)}
    both = accesses(sorted(rows + extra, key=lambda row: row.op))
    found = locality(both, births, flush=True)
    assert found.unplaced_bytes == sum(row.unplaced or 0 for row in extra if row.step == last)
    assert found.traffic_at(INFINITE) >= found.compulsory_bytes
    inner = found.traffic_at(INFINITE) - found.compulsory_bytes
    # versions that only an unplaced read keeps are written at every capacity; the rest is the inner bytes
    assert inner >= found.unplaced_inner_bytes
    if all(row.write for row in extra):
        assert inner == found.unplaced_inner_bytes
    assert (np.diff(found.traffic_at(range(40))) <= 0).all()
    assert any("have no place" in note for note in found.notes) == bool(found.unplaced_bytes)


@settings(deadline=None)
@given(windows(), st.sampled_from([3, 1000, 2**33]))
def test_scaling_bytes_and_capacities_scales_traffic(window: tuple[list[Row], Births], by: int) -> None:
    rows, births = window
    large = [Row(r.op, r.storage, r.begin * by, r.end * by, r.write, r.step) for r in rows]
    small_at, large_at = np.arange(30), np.arange(30) * by
    one, other = locality(accesses(rows), births), locality(accesses(large), births)
    assert (one.traffic_at(small_at) * by == other.traffic_at(large_at)).all()
    assert one.miss_ratio_at(small_at) == pytest.approx(other.miss_ratio_at(large_at), nan_ok=True)
    for name in ("cold_bytes", "compulsory_bytes", "unique_bytes", "largest_operator_bytes"):
        assert getattr(one, name) * by == getattr(other, name)


@settings(deadline=None)
@given(windows())
def test_curves_never_rise_and_sums_hold(window: tuple[list[Row], Births]) -> None:
    rows, births = window
    found = locality(accesses(rows), births, capacities=range(40))
    for curve in (found.traffic, found.read_misses, found.write_backs):
        assert (np.diff(curve) <= 0).all()
    assert found.cold_bytes <= found.unique_bytes <= found.operator_bytes
    assert found.traffic_at(INFINITE) <= found.compulsory_bytes
    assert sum(found.reuse_classes.values()) == pytest.approx(1 if found.reuse_classes else 0)
    if found.wss_99 is not None:
        assert found.wss_50 is not None
        assert found.wss_90 is not None
        assert found.wss_50 <= found.wss_90 <= found.wss_99
        most = found.operator_bytes * (1 - found.miss_ratio_at(INFINITE))
        for percent, wss in ((0.5, found.wss_50), (0.9, found.wss_90), (0.99, found.wss_99)):
            hits, fewer = found.operator_bytes * (1 - found.miss_ratio_at([wss, wss - 1]))
            assert hits >= percent * most - 1e-9
            assert fewer < percent * most


# ---- by hand --------------------------------------------------------------------------------------------------------

X, WEIGHT, H, Y, GRAD = range(5)


def training_step(step: int, start: int) -> list[Row]:
    """x (8) and w (100) make h (40), h makes y (4) and is overwritten in place, w is updated from g (100)."""
    x, h, y, g = (name + 10 * step for name in (X, H, Y, GRAD))
    return [
        Row(start, x, 0, 8, R, step),
        Row(start, WEIGHT, 0, 100, R, step),
        Row(start, h, 0, 40, W, step),
        Row(start + 1, h, 0, 40, R, step),
        Row(start + 1, h, 0, 40, W, step),
        Row(start + 2, h, 0, 40, R, step),
        Row(start + 2, y, 0, 4, W, step),
        Row(start + 20, x, 0, 8, R, step, BACKWARD),
        Row(start + 20, y, 0, 4, R, step, BACKWARD),
        Row(start + 20, g, 0, 100, W, step, BACKWARD),
        Row(start + 21, g, 0, 100, R, step, OPTIMIZER),
        Row(start + 21, WEIGHT, 0, 100, R, step, OPTIMIZER),
        Row(start + 21, WEIGHT, 0, 100, W, step, OPTIMIZER),
    ]


def two_steps() -> tuple[Accesses, dict[int, tuple[int, int | None]]]:
    births: dict[int, tuple[int, int | None]] = {}
    for step, start in ((0, 0), (1, 30)):
        h, y, g = (name + 10 * step for name in (H, Y, GRAD))
        births |= {h: (start, start + 3), y: (start + 2, start + 21), g: (start + 20, start + 22)}
    # the second step's gradient is alive at its end, as after a step that does not clear it
    births[GRAD + 10] = (50, None)
    return accesses(training_step(0, 0) + training_step(1, 30)), births


def test_a_training_step_by_hand() -> None:
    found = locality(*two_steps(), capacities=[0, 151, 152, 207, 208, 251, 252, 10_000])
    # read 8 + 100, write 40; 40 + 40; 40 + 4; 8 + 4 + 100; 100 + 100 + 100
    assert found.operator_bytes == 108 + 40 + 80 + 44 + 112 + 300
    assert found.unique_bytes == 8 + 100 + 40 + 4 + 100
    assert found.cold_bytes == 8 + 40 + 4 + 100  # all but the weights, which the step before touched
    assert found.live_in_bytes == 8 + 100
    assert found.live_out_bytes == 100 + 100  # weights and the gradient
    assert found.largest_operator_bytes == 200  # the weights once, though read and written
    assert found.reuse_count_mean == pytest.approx(684 / 252)
    # distances of the second step's reads: w: x' 8 + w 100 = 108; h 40, 40; x: h, y, w, x = 152; y: 4 + 8 = 12;
    # g 100; w: g, y, x, h, w = 252. Writes: h 40, w 100. Cold: x 8, h 40, y 4, g 100.
    # Reads that miss at 0: 8 cold + 100 + 40 + 40 + 8 + 4 + 100 + 100 = 400; versions needed: h 40 (first), 40
    # (second), y 4, g 100, w 100 = 284
    assert found.traffic.tolist() == [400 + 284, 116 + 200, 108 + 200, 108 + 200, 108 + 200, 108 + 200, 8 + 200, 208]
    assert found.wss_50 == 100
    assert found.wss_90 == 252
    assert found.reuse_dist_median == 100
    # reused: h 40 x 3, g 100 and w's write 100 within 16 operators: 320 of one chain; w's read in the optimizer 100;
    # w's first read 100 from step to step; x 8 and y 4, 20 and 18 operators apart, from forward to backward
    shares = {"same chain": 320, "optimizer": 100, "step to step": 100, "forward to backward": 12, "other": 0}
    assert found.reuse_classes == {name: pytest.approx(size / 532) for name, size in shares.items()}


def test_traffic_where_the_operands_fit_is_less_than_below_them() -> None:
    frame = locality(*two_steps(), capacities=[199, 200]).to_frame()
    assert list(frame) == ["capacity", "miss_ratio", "read_misses", "write_backs", "traffic", "model_too_low"]
    assert frame["model_too_low"].tolist() == [True, False]
    assert (frame["traffic"] == frame["read_misses"] + frame["write_backs"]).all()


def test_a_dead_temporary_writes_nothing_and_a_first_write_fetches_nothing() -> None:
    rows = [Row(0, 1, 0, 64, W), Row(1, 2, 0, 64, W), Row(2, 2, 0, 64, R)]
    dead = locality(accesses(rows), {1: (0, 1), 2: (1, 3)}, capacities=[1, 63, 64])
    assert dead.read_misses.tolist() == [64, 64, 0]
    assert dead.write_backs.tolist() == [64, 64, 0]  # storage 2's, and only where the read no longer finds it


def test_a_version_is_written_once_however_often_it_is_read() -> None:
    rows = [Row(op, storage, 0, 10, op == 0) for op, storage in enumerate([0, 1, 0, 1, 0])]
    found = locality(accesses(rows), {0: (0, 5), 1: (-1, None)}, capacities=[10, 20])
    assert found.write_backs.tolist() == [10, 0]
    assert found.read_misses.tolist() == [40, 10]


def test_an_unplaced_read_needs_the_version_in_memory() -> None:
    rows = [Row(0, 1, 0, 64, W), Row(1, 1, 0, 64, R, unplaced=16)]
    found = locality(accesses(rows), {1: (0, 2)}, capacities=[64, 2**40])
    assert found.write_backs.tolist() == [64, 64]
    assert found.read_misses.tolist() == [16, 16]
    assert (found.unplaced_bytes, found.unplaced_inner_bytes, found.compulsory_bytes) == (16, 16, 0)
    assert found.notes[0] == (
        "1 accesses (16 bytes, 20.0 %) have no place: no reuse is credited, and traffic has them at every capacity"
    )


def test_a_gather_from_old_weights_is_compulsory() -> None:
    found = locality(accesses([Row(0, 1, 0, 1000, R, unplaced=40)]))
    assert (found.compulsory_bytes, found.unplaced_inner_bytes, found.cold_bytes) == (40, 0, 0)


def test_reused_addresses_displace_the_dead_instead_of_waiting_for_their_eviction() -> None:
    """w is read, three temporaries come and go, w is read again: 3 x 512 dead bytes between, or one place of 512."""
    rows = [Row(0, 9, 0, 512, R), *(Row(op, op, 0, 512, W) for op in (1, 2, 3)), Row(4, 9, 0, 512, R)]
    births: Births = {op: (op, op + 1) for op in (1, 2, 3)}
    logical = locality(accesses(rows), births, capacities=[1024, 2048])
    allocator = locality(to_allocator(accesses(rows), births), births, capacities=[1024, 2048])
    assert (logical.identity, allocator.identity) == ("logical", "allocator")
    assert logical.read_misses.tolist() == [1024, 512]
    assert allocator.read_misses.tolist() == [512, 512]
    assert allocator.write_backs.tolist() == [0, 0]
    assert (logical.unique_bytes, allocator.unique_bytes) == (4 * 512, 2 * 512)


def test_a_tenant_never_reads_what_another_left() -> None:
    """Storage 2 gets the address of 1 and is read although no operator wrote it: an input from outside."""
    rows = [Row(0, 1, 0, 512, W), Row(1, 2, 0, 512, R)]
    births: Births = {1: (0, 1), 2: (1, None)}
    found = locality(to_allocator(accesses(rows), births), births, capacities=[2**20])
    assert found.read_misses.tolist() == [512]
    assert found.write_backs.tolist() == [0]  # what 1 left is dead
    assert found.live_in_bytes == 512


# ---- edges ----------------------------------------------------------------------------------------------------------


def test_no_accesses_at_all() -> None:
    found = locality(accesses([]))
    assert found.traffic.tolist() == [0] * 19
    assert np.isnan(found.miss_ratio).all()
    assert found.wss_50 is None
    assert found.reuse_count_mean is None
    assert found.reuse_classes == {}
    assert np.isnan(found.intensity(1.0)).all()
    assert "n/a" in repr(found)


def test_one_access() -> None:
    found = locality(accesses([Row(0, 0, 0, 7, R)]), capacities=[1, 100])
    assert found.traffic.tolist() == [7, 7]
    assert found.wss_50 is None
    assert found.notes == ("only one step was recorded: the cache starts cold",)


def test_zero_byte_accesses_vanish() -> None:
    rows = [Row(0, 0, 3, 3, R), Row(0, 1, 0, 4, R), Row(1, 1, 0, 4, W), Row(1, 2, 0, 0, R, unplaced=0)]
    assert locality(accesses(rows)).operator_bytes == 8


def test_only_writes() -> None:
    rows = [Row(0, 0, 0, 4, W), Row(1, 1, 0, 4, W), Row(2, 0, 0, 4, W)]
    found = locality(accesses(rows), {1: (0, 2)}, capacities=[0, 8])
    assert found.read_misses.tolist() == [0, 0]
    assert found.write_backs.tolist() == [4, 4]  # storage 0 once: what was overwritten is dead


def test_terabytes() -> None:
    rows = [Row(op, s, 0, 2**41, op == 0) for op, s in enumerate([0, 1, 0])]
    found = locality(accesses(rows), capacities=[2**41, 2**42])
    assert found.read_misses.tolist() == [2**42, 2**41]
    assert found.wss_50 == 2**42
    assert found.compulsory_bytes == 2**42


def test_analysing_twice_changes_nothing() -> None:
    stream, births = two_steps()
    one, two = locality(stream, births), locality(stream, births)
    assert one.to_frame().equals(two.to_frame())
    assert repr(one) == repr(two)


def test_lifetimes_as_arrays_are_the_same_as_a_mapping() -> None:
    stream, births = two_steps()
    arrays = Lifetimes(
        storage=np.array(list(births)[::-1]),
        born=np.array([born for born, _ in births.values()])[::-1],
        died=np.array([NEVER if died is None else died for _, died in births.values()])[::-1],
    )
    one, two = (locality(stream, b, capacities=range(300)) for b in (births, arrays))
    assert one.traffic.tolist() == two.traffic.tolist()


def test_intensity_is_flop_over_traffic() -> None:
    found = locality(*two_steps(), capacities=[10_000])
    assert found.intensity(416.0).tolist() == [2.0]
    assert found.intensity(416.0, [0, 252]).tolist() == [pytest.approx(416 / 684), 2.0]


def test_a_sample_keeps_what_is_known_exactly_and_errs_little_elsewhere() -> None:
    rng = np.random.default_rng(5)
    n, storages = 200_000, 20_000
    op = np.sort(rng.integers(0, 50_000, n))
    storage = (rng.zipf(1.1, n) - 1) % storages
    zeros = np.zeros(n, dtype=np.int64)
    end = rng.integers(1, 65_536, storages)[storage]
    step = (op >= 25_000).astype(np.int64)
    stream = Accesses(op, storage, zeros, end, rng.random(n) < 0.4, zeros > 0, zeros, step, zeros.astype(np.int8))
    births = {s: (0, 30_000 if s % 3 else None) for s in range(storages)}
    capacities = np.geomspace(2**12, 2**31, 40).astype(np.int64).tolist()
    exact = locality(stream, births, capacities=capacities)
    sample = locality(stream, births, capacities=capacities, sample_above=1000, sample_rate=0.2)
    assert np.abs(exact.miss_ratio - sample.miss_ratio).max() < 0.02
    assert np.abs(exact.traffic - sample.traffic).max() < 0.02 * exact.operator_bytes
    for name in ("operator_bytes", "unique_bytes", "cold_bytes", "compulsory_bytes", "reuse_classes"):
        assert getattr(exact, name) == getattr(sample, name)
    assert (np.diff(sample.traffic) <= 0).all()
    assert (exact.sample_rate, exact.sample_error, exact.notes) == (1.0, 0.0, ())
    assert sample.sample_rate < 0.7  # the most touched segments are in
    assert "SHARDS" in sample.notes[0]


# ---- bounds of single operators -------------------------------------------------------------------------------------

BERT_FFN = (32 * 512, 3072, 768)  # batch 32 x 512 tokens, hidden 768 to 3072


def bert_ffn_by_the_model(capacity: int) -> Locality:
    m, n, k = BERT_FFN
    rows = [Row(0, 0, 0, 4 * m * k, R), Row(0, 1, 0, 4 * k * n, R), Row(0, 2, 0, 4 * m * n, W)]
    return locality(accesses(rows), capacities=[capacity])


def test_below_its_operands_a_gemm_moves_more_than_the_model_sees() -> None:
    found = bert_ffn_by_the_model(2**18)
    assert found.traffic.tolist() == [50_331_648 + 9_437_184 + 201_326_592]  # 261 MB
    # 2 x 16384 x 3072 x 768 / sqrt(65536) = 301,989,888 elements of 4 bytes
    assert gemm_io_lower_bound(*BERT_FFN, 2**18, 4) == 1_207_959_552
    assert found.to_frame()["model_too_low"].tolist() == [True]


def test_a_gemm_never_moves_less_than_its_operands_once() -> None:
    assert gemm_io_lower_bound(*BERT_FFN, 2**40, 4) == 261_095_424
    assert gemm_io_lower_bound(8, 8, 8, 64 * 4, 4, batch=3) == 3 * 4 * 192  # 2 x 512 / 8 = 128 < 192


def test_conv_bound_is_the_implicit_gemms_less_the_overlap_of_windows() -> None:
    # 2 images of 16 x 16, 8 -> 32 channels, 3 x 3: m = 512, n = 32, k = 72, R = 9; S = 64 elements
    bound = conv_io_lower_bound(2, 8, 32, kernel=(3, 3), output=(16, 16), stride=(1, 1), capacity_bytes=256, itemsize=4)
    assert bound == pytest.approx(4 * 2 * 512 * 32 * 72 / (3 * 8))
    pointwise = conv_io_lower_bound(
        2, 8, 32, kernel=(1, 1), output=(16, 16), stride=(1, 1), capacity_bytes=256, itemsize=4
    )
    assert pointwise == gemm_io_lower_bound(512, 32, 8, 256, 4)
    grouped = conv_io_lower_bound(
        2, 8, 32, kernel=(3, 3), output=(16, 16), stride=(1, 1), capacity_bytes=256, itemsize=4, groups=8
    )
    # each group: m = 512, n = 4, k = 9: operands once are 512 + 36 + 2048, tiled 2 x 512 x 4 x 9 / 24 = 1536
    assert grouped == pytest.approx(8 * 4 * 2596)


def test_attention_bound() -> None:
    # N = 1024, d = 64; S = 16384 elements >= d^2 = 4096: N^2 d^2 / S = 262144 = Q, K, V and output once
    assert attention_io_lower_bound(1, 1024, 1024, 64, capacity_bytes=65_536, itemsize=4) == 4 * 262_144
    assert attention_io_lower_bound(3, 1024, 1024, 64, capacity_bytes=2**14, itemsize=4) == 12 * 1_048_576
    # below d^2 the bound of the matrix products, N^2 d / sqrt(S), and both agree where they meet
    assert attention_io_lower_bound(1, 1024, 1024, 64, capacity_bytes=4096, itemsize=4) == 4 * 2**26 / 32
    assert attention_io_lower_bound(1, 1024, 1024, 64, capacity_bytes=2**14, itemsize=4) == 4 * 2**26 / 64


def test_a_capacity_below_one_element_is_refused() -> None:
    with pytest.raises(ValueError, match="holds no element"):
        gemm_io_lower_bound(1, 1, 1, 3, 4)
