"""A second process that decodes pieces of a file beside this one, on the core that reading alone leaves idle.

It is a fresh interpreter with numpy and msgspec alone: a fork would copy this process's threads, and a user's script
would need a guard. It does the same as this process does with its own share, piece by piece; where it dies, this
process does the rest itself.
"""

from __future__ import annotations

import contextlib
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import IO, Any

AHEAD = 6
"""Pieces that are on their way at a time: one in hand, the others so that it never waits."""
_PIPE_BYTES, _SET_PIPE_BYTES = 1 << 20, 1031
_LENGTH = 8


class Side:
    """The process; ``target`` is ``module:attr`` of what makes the function from a piece's bytes to its result."""

    def __init__(self, target: str) -> None:
        command = [sys.executable, "-P", "-m", __name__, target]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self._in, self._out = self._process.stdin, self._process.stdout
        for end in (self._in, self._out):
            _widen(end)
        self._given: SimpleQueue[tuple[bytes, Future[Any]] | None] = SimpleQueue()
        self._awaited: SimpleQueue[Future[Any] | None] = SimpleQueue()
        self._submitted = self._answered = 0  # each is counted by one thread
        self._gone = False
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._write, self._read)]
        for thread in self._threads:
            thread.start()

    @property
    def has_room(self) -> bool:
        return not self._gone and self._submitted - self._answered < AHEAD

    def submit(self, piece: bytes) -> Future[Any]:
        """What comes of a piece; an error of any kind means that it has to be done here."""
        self._submitted += 1
        future: Future[Any] = Future()
        self._given.put((piece, future))
        return future

    def _write(self) -> None:
        assert self._in is not None
        while (given := self._given.get()) is not None:
            piece, future = given
            self._awaited.put(future)
            try:
                self._in.write(len(piece).to_bytes(_LENGTH))
                self._in.write(piece)
                self._in.flush()
            except (OSError, ValueError):
                self._gone = True
        self._awaited.put(None)

    def _read(self) -> None:
        while (future := self._awaited.get()) is not None:
            try:
                found = None if self._gone else pickle.load(self._out)  # type: ignore[arg-type]  # of our own making
            except Exception:
                self._gone, found = True, None
            self._answered += 1
            if isinstance(found, tuple):
                future.set_result(found[0])
            else:
                future.set_exception(ChildProcessError(str(found)))

    def close(self) -> None:
        """End the process, whatever it is doing."""
        self._given.put(None)
        self._process.kill()
        for end in (self._in, self._out):
            with contextlib.suppress(OSError):
                end.close()  # type: ignore[union-attr]
        for thread in self._threads:
            thread.join()
        self._process.wait()


def _widen(pipe: IO[bytes] | None) -> None:
    """A pipe that holds a whole piece, where the system can: the other end need not wait to be asked."""
    try:
        import fcntl

        fcntl.fcntl(pipe, _SET_PIPE_BYTES, _PIPE_BYTES)  # type: ignore[arg-type]
    except (ImportError, OSError):
        pass


def serve(work: Callable[[bytes], Any], pieces: IO[bytes], results: IO[bytes]) -> None:
    """Answer each piece with ``(result,)``, or with the text of the error that it met."""
    while len(head := pieces.read(_LENGTH)) == _LENGTH:
        piece = pieces.read(int.from_bytes(head))
        try:
            answer: Any = (work(piece),)
        except Exception as error:
            answer = f"{type(error).__name__}: {error}"
        pickle.dump(answer, results, protocol=pickle.HIGHEST_PROTOCOL)
        results.flush()


def main(target: str) -> None:
    import gc

    from wcbench.registry import load_target

    gc.disable()  # events hold no cycles
    serve(load_target(target)(), sys.stdin.buffer, sys.stdout.buffer)


if __name__ == "__main__":
    main(sys.argv[1])
