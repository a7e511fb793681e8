"""Files written in one piece."""

from __future__ import annotations

import contextlib
import os
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
