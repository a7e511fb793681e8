"""Size and time of the reports of a real study.

`python benchmarks/reports.py STUDY` makes HTML, PDF (A4 and letter) and JSON of the study in a folder, each in a
process of its own as the command line does, prints bytes and seconds, and ends with 1 where one of HTML and PDF has
3 MB or more or takes 30 s or more.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LARGEST, SLOWEST = 3_000_000, 30.0
FORMS = {
    "study.html": (),
    "study.pdf": ("--pdf",),
    "study-letter.pdf": ("--pdf", "--paper", "letter"),
}


def timed(arguments: list[str]) -> tuple[float, bytes]:
    """Seconds of a whole `wcbench` command, start of Python included, and what it printed."""
    command = [sys.executable, "-c", "from wcbench.cli import main; main()", *arguments]
    start = time.perf_counter()
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    return time.perf_counter() - start, done.stdout


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", type=Path, help="folder of a study")
    args = parser.parse_args()
    print(f"{args.study}, load of the machine {os.getloadavg()[0]:.1f}")
    held = True
    with tempfile.TemporaryDirectory() as folder:
        for name, options in FORMS.items():
            file = Path(folder) / name
            seconds, _ = timed(["report", str(args.study), "-o", str(file), "--quiet", *options])
            size = file.stat().st_size
            fits = size < LARGEST and seconds < SLOWEST
            held &= fits
            print(f"  {name:18} {size:10,} bytes  {seconds:6.2f} s{'' if fits else '  TOO MUCH'}", flush=True)
    seconds, told = timed(["report", str(args.study), "--json", "--quiet"])
    print(f"  {'JSON':18} {len(told):10,} bytes  {seconds:6.2f} s")
    print(f"limits: {LARGEST:,} bytes and {SLOWEST:.0f} s: {'held' if held else 'NOT held'}")
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
