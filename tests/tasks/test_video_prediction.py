"""CDNA: sizes by hand, whose frame a clip sees, what the predicted kernels do, and the drawn clips."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from wcbench.errors import UsageError
from wcbench.tasks.vision.video_prediction import Cdna, VideoPrediction, VideoSettings, true_frames

LSTMS = ((32, 32, 32), (32, 32, 32), (32, 64, 16), (64, 64, 16), (64, 128, 8), (128, 64, 16), (96, 32, 32))
PAPER = VideoPrediction.presets["paper"]
assert isinstance(PAPER, VideoSettings)


def test_parameters_by_hand() -> None:
    lstms = sum((inputs + channels) * 25 * 4 * channels + 4 * channels for inputs, channels, _ in LSTMS)
    down = (3 * 25 * 32 + 32) + (32 * 9 * 32 + 32) + (64 * 9 * 64 + 64) + (74 * 64 + 64)
    up = (128 * 9 * 128 + 128) + (96 * 9 * 96 + 96) + (64 * 9 * 64 + 64)
    heads = (64 * 3 + 3) + (64 * 11 + 11) + (8 * 8 * 128 * 250 + 250) + (10 * 5 + 5)
    norms = 2 * (32 + 32 + 32 + 64 + 64 + 128 + 64 + 32 + 64)
    with torch.device("meta"):
        model = Cdna(PAPER)
    assert lstms + down + up + heads + norms == sum(p.numel() for p in model.parameters()) == 8_312_063


def test_flops_by_hand() -> None:
    """Output pixels x outputs x inputs, input pixels where a convolution is transposed; nine predictions of a clip."""
    lstms = sum(side**2 * (inputs + channels) * 25 * 4 * channels for inputs, channels, side in LSTMS)
    down = 32**2 * 32 * 75 + 16**2 * 32 * (32 * 9) + 8**2 * 64 * (64 * 9) + 8**2 * 64 * 74
    up = 8**2 * 128 * (128 * 9) + 16**2 * 96 * (96 * 9) + 32**2 * 64 * (64 * 9)
    heads = 64**2 * 64 * (3 + 11) + 8 * 8 * 128 * 250 + 10 * 5
    moved = 64**2 * 3 * 10 * 25  # all ten kernels, each on its own sample's three colours
    assert 2 * 9 * (lstms + down + up + heads + moved) == pytest.approx(31_723_400_000, rel=1e-6)


def test_each_sample_is_moved_by_its_own_kernels() -> None:
    torch.manual_seed(0)
    model = Cdna(VideoSettings(side=16, width=4))
    frame, deepest = torch.rand(3, 3, 16, 16), torch.rand(3, 16, 2, 2)
    moved = model._moved(frame, deepest)
    assert len(moved) == 10
    for sample in range(3):
        kernels = F.relu(deepest[sample].flatten() @ model.kernels.weight.T + model.kernels.bias).view(10, 25)
        kernels = kernels / kernels.sum(dim=1, keepdim=True)
        patches = F.unfold(frame[sample].unsqueeze(1), 5, padding=2)  # (colours, 25, pixels)
        expected = torch.einsum("kp,cpx->kcx", kernels, patches).view(10, 3, 16, 16)
        assert torch.allclose(torch.stack(moved)[:, sample], expected, atol=1e-5)


def test_the_tenth_moved_frame_finds_no_mask() -> None:
    """Ten kernels and eleven masks: previous frame, generated image and nine moved ones."""
    task = VideoPrediction()
    built = task.build(task.configure("tiny", batch_size=4))
    built.step(built.batch(0))
    gradient: Any = built.modules["model"].kernels.weight.grad  # type: ignore[union-attr]
    by_kernel = gradient.view(10, -1).abs().sum(dim=1)
    assert float(by_kernel[9]) == 0
    assert int((by_kernel[:9] > 0).sum()) >= 8


def test_true_frames_give_way_to_predicted_ones() -> None:
    """Half of a batch is left where exp(step / k) = k."""
    assert true_frames(32, 0, 900.0) == 32
    assert true_frames(32, round(900 * math.log(900)), 900.0) == 16
    assert true_frames(32, 100_000, 900.0) == true_frames(32, 10**9, 900.0) == 0
    task = VideoPrediction()
    built = task.build(task.configure("tiny", batch_size=6, overrides={"frames": "8"}))
    for index, count in ((0, 6), (6122, 3), (100_000, 0)):
        true = built.batch(index)[3]
        assert true.shape == (5, 6)
        assert true.sum(dim=1).tolist() == [count] * 5
    mixed = built.batch(6122)[3]
    assert any(not torch.equal(mixed[0], row) for row in mixed)  # other clips at every frame


@pytest.mark.parametrize("sees_true", [True, False])
def test_a_clip_sees_what_it_was_dealt(sees_true: bool) -> None:
    """A change to the last frame that is seen reaches the last prediction of the clips that see true frames alone."""
    task = VideoPrediction()
    built = task.build(task.configure("tiny"))
    images, actions, poses, true = built.batch(0)
    true = torch.full_like(true, sees_true)
    changed = images.clone()
    changed[:, 2] += 0.3  # of frames 0 to 3: 0 and 1 are context, 3 is only predicted
    model = built.modules["model"]
    before, after = model(images, actions, poses, true)[0], model(changed, actions, poses, true)[0]
    assert torch.equal(before[1], after[1])
    assert torch.equal(before[2], after[2]) is not sees_true


def test_the_loss_counts_what_comes_after_the_context() -> None:
    task = VideoPrediction()
    built = task.build(task.configure("tiny"))
    batch = built.batch(0)
    with torch.no_grad():
        frames, reached = built.modules["model"](*batch)
    images, _, poses, _ = batch
    expected = sum(
        float((frames[t - 1] - images[:, t]).square().mean() + 1e-4 * (reached[t - 1] - poses[:, t]).square().mean())
        for t in (2, 3)
    )
    assert float(built.step(batch)) == pytest.approx(expected / 2, rel=1e-5)


def test_clips_show_an_arm_that_obeys() -> None:
    task = VideoPrediction()
    images, actions, poses, _ = task.build(task.configure("paper", batch_size=16)).batch(0)
    assert images.shape == (16, 10, 3, 64, 64)
    assert 0 <= float(images.min()) < 0.1
    assert 0.9 < float(images.max()) <= 1
    assert torch.allclose(poses[:, :-1] + actions[:, :-1], poses[:, 1:], atol=1e-6)
    assert float(poses.abs().max()) <= 1
    moving = (images[:, 1:] - images[:, :-1]).abs().amax(dim=2) > 1 / 255
    assert 0.05 < float(moving.float().mean()) < 0.25  # most of a picture stands still
    x, y = ((0.75 * poses[..., :2] + 1) * 32).long().unbind(dim=2)  # the arm's middle, never hidden: one colour
    clip, frame = torch.meshgrid(torch.arange(16), torch.arange(10), indexing="ij")
    middle = images[clip, frame, :, y, x]
    assert torch.allclose(middle, middle[:, :1].expand_as(middle), atol=1e-5)


def test_it_learns() -> None:
    task = VideoPrediction()
    built = task.build(task.configure("tiny", overrides={"lr": "0.01", "frames": "3"}))
    losses = [float(built.step(built.batch(index))) for index in range(30)]
    assert sum(losses[-10:]) < 0.75 * sum(losses[:10])


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"side": "20"}, "side 20 is refused: a frame is halved three times"),
        ({"frames": "2"}, "2 frames with 2 of context are refused"),
        ({"context": "0"}, "with 0 of context are refused"),
        ({"masks": "0"}, "masks 0 is refused"),
        ({"sampling": "-1"}, "sampling -1.0 is refused"),
    ],
)
def test_what_is_refused(overrides: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        VideoPrediction().configure("tiny", overrides=overrides)


def test_the_shortest_clip_works() -> None:
    task = VideoPrediction()
    built = task.build(task.configure("tiny", overrides={"frames": "2", "context": "1", "side": "8"}))
    assert torch.isfinite(built.step(built.batch(0)))
