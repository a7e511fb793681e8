"""FaceNet and its variant: sizes by hand, three passes a triplet, the mask against the reference's filter."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.flop_counter import FlopCounterMode

from wcbench.errors import UsageError
from wcbench.tasks.base import Built
from wcbench.tasks.vision.face_embedding import FaceEmbedding


def built(preset: str = "tiny", variant: str | None = None, **overrides: str) -> Built:
    task = FaceEmbedding()
    return task.build(task.configure(preset, variant=variant, overrides=overrides))


def measured(variant: str | None) -> tuple[int, float]:
    """Parameters, and FLOPs of one face, of the network at paper scale: three faces in one pass."""
    with FakeTensorMode():
        task = built("paper", variant, batch_size="1")
        with FlopCounterMode(display=False) as counter:
            assert task.infer is not None
            task.infer(task.batch(0))
    return sum(p.numel() for p in task.modules["model"].parameters()), counter.get_total_flops() / 3


# Inception-ResNet-v1 at 160x160: (output side, outputs, inputs, kernel's pixels) of each normalized convolution.
STEM = [(79, 32, 3, 9), (77, 32, 32, 9), (77, 64, 32, 9), (38, 80, 64, 1), (36, 192, 80, 9), (17, 256, 192, 9)]
BLOCK35 = [(17, 32, 256, 1)] * 3 + [(17, 32, 32, 9)] * 3
REDUCTION_A = [(8, 384, 256, 9), (17, 192, 256, 1), (17, 192, 192, 9), (8, 256, 192, 9)]
BLOCK17 = [(8, 128, 896, 1)] * 2 + [(8, 128, 128, 7)] * 2
REDUCTION_B = [(8, 256, 896, 1)] * 3 + [(3, 384, 256, 9), (3, 256, 256, 9), (8, 256, 256, 9), (3, 256, 256, 9)]
BLOCK8 = [(3, 192, 1792, 1)] * 2 + [(3, 192, 192, 3)] * 2
NORMALIZED = STEM + 5 * BLOCK35 + REDUCTION_A + 10 * BLOCK17 + REDUCTION_B + 6 * BLOCK8
JOINS = 5 * [(17, 256, 96, 1)] + 10 * [(8, 896, 256, 1)] + 6 * [(3, 1792, 384, 1)]  # with biases


def test_inception_resnet_by_hand() -> None:
    parameters = sum(outputs * inputs * pixels + 2 * outputs for _, outputs, inputs, pixels in NORMALIZED)
    parameters += sum(outputs * inputs + outputs for _, outputs, inputs, _ in JOINS) + 1792 * 512 + 2 * 512
    products = sum(side**2 * outputs * inputs * pixels for side, outputs, inputs, pixels in NORMALIZED + JOINS)
    flops = 2 * (products + 1792 * 512)
    assert measured(None) == (parameters, flops) == (23_482_624, 2_835_324_608)


def test_the_variant_by_hand() -> None:
    """ResNet-34 on 182x182: sides 91, then 46, 23, 12, 6. The classifier is no part of an embedding."""
    layers = [(91, 64, 3 * 49)]
    for stage, (blocks, side) in enumerate(zip((3, 4, 6, 3), (46, 23, 12, 6), strict=True)):
        width = 64 * 2**stage
        layers += [(side, width, width * 9)] * (2 * blocks - (stage > 0))
        if stage > 0:
            layers += [(side, width, width // 2 * 9), (side, width, width // 2)]  # a strided block and its shortcut
    trunk = sum(outputs * inner + 2 * outputs for _, outputs, inner in layers)
    parameters = trunk + (18_432 * 128 + 128) + (128 * 10_000 + 10_000)
    flops = 2 * (sum(side**2 * outputs * inner for side, outputs, inner in layers) + 18_432 * 128)
    assert measured("resnet34") == (parameters, flops) == (24_934_096, 5_181_967_744)


@pytest.mark.parametrize(
    ("variant", "batch_size", "passes"), [(None, "2", 3), (None, "1", 1), ("resnet34", "2", 6), ("resnet34", "1", 2)]
)
def test_passes_of_a_step(variant: str | None, batch_size: str, passes: int) -> None:
    """One for each part of a triplet; the variant's once more for its classifier; a single triplet's parts as one."""
    task = built(variant=variant, batch_size=batch_size)
    task.step(task.batch(0))
    counts = {int(m.num_batches_tracked or 0) for m in task.modules["model"].modules() if isinstance(m, nn.BatchNorm2d)}
    assert counts == {passes}
    assert task.samples == 3 * int(batch_size)


def test_the_variants_classifier_learns_nothing() -> None:
    task = built(variant="resnet34")
    model: Any = task.modules["model"]
    calls: list[Tensor] = []
    model.classifier.register_forward_hook(lambda _module, _inputs, logits: calls.append(logits))
    task.step(task.batch(0))
    assert [tuple(logits.shape) for logits in calls] == [(2, 10_000)] * 3
    assert model.classifier.weight.grad is None
    assert model.embed.weight.grad is not None


def test_embeddings_have_their_length() -> None:
    for variant, length, width in ((None, 1.0, 512), ("resnet34", 10.0, 128)):
        task = built(variant=variant)
        assert task.infer is not None
        with torch.no_grad():
            embeddings = torch.cat(task.infer(task.batch(0)))
        assert embeddings.shape == (6, width)
        assert embeddings.norm(dim=1).tolist() == pytest.approx([length] * 6, rel=1e-4)


def test_the_mask_is_the_references_filter() -> None:
    """The reference averages over the violating triplets alone. The variant has no dropout: its passes repeat."""
    task = built(variant="resnet34", batch_size="5")
    batch = task.batch(0)
    assert task.infer is not None
    with torch.no_grad():
        anchor, positive, negative = (part.double() for part in task.infer(batch))
    gap = (anchor - positive).norm(dim=1) - (anchor - negative).norm(dim=1)
    low, high = sorted(gap.tolist())[1:3]
    margin = -(low + high) / 2  # three of the five violate it
    violating = [float(value) + margin for value in gap if value + margin > 0]
    assert len(violating) == 3
    again = built(variant="resnet34", batch_size="5", margin=repr(margin))
    assert float(again.step(batch)) == pytest.approx(sum(violating) / 3, rel=1e-2)


def test_a_step_without_violating_triplets_runs() -> None:
    task = built(margin="-100")
    assert float(task.step(task.batch(0))) == 0
    gradients = [parameter.grad for parameter in task.modules["model"].parameters()]
    assert all(gradient is not None and float(gradient.abs().max()) == 0 for gradient in gradients)


def test_faces_of_a_person_are_nearer() -> None:
    faces = built(batch_size="64").batch(0)
    assert faces.shape == (3, 64, 3, 80, 80)
    assert float(faces.abs().max()) <= 1
    assert float(faces.mean()) == pytest.approx(0, abs=0.02)
    anchor, positive, negative = faces.flatten(2)
    near, far = (anchor - positive).norm(dim=1), (anchor - negative).norm(dim=1)
    assert float(near.min()) > 0
    assert 0.7 < float((near < far).float().mean()) < 1
    neighbours = torch.stack((faces[..., 1:].flatten(), faces[..., :-1].flatten()))
    assert float(torch.corrcoef(neighbours)[0, 1]) > 0.85


def test_a_stranger_is_another_person() -> None:
    """Of two people the stranger is always the other one."""
    anchor, positive, negative = built(batch_size="64", identities="2").batch(0).flatten(2)
    near, far = (anchor - positive).norm(dim=1), (anchor - negative).norm(dim=1)
    assert float(far.mean()) > 1.05 * float(near.mean())


def test_it_learns() -> None:
    task = built(batch_size="4")
    batch = task.batch(0)
    losses = [float(task.step(batch)) for _ in range(16)]
    assert sum(losses[-4:]) < 0.5 * sum(losses[:4])


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"image_size": "74"}, "image size 74 is refused: convolutions without padding leave nothing"),
        ({"blocks": "5,10"}, r"blocks \(5, 10\) or layers \(1, 1, 1, 1\) is refused"),
        ({"layers": "3,4,6,0"}, r"layers \(3, 4, 6, 0\) is refused"),
        ({"identities": "1"}, "identities at 2"),
        ({"embedding": "0"}, "embedding and classes start at 1"),
        ({"width": "0"}, "width lies above 0"),
    ],
)
def test_what_is_refused(overrides: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        FaceEmbedding().configure("tiny", overrides=overrides)


def test_one_triplet_of_the_smallest_faces_works() -> None:
    task = built(image_size="75", batch_size="1")
    assert torch.isfinite(task.step(task.batch(0)))
