"""What caches of table rows would serve of a task's sparse look-ups, as a band over laws of the ids.

A step on fake tensors knows which table an operator reads, not which rows. The ids are drawn beside it (table
`lookups`), by the task's own law and by Zipf's law at several exponents. Here an LRU cache of whole rows, one for all
tables, is followed through the look-ups in the order of the operators: step by step, table by table. Gradients and
optimizers touch the same rows again; they are not in these figures.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from wcbench.analysis.shown import Shown
from wcbench.analysis.source import Source, source
from wcbench.analysis.stack import INFINITE, stack_distances
from wcbench.errors import RecordError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wcbench.record import Profile

_PASS = "operators"
CAPACITIES = (256 * 2**10, 4 * 2**20, 50 * 2**20, 256 * 2**20)
TOP = 0.01


@dataclass(frozen=True)
class Lookups(Shown):
    """The last drawn step's look-ups, all sparse tables together, by law.

    ``rows`` has the columns law, exponent, tables, steps, lookups, distinct (rows among the look-ups), lookup_bytes,
    cold_share (of these bytes, of rows that no drawn step before looked up: they miss in every cache), distinct_bytes,
    top_share (of the look-ups, that go to the 1 % of each table's rows which are looked up most in all drawn steps),
    and ``miss_ratio`` and ``missed_bytes``, lists of pairs with a cache's capacity in bytes. The steps before warm the
    cache; ``samples`` and ``kind`` are of the last step.
    """

    source: Source
    samples: int
    kind: str
    rows: pd.DataFrame

    def to_frame(self) -> pd.DataFrame:
        """Law, exponent, lookups, distinct and the miss ratio at each capacity."""
        frame = self.rows[["law", "exponent", "lookups", "distinct", "top_share"]].copy()
        for place, capacity in enumerate(CAPACITIES):
            frame[f"miss_ratio_{capacity // 2**10}KiB"] = [pairs[place][1] for pairs in self.rows["miss_ratio"]]
        return frame

    def __repr__(self) -> str:
        return f"Lookups of sparse tables ({self.source}; {self.samples:,} samples a step)\n{self.to_frame()}"


def lookups(profile: Profile) -> Lookups | None:
    """Look-ups of a record; None where the task has no sparse tables."""
    origin, table = source(profile, _PASS), profile.arrow("lookups")
    if origin is None or not table.num_rows:
        return None
    sizes = _sizes(profile)
    frame = table.drop_columns(["ids"]).to_pandas().astype({"law": str, "parameter": str, "kind": str})
    ids = [np.asarray(values.values, dtype=np.int64) for values in table["ids"]]
    rows = []
    for (law, exponent), places in frame.groupby(["law", "exponent"], dropna=False, sort=False).groups.items():
        mine = frame.loc[places]
        streams = [ids[int(place)] for place in places]
        rows.append({"law": law, "exponent": exponent, **_reuse(mine, streams, sizes)})
    last = frame[frame["step"] == frame["step"].max()]
    return Lookups(origin, int(last["samples"].iloc[0]), str(last["kind"].iloc[0]), pd.DataFrame(rows))


def _sizes(profile: Profile) -> dict[str, tuple[int, int]]:
    """Rows and bytes of a row of every parameter, by path."""
    table = profile.table("parameters")
    paths = table["model"].astype(str) + "." + table["name"].astype(str)
    found = {}
    for path, shape, nbytes in zip(paths, table["shape"], table["nbytes"], strict=True):
        rows = int(shape[0]) if len(shape) else 1
        found[path] = (rows, int(nbytes) // max(rows, 1))
    return found


def _reuse(frame: pd.DataFrame, streams: list[NDArray[np.int64]], sizes: dict[str, tuple[int, int]]) -> dict[str, Any]:
    """Figures of the last step of one law."""
    paths = list(dict.fromkeys(frame["parameter"]))
    missing = [path for path in paths if path not in sizes]
    if missing:
        raise RecordError(f"Table lookups names {missing[0]}, which is no parameter of the record.")
    starts = dict(zip(paths, np.cumsum([0, *(sizes[path][0] for path in paths)]).tolist(), strict=False))
    order = np.lexsort((frame["parameter"].map(paths.index).to_numpy(), frame["step"].to_numpy()))
    row = np.concatenate([streams[i] + starts[frame["parameter"].iloc[i]] for i in order])
    width = np.concatenate([np.full(len(streams[i]), sizes[frame["parameter"].iloc[i]][1]) for i in order])
    last = frame["step"].max()
    measured = np.concatenate([np.full(len(streams[i]), frame["step"].iloc[i] == last) for i in order])
    segment = np.unique(row, return_inverse=True)[1].astype(np.int64)
    distances = stack_distances(segment, width)
    moved, mine = int(width[measured].sum()), np.unique(row[measured], return_index=True)[1]
    cold = int(width[measured & (distances == INFINITE)].sum())
    missed = [int(width[measured & (distances > capacity)].sum()) for capacity in CAPACITIES]
    return {
        "tables": len(paths),
        "steps": int(frame["step"].nunique()),
        "lookups": int(measured.sum()),
        "distinct": len(mine),
        "lookup_bytes": moved,
        "cold_share": cold / moved if moved else None,
        "distinct_bytes": int(width[measured][mine].sum()),
        "top_share": _top_share(frame, streams, sizes, int(last)),
        "missed_bytes": [list(pair) for pair in zip(CAPACITIES, missed, strict=True)],
        "miss_ratio": [[c, bytes_ / moved if moved else None] for c, bytes_ in zip(CAPACITIES, missed, strict=True)],
    }


def _top_share(
    frame: pd.DataFrame, streams: list[NDArray[np.int64]], sizes: dict[str, tuple[int, int]], last: int
) -> float:
    """Share of the last step's look-ups that go to each table's 1 % of rows looked up most in all drawn steps."""
    top = total = 0
    for path, places in frame.reset_index(drop=True).groupby("parameter", sort=False).groups.items():
        drawn = np.concatenate([streams[int(i)] for i in places])
        final = [streams[int(i)] for i in places if frame["step"].iloc[int(i)] == last]
        if not final:  # a kind of step that does not look into this table
            continue
        rows, counts = np.unique(drawn, return_counts=True)
        most = max(1, round(TOP * sizes[str(path)][0]))
        favourites = rows[np.argsort(-counts, kind="stable")[:most]]
        top += int(np.isin(np.concatenate(final), favourites).sum())
        total += sum(map(len, final))
    return top / total if total else 0.0
