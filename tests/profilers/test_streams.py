"""Native output, caught by file descriptor and given back."""

from __future__ import annotations

import ctypes
import os

import pytest

from wcbench.profilers.streams import STDERR, STDOUT, caught_fd, quiet_kineto, read_lines, replay

KINETO = [
    "USDT:2026-11-30 15:53:40 24375:24375 SyncActivityProfilerHandler.cpp:39] profiler_start",
    "ERROR:2026-11-30 15:53:40 24375:24375 DeviceProperties.cpp:56] gpuGetDeviceCount failed with code 35",
    "STAGE:2023-05-12 02:01:02 1:1 ActivityProfilerController.cpp:311] Completed Stage: Warm Up",
]
OTHERS = [
    "ERROR: disk full",
    "WARNING:root:2026-11-30 is a date too",
    "my note on DeviceProperties.cpp:56] of USDT:2026-11-30",
    "",
    "grüße",
]


def test_kinetos_lines_are_kept_and_others_passed_on(capfd: pytest.CaptureFixture[str]) -> None:
    lines = [KINETO[0], OTHERS[0], KINETO[1], *OTHERS[1:], KINETO[2]]
    with quiet_kineto() as log:
        os.write(STDERR, ("\n".join(lines) + "\n").encode())
    assert log == KINETO
    assert capfd.readouterr().err.splitlines() == OTHERS


def test_others_are_passed_on_when_the_block_raises(capfd: pytest.CaptureFixture[str]) -> None:
    def interrupted() -> None:
        with quiet_kineto():
            os.write(STDERR, f"{KINETO[0]}\nmine\n".encode())
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert capfd.readouterr().err == "mine\n"
    os.write(STDERR, b"after\n")
    assert capfd.readouterr().err == "after\n"


def test_what_c_has_still_in_its_buffer_is_caught_too(capfd: pytest.CaptureFixture[str]) -> None:
    libc = ctypes.CDLL(None)
    libc.puts(b"before")
    with caught_fd(STDOUT) as file:
        libc.puts(b"inside")
        libc.fflush(None)
        lines = read_lines(file)
    libc.puts(b"after")
    libc.fflush(None)
    assert lines == ["inside"]
    assert capfd.readouterr().out == "before\nafter\n"


def test_bytes_that_are_no_text_do_not_break_it() -> None:
    with caught_fd(STDOUT) as file:
        os.write(STDOUT, b"\xff\xfe ok\n")
        lines = read_lines(file)
    assert len(lines) == 1
    assert lines[0].endswith(" ok")


def test_no_descriptor_is_left_open() -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        with quiet_kineto():
            pass
    assert len(os.listdir("/proc/self/fd")) == before


def test_replay_of_nothing_writes_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    replay([], STDOUT)
    replay(["a", "b"], STDOUT)
    assert capfd.readouterr().out == "a\nb\n"
