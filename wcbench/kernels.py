"""What a kernel or a host operator does, read off its name.

The rules are data (`kernels.toml`): ordered, versioned, each with an id. The first rule that matches decides.
A name gets one `full` category; each of those maps to one of AIBench Training's eight categories (`paper`) or to
`none of the eight`. Where no rule matches, both are `unknown`: shares that include it still sum to one.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from wcbench.errors import WcbenchError

PAPER: tuple[str, ...] = (
    "data arrangement",
    "convolution",
    "GEMM",
    "batch normalization",
    "element-wise",
    "ReLU activation",
    "pooling",
    "memory copy",
)
NONE_OF_THE_EIGHT = "none of the eight"
UNKNOWN = "unknown"

# Real names reach 5,000 characters (nested templates), but what tells the category stands near the front. The cut
# bounds the work and the cache's memory per name, whatever a file holds.
MAX_NAME = 1024

_DEFAULT = Path(__file__).with_name("kernels.toml")
_ATEN = "aten::"
# A forward and its backward do the same kind of work, so one entry in a rule stands for both.
_DIRECTION = re.compile(r"_(?:forward|(?:double_)?backward)(?:_(?:data|input|weight|bias|loss|for_cpu))?$")


@dataclass(frozen=True)
class Category:
    """What one name was taken for: the full category, the paper's, and the rule that said so."""

    full: str
    paper: str
    rule: str | None


@dataclass(frozen=True)
class Rule:
    """One ordered rule. Everything is compared in lower case, since files differ in it.

    A rule matches when one of `exact`, `prefix`, `any`, `regex` or `aten` does and nothing of `unless` occurs.
    `aten` lists operator names without namespace and outer underscores; one ending in `*` is a prefix.
    """

    id: str
    category: str
    on: str
    comment: str = ""
    exact: tuple[str, ...] = ()
    prefix: tuple[str, ...] = ()
    any: tuple[str, ...] = ()
    regex: re.Pattern[str] | None = None
    aten: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()

    @cached_property
    def pattern(self) -> str:
        """The rule as one readable line, for the documentation."""
        parts = [f"{word} {', '.join(values)}" for word, values in self._lists() if values]
        if self.regex is not None:
            parts.insert(0, f"regex {self.regex.pattern}")
        return "; ".join(parts)

    def _lists(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        return (
            ("is", self.exact),
            ("starts with", self.prefix),
            ("contains", self.any),
            ("aten", self.aten),
            ("but not", self.unless),
        )

    @cached_property
    def _aten_whole(self) -> frozenset[str]:
        return frozenset(op for op in self.aten if not op.endswith("*"))

    @cached_property
    def _aten_starts(self) -> tuple[str, ...]:
        return tuple(op[:-1] for op in self.aten if op.endswith("*"))

    def matches(self, key: str, ops: tuple[str, ...] = ()) -> bool:
        """Whether the rule holds for a name made comparable by `_key` (and `_aten_ops` for an operator)."""
        hit = (
            key in self.exact
            or key.startswith(self.prefix)
            or any(part in key for part in self.any)
            or (self.regex is not None and self.regex.search(key) is not None)
            or (bool(ops) and self._matches_aten(ops))
        )
        return hit and not any(part in key for part in self.unless)

    def _matches_aten(self, ops: tuple[str, ...]) -> bool:
        return any(op in self._aten_whole or op.startswith(self._aten_starts) for op in ops)


@dataclass(frozen=True)
class RuleSet:
    """The content of one rule file: its version, the category map, why each maps so, and the rules in order."""

    version: int
    full: Mapping[str, str]
    reasons: Mapping[str, str]
    rules: tuple[Rule, ...]

    def classify(self, name: str, *, host: bool = False) -> Category:
        key = _key(name[:MAX_NAME])
        ops = _aten_ops(key) if host else ()
        for rule in self._host if host else self._device:
            if rule.matches(key, ops):
                return Category(rule.category, self.full[rule.category], rule.id)
        return Category(UNKNOWN, UNKNOWN, None)

    @cached_property
    def _host(self) -> tuple[Rule, ...]:
        return tuple(rule for rule in self.rules if rule.on != "device")

    @cached_property
    def _device(self) -> tuple[Rule, ...]:
        return tuple(rule for rule in self.rules if rule.on != "host")


def _key(name: str) -> str:
    """The name as rules compare it: lower case, without blanks around, the return type of a CUDA template and ROCm's
    mark of a kernel descriptor (`.kd`)."""
    key = name.strip().lower().removeprefix("void ")
    return key.removesuffix(" [clone .kd]").removesuffix(" (.kd)").removesuffix(".kd")


def _aten_ops(key: str) -> tuple[str, ...]:
    """The operator's own name, and the same without its direction: `_softmax_backward_data` is also `softmax`."""
    if not key.startswith(_ATEN):
        return ()
    op = key.removeprefix(_ATEN).strip("_")
    stem = _DIRECTION.sub("", op)
    return (op,) if stem == op else (op, stem)


# --- reading the file ----------------------------------------------------------------------------------------------

_LISTS = ("exact", "prefix", "any", "aten", "unless")
_MATCHERS = ("exact", "prefix", "any", "regex", "aten")
_KEYS = frozenset((*_LISTS, "regex", "id", "category", "on", "comment", "examples"))


def load_rules(path: Path | None = None) -> RuleSet:
    """Read and check a rule file; without `path` the one that comes with wcbench."""
    path = _DEFAULT if path is None else path
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise WcbenchError(
            f"Cannot read kernel rules {path}: {error.strerror}.", "Give a readable TOML file."
        ) from None
    except ValueError as error:  # tomllib's and Unicode's errors are both ValueErrors
        raise WcbenchError(f"{path} is no valid TOML: {error}.", "Mend the file at that place.") from None
    version = data.get("version")
    if type(version) is not int or version < 1:
        raise WcbenchError(f"{path} has no version.", "Put `version = 1` (a whole number) at its top.")
    full, reasons = _categories(path, data.get("categories"))
    return RuleSet(version, MappingProxyType(full), MappingProxyType(reasons), _rules(path, data.get("rules"), full))


def _categories(path: Path, table: Any) -> tuple[dict[str, str], dict[str, str]]:
    if not isinstance(table, dict) or not table:
        raise WcbenchError(f"{path} has no categories.", "Add a [categories.NAME] table for each full category.")
    allowed = (*PAPER, NONE_OF_THE_EIGHT)
    for name, row in table.items():
        if not isinstance(row, dict) or row.get("paper") not in allowed:
            got = row.get("paper") if isinstance(row, dict) else row
            raise WcbenchError(
                f"{path}: category '{name}' maps to {got!r}.", f"Its `paper` must be one of: {', '.join(allowed)}."
            )
        if name == UNKNOWN:
            raise WcbenchError(
                f"{path}: '{UNKNOWN}' cannot be a category.", "It means that no rule matched; rename it."
            )
    return {n: r["paper"] for n, r in table.items()}, {n: str(r.get("reason", "")) for n, r in table.items()}


def _rules(path: Path, rows: Any, full: Mapping[str, str]) -> tuple[Rule, ...]:
    if not isinstance(rows, list) or not rows:
        raise WcbenchError(f"{path} has no rules.", "Add [[rules]] tables, each with an id and a category.")
    found: dict[str, Rule] = {}
    for number, row in enumerate(rows, start=1):
        rule = _rule(path, number, row, full)
        if rule.id in found:
            raise _fault(path, rule.id, "the id is used twice", "Give one of the two another id.")
        found[rule.id] = rule
    return tuple(found.values())


def _rule(path: Path, number: int, row: Any, full: Mapping[str, str]) -> Rule:
    name = row.get("id") if isinstance(row, dict) else None
    if not isinstance(name, str) or not name:
        raise _fault(path, f"number {number}", "it has no id", "Give it a short unique `id`.")
    if stray := sorted(row.keys() - _KEYS):
        raise _fault(path, name, f"it has unknown keys: {', '.join(stray)}", f"Known: {', '.join(sorted(_KEYS))}.")
    if row.get("category") not in full:
        raise _fault(path, name, f"category {row.get('category')!r} is unknown", f"Known: {', '.join(full)}.")
    if row.get("on", "both") not in ("device", "host", "both"):
        raise _fault(path, name, f"`on` is {row['on']!r}", 'It must be "device", "host" or "both".')
    if not any(row.get(word) for word in _MATCHERS):
        raise _fault(path, name, "it matches nothing", f"Give it one of: {', '.join(_MATCHERS)}.")
    return Rule(
        id=name,
        category=row["category"],
        on=row.get("on", "both"),
        comment=_text(path, name, row, "comment"),
        regex=_regex(path, name, row),
        examples=_texts(path, name, row, "examples"),
        **{word: tuple(text.lower() for text in _texts(path, name, row, word)) for word in _LISTS},
    )


def _text(path: Path, name: str, row: Mapping[str, Any], word: str) -> str:
    text = row.get(word, "")
    if not isinstance(text, str):
        raise _fault(path, name, f"`{word}` is no text", "Put it in quotation marks.")
    return text


def _texts(path: Path, name: str, row: Mapping[str, Any], word: str) -> tuple[str, ...]:
    texts = row.get(word, [])
    # An empty text would match every name.
    if not isinstance(texts, list) or not all(isinstance(text, str) and text for text in texts):
        raise _fault(path, name, f"`{word}` is no list of non-empty texts", f'Write {word} = ["...", "..."].')
    return tuple(texts)


def _regex(path: Path, name: str, row: Mapping[str, Any]) -> re.Pattern[str] | None:
    text = _text(path, name, row, "regex")
    if not text:
        return None
    try:
        # Names are compared in lower case; an expression in lower case needs no flag, and is faster without.
        return re.compile(text, 0 if text == text.lower() else re.IGNORECASE)
    except re.error as error:
        raise _fault(path, name, f"its regex {text!r} is wrong: {error}", "Mend the expression.") from None


def _fault(path: Path, rule: str, what: str, remedy: str) -> WcbenchError:
    return WcbenchError(f"{path}: rule '{rule}': {what}.", remedy)


# --- the rules that come with wcbench ------------------------------------------------------------------------------

_RULES = load_rules()
RULES_VERSION: int = _RULES.version
FULL: Mapping[str, str] = _RULES.full


@lru_cache(maxsize=1 << 19)
def _classify(name: str, host: bool) -> Category:
    return _RULES.classify(name, host=host)


def classify(name: str, *, host: bool = False) -> Category:
    """The category of a device kernel's name, or with `host` of a host operator's.

    Total: any string has an answer, which is `unknown` where no rule matches. Answers are cached.

    Examples
    --------
    >>> classify("volta_scudnn_128x64_relu_interior_nn_v1").full
    'convolution'
    >>> classify("aten::addmm", host=True).paper
    'GEMM'
    """
    return _classify(name[:MAX_NAME], host)


def rules() -> tuple[Rule, ...]:
    """The rules in the order in which they are tried."""
    return _RULES.rules
