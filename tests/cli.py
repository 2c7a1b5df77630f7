"""The command line as tests call it: in this process with a process's streams, or in a process of its own."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Any, NoReturn
from unittest.mock import patch

from gpuprof.cli import main as entry
from gpuprof.model.recorded import Report
from gpuprof.read import ncu_rep
from tests.readings import read_once, reading_once

Done = subprocess.CompletedProcess[str]
GPUPROF = (sys.executable, "-m", "gpuprof")
_PATIENCE_S = 60.0


def gpuprof(
    *arguments: str | Path,
    stdin: str | None = None,
    cwd: Path | None = None,
    environ: Mapping[str, str] | None = None,
    encoding: str = "utf-8",
    onto: Mapping[int, int | None] | None = None,
) -> Done:
    """Run the command line in this process, from its first line to the exit code that it would end with.

    Unlike click's CliRunner it gives it real descriptors, so that what a program under `gpuprof run` prints is seen
    too, and its own way out of an error. `environ` is the whole environment; without it, ours at 80 columns. `onto` has
    for stdin, stdout and stderr, by number, the descriptor that is in its place, None for one that the caller closed.
    Files are read once, see `readings`.
    """
    environ = environ if environ is not None else {**os.environ, "COLUMNS": "80"}
    argv = ["gpuprof", *map(str, arguments)]
    onto = onto or {}
    closed = [number for number, descriptor in onto.items() if descriptor is None]
    with (
        _descriptors(stdin or "", onto) as (out, err),
        _streams(encoding, closed),
        _place(cwd or Path.cwd(), environ),
    ):
        with patch.object(sys, "argv", argv), patch.object(entry, "os", _NoExit()):
            code = _exit_code()
        return Done(argv, code, _text(out, encoding), _text(err, encoding))


def process(
    *arguments: str | Path, stdin: str | None = None, cwd: Path | None = None, environ: Mapping[str, str] | None = None
) -> Done:
    """Run the command line in a process of its own: for what a process has and this one would not show."""
    return subprocess.run(
        [*GPUPROF, *map(str, arguments)], input=stdin, cwd=cwd, capture_output=True, encoding="utf-8", check=False,
        env={**os.environ, "COLUMNS": "80"} if environ is None else environ, timeout=_PATIENCE_S,
    )  # fmt: skip


class _NoExit:
    """The module `os` as the entry point has it, but that ending the process is told to the caller."""

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    @staticmethod
    def _exit(code: int) -> NoReturn:
        raise SystemExit(code)


def _exit_code() -> int:
    """Run the entry point to its end."""
    try:
        with reading_once(), patch.object(ncu_rep, "read_ncu_rep", _report_once):
            entry.main()
    except SystemExit as end:
        assert isinstance(end.code, int)
        return end.code
    finally:
        gc.enable()
    raise AssertionError("the command line has not ended the process")


_read_ncu_rep = ncu_rep.read_ncu_rep


def _report_once(path: Path, *, salvage: bool = False) -> Report:
    """Read a report that ncu has just written, as `gpuprof run` does, unless another test read the same."""
    with patch.object(ncu_rep, "read_ncu_rep", _read_ncu_rep):
        report = read_once(str(path), salvage=salvage)
    assert isinstance(report, Report)
    return report


@contextmanager
def _place(cwd: Path, environ: Mapping[str, str]) -> Iterator[None]:
    """Be in a folder and an environment as a new process is: nothing remembers an earlier TMPDIR."""
    before = Path.cwd()
    with patch.dict(os.environ, environ, clear=True), patch.object(tempfile, "tempdir", None):
        os.chdir(cwd)
        try:
            yield
        finally:
            os.chdir(before)


@contextmanager
def _descriptors(stdin: str, onto: Mapping[int, int | None]) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """Put files in the place of the process's first three descriptors; give those of stdout and stderr."""
    with ExitStack() as stack:
        files = given, out, err = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(3)]
        given.write(stdin.encode())
        given.seek(0)
        for number in range(3):
            before = os.dup(number)
            stack.callback(os.close, before)
            stack.callback(os.dup2, before, number)
        for number, file in enumerate(files):
            descriptor = onto.get(number, file.fileno())
            if descriptor is None:
                os.close(number)
            else:
                os.dup2(descriptor, number)
        yield out, err


@contextmanager
def _streams(encoding: str, closed: Sequence[int]) -> Iterator[None]:
    """Let Python's streams be those of a process that has just begun on these descriptors."""
    with ExitStack() as stack:
        for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
            errors = "backslashreplace" if name == "stderr" else "strict"
            if number in closed:
                stack.enter_context(patch.object(sys, name, None))
                stack.callback(_close_stream, name)
            else:
                stream = os.fdopen(number, mode, encoding=encoding, errors=errors, closefd=False)
                stack.enter_context(patch.object(sys, name, stack.enter_context(stream)))
        yield


def _close_stream(name: str) -> None:
    """Close what was opened in the place of a stream that there was not."""
    if (stream := getattr(sys, name)) is not None:
        with suppress(OSError):  # what it has not taken is lost
            stream.close()


def _text(file: IO[bytes], encoding: str) -> str:
    file.seek(0)
    return file.read().decode(encoding)
