"""The stream of events: what costs memory or time, and the scanners for damaged text."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.profilers.readers.conftest import Run
from tests.profilers.readers.traces import KINETO, kernel, op, trace
from wcbench.profilers.readers.events import list_end, mended, object_end

# Reads files in a process of its own; prints for each what it held at most until then (MiB), rows, losses and what it
# was refused for.
CHILD = """
import sys, tempfile
from pathlib import Path
from wcbench.profilers.readers.gather import read_part
from wcbench.profilers.readers.source import Source
for file in sys.argv[1:]:
    with tempfile.TemporaryDirectory() as folder:
        part = read_part(Source(Path(file), "trace"), Path(folder) / "part", "kineto")
    status = Path("/proc/self/status").read_text()  # ru_maxrss has the parent's memory in it
    peak = int(status.split("VmHWM:")[1].split()[0]) / 1024
    print(repr((peak, dict(part.rows), [(loss.what, loss.why) for loss in part.losses], part.refused)))
"""
Read = tuple[float, dict[str, int], list[tuple[str, str]], str | None]


def child(*files: Path, timeout: float = 100) -> list[Read]:
    """Read files in a child that is ended after ``timeout`` seconds."""
    command = [sys.executable, "-c", CHILD, *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=True)
    return [ast.literal_eval(line) for line in done.stdout.splitlines()]


def synthetic(file: Path, steps: int) -> None:
    """A trace of ten events a step, five of them operators, two calls, two kernels and a flow."""
    with file.open("w") as out:
        out.write('{"schemaVersion": 1, "traceEvents": [\n')
        for i in range(steps):
            at, number = 100 * i, 2 * i
            out.write(
                "".join(
                    f'{{"ph": "X", "cat": "cpu_op", "name": "aten::op{k}", "pid": 1, "tid": 1, "ts": {at + k}.5, '
                    f'"dur": {50 - 2 * k}.25, "args": {{"External id": {5 * i + k}, "Ev Idx": {i}}}}},\n'
                    for k in range(5)
                )
            )
            for k in range(2):
                launch = {"correlation": number + k}
                work = {"device": 0, "stream": 7, **launch, "grid": [1, 2, 3], "block": [64, 1, 1]}
                out.write(
                    f'{{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, '
                    f'"ts": {at + 10 + k}, "dur": 1, "args": {json.dumps(launch)}}},\n'
                    f'{{"ph": "X", "cat": "kernel", "name": "gemm{i % 50}", "pid": 0, "tid": 7, '
                    f'"ts": {at + 20 + 5 * k}, "dur": 4, "args": {json.dumps(work)}}},\n'
                )
            out.write(f'{{"ph": "s", "id": {i}, "pid": 1, "tid": 1, "ts": {at}, "cat": "ac2g", "name": "ac2g"}},\n')
        out.write('{"ph": "M", "name": "end", "pid": 1, "tid": 1, "ts": 0, "args": {}}]}')


def test_case_23_memory_does_not_grow_with_the_number_of_events(tmp_path: Path) -> None:
    small, large = tmp_path / "small.json", tmp_path / "large.json"
    synthetic(small, 15_000)
    synthetic(large, 60_000)
    peak, rows, losses, refused = child(small)[0]
    assert (rows["ops"], rows["runtime"], rows["kernels"], losses, refused) == (75_000, 30_000, 30_000, [], None)
    more, rows, losses, refused = child(large)[0]
    assert (rows["ops"], rows["runtime"], rows["kernels"], losses, refused) == (300_000, 120_000, 120_000, [], None)
    assert more < 1.5 * peak, f"{peak:.0f} MiB for 150,000 events, {more:.0f} MiB for 600,000"


HEAD = '{"schemaVersion": 1, "traceEvents": [' + json.dumps(op("first", 1, 2)) + ", "
LAST = json.dumps(op("last", 10, 2)) + "]}"
LONG = 100 << 20
NASTY = {
    "nesting in args": ('{"ph":"X","cat":"cpu_op","name":"odd","ts":5,"dur":1,"args":{"a":' + "[" * 1_000_000
                        + "]" * 1_000_000 + "}}, "),
    "open nesting": '{"ph":"X","cat":"cpu_op","name":"odd","ts":5,"dur":1,"args":{"a":' + "[" * 1_000_000 + "}}, ",
    "objects in objects": '{"ph":"X","name":' + '{"a":' * 200_000 + "1" + "}" * 200_000 + "}, ",
    "escaped quotes and no end": '{"ph":"X","cat":"cpu_op","name":"' + '\\"' * 1_000_000 + "}, ",
    "beginnings of events": '{"ph":"' * 50_000 + ", ",
    "braces": "}" * 3_000_000 + ", ",
    "quotes": '"' * 2_000_001 + ", ",
    "backslashes": '{"ph":"X","name":"' + "\\" * 2_000_001 + '"}, ',
    "boundaries": '},{"ph"' * 20_000 + ", ",
    "control characters": '{"ph":"X","cat":"cpu_op","name":"' + "\n" * 500_000 + '","ts":5,"dur":1}, ',
}  # fmt: skip


@pytest.mark.slow
def test_no_damage_takes_long_or_much_memory(tmp_path: Path) -> None:
    files = []
    for number, text in enumerate(NASTY.values()):
        files.append(tmp_path / f"{number}.json")
        files[-1].write_text(HEAD + text + LAST)
    for what, (peak, rows, losses, refused) in zip(NASTY, child(*files), strict=True):
        assert refused is None, what
        assert rows["ops"] >= 1, what
        assert rows["ops"] == 3 or losses, what
        assert peak < 600, what


@pytest.mark.slow
def test_a_string_of_100_mb_takes_no_memory_of_its_size_many_times(tmp_path: Path) -> None:
    whole, cut = tmp_path / "whole.json", tmp_path / "cut.json"
    start = HEAD + '{"ph":"X","cat":"cpu_op","ts":5,"dur":1,"name":"'
    whole.write_text(start + "a" * LONG + '"}, ' + LAST)
    cut.write_text(start + 'a\\"' * (LONG // 3))
    for (peak, rows, losses, refused), expected in zip(child(whole, cut), (2, 1), strict=True):
        assert refused is None
        assert rows["ops"] == expected
        assert losses
        assert peak < 500


def test_a_name_of_a_million_characters_is_cut_and_told(run: Run) -> None:
    found = run(KINETO, trace(op("é" * 1_000_000, 1, 5), op("b", 2, 1), kernel(5, 1, name="k" * 1_000_000)))
    assert [len(name) for name in found.tables["ops"]["name"].astype(str)] == [1 << 16, 1]
    assert [(loss.what, loss.count) for loss in found.losses] == [("the end of a name", 2)]


def test_the_same_name_a_thousand_times_is_one_text(run: Run) -> None:
    found = run(KINETO, trace(*(op("aten::add", 10 * i, 5) for i in range(1000))))
    assert found.tables["ops"]["name"].cat.categories.tolist() == ["aten::add"]


# --- scanners -------------------------------------------------------------------------------------------------------

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=8)
    | st.sampled_from(["}", "]", '"', "\\", '\\"', "},{"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=100, deadline=None)
@given(values=st.lists(JSON, max_size=5), behind=st.text(max_size=10))
def test_the_end_of_a_list_is_where_its_bracket_stands(values: list[object], behind: str) -> None:
    text = json.dumps(values)
    assert list_end((text[1:] + behind).encode()) == len(text.encode()) - 2
    assert list_end(text[1:-1].encode()) is None


@settings(max_examples=100, deadline=None)
@given(value=st.dictionaries(st.text(max_size=4), JSON, max_size=4), behind=st.text(max_size=10))
def test_the_end_of_an_object_is_where_its_brace_stands(value: dict[str, object], behind: str) -> None:
    text = json.dumps(value)
    assert object_end((text + behind).encode(), 0, 1 << 20) == len(text.encode())
    assert object_end(text[:-1].encode(), 0, 1 << 20) is None


@settings(max_examples=100, deadline=None)
@given(value=JSON, ascii_only=st.booleans())
def test_mending_leaves_good_json_as_it_is(value: object, ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    if not any("\ud800" <= character <= "\udfff" for character in text):
        assert mended(text.encode()) == text.encode()


@pytest.mark.parametrize(
    ("damaged", "meant"),
    [
        (rb'"torch\cuda\__init__.py"', r"torch\cuda\__init__.py"),
        (rb'"C:\\cuda\_x"', r"C:\cuda\_x"),
        (rb'"\u12\u0041"', r"\u12A"),
        (b'"a\nb\x01"', "a\nb\x01"),
        (b'"\xff"', "\ufffd"),
        (b'"\\', None),
        (b'"open', None),
    ],
)
def test_mending_mends(damaged: bytes, meant: str | None) -> None:
    if meant is None:
        mended(damaged)  # comes to an end
    else:
        assert json.loads(mended(damaged)) == meant
