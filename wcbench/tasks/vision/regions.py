"""The step of Faster and Mask R-CNN whose shapes are all known beforehand, for fake tensors.

A real step is torchvision's own training forward, and depends on data: non-maximum suppression, sampling of anchors and
regions, regions by level of a pyramid, masks for positive regions alone. Under ``fixed_shapes`` the same modules run a
stand-in of the same work, which keeps torchvision's order of operators and differs in this:

- the best proposals by score take the place of those that survive non-maximum suppression;
- regions are split evenly over the levels of a pyramid, the smaller ones on the finer levels;
- masks are computed for the largest number of positive regions that sampling allows, and those that are not positive
  weigh nothing;
- the target of a mask samples each bin 4x4 times, where torchvision takes the more samples the larger the region is;
- ground truth is padded, and the padding matches nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torchvision.models.detection.rpn import concat_box_prediction_layers
from torchvision.ops import box_iou, clip_boxes_to_image, roi_align
from torchvision.ops.poolers import LevelMapper

BETA = 1 / 9  # of the smooth L1 losses
IGNORED = -1
MASK_SAMPLES = 4  # a side of each of the 28x28 bins, as torchvision takes for a region of 84 to 112 pixels


@dataclass(frozen=True)
class Proposed:
    """What the backbone and the proposal network make of images; lists go by image."""

    size: tuple[int, int]
    features: Mapping[str, Tensor]
    anchors: list[Tensor]
    objectness: Tensor  # (batch x anchors, 1)
    deltas: Tensor  # (batch x anchors, 4)
    proposals: list[Tensor]  # each (proposals, 4)


def propose(model: Any, images: Tensor, proposals: int) -> Proposed:
    """The first stage of Faster R-CNN, with the best proposals in place of what non-maximum suppression leaves."""
    rpn = model.rpn
    listed, _ = model.transform([*images])
    features = model.backbone(listed.tensors)
    maps = list(features.values())
    logits, deltas = rpn.head(maps)
    anchors = rpn.anchor_generator(listed, maps)
    counts = [level[0].numel() for level in logits]
    objectness, deltas = concat_box_prediction_layers(logits, deltas)
    decoded = rpn.box_coder.decode(deltas.detach(), anchors).view(len(images), -1, 4)
    scores = objectness.detach().view(len(images), -1)
    top = rpn._get_top_n_idx(scores, counts)
    rows = torch.arange(len(images), device=scores.device)[:, None]
    kept = []
    for boxes, score in zip(decoded[rows, top], scores[rows, top].sigmoid(), strict=True):
        best = score.topk(min(proposals, score.numel())).indices
        kept.append(clip_boxes_to_image(boxes, listed.image_sizes[0])[best])
    return Proposed(listed.image_sizes[0], features, anchors, objectness, deltas, kept)


def match(matcher: Any, truth: Tensor, valid: Tensor, boxes: Tensor) -> Tensor:
    """torchvision's Matcher with padded ground truth: the row that each box (n, 4) belongs to, or a negative mark."""
    quality = torch.where(valid[:, None], box_iou(truth, boxes), -1.0)
    value, best = quality.max(dim=0)
    rows = torch.where(value < matcher.high_threshold, matcher.BETWEEN_THRESHOLDS, best)
    rows = torch.where(value < matcher.low_threshold, matcher.BELOW_LOW_THRESHOLD, rows)
    if matcher.allow_low_quality_matches:  # what covers an object best belongs to it, however little that is
        closest = (quality == quality.max(dim=1, keepdim=True).values) & valid[:, None]
        rows = torch.where(closest.any(dim=0), best, rows)
    return rows


def sample(sampler: Any, labels: Tensor) -> tuple[Tensor, Tensor]:
    """As torchvision samples: at most a share of positives (label above 0), filled up with negatives (0).

    Returns indices, the positives first, and their labels, which are IGNORED where there was nothing left to sample.
    """
    count = min(sampler.batch_size_per_image, labels.numel())
    chance = torch.rand(labels.shape, device=labels.device)
    positive = labels > 0
    drawn = torch.where(positive, 1 + chance, 0.0).topk(positives(sampler, count)).indices
    chosen = torch.zeros_like(positive).index_fill(0, drawn, True) & positive
    keys = torch.where(chosen, 2.0, torch.where(labels == 0, chance, -1.0))
    keys, indices = keys.topk(count)
    return indices, torch.where(keys < 0, IGNORED, labels[indices])


def positives(sampler: Any, count: int) -> int:
    """The most positives among so many samples of an image."""
    return min(count, int(sampler.batch_size_per_image * sampler.positive_fraction))


def smooth_l1(deltas: Tensor, targets: Tensor, counts: Tensor) -> Tensor:
    """Summed over the rows that count; the other targets may be anything."""
    targets = torch.where(counts[..., None], targets, 0.0)
    distance: Tensor = F.smooth_l1_loss(deltas, targets, beta=BETA, reduction="none")
    return (distance * counts[..., None]).sum()


def proposal_losses(rpn: Any, seen: Proposed, truth: Tensor, valid: Tensor) -> dict[str, Tensor]:
    """Losses of the proposal network on a sample of the anchors."""
    labels, near = [], []
    for boxes, real, anchors in zip(truth, valid, seen.anchors, strict=True):
        rows = match(rpn.proposal_matcher, boxes, real, anchors)
        near.append(boxes[rows.clamp(min=0)])
        labels.append(torch.where(rows >= 0, 1, torch.where(rows == rpn.proposal_matcher.BELOW_LOW_THRESHOLD, 0, -1)))
    targets = rpn.box_coder.encode(near, seen.anchors)
    sampled = [sample(rpn.fg_bg_sampler, label) for label in labels]
    logits = [image[at] for image, (at, _) in zip(seen.objectness.view(len(truth), -1), sampled, strict=True)]
    label = torch.cat([label for _, label in sampled])
    counts = (label >= 0).float()
    wrong = F.binary_cross_entropy_with_logits(torch.cat(logits), label.clamp(min=0).float(), counts, reduction="sum")
    most = positives(rpn.fg_bg_sampler, sampled[0][0].numel())
    deltas = [image[at[:most]] for image, (at, _) in zip(seen.deltas.view(len(truth), -1, 4), sampled, strict=True)]
    wanted = [image[at[:most]] for image, (at, _) in zip(targets, sampled, strict=True)]
    positive = torch.cat([label[:most] > 0 for _, label in sampled])
    moved = smooth_l1(torch.cat(deltas), torch.cat(wanted), positive)
    return {"loss_objectness": wrong / counts.sum(), "loss_rpn_box_reg": moved / counts.sum()}


def pool(pooler: Any, seen: Proposed, regions: list[Tensor]) -> Tensor:
    """torchvision's MultiScaleRoIAlign, but every level gets its share of the regions."""
    maps = [seen.features[name] for name in pooler.featmap_names]
    exponents = [round(math.log2(level.shape[-2] / seen.size[0])) for level in maps]
    images = [torch.full_like(boxes[:, :1], image) for image, boxes in enumerate(regions)]
    rows = torch.cat((torch.cat(images), torch.cat(regions)), dim=1)  # (regions, 5)
    pooled: Tensor
    if len(maps) == 1:
        pooled = roi_align(maps[0], rows, pooler.output_size, 2.0 ** exponents[0], pooler.sampling_ratio)
        return pooled
    mapper = LevelMapper(-exponents[0], -exponents[-1], pooler.canonical_scale, pooler.canonical_level)
    pooled = maps[0].new_zeros(len(rows), maps[0].shape[1], *pooler.output_size)
    order = mapper(regions).argsort(stable=True).tensor_split(len(maps))
    for level, exponent, part in zip(maps, exponents, order, strict=True):
        pooled[part] = roi_align(level, rows[part], pooler.output_size, 2.0**exponent, pooler.sampling_ratio)
    return pooled


class Sampled(NamedTuple):
    """Regions to train on; lists go by image."""

    regions: list[Tensor]  # each (regions, 4), the positive ones first
    rows: list[Tensor]  # each (regions,): the ground truth that they are nearest to
    labels: Tensor  # (batch, regions): class, 0 for background, or IGNORED


def sample_regions(heads: Any, seen: Proposed, batch: Mapping[str, Tensor]) -> Sampled:
    """From the proposals and the ground truth itself, as torchvision does."""
    regions, rows, labels = [], [], []
    truth = zip(batch["boxes"], batch["valid"], batch["labels"], seen.proposals, strict=True)
    for boxes, valid, label, proposals in truth:
        candidates = torch.cat((proposals, boxes))
        matched = match(heads.proposal_matcher, boxes, valid, candidates)
        own = torch.where(matched >= 0, label[matched.clamp(min=0)], 0)  # one threshold: nothing lies between
        own = torch.cat((own[: len(proposals)], torch.where(valid, own[len(proposals) :], IGNORED)))
        at, kept = sample(heads.fg_bg_sampler, own)
        regions.append(candidates[at])
        rows.append(matched[at].clamp(min=0))
        labels.append(kept)
    return Sampled(regions, rows, torch.stack(labels))


def losses(model: Any, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """All losses of Faster R-CNN, or of Mask R-CNN where the batch has masks."""
    seen, heads = propose(model, batch["images"], model.rpn._post_nms_top_n["training"]), model.roi_heads
    found = sample_regions(heads, seen, batch)
    most = positives(heads.fg_bg_sampler, found.labels.shape[1])
    near = [boxes[row] for boxes, row in zip(batch["boxes"], found.rows, strict=True)]
    targets = torch.stack(heads.box_coder.encode(near, found.regions))[:, :most]
    logits, deltas = heads.box_predictor(heads.box_head(pool(heads.box_roi_pool, seen, found.regions)))
    label = found.labels[:, :most].clamp(min=0)
    deltas = deltas.view(*found.labels.shape, -1, 4)[:, :most]
    deltas = deltas.gather(2, label[..., None, None].expand(-1, -1, 1, 4)).squeeze(2)  # of the true class
    named = proposal_losses(model.rpn, seen, batch["boxes"], batch["valid"])
    named["loss_classifier"] = F.cross_entropy(logits, found.labels.flatten(), ignore_index=IGNORED)
    named["loss_box_reg"] = smooth_l1(deltas, targets, label > 0) / (found.labels >= 0).sum()
    if "masks" in batch:
        named["loss_mask"] = mask_loss(heads, seen, found, batch["masks"])
    return named


def mask_loss(heads: Any, seen: Proposed, found: Sampled, masks: Tensor) -> Tensor:
    """Cross entropy of the masks of the positive regions; the others that are computed with them weigh nothing."""
    most = positives(heads.fg_bg_sampler, found.labels.shape[1])
    regions, rows = [boxes[:most] for boxes in found.regions], [row[:most] for row in found.rows]
    logits: Tensor = heads.mask_predictor(heads.mask_head(pool(heads.mask_roi_pool, seen, regions)))
    side = logits.shape[-1]
    wanted = []
    for drawn, boxes, row in zip(masks, regions, rows, strict=True):
        at = torch.cat((row[:, None].to(boxes), boxes), dim=1)
        wanted.append(roi_align(drawn[:, None].float(), at, (side, side), 1.0, MASK_SAMPLES)[:, 0])
    label = found.labels[:, :most].clamp(min=0).flatten()
    own = logits[torch.arange(len(label), device=label.device), label]  # (batch x most, side, side)
    positive = (label > 0)[:, None, None]
    wrong = F.binary_cross_entropy_with_logits(own, torch.cat(wanted), reduction="none") * positive
    return wrong.sum() / (positive.sum().clamp(min=1) * side**2)


def detect(model: Any, batch: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
    """Inference: boxes, scores and masks of the best regions, without non-maximum suppression."""
    images, heads = batch["images"], model.roi_heads
    seen = propose(model, images, model.rpn._post_nms_top_n["testing"])
    logits, deltas = heads.box_predictor(heads.box_head(pool(heads.box_roi_pool, seen, seen.proposals)))
    boxes = heads.box_coder.decode(deltas, seen.proposals)[:, 1:].reshape(len(images), -1, 4)  # without background
    scores = F.softmax(logits, -1)[:, 1:].reshape(len(images), -1)
    top = scores.topk(min(heads.detections_per_img, scores.shape[1]))
    found = [clip_boxes_to_image(image[at], seen.size) for image, at in zip(boxes, top.indices, strict=True)]
    if not heads.has_mask():
        return torch.stack(found), top.values
    masks = heads.mask_predictor(heads.mask_head(pool(heads.mask_roi_pool, seen, found)))
    label = top.indices.flatten() % (logits.shape[1] - 1) + 1
    return torch.stack(found), top.values, masks.sigmoid()[torch.arange(len(label), device=label.device), label]
