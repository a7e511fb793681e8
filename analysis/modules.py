"""Work by module: each module's own operators, and everything below it, forward and backward."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas as pd

from wcbench.analysis.recorded import mixture
from wcbench.analysis.shown import Shown
from wcbench.analysis.source import Source, source

if TYPE_CHECKING:
    from wcbench.record import Profile

_PASS = "operators"
_WORK = ["calls", "flops_matrix", "flops_all", "bytes_read", "bytes_written"]
OUTSIDE = "(outside modules)"


@dataclass(frozen=True)
class Modules(Shown):
    """A row for every module in which an operator ran, what runs below it included, parents before children.

    ``rows`` has the columns module, depth, calls, flops_matrix, flops_all, bytes_read, bytes_written, params and
    share (of all FLOPs of the step). The rows of depth 0 add up to the step: the models, and what ran outside them
    (losses, the optimizer).
    """

    source: Source
    rows: pd.DataFrame

    def to_frame(self) -> pd.DataFrame:
        return self.rows.copy()

    def __repr__(self) -> str:
        top = self.rows[self.rows["depth"] <= 1].head(10)
        lines = [f"  {100 * share:6.1f} %  {name}" for share, name in zip(top["share"], top["module"], strict=True)]
        return "\n".join([f"Modules (share of all FLOPs of a step; {self.source})", *lines])


def modules(profile: Profile) -> Modules | None:
    """Work by module of an average step; None where the record has no operator stream."""
    origin = source(profile, _PASS)
    if origin is None:
        return None
    operators = mixture(profile)
    operators = operators.assign(module=operators["module"].astype(object).fillna(OUTSIDE), calls=1)
    if (operators["share"] != 1).any():
        operators[_WORK] = operators[_WORK].astype("float64").mul(operators["share"], axis=0)
    own = operators.groupby("module")[_WORK].sum()
    paths = [(name, above) for name in own.index for above in _with_parents(str(name))]
    spread = pd.DataFrame(paths, columns=["module", "above"]).join(own, on="module")
    rows = spread.groupby("above")[_WORK].sum().rename_axis("module").reset_index()
    rows = rows.sort_values("module", key=lambda names: names.map(_natural), ignore_index=True)
    rows.insert(1, "depth", [name.count(".") if name != OUTSIDE else 0 for name in rows["module"]])
    rows["params"] = _parameters(profile, list(rows["module"]))
    total = rows.loc[rows["depth"] == 0, "flops_all"].sum()
    rows["share"] = rows["flops_all"] / total if total else 0.0
    rows[_WORK] = rows[_WORK].round()
    return Modules(origin, rows.astype(dict.fromkeys([*_WORK, "params"], "int64")))


def _natural(path: str) -> str:
    """A key that sorts layer 2 before layer 10."""
    return ".".join(part.zfill(6) if part.isdigit() else part for part in path.split("."))


def _with_parents(path: str) -> list[str]:
    """``a``, ``a.b`` and ``a.b.c`` of ``a.b.c``."""
    if path == OUTSIDE:
        return [path]
    parts = path.split(".")
    return [".".join(parts[: i + 1]) for i in range(len(parts))]


def _parameters(profile: Profile, names: list[str]) -> list[int]:
    """Elements of the parameters below each module; a shared tensor counts once for each module that holds it."""
    table = profile.table("parameters")
    paths = (table["model"].astype(str) + "." + table["name"].astype(str)).tolist()
    first = table["shared_with"].astype(object).where(table["shared_with"].notna(), None).tolist()
    tensors = [own if of is None else str(of) for own, of in zip(paths, first, strict=True)]
    sizes = dict(zip(paths, table["numel"].tolist(), strict=True))
    held: dict[str, set[str]] = {}
    for path, tensor in zip(paths, tensors, strict=True):
        for above in _with_parents(path.rpartition(".")[0]):
            held.setdefault(above, set()).add(tensor)
    return [sum(int(sizes[tensor]) for tensor in held.get(name, ())) for name in names]
