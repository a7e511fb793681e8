"""Home paths, user and host names taken out of what is shared."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

# Names that many people and machines share: replacing them would damage texts and hide nobody.
_COMMON = frozenset({
    "admin", "administrator", "centos", "debian", "docker", "ec2-user", "gpu", "host", "jovyan", "localhost",
    "localhost.localdomain", "node", "nobody", "root", "runner", "server", "ubuntu", "user", "vscode",
})  # fmt: skip

_SEPARATOR = r"[\\/]+"  # either slash; JSON, and JSON inside JSON, repeats the backslash
_NAME = r"""(?:\\u[0-9a-fA-F]{4}|[^\s\\/"'`<>:;,|?*(){}\[\]])+(?<!\.)"""
_SPACED = rf"{_NAME}(?: {_NAME}){{0,3}}"  # Windows allows spaces; only a separator after it tells where it ends
_ANY_HOME = re.compile(
    rf"(?P<head>[A-Za-z]:(?P<first>{_SEPARATOR})(?i:Users)(?P<slash>{_SEPARATOR}))(?:{_SPACED}(?={_SEPARATOR})|{_NAME})"
    rf"|(?P<unix>{_SEPARATOR}(?:home|Users){_SEPARATOR}){_NAME}"
)


def redact(text: str, identity: Mapping[str, Any]) -> str:
    """The text without the home path, anyone's home folder, the user's and the host's name.

    Parameters
    ----------
    identity : mapping with `home`, `user` and `hostname`, as `describe` records it; any may be missing or None.
    """
    return _redactor(*_who(identity)).words(text)


def redact_tree(value: Any, identity: Mapping[str, Any]) -> Any:
    """A copy of nested mappings and lists with every text redacted and every `identity` key dropped.

    In keys only paths are replaced: a user called `max` must not rename a field.
    """
    return _tree(value, _redactor(*_who(identity)))


def _who(identity: Mapping[str, Any]) -> tuple[str | None, ...]:
    return tuple(identity.get(key) or None for key in ("home", "user", "hostname"))


def _tree(value: Any, redactor: _Redactor) -> Any:
    if isinstance(value, str):
        return redactor.words(value)
    if isinstance(value, Mapping):
        return _mapping(value, redactor)
    if isinstance(value, list | tuple):
        return [_tree(child, redactor) for child in value]
    return value


def _mapping(value: Mapping[Any, Any], redactor: _Redactor) -> dict[Any, Any]:
    result: dict[Any, Any] = {}
    for key, child in value.items():
        if key == "identity":
            continue
        name = redactor.paths(key) if isinstance(key, str) else key
        same = 2
        while name in result:  # two people's paths may become one
            name = f"{redactor.paths(key)} ({same})"
            same += 1
        result[name] = _tree(child, redactor)
    return result


@dataclass(frozen=True)
class _Redactor:
    home: re.Pattern[str] | None
    names: re.Pattern[str] | None

    def paths(self, text: str) -> str:
        if self.home is not None:
            text = self.home.sub("~", text)
        return _ANY_HOME.sub(lambda match: f"{match['head'] or match['unix']}<user>", text)

    def words(self, text: str) -> str:
        text = self.paths(text)
        return text if self.names is None else self.names.sub(_placeholder, text)


def _placeholder(match: re.Match[str]) -> str:
    return "<host>" if match.lastgroup == "host" else "<user>"


@lru_cache(maxsize=8)
def _redactor(home: str | None, user: str | None, hostname: str | None) -> _Redactor:
    return _Redactor(_home_pattern(home), _name_pattern(user, hostname))


def _home_pattern(home: str | None) -> re.Pattern[str] | None:
    """The home path with either slash; not as the tail of a longer path, nor as the start of a longer name."""
    parts = [part for part in re.split(_SEPARATOR, home or "") if part]
    if home is None or not parts or (len(parts) == 1 and parts[0].endswith(":")):
        return None  # "/" or "C:\" would turn every path into "~"
    drive = parts[0].endswith(":")
    body = _SEPARATOR.join(f"(?:{_either({part})})" for part in parts)
    start = r"(?<![\w.-])" if drive else rf"(?<![\w.~>-]){_SEPARATOR}"
    return re.compile(rf"{start}{body}(?![\w-])(?!\.\w)", re.IGNORECASE if drive else 0)


def _name_pattern(user: str | None, hostname: str | None) -> re.Pattern[str] | None:
    """Host names (the full one and its first label) and the user's name as whole words, in any case."""
    hosts = {name for name in (hostname, (hostname or "").partition(".")[0]) if _tells(name)}
    patterns = []
    if hosts:  # trace files are called host_pid.time.json, so an underscore ends a host name
        patterns.append(rf"(?<![^\W_])(?P<host>{_either(hosts)})(?![^\W_])")
    if _tells(user):  # but not a user's, or the user `max` would rename max_pool2d
        patterns.append(rf"(?<!\w)(?P<user>{_either({user})})(?!\w)")
    return re.compile("|".join(patterns), re.IGNORECASE) if patterns else None


def _tells(name: str | None) -> bool:
    return name is not None and len(name) >= 3 and name.lower() not in _COMMON


def _either(names: Iterable[str | None]) -> str:
    """A pattern for any of the names, as they are and as JSON escapes them, the longest first."""
    plain = {name for name in names if name is not None}
    spellings = plain | {json.dumps(name)[1:-1] for name in plain}
    return "|".join(re.escape(text) for text in sorted(spellings, key=lambda text: (-len(text), text)))
