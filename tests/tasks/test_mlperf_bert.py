"""BERT-large: sizes by hand, the gathered head, lengths, decay and clipping."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import BertForPreTraining

from wcbench.errors import UsageError
from wcbench.tasks.language.natural_language import FIRST_WORD, IGNORED, PAD, WORDS, architecture
from wcbench.tasks.mlperf.bert import LargeTextSettings, LongText, MlperfBert, pretraining_loss

TASK = MlperfBert()


def forward_flops(heads_at: int) -> int:
    """2 FLOP for each multiply-accumulate of 512 tokens, with the masked-word head at so many of them."""
    projections = 4 * 1024**2 + 2 * 1024 * 4096
    attention = 2 * 512 * 1024
    words = 1024**2 + 1024 * 30_522
    sentence = 1024**2 + 1024 * 2
    return 2 * (512 * 24 * (projections + attention) + heads_at * words + sentence)


def test_flops_by_hand() -> None:
    """As the fidelity sheet has them: 368,088 MFLOP with the head on each token, about 339.9 GFLOP with 76."""
    assert forward_flops(512) == 368_087_928_832
    assert forward_flops(76) == pytest.approx(339.9e9, rel=1e-3)


def test_parameters_by_hand() -> None:
    embeddings = (30_522 + 512 + 2) * 1024 + 2 * 1024
    layer = 4 * (1024**2 + 1024) + 2 * 1024 + (1024 * 4096 + 4096) + (4096 * 1024 + 1024) + 2 * 1024
    heads = (1024**2 + 1024) + (1024**2 + 1024 + 2 * 1024 + 30_522) + (2 * 1024 + 2)
    with torch.device("meta"):
        model = BertForPreTraining(architecture(LargeTextSettings()))
    assert embeddings + 24 * layer + heads == sum(p.numel() for p in model.parameters()) == 336_226_108


def text(batch_size: int = 400, **options: Any) -> dict[str, Tensor]:
    return LongText(LargeTextSettings(batch_size=batch_size, **options), seed=0).batch(0)


def test_a_quarter_of_the_sequences_is_full_and_half_of_the_slots_is_padding() -> None:
    padding = text(4000)["input_ids"] == PAD
    full = ~padding.any(dim=1)
    assert float(full.double().mean()) == pytest.approx(0.25, abs=0.02)
    assert float(padding.double().mean()) == pytest.approx(0.5, abs=0.015)
    others = (~padding).sum(dim=1)[~full]
    assert 5 <= int(others.min()) < 15
    assert 330 < int(others.max()) <= 342  # two thirds of 512, so that the mean of all is half


def test_at_most_76_words_are_hidden_and_15_percent_of_shorter_sequences() -> None:
    batch = text()
    hidden = (batch["labels"] != IGNORED).sum(dim=1)
    length = (batch["input_ids"] != PAD).sum(dim=1)
    assert int(hidden.max()) == 76  # 15 % of 512 are 77
    expected = (length * 0.15).round().clamp(1, 76)
    assert torch.equal(hidden, expected.long())


def model_and_batch(**overrides: str) -> tuple[Any, dict[str, Tensor], Any]:
    config = TASK.configure("tiny", overrides={"dropout": "0", **overrides}, batch_size=5)
    built = TASK.build(config)
    return built.modules["model"].eval(), built.batch(0), config.settings


def test_the_gathered_head_has_the_loss_of_the_head_on_every_position() -> None:
    """The library's own loss, computed on every position, is the independent value."""
    model, batch, settings = model_and_batch()
    assert settings.predictions == 3
    gathered = pretraining_loss(model, batch, settings.predictions)
    assert torch.allclose(gathered, model(**batch).loss, atol=1e-5)
    assert torch.allclose(gathered, pretraining_loss(model, batch, None), atol=1e-5)


def test_only_gathered_positions_reach_the_head() -> None:
    model, batch, settings = model_and_batch()
    seen: list[tuple[int, ...]] = []
    model.cls.predictions.register_forward_hook(lambda module, inputs, output: seen.append(tuple(output.shape)))
    pretraining_loss(model, batch, settings.predictions)
    pretraining_loss(model, batch, None)
    assert seen == [(5, 3, 200), (5, 16, 200)]


def test_weights_decay_and_biases_and_normalizations_do_not() -> None:
    built = TASK.build(TASK.configure("tiny"))
    model: Any = built.modules["model"]
    decays = {id(p): g["weight_decay"] for g in built.optimizers["model"].param_groups for p in g["params"]}
    assert decays[id(model.bert.encoder.layer[0].intermediate.dense.weight)] == 0.01
    assert decays[id(model.bert.embeddings.word_embeddings.weight)] == 0.01
    assert decays[id(model.bert.encoder.layer[0].intermediate.dense.bias)] == 0.0
    assert decays[id(model.bert.embeddings.LayerNorm.weight)] == 0.0
    assert len(decays) == len(list(model.parameters()))


def test_gradients_are_clipped_to_norm_1() -> None:
    built = TASK.build(TASK.configure("tiny"))
    built.step(built.batch(0))
    gradients = [p.grad for p in built.modules["model"].parameters() if p.grad is not None]
    norm = float(torch.nn.utils.get_total_norm(gradients))
    assert norm == pytest.approx(1.0, abs=1e-4)


def test_inference_scores_every_position() -> None:
    built = TASK.build(TASK.configure("tiny"))
    assert built.infer is not None
    words, follows = built.infer(built.batch(0))
    assert words.shape == (2, 16, 200)
    assert follows.shape == (2, 2)


def test_lookups_are_the_tokens_of_the_step() -> None:
    config = TASK.configure("paper")
    ids = TASK.lookups(config, 3)[WORDS]
    assert ids.tolist() == LongText(config.settings, seed=0).batch(3)["input_ids"].flatten().tolist()
    steep = TASK.lookups(config, 3, zipf=1.2)[WORDS]
    assert (steep == FIRST_WORD).mean() > 2 * (ids == FIRST_WORD).mean()


def test_it_learns_a_batch_by_heart() -> None:
    built = TASK.build(TASK.configure("tiny", overrides={"lr": "0.02", "dropout": "0"}))
    batch = built.batch(0)
    losses = [float(built.step(batch)) for _ in range(40)]
    assert losses[-1] < losses[0] / 3


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"predictions": "0"}, "predictions 0 is refused"),
        ({"predictions": "513"}, r"it is 1 to seq \(512\)"),
        ({"whole": "0.6"}, "full sequences alone would fill more"),
        ({"clip": "0"}, "clip 0.0 is refused"),
        ({"seq": "513"}, "seq 513 is refused"),
    ],
)
def test_what_is_refused(overrides: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        TASK.configure("paper", overrides=overrides)


def test_a_head_on_every_position_can_be_asked_for() -> None:
    assert TASK.configure("paper", overrides={"predictions": "none"}).settings.predictions is None
