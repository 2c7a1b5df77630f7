"""`gpuprof show FILE…`: the terminal view, or the same values as JSON, CSV or Markdown."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from gpuprof.cli.options import input_files, reading, selecting
from gpuprof.cli.output import warn, write_lines
from gpuprof.cli.select import SORT_KEYS, select_kernels, sort_kernels

if TYPE_CHECKING:
    from gpuprof.model.session import KernelProfile, Session


@click.command("show")
@input_files
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "json", "csv", "md"]),
    default="table",
    show_default=True,
    help="What to print.",
)
@click.option(
    "--sort", type=click.Choice(sorted(SORT_KEYS)), default="time", show_default=True, help="Order of the kernels."
)
@selecting
@reading
def command(
    files: tuple[str, ...],
    form: str,
    sort: str,
    kernel: str | None,
    top: int,
    spec: str | None,
    salvage: bool,
) -> None:
    """Print kernels, their place under the roofline, occupancy and stalls.

    FILE is a .ncu-rep, an ncu CSV export (raw or details page), a session.json, or - for text on standard input.
    Several reports are shown as one run. JSON and CSV hold every kernel that --kernel selects; tables stop at --top.
    """
    from gpuprof.api import load

    session = load(*files, spec=spec, salvage=salvage)
    kernels = sort_kernels(select_kernels(session, kernel), sort)
    if form == "json":
        from gpuprof.present.json_out import session_lines

        write_lines(session_lines(replace(session, kernels=tuple(kernels))))
    elif form == "csv":
        from gpuprof.present.csv_out import csv_lines

        warn(session)
        write_lines(csv_lines(replace(session, kernels=tuple(kernels))))
    elif form == "md":
        from gpuprof.present.markdown import markdown_lines

        warn(session)
        write_lines(markdown_lines(session, kernels, top))
    else:
        _print_table(session, kernels, top, depth=kernel is not None)


def _print_table(session: Session, kernels: list[KernelProfile], top: int, *, depth: bool) -> None:
    from gpuprof.present.console import make_console, print_session

    print_session(make_console(), session, kernels, top, depth=depth)
