"""Matrix-class FLOPs of four tasks at the paper's scale, forward and whole steps, by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from wcbench.tasks.load import load_task

Record = Callable[..., Any]


@pytest.fixture(autouse=True)
def _one_thread() -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def second_step(record: Record, name: str, preset: str, **overrides: str) -> tuple[Any, int]:
    """What the second step recorded, and its samples; the first creates the optimizer's state."""
    task = load_task(name)
    built = task.build(task.configure(preset, overrides=overrides))
    built.step(built.batch(0))
    batch = built.batch(1)
    return record(lambda: built.step(batch)), built.samples


AFFINE_GRID = 2 * 28 * 28 * 3 * 2  # the product that spatial-transformer's grid hides: 9,408

# matrix-class FLOPs of one sample: forward as shared/TASKS.md has them, and of the whole step
FORWARD = {
    "image-classification": 8_178_368_512,
    "recommendation": 213_248,
    "spatial-transformer": 1_542_600 + AFFINE_GRID,
    "natural-language": 28_500_298_752,
}
STEP = {
    # the first convolution's input needs no gradient: 2 * 112^2 * 64 * 3 * 7^2
    "image-classification": 3 * 8_178_368_512 - 2 * 112 * 112 * 64 * 3 * 49,
    "recommendation": 3 * 213_248,  # the first layer's input comes from tables, which need one
    # nor does the localiser's (2 * 22^2 * 8 * 7^2); of the affine grid only the matrix needs one
    "spatial-transformer": 3 * 1_542_600 - 2 * 22 * 22 * 8 * 49 + 2 * AFFINE_GRID,
    "natural-language": 3 * 28_500_298_752,
}


@pytest.mark.parametrize("name", FORWARD)
def test_matrix_flops_at_the_papers_scale(record: Record, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.mkldnn, "enabled", False)
    with FakeTensorMode():
        recorded, samples = second_step(
            record, name, "paper", **({"attention": "eager"} if name == "natural-language" else {})
        )
    assert recorded.notes() == []
    works = recorded.works()
    forward = sum(w.flops_matrix for w, back in zip(works, recorded.backward, strict=True) if not back)
    assert forward == FORWARD[name] * samples
    assert recorded.matrix() == STEP[name] * samples
