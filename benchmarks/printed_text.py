"""Holds what gpuprof reads of ncu's text against what it reads of the CSV that the same ncu writes of the same report.

    python -m benchmarks.printed_text NCU REPORT.ncu-rep …

It ends with 1 where a launch, a value or a message of a rule differs by more than what printing rounds.
"""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Iterator, Mapping

from gpuprof.model.recorded import Launch
from gpuprof.read.ncu_csv import read_ncu_csv
from gpuprof.read.ncu_text import read_ncu_text

_FORMS = (
    (),
    ("--print-details", "all"),
    ("--page", "raw"),
    ("--print-metric-name", "name"),
    ("--print-metric-name", "label-name"),
)
_ROUNDED, _LAST_DIGIT = 0.01, 0.0051
_SHOWN = 5


def main() -> int:
    """Compare every report in every form that ncu prints."""
    if len(sys.argv) < 3:
        sys.stderr.write(__doc__ or "")
        return 2
    ncu, *reports = sys.argv[1:]
    differ = 0
    for report in reports:
        for form in _FORMS:
            text, table = (_printed(ncu, report, form, more) for more in ((), ("--csv", "--print-units", "auto")))
            ours, theirs = read_ncu_text(text, report, "").launches, read_ncu_csv(table, report, "").launches
            problems = [problem for pair in zip(ours, theirs, strict=False) for problem in _differences(*pair)]
            problems += [f"{len(ours)} launches, not {len(theirs)}"] if len(ours) != len(theirs) else []
            sys.stdout.write(f"{report} {' '.join(form)}: {len(ours)} launches, {len(problems)} differences\n")
            sys.stdout.writelines(f"    {problem}\n" for problem in problems[:_SHOWN])
            differ += len(problems)
    return 1 if differ else 0


def _printed(ncu: str, report: str, form: tuple[str, ...], more: tuple[str, ...]) -> str:
    line = [ncu, "--import", report, *form, *more]
    return subprocess.run(line, check=True, capture_output=True, text=True).stdout


def _differences(ours: Launch, theirs: Launch) -> Iterator[str]:
    for what in ("name", "demangled", "process", "stream", "grid", "block", "ranges"):
        if getattr(ours, what) != getattr(theirs, what):
            yield f"{what}: {getattr(ours, what)!r}, not {getattr(theirs, what)!r}"
    values, expected = _values(ours), _values(theirs)
    for name in sorted(values.keys() | expected.keys()):
        if not _is_alike(values.get(name), expected.get(name)):
            yield f"{name}: {values.get(name)!r}, not {expected.get(name)!r}"


def _values(launch: Launch) -> Mapping[str, float | str]:
    metrics = ((name, launch.metrics.get(name)) for name in launch.metrics.names())
    return {name: metric.value for name, metric in metrics if metric is not None}


def _is_alike(value: float | str | None, other: float | str | None) -> bool:
    if isinstance(value, float) and isinstance(other, float):
        return math.isclose(value, other, rel_tol=_ROUNDED, abs_tol=_LAST_DIGIT)
    return value == other


if __name__ == "__main__":
    sys.exit(main())
