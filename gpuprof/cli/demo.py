"""`gpuprof demo [FILE…]`: the page of a report, in a folder of its own."""

from __future__ import annotations

from pathlib import Path

import click

from gpuprof.cli.options import overwriting, reading, refuse_overwrite
from gpuprof.cli.report import write_report

_SPEC = "h200-sxm"
"""Whose ceilings are shown where there is no report."""


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
    """Do the main job on a report of yours: write its page to DIR/report.html.

    This version ships no recorded report. Without FILE the page shows what a GPU promises by its spec, and no kernel.
    """
    from gpuprof.api import load, load_spec

    output = folder / "report.html"
    refuse_overwrite([output], files, force=force)
    if files:
        session = load(*files, spec=spec, salvage=salvage, groups=True)
    else:
        session = load_spec(spec or _SPEC)
        click.echo("no report was named and none ships with this version: the page shows ceilings only", err=True)
    write_report(session, output, title=None if files else "gpuprof: the roofs of a GPU", top=12, keep_paths=False)
    if not files:
        click.echo("next: gpuprof demo REPORT.ncu-rep, with a report that ncu wrote", err=True)
