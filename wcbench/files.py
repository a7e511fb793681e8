"""Files written in one piece, and folders that last as long as somebody holds them."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable
from pathlib import Path

from wcbench.errors import RecordError


def write_whole(target: Path, write: Callable[[Path], object]) -> None:
    """Let ``write`` fill a file beside the target and put it in the target's place: no half file is left behind.

    Raises RecordError where the disk refuses.
    """
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
