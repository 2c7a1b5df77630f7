"""Times `gpuprof show --format json` against real ncu's CSV export of the same reports, in turn, and prints ratios."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

RUNS = 11
GPUPROF = Path(sys.executable).with_name("gpuprof")
# As a user has it: Python may keep its compiled files.
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


def main() -> int:
    """Compare on each report; exit 1 if gpuprof is slower on one by the median of the paired ratios."""
    if len(sys.argv) < 3:
        sys.stderr.write("usage: show_vs_ncu.py NCU REPORT...\n")
        return 2
    ncu, reports = sys.argv[1], sys.argv[2:]
    print(
        f"{'report':44} {'gpuprof':>9} {'ncu':>9} {'ratio':>7}   (medians of {RUNS} alternating runs, ratio by pairs)"
    )
    slower = 0
    for report in reports:
        ours, theirs = compare(ncu, report)
        ratio = statistics.median(mine / other for mine, other in zip(ours, theirs, strict=True))
        slower += ratio > 1
        name = Path(report).name
        print(f"{name[:44]:44} {median_ms(ours)} {median_ms(theirs)} {ratio:7.2f}")
    start_up = [run_s([str(GPUPROF), "--help"]) for _ in range(RUNS)]
    print(f"gpuprof --help: {median_ms(start_up)}")
    return 1 if slower else 0


def compare(ncu: str, report: str) -> tuple[list[float], list[float]]:
    """Run both commands in turn, after one run of each that does not count. Seconds."""
    mine = [str(GPUPROF), "show", "--format", "json", report]
    theirs = [ncu, "--import", report, "--page", "details", "--csv"]
    run_s(mine), run_s(theirs)
    pairs = [(run_s(mine), run_s(theirs)) for _ in range(RUNS)]
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


def run_s(command: list[str]) -> float:
    """Run a command, throw its output away, and return how long it took in seconds."""
    start = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=ENVIRONMENT, check=False)
    return time.perf_counter() - start


def median_ms(seconds: list[float]) -> str:
    """Write the median in milliseconds."""
    return f"{statistics.median(seconds) * 1e3:6.0f} ms"


if __name__ == "__main__":
    sys.exit(main())
