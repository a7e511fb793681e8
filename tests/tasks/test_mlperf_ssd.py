"""SSD: sizes by hand, priors and matches by plain loops, the mining of negatives, that it learns."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.flop_counter import FlopCounterMode

from wcbench.errors import UsageError
from wcbench.tasks.mlperf.ssd import MlperfSsd, Ssd, loss_of, map_sides, match, priors

CATALOGUE = 31_724_200_000  # tasks.csv: FLOPs of one 300x300 image
SIDES = (38, 19, 10, 5, 3, 1)
CHANNELS = (256, 512, 512, 256, 256, 256)
INNER = (256, 256, 128, 128, 128)
SHAPES = (4, 6, 6, 6, 4, 4)


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def layers() -> list[tuple[int, int, int, int, bool]]:
    """Each convolution: output places, inputs times kernel, outputs, normalized channels, whether it has a bias."""
    found = [(150**2, 3 * 49, 64, 64, False)]
    inputs = 64
    for outputs, blocks, side in ((64, 3, 75), (128, 4, 38), (256, 6, 38)):
        for block in range(blocks):
            if block == 0 and inputs != outputs:
                found.append((side**2, inputs, outputs, outputs, False))
            found.append((side**2, inputs * 9, outputs, outputs, False))
            found.append((side**2, outputs * 9, outputs, outputs, False))
            inputs = outputs
    for level, inner in enumerate(INNER):
        found.append((SIDES[level] ** 2, CHANNELS[level], inner, 0, True))
        found.append((SIDES[level + 1] ** 2, inner * 9, CHANNELS[level + 1], 0, True))
    for side, channels, shapes in zip(SIDES, CHANNELS, SHAPES, strict=True):
        found.append((side**2, channels * 9, shapes * 4, 0, True))
        found.append((side**2, channels * 9, shapes * 81, 0, True))
    return found


def test_parameters_by_hand() -> None:
    total = sum(inputs * outputs + 2 * norm + bias * outputs for _, inputs, outputs, norm, bias in layers())
    with torch.device("meta"):
        assert sum(p.numel() for p in Ssd(64, 81, map_sides(300)).parameters()) == total == 19_972_534


def test_flops_by_hand() -> None:
    total = 2 * sum(places * inputs * outputs for places, inputs, outputs, *_ in layers())
    task = MlperfSsd()
    with FakeTensorMode(allow_non_fake_inputs=True):
        built = task.build(task.configure("paper", batch_size=1))
        batch = built.batch(0)
        with FlopCounterMode(display=False) as counter:
            built.infer(batch)  # type: ignore[misc]
        assert counter.get_total_flops() == total == pytest.approx(CATALOGUE, rel=1e-5)
        with FlopCounterMode(display=False) as counter:
            built.step(batch)
    assert counter.get_total_flops() == 3 * total  # the images' gradient, too, is asked for


def test_priors() -> None:
    places = priors(300)
    assert places.shape == (8732, 4)
    assert map_sides(300) == list(SIDES)
    assert places[0].tolist() == pytest.approx([4 / 300, 4 / 300, 0.07, 0.07])
    assert places[1].tolist() == pytest.approx([12 / 300, 4 / 300, 0.07, 0.07])  # the next place of the same shape
    second, wide = places[38**2], places[2 * 38**2]
    assert second[2:].tolist() == pytest.approx([math.sqrt(21 * 45) / 300] * 2)
    assert wide[2:].tolist() == pytest.approx([21 * math.sqrt(2) / 300, 21 / math.sqrt(2) / 300])
    assert places[-4].tolist() == pytest.approx([0.5, 0.5, 261 / 300, 261 / 300])
    assert float(places.min()) == pytest.approx(4 / 300)
    assert float(places.max()) == 1.0


@pytest.mark.parametrize("side", [96, 128, 300])
def test_a_prior_for_every_output(side: int) -> None:
    with torch.device("meta"):
        offsets, scores = Ssd(2, 3, map_sides(side)).eval()(torch.empty(1, 3, side, side))
    assert offsets.shape[1:] == (4, len(priors(side)))
    assert scores.shape[1:] == (3, len(priors(side)))


def overlap(a: list[float], b: list[float]) -> float:
    width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    shared = max(width, 0.0) * max(height, 0.0)
    return shared / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - shared)


def test_matches_by_plain_loops() -> None:
    """The best prior of each object first; every other prior goes to the object that it shares more than half with."""
    torch.manual_seed(0)
    places = priors(96)
    corners = torch.rand(5, 2, 2)
    boxes = torch.cat((corners.min(1).values, corners.max(1).values + 0.02), 1)
    boxes[2] = boxes[1] + 0.001
    labels, valid = torch.tensor([3, 1, 2, 4, 4]), torch.tensor([True, True, True, True, False])
    aim, classes = match(places, boxes, labels, valid)

    edges = [[x - w / 2, y - h / 2, x + w / 2, y + h / 2] for x, y, w, h in places.tolist()]
    shares = [[overlap(box, edge) for edge in edges] for box in boxes[:4].tolist()]
    owner = [max(range(4), key=lambda row: shares[row][at]) for at in range(len(edges))]
    taken = [shares[owner[at]][at] > 0.5 for at in range(len(edges))]
    for row in range(4):
        best = max(range(len(edges)), key=lambda at: shares[row][at])
        owner[best], taken[best] = row, True
    expected = [int(labels[row]) if own else 0 for row, own in zip(owner, taken, strict=True)]
    assert classes.tolist() == expected
    assert len({label for label in expected if label}) >= 3
    for at, (row, own) in enumerate(zip(owner, taken, strict=True)):
        left, top, right, bottom = boxes[row].tolist()
        box = [(left + right) / 2, (top + bottom) / 2, right - left, bottom - top]
        assert aim[:, at].tolist() == pytest.approx(box if own else places[at].tolist(), abs=1e-5)


def test_three_negatives_for_each_positive() -> None:
    """The loss by a plain loop over images: the positives, and the negatives with the largest cross entropy."""
    torch.manual_seed(0)
    places = priors(96)
    count = len(places)
    offsets, scores = torch.randn(2, 4, count), torch.randn(2, 5, count, requires_grad=True)
    labels = torch.zeros(2, count, dtype=torch.int64)
    labels[0, [3, 70, 400]] = torch.tensor([1, 2, 4])
    labels[1, 9] = 3
    aim = places.T.repeat(2, 1, 1)
    loss = loss_of(offsets, scores, aim, labels, places)

    expected = torch.zeros(())
    for image in range(2):
        positive = labels[image] > 0
        wrong = F.cross_entropy(scores[image].T, labels[image], reduction="none")
        worst = wrong[~positive].topk(3 * int(positive.sum())).values
        moved = F.smooth_l1_loss(offsets[image][:, positive], torch.zeros(4, int(positive.sum())), reduction="sum")
        expected = expected + (wrong[positive].sum() + worst.sum() + moved) / positive.sum() / 2
    assert torch.allclose(loss, expected)
    (gradient,) = torch.autograd.grad(loss, scores)
    assert int((gradient.abs().sum(1) > 0).sum()) == (3 + 9) + (1 + 3)


def test_offsets_are_scaled_by_the_prior() -> None:
    """A tenth of the extent is 1, and e times the extent is 5: then only the classes are wrong, ln 2 for each of 4."""
    places = torch.tensor([0.5, 0.5, 0.2, 0.4]).repeat(8, 1)
    labels = torch.tensor([[1, 0, 0, 0, 0, 0, 0, 0]])
    aim = places.T[None].clone()
    aim[0, :, 0] = torch.tensor([0.52, 0.46, 0.2 * math.e, 0.4])
    offsets = torch.zeros(1, 4, 8)
    offsets[0, :, 0] = torch.tensor([1.0, -1.0, 5.0, 0.0])
    assert float(loss_of(offsets, torch.zeros(1, 2, 8), aim, labels, places)) == pytest.approx(
        4 * math.log(2), abs=1e-4
    )


def test_batches_are_matched() -> None:
    task = MlperfSsd()
    images, aim, labels = task.build(task.configure("tiny", batch_size=8)).batch(0)
    assert images.shape == (8, 3, 96, 96)
    assert aim.shape[0] == labels.shape[0] == 8
    positive: Tensor = labels > 0
    assert (positive.sum(1) >= 1).all()
    assert float(positive.float().mean()) < 0.2


def test_it_learns() -> None:
    task = MlperfSsd()
    built = task.build(task.configure("tiny"))
    batch = built.batch(0)
    losses = [built.step(batch).item() for _ in range(15)]
    assert sum(losses[-3:]) / 3 < 0.6 * losses[0]


def test_what_is_refused() -> None:
    with pytest.raises(UsageError, match="image_size 32 is refused: it is 64 or more"):
        MlperfSsd().configure("tiny", overrides={"image_size": "32"})
