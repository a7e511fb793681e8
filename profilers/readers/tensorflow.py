"""Chrome traces of TensorFlow and JAX: timelines of TensorFlow 1, and what the trace viewer of today's profiler shows.

Both name processes and threads by metadata events that may stand anywhere, so that a file is gone over twice: first for
these names, then for its events.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import msgspec

from wcbench.errors import ReadError
from wcbench.profilers.readers import xla
from wcbench.profilers.readers.base import Head, PassFacts, Reader, Sink, Source
from wcbench.profilers.readers.events import Events
from wcbench.profilers.readers.timeline import ABSENT
from wcbench.profilers.readers.xla_rows import Batch, Event, Rows

_EVENTS = '"traceEvents"'
_MAX_US = float(1 << 52)
_MAX_TRACKS = 1 << 18
_VIEWER_CAP = 1_000_000
"""Events that the trace viewer writes at most: of more it keeps those that begin first."""

_OP_CATEGORY = re.compile(r'"cat"\s*:\s*"Op"')
_COMPUTE = re.compile(r'"name"\s*:\s*"[^"]{1,300} Compute"')
_PLANE = re.compile(r'"name"\s*:\s*"/(?:host|device):[A-Za-z]')
_TICKS = re.compile(r'"highres-ticks"')
_OTHERS = re.compile(r'"(?:schemaVersion|deviceProperties|cat)"\s*:')


class _Args(msgspec.Struct, frozen=True, gc=False):
    name: str = ""
    op: str = ""


class _Name(msgspec.Struct, gc=False):
    """A metadata event."""

    ph: str = ""
    name: str = ""
    pid: int | str = 0
    tid: int | str = 0
    args: _Args = _Args()


Track = tuple[int | str, int | str]


class _Names:
    """Names of processes by pid, and of threads by pid and tid."""

    def __init__(self, source: Source, sink: Sink) -> None:
        self.processes: dict[int | str, str] = {}
        self.threads: dict[Track, str] = {}
        silent = Sink(sink.label, sink.folder)  # the second pass tells the losses
        for batch in Events(source, silent, _Name):
            for event in batch:
                if event.ph == "M":
                    self._take(event)

    def _take(self, event: _Name) -> None:
        if event.name == "process_name" and len(self.processes) < _MAX_TRACKS:
            self.processes[event.pid] = event.args.name
        elif event.name == "thread_name" and len(self.threads) < _MAX_TRACKS:
            self.threads[event.pid, event.tid] = event.args.name


def _nanoseconds(microseconds: float | None) -> int | None:
    if microseconds is None or not -_MAX_US < microseconds < _MAX_US:
        return None
    return microseconds * 1000 if isinstance(microseconds, int) else round(microseconds * 1000)


# --- TensorFlow 1 --------------------------------------------------------------------------------------------------


class _Op(msgspec.Struct, gc=False):
    ph: str = ""
    name: str = ""
    pid: int | str = 0
    tid: int | str = 0
    ts: int | float | None = None
    dur: int | float | None = None
    args: _Args = _Args()


_LANE = re.compile(r".*\bgpu:([0-9]{1,6})/(?:stream:(all|[0-9]{1,18})|(memcpy)) Compute", re.IGNORECASE | re.DOTALL)
_ALL = -2
_COPIES = -3


class _Lane(msgspec.Struct, frozen=True):
    """A process of the timeline: work of a GPU on a stream (or _ALL, or _COPIES), or calls on the host (gpu None)."""

    gpu: int | None
    stream: int = ABSENT


def _lane(name: str) -> _Lane | None:
    found = _LANE.fullmatch(name)
    if found is None:
        return _Lane(None) if name.endswith(" Compute") else None
    stream = _COPIES if found.group(3) else _ALL if found.group(2).lower() == "all" else int(found.group(2))
    return _Lane(int(found.group(1)), stream)


class Tf1Timeline(Reader):
    """Timelines of TensorFlow 1 (`tensorflow.python.client.timeline`): one file is one call of Session.run.

    Every operation of a GPU stands there twice, under "stream:all" (copies: "memcpy") and under its own stream: its own
    stream counts. Rows of a GPU are named by the operator, since the file names no kernels. Processes of a device
    without a stream hold the executor's calls on the host; they are packed into rows that do not overlap, which are
    no threads, and nothing nests in them.
    """

    name = "tf-timeline"
    title = "timeline JSON of TensorFlow 1 (tensorflow.python.client.timeline)"

    def recognizes(self, head: Head) -> bool:
        text = head.text
        return _EVENTS in text and bool(_COMPUTE.search(text)) and bool(_OP_CATEGORY.search(text))

    def read(self, source: Source, sink: Sink) -> None:
        names = _Names(source, sink)
        lanes = {pid: lane for pid, text in names.processes.items() if (lane := _lane(text)) is not None}
        copies = set()
        if any(lane.stream == _COPIES for lane in lanes.values()):
            silent = Sink(sink.label, sink.folder)
            copies = {_key(op) for op, lane in _ops(source, silent, lanes) if lane.stream == _COPIES}
        rows = _Tf1Rows(sink, lanes, copies)
        for op, lane in _ops(source, sink, lanes):
            rows.add(op, lane)
        rows.finish()


def _ops(source: Source, sink: Sink, lanes: dict[int | str, _Lane]) -> Iterator[tuple[_Op, _Lane]]:
    for batch in Events(source, sink, _Op):
        for op in batch:
            if op.ph == "X":
                lane = lanes.get(op.pid)
                if lane is None:
                    sink.lose("an event", "its process is not named as one that computes")
                else:
                    yield op, lane


def _key(op: _Op) -> tuple[Any, ...]:
    """What tells an operation and its second record from others."""
    return op.ts, op.dur, op.args.name, op.name


class _Tf1Rows:
    """Gives operations to the timeline."""

    def __init__(self, sink: Sink, lanes: dict[int | str, _Lane], copies: set[tuple[Any, ...]]) -> None:
        self._sink, self._copies = sink, copies
        self._with_streams = {lane.gpu for lane in lanes.values() if lane.stream >= 0}
        device = ["name", "process", "device", "stream", "start", "duration", "op", "phase", "module"]
        self._device = Batch(sink, "device", device)
        self._host = Batch(sink, "ops", ["name", "process", "thread", "start", "end", "backward"])
        self._threads: dict[Track, int] = {}
        self._gpus: set[int] = set()
        self._first: int | None = None
        self._last = self._second = 0

    def add(self, op: _Op, lane: _Lane) -> None:
        if lane.gpu in self._with_streams and lane.stream in (_ALL, _COPIES):
            self._second += 1
            return
        start, duration = _nanoseconds(op.ts), _nanoseconds(op.dur)
        if start is None or duration is None or start < 0 or duration < 0:
            self._sink.lose("an event", "it has no time, or one that is negative or absurd")
            return
        self._first = start if self._first is None else min(self._first, start)
        self._last = max(self._last, start + duration)
        kind, path = op.args.op or op.name, op.args.name
        if lane.gpu is None:
            thread = self._threads.setdefault((op.pid, op.tid), len(self._threads))
            backward = xla.phase(path, kind) == "backward"
            self._host.add(self._name(kind), 0, thread, start, start + duration, backward)
        else:
            self._on_gpu(op, lane, lane.gpu, start, duration)

    def _name(self, text: str) -> int:
        return self._sink.timeline().name(text)

    def _on_gpu(self, op: _Op, lane: _Lane, gpu: int, start: int, duration: int) -> None:
        self._gpus.add(gpu)
        kind, path = op.args.op or op.name, op.args.name
        copies = lane.stream == _COPIES or _key(op) in self._copies
        named = kind.upper().startswith("MEM")
        texts = (
            "MEMCPY" if copies and not named else kind,
            None if named else kind,
            xla.phase(path, kind),
            None if named else xla.scope(path) or None,
        )
        name, operator, phase, module = (ABSENT if text is None else self._name(text) for text in texts)
        stream = lane.stream if lane.stream >= 0 else ABSENT
        self._device.add(name, 0, self._name(f"cuda:{gpu}"), stream, start, duration, operator, phase, module)

    def finish(self) -> None:
        if self._first is None:
            raise ReadError(
                f"{self._sink.label} holds no operations.", "Trace again with RunOptions.FULL_TRACE while steps run."
            )
        self._device.flush()
        self._host.flush()
        if self._gpus:
            text = "TensorFlow 1 names work of a GPU by its operator, so that names of kernels are names of operators."
            self._sink.note("kernels", text)
        if self._second:
            text = f"{self._second} events of stream:all and memcpy repeat those of single streams and count once."
            self._sink.note("kernels", text)
        device = f"cuda:{min(self._gpus)}" if self._gpus else "cpu"
        self._sink.describe("timeline", PassFacts(device, seconds=(self._last - self._first) / 1e9))


# --- the trace viewer ----------------------------------------------------------------------------------------------


class _Complete(msgspec.Struct, gc=False):
    ph: str = ""
    name: str = ""
    pid: int | str = 0
    tid: int | str = 0
    ts: int | float | None = None
    dur: int | float | None = None
    args: dict[str, Any] = {}


Take = Callable[[Event], None]


class TraceViewer(Reader):
    """Chrome traces of the profiler of TensorFlow 2 and JAX (`*.trace.json.gz`); what counts is told in `xla`.

    Processes are planes, threads are lines, args are stats. Times are microseconds, whatever displayTimeUnit says.
    """

    name = "tf-trace"
    title = "Chrome trace of TensorFlow 2's and JAX's profiler (*.trace.json.gz)"
    ranked = True

    def recognizes(self, head: Head) -> bool:
        text = head.text
        if _EVENTS not in text or _OP_CATEGORY.search(text):
            return False
        return bool(_PLANE.search(text)) or bool(_TICKS.search(text) and not _OTHERS.search(text))

    def read(self, source: Source, sink: Sink) -> None:
        names = _Names(source, sink)
        rows = Rows(sink)
        tracks = _Tracks(names, rows, sink)
        events = 0
        for batch in Events(source, sink, _Complete):
            for event in batch:
                if event.ph == "X":
                    events += 1
                    _take(event, tracks, sink)
        if events >= _VIEWER_CAP:
            text = f"The trace viewer writes {_VIEWER_CAP} events at most, those that begin first; others are missing."
            sink.note("timeline", f"{text} The XPlane file (*.xplane.pb) holds them all.")
        rows.finish()


def _take(event: _Complete, tracks: _Tracks, sink: Sink) -> None:
    take = tracks.of((event.pid, event.tid))
    if take is None:
        return
    start, duration = _nanoseconds(event.ts), _nanoseconds(event.dur)
    if start is None or duration is None or not event.name:
        sink.lose("an event", "it has no name or no time, or an absurd one")
        return
    take(Event(event.name, start, duration, _stats(event.args)))


def _stats(args: dict[str, Any]) -> dict[str, Any]:
    """Args that are texts or numbers, by their names in lower case."""
    return {key.lower(): value for key, value in args.items() if isinstance(value, str | int | float)}


class _Tracks:
    """Where the events of a thread go."""

    def __init__(self, names: _Names, rows: Rows, sink: Sink) -> None:
        self._names, self._rows, self._sink = names, rows, sink
        self._known: dict[Track, tuple[Take | None, str]] = {}

    def of(self, track: Track) -> Take | None:
        """What takes the thread's events; None, and the event is told as lost, where nothing does."""
        known = self._known.get(track)
        if known is None:
            known = self._decide(track, len(self._known))
            if len(self._known) < _MAX_TRACKS:
                self._known[track] = known
        if known[0] is None:
            self._sink.lose("an event", known[1])
        return known[0]

    def _decide(self, track: Track, number: int) -> tuple[Take | None, str]:
        plane, line = self._names.processes.get(track[0], ""), self._names.threads.get(track, "")
        if xla.is_host(plane):
            return partial(self._rows.on_host, number), ""
        of = xla.device(plane)
        if of is None:
            return None, "its process is of no device and no host"
        if xla.is_steps(line):
            return partial(self._rows.step, of, number), ""
        stream = xla.stream_of(of, line)
        if stream is None:
            return None, "its thread shows what is derived from the work of the device"
        return partial(self._rows.on_device, of, stream), ""
