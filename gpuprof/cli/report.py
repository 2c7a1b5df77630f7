"""`gpuprof report FILE… -o report.html`: one self-contained page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpuprof.cli.options import input_files, into_file, overwriting, reading
from gpuprof.cli.output import to_type, warn, write_files
from gpuprof.collect.overwrite import refuse_overwrite

if TYPE_CHECKING:
    from gpuprof.model.session import Session


@click.command("report")
@input_files
@into_file("report.html", "FILE", "The page to write.")
@click.option("--title", help="Title of the page instead of the file names.")
@click.option("--kernel", metavar="REGEX|#N", help="Only kernels whose name matches, or number N.")
@click.option(
    "--top", type=click.IntRange(min=0), default=12, show_default=True, help="Kernels with a section; 0 for all."
)
@click.option("--keep-paths", is_flag=True, help="Keep folders, user and host names, which can be private.")
@reading
@overwriting
def command(
    files: tuple[str, ...],
    output: Path,
    title: str | None,
    kernel: str | None,
    top: int,
    keep_paths: bool,
    spec: str | None,
    salvage: bool,
    force: bool,
) -> None:
    """Write one self-contained HTML page.

    The page needs no network and is complete without its script. It shows file names without their folders. Equal
    launches are shown as one kernel, several reports as one run. The page carries its session: show and report read it.
    """
    from gpuprof.api import load

    refuse_overwrite([output], files, force=force)
    session = load(*files, spec=spec, salvage=salvage, groups=True)
    write_report(session, output, title=title, top=top, keep_paths=keep_paths, pattern=kernel)


def write_report(
    session: Session, output: Path, *, title: str | None, top: int, keep_paths: bool, pattern: str | None = None
) -> None:
    """Write the page, its verdict to stdout, and to stderr where it lies and what to type next."""
    from gpuprof.cli.select import select_kernels
    from gpuprof.diagnose.grouping import grouped
    from gpuprof.diagnose.summary import chosen
    from gpuprof.present.fix_text import headline_text
    from gpuprof.present.html import render_html
    from gpuprof.present.session_text import verdict_text
    from gpuprof.present.text import printable

    warn(session)
    session = grouped(session)
    kernels = select_kernels(session, pattern) if pattern is not None else session.kernels
    wanted = {kernel.id for kernel in kernels} if pattern is not None else None
    page = render_html(session, title=title, top=top, keep_paths=keep_paths, kernels=wanted)
    write_files({output: page.encode("utf-8", "backslashreplace")})
    if headline := headline_text(chosen(session, kernels) if pattern is not None else session):
        click.echo(printable(headline))
    click.echo(printable(verdict_text(session)))
    read = f"gpuprof show {to_type([output])}"
    click.echo(printable(f"wrote {output}; open it in a browser, or read it here: {read}"), err=True)
