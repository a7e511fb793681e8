"""The reuse model's bytes against the misses of cachegrind's last-level cache. Prints tables and statistics.

Needs Debian's package valgrind. From the checkout, with the links of `make links`:

    nice -n 10 python benchmarks/cachegrind.py --logs /tmp/cachegrind

One run of valgrind a size of the last level, minutes each. A log that is in the folder is read, not made again;
`--read` makes none. benchmarks/cachegrind_step.py has the tasks, and how importing torch and the first steps are
differenced out. docs/locality.md, "Checked against a cache simulator", says what is compared with what.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import cachegrind_step
import numpy as np
import numpy.typing as npt
import pandas as pd

import wcbench
from wcbench.analysis.locality import Accesses, Locality, locality, to_allocator
from wcbench.analysis.memory import accesses_of, lifetimes_of
from wcbench.tasks.base import PRESETS, Built, Config, Settings, Task

LINE = 64
SIZES = (2**18, 2**20, 2**22, 2**24)
LEVEL_1 = f"32768,8,{LINE}"
WAYS = 16
FLOOR = 1e5  # bytes; a ratio counts less than that as this much, since it is neither's to tell
COUNTS = re.compile(r"==(\d+)== LLd misses:\s+[\d,]+\s+\(\s*([\d,]+) rd\s+\+\s+([\d,]+) wr\)")
IDS = re.compile(r"^pids (\w+) ([01]) (\d+) (\d+)$", re.MULTILINE)
QUANTITIES = ("fetches", "reads", "missed", "traffic")
IDENTITIES = ("allocator", "logical")

Misses = dict[tuple[str, bool], tuple[float, float]]
Model = dict[str, Callable[[list[int]], npt.NDArray[np.int64]]]


class Tiny(Task):
    """A task of `cachegrind_step`; every preset is the same."""

    presets = dict.fromkeys(PRESETS, Settings(1))

    def __init__(self, name: str) -> None:
        self.name = name

    def build(self, config: Config) -> Built:
        model, batch, step = cachegrind_step.make(self.name, full=True)
        return Built(step, lambda index: batch, {"model": model}, samples=len(batch[1]))


def simulate(size: int, log: Path) -> None:
    """Run the tasks under cachegrind with a last level of ``size`` bytes."""
    command = ["valgrind", "--tool=cachegrind", "--cache-sim=yes", "--cachegrind-out-file=/dev/null"]
    command += [f"--I1={LEVEL_1}", f"--D1={LEVEL_1}", f"--LL={size},{WAYS},{LINE}"]
    command += [sys.executable, str(Path(cachegrind_step.__file__))]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
    part = log.with_suffix(".part")
    with part.open("w") as file:
        subprocess.run(command, env=environment, stdout=file, stderr=subprocess.STDOUT, check=True)
    part.rename(log)


def misses(log: str) -> Misses:
    """Bytes fetched a step for reads and for writes, by task and whether it is the task itself or its control."""
    counts = {m[1]: [int(m[i].replace(",", "")) for i in (2, 3)] for m in COUNTS.finditer(log)}
    found: Misses = {}
    for name, full, short, long in IDS.findall(log):
        lines = [b - a for a, b in zip(counts[short], counts[long], strict=True)]
        reads, writes = (count * LINE / cachegrind_step.COUNTED for count in lines)
        found[name, full == "1"] = reads, writes
    return found


def without_in_place_writes(accesses: Accesses) -> Accesses:
    """The stream without the writes of what the same operator reads: in a kernel they find the line just read."""
    places = (getattr(accesses, name) for name in ("op", "storage", "begin", "end"))
    keys = pd.MultiIndex.from_arrays(list(places))
    return accesses.take(~(accesses.write & keys.isin(keys[~accesses.write])))


def models(name: str) -> tuple[dict[str, Model], Locality]:
    """The model's quantities as functions of capacities, by identity, and the logical model itself."""
    profile = wcbench.profile(Tiny(name), device="cpu", passes=["operators"], preset="tiny", save=False)
    lives, stream = lifetimes_of(profile), accesses_of(profile)
    found: dict[str, Model] = {}
    for identity in IDENTITIES:
        accesses = to_allocator(stream, lives) if identity == "allocator" else stream
        whole = locality(accesses, lives)
        fetches = locality(without_in_place_writes(accesses), lives)
        found[identity] = {
            "fetches": fetches.curve_all,
            "reads": whole.curve_reads,
            "missed": whole.curve_all,
            "traffic": whole.traffic_at,
        }
    return found, whole


def rows(simulated: dict[int, Misses]) -> Iterator[dict[str, object]]:
    """One row a task and capacity, in bytes."""
    for name in cachegrind_step.TASKS:
        found, whole = models(name)
        for size, counted in sorted(simulated.items()):
            (reads, writes), (idle_reads, idle_writes) = counted[name, True], counted[name, False]
            row: dict[str, object] = {"task": name, "capacity": size, "cg reads": reads, "cg all": reads + writes}
            row |= {"control reads": idle_reads, "control all": idle_reads + idle_writes}
            for identity, model in found.items():
                row |= {f"{identity} {key}": int(curve([size])[0]) for key, curve in model.items()}
            row |= {"too low": size < whole.largest_operator_bytes, "compulsory": whole.compulsory_bytes}
            yield row | {"live-in": whole.live_in_bytes, "operator bytes": whole.operator_bytes}


def print_points(table: pd.DataFrame) -> None:
    """MB a step, by task and capacity; a star where the model calls itself too low."""
    print("| task | LL | cachegrind reads | reads + writes | control | model allocator | logical | ratio |")
    print("|---|---|---|---|---|---|---|---|")
    for _, row in table.iterrows():
        columns = ("cg reads", "cg all", "control all", "allocator fetches", "logical fetches")
        numbers = [f"{row[key] / 1e6:.2f}" for key in columns]
        size = f"{row['capacity'] / 2**20:g} MiB{' *' if row['too low'] else ''}"
        print(f"| {' | '.join([row['task'], size, *numbers])} | {row['allocator fetches'] / row['cg all']:.2f} |")


def print_statistics(table: pd.DataFrame) -> None:
    """Rank correlation and median |log2 ratio| of each of the model's quantities, over all points and parts of them."""
    parts = {"all": table, "no star": table[~table["too low"]], "without conv": table[table["task"] != "conv"]}
    titles = [f"{title} {len(part)}" for title, part in parts.items()]
    print(f"| model | cachegrind | {' | '.join(f'Spearman, error: {title}' for title in titles)} |")
    print(f"|---|---|{'---|' * len(parts)}")
    for identity in IDENTITIES:
        for key in QUANTITIES:
            kind = "reads" if key == "reads" else "all"
            cells = [_compared(part[f"{identity} {key}"], part[f"cg {kind}"]) for part in parts.values()]
            print(f"| {identity} {key} | {kind} | {' | '.join(cells)} |")


def _compared(model: pd.Series[float], simulated: pd.Series[float]) -> str:
    a, b = model.clip(lower=FLOOR), simulated.clip(lower=FLOOR)
    return f"{model.corr(simulated, method='spearman'):.2f}, {np.median(np.abs(np.log2(a / b))):.2f}"


def print_compulsory(table: pd.DataFrame) -> None:
    """What is compulsory for the model against what the largest last level still fetches."""
    print("| task | operators touch | compulsory | live-in | largest LL | cachegrind there |")
    print("|---|---|---|---|---|---|")
    for _, row in table[table["capacity"] == table["capacity"].max()].iterrows():
        values = (row["operator bytes"], row["compulsory"], row["live-in"], row["capacity"], row["cg all"])
        print(f"| {row['task']} | {' | '.join(f'{value / 1e6:.2f}' for value in values)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--logs", type=Path, required=True, help="folder of valgrind's logs")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="of the last level, in bytes")
    parser.add_argument("--read", action="store_true", help="read the logs that are there, run nothing")
    options = parser.parse_args()
    options.logs.mkdir(parents=True, exist_ok=True)
    for size in options.sizes:
        log = options.logs / f"{size}.log"
        if not (options.read or log.exists()):
            simulate(size, log)
    logs = {size: options.logs / f"{size}.log" for size in options.sizes}
    table = pd.DataFrame(rows({size: misses(log.read_text()) for size, log in logs.items() if log.exists()}))
    for show in (print_points, print_statistics, print_compulsory):
        show(table)
        print()


if __name__ == "__main__":
    main()
