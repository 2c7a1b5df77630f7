"""How commands write: lines to stdout as UTF-8, warnings to stderr, files all or none."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpuprof.errors import UsageError

if TYPE_CHECKING:
    from gpuprof.model.session import Session


def write_lines(lines: Iterable[str]) -> None:
    """Write lines to stdout; characters that UTF-8 cannot hold are escaped."""
    sys.stdout.flush()
    out = sys.stdout.buffer
    out.writelines(f"{line}\n".encode("utf-8", "backslashreplace") for line in lines)
    out.flush()


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
            if path.exists() and not path.is_file():
                raise UsageError(f"{path} is not a regular file", "name one with -o")
            target = path.resolve() if path.is_symlink() else path
            drafts[target] = target.with_name(f".gpuprof-{os.getpid()}-{len(drafts)}.tmp")
            draft = drafts[target]
            with draft.open("xb") as out:
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
