"""Stand-in images with boxes: the statistics that are COCO's and VOC's, and that the images show what the boxes say."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from wcbench.tasks import data
from wcbench.tasks.vision.boxes import COCO_BOXES, VOC_BOXES, Scene, Source, box_counts, draw_boxes


@pytest.mark.parametrize("mean", [COCO_BOXES, VOC_BOXES])
def test_boxes_an_image(mean: float) -> None:
    counts = box_counts(data.generator(0, 0), 50_000, mean=mean, most=10**6)
    assert float(counts.float().mean()) == pytest.approx(mean, rel=0.02)
    assert int(counts.min()) == 1
    # the tail of a geometric law: (1 - 1/mean) ** 20 of the images hold more than 20
    assert float((counts > 20).float().mean()) == pytest.approx((1 - 1 / mean) ** 20, abs=0.003)


def test_the_tail_of_coco_reaches_60() -> None:
    counts = box_counts(data.generator(0, 0), 100_000, mean=COCO_BOXES, most=10**6)
    assert float(counts.float().quantile(0.9995)) == pytest.approx(50, abs=8)


def test_boxes_are_cut_and_one_is_the_least() -> None:
    rng = data.generator(0, 0)
    assert int(box_counts(rng, 1000, mean=COCO_BOXES, most=8).max()) == 8
    assert box_counts(rng, 3, mean=1.0, most=8).tolist() == [1, 1, 1]


def test_sizes_are_small_medium_and_large_as_in_coco() -> None:
    boxes = draw_boxes(data.generator(0, 0), (50_000,), height=480, width=640)
    width, height = (boxes[:, 2:] - boxes[:, :2]).unbind(1)
    area = width * height
    small, large = float((area < 32**2).float().mean()), float((area >= 96**2).float().mean())
    assert small == pytest.approx(0.41, abs=0.015)
    assert large == pytest.approx(0.24, abs=0.015)
    assert 0.5 <= float((width / height).min()) < 0.52
    assert 1.9 < float((width / height).max()) <= 2.0001


@pytest.mark.parametrize(("height", "width"), [(480, 640), (800, 1344), (64, 64)])
def test_boxes_lie_in_the_image(height: int, width: int) -> None:
    boxes = draw_boxes(data.generator(0, 0), (5000,), height=height, width=width)
    assert float(boxes.min()) >= 0
    assert float(boxes[:, 2].max()) <= width + 1e-3
    assert float(boxes[:, 3].max()) <= height + 1e-3
    assert float((boxes[:, 2:] - boxes[:, :2]).min()) >= 2 - 1e-3


def scene(**options: Any) -> Scene:
    settings: dict[str, Any] = {"height": 60, "width": 80, "classes": 5, "mean": 3.0, "most": 6}
    return Source(**{**settings, **options}).scene(seed=1, index=2, batch=16)


def test_padding_is_marked() -> None:
    drawn = scene()
    assert drawn.boxes.shape == (16, 6, 4)
    assert 16 < int(drawn.valid.sum()) < 96
    assert torch.equal(drawn.labels > 0, drawn.valid)
    assert int(drawn.labels.max()) == 4
    assert (drawn.boxes[~drawn.valid] == torch.tensor([0.0, 0.0, 1.0, 1.0])).all()
    targets = drawn.targets()
    assert [len(target["boxes"]) for target in targets] == drawn.valid.sum(1).tolist()
    assert torch.equal(torch.cat([target["labels"] for target in targets]), drawn.labels[drawn.valid])
    assert set(drawn.padded()) == {"images", "boxes", "labels", "valid"}


def test_the_image_shows_the_boxes() -> None:
    """With one object in each image: one colour for each class within the box, noise around 0.5 outside."""
    drawn = scene(mean=1.0, height=240, width=320)
    colours: dict[int, Any] = {}
    for image, boxes, labels in zip(drawn.images, drawn.boxes, drawn.labels, strict=True):
        left, top, right, bottom = (round(edge) for edge in boxes[0].tolist())
        inside = torch.zeros(240, 320, dtype=torch.bool)
        inside[top + 1 : bottom - 1, left + 1 : right - 1] = True
        outside = torch.ones(240, 320, dtype=torch.bool)
        outside[max(0, top - 1) : bottom + 1, max(0, left - 1) : right + 1] = False
        assert image[:, outside].mean(1).tolist() == pytest.approx([0.5] * 3, abs=0.01)
        if int(inside.sum()) > 300:
            colour = image[:, inside].mean(1).tolist()
            assert colour == pytest.approx(colours.setdefault(int(labels[0]), colour), abs=0.05)
    assert len(colours) > 1


def test_masks_are_blocks_and_ellipses() -> None:
    drawn = scene(masks=True, height=240, width=320)
    assert drawn.masks is not None
    assert drawn.masks.shape == (16, 6, 240, 320)
    assert drawn.masks.dtype == torch.uint8
    width, height = (drawn.boxes[..., 2:] - drawn.boxes[..., :2]).unbind(-1)
    area = drawn.masks.sum((2, 3)) / (width * height)
    big = drawn.valid & (width * height > 1000)
    odd, even = big & (drawn.labels % 2 == 1), big & (drawn.labels % 2 == 0)
    assert area[odd].tolist() == pytest.approx([1.0] * int(odd.sum()), rel=0.06)
    assert area[even].tolist() == pytest.approx([math.pi / 4] * int(even.sum()), rel=0.06)
    assert min(int(odd.sum()), int(even.sum())) > 3
    assert [len(target["masks"]) for target in drawn.targets()] == drawn.valid.sum(1).tolist()


def test_colours_are_the_same_in_all_batches() -> None:
    source = Source(240, 320, 2, 1.0, 1)
    first, second = source.scene(0, 0, 8), source.scene(0, 1, 8)
    assert not torch.equal(first.boxes, second.boxes)
    peaks = [(drawn.images - 0.5).abs().flatten(2).quantile(0.999, dim=2).mean(0) for drawn in (first, second)]
    assert peaks[0].tolist() == pytest.approx(peaks[1].tolist(), abs=0.1)
