"""Long fuzzing of the readers of foreign files: nothing but a record or a clear refusal may come of any input.

    python benchmarks/fuzz_readers.py [--format kineto,ncu] [--seconds 60] [--seed 0] [--traces ../shared/traces]

Real files are cut, spliced, and damaged byte by byte and word by word; each result is read in a child process with a
limit on memory and time. What makes a reader fail, hang or eat memory is written to `--keep` and belongs, cut down to
the smallest input, into the reader's tests.
"""

from __future__ import annotations

import argparse
import collections
import gzip
import importlib
import multiprocessing
import random
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from wcbench.errors import WcbenchError
from wcbench.profilers.readers import READERS, detect, reader
from wcbench.profilers.readers.base import Head
from wcbench.profilers.readers.gather import read_part
from wcbench.profilers.readers.source import Source, expand

ROOT = Path(__file__).resolve().parent.parent
LARGEST = 400_000
MEMORY = 3 << 30
SECONDS = 60
WORDS = [
    b"-1", b"0", b"1e400", b"NaN", b"Infinity", b"9223372036854775808", b"-9223372036854775809", b"1e-400", b"null",
    b"true", b'""', b'"', b"\\", b"\x00", b"\xff\xfe", b"{}", b"[]", b"[[[[", b"}}}}", b",", b",,", b"\n", b"\r\n",
    b'"n/a"', b"\xe2\x80\xae", b"<script>", b"1" * 400, b"A" * 5000, b"\\ud800", b"=1+1", b"%s%n",
]  # fmt: skip


def seeds(traces: Path, workspace: Path) -> dict[str, list[bytes]]:
    """Contents of real files by format, the large ones cut."""
    found: dict[str, list[bytes]] = {name: [] for name in READERS.names()}
    paths = [p for p in sorted(traces.rglob("*")) if p.is_file() and "feature_matrix" not in p.parts]
    for path in paths:
        try:
            for source in expand([path], workspace, lambda label: lambda *_args, **_kwargs: None):
                name = detect(Head(source, source.head())).name
                if len(found[name]) < 8:  # a database that is cut is refused by its header alone
                    found[name].append(source.head(1 << 24 if "sqlite" in source.label else LARGEST))
        except WcbenchError:
            continue
    return {name: contents for name, contents in found.items() if contents}


def damaged(content: bytes, other: bytes, chance: random.Random) -> bytes:
    """The content after a few mutations."""
    data = bytearray(content)
    for _ in range(chance.choice([1, 1, 1, 2, 4, 16])):
        if not data:
            break
        at = chance.randrange(len(data))
        kind = chance.randrange(8)
        if kind == 0:
            data[at] = chance.randrange(256)
        elif kind == 1:
            del data[at : at + chance.choice([1, 2, 8, 100, 5000])]
        elif kind == 2:
            data[at:at] = chance.choice(WORDS)
        elif kind == 3:
            del data[at:]
        elif kind == 4:
            data[at:at] = data[at : at + chance.choice([10, 200, 5000])]
        elif kind == 5 and other:
            begin = chance.randrange(len(other))
            data[at : at + chance.choice([0, 100])] = other[begin : begin + chance.choice([20, 500, 20000])]
        elif kind == 6:  # a number becomes another
            start = next((i for i in range(at, min(at + 300, len(data))) if chr(data[i]).isdigit()), None)
            if start is not None:
                end = start
                while end < len(data) and chr(data[end]) in "0123456789.eE+-":
                    end += 1
                data[start:end] = chance.choice(WORDS)
        else:
            data[at : at + 4] = chance.randbytes(4)
    made = bytes(data)
    return gzip.compress(made)[: chance.choice([10**9, 10**9, 1000])] if chance.randrange(12) == 0 else made


def attempt(path: str, form: str, folder: str, answer: Any) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    part = read_part(Source(Path(path), "fuzzed"), Path(folder), form)
    answer.put((part.refused or "", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10))


def outcome(path: Path, form: str, workspace: Path, context: Any) -> str:
    """What became of a file: "read", "refused", or what went wrong."""
    folder = workspace / "stage"
    shutil.rmtree(folder, ignore_errors=True)
    answer = context.SimpleQueue()
    child = context.Process(target=attempt, args=(str(path), form, str(folder), answer))
    child.start()
    child.join(SECONDS)
    if child.is_alive():
        child.kill()
        child.join()
        return f"hangs for {SECONDS} s"
    if child.exitcode:
        return f"the process ended with {child.exitcode}"
    text, _memory = answer.get()
    if "itself failed" in text or "needs more memory" in text:
        return str(text)
    return "refused" if text else "read"


def fuzz(form: str, contents: list[bytes], args: argparse.Namespace, workspace: Path) -> Iterator[tuple[str, bytes]]:
    context = multiprocessing.get_context("fork")  # the parent has loaded all modules and started no thread
    chance = random.Random(f"{args.seed} {form}")
    path = workspace / "input"
    end = time.monotonic() + args.seconds
    while time.monotonic() < end:
        made = damaged(chance.choice(contents), chance.choice(contents), chance)
        path.write_bytes(made)
        yield outcome(path, form, workspace, context), made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--format", help="formats, by commas; all of which there are real files without it")
    parser.add_argument("--seconds", type=float, default=60, help="for each format")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--traces", type=Path, default=ROOT.parent / "shared/traces")
    parser.add_argument("--keep", type=Path, default=Path("/tmp/wcbench-fuzz"))
    args = parser.parse_args()
    wanted = args.format.split(",") if args.format else None
    for module in ("pyarrow.parquet", "pandas", "isal.isal_zlib"):
        importlib.import_module(module)
    for name in READERS.names():
        reader(name)
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        workspace = Path(folder)
        (workspace / "unpacked").mkdir()
        found = seeds(args.traces, workspace / "unpacked")
        for form, contents in found.items():
            if wanted is not None and form not in wanted:
                continue
            results: collections.Counter[str] = collections.Counter()
            for result, content in fuzz(form, contents, args, workspace):
                kind = result if result in ("read", "refused") else "FAILED"
                results[kind] += 1
                if kind == "FAILED":
                    failed += 1
                    args.keep.mkdir(parents=True, exist_ok=True)
                    kept = args.keep / f"{form}-{failed}"
                    kept.write_bytes(content)
                    print(f"{form}: {kept}: {result}", flush=True)
            print(f"{form}: {dict(results)} of {len(contents)} files", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
