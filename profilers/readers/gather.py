"""Several foreign files to one record: each read by itself, on the cores there are, then joined with their ranks."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import multiprocessing
import os
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from wcbench.errors import ReadError, WcbenchError
from wcbench.machine import usable_cores
from wcbench.profilers.readers import detect, reader
from wcbench.profilers.readers.base import Head, PassFacts, Sink
from wcbench.profilers.readers.source import Source, expand
from wcbench.record import Loss, Note, lean_memory, table_writer
from wcbench.schema import table_schema

Progress = Callable[[int, int], None]
"""Called as ``progress(bytes read, bytes in all)``."""

# Columns that point at rows of a table of the same file: where several files are put together, they move on with it.
_POINTERS = {
    ("ops", "parent"): "ops",
    ("runtime", "op"): "ops",
    ("kernels", "launch"): "runtime",
    ("counters", "kernel"): "kernels",
    ("trainings", "run"): "trainings",
    ("epochs", "run"): "trainings",
}
# What one step consists of, in one order: of two files the second one's is not the same step.
_SINGLE = ("operators", "storages", "parameters")
_RANKED = ("timeline", "memory")
_RANK = re.compile(r"(?:rank|worker|gpu)[-_ .]?(\d{1,6})(?!\d)", re.IGNORECASE)


@dataclass
class Part:
    """What one file gave: its staged tables and what was said of them."""

    label: str
    folder: Path
    format: str = ""
    ranked: bool = False
    rank: int | None = None
    own_ranks: bool = False
    staged: frozenset[int] = frozenset()
    world_size: int | None = None
    rows: Mapping[str, int] = field(default_factory=dict)
    passes: Mapping[str, PassFacts] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    notes: Sequence[Note] = ()
    losses: Sequence[Loss] = ()
    sha256: str | None = None
    nbytes: int = 0
    refused: str | None = None
    hint: str | None = None


@dataclass
class Gathered:
    """Tables of all files in one folder, as Parquet, and what the record says of them."""

    folder: Path
    rows: dict[str, int]
    passes: dict[str, PassFacts]
    facts: dict[str, Any]
    notes: list[Note]
    losses: list[Loss]
    files: list[dict[str, Any]]


def gather(
    paths: Sequence[Path],
    workspace: Path,
    *,
    form: str | None = None,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> Gathered:
    """Read files, folders and archives into ``workspace``.

    Parameters
    ----------
    form : name of the format; None tells it by each file's content.
    jobs : processes; None takes one a core where there are several files.

    Raises
    ------
    ReadError : nothing could be read. One of several files that is refused is told in ``losses`` and ``files``.
    UnknownNameError : there is no such format.
    """
    if form is not None:
        reader(form)
    (workspace / "unpacked").mkdir()
    early: dict[str, Sink] = {}
    sources = expand(paths, workspace / "unpacked", lambda label: early.setdefault(label, Sink(label, workspace)).lose)
    parts = _read_all(sources, workspace, form, jobs, progress or (lambda done, total: None))
    if all(part.refused is not None for part in parts):
        raise _nothing(parts)
    made = _put_together(parts, workspace / "record")
    made.losses[:0] = [loss for sink in early.values() for loss in sink.losses]
    return made


def _nothing(parts: Sequence[Part]) -> ReadError:
    first = parts[0]
    if len(parts) == 1:
        return ReadError(first.refused or "", first.hint)
    return ReadError(f"None of {len(parts)} files could be read. The first: {first.refused}", first.hint)


# --- reading ---------------------------------------------------------------------------------------------------------


def read_part(source: Source, folder: Path, form: str | None) -> Part:
    """Read one file into a folder of its own; one that is refused gives a part that says why."""
    folder.mkdir()
    sink = Sink(source.label, folder)
    part = Part(source.label, folder)
    collecting = gc.isenabled()
    gc.disable()  # millions of events that hold no cycles would be gone over again and again
    try:
        found = detect(Head(source, source.head())) if form is None else reader(form)
        part.format, part.ranked = found.name, found.ranked
        with lean_memory():
            found.read(source, sink)
            sink.finish()
        if not sink.rows and not sink.notes:
            raise ReadError(
                f"{source.label} holds nothing of what is recorded.", "See docs/formats.md for what is read."
            )
    except WcbenchError as error:
        part.refused, part.hint = error.message, error.hint
    except OSError as error:
        part.refused = f"{source.label}: {error.strerror or error} while it was read into {folder.parent}."
        part.hint = "Free some space, or set TMPDIR to a place that has some."
    except MemoryError:
        part.refused, part.hint = f"{source.label} needs more memory than there is.", "Cut it, or import it by itself."
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        part.refused = f"{source.label}: the reader {part.format or 'detection'} itself failed ({text[:300]})."
        part.hint = "This is a defect of wcbench; please report it with the file."
    finally:
        sink.close()
        if collecting:
            gc.enable()
    return dataclasses.replace(
        part, rank=sink.rank, own_ranks=sink.own_ranks, staged=frozenset(sink.staged), world_size=sink.world_size,
        rows=dict(sink.rows),
        passes=dict(sink.passes), facts=dict(sink.facts), notes=list(sink.notes), losses=list(sink.losses),
        sha256=source.sha256, nbytes=source.nbytes,
    )  # fmt: skip


def _read_all(
    sources: Sequence[Source], workspace: Path, form: str | None, jobs: int | None, progress: Progress
) -> list[Part]:
    folders = [workspace / f"part-{number}" for number in range(len(sources))]
    sizes = [source.path.stat().st_size for source in sources]
    cores = jobs or usable_cores()
    jobs = min(cores, len(sources))
    for source in sources:
        source.cores = cores // jobs
    if jobs > 1:
        return _in_parallel(sources, folders, sizes, form=form, jobs=jobs, progress=progress)
    parts = []
    for number, (source, folder) in enumerate(zip(sources, folders, strict=True)):
        before, total = sum(sizes[:number]), sum(sizes)
        source.told = lambda done, before=before, total=total: progress(before + done, total)
        parts.append(read_part(source, folder, form))
        progress(before + sizes[number], total)
    return parts


def _in_parallel(
    sources: Sequence[Source],
    folders: Sequence[Path],
    sizes: Sequence[int],
    *,
    form: str | None,
    jobs: int,
    progress: Progress,
) -> list[Part]:
    parts: dict[int, Part] = {}
    done = 0
    with _processes(jobs) as pool:
        running: dict[Future[Part], int] = {
            pool.submit(read_part, source, folder, form): number
            for number, (source, folder) in enumerate(zip(sources, folders, strict=True))
        }
        for future in as_completed(running):
            number = running[future]
            try:
                parts[number] = future.result()
            except BrokenProcessPool:
                continue  # one process that is killed takes the others with it
            done += sizes[number]
            progress(done, sum(sizes))
    for number in sorted(set(range(len(sources))) - set(parts)):
        parts[number] = _alone(sources[number], folders[number], form)
    return [parts[number] for number in range(len(sources))]


@contextlib.contextmanager
def _processes(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """Fresh interpreters: a fork would copy the state of Arrow's threads. They end with this process, however it ends,
    and at once where this is left by an error or a signal."""
    pool = ProcessPoolExecutor(
        jobs, mp_context=multiprocessing.get_context("spawn"), initializer=_end_with, initargs=(os.getpid(),)
    )
    try:
        yield pool
    except BaseException:
        for process in list((getattr(pool, "_processes", None) or {}).values()):
            process.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _end_with(parent: int) -> None:
    """Watch the parent from a thread: a worker whose parent is gone would wait for work for ever."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True, name="wcbench-watch").start()


def _alone(source: Source, folder: Path, form: str | None) -> Part:
    """Read a file once more by itself, whose process was killed: perhaps it was another one's fault."""
    shutil.rmtree(folder, ignore_errors=True)
    with _processes(1) as pool:
        try:
            return pool.submit(read_part, source, folder, form).result()
        except BrokenProcessPool:
            return Part(
                source.label, folder, refused=f"{source.label}: the process that read it was killed.",
                hint="Memory may have run out: cut the file, or read it on a machine with more.",
            )  # fmt: skip


# --- putting together ------------------------------------------------------------------------------------------------


def _put_together(parts: Sequence[Part], target: Path) -> Gathered:
    kept = [part for part in parts if part.refused is None]
    notes = _notes(kept)
    losses = [loss for part in parts for loss in part.losses]
    losses += [Loss(part.label, "the file", part.refused) for part in parts if part.refused is not None]
    ranks, told = _ranks(kept)
    notes += [*told, *_twins(kept), *_machines(kept)]
    losses += _leave_out_seconds(kept)
    rows = _write_tables(kept, ranks, target)
    return Gathered(
        folder=target,
        rows=rows,
        passes=_passes(kept),
        facts=_facts(kept),
        notes=list(dict.fromkeys(notes)),
        losses=losses,
        files=[_file(part, ranks.get(part.folder)) for part in parts],
    )


def _file(part: Part, rank: int | None) -> dict[str, Any]:
    return {
        "path": part.label,
        "format": part.format or None,
        "sha256": part.sha256,
        "bytes": part.nbytes,
        "rank": rank,
        "refused": part.refused,
    }


def _ranks(parts: Sequence[Part]) -> tuple[dict[Path, int], list[Note]]:
    """The rank of each file, by its folder: what it says, else what its name says, else its place; notes where that is
    a guess. Files of several kinds (traces, memory timelines) are of the same ranks."""
    ranks = {part.folder: part.rank for part in parts if part.rank is not None}
    notes: list[Note] = []
    for passname in _RANKED:
        found, told = _ranks_of([p for p in parts if passname in p.passes and p.ranked and not p.own_ranks])
        ranks = {**found, **ranks} if not told else {**ranks, **found}
        notes += [Note(passname, text) for text in told]
    return ranks, notes


def _ranks_of(ranked: Sequence[Part]) -> tuple[dict[Path, int], list[str]]:
    told = [part.rank for part in ranked]
    if None not in told and len(set(told)) == len(told):
        return {part.folder: rank for part, rank in zip(ranked, told, strict=True) if rank is not None}, []
    named = [_named_rank(part, 2 if len(ranked) > 1 else 1) for part in ranked]
    if None not in named and len(set(named)) == len(named):
        ranks, how = [rank or 0 for rank in named], "taken from the names of the files"
    else:
        ranks, how = list(range(len(ranked))), "numbered in the order of the files"
    found = {part.folder: rank for part, rank in zip(ranked, ranks, strict=True)}
    if len(ranked) == 1 and ranked[0].format != "kineto":
        return found, []  # formats that know no ranks: there is nothing to guess
    what = "The file does not say its rank" if len(ranked) == 1 else "The files do not all say ranks of their own"
    return found, [f"{what}: {how} ({', '.join(map(str, ranks[:8]))}{', ...' * (len(ranks) > 8)})."]


_DIGITS = re.compile(r"\d+")


def _notes(parts: Sequence[Part]) -> list[Note]:
    """What files noted; of several files by name, and notes that differ in their numbers alone once."""
    if len(parts) == 1:
        return list(parts[0].notes)
    alike: dict[tuple[str, str], list[tuple[str, Note]]] = {}
    for part in parts:
        for note in dict.fromkeys(part.notes):
            key = (note.about, _DIGITS.sub("0", note.text))
            alike.setdefault(key, []).append((part.label.rpartition("/")[2], note))
    return [_one_note(found, len(parts)) for found in alike.values()]


def _one_note(found: Sequence[tuple[str, Note]], files: int) -> Note:
    label, first = found[0]
    same = len({note.text for _, note in found}) == 1
    if same and len(found) == files:
        return first
    more = len(found) - 1
    others = (
        f"; {more} more file{'s say' if more > 1 else ' says'} {'this' if same else 'the like'} too" if more else ""
    )
    return Note(first.about, f"{first.text} ({label}{others}.)")


def _machines(parts: Sequence[Part]) -> Iterator[Note]:
    """Files of different devices: what is averaged over them is of none of them."""
    names = {str(gpu.get("name")) for part in parts for gpu in part.facts.get("gpus", ()) if gpu.get("name")}
    if len(names) > 1:
        yield Note(
            "import", f"The files are of different devices ({', '.join(sorted(names))}): means are of none of them."
        )


def _twins(parts: Sequence[Part]) -> Iterator[Note]:
    """Files of equal content: perhaps one file under two names, which counts twice."""
    first: dict[str, str] = {}
    for part in parts:
        if part.sha256 is not None and part.sha256 in first:
            yield Note("import", f"{part.label} is byte for byte {first[part.sha256]}: both are counted.")
        elif part.sha256 is not None:
            first[part.sha256] = part.label


def _named_rank(part: Part, names: int) -> int | None:
    """The rank in the last of a path's ``names`` that has one: rank3.json, rank_3/trace.json."""
    for name in re.split(r"[/\\:]", part.label)[: -1 - names : -1]:
        if found := _RANK.findall(name):
            return int(found[-1])
    return None


def _leave_out_seconds(parts: Sequence[Part]) -> list[Loss]:
    """Only one file's recorded step can be in a record; those of others are told as lost."""
    losses: list[Loss] = []
    first: str | None = None
    for part in parts:
        if not any(table in part.rows for table in _SINGLE):
            continue
        if first is None:
            first = part.label
            continue
        part.rows = {table: count for table, count in part.rows.items() if table not in _SINGLE}
        part.passes = {name: facts for name, facts in part.passes.items() if name != "operators"}
        losses.append(Loss(part.label, "its operators", "a record holds one stream of operators: import it by itself"))
    return losses


def _write_tables(parts: Sequence[Part], ranks: Mapping[Path, int], target: Path) -> dict[str, int]:
    target.mkdir()
    tables = list(dict.fromkeys(table for part in parts for table in part.rows))
    rows: dict[str, int] = {}
    for table in tables:
        having = [part for part in parts if part.rows.get(table)]
        rows[table] = sum(part.rows[table] for part in having)
        file = f"{table}.parquet"
        if len(parts) == 1 and _rank_stands(parts[0], ranks):
            os.replace(parts[0].folder / file, target / file)
        else:
            _join(parts, table, ranks, target / file)
    return {table: count for table, count in rows.items() if count}


def _rank_stands(part: Part, ranks: Mapping[Path, int]) -> bool:
    """Whether the rank that the file's rows were staged with is the one that it has."""
    return part.own_ranks or part.staged <= {ranks.get(part.folder, 0)}


def _join(parts: Sequence[Part], table: str, ranks: Mapping[Path, int], target: Path) -> None:
    offsets = dict.fromkeys(set(_POINTERS.values()), 0)
    with table_writer(target, table_schema(table).arrow()) as writer:
        for part in parts:
            if part.rows.get(table):
                rank = None if part.own_ranks else ranks.get(part.folder, 0)
                for rows in _row_groups(part.folder / f"{table}.parquet"):
                    writer.write_table(_moved(rows, table, offsets, rank))
            for pointed in offsets:
                offsets[pointed] += part.rows.get(pointed, 0)


def _row_groups(file: Path) -> Iterator[Any]:
    import pyarrow.parquet as pq

    with pq.ParquetFile(file) as opened:
        for number in range(opened.num_row_groups):
            yield opened.read_row_group(number)


def _moved(rows: Any, table: str, offsets: Mapping[str, int], rank: int | None) -> Any:
    """Rows of a file as rows of the whole: pointers moved on, the rank filled in."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for (name, column), pointed in _POINTERS.items():
        if name == table and offsets[pointed]:
            place = rows.schema.get_field_index(column)
            rows = rows.set_column(place, rows.schema.field(place), pc.add(rows[column], offsets[pointed]))
    if rank is not None and "rank" in rows.column_names:
        place = rows.schema.get_field_index("rank")
        rows = rows.set_column(place, rows.schema.field(place), pa.array(np.full(rows.num_rows, rank, np.int64)))
    return rows


def _passes(parts: Sequence[Part]) -> dict[str, PassFacts]:
    """Each pass's facts over all files; what differs between files is not told."""
    found: dict[str, PassFacts] = {}
    for part in parts:
        for name, facts in part.passes.items():
            found[name] = _both(found[name], facts) if name in found else facts
    return found


def _both(one: PassFacts, other: PassFacts) -> PassFacts:
    def same(name: str) -> Any:
        return getattr(one, name) if getattr(one, name) == getattr(other, name) else None

    return PassFacts(
        device=_device(one.device, other.device),
        steps=max(one.steps, other.steps),
        seconds=max(one.seconds, other.seconds),
        warmup=one.warmup,
        preset=same("preset"),
        batch_size=same("batch_size"),
        samples=same("samples"),
        precision=same("precision"),
        seed=same("seed"),
        tensors=one.tensors,
        settings={key: value for key, value in one.settings.items() if other.settings.get(key) == value},
    )


def _device(one: str, other: str) -> str:
    if one == other:
        return one
    return "cuda" if {one, other} == {"cuda", "cpu"} else "several"


def _facts(parts: Sequence[Part]) -> dict[str, Any]:
    """The machine, as the files tell of it: devices of all of them, other facts of the first that has them."""
    found: dict[str, Any] = {}
    gpus: list[Any] = []
    for part in parts:
        gpus += [gpu for gpu in part.facts.get("gpus", ()) if gpu not in gpus]
        for key, value in part.facts.items():
            found.setdefault(key, value)
    if gpus:
        found["gpus"] = gpus
    sizes = [part.world_size for part in parts if part.world_size is not None]
    if sizes:
        found["world_size"] = max(sizes)
    return found


__all__ = ["Gathered", "Part", "gather", "read_part"]
