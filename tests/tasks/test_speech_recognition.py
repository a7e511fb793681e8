"""Deep Speech 2: sizes by hand, work linear in the frames, bins of durations, masks, and that it learns."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.utils.flop_counter import FlopCounterMode

from wcbench.errors import UsageError
from wcbench.tasks.speech.speech_recognition import (
    DeepSpeech2,
    RecurrentLayer,
    SpeechRecognition,
    SpeechSettings,
    draw_bin,
    draw_speech,
    duration,
    steps_of,
)

TASK = SpeechRecognition()
PARAMETERS, FORWARD_FLOPS = 41_187_968, 63_650_200_000  # tasks.csv


def test_flops_by_hand() -> None:
    """615 steps: maps of 81 and 41 rows, 3 gates, two directions."""
    convolutions = 81 * 32 * (41 * 11) + 41 * 32 * (32 * 21 * 11)
    recurrent = 2 * 3 * 800 * ((1312 + 800) + 4 * (800 + 800))
    total = 2 * 615 * (convolutions + recurrent + 800 * 29)
    assert total == 63_650_158_080
    assert total == pytest.approx(FORWARD_FLOPS, rel=1e-6)


def test_parameters_by_hand() -> None:
    convolutions = (32 * 41 * 11 + 32) + 2 * 32 + (32 * 32 * 21 * 11 + 32) + 2 * 32
    first = 2 * 3 * 800 * (1312 + 800 + 2)
    others = 4 * (2 * 800 + 2 * 3 * 800 * (800 + 800 + 2))
    with torch.device("meta"):
        model = DeepSpeech2(channels=32, layers=5, hidden=800)
    assert convolutions + first + others + 2 * 800 + 800 * 29 == PARAMETERS
    assert sum(p.numel() for p in model.parameters()) == PARAMETERS


def flops(frames: int) -> float:
    """Forward FLOPs of one utterance at the paper's width, counted on fake tensors."""
    with pytest.MonkeyPatch.context() as patch, FakeTensorMode(allow_non_fake_inputs=True):
        patch.setattr(torch.backends.mkldnn, "enabled", False)
        built = TASK.build(TASK.configure("paper", overrides={"frames": str(frames)}, fixed_shapes=True))
        assert built.infer is not None
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            built.infer(built.batch(0))
    total: int = counter.get_total_flops()
    return total / built.samples


def continued(short: int, long: int) -> float:
    """The straight line through two lengths, at the paper's."""
    first, second = flops(short), flops(long)
    return first + (second - first) * (1230 - short) / (long - short)


def test_two_short_lengths_tell_the_papers_flops() -> None:
    assert continued(8, 16) == pytest.approx(FORWARD_FLOPS, rel=1e-6)
    assert [steps_of(frames) for frames in TASK.unrolled] == [60, 80]


@pytest.mark.slow
def test_the_unrolled_lengths_tell_the_papers_flops() -> None:
    assert continued(*TASK.unrolled) == pytest.approx(FORWARD_FLOPS, rel=1e-6)


def test_the_papers_batch_is_a_bin_without_padding() -> None:
    speech = draw_speech(SpeechSettings(), torch.randn(29, 161), torch.Generator().manual_seed(0))
    assert speech.spectrograms.shape == (20, 1, 161, 1230)
    assert speech.lengths.tolist() == [1230] * 20
    assert speech.steps.tolist() == [615] * 20
    assert speech.labels.shape == (20, 230)
    assert float(speech.spectrograms.mean()) == pytest.approx(0, abs=0.05)
    assert float(speech.spectrograms.std()) == pytest.approx(1, abs=0.05)


def test_durations_follow_librispeechs() -> None:
    """Mean 12.3 s between 1.5 and 17 s, most of them between 14 and 16 s."""
    seconds = duration((torch.arange(100_000, dtype=torch.float64) + 0.5) / 100_000)
    assert (seconds.diff() >= 0).all()
    assert 1.5 <= float(seconds[0]) < 3
    assert 16.9 < float(seconds[-1]) <= 17
    assert float(seconds.mean()) == pytest.approx(12.3, abs=0.01)
    assert 14 < float(seconds.histc(31, 1.5, 17).argmax()) / 2 + 1.75 < 16


def test_bins_are_neighbours_in_order_of_duration() -> None:
    """Of 2,000 sorted utterances, 20 neighbours span 1 % of the law: around its mean, 12.3 s, 0.09 s."""
    settings = SpeechSettings(utterances=2000)
    bins = torch.stack([draw_bin(settings, torch.Generator().manual_seed(seed)) for seed in range(50)])
    assert (bins[:, 0] == 1230).all()
    assert (bins.diff(dim=1) <= 0).all()
    law = duration((torch.arange(2000, dtype=torch.float64) + 0.5) / 2000)
    place = int((law < 12.3).sum())
    expected = 100 * float(law[place] - law[place - 19])
    assert 1230 - float(bins[:, -1].double().mean()) == pytest.approx(expected, rel=0.15)
    assert 5 < expected < 15


def test_labels_have_15_characters_a_second() -> None:
    settings = SpeechSettings(batch_size=400, frames=400, characters=120)
    speech = draw_speech(settings, torch.zeros(29, 161), torch.Generator().manual_seed(0))
    rate = speech.label_lengths / (speech.lengths / 100)
    assert speech.labels.shape == (400, 120)
    assert float(rate.mean()) == pytest.approx(15, abs=0.3)
    assert float(rate.std()) == pytest.approx(2, abs=0.3)
    inside = torch.arange(120) < speech.label_lengths.unsqueeze(1)
    assert (speech.labels[inside] >= 1).all()
    assert (speech.labels[~inside] == 0).all()
    assert set(speech.labels[inside].tolist()) == set(range(1, 29))


@pytest.mark.parametrize("frames", [3, 9, 64])
def test_every_transcript_fits_its_steps(frames: int) -> None:
    """CTC needs a step for each character and one between equal ones: else the loss is infinite."""
    built = TASK.build(TASK.configure("tiny", batch_size=8, overrides={"frames": str(frames), "utterances": "10"}))
    assert all(float(built.step(built.batch(index))) < 1e4 for index in range(3))


def padded(model: Any, batch_size: int = 6) -> Any:
    """A tiny batch with much padding, and its model."""
    built = TASK.build(TASK.configure("tiny", batch_size=batch_size, overrides={"utterances": "20"}))
    speech = built.batch(0)
    assert int(speech.lengths[-1]) < 40 < int(speech.lengths[0]) == 48
    return built.modules["model"] if model is None else model, speech


def test_nothing_sounds_in_the_padding() -> None:
    """Outputs of convolutions and recurrences are zero beyond each utterance, which therefore hears nothing of it."""
    model, speech = padded(None)
    seen: list[Tensor] = []

    def note(module: Any, args: Any, out: Tensor) -> None:
        seen.append(out.flatten(1, 2).permute(2, 0, 1) if out.dim() == 4 else out)  # (steps, batch, width)

    hooks = [part.register_forward_hook(note) for part in (model.convolutions, *model.layers)]
    model(speech.spectrograms, speech.lengths)
    for hook in hooks:
        hook.remove()
    sounding = torch.arange(24).unsqueeze(1) < speech.steps
    assert len(seen) == 3
    for out in seen:
        assert torch.equal((out != 0).any(2), sounding)


def directions(layer: RecurrentLayer, x: Tensor, lengths: list[int]) -> tuple[Tensor, Tensor, Tensor]:
    """Dense and packed outputs of the two directions (steps, batch, 2, 16), and where there is sound."""
    packed, _ = layer.gru(pack_padded_sequence(x, torch.tensor(lengths)))
    sound = torch.arange(40).unsqueeze(1) < torch.tensor(lengths)
    return layer.gru(x)[0].unflatten(2, (2, 16)), pad_packed_sequence(packed)[0].unflatten(2, (2, 16)), sound


@torch.no_grad()
def test_dense_and_packed_recurrences() -> None:
    """Without padding they agree; with it the forward direction does, and the backward one far from the padding."""
    torch.manual_seed(0)
    layer, x = RecurrentLayer(7, 16, normalized=False), torch.randn(40, 3, 7)
    dense, packed, sound = directions(layer, x, [40, 40, 40])
    assert torch.allclose(dense, packed, atol=1e-6)
    assert torch.allclose(layer(x, ~sound.t()), packed.sum(2), atol=1e-6)

    dense, packed, sound = directions(layer, x, [40, 33, 20])
    assert torch.allclose(dense[sound][:, 0], packed[sound][:, 0], atol=1e-6)
    apart = (dense - packed)[:20, 2, 1].abs().amax(1)  # the backward direction of the shortest
    assert float(apart[19]) > 0.01  # it starts in the padding
    assert float(apart[0]) < 0.01 * float(apart[19])  # 19 steps on it has forgotten


def test_the_loss_is_ctc_over_utterances() -> None:
    built = TASK.build(TASK.configure("tiny", overrides={"utterances": "20"}, batch_size=5))
    model, speech = built.modules["model"], built.batch(0)
    log_probs = model(speech.spectrograms, speech.lengths)
    assert torch.allclose(log_probs.exp().sum(2), torch.ones(24, 5), atol=1e-5)
    lengths = (speech.steps, speech.label_lengths)
    expected = F.ctc_loss(log_probs, speech.labels, *lengths, reduction="none").mean()
    assert float(built.step(speech)) == pytest.approx(float(expected.detach()), rel=1e-5)


@pytest.mark.parametrize(("clip", "cut"), [("0.5", True), ("400", False)])
def test_the_gradients_norm_is_cut(clip: str, cut: bool) -> None:
    built = TASK.build(TASK.configure("tiny", overrides={"clip": clip}))
    built.step(built.batch(0))
    norm = torch.nn.utils.get_total_norm([p.grad for p in built.modules["model"].parameters() if p.grad is not None])
    assert float(norm) == pytest.approx(0.5, rel=1e-3) if cut else 0.5 < float(norm) < 400


def losses(lr: str, steps: int) -> list[float]:
    built = TASK.build(TASK.configure("tiny", batch_size=4, overrides={"lr": lr, "channels": "2"}))
    return [float(built.step(built.batch(index))) for index in range(steps)]


def test_it_learns() -> None:
    """It starts above 50 and soon keeps silent as often as it should."""
    found = losses("0.01", 40)
    assert sum(found[:5]) / 5 > 45
    assert sum(found[-10:]) / 10 < 30


@pytest.mark.slow
def test_it_learns_to_hear() -> None:
    """Who does not listen loses ln 28 on each of 7.2 characters: 24, whenever they come."""
    found = losses("0.003", 120)
    assert sum(found[-10:]) / 10 < 15


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"frames": "2"}, "frames 2 is refused: every second frame is left"),
        ({"characters": "0"}, "characters, utterances, channels, layers and hidden start at 1"),
        ({"layers": "0"}, "layers and hidden start at 1"),
        ({"clip": "0"}, "clip 0.0 with momentum 0.9 is refused"),
        ({"momentum": "0"}, "Nesterov's momentum lie above 0"),
    ],
)
def test_what_is_refused(overrides: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        TASK.configure("paper", overrides=overrides)
