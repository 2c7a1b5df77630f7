"""Outputs of a comparison: the terminal, stdout in a format, files, each in the format of its ending."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from gpuprof.cli.options import Command, format_option, mapping_paths
from gpuprof.cli.output import say, to_type, write_files, write_lines
from gpuprof.collect.overwrite import refuse_overwrite
from gpuprof.errors import UsageError
from gpuprof.views.formats import HTML, TABLE, Format, format_of_file, formats_of, main_endings
from gpuprof.views.options import WriteOptions

if TYPE_CHECKING:
    from gpuprof.comparison.compare import Compared

_FORMATS = formats_of("comparison")
_TO_FILES = [name for name in _FORMATS if name != TABLE]
_ENDINGS = main_endings("comparison")


class Output(NamedTuple):
    """A file, and the format that it is written in."""

    file: Path
    form: str


def writing(function: Command) -> Command:
    """--format, -o, --path-map, --top, -v: what is written, and where."""
    options: tuple[Callable[[Command], Command], ...] = (
        format_option("comparison"),
        click.option(
            "-o",
            "--output",
            "outputs",
            multiple=True,
            metavar="[FORMAT=]FILE",
            help=f"Also write a file: {_ENDINGS} (JUnit), or gitlab=FILE. Repeatable. With --run a "
            "name without ending is the folder for what was measured. Default: gpuprof-compare.",
        ),
        mapping_paths,
        click.option("--top", type=click.IntRange(min=0), metavar="N", help="Kernels to show; 0 for all."),
        click.option("-v", "--verbose", is_flag=True, help="Every kernel that changed, in depth."),
    )
    for option in reversed(options):
        function = option(function)
    return function


def outputs_of(values: Sequence[str]) -> tuple[Output, ...]:
    """Return the files that -o names, as FILE or FORMAT=FILE. Raises UsageError if the format is not known."""
    outputs = tuple(_output(value) for value in values)
    places = [os.path.realpath(output.file) for output in outputs]
    for index, place in enumerate(places):
        if place in places[:index]:
            raise UsageError(f"-o {outputs[index].file} is given twice", "name each file once")
    return outputs


def _output(value: str) -> Output:
    form, equals, file = value.partition("=")
    if not equals or not form.isalnum():
        form, file = "", value
    if file in ("", "-"):
        nowhere = "no file is written to standard output" if file else "an empty name"
        raise UsageError(f"-o {value}: {nowhere}", "name a file after -o; --format says what goes to standard output")
    if form and form not in _TO_FILES:
        near = get_close_matches(form, _TO_FILES, n=1)
        hint = f"did you mean -o {near[0]}={file}?" if near else f"formats of -o are {', '.join(_TO_FILES)}."
        raise UsageError(f"-o {value:.100}: unknown format {form:.40}", f"{hint} A file of that name is ./{value:.100}")
    return Output(Path(file), form or _by_name(file))


def _by_name(file: str) -> str:
    form = format_of_file("comparison", file)
    if form is None:
        raise UsageError(
            f"-o {file:.100}: its ending tells no format",
            f"name it, such as -o md={to_type([file[:100]])}; endings are {_ENDINGS}",
        )
    return form.name


def refuse_outputs(outputs: Sequence[Output], inputs: Sequence[str], *, force: bool, in_browser: bool) -> None:
    """Raise UsageError for files that would be replaced, and if --open has no page to open."""
    refuse_overwrite([output.file for output in outputs], inputs, force=force)
    if in_browser and not any(output.form == HTML for output in outputs):
        raise UsageError("--open opens a page, and none is written", "add -o compare.html")


def write_outputs(compared: Compared, outputs: Sequence[Output], options: WriteOptions) -> None:
    """Write all files or none, and say so."""
    if not outputs:
        return
    contents = {output.file: _content(compared, output.form, options) for output in outputs}
    write_files(contents, through_links=True)
    say(f"wrote {', '.join(str(output.file) for output in outputs)}")
    note_without_line(compared, [_FORMATS[output.form] for output in outputs], options)


def note_without_line(product: object, forms: Iterable[Format], options: WriteOptions) -> None:
    """Say on stderr, once for all formats by line, what they show at no line of the repository."""
    form = next((form for form in forms if form.by_line), None)
    for text in form.notes(product, options) if form is not None else ():
        say(f"note: {text}")


def _content(compared: Compared, form: str, options: WriteOptions) -> bytes:
    lines = _FORMATS[form].lines(compared, options)
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "backslashreplace")


def print_compared(compared: Compared, form: str, options: WriteOptions, *, verbose: bool, chosen: bool) -> None:
    """Print the comparison: to the terminal, or as lines."""
    if form != TABLE:
        write_lines(_FORMATS[form].lines(compared, options))
        note_without_line(compared, [_FORMATS[form]], options)
        return
    from gpuprof.views.terminal import make_console

    _FORMATS[TABLE].write(make_console(), compared, top=options.top, verbose=verbose, chosen=chosen)
