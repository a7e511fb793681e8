"""The PDF as a file: tagged, whole, harmless, the same each time. Its texts are read back with pypdf and poppler."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pypdf
import pytest
import typst

from wcbench.reports import figures
from wcbench.reports import format as fmt
from wcbench.reports.figure_data import Bar, BarPanel, Bars
from wcbench.reports.model import (
    Block,
    Column,
    Command,
    Fact,
    Facts,
    Figure,
    NoteLine,
    Notes,
    Report,
    Section,
    SideBySide,
    Table,
    Text,
)
from wcbench.reports.pdf import _block, _section, render_pdf
from wcbench.reports.pdf_tables import MARGIN, POINTS, SMALLEST, fit, paper_columns, room
from wcbench.reports.pdf_text import BREAK, HARD_BREAK, LONGEST, breakable, lines, narrowest, pieces, printable, width
from wcbench.reports.profile_report import profile_report

KERNEL = (
    "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_64x64_64x6_tn_align8>"
    "(cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_64x64_64x6_tn_align8::Params, std::array<char*, 2ul>)"
)
MARKUP = "#let x = 1 $x^2$ *b* _i_ @ref \\ \"q\" 's' `raw` <lab> [c] {d} //c /*c*/ -- --- ~ == = - + 1."
FOREIGN = "a\x00b 中文 \u202eexe שלום é"
FOREIGN_SHOWN = "a\\x00b \ufffd\ufffd \\u202eexe"
LONG = "W" * 9_997 + "END"


class Made(NamedTuple):
    """A report as a file, read back; ``pages`` holds their texts without white space, as pypdf finds them."""

    report: Report
    reader: pypdf.PdfReader
    path: Path
    pages: list[str]


def save(report: Report, path: Path, paper: Any = "a4") -> Made:
    path.write_bytes(render_pdf(report, paper))
    reader = pypdf.PdfReader(path)
    return Made(report, reader, path, [squeezed(page.extract_text()) for page in reader.pages])


def squeezed(text: str) -> str:
    """Without the white space that line breaks come and go with."""
    return re.sub(r"[\s\u200b]+", "", text)


def report_of(*blocks: Block, title: str = "A report") -> Report:
    return Report(title, "Its kind", ("An answer.",), (Section("one", "One", blocks),), "Made by hand.")


def table(name: str, columns: int, rows: int, limit: int = 50) -> Table:
    """A column of names, then numbers such as 2.05 (row 2, column 5)."""
    heads = (Column("name", "name"), *(Column(f"feature number {index}", "number") for index in range(1, columns)))
    body = tuple((f"name{row}", *(row + index / 100 for index in range(1, columns))) for row in range(rows))
    return Table(name, f"The {name} table", heads, body, limit, "wcbench show x --rows")


BARS = Bars(
    "share of time (%)", (BarPanel("kernels 中", (Bar(KERNEL, "GEMM", 0.75), Bar("copy", "memory copy", 0.25))),)
)


def whole() -> Report:
    """Every kind of block, and texts that try everything."""
    kernels = Table(
        "kernels",
        "Kernels, longest first",
        tuple(map(Column, ("#", "kernel", "time", MARKUP[:40], "part"), ("count", "name", "time_ns", "text", "share"))),
        ((1, KERNEL, 1.5e6, MARKUP, 0.75), (2, FOREIGN, None, "x", 0.25), (3, LONG, 2e3, "", float("nan"))),
    )  # fmt: skip
    first = Section(
        "first",
        "First section",
        (Text(f"{MARKUP} 9.81 ms"), kernels, Figure("bars", "The bars", "Two bars: 75 % and 25 %", BARS)),
    )
    facts = Facts((Fact("Step time", 9.81, "time_ms", hint="of ten"), Fact("None", None), Fact("Long", LONG)))
    notes = Notes((NoteLine("power", "No GPU."), NoteLine(FOREIGN, MARKUP)))
    command = Command("To reproduce", f"wcbench profile {'--set a_long_option=its_value ' * 12}--end")
    beside = SideBySide((table("left", 2, 3), table("right", 3, 3)))
    second = Section("second", "Second section", (facts, notes, command, beside))
    squares = tuple((f"row {index}", index * index) for index in range(120))
    rows = Table("rows", "Squares", (Column("number and"), Column("square of it", "count")), squares, limit=120)
    long = Section("long", "Long tables", (rows, table("many", 2, 5_000), table("wide", 14, 2)))
    return Report(f"Study of {FOREIGN}", "Its kind", ("An answer.",), (first, second, long), "Made by hand.")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return save(whole(), tmp_path_factory.mktemp("pdf") / "whole.pdf")


def poppler(path: Path, *options: str) -> str:
    if shutil.which("pdftotext") is None:
        pytest.skip("no pdftotext (poppler-utils)")
    return subprocess.run(["pdftotext", *options, str(path), "-"], capture_output=True, text=True, check=True).stdout


def tags(reader: pypdf.PdfReader) -> Iterator[Any]:
    """Every element of the structure tree, depth first."""
    stack = [reader.trailer["/Root"]["/StructTreeRoot"]]  # type: ignore[index]
    while stack:
        element = stack.pop().get_object()
        if not isinstance(element, dict):
            continue
        if "/S" in element:
            yield element
        children = element.get("/K", [])
        stack += reversed(children if isinstance(children, list) else [children])


def named(reader: pypdf.PdfReader, kind: str) -> list[Any]:
    return [element for element in tags(reader) if element["/S"] == kind]


# --- for people who do not see it ---------------------------------------------------------------------------------


def test_it_says_that_it_is_tagged_and_in_which_language(made: Made) -> None:
    root: Any = made.reader.trailer["/Root"]
    assert root["/MarkInfo"]["/Marked"]
    assert root["/Lang"] == "en"
    assert root["/ViewerPreferences"]["/DisplayDocTitle"]
    assert made.reader.metadata is not None
    assert made.reader.metadata.title == "Study of a\\x00b 中文 \\u202eexe שלום é"
    assert "<pdfuaid:part>1</pdfuaid:part>" in root["/Metadata"].get_data().decode()


def test_tags_of_headings_tables_figures_and_lists(made: Made) -> None:
    report, reader = made.report, made.reader
    tables = [one for section in report.sections for one in section.tables()]
    assert len(named(reader, "/H1")) == len(report.sections)
    assert len(named(reader, "/Table")) == len(named(reader, "/THead")) == len(tables)
    headings = named(reader, "/TH")
    assert len(headings) == sum(len(one.columns) for one in tables)
    assert {
        attribute["/Scope"] for heading in headings for attribute in [heading["/A"][0]] if "/Scope" in attribute
    } == {"/Column"}
    assert len(named(reader, "/Caption")) == len(tables) + 1
    assert len(named(reader, "/LI")) == 2
    assert len(named(reader, "/TOCI")) == len(report.sections)


def test_figures_have_their_words_and_stay_vectors(made: Made) -> None:
    assert [figure["/Alt"] for figure in named(made.reader, "/Figure")] == ["Two bars: 75 % and 25 %"]
    assert not any(page.images for page in made.reader.pages)
    text = "".join(made.pages)
    assert "shareoftime(%)" in text
    assert "kernels\ufffd" in text


def test_bookmarks_and_contents_name_the_pages(made: Made) -> None:
    reader, titles = made.reader, [section.title for section in made.report.sections]
    outline: Any = reader.outline
    assert [mark.title for mark in outline] == titles
    for mark in outline:
        page = reader.get_destination_page_number(mark)
        assert page is not None
        assert squeezed(mark.title) in made.pages[page]
        assert re.search(rf"{squeezed(mark.title)}\.*{page + 1}(?!\d)", made.pages[0])
    assert all(f"{number}/{len(made.pages)}" in text for number, text in enumerate(made.pages, 1))
    assert all("Studyofa" in text for text in made.pages[1:])


# --- nothing is lost ----------------------------------------------------------------------------------------------


def test_every_heading_and_every_name_is_in_the_text(made: Made) -> None:
    options = ([], ["-raw"])
    for text in ["".join(made.pages), *(squeezed(poppler(made.path, *option)) for option in options)]:
        for one in (one for section in made.report.sections for one in section.tables()):
            assert squeezed(one.caption) in text
        for sought in (
            KERNEL,
            MARKUP,
            "feature number 13",
            FOREIGN_SHOWN,
            "9.81 ms",
            "--set a_long_option=its_value --end",
        ):
            assert squeezed(sought) in text


def test_what_is_cut_is_counted(made: Made) -> None:
    text = "".join(made.pages)
    assert LONG not in text
    assert "W" * fmt.NAME_LIMIT + "…(9,400morecharacters)" in text


def test_names_that_differ_beyond_the_limit_look_different_on_paper() -> None:
    """Cells, and what figures show; a name cut alone still says how much is left out."""
    names = [f"{'k' * 700}<{one}>{'e' * 700}" for one in ("add", "mul")]
    (column,) = paper_columns(Table("t", "Caption", (Column("kernel", "name"),), tuple((name,) for name in names)))
    shown = [re.sub(f"[{BREAK}{HARD_BREAK}]", "", cell) for cell in column.cells]
    assert [one in text for one, text in zip(("add", "mul"), shown, strict=True)] == [True, True]
    assert max(map(len, shown)) <= fmt.NAME_LIMIT
    (column,) = paper_columns(Table("t", "Caption", (Column("kernel", "name"),), ((names[0],), ("other",))))
    assert "more characters" in column.cells[0]


def test_a_name_that_is_copied_is_the_name(made: Made) -> None:
    text = poppler(made.path, "-layout").replace("\n", " ")
    assert BREAK not in text
    assert "cutlass_80_tensorop_bf16_" in text
    assert "".join(made.pages).count(squeezed(KERNEL)) == 1


def test_rows_beyond_the_limit_are_counted_and_the_command_named(made: Made) -> None:
    text = "".join(made.pages)
    assert "name49" in text
    assert "name4999" not in text
    assert squeezed("4,950 more rows: wcbench show x --rows") in text


def test_the_heading_of_a_long_table_repeats(made: Made) -> None:
    with_rows = [page for page in made.pages if re.search(r"row\d", page)]
    assert len(with_rows) > 1
    assert all("numberandsquareofit" in page for page in with_rows)
    assert len(re.findall(r"row\d", "".join(with_rows))) == 120


def test_nothing_runs_over_the_margins(made: Made) -> None:
    text = poppler(made.path, "-bbox")
    pages = re.findall(r'<page width="([\d.]+)" height="([\d.]+)">(.*?)</page>', text, re.DOTALL)
    assert len(pages) == len(made.reader.pages)
    for wide, tall, words in pages:
        for box in re.findall(r'xMin="([-\d.]+)" yMin="([-\d.]+)" xMax="([-\d.]+)" yMax="([-\d.]+)"', words):
            left, top, right, bottom = map(float, box)
            assert left > MARGIN - 2
            assert right < float(wide) - MARGIN + 2
            assert top > 25
            assert bottom < float(tall) - 25


def test_a_wide_table_turns_its_page_and_what_introduces_it(made: Made) -> None:
    boxes = [(float(page.mediabox.width), float(page.mediabox.height)) for page in made.reader.pages]
    upright, turned = (595, 842), (842, 595)
    assert {(round(wide), round(tall)) for wide, tall in boxes} == {upright, turned}
    page = next(page for page, (wide, tall) in zip(made.reader.pages, boxes, strict=True) if wide > tall)
    assert "feature number 13" in re.sub(r"\s+", " ", page.extract_text())
    before = Section("before", "Before", (Text("End of what is before."),))
    wide = Section("turned", "Turned", (Text("Few words."), table("wide", 14, 2)))
    reader = pypdf.PdfReader(io.BytesIO(render_pdf(Report("t", "", (), (before, wide), ""))))
    first, second = (page.extract_text() for page in reader.pages)
    assert "End of what is before." in first
    assert "Few words." in second


def test_letter_paper_and_a_table_for_which_no_page_is_wide_enough(tmp_path: Path) -> None:
    made = save(report_of(table("sixty", 60, 3)), tmp_path / "letter.pdf", "letter")
    assert {(float(page.mediabox.width), float(page.mediabox.height)) for page in made.reader.pages} == {(612, 792)}
    text = "".join(made.pages)
    parts = [int(count) for count in re.findall(r"Part\d+of\d+:(\d+)of60columns", text)]
    assert sum(parts) - len(parts) == 59  # each repeats the column of names
    for index in range(1, 60):
        assert f"featurenumber{index}" in text
        assert fmt.column([row + index / 100 for row in range(3)], "number").cells[2] in text


# --- harmless and the same ----------------------------------------------------------------------------------------


def test_only_fonts_that_come_along_are_in_it(made: Made) -> None:
    fonts = [font.get_object() for page in made.reader.pages for font in page["/Resources"].get("/Font", {}).values()]  # type: ignore[attr-defined]
    assert {re.sub(r"^/[A-Z]{6}\+", "", font["/BaseFont"]).split("-")[0] for font in fonts} == {
        "DejaVuSans",
        "DejaVuSansMono",
        "LibertinusSerif",
    }
    inner = [font["/DescendantFonts"][0].get_object()["/FontDescriptor"] for font in fonts]
    assert all("/FontFile2" in font or "/FontFile3" in font for font in inner)


def test_typst_has_nothing_to_warn_of(monkeypatch: pytest.MonkeyPatch) -> None:
    warned: list[Any] = []

    def compiled(*arguments: Any, **options: Any) -> Any:
        made, warnings = typst.compile_with_warnings(*arguments, **options)
        warned.extend(warnings)
        return made

    monkeypatch.setattr(typst, "compile", compiled)
    render_pdf(report_of(Text("Words."), table("few", 3, 2), Notes((NoteLine("a", "b"),))))
    assert warned == []


def test_the_same_report_gives_the_same_bytes() -> None:
    report = report_of(table("few", 3, 2), Figure("bars", "c", "a", BARS))
    assert render_pdf(report) == render_pdf(report)
    assert b"/CreationDate" not in render_pdf(report)


SVG = '<svg viewBox="0 0 72 40" width="72" height="40" xmlns="http://www.w3.org/2000/svg"><path d="M0 0h9"/></svg>'


def test_every_kind_of_summary(any_summary: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(figures, "print_svg", lambda data, width: SVG)  # drawn in test_figures
    report = profile_report(any_summary)
    path = tmp_path / "report.pdf"
    path.write_bytes(render_pdf(report))
    assert [mark.title for mark in pypdf.PdfReader(path).outline] == [section.title for section in report.sections]  # type: ignore[union-attr]
    text = squeezed(poppler(path))
    for one in (one for section in report.sections for one in section.tables()):
        for column in one.columns:
            assert squeezed(printable(column.title)) in text


def test_a_report_of_nothing() -> None:
    reader = pypdf.PdfReader(io.BytesIO(render_pdf(Report("", "", (), (), ""))))
    assert reader.metadata is not None
    assert reader.metadata.title == "wcbench report"
    untitled = Report("t", "", (), (Section("empty", "", (Facts(()), Notes(()), SideBySide(()))),), "")
    assert [mark.title for mark in pypdf.PdfReader(io.BytesIO(render_pdf(untitled))).outline] == ["empty"]  # type: ignore[union-attr]


def test_tables_of_nothing() -> None:
    empty = report_of(Table("a", "No columns", (), ()), Table("b", "", (Column("head"),), ()))
    text = squeezed(pypdf.PdfReader(io.BytesIO(render_pdf(empty))).pages[0].extract_text())
    assert "Nocolumns" in text
    assert "headNorows." in text


def test_an_unknown_block_is_an_error() -> None:
    class Odd:
        pass

    with pytest.raises(TypeError, match="A block of kind Odd has no form in a PDF"):
        render_pdf(report_of(Odd()))  # type: ignore[arg-type]


def test_no_heading_and_no_introduction_ends_a_page(tmp_path: Path) -> None:
    sections = tuple(
        Section(
            f"s{index}",
            f"Heading {index}",
            (
                Text(f"Introduction {index}."),
                table(f"t{index}", 2, 3 + index * index % 11),
                *(Text("End."),) * (index % 2),
            ),
        )
        for index in range(80)
    )
    path = tmp_path / "headings.pdf"
    path.write_bytes(render_pdf(Report("t", "", (), sections, "")))
    pages = poppler(path).split("\f")[1:-1]  # the first holds the contents
    assert len(pages) > 20
    for page in pages:
        found = [line for line in page.splitlines() if line.strip() and " / " not in line]
        assert not re.match(r"(Heading|Introduction) \d|Table \d", found[-1])


# --- texts and tables before they are set -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("aten::convolution_backward", "aten::|convolution_|backward"),
        ("ScaledDotProductEfficientAttention", "Scaled|Dot|Product|Efficient|Attention"),
        ("short_name", "short_name"),
        ("0123456789abcdef0123456789", "01234567|89abcdef|01234567|89"),
        ("two words_of_which_one_is_long", "two words_|of_|which_|one_|is_|long"),
        ("torch.nn.v1.1.modules.batch", "torch.|nn.|v1.1.|modules.|batch"),
    ],
)
def test_where_a_name_breaks(name: str, shown: str) -> None:
    assert breakable(name).replace(BREAK, "|") == shown


@pytest.mark.parametrize("name", [KERNEL, MARKUP, LONG, "(" * 50 + ")" * 50, "::::" * 20, "a,b;c" * 30])
def test_no_piece_is_long_and_none_is_lost(name: str) -> None:
    text = breakable(name)
    assert text.replace(BREAK, "").replace(HARD_BREAK, "") == name
    assert max(map(len, pieces(text))) <= LONGEST


def test_characters_without_a_glyph() -> None:
    assert printable(FOREIGN) == f"{FOREIGN_SHOWN} שלום é"
    assert printable("\ue000\u200b\U0001f469\ud800") == "\\ue000\\u200b\ufffd\\ud800"


def test_widths_are_those_of_the_font() -> None:
    # advances in DejaVu Sans, of 2048: i 569, W 2025, space 651; in bold W 2259
    assert width("iW i") == pytest.approx((569 + 2025 + 651 + 569) / 2048)
    assert width("W", bold=True) == pytest.approx(2259 / 2048)
    assert narrowest(f"ii W{BREAK}i") == pytest.approx(2025 / 2048)


@pytest.mark.parametrize("paper", ["a4", "letter"])
@pytest.mark.parametrize("columns", [1, 2, 5, 9, 12, 14, 16])
def test_columns_fit_and_numbers_do_not_break(paper: Any, columns: int) -> None:
    made = paper_columns(table("t", columns, 3))
    layout = fit(made, paper)
    assert layout is not None
    assert layout.size >= SMALLEST
    assert layout.total <= room(paper, turned=layout.turned) + 0.1 * columns
    for column, wide in zip(made, layout.widths, strict=True):
        texts = column.cells if column.column.align == "right" else ()
        assert wide >= layout.size * max((width(text) for text in (*texts, "")), default=0)
        assert wide >= layout.size * narrowest(column.head, bold=True)


def test_narrow_columns_get_their_room_before_long_names() -> None:
    heads = (Column("name", "name"), Column("kind"), Column("time", "count"))
    made = paper_columns(Table("t", "c", heads, ((KERNEL, "convolution", 1_000),)))
    layout = fit(made, "a4")
    assert layout is not None
    assert not layout.turned
    assert layout.widths[1] == pytest.approx(layout.size * width("convolution"), abs=0.02)
    assert layout.total == pytest.approx(POINTS["a4"][0] - 2 * MARGIN, abs=0.1)


def test_a_page_is_turned_for_squeezed_rows_if_they_are_many() -> None:
    heads = (Column("name", "name"), *(Column(f"text {index}") for index in range(6)))
    row = ("short", *("twenty-six characters long" for _ in range(5)), KERNEL)
    few, many = (fit(paper_columns(Table("t", "c", heads, (row,) * count)), "a4") for count in (1, 20))
    assert few is not None
    assert many is not None
    assert not few.turned
    assert many.turned
    assert many.size >= few.size


def test_lines_are_counted_as_they_break() -> None:
    # "iiii" is 4 x 569/2048 = 1.11 wide, a space 0.32
    assert [lines("iiii iiii iiii", wide) for wide in (1.2, 2.6, 9.0)] == [3, 2, 1]
    assert lines(f"iiii{BREAK}iiii{HARD_BREAK}iiii", 2.3) == 2
    assert lines("", 1.0) == 1


def test_side_by_side_only_where_both_fit() -> None:
    narrow = list(_block(SideBySide((table("a", 2, 3), table("b", 2, 3))), "a4"))
    assert [part["kind"] for part in narrow] == ["beside"]
    wide = list(_block(SideBySide((table("a", 9, 3), table("b", 2, 3))), "a4"))
    assert [part["kind"] for part in wide] == ["table", "table"]
    long = list(_block(SideBySide((table("a", 2, 40), table("b", 2, 3))), "a4"))
    assert [part["kind"] for part in long] == ["table", "table"]


def test_facts_take_the_room_that_they_need() -> None:
    facts = Facts((Fact("a", "x" * 26), Fact("b", "x" * 27), Fact("c", "x" * 53), Fact("d", 1, hint="h" * 100)))
    (part,) = _block(facts, "a4")
    assert [item["span"] for item in part["items"]] == [1, 2, 3, 2]


def test_a_figure_higher_than_a_page_is_drawn_smaller() -> None:
    bars = Bars("share", (BarPanel("p", tuple(Bar(f"k{index}", "GEMM", 0.01) for index in range(60))),))
    parts = list(_section(Section("s", "S", (Figure("f", "c", "a", bars),)), "letter"))
    box = re.search(r'viewBox="\S+ \S+ (\S+) ([^"]+)"', parts[1]["svg"])
    assert box is not None
    assert parts[1]["width"] < room("letter")
    assert parts[1]["width"] * float(box[2]) / float(box[1]) == pytest.approx(0.8 * (792 - 130), rel=0.001)
