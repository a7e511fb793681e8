"""The panel that compares two suites: its figures in one table, and its result in sentences.

Question 1 (what each covers as shipped) may be won by the larger suite: its measures grow with the number of tasks, and
say so in every row. Question 2 (diversity per task) uses statistics that do not: unbiased, or means at equal size.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from wcbench.analysis.dispersion import Energy, FeatureSpread
from wcbench.analysis.factors import ClassDiversity, FactorCoverage
from wcbench.analysis.novelty import Coverage, Direction, Novelty
from wcbench.analysis.overlap import HotspotOverlap
from wcbench.analysis.pairing import Pair, tidy
from wcbench.analysis.rarefaction import Rarefied
from wcbench.analysis.shown import Shown
from wcbench.analysis.vendi import Vendi
from wcbench.analysis.verdict import Repeat, Verdict

SIZE_DEPENDENT = "size-dependent: grows with the number of tasks"
OTHER_SIZE = "size-dependent: falls with the number of tasks of the other suite"


@dataclass(frozen=True)
class Diversity(Shown):
    """The panel for two suites.

    Attributes
    ----------
    pair : the suites, of what has a place in the space. ``left_out`` : workloads and features
        that have none, with reasons.
    shared, kin : tasks in both suites, and tasks of families in both: listed apart, fixed in permutations.
    shipped : question 1, raw, size-dependent. ``novelty``, ``coverage`` : the same question, both ways.
    verdict, rarefied, vendi, features : question 2.
    energy : whether the suites differ at all. ``classes``, ``factors``, ``hotspots`` : where they were given.
    repeats : the verdict under each change. ``points`` : coordinates of all workloads. ``relabelled`` : of what p is.
    """

    pair: Pair
    left_out: Mapping[str, str]
    shared: tuple[str, ...]
    kin: tuple[str, ...]
    verdict: Verdict
    shipped: pd.DataFrame
    rarefied: tuple[Rarefied, ...]
    vendi: Vendi
    features: FeatureSpread
    novelty: Novelty
    coverage: Coverage
    energy: Energy
    classes: ClassDiversity | None
    factors: FactorCoverage | None
    hotspots: tuple[HotspotOverlap, ...]
    repeats: tuple[Repeat, ...]
    points: pd.DataFrame
    relabelled: str

    @property
    def changes(self) -> tuple[Repeat, ...]:
        """Repeats whose verdict is another."""
        return tuple(one for one in self.repeats if one.changed)

    @property
    def sentences(self) -> tuple[str, ...]:
        """The result in words: question 2, question 1, tasks in common, and where the verdict changes."""
        matched = (one.words for one in self.rarefied if one.measure != "mean pairwise distance" and not one.reason)
        return (*self.verdict.sentences, *matched, *self._as_shipped(), *self._in_common(), *self._changing())

    def _as_shipped(self) -> list[str]:
        sides = (self.novelty.a, self.novelty.b)
        if self.novelty.radius is None:
            return [f"As shipped, novelty is not counted: {sides[0].reason}."]
        said = []
        for side in sides:
            names = f" ({', '.join(side.novel or ())})" if side.novel else ""
            chance = (
                ""
                if side.expected is None
                else f"; exchanged labels give {side.expected:.1f} on average, p = {side.p:.2g}"
            )
            count = f"{len(side.novel or ())} of {side.size} tasks of {side.of}"
            said.append(f"As shipped, {count} are further than r from every task of {side.to}{names}{chance}.")
        return said

    def _in_common(self) -> list[str]:
        said = [f"Shared tasks, fixed in permutations: {', '.join(self.shared)}."] if self.shared else []
        rest = [name for name in self.kin if name not in self.shared]
        return said + ([f"Kin of tasks of the other suite: {', '.join(rest)}."] if rest else [])

    def _changing(self) -> list[str]:
        told = [one for one in self.repeats if one.verdict is not None and not one.reason]
        if not self.repeats or self.verdict.reason:
            return []
        if not told:
            return [f"None of the {len(self.repeats)} repeats could be made: {self.repeats[0].reason}."]
        if not self.changes:
            lost = [f"{one.name}: {one.reason or (one.verdict and one.verdict.reason)}" for one in self.repeats
                    if one not in told]  # fmt: skip
            rest = f" No test is possible in the others ({'; '.join(lost)})." if lost else ""
            return [f"The verdict is the same in {len(told)} of {len(self.repeats)} repeats.{rest}"]
        named = "; ".join(f"{one.name}: {_favoured(one)}" for one in self.changes)
        return [f"The verdict changes in {len(self.changes)} of {len(told)} repeats ({named})."]

    def repeats_frame(self) -> pd.DataFrame:
        return pd.DataFrame([one.row() for one in self.repeats])

    def to_frame(self) -> pd.DataFrame:
        """One row a measure: question, measure, a, b, ratio, low, high, p, size_dependent, how, reason."""
        rows = [*_shipped_rows(self), *_matched_rows(self), *_other_rows(self)]
        columns = ["question", "measure", "a", "b", "ratio", "low", "high", "p", "size_dependent", "how", "reason"]
        found = pd.DataFrame([dict(zip(columns, row, strict=True)) for row in rows], columns=columns)
        return found.astype(dict.fromkeys(("a", "b", "ratio", "low", "high", "p"), "float64"))

    def __repr__(self) -> str:
        (a, b), (n_a, n_b) = self.verdict.labels, self.verdict.sizes
        return "\n".join([f"Diversity ({a}, {n_a} tasks, against {b}, {n_b})", *(f"  {x}" for x in self.sentences)])


def _favoured(one: Repeat) -> str:
    return f"favours {one.verdict.favours}" if one.verdict and one.verdict.favours else "favours neither"


Row = tuple[object, ...]
_BLANK: list[None] = [None] * 4


def _shipped_rows(panel: Diversity) -> list[Row]:
    """Question 1: ratio, interval and p stay empty where they would compare sizes."""
    rows: list[Row] = [
        ("1", r.measure, r.a, r.b, r.ratio, *_BLANK[:3], True, SIZE_DEPENDENT, r.reason)
        for r in panel.shipped.itertuples()
    ]
    sides = (panel.novelty.a, panel.novelty.b)
    rows += [_novel_row(side, side is sides[0]) for side in sides]
    for name, values in (
        ("mean distance to the nearest task of the other suite", [side.mean for side in sides]),
        (
            "largest distance to the nearest task of the other suite (directed Hausdorff)",
            [side.largest for side in sides],
        ),
    ):
        why = "" if None not in values else sides[0].reason or sides[1].reason
        rows.append(("1", name, *values, *_BLANK, True, OTHER_SIZE, why))
    for r in panel.vendi.rows.itertuples():
        name = f"Vendi score, q = {r.order:g}, bandwidth {r.bandwidth:g} x median"
        rows.append(("1", name, r.a, r.b, *_BLANK, True, SIZE_DEPENDENT, ""))
    if panel.vendi.reason:
        rows.append(("1", "Vendi score", None, None, *_BLANK, True, SIZE_DEPENDENT, panel.vendi.reason))
    for r in panel.coverage.rows.itertuples():
        name = f"coverage of {r.reference} by {r.by} less that of one population, k = {r.k}"
        value = (r.excess, None) if r.reference == panel.pair.label_a else (None, r.excess)
        rows.append(("1", name, *value, *_BLANK, False, f"{r.coverage:.3g} - {r.null:.3g}", ""))
        name = f"density of {r.reference} by {r.by} less that of one population, k = {r.k}"
        value = (r.density_excess, None) if r.reference == panel.pair.label_a else (None, r.density_excess)
        rows.append(("1", name, *value, *_BLANK, False, f"{r.density:.3g} - 1", ""))
    return rows


def _novel_row(side: Direction, first: bool) -> Row:
    """A count of one suite, with its own p: the null takes the sizes into account."""
    count = None if side.novel is None else float(len(side.novel))
    chance = "" if side.expected is None else f"; exchanged labels give {side.expected:.3g} on average"
    name = f"tasks of {side.of} further than r from every task of {side.to}"
    values = (count, None) if first else (None, count)
    return "1", name, *values, *_BLANK[:3], side.p, True, SIZE_DEPENDENT + chance, side.reason


def _matched_rows(panel: Diversity) -> list[Row]:
    """Question 2."""
    verdict = panel.verdict
    rows: list[Row] = []
    for ratio in (verdict.dispersion, verdict.distance, verdict.variance):
        test = verdict.test if ratio is verdict.dispersion else None
        figures = (ratio.a, ratio.b, ratio.ratio, ratio.low, ratio.high, test.p if test else None)
        how = f"jackknife interval; p from {test.how}" if test and test.how else "jackknife interval"
        why = "; ".join(dict.fromkeys(x for x in (ratio.reason, test.reason if test else "") if x))
        rows.append(("2", ratio.statistic, *figures, False, how, why))
    rows += [_rarefied_row(panel, one) for one in (*panel.rarefied, *panel.vendi.rarefied)]
    if panel.classes is not None:
        for r in panel.classes.rows.itertuples():
            pair_ = (r.a_at_m, r.b_at_m)
            name, how = f"Hill number of classes, q = {r.order}, rarefied", f"expected of {r.m} tasks"
            rows.append(("2", name, *pair_, *_BLANK, False, how, panel.classes.reason))
    return rows


def _rarefied_row(panel: Diversity, one: Rarefied) -> Row:
    first = one.larger == panel.pair.label_a
    a, b = (one.mean, one.value) if first else (one.value, one.mean)
    of = f"all {one.subsets}" if one.exact else f"{one.subsets} drawn"
    how = f"mean over {of} {one.size}-task subsets of {one.larger}; {one.words}"
    ratio = None if not a or not b else tidy(a / b)
    return "2", f"{one.measure}, rarefied", a, b, ratio, *_BLANK[:3], False, "" if one.reason else how, one.reason


def _other_rows(panel: Diversity) -> list[Row]:
    one = panel.energy
    how = f"are the suites different? (not: which is more diverse); {one.how}"
    return [("different?", "energy distance", one.value, None, *_BLANK[:3], one.p, False, how, one.reason)]
