"""`gpuprof show FILE…`: the terminal view, or the same values as JSON, CSV or Markdown; `--explain` for one kernel."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from gpuprof.cli.options import input_files, reading, selecting
from gpuprof.cli.output import to_type, warn, write_lines
from gpuprof.cli.select import SORT_KEYS, select_kernels, sort_kernels
from gpuprof.errors import UsageError
from gpuprof.present.formats import DEFAULT, FORMATS, Format

if TYPE_CHECKING:
    from gpuprof.model.session import KernelProfile, Session


@click.command("show")
@input_files
@click.option(
    "--format",
    "form",
    type=click.Choice(list(FORMATS)),
    default=DEFAULT,
    show_default=True,
    help="What to print.",
)
@click.option(
    "--sort", type=click.Choice(sorted(SORT_KEYS)), default="time", show_default=True, help="Order of the kernels."
)
@click.option(
    "--explain",
    metavar="REGEX|#N",
    help="Why one kernel takes its time, as a tree: issue slots, warps, stall reasons, causes, findings, lines.",
)
@click.option(
    "--items-per-step",
    type=click.FloatRange(0, min_open=True),
    metavar="N",
    help="Tokens or samples in a step of a timeline: gives their rate.",
)
@click.option(
    "--cost-per-hour",
    type=click.FloatRange(0, min_open=True),
    metavar="AMOUNT",
    help="Price of the machine: gives the cost of a million items.",
)
@selecting
@reading
def command(
    files: tuple[str, ...],
    form: str,
    sort: str,
    explain: str | None,
    items_per_step: float | None,
    cost_per_hour: float | None,
    kernel: str | None,
    top: int,
    spec: str | None,
    salvage: bool,
) -> None:
    """Print what to fix first, and kernels with their findings, roofline, occupancy and stalls.

    FILE is a .ncu-rep or .ncu-repz, an ncu CSV export (raw or details page), a session.json, a page of gpuprof report
    (.html), a PyTorch trace, an SQLite export of Nsight Systems, or - for text on standard input. Several reports are
    shown as one run, equal launches as one kernel. JSON and CSV hold every launch that --kernel selects;
    tables stop at --top.
    """
    from gpuprof.api import load
    from gpuprof.diagnose.summary import chosen

    if cost_per_hour is not None and items_per_step is None:
        raise UsageError("--cost-per-hour needs to know what is paid for", "add --items-per-step N")
    wanted = FORMATS[form]
    if explain is not None and (kernel is not None or wanted.tree is None):
        wrong = "--kernel" if kernel is not None else f"--format {form}"
        raise UsageError(f"--explain and {wrong} exclude each other", "--explain KERNEL names the kernel itself")
    names_a_launch = re.fullmatch(r"#[0-9]+", kernel or explain or "") is not None
    groups = wanted.takes != "launches" and not names_a_launch
    session = load(*files, spec=spec, salvage=salvage, groups=groups or (explain is not None and not names_a_launch))
    if explain is not None:
        _explain(session, explain, wanted, files)
        return
    if wanted.takes == "launches":
        _write_launches(session, sort_kernels(select_kernels(session, kernel), sort), wanted)
        return
    run, selected = _kernels(session, kernel)
    kernels = sort_kernels(selected, sort)
    part = chosen(run, selected) if kernel is not None else run
    if wanted.kernels.warns:
        warn(session)
    if wanted.takes == "terminal":
        rates = items_per_step, cost_per_hour
        _print_table(run, part, kernels, top, files, rates, wanted, depth=kernel is not None)
    else:
        write_lines(wanted.kernels.function()(part, kernels, top))


def _kernels(session: Session, pattern: str | None) -> tuple[Session, list[KernelProfile]]:
    """Return the session with equal launches as one kernel, and the kernels that are asked for.

    `#N` may also name a launch that another one of its kind speaks for.
    """
    from gpuprof.diagnose.grouping import grouped

    groups = grouped(session)
    is_number = pattern is not None and re.fullmatch(r"#[0-9]+", pattern)
    speaks = any(f"#{kernel.id}" == pattern for kernel in groups.kernels)
    return groups, select_kernels(session if is_number and not speaks else groups, pattern)


def _write_launches(session: Session, kernels: Sequence[KernelProfile], form: Format) -> None:
    from gpuprof.diagnose.summary import chosen

    if form.kernels.warns:
        warn(session)
    write_lines(form.kernels.function()(chosen(session, kernels)))


def _print_table(
    run: Session,
    part: Session,
    kernels: Sequence[KernelProfile],
    top: int,
    files: Sequence[str],
    rates: tuple[float | None, float | None],
    form: Format,
    *,
    depth: bool,
) -> None:
    from gpuprof.present.console import make_console
    from gpuprof.present.session_text import count_text, row_noun
    from gpuprof.present.timeline_text import Rates

    form.kernels.function()(make_console(), part, list(kernels), top, depth=depth, rates=Rates(*rates))
    if not kernels:
        return
    shown = len(kernels[:top] if top else kernels)
    depths = "all in depth" if depth and shown > 1 else f"#{kernels[0].id} in depth"
    number = kernels[0].id
    rows = count_text(len(run.kernels), *row_noun(run.kernels))
    _say(f"shown: {shown} of {rows}, {depths}", f"show --explain '#{number}'", files)


def _explain(session: Session, pattern: str, form: Format, files: Sequence[str]) -> None:
    """Print the tree of the longest kernel that matches, and say how many others there are."""
    from gpuprof.diagnose.explain import explain
    from gpuprof.model.headline import by_time
    from gpuprof.model.sources import kind_named
    from gpuprof.present.session_text import count_text, row_noun
    from gpuprof.present.text import printable

    try:
        run, matching = _kernels(session, pattern)
        longest_first = by_time(matching)
    except UsageError as error:
        raise UsageError(error.message.replace("--kernel", "--explain", 1), error.hint) from error
    kernel = longest_first[0]
    if len(longest_first) > 1:
        rows = count_text(len(longest_first), *row_noun(run.kernels))
        message = f"{rows} match: #{kernel.id} {kernel.label} is explained, the longest; pick one with '#N'"
        click.echo(printable(message), err=True)
    tree = explain(kernel, from_text=kind_named(session.sources[kernel.source].kind).is_text)
    assert form.tree is not None
    write = form.tree.function()
    if form.tree.warns:
        warn(session)
    if form.takes != "terminal":
        write_lines(write(session, kernel, tree))
        return
    from gpuprof.present.console import make_console

    write(make_console(), session, tree)
    _say(f"explained: #{kernel.id}", f"show --kernel '#{kernel.id}'", files)


def _say(what: str, next_step: str, files: Sequence[str]) -> None:
    """Say on stderr what was shown and what to type next."""
    from gpuprof.present.text import printable

    click.echo(printable(f"{what}; next: gpuprof {next_step} {to_type(files)}"), err=True)
