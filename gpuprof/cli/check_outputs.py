"""Where a review is written: the terminal, stdout in a format, files, each in the format that its name tells."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpuprof.cli.compare_outputs import note_without_line
from gpuprof.cli.options import Command, Destination, format_option, mapping_paths
from gpuprof.cli.output import say, write_files, write_lines
from gpuprof.collect.overwrite import refuse_overwrite
from gpuprof.errors import UsageError
from gpuprof.views.formats import HTML, TABLE, Format, format_of_file, formats_of, main_endings
from gpuprof.views.options import WriteOptions

if TYPE_CHECKING:
    from gpuprof.review.contract import Review

_ENDINGS = main_endings("review")


def writing(function: Command) -> Command:
    """--format, -o, --top, -v: what is written, and where."""
    options: tuple[Callable[[Command], Command], ...] = (
        format_option("review"),
        click.option(
            "-o",
            "--output",
            "outputs",
            type=Destination(path_type=Path),
            multiple=True,
            metavar="FILE",
            help=f"Also write a file, by its ending: {_ENDINGS}. Repeatable.",
        ),
        mapping_paths,
        click.option(
            "--top",
            type=click.IntRange(min=0),
            metavar="N",
            help="Findings and kernels to show; 0 for all. Default: as many as 30 lines leave, 20 in md.",
        ),
        click.option("-v", "--verbose", is_flag=True, help="Every kernel in depth: loops, accesses, evidence."),
    )
    for option in reversed(options):
        function = option(function)
    return function


def refuse_outputs(form: str, outputs: Sequence[Path], inputs: Sequence[str], *, has_limits: bool, force: bool) -> None:
    """Raise UsageError for files without a format, for what would be replaced, and for test cases without limits."""
    places = [os.path.realpath(file) for file in outputs]
    for index, place in enumerate(places):
        if place in places[:index]:
            raise UsageError(f"-o {outputs[index]} is given twice", "name each file once")
    names = [form, *(_format(file).name for file in outputs)]
    if "junit" in names and not has_limits:
        raise UsageError("junit has a test case for each limit, and there are none", "add --fail-on, such as spills")
    refuse_overwrite(outputs, inputs, force=force)


def _format(file: Path) -> Format:
    form = format_of_file("review", str(file))
    if form is None:
        raise UsageError(f"-o {file!s:.100}: its ending tells no format", f"endings are {_ENDINGS}")
    return form


def written(review: Review, outputs: Sequence[Path], options: WriteOptions) -> None:
    """Write all files or none, and say so."""
    if not outputs:
        return
    write_files({file: _content(review, _format(file), options) for file in outputs}, through_links=True)
    say(f"wrote {', '.join(map(str, outputs))}")
    note_without_line(review, map(_format, outputs), options)


def is_in_file(form: str, outputs: Sequence[Path]) -> bool:
    """Return whether the format is a page that was written to a file, so that it need not be printed."""
    return form == HTML and any(_format(file).name == HTML for file in outputs)


def _content(review: Review, form: Format, options: WriteOptions) -> bytes:
    return "".join(f"{line}\n" for line in form.lines(review, options)).encode("utf-8", "backslashreplace")


def print_reviewed(review: Review, form: str, options: WriteOptions, *, verbose: bool, chosen: bool) -> None:
    """Print the review: to the terminal, or as lines."""
    row = formats_of("review")[form]
    if form != TABLE:
        write_lines(row.lines(review, options))
        note_without_line(review, [row], options)
        return
    from gpuprof.views.terminal import make_console

    row.write(make_console(), review, top=options.top, verbose=verbose, chosen=chosen)
