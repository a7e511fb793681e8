"""The stream of events: what costs memory or time, and the scanners for damaged text."""

from __future__ import annotations

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

# Reads a file in a process of its own; prints what it held at most (MiB), rows, losses and what it was refused for.
CHILD = """
import resource, sys, tempfile
from pathlib import Path
from wcbench.profilers.readers.gather import read_part
from wcbench.profilers.readers.source import Source
with tempfile.TemporaryDirectory() as folder:
    part = read_part(Source(Path(sys.argv[1]), "trace"), Path(folder) / "part", "kineto")
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(repr((peak, dict(part.rows), [(loss.what, loss.why) for loss in part.losses], part.refused)))
"""


def child(file: Path, timeout: float = 60) -> tuple[float, dict[str, int], list[tuple[str, str]], str | None]:
    """Read a file in a child that is ended after ``timeout`` seconds."""
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(file)], capture_output=True, text=True, timeout=timeout, check=True
    )
    peak, rows, losses, refused = eval(done.stdout)
    return peak, rows, losses, refused


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
    peak, rows, losses, refused = child(small)
    assert (rows["ops"], rows["runtime"], rows["kernels"], losses, refused) == (75_000, 30_000, 30_000, [], None)
    more, rows, losses, refused = child(large)
    assert (rows["ops"], rows["runtime"], rows["kernels"], losses, refused) == (300_000, 120_000, 120_000, [], None)
    assert more < 1.5 * peak, f"{peak:.0f} MiB for 150,000 events, {more:.0f} MiB for 600,000"


HEAD = '{"schemaVersion": 1, "traceEvents": [' + json.dumps(op("first", 1, 2)) + ", "
LAST = json.dumps(op("last", 10, 2)) + "]}"
LONG = 100 << 20
NASTY = {
    "nesting in args": ('{"ph":"X","cat":"cpu_op","name":"odd","ts":5,"dur":1,"args":{"a":' + "[" * 1_000_000
                        + "]" * 1_000_000 + "}}, "),
    "open nesting": '{"ph":"X","cat":"cpu_op","name":"odd","ts":5,"dur":1,"args":{"a":' + "[" * 1_000_000 + "}}, ",
    "objects in objects": '{"ph":"X","name":' + '{"a":' * 1_000_000 + "1" + "}" * 1_000_000 + "}, ",
    "escaped quotes and no end": '{"ph":"X","cat":"cpu_op","name":"' + '\\"' * 1_000_000 + "}, ",
    "beginnings of events": '{"ph":"' * 200_000 + ", ",
    "braces": "}" * 3_000_000 + ", ",
    "quotes": '"' * 2_000_001 + ", ",
    "backslashes": '{"ph":"X","name":"' + "\\" * 2_000_001 + '"}, ',
    "boundaries": '},{"ph"' * 200_000 + ", ",
    "control characters": '{"ph":"X","cat":"cpu_op","name":"' + "\n" * 500_000 + '","ts":5,"dur":1}, ',
}  # fmt: skip


@pytest.mark.parametrize("what", NASTY)
def test_no_damage_takes_long_or_much_memory(tmp_path: Path, what: str) -> None:
    file = tmp_path / "t.json"
    file.write_text(HEAD + NASTY[what] + LAST)
    peak, rows, losses, refused = child(file, timeout=40)
    assert refused is None
    assert rows["ops"] >= 1
    assert rows["ops"] == 3 or losses
    assert peak < 900


@pytest.mark.parametrize("cut", [False, True])
def test_a_string_of_100_mb_takes_no_memory_of_its_size_many_times(tmp_path: Path, cut: bool) -> None:
    file = tmp_path / "t.json"
    with file.open("w") as out:
        out.write(HEAD + '{"ph":"X","cat":"cpu_op","ts":5,"dur":1,"name":"')
        for _ in range(LONG >> 20):
            out.write("a\\" * (1 << 19) if cut else "a" * (1 << 20))
        out.write("" if cut else '"}, ' + LAST)
    peak, rows, losses, refused = child(file)
    assert refused is None
    assert rows["ops"] == 1 if cut else 2
    assert losses
    assert peak < 900


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
