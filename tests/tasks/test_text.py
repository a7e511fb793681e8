"""Stand-in text: laws against their own moments, buckets against a simulated training, pairs, losses by hand."""

from __future__ import annotations

import bisect
import math
from collections import Counter

import numpy as np
import pytest
import torch
from torch import nn

from wcbench.errors import UsageError
from wcbench.tasks import data
from wcbench.tasks.language.text import (
    END,
    FIRST_WORD,
    PAD,
    START,
    UNKNOWN,
    Bucket,
    Pairs,
    PairSettings,
    beyond_vocabulary,
    draw_lengths,
    draw_words,
    kinds_of,
    ladder,
    length_law,
    run_lstm,
    smoothed_loss,
    step_shares,
    word_law,
)


def test_lengths_have_the_laws_mean_and_deviation() -> None:
    law = length_law(29.0, 16.0, 1, 2000)
    mean = sum(n * p for n, p in enumerate(law, start=1))
    variance = sum((n - mean) ** 2 * p for n, p in enumerate(law, start=1))
    assert sum(law) == pytest.approx(1)
    assert mean == pytest.approx(29, rel=0.01)
    assert math.sqrt(variance) == pytest.approx(16, rel=0.01)


def test_a_cut_law_keeps_its_proportions() -> None:
    whole, cut = length_law(29.0, 16.0, 1, 300), length_law(29.0, 16.0, 30, 32)
    assert sum(cut) == pytest.approx(1)
    assert cut[2] / cut[0] == pytest.approx(whole[31] / whole[29])
    lengths = draw_lengths(cut, 30, (4000,), data.generator(0, 0))
    assert set(lengths.tolist()) == {30, 31, 32}
    assert float((lengths == 30).double().mean()) == pytest.approx(cut[0], abs=0.03)


def test_a_law_far_from_the_slots_still_works() -> None:
    assert length_law(1000.0, 0.5, 2, 4) == pytest.approx([0, 0, 1])


def test_words_follow_zipfs_law() -> None:
    """Rank 1 has share 1 / (3.7 H), with H the sum of 1 / (r + 2.7), or 1 over the sum of r ** -exponent."""
    for zipf, share in (
        (None, 1 / (3.7 * sum(1 / (rank + 2.7) for rank in range(1, 997)))),
        (1.5, 1 / sum(rank**-1.5 for rank in range(1, 997))),
    ):
        words = draw_words(word_law(1000, zipf), (40_000,), data.generator(0, 0))
        assert FIRST_WORD <= int(words.min()) <= int(words.max()) < 1000
        assert float((words == FIRST_WORD).double().mean()) == pytest.approx(share, abs=0.01)


def test_the_ladder_grows_by_a_tenth() -> None:
    rungs = ladder(8, 1.1, 256)
    assert rungs[:4] == [(1, 7), (8, 8), (9, 9), (10, 10)]
    assert (30, 32) in rungs
    assert rungs[-1] == (236, 256)
    assert [n for low, high in rungs for n in range(low, high + 1)] == list(range(1, 257))


def test_shares_of_steps_are_those_of_a_simulated_training() -> None:
    """200,000 sentences thrown into buckets of 4,096 slots; each batch counts by the lengths that it holds."""
    lengths, tokens = [32, 19, 45, 65], 4096
    shares = step_shares(tokens, lengths, length_law(29.0, 16.0, 1, 256), ladder(8, 1.1, 256))
    sigma = math.sqrt(math.log(1 + (16 / 29) ** 2))
    drawn = np.random.default_rng(0).lognormal(math.log(29) - sigma**2 / 2, sigma, 200_000).round().astype(int)
    bounds = [8]
    while bounds[-1] < 256:
        bounds.append(max(bounds[-1] + 1, int(bounds[-1] * 1.1)))
    batches = dict.fromkeys(lengths, 0.0)
    for length, count in Counter(drawn.tolist()).items():
        if 1 <= length <= 256:
            bound = min(bounds[bisect.bisect_right(bounds, length)], 257)
            near = min((max(slots / length, length / slots), slots) for slots in lengths)[1]
            batches[near] += count / (tokens // bound)
    for slots, share in zip(lengths, shares, strict=True):
        assert share == pytest.approx(batches[slots] / sum(batches.values()), abs=0.01)
    assert sum(shares) == pytest.approx(1)


def test_every_kind_has_a_share() -> None:
    assert min(step_shares(64, [8, 5000], length_law(7.0, 1.0, 1, 256), ladder(8, 1.1, 256))) > 0


def test_kinds_are_named_by_length() -> None:
    assert kinds_of([Bucket(4, 8, 8)]) == {"train": 1.0}
    assert kinds_of([Bucket(4, 8, 8, 0.25), Bucket(2, 16, 16, 0.75)]) == {"length-8": 0.25, "length-16": 0.75}


def pairs(**settings: float | None) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    filled = PairSettings(batch_size=300, source=32, target=20, **settings)  # type: ignore[arg-type]
    return Pairs(filled, seed=0).batch(0, filled.shape)


def test_a_pair_is_words_and_marks_in_their_places() -> None:
    source, read, wanted = pairs(bucket=None)
    assert (source.shape, read.shape, wanted.shape) == ((300, 32), (300, 20), (300, 20))
    for ids in (source, wanted):
        length = (ids != PAD).sum(1)
        assert ((ids == END).sum(1) == 1).all()
        assert (ids.gather(1, length.unsqueeze(1) - 1) == END).all()
    assert (read[:, 0] == START).all()
    assert torch.equal((read != PAD).sum(1), (wanted != PAD).sum(1))
    following = read[:, 1:]
    assert torch.equal(following[following != PAD], wanted[:, :-1][following != PAD])


def test_a_target_is_its_source_backwards() -> None:
    source, _, wanted = pairs()
    for ours, theirs in zip(source.tolist(), wanted.tolist(), strict=True):
        words, translated = ours[: ours.index(END)], theirs[: theirs.index(END)]
        assert translated == words[::-1][: len(translated)]


@pytest.mark.parametrize(
    ("bucket", "source_range", "target_range"),
    [(1.1, (30, 32), (19, 20)), (1.5, (22, 32), (14, 20)), (1.0, (32, 32), (20, 20)), (None, (2, 32), (2, 20))],
)
def test_lengths_stay_in_the_bucket(
    bucket: float | None, source_range: tuple[int, int], target_range: tuple[int, int]
) -> None:
    source, _, wanted = pairs(bucket=bucket, mean_length=15.0)
    for ids, (low, high) in ((source, source_range), (wanted, target_range)):
        lengths = (ids != PAD).sum(1)
        assert low <= int(lengths.min())
        assert int(lengths.max()) == high
        assert len(lengths.unique()) == high - low + 1 or bucket is None


def test_lookups_are_the_batchs_ids() -> None:
    settings = PairSettings(batch_size=3, source=6, vocab=100)
    drawn = Pairs(settings, seed=1)
    source, read, _ = drawn.batch(4, settings.shape)
    ids = drawn.lookups(4, settings.shape)
    assert ids.dtype == np.int64
    assert ids.tolist() == source.flatten().tolist() + read.flatten().tolist()


def test_unknown_words_are_numbered_by_row() -> None:
    words = torch.tensor([[7, 8, 9, 10], [5, 6, PAD, PAD]])
    inputs, extended = beyond_vocabulary(words, 50, 3, 1.0, data.generator(0, 0))
    assert inputs.tolist() == [[UNKNOWN] * 4, [UNKNOWN, UNKNOWN, PAD, PAD]]
    assert extended.tolist() == [[50, 51, 52, 52], [50, 51, PAD, PAD]]
    inputs, extended = beyond_vocabulary(words, 50, 3, 0.0, data.generator(0, 0))
    assert torch.equal(inputs, words)
    assert torch.equal(extended, words)


def test_the_smoothed_loss_by_hand() -> None:
    """Two words of a vocabulary of 5 with smoothing 0.2: 0.8 on the right one, 0.05 on each other; padding is out."""
    logits = torch.randn(1, 3, 5, generator=torch.Generator().manual_seed(0))
    wanted = torch.tensor([[3, 4, PAD]])
    expected = 0.0
    for place, right in ((0, 3), (1, 4)):
        chances = [math.exp(x) for x in logits[0, place].tolist()]
        logs = [math.log(c / sum(chances)) for c in chances]
        expected -= sum((0.8 if word == right else 0.05) * log for word, log in enumerate(logs)) / 2
    assert float(smoothed_loss(logits, wanted, 0.2)) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("precision", [None, torch.bfloat16])
def test_an_lstm_leaves_onednn_as_it_was(precision: torch.dtype | None) -> None:
    torch.manual_seed(0)
    lstm, x = nn.LSTM(8, 8), torch.randn(5, 2, 8)
    before = torch.backends.mkldnn.enabled
    with torch.autocast("cpu", precision, enabled=precision is not None):
        outputs, (state, _) = run_lstm(lstm, x)
    assert torch.backends.mkldnn.enabled == before
    assert torch.allclose(outputs.float(), lstm(x)[0], atol=1e-6 if precision is None else 0.02)
    assert torch.equal(outputs[-1], state[0])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"source": 1}, "source 1 is refused: a sentence takes 2 slots"),
        ({"target": 0}, "target 0 is refused"),
        ({"bucket": 0.9}, "bucket 0.9 is refused: it is the ratio"),
        ({"length_deviation": 0.0}, "with length_deviation 0.0 is refused: both lie above 0"),
        ({"vocab": 4}, "4 of its entries are no words"),
        ({"smoothing": 1.0}, "smoothing 1.0 is refused"),
    ],
)
def test_what_is_refused(settings: dict[str, float], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        PairSettings(batch_size=2, **settings).validate()  # type: ignore[arg-type]
