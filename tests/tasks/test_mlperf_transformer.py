"""MLPerf's Transformer: sizes by hand, batches of a number of tokens, normalization before each part."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from wcbench.errors import UsageError
from wcbench.tasks.base import Built
from wcbench.tasks.language.text import PAD
from wcbench.tasks.language.text_to_text import rate
from wcbench.tasks.mlperf.transformer import MlperfTransformer

TASK = MlperfTransformer()
PAPER: Any = TASK.presets["paper"]


def built(preset: str = "tiny", **overrides: str) -> Built:
    return TASK.build(TASK.configure(preset, overrides=overrides))


def thin(**overrides: str) -> Built:
    """The paper's batches on a model of no size."""
    return built("paper", layers="1", hidden="8", inner="8", heads="1", **overrides)


def test_flops_by_hand() -> None:
    feed = 2 * 1024 * 4096
    read = 4 * 1024**2 + 2 * 32 * 1024 + feed
    written = 2 * (4 * 1024**2 + 2 * 32 * 1024) + feed
    total = 2 * 32 * (6 * read + 6 * written + 1024 * 33_708)
    assert total == 13_558_874_112
    assert total == pytest.approx(13_558_900_000, rel=1e-5)


def test_parameters_by_hand() -> None:
    """With biases in attention; the reference's lack of them would take 18 x 4 x 1,024 away."""
    attention, feed, norm = 4 * (1024**2 + 1024), (1024 * 4096 + 4096) + (4096 * 1024 + 1024), 2 * 1024
    total = 33_708 * 1024 + 6 * (attention + feed + 2 * norm) + 6 * (2 * attention + feed + 3 * norm) + 2 * norm
    with FakeTensorMode(allow_non_fake_inputs=True):
        model = built("paper").modules["model"]
        assert sum(p.numel() for p in model.parameters()) == total == 210_878_464


def test_batches_hold_a_number_of_tokens() -> None:
    task = thin()
    shapes = [tuple(task.batch(index)[0].shape) for index in range(5)]
    assert shapes == [(128, 32), (215, 19), (91, 45), (63, 65), (128, 32)]
    assert all(4096 - slots < pairs * slots <= 4096 for pairs, slots in shapes)
    assert task.samples == 128
    for index in range(4):
        source, _, wanted = task.batch(index)
        for ids in (source, wanted):
            lengths = (ids != PAD).sum(1)
            assert int(lengths.max()) == ids.shape[1]
            assert int(lengths.min()) * 1.1 > ids.shape[1]


def test_kinds_are_the_shapes() -> None:
    task = thin()
    kinds = [task.kind(index) for index in range(5)]
    assert kinds == ["length-32", "length-19", "length-45", "length-65", "length-32"]
    assert set(task.step_kinds) == set(kinds)
    assert sum(task.step_kinds.values()) == pytest.approx(1)
    mean = sum(task.step_kinds[bucket.kind] * bucket.pairs for bucket in PAPER.buckets())
    assert mean == pytest.approx(133, abs=0.5)


def test_one_bucket_is_plain_training() -> None:
    task = thin(others="")
    assert task.step_kinds == {"train": 1.0}
    assert [task.kind(index) for index in (0, 1)] == ["train", "train"]
    assert task.batch(1)[0].shape == (128, 32)


def test_sides_may_differ() -> None:
    source, read, _ = thin(target="16").batch(1)
    assert (source.shape, read.shape) == ((215, 19), (215, 9))


def test_steps_of_every_kind_train_the_same_weights() -> None:
    task = built()
    before = [p.detach().clone() for p in task.modules["model"].parameters()]
    for index in (2, 0, 1):
        assert torch.isfinite(task.step(task.batch(index)))
    assert all(not torch.equal(a, b) for a, b in zip(before, task.modules["model"].parameters(), strict=True))


def test_normalizations_come_first() -> None:
    """The sums pass through a layer as they are: with all parts zeroed, it changes nothing."""
    task = built()
    model: Any = task.modules["model"].eval()
    for residual in (model.encoder.layers[0].look, model.encoder.layers[0].feed):
        for parameter in residual.part.parameters():
            torch.nn.init.zeros_(parameter)
    x = torch.randn(2, 8, 64)
    assert torch.equal(model.encoder.layers[0](x, torch.ones(2, 1, 1, 8, dtype=torch.bool)), x)
    assert any(isinstance(part, torch.nn.Dropout) for part in model.encoder.layers[0].feed.part)


def test_the_optimizer_is_the_references() -> None:
    """Its top rate, after 16,000 steps, is 2 / sqrt(1024 x 16,000)."""
    group = built().optimizers["model"].param_groups[0]
    assert (group["betas"], group["eps"]) == ((0.9, 0.997), 1e-9)
    assert rate(16_000, PAPER) == pytest.approx(2 / (1024 * 16_000) ** 0.5)


def test_lookups_have_the_shape_of_their_kind() -> None:
    config = TASK.configure("paper")
    sizes = [len(TASK.lookups(config, index)["model.embedding.weight"]) for index in range(4)]
    assert sizes == [2 * pairs * slots for pairs, slots in ((128, 32), (215, 19), (91, 45), (63, 65))]
    tiny = TASK.configure("tiny")
    source, read, _ = TASK.build(tiny).batch(1)
    ids = TASK.lookups(tiny, 1)["model.embedding.weight"]
    assert ids.tolist() == torch.cat((source.flatten(), read.flatten())).tolist()


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"others": "1,8"}, r"others \(1, 8\) is refused: a sentence takes 2 slots"),
        ({"heads": "3"}, "the heads share the width evenly"),
    ],
)
def test_what_is_refused(overrides: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        TASK.configure("paper", overrides=overrides)
