"""`gpuprof show --by`: time by operator, module, range or kernel, in every format."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from gpuprof.cli.options import Command
from gpuprof.cli.output import print_product, say, to_show, warn
from gpuprof.model.groupings import GROUPINGS
from gpuprof.views.formats import TABLE, formats_of

_TOP = 20

if TYPE_CHECKING:
    from gpuprof.model.session import KernelProfile, Session


def grouping(function: Command) -> Command:
    """--by: what time is told by, in place of the kernels."""
    what = "Sum up the time by operator (default of a PyTorch trace), module, range or kernel."
    return click.option("--by", type=click.Choice(GROUPINGS), help=what)(function)


def print_by(
    session: Session, kernels: Sequence[KernelProfile], by: str, name: str, top: int | None, files: Sequence[str]
) -> None:
    """Print the time of these kernels of a session by what launched them."""
    from gpuprof.model.time_by import time_by

    form = formats_of("times")[name]
    times = time_by(session, kernels, by)
    rows = _TOP if top is None else top
    if form.warns:
        warn(session)
    print_product("times", name, session, times, rows)
    longest = times.groups[0].longest
    if longest is not None and name == TABLE:
        say(f"next: {to_show(files)} --kernel '#{longest.id}'")
