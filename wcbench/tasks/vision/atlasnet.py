"""AtlasNet: 25 small sheets folded into the surface of an object (Groueix et al., arXiv:1802.05384).

What AIBench's PyTorch code runs under the name of 3D object reconstruction (train_AE_AtlasNet.py): an autoencoder of
point clouds. A PointNet of 64, 128 and 1,024 channels reads 2,500 points of a surface; each of 25 decoders of
1,026, 513, 256 and 3 channels takes the code and 100 random points of the unit square to 100 points of the surface.
The loss is the Chamfer distance. Batches of 32 clouds, Adam at rate 1e-3 (a tenth of it after epoch 100 of 120).

What differs here, and why:

- The PointNet's spatial transformer (799,113 parameters) is left out: AIBench's script builds it and never runs it.
- A batch of one cloud skips the normalization of the code, which has one value per channel then.
- The clouds are drawn from the surfaces of ellipsoids.
"""

from __future__ import annotations

import itertools

import torch
from torch import Tensor, nn

from wcbench.tasks import data
from wcbench.tasks.base import Built, Config

PARTS = 3  # ellipsoids in an object


def _pointwise(inputs: int, outputs: int) -> nn.Sequential:
    """The same layer at every point, normalized over batch and points."""
    return nn.Sequential(nn.Conv1d(inputs, outputs, 1), nn.BatchNorm1d(outputs))


class PointNet(nn.Module):
    """Points (batch, 3, points) to codes (batch, code)."""

    def __init__(self, code: int) -> None:
        super().__init__()
        self.points = nn.Sequential(
            _pointwise(3, code // 16),
            nn.ReLU(),
            _pointwise(code // 16, code // 8),
            nn.ReLU(),
            _pointwise(code // 8, code),
        )
        self.code = nn.Linear(code, code)
        self.norm = nn.BatchNorm1d(code)

    def forward(self, points: Tensor) -> Tensor:
        code: Tensor = self.code(self.points(points).amax(dim=2))
        return (self.norm(code) if code.shape[0] > 1 else code).relu()


class Sheet(nn.Sequential):
    """Codes with a place on the sheet (batch, code + 2, points) to points (batch, 3, points)."""

    def __init__(self, code: int) -> None:
        wide = code + 2
        sizes = (wide, wide, wide // 2, wide // 4)
        layers = [nn.Sequential(_pointwise(i, o), nn.ReLU()) for i, o in itertools.pairwise(sizes)]
        super().__init__(*layers, nn.Conv1d(wide // 4, 3, 1), nn.Tanh())


class AtlasNet(nn.Module):
    """Point clouds (batch, 3, points) to as many points on the sheets."""

    def __init__(self, code: int, sheets: int) -> None:
        super().__init__()
        self.encoder = PointNet(code)
        self.sheets = nn.ModuleList(Sheet(code) for _ in range(sheets))

    def forward(self, points: Tensor) -> Tensor:
        code = self.encoder(points)
        each = points.shape[2] // len(self.sheets)
        unfolded = []
        for sheet in self.sheets:
            places = torch.rand(code.shape[0], 2, each, device=code.device)
            unfolded.append(sheet(torch.cat((places, code.unsqueeze(2).expand(-1, -1, each)), dim=1)))
        return torch.cat(unfolded, dim=2)


def chamfer(ours: Tensor, theirs: Tensor) -> Tensor:
    """Mean squared distance to the nearest point of the other cloud, both ways; clouds are (batch, points, 3).

    As AIBench's script writes it: all pairs by |a|^2 + |b|^2 - 2 ab, where the squares are the diagonals of whole
    products of a cloud with itself.
    """
    squares = [torch.bmm(cloud, cloud.mT).diagonal(dim1=1, dim2=2) for cloud in (ours, theirs)]
    distances = squares[0].unsqueeze(2) + squares[1].unsqueeze(1) - 2 * torch.bmm(ours, theirs.mT)
    loss: Tensor = distances.min(dim=1).values.mean() + distances.min(dim=2).values.mean()
    return loss


def surfaces(n: int, points: int, rng: torch.Generator) -> Tensor:
    """Point clouds (n, 3, points) on the surfaces of ellipsoids, centred and within the unit sphere."""
    part = torch.randint(PARTS, (n, 1, points), generator=rng).expand(-1, 3, -1)
    centres = torch.rand(n, 3, PARTS, generator=rng) - 0.5
    radii = 0.15 + 0.35 * torch.rand(n, 3, PARTS, generator=rng)
    directions = torch.nn.functional.normalize(torch.randn(n, 3, points, generator=rng), dim=1)
    clouds = centres.gather(2, part) + radii.gather(2, part) * directions
    clouds = clouds - clouds.mean(dim=2, keepdim=True)
    within: Tensor = clouds / clouds.norm(dim=1).amax(dim=1)[:, None, None]
    return within


def build(config: Config) -> Built:
    """AtlasNet with the settings ``batch_size``, ``points``, ``sheets``, ``code`` and ``lr``."""
    settings = config.settings
    torch.manual_seed(config.seed)
    with torch.device(config.device):  # built in place: a module of fake tensors cannot be moved
        model = AtlasNet(settings.code, settings.sheets)
    optimizer = torch.optim.Adam(model.parameters(), lr=settings.lr, foreach=True)

    def batch(index: int) -> Tensor:
        return surfaces(settings.batch_size, settings.points, data.generator(config.seed, index)).to(config.device)

    def infer(points: Tensor) -> Tensor:
        with config.autocast():
            unfolded: Tensor = model(points)
        return unfolded

    def step(points: Tensor) -> Tensor:
        optimizer.zero_grad(set_to_none=True)
        loss = chamfer(points.mT.contiguous(), infer(points).float().mT.contiguous())
        loss.backward()
        optimizer.step()
        return loss.detach()

    return Built(step, batch, {"model": model}, settings.batch_size, {"model": optimizer}, infer=infer)
