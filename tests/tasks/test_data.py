"""The stand-in data have the statistics that their documentation claims."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

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
    assert all(hasattr(tensor, "fake_mode") for tensor in (images, labels, pixels, ranks, activity))
    assert not hasattr(data.handwritten_digits()[0], "fake_mode")
