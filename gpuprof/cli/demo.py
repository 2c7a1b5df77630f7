"""`gpuprof demo [FILE…]`: the page of a report, in a folder of its own."""

from __future__ import annotations

from pathlib import Path

import click

from gpuprof.cli.options import overwriting, reading, refuse_overwrite
from gpuprof.cli.report import write_report
from gpuprof.errors import UsageError


@click.command("demo")
@click.argument("files", nargs=-1, metavar="[FILE]...")
@click.option(
    "-o",
    "--output",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("gpuprof-demo"),
    show_default=True,
    metavar="DIR",
    help="Folder for report.html.",
)
@reading
@overwriting
def command(files: tuple[str, ...], folder: Path, spec: str | None, salvage: bool, force: bool) -> None:
    """Do the main job on a recorded report: write its page to DIR/report.html."""
    from gpuprof.api import load

    if not files:
        raise UsageError(
            "this version ships no recorded session of its own; demo needs the path of a report",
            "make demo REPORT=path, or gpuprof demo REPORT.ncu-rep",
        )
    output = folder / "report.html"
    refuse_overwrite([output], force=force)
    write_report(load(*files, spec=spec, salvage=salvage), output, title=None, top=12, keep_paths=False)
