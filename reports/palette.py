"""Colours: one a category, the same wherever it appears, told apart with any of the common colour deficiencies.

The paper's eight take Okabe and Ito's palette (without its black, with a brown; outlines carry the yellow on white); a
category that refines one of them keeps its hue. Colour is never the only sign: every bar carries its name.
"""

from __future__ import annotations

from wcbench.reports.format import prose

# Ink and lines are sentinels: HTML replaces each by a variable of the page's light or dark theme.
INK = "#1b1f24"
MUTED = "#59616c"
GRID = "#d3d9e0"
EDGE = "#3a4048"
MEDIAN = "#0b62a8"

PAPER = {
    "convolution": "#0072b2",
    "gemm": "#d55e00",
    "batch normalization": "#009e73",
    "element-wise": "#56b4e9",
    "relu activation": "#e69f00",
    "pooling": "#cc79a7",
    "memory copy": "#8c6d46",
    "data arrangement": "#ece133",
}

REFINED = {
    "attention": "#f08a5d",
    "recurrent": "#a13d00",
    "embedding and scatter": "#b3a100",
    "softmax": "#3fae9c",
    "reduction": "#8fd3c4",
    "other normalization": "#5fbf8f",
    "other activation": "#f3c766",
    "view and allocation": "#e6dc94",
    "interpolation and sampling": "#b86fd6",
    "loss": "#e39ad0",
    "sort and selection": "#7a5c99",
    "optimizer": "#8f2d56",
    "random": "#c2a878",
    "spectral": "#2b4c9b",
    "communication": "#3d5a80",
    "synchronization": "#6f86a3",
    "framework": "#767c85",
    "other": "#9aa1ab",
    "computation": PAPER["element-wise"],
    "computation + communication": "#009e73",
    "none of the eight": "#9aa1ab",
}

LIVE = {
    "weight": PAPER["convolution"],
    "gradient": PAPER["gemm"],
    "optimizer state": PAPER["pooling"],
    "activation": PAPER["element-wise"],
    "input": PAPER["batch normalization"],
    "workspace": PAPER["relu activation"],
}
"""Classes of live bytes: the same hues, in figures that have no categories."""

TIMELINE = {
    "parameter": LIVE["weight"],
    "temporary": LIVE["workspace"],
    "autograd detail": PAPER["memory copy"],
}
"""What torch's memory timeline calls otherwise, or besides."""

UNKNOWN = "#c9ced6"

GROUPS = ("#0072b2", "#d55e00", "#009e73", "#c46a9b", "#8c6d46", "#7a5c99", "#767c85")
"""Groups of workloads, in their order. Each has a shape besides; all stand out from white and from a dark page."""


def _key(category: str) -> str:
    return prose(category).casefold()


_COLORS = {**PAPER, **REFINED}


def category_color(category: str) -> str:
    """The colour of a category by its name; grey for one that the palette does not know."""
    return _COLORS.get(_key(category), UNKNOWN)


def live_color(name: str) -> str:
    """The colour of a class of live bytes; grey for one that the palette does not know."""
    return {**LIVE, **TIMELINE}.get(_key(name), UNKNOWN)
