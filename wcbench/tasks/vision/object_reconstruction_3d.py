"""3D object reconstruction: a volume from one image, learned from silhouettes alone (Yan et al., arXiv:1612.00814).

AIBench Training DC-AI-C13 names a convolutional encoder-decoder on ShapeNet; its TensorFlow code is Perspective
Transformer Nets. An encoder takes a 64x64 image to 512 numbers, a decoder these to 32x32x32 voxels, and a projector
looks at the volume as a camera would: 32 samples along the ray of each of 32x32 pixels, read where they fall between
the voxels, of which the largest is the pixel. Half the squared error against the true silhouettes, summed over
pixels, averaged over 24 views of an object and times 10, is the loss; the loss on voxels has weight 0 and is not
computed. Batches of 6 objects, Adam at rate 1e-4, weight decay 1e-3, 10,000 steps.

One view of an object is encoded and decoded, and its volume is looked at from all 24 places: so does
im2vox_factory.py in tensorflow/models, the source of AIBench's code. ``encoded`` says how many of an object's views
are encoded and decoded, each to a volume of its own; such a view is a sample. With ``--set encoded=24`` each volume is
looked at once, and the matrix work of a step is 24 times as much. (The authors' Torch code encodes one view and
decodes the result 24 times.)

What differs here, and why:

- The objects are drawn: unions of boxes and ellipsoids that fill a tenth of the volume. The image is their silhouette
  in one colour, lighter where it is near. The same projector renders true silhouettes when the batch is drawn;
  AIBench's code does so within the step.
- `grid_sample` reads a point's eight neighbours; the TensorFlow code gathers them singly, half a voxel further on.
- Adam decays the weights, not the biases; the TensorFlow code adds the same term to the loss.
- The encoder's second head, a pose, is computed and left unused, as in the Torch code: no gradient, no update.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wcbench.errors import UsageError
from wcbench.tasks import data
from wcbench.tasks.base import Built, Config, Settings, Task
from wcbench.tasks.vision import atlasnet

SIDE, VOXELS = 64, 32  # the layer sizes below follow from them
FOCAL, RANGE = 0.866, 1.732  # the volume spans -1 to 1; the camera sees from FOCAL to FOCAL + RANGE away
ELEVATION = 30.0  # of the camera, in degrees
PARTS = 3  # boxes and ellipsoids in an object
ATLASNET_BATCH = {"paper": "32", "small": "2", "tiny": "2"}  # point clouds, by preset


@dataclass(frozen=True)
class ReconstructionSettings(Settings):
    """Knobs of the 3D object reconstruction task.

    Attributes
    ----------
    batch_size : objects (variant atlasnet: point clouds).
    views : places around an object from which its volumes are looked at.
    encoded : views that are encoded and decoded, a divisor of ``views``.
    width : channels of the first convolution.
    hidden, latent : numbers in the fully connected layers and in the code.
    projection_weight : of the loss.
    lr, weight_decay : of Adam; the variant has no weight decay.
    points, sheets, code : of the variant: points in a cloud, a multiple of the sheets; decoders; numbers in the code.
    """

    batch_size: int = 6
    views: int = 24
    encoded: int = 1
    width: int = 64
    hidden: int = 1024
    latent: int = 512
    projection_weight: float = 10.0
    lr: float = 1e-4
    weight_decay: float = 1e-3
    points: int = 2500
    sheets: int = 25
    code: int = 1024

    def validate(self) -> None:
        super().validate()
        if min(self.encoded, self.views) < 1 or self.views % self.encoded:
            raise UsageError(
                f"{self.encoded} encoded of {self.views} views are refused: the volumes share the views evenly.",
                "Give a divisor of views, e.g. --set views=12 --set encoded=12.",
            )
        if self.width < 2 or self.width % 2 or min(self.hidden, self.latent) < 1:
            raise UsageError(
                f"width {self.width}, hidden {self.hidden}, latent {self.latent} are refused: each is at least 1, and"
                " the width even, as a layer has 3 / 2 as many channels."
            )
        if min(self.sheets, self.points) < 1 or self.points % self.sheets:
            raise UsageError(
                f"{self.points} points on {self.sheets} sheets are refused: each sheet has as many.",
                "Give a multiple of the sheets, e.g. --set points=500 --set sheets=25.",
            )
        if self.code < 16:
            raise UsageError(f"code {self.code} is refused: the first layer has a 16th as many channels.")


class Encoder(nn.Module):
    """Images (batch, 3, 64, 64) in [0, 1] to identity and pose, (batch, latent) each."""

    def __init__(self, width: int, hidden: int, latent: int) -> None:
        super().__init__()
        channels = (3, width, 2 * width, 4 * width)
        convolutions = [nn.Conv2d(i, o, 5, stride=2, padding=2) for i, o in itertools.pairwise(channels)]
        self.convolutions = nn.ModuleList(convolutions)  # to sides of 32, 16, 8
        self.connected = nn.ModuleList((nn.Linear(4 * width * (SIDE // 8) ** 2, hidden), nn.Linear(hidden, hidden)))
        self.identity = nn.Linear(hidden, latent)
        self.pose = nn.Linear(hidden, latent)

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        hidden = images * 2 - 1
        for convolution in self.convolutions:
            hidden = convolution(hidden).relu()
        hidden = hidden.flatten(1)
        for layer in self.connected:
            hidden = layer(hidden).relu()
        return self.identity(hidden).relu(), self.pose(hidden).relu()


def decoder(width: int, latent: int) -> nn.Sequential:
    """Identities (batch, latent) to volumes (batch, 1, 32, 32, 32) of occupancy, 0 to 1."""
    return nn.Sequential(
        nn.Linear(latent, 8 * width * 4**3),
        nn.ReLU(),
        nn.Unflatten(1, (8 * width, 4, 4, 4)),
        nn.ConvTranspose3d(8 * width, 4 * width, 4, stride=2, padding=1),  # 8 voxels a side
        nn.ReLU(),
        nn.ConvTranspose3d(4 * width, 3 * width // 2, 5, stride=2, padding=2, output_padding=1),  # 16
        nn.ReLU(),
        nn.ConvTranspose3d(3 * width // 2, 1, 6, stride=2, padding=2),  # 32
        nn.Sigmoid(),
    )


def rays() -> Tensor:
    """Where the camera's samples lie before it is placed: (4, depth * height * width), by distance, height, width
    and a 1, the nearest first, in rows from the top."""
    across, along = torch.linspace(-1, 1, VOXELS), torch.linspace(FOCAL, FOCAL + RANGE, VOXELS)
    distance, height, width = torch.meshgrid(along, across.flip(0), across, indexing="ij")
    wider = distance / FOCAL
    return torch.stack((distance, height * wider, width * wider, torch.ones_like(width))).flatten(1)


def cameras(views: int) -> Tensor:
    """Camera to volume (views, 3, 4), by x, y, z: evenly around the y axis, elevated, looking at the middle."""
    turn = torch.arange(views) * (2 * math.pi / views)
    sin, cos = math.sin(math.radians(ELEVATION)), math.cos(math.radians(ELEVATION))
    zero, one = torch.zeros(views), torch.ones(views)
    outward = torch.stack((cos * turn.cos(), sin * one, cos * turn.sin()), dim=1)
    up = torch.stack((-sin * turn.cos(), cos * one, -sin * turn.sin()), dim=1)
    right = torch.stack((turn.sin(), zero, -turn.cos()), dim=1)
    return torch.stack((-outward, up, right, (FOCAL + RANGE / 2) * outward), dim=2)


def look(volumes: Tensor, placed: Tensor, samples: Tensor) -> Tensor:
    """Volumes (n, 1, 32, 32, 32) as sampled by cameras (n, views, 3, 4) along `rays`: (n, views, depth, 32, 32)."""
    n, views = placed.shape[:2]
    points = (placed @ samples).transpose(2, 3)  # (n, views, depth * height * width, 3)
    grid = points.reshape(n, views * VOXELS, VOXELS, VOXELS, 3)  # all views of a volume in one call
    return F.grid_sample(volumes, grid, align_corners=False).view(n, views, VOXELS, VOXELS, VOXELS)


class ObjectReconstruction3D(Task):
    """Perspective Transformer Nets on drawn solids; as a variant, AtlasNet."""

    presets: ClassVar[Mapping[str, ReconstructionSettings]] = {
        "paper": ReconstructionSettings(),
        "small": ReconstructionSettings(batch_size=1, views=2, width=32, hidden=512, latent=256, points=500, code=256),
        "tiny": ReconstructionSettings(
            batch_size=1, views=2, width=4, hidden=64, latent=32, points=100, sheets=5, code=64
        ),
    }
    variants: ClassVar[Mapping[str, str]] = {
        "atlasnet": "AtlasNet-25, an autoencoder of point clouds: what AIBench's PyTorch code runs"
    }

    def configure(self, preset: str, *, variant: str | None = None, **options: Any) -> Config:
        if variant == "atlasnet":  # has a batch and an optimizer of its own
            own = {"batch_size": ATLASNET_BATCH.get(preset, "1"), "lr": "1e-3"}
            options["overrides"] = {**own, **(options.get("overrides") or {})}
        return super().configure(preset, variant=variant, **options)

    def build(self, config: Config) -> Built:
        if config.variant == "atlasnet":
            return atlasnet.build(config)
        settings: ReconstructionSettings = config.settings
        torch.manual_seed(config.seed)
        with torch.device(config.device):  # built in place: a module of fake tensors cannot be moved
            encoder = Encoder(settings.width, settings.hidden, settings.latent)
            decode = decoder(settings.width, settings.latent)
        samples = rays().to(config.device)
        modules: dict[str, nn.Module] = {"encoder": encoder, "decoder": decode}
        named = [pair for module in modules.values() for pair in module.named_parameters()]
        weights, biases = ([p for name, p in named if name.endswith(end)] for end in ("weight", "bias"))
        groups: list[dict[str, Any]] = [{"params": weights, "weight_decay": settings.weight_decay}, {"params": biases}]
        optimizer = torch.optim.Adam(groups, lr=settings.lr, foreach=True)

        def batch(index: int) -> list[Tensor]:
            return [tensor.to(config.device) for tensor in scenes(settings, data.generator(config.seed, index))]

        def infer(batch: list[Tensor]) -> Tensor:
            images, placed, _ = batch
            with config.autocast():
                identity, _ = encoder(images)
                volumes = decode(identity)
            return look(volumes.float(), placed, samples).amax(dim=2)  # bf16 is too coarse for coordinates

        def step(batch: list[Tensor]) -> Tensor:
            optimizer.zero_grad(set_to_none=True)
            wrong = (infer(batch) - batch[2]).square().sum() / 2
            loss = settings.projection_weight * wrong / (settings.batch_size * settings.views)
            loss.backward()
            optimizer.step()
            return loss.detach()

        views = settings.batch_size * settings.encoded
        return Built(step, batch, modules, views, {"model": optimizer}, infer=infer)


def scenes(settings: ReconstructionSettings, rng: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Images (n, 3, 64, 64), for each the cameras (n, views / encoded, 3, 4) that look at its volume, and the
    silhouettes (n, views / encoded, 32, 32) that they should see; n = batch * encoded. On the CPU."""
    batch, views, each = settings.batch_size, settings.views, settings.views // settings.encoded
    volumes = solids(batch, rng)
    order = torch.rand(batch, views, generator=rng).argsort(dim=1)
    placed = cameras(views)[order]  # (batch, views, 3, 4)
    seen = look(volumes, placed, rays())  # (batch, views, depth, 32, 32)
    shade = torch.linspace(1.0, 0.3, VOXELS)[:, None, None]  # near is light
    images = (seen * shade).amax(dim=2)[:, ::each].flatten(0, 1).unsqueeze(1)
    colours = 0.4 + 0.6 * torch.rand(batch, 3, 1, 1, generator=rng)
    images = F.interpolate(images, size=SIDE, mode="bilinear") * colours.repeat_interleave(settings.encoded, dim=0)
    placed, masks = placed.roll(-1, dims=1), seen.amax(dim=2).roll(-1, dims=1)  # from the next view's place
    return images, placed.reshape(-1, each, 3, 4), masks.reshape(-1, each, VOXELS, VOXELS)


def solids(n: int, rng: torch.Generator) -> Tensor:
    """Volumes (n, 1, 32, 32, 32) of zeros and ones: unions of boxes and ellipsoids near the middle."""
    shape = (n, PARTS, 3, 1, 1, 1)
    centres = 0.5 * (torch.rand(shape, generator=rng) * 2 - 1)
    radii = 0.18 + 0.38 * torch.rand(shape, generator=rng)
    box = torch.rand(n, PARTS, 1, 1, 1, generator=rng) < 0.5
    places = (torch.arange(VOXELS) + 0.5) * 2 / VOXELS - 1
    grid = torch.stack(torch.meshgrid(places, places, places, indexing="ij"))  # (3, 32, 32, 32)
    apart = (grid - centres) / radii
    inside = torch.where(box, apart.abs().amax(dim=2), apart.norm(dim=2)) < 1
    return inside.any(dim=1, keepdim=True).float()
