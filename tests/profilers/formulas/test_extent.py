"""Distinct bytes and access classes, against sets of addresses made by brute force."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wcbench.profilers.formulas import T, extent_bytes, kind_of
from wcbench.profilers.formulas import extent as extent_module
from wcbench.profilers.formulas.extent import ITEMSIZE, distinct_elements, same_bytes_key


def tensor(shape: tuple[int, ...], stride: tuple[int, ...], dtype: str = "float32", offset: int = 0) -> T:
    return T(1, 0, offset, shape, stride, dtype)


def addresses(shape: tuple[int, ...], stride: tuple[int, ...], offset: int = 0) -> set[int]:
    indices = itertools.product(*(range(size) for size in shape))
    return {offset + sum(i * s for i, s in zip(index, stride, strict=True)) for index in indices}


dims = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 12)), max_size=4)


@given(dims)
@settings(max_examples=400, deadline=None)
def test_distinct_elements_are_the_set_of_addresses(pairs: list[tuple[int, int]]) -> None:
    shape, stride = tuple(size for size, _ in pairs), tuple(step for _, step in pairs)
    assert distinct_elements(shape, stride) == len(addresses(shape, stride))


@given(dims, dims, st.integers(0, 3))
@settings(max_examples=300, deadline=None)
def test_equal_keys_mean_equal_addresses(one: list[tuple[int, int]], other: list[tuple[int, int]], offset: int) -> None:
    views = [tensor(tuple(n for n, _ in d), tuple(s for _, s in d), offset=offset) for d in (one, other)]
    if same_bytes_key(views[0]) == same_bytes_key(views[1]):
        assert addresses(views[0].shape, views[0].stride) == addresses(views[1].shape, views[1].stride)


@given(dims)
@settings(max_examples=200, deadline=None)
def test_contiguous_means_no_gap_and_no_repeat(pairs: list[tuple[int, int]]) -> None:
    shape, stride = tuple(size for size, _ in pairs), tuple(step for _, step in pairs)
    view = tensor(shape, stride)
    covered = addresses(shape, stride)
    if kind_of(view) == "contiguous" and covered:
        assert covered == set(range(len(covered)))
        assert view.numel == len(covered)


@pytest.mark.parametrize(
    ("shape", "stride", "distinct", "kind"),
    [
        ((4, 8), (8, 1), 32, "contiguous"),
        ((8, 4), (1, 8), 32, "contiguous"),  # a transposed matrix covers the same bytes
        ((2, 3, 5, 7), (105, 1, 21, 3), 210, "contiguous"),  # channels last
        ((4, 8), (0, 0), 1, "broadcast"),  # one scalar expanded (METHOD 4.3)
        ((4, 8), (0, 1), 8, "broadcast"),
        ((4, 1), (1, 0), 4, "contiguous"),  # stride 0 of a dimension of size 1 repeats nothing
        ((4, 4), (8, 1), 16, "strided"),  # half of each row
        ((4,), (2,), 4, "strided"),
        ((), (), 1, "contiguous"),
        ((0, 3), (3, 1), 0, "contiguous"),
        ((7, 4), (1, 1), 10, "strided"),  # unfold of 10 elements in windows of 4
        ((3, 4), (3, 1), 10, "strided"),  # windows that share an element
        ((3, 3, 2, 2), (4, 1, 4, 1), 16, "strided"),  # 2x2 windows of a 4x4 picture
    ],
)
def test_by_hand(shape: tuple[int, ...], stride: tuple[int, ...], distinct: int, kind: str) -> None:
    assert extent_bytes(tensor(shape, stride)) == 4 * distinct
    assert kind_of(tensor(shape, stride)) == kind


def test_itemsizes_are_torchs() -> None:
    import torch

    ours = {name: size for name, size in ITEMSIZE.items() if hasattr(torch, name)}
    dtypes = {name: getattr(torch, name) for name in ours if isinstance(getattr(torch, name), torch.dtype)}
    assert {"float32", "bfloat16", "int64", "bool", "complex64", "float8_e4m3fn"} <= set(dtypes)
    assert {name: ours[name] for name in dtypes} == {name: dtype.itemsize for name, dtype in dtypes.items()}


def test_a_huge_irregular_overlap_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extent_module, "WIDEST_BIT_SET", 10)
    # addresses 0..(4*5+4*7+4*11) = 93 places; 125 elements: the bound is the smaller number
    bounded = extent_module._distinct(((5, 5), (5, 7), (5, 11)))
    assert len(addresses((5, 5, 5), (5, 7, 11))) <= bounded == min(125, 93)
