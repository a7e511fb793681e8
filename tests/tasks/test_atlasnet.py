"""AtlasNet: sizes by hand, the Chamfer distance against a search over all pairs, and drawn surfaces."""

from __future__ import annotations

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from wcbench.tasks import data
from wcbench.tasks.base import Built
from wcbench.tasks.vision.atlasnet import AtlasNet, chamfer, surfaces
from wcbench.tasks.vision.object_reconstruction_3d import ObjectReconstruction3D

SHEET = ((1026, 1026), (1026, 513), (513, 256))  # and 256 to 3 without normalization
POINTNET = ((3, 64), (64, 128), (128, 1024))


def build(**overrides: str) -> Built:
    task = ObjectReconstruction3D()
    return task.build(task.configure("tiny", variant="atlasnet", overrides=overrides))


def paper() -> AtlasNet:
    with torch.device("meta"):
        return AtlasNet(1024, 25)


def test_parameters_by_hand() -> None:
    """Each normalization has 2 per channel. AIBench's script also holds a spatial transformer that it does not run."""
    sheet = sum(i * o + o + 2 * o for i, o in SHEET) + 256 * 3 + 3
    encoder = sum(i * o + o + 2 * o for i, o in POINTNET) + 1024 * 1024 + 1024 + 2 * 1024
    assert encoder + 25 * sheet == sum(p.numel() for p in paper().parameters()) == 44_107_202
    unused = sum(i * o + o for i, o in (*POINTNET, (1024, 512), (512, 256), (256, 9)))
    assert unused == 799_113


def test_flops_by_hand() -> None:
    points = sum(i * o for i, o in POINTNET) + sum(i * o for i, o in SHEET) + 256 * 3
    expected = 2 * (2500 * points + 1024 * 1024)
    with FlopCounterMode(display=False) as counter:
        unfolded = paper()(torch.empty(2, 3, 2500, device="meta"))
    assert unfolded.shape == (2, 3, 2500)
    assert counter.get_total_flops() == 2 * expected == 2 * 9_254_927_152


def test_chamfer_is_the_nearest_neighbours_both_ways() -> None:
    torch.manual_seed(0)
    ours, theirs = torch.randn(3, 40, 3), torch.randn(3, 40, 3).requires_grad_()
    pairs = (ours.unsqueeze(2) - theirs.unsqueeze(1)).square().sum(dim=3)  # (3, 40, 40)
    expected = pairs.amin(dim=1).mean() + pairs.amin(dim=2).mean()
    (slope,) = torch.autograd.grad(expected, theirs)
    found = chamfer(ours, theirs)
    assert found.item() == pytest.approx(expected.item(), rel=1e-5)
    assert torch.allclose(torch.autograd.grad(found, theirs)[0], slope, atol=1e-6)


def test_chamfer_of_known_clouds() -> None:
    """Two points at 0 and 10 on a line against two at 1 and 1: 1 and 81 one way, 1 and 1 the other."""
    line = torch.tensor([[[0.0, 0, 0], [10, 0, 0]]])
    other = torch.tensor([[[1.0, 0, 0], [1, 0, 0]]])
    assert float(chamfer(line, line)) == pytest.approx(0, abs=1e-4)
    assert float(chamfer(line, other)) == pytest.approx((1 + 81) / 2 + (1 + 1) / 2)


def test_a_sheet_unfolds_its_own_points() -> None:
    model = build().modules["model"]
    assert isinstance(model, AtlasNet)
    points = torch.randn(3, 3, 100)
    unfolded = model(points)
    assert unfolded.shape == (3, 3, 100)
    assert unfolded.abs().max().item() <= 1
    unfolded[:, :, 20:40].square().sum().backward()  # the second of five sheets
    used = [any(p.grad is not None and p.grad.abs().sum() > 0 for p in sheet.parameters()) for sheet in model.sheets]
    assert used == [False, True, False, False, False]


def test_a_single_cloud_is_not_normalized_away() -> None:
    built = build(batch_size="1")
    model = built.modules["model"]
    assert isinstance(model, AtlasNet)
    assert model.encoder(built.batch(0)).abs().sum().item() > 0
    assert torch.isfinite(built.step(built.batch(0)))


def test_surfaces_are_centred_in_the_unit_sphere() -> None:
    clouds = surfaces(4, 1000, data.generator(0, 0))
    assert clouds.shape == (4, 3, 1000)
    assert torch.allclose(clouds.mean(dim=2), torch.zeros(4, 3), atol=1e-5)
    assert clouds.norm(dim=1).amax(dim=1).tolist() == pytest.approx([1.0] * 4)
    gap = chamfer(clouds[:, :, :500].mT, clouds[:, :, 500:].mT)  # on surfaces, halves of a cloud lie close
    assert float(gap) < 0.01 < float(chamfer(clouds[:1].mT, clouds[1:2].mT))


def test_it_learns() -> None:
    built = build()
    clouds = built.batch(0)
    losses = [float(built.step(clouds)) for _ in range(60)]
    assert sum(losses[-10:]) < 0.7 * sum(losses[:10])
