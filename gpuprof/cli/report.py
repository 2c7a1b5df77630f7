"""`gpuprof report FILE… -o report.html`: one self-contained page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpuprof.cli.config import configured
from gpuprof.cli.endings import refuse_ending
from gpuprof.cli.help import WithExamples
from gpuprof.cli.opening import open_page, opening
from gpuprof.cli.options import choosing, excluding, input_files, into_file, keeping, overwriting, reading, was_typed
from gpuprof.cli.output import to_type, warn, write_files
from gpuprof.collect.overwrite import refuse_overwrite

if TYPE_CHECKING:
    from gpuprof.model.session import Session


@click.command("report", cls=WithExamples)
@input_files
@into_file("report.html", "FILE", "The page to write.")
@click.option("--title", help="Title of the page instead of the file names.")
@choosing
@excluding
@click.option(
    "--top",
    type=click.IntRange(min=0),
    metavar="N",
    default=12,
    show_default=True,
    help="Kernels with a section; 0 for all.",
)
@reading
@keeping
@overwriting
@opening
@configured("exclude", "top", "spec")
def command(
    files: tuple[str, ...],
    output: Path,
    title: str | None,
    kernels: tuple[str, ...],
    exclude: tuple[str, ...],
    top: int,
    spec: str | None,
    salvage: bool,
    keep_private: bool,
    force: bool,
    in_browser: bool,
) -> None:
    """Write one self-contained HTML page.

    The page needs no network and is complete without its script. Equal launches are shown as one kernel, several
    reports as one run. The page carries its session: show and report read it.
    """
    from gpuprof.api import load
    from gpuprof.cli.select import kept
    from gpuprof.privacy.texts import clean_text

    refuse_overwrite([output], files, force=force)
    _refuse_other_kinds(output)
    session = kept(load(*files, spec=spec, salvage=salvage, groups=True, keep_private=keep_private), exclude)
    shown_title = title if title is None or keep_private else clean_text(title)
    typed = was_typed("output")
    write_report(session, output, title=shown_title, top=top, patterns=kernels, through_links=typed)
    if in_browser:
        open_page([output])


def _refuse_other_kinds(output: Path) -> None:
    """Raise UsageError for a name that is not of a page, with what writes such a file."""
    page = f"{str(output).removesuffix(output.suffix)}.html"
    hint = {
        ".pdf": f"-o {page}, then print the page from a browser, as PDF",
        ".md": "gpuprof show --format md FILE > NAME.md",
        ".csv": "gpuprof show --format csv FILE > NAME.csv",
        ".json": "gpuprof show --format json FILE > session.json",
    }.get(output.suffix.lower(), f"-o {page}")
    drawn = output.suffix.lower() in (".svg", ".png")
    refuse_ending(output, (".html", ".htm"), "a page is HTML", "gpuprof roofline draws pictures" if drawn else hint)


def write_report(
    session: Session,
    output: Path,
    *,
    title: str | None,
    top: int,
    patterns: Sequence[str] = (),
    through_links: bool = False,
) -> None:
    """Write the page, its verdict to stdout, and to stderr where it lies and what to type next."""
    from gpuprof.cli.select import select_kernels
    from gpuprof.diagnose.summary import chosen, grouped
    from gpuprof.text import printable
    from gpuprof.views.profile import session_page
    from gpuprof.words.exclusion import exclusion_text
    from gpuprof.words.profile_values import verdict_text
    from gpuprof.words.recommendations import headline_text
    from gpuprof.words.session import worded

    warn(session)
    session = worded(grouped(session))
    kernels = select_kernels(session, patterns)
    wanted = {kernel.id for kernel in kernels} if patterns else None
    page = session_page(session, title=title, top=top, kernels=wanted)
    write_files({output: page.encode("utf-8", "backslashreplace")}, through_links=through_links)
    if headline := headline_text(worded(chosen(session, kernels)) if patterns else session):
        click.echo(printable(headline))
    click.echo(printable(verdict_text(session)))
    if session.excluded is not None:
        click.echo(printable(exclusion_text(session.excluded)))
    read = f"gpuprof show {to_type([output])}"
    click.echo(printable(f"wrote {output}; open it in a browser, or read it here: {read}"), err=True)
