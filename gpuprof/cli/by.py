"""`gpuprof show --by`: time by operator, module, range or kernel, in every format."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from gpuprof.cli.options import Command
from gpuprof.cli.output import say, to_show, warn, write_lines
from gpuprof.model.groupings import GROUPINGS

if TYPE_CHECKING:
    from gpuprof.model.session import KernelProfile, Session
    from gpuprof.present.formats import Format


def grouping(function: Command) -> Command:
    """--by: what time is told by, in place of the kernels."""
    what = "Sum up the time by operator (default of a PyTorch trace), module, range or kernel."
    return click.option("--by", type=click.Choice(GROUPINGS), help=what)(function)


def print_by(
    session: Session, kernels: Sequence[KernelProfile], by: str, form: Format, top: int | None, files: Sequence[str]
) -> None:
    """Print the time of these kernels of a session by what launched them."""
    from gpuprof.model.time_by import time_by
    from gpuprof.present.time_by_text import rows_of

    times, write = time_by(session, kernels, by), form.times.function()
    rows = rows_of(times, top)
    warn(session)
    if form.takes != "terminal":
        write_lines(write(session, times, rows))
        return
    from gpuprof.views.terminal import make_console

    write(make_console(), session, times, rows)
    longest = times.groups[0].longest
    if longest is not None:
        say(f"next: {to_show(files)} --kernel '#{longest.id}'")
