"""`gpuprof compare BASE NEW`: two measured files side by side, of two GPUs, drivers or days."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpuprof.cli.output import write_lines
from gpuprof.errors import InputError

if TYPE_CHECKING:
    from gpuprof.characterize.sheet.measured import Measured

_SUFFIX = ".measured.yaml"
_FILE = click.Path(path_type=Path)


def _print(one: Measured, other: Measured) -> None:
    from gpuprof.present.console import make_console
    from gpuprof.present.measured_compare import print_comparison

    print_comparison(make_console(), one, other)


def _write_json(one: Measured, other: Measured) -> None:
    from gpuprof.characterize.sheet.side_by_side import differences, side_by_side
    from gpuprof.present.measured_json import comparison_json, json_lines

    rows, conditions = side_by_side(one, other), differences(one, other)
    write_lines(json_lines(comparison_json(one, other, rows, conditions)))


def _write_markdown(one: Measured, other: Measured) -> None:
    from gpuprof.present.measured_compare import comparison_markdown

    write_lines(comparison_markdown(one, other))


_FORMATS = {"table": _print, "json": _write_json, "md": _write_markdown}


@click.command("compare")
@click.argument("base", type=_FILE)
@click.argument("new", type=_FILE)
@click.option("--format", "form", type=click.Choice(list(_FORMATS)), default="table", show_default=True)
def command(base: Path, new: Path, form: str) -> int:
    """Show two measured GPUs side by side.

    BASE and NEW are files NAME.measured.yaml of gpuprof characterize. Profiles cannot be compared yet.
    """
    from gpuprof.characterize.sheet.measured import load_measured

    for path in (base, new):
        if not path.name.endswith(_SUFFIX):
            raise InputError(f"{path} is no measured file", f"name files of gpuprof characterize: NAME{_SUFFIX}")
        if not path.is_file():
            raise InputError(f"{path} does not exist", "gpuprof characterize writes it")
    _FORMATS[form](load_measured(base), load_measured(new))
    return 0
