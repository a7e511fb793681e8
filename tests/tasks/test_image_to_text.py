"""Neural Image Caption: sizes by hand, a frozen network, captions, padding without effect, im2txt."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.utils.rnn import pack_padded_sequence
from torch.utils.flop_counter import FlopCounterMode

from wcbench.errors import UsageError
from wcbench.tasks.vision.image_to_text import END, FIRST_WORD, PAD, START, Captions, CaptionSettings, ImageToText

TASK = ImageToText()
PARAMETERS, FROZEN, FORWARD_FLOPS, IM2TXT_PARAMETERS = 32_148_113, 21_785_568, 11_585_800_000, 37_233_344

Convolution = tuple[int, int, int, int]  # side of the output, input channels, output channels, kernel's elements


def inception() -> Iterator[Convolution]:
    """The 94 convolutions of Inception-v3 at 299 pixels."""
    yield from [(149, 3, 32, 9), (147, 32, 32, 9), (147, 32, 64, 9), (73, 64, 80, 1), (71, 80, 192, 9)]
    for wide, pooled in ((192, 32), (256, 64), (288, 64)):
        yield from [(35, wide, 64, 1), (35, wide, 48, 1), (35, 48, 64, 25)]
        yield from [(35, wide, 64, 1), (35, 64, 96, 9), (35, 96, 96, 9), (35, wide, pooled, 1)]
    yield from [(17, 288, 384, 9), (35, 288, 64, 1), (35, 64, 96, 9), (17, 96, 96, 9)]
    for narrow in (128, 160, 160, 192):
        yield from [(17, 768, 192, 1), (17, 768, 192, 1)]
        yield from [(17, 768, narrow, 1), (17, narrow, narrow, 7), (17, narrow, 192, 7)]
        yield from [(17, 768, narrow, 1), *[(17, narrow, narrow, 7)] * 3, (17, narrow, 192, 7)]
    yield from [(17, 768, 192, 1), (8, 192, 320, 9), (17, 768, 192, 1), *[(17, 192, 192, 7)] * 2, (8, 192, 192, 9)]
    for wide in (1280, 2048):
        yield from [(8, wide, 320, 1), (8, wide, 192, 1), (8, wide, 384, 1), *[(8, 384, 384, 3)] * 2]
        yield from [(8, wide, 448, 1), (8, 448, 384, 9), *[(8, 384, 384, 3)] * 2]


CNN_FLOPS = 2 * sum(side**2 * wide * out * kernel for side, wide, out, kernel in inception())
LSTM_STEP = 2 * 4 * 512 * (299 + 512)
WORD = 2 * 512 * 9956


def test_flops_by_hand() -> None:
    """torchvision publishes 5.713 G multiply-accumulates with its last layer. The LSTM steps 12 times."""
    assert len(list(inception())) == 94
    macs = CNN_FLOPS / 2 + 2048 * 1000
    assert macs == pytest.approx(5.713e9, rel=1e-4)
    total = CNN_FLOPS + 2 * 2048 * 299 + 12 * (LSTM_STEP + WORD)
    assert total == 11_585_762_496
    assert total == pytest.approx(FORWARD_FLOPS, rel=1e-5)


def test_parameters_by_hand() -> None:
    """A convolution has no bias, its normalization two numbers a channel. The vocabulary is used twice."""
    assert sum(wide * out * kernel + 2 * out for _, wide, out, kernel in inception()) == FROZEN
    feature = 2048 * 299 + 299 + 2 * 299
    lstm = 4 * 512 * (299 + 512 + 2)
    assert FROZEN + feature + 9956 * 299 + lstm + 512 * 9956 + 9956 == PARAMETERS


def paper(variant: str | None = None) -> tuple[Any, float, float]:
    """The model, and FLOPs an image of the forward pass and of a step."""
    with pytest.MonkeyPatch.context() as patch, FakeTensorMode(allow_non_fake_inputs=True):
        patch.setattr(torch.backends.mkldnn, "enabled", False)
        built = TASK.build(TASK.configure("paper", variant=variant, fixed_shapes=True))
        assert built.infer is not None
        batch = built.batch(0)
        with FlopCounterMode(display=False) as forward:
            built.infer(batch)
        with FlopCounterMode(display=False) as step:
            built.step(batch)
    return built.modules["model"], forward.get_total_flops() / built.samples, step.get_total_flops() / built.samples


def counted(model: Any) -> tuple[int, int]:
    """All parameters and the frozen ones."""
    sizes = [(p.numel(), p.requires_grad) for p in model.parameters()]
    return sum(size for size, _ in sizes), sum(size for size, trained in sizes if not trained)


def test_the_papers_model_and_step() -> None:
    """Backward, the CNN does nothing, the features have no gradient, and nor has the LSTM's first state."""
    model, forward, step = paper()
    assert counted(model) == (PARAMETERS, FROZEN)
    assert forward == 11_585_762_496
    assert step == forward + 2 * 2048 * 299 + 2 * 12 * (LSTM_STEP + WORD) - 2 * 4 * 512 * 512


def test_im2txt() -> None:
    """Its LSTM has one bias vector in TensorFlow; the features have neither a bias nor a normalization."""
    model, forward, _ = paper("im2txt")
    assert counted(model) == (IM2TXT_PARAMETERS + 4 * 512, FROZEN)
    lstm, word = 2 * 4 * 512 * (512 + 512), 2 * 512 * 12_000
    assert forward == CNN_FLOPS + 2 * 2048 * 512 + 12 * lstm + 11 * word
    assert model.training
    assert not any(part.training for part in model.cnn.modules())


def tiny(variant: str | None = None, batch_size: int = 4, **overrides: str) -> tuple[Any, Any]:
    built = TASK.build(TASK.configure("tiny", variant=variant, batch_size=batch_size, overrides=overrides))
    return built, built.modules["model"]


def test_the_cnn_is_frozen_but_keeps_statistics() -> None:
    built, model = tiny()
    weights = {name: p.clone() for name, p in model.named_parameters()}
    statistics = model.cnn.Conv2d_1a_3x3.bn.running_mean.clone()
    features: list[Tensor] = []
    hook = model.cnn.register_forward_hook(lambda module, args, out: features.append(out))
    built.step(built.batch(0))
    hook.remove()
    assert not features[0].requires_grad
    for name, p in model.named_parameters():
        assert torch.equal(p, weights[name]) == name.startswith("cnn.")
        assert (p.grad is None) == name.startswith("cnn.")
    assert not torch.equal(model.cnn.Conv2d_1a_3x3.bn.running_mean, statistics)


def test_im2txt_normalizes_by_stored_statistics_and_cuts_the_gradient() -> None:
    built, model = tiny("im2txt", clip="0.01")
    built.step(built.batch(0))
    assert float(model.cnn.Conv2d_1a_3x3.bn.running_mean.abs().sum()) == 0
    norm = torch.nn.utils.get_total_norm([p.grad for p in model.parameters() if p.grad is not None])
    assert float(norm) == pytest.approx(0.01, rel=1e-3)


def captions(batch_size: int = 20_000, **settings: int) -> tuple[Captions, Tensor]:
    drawn = Captions(CaptionSettings(batch_size=batch_size, **settings), 9956, seed=0)
    return drawn, drawn.draw(torch.Generator().manual_seed(0))


def test_captions_have_cocos_lengths() -> None:
    """10.5 words with a deviation of 2.4, few of them below 6; the marks come on top."""
    drawn, words = captions(words=52)
    lengths = drawn.lengths(torch.Generator().manual_seed(0)).double()
    assert float(lengths.mean()) == pytest.approx(10.5, abs=0.05)
    assert float(lengths.std()) == pytest.approx(2.4, abs=0.06)
    assert float(lengths.min()) == 6
    assert torch.equal((words >= FIRST_WORD).sum(1, keepdim=True).double(), lengths)


def test_captions_are_marked_cut_and_padded() -> None:
    drawn, words = captions()
    lengths = drawn.lengths(torch.Generator().manual_seed(0)).clamp(max=10)
    place = torch.arange(12)
    assert words.shape == (20_000, 12)
    assert (words[:, 0] == START).all()
    assert torch.equal(words == END, place == lengths + 1)
    assert torch.equal(words == PAD, place > lengths + 1)
    assert int(words.max()) < 9956
    assert float((lengths == 10).double().mean()) == pytest.approx(0.66, abs=0.02)  # of 9.5 words and more


def test_words_follow_zipfs_law() -> None:
    _, words = captions()
    drawn = words[words >= FIRST_WORD]
    total = sum(1 / (rank + 2.7) for rank in range(1, 9953))
    assert float((drawn == FIRST_WORD).double().mean()) == pytest.approx(1 / (3.7 * total), abs=0.003)


def test_lookups_are_what_the_step_looks_up() -> None:
    config = TASK.configure("tiny", batch_size=5, seed=3)
    built = TASK.build(config)
    model: Any = built.modules["model"]
    seen: list[Tensor] = []
    model.embedding.register_forward_pre_hook(lambda module, args: seen.append(args[0]))
    built.step(built.batch(7))
    (path, ids), *others = TASK.lookups(config, 7).items()
    assert not others
    assert path in {f"model.{name}" for name, _ in model.named_parameters()}
    assert ids.dtype == np.int64
    assert ids.tolist() == seen[0].flatten().tolist()
    assert len(ids) == 5 * 11


def test_lookups_by_zipfs_law() -> None:
    """Of exponent 1.2: the most frequent word has 1 / sum r^-1.2 of all words, 21 %; by our own law 4 %."""
    paper = TASK.configure("paper", batch_size=2000)
    ids = TASK.lookups(paper, 0, zipf=1.2)["model.embedding.weight"]
    total = sum(rank**-1.2 for rank in range(1, 9953))
    assert np.mean(ids[ids >= FIRST_WORD] == FIRST_WORD) == pytest.approx(1 / total, abs=0.01)


def test_dense_captions_learn_what_packed_ones_do() -> None:
    built, model = tiny()
    images, words = built.batch(0)
    lengths = (words != PAD).sum(1)
    assert len(set(lengths.tolist())) > 1
    model.eval()
    with torch.no_grad():
        image = model.norm(model.image(model.cnn(images))).unsqueeze(1)
        read = torch.cat((image, model.embedding(words[:, :-1])), dim=1)
        states, *_ = model.lstm(pack_padded_sequence(read, lengths, batch_first=True, enforce_sorted=False))
        wanted, *_ = pack_padded_sequence(words, lengths, batch_first=True, enforce_sorted=False)
        packed = F.cross_entropy(model.words(states.data), wanted)
    other = torch.where(words == PAD, 77, words)
    assert torch.equal(built.infer((images, words))[words != PAD], built.infer((images, other))[words != PAD])
    assert float(built.step((images, words))) == pytest.approx(float(packed), rel=1e-5)


@torch.no_grad()
def test_a_single_image_is_normalized_by_running_statistics() -> None:
    _, model = tiny()
    x = torch.randn(3, 16)
    model.norm.running_mean.fill_(0.5)
    single = model.norm(x[:1])
    assert torch.allclose(single, (x[:1] - 0.5) / (1 + 1e-5) ** 0.5, atol=1e-6)
    assert float(model.norm(x).mean(0).abs().max()) < 1e-6
    assert model.norm.momentum == 0.01


@pytest.mark.parametrize(("variant", "lr", "reached"), [(None, "0.03", 4.5), ("im2txt", "2.0", 4.85)])
def test_it_learns(variant: str | None, lr: str, reached: float) -> None:
    """Chance is ln 200 = 5.3. A word's entropy is 4.65; the start mark, which im2txt does not say, costs nothing."""
    built, _ = tiny(variant, lr=lr)
    losses = [float(built.step(built.batch(index))) for index in range(40)]
    assert losses[0] > 5
    assert sum(losses[-5:]) / 5 < reached


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"image_size": "74"}, "image size 74 is refused"),
        ({"image_size": "106", "batch_size": "1"}, "a batch of one image of 106 pixels is refused"),
        ({"narrow": "3"}, "narrow 3 is refused: it divides every width of Inception"),
        ({"vocab": "4"}, "4 of its entries are no words"),
        ({"words": "0"}, "words, hidden and embedding start at 1"),
        ({"embedding": "0"}, "words, hidden and embedding start at 1"),
    ],
)
def test_what_is_refused(overrides: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        TASK.configure("paper", overrides=overrides)
