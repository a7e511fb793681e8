"""Linking in small batches equals linking at once, and both equal a computation by brute force."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wcbench.profilers.readers import spill
from wcbench.profilers.readers.base import Sink
from wcbench.profilers.readers.spill import RowFile
from wcbench.profilers.readers.timeline import ABSENT

FUZZ = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
MARKS = ("Optimizer.step#SGD.step", "Optimizer.zero_grad#SGD.zero_grad", "wcbench.forward")
BACKWARD = "autograd::engine::evaluate_function: "


@dataclass
class Event:
    kind: str  # op, mark or call
    name: str
    process: int
    thread: int
    start: int
    end: int
    sequence: int = ABSENT
    external: int = ABSENT
    correlation: int = ABSENT
    backward: bool = False

    @property
    def lane(self) -> tuple[int, int]:
        return self.process, self.thread


@dataclass
class Kernel:
    name: str
    process: int
    device: str
    start: int
    duration: int
    correlation: int


@dataclass
class Program:
    """A program's events in the order of a file, its steps as (process, start, end)."""

    events: list[Event] = field(default_factory=list)
    kernels: list[Kernel] = field(default_factory=list)
    steps: list[tuple[int, int, int]] = field(default_factory=list)


# --- programs at random ---------------------------------------------------------------------------------------------


def program(seed: int, *, crossing: bool = False, processes: int = 2) -> Program:
    """Calls on several threads: nested in each other, or (``crossing``) as damaged clocks give them."""
    chance = random.Random(seed)
    made = Program()
    for process in range(processes):
        for thread in range(chance.randint(1, 3)):
            if crossing:
                _cross(chance, made, (process, thread))
            else:
                _nest(chance, made, (process, thread), 0, 60, 0)
            _calls(chance, made, process, thread)
        made.steps += [(process, low, low + 20) for low in (0, 20, 45) if chance.random() < 0.7]
    made.kernels = [
        Kernel(
            name=f"kernel{i}", process=chance.randrange(processes), device=chance.choice(["cuda:0", "cuda:1"]),
            start=chance.choice([ABSENT, *range(0, 90, 7)]), duration=chance.randint(0, 9),
            correlation=chance.choice([ABSENT, *range(25)]),
        )
        for i in range(chance.randint(0, 40))
    ]  # fmt: skip
    chance.shuffle(made.events)
    return made


def _host(chance: random.Random, made: Program, lane: tuple[int, int], start: int, end: int) -> None:
    number = len(made.events)
    if chance.random() < 0.15:
        made.events.append(Event("mark", chance.choice(MARKS), *lane, start, end))
        return
    name = f"{BACKWARD if chance.random() < 0.1 else ''}op{number}"
    made.events.append(
        Event(
            "op", name, *lane, start, end, sequence=chance.choice([ABSENT, ABSENT, 5]),
            external=chance.choice([ABSENT, number, number % 4]), backward=chance.random() < 0.05,
        )
    )  # fmt: skip


def _nest(  # noqa: PLR0917
    chance: random.Random, made: Program, lane: tuple[int, int], low: int, high: int, depth: int
) -> None:
    at = low
    while at <= high and depth < 5 and len(made.events) < 20 * (lane[1] + 1) and chance.random() < 0.7:
        start = min(high, at + chance.choice([0, 0, 1, 3]))
        end = min(high, start + chance.choice([0, 1, 4, 15, 40]))
        _host(chance, made, lane, start, end)
        _nest(chance, made, lane, start, end, depth + 1)
        at = end


def _cross(chance: random.Random, made: Program, lane: tuple[int, int]) -> None:
    for _ in range(chance.randint(0, 25)):
        start = chance.randint(0, 60)
        _host(chance, made, lane, start, start + chance.choice([0, 1, 5, 20, 60]))


def _calls(chance: random.Random, made: Program, process: int, thread: int) -> None:
    for _ in range(chance.randint(0, 15)):
        start, number = chance.randint(0, 65), len(made.events)
        made.events.append(
            Event(
                "call", f"{chance.choice(['cudaLaunchKernel', 'cudaMemcpy'])}.{number}", process, thread, start,
                start + chance.choice([0, 1, 3, 30]), correlation=chance.choice([ABSENT, *range(20)]),
                external=chance.choice([ABSENT, chance.randrange(40)]),
            )
        )  # fmt: skip


# --- through the timeline -------------------------------------------------------------------------------------------


@contextmanager
def runs_of(rows: int) -> Iterator[None]:
    """Sort, merge and link so many rows at a time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spill, "RUN", rows)
        patch.setattr(spill, "max", lambda floor, share: max(1, min(rows, max(floor, share))), raising=False)
        patch.setattr(RowFile.batches, "__defaults__", (rows,))
        yield


def tables(made: Program, folder: Path, run: int, batch: int = 5) -> tuple[dict[str, pd.DataFrame], Sink]:
    """Events through a timeline, ``batch`` at a time; no table is a table without rows."""
    folder.mkdir()
    sink = Sink("test", folder)
    timeline = sink.timeline()
    for first in range(0, len(made.events), batch):
        events = made.events[first : first + batch]
        for kind in ("op", "mark", "call"):
            mine = [event for event in events if event.kind == kind]
            columns: dict[str, Any] = {
                "name": [timeline.name(event.name) for event in mine],
                **{key: [getattr(event, key) for event in mine] for key in ("process", "thread", "start", "end")},
            }
            external = [event.external for event in mine]
            if kind == "op" and mine:
                sequence, backward = [event.sequence for event in mine], [event.backward for event in mine]
                timeline.ops(**columns, sequence=sequence, backward=backward, external=external)
            elif kind == "mark" and mine:
                timeline.marks(**columns)
            elif mine:
                timeline.runtime(**columns, correlation=[event.correlation for event in mine], external=external)
    for number, (process, start, end) in enumerate(made.steps):
        name = [timeline.name(f"ProfilerStep#{number}")]
        timeline.marks(name=name, process=[process], thread=[77], start=[start], end=[end])
    for first in range(0, len(made.kernels), batch):
        kernels = made.kernels[first : first + batch]
        timeline.device(
            name=[timeline.name(kernel.name) for kernel in kernels],
            device=[timeline.name(kernel.device) for kernel in kernels],
            stream=[7] * len(kernels),
            **{key: [getattr(kernel, key) for kernel in kernels]
               for key in ("process", "start", "duration", "correlation")},
        )  # fmt: skip
    with runs_of(run):
        sink.finish()
    return {name: pq.read_table(folder / f"{name}.parquet").to_pandas() for name in sink.rows}, sink


# --- by brute force -------------------------------------------------------------------------------------------------


@dataclass
class Expected:
    """What is true of a program, by the names of its calls."""

    parent: dict[str, str | None] = field(default_factory=dict)
    self_ns: dict[str, int] = field(default_factory=dict)
    depth: dict[str, int] = field(default_factory=dict)
    phase: dict[str, str] = field(default_factory=dict)
    step: dict[str, int | None] = field(default_factory=dict)


def step_of(made: Program, process: int, time: int) -> int | None:
    if not made.steps:
        return 0
    told = {owner for owner, _, _ in made.steps}
    owner = process if process in told or len(told) > 1 else next(iter(told))
    spans = sorted({(start, end) for whose, start, end in made.steps if whose == owner})
    return next((number for number, (start, end) in enumerate(spans) if start <= time < end), None)


def order_in_file(made: Program) -> dict[int, int]:
    """Host events as they reach the timeline: batches of five, in them operators, marks, calls."""
    kinds = ("op", "mark", "call")
    places = sorted(range(len(made.events)), key=lambda i: (i // 5, kinds.index(made.events[i].kind), i))
    return {id(made.events[i]): place for place, i in enumerate(places)}


def holds(outer: Event, inner: Event, order: dict[int, int]) -> bool:
    """Whether one call contains another; of equal ones the first does."""
    if outer is inner or outer.lane != inner.lane or not outer.start <= inner.start < outer.end:
        return False
    if (outer.start, outer.end) == (inner.start, inner.end):
        return order[id(outer)] < order[id(inner)]
    return inner.end <= outer.end


def around(made: Program, event: Event, order: dict[int, int]) -> list[Event]:
    """What contains a call, outermost first."""
    found = [other for other in made.events if other.kind != "call" and holds(other, event, order)]
    return sorted(found, key=lambda other: (other.start, -other.end, order[id(other)]))


def phase_of(chain: list[Event]) -> str:
    """The phase of the last of a chain of calls that contain each other."""
    found: str | None = None
    for event in chain:
        own = None
        if event.name.startswith(BACKWARD) or (event.kind == "op" and event.backward):
            own = "backward"
        elif event.kind == "mark":
            own = {MARKS[0]: "optimizer", MARKS[1]: "other", MARKS[2]: "forward"}[event.name]
        if found == "backward":
            continue
        if own is not None:
            found = own
        elif event.kind == "op" and event.sequence >= 0 and found != "other":
            found = "forward"
    return found or "other"


def expected_ops(made: Program) -> Expected:
    order, found = order_in_file(made), Expected()
    for event in made.events:
        if event.kind != "op":
            continue
        chain = around(made, event, order)
        ops = [other for other in chain if other.kind == "op"]
        found.parent[event.name] = ops[-1].name if ops else None
        found.depth[event.name] = len(ops)
        found.phase[event.name] = phase_of([*chain, event])
        found.step[event.name] = step_of(made, event.process, event.start)
    lasted = {event.name: event.end - event.start for event in made.events if event.kind == "op"}
    found.self_ns = dict(lasted)
    for child, parent in found.parent.items():
        if parent is not None:
            found.self_ns[parent] -= lasted[child]
    return found


def expected_op_of_call(made: Program, call: Event) -> tuple[str | None, str]:
    """Name and phase of the operator that makes a call: by time on its thread, else by an id that one operator has."""
    order = order_in_file(made)
    inside = [e for e in made.events if e.kind != "call" and e.lane == call.lane and e.start <= call.start < e.end]
    inside.sort(key=lambda other: (other.start, -other.end, order[id(other)]))
    ops = [event for event in inside if event.kind == "op"]
    if ops:
        return ops[-1].name, phase_of(inside)
    named = [event for event in made.events if event.kind == "op" and call.external == event.external >= 0]
    if len(named) == 1:
        return named[0].name, phase_of([*around(made, named[0], order), named[0]])
    return None, phase_of(inside)


def names_at(rows: pd.Series, table: pd.DataFrame) -> list[str | None]:
    """The names that a column of rows points at."""
    names = table["name"].astype(str).tolist()
    return [None if pd.isna(row) else names[int(row)] for row in rows]


def values(column: pd.Series) -> list[Any]:
    return [None if pd.isna(value) else value for value in column.astype(object)]


@FUZZ
@given(seed=st.integers(0, 1 << 40), run=st.sampled_from([1, 2, 7, 30, 1 << 17]))
def test_operators_are_those_of_brute_force(seed: int, run: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    made = program(seed)
    found, _ = tables(made, tmp_path_factory.mktemp("ops") / "stage", run)
    ops, expected = found.get("ops", pd.DataFrame(columns=["name"])), expected_ops(made)
    names = ops["name"].astype(str).tolist()
    assert sorted(names) == sorted(expected.parent)
    if not names:
        return
    assert dict(zip(names, names_at(ops["parent"], ops), strict=True)) == expected.parent
    assert dict(zip(names, ops["self_ns"].tolist(), strict=True)) == expected.self_ns
    assert dict(zip(names, ops["depth"].tolist(), strict=True)) == expected.depth
    assert dict(zip(names, ops["phase"].astype(str), strict=True)) == expected.phase
    assert dict(zip(names, values(ops["step"]), strict=True)) == expected.step
    assert min(expected.self_ns.values()) >= 0


@FUZZ
@given(seed=st.integers(0, 1 << 40), run=st.sampled_from([1, 2, 7, 30, 1 << 17]))
def test_calls_and_kernels_are_those_of_brute_force(
    seed: int, run: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    made = program(seed)
    found, sink = tables(made, tmp_path_factory.mktemp("calls") / "stage", run)
    calls = {event.name: event for event in made.events if event.kind == "call"}
    maker = {name: expected_op_of_call(made, call) for name, call in calls.items()}
    order: list[str] = []
    if calls:
        runtime = found["runtime"]
        order = runtime["name"].astype(str).tolist()
        assert sorted(order) == sorted(calls)
        ops = found.get("ops", pd.DataFrame(columns=["name"]))
        assert dict(zip(order, names_at(runtime["op"], ops), strict=True)) == {n: op for n, (op, _) in maker.items()}
        steps = {name: step_of(made, call.process, call.start) for name, call in calls.items()}
        assert dict(zip(order, values(runtime["step"]), strict=True)) == steps
        assert runtime["correlation"].tolist() == [calls[name].correlation for name in order]
    if not made.kernels:
        return
    kernels = found["kernels"]
    launch_of = dict(
        zip(
            kernels["name"].astype(str),
            names_at(kernels["launch"], found.get("runtime", pd.DataFrame(columns=["name"]))),
            strict=True,
        )
    )
    op_of = dict(zip(kernels["name"].astype(str), values(kernels["op"]), strict=True))
    step = dict(zip(kernels["name"].astype(str), values(kernels["step"]), strict=True))
    phase = dict(zip(kernels["name"].astype(str), kernels["phase"].astype(str), strict=True))
    assert len(launch_of) == len(kernels) == len(made.kernels)
    wanted = set()
    for kernel in made.kernels:
        mine = [name for name in order if (calls[name].process, calls[name].correlation) == (
            kernel.process, kernel.correlation) and kernel.correlation >= 0]  # fmt: skip
        wanted |= set(mine)
        launch = mine[0] if mine else None  # of several the first of the table
        assert launch_of[kernel.name] == launch
        assert op_of[kernel.name] == (maker[launch][0] if launch else None)
        assert phase[kernel.name] == (maker[launch][1] if launch else "other")
        if launch is not None:
            assert step[kernel.name] == step_of(made, calls[launch].process, calls[launch].start)
        elif calls:
            assert step[kernel.name] == (None if made.steps else 0)
    lost = sum(
        name.startswith("cudaLaunchKernel") and name not in wanted and call.correlation >= 0
        for name, call in calls.items()
    )
    notes = [note.text for note in sink.notes]
    assert any(text.startswith(f"{lost} launches have no device record") for text in notes) == (lost > 0)
    orphans = sum(launch is None for launch in launch_of.values())
    assert any(text.startswith(f"{orphans} kernels have no launch") for text in notes) == (orphans > 0 and bool(calls))


@FUZZ
@given(seed=st.integers(0, 1 << 40), crossing=st.booleans(), processes=st.integers(1, 3))
def test_linking_in_batches_equals_linking_at_once(
    seed: int, crossing: bool, processes: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    made = program(seed, crossing=crossing, processes=processes)
    folder = tmp_path_factory.mktemp("both")
    small, one = tables(made, folder / "small", 7)
    large, other = tables(made, folder / "large", 1 << 17)
    assert list(small) == list(large)
    for name in small:
        pd.testing.assert_frame_equal(small[name], large[name], check_categorical=False)
    assert one.notes == other.notes
    assert one.passes == other.passes
    if "ops" in small:
        assert (small["ops"]["self_ns"] >= 0).all()


def test_a_call_that_begins_with_a_shorter_operator_is_in_it_wherever_a_batch_ends(tmp_path: Path) -> None:
    # the call [5, 9] sorts before the operator [5, 6] by its end, but is made in it
    made = Program([Event("op", "op", 1, 1, 5, 6), Event("call", "launch", 1, 1, 5, 9, correlation=3)])
    for run in (1, 2, 100):
        found, _ = tables(made, tmp_path / str(run), run)
        assert found["runtime"]["op"].tolist() == [0], run


def test_no_file_is_left_of_what_waited_on_disk(tmp_path: Path) -> None:
    made = program(5)
    found, _ = tables(made, tmp_path / "stage", 3)
    assert {path.name for path in (tmp_path / "stage").iterdir()} == {f"{name}.parquet" for name in found}
