"""The site of docs/: `make docs` builds it into docs/_build/html, offline and with warnings as errors."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent

project = "wcbench"
version = release = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
copyright = "the authors of wcbench"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
myst_heading_anchors = 3
nitpicky = True
nitpick_ignore_regex = [("py:class", r"(collections\.abc|torch)\..*")]  # offline: no other project's pages
default_role = "code"  # docstrings write `name` with one backtick

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the docstrings say in words what each parameter takes
autodoc_preserve_defaults = True
napoleon_use_param = False  # a parameter's line is prose: no type to look up
napoleon_use_rtype = False
napoleon_use_ivar = True

html_theme = "furo"
html_title = f"wcbench {version}"
html_show_sphinx = False
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["wcbench.css"]

_ABOVE = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
"""Pages of the repository's root that the site has too, under another name; links to them are turned here."""
_SECTION = re.compile(r"(Parameters|Attributes|Returns|Raises)$")
_ENTRY = re.compile(r"(\S.*?) : (.*)")


def _links(app: Any, name: Any, *rest: Any) -> None:
    """Events source-read (name, source) and include-read (path, parent, source)."""
    source = rest[-1]
    for above, page in _ABOVE.items():
        source[0] = source[0].replace(f"](../{above})", f"]({page})").replace(f"]({above})", f"](docs/{page})")


def _entries(app: Any, what: str, *rest: Any) -> None:
    """``name : what it is`` on one line, as the docstrings have it, to the two lines that numpydoc asks for.

    For the event autodoc-process-docstring, whose last argument is the list of lines to change.
    """
    lines: list[str] = rest[-1]
    found: list[str] = []
    section = None
    for index, line in enumerate(lines):
        if index + 1 < len(lines) and set(lines[index + 1]) == {"-"}:
            section = line if _SECTION.match(line) else None
        entry = _ENTRY.fullmatch(line) if section else None
        if entry is None:
            found.append(line)
            continue
        names = entry[1]
        if section == "Raises":
            names = ", ".join(f"~wcbench.errors.{error}" for error in names.split(", "))
        found += [names, f"    {entry[2]}"]
    lines[:] = found


def setup(app: Any) -> None:
    app.connect("source-read", _links)
    app.connect("include-read", _links)
    app.connect("autodoc-process-docstring", _entries, priority=400)  # before napoleon
