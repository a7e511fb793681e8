"""From the events of a file to tables `ops`, `runtime`, `kernels` and `steps`, in batches, by the rules of `link`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wcbench.profilers import link
from wcbench.profilers.link import HostEvents, Ints, Nesting
from wcbench.profilers.readers.join import Window, pick
from wcbench.profilers.readers.rows import ABSENT, CALLS, HOST, LAUNCH, MARK, OPS, RUNTIME, Names, Stages
from wcbench.profilers.readers.spill import Rows, those
from wcbench.profilers.readers.steps import Mark, Steps
from wcbench.schema import WHOLE_FILE

if TYPE_CHECKING:
    from wcbench.profilers.readers.base import Sink

PASS = "timeline"


@dataclass(frozen=True)
class _Batch:
    """Host events in the order of thread and time, those still open from before in front, and how they nest."""

    rows: Rows
    events: HostEvents
    nesting: Nesting
    phase: NDArray[np.int8]
    above: Ints

    @staticmethod
    def of(rows: Rows, texts: Sequence[str]) -> _Batch:
        events = HostEvents(
            name=[texts[number] for number in rows["name"].tolist()],
            mark=rows["kind"] == MARK,
            thread=rows["lane"].astype(np.int64),
            start=rows["start"].copy(),
            end=rows["end"].copy(),
            sequence=rows["number"].copy(),
            backward=rows["backward"].copy(),
        )
        nesting = link.nest(events.thread, events.start, events.end)
        phase = link.phase_codes(events, nesting)
        return _Batch(rows, events, nesting, phase, link.enclosing_op(events, nesting))

    def open_at_end(self) -> list[int]:
        """The last event and the calls around it, outermost first: what comes next may lie in them."""
        chain = []
        place = len(self.rows) - 1
        while place >= 0:
            chain.append(place)
            place = int(self.nesting.parent[place])
        return chain[::-1]


class Linking:
    """Links one file's events; `write` does all of it."""

    def __init__(
        self,
        sink: Sink,
        names: Names,
        stages: Stages,
        marks: Sequence[Mark],
        *,
        ranks: Mapping[int, int],
        base: int = 0,
    ) -> None:
        self._sink, self._names, self._stages, self._ranks, self._base = sink, names, stages, ranks, base
        self._steps = Steps(marks)
        self._carry: Rows = np.empty(0, HOST)  # calls that are open at the end of a batch, outermost first
        self._carry_rows: Ints = np.empty(0, np.int64)  # their rows in table ops; -1 for marks
        self._clipped = self._clipped_ns = 0
        self._first: int | None = None
        self._last: int | None = None
        self._by_own_time = False
        self.lost = self.orphans = self.timeless = self.ambiguous = 0

    def write(self) -> None:
        on_device = self._stages.devices.rows > 0
        for batch in self._stages.host:
            self._host_batch(batch)
        calls = self._stages.calls.rows
        self._write_calls(self._by_external())
        for rows in self._stages.ops.batches():
            self._write_ops(rows)
        if on_device:
            self._by_own_time = not calls
            self._join_devices(timed=not calls)
            for rows in self._stages.kernels:
                self._write_kernels(rows)
        else:
            self._write_host_kernels(has_calls=calls > 0)
        self._write_steps()
        self._describe(on_device)

    # --- the host ------------------------------------------------------------------------------------------------

    def _host_batch(self, rows: Rows) -> None:
        made = rows["kind"] == RUNTIME
        calls, new = those(rows, made), those(rows, ~made)
        batch = _Batch.of(np.concatenate([self._carry, new]) if len(self._carry) else new, self._names.texts)
        row_of = self._append_ops(batch)
        if len(calls):
            self._append_calls(calls, batch, row_of)
        if len(new):
            chain = batch.open_at_end()
            self._carry, self._carry_rows = batch.rows[chain].copy(), row_of[chain]
        self._spans(rows["start"], rows["end"])

    def _append_ops(self, batch: _Batch) -> Ints:
        """Give new operators their rows, and open calls of earlier batches the time and number of their new children;
        returns the row of each event in table ops, -1 for marks."""
        held, nesting, above = len(self._carry), batch.nesting, batch.above
        ops = ~batch.events.mark
        new = ops.copy()
        new[:held] = False
        row_of = np.full(len(ops), -1, np.int64)
        row_of[:held] = self._carry_rows
        row_of[new] = self._stages.ops.rows + np.arange(int(new.sum()))
        children = np.bincount(above[new & (above >= 0)], minlength=len(ops))

        rows = np.zeros(int(new.sum()), OPS)
        given = those(batch.rows, new)
        for field in ("name", "thread", "start", "external", "process"):
            rows[field] = given[field]
        rows["duration"] = given["end"] - given["start"]
        rows["self"] = link.op_self(batch.events, nesting, above)[new]
        rows["depth"] = link.op_depth(batch.events, nesting)[new]
        rows["parent"] = pick(row_of, above, -1)[new]
        rows["step"] = self._steps.of(given["process"], given["start"])
        rows["phase"], rows["children"] = batch.phase[new], children[new]
        self._stages.ops.append(rows)

        for place in np.flatnonzero(children[:held]).tolist():
            mine = (above == place) & new
            taken = int((nesting.end - batch.events.start)[mine].sum())
            self._stages.ops.patch(int(row_of[place]), "self", -taken)
            self._stages.ops.patch(int(row_of[place]), "children", int(children[place]))
        cut = (batch.events.end - nesting.end)[held:]
        self._clipped += int((cut > 0).sum())
        self._clipped_ns += int(cut.sum())
        return row_of

    def _append_calls(self, calls: Rows, batch: _Batch, row_of: Ints) -> None:
        inside = link.innermost(batch.events, batch.nesting, calls["lane"].astype(np.int64), calls["start"])
        op = np.where(pick(batch.events.mark, inside, False), pick(batch.above, inside, -1), inside)
        rows = np.zeros(len(calls), CALLS)
        for field in ("name", "process", "thread", "start", "number", "external"):
            rows[field] = calls[field]
        rows["duration"] = calls["end"] - calls["start"]
        rows["op"] = pick(row_of, op, -1)
        rows["opname"] = pick(batch.rows["name"], op, ABSENT)
        rows["phase"] = pick(batch.phase, inside, _OTHER)
        rows["step"] = self._steps.of(calls["process"], calls["start"])
        self._stages.calls.append(rows)

    # --- operators and calls -------------------------------------------------------------------------------------

    def _by_external(self) -> Rows:
        """Operators, sorted by id, that calls outside every operator of their thread name by External id."""
        wanted = [rows["external"][(rows["op"] < 0) & (rows["external"] >= 0)] for rows in self._stages.calls.batches()]
        ids = np.unique(np.concatenate(wanted)) if wanted else np.empty(0, np.int64)
        kind = np.dtype([("external", "i8"), ("row", "i8"), ("name", "i4"), ("phase", "i1")])
        parts = [np.empty(0, kind)]
        first = 0
        for rows in self._stages.ops.batches() if len(ids) else ():
            hit = np.flatnonzero(np.isin(rows["external"], ids))
            part = np.zeros(len(hit), kind)
            for field in ("external", "name", "phase"):
                part[field] = rows[field][hit]
            part["row"] = first + hit
            parts.append(part)
            first += len(rows)
        found = np.concatenate(parts)
        _, places, times = np.unique(found["external"], return_index=True, return_counts=True)
        known: Rows = found[places[times == 1]]
        return known  # an id that several operators carry names none of them (pytorch issue 123640)

    def _write_calls(self, known: Rows) -> None:
        row = 0
        for rows in self._stages.calls.batches():
            _adopt(rows, known)
            self._sink.add(
                "runtime",
                PASS,
                {
                    "name": self._names.column(rows["name"]),
                    "thread": rows["thread"],
                    "start_ns": rows["start"] + self._base,
                    "duration_ns": rows["duration"],
                    "correlation": rows["number"],
                    "op": _nullable(rows["op"]),
                    "step": _nullable(rows["step"]),
                    **self._rank_column(rows["process"]),
                },
            )
            launches = np.zeros(len(rows), LAUNCH)
            for field in ("process", "number", "phase", "step", "name"):
                launches[field] = rows[field]
            launches["op"], launches["owner"] = rows["opname"], rows["process"]
            if self._stages.ownerless:  # device records do not say whose they are: ids alone tie them to calls
                launches["process"] = ABSENT
            launches["row"] = row + np.arange(len(rows))
            self._stages.launches.add(those(launches, launches["number"] >= 0))
            row += len(rows)

    def _write_ops(self, rows: Rows) -> None:
        self._sink.add(
            "ops",
            PASS,
            {
                "name": self._names.column(rows["name"]),
                "thread": rows["thread"],
                "start_ns": rows["start"] + self._base,
                "duration_ns": rows["duration"],
                "self_ns": rows["self"],
                "depth": rows["depth"],
                "parent": _nullable(rows["parent"]),
                "step": _nullable(rows["step"]),
                "phase": _phases(rows["phase"]),
                **self._rank_column(rows["process"]),
            },
        )

    def _rank_column(self, process: NDArray[Any]) -> dict[str, Any]:
        """The column rank of rows of several processes; nothing where the file as a whole has one rank."""
        if not self._ranks:
            return {}
        self._sink.own_ranks = True
        of = np.zeros(int(process.max()) + 1, np.int64)
        for number, rank in self._ranks.items():
            if number < len(of):
                of[number] = rank
        return {"rank": of[process]}

    def _write_host_kernels(self, *, has_calls: bool) -> None:
        """Without device records, each operator call is a kernel row with its self time, as in a live capture; a call
        whose only child is one of the same name is one call with it."""
        ops = self._stages.ops.mapped()
        if has_calls:  # operators of a program on a device: their time on the host is not that of the work
            self._sink.note(PASS, "The file holds calls of a device's runtime, but no record of its work in time.")
            return
        if not len(ops):
            return
        self._sink.note(PASS, "The file holds no device records: times are operators' own time on the host.")
        parent, name = np.asarray(ops["parent"]), np.asarray(ops["name"])
        merged = (parent >= 0) & (ops["children"][parent] == 1) & (name[parent] == name)
        stands = np.where(merged, parent, np.arange(len(ops)))
        while (further := stands[stands]).tolist() != stands.tolist():
            stands = further
        time = np.zeros(len(ops), np.int64)
        np.add.at(time, stands, np.asarray(ops["self"]))
        kept = np.flatnonzero(~merged)
        for rows in np.array_split(kept, max(1, len(kept) // (1 << 17))):
            self._sink.add(
                "kernels",
                PASS,
                {
                    "name": self._names.column(name[rows]),
                    "device": ["cpu"] * len(rows),
                    "start_ns": ops["start"][rows] + self._base,
                    "duration_ns": time[rows],
                    "step": _nullable(ops["step"][rows]),
                    "phase": _phases(ops["phase"][rows]),
                },
            )

    # --- the device ----------------------------------------------------------------------------------------------

    def _join_devices(self, *, timed: bool) -> None:
        """Tie device records to launches: both in the order of their ids; ``timed`` where there are no launches at all,
        and a record's own time tells its step."""
        launches = Window(iter(self._stages.launches))
        for batch in self._stages.devices:
            found = launches.match(batch)
            hit = found >= 0
            batch["launch"] = np.where(hit, launches.field("row", found), ABSENT)
            batch["step"] = np.where(hit, launches.field("step", found), -1 if self._steps.marked else 0)
            batch["phase"] = np.where(
                batch["phase"] >= 0, batch["phase"], np.where(hit, -2 - launches.field("phase", found), ABSENT)
            )
            op = np.where(hit, launches.field("op", found), ABSENT)
            batch["op"] = np.where(batch["op"] >= 0, batch["op"], op)
            if timed:
                batch["step"] = self._steps.of(batch["process"], batch["start"])
            else:
                self.orphans += int((~hit).sum())
            batch["order"] = self._stages.kernels.rows + np.arange(len(batch))  # as a Sorter's last key counts
            self._stages.kernels.add(batch)
        self.ambiguous = launches.ambiguous
        self.lost = sum(
            count for number, count in launches.unmatched().items() if link.launches_work(self._names.texts[number])
        )

    def _write_kernels(self, rows: Rows) -> None:
        started = rows["start"] != ABSENT
        self.timeless += int((~started).sum())
        self._spans(rows["start"][started], (rows["start"] + rows["duration"])[started])
        columns = {
            "name": self._names.column(rows["name"]),
            "device": self._names.column(rows["device"]),
            "stream": _nullable(rows["stream"]),
            "start_ns": _nullable(rows["start"] + self._base, started),
            "duration_ns": rows["duration"],
            "step": _nullable(rows["step"]),
            "phase": self._phase_column(rows["phase"]),
            "op": self._names.column(rows["op"]),
            "module": self._names.column(rows["module"]),
            "launch": _nullable(rows["launch"]),
            "grid": _sizes(rows["grid"]),
            "block": _sizes(rows["block"]),
            "registers": _nullable(rows["registers"]),
            "shared_bytes": _nullable(rows["shared"]),
            "occupancy_estimate": _present(rows["occupancy"]),
            "bytes": _nullable(rows["bytes"]),
            "collective": self._names.column(rows["collective"]),
        }
        if (rows["rank"] >= 0).any():
            self._sink.own_ranks = True
            columns["rank"] = np.maximum(rows["rank"], 0)
        self._sink.add("kernels", PASS, columns)

    def _phase_column(self, codes: NDArray[Any]) -> Any:
        """Phases by their places in PHASES (as -2 and below), or by the number of a text that the file gave."""
        numbers = np.array([self._names.number(phase) for phase in link.PHASES])
        own = np.where(codes <= -2, numbers[np.clip(-2 - codes, 0, len(numbers) - 1)], codes)
        return self._names.column(np.where(own >= 0, own, numbers[_OTHER]))

    # --- what is said of it --------------------------------------------------------------------------------------

    def _spans(self, starts: NDArray[Any], ends: NDArray[Any]) -> None:
        if len(starts):
            first, last = int(starts.min()), int(ends.max())
            self._first = first if self._first is None else min(self._first, first)
            self._last = last if self._last is None else max(self._last, last)

    def _write_steps(self) -> None:
        if not self._steps.marked:
            if self._first is not None and self._last is not None:
                for of in [{"rank": [rank]} for rank in sorted(set(self._ranks.values()))] or [{}]:
                    self._add_steps([0], [self._last - self._first], WHOLE_FILE, of)
                self._sink.note(PASS, "The file marks no steps: it is taken for one step as a whole.")
            return
        if self._stages.devices.rows:
            self._sink.note(PASS, "Steps are as the host marks them: work on the device may end later and take longer.")
        for process, spans in self._steps.spans.items():
            of = self._rank_column(np.full(len(spans), process))
            self._add_steps(list(range(len(spans))), (spans[:, 1] - spans[:, 0]).tolist(), "step", of)

    def _add_steps(
        self, index: list[int], duration: list[int], kind: str, rank: Mapping[str, Any] | None = None
    ) -> None:
        rows = {"index": index, "duration_ns": duration, "role": ["measured"] * len(index), "kind": [kind] * len(index)}
        self._sink.add("steps", PASS, {**rows, **(rank or {})})

    def _describe(self, on_device: bool) -> None:
        from wcbench.profilers.readers.base import PassFacts

        if PASS not in self._sink.passes and (self._first is not None or on_device):
            span = 0 if self._first is None or self._last is None else self._last - self._first
            device = "cuda" if on_device else "cpu"
            self._sink.describe(PASS, PassFacts(device=device, steps=self._steps.count, seconds=span / 1e9))
        for text in self._doubts():
            self._sink.note(PASS, text)

    def _doubts(self) -> Iterator[str]:
        if self._by_own_time and self._steps.marked:
            yield "The file holds no launches: kernels are of the step in which they run, which may be a later one."
        if self._clipped:
            yield (
                f"{self._clipped} calls outlived the call around them and were cut to its end "
                f"({self._clipped_ns} ns in all)."
            )
        if self.lost:
            yield f"{self.lost} launches have no device record: their kernels are missing."
        if self.orphans:
            where = " and belong to no step" if self._steps.marked else ""
            yield f"{self.orphans} kernels have no launch in the file{where}."
        if self.ambiguous:
            yield (
                f"{self.ambiguous} kernels carry an id that calls of several processes use: they are tied to no launch."
            )
        if self.timeless:
            yield f"{self.timeless} kernels carry no timestamp: they are in no span and no gap."


_OTHER = link.PHASES.index(link.OTHER)


def _adopt(rows: Rows, known: Rows) -> None:
    """Give calls outside every operator of their thread the operator that they name by External id."""
    alone = np.flatnonzero((rows["op"] < 0) & (rows["external"] >= 0))
    if not len(known) or not len(alone):
        return
    at = np.minimum(np.searchsorted(known["external"], rows["external"][alone]), len(known) - 1)
    hit = known["external"][at] == rows["external"][alone]
    mine, taken = alone[hit], known[at[hit]]
    rows["op"][mine], rows["opname"][mine], rows["phase"][mine] = taken["row"], taken["name"], taken["phase"]


def _nullable(values: NDArray[Any], there: NDArray[np.bool_] | None = None) -> Any:
    """A column with nulls where values are below zero, or not there."""
    import pyarrow as pa

    values = np.ascontiguousarray(values, np.int64)
    return pa.array(values, mask=values < 0 if there is None else ~there)


def _present(values: NDArray[Any]) -> Any:
    import pyarrow as pa

    values = np.ascontiguousarray(values)
    return pa.array(values, mask=np.isnan(values))


def _phases(codes: NDArray[Any]) -> Any:
    import pyarrow as pa

    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), pa.array(link.PHASES))


def _sizes(sizes: NDArray[Any]) -> Any:
    """A column of lists of three; null where the first is below zero."""
    import pyarrow as pa

    there = sizes[:, 0] >= 0
    offsets = np.concatenate([[0], np.cumsum(there * 3)]).astype(np.int32)
    values = pa.array(sizes[there].astype(np.int64).reshape(-1))
    return pa.ListArray.from_arrays(pa.array(offsets), values, mask=pa.array(~there))
