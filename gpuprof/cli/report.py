"""`gpuprof report FILE… -o report.html`: one self-contained page. Also how commands write their files: all or none."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpuprof.cli.options import input_files, overwriting, reading, refuse_overwrite
from gpuprof.errors import UsageError

if TYPE_CHECKING:
    from gpuprof.model.session import Session


@click.command("report")
@input_files
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default=Path("report.html"),
    show_default=True,
    metavar="FILE",
    help="The page to write.",
)
@click.option("--title", help="Title of the page instead of the file names.")
@click.option(
    "--top", type=click.IntRange(min=0), default=12, show_default=True, help="Kernels with a section; 0 for all."
)
@click.option("--keep-paths", is_flag=True, help="Show folders and command lines, which can be private.")
@reading
@overwriting
def command(
    files: tuple[str, ...],
    output: Path,
    title: str | None,
    top: int,
    keep_paths: bool,
    spec: str | None,
    salvage: bool,
    force: bool,
) -> None:
    """Write one self-contained HTML page.

    The page needs no network and no script, and shows file names without their folders. Several reports are shown as
    one run.
    """
    from gpuprof.api import load

    refuse_overwrite([output], force=force)
    session = load(*files, spec=spec, salvage=salvage)
    write_report(session, output, title=title, top=top, keep_paths=keep_paths)


def write_report(session: Session, output: Path, *, title: str | None, top: int, keep_paths: bool) -> None:
    """Write the page, its verdict to stdout, and to stderr where it lies."""
    from gpuprof.present.html import render_html, verdict
    from gpuprof.present.text import printable

    warn(session)
    page = render_html(session, title=title, top=top, keep_paths=keep_paths)
    write_files({output: page.encode("utf-8", "backslashreplace")})
    click.echo(printable(verdict(session)))
    click.echo(f"wrote {printable(str(output))}; open it in a browser", err=True)


def warn(session: Session) -> None:
    """Say on stderr what could not be read of the sources."""
    from gpuprof.present.text import printable

    for source in session.sources:
        for warning in source.warnings:
            click.echo(f"warning: {printable(source.file)}: {printable(warning)}", err=True)


def write_files(files: Mapping[Path, bytes]) -> None:
    """Write all files or none: each beside its place first, then moved there. Raises UsageError with the reason."""
    made = _make_folders({path.parent for path in files})
    drafts: dict[Path, Path] = {}
    try:
        for path, content in files.items():
            if path.is_dir():
                raise UsageError(f"{path} is a folder", "name a file with -o")
            drafts[path] = path.with_name(f".{path.name[:200]}.{os.getpid()}.tmp")
            with drafts[path].open("xb") as out:
                out.write(content)
        for path, draft in drafts.items():
            draft.replace(path)
    except OSError as error:
        _clean_up(drafts.values(), made)
        raise UsageError(_cannot_write(error, next(iter(files))), "choose another place with -o") from error
    except BaseException:
        _clean_up(drafts.values(), made)
        raise


def _make_folders(folders: Iterable[Path]) -> list[Path]:
    """Make the folders that are missing; return them, innermost first."""
    made: list[Path] = []
    for folder in folders:
        missing = [part for part in (folder, *folder.parents) if not part.exists()]
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            _clean_up((), [part for part in missing if part.is_dir()])
            raise UsageError(_cannot_write(error, folder), "choose another place with -o") from error
        made += missing
    return made


def _cannot_write(error: OSError, path: Path) -> str:
    return f"cannot write {path}: {error.strerror or error}"


def _clean_up(drafts: Iterable[Path], folders: Iterable[Path]) -> None:
    """Remove drafts and the folders that were made for them, as far as they are empty."""
    for draft in drafts:
        draft.unlink(missing_ok=True)
    for folder in folders:
        try:
            folder.rmdir()
        except OSError:
            return
