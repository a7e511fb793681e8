"""What a figure shows before it is drawn: frozen data, which `figures.draw` turns into a picture.

Values are raw (SI units, shares of 1); names are free of invisible characters, as all texts of the model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from wcbench.reports.format import Kind

# --- one profile --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bar:
    """One horizontal bar. ``share`` is a fraction; ``cumulative`` that of this bar and all above it."""

    name: str
    category: str
    share: float
    cumulative: float | None = None


@dataclass(frozen=True)
class BarPanel:
    title: str
    bars: tuple[Bar, ...]


@dataclass(frozen=True)
class Bars:
    """Panels of horizontal bars on one scale. ``legend`` names the colours where the bars do not."""

    axis: str
    panels: tuple[BarPanel, ...]
    legend: bool = False


@dataclass(frozen=True)
class StepPoint:
    index: int
    milliseconds: float
    role: str


@dataclass(frozen=True)
class StepTimes:
    """Every step's time, with the summary's median and quartiles of the measured ones."""

    points: tuple[StepPoint, ...]
    median: float | None
    q1: float | None
    q3: float | None


@dataclass(frozen=True)
class LiveCurve:
    """Live bytes by class at operators of a step in their order; the classes stack.

    ``timed``: ``order`` is nanoseconds, and bytes stay until the next moment.
    """

    order: tuple[int, ...]
    classes: tuple[tuple[str, tuple[int, ...]], ...]
    timed: bool = False


@dataclass(frozen=True)
class Curve:
    """A named line through points."""

    name: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class CapacityCurves:
    """Something against cache capacity in bytes; below the capacity ``too_low`` the model alone is too low.

    ``unit`` is that of the values: bytes on a log axis, or a share of 1. ``levels`` are named constants.
    """

    axis: str
    unit: Literal["bytes", "share"]
    curves: tuple[Curve, ...]
    levels: tuple[tuple[str, float], ...] = ()
    too_low: float | None = None


@dataclass(frozen=True)
class RoofPoint:
    """An operator: where it stands on the intensity axis, and how much of the work it is."""

    name: str
    flops: float
    intensity: float


@dataclass(frozen=True)
class Roofline:
    """A device's roof in FLOP/s over FLOP/byte, operators below it, and the step's intensity by cache capacity."""

    peak: float
    bandwidth: float
    points: tuple[RoofPoint, ...]
    intensity: float | None
    capacities: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class KnobCurves:
    """A quantity against a knob of a sweep, both on log axes; ``kind`` and ``unit`` say how values are written."""

    axis: str
    knob: str
    kind: Kind
    unit: str
    curves: tuple[Curve, ...]


@dataclass(frozen=True)
class QualityCurves:
    """Quality against training, both on linear axes: lines of one name are runs of one kind. ``levels`` are targets."""

    axis: str
    along: str
    curves: tuple[Curve, ...]
    levels: tuple[float, ...] = ()


# --- a study: many workloads, one or two suites -------------------------------------------------------------------


@dataclass(frozen=True)
class Axis:
    """An axis: what it shows, how its numbers are written, and whether it is logarithmic."""

    title: str
    kind: Kind = "number"
    unit: str = ""
    log: bool = False


@dataclass(frozen=True)
class MapPoint:
    """A workload on a map. ``group`` : its suite ("both suites" for one in two); ``chosen`` : in the subset."""

    name: str
    x: float
    y: float
    group: str
    chosen: bool = False


@dataclass(frozen=True)
class Map:
    """Workloads in two dimensions, each named, coloured and marked by group.

    ``hulls`` : draw the convex hull of each group of two suites or more; its caption says that hulls grow with the
    number of tasks. ``equal`` : one unit is as long on both axes, as on a map of distances.
    """

    x: Axis
    y: Axis
    points: tuple[MapPoint, ...]
    hulls: bool = False
    equal: bool = False


@dataclass(frozen=True)
class StackBar:
    """One workload's shares by category; they sum to 1, what is missing is left blank."""

    name: str
    group: str
    parts: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Stacks:
    """A bar of shares for each workload, one below the other, with one legend of the categories."""

    axis: str
    bars: tuple[StackBar, ...]


@dataclass(frozen=True)
class Merge:
    """Two clusters become one at a height. Leaves are 0 to n - 1 in the order of `Tree.leaves`, merges n, n + 1, ..."""

    left: int
    right: int
    height: float


@dataclass(frozen=True)
class Leaf:
    name: str
    group: str
    chosen: bool = False


@dataclass(frozen=True)
class Tree:
    """A dendrogram, its leaves from top to bottom; ``cut`` is the height at which it is cut into clusters."""

    axis: str
    leaves: tuple[Leaf, ...]
    merges: tuple[Merge, ...]
    cut: float | None = None


@dataclass(frozen=True)
class DotRow:
    """A feature's values by workload, on its own scale: ``kind``, ``unit`` and ``log`` say how it is written."""

    name: str
    kind: Kind
    unit: str
    log: bool
    values: tuple[tuple[str, str, float], ...]
    """(workload, group, value)."""


@dataclass(frozen=True)
class DotPlot:
    """Small plots, one a feature, each with a dot for each workload on a line for each group."""

    groups: tuple[str, ...]
    rows: tuple[DotRow, ...]


@dataclass(frozen=True)
class Interval:
    """A value with its interval where one is known; ``marked`` : it says something else than the first one."""

    name: str
    value: float
    low: float | None = None
    high: float | None = None
    marked: bool = False


@dataclass(frozen=True)
class Intervals:
    """Values with their intervals, one below the other. ``reference`` : where nothing favours either side.

    ``unmarked_as``, ``marked_as`` : what the legend calls usual and marked rows, where there are any of the latter.
    """

    axis: Axis
    rows: tuple[Interval, ...]
    reference: float | None = None
    unmarked_as: str = "as the first row"
    marked_as: str = "says something else than the first row"


@dataclass(frozen=True)
class Band:
    """A curve with a band around it, e.g. a rarefaction curve with its middle 95 % of draws."""

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()


@dataclass(frozen=True)
class Bands:
    """Curves with bands. ``steps`` : values hold until the next x, as the size of a subset over the radius.

    ``marks`` : named places on the x axis, e.g. (r*, 2.0).
    """

    x: Axis
    y: Axis
    curves: tuple[Band, ...]
    marks: tuple[tuple[str, float], ...] = ()
    steps: bool = False


@dataclass(frozen=True)
class Matrix:
    """Shares of 1 between workloads, e.g. the overlap of their hotspots; None is not known."""

    axis: str
    names: tuple[str, ...]
    rows: tuple[tuple[float | None, ...], ...]


@dataclass(frozen=True)
class DevicePoint:
    """A workload under a roof: FLOP/byte, and the FLOP/s that the roof allows there (``attained`` None) or it had."""

    name: str
    group: str
    intensity: float
    attained: float | None = None


@dataclass(frozen=True)
class Roofs:
    """A device's roof in FLOP/s over FLOP/byte, and workloads under it."""

    device: str
    peak: float
    bandwidth: float
    points: tuple[DevicePoint, ...]


ProfileFigure = Bars | StepTimes | LiveCurve | CapacityCurves | Roofline | KnobCurves | QualityCurves
StudyFigure = Map | Stacks | Tree | DotPlot | Intervals | Bands | Matrix | Roofs
FigureData = ProfileFigure | StudyFigure
