"""Foreign files as streams of bytes: plain, compressed, in archives or folders; bounded, hashed, never trusted.

Nothing is written under a name that an archive gives, and no file is held in memory whole.
"""

from __future__ import annotations

import bz2
import contextlib
import hashlib
import lzma
import os
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from wcbench.errors import ReadError

CHUNK = 1 << 20
HEAD = 1 << 18
MAX_LINE = 1 << 20
LARGE = 32 << 20
"""Bytes from which a second process is worth its start."""
MAX_FILES = 100_000
"""Files of a folder or an archive that are looked at."""

BOMB_BYTES, BOMB_RATIO = 1 << 28, 200
"""What grows beyond these bytes at more than this ratio is a bomb; real traces compress 10 to 50 times."""

_MEMBER_CHUNK = 1 << 14  # what is read at once of a cut member is lost
MAX_MEMBERS_BYTES = 1 << 36
"""Of an archive's members together, uncompressed (64 GiB)."""

_GZIP, _ZIP, _BZ2, _XZ, _ZSTD = b"\x1f\x8b", b"PK\x03\x04", b"BZh", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd"
_TAR_AT, _TAR = 257, b"ustar"

Lost = Callable[..., None]
"""Called as ``lost(what, why, count=1, offset=None, repaired=False)``."""


@dataclass
class Source:
    """One foreign file: on disk, or a member of an archive that lies unpacked at ``path`` for the time of the import.

    ``label`` is how messages and the record name it. After it was read to its end, ``sha256`` and ``nbytes`` are of the
    file as it lies on disk.
    """

    path: Path
    label: str
    sha256: str | None = None
    nbytes: int = 0
    told: Callable[[int], None] | None = field(default=None, repr=False)
    """Called with the bytes of the file on disk that were read so far."""
    cores: int = 1
    """Cores that reading this file may use."""

    @property
    def worth_a_second_process(self) -> bool:
        """Whether there is a core for one, and enough to read that it pays: packed files hold ten times as much."""
        if self.cores < 2:
            return False
        with self.path.open("rb") as file:
            packed = file.read(len(_XZ)).startswith((_GZIP, _BZ2, _XZ, _ZSTD))
            return os.fstat(file.fileno()).st_size >= (LARGE // 10 if packed else LARGE)

    @property
    def name(self) -> str:
        """The file's own name without folders: a hint for ranks and records, never for its format."""
        return self.label.rpartition("/")[2].rpartition(":")[2]

    def head(self, size: int = HEAD) -> bytes:
        """The first bytes, uncompressed; a damaged stream gives what it holds."""
        found = b""
        for chunk in self.chunks(_ignore, hashed=False):
            found += chunk
            if len(found) >= size:
                break
        return found[:size]

    def chunks(self, lost: Lost, size: int = CHUNK, *, hashed: bool = True) -> Iterator[bytes]:
        """The uncompressed bytes in pieces of about ``size``.

        Where a compressed stream is cut or damaged, what came before is given and ``lost`` is told; a bomb raises
        ReadError.
        """
        digest = hashlib.sha256() if hashed else None
        try:
            with self.path.open("rb") as file:
                raw = _raw(file, digest, size, self.told if hashed else None)
                first = next(raw, b"")
                yield from _ahead(_unpacked(self.label, first, raw, lost, size))
                length = os.fstat(file.fileno()).st_size  # the file may have gone from its folder meanwhile
        except OSError as error:
            raise ReadError(f"{self.label} cannot be read: {error.strerror or error}.") from error
        if digest is not None:
            self.sha256, self.nbytes = digest.hexdigest(), length

    def lines(self, lost: Lost) -> Iterator[tuple[int, str]]:
        """Offset and text of each line, without its end; a byte-order mark is dropped, wrong UTF-8 becomes U+FFFD.

        Of a line of more than MAX_LINE bytes the rest is dropped, and ``lost`` is told.
        """
        for offset, line in _lines(self.chunks(lost), lost):
            text = line.decode("utf-8", "replace")
            if "�" in text and "�".encode() not in line:
                lost("bytes", "they are no UTF-8 and were replaced", offset=offset, repaired=True)
            yield offset, text.removeprefix("﻿").rstrip("\r") if offset == 0 else text.rstrip("\r")

    def read(self, lost: Lost, limit: int) -> bytes:
        """The whole file, of formats that cannot be streamed; one of more than ``limit`` bytes raises ReadError."""
        found = bytearray()
        for chunk in self.chunks(lost):
            found += chunk
            if len(found) > limit:
                raise ReadError(
                    f"{self.label} holds more than {limit >> 20} MiB of a format that is read whole.",
                    "Cut it into parts, or export fewer steps.",
                )
        return bytes(found)

    @contextlib.contextmanager
    def local(self, workspace: Path, lost: Lost) -> Iterator[Path]:
        """An uncompressed file on disk, for formats that need one (SQLite)."""
        with self.path.open("rb") as file:
            start = file.read(len(_XZ))
        if not start.startswith((_GZIP, _BZ2, _XZ)):
            for _ in self.chunks(lost):  # for its digest
                pass
            yield self.path
            return
        target = workspace / f"unpacked-{hashlib.sha256(self.label.encode()).hexdigest()[:16]}"
        try:
            with target.open("wb") as out:
                for chunk in self.chunks(lost):
                    out.write(chunk)
            yield target
        finally:
            target.unlink(missing_ok=True)


def _ignore(*_args: Any, **_kwargs: Any) -> None:
    """Looking at a file's head reports no losses."""


def _raw(file: IO[bytes], digest: Any, size: int, told: Callable[[int], None] | None) -> Iterator[bytes]:
    done = 0
    while data := file.read(size):
        if digest is not None:
            digest.update(data)
        if told is not None:
            told(done := done + len(data))
        yield data


def _ahead(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The same pieces, the next one read, hashed and unpacked while this one is worked on: none of it holds the GIL."""
    with ThreadPoolExecutor(1, "wcbench-read") as pool:
        coming = pool.submit(next, pieces, b"")
        while piece := coming.result():
            coming = pool.submit(next, pieces, b"")
            yield piece


def _unpacked(label: str, first: bytes, rest: Iterator[bytes], lost: Lost, size: int) -> Iterator[bytes]:
    if first.startswith(_GZIP):
        yield from _inflated(label, first, rest, lost, size)
    elif first.startswith(_BZ2):
        yield from _decompressed(label, bz2.BZ2Decompressor, first, rest, lost)
    elif first.startswith(_XZ):
        yield from _decompressed(label, lambda: lzma.LZMADecompressor(memlimit=1 << 28), first, rest, lost)
    elif first.startswith(_ZSTD):
        raise ReadError(f"{label} is compressed with zstd, which is not read.", "Unpack it with `zstd -d` first.")
    else:
        if first:
            yield first
        yield from rest


def _chain(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from rest


def _inflated(label: str, first: bytes, rest: Iterator[bytes], lost: Lost, size: int) -> Iterator[bytes]:
    """gzip, of one member or several."""
    from isal import isal_zlib

    taken = given = 0
    held = b""
    unpacker = isal_zlib.decompressobj(wbits=31)
    for chunk in _chain(first, rest):
        data: bytes = held + chunk
        taken += len(chunk)
        held, more = b"", True
        while more:
            if unpacker.eof:  # another member may follow
                data = data.lstrip(b"\0")
                if not data.startswith(_GZIP):
                    held = data if data == _GZIP[:1] else b""
                    if data and not held:
                        lost("bytes", "they stand behind the end of the gzip stream", offset=given)
                    break
                unpacker = isal_zlib.decompressobj(wbits=31)
            try:
                out = unpacker.decompress(data, size)
            except (zlib.error, isal_zlib.error) as error:  # type: ignore[misc]  # the stub calls it no class
                lost("the rest of the file", f"its gzip stream is damaged: {error}", offset=given)
                return
            given += len(out)
            _no_bomb(label, taken, given)
            if out:
                yield out
            data = unpacker.unused_data if unpacker.eof else unpacker.unconsumed_tail
            more = bool(data) or (len(out) == size and not unpacker.eof)  # it may hold back what did not fit
    if not unpacker.eof:
        lost("the rest of the file", "its gzip stream ends early: the file is cut", offset=given)


def _decompressed(
    label: str, new: Callable[[], Any], first: bytes, rest: Iterator[bytes], lost: Lost
) -> Iterator[bytes]:
    """bzip2 or xz, of one stream or several."""
    taken = given = 0
    unpacker = new()
    for chunk in _chain(first, rest):
        data: bytes = chunk
        taken += len(data)
        if unpacker.eof and (data := data.lstrip(b"\0")):
            unpacker = new()
        while data or not (unpacker.eof or unpacker.needs_input):
            try:
                out = unpacker.decompress(data, CHUNK)
            except (OSError, EOFError, lzma.LZMAError) as error:
                lost("the rest of the file", f"its compressed stream is damaged: {error}", offset=given)
                return
            data = b""
            given += len(out)
            _no_bomb(label, taken, given)
            if out:
                yield out
            if unpacker.eof and (data := unpacker.unused_data.lstrip(b"\0")):
                unpacker = new()
    if not unpacker.eof:
        lost("the rest of the file", "its compressed stream ends early: the file is cut", offset=given)


def _no_bomb(label: str, taken: int, given: int) -> None:
    if given > BOMB_BYTES and given > BOMB_RATIO * taken:
        raise ReadError(
            f"{label} unpacks to more than {BOMB_RATIO} times its size ({given >> 20} MiB so far): it is refused as a "
            "compression bomb.",
            "If it is a real trace, unpack it yourself and import the result.",
        )


def _lines(chunks: Iterator[bytes], lost: Lost) -> Iterator[tuple[int, bytes]]:
    offset, held, dropping = 0, b"", False
    for chunk in chunks:
        parts = (held + chunk).split(b"\n")
        held = parts.pop()
        for part in parts:
            if dropping:
                dropping = False
            else:
                yield offset, part[:MAX_LINE]
                if len(part) > MAX_LINE:
                    lost("the rest of a line", f"it has more than {MAX_LINE} bytes", offset=offset)
            offset += len(part) + 1
        if len(held) > MAX_LINE:
            if not dropping:
                lost("the rest of a line", f"it has more than {MAX_LINE} bytes", offset=offset)
                yield offset, held[:MAX_LINE]
            dropping = True
            offset += len(held)
            held = b""
    if held and not dropping:
        yield offset, held


# --- folders and archives ------------------------------------------------------------------------------------------


def expand(paths: Sequence[Path], workspace: Path, lost: Callable[[str], Lost]) -> list[Source]:
    """The files that paths stand for: folders in the order of their names, archives unpacked into the workspace.

    ``lost(label)`` gives the loss log of a file. Raises ReadError where a path does not exist or an archive is refused.
    """
    found: list[Source] = []
    seen: set[Path] = set()
    refused: ReadError | None = None
    for path in paths:
        if not os.path.exists(path):  # Path.exists raises on a name that is too long
            raise ReadError(f"{str(path)[:300]} does not exist.", "Check the path.")
        files = _folder(path) if path.is_dir() else [path]
        if not files:
            raise ReadError(f"{path} holds no files.", "Name the folder that holds the traces.")
        for file in files:
            label = str(file)
            if file.resolve() in seen:
                lost(label)("the file", "it is named more than once and read once")
                continue
            seen.add(file.resolve())
            kind = _archive(file, label)
            try:
                found += [Source(file, label)] if kind is None else _members(file, kind, workspace, lost(label))
            except ReadError as error:  # it costs no other file
                refused = refused or error
                lost(label)("the file", error.message)
    if not found and refused is not None:
        raise refused
    return found


def _folder(path: Path) -> list[Path]:
    every = (p for p in path.rglob("*") if not any(part.startswith(".") for part in p.relative_to(path).parts))
    files = sorted(p for p in every if p.is_file())
    if len(files) > MAX_FILES:
        raise ReadError(f"{path} holds {len(files)} files.", f"Import at most {MAX_FILES} at a time.")
    return files


def _archive(path: Path, label: str) -> str | None:
    if not path.is_file():  # a pipe or a device has no end to wait for
        raise ReadError(f"{label} is not a file.", "Name a file or a folder.")
    try:
        head = Source(path, label).head(512)
        with path.open("rb") as file:
            if file.read(4) == _ZIP:
                return "zip"
    except (ReadError, OSError):
        return None  # told when it is read
    return "tar" if head[_TAR_AT : _TAR_AT + 5] == _TAR else None


def _members(path: Path, kind: str, workspace: Path, lost: Lost) -> list[Source]:
    """The regular files of an archive, unpacked under numbers; links, devices and names are not followed."""
    found: list[Source] = []
    total = 0
    try:
        for name, stream in _opened(path, kind, lost):
            if len(found) >= MAX_FILES:
                raise ReadError(f"{path} holds more than {MAX_FILES} files.", "Unpack the ones you need.")
            handle, target = tempfile.mkstemp(prefix="member-", dir=workspace)
            found.append(Source(Path(target), f"{path}:{name}"))  # of a cut archive's last member there is a part
            with open(handle, "wb") as out:
                try:
                    while data := stream.read(_MEMBER_CHUNK):
                        total += len(data)
                        _no_bomb(str(path), path.stat().st_size, total)
                        if total > MAX_MEMBERS_BYTES:
                            raise ReadError(f"{path} unpacks to more than 64 GiB.", "Unpack the files you need.")
                        out.write(data)
                except (zipfile.BadZipFile, zlib.error, EOFError) as error:
                    if kind == "tar":  # what follows cannot be found
                        raise
                    lost(f"the rest of {name}", f"it is damaged in the archive: {error}")
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error, OSError, RuntimeError) as error:
        lost("the rest of the archive", f"it is damaged: {error}")
    if not found:
        raise ReadError(f"{path} is an archive without a file that can be read.", "Unpack it yourself.")
    return found


def _opened(path: Path, kind: str, lost: Lost) -> Iterator[tuple[str, IO[bytes]]]:
    if kind == "zip":
        with zipfile.ZipFile(path) as archive:
            for info in archive.infolist():
                if info.is_dir():
                    continue
                try:
                    stream = archive.open(info)
                except (RuntimeError, NotImplementedError, zipfile.BadZipFile) as error:  # encrypted, unknown method
                    lost(info.filename, f"it cannot be unpacked: {error}")
                    continue
                with stream:
                    yield info.filename, stream
        return
    with tarfile.open(path, "r|*") as tar:
        for member in tar:
            content = tar.extractfile(member) if member.isreg() else None
            if content is not None:
                yield member.name, content
            elif not member.isdir():
                lost("a member of the archive", "it is no regular file", offset=member.offset)
