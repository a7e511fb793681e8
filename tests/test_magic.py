"""`%%wcbench` in a notebook: the cell is profiled, its record shown and kept, and its errors are the cell's own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from wcbench.errors import UnknownNameError
from wcbench.record import Profile

CELL = """
loss = torch.nn.functional.mse_loss(model(x), y)
optimizer.zero_grad()
loss.backward()
optimizer.step()
loss
"""


@pytest.fixture(scope="module")
def shell() -> Iterator[Any]:
    from IPython.core.interactiveshell import InteractiveShell

    made = InteractiveShell.instance()
    made.run_cell(
        "import torch\nmodel = torch.nn.Linear(8, 2)\noptimizer = torch.optim.SGD(model.parameters(), 0.1)\n"
        "x, y = torch.randn(16, 8), torch.randn(16, 2)"
    )
    made.run_line_magic("load_ext", "wcbench")
    yield made
    InteractiveShell.clear_instance()


@pytest.fixture(scope="module")
def profile(shell: Any) -> Any:
    return shell.run_cell_magic("wcbench", "--samples 16 --steps 6 --as mine --passes timing,timeline", CELL)


def test_the_record_is_shown_and_kept(shell: Any, profile: Any) -> None:
    assert isinstance(profile, Profile)
    assert shell.user_ns["mine"] is profile
    assert set(profile.manifest.passes) == {"timing", "timeline"}
    assert profile.manifest.passes["timing"].samples == 16
    assert "aten::addmm" in set(profile.view("hotspots").to_frame()["name"])


def test_the_model_is_put_back(shell: Any, profile: Any) -> None:
    """Each pass steps many times; what the cell trains is as it was, so that a cell may be run again."""
    import torch

    model = shell.user_ns["model"]
    before = {name: value.clone() for name, value in model.state_dict().items()}
    shell.run_cell_magic("wcbench", "--samples 16 --steps 4 --passes timing --quiet", CELL)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    shell.run_cell(CELL)
    assert not torch.equal(model.weight, before["weight"])  # the cell by itself does train


def test_an_error_is_the_cells_own(shell: Any) -> None:
    with pytest.raises(Exception, match="undefined_name"):
        shell.run_cell_magic("wcbench", "--passes timing", "undefined_name + 1")


def test_an_unknown_option_is_told_with_the_nearest(shell: Any) -> None:
    with pytest.raises(Exception, match="Did you mean '--steps'"):
        shell.run_cell_magic("wcbench", "--step 3", CELL)


def test_figures_are_one_call_away(profile: Any) -> None:
    assert "hotspots" in profile.figures()
    assert profile.figure("hotspots").axes
    with pytest.raises(UnknownNameError, match="hotspot"):
        profile.figure("hotspotz")


def test_a_hostile_name_is_refused(shell: Any) -> None:
    with pytest.raises(Exception, match="is no name for a record"):
        shell.run_cell_magic("wcbench", "--passes timing --steps 2 --name <script>alert(1)</script>", CELL)
