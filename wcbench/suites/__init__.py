"""Suites of training benchmarks: who belongs to them, and what is known of them, each fact with its source.

A suite is a file `<id>.toml` beside this one. Members name tasks of the catalogue; targets, epochs and costs stand
here, since they are the suite's and not the model's. What was looked for and not found is a fact too: it has a reason
in place of a value. Loading takes tomllib alone.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

from wcbench.errors import UnknownNameError, WcbenchError

FOLDER: Final = Path(__file__).parent

# published: in a paper or on an official page. repo log: printed by the authors' own run. code: in a repository's
# files. computed: by us, from published figures or layer sizes. from memory: read nowhere when it was written down.
Kind = Literal["published", "repo log", "code", "computed", "from memory"]
KINDS: Final = ("published", "repo log", "code", "computed", "from memory")

# verified: read in the authors' code or its README. proposed: their code holds it not, model or size is our choice.
IDENTITIES: Final = ("verified", "proposed")


@dataclass(frozen=True, kw_only=True)
class Fact:
    """One quantity: a value with its unit, source and kind, or the reason why there is none.

    ``variant`` is the variant of the task that it is of, None for the task itself.
    """

    quantity: str
    value: int | float | str | None = None
    unit: str | None = None
    source: str | None = None
    kind: Kind | None = None
    reason: str | None = None
    note: str | None = None
    variant: str | None = None

    def __post_init__(self) -> None:
        if (self.value is None) == (self.reason is None):
            raise WcbenchError(f"fact '{self.quantity}' needs either a value or a reason why there is none.")
        if self.value is not None and (not self.source or not self.unit or self.kind not in KINDS):
            raise WcbenchError(f"fact '{self.quantity}' needs a unit, a source and a kind of {', '.join(KINDS)}.")


@dataclass(frozen=True, kw_only=True)
class Member:
    """A task in a suite.

    Attributes
    ----------
    task : name in the catalogue.
    id : the suite's own name for it.
    title : what the suite calls the task.
    identity : "verified" from the authors' code, or "proposed" where they name the task and we chose the model.
    identity_note : what that rests on.
    same_as : tasks that train the same model on the same data, here or in other suites.
    facts : metric, target, epochs, batch, costs, as far as they are known.
    """

    task: str
    id: str
    title: str
    identity: str
    identity_note: str
    same_as: tuple[str, ...] = ()
    facts: tuple[Fact, ...] = ()

    def fact(self, quantity: str) -> Fact | None:
        """The fact of that name, or None."""
        return next((fact for fact in self.facts if fact.quantity == quantity), None)


@dataclass(frozen=True, kw_only=True)
class Left:
    """A benchmark of the original suite that is not included, and why."""

    title: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Suite:
    """A list of tasks with what is known of it.

    Attributes
    ----------
    id, title, publisher, source : which suite this is, and where its membership was read.
    subset_of : id of the suite that it is a part of.
    note : what to know before using it.
    members : its tasks, in its own order; one of a subset has the facts of the whole suite.
    facts : what is published of the suite as a whole.
    not_included : benchmarks of the original that have no task here.
    """

    id: str
    title: str
    publisher: str
    source: str
    subset_of: str | None = None
    note: str = ""
    members: tuple[Member, ...] = ()
    facts: tuple[Fact, ...] = ()
    not_included: tuple[Left, ...] = ()

    @property
    def tasks(self) -> tuple[str, ...]:
        """Names of its tasks in the catalogue."""
        return tuple(member.task for member in self.members)

    def member(self, task: str) -> Member | None:
        """The member that is this task, or None."""
        return next((member for member in self.members if member.task == task), None)


def suite_ids() -> list[str]:
    """Ids of all suites, whole ones before their subsets."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def load_suite(id: str) -> Suite:
    """The suite of an id; raises UnknownNameError with the nearest ids."""
    if id not in suite_ids():
        raise UnknownNameError("suite", id, suite_ids())
    return _read(id)


def suites() -> Iterator[Suite]:
    """All suites."""
    return map(load_suite, suite_ids())


def suites_of(task: str) -> tuple[str, ...]:
    """Ids of the suites that hold a task of the catalogue, whole ones and subsets."""
    return tuple(suite.id for suite in suites() if task in suite.tasks)


@cache
def _read(id: str) -> Suite:
    path = FOLDER / f"{id}.toml"
    try:
        return _suite(id, tomllib.loads(path.read_text(encoding="utf-8")))
    except (tomllib.TOMLDecodeError, TypeError, KeyError, WcbenchError) as error:
        raise WcbenchError(
            f"{path.name}: {error}", "Mend the file: wcbench/suites/__init__.py has its form."
        ) from error


def _suite(id: str, data: dict[str, Any]) -> Suite:
    if data["id"] != id:
        raise WcbenchError(f"its id is '{data['id']}', and its name says '{id}'.")
    whole = load_suite(data["subset_of"]) if "subset_of" in data else None
    members = [_member(entry, whole) for entry in data.pop("member", [])]
    facts = read_facts(data.pop("fact", []))
    left = tuple(Left(**entry) for entry in data.pop("not_included", []))
    return Suite(**data, members=tuple(members), facts=facts, not_included=left)


def _member(entry: dict[str, Any], whole: Suite | None) -> Member:
    if whole is not None:
        found = whole.member(entry["task"])
        if found is None or set(entry) != {"task"}:
            raise WcbenchError(f"'{entry['task']}' of a subset is named by its task alone and belongs to the whole.")
        return found
    facts = read_facts(entry.pop("fact", []))
    if entry["identity"] not in IDENTITIES:
        raise WcbenchError(f"'{entry['task']}' needs an identity of {', '.join(IDENTITIES)}.")
    return Member(**{**entry, "same_as": tuple(entry.pop("same_as", ()))}, facts=facts)


def read_facts(entries: Iterable[Mapping[str, Any]]) -> tuple[Fact, ...]:
    """Facts from tables of a TOML file; raises TypeError on an unknown key."""
    return tuple(Fact(**entry) for entry in entries)
