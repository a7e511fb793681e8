"""What is missing or doubtful: sections that could not be written, then everything the record says of itself."""

from __future__ import annotations

from wcbench.reports.model import Block, Notes, Section, Text
from wcbench.reports.sections._common import Summary, imported, missing, note_lines


def section(summary: Summary) -> Section | None:
    """Always there, so that silence means that nothing is missing."""
    absent, lines = missing(summary), tuple(note_lines(summary))
    blocks: list[Block] = []
    if absent and imported(summary):
        names = ", ".join(line.about.replace("_", " ") for line in absent)
        blocks.append(Text(f"The imported files hold nothing for these parts of a report: {names}."))
    elif absent:
        blocks += [Text("Sections that this report does not have:"), Notes(absent)]
    if lines:
        blocks += [Text("What the record says is missing or doubtful:"), Notes(lines)]
    return Section("notes", "Notes", tuple(blocks or [Text("Nothing is missing, and the record doubts nothing.")]))
