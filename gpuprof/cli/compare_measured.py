"""`gpuprof compare BASE NEW` of two measured files: two GPUs side by side, or one on other drivers or days."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpuprof.cli.output import write_lines
from gpuprof.errors import InputError, UsageError

if TYPE_CHECKING:
    from gpuprof.characterize.sheet.measured import Measured

SUFFIX = ".measured.yaml"
_TAKEN = ("files", "base", "new", "form", "no_config")
"""Parameters of the command that are about measured files, too."""


def is_measured(file: str) -> bool:
    """Return whether a file is one of gpuprof characterize, by its name."""
    return file.endswith(SUFFIX)


def compare_measured(base: Sequence[str], new: Sequence[str], form: str) -> None:
    """Print two measured files side by side. Raises InputError if one is a profile, UsageError for more than two."""
    every = (*base, *new)
    profile = next((file for file in every if not is_measured(file)), None)
    if profile is not None:
        measured = next(file for file in every if is_measured(file))
        raise InputError(
            f"{measured} describes a GPU, and {profile} is a profile: they cannot be compared",
            f"name two profiles, or two NAME{SUFFIX} of gpuprof characterize",
        )
    if len(base) > 1 or len(new) > 1:
        raise UsageError("measured files are compared two at a time", f"gpuprof compare BASE{SUFFIX} NEW{SUFFIX}")
    _refuse_options(form)
    from gpuprof.characterize.sheet.measured import load_measured

    for file in every:
        if not Path(file).is_file():
            raise InputError(f"{file:.100} does not exist", "gpuprof characterize writes measured files")
    _FORMATS[form](load_measured(Path(base[0])), load_measured(Path(new[0])))


def _refuse_options(form: str) -> None:
    """Raise UsageError for what only profiles have."""
    context = click.get_current_context()
    typed = click.core.ParameterSource.COMMANDLINE
    for param in context.command.params:
        name = param.name or ""
        if name not in _TAKEN and context.get_parameter_source(name) is typed:
            option = max(param.opts, key=len)
            raise UsageError(f"{option} is about profiles, and measured files were named", "leave it out")
    if form not in _FORMATS:
        raise UsageError(f"--format {form} is about profiles, and measured files were named",
                         f"choose one of {', '.join(_FORMATS)}")  # fmt: skip


def _print(base: Measured, new: Measured) -> None:
    from gpuprof.characterize.present.compare import print_comparison
    from gpuprof.views.terminal import make_console

    print_comparison(make_console(), base, new)


def _write_json(base: Measured, new: Measured) -> None:
    from gpuprof.characterize.present.json_out import comparison_json, json_lines
    from gpuprof.characterize.sheet.side_by_side import differences, side_by_side

    rows, conditions = side_by_side(base, new), differences(base, new)
    write_lines(json_lines(comparison_json(base, new, rows, conditions)))


def _write_markdown(base: Measured, new: Measured) -> None:
    from gpuprof.characterize.present.compare import comparison_markdown

    write_lines(comparison_markdown(base, new))


_FORMATS = {"table": _print, "json": _write_json, "md": _write_markdown}
