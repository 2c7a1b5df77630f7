"""Files read once a process: the readings, sessions and pages that tests of different things share.

Shared is what cannot change: sessions and traces are frozen, and what a report reads later it only adds to itself.
Tests of reading itself call `gpuprof.load`, `read_file` and the readers, which know nothing of this.
"""

from __future__ import annotations

import atexit
import shutil
import sys
import tempfile
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache, lru_cache
from hashlib import sha256
from pathlib import Path
from unittest.mock import patch

from msgspec.structs import replace

import gpuprof
from gpuprof.hardware.library import SpecLibrary
from gpuprof.model.recorded import Report
from gpuprof.model.session import Session
from gpuprof.notebook import LoadedSession
from gpuprof.read.files import read_file
from gpuprof.read.identify import REPORTS
from gpuprof.recordings import Recording
from gpuprof.resources import data_dir
from gpuprof.timeline.trace import Trace
from gpuprof.views.profile import session_page
from tests.worded import grouped

_LARGEST = 2**24
"""Larger files are read each time."""
_MOST = 60
"""So many readings are kept: each of a report holds a file open, and the process that disassembles its code."""

_READ: OrderedDict[tuple[str, str, bool], Report | Trace] = OrderedDict()


def report_of(path: Path) -> Report:
    """Return a report as it was read."""
    report = read_once(str(path))
    assert isinstance(report, Report)
    return report


def trace_of(path: Path) -> Trace:
    """Return a timeline as it was read."""
    trace = read_once(str(path))
    assert isinstance(trace, Trace)
    return trace


def session_of(*paths: Path, groups: bool = False) -> LoadedSession:
    """Return what `gpuprof.load` makes of files, analysed once for all tests."""
    if SpecLibrary().folders != (data_dir("specs"),):
        with reading_once():
            return gpuprof.load(*paths, groups=groups)
    return _session_of(paths, groups)


@cache
def shown_session_of(path: Path) -> Session:
    """Return the session that the terminal and the page show of a file: equal launches are one kernel."""
    return grouped(session_of(path))


@lru_cache(maxsize=60)
def page_of(path: Path) -> str:
    """Return the page of a file, as `gpuprof report` writes it."""
    return session_page(shown_session_of(path))


@cache
def unpacked(recording: Recording) -> Path:
    """Return where a recording lies as a report, in a folder that goes with this process."""
    place = _folder() / recording.file_name
    place.write_bytes(recording.report())
    return place


@contextmanager
def reading_once() -> Iterator[None]:
    """Let the product in this process read each file once: for commands that are run in process."""
    with ExitStack() as stack:
        for name, module in list(sys.modules.items()):
            if name.partition(".")[0] == "gpuprof" and vars(module).get("read_file") is read_file:
                stack.enter_context(patch.object(module, "read_file", read_once))
        yield


def read_once(name: str, *, salvage: bool = False, groups: bool = False) -> Report | Session | Trace:
    """Do what `read_file` does, but read a report or a timeline only if its bytes are new under this name.

    A report by ncu may have moved to another folder since: a reading holds its place in one field.
    """
    digest = _digest(Path(name)) if name else None
    if digest is None:
        return read_file(name, salvage=salvage, groups=groups)
    native = name.endswith(REPORTS)
    key = (Path(name).name if native else name, digest, salvage)
    if key not in _READ:
        recorded = read_file(name, salvage=salvage, groups=groups)
        if isinstance(recorded, Session):
            return recorded
        _READ[key] = recorded
    _READ.move_to_end(key)
    while len(_READ) > _MOST:
        _READ.popitem(last=False)
    return replace(_READ[key], file=str(Path(name))) if native else _READ[key]


@cache
def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="gpuprof-tests-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _digest(path: Path) -> str | None:
    """Return a hash of a file's bytes; None for what is no file, or a large one."""
    try:
        if not path.is_file() or path.stat().st_size > _LARGEST:
            return None
        return sha256(path.read_bytes()).hexdigest()
    except (OSError, ValueError):
        return None


@cache
def _session_of(paths: tuple[Path, ...], groups: bool) -> LoadedSession:
    with reading_once():
        return gpuprof.load(*paths, groups=groups)
