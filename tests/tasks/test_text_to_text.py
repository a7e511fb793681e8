"""The base Transformer: sizes by hand, what a word may see, both attentions, the rate, and that it learns."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from wcbench.errors import UsageError
from wcbench.tasks.base import Built
from wcbench.tasks.language.text import FIRST_WORD, PAD
from wcbench.tasks.language.text_to_text import TextToText, rate

TASK = TextToText()


def built(preset: str = "tiny", batch_size: int | None = None, **overrides: str) -> Built:
    return TASK.build(TASK.configure(preset, batch_size=batch_size, overrides=overrides))


def test_flops_by_hand() -> None:
    """Multiply-accumulates of 32 tokens read and 32 written: projections, attention to 32, feed-forward, output."""
    feed = 2 * 512 * 2048
    read = 4 * 512**2 + 2 * 32 * 512 + feed
    written = 2 * (4 * 512**2 + 2 * 32 * 512) + feed
    total = 2 * 32 * (6 * read + 6 * written + 512 * 37_000)
    assert total == 4_068_737_024
    assert total == pytest.approx(4_068_740_000, rel=1e-5)


def test_parameters_by_hand() -> None:
    """One table of 37,000 x 512 for source, target and output; two last normalizations."""
    attention, feed, norm = 4 * (512**2 + 512), (512 * 2048 + 2048) + (2048 * 512 + 512), 2 * 512
    total = 37_000 * 512 + 6 * (attention + feed + 2 * norm) + 6 * (2 * attention + feed + 3 * norm) + 2 * norm
    with FakeTensorMode(allow_non_fake_inputs=True):
        model = built("paper").modules["model"]
        assert sum(p.numel() for p in model.parameters()) == total == 63_084_544


def test_the_papers_batch() -> None:
    """256 pairs in 32 + 32 slots, none of them shorter than 30, so that at most a sixteenth is padding."""
    source, read, wanted = built("paper", vocab="1000", layers="1", hidden="8", inner="8", heads="1").batch(0)
    assert source.shape == read.shape == wanted.shape == (256, 32)
    for ids in (source, read, wanted):
        assert 0 < float((ids == PAD).double().mean()) < 2 / 32


def test_padding_changes_nothing() -> None:
    for attention in ("eager", "sdpa"):
        task = built(batch_size=6, bucket="none", mean_length="5", attention=attention)
        model, (source, read, _) = task.modules["model"].eval(), task.batch(0)
        alone = [
            model(s[s != PAD].unsqueeze(0), r[r != PAD].unsqueeze(0))[0] for s, r in zip(source, read, strict=True)
        ]
        assert (source == PAD).any()
        logits = model(source, read)
        for ours, theirs in zip(alone, logits, strict=True):
            assert torch.allclose(ours, theirs[: len(ours)], atol=1e-5)


def test_a_word_sees_the_whole_source_and_no_later_word() -> None:
    task = built(bucket="1", dropout="0")
    model, (source, read, _) = task.modules["model"], task.batch(0)
    logits = model(source, read)
    later = read.clone()
    later[:, 5] = FIRST_WORD + 100
    changed = (model(source, later) != logits).any(dim=2)
    assert not changed[:, :5].any()
    assert changed[:, 5:].all()
    other = source.clone()
    other[:, -1] = FIRST_WORD + 100
    assert (model(other, read) != logits).any(dim=2).all()


def test_both_attentions_compute_the_same() -> None:
    outputs = []
    for attention in ("eager", "sdpa"):
        task = built(bucket="none", mean_length="5", attention=attention)
        task.modules["model"].eval()
        assert task.infer is not None
        outputs.append(task.infer(task.batch(0)))
    assert torch.allclose(outputs[0], outputs[1], atol=1e-5)


def test_source_target_and_output_share_a_table() -> None:
    task = built()
    model: Any = task.modules["model"]
    assert model.output.weight is model.embedding.weight
    task.step(task.batch(0))
    grad = model.embedding.weight.grad
    assert grad.layout == torch.strided
    assert (grad != 0).any(dim=1).all()  # the output layer reaches words that the batch does not have


def test_normalizations_follow_the_sums() -> None:
    """Rows of a layer's output have mean 0 and deviation 1 while its last normalization is fresh."""
    task = built()
    model: Any = task.modules["model"].eval()
    found: list[torch.Tensor] = []
    model.encoder.layers[0].register_forward_hook(lambda _, __, output: found.append(output))
    model(*task.batch(0)[:2])
    assert torch.allclose(found[0].mean(dim=2), torch.zeros(()), atol=1e-5)
    assert torch.allclose(found[0].std(dim=2, correction=0), torch.ones(()), atol=1e-3)


def test_the_rate_rises_and_falls() -> None:
    """At its top, step 4,000, it is 512 ** -0.5 * 4000 ** -0.5 = 1 / sqrt(2,048,000)."""
    settings: Any = TASK.presets["paper"]
    rates = [rate(step, settings) for step in (1, 2000, 4000, 16_000)]
    top = 1 / math.sqrt(2_048_000)
    assert rates == pytest.approx([top / 4000, top / 2, top, top / 2])
    task = built(warmup="10")
    for index in range(3):
        task.step(task.batch(index))
    assert task.optimizers["model"].param_groups[0]["lr"] == pytest.approx(3 * 10**-1.5 / 8)


def test_lookups_are_the_steps_own() -> None:
    config = TASK.configure("tiny", seed=5)
    source, read, _ = TASK.build(config).batch(3)
    ids = TASK.lookups(config, 3)["model.embedding.weight"]
    assert ids.tolist() == [*source.flatten().tolist(), *read.flatten().tolist()]
    skewed = TASK.lookups(config, 3, zipf=3.0)["model.embedding.weight"]
    assert (skewed == FIRST_WORD).sum() > 2 * (ids == FIRST_WORD).sum()


def test_it_learns_to_read_backwards() -> None:
    """Guessing by frequency alone cannot come below the entropy of the words, for 6.5 of 7.5 places."""
    overrides = {"warmup": "40", "vocab": "34", "dropout": "0", "lr": "0.2", "smoothing": "0"}
    task = built(batch_size=32, **overrides)
    losses = [float(task.step(task.batch(index))) for index in range(65)]
    weights = [1 / (rank + 2.7) for rank in range(1, 31)]
    entropy = -sum(w / sum(weights) * math.log(w / sum(weights)) for w in weights)
    assert sum(losses[-10:]) / 10 < 0.8 * entropy * 6.5 / 7.5


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"attention": "flash"}, "Unknown attention 'flash'"),
        ({"heads": "7"}, "the heads share the width evenly"),
        ({"hidden": "9", "heads": "3"}, "pairs of sines and cosines"),
        ({"warmup": "0"}, "warmup 0 is refused"),
        ({"dropout": "1"}, "dropout 1.0 is refused"),
        ({"source": "1"}, "source 1 is refused"),
    ],
)
def test_what_is_refused(overrides: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        TASK.configure("paper", overrides=overrides)
