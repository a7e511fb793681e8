"""Stand-in images with boxes: what COCO and PASCAL VOC give a detector, where only the statistics are theirs.

- Boxes an image: geometric, at least one. COCO has 7.3 with a tail to about 60, VOC2007 2.47 (24,640 objects in 9,963
  images).
- Sizes, counted on a canvas of 640x480 pixels and then stretched with it: small (area below 32x32), medium and large
  (from 96x96 up) as 41 : 34 : 24, as remembered of COCO. VOC's sizes were not found and are taken to be the same.
- An object is a coloured block or ellipse, one colour for each class, on noise: there is something to learn.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from wcbench.tasks import data

COCO_BOXES, VOC_BOXES = 7.3, 2.47  # mean boxes an image
CANVAS = (480, 640)  # height and width on which sizes are counted
SIDES = (8.0, 32.0, 96.0, 320.0)  # bounds of the square root of an area: small, medium, large
SHARES = (41, 34, 24)  # per cent, rounded
LEAST = 2.0  # pixels that an object has at least, however small the image
NOISE = 0.1


@dataclass(frozen=True)
class Scene:
    """Images with padded boxes.

    Attributes
    ----------
    images : (batch, 3, height, width), float32, mostly in [0, 1].
    boxes : (batch, most, 4), float32: left, top, right, bottom in pixels; padding is the top left pixel.
    labels : (batch, most), int64, classes from 1 up (0 is the background); 0 where padded.
    valid : (batch, most), bool: no padding.
    masks : (batch, most, height, width), uint8, where asked for.
    """

    images: Tensor
    boxes: Tensor
    labels: Tensor
    valid: Tensor
    masks: Tensor | None = None

    def padded(self) -> dict[str, Tensor]:
        """The tensors by name."""
        return {key: value for key, value in vars(self).items() if value is not None}

    def targets(self) -> list[dict[str, Tensor]]:
        """One mapping of boxes, labels and masks for each image, without the padding, as torchvision takes them."""
        found = []
        for row, valid in enumerate(self.valid):
            target = {"boxes": self.boxes[row][valid], "labels": self.labels[row][valid]}
            if self.masks is not None:
                target["masks"] = self.masks[row][valid]
            found.append(target)
        return found


@dataclass(frozen=True)
class Source:
    """What all scenes of a data set share.

    Attributes
    ----------
    height, width : of the images, in pixels.
    classes : labels, the background among them.
    mean : boxes an image.
    most : boxes kept of an image, and rows to pad to.
    masks : whether objects have masks; they are then blocks and ellipses in turn of the label, else all are blocks.
    """

    height: int
    width: int
    classes: int
    mean: float
    most: int
    masks: bool = False

    def scene(self, seed: int, index: int, batch: int) -> Scene:
        """The images of a step index."""
        rng = data.generator(seed, index)
        counts = box_counts(rng, batch, mean=self.mean, most=self.most)
        valid = torch.arange(self.most) < counts[:, None]
        boxes = draw_boxes(rng, (batch, self.most), height=self.height, width=self.width)
        boxes = torch.where(valid[..., None], boxes, torch.tensor([0.0, 0.0, 1.0, 1.0]))
        labels = torch.randint(1, self.classes, valid.shape, generator=rng) * valid
        palette = torch.rand(self.classes, 3, generator=data.generator(seed, data.DATASET)) - 0.5
        colours = palette[labels] * valid[..., None]  # (batch, most, 3)
        images = 0.5 + NOISE * torch.randn(batch, 3, self.height, self.width, generator=rng)
        if not self.masks:
            return Scene(images + self._blocks(boxes, colours), boxes, labels, valid)
        masks = torch.stack([self._shapes(*rows) for rows in zip(boxes, labels, strict=True)])
        painted = [torch.einsum("nc,nhw->chw", *rows) for rows in zip(colours, masks.float(), strict=True)]
        return Scene(images + torch.stack(painted), boxes, labels, valid, masks)

    def _blocks(self, boxes: Tensor, colours: Tensor) -> Tensor:
        """Colours added up over the boxes, (batch, 3, height, width): a sum of products of rows and columns."""
        rows, columns = self._inside(boxes)  # (batch, most, height), (batch, most, width)
        painted = colours[..., None] * rows[:, :, None].float()  # (batch, most, 3, height)
        return torch.einsum("bnch,bnw->bchw", painted, columns.float())

    def _shapes(self, boxes: Tensor, labels: Tensor) -> Tensor:
        """Masks (most, height, width) of an image: blocks (odd labels) and ellipses that fill their box (even ones)."""
        rows, columns = self._inside(boxes)
        half = (boxes[..., 2:] - boxes[..., :2]) / 2
        centre = boxes[..., :2] + half
        across = (torch.arange(self.width) + 0.5 - centre[..., :1]) / half[..., :1]
        down = (torch.arange(self.height) + 0.5 - centre[..., 1:]) / half[..., 1:]
        ellipse = down.square()[..., None] + across.square()[..., None, :] <= 1
        block = rows[..., None] & columns[..., None, :]
        return torch.where((labels % 2 == 0)[..., None, None], ellipse, block).to(torch.uint8)

    def _inside(self, boxes: Tensor) -> tuple[Tensor, Tensor]:
        left, top, right, bottom = (edge[..., None] for edge in boxes.unbind(-1))
        y, x = torch.arange(self.height) + 0.5, torch.arange(self.width) + 0.5
        return (y > top) & (y < bottom), (x > left) & (x < right)


def box_counts(rng: torch.Generator, images: int, *, mean: float, most: int) -> Tensor:
    """Boxes of each image (images,), int64, from 1 up to ``most``: geometric with that mean before it is cut."""
    if mean <= 1:
        return torch.ones(images, dtype=torch.int64)
    uniform = torch.rand(images, dtype=torch.float64, generator=rng)
    more = (1 - uniform).log() / torch.log1p(torch.tensor(-1 / mean, dtype=torch.float64))
    return (1 + more.floor()).clamp(max=most).to(torch.int64)


def draw_boxes(rng: torch.Generator, shape: tuple[int, ...], *, height: int, width: int) -> Tensor:
    """Boxes (*shape, 4) in pixels of an image: log-uniform sides within small, medium or large, aspect 1/2 to 2."""
    sides = torch.tensor(SIDES).log()
    shares = torch.tensor(SHARES, dtype=torch.float64).cumsum(0)
    size = data.draw(shares / shares[-1], shape, rng)
    where, aspect, x, y = torch.rand(4, *shape, generator=rng)
    side = (sides[size] + where * (sides[size + 1] - sides[size])).exp()
    stretch = 2 ** (aspect - 0.5)  # square root of width / height
    canvas = torch.tensor([float(CANVAS[1]), float(CANVAS[0])])
    zoom = torch.tensor([float(width), float(height)]) / canvas
    extent = torch.maximum(torch.stack((side * stretch, side / stretch), dim=-1), LEAST / zoom)
    corner = torch.stack((x, y), dim=-1) * (canvas - extent)
    return torch.cat((corner * zoom, (corner + extent) * zoom), dim=-1)
