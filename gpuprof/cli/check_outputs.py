"""Where a review is written: the terminal, stdout in a format, files, each in the format that its name tells."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpuprof.cli.options import Command, Destination, format_option
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


def file_formats(outputs: Sequence[Path], inputs: Sequence[str], *, force: bool) -> list[Format]:
    """Return the formats of files. Raises UsageError where a name tells none, and for what would be replaced."""
    places = [os.path.realpath(file) for file in outputs]
    for index, place in enumerate(places):
        if place in places[:index]:
            raise UsageError(f"-o {outputs[index]} is given twice", "name each file once")
    forms = [_format(file) for file in outputs]
    refuse_overwrite(outputs, inputs, force=force)
    return forms


def _format(file: Path) -> Format:
    form = format_of_file("review", str(file))
    if form is None:
        raise UsageError(f"-o {file!s:.100}: its ending tells no format", f"endings are {_ENDINGS}")
    return form


def written(review: Review, outputs: Sequence[Path], top: int | None) -> None:
    """Write all files or none, and say so."""
    if not outputs:
        return
    options = WriteOptions(top)
    write_files({file: _content(review, _format(file), options) for file in outputs}, through_links=True)
    say(f"wrote {', '.join(map(str, outputs))}")


def is_in_file(form: str, outputs: Sequence[Path]) -> bool:
    """Return whether the format is a page that was written to a file, so that it need not be printed."""
    return form == HTML and any(_format(file).name == HTML for file in outputs)


def _content(review: Review, form: Format, options: WriteOptions) -> bytes:
    return "".join(f"{line}\n" for line in form.lines(review, options)).encode("utf-8", "backslashreplace")


def print_reviewed(review: Review, form: str, top: int | None, *, verbose: bool, chosen: bool) -> None:
    """Print the review: to the terminal, or as lines."""
    row = formats_of("review")[form]
    if form != TABLE:
        write_lines(row.lines(review, WriteOptions(top)))
        return
    from gpuprof.views.terminal import make_console

    row.write(make_console(), review, top=top, verbose=verbose, chosen=chosen)
