"""Sparse look-ups: an LRU cache of rows, followed id by id with an ordered dictionary."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import nn

from wcbench import record
from wcbench.analysis.lookups import CAPACITIES
from wcbench.profilers.capture import Request, capture
from wcbench.profilers.lookups import EXPONENTS
from wcbench.record import Profile
from wcbench.tasks.base import Built, Config, Settings, Task

ROWS = {"small": (5_000, 64), "large": (90_000, 128)}  # rows and columns: 256 and 512 bytes a row


@dataclass(frozen=True)
class Sparse(Settings):
    zipf: float | None = None


class Tables(Task):
    """Two tables, of which a step looks up ten and twenty rows a sample."""

    presets: ClassVar[Any] = {"paper": Sparse(400), "small": Sparse(400), "tiny": Sparse(400)}

    def lookups(self, config: Config, index: int, zipf: float | None = None) -> Mapping[str, Any]:
        rng = np.random.default_rng([index, round(100 * (zipf or 0))])
        size = config.settings.batch_size
        draws = (("small", 10), ("large", 20))
        skew = 1 + (zipf or 3) ** 2  # any law will do here
        return {
            f"model.{name}.weight": (ROWS[name][0] * rng.random(each * size) ** skew).astype(np.int64)
            for name, each in draws
        }

    def build(self, config: Config) -> Built:
        model = nn.ModuleDict({name: nn.EmbeddingBag(*shape, mode="sum") for name, shape in ROWS.items()})
        batch = lambda index: torch.zeros(config.settings.batch_size, 2, dtype=torch.int64)  # noqa: E731
        step = lambda ids: model["small"](ids).sum().detach()  # noqa: E731
        return Built(step, batch, {"model": model}, config.settings.batch_size)


def profile(task: Task) -> Profile:
    captured = capture(task, Request(passes=["operators"], preset="tiny", scaling=False))
    return record.new_profile(
        task="t", variant=None, suites=(), machine={}, command=(), passes=captured.passes, tables=captured.tables,
        notes=captured.notes,
    )  # fmt: skip


def missed(task: Tables, zipf: float | None, steps: int, capacity: int) -> int:
    """Bytes that miss in the last step, in an LRU cache that holds whole rows of both tables."""
    config = task.configure("tiny")
    cache: OrderedDict[tuple[str, int], int] = OrderedDict()
    held = found = 0
    for step in range(steps):
        for path, ids in task.lookups(config, step, zipf).items():
            width = 4 * ROWS[path.split(".")[1]][1]
            for row in ids.tolist():
                if (path, row) in cache:
                    cache.move_to_end((path, row))
                    continue
                found += width * (step == steps - 1)
                cache[path, row] = width
                held += width
                while held > capacity:
                    held -= cache.popitem(last=False)[1]
    return found


@pytest.fixture(scope="module")
def made() -> Profile:
    return profile(Tables())


def test_misses_are_those_of_an_lru_cache_of_rows(made: Profile) -> None:
    rows = made.view("lookups").rows
    assert rows["exponent"].tolist()[1:] == list(EXPONENTS)
    assert rows["law"].tolist() == ["own", *["zipf"] * len(EXPONENTS)]
    for row in (rows.iloc[0], rows.iloc[1]):
        zipf = None if np.isnan(row["exponent"]) else row["exponent"]
        for place, capacity in enumerate(CAPACITIES[:2]):  # the larger ones hold everything
            assert row["missed_bytes"][place] == [capacity, missed(Tables(), zipf, row["steps"], capacity)]


def test_counts_of_the_last_step(made: Profile) -> None:
    row = made.view("lookups").rows.iloc[0]
    ids = Tables().lookups(Tables().configure("tiny"), row["steps"] - 1)
    assert row["lookups"] == 400 * 30
    assert row["lookup_bytes"] == 400 * (10 * 256 + 20 * 512)
    assert row["distinct"] == sum(len(np.unique(found)) for found in ids.values())
    assert 0 < row["top_share"] <= 1
    assert row["miss_ratio"][0][1] == row["missed_bytes"][0][1] / row["lookup_bytes"]
    assert made.view("summary")["lookups"]["samples"] == 400


def test_too_many_ids_are_drawn_for_fewer_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    from wcbench.profilers import lookups

    monkeypatch.setattr(lookups, "MOST_IDS", 6_000)
    found = profile(Tables())
    assert found.view("lookups").samples == 100  # two steps of 3,000 look-ups
    assert [note.text for note in found.notes if "drawn" in note.text] == [
        "Look-ups are drawn for 0.25 of a step's samples."
    ]


def test_a_task_whose_look_ups_fail_keeps_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Task, config: Config, index: int, zipf: float | None = None) -> Mapping[str, Any]:
        raise OSError("no such file")

    monkeypatch.setattr(Tables, "lookups", fail)
    found = profile(Tables())
    assert found.view("lookups") is None
    assert found.view("complexity").operator_calls
    assert any("lookups failed: OSError: no such file" in note.text for note in found.notes)


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ({"model.nope.weight": np.zeros(3, np.int64)}, "names 'model.nope.weight', which is no parameter"),
        ({"model.small.weight": np.array([0, 5_000])}, "gives row 5000 for model.small.weight, which has 5000 rows"),
        ({"model.small.weight": np.array([-1, 3])}, "gives row -1 for model.small.weight"),
        ({"model.small.weight": np.array([0.5])}, "gives float64 of 1 dimensions for model.small.weight"),
        ({"model.small.weight": np.zeros((2, 2), np.int64)}, "gives int64 of 2 dimensions for model.small.weight"),
    ],
)
def test_look_ups_that_lie_are_told_and_left_out(monkeypatch: pytest.MonkeyPatch, ids: Any, message: str) -> None:
    monkeypatch.setattr(Tables, "lookups", lambda *_: ids)
    found = profile(Tables())
    assert found.view("lookups") is None
    assert any(message in note.text for note in found.notes), found.notes


def test_what_no_step_before_looked_up_is_cold(made: Profile) -> None:
    row = made.view("lookups").rows.iloc[0]
    config, last = Tables().configure("tiny"), row["steps"] - 1
    cold = 0
    for path in Tables().lookups(config, 0):
        before = {i for step in range(last) for i in Tables().lookups(config, step)[path].tolist()}
        new = set(Tables().lookups(config, last)[path].tolist()) - before
        cold += len(new) * 4 * ROWS[path.split(".")[1]][1]
    assert row["cold_share"] == cold / row["lookup_bytes"]


def test_a_task_without_tables_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tables, "lookups", Task.lookups)
    found = profile(Tables())
    assert found.view("lookups") is None
    assert not any("ook-up" in note.text for note in found.notes)
