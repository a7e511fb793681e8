"""BERT: sizes by hand, the text's make-up, padding that has no effect, what is refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from wcbench.errors import UsageError
from wcbench.tasks.catalog import TASKS, TaskRow
from wcbench.tasks.language.natural_language import (
    CLS,
    FIRST_WORD,
    IGNORED,
    MASK,
    PAD,
    SEP,
    WORDS,
    NaturalLanguage,
    Text,
)

ROW = TASKS.row("natural-language")
TASK = NaturalLanguage()


def test_flops_by_hand() -> None:
    """Multiply-accumulates of 128 tokens through 12 layers, the masked-word head on each, and the sentence head."""
    projections = 4 * 768**2 + 2 * 768 * 3072
    attention = 2 * 128 * 768
    words = 768**2 + 768 * 30_522
    sentence = 768**2 + 768 * 2
    total = 2 * (128 * (12 * (projections + attention) + words) + sentence)
    assert total == 28_500_298_752
    assert isinstance(ROW, TaskRow)
    assert total == pytest.approx(ROW.forward_flops, rel=1e-6)


def test_parameters_by_hand() -> None:
    """Word embeddings and the masked-word head share one table of 30,522 x 768."""
    embeddings = (30_522 + 512 + 2) * 768 + 2 * 768
    layer = 4 * (768**2 + 768) + 2 * 768 + (768 * 3072 + 3072) + (3072 * 768 + 768) + 2 * 768
    heads = (768**2 + 768) + (768**2 + 768 + 2 * 768 + 30_522) + (2 * 768 + 2)
    assert isinstance(ROW, TaskRow)
    assert embeddings + 12 * layer + heads == ROW.parameters == 110_106_428


def text(**overrides: str) -> tuple[Any, dict[str, Tensor]]:
    settings = TASK.configure("paper", overrides=overrides, batch_size=200).settings
    return settings, Text(settings, seed=0).batch(0)


def test_every_sequence_is_two_sentences() -> None:
    _, batch = text()
    tokens = torch.where(batch["labels"] == IGNORED, batch["input_ids"], batch["labels"])
    assert (tokens[:, 0] == CLS).all()
    assert (tokens[:, -1] == SEP).all()
    assert ((tokens == SEP).sum(dim=1) == 2).all()
    first = (tokens == SEP).int().argmax(dim=1, keepdim=True)
    assert torch.equal(batch["token_type_ids"], (torch.arange(128) > first).long())
    assert "attention_mask" not in batch
    assert set(batch["next_sentence_label"].tolist()) == {0, 1}


def test_words_are_hidden_as_in_the_paper() -> None:
    """15 % of 128 tokens are 19 in each sequence; 80 % of them masked, 10 % replaced, 10 % kept."""
    _, batch = text()
    inputs, labels = batch["input_ids"], batch["labels"]
    hidden = labels != IGNORED
    assert (hidden.sum(dim=1) == 19).all()
    assert (labels[hidden] >= FIRST_WORD).all()
    share = {
        "masked": float((inputs[hidden] == MASK).double().mean()),
        "kept": float((inputs[hidden] == labels[hidden]).double().mean()),
    }
    assert share["masked"] == pytest.approx(0.8, abs=0.03)
    assert share["kept"] == pytest.approx(0.1, abs=0.03)
    assert (inputs[~hidden] != MASK).all()


def test_words_follow_zipfs_law() -> None:
    """Rank 1 has share 1 / (3.7 H), with H the sum of 1 / (r + 2.7) over 30,518 words: about 3 %."""
    _, batch = text()
    words = batch["input_ids"][batch["input_ids"] >= FIRST_WORD]
    total = sum(1 / (rank + 2.7) for rank in range(1, 30_519))
    assert float((words == FIRST_WORD).double().mean()) == pytest.approx(1 / (3.7 * total), abs=0.005)


def test_half_of_the_slots_are_padding_at_fill_one_half() -> None:
    _, batch = text(seq="512", fill="0.5")
    padding = batch["input_ids"] == PAD
    assert float(padding.double().mean()) == pytest.approx(0.5, abs=0.05)
    assert torch.equal(batch["attention_mask"][:, 0, 0] != 0, padding)
    assert (batch["labels"][padding] == IGNORED).all()
    assert ((batch["labels"] != IGNORED).sum(dim=1) >= 1).all()
    assert (batch["token_type_ids"][padding] == 0).all()


@pytest.mark.parametrize("seq", ["5", "6", "8"])
@pytest.mark.parametrize("masked", ["0.01", "1.0"])
def test_short_sequences_have_a_word_to_predict(seq: str, masked: str) -> None:
    _, batch = text(seq=seq, fill="0.7", masked=masked)
    predicted = (batch["labels"] != IGNORED).sum(dim=1)
    words = (batch["attention_mask"][:, 0, 0] == 0).sum(dim=1) - 3
    assert (predicted == (words if masked == "1.0" else 1)).all()


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_padding_changes_nothing(attention: str) -> None:
    overrides = {"fill": "0.5", "attention": attention}
    built = TASK.build(TASK.configure("tiny", overrides=overrides, batch_size=6))
    model, batch = built.modules["model"].eval(), built.batch(0)
    padding = batch["attention_mask"][:, 0, 0] != 0
    assert padding.any()
    other = batch | {"input_ids": torch.where(padding, 77, batch["input_ids"])}
    ours, theirs = model(**batch), model(**other)
    assert torch.equal(ours.loss, theirs.loss)
    assert torch.equal(ours.prediction_logits[~padding], theirs.prediction_logits[~padding])


def test_both_attentions_compute_the_same() -> None:
    outputs = []
    for attention in ("eager", "sdpa"):
        built = TASK.build(TASK.configure("tiny", overrides={"fill": "0.5", "attention": attention}))
        outputs.append(built.modules["model"].eval()(**built.batch(0)).loss)
    assert torch.allclose(outputs[0], outputs[1], atol=1e-5)


def test_the_second_phase_steps_on_fake_tensors() -> None:
    with FakeTensorMode():
        built = TASK.build(TASK.configure("paper", overrides={"seq": "512", "fill": "0.5"}))
        assert built.step(built.batch(0)).shape == ()


def test_inference_scores_every_position_and_the_pair() -> None:
    built = TASK.build(TASK.configure("tiny", overrides={"fill": "0.5"}))
    assert built.infer is not None
    words, follows = built.infer(built.batch(0))
    assert (words.shape, follows.shape) == ((2, 16, 200), (2, 2))


def test_lookups_are_the_tokens_of_the_step() -> None:
    config = TASK.configure("tiny", seed=4)
    built = TASK.build(config)
    ids = TASK.lookups(config, 6)
    assert list(ids) == [WORDS]
    assert dict(built.modules["model"].named_parameters())[WORDS.removeprefix("model.")].shape == (200, 64)
    assert ids[WORDS].tolist() == built.batch(6)["input_ids"].flatten().tolist()


def test_lookups_by_another_law() -> None:
    """Rank 1 of Zipf's law has share 1 / H, H the sum of r ** -1.2 over 30,518 words; 15 % of the words are hidden."""
    ids = TASK.lookups(TASK.configure("paper"), 0, zipf=1.2)[WORDS]
    total = sum(rank**-1.2 for rank in range(1, 30_519))
    assert (ids[ids >= FIRST_WORD] == FIRST_WORD).mean() == pytest.approx(1 / total, abs=0.01)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"seq": "513"}, "seq 513 is refused: BERT learns one embedding per position and has 512"),
        ({"seq": "4"}, "two sentences with their marks take 5 tokens"),
        ({"attention": "flash"}, "Unknown attention 'flash'"),
        ({"heads": "7"}, "the heads share the width evenly"),
        ({"vocab": "4"}, "4 of its entries are no words"),
        ({"fill": "0"}, "fill 0.0 is refused: it is a share"),
        ({"masked": "1.5"}, "masked 1.5 is refused: it is a share"),
        ({"dropout": "1"}, "dropout 1.0 is refused"),
    ],
)
def test_what_is_refused(overrides: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        TASK.configure("paper", overrides=overrides)
