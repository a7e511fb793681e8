"""What native libraries print past Python's own streams, caught by file descriptor."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from typing import IO

STDOUT, STDERR = 1, 2


def flush_native() -> None:
    """Write out C's own buffers, so that what native code printed so far precedes what comes next."""
    ctypes.CDLL(None).fflush(None)


def flush_all() -> None:
    """Write out Python's buffers and C's."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError, OSError):
            stream.flush()
    with contextlib.suppress(OSError, AttributeError):
        flush_native()


@contextlib.contextmanager
def caught_fd(fd: int) -> Iterator[IO[bytes]]:
    """Send a file descriptor to a temporary file, which is yielded; rewound and readable after the block."""
    with tempfile.TemporaryFile() as file:
        flush_all()
        saved = os.dup(fd)
        try:
            os.dup2(file.fileno(), fd)
            yield file
        finally:
            flush_all()
            os.dup2(saved, fd)
            os.close(saved)


@contextlib.contextmanager
def stdout_to_stderr() -> Iterator[None]:
    """Send what is printed to standard output, by Python or by native code, to standard error instead."""
    flush_all()
    saved = os.dup(STDOUT)
    try:
        os.dup2(STDERR, STDOUT)
        yield
    finally:
        flush_all()
        os.dup2(saved, STDOUT)
        os.close(saved)


def read_lines(file: IO[bytes]) -> list[str]:
    """All lines that a caught descriptor received so far."""
    file.seek(0)
    return file.read().decode("utf-8", errors="replace").splitlines()


def replay(lines: list[str], fd: int) -> None:
    """Give lines that were caught by the way, and are somebody else's, back to where they were going."""
    if lines:
        os.write(fd, ("\n".join(lines) + "\n").encode())


# Kineto logs as LEVEL:date time pid:tid file.cpp:line] text
_KINETO_LOG = re.compile(r"^(USDT|STAGE|INFO|WARNING|ERROR|VERBOSE):\d{4}-\d\d-\d\d .*\.(cpp|h):\d+\]")


@contextlib.contextmanager
def quiet_kineto() -> Iterator[list[str]]:
    """Keep Kineto's log lines off the user's screen; they are in the yielded list afterwards, others are passed on."""
    log: list[str] = []
    others: list[str] = []
    try:
        with caught_fd(STDERR) as file:
            try:
                yield log
            finally:
                flush_all()
                for line in read_lines(file):
                    (log if _KINETO_LOG.match(line) else others).append(line)
    finally:
        replay(others, STDERR)
