"""One small class for every kind of thing that has a list: explicit rows, lazily loaded targets."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from wcbench.errors import UnknownNameError, WcbenchError


@dataclass(frozen=True)
class Row:
    """A name and where its object lives, as ``"package.module:attribute"``.

    Aliases are names in full right; keywords only help to suggest the name to somebody who mistyped it.
    """

    name: str
    target: str
    aliases: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()


class Registry:
    """Names of one kind, each resolved to an object only when it is asked for.

    Parameters
    ----------
    kind : what the rows are, in one or two words, for messages ("task", "collector").
    rows : the explicit list; a name or alias given twice raises at once.
    group : entry-point group in which installed packages may add rows of their own, or None; one whose name is taken
        is left out with a warning, since somebody else's package must not take away what works.
    """

    def __init__(self, kind: str, rows: Iterable[Row], group: str | None = None) -> None:
        self.kind = kind
        self._group = group
        self._rows: dict[str, Row] = {}
        self._alias: dict[str, str] = {}
        self._plugins_read = group is None
        for row in rows:
            self.add(row)

    def add(self, row: Row) -> None:
        names = (row.name, *row.aliases)
        for name in names:
            if name in self._rows or name in self._alias or names.count(name) > 1:
                raise WcbenchError(f"Two {self.kind}s are named '{name}'.", f"The second is {row.target}: rename it.")
        self._rows[row.name] = row
        self._alias.update(dict.fromkeys(row.aliases, row.name))

    def _read_plugins(self) -> None:
        if self._plugins_read:
            return
        self._plugins_read = True
        for point in entry_points(group=self._group or ""):
            self._add_plugin(point)

    def _add_plugin(self, point: EntryPoint) -> None:
        try:
            self.add(Row(point.name, point.value))
        except WcbenchError as error:
            package = point.dist.name if point.dist is not None else "unknown"
            text = f"{error.message} The one of package {package} ({point.value}) is left out."
            warnings.warn(text, UserWarning, stacklevel=2)

    def names(self) -> list[str]:
        """All names in the order of the list; aliases are not repeated."""
        self._read_plugins()
        return list(self._rows)

    def __iter__(self) -> Iterator[Row]:
        self._read_plugins()
        return iter(self._rows.values())

    def __contains__(self, name: str) -> bool:
        self._read_plugins()
        return name in self._rows or name in self._alias

    def words(self) -> dict[str, str]:
        """Every word that stands for a name, for suggestions: names, aliases and keywords."""
        keywords = {word: row.name for row in self for word in row.keywords}
        aliases = {alias.lower(): name for alias, name in self._alias.items()}
        return {**keywords, **aliases, **{name: name for name in self._rows}}

    def row(self, name: str) -> Row:
        """The row of a name or an alias; raises UnknownNameError with suggestions."""
        self._read_plugins()
        found = self._rows.get(self._alias.get(name, name))
        if found is None:
            raise UnknownNameError(self.kind, name, self.words())
        return found

    def load(self, name: str) -> Any:
        """Import and return the object behind a name; raises WcbenchError where it is not there."""
        row = self.row(name)
        try:
            return load_target(row.target)
        except (ImportError, AttributeError) as error:
            raise WcbenchError(
                f"The {self.kind} '{row.name}' cannot be loaded from {row.target}: {error}.",
                "Mend the target in its row, or reinstall the package that it comes from.",
            ) from error


def load_target(target: str) -> Any:
    """The object at ``"package.module:attribute"``."""
    module, _, attribute = target.partition(":")
    return getattr(importlib.import_module(module), attribute)
