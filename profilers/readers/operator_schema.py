"""What an operator's schema says of its arguments: ``aten::add_.Tensor(Tensor(a!) self, ...) -> Tensor(a!)``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

MAX_TEXT = 1 << 14
_OPEN, _CLOSE = "([{", ")]}"


@dataclass(frozen=True, slots=True)
class Schema:
    """An operator's name, its arguments in order (the first ``positional`` of them may be given by position), which of
    them it writes, and for each result whether it is an argument or shares its memory."""

    name: str
    overload: str
    arguments: tuple[str, ...]
    positional: int
    writes: tuple[int, ...]
    writes_kwargs: tuple[str, ...]
    aliased: tuple[bool, ...]


@lru_cache(maxsize=4096)
def schema_of(text: str) -> Schema | None:
    """The schema, or None where the text is none."""
    head, paren, _ = text.partition("(")
    name, _, overload = head.strip().partition(".")
    if len(text) > MAX_TEXT or not paren or "::" not in name:
        return None
    end = _closing(text, len(head))
    if end is None:
        return None
    given = [argument for argument in split(text[len(head) + 1 : end]) if argument != "..."]
    star = given.index("*") if "*" in given else len(given)
    arguments = [argument for argument in given if argument != "*"]
    names = [argument.partition("=")[0].split()[-1] if argument.split() else "" for argument in arguments]
    written = [index for index, argument in enumerate(arguments) if "!" in argument.partition("=")[0]]
    return Schema(
        name=name,
        overload=overload,
        arguments=tuple(names),
        positional=star,
        writes=tuple(index for index in written if index < star),
        writes_kwargs=tuple(names[index] for index in written if index >= star),
        aliased=_aliased(text[end + 1 :]),
    )


def _aliased(text: str) -> tuple[bool, ...]:
    returned = text.partition("->")[2].strip()
    if returned.startswith("(") and returned.endswith(")"):
        returned = returned[1:-1]
    return tuple("Tensor(" in each for each in split(returned))


def split(text: str, limit: int = 1 << 16) -> list[str]:
    """Parts between the commas that stand outside brackets and quotes; at most ``limit`` of them."""
    parts: list[str] = []
    depth, begin, quote = 0, 0, ""
    for at, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter in _OPEN:
            depth += 1
        elif letter in _CLOSE:
            depth -= 1
        elif letter == "," and depth == 0 and len(parts) < limit:
            parts.append(text[begin:at].strip())
            begin = at + 1
    last = text[begin:].strip()
    return [*parts, last] if last or parts else []


def _closing(text: str, opening: int) -> int | None:
    """The place of the bracket that closes the one at ``opening``."""
    depth = 0
    for at in range(opening, len(text)):
        depth += (text[at] in _OPEN) - (text[at] in _CLOSE)
        if depth == 0:
            return at
    return None
