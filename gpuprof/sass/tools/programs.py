"""Finds NVIDIA's programs in wheels, on PATH and in the CUDA toolkit, and runs compilers in folders of their own."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import select
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from gpuprof.errors import EnvironmentProblem, InputError
from gpuprof.sass.tools.nvrtc import library_folders
from gpuprof.sass.tools.user_cache import key_of, user_cache
from gpuprof.units import format_si
from gpuprof.working_folder import program_on_path, programs_path

NVCC_HINT = "install it: python -m pip install nvidia-cuda-nvcc nvidia-cuda-cccl"
"""What brings nvcc, ptxas and the headers that they need."""

_WHEEL_FOLDERS = (
    "nvidia/cu13/bin",
    "nvidia/cuda_nvcc/bin",
    "nvidia/cuda_nvdisasm/bin",
    "nvidia/cuda_cuobjdump/bin",
    "triton/backends/nvidia/bin",
)
_VERSION = re.compile(r"release (\d+)\.(\d+)")
_ANSWER_S = 10.0
_MOST_OUTPUT = 2**20
_KIND = "program version 1"
_WITHIN = 'ulimit -v "$0" 2>/dev/null; ulimit -c 0; exec "$@"'
"""The shell sets the limit and then becomes the program. A limit set later would not hold for its children, and Python
cannot safely set one between fork and exec while it has threads."""
_NO_MEMORY = re.compile(
    r"catastrophic error: out of memory|LLVM ERROR: out of memory|out of memory allocating|virtual memory exhausted"
    r"|std::bad_alloc|Memory allocation fail|Cannot allocate memory|^MemoryError",
    re.MULTILINE,
)
"""Out-of-memory messages of NVRTC, nvcc, LLVM, g++, ptxas, the system and Python."""
_VARIABLES = re.compile(
    r"PATH|HOME|TERM|LANG|LC_\w+|TZ|LD_\w+|CC|CXX|(?:CUDA|NVCC|NVRTC|NVVM|GPUPROF|GCC|CONDA|NIX|COVERAGE)_\w+"
    r"|(?:C_|CPLUS_)?INCLUDE_PATH|CPATH|LIBRARY_PATH|COMPILER_PATH|\w*ROOT|COMSPEC"
)
"""Environment variables that compilers get. A source could include /proc/self/environ, which may hold secrets."""
_MOST_SAID = 1024


class Program(NamedTuple):
    """A program of the CUDA toolkit that answers, and its version."""

    path: Path
    version: tuple[int, int]

    def __str__(self) -> str:
        return f"{self.path.stem} {self.version[0]}.{self.version[1]}"


class CompileLimits(NamedTuple):
    """Limits for compiling one source for one architecture. `until_s` is the deadline on the monotonic clock."""

    seconds: float = 60.0
    memory_bytes: int = 2 * 10**9
    until_s: float | None = None

    def begun(self) -> CompileLimits:
        """Return the limits with the deadline counted from now."""
        return self._replace(until_s=time.monotonic() + self.seconds)


LIMITS = CompileLimits()


class LimitReached(InputError):
    """Compiling a source exceeded its limits."""


class Outcome(NamedTuple):
    """How a program ended, and the beginning of what it said."""

    code: int
    said: str


@lru_cache(maxsize=8)
def find_programs(name: str) -> tuple[Program, ...]:
    """Return every program of that name ("ptxas"), newest first, one per version."""
    by_version: dict[tuple[int, int], Program] = {}
    for path in _candidates(name, os.environ):
        if path.is_file() and os.access(path, os.X_OK):
            version = _version(path)
            if version is not None:
                by_version.setdefault(version, Program(path, version))
    return tuple(by_version[version] for version in sorted(by_version, reverse=True))


@contextlib.contextmanager
def private_folder() -> Iterator[Path]:
    """Give a temporary folder that is gone behind the block, however that ends."""
    with tempfile.TemporaryDirectory(prefix="gpuprof-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def compile_in(folder: Path, command: Sequence[str], limits: CompileLimits) -> Outcome:
    """Run a compiler as `run_in` does. Raises LimitReached if it exceeds its limits."""
    patience_s = limits.seconds if limits.until_s is None else max(0.0, limits.until_s - time.monotonic())
    try:
        outcome = run_in(folder, command, patience_s, limits.memory_bytes)
    except NotFinished as error:
        raise LimitReached(
            f"compiling takes longer than {limits.seconds:g} s", f"--compile-timeout {2 * limits.seconds:g} allows more"
        ) from error
    if outcome.code:
        refuse_without_memory(outcome.said, limits)
    return outcome


def refuse_without_memory(said: str, limits: CompileLimits) -> None:
    """Raise LimitReached if a compiler reports that it ran out of memory."""
    if _NO_MEMORY.search(said):
        allowed, more = (format_si(amount * limits.memory_bytes, "B").replace(".00", "") for amount in (1, 2))
        raise LimitReached(
            f"compiling takes more than {allowed} of memory", f"--compile-memory {more.replace(' ', '')} allows more"
        )


class NotFinished(EnvironmentProblem):
    """A program exceeded its time limit."""


def run_in(folder: Path, command: Sequence[str], patience_s: float, memory_bytes: int = LIMITS.memory_bytes) -> Outcome:
    """Run a program whose temporary files go into that folder; it and all that it started ends with the call.

    It gets only the environment variables that compilers read. Raises EnvironmentProblem if it cannot be started, and
    NotFinished if it takes longer than `patience_s`.
    """
    environment = {name: value for name, value in os.environ.items() if _VARIABLES.fullmatch(name)}
    environment |= {"TMPDIR": str(folder), "TEMP": str(folder), "TMP": str(folder), "PATH": programs_path(os.environ)}
    log = folder / "output.txt"
    with log.open("wb") as output:
        try:
            code = ended(
                within(command, memory_bytes),
                patience_s,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )
        except subprocess.TimeoutExpired as error:
            raise NotFinished(f"{command[0]} did not finish within {patience_s:.0f} s") from error
        except (OSError, ValueError) as error:
            raise EnvironmentProblem(f"{command[0]} cannot be started: {error}") from error
    with log.open("rb") as output:
        return Outcome(code, output.read(_MOST_OUTPUT).decode("utf-8", "replace"))


def within(command: Sequence[str], memory_bytes: int = LIMITS.memory_bytes) -> list[str]:
    """Return a command that runs another one with a memory limit for each of its processes.

    Raises FileNotFoundError if the program is missing, which a shell would only print.
    """
    if shutil.which(command[0]) is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), command[0])
    return ["/bin/sh", "-c", _WITHIN, str(memory_bytes // 1024), *command]


def ended(command: Sequence[str], patience_s: float, **options: Any) -> int:
    """Run a program, started with options of `Popen`, and return its exit code; it ends with the call in any case.

    What it started ends with it if it has a session of its own. Raises subprocess.TimeoutExpired where it takes longer
    than `patience_s`, OSError and ValueError where it cannot be started.
    """
    started: subprocess.Popen[bytes] | None = None
    try:
        with _signals_after():
            started = subprocess.Popen(list(command), **options)
        _wait(started, patience_s)
    finally:
        if started is not None:
            _end(started)
    return started.returncode


def _wait(started: subprocess.Popen[bytes], patience_s: float) -> None:
    """Wait for a process to end. `Popen.wait` with a timeout polls 20 times a second, which adds up to 25 ms.

    Raises subprocess.TimeoutExpired.
    """
    until = time.monotonic() + patience_s
    if hasattr(os, "pidfd_open"):  # Linux from 5.3 on
        with contextlib.suppress(OSError):
            handle = os.pidfd_open(started.pid)
            try:
                end = select.poll()
                end.register(handle, select.POLLIN)
                if end.poll(1000 * patience_s):
                    return
            finally:
                os.close(handle)
    started.wait(max(0.0, until - time.monotonic()))


@contextlib.contextmanager
def _signals_after() -> Iterator[None]:
    """Keep signals whose handlers may raise until behind the block: what starts in it is then known, and can be ended.

    They are not blocked, for what starts would inherit that; no handler is inherited.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    every = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    handlers = {which: handler for which in every if callable(handler := signal.getsignal(which))}
    try:
        for which in handlers:
            signal.signal(which, lambda number, _: came.append(number))
        yield
    finally:
        for which, handler in handlers.items():
            signal.signal(which, handler)
        for which in dict.fromkeys(came):
            signal.raise_signal(which)


def _end(started: subprocess.Popen[bytes]) -> None:
    """Kill a program's process group; its children may still run after the program has ended."""
    try:
        os.killpg(started.pid, signal.SIGKILL)
    except (AttributeError, OSError):  # Windows has no groups of processes
        started.kill()
    started.wait()


def _candidates(name: str, environ: Mapping[str, str]) -> Iterator[Path]:
    for folder in library_folders(environ, _WHEEL_FOLDERS, ("bin",)):
        yield folder / name
        yield folder / f"{name}.exe"
    on_path = program_on_path(name, environ)
    if on_path is not None:
        yield Path(on_path)


def _version(path: Path) -> tuple[int, int] | None:
    """Return a program's version, as it said itself at some time if it has not changed since."""
    try:
        state = path.stat()
    except OSError:
        return None
    key = key_of(_KIND, str(path), f"{state.st_size} {state.st_mtime_ns}")
    cache = user_cache()
    said = _VERSION.search((cache.read(key, _MOST_SAID) or b"").decode("utf-8", "replace"))
    if said is None:
        said = _VERSION.search(_said_version(path))
        if said is not None:
            cache.write(key, said[0].encode())
    return (int(said[1]), int(said[2])) if said else None


def _said_version(path: Path) -> str:
    """Return what a program says of its version; nothing where it cannot be started."""
    try:
        return subprocess.run(
            [str(path), "--version"],
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_ANSWER_S,
            check=False,
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
