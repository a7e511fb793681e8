"""Lines of MLPerf training logs as events, whatever the version.

``:::MLLOG {json}`` (v0.7 and newer), ``:::MLL seconds key: {json}`` (v0.6) and ``:::MLPv0.5.0 benchmark seconds
(file:line) key: value`` (v0.5), each with any text before the mark.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from wcbench.profilers.readers.base import Sink, Source

EVALUATIONS = ("eval_accuracy", "eval_error")
LONG = 200
_PRIVATE = re.compile("_poc_|user|email|host")

MARK = re.compile(
    r":::MLLOG\s{0,9}(?=\{)"
    r"|:::MLL\s(?P<secs6>[\d.]{1,40})\s(?P<key6>\w{1,100}):\s?"
    r"|:::MLPv\d\.\d{1,3}\.\d{1,3}\s(?P<bench>[\w-]{1,100})\s(?P<secs5>[\d.]{1,40})\s\([^)]{0,500}\)\s(?P<key5>\w{1,100})"
    r"(?P<colon>:\s?)?"
)


class Event(NamedTuple):
    """One event: milliseconds (None where they are absurd), key, value, metadata, byte of the file."""

    ms: float | None
    key: str
    value: Any
    meta: Mapping[str, Any]
    offset: int


def events(source: Source, sink: Sink) -> Iterator[Event]:
    for offset, line in source.lines(sink.lose):
        if ":::ML" in line:
            yield from _line(line, offset, sink)


def _line(line: str, offset: int, sink: Sink) -> Iterator[Event]:
    """The events of a line: several where processes wrote at once."""
    at = 0
    while (mark := MARK.search(line, at)) is not None:
        at = mark.end()
        found: Any = None
        if mark["key5"] is None or mark["colon"]:
            try:
                found, at = json.JSONDecoder().raw_decode(line, mark.end())
            except (ValueError, RecursionError):
                sink.lose("a log line", "what follows the mark is no JSON", offset=offset)
                continue
        yield from _event(mark, found, offset, sink)


def _event(mark: re.Match[str], found: Any, offset: int, sink: Sink) -> Iterator[Event]:
    if mark["key5"]:
        yield Event(None, "submission_benchmark", mark["bench"], {}, offset)
        yield _as_v07(Event(_milliseconds(mark["secs5"], 1000.0), mark["key5"], found, {}, offset))
        return
    fields = found if isinstance(found, dict) else {}
    key = mark["key6"] or fields.get("key")
    meta = fields.get("metadata")
    if not isinstance(key, str) or "value" not in fields:
        sink.lose("a log line", "it has no key or no value", offset=offset)
        return
    ms = _milliseconds(mark["secs6"], 1000.0) if mark["secs6"] else _milliseconds(fields.get("time_ms"), 1.0)
    yield Event(ms, key, fields["value"], meta if isinstance(meta, dict) else {}, offset)


def _as_v07(event: Event) -> Event:
    """An event of v0.5 in today's words: what stands in metadata now was part of the value."""
    value = event.value if isinstance(event.value, dict) else {}
    if event.key in EVALUATIONS and "value" in value:
        return event._replace(value=value["value"], meta={"epoch_num": value.get("epoch")})
    if event.key == "run_stop":
        success = value.get("success")
        status = "success" if success is True else "aborted" if success is False else None
        return event._replace(meta={"status": status})
    if event.key == "train_epoch":
        return event._replace(key="epoch_start", meta={"epoch_num": event.value})
    return event._replace(key="seed") if event.key == "run_set_random_seed" else event


def _milliseconds(value: Any, factor: float) -> float | None:
    try:
        ms = float(value) * factor
    except (TypeError, ValueError, OverflowError):
        return None
    return ms if 0 <= ms < 1e16 and not isinstance(value, bool) else None


def number_of(value: Any) -> float | None:
    """A finite number; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) else None


def whole(value: Any) -> int | None:
    """A whole number that fits 64 bits; None for anything else."""
    found = number_of(value)
    return int(value) if found is not None and found == int(found) and abs(int(value)) < 2**63 else None


def text(value: Any) -> str | None:
    return value[:LONG] if isinstance(value, str) and value else None


def settings_of(facts: Mapping[str, Any]) -> dict[str, Any]:
    """What the log says of a run's settings, as plain values: no names of people, nothing long."""
    return {
        key: value for key, value in facts.items() if not _PRIVATE.search(key) and len(key) < LONG and _plain(value)
    }


def _plain(value: Any) -> bool:
    if isinstance(value, list):
        return len(value) < 20 and all(_plain(item) and not isinstance(item, list) for item in value)
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, int):
        return abs(value) < 2**63
    return isinstance(value, str) and len(value) < LONG
