"""The stand-in data have the statistics that their documentation claims."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from wcbench.errors import UsageError
from wcbench.tasks import data


def share_of_top(cumulative: Tensor, share: float) -> float:
    return float(cumulative[round(share * cumulative.numel()) - 1])


def test_generators_of_neighbouring_steps_share_nothing() -> None:
    streams = [(0, 0), (0, 1), (1, 0), (1, 1), (0, data.DATASET), (11, 1), (1, 11), (-1, 0)]
    draws = {tuple(torch.rand(4, generator=data.generator(seed, index)).tolist()) for seed, index in streams}
    assert len(draws) == len(streams)


def test_generators_are_stable() -> None:
    """`printf 0:0 | b2sum -l 64`, little end first: a change here changes every batch ever recorded."""
    assert data.generator(0, 0).initial_seed() == 0x62D069677E9C6CD5


@pytest.mark.parametrize("items", [1682, 26_744])
def test_items_are_as_skewed_as_ml_100k(items: int) -> None:
    """TASKS.md, C10: counted in ml-100k, the top 1 % of items hold 7.3 % of the rows and the top 10 % hold 42.7 %."""
    popularity = data.item_popularity(items)
    assert share_of_top(popularity, 0.01) == pytest.approx(0.073, abs=0.003)
    assert share_of_top(popularity, 0.10) == pytest.approx(0.427, abs=0.01)


def test_the_head_of_the_items_is_flat() -> None:
    """Under plain Zipf the first item is 10 times as popular as the tenth, in ml-100k less than twice."""
    weights = data.item_popularity(1682).diff(prepend=torch.zeros(1))
    assert 1 < float(weights[0] / weights[9]) < 2
    assert share_of_top(data.zipf_mandelbrot(26_744, 1.0, 0.0), 0.01) == pytest.approx(0.57, abs=0.01)


def test_zipf_mandelbrot_by_hand() -> None:
    """Weights 1/2, 1/3, 1/4 of 13/12 in all: 6/13, 4/13, 3/13."""
    assert data.zipf_mandelbrot(3, 1.0, 1.0).tolist() == pytest.approx([6 / 13, 10 / 13, 1.0])


def test_drawn_ranks_follow_the_law() -> None:
    popularity = data.item_popularity(1682)
    ranks = data.draw(popularity, (200_000,), data.generator(0, 0))
    assert ranks.dtype == torch.int64
    assert 0 <= int(ranks.min()) <= int(ranks.max()) < 1682
    assert float((ranks < 17).double().mean()) == pytest.approx(share_of_top(popularity, 0.01), abs=0.003)
    assert float((ranks < 168).double().mean()) == pytest.approx(share_of_top(popularity, 0.10), abs=0.006)


def test_one_rank_is_always_drawn() -> None:
    assert data.draw(data.zipf_mandelbrot(1, 1.0, 0.0), (5,), data.generator(0, 0)).tolist() == [0] * 5


def test_activity_is_log_normal() -> None:
    """Without the cut, mean and median are those asked for, and ln(rows) has deviation sqrt(2 ln(mean / median))."""
    rows = data.log_normal(138_493, mean=144.4, median=68.0, minimum=0.0)
    assert float(rows.mean()) == pytest.approx(144.4, rel=0.01)
    assert float(rows.median()) == pytest.approx(68.0, rel=0.001)
    assert float(rows.log().std()) == pytest.approx(math.sqrt(2 * math.log(144.4 / 68.0)), rel=0.01)


def test_no_user_has_fewer_rows_than_movielens_keeps() -> None:
    rows = data.log_normal(138_493, mean=144.4, median=68.0, minimum=20.0)
    assert float(rows.min()) == 20.0
    assert float(rows.mean()) == pytest.approx(144.4, rel=0.02)  # the cut lifts the mean a little
    assert float(rows.sum()) == pytest.approx(20_000_263, rel=0.02)


def zipf(n: int, exponent: float, draws: int = 100_000) -> Tensor:
    return data.zipf(n, exponent, (draws,), data.generator(0, 0))


def test_zipf_by_hand() -> None:
    """Weights 1, 1/2, 1/3 of 11/6 in all."""
    ranks = zipf(3, 1.0)
    assert ranks.dtype == torch.int64
    shares = (ranks.bincount(minlength=3) / len(ranks)).tolist()
    assert shares == pytest.approx([6 / 11, 3 / 11, 2 / 11], abs=0.006)


@pytest.mark.parametrize("exponent", [0.0, 0.6, 1.0, 1.0 + 1e-13, 1.0 + 1e-9, 1.3, 3.0])
@pytest.mark.parametrize("n", [4096, 4097, 300_000])
def test_zipf_has_the_shares_of_its_weights(n: int, exponent: float) -> None:
    """Against all n weights, added up by NumPy: within four deviations of a share that 100,000 draws estimate."""
    shares = np.cumsum(np.arange(1, n + 1) ** -exponent)
    shares /= shares[-1]
    ranks = zipf(n, exponent)
    assert 0 <= int(ranks.min()) <= int(ranks.max()) < n
    for top in (1, 10, 1000, 4095, 4096, 4097, n // 2, n - 1):
        share = shares[min(top, n) - 1]
        deviation = math.sqrt(share * (1 - share) / len(ranks))
        assert float((ranks < top).double().mean()) == pytest.approx(share, abs=4 * deviation + 1e-9)


def test_zipf_over_forty_million_ranks() -> None:
    """Harmonic numbers are ln n + 0.5772 + 1 / 2n: of the draws 54.1 % lie in the first 10,000."""
    ranks = zipf(40_000_000, 1.0)

    def harmonic(n: int) -> float:
        return math.log(n) + 0.5772156649 + 1 / (2 * n)

    for top in (100, 10_000, 1_000_000):
        share = harmonic(top) / harmonic(40_000_000)
        assert float((ranks < top).double().mean()) == pytest.approx(share, abs=0.0065)
    assert 39_000_000 < int(ranks.max()) < 40_000_000


def test_no_rank_is_lost_where_sum_and_integral_meet() -> None:
    """Uniform over 4,100: the ranks from 4,090 to the last have 1 / 4,100 of the draws each."""
    counts = zipf(4100, 0.0, draws=2_000_000).bincount(minlength=4100)[4090:]
    assert len(counts) == 10
    assert counts.double().sub(2_000_000 / 4100).abs().max() < 5 * math.sqrt(2_000_000 / 4100)


@pytest.mark.parametrize("exponent", [80.0, 500.0])
def test_a_steep_zipf_draws_the_first_rank_alone(exponent: float) -> None:
    assert zipf(10_000, exponent, draws=1000).tolist() == [0] * 1000


@pytest.mark.parametrize("n", [1, 2, 3, 4, 10, 97, 1024, 5683])
def test_scattering_is_one_to_one(n: int) -> None:
    for table in range(3):
        assert data.scatter(torch.arange(n), n, 0, table).sort().values.tolist() == list(range(n))


def test_popular_rows_lie_far_apart() -> None:
    maps = [data.scatter(torch.arange(50), 39_884_406, seed, table) for seed, table in ((0, 0), (0, 1), (1, 0))]
    for rows in maps:
        assert int(rows.sort().values.diff().min()) > 1000
        assert float(rows.double().mean()) == pytest.approx(39_884_406 / 2, rel=0.2)
    assert len({tuple(rows.tolist()) for rows in maps}) == 3


def test_scrambled_numbers_look_random() -> None:
    values = torch.arange(100_000)
    columns = [data.scramble(values, torch.tensor(salt)).double() / 2**63 for salt in (0, 1, 1000)]
    for column in columns:
        assert float(column.min()) >= 0
        assert float(column.mean()) == pytest.approx(1 / 2, abs=0.005)
        assert float(column.var()) == pytest.approx(1 / 12, abs=0.002)
        assert float(torch.corrcoef(torch.stack((column[1:], column[:-1])))[0, 1]) == pytest.approx(0, abs=0.015)
    assert float(torch.corrcoef(torch.stack(columns)).triu(1).abs().max()) < 0.015
    assert torch.equal(data.scramble(values[7:9], torch.tensor(1)), data.scramble(values, torch.tensor(1))[7:9])


def test_values_are_missing_by_their_columns_share() -> None:
    mask = data.missing(20_000, (0.0, 0.2, 0.45, 1.0), data.generator(0, 0))
    assert mask.double().mean(0).tolist() == pytest.approx([0, 0.2, 0.45, 1], abs=0.012)


TABLES = (("users", 10), ("items", 100))


@pytest.mark.parametrize("name", ["ids.npy", "ids.csv", "ids.txt"])
def test_recorded_ids_are_read_in_order_and_from_the_start_again(tmp_path: Path, name: str) -> None:
    ids = np.array([[0, 99], [9, 0], [3, 50]])
    path = tmp_path / name
    if name.endswith(".npy"):
        np.save(path, ids.astype(np.int32))
    else:
        mark = "," if name.endswith(".csv") else " "
        path.write_text("# user, item\n" + "\n".join(mark.join(map(str, row)) for row in ids) + "\n")
    first, second = (data.recorded(str(path), TABLES, index, 2) for index in (0, 1))
    assert first.dtype == torch.int64
    assert first.tolist() == [[0, 99], [9, 0]]
    assert second.tolist() == [[3, 50], [0, 99]]


def test_ids_of_one_table_need_no_columns(tmp_path: Path) -> None:
    np.save(tmp_path / "ids.npy", np.array([4, 5, 6]))
    assert data.recorded(str(tmp_path / "ids.npy"), [("words", 7)], 0, 2).tolist() == [[4], [5]]


def test_a_file_that_changes_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "ids.npy"
    for number, ns in ((1, 10**18), (2, 2 * 10**18)):
        np.save(path, np.array([number]))
        os.utime(path, ns=(ns, ns))
        assert data.recorded(str(path), [("words", 7)], 0, 1).tolist() == [[number]]


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([[0, 1], [3, 100]], r"row 1 \(from 0\): 100 is no row of table items, which has 100\.\nIds .* are 0 to 99"),
        ([[0, 1], [-1, 4]], r"row 1 \(from 0\): -1 is no row of table users"),
        ([[0, 1, 2]], "has 3 columns, and the task takes 2: users, items"),
        ([1, 2], "has 1 columns, and the task takes 2: users, items"),
        ([[0.5, 1.0]], r"holds float64 of shape \(1, 2\), not rows of whole numbers"),
        (np.zeros((0, 2), int), r"holds int64 of shape \(0, 2\)"),
        (np.array([[None, "x"]], object), "ids.npy' cannot be read: .*allow_pickle"),
    ],
)
def test_ids_that_fit_no_table_are_refused(tmp_path: Path, ids: Any, message: str) -> None:
    np.save(tmp_path / "ids.npy", ids)
    with pytest.raises(UsageError, match=message):
        data.recorded(str(tmp_path / "ids.npy"), TABLES, 0, 1)


def test_text_that_is_no_number_is_refused(tmp_path: Path) -> None:
    (tmp_path / "ids.csv").write_text("user,item\n1,2\n")
    with pytest.raises(UsageError, match=r"ids\.csv' cannot be read: .*'user'"):
        data.recorded(str(tmp_path / "ids.csv"), TABLES, 0, 1)


def test_ids_of_no_use_are_refused_before_they_are_read(tmp_path: Path) -> None:
    here = tmp_path / "ids.npy"
    here.write_bytes(b"")
    data.check_ids(None, str(here))
    data.check_ids(0.0, None)
    for law, path, message in (
        (-0.1, None, "zipf -0.1 is refused"),
        (math.inf, None, "zipf inf is refused"),
        (math.nan, None, "zipf nan is refused"),
        (1.0, str(here), "both given"),
        (None, str(tmp_path / "other.npy"), "does not exist"),
        (None, "ids.parquet", r"no known format\.\nKnown: \.npy, \.csv, \.txt"),
    ):
        with pytest.raises(UsageError, match=message):
            data.check_ids(law, path)


def test_digits_are_the_real_ones() -> None:
    images, labels = data.handwritten_digits()
    assert images.shape == (1797, 1, 8, 8)
    assert images.dtype == torch.float32
    assert (float(images.min()), float(images.max())) == (0.0, 1.0)
    assert labels.dtype == torch.int64
    assert labels.bincount().tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]  # as scikit-learn documents


def test_distorted_digits_look_like_mnist() -> None:
    """MNIST: about 80 % of the pixels are zero, mean 0.1307, standard deviation 0.3081."""
    images, _ = data.handwritten_digits()
    pixels = data.distort(images, data.generator(0, 0), side=28, rotation=30.0, shift=0.2)
    assert pixels.shape == (1797, 1, 28, 28)
    assert float((pixels == 0).float().mean()) == pytest.approx(0.80, abs=0.02)
    assert float(pixels.mean()) == pytest.approx(0.13, abs=0.02)
    assert float(pixels.std()) == pytest.approx(0.31, abs=0.02)
    assert (float(pixels.min()), float(pixels.max())) == (0.0, 1.0)


def test_no_digit_leaves_the_canvas() -> None:
    images, _ = data.handwritten_digits()
    pixels = data.distort(images, data.generator(0, 0), side=28, rotation=30.0, shift=0.2)
    assert float(pixels.sum(dim=(1, 2, 3)).min()) > 10


def test_all_of_it_works_on_fake_tensors() -> None:
    """Also after the digits were read for real, and for real after they were read as fakes."""
    data.handwritten_digits()
    with FakeTensorMode():
        images, labels = data.handwritten_digits()
        pixels = data.distort(images[:4], data.generator(0, 0), side=28, rotation=30.0, shift=0.2)
        ranks = data.draw(data.item_popularity(10), (4,), data.generator(0, 0))
        activity = data.user_activity(10, mean=9.0, median=5.0)
        rows = data.scatter(data.zipf(10**6, 1.0, (4,), data.generator(0, 0)), 10**6, 0, 0)
        mixed = data.scramble(rows, torch.arange(4))
        mask = data.missing(3, (0.5,), data.generator(0, 0))
    fakes = (images, labels, pixels, ranks, activity, rows, mixed, mask)
    assert all(hasattr(tensor, "fake_mode") for tensor in fakes)
    assert not hasattr(data.handwritten_digits()[0], "fake_mode")
