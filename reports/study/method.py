"""How the study is made, in short, with the sources of each step."""

from __future__ import annotations

from wcbench.reports.model import Column, Section, Table, Text
from wcbench.reports.study._common import View

STEPS = (
    (
        "table",
        "A row is a workload, a column a feature of its record; nothing is imputed. Cost is never a feature.",
        "docs/features.md",
    ),
    (
        "space",
        "Amounts by logarithm, shares by logit, compositions by centred log-ratios; scaled, each block of total "
        "variance 1; blind to suites. Distances that decide are Euclidean in all of it.",
        "Aitchison 1986; Martin-Fernandez et al. 2003",
    ),
    (
        "r*",
        "95 % quantile of the distance of a workload to itself under changes that leave it the same task; not tuned.",
        "docs/method.md",
    ),
    (
        "subset",
        "Set cover at r*, solved exactly with gap 0; of several the cheapest, then the least mean distance.",
        "Toregas et al. 1971",
    ),
    (
        "trust",
        "Covers of 80 % of the workloads without replacement; without each block; held-out metrics against other "
        "subsets.",
        "Yi et al., IISWC 2006; Vandierendonck and De Bosschere, WWC 2004",
    ),
    (
        "components, clusters",
        "To be read; parallel analysis, gap statistic. They decide nothing.",
        "Horn 1965; Tibshirani, Walther and Hastie 2001",
    ),
    (
        "per task",
        "Mean distance to the spatial median with jackknife interval and permutation test; rarefaction to equal size.",
        "Anderson 2006; Friedman and Dieng 2023; Brown and Forsythe 1974; Holm 1979",
    ),
    (
        "as shipped",
        "Ranges, hulls, totals, new tasks: grow with the number of tasks, and are labelled so.",
        "Naeem et al. 2020 (coverage less its null)",
    ),
    (
        "set beside",
        "The kinds of evidence that this report goes through again.",
        "AIBench Training, ISPASS 2021",
    ),
)


def section(view: View) -> Section:
    """Always there."""
    columns = (Column("step", keep=True), Column("how"), Column("source"))
    told = "The whole method, with what a study does not tell, stands in docs/method.md; the schema in docs/study.md."
    limits = (
        "A subset is minimal for these workloads, features and this radius, at the batch, length and precision of the "
        "records. It is no claim about other workloads or devices."
    )
    table = Table("method-steps", "Steps and sources", columns, STEPS)
    return Section("method", "Method", (Text(f"{limits} {told}"), table))
