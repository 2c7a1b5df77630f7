"""The folder that a run writes to: one run at a time, and no file of the user's is taken for a log of ncu."""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path

from gpuprof.collect.files_of_run import COUNTED_LOGS, MARKS_FILE, PROGRAM_LOG, SURVEY_LOG
from gpuprof.errors import UsageError
from gpuprof.own_files import open_plain, read_plain

_LOCK = ".gpuprof-run"


@contextlib.contextmanager
def taken(folder: Path) -> Iterator[None]:
    """Keep other runs out of a folder. Raises UsageError if one is there, or a folder is in the way of our files."""
    place, marks = folder / _LOCK, folder / MARKS_FILE
    if marks.is_dir():
        raise UsageError(f"{marks} is a folder", "remove it, or choose another folder with -o")
    try:
        lock = open_plain(place, "ab")
    except OSError as error:
        raise UsageError(f"cannot write {place}: {error.strerror}", "choose another folder with -o") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise UsageError(f"another gpuprof is writing to {folder}", "choose another folder with -o") from error
        try:
            yield
        finally:
            with contextlib.suppress(OSError):  # whatever the program did to the folder: what was recorded is shown
                place.unlink(missing_ok=True)


def logs_to_refuse(folder: Path) -> list[Path]:
    """Return the logs that are no leftovers of an earlier run: those need the user's leave to be replaced."""
    logs = [folder / name for name in (SURVEY_LOG, *COUNTED_LOGS)]
    ours = [_is_of_ncu(log) for log in logs]
    theirs = [log for log, is_ours in zip(logs, ours, strict=True) if not is_ours]
    kept = folder / PROGRAM_LOG
    return theirs if any(ours) and kept.is_file() and not kept.is_symlink() else [*theirs, kept]


def _is_of_ncu(log: Path) -> bool:
    """Tell a log of ncu: a regular file that is empty or begins with one of its marks."""
    try:
        return read_plain(log, 2) in (b"", b"==")
    except OSError:
        return False
