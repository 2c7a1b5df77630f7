"""Options that several commands share: the same name means the same everywhere."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gpuprof.cli import completion
from gpuprof.cli.interrupt import cleaned_up_by
from gpuprof.errors import UsageError
from gpuprof.views.formats import TABLE, Product, printed_formats

if TYPE_CHECKING:
    from gpuprof.privacy.source_files import PathMap

STDIN = "-"
Command = TypeVar("Command", bound=Callable[..., object])


def format_option(product: Product) -> Callable[[Command], Command]:
    """Return --format, with the formats of a product."""
    return click.option(
        "--format",
        "form",
        type=click.Choice(printed_formats(product)),
        default=TABLE,
        show_default=True,
        help="What to print.",
    )


class Destination(click.Path):
    """Where to write; nothing is written to standard output so."""

    def convert(
        self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None
    ) -> str | bytes | os.PathLike[str]:
        """Refuse an empty name, as an unset variable leaves it, which would be the working folder; and -."""
        if value in ("", "-"):
            option = param.opts[0] if param is not None else "-o"
            nowhere = f"{option} -: no file is written to standard output"
            raise UsageError(nowhere if value == "-" else f"{option} has an empty name", f"name a place after {option}")
        return super().convert(value, param, ctx)


class AboveZero(click.FloatRange):
    """A finite number above 0."""

    def __init__(self) -> None:
        super().__init__(0, min_open=True)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number."""
        number = super().convert(value, param, ctx)
        return number if math.isfinite(number) else self.fail(f"'{value}' is not a valid number", param, ctx)


def was_typed(option: str) -> bool:
    """Tell whether an option is on the command line, and not from a configuration file, or its default."""
    context = click.get_current_context(silent=True)
    source = context.get_parameter_source(option) if context is not None else None
    return source is click.core.ParameterSource.COMMANDLINE


def refuse_beside(option: str, others: Mapping[str, bool]) -> None:
    """Raise UsageError for the first of the others that was given, as told: it has no meaning beside the option."""
    other = next((name for name, is_given in others.items() if is_given), None)
    if other is not None:
        raise UsageError(f"{option} and {other} cannot be combined", f"leave out {option} or {other}")


def input_files(function: Command) -> Command:
    """FILE…: reports, what ncu prints, or a session."""
    return files_to_read("FILE...", required=True)(function)


def files_to_read(metavar: str, *, required: bool = False) -> Callable[[Command], Command]:
    """FILE…, as `files`; a shell completes those that can be read."""
    return click.argument(
        "files", nargs=-1, required=required, metavar=metavar, shell_complete=completion.readable_files
    )


def of_spec(function: Command) -> Command:
    """--spec: a GPU spec by name or file."""
    return click.option(
        "--spec",
        metavar="NAME|FILE",
        shell_complete=completion.spec_names,
        help="Use this GPU spec instead of the one that matches.",
    )(function)


def reading(function: Command) -> Command:
    """Options on how files are read: --spec and --salvage. What `-` has left is removed, also on Ctrl-C."""

    @wraps(function)
    def command(*args: Any, **values: Any) -> object:
        from gpuprof.read.spool import remove_spooled

        tell_of_typing(values["files"])
        if completion.PROGRAM in click.get_current_context().meta:  # what ends it, ends the program first
            return function(*args, **values)
        with cleaned_up_by(remove_spooled):
            return function(*args, **values)

    return of_spec(salvaging(command))  # type: ignore[return-value]


def salvaging(function: Command) -> Command:
    """--salvage: of damaged reports what can be read."""
    return click.option("--salvage", is_flag=True, help="Show what can be read of damaged reports.")(function)


def tell_of_typing(files: Sequence[str]) -> None:
    """Say on stderr what is waited for where standard input is a terminal."""
    if STDIN in files and sys.stdin.isatty():
        click.echo("reading standard input: paste CSV or JSON, then Ctrl-D; or pipe a report in", err=True)


def only_one(_: click.Context, param: click.Parameter, values: tuple[Path, ...]) -> Path | None:
    """Return the place to write to. Raises UsageError for a second one, which would be all that is written."""
    if len(values) > 1:
        raise UsageError(f"{param.opts[0]} names two places: {values[0]} and {values[1]}", "name one of them")
    return values[0] if values else None


def into_folder(what: str) -> Callable[[Command], Command]:
    """-o, as `folder`: where a command leaves its files. `what` is the help."""
    kind = Destination(path_type=Path, file_okay=False)
    return click.option(
        "-o", "--output", "folder", type=kind, multiple=True, callback=only_one, metavar="DIR", help=what
    )


def into_file(default: str, metavar: str, what: str) -> Callable[[Command], Command]:
    """-o, as `output`: the file or folder that a command writes. `what` is the help."""
    kind = Destination(path_type=Path)
    return click.option(
        "-o",
        "--output",
        type=kind,
        multiple=True,
        default=[Path(default)],
        show_default=default,
        callback=only_one,
        metavar=metavar,
        help=what,
    )


def as_text_or_json(what: str) -> Callable[[Command], Command]:
    """--format, as `form`: text or json. `what` is the help."""
    kind = click.Choice(["text", "json"])
    return click.option("--format", "form", type=kind, default="text", show_default=True, help=what)


def choosing(function: Command) -> Command:
    """--kernel, as `kernels`: which kernels are shown; of several, what any of them names."""
    return click.option(
        "--kernel",
        "kernels",
        multiple=True,
        metavar="REGEX|#N",
        help="Only kernels whose name matches, or number N. Repeatable.",
    )(function)


def selecting(function: Command) -> Command:
    """Options on which kernels are shown: --kernel, --top."""
    top = click.option(
        "--top",
        type=click.IntRange(min=0),
        metavar="N",
        default=20,
        show_default=True,
        help="Kernels in the text; 0 for all.",
    )
    return choosing(top(function))


def excluding(function: Command) -> Command:
    """--exclude: kernels that are left out."""
    return click.option(
        "--exclude",
        multiple=True,
        metavar="REGEX|#N",
        help="Leave out kernels whose name matches, or number N. Repeatable.",
    )(function)


def keeping(function: Command) -> Command:
    """--keep-private: keep private data in sessions, pages and other output."""
    return click.option(
        "--keep-private",
        is_flag=True,
        help="Keep what can be private: the program's arguments, environment, hosts, users, folders, tokens.",
    )(function)


def mapping_paths(function: Command) -> Command:
    """--path-map: where source folders of the reports lie here."""
    return click.option(
        "--path-map",
        "path_maps",
        multiple=True,
        metavar="FROM=TO",
        help="Where a source folder of the reports lies in this repository. Repeatable.",
    )(function)


def path_maps_of(values: Sequence[str]) -> tuple[PathMap, ...]:
    """Return the values of --path-map. Raises UsageError for one that is not FROM=TO."""
    from gpuprof.privacy.source_files import PathMap

    maps = []
    for value in values:
        source, equals, target = value.partition("=")
        if not equals or not source:
            raise UsageError(f"--path-map {value!r:.80} is not FROM=TO", "such as --path-map /build/src=src")
        maps.append(PathMap(source, target))
    return tuple(maps)


def overwriting(function: Command) -> Command:
    """--force: allow to replace files that exist."""
    return click.option("--force", is_flag=True, help="Replace files that exist.")(function)
