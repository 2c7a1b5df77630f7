"""`gpuprof show --by`: time by operator, module, range or kernel, in every format."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from gpuprof.cli.options import Command
from gpuprof.cli.output import say, to_type, warn, write_lines
from gpuprof.errors import UsageError
from gpuprof.model.groupings import GROUPINGS

if TYPE_CHECKING:
    from gpuprof.model.session import KernelProfile, Session


def grouping(function: Command) -> Command:
    """--by: what time is told by, in place of the kernels."""
    what = "Time by operator, module, range or kernel, with sums."
    return click.option("--by", type=click.Choice(GROUPINGS), help=what)(function)


def refuse_beside_by(by: str | None, explain: str | None, sort: str, items_per_step: float | None) -> None:
    """Raise UsageError if --by was given beside an option that has nothing to say of groups."""
    given = {"--explain": explain is not None, "--sort": sort != "time", "--items-per-step": items_per_step is not None}
    option = next((name for name, is_given in given.items() if is_given), None)
    if by is not None and option is not None:
        raise UsageError(f"--by and {option} cannot be combined", f"leave out --by or {option}")


def print_by(
    session: Session, kernels: Sequence[KernelProfile], by: str, form: str, top: int, files: Sequence[str]
) -> None:
    """Print the time of these kernels of a session by what launched them."""
    from gpuprof.model.time_by import time_by
    from gpuprof.present import time_by_out, time_by_text
    from gpuprof.present.console import make_console

    times = time_by(session, kernels, by)
    warn(session)
    if form == "json":
        write_lines(time_by_out.json_lines(session, times))
    elif form == "csv":
        write_lines(time_by_out.csv_lines(times))
    elif form == "md":
        write_lines(time_by_out.markdown_lines(times, top))
    else:
        time_by_text.print_times(make_console(), times, top)
        longest = times.groups[0].longest
        if longest is not None:
            say(f"next: gpuprof show {to_type(files)} --kernel '#{longest.id}'")
