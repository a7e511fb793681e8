"""The spatial transformer: sizes by hand, and that it starts by changing nothing."""

from __future__ import annotations

import pytest
import torch

from wcbench.errors import UsageError
from wcbench.tasks.catalog import TASKS, TaskRow
from wcbench.tasks.vision.spatial_transformer import DEVIATION, MEAN, SpatialTransformer, SpatialTransformerNet

ROW = TASKS.row("spatial-transformer")


def test_flops_by_hand() -> None:
    """Output pixels x outputs x inputs. The grid (784 points x 2 x 3) is torch's own operator and not counted."""
    localiser = 22**2 * 8 * 7**2 + 7**2 * 10 * (8 * 5**2) + 90 * 32 + 32 * 6
    classifier = 24**2 * 10 * 5**2 + 8**2 * 20 * (10 * 5**2) + 320 * 50 + 50 * 10
    assert isinstance(ROW, TaskRow)
    assert 2 * (localiser + classifier) == ROW.forward_flops == 1_542_600


def test_parameters_by_hand() -> None:
    localiser = (49 * 8 + 8) + (8 * 25 * 10 + 10) + (90 * 32 + 32) + (32 * 6 + 6)
    classifier = (25 * 10 + 10) + (10 * 25 * 20 + 20) + (320 * 50 + 50) + (50 * 10 + 10)
    assert localiser + classifier == sum(p.numel() for p in SpatialTransformerNet().parameters()) == 27_360


def multiplications(localiser: tuple[int, ...], classifier: tuple[int, ...]) -> int:
    """Multiply-accumulates of one image through layers of the given widths."""
    (a, b, hidden), (c, d, units) = localiser, classifier
    first = 22**2 * a * 7**2 + 7**2 * b * (a * 5**2) + 9 * b * hidden + hidden * 6
    return first + 24**2 * c * 5**2 + 8**2 * d * (c * 5**2) + 16 * d * units + units * 10


def test_tiny_does_less_than_a_two_hundredth_of_the_papers_work() -> None:
    paper, tiny = SpatialTransformer.presets["paper"], SpatialTransformer.presets["tiny"]
    assert multiplications(paper.localiser, paper.classifier) == 771_300
    work = [s.batch_size * multiplications(s.localiser, s.classifier) for s in (paper, tiny)]
    assert work[0] > 200 * work[1]


@pytest.mark.parametrize("name", ["localiser", "classifier"])
@pytest.mark.parametrize("widths", ["8,10", "8,10,0"])
def test_widths_that_cannot_work_are_refused(name: str, widths: str) -> None:
    with pytest.raises(UsageError, match=rf"{name} \(8, 10.*is refused"):
        SpatialTransformer().configure("tiny", overrides={name: widths})


def test_inference_gives_log_probabilities() -> None:
    task = SpatialTransformer()
    built = task.build(task.configure("tiny", batch_size=3))
    assert built.infer is not None
    assert torch.allclose(built.infer(built.batch(0)).exp().sum(dim=1), torch.ones(3))


def test_it_starts_at_the_identity() -> None:
    torch.manual_seed(0)
    model = SpatialTransformerNet().eval()
    images = torch.rand(5, 1, 28, 28)
    assert torch.allclose(model(images), model.classifier(images), atol=1e-4)


def test_the_digits_are_normalized_and_on_a_dark_canvas() -> None:
    task = SpatialTransformer()
    images, labels = task.build(task.configure("paper", batch_size=256)).batch(0)
    assert images.shape == (256, 1, 28, 28)
    background = torch.isclose(images, torch.tensor(-MEAN / DEVIATION))
    assert float(background.float().mean()) == pytest.approx(0.80, abs=0.02)
    assert float(images.mean()) == pytest.approx(0.0, abs=0.1)
    assert float(images.std()) == pytest.approx(1.0, abs=0.1)
    assert set(labels.tolist()) == set(range(10))


def test_it_learns() -> None:
    """Upright digits, for speed; chance is ln 10 = 2.30."""
    task = SpatialTransformer()
    built = task.build(task.configure("small", overrides={"momentum": "0.9", "rotation": "0", "shift": "0"}))
    losses = [float(built.step(built.batch(index))) for index in range(100)]
    assert sum(losses[-20:]) / 20 < 1.3
