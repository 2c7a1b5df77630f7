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


def _print(base: Measured, new: Measured) -> None:
    from gpuprof.characterize.present.compare import print_comparison
    from gpuprof.present.console import make_console

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


@click.command("compare")
@click.argument("base", type=_FILE)
@click.argument("new", type=_FILE)
@click.option(
    "--format", "form", type=click.Choice(list(_FORMATS)), default="table", show_default=True, help="Output format."
)
def command(base: Path, new: Path, form: str) -> int:
    """Show two measured GPUs side by side.

    BASE and NEW are NAME.measured.yaml files written by gpuprof characterize. Profiles cannot be compared.
    """
    from gpuprof.characterize.sheet.measured import load_measured

    for path in (base, new):
        if not path.name.endswith(_SUFFIX):
            raise InputError(
                f"{path} is not a measured file", f"name files written by gpuprof characterize: NAME{_SUFFIX}"
            )
        if not path.is_file():
            raise InputError(f"{path} does not exist", "gpuprof characterize writes measured files")
    _FORMATS[form](load_measured(base), load_measured(new))
    return 0
