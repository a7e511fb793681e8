"""Perspective Transformer Nets: sizes by hand, a camera that looks where it should, and drawn solids."""

from __future__ import annotations

import math

import pytest
import torch

from wcbench.errors import UsageError
from wcbench.tasks import data
from wcbench.tasks.base import Built
from wcbench.tasks.vision.object_reconstruction_3d import (
    Encoder,
    ObjectReconstruction3D,
    ReconstructionSettings,
    cameras,
    decoder,
    look,
    rays,
    scenes,
    solids,
)


def build(preset: str = "tiny", **overrides: str) -> Built:
    task = ObjectReconstruction3D()
    return task.build(task.configure(preset, overrides=overrides))


def test_parameters_by_hand() -> None:
    convolutions = (3 * 25 * 64 + 64) + (64 * 25 * 128 + 128) + (128 * 25 * 256 + 256)
    connected = (8 * 8 * 256 * 1024 + 1024) + (1024 * 1024 + 1024) + 2 * (1024 * 512 + 512)  # two heads
    volume = (512 * 64 * 512 + 64 * 512) + (512 * 4**3 * 256 + 256) + (256 * 5**3 * 96 + 96) + (96 * 6**3 + 1)
    with torch.device("meta"):
        modules = (Encoder(64, 1024, 512), decoder(64, 512))
    parameters = sum(p.numel() for m in modules for p in m.parameters())
    assert convolutions + connected + volume == parameters == 48_198_369


def test_flops_by_hand() -> None:
    """Output pixels x outputs x inputs, input voxels where a convolution is transposed; placing the samples, which
    the catalogue does not count, is 0.02 % of it."""
    convolutions = 32**2 * 64 * 75 + 16**2 * 128 * (64 * 25) + 8**2 * 256 * (128 * 25)
    connected = 8 * 8 * 256 * 1024 + 1024 * 1024 + 2 * (1024 * 512)
    volume = 512 * 64 * 512 + 4**3 * 512 * 256 * 4**3 + 8**3 * 256 * 96 * 5**3 + 16**3 * 96 * 6**3
    assert 2 * (convolutions + connected + volume) == pytest.approx(4_680_190_000, rel=1e-6)
    assert 2 * 3 * 4 * 32**3 / 4_680_190_000 < 2e-4


@pytest.mark.parametrize("view", [0, 5, 17])
def test_a_voxel_appears_where_a_camera_sees_it(view: int) -> None:
    """Expected pixel by pinhole geometry: rotate the place about y, tip it by 30 degrees, divide by the distance."""
    place = (0.4, 0.25, -0.3)  # x, y, z
    volume = torch.zeros(1, 1, 32, 32, 32)
    column, row, layer = (round((c + 1) * 16 - 0.5) for c in place)
    volume[0, 0, layer, row, column] = 1
    x, y, z = ((index + 0.5) / 16 - 1 for index in (column, row, layer))
    turn, tip = 2 * math.pi * view / 24, math.radians(30)
    towards = x * math.cos(turn) + z * math.sin(turn)  # how far towards the camera's side, on the ground
    right = x * math.sin(turn) - z * math.cos(turn)
    distance = 1.732 - (towards * math.cos(tip) + y * math.sin(tip))
    up = y * math.cos(tip) - towards * math.sin(tip)
    expected = ((1 - 0.866 * up / distance) * 15.5, (1 + 0.866 * right / distance) * 15.5)  # pixels 0 to 31

    seen = look(volume, cameras(24)[view].view(1, 1, 3, 4), rays())[0, 0]  # (depth, height, width)
    weights = seen / seen.sum()
    depth, height, width = torch.meshgrid(*[torch.arange(32.0)] * 3, indexing="ij")
    assert (float((weights * height).sum()), float((weights * width).sum())) == pytest.approx(expected, abs=0.5)
    assert 0.866 + float((weights * depth).sum()) / 31 * 1.732 == pytest.approx(distance, abs=0.06)


def test_a_pixel_is_the_largest_value_along_its_ray() -> None:
    built = build()
    images, placed, masks = built.batch(0)
    assert built.infer is not None
    with torch.no_grad():
        projections = built.infer((images, placed, masks))
        volumes = built.modules["decoder"](built.modules["encoder"](images)[0])
        expected = torch.stack(
            [look(v[None], p[None], rays())[0].amax(dim=1) for v, p in zip(volumes, placed, strict=True)]
        )
    assert projections.shape == masks.shape == (1, 2, 32, 32)
    assert torch.allclose(projections, expected, atol=1e-6)


def test_true_volumes_have_no_loss() -> None:
    """The silhouettes of a batch are those of its volumes, from the places that come with it."""
    settings = ReconstructionSettings(batch_size=2, views=6, encoded=3)
    images, placed, masks = scenes(settings, data.generator(0, 3))
    volumes = solids(2, data.generator(0, 3)).repeat_interleave(3, dim=0)  # the first that is drawn
    assert images.shape == (6, 3, 64, 64)
    assert torch.allclose(look(volumes, placed, rays()).amax(dim=2), masks, atol=1e-6)


def test_a_volume_is_looked_at_from_another_place_than_its_image() -> None:
    """Image i shows what the mask before it, of the image i - 1, should show."""
    images, placed, masks = scenes(ReconstructionSettings(batch_size=1, encoded=24), data.generator(0, 0))
    assert images.shape == (24, 3, 64, 64)
    assert masks.shape == (24, 1, 32, 32)
    shown = (images.amax(dim=1) > 0).view(24, 32, 2, 32, 2).any(dim=4).any(dim=2)
    should = (masks[:, 0] > 0).roll(1, dims=0)
    assert float((shown & should).sum() / should.sum()) == pytest.approx(1, abs=0.01)
    assert len({tuple(camera.flatten().tolist()) for camera in placed}) == 24


@pytest.mark.parametrize("encoded", [1, 2, 4])
def test_the_views_are_shared_out_among_the_volumes(encoded: int) -> None:
    built = build(views="4", encoded=str(encoded), batch_size="3")
    images, placed, masks = built.batch(0)
    assert built.samples == len(images) == 3 * encoded
    assert placed.shape[:2] == masks.shape[:2] == (3 * encoded, 4 // encoded)
    for cameras_of_one in placed.view(3, 4, 12):
        assert len({tuple(camera.tolist()) for camera in cameras_of_one}) == 4
    assert torch.isfinite(built.step((images, placed, masks)))


def test_the_loss_by_hand() -> None:
    built = build(views="4", encoded="2", batch_size="3")
    batch = built.batch(0)
    assert built.infer is not None
    with torch.no_grad():
        squares = (built.infer(batch) - batch[2]).double().square().sum()
    assert float(built.step(batch)) == pytest.approx(10 * 0.5 * float(squares) / (3 * 4), rel=1e-5)


def test_the_pose_head_is_left_unused_and_weights_decay() -> None:
    built = build()
    named = {f"{role}.{name}": p for role, m in built.modules.items() for name, p in m.named_parameters()}
    before = {name: p.detach().clone() for name, p in named.items()}
    built.step(built.batch(0))
    unchanged = {name for name, p in named.items() if torch.equal(p, before[name])}
    assert unchanged == {"encoder.pose.weight", "encoder.pose.bias"}
    decays = {id(p): group["weight_decay"] for group in built.optimizers["model"].param_groups for p in group["params"]}
    assert {name: decays[id(p)] for name, p in named.items()} == {
        name: 1e-3 if name.endswith("weight") else 0 for name in named
    }


def test_solids_fill_a_tenth_of_the_volume() -> None:
    volumes = solids(60, data.generator(0, 0))
    assert bool(((volumes == 0) | (volumes == 1)).all())
    assert float(volumes.mean()) == pytest.approx(0.10, abs=0.015)
    assert float(volumes.mean(dim=(1, 2, 3, 4)).min()) > 0.01


def test_it_learns_an_object_by_heart() -> None:
    """One object, for speed; an empty volume, which any object teaches first, would lose this much."""
    built = build(lr="0.003")
    batch = built.batch(0)
    empty = 10 * 0.5 * float(batch[2].square().sum()) / 2
    losses = [float(built.step(batch)) for _ in range(40)]
    assert sum(losses[-5:]) / 5 < 0.5 * empty < losses[0]


def test_the_variant_has_a_batch_and_a_rate_of_its_own() -> None:
    task = ObjectReconstruction3D()
    paper = task.configure("paper", variant="atlasnet").settings
    assert (paper.batch_size, paper.lr) == (32, 1e-3)
    asked = task.configure("paper", variant="atlasnet", batch_size=5, overrides={"lr": "0.1"}).settings
    assert (asked.batch_size, asked.lr) == (5, 0.1)
    assert task.configure("paper").settings == ReconstructionSettings()
    built = task.build(task.configure("tiny", variant="atlasnet"))
    assert list(built.modules) == ["model"]
    assert built.batch(0).shape == (2, 3, 100)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"views": "5", "encoded": "2"}, "2 encoded of 5 views are refused"),
        ({"encoded": "0"}, "0 encoded of 2 views are refused"),
        ({"width": "3"}, "width 3, hidden 64, latent 32 are refused"),
        ({"points": "101"}, "101 points on 5 sheets are refused"),
        ({"code": "8"}, "code 8 is refused"),
    ],
)
def test_what_is_refused(overrides: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        ObjectReconstruction3D().configure("tiny", overrides=overrides)
