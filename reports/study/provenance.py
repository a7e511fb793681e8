"""Where the numbers come from: command, versions, settings, and the record behind every workload."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from wcbench.redaction import redact_tree
from wcbench.reports import format as fmt
from wcbench.reports.model import Block, Column, Command, Fact, Facts, Section, Table
from wcbench.reports.sections._common import mapping
from wcbench.reports.study._common import View, joined

RECORDS = (
    ("id", Column("record", "name", keep=True)),
    ("created", Column("created")),
    ("wcbench", Column("wcbench")),
    ("preset", Column("preset")),
    ("batch_size", Column("batch", "count")),
    ("precision", Column("precision")),
    ("tensors", Column("tensors")),
)


def section(view: View) -> Section:
    """Always there: a number without its origin cannot be repeated."""
    made: Mapping[str, Any] = redact_tree(dict(view.part("provenance")), {})
    blocks: list[Block] = []
    if made.get("command"):
        blocks.append(Command("To reproduce", fmt.command(made["command"])))
    blocks.append(Facts((*_made(view, made), *_machine(made))))
    settings = tuple((name, value) for name, value in view.part("settings").items())
    if settings:
        cells = tuple((name, "not set" if value is None else value) for name, value in settings)
        blocks.append(Table("provenance-settings", "Settings", (Column("setting", keep=True), Column("value")), cells))
    return Section("provenance", "Provenance", (*blocks, *_records(made)))


def _made(view: View, made: Mapping[str, Any]) -> Iterator[Fact]:
    space = view.part("space")
    yield Fact("wcbench", made.get("wcbench"), hint=f"code {fmt.prose(made['code'])}" if made.get("code") else "")
    yield Fact("Document", view.document.get("schema"))
    yield Fact("Features asked for", joined(made["features"]) if made.get("features") else None)
    yield Fact("Space", space.get("fingerprint"), hint="fingerprint of transforms, centres and scales")
    yield Fact("Coordinates", space.get("coordinates"), "count", hint="axes of the space")

    for name, values in mapping(view.part("table").get("conditions")).items():
        if values:
            yield Fact(fmt.prose(name).capitalize(), joined(values), hint="of the features' values")


def _machine(made: Mapping[str, Any]) -> Iterator[Fact]:
    """What the study says of the machine and the packages that made it."""
    machine = mapping(made.get("machine"))
    cpu = machine.get("cpu")
    if machine:
        yield Fact("Processor", mapping(cpu).get("model") if isinstance(cpu, Mapping) else cpu)
        versions = mapping(machine.get("packages"))
        if versions:
            yield Fact("Versions", ", ".join(f"{fmt.prose(k)} {fmt.prose(v)}" for k, v in versions.items() if v))


def _records(made: Mapping[str, Any]) -> Iterator[Table]:
    found = mapping(made.get("records"))
    used = [
        (key, column) for key, column in RECORDS if any(mapping(one).get(key) is not None for one in found.values())
    ]
    cells: tuple[tuple[Any, ...], ...] = tuple(
        (name, *(_cell(mapping(one), key) for key, _ in used)) for name, one in found.items()
    )
    if cells:
        columns = (Column("workload", "name", keep=True), *(column for _, column in used))
        caption = "The record that stands for each workload; `wcbench show RECORD` prints one"
        yield Table("provenance-records", caption, columns, cells, limit=60, more="study.json: provenance.records")


def _cell(record: Mapping[str, Any], key: str) -> Any:
    """A date to the minute; everything else as it is."""
    value = record.get(key)
    return f"{str(value)[:16].replace('T', ' ')} UTC" if key == "created" and value else value
