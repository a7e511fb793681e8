"""Bytes and access classes by hand."""

# ruff: noqa: PLW0108  (methods inlined would be bound before the recorder looks)

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from wcbench.profilers.formulas import Work

Record = Callable[..., Any]


def by_kind(done: Work, *, write: bool) -> dict[str, int]:
    found: Counter[str] = Counter()
    for access in done.accesses:
        if access.write == write:
            found[access.kind] += access.nbytes
    return dict(found)


def only(record: Record, function: Callable[[], Any]) -> Work:
    (done,) = record(function).works()
    assert done.covered
    return done


X = torch.randn(4, 6)
ROW = torch.randn(6)

VIEWS: dict[str, Callable[[], Any]] = {
    "t": lambda: X.t(),
    "view": lambda: X.view(24),
    "reshape": lambda: X.reshape(3, 8),
    "expand": lambda: ROW.expand(4, 6),
    "slice": lambda: X[1:3],
    "select": lambda: X[1],
    "split": lambda: X.split(2),
    "unbind": lambda: X.unbind(),
    "detach": lambda: X.detach(),
    "unsqueeze": lambda: X.unsqueeze(0),
    "unfold": lambda: X.unfold(1, 2, 1),
    "contiguous": lambda: X.contiguous(),
    "to": lambda: X.to(torch.float32),
    "as complex": lambda: torch.view_as_complex(X.view(4, 3, 2)),
    "empty": lambda: torch.empty(4, 6),
}


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("inference", [False, True])
def test_views_and_empty_memory_move_nothing(record: Record, name: str, inference: bool) -> None:
    with torch.inference_mode(inference):
        recorded = record(VIEWS[name])
    assert recorded.notes() == []
    assert sum(w.bytes_read + w.bytes_written for w in recorded.works()) == 0


def test_a_reshape_that_must_copy_copies(record: Record) -> None:
    with torch.inference_mode():
        done = record(lambda: X.t().reshape(24)).works()
    assert (sum(w.bytes_read for w in done), sum(w.bytes_written for w in done)) == (96, 96)


def test_broadcast_operands_count_their_distinct_bytes(record: Record) -> None:
    done = only(record, lambda: torch.add(X, ROW))
    assert (done.bytes_read, done.bytes_written) == (96 + 24, 96)
    wide = ROW.expand(4, 6)
    done = only(record, lambda: torch.mul(wide, 2.0))
    assert by_kind(done, write=False) == {"broadcast": 24}


def test_strided_reads(record: Record) -> None:
    columns = X[:, :3]
    assert by_kind(only(record, lambda: columns * 2), write=False) == {"strided": 48}
    turned = X.t()
    assert by_kind(only(record, lambda: turned * 2), write=False) == {"contiguous": 96}


def test_the_same_bytes_are_read_once(record: Record) -> None:
    assert only(record, lambda: X * X).bytes_read == 96
    turned = X.t()
    assert only(record, lambda: torch.mm(X, turned)).bytes_read == 96
    halves = X[:2], X[2:]
    assert only(record, lambda: torch.add(*halves)).bytes_read == 96


def test_in_place_reads_and_writes_and_filling_only_writes(record: Record) -> None:
    target = torch.ones(4, 6)
    for function, read in (
        (lambda: target.add_(1), 96),
        (lambda: target.zero_(), 0),
        (lambda: target.fill_(3.0), 0),
        (lambda: target.uniform_(), 0),
        (lambda: target.bernoulli_(0.5), 0),
        (lambda: target.copy_(ROW), 24),
    ):
        done = only(record, function)
        assert (done.bytes_read, done.bytes_written) == (read, 96)


def test_patterns_are_not_read(record: Record) -> None:
    for function in (lambda: torch.zeros_like(X), lambda: torch.ones_like(X), lambda: X.new_full((4, 6), 1.0)):
        done = record(function).works()
        assert sum(w.bytes_read for w in done if w.flops_all == 0) == 0
        assert sum(w.bytes_written for w in done) == 96


def test_gathers_count_rows(record: Record) -> None:
    table, indices = torch.randn(1000, 8), torch.tensor([3, 3, 999])
    done = only(record, lambda: F.embedding(indices, table))
    assert by_kind(done, write=False) == {"gather": 3 * 32, "contiguous": 24}
    assert done.bytes_written == 96
    done = only(record, lambda: table[indices])
    assert by_kind(done, write=False) == {"gather": 96, "contiguous": 24}
    done = only(record, lambda: table.index_select(0, indices))
    assert by_kind(done, write=False) == {"gather": 96, "contiguous": 24}
    picks = torch.zeros(2, 8, dtype=torch.int64)
    done = only(record, lambda: table.gather(0, picks))
    assert by_kind(done, write=False) == {"gather": 64, "contiguous": 128}


def test_scatters_count_rows(record: Record) -> None:
    gradient, indices = torch.randn(3, 8), torch.tensor([3, 3, 999])
    done = only(record, lambda: torch.ops.aten.embedding_dense_backward(gradient, indices, 1000, -1, False))
    assert done.flops_all == 24
    # the table is written once: three rows of it as scatter
    assert by_kind(done, write=True) == {"scatter": 96, "contiguous": 32_000 - 96}
    target = torch.zeros(1000, 8)
    done = only(record, lambda: target.index_put_((indices,), gradient, accumulate=True))
    assert by_kind(done, write=True) == {"scatter": 96}
    assert by_kind(done, write=False) == {"gather": 96, "contiguous": 96 + 24}
    done = only(record, lambda: target.index_put_((indices,), gradient))
    assert by_kind(done, write=False) == {"contiguous": 96 + 24}
    done = only(record, lambda: torch.index_put(target, (indices,), gradient))
    assert done.bytes_written == 32_000
    assert done.bytes_read == 32_000 + 96 + 24


def test_a_mask_that_writes_one_value_is_counted_whole_with_a_note(record: Record) -> None:
    target = torch.zeros(4, 6)
    mask = target > 0
    one = torch.tensor(1.0)
    done = only(record, lambda: target.index_put_((mask,), one))
    assert done.note == "how many elements a mask selects is data: all are counted"
    assert by_kind(done, write=True) == {"scatter": 96}


def test_sampling_a_picture_reads_at_most_the_picture(record: Record) -> None:
    picture, grid = torch.randn(1, 2, 8, 8), torch.zeros(1, 4, 4, 2)
    done = only(record, lambda: F.grid_sample(picture, grid, align_corners=False))
    # 16 places * 4 neighbours * 2 channels * 4 bytes = 512, which is all of 8*8*2*4
    assert by_kind(done, write=False) == {"gather": 512, "contiguous": 128}


def test_copies_of_views_read_what_they_show(record: Record) -> None:
    done = only(record, lambda: torch.select_copy(X, 0, 1))
    assert (done.bytes_read, done.bytes_written) == (24, 24)
    done = only(record, lambda: torch.expand_copy(ROW, (4, 6)))
    assert (done.bytes_read, done.bytes_written) == (24, 96)


def test_concatenation_reads_all_and_writes_all(record: Record) -> None:
    other = torch.ones(1, 6)
    done = only(record, lambda: torch.cat([X, other]))
    assert (done.bytes_read, done.bytes_written) == (96 + 24, 120)


def test_padding_and_windows(record: Record) -> None:
    assert only(record, lambda: F.pad(X, (1, 1))).bytes_written == 4 * 4 * 8
    windows = X.unfold(1, 3, 1)  # (4, 4, 3) over 4 rows of 6
    assert only(record, lambda: windows * 2).bytes_read == 96
