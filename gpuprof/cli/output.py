"""How commands write: lines to stdout as UTF-8, warnings to stderr, files all or none."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpuprof.cli.interrupt import cleaned_up_by
from gpuprof.collect.shell import shell_line
from gpuprof.errors import UsageError
from gpuprof.own_files import draft_of
from gpuprof.views.formats import TABLE, Product, formats_of

if TYPE_CHECKING:
    from gpuprof.model.session import Session
    from gpuprof.views.document import Document


def write_lines(lines: Iterable[str]) -> None:
    """Write lines to stdout; characters that UTF-8 cannot hold are escaped."""
    sys.stdout.flush()
    out = sys.stdout.buffer
    out.writelines(f"{line}\n".encode("utf-8", "backslashreplace") for line in lines)
    out.flush()


def print_product(product: Product, form: str, *values: object) -> None:
    """Print a product that needs no options: on a console, or as lines."""
    row = formats_of(product)[form]
    if row.view:
        _print_document(row.write(*values), form)
    elif form == TABLE:
        from gpuprof.views.terminal import make_console

        row.write(make_console(), *values)
    else:
        write_lines(row.write(*values))


def _print_document(document: Document, form: str) -> None:
    if form == TABLE:
        from gpuprof.views.terminal import make_console, print_document

        print_document(make_console(), document)
    else:
        from gpuprof.views.markdown import markdown_lines

        write_lines(markdown_lines(document, sys.maxsize))


def to_type(files: Iterable[str | Path]) -> str:
    """Return file names as a command line can have them; FILE for each that came through a pipe, to be read once."""
    return shell_line([_again(str(file)) for file in files])


def _again(name: str) -> str:
    if name == "-" or name.startswith("/dev/fd/"):
        return "FILE"
    return f"./{name}" if name.startswith("-") else name


def to_show(files: Iterable[str | Path]) -> str:
    """Return the command that shows files once more, and reads them as this one was told to."""
    context = click.get_current_context()
    typed = click.core.ParameterSource.COMMANDLINE
    flags = {"salvage": "--salvage", "no_config": "--no-config"}
    options = [flag for name, flag in flags.items() if context.get_parameter_source(name) is typed]
    if context.get_parameter_source("spec") is typed:
        options.append(f"--spec {shell_line([context.params['spec']])}")
    return " ".join(("gpuprof show", to_type(files), *options))


def say(text: str) -> None:
    """Say something on stderr."""
    from gpuprof.text import printable

    click.echo(printable(text), err=True)


def say_unused(option: str, patterns: Iterable[str]) -> None:
    """Say on stderr which patterns behind an option match nothing."""
    for pattern in patterns:
        say(f"{option} {pattern!r:.80} matches no kernel")


def warn(session: Session) -> None:
    """Say on stderr what could not be read of the sources."""
    from gpuprof.text import printable

    for source in session.sources:
        for warning in source.warnings:
            click.echo(f"warning: {printable(source.file)}: {printable(warning)}", err=True)


def write_files(files: Mapping[Path, bytes | Iterable[bytes]], *, through_links: bool = False) -> None:
    """Write all files or none: each beside its place first, then moved there. Raises UsageError with the reason.

    What is large may come piece by piece. A link is replaced by the file; with `through_links`, for names that the user
    has typed, what it links to is.
    """
    made = _make_folders({path.parent for path in files})
    drafts: dict[Path, Path] = {}
    place = next(iter(files))
    with cleaned_up_by(lambda: _clean_up(drafts.values(), made)):
        try:
            for path, content in files.items():
                place = path
                _write_draft(path, content, drafts, through_links=through_links)
            for target, draft in drafts.items():
                place = target
                draft.replace(target)
        except OSError as error:
            _clean_up(drafts.values(), made)
            raise UsageError(_cannot_write(error, place), "choose another place with -o") from error
        except BaseException:
            _clean_up(drafts.values(), made)
            raise


def _write_draft(
    path: Path, content: bytes | Iterable[bytes], drafts: dict[Path, Path], *, through_links: bool
) -> None:
    """Write the content of a file beside its place, and note where."""
    if path.is_dir():
        raise UsageError(f"{path} is a folder", "name a file with -o")
    if through_links and path.exists() and not path.is_file():
        raise UsageError(f"{path} is not a regular file", "name one with -o")
    with contextlib.suppress(FileNotFoundError):
        path.lstat()  # a name that is too long says so now, and not when others have been written
    target = Path(os.path.realpath(path)) if through_links and path.is_symlink() else path
    draft = drafts[target] = draft_of(target)
    with draft.open("xb") as out:
        out.writelines([content] if isinstance(content, bytes) else content)


def _make_folders(folders: Iterable[Path]) -> list[Path]:
    """Make the folders that are missing; return them, innermost first."""
    made: list[Path] = []
    for folder in folders:
        missing: list[Path] = []
        try:
            missing = [part for part in (folder, *folder.parents) if not part.exists()]
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            _clean_up((), [*made, *missing])
            raise UsageError(_cannot_write(error, folder), "choose another place with -o") from error
        made += missing
    return made


def _cannot_write(error: OSError, path: Path) -> str:
    return f"cannot write {path}: {error.strerror or error}"


def _clean_up(drafts: Iterable[Path], folders: Iterable[Path]) -> None:
    """Remove drafts and the folders that were made for them, as far as they are empty."""
    for draft in drafts:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
    for folder in sorted(folders, key=lambda path: len(path.parts), reverse=True):
        with contextlib.suppress(OSError):
            folder.rmdir()
