"""The objects of one long list in a JSON file (``{..., "nodes": [{...}, {...}], ...}``), one by one, fail-soft."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from typing import Any

from wcbench.errors import ReadError
from wcbench.profilers.readers.base import Sink, Source

MAX_ITEM = 1 << 23
"""Characters of one object from which it is taken for damage."""

_MAX_BEFORE = 1 << 20
_PIECE = 1 << 17
_SHORT = 1 << 13
"""Characters kept behind a fault: json's errors count line ends in all of the text, which takes long in a long one."""
_LARGE = 1 << 20
_MARGIN = 1 << 10
_PATIENCE = 8
"""Damaged entries in a row whose insides are searched for further ones; then what was decoded in vain is left out."""
_SPACE = re.compile(r"[\s,]*")
_FIRST_KEY = re.compile(r'\{\s*"(?:id|name|Id|Name)"\s*:')  # until an object has shown its own


class JsonArray:
    """Iterates over the objects of the list under the first key ``key``, as (offset, object).

    Attributes
    ----------
    around : the other keys of the file's top level; those behind the list are there when the iteration ends.

    Raises
    ------
    ReadError : while iterating, where the file does not hold the list.
    """

    def __init__(self, source: Source, sink: Sink, key: str) -> None:
        self.around: dict[str, Any] = {}
        self._source, self._sink, self._key = source, sink, key
        self._text, self._at, self._dropped = "", 0, 0
        self._ended = False
        self._back: list[str] = []  # read and not yet used, the next piece last
        self._failed = 0  # entries in a row
        self._pieces = self._decoded()
        self._decoder = json.JSONDecoder()
        self._boundary: re.Pattern[str] | None = None

    def __iter__(self) -> Iterator[tuple[int, dict[str, Any]]]:
        self._begin()
        while self._next_item():
            if (found := self._object()) is not None:
                yield found
        self._finish()

    def _decoded(self) -> Iterator[str]:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        for chunk in self._source.chunks(self._sink.lose, _PIECE):
            yield decoder.decode(chunk)

    def _more(self, least: int = 1) -> bool:
        """Read on by ``least`` characters or more; what is done with is dropped. False at the end of the file."""
        found: list[str] = []
        while least > 0 and (piece := self._back.pop() if self._back else next(self._pieces, None)) is not None:
            found.append(piece)
            least -= len(piece)
        if not found:
            self._ended = True
            return False
        self._dropped += len(self._text[: self._at].encode())
        self._text, self._at = "".join((self._text[self._at :], *found)), 0
        return True

    def _shorten(self) -> None:
        """Put back most of a long text, of which each further error would look for line ends again."""
        if len(self._text) <= 2 * _SHORT:
            return
        self._dropped += len(self._text[: self._at].encode())
        left = self._text[self._at :]
        self._back += [left[at : at + _PIECE] for at in range(_SHORT, len(left), _PIECE)][::-1]
        self._text, self._at, self._ended = left[:_SHORT], 0, self._ended and not self._back

    def _offset(self) -> int:
        """Where the reading stands; exact for ASCII, of which these files are, and close to it otherwise."""
        return self._dropped + self._at

    def _begin(self) -> None:
        opening = re.compile(rf'"{self._key}"\s*:\s*\[')
        while (found := opening.search(self._text)) is None:
            if len(self._text) > _MAX_BEFORE or not self._more():
                raise ReadError(f'{self._source.label} holds no list "{self._key}".', "Export it again.")
        self._note_around(self._text[: found.end()] + "]}")
        self._at = found.end()

    def _next_item(self) -> bool:
        """Go to the next object; False at the end of the list or of the file."""
        while True:
            gap = _SPACE.match(self._text, self._at)
            self._at = gap.end() if gap else self._at
            if self._at < len(self._text):
                return self._text[self._at] != "]"
            if not self._more():
                self._sink.lose(
                    "the rest of the file", "it ends within its list: the file is cut", offset=self._offset()
                )
                return False

    def _object(self) -> tuple[int, dict[str, Any]] | None:
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, self._at)
            except (ValueError, RecursionError) as error:
                left = len(self._text) - self._at
                if self._may_go_on(error) and self._more(min(3 * left, MAX_ITEM + 1 - left)):  # in growing steps
                    continue
                self._skip("it is no valid JSON" if left <= MAX_ITEM else "it is too long", self._vain(error))
                return None
            where, self._at, self._failed = self._offset(), end, 0
            if isinstance(value, dict):
                self._learn_boundary(value)
                return where, value
            self._sink.lose("an entry of the list", "it is no object", offset=where)
            return None

    def _may_go_on(self, error: Exception) -> bool:
        """Whether the fault may only be that the object goes on behind what was read so far."""
        left = len(self._text) - self._at
        if self._ended or not isinstance(error, json.JSONDecodeError) or left > MAX_ITEM:
            return False
        return error.msg.startswith("Unterminated") or error.pos > len(self._text) - _MARGIN

    def _learn_boundary(self, value: dict[str, Any]) -> None:
        if self._boundary is None and value:
            self._boundary = re.compile(rf'\{{\s*"{re.escape(next(iter(value)))}"\s*:')

    def _vain(self, error: Exception) -> int:
        """Characters to leave out: one; after some failures in a row all that was decoded in vain, or ever more."""
        self._failed += 3 if len(self._text) - self._at > _LARGE else 1
        if self._failed <= _PATIENCE:
            return 1
        if isinstance(error, json.JSONDecodeError):
            return max(1, error.pos - self._at)
        return int(min(_MARGIN << min(self._failed - _PATIENCE, 20), MAX_ITEM))

    def _skip(self, why: str, characters: int) -> None:
        """Go on at what looks like an object's beginning, ``characters`` or more behind this one's."""
        self._sink.lose("an entry of the list", why, offset=self._offset())
        boundary = self._boundary or _FIRST_KEY
        while characters > len(self._text) - self._at and self._more(characters):
            pass
        self._at = min(self._at + characters, len(self._text))
        self._shorten()
        while (found := boundary.search(self._text, self._at)) is None:
            self._at = max(self._at, len(self._text) - _MARGIN)
            if not self._more():
                self._at = len(self._text)
                return
        self._at = found.start()

    def _finish(self) -> None:
        while not self._ended and len(self._text) - self._at < _MAX_BEFORE and self._more():
            pass
        rest = self._text[self._at + 1 :].lstrip(", \t\r\n")
        if not self._ended:
            for _ in self._pieces:  # to the file's end, for its digest
                pass
        elif rest.startswith('"'):
            self._note_around("{" + rest)

    def _note_around(self, text: str) -> None:
        try:
            found = self._decoder.decode(text)
        except (ValueError, RecursionError):
            return
        if isinstance(found, dict):
            self.around.update({key: value for key, value in found.items() if key != self._key})
