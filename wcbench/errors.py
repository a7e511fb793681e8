"""The one hierarchy of errors that wcbench raises on purpose.

Each says what happened and why (`message`), what to do about it (`hint`), and carries the exit code
with which the command line ends. Anything else that escapes is a defect of wcbench.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

EXIT_DONE = 0
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_GATE = 3
EXIT_INTERRUPTED = 130  # 128 + SIGINT, as shells report it


class WcbenchError(Exception):
    """Something went wrong that the user can understand and, usually, mend."""

    exit_code = EXIT_FAILED

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message}\n{self.hint}"


class UsageError(WcbenchError):
    """The request itself is wrong: an option, a name, a combination."""

    exit_code = EXIT_USAGE


class UnknownNameError(UsageError):
    """A name that stands in no list; suggests the nearest ones.

    Parameters
    ----------
    known : the names, or a mapping from further words a user may think of ("resnet") to the names they stand for.
    """

    def __init__(self, kind: str, name: str, known: Iterable[str] | Mapping[str, str], hint: str | None = None) -> None:
        words = dict(known) if isinstance(known, Mapping) else {word: word for word in known}
        self.suggestions = list(dict.fromkeys(words[word] for word in _nearest(name.lower(), sorted(words))))
        names = sorted(set(words.values()))
        if self.suggestions:
            advice = "Did you mean " + " or ".join(f"'{n}'" for n in self.suggestions) + "?"
        elif names:
            advice = f"Known: {', '.join(names[:20])}{' ...' if len(names) > 20 else ''}."
        else:
            advice = f"No {kind} is known."
        super().__init__(f"Unknown {kind} '{name}'.", advice if hint is None else f"{advice} {hint}")
        self.name = name


def _nearest(name: str, words: list[str]) -> list[str]:
    """Words like the name, best first; those much less alike than the best are left out."""
    near = difflib.get_close_matches(name, words, n=3, cutoff=0.5)
    likeness = [difflib.SequenceMatcher(None, word, name).ratio() for word in near]
    return [word for word, ratio in zip(near, likeness, strict=True) if ratio > likeness[0] - 0.1]


class RecordError(WcbenchError):
    """A record cannot be found, read, upgraded or written."""


class ReadError(WcbenchError):
    """A foreign file is refused: it is not what it says, holds nothing, or would cost too much to read."""


class TaskError(WcbenchError):
    """A task's own code failed while it was built or stepped."""


class CaptureError(WcbenchError):
    """A pass over the steps could not be measured."""


class GateError(WcbenchError):
    """A gate asked for by the user did not hold."""

    exit_code = EXIT_GATE
