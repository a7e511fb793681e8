"""Files as streams of bytes: compressed, cut, damaged, bombs; lines; archives and folders."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import lzma
import os
import tarfile
import zipfile
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wcbench.errors import ReadError
from wcbench.profilers.readers import source as module
from wcbench.profilers.readers.source import Source, expand

FUZZ = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
PACKERS: dict[str, Any] = {
    "plain": lambda data: data,
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "two gz": lambda data: gzip.compress(data[: len(data) // 2]) + gzip.compress(data[len(data) // 2 :]),
    "two bz2": lambda data: bz2.compress(data[: len(data) // 2]) + bz2.compress(data[len(data) // 2 :]),
    "two xz": lambda data: lzma.compress(data[: len(data) // 2]) + lzma.compress(data[len(data) // 2 :]),
    "padded gz": lambda data: gzip.compress(data) + b"\0" * 100,
}


class Log:
    """Keeps what is told as lost."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str, int | None]] = []

    def __call__(
        self, what: str, why: str, *, count: int = 1, offset: int | None = None, repaired: bool = False
    ) -> None:
        self.told.append((what, why, offset))


def stream(path: Path, data: bytes, size: int = 1 << 20) -> tuple[bytes, Log, Source]:
    path.write_bytes(data)
    log, source = Log(), Source(path, "file")
    return b"".join(source.chunks(log, size)), log, source


@FUZZ
@given(
    data=st.binary(max_size=300) | st.builds(lambda b, n: b * n, st.binary(max_size=3), st.integers(0, 5000)),
    kind=st.sampled_from(sorted(PACKERS)),
    size=st.sampled_from([16, 100, 4096, 1 << 20]),
)
def test_every_way_of_packing_gives_the_bytes(data: bytes, kind: str, size: int, tmp_path: Path) -> None:
    if kind != "plain" or not data.startswith((b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd")):
        packed = PACKERS[kind](data)
        found, log, source = stream(tmp_path / "f", packed, size)
        assert found == data
        assert log.told == []
        assert source.sha256 == hashlib.sha256(packed).hexdigest()
        assert source.nbytes == len(packed)
        assert source.head(10) == data[:10]


TEXT = b"".join(b"line %d of a trace\n" % i for i in range(3000))


@pytest.mark.parametrize("kind", ["gz", "bz2", "xz", "two gz", "two bz2"])
@pytest.mark.parametrize("share", [0.3, 0.7, 0.99])
def test_of_a_cut_stream_the_beginning_is_given_and_the_cut_told(tmp_path: Path, kind: str, share: float) -> None:
    packed = PACKERS[kind](TEXT)
    found, log, _ = stream(tmp_path / "f", packed[: int(len(packed) * share)], 256)
    assert TEXT.startswith(found)
    assert kind in ("bz2", "two bz2", "xz") or len(found) > 0.5 * share * len(TEXT)
    assert [(what, offset) for what, _, offset in log.told] == [("the rest of the file", len(found))]


@FUZZ
@given(place=st.floats(0, 1), byte=st.integers(0, 255), kind=st.sampled_from(["gz", "bz2", "xz", "two gz"]))
def test_a_wrong_byte_in_a_stream_is_told_or_harmless(place: float, byte: int, kind: str, tmp_path: Path) -> None:
    packed = bytearray(PACKERS[kind](TEXT))
    at = min(len(packed) - 1, 6 + int(place * (len(packed) - 6)))
    packed[at] = byte
    found, log, _ = stream(tmp_path / "f", bytes(packed))
    assert found == TEXT or log.told


def test_what_follows_a_gzip_stream_is_told(tmp_path: Path) -> None:
    found, log, _ = stream(tmp_path / "f", gzip.compress(TEXT) + b"junk")
    assert found == TEXT
    assert [(what, offset) for what, _, offset in log.told] == [("bytes", len(TEXT))]


@pytest.mark.parametrize("kind", ["gz", "bz2", "xz"])
def test_a_bomb_is_refused(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BOMB_BYTES", 1 << 22)
    (tmp_path / "f").write_bytes(PACKERS[kind](b"\0" * (1 << 24)))
    given_bytes: list[int] = []

    def take() -> None:
        given_bytes.extend(len(chunk) for chunk in Source(tmp_path / "f", "file").chunks(Log()))

    with pytest.raises(ReadError, match="compression bomb") as refused:
        take()
    assert sum(given_bytes) <= 1 << 23
    assert "file unpacks to more" in refused.value.message
    assert refused.value.hint


def test_a_zip_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BOMB_BYTES", 1 << 22)
    with zipfile.ZipFile(tmp_path / "b.zip", "w", zipfile.ZIP_DEFLATED) as bomb:
        bomb.writestr("x", b"\0" * (1 << 24))
    (tmp_path / "work").mkdir()
    with pytest.raises(ReadError, match="compression bomb"):
        expand([tmp_path / "b.zip"], tmp_path / "work", lambda _label: Log())


def test_a_real_bomb_of_gzip_is_refused_at_its_real_limit(tmp_path: Path) -> None:
    packer = zlib.compressobj(9, wbits=31)
    block = b"\0" * (1 << 20)
    data = b"".join(packer.compress(block) for _ in range(270)) + packer.flush()
    (tmp_path / "f").write_bytes(data)
    with pytest.raises(ReadError, match="compression bomb"):
        sum(len(chunk) for chunk in Source(tmp_path / "f", "file").chunks(Log()))


def test_zstd_is_named(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"\x28\xb5\x2f\xfd" + bytes(20))
    with pytest.raises(ReadError, match="zstd") as refused:
        Source(tmp_path / "f", "file").head()
    assert "zstd -d" in (refused.value.hint or "")


def test_a_missing_file_is_no_traceback(tmp_path: Path) -> None:
    with pytest.raises(ReadError, match="file cannot be read: No such file"):
        Source(tmp_path / "f", "file").head()


# --- lines ----------------------------------------------------------------------------------------------------------


@FUZZ
@given(
    data=st.lists(st.sampled_from([b"a", b"\n", b"\r\n", b"\xff", "é".encode(), b"\xef\xbb\xbf", b"xyz"])),
    size=st.integers(1, 9),
)
def test_lines_are_those_of_splitting(data: list[bytes], size: int, tmp_path: Path) -> None:
    content = b"".join(data)
    (tmp_path / "f").write_bytes(content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Source.chunks, "__defaults__", (size,))
        found = list(Source(tmp_path / "f", "file").lines(Log()))
    lines = content.split(b"\n")
    if not lines[-1]:
        lines.pop()
    offsets = [sum(len(line) + 1 for line in lines[:i]) for i in range(len(lines))]
    texts = [line.decode("utf-8", "replace").removesuffix("\r") for line in lines]
    if texts and texts[0].startswith("\ufeff"):
        texts[0] = texts[0][1:]
    assert found == list(zip(offsets, texts, strict=True))


def test_of_an_endless_line_the_rest_is_dropped_and_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_LINE", 1000)
    (tmp_path / "f").write_bytes(b"first\n" + b"x" * 50_000 + b"\nlast\n" + b"y" * 3000)
    for size in (64, 999, 1 << 20):
        monkeypatch.setattr(Source.chunks, "__defaults__", (size,))
        log = Log()
        found = list(Source(tmp_path / "f", "file").lines(log))
        assert [(offset, text[:5]) for offset, text in found] == [
            (0, "first"),
            (6, "xxxxx"),
            (50_007, "last"),
            (50_012, "yyyyy"),
        ]
        assert max(len(text) for _, text in found) <= 1000
        assert [offset for _, _, offset in log.told] == [6, 50_012]


# --- folders and archives -------------------------------------------------------------------------------------------


def test_folders_are_read_in_the_order_of_their_names(tmp_path: Path) -> None:
    for name in ("b", "a", "c/d", ".hidden", ".git/x"):
        path = tmp_path / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    found = expand([tmp_path / "in"], tmp_path, lambda _label: Log())
    assert [source.path.name for source in found] == ["a", "b", "d"]


@pytest.mark.parametrize("what", ["missing", "empty folder", "pipe"])
def test_paths_that_hold_no_file_are_refused(tmp_path: Path, what: str) -> None:
    path = tmp_path / "x"
    if what == "empty folder":
        path.mkdir()
    elif what == "pipe":
        os.mkfifo(path)
    with pytest.raises(ReadError, match=r"x (does not exist|holds no files|is not a file)") as refused:
        expand([path], tmp_path, lambda _label: Log())
    assert refused.value.hint


def test_too_many_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_FILES", 3)
    (tmp_path / "in").mkdir()
    (tmp_path / "work").mkdir()
    for i in range(4):
        (tmp_path / "in" / str(i)).write_text("x")
    with tarfile.open(tmp_path / "t.tar", "w") as tar:
        tar.add(tmp_path / "in", "in")
    for path in ("in", "t.tar"):
        with pytest.raises(ReadError, match=r"holds (4|more than 3) files"):
            expand([tmp_path / path], tmp_path / "work", lambda _label: Log())


def test_a_damaged_member_of_a_zip_is_told(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "t.zip", "w") as made:
        for name in ("a", "b"):
            made.writestr(name, name * 5000)
    data = bytearray((tmp_path / "t.zip").read_bytes())
    data[data.index(b"b" * 100) + 50] = 0
    (tmp_path / "t.zip").write_bytes(data)
    (tmp_path / "work").mkdir()
    log = Log()
    found = expand([tmp_path / "t.zip"], tmp_path / "work", lambda _label: log)
    assert found[0].path.read_text() == "a" * 5000
    assert [what.startswith("the rest of") for what, _, _ in log.told] == [True]
    assert found[0].label.endswith("t.zip:a")
