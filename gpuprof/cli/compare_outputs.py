"""Outputs of a comparison: the terminal, stdout in a format, files, each in the format of its ending."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple

import click

from gpuprof.cli.options import Command, format_option, mapping_paths
from gpuprof.cli.output import say, to_type, write_files, write_lines
from gpuprof.collect.overwrite import refuse_overwrite
from gpuprof.errors import UsageError
from gpuprof.views.formats import HTML, TABLE, Format, format_of_file, formats_of, main_endings
from gpuprof.views.options import WriteOptions

_FORMATS = formats_of("comparison")
_TO_FILES = [name for name in _FORMATS if name != TABLE]
_ENDINGS = main_endings("comparison")


class Output(NamedTuple):
    """A file, and the format that it is written in."""

    file: Path
    form: Format


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
    return Output(Path(file), _FORMATS[form] if form else _by_name(file))


def _by_name(file: str) -> Format:
    form = format_of_file("comparison", file)
    if form is None:
        raise UsageError(
            f"-o {file:.100}: its ending tells no format",
            f"name it, such as -o md={to_type([file[:100]])}; endings are {_ENDINGS}",
        )
    return form


def refuse_outputs(outputs: Sequence[Output], inputs: Sequence[str], *, force: bool, in_browser: bool) -> None:
    """Raise UsageError for files that would be replaced, and if --open has no page to open."""
    refuse_overwrite([output.file for output in outputs], inputs, force=force)
    if in_browser and not any(output.form.name == HTML for output in outputs):
        raise UsageError("--open opens a page, and none is written", "add -o compare.html")


def write_outputs(product: object, outputs: Mapping[Path, Format], options: WriteOptions) -> None:
    """Write all files or none, each in its format, and say so."""
    if not outputs:
        return
    write_files({file: _content(product, form, options) for file, form in outputs.items()}, through_links=True)
    say(f"wrote {', '.join(map(str, outputs))}")
    note_without_line(product, outputs.values(), options)


def note_without_line(product: object, forms: Iterable[Format], options: WriteOptions) -> None:
    """Say on stderr, once for all formats by line, what they show at no line of the repository."""
    form = next((form for form in forms if form.by_line), None)
    for text in form.notes(product, options) if form is not None else ():
        say(f"note: {text}")


def _content(product: object, form: Format, options: WriteOptions) -> bytes:
    return "".join(f"{line}\n" for line in form.lines(product, options)).encode("utf-8", "backslashreplace")


def print_product(product: object, form: Format, options: WriteOptions, *, verbose: bool, chosen: bool) -> None:
    """Print a comparison or a review: to the terminal, or as lines."""
    if form.name != TABLE:
        write_lines(form.lines(product, options))
        note_without_line(product, [form], options)
        return
    from gpuprof.views.terminal import make_console

    form.write(make_console(), product, top=options.top, verbose=verbose, chosen=chosen)
