"""The tables of a rocpd file under one GUID, joined by hand: tracks, timestamps, events, names, agents."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from wcbench.errors import ReadError
from wcbench.profilers.readers.amd_dispatches import UNNAMED
from wcbench.profilers.readers.amd_table import kernel_name
from wcbench.profilers.readers.base import Sink
from wcbench.profilers.readers.database import Connection, TableError, columns, tables
from wcbench.profilers.readers.database_rows import ABSENT, Batch, Field, Texts, fields, lookup, rows
from wcbench.profilers.readers.nsys_rows import Ints, triples

MAX_PARTS = 4096
MAX_ENTRIES = 1_000_000
"""Tracks, agents and counters that are kept."""

_SUFFIX = re.compile(r"rocpd_(?:kernel_dispatch|memory_copy|region)(_[0-9A-Za-z_-]{1,64})?")
_COPY = re.compile(r"(?:MEMORY_COPY_)?(HOST|DEVICE)_TO_(HOST|DEVICE)")
_RANK = re.compile(r'"(?:RANK|OMPI_COMM_WORLD_RANK|PMI_RANK)"\s*:\s*"?([0-9]{1,6})"?\s*[,}]')
_WORLD = re.compile(r'"(?:WORLD_SIZE|OMPI_COMM_WORLD_SIZE|PMI_SIZE)"\s*:\s*"?([0-9]{1,6})"?\s*[,}]')
_INLINE = ("pid", "tid", "agent_id", "queue_id", "stream_id")
_MOST_PID = 1 << 32


def parts_of(names: Iterable[str]) -> list[str]:
    """What follows the names of the tables: one suffix a GUID, the empty one for tables without."""
    found = {match.group(1) or "" for match in map(_SUFFIX.fullmatch, names) if match}
    if len(found) > MAX_PARTS:
        raise ReadError(f"The file holds {len(found)} parts.", f"Import at most {MAX_PARTS} at a time.")
    return sorted(found)


@dataclass(frozen=True)
class Symbol:
    """A kernel's name and registers per thread (ABSENT)."""

    name: str = UNNAMED
    registers: int = ABSENT


@dataclass(frozen=True)
class Events:
    """What belongs to the events of a batch: stack id (ABSENT), category (empty), JSON of further data."""

    stack: Ints
    category: list[str]
    extra: list[str | None]

    def message(self, at: int) -> str | None:
        """The text of a marker."""
        found = _json(self.extra[at]).get("message")
        return found if isinstance(found, str) and found else None


class Part:
    """Reads the tables that end in one GUID.

    ``gpus`` describes the GPUs as `machine` does.
    """

    def __init__(self, connection: Connection, sink: Sink, suffix: str, number: int) -> None:
        self.gpus: list[dict[str, Any]] = []
        self._connection, self._sink, self._suffix, self._number = connection, sink, suffix, number
        self._tables = tables(connection)
        self._strings = Texts(connection, self.table("string"), "string", sink.lose)
        self._categories = self._strings
        if self.table("info_category") in self._tables:
            self._categories = Texts(connection, self.table("info_category"), "name", sink.lose)
        self._tracks = self._all("track", (), " ".join(_INLINE))
        self._agents = self._labels()
        self._symbols: dict[int, Symbol] = {}

    def table(self, name: str) -> str:
        return f"rocpd_{name}{self._suffix}"

    def process(self, pid: Ints) -> Ints:
        """Processes told apart between the parts of a file."""
        return np.where((pid < 0) | (pid >= _MOST_PID), 0, pid) + self._number * _MOST_PID

    # --- places --------------------------------------------------------------------------------------------------

    def place(self, batch: Batch) -> None:
        """Fill in times, process, thread, agent and queue where a row has them by way of its track or timestamps."""
        self._by_track(batch)
        for name in ("start", "end"):
            if (batch[f"{name}_id"] >= 0).any():
                batch[name] = np.where(batch[name] < 0, self._timestamps(batch[f"{name}_id"]), batch[name])

    def _by_track(self, batch: Batch) -> None:
        track = batch["track_id"]
        if not self._tracks or not (track >= 0).any():
            return
        different, at = np.unique(track, return_inverse=True)
        found = [self._tracks.get(number, (ABSENT,) * len(_INLINE)) for number in different.tolist()]
        table = np.array(found, np.int64).reshape(-1, len(_INLINE))[at]
        for column, name in enumerate(_INLINE):
            if name in batch:
                batch[name] = np.where(batch[name] < 0, table[:, column], batch[name])

    def _timestamps(self, ids: Ints) -> Ints:
        different, at = np.unique(ids, return_inverse=True)
        found = self._look("timestamp", fields("value"), different)
        return np.array([_whole(found.get(number, (None,))[0]) for number in different.tolist()], np.int64)[at]

    def events(self, ids: Ints) -> Events:
        """The events of a batch of rows."""
        different, at = np.unique(ids, return_inverse=True)
        asked = (*fields("stack_id category_id"), Field("extdata", "text"))
        found = self._look("event", asked, different)
        entries = [found.get(number, (None, None, None)) for number in different.tolist()]
        stack = np.array([_whole(entry[0]) for entry in entries], np.int64)
        category = [_whole(entry[1]) for entry in entries]
        texts = self._categories.of(category)
        places = at.tolist()
        kinds = [(texts[number] or "").upper() for number in category]
        return Events(stack[at], [kinds[place] for place in places], [entries[place][2] for place in places])

    # --- names ---------------------------------------------------------------------------------------------------

    def texts(self, ids: Ints) -> list[str | None]:
        """Texts of the part's table of strings."""
        found = self._strings.of(np.unique(ids).tolist())
        return [found[number] for number in ids.tolist()]

    def symbols(self, ids: Ints) -> list[Symbol]:
        """The kernels of a batch of dispatches."""
        asked = (
            *fields("arch_vgpr_count accum_vgpr_count"),
            *(Field(name, "text") for name in ("kernel_name", "display_name", "extdata")),
        )
        missing = np.array([n for n in np.unique(ids).tolist() if n not in self._symbols], np.int64)
        found = self._look("info_kernel_symbol", asked, missing)
        for number in missing.tolist():
            self._symbols[number] = _symbol(*found[number]) if number in found else Symbol()
        nameless = [number for number in ids.tolist() if self._symbols[number].name == UNNAMED]
        if nameless:
            self._sink.lose("the name of a kernel", "its id points nowhere", count=len(nameless), repaired=True)
        return [self._symbols[number] for number in ids.tolist()]

    def labels(self, agents: Ints) -> list[str]:
        """Device labels of agents: `cuda:N` for the Nth GPU, `cpu`, and `agent:N` for one that is not described."""
        return [self._agents.get(number) or f"agent:{number}" for number in agents.tolist()]

    def counters(self) -> dict[int, str]:
        """Names of counters by the ids of their instances."""
        found = self._all("info_pmc", (Field("name", "text"),), "")
        return {number: str(name) for number, (name,) in found.items()}

    def _labels(self) -> dict[int, str]:
        names = tuple(Field(name, "text", needed=False) for name in ("type", "product_name", "name"))
        found = self._all("info_agent", names, "type_index logical_index")
        labels = {}
        for number, (kind, product, name, place, logical) in found.items():
            index = place if place >= 0 else logical if logical >= 0 else number
            labels[number] = f"cuda:{index}" if kind == "GPU" else "cpu" if kind == "CPU" else f"agent:{number}"
            if kind == "GPU" and len(self.gpus) < 64:
                self.gpus.append({"index": index, "name": product or name})
        self.gpus.sort(key=lambda gpu: gpu["index"])
        return labels

    def used(self) -> dict[int, Counter[str]]:
        """How many kernels and copies each process ran on each GPU."""
        found: dict[int, Counter[str]] = {}
        for name, agent in (("kernel_dispatch", "agent_id"), ("memory_copy", "dst_agent_id")):
            for batch in self._quiet(name, fields("", f"{' '.join(_INLINE)} dst_agent_id track_id")):
                self._by_track(batch)
                pairs = np.stack([self.process(batch["pid"]), batch[agent]])
                different, times = np.unique(pairs, axis=1, return_counts=True)
                for (process, number), many in zip(different.T.tolist(), times.tolist(), strict=True):
                    devices = found.setdefault(process, Counter())
                    if (label := self._agents.get(number, "")).startswith("cuda"):
                        devices[label] += many
        return found

    def environment(self) -> list[str]:
        """The environments of the part's processes, as JSON; only ranks are looked for in them."""
        asked = (Field("environment", "text"),)
        return [text for batch in self._quiet("info_process", asked) for text in batch["environment"]]

    # --- tables --------------------------------------------------------------------------------------------------

    def _quiet(self, name: str, asked: tuple[Field, ...]) -> Iterable[Batch]:
        """Rows that are read again later, or that the record can do without."""
        if self.table(name) in self._tables:
            try:
                yield from rows(self._connection, self.table(name), asked, lambda *_args, **_named: None)
            except TableError:
                return

    def _all(self, name: str, needed: tuple[Field, ...], optional: str) -> dict[int, tuple[Any, ...]]:
        """A whole small table by id; empty where it is missing."""
        found: dict[int, tuple[Any, ...]] = {}
        asked = (*needed, *fields("", optional))
        if self.table(name) not in self._tables:
            return found
        for batch in rows(self._connection, self.table(name), (*fields("id"), *asked), self._sink.lose):
            values = [batch[field.name] for field in asked]
            lists = [column if isinstance(column, list) else column.tolist() for column in values]
            found.update(zip(batch["id"].tolist(), zip(*lists, strict=True), strict=True))
            if len(found) > MAX_ENTRIES:
                raise ReadError(f"{self._sink.label}: table {self.table(name)} is too large to be kept.")
        return found

    def _look(self, name: str, asked: tuple[Field, ...], ids: Ints) -> dict[int, tuple[Any, ...]]:
        table = self.table(name)
        wanted = [number for number in ids.tolist() if number >= 0]
        if not wanted or table not in self._tables:
            return {}
        if missing := {"id", *(field.name for field in asked)} - columns(self._connection, table):
            raise TableError(f"table {table} has no column {', '.join(sorted(missing))}.")
        return lookup(self._connection, table, asked, wanted, self._sink.lose)


def ranks(parts: Iterable[Part], sink: Sink) -> dict[int, int]:
    """Rank by process where several used devices (by device, then process id); sets the sink's rank otherwise."""
    parts = list(parts)
    used = {process: devices for part in parts for process, devices in part.used().items()}
    if len(used) > 1:
        sink.own_ranks = True
        order = sorted(used, key=lambda process: (_main(used[process]), process))
        text = f"{sink.label} holds the work of {len(used)} processes: they are numbered by device and process id."
        sink.note("timeline", text)
        return {process: rank for rank, process in enumerate(order)}
    for text in (text for part in parts for text in part.environment()):
        rank, world = _RANK.search(text), _WORLD.search(text)
        if rank is not None:
            sink.rank = int(rank.group(1))
            sink.world_size = int(world.group(1)) if world else None
    return {}


def _main(devices: Counter[str]) -> tuple[int, str]:
    """The device that a process used most, in an order in which `cuda:10` follows `cuda:9`."""
    label = devices.most_common(1)[0][0] if devices else ""
    return len(label), label


def blocks_of(batch: Batch) -> tuple[list[tuple[int, int, int] | None], list[tuple[int, int, int] | None]]:
    """Launch grids in blocks, from work-items, and blocks in threads; None where an extent makes no sense."""
    sizes = [batch[f"workgroup_size_{axis}"] for axis in "xyz"]
    grid = []
    for axis, size in zip("xyz", sizes, strict=True):
        items = batch[f"grid_size_{axis}"]
        sound = (items > 0) & (size > 0) & (items < 1 << 62)
        grid.append(np.where(sound, -(-items // np.where(size > 0, size, 1)), ABSENT))
    return triples(*grid), triples(*(np.where(size > 0, size, ABSENT) for size in sizes))


def copy_name(text: str | None) -> str:
    """The name of a copy as Kineto writes it: ``Memcpy HtoD (Host -> Device)``."""
    found = _COPY.fullmatch((text or "").upper())
    if found is None:
        return f"Memcpy ({text})" if text else "Memcpy"
    source, target = found.groups()
    return f"Memcpy {source[0]}to{target[0]} ({source.title()} -> {target.title()})"


def _symbol(
    architected: int | None, accumulated: int | None, mangled: str | None, shown: str | None, extra: str | None
) -> Symbol:
    demangled = _json(extra).get("demangled_kernel_name")
    name = next((text for text in (demangled, shown, mangled) if isinstance(text, str) and text), "")
    registers = (
        ABSENT if architected is None or architected < 0 else min(architected + max(accumulated or 0, 0), 1 << 31)
    )
    return Symbol(kernel_name(name) or UNNAMED, registers)


def _json(text: str | None) -> dict[str, Any]:
    """An object in JSON; empty for anything else."""
    try:
        found = json.loads(text) if text else None
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _whole(value: int | None) -> int:
    return ABSENT if value is None else value
