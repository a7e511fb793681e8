"""What every kind of report holds: it renders, its numbers are in its JSON, names do no harm and tell on nobody."""

from __future__ import annotations

import dataclasses
import html as entities
import io
import json
import math
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

import pypdf
import pytest

from tests.reports import contract_inputs as inputs
from tests.reports.conftest import HOSTILE
from tests.reports.contract_inputs import HOSTILE_KINDS, KINDS, MODULE, OWN, PRIVATE, SECRET
from tests.reports.contract_numbers import (
    TIMES,
    Known,
    Token,
    bare,
    cells,
    drawn,
    program,
    spellings,
    texts,
    tokens,
    unknown_numbers,
)
from wcbench import api
from wcbench.reports.document import Made
from wcbench.reports.model import Column, Figure, Report, Section, Table, Text

LIMIT = 3_000_000
"""Bytes of a report of a study of 27 tasks, as HTML and as PDF."""
SLOW = pytest.mark.slow
LETTER = {"trained"}
"""Kinds that are set on letter paper too in every run; the others are so in the slow one."""


@cache
def made(kind: str) -> Made:
    return KINDS[kind]()


@cache
def drawable(kind: str) -> Made:
    """The report with its first figure: drawing takes most of the time, and the slow tests draw all."""
    first = next((f.id for section in made(kind).report.sections for f in section.figures()), "")
    return with_blocks(made(kind), lambda block: not isinstance(block, Figure) or block.id == first)


def without_figures(found: Made) -> Made:
    return with_blocks(found, lambda block: not isinstance(block, Figure))


def with_blocks(found: Made, kept: Callable[[Any], bool]) -> Made:
    sections = (dataclasses.replace(s, blocks=tuple(filter(kept, s.blocks))) for s in found.report.sections)
    return dataclasses.replace(found, report=dataclasses.replace(found.report, sections=tuple(sections)))


@cache
def page(kind: str) -> str:
    return drawable(kind).html()


@cache
def paper(kind: str, size: str = "a4") -> str:
    """The words of the PDF; with all figures on letter paper alone, since to read them out takes most of the time."""
    return words_of((without_figures(made(kind)) if size == "a4" else made(kind)).pdf(size))


@cache
def told(kind: str) -> str:
    """The JSON as the command prints it."""
    return printed(made(kind))


def printed(report: Made) -> str:
    return json.dumps(report.to_dict(), indent=2, allow_nan=False, ensure_ascii=False)


def words_of(pdf: bytes) -> str:
    """The text of a PDF without white space and without marks at which a word may break."""
    pages = pypdf.PdfReader(io.BytesIO(pdf)).pages
    return squeezed("".join(one.extract_text() for one in pages))


def squeezed(text: str) -> str:
    return re.sub(r"[\s\u200b\u00ad\u2060\ufeff]+", "", unicodedata.normalize("NFKC", text))


def shown(page_: str) -> str:
    """The words of a page of HTML, without white space."""
    body = re.sub(r"<(script|style)\b.*?</\1>", "", page_, flags=re.DOTALL)
    return squeezed(entities.unescape(re.sub(r"<[^>]*>", "", body)))


def data(report: Made) -> dict[str, Any]:
    """What the JSON tells of the input, apart from the report itself."""
    found: dict[str, Any] = report.to_dict()
    return {**found["data"], **({"tables": found["tables"]} if "tables" in found else {})}


every_kind = pytest.mark.parametrize("kind", KINDS)


# --- it renders, and says what it holds -------------------------------------------------------------------------------


def wanted(report: Report) -> Iterator[str]:
    """The lead, every section's title, every table's headings: what a reader must find in each form."""
    yield report.title
    yield from report.lead
    for section in report.sections:
        yield section.title
        for table in section.tables():
            if table.columns and table.rows:
                yield from (column.title for column in table.columns)


@every_kind
def test_a_page_holds_the_lead_every_title_and_every_heading(kind: str) -> None:
    there = shown(page(kind))
    assert [text for text in wanted(made(kind).report) if squeezed(text) not in there] == []


@every_kind
def test_so_does_the_pdf(kind: str) -> None:
    there = paper(kind)
    assert [text for text in wanted(made(kind).report) if squeezed(text) not in there] == []


@pytest.mark.parametrize("kind", [kind if kind in LETTER else pytest.param(kind, marks=SLOW) for kind in KINDS])
def test_so_does_the_pdf_on_letter_paper(kind: str) -> None:
    there = paper(kind, "letter")
    assert [text for text in wanted(made(kind).report) if squeezed(text) not in there] == []


@pytest.mark.slow
@every_kind
def test_a_page_holds_every_figure(kind: str) -> None:
    page_ = made(kind).html()
    captions = [f.caption for section in made(kind).report.sections for f in section.figures()]
    assert [text for text in captions if squeezed(text) not in shown(page_)] == []
    assert page_.count("<figure") >= len(captions)


def test_a_missing_heading_is_found() -> None:
    """That the search above can fail."""
    assert squeezed("a heading that is not there") not in shown(page("two"))
    assert squeezed("a heading that is not there") not in paper("two")


# --- numbers ----------------------------------------------------------------------------------------------------------


@every_kind
def test_every_number_of_a_text_is_in_the_json(kind: str) -> None:
    assert unknown_numbers(made(kind).report, data(made(kind))) == []


@every_kind
def test_cells_and_facts_are_values_of_the_json(kind: str) -> None:
    known = Known(data(made(kind)))
    assert [one for one in cells(made(kind).report) if not known.exactly(one[1])] == []


@every_kind
def test_figures_draw_values_of_the_json(kind: str) -> None:
    """An axis may be in ms or percent."""
    known = Known(data(made(kind)))
    assert [one for one in drawn(made(kind).report) if not known.exactly(one[1], 1e-6, 1e-3, 100)] == []


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("The step takes 413 ms.", "413 ms"),
        ("It takes 10.7 ms.", "10.7 ms"),
        ("GEMM takes 87.3 %.", "87.3 %"),
        ("Nearly all of it (>99.9 %).", ">99.9 %"),
        ("It moves 3.21 GiB.", "3.21 GiB"),
        ("It does 77.7 TFLOP.", "77.7 TFLOP"),
        ("Quartiles 905 to 931 µs.", "905"),
        ("There are 1,234,567 kernels.", "1,234,567"),
    ],
)
def test_an_invented_number_is_found(said: str, found: str) -> None:
    report = made("profile of a device").report
    invented = dataclasses.replace(report, lead=(*report.lead, said))
    unknown = unknown_numbers(invented, data(made("profile of a device")))
    assert any(line.startswith(f"lead: {found!r}") for line in unknown), unknown


def test_an_invented_cell_is_found() -> None:
    table = Table("t", "", (Column("x", "number"),), ((0.123456789,),))
    report = dataclasses.replace(made("two").report, sections=(Section("s", "S", (table,)),))
    known = Known(data(made("two")))
    assert [one for one in cells(report) if not known.exactly(one[1])] == [("t: x", 0.123456789)]


@pytest.mark.parametrize("kind", ["profile", "profile of a device", "imported", "trained", "two"])
def test_numbers_that_are_a_little_wrong_are_found(kind: str) -> None:
    """Of all measured numbers that are moved by some percent, most are noticed: the search is not too lenient."""
    report = made(kind).report
    known = Known(data(made(kind)), report)
    names = spellings(known.names)
    moved = [
        dataclasses.replace(token, value=factor * token.value)
        for _, text in texts(report)
        for token in tokens(bare(text, names))
        if token.unit
        for factor in (1.07, 0.83, 1.31)
    ]
    assert len(moved) > 20
    assert sum(not known.has(token) for token in moved) > 0.8 * len(moved)


def read(text: str) -> list[tuple[float, float, str, str]]:
    return [(one.value, one.tolerance, one.unit, one.bound) for one in tokens(text)]


def test_tokens() -> None:
    """Numbers with their units; digits of names are none."""
    assert read("It takes 9.81 ms (quartiles 9.6 to 10.1 ms, 10 steps).") == [
        (9.81, pytest.approx(0.005), "ms", ""), (9.6, pytest.approx(0.05), "ms", ""),
        (10.1, pytest.approx(0.05), "ms", ""), (10, 0.5, "", ""),
    ]  # fmt: skip
    assert read("<0.1 %, 25,557,032 and 1,230 of \u22122.5e-05") == [
        (0.1, pytest.approx(0.05), "%", "<"), (25_557_032, 0.5, "", ""), (1230, 5, "", ""),
        (-2.5e-05, pytest.approx(0.05e-05), "", ""),
    ]  # fmt: skip
    assert read("conv2d on cuda:0, A100-SXM4-80GB, v1.1, sm80_16x16, 3-d, mlperf-0.7") == []
    assert read("8.18 GFLOP, 97.5 MiB, 27.4 k") == [
        (8.18, pytest.approx(0.005), "GFLOP", ""), (97.5, pytest.approx(0.05), "MiB", ""),
        (27.4, pytest.approx(0.05), "k", ""),
    ]  # fmt: skip


def test_percent_of_a_table_with_percent() -> None:
    """Somebody's features may be percent already, and more than 100 of them; other columns are no percent."""
    table = {"features": [{"name": "GCA", "unit": "%"}, {"name": "GMD", "unit": "B"}]}
    known = Known({"table": table, "tables": {"features": [{"GCA": 135.0, "GMD": 7780.0}]}})
    assert [known.has(token) for token in tokens("135 %, 136 %, 7,780 %, 7.78 kB")] == [True, False, False, True]


def test_the_rest_of_a_list() -> None:
    """Of 972 metrics eight are named and 964 are not; nobody could have named 700 of them."""
    report = dataclasses.replace(made("nothing").report, lead=("Metrics: a, b, and 964 more.", "As c, and 272 more."))
    found = unknown_numbers(report, {"unknown": [f"metric {i}" for i in range(972)]})
    assert [line.partition(" in ")[0] for line in found if line.startswith("lead")] == ["lead: '272'"]


def test_a_module_that_is_called_by_a_number() -> None:
    """In the tree of modules ``tables.20`` is ``20``: a name there, and a number anywhere else."""
    table = Table("m", "", (Column("module", "text"), Column("x", "text")), (("\u00a020", "20"), ("\u00a021", "")))
    report = dataclasses.replace(made("nothing").report, lead=("a",), sections=(Section("s", "S", (table,)),))
    found = unknown_numbers(report, {"rows": [{"name": "tables.20"}]})
    assert [line.partition(" in ")[0] for line in found if line.startswith("m: ")] == ["m: module: '21'", "m: x: '20'"]


def test_what_the_program_says_is_no_datum() -> None:
    assert any("1 MAC = 2 FLOP" in text for text in program())
    assert read(bare("1 MAC = 2 FLOP: a FLOP is one addition or one multiplication, and 12 ms.", [])) != []


def spreads(value: Any) -> Iterator[tuple[float, float]]:
    """Every median of milliseconds with the width of its quartiles or its interval."""
    if isinstance(value, Mapping):
        for name, low, high in (
            ("step_ms_median", "step_ms_q1", "step_ms_q3"),
            ("a_ms", "a_low_ms", "a_high_ms"),
            ("b_ms", "b_low_ms", "b_high_ms"),
        ):
            if None not in (value.get(name), value.get(low), value.get(high)):
                yield value[name], value[high] - value[low]
        for child in value.values():
            yield from spreads(child)
    elif isinstance(value, list):
        for child in value:
            yield from spreads(child)


def too_exact(token: Token, median: float, width: float) -> bool:
    """Whether a token that is this median of ms shows a decimal place below the first digit of its spread."""
    scale = TIMES[token.unit] * 1e3
    is_it = abs(token.value * scale - median) <= token.tolerance * scale * (1 + 1e-9)
    supported = min(scale, 10.0 ** math.floor(math.log10(width))) if width > 0 else 0.0
    return is_it and 2 * token.tolerance * scale < supported * (1 - 1e-9)


@pytest.mark.parametrize("kind", ["profile", "profile of a device", "imported", "two"])
def test_no_more_digits_than_the_spread_supports(kind: str) -> None:
    found = list(spreads(data(made(kind))))
    assert found
    exact = [
        (where, token.text, median, width)
        for where, text in texts(made(kind).report)
        for token in tokens(text)
        if token.unit in TIMES
        for median, width in found
        if too_exact(token, median, width)
    ]
    assert exact == []


def test_a_digit_too_many_is_found() -> None:
    (token,) = tokens("9.8125 ms")
    assert too_exact(token, 9.8125, 0.4)
    (token,) = tokens("9.8 ms")
    assert not too_exact(token, 9.8125, 0.4)


# --- names ------------------------------------------------------------------------------------------------------------

HARMFUL = re.compile("[\u0000-\u0008\u000b\u000c\u000e-\u001f\u200b\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def harmless(report: Made, *, pdf: bool = True) -> None:
    """What strangers called things is text: no tag, no mark that turns lines, and a cut that says so."""
    page_ = report.html()
    assert "<script>alert" not in page_
    assert HARMFUL.search(page_) is None
    assert "alert(1)" in page_  # the name itself is shown
    whole = printed(report)
    assert json.loads(whole)["schema"] == "wcbench.report/1"
    assert re.search("[\u0000-\u0009\u000b-\u001f]", whole) is None
    assert "L" * 5_000 not in shown(page_)
    assert "morecharacters" in shown(page_) or "…" in page_
    if pdf:
        there = words_of(report.pdf())
        assert HARMFUL.search(there) is None
        assert "alert(1)" in there
        assert "morecharacters" in there or "…" in there
        assert "L" * 5_000 not in there or "LEND" in there  # a long name is whole, or its cut is marked


@pytest.mark.parametrize("kind", ["two", pytest.param("imported", marks=SLOW)])
def test_hostile_names(kind: str) -> None:
    harmless(HOSTILE_KINDS[kind]())


def test_hostile_names_in_every_table() -> None:
    """All tables of all kinds, one row each: every cell stands in the page and in the PDF, and does no harm there."""
    report = inputs.hostile_tables({kind: made(kind) for kind in KINDS})
    places = {
        place[0]
        for section in report.sections
        for table in section.tables()
        for row in table.rows
        for cell in row
        if isinstance(cell, str) and (place := re.findall(r"at\d+c\d+(?=L|$)", cell))
    }
    assert len(places) > 80
    found = dataclasses.replace(made("profile"), report=report)
    page_, there = shown(found.html()), words_of(found.pdf())
    assert [place for place in places if place not in page_] == []
    assert [place for place in places if place not in there] == []
    harmless(found, pdf=False)
    assert HARMFUL.search(there) is None
    assert there.count("morecharacters") >= 2


@pytest.mark.slow
def test_hostile_names_of_a_study() -> None:
    report = inputs.hostile_study()
    names = [cell for s in report.report.sections for t in s.tables() for row in t.rows for cell in row]
    assert any(str(cell).startswith(HOSTILE) for cell in names)
    harmless(report)


@pytest.mark.parametrize("kind", ["profile of a device", "imported", "two", "study", "sweep"])
def test_nobody_is_told_of(kind: str) -> None:
    """Home paths, user and host names, in every form; the record knows whose they are."""
    forms = {"page": page(kind), "pdf": paper(kind), "json": told(kind)}
    people = ["eve", "mallory"] if kind == "study" else [*PRIVATE, "mallory"]
    if kind == "imported":  # so the name was there to be taken out
        assert "net.py(7):forward" in squeezed(told(kind))
    for form, text in forms.items():
        for name in people:
            assert re.search(rf"(?<![a-z]){name}(?![a-z])", text.lower()) is None, (form, name)


def test_the_record_does_name_them() -> None:
    kept = printed(api.make_report(inputs.record(), redact=False))
    assert all(name in kept for name in PRIVATE)


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (lambda: api.make_report(inputs.record(), anonymize=True), (SECRET, OWN, MODULE, "acme")),
        (
            lambda: api.make_report(inputs.record(), against=inputs.record(433_000), anonymize=True),
            (SECRET, OWN, MODULE, "acme"),
        ),
        (lambda: api.make_report(inputs.whole_study(), anonymize=True), ("acme_fused",)),
    ],
    ids=["profile", "two", "study"],
)
def test_anonymize_hides_names(make: Callable[[], Made], names: tuple[str, ...]) -> None:
    report = make()
    for name in names:
        assert name not in printed(report)  # the report's own texts and cells among it


# --- size -------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_study_of_27_tasks_is_small_enough_to_send() -> None:
    """With every table that a study can have. How long it takes says benchmarks/reports.py, of a real one."""
    report = api.make_report(inputs.large(19, 8))
    assert len(report.html().encode()) < LIMIT
    assert len(report.pdf()) < LIMIT


@pytest.mark.slow
def test_sixty_tasks_with_names_of_200_characters() -> None:
    study = inputs.large(40, 20, width=200)
    report = api.make_report(study)
    there, page_ = words_of(report.pdf()), shown(report.html())
    for name in study.document["table"]["workloads"]:
        assert len(name) == 200
        assert name in page_
        assert name in there
    assert unknown_numbers(report.report, data(report)) == []


@pytest.mark.slow
def test_a_real_profile_of_all_passes() -> None:
    """What a capture gives, rather than a summary by hand."""
    found = api.profile("spatial-transformer", device="cpu", preset="tiny", steps=5, save=False)
    report = api.make_report(found, on="h100-sxm")
    assert unknown_numbers(report.report, data(report)) == []
    known = Known(data(report))
    assert [one for one in cells(report.report) if not known.exactly(one[1])] == []


# --- that every kind is looked at -------------------------------------------------------------------------------------


def test_kinds_hold_what_their_names_say() -> None:
    """An input that silently became empty would pass everything above."""
    ids = {kind: {section.id for section in made(kind).report.sections} for kind in KINDS}
    assert ids["profile"] >= {"hotspots", "categories", "steps", "complexity", "memory", "roofline", "primitives"}
    assert ids["imported"] >= {"activity", "ops", "gates", "losses", "hotspots"}
    assert "convergence" in ids["trained"]
    assert ids["two"] >= {"conditions", "time", "hotspots"}
    assert ids["study"] >= {"subset", "proof", "diversity", "map", "clusters", "roofline", "locality", "hotspots"}
    assert ids["sweep"] >= {"curves", "sweep"}
    assert ids["nothing"] == ids["only notes"] == {"overview", "gates", "notes", "provenance"}
    figures = [block for s in made("study").report.sections for block in s.blocks if isinstance(block, Figure)]
    assert len(figures) > 10
    assert "first step" in " ".join(text for _, text in texts(made("only notes").report))
    assert any(isinstance(block, Text) for section in made("nothing").report.sections for block in section.blocks)
