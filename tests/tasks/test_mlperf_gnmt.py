"""GNMT: sizes by hand, its attention word by word, residual connections, clipping, the rate, and that it learns."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from wcbench.errors import UsageError
from wcbench.tasks.base import Built
from wcbench.tasks.language.text import PAD
from wcbench.tasks.mlperf.gnmt import Attention, MlperfGnmt

TASK = MlperfGnmt()


def built(preset: str = "tiny", batch_size: int | None = None, **overrides: str) -> Built:
    return TASK.build(TASK.configure(preset, batch_size=batch_size, overrides=overrides))


def test_flops_by_hand() -> None:
    """Multiply-accumulates of 30 + 30 words.

    The catalogue's count has the attention's weighted sums but not its scores, a product of a matrix and a vector,
    which torch's counter leaves out: 921,600 more.
    """
    reader = 2 * 8 * 1024**2 + 12 * 1024**2 + 2 * 8 * 1024**2
    writer = 8 * 1024**2 + 3 * 12 * 1024**2
    attention = 2 * 30 * 1024**2 + 30 * 30 * 1024
    total = 2 * (30 * (reader + writer + 1024 * 32_320) + attention)
    assert total == 7_649_894_400
    assert total == pytest.approx(7_649_890_000, rel=1e-5)


def test_parameters_by_hand() -> None:
    def lstm(wide: int) -> int:
        return 4 * 1024 * (wide + 1024) + 2 * 4 * 1024

    reader = 2 * lstm(1024) + lstm(2048) + 2 * lstm(1024)
    writer = lstm(1024) + 3 * lstm(2048) + 2 * 1024**2 + 2 * 1024 + 1
    words = 32_320 * 1024 + (32_320 * 1024 + 32_320)
    with FakeTensorMode(allow_non_fake_inputs=True):
        model = built("paper").modules["model"]
        assert sum(p.numel() for p in model.parameters()) == reader + writer + words == 160_671_297


def test_the_papers_batch_is_of_the_third_bucket() -> None:
    source, read, wanted = built("paper", vocab="1000", hidden="8").batch(0)
    assert source.shape == read.shape == wanted.shape == (128, 30)
    for ids in (source, read, wanted):
        lengths = (ids != PAD).sum(1)
        assert (int(lengths.min()), int(lengths.max())) == (21, 30)


def attention() -> tuple[Attention, Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    module = Attention(5)
    for parameter in module.parameters():
        nn.init.normal_(parameter)
    seen = torch.tensor([[[True, True, True, False]], [[True, True, True, True]]])
    return module, torch.randn(3, 2, 5), torch.randn(4, 2, 5), seen


@torch.no_grad()
def test_attention_word_by_word() -> None:
    module, queries, states, seen = attention()
    found = module(queries, states, seen)
    direction = module.scale * module.score / math.sqrt(float((module.score**2).sum()))
    for row in range(2):
        real = [states[place, row] for place in range(4) if seen[row, 0, place]]
        for at in range(3):
            query = module.query.weight @ queries[at, row]
            scores = [float(direction @ torch.tanh(query + module.key.weight @ s + module.bias)) for s in real]
            weights = [math.exp(score) for score in scores]
            expected = sum((w / sum(weights) * s for w, s in zip(weights, real, strict=True)), torch.zeros(5))
            assert torch.allclose(found[at, row], expected, atol=1e-5)


def test_attention_makes_the_whole_tensor() -> None:
    """What backward keeps holds batch x target x source x width: 472 MB at the paper's sizes."""
    module, queries, states, seen = attention()
    kept: list[torch.Size] = []

    def pack(tensor: Tensor) -> Tensor:
        kept.append(tensor.shape)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        module(queries, states, seen)
    assert any(shape.numel() == 2 * 3 * 4 * 5 for shape in kept)
    assert 128 * 30 * 30 * 1024 * 4 == 471_859_200


def test_residual_connections_begin_at_the_third_layer() -> None:
    """With LSTMs that say nothing from there on, states pass through; the second layer's do not."""
    task = built("small")
    model: Any = task.modules["model"].eval()
    silent = [*model.encoder.residual, *list(model.decoder.later)[1:]]
    assert len(silent) == 4
    found: dict[Any, Tensor] = {}
    for lstm in (model.encoder.narrow, model.decoder.later[0]):
        lstm.register_forward_hook(lambda module, _, output: found.__setitem__(module, output[0]))
    for lstm in silent:
        for parameter in lstm.parameters():
            nn.init.zeros_(parameter)
    source, read, _ = task.batch(0)
    with torch.no_grad():
        states = model.encoder(model.embedding(source.T))
        written = model.decoder(model.embedding(read.T), states, (source != PAD).unsqueeze(1))
    assert torch.equal(states, found[model.encoder.narrow])
    assert torch.equal(written, found[model.decoder.later[0]])


def test_a_word_is_written_from_earlier_words() -> None:
    task = built(dropout="0", bucket="1")
    model, (source, read, _) = task.modules["model"], task.batch(0)
    later = read.clone()
    later[:, 4] = 150
    changed = (model(source, later) != model(source, read)).any(dim=2)  # (t, batch)
    assert not changed[:4].any()
    assert changed[4:].all()


def test_gradients_are_clipped_and_the_loss_is_a_sum_by_pairs() -> None:
    """At the start each of the words costs about ln 200, with smoothing as without."""
    task = built(clip="0.5", bucket="1")
    loss = float(task.step(task.batch(0)))
    gradients = [p.grad for p in task.modules["model"].parameters() if p.grad is not None]
    assert float(torch.stack([g.norm() for g in gradients]).norm()) == pytest.approx(0.5, rel=1e-3)
    assert loss == pytest.approx(6 * math.log(200), rel=0.05)


def test_the_rate_rises_from_a_hundredth() -> None:
    task = built(warmup="4")
    rates = []
    for index in range(6):
        task.step(task.batch(index))
        rates.append(task.optimizers["model"].param_groups[0]["lr"])
    assert rates == pytest.approx([1e-5, 10**-4.5, 1e-4, 10**-3.5, 1e-3, 1e-3])


def test_lookups_are_the_steps_own() -> None:
    config = TASK.configure("tiny")
    source, read, _ = TASK.build(config).batch(1)
    ids = TASK.lookups(config, 1)["model.embedding.weight"]
    assert ids.tolist() == [*source.flatten().tolist(), *read.flatten().tolist()]


def test_it_learns() -> None:
    task = built(batch_size=16, warmup="10", lr="0.01", dropout="0")
    losses = [float(task.step(task.batch(index))) for index in range(40)]
    assert sum(losses[-5:]) < 0.87 * sum(losses[:5])


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"layers": "1"}, "attention sits between the first two layers"),
        ({"clip": "0"}, "both lie above 0"),
        ({"vocab": "3"}, "4 of its entries are no words"),
    ],
)
def test_what_is_refused(overrides: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        TASK.configure("paper", overrides=overrides)
