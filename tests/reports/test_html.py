"""The page as a page: whole, self-contained, escaped, small, the same each time. Numbers are tested on the model."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections import Counter
from html.parser import HTMLParser
from typing import Any

import html5lib
import pytest

from wcbench.reports import palette
from wcbench.reports.figure_data import Bar, BarPanel, Bars
from wcbench.reports.format import Spread
from wcbench.reports.html import environment, policy, render_html
from wcbench.reports.model import Column, Figure, Report, Section, Table
from wcbench.reports.profile_report import profile_report

VOID = {"meta", "link", "br", "hr", "img", "input", "wbr"}
REQUESTING = {"src", "href", "xlink:href", "srcset", "data", "action", "poster", "background"}
NAMESPACES = ("http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink")


class Page(HTMLParser):
    """What a page consists of; fails on the first tag that does not close what is open."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: Counter[str] = Counter()
        self.attributes: list[tuple[str, str, str]] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not {"style", "script"} & set(self.open):
            self.text.append(data)

    def values(self, attribute: str, tag: str | None = None) -> list[str]:
        return [value for owner, name, value in self.attributes if name == attribute and tag in (None, owner)]


_DRAWN: dict[str, str] = {}


def page_text(summary: dict[str, Any]) -> str:
    """The page of a summary, drawn once: most of the time goes to its figures."""
    key = json.dumps(summary)
    if key not in _DRAWN:
        _DRAWN[key] = render_html(profile_report(summary))
    return _DRAWN[key]


def page_of(summary: dict[str, Any]) -> Page:
    return Page(page_text(summary))


def test_tags_close_ids_are_unique_and_links_lead_somewhere(any_summary: dict[str, Any]) -> None:
    page = page_of(any_summary)
    ids = page.values("id")
    assert [name for name, times in Counter(ids).items() if times > 1] == []
    anchors = [value[1:] for value in page.values("href", "a")]
    sections = [section.id for section in profile_report(any_summary).sections]
    assert anchors == ["Main", *sections, "Top", "Top"]
    assert set(anchors) <= set(ids)
    assert set(page.values("aria-labelledby")) <= set(ids)


def test_valid_html(any_summary: dict[str, Any]) -> None:
    """A parser that forgives nothing: html5lib raises at the first error of the standard's grammar."""
    html5lib.HTMLParser(strict=True).parse(page_text(any_summary))


def test_the_page_asks_for_nothing(any_summary: dict[str, Any]) -> None:
    text = page_text(any_summary)
    page = Page(text)
    assert not {"link", "img", "iframe", "object", "embed", "base", "form"} & set(page.tags)
    assert page.tags["script"] == 1, "one copy of ours"
    for _, name, value in page.attributes:
        if name in REQUESTING:
            assert value.startswith("#")
        assert not name.startswith("on")
        assert all(target.startswith("#") for target in re.findall(r"url\(([^)]*)\)", value))
    assert "@import" not in text
    for namespace in NAMESPACES:
        text = text.replace(f'"{namespace}"', "")
    assert not re.search(r"https?://", text)


def test_a_page_that_people_and_readers_can_use(summary: dict[str, Any]) -> None:
    page = page_of(summary)
    assert page.values("lang", "html") == ["en"]
    assert "width=device-width, initial-scale=1" in page.values("content", "meta")
    assert page.tags["h1"] == page.tags["main"] == page.tags["nav"] == 1
    assert page.tags["caption"] == page.tags["table"] > 5
    assert len(page.values("scope", "th")) == page.tags["th"]
    figures = [figure for section in profile_report(summary).sections for figure in section.figures()]
    assert len(figures) == 7
    assert page.values("aria-label", "svg") == [figure.alt for figure in figures for _ in range(2)]  # wide and narrow
    assert page.values("role", "svg") == ["img"] * 14


def test_names_of_strangers_stay_text(hostile_report: Report) -> None:
    text = render_html(hostile_report)
    page = Page(text)
    assert page.tags["script"] == 1
    assert "<script>alert(1)</script>\"'&$x^2$\\u202egnp.exe\\x00\\x1b[31m\\n\\u200b" in "".join(page.text)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f\u200b-\u200f\u202a-\u202e\u2066-\u2069]", text)
    assert "9,400 more characters" in text
    assert "30 more rows" in text
    assert max(len(word) for word in page.text) < 2_100
    assert text.encode("utf-8")


# --- the script and the style -------------------------------------------------------------------------------------


def source(name: str) -> str:
    loader = environment().loader
    assert loader is not None
    return loader.get_source(environment(), name)[0]


def test_the_policy_names_the_script_that_the_page_holds(summary: dict[str, Any]) -> None:
    text = page_text(summary)
    held = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(held[0].encode()).digest()).decode()
    assert len(held) == 1
    told = html5lib.parse(text, namespaceHTMLElements=False).find("head/meta[@http-equiv]").get("content")
    assert told == policy(held[0])
    rules = dict(rule.strip().split(" ", 1) for rule in told.split(";"))
    assert rules == {
        "default-src": "'none'",
        "script-src": f"'sha256-{digest}'",
        "style-src": "'unsafe-inline'",
        "base-uri": "'none'",
        "form-action": "'none'",
    }


def test_the_script_is_small_and_neither_asks_stores_nor_writes_markup() -> None:
    script = source("report.js")
    assert len(script.encode()) < 8_000
    assert "</" not in script
    assert "<!--" not in script
    for word in (
        "innerHTML",
        "outerHTML",
        "insertAdjacent",
        "eval",
        "Function",
        "fetch",
        "XMLHttp",
        "import",
        "Storage",
    ):
        assert word not in script, word
    assert not re.search(r"document\.(write|cookie)|https?:|setTimeout", script)


def colors(theme: int) -> dict[str, str]:
    """The colours of the style sheet by name; theme 0 is light, 1 dark."""
    pairs = re.findall(r"--(\w+): light-dark\((#\w{6}), (#\w{6})\)", source("report.css"))
    return {name: (light, dark)[theme] for name, light, dark in pairs}


def contrast(one: str, other: str) -> float:
    """WCAG 2.2's ratio of two colours."""

    def luminance(color: str) -> float:
        parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_contrast(theme: int) -> None:
    """4.5 for what is read, 3 for what is only seen (WCAG 2.2, 1.4.3 and 1.4.11); by hand, black on white is 21."""
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    found = colors(theme)
    assert len(found) == 9
    for ground in ("paper", "panel"):
        for name in ("ink", "muted", "link"):
            assert contrast(found[name], found[ground]) >= 4.5, (name, ground)
    for name in ("edge", "median", "field"):
        assert contrast(found[name], found["paper"]) >= 3, name


def test_figures_follow_the_theme_by_the_names_of_its_colours() -> None:
    light = colors(0)
    for name in ("INK", "MUTED", "GRID", "EDGE", "MEDIAN"):
        assert light[name.lower()] == getattr(palette, name)


def test_nothing_moves() -> None:
    """So there is nothing to take away from people who asked for less motion."""
    assert not re.search(r"transition|animation|@keyframes|scroll-behavior", source("report.css"))


# --- tables and figures -------------------------------------------------------------------------------------------


def page_with(*blocks: Any) -> Any:
    """The parsed page of a report of these blocks."""
    report = Report("title", "kind", ("One.",), (Section("one", "One", blocks),), "made")
    return html5lib.parse(render_html(report), namespaceHTMLElements=False)


def test_cells_carry_the_number_behind_their_text() -> None:
    columns = (Column("name", "name"), Column("n", "count"), Column("time", "time_ns"), Column("step", "spread_ms"))
    rows = (("a", 12345, 1234567.8, Spread(2.5, 2.0, 3.0)), ("b", None, float("nan"), Spread(None, None, None)))
    cells = page_with(Table("t", "Caption", columns, rows)).findall(".//td")
    assert [cell.get("data-v") for cell in cells] == [None, "12345", "1234567.8", "2.5", None, None, None, None]
    assert ["none" in cell.get("class").split() for cell in cells] == [False] * 5 + [True] * 3
    assert [cell.text for cell in cells[5:]] == ["n/a"] * 3


def test_a_long_name_stands_whole_in_what_opens_below_it() -> None:
    long = "k" * 60 + "_middle_" + "l" * 60
    table = Table("t", "Caption", (Column("kernel", "name"),), ((long,), ("short",)))
    first, second = page_with(table).findall(".//td")
    assert len("".join(first.find("details/summary").itertext())) == 120
    assert "".join(first.find("details/bdi").itertext()) == long
    assert (second.find("details"), second.find("bdi").text) == (None, "short")


def test_long_names_that_are_alike_at_both_ends_look_different_in_a_table_and_keep_their_tooltips() -> None:
    names = [f"{'k' * 150}<{one}>{'e' * 150}" for one in ("add", "mul", "div")]
    table = Table("t", "Caption", (Column("kernel", "name"),), tuple((name,) for name in names))
    shown = ["".join(cell.find("details/summary").itertext()) for cell in page_with(table).findall(".//td")]
    assert [one in text for one, text in zip(("add", "mul", "div"), shown, strict=True)] == [True] * 3
    assert {len(text) for text in shown} == {120}
    data = Bars("share", (BarPanel("", tuple(Bar(name, "GEMM", 0.3) for name in names)),))
    figure = page_with(Figure("f", "Caption.", "What it shows.", data)).find(".//figure")
    assert [node.text for node in figure.iter() if str(node.tag).endswith("title")] == names * 2


def test_a_figure_says_in_words_what_it_shows_and_gives_whole_names() -> None:
    long = "void at::native::" + "reduce_kernel<" * 12 + "&last"
    data = Bars("share", (BarPanel("", (Bar(long, "GEMM", 0.75), Bar("short", "GEMM", 0.25))),))
    figure = page_with(Figure("f", "Caption.", "What it shows.", data)).find(".//figure")
    assert [svg.get("aria-label") for svg in figure.iter() if str(svg.tag).endswith("svg")] == ["What it shows."] * 2
    details = figure.find("figcaption/details")
    assert details.find("p").text == "What it shows."
    assert ["".join(item.itertext()) for item in details.findall("ul/li")] == [long]
    titles = [node.text for node in figure.iter() if str(node.tag).endswith("title")]
    assert titles == [long, long], "a tooltip in the wide and in the narrow one"


# --- size ---------------------------------------------------------------------------------------------------------


def test_size(summary: dict[str, Any], hostile_report: Report) -> None:
    assert len(page_text(summary).encode()) < 400_000
    assert len(render_html(hostile_report).encode()) < 1_000_000


def test_sixty_tasks_with_long_names() -> None:
    """Ten tables of twelve columns, and figures, of 60 tasks whose names have 200 characters."""
    names = [f"suite/{'task' * 48}{i:02d}" for i in range(60)]
    columns = (Column("task", "name"), *(Column(f"feature {i}", "number") for i in range(11)))
    rows = tuple((name, *(i / 7 + j for j in range(11))) for i, name in enumerate(names))
    tables = [Table(f"t-{i}", "Caption", columns, rows, limit=60) for i in range(10)]
    bars = tuple(Bar(name, "GEMM", 1 / 60) for name in names)
    figures = [Figure(f"f-{i}", "Caption.", "Bars.", Bars("share", (BarPanel("", bars),))) for i in range(2)]
    report = Report("title", "kind", (), (Section("one", "One", (*tables, *figures)),), "made")
    assert len(render_html(report).encode()) < 3_000_000


def test_a_thousand_hotspots_make_no_larger_page(summary: dict[str, Any]) -> None:
    few = len(page_text(summary))
    row = summary["hotspots"]["rows"][-1]
    summary["hotspots"]["rows"] += [{**row, "name": f"kernel{index}", "time_share": 0.0} for index in range(5000)]
    assert len(render_html(profile_report(summary))) < few + 20_000


@pytest.mark.parametrize("any_summary", ["usual", "hostile import"], indirect=True)
def test_the_same_bytes_each_time(any_summary: dict[str, Any]) -> None:
    assert page_text(any_summary) == render_html(profile_report(any_summary))


@pytest.mark.parametrize("character", ["\ud800", "\ufeff", "\u2028", "\u0000"])
def test_characters_that_no_file_can_hold(character: str) -> None:
    name = f"a{character}b"
    table = Table("t", name, (Column(name, "name"), Column("text", unit=name)), ((name, name),), more=name)
    text = render_html(Report(name, name, (name,), (Section("one", name, (table,)),), name))
    assert character not in text
    assert text.encode("utf-8")
