"""Where the numbers come from: machine, versions, passes, and the command that makes them again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from wcbench.reports import format as fmt
from wcbench.reports.model import Block, Column, Command, Fact, Facts, Section, Table
from wcbench.reports.sections._common import Summary, file_name, files, imported, mapping, rows, show_command

PASS_COLUMNS = (
    ("preset", Column("preset")),
    ("batch_size", Column("batch", "count")),
    ("precision", Column("precision")),
    ("device", Column("device")),
    ("tensors", Column("tensors")),
    ("seed", Column("seed", "text")),
    ("steps", Column("steps", "count")),
    ("data_in_step", Column("data in step")),
    ("overhead", Column("overhead", "number", "×")),
    ("seconds", Column("took", "time_s")),
    ("settings", Column("settings")),
)

FILE_COLUMNS = (
    ("path", Column("file", "name")),
    ("format", Column("format")),
    ("bytes", Column("size", "bytes_each")),
    ("rank", Column("rank", "text")),
    ("refused", Column("refused because")),
    ("sha256", Column("SHA-256", "name")),
)


def section(summary: Summary) -> Section | None:
    """Always there: a number without its origin cannot be repeated."""
    blocks: list[Block] = []
    if summary.get("command"):
        blocks.append(Command("To reproduce", fmt.command(summary["command"])))
    blocks.append(Facts((*_record(summary), *_machine(summary))))
    if imported(summary):
        told = [item for item in FILE_COLUMNS if any(file.get(item[0]) is not None for file in files(summary))]
        cells = tuple(tuple(_file(file, field) for field, _ in told) for file in files(summary))
        columns = tuple(column for _, column in told)
        more = show_command(summary, "provenance")
        caption = "Files that were read; the command above, or --json, has their folders"
        blocks.append(Table("provenance-files", caption, columns, cells, more=more))
    passes = mapping(summary.get("passes"))
    if passes:
        columns = (Column("pass"), *(column for _, column in PASS_COLUMNS))
        fields = [field for field, _ in PASS_COLUMNS]
        cells = tuple((name, *(_cell(mapping(info), field) for field in fields)) for name, info in passes.items())
        caption = "Passes; overhead = step with the instrument / step without it, both in that pass"
        blocks.append(Table("provenance-passes", caption, columns, cells))
    packages = tuple(_packages(summary))
    if packages:
        columns = (Column("package"), Column("version"))
        blocks.append(Table("provenance-packages", "Versions", columns, packages))
    return Section("provenance", "Provenance", tuple(blocks))


def _file(file: Mapping[str, Any], field: str) -> Any:
    """A path without its folders: it would push the rest out of the table."""
    return file_name(file) if field == "path" and file.get("path") else file.get(field)


def _cell(info: Mapping[str, Any], field: str) -> Any:
    """An empty mapping of settings means the defaults, which is no absence."""
    value = info.get(field)
    return "defaults" if field == "settings" and value is not None and not value else value


def _record(summary: Summary) -> Iterator[Fact]:
    yield Fact("Record", summary.get("run"))
    yield Fact("Created", summary.get("created"), hint="UTC")
    yield Fact("wcbench", summary.get("wcbench"), hint=str(_commit(summary) or ""))
    yield Fact("Summary format", summary.get("schema"))


def _commit(summary: Summary) -> str | None:
    checkout = mapping(mapping(summary.get("machine")).get("wcbench"))
    if not checkout.get("commit"):
        return None
    return f"commit {str(checkout['commit'])[:12]}{', with local changes' if checkout.get('dirty') else ''}"


def _machine(summary: Summary) -> Iterator[Fact]:
    """What the record says of the machine; of an imported one only what the files tell."""
    machine = mapping(summary.get("machine"))
    facts = _machine_facts(machine)
    if imported(summary):
        yield from (fact for fact in facts if fact.value is not None)
        if machine.get("world_size"):
            yield Fact("Processes of the job", machine["world_size"], "count")
    else:
        yield from facts


def _machine_facts(machine: Mapping[str, Any]) -> Iterator[Fact]:
    cpu = machine.get("cpu")
    if isinstance(cpu, Mapping):
        cores = cpu.get("usable_cores")
        yield Fact("Processor", cpu.get("model"), hint="" if cores is None else fmt.plural(cores, "usable core"))
    else:
        yield Fact("Processor", cpu)
    yield Fact("Memory", machine.get("memory_bytes") or mapping(cpu).get("memory_bytes"), "bytes")
    yield Fact("GPUs", _gpus(machine))
    platform = mapping(machine.get("platform"))
    if platform:
        system = platform.get("distribution") or platform.get("system")
        yield Fact("System", system, hint=str(platform.get("kernel") or ""))
    if machine.get("environment"):
        yield Fact("Environment", machine["environment"], hint="variables that steer the numeric libraries")


def _gpus(machine: Mapping[str, Any]) -> str | None:
    found = rows(machine.get("gpus"))
    names = [str(gpu.get("name") or "unnamed") if isinstance(gpu, Mapping) else str(gpu) for gpu in found]
    if names:
        counts = {name: names.count(name) for name in names}
        return ", ".join(name if count == 1 else f"{count} × {name}" for name, count in counts.items())
    return "none" if "gpus" in machine else None


def _packages(summary: Summary) -> Iterator[tuple[str, Any]]:
    machine = mapping(summary.get("machine"))
    python = mapping(machine.get("python")).get("version")
    if python:
        yield "python", python
    for name, version in mapping(machine.get("packages")).items():
        yield name, version or "not installed"
