"""What the benchmarks with several commands share: how they end, and the options of those that work in parts."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.parts import write_folder
from gpuprof.errors import GpuprofError

LEFT = 75
"""The exit code where time did not suffice: the same command goes on."""


def run(parser: argparse.ArgumentParser, arguments: Sequence[str] | None) -> int:
    """Run the command that the words name, the default `run` of its parser; return its exit code or an error's."""
    options = parser.parse_args(arguments)
    try:
        return int(options.run(options))
    except GpuprofError as error:
        print(f"error: {error.message}", file=sys.stderr)
        if error.hint:
            print(f"hint: {error.hint}", file=sys.stderr)
        return error.exit_code


def minutes(text: str) -> float:
    """Read a number of minutes."""
    value = float(text)
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is no time")
    return value


def count(text: str) -> int:
    """Read a whole number above zero."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not above zero")
    return value


def add_part_options(command: argparse.ArgumentParser) -> None:
    """Add what work on a GPU has that can be done in parts."""
    command.add_argument("--minutes", type=minutes, metavar="M", help="stop before what does not fit; goes on later")
    command.add_argument("--archive", type=Path, metavar="FILE", help="also write a tar.gz, in parts of 15 MB")
    command.add_argument("--ncu", metavar="PATH", help="this ncu instead of the newest that the driver supports")


def seconds_of(options: argparse.Namespace) -> float:
    """Return how long it may take."""
    return math.inf if options.minutes is None else 60 * float(options.minutes)


def ended(folder: Path, archive: Path | None, problems: int, left: Sequence[str], tell: Callable[[str], None]) -> int:
    """Write the archive, tell what is left; return 0, 1 where something is wrong, or LEFT."""
    for file in write_folder(archive, folder) if archive is not None else ():
        tell(f"archive: {file}")
    if left:
        tell(f"{len(left)} left, the same command goes on: {', '.join(left)}")
    return 1 if problems else LEFT if left else 0
