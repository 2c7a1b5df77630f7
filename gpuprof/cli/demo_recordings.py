"""`gpuprof demo` without a file: a story of slow kernels and their fixes from recordings that ship, and their pages."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gpuprof.cli.demo_versions import COMPARISON_FILE, VERSION_FILES, versions_of
from gpuprof.cli.interrupt import cleaned_up_by
from gpuprof.cli.output import to_type, write_files
from gpuprof.collect.choices import SESSION_FILE
from gpuprof.collect.overwrite import refuse_overwrite
from gpuprof.collect.shell import shell_line
from gpuprof.errors import DamagedInput, GpuprofError
from gpuprof.own_files import read_plain, refuse_linked

if TYPE_CHECKING:
    from gpuprof.model.session import Session
    from gpuprof.recordings import Recording

PAGE_FILE = "report.html"


@dataclass(frozen=True, slots=True)
class _Demo:
    """A recording that was read, its report's bytes, and the folder for what it leaves."""

    recording: Recording
    report: bytes
    session: Session
    place: Path


def show_recordings(folder: Path, *, force: bool) -> Path:
    """Tell the recordings that ship, leave the files of all of them or none, and return a page with a roofline.

    Files of an earlier demo are replaced: those that hold one of these recordings.
    """
    from gpuprof.recordings import recordings
    from gpuprof.views.demo import comparison_blocks, next_blocks, others_blocks, story_view
    from gpuprof.views.document import Document
    from gpuprof.views.terminal import make_console, print_document

    shipped = sorted(recordings(), key=lambda recording: not recording.steps)
    _refuse_foreign(shipped, folder, force=force)
    console = make_console()
    with scratch_folder() as scratch:
        first = _read(shipped[0], scratch, folder)
        print_document(console, story_view(first.recording, first.session))
        others = [_read(recording, scratch, folder) for recording in shipped[1:]]
    versions = versions_of(first.session, first.place)
    files = {path: content for demo in (first, *others) for path, content in _files(demo).items()}
    write_files({**files, **versions.files})
    blocks = (
        *comparison_blocks(versions.compared, versions.page),
        *others_blocks([(demo.recording, demo.session, demo.place / PAGE_FILE) for demo in others]),
        *next_blocks(shell_line(["gpuprof", *versions.words]), _shown(first)),
    )
    console.print()
    print_document(console, Document("demo", blocks))
    return others[0].place / PAGE_FILE


def _shown(demo: _Demo) -> str:
    return f"gpuprof show {to_type([demo.place / demo.recording.file_name])}"


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """Make a folder that is gone afterwards, also where Ctrl-C ends the program."""
    folder = Path(tempfile.mkdtemp(prefix="gpuprof-"))
    with cleaned_up_by(lambda: shutil.rmtree(folder, ignore_errors=True)):
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _refuse_foreign(shipped: Sequence[Recording], folder: Path, *, force: bool) -> None:
    """Raise UsageError if a file that no demo wrote would be replaced, or if a folder is a link."""
    for recording in shipped:
        place = folder / recording.name
        refuse_linked(place)
        versions = VERSION_FILES if recording.steps else ()
        targets = [place / name for name in (recording.file_name, PAGE_FILE, SESSION_FILE, *versions)]
        refuse_overwrite([path for path in targets if force or not _is_of(recording, path)], force=force)


def _is_of(recording: Recording, path: Path) -> bool:
    """Tell whether a file is the recording itself, or a session or a page of it , of nothing else."""
    import hashlib

    from gpuprof.store.page import read_session_html
    from gpuprof.store.read import read_session

    try:
        content, report = read_plain(path), recording.report()
        if path.name == recording.file_name:
            return content == report
        if path.name == COMPARISON_FILE:
            return hashlib.sha256(report).hexdigest().encode() in content
        if path.name == PAGE_FILE:
            sources = read_session_html(content, str(path)).sources
        else:
            sources = read_session(content.decode(), str(path)).sources
    except (OSError, UnicodeDecodeError, GpuprofError):
        return False
    return [source.sha256 for source in sources] == [hashlib.sha256(report).hexdigest()]


def _read(recording: Recording, scratch: Path, folder: Path) -> _Demo:
    """Read a recording as any report, equal launches as one kernel."""
    from gpuprof.api import load
    from gpuprof.recordings import REINSTALL

    place = folder / recording.name
    unpacked, data = scratch / recording.file_name, recording.report()
    unpacked.write_bytes(data)
    try:
        session = load(unpacked, groups=True)
    except DamagedInput as error:
        raise DamagedInput(f"{recording.place}: {error.message}", REINSTALL) from error
    return _Demo(recording, data, session=session, place=place)


def _files(demo: _Demo) -> Mapping[Path, bytes]:
    """Return the report, the page and the session."""
    from gpuprof.store.write import session_bytes
    from gpuprof.views.profile import session_page

    origin = demo.recording.origin
    title = demo.recording.title + (f", recorded by {origin.repository}" if origin is not None else "")
    page = session_page(demo.session, title=title).encode("utf-8", "backslashreplace")
    return {
        demo.place / demo.recording.file_name: demo.report,
        demo.place / PAGE_FILE: page,
        demo.place / SESSION_FILE: session_bytes(demo.session),
    }
