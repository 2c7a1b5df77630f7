"""How often the diagnosis of real reports says what an expert expects, and whether its bounds held.

python -m benchmarks.verdicts [FOLDER]              totals, fixes and kernels, and every disagreement with its reason
    [--markdown]                                    as Markdown
    [--check]                                       fail where an aim is missed that was reached
FOLDER (../shared/reports) holds the reports that tests/data/expected-causes.yaml names, and may have folders itself.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.command_line import run as run_command
from benchmarks.verdicts.expected import read_table
from benchmarks.verdicts.report import markdown, text
from benchmarks.verdicts.told import ReportTold, told_before, told_now
from benchmarks.verdicts.totals import lost, scored

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "reports"


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge the reports of a folder; return 0, 1 where an aim was lost, 2 where no report is there."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.verdicts", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("folder", type=Path, nargs="?", default=FOLDER, metavar="FOLDER")
    parser.add_argument("--markdown", action="store_true", help="print Markdown")
    parser.add_argument("--check", action="store_true", help="fail where an aim is missed that was reached")
    parser.set_defaults(run=_run)
    return run_command(parser, arguments)


def told_of(folder: Path, names: Sequence[str]) -> dict[str, ReportTold]:
    """Diagnose those of the reports that the folder holds."""
    return {name: told_now(path) for name, path in _paths(folder, names)}


def _paths(folder: Path, names: Sequence[str]) -> Iterator[tuple[str, Path]]:
    paths = {path.name: path for path in folder.rglob("*") if path.is_file()}
    for name in names:
        if name in paths:
            yield name, paths[name]
        else:
            print(f"{name} is not in {folder}", file=sys.stderr)


def _run(options: argparse.Namespace) -> int:
    table = read_table()
    told = told_of(options.folder, table.reports)
    if not told:
        return 2
    before = {name: report for name, report in told_before().items() if name in told}
    score = scored(table, told)
    print("\n".join((markdown if options.markdown else text)(scored(table, before), score)))
    missed = lost(score)
    for aim in missed:
        print(f"lost: {aim.name}", file=sys.stderr)
    return 1 if options.check and missed else 0


if __name__ == "__main__":
    sys.exit(main())
