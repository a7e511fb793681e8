"""Files written in one piece, and folders that last as long as somebody holds them."""

from __future__ import annotations

import contextlib
import fnmatch
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable
from pathlib import Path

from wcbench.errors import RecordError

_OF_A_FOLDER = {
    "manifest.json": ("manifest.json", "*.parquet"),
    "study.json": ("study.json", "space.json", "tables/*", "parts/*", "parts/*/*"),
}
"""The files of which a record and a study consist, by the one that tells what a folder is."""


def free_file(target: Path, *, force: bool = False) -> Path:
    """The same file, if it may be written.

    Raises RecordError where it exists and ``force`` is false, where it is a folder or no regular file (a device, a
    pipe), or belongs to a record or a study, which nothing else may replace.
    """
    if target.is_dir():
        raise RecordError(f"{target} is a folder.", "Name a file.")
    if target.exists() and not target.is_file():
        raise RecordError(f"{target} is no regular file and is left as it is.", "Name a file.")
    place = target.resolve()
    for folder in place.parents[:3]:
        for sign, own in _OF_A_FOLDER.items():
            if (folder / sign).is_file() and any(_is_at(place, folder, pattern) for pattern in own):
                what = "record" if sign == "manifest.json" else "study"
                raise RecordError(f"{target} is part of the {what} and is left as it is.", "Choose another file.")
    if target.exists() and not force:
        raise RecordError(f"{target} exists and is left as it is.", "Choose another file, or replace it with --force.")
    return target


def _is_at(place: Path, folder: Path, pattern: str) -> bool:
    """Whether a file lies in a folder where the pattern says, level by level."""
    levels = place.relative_to(folder).parts
    wanted = pattern.split("/")
    return len(levels) == len(wanted) and all(map(fnmatch.fnmatch, levels, wanted))


def write_whole(target: Path, write: Callable[[Path], object]) -> None:
    """Let ``write`` fill a file beside the target and put it in the target's place: no half file is left behind.

    Raises RecordError where the disk refuses, and where a device or a pipe would have to make room for a file.
    """
    if target.exists() and not target.is_file():
        raise RecordError(f"{target} is no regular file and is left as it is.", "Name a file.")
    target = target.resolve() if target.is_symlink() else target  # the link stays
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        write(partial)
        partial.replace(target)
    except OSError as error:
        raise RecordError(f"{target} could not be written: {error.strerror or error}.") from error
    finally:
        with contextlib.suppress(OSError):
            partial.unlink()


class HeldFolder:
    """A temporary folder that goes when the last who holds this object lets go of it, or at the end of the process."""

    def __init__(self, prefix: str, place: Path | None = None) -> None:
        home = Path(tempfile.gettempdir()) if place is None else place
        _remove_dead(home, prefix)
        self.path = Path(tempfile.mkdtemp(prefix=f"{prefix}{os.getpid()}-", dir=home))
        self.remove = weakref.finalize(self, shutil.rmtree, self.path, True)


def _remove_dead(home: Path, prefix: str) -> None:
    """Remove what processes left that were killed: their folders' names begin with their numbers."""
    for left in home.glob(f"{prefix}*-*"):
        number = left.name.removeprefix(prefix).partition("-")[0]
        if number.isdigit() and not Path("/proc", number).exists() and Path("/proc/self").exists():
            shutil.rmtree(left, ignore_errors=True)
