"""Llama 3.1 8B: sizes by hand, causality, what it predicts, and that it learns."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import LlamaForCausalLM

from wcbench.errors import UsageError
from wcbench.tasks.mlperf.llama import Llama, LlamaSettings, MlperfLlama, architecture

TASK = MlperfLlama()
ATTENTION = 2 * 4096 * 4096 + 2 * 4096 * 1024  # queries and output; keys and values have a quarter of the heads
FEED_FORWARD = 3 * 4096 * 14_336


def paper() -> Any:
    with torch.device("meta"):
        return Llama(architecture(LlamaSettings()))


def test_parameters_by_hand() -> None:
    """Two tables of 128,256 x 4,096, since the head is not tied, 32 layers with two normalizations, and one more."""
    total = 2 * 128_256 * 4096 + 32 * (ATTENTION + FEED_FORWARD + 2 * 4096) + 4096
    assert total == sum(p.numel() for p in paper().parameters()) == 8_030_261_248


def test_flops_by_hand() -> None:
    """8,192 tokens; every score of causal attention is counted, as published tables do."""
    scores = 2 * 8192 * 4096  # a token's queries with all keys, and the weighted values
    layers = 32 * (ATTENTION + FEED_FORWARD + scores)
    assert 2 * 8192 * (layers + 4096 * 128_256) == 158_140_695_838_720


def test_it_is_llama_3_1() -> None:
    config = paper().config
    assert config.rope_parameters["rope_theta"] == 500_000
    assert (config.num_key_value_heads, config.rms_norm_eps, config.hidden_act) == (8, 1e-5, "silu")
    assert not config.tie_word_embeddings


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_no_position_sees_those_after_it(attention: str) -> None:
    built = TASK.build(TASK.configure("tiny", overrides={"attention": attention}))
    assert built.infer is not None
    batch = built.batch(0)  # (1, 33)
    other = batch.clone()
    other[:, 20:] = (other[:, 20:] + 1) % 200
    ours, theirs = built.infer(batch), built.infer(other)
    assert ours.shape == (1, 32, 200)
    assert torch.allclose(ours[:, :20], theirs[:, :20], atol=1e-6)
    assert not torch.allclose(ours[:, 20:], theirs[:, 20:], atol=1e-3)


def test_both_attentions_compute_the_same() -> None:
    outputs = []
    for attention in ("eager", "sdpa"):
        built = TASK.build(TASK.configure("tiny", overrides={"attention": attention}))
        assert built.infer is not None
        outputs.append(built.infer(built.batch(0)))
    assert torch.allclose(outputs[0], outputs[1], atol=1e-5)


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_it_computes_what_the_library_does(attention: str) -> None:
    """The library's own way through the same weights, masks included, and its loss, which shifts the labels itself."""
    built = TASK.build(TASK.configure("tiny", overrides={"attention": attention}, batch_size=3))
    batch = built.batch(0)
    model: Any = built.modules["model"]
    theirs = LlamaForCausalLM(model.config)
    theirs.load_state_dict(model.state_dict())
    with torch.no_grad():
        assert torch.allclose(
            model(batch, torch.full((33, 33), -1e30).triu(1)[None, None]), theirs(batch).logits, atol=1e-5
        )
        expected = theirs(input_ids=batch, labels=batch).loss
    assert float(built.step(batch)) == pytest.approx(float(expected), abs=1e-4)


def test_tokens_follow_zipfs_law_and_fill_every_slot() -> None:
    """Rank 1 has share 1 / (3.7 H), with H the sum of 1 / (r + 2.7) over 128,256 tokens."""
    tokens = TASK.build(TASK.configure("tiny", overrides={"vocab": "128256", "seq": "8000"}, batch_size=4)).batch(0)
    total = sum(1 / (rank + 2.7) for rank in range(1, 128_257))
    assert float((tokens == 0).double().mean()) == pytest.approx(1 / (3.7 * total), abs=0.004)
    assert tokens.shape == (4, 8001)


def test_lookups_are_the_tokens_that_are_read() -> None:
    config = TASK.configure("tiny", batch_size=2)
    ids = TASK.lookups(config, 5)["model.model.embed_tokens.weight"]
    assert ids.tolist() == TASK.build(config).batch(5)[:, :-1].flatten().tolist()
    steep = TASK.lookups(TASK.configure("paper"), 5, zipf=1.2)["model.model.embed_tokens.weight"]
    assert steep.shape == (8192,)
    assert (steep == 0).mean() == pytest.approx(1 / sum(rank**-1.2 for rank in range(1, 128_257)), abs=0.03)


@pytest.mark.parametrize(("clip", "norm"), [("0.25", 0.25), ("1", 1.0)])
def test_gradients_are_clipped(clip: str, norm: float) -> None:
    built = TASK.build(TASK.configure("tiny", overrides={"clip": clip}))
    built.step(built.batch(0))
    gradients = [p.grad for p in built.modules["model"].parameters() if p.grad is not None]
    assert float(torch.nn.utils.get_total_norm(gradients)) == pytest.approx(norm, rel=1e-4)


def test_it_learns_a_batch_by_heart() -> None:
    built = TASK.build(TASK.configure("tiny", overrides={"lr": "0.01"}))
    batch = built.batch(0)
    losses = [float(built.step(batch)) for _ in range(40)]
    assert losses[-1] < losses[0] / 4


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"attention": "flash"}, "Unknown attention 'flash'"),
        ({"seq": "131073"}, "seq 131073 is refused"),
        ({"heads": "6"}, "heads share the width evenly"),
        ({"kv_heads": "3"}, "kv_heads share the heads evenly"),
        ({"vocab": "0"}, "start at 1"),
        ({"clip": "-1"}, "clip -1.0 is refused"),
    ],
)
def test_what_is_refused(overrides: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        TASK.configure("paper", overrides=overrides)
