"""The output options of a review: formats by file name, and refusal of files that would be replaced."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import click

from gpuprof.cli.options import Command, Destination, format_option, mapping_paths
from gpuprof.collect.overwrite import refuse_overwrite
from gpuprof.errors import UsageError
from gpuprof.views.formats import Format, format_of_file, main_endings

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


def outputs_of(files: Sequence[Path]) -> dict[Path, Format]:
    """Return the files that -o names with their formats. Raises UsageError if one has none, or is named twice."""
    outputs: dict[Path, Format] = {}
    places = set()
    for file in files:
        form = format_of_file("review", str(file))
        if form is None:
            raise UsageError(f"-o {file!s:.100}: its ending names no format", f"endings are {_ENDINGS}")
        place = os.path.realpath(file)
        if place in places:
            raise UsageError(f"-o {file} is given twice", "name each file once")
        places.add(place)
        outputs[file] = form
    return outputs


def refuse_outputs(
    form: str, outputs: Mapping[Path, Format], inputs: Sequence[str], *, has_limits: bool, force: bool
) -> None:
    """Raise UsageError for files that would be replaced, and for test cases without limits."""
    if "junit" in (form, *(output.name for output in outputs.values())) and not has_limits:
        raise UsageError("junit has a test case for each limit, and there are none", "add --fail-on, such as spills")
    refuse_overwrite(list(outputs), inputs, force=force)
