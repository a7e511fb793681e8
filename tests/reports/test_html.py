"""The page as a page: whole, self-contained, escaped, small, the same each time. Numbers are tested on the model."""

from __future__ import annotations

import re
from collections import Counter
from html.parser import HTMLParser
from typing import Any

import pytest

from wcbench.reports.html import render_html
from wcbench.reports.model import Report
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
        if "style" not in self.open:
            self.text.append(data)

    def values(self, attribute: str, tag: str | None = None) -> list[str]:
        return [value for owner, name, value in self.attributes if name == attribute and tag in (None, owner)]


def page_of(summary: dict[str, Any]) -> Page:
    return Page(render_html(profile_report(summary)))


def test_tags_close_ids_are_unique_and_links_lead_somewhere(any_summary: dict[str, Any]) -> None:
    page = page_of(any_summary)
    ids = page.values("id")
    assert [name for name, times in Counter(ids).items() if times > 1] == []
    anchors = [value[1:] for value in page.values("href", "a")]
    assert anchors == [section.id for section in profile_report(any_summary).sections]
    assert set(anchors) <= set(ids)
    assert set(page.values("aria-labelledby")) <= set(ids)


def test_the_page_asks_for_nothing(any_summary: dict[str, Any]) -> None:
    text = render_html(profile_report(any_summary))
    page = Page(text)
    assert not {"script", "link", "img", "iframe", "object", "embed", "base", "form"} & set(page.tags)
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
    assert page.tags["script"] == 0
    assert "<script>alert(1)</script>\"'&$x^2$\\u202egnp.exe\\x00\\x1b[31m\\n\\u200b" in "".join(page.text)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f\u200b-\u200f\u202a-\u202e\u2066-\u2069]", text)
    assert "9,400 more characters" in text
    assert "30 more rows" in text
    assert max(len(word) for word in page.text) < 2_100
    assert text.encode("utf-8")


def test_size(summary: dict[str, Any], hostile_report: Report) -> None:
    assert len(render_html(profile_report(summary)).encode()) < 400_000
    assert len(render_html(hostile_report).encode()) < 1_000_000


def test_a_thousand_hotspots_make_no_larger_page(summary: dict[str, Any]) -> None:
    few = len(render_html(profile_report(summary)))
    row = summary["hotspots"]["rows"][-1]
    summary["hotspots"]["rows"] += [{**row, "name": f"kernel{index}", "time_share": 0.0} for index in range(5000)]
    assert len(render_html(profile_report(summary))) < few + 20_000


def test_the_same_bytes_each_time(any_summary: dict[str, Any]) -> None:
    assert render_html(profile_report(any_summary)) == render_html(profile_report(any_summary))


@pytest.mark.parametrize("character", ["\ud800", "\ufeff", "\u2028", "\u0000"])
def test_characters_that_no_file_can_hold(summary: dict[str, Any], character: str) -> None:
    summary["hotspots"]["rows"][0]["name"] = f"a{character}b"
    text = render_html(profile_report(summary))
    assert character not in text
    assert text.encode("utf-8")
