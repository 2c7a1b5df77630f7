"""Options that several commands share: the same name means the same everywhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., object])


def input_files(function: Command) -> Command:
    """FILE…: reports, CSV exports or a session."""
    return click.argument("files", nargs=-1, required=True, metavar="FILE...")(function)


def of_spec(function: Command) -> Command:
    """--spec: a GPU spec by name or file."""
    return click.option("--spec", metavar="NAME|FILE", help="Use this GPU spec instead of the one that matches.")(
        function
    )


def reading(function: Command) -> Command:
    """Options on how files are read: --spec and --salvage."""
    salvage = click.option("--salvage", is_flag=True, help="Show what can be read of damaged reports.")
    return of_spec(salvage(function))


def into_folder(what: str) -> Callable[[Command], Command]:
    """-o, as `folder`: where a command leaves its files. `what` is the help."""
    kind = click.Path(path_type=Path, file_okay=False)
    return click.option("-o", "--output", "folder", type=kind, metavar="DIR", help=what)


def into_file(default: str, metavar: str, what: str) -> Callable[[Command], Command]:
    """-o, as `output`: the file or folder that a command writes. `what` is the help."""
    kind = click.Path(path_type=Path)
    return click.option(
        "-o", "--output", type=kind, default=Path(default), show_default=True, metavar=metavar, help=what
    )


def as_text_or_json(what: str) -> Callable[[Command], Command]:
    """--format, as `form`: text or json. `what` is the help."""
    kind = click.Choice(["text", "json"])
    return click.option("--format", "form", type=kind, default="text", show_default=True, help=what)


def selecting(function: Command) -> Command:
    """Options on which kernels are shown: --kernel, --top."""
    kernel = click.option("--kernel", metavar="REGEX|#N", help="Only kernels whose name matches, or number N.")
    top = click.option("--top", type=click.IntRange(min=0), default=20, show_default=True, help="How many; 0 for all.")
    return kernel(top(function))


def overwriting(function: Command) -> Command:
    """--force: allow to replace files that exist."""
    return click.option("--force", is_flag=True, help="Replace files that exist.")(function)
