"""THE list of tasks, importable without torch: what each is at the reference's scale, and where its code lives.

The rows are data (`catalog.toml`, which explains its keys); membership, targets and costs stand in `wcbench.suites`.
Numbers are at the `paper` preset; 1 multiply-accumulate = 2 FLOP. A task is added by one file and one row
(CONTRIBUTING.md, "Add a task").
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wcbench import suites
from wcbench.errors import UnknownNameError, UsageError, WcbenchError
from wcbench.registry import Registry, Row
from wcbench.suites import Fact

AIBENCH = "aibench-training-v1.1"
MLPERF = "mlperf-training-v0.7"
MLPERF_CURRENT = "mlperf-training-current"

_FILE = Path(__file__).with_name("catalog.toml")
_HINT = "The head of the file explains its keys."


@dataclass(frozen=True, kw_only=True)
class Factors:
    """What shapes a task's learning: the factors over which a suite should spread.

    Attributes
    ----------
    modality : what goes in, and comes out where that differs.
    paradigm : how it learns (supervised, adversarial, by reinforcement, ...).
    layers : types of the layers that hold or move most of the data.
    loss, optimizer, schedule : as the reference has them; the schedule is that of the learning rate.
    samples : training samples of the reference's data set, or the reason why the number is not known.
    """

    modality: str
    paradigm: str
    layers: tuple[str, ...]
    loss: str
    optimizer: str
    schedule: str
    samples: Fact


@dataclass(frozen=True, kw_only=True)
class Variant:
    """Another model under a task's name: what differs, and its counts at the `paper` preset where they are known."""

    differs: str
    parameters: int | None = None
    forward_flops: int | None = None


@dataclass(frozen=True, kw_only=True)
class TaskRow(Row):
    """A row of the catalogue.

    Attributes
    ----------
    model, domain, dataset : in the suite's words; ``stand_in`` is what our step reads in place of the data set.
    family : kin of models; tasks of one family are not independent of each other.
    metric : what training is judged by; None where none was found. Targets belong to suites (`targets`).
    sample : what one sample is.
    parameters, trainable : all parameters at the `paper` preset, and those that training changes.
    further_parameters : of a second model that the step also trains, which the counts leave out as public numbers do.
    forward_flops : matrix-class FLOPs (convolutions and matrix products) of the forward pass of one sample.
    published : public counts to hold ours against, or the reason why there are none.
    deviations : what differs from the reference, and why.
    factors : what shapes its learning.
    variants : other models under the same name, as ``TASK@name`` asks for them.
    """

    model: str
    family: str
    domain: str
    dataset: str
    stand_in: str
    metric: str | None = None
    sample: str
    parameters: int
    trainable: int
    further_parameters: int = 0
    forward_flops: int
    published: tuple[Fact, ...]
    deviations: tuple[str, ...]
    factors: Factors
    variants: Mapping[str, Variant]

    @property
    def suites(self) -> tuple[str, ...]:
        """Ids of the suites that hold it."""
        return suites.suites_of(self.name)


def read_rows(text: str) -> tuple[TaskRow, ...]:
    """Rows of a catalogue file; raises WcbenchError that names the row and the key."""
    try:
        entries = tomllib.loads(text)["task"]
    except (tomllib.TOMLDecodeError, KeyError) as error:
        raise WcbenchError(f"{_FILE.name} cannot be read: {error}.", _HINT) from error
    return tuple(map(_row, entries))


def _row(entry: dict[str, Any]) -> TaskRow:
    try:
        _check_types(entry)
        entry = {"trainable": entry["parameters"], **entry}
        entry["published"] = suites.read_facts(entry["published"])
        entry["factors"] = _factors(**entry["factors"])
        entry["variants"] = {name: Variant(**variant) for name, variant in entry.get("variants", {}).items()}
        return TaskRow(**_tuples(entry))
    except (TypeError, KeyError, WcbenchError) as error:
        raise WcbenchError(f"{_FILE.name}, task '{entry.get('name')}': {error}", _HINT) from error


_NUMBERS = ("parameters", "trainable", "further_parameters", "forward_flops")
_LISTS = ("aliases", "keywords", "deviations", "published")


def _check_types(entry: Mapping[str, Any]) -> None:
    """Raise TypeError where a value is of another type than its key takes: a text as a list would be its letters."""
    layers = {"layers": entry["factors"]["layers"]}
    for names, kind, words in ((_NUMBERS, int, "a whole number"), ((*_LISTS, "layers"), list, "a list")):
        for name, value in {**entry, **layers}.items():
            if name in names and type(value) is not kind:
                raise TypeError(f"{name} is {value!r}, not {words}")


def _factors(samples: dict[str, Any], **others: Any) -> Factors:
    return Factors(samples=Fact(quantity="training samples", **samples), **_tuples(others))


def _tuples(entry: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()}


ROWS = read_rows(_FILE.read_text(encoding="utf-8"))

TASKS = Registry("task", ROWS, group="wcbench.tasks")


def split_variant(name: str) -> tuple[str, str | None]:
    """``task@variant`` as (task, variant or None)."""
    task, _, variant = name.partition("@")
    return task, variant or None


def canonical(name: str) -> str:
    """The catalogue's own name of a task given by name or alias; other names (``module:Class``) are kept."""
    return TASKS.row(name).name if name in TASKS else name


def suites_of(name: str) -> tuple[str, ...]:
    """Ids of the suites that a task belongs to; none for a task from elsewhere."""
    return suites.suites_of(canonical(name))


def targets(name: str) -> dict[str, Fact]:
    """The quality that ends a training, by suite; a reason in place of a value where a suite states none."""
    found = {}
    for suite in map(suites.load_suite, suites_of(name)):
        member = suite.member(canonical(name))
        fact = None if member is None or suite.subset_of is not None else member.fact("target")
        if fact is not None:
            found[suite.id] = fact
    return found


def check_name(name: str) -> None:
    """Raise UnknownNameError, with the nearest names, unless it is a catalogue name, an alias or ``module:Class``."""
    if name.endswith(".py"):
        raise UsageError(
            f"{name} is a script, and a task is a class: {name.removesuffix('.py').rpartition('/')[2]}:ClassName.",
            "A script as it is: trace it with torch.profiler, then `wcbench import` the trace.",
        )
    if name not in TASKS and ":" not in name:
        hint = "`wcbench list` shows all; your own is given as module:Class."
        raise UnknownNameError("task", name, TASKS.words(), hint)
