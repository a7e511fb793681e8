"""Build the sample report: study.html, study.pdf and a picture of its first page, study.png, beside this file.

`python reports/samples/build.py [STUDY]` takes the folder of a study; without one it takes the showpiece's, AIBench
Training v1.1 against MLPerf Training v0.7, and makes that first where it is not there (half an hour on two cores).
Equal studies give equal bytes. It is part of no package and not in the wheel.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from wcbench import api
from wcbench.errors import WcbenchError
from wcbench.files import write_whole
from wcbench.reports.pdf import render_page

HERE = Path(__file__).resolve().parent
SUITE, AGAINST = "aibench-training-v1.1", "mlperf-training-v0.7"
SHOWPIECE = HERE.parent.parent / "studies" / f"{SUITE}-against-{AGAINST}"
LARGEST = 3_000_000
"""Bytes that a file may have here: git keeps every version."""


def make_study(folder: Path) -> None:
    """The showpiece, as `wcbench study --suite ... --against ...` makes it; a study that was stopped goes on."""
    command = ("wcbench", "study", "--suite", SUITE, "--against", AGAINST)

    def told(stage: str, done: int, total: int, text: str) -> None:
        print(f"  {stage}: {done} of {total} {text}", flush=True)

    print(f"{folder} is not there and is made.")
    api.study(suites=(SUITE,), against=AGAINST, out=folder, told=told, command=command)


def build(study: Path, out: Path) -> list[Path]:
    """Write the three files into a folder and return them.

    Raises
    ------
    WcbenchError : there is no such study, or a file is larger than `LARGEST`; then nothing is written.
    """
    made = api.make_report(study)
    files = {
        out / "study.html": made.html().encode(),
        out / "study.pdf": made.pdf(),
        out / "study.png": render_page(made.report, 1, ppi=96),
    }
    for file, content in files.items():
        if len(content) > LARGEST:
            raise WcbenchError(f"{file.name} has {len(content):,} bytes, more than {LARGEST:,}.", "Make it smaller.")
    for file, content in files.items():
        write_whole(file, lambda target, content=content: target.write_bytes(content))  # type: ignore[misc]
    return list(files)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", nargs="?", type=Path, default=SHOWPIECE, help="folder of a study")
    parser.add_argument("--out", type=Path, default=HERE, help="folder of the three files")
    args = parser.parse_args()
    if args.study == SHOWPIECE and not (SHOWPIECE / "study.json").is_file():
        make_study(SHOWPIECE)
    try:
        for file in build(args.study, args.out):
            print(f"{file}: {file.stat().st_size:,} bytes")
    except WcbenchError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
