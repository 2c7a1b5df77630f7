"""How often the gate is wrong: false alarms, changes that are missed, and what stays unclear.

python -m benchmarks.gate [--pairs N]    simulate 10,000 pairs of the same code and 10,000 with a planted change under
    [--markdown]                         each condition, order and number of runs, and print the rates; fail where an
                                         aim is missed. Markdown: the table of docs/explanation/noise.md
    [--all]                              every number of runs instead of 10 a side
    [--quick]                            200 pairs, and no aims: whether it works
    [--write-launches FOLDER]            write launches.csv anew from the traces in a folder
    [--planted FOLDER]                   compare the two kernels of each recorded planted case that is not held out
    [--held-out]                         also of those that are
    [--repeats FILE…]                    compare recorded runs of one program with one another
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from benchmarks.command_line import count
from benchmarks.command_line import run as run_command
from benchmarks.gate import work
from benchmarks.gate.launches import read_kernels, write_kernels
from benchmarks.gate.rates import Cell, cells, missed_aims, rows
from benchmarks.gate.recorded import planted_rows, repeats_rows
from gpuprof.errors import UsageError

PAIRS, QUICK_PAIRS = 10_000, 200


def main(arguments: Sequence[str] | None = None) -> int:
    """Simulate, print the tables; return 0, or 1 where an aim is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gate", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--pairs", type=count, default=PAIRS, metavar="N", help="pairs of each kind (%(default)s)")
    parser.add_argument("--markdown", action="store_true", help="print Markdown")
    parser.add_argument("--all", action="store_true", help="every number of runs a side")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_PAIRS} pairs, no aims")
    parser.add_argument("--write-launches", type=Path, metavar="FOLDER", help="write launches.csv from traces")
    parser.add_argument("--planted", type=Path, metavar="FOLDER", help="compare recorded cases with their fixes")
    parser.add_argument("--held-out", action="store_true", help="with --planted: also cases that are held out")
    parser.add_argument("--repeats", type=Path, nargs="+", metavar="FILE", help="compare recorded runs of one program")
    parser.set_defaults(run=_run)
    return run_command(parser, arguments)


def _run(options: argparse.Namespace) -> int:
    if options.write_launches is not None:
        print(f"{write_kernels(options.write_launches)} kernels")
        return 0
    if options.repeats is not None and len(options.repeats) < 2:
        raise UsageError("--repeats has one file, and a run is compared with another", "name two files or more")
    if options.planted is not None or options.repeats is not None:
        table = (
            planted_rows(options.planted, held_out=options.held_out)
            if options.planted is not None
            else repeats_rows(options.repeats)
        )
        print("\n".join(_lines(table, markdown=options.markdown)))
        return 0
    pairs = QUICK_PAIRS if options.quick else options.pairs
    every = list(cells(pairs, read_kernels()))
    table = _every_row(every) if options.all else rows(every)
    print("\n".join(_lines(table, markdown=options.markdown)))
    missed = [] if options.quick else missed_aims(every)
    missed += _work(pairs, markdown=options.markdown, quick=options.quick)
    for sentence in missed:
        print(f"missed: {sentence}", file=sys.stderr)
    return 1 if missed else 0


def _work(pairs: int, *, markdown: bool, quick: bool) -> list[str]:
    """Print the table of planted changes of work; return the aims that it misses."""
    print("", *_lines(work.rows(pairs), markdown=markdown), sep="\n")
    return [] if quick else work.missed_aims(pairs)


def _every_row(every: Iterable[Cell]) -> Iterator[tuple[str, ...]]:
    yield "condition", "order", "runs", "noise seen", "false alarms", "same code unclear", "+2 % found", "missed"
    for cell in every:
        shares = (cell.spread, cell.false, cell.unclear, cell.caught, cell.missed)
        yield (
            cell.condition.name,
            cell.order,
            str(cell.runs),
            *(f"{share:.2%}".replace("%", " %") for share in shares),
        )


def _lines(table: Iterable[Sequence[str]], *, markdown: bool) -> Iterator[str]:
    lines = [tuple(row) for row in table]
    if markdown:
        head, *body = (f"| {' | '.join(row)} |" for row in lines)
        yield from (head, "|" + "---|" * len(lines[0]), *body)
        return
    widths = [max(len(row[column]) for row in lines) for column in range(len(lines[0]))]
    for row in lines:
        yield "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()


if __name__ == "__main__":
    sys.exit(main())
