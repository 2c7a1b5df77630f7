"""`gpuprof compare BASE NEW` of two measured files: two GPUs side by side, or one on other drivers or days."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from gpuprof.cli.output import print_product
from gpuprof.errors import InputError, UsageError
from gpuprof.views.formats import printed_formats

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
    print_product("measured-comparison", form, load_measured(Path(base[0])), load_measured(Path(new[0])))


def _refuse_options(form: str) -> None:
    """Raise UsageError for what only profiles have."""
    context = click.get_current_context()
    typed = click.core.ParameterSource.COMMANDLINE
    for param in context.command.params:
        name = param.name or ""
        if name not in _TAKEN and context.get_parameter_source(name) is typed:
            option = max(param.opts, key=len)
            raise UsageError(f"{option} is about profiles, and measured files were named", "leave it out")
    known = printed_formats("measured-comparison")
    if form not in known:
        raise UsageError(f"--format {form} is about profiles, and measured files were named",
                         f"choose one of {', '.join(known)}")  # fmt: skip
