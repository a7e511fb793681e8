"""The page in a real browser: what strangers wrote does nothing, and what a reader does works, by mouse and by keys.

Needs Debian's Chromium. On a machine without it these tests are skipped; in CI that would be a failure.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from wcbench.reports import format as fmt
from wcbench.reports.figure_data import Bar, BarPanel, Bars, Curve, KnobCurves, LiveCurve, Roofline, RoofPoint
from wcbench.reports.html import render_html
from wcbench.reports.model import (
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
from wcbench.reports.profile_report import profile_report

CHROMIUM = Path("/usr/bin/chromium")
if not CHROMIUM.exists():
    if os.environ.get("CI") == "true":
        pytest.fail(f"CI checks the reports in a browser, and {CHROMIUM} is missing.", pytrace=False)
    pytest.skip(f"needs {CHROMIUM}", allow_module_level=True)

ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
AUDIT = (Path(__file__).parent / "browser" / "audit.js").read_text(encoding="utf-8")
PHONE, DESKTOP = {"width": 375, "height": 812}, {"width": 1280, "height": 900}

PAYLOADS = (
    "<script>window.pwned=1;alert(1)</script>",
    '"><img src=x onerror="window.pwned=1;alert(2)">',
    "' onmouseover='window.pwned=1' autofocus onfocus='window.pwned=1' x='",
    "</style><script>window.pwned=1</script>",
    "</title></svg></figure><svg onload=window.pwned=1>",
    '<iframe src="javascript:window.pwned=1">',
    "javascript:window.pwned=1",
    '<meta http-equiv="refresh" content="0;url=https://example.com">',
    '<base href="https://example.com/"><link rel=stylesheet href=//example.com/a.css>',
    "url(https://example.com/x.png)",
    "-->]]><!-- <![CDATA[ {{ 7*7 }} {% raw %} ${7*7}",
    "&lt;b&gt;&#60;&amp; \" ' ` = \\ $x^2$ \\frac{",
    "\u202egnp.exe\u2066\u2069\u200b\ufeff\x00\x1b[31m\x7f\ud800\n\t",
    "العربية עברית 中文 e\u0301\u0301\u0301\u0301",
    "W" * 10_000,
)


def nasty(start: int) -> str:
    """All of them, each time with another first, so that each gets into every place before a text is cut."""
    return " ".join((*PAYLOADS[start:], *PAYLOADS[:start]))


def hostile_report() -> Report:
    """Every text of every block tries everything."""
    some = range(len(PAYLOADS))
    columns = tuple(Column(nasty(i), "name" if i == 1 else "text" if i == 2 else "count", nasty(i)) for i in some[:5])
    cells = tuple((i, PAYLOADS[i], nasty(i), None, float(i)) for i in some) * 2
    names = [fmt.prose(nasty(i))[: 20_000 if i == 0 else 900] for i in some]  # visible characters, as in the model
    bars = tuple(Bar(name, name, 0.01 * i, None) for i, name in enumerate(names))
    curves = tuple(Curve(name, ((1.0, 2.0), (4.0, 3.0))) for name in names[:3])
    figures = (
        Bars("share", tuple(BarPanel(name, bars) for name in names[:2]), legend=True),
        LiveCurve((0, 1, 2), tuple((name, (1, 2, 3)) for name in names)),
        KnobCurves("work", "length", "count", "", curves),
        Roofline(1e12, 1e11, tuple(RoofPoint(name, 1e9, 1.0 + i) for i, name in enumerate(names)), 5.0, ((1e6, 5.0),)),
    )
    blocks: tuple[Any, ...] = (
        *(Text(nasty(i)) for i in some),
        Facts(tuple(Fact(nasty(i), nasty(i), "text", nasty(i), nasty(i)) for i in some)),
        *(Command(nasty(i), nasty(i)) for i in some),
        Table("t-one", nasty(0), columns, cells, limit=20, more=nasty(4)),
        SideBySide((Table("t-two", nasty(1), columns, cells[:3]), Table("t-none", nasty(2), columns, ()))),
        Notes(tuple(NoteLine(nasty(i), nasty(i)) for i in some)),
        *(Figure(f"f-{i}", nasty(i), nasty(i), data) for i, data in enumerate(figures)),
    )
    sections = tuple(Section(f"s-{i}", nasty(i), blocks if i == 0 else ()) for i in some)
    return Report(nasty(0), nasty(1), tuple(nasty(i) for i in some), sections, nasty(2))


# --- the browser --------------------------------------------------------------------------------------------------


@dataclass
class Opened:
    """A page, and what it did that a page of ours must not do."""

    page: Any
    path: Path
    misdeeds: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def watch(self) -> None:
        self.page.on("dialog", lambda dialog: (self.misdeeds.append(f"dialog {dialog.message}"), dialog.dismiss()))
        self.page.on("console", lambda message: self.misdeeds.append(f"console {message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.misdeeds.append(f"error {error}"))
        self.page.on("request", lambda request: self.requests.append(request.url))

    def visit(self) -> None:
        self.page.goto(self.path.as_uri())

    def overflow(self) -> int:
        """Pixels by which the page is wider than its window."""
        return int(self.page.evaluate("document.documentElement.scrollWidth - innerWidth"))

    def background(self) -> str:
        return str(self.page.evaluate("getComputedStyle(document.body).backgroundColor"))

    def column(self, table: str, index: int) -> list[str]:
        """The visible cells of a column, as they stand."""
        rows = f"[...document.getElementById('{table}').tBodies[0].rows].filter((row) => !row.hidden)"
        return list(self.page.evaluate(f"{rows}.map((row) => row.cells[{index}].textContent)"))


WHITE, DARK = "rgb(255, 255, 255)", "rgb(20, 23, 27)"
Open = Callable[..., Opened]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def visit(chromium: Any, tmp_path: Path) -> Iterator[Open]:
    """Open a page's text in a window of its own."""
    contexts = []

    def visit(text: str, viewport: dict[str, int] = DESKTOP, theme: str = "light", scripts: bool = True) -> Opened:
        path = tmp_path / f"page{len(contexts)}.html"
        path.write_text(text, encoding="utf-8")
        contexts.append(chromium.new_context(viewport=viewport, color_scheme=theme, java_script_enabled=scripts))
        contexts[-1].set_default_timeout(5000)
        opened = Opened(contexts[-1].new_page(), path)
        opened.watch()
        opened.visit()
        return opened

    yield visit
    for context in contexts:
        context.close()


@pytest.fixture(scope="module")
def hostile_page() -> str:
    return render_html(hostile_report())


_PAGES: dict[str, str] = {}


@pytest.fixture
def whole_page(summary: dict[str, Any]) -> str:
    """The usual profile, drawn once."""
    if "whole" not in _PAGES:
        _PAGES["whole"] = render_html(profile_report(summary))
    return _PAGES["whole"]


@pytest.fixture
def usual_page(summary: dict[str, Any]) -> str:
    """Its sections without most of the figures; of 40 hotspots the table shows 30. Drawn once."""
    if "usual" not in _PAGES:
        row = summary["hotspots"]["rows"][0]
        summary["hotspots"]["rows"] = [
            {**row, "name": f"aten::op{i}{'_backward' * (i % 3)}", "time_ns": 4000.0 - i, "calls": calls(i)}
            for i in range(40)
        ]
        report = profile_report(summary)
        sections = tuple(
            section for section in report.sections if section.id not in ("memory", "roofline", "complexity")
        )
        _PAGES["usual"] = render_html(replace(report, sections=sections))
    return _PAGES["usual"]


def calls(index: int) -> float | None:
    """Of a hotspot: with repetitions, and unknown for each seventh."""
    return None if index % 7 == 3 else float(index % 5 * 10)


# --- what strangers wrote -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("viewport", [PHONE, DESKTOP], ids=["phone", "desktop"])
def test_hostile_text_stays_text(visit: Open, hostile_page: str, viewport: dict[str, int]) -> None:
    opened = visit(hostile_page, viewport)
    page = opened.page
    assert page.evaluate(AUDIT) == []
    page.evaluate("document.querySelectorAll('main details').forEach((one) => { one.open = true; })")
    page.locator("#t-one th button").first.click()
    page.get_by_role("searchbox").first.fill("<script>")
    page.mouse.move(200, 400)
    assert opened.overflow() <= 0
    assert page.evaluate("window.pwned") is None
    assert (opened.misdeeds, opened.requests) == ([], [opened.path.as_uri()])
    made = "script, img, iframe, object, embed, base, link, form, a:not([href^='#']), meta[http-equiv=refresh], b b"
    assert page.locator(made).count() == 1, "our own script"
    attributes = page.evaluate("[...document.querySelectorAll('*')].flatMap((e) => e.getAttributeNames())")
    assert not [name for name in attributes if name.startswith("on")]
    for place in (
        "h1",
        "h2",
        ".lead",
        "nav li",
        "dt",
        ".value",
        ".hint",
        "caption",
        "th",
        "code",
        "figcaption",
        "li b",
    ):
        assert PAYLOADS[0] in "".join(page.locator(place).all_text_contents()), place


def test_the_policy_stops_a_script_that_got_into_the_page(visit: Open, usual_page: str) -> None:
    """The last line of defence, and proof that the checks above see a misdeed."""
    broken = usual_page.replace("</main>", "<script>window.pwned=1</script><img src='https://example.com/x'></main>")
    opened = visit(broken)
    assert opened.page.evaluate("window.pwned") is None
    assert len([line for line in opened.misdeeds if "Content Security Policy" in line]) == 2
    assert opened.page.locator("th button").count() > 10, "ours runs all the same"


# --- what a reader does -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("viewport", "theme"), [(PHONE, "light"), (DESKTOP, "dark")], ids=["phone", "desktop"])
def test_a_report_is_quiet_and_passes_the_audit(
    visit: Open, whole_page: str, viewport: dict[str, int], theme: str
) -> None:
    opened = visit(whole_page, viewport, theme)
    assert opened.page.evaluate(AUDIT) == []
    assert opened.overflow() <= 0
    assert opened.background() == (WHITE if theme == "light" else DARK)
    assert (opened.misdeeds, opened.requests) == ([], [opened.path.as_uri()])
    opened.page.get_by_role("button", name="theme").click()
    assert opened.page.evaluate(AUDIT) == [], "the other theme"
    opened.page.emulate_media(media="print")
    opened.page.set_viewport_size({"width": 688, "height": 1000})  # A4 less its margins
    assert opened.overflow() <= 0, "nothing is cut off on paper"


def test_sorting(visit: Open, usual_page: str) -> None:
    """By raw value and stable, what is absent last both ways; the third press brings the report's order back."""
    opened = visit(usual_page)
    heads = opened.page.locator("#hotspots-table th")
    titles = heads.all_text_contents()
    place, known = titles.index("calls"), [i for i in range(30) if calls(i) is not None]
    button, ranks = heads.nth(place).locator("button"), [str(i + 1) for i in range(30)]
    missing = [str(i + 1) for i in range(30) if calls(i) is None]
    falling = [str(i + 1) for i in sorted(known, key=lambda i: -(calls(i) or 0))] + missing
    rising = [str(i + 1) for i in sorted(known, key=lambda i: calls(i) or 0)] + missing
    assert opened.column("hotspots-table", 0) == ranks
    button.focus()
    for key, state, order in (("Enter", "descending", falling), ("Space", "ascending", rising), ("Enter", None, ranks)):
        opened.page.keyboard.press(key)
        assert opened.column("hotspots-table", 0) == order
        assert heads.nth(place).get_attribute("aria-sort") == state
    button.click()
    names = heads.nth(titles.index("operator"))
    names.locator("button").click()
    assert heads.nth(place).get_attribute("aria-sort") is None, "one column at a time"
    listed = opened.column("hotspots-table", titles.index("operator"))
    assert listed[:4] == ["aten::op0", "aten::op1_backward", "aten::op2_backward_backward", "aten::op3"]
    assert listed[10] == "aten::op10_backward", "numbers in names count as numbers"


def test_filter(visit: Open, usual_page: str) -> None:
    """It says how many of the rows are left, and that the page does not hold them all."""
    opened = visit(usual_page)
    table = opened.page.locator("#hotspots-table")
    box, said = table.get_by_role("searchbox"), table.get_by_role("status")
    box.focus()
    opened.page.keyboard.type("OP1 back")
    wanted = [f"aten::op{i}" + "_backward" * (i % 3) for i in (1, 10, 11, 13, 14, 16, 17, 19)]
    assert opened.column("hotspots-table", 2) == wanted
    assert said.text_content() == "8 of 30 rows; 10 more are not on this page"
    assert (
        opened.page.locator("#hotspots-table").evaluate("(t) => t.closest('.table').textContent").count("wcbench") == 1
    )
    box.fill("nothing like it")
    assert (opened.column("hotspots-table", 2), said.text_content()[:12]) == ([], "0 of 30 rows")
    box.fill("")
    assert (len(opened.column("hotspots-table", 2)), said.text_content()) == (30, "")


def test_a_long_name_opens_by_keys(visit: Open) -> None:
    table = Table("t", "Kernels", (Column("kernel", "name"),), (("W" * 10_000,), ("short",)))
    opened = visit(render_html(Report("title", "kind", (), (Section("one", "One", (table,)),), "made")), PHONE)
    fold = opened.page.locator("details.full")
    whole = fold.locator(":scope > bdi")
    assert not whole.is_visible()
    fold.locator("summary").focus()
    opened.page.keyboard.press("Enter")
    assert whole.is_visible()
    assert whole.text_content() == "W" * fmt.NAME_LIMIT
    assert "9,400 more characters" in fold.text_content()


def test_theme(visit: Open, usual_page: str) -> None:
    """The system's until the button is pressed, for figures too; forgotten with the page; never on paper."""
    opened = visit(usual_page, theme="light")
    page = opened.page
    ink = "getComputedStyle([...document.querySelectorAll('.wide svg text')].pop()).fill"
    light = page.evaluate(ink)
    page.get_by_role("button", name="Dark theme").click()
    assert (opened.background(), page.get_by_role("button", name="Light theme").count()) == (DARK, 1)
    assert page.evaluate(ink) != light
    page.emulate_media(media="print", color_scheme="dark")
    assert opened.background() == WHITE
    page.emulate_media(media="screen", color_scheme="light")
    assert page.evaluate("[localStorage.length, sessionStorage.length, document.cookie]") == [0, 0, ""]
    page.reload()
    assert opened.background() == WHITE
    page.emulate_media(color_scheme="dark")
    assert (opened.background(), page.get_by_role("button", name="Light theme").count()) == (DARK, 1)


def test_contents_beside_the_text(visit: Open, usual_page: str) -> None:
    page = visit(usual_page).page
    here, links = page.locator("nav [aria-current=location]"), page.locator("nav li a")
    assert links.first.is_visible()
    titles = links.all_text_contents()
    for index in (3, len(titles) - 1, 1):
        links.nth(index).click()
        page.wait_for_function(f"document.querySelector('nav [aria-current]')?.textContent === '{titles[index]}'")
        assert here.all_text_contents() == [titles[index]]
        assert links.nth(index).evaluate("(link) => link.getBoundingClientRect().top > 0"), "in sight all the time"


def test_contents_on_a_phone(visit: Open, usual_page: str) -> None:
    """Folded; unfolded by a key, closed by a choice or Escape, and no heading hides under the bar."""
    page = visit(usual_page, PHONE).page
    fold, link = page.locator("nav summary"), page.locator("nav li a")
    assert not link.first.is_visible()
    fold.focus()
    page.keyboard.press("Enter")
    assert link.first.is_visible()
    page.keyboard.press("Escape")
    assert not link.first.is_visible()
    assert page.evaluate("document.activeElement.tagName") == "SUMMARY"
    fold.click()
    link.nth(4).click()
    page.wait_for_function("scrollY > 1000")
    assert not link.first.is_visible()
    assert page.evaluate(
        "document.querySelectorAll('h2')[4].getBoundingClientRect().top"
        " >= document.querySelector('nav').getBoundingClientRect().bottom - 1"
    )


def test_keys_reach_everything_and_show_where_they_are(visit: Open, usual_page: str) -> None:
    page = visit(usual_page, PHONE).page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the report"
    assert page.evaluate("document.activeElement.getBoundingClientRect().top") >= 0
    seen = set()
    for _ in range(12):
        page.keyboard.press("Tab")
        tag, outline = page.evaluate(
            "[document.activeElement.tagName, getComputedStyle(document.activeElement).outline]"
        )
        seen.add(tag)
        assert "solid 2px" in outline, tag
    assert seen >= {"SUMMARY", "A", "BUTTON", "DIV"}, "a table that scrolls is a stop of its own"
    page.keyboard.press("Control+Home")
    page.locator(".skip").focus()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "Main"


def test_without_scripts_all_is_readable(visit: Open, usual_page: str) -> None:
    opened = visit(usual_page, PHONE, scripts=False)
    page = opened.page
    assert (page.locator("th button").count(), page.get_by_role("searchbox").count()) == (0, 0)
    assert not page.locator("#Theme").is_visible()
    assert len(opened.column("hotspots-table", 2)) == 30
    page.locator("nav summary").click()
    assert page.locator("nav li a").first.is_visible()
    assert opened.overflow() <= 0
