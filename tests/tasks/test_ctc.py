"""CTC with fixed shapes: torch's own losses and gradients, shapes known beforehand, safe to load twice."""

from __future__ import annotations

import importlib.util
import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from wcbench.tasks.speech import ctc

TIME, BATCH, CLASSES, WIDTH = 50, 4, 29, 12
STEPS, LENGTHS = torch.tensor([50, 45, 30, 27]), torch.tensor([9, 5, 10, 1])  # none is as long as the padded width


def example() -> tuple[Tensor, Tensor, Tensor]:
    """Logits, labels, and a weight for each loss."""
    rng = torch.Generator().manual_seed(0)
    logits = torch.randn(TIME, BATCH, CLASSES, generator=rng, requires_grad=True)
    return logits, torch.randint(1, CLASSES, (BATCH, WIDTH), generator=rng), torch.randn(BATCH, generator=rng)


def check_against_torch(module: Any, lengths: Tensor = LENGTHS, blank: int = 0) -> None:
    logits, labels, weights = example()
    labels = labels if blank == 0 else labels - 1
    same = logits.detach().clone().requires_grad_()
    ours = module.ctc_loss(logits.log_softmax(2), labels, STEPS, lengths, blank=blank)
    theirs = F.ctc_loss(same.log_softmax(2), labels, STEPS, lengths, blank=blank, reduction="none")
    (ours * weights).sum().backward()
    (theirs * weights).sum().backward()
    assert torch.equal(ours, theirs)
    assert logits.grad is not None
    assert same.grad is not None
    assert float(same.grad.abs().max()) > 0.01
    assert torch.equal(logits.grad, same.grad)


@pytest.mark.parametrize("lengths", [[9, 5, 10, 1], [12, 12, 12, 12], [1, 1, 1, 1]])
def test_losses_and_gradients_are_torchs(lengths: list[int]) -> None:
    check_against_torch(ctc, torch.tensor(lengths))


def test_the_blank_may_be_another_class() -> None:
    check_against_torch(ctc, blank=CLASSES - 1)


def test_by_hand() -> None:
    """Two steps, classes blank and a; 'a' is spelled aa, a-, -a: 1 minus the chance of two blanks."""
    blank = torch.tensor([0.3, 0.6])
    log_probs = torch.stack((blank, 1 - blank), dim=1).log().unsqueeze(1)  # (2, 1, 2)
    loss = ctc.ctc_loss(log_probs, torch.ones(1, 1, dtype=torch.int64), torch.tensor([2]), torch.tensor([1]))
    assert loss.tolist() == pytest.approx([-math.log(1 - 0.3 * 0.6)])


def test_labels_beyond_their_length_are_not_read() -> None:
    logits, labels, _ = example()
    other = torch.where(torch.arange(WIDTH) < LENGTHS.unsqueeze(1), labels, 0)
    assert not torch.equal(labels, other)
    losses = [ctc.ctc_loss(logits.log_softmax(2), each, STEPS, LENGTHS) for each in (labels, other)]
    assert torch.equal(*losses)


class Shapes(TorchDispatchMode):
    """What our operators return, and what else has the lattice's shape."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.ours: dict[str, list[Any]] = {}
        self.lattices: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        found = [(tuple(t.shape), t.stride(), t.dtype) for t in tree_leaves(out) if isinstance(t, Tensor)]
        if func.namespace == "wcbench":
            self.ours[func._schema.name] = found
        elif any(shape == (BATCH, TIME, 2 * WIDTH + 1) for shape, _, _ in found):
            self.lattices.add(func._schema.name)
        return out


def shapes() -> Shapes:
    logits, labels, _ = example()
    mode = Shapes()
    with mode:
        ctc.ctc_loss(logits.log_softmax(2), labels, STEPS, LENGTHS).sum().backward()
    return mode


def test_fake_tensors_have_the_real_ones_shapes() -> None:
    real = shapes()
    with FakeTensorMode(allow_non_fake_inputs=True):
        fake = shapes()
    assert fake.ours == real.ours
    assert {name: [shape for shape, _, _ in found] for name, found in real.ours.items()} == {
        "wcbench::ctc_loss": [(BATCH,), (BATCH, TIME, 2 * WIDTH + 1)],
        "wcbench::ctc_loss_backward": [(TIME, BATCH, CLASSES)],
    }
    assert real.lattices <= {"aten::detach"}  # no gradient of zeros is made up for the lattice


def test_it_computes_in_float_under_autocast() -> None:
    logits, labels, _ = example()
    with torch.autocast("cpu", torch.bfloat16):
        log_probs = logits.log_softmax(2).bfloat16()
        losses = ctc.ctc_loss(log_probs, labels, STEPS, LENGTHS)
    losses.sum().backward()
    assert losses.dtype == torch.float32
    assert torch.equal(losses, F.ctc_loss(log_probs.float(), labels, STEPS, LENGTHS, reduction="none"))
    assert logits.grad is not None
    assert logits.grad.isfinite().all()


def test_the_module_may_be_loaded_again() -> None:
    check_against_torch(importlib.reload(ctc))
    check_against_torch(ctc)


def test_two_copies_stand_side_by_side() -> None:
    copies = []
    for name in ("first_ctc", "second_ctc"):
        spec = importlib.util.spec_from_file_location(name, ctc.__file__)
        assert spec is not None
        assert spec.loader is not None
        copies.append(importlib.util.module_from_spec(spec))
        spec.loader.exec_module(copies[-1])
    for module in (*copies, ctc):
        check_against_torch(module)
