"""The text of docs/features.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from wcbench.analysis.definitions.base import Definition
from wcbench.analysis.definitions.opmix import REFERENCE_DEVICE
from wcbench.analysis.definitions.parts import BATCHED, CATEGORY_PARTS

_INTRO = f"""# Features

What a workload is compared by. Exact: counted from the operator stream. Modelled: by the inter-operator reuse model
(docs/locality.md), from shapes, or by the roofline of {REFERENCE_DEVICE}. Measured: on the device that a table names.
Published: from the suites' files, each with its source. What is counted or measured at the presets small and tiny is a
toy, whatever else it is. A value that was not measured is null with its reason, and nothing is imputed.

Every feature is transformed and centred, and every block has total variance 1, so that features that say the same
count once. A composition (transform clr) is one block: its parts add up to 1, and what is below the floor counts as
0.65 of it.

What grows with the batch enters as the line over batch sizes (table scaling): `flops_per_sample`, `bytes_op_level` and
`footprint_per_sample` are slopes, `flops_fixed`, `bytes_op_level_fixed` and `footprint_fixed` what remains of a step at
no samples. Ratios, shares, working sets, the peak and the compulsory bytes are of a step at the preset's own batch.
Where steps differ in kind, sums and curves are of an average step, and the peak is the greatest. Where a stream was
counted at a shorter length than the preset's, the slopes, `ops_per_step` and `footprint_peak` are continued to it by
straight lines, the rest is of the counted length, and the value's remark says so.
"""


def page(
    definitions: Sequence[Definition],
    sets: Mapping[str, Sequence[str]],
    facets: Mapping[str, Sequence[str]],
    needs: Mapping[str, str],
) -> str:
    parts = [_INTRO, "## Sets\n", *_listed(sets), "", "## Facets of AIBench Training's claims\n", *_listed(facets), ""]
    parts += ["## Needs\n", "| pass | what gives it |", "|---|---|"]
    parts += [f"| {name} | {words} |" for name, words in needs.items()]
    parts += [
        "",
        "## All features\n",
        "| feature | unit | needs | transform | floor | block | tier | origin | meaning |",
    ]
    parts += ["|---|---|---|---|---|---|---|---|---|", *(_row(d) for d in definitions), ""]
    parts += ["## Compositions\n", *(_parts(d) for d in definitions if d.parts), ""]
    parts += ["## Classes of operators\n", *_classes()]
    return "\n".join(parts) + "\n"


def _listed(names: Mapping[str, Sequence[str]]) -> Iterator[str]:
    for name, members in names.items():
        words = ", ".join(f"`{member}`" for member in members) or "no number: compared by factors of the catalogue"
        yield f"- **{name}** ({len(members)}): {words if name != 'all' else 'every feature but those of tier meta'}"


def _row(d: Definition) -> str:
    floor = "" if d.floor is None else f"{d.floor:g}"
    meaning = d.meaning + (f" ({d.reference})" if d.reference else "")
    cells = (f"`{d.name}`", d.unit, d.needs, d.transform, floor, d.block, d.tier, d.origin, meaning.replace("|", "\\|"))
    return "| " + " | ".join(cells) + " |"


def _parts(d: Definition) -> str:
    return f"- `{d.name}[...]`: " + ", ".join(f"`{part}`" for part in d.parts)


def _classes() -> Iterator[str]:
    batched = " and ".join(f"`{name}`" for name in sorted(BATCHED))
    yield f"{batched} stand with attention, as most of them are; all else goes by its category.\n"
    yield "| category | part of op_class_flop_share | part of op_class_byte_share |\n|---|---|---|"
    for category, (flops, nbytes) in CATEGORY_PARTS.items():
        yield f"| {category} | {flops} | {nbytes} |"
