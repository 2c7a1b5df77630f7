"""What every report of a folder implies of its GPU's peaks, beside what the spec says.

    python benchmarks/denominators.py FOLDER … [--spec NAME] [--disagreements]

Prints a line for every fact of a spec that a report could be held against: what it implies, what the spec says, by how
much they differ and by how much they may. A line that disagrees is followed by its likely reason.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import gpuprof
from gpuprof.errors import GpuprofError
from gpuprof.model.denominators import amount
from gpuprof.model.session import Denominator, Session
from gpuprof.read.identify import REPORTS

SUFFIXES = (*REPORTS, ".csv")


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; the status says whether every fact agrees."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--spec", help="of text exports, which do not name their GPU")
    parser.add_argument("--disagreements", action="store_true", help="leave out what agrees")
    chosen = parser.parse_args(arguments)
    checked, differing, silent = 0, 0, []
    for path in sorted(file for folder in chosen.folders for file in _reports(folder)):
        try:
            session = gpuprof.load(path, spec=chosen.spec)
        except GpuprofError as error:
            print(f"{path.name}: {error.message}")
            continue
        checked += len(session.denominators)
        differing += sum(check.disagreement is not None for check in session.denominators)
        if not session.denominators:
            silent.append(path.name)
        for line in _lines(session, path.name, every=not chosen.disagreements):
            print(line)
    print(f"{checked} facts held against reports, {differing} disagree")
    print(f"nothing to hold against: {len(silent)} reports: {', '.join(silent) or 'none'}")
    return 1 if differing else 0


def _reports(folder: Path) -> Iterator[Path]:
    if folder.is_file():
        yield folder
    yield from (file for file in folder.rglob("*") if file.name.endswith(SUFFIXES))


def _lines(session: Session, name: str, *, every: bool) -> Iterator[str]:
    for check in session.denominators:
        if not every and check.disagreement is None:
            continue
        spec = session.devices[check.device].spec or session.devices[check.device].compute_capability or "?"
        yield f"{name[:44]:44} {spec:18} {_numbers(check)}"
        if check.reason is not None:
            yield f"    {check.disagreement}: {check.reason}"


def _numbers(check: Denominator) -> str:
    implied, specified = (amount(value, check.measure) for value in (check.implied, check.specified))
    off = check.implied / check.specified - 1
    return f"{check.fact:30} {implied:>14} {specified:>14} {off:+8.2%} of {check.tolerance:.2%}  {check.implied_by}"


if __name__ == "__main__":
    sys.exit(main())
