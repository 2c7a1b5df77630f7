"""Finds NVIDIA's programs in wheels, in CUDA toolkits and on PATH, and runs them with limits."""

from __future__ import annotations

import contextlib
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import IO, Any, NamedTuple, Protocol, TypeVar

from gpuprof.errors import EnvironmentProblem, InputError
from gpuprof.units import format_si
from gpuprof.working_folder import program_on_path, programs_path

NVCC_HINT = "install it: python -m pip install nvidia-cuda-nvcc nvidia-cuda-cccl"
"""What brings nvcc, ptxas and the headers that they need."""

_WHEEL_FOLDERS = (
    "nvidia/cu13/bin",
    "nvidia/cuda_nvcc/bin",
    "nvidia/cuda_nvdisasm/bin",
    "triton/backends/nvidia/bin",
)
_TOOLKITS = Path("/usr/local")
_VERSION = re.compile(r"release (\d+)\.(\d+)")
_TARGET = re.compile(r"'(sm_\d+[af]?)'")
"""An allowed value in the help of nvcc and ptxas."""
_ANSWER_S = 30.0
_MOST_OUTPUT = 2**20
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
"""Environment variables that programs get. A source could include /proc/self/environ, which may have secrets."""


class Program(NamedTuple):
    """A program of the CUDA toolkit that answers, and its version."""

    path: Path
    version: tuple[int, int]

    def __str__(self) -> str:
        return f"{self.path.stem} {self.version[0]}.{self.version[1]}"


class _Versioned(Protocol):
    @property
    def version(self) -> tuple[int, int]: ...


_Tool = TypeVar("_Tool", bound=_Versioned)


class CompileLimits(NamedTuple):
    """Limits for one run of a compiler: one source, one architecture."""

    seconds: float = 60.0
    memory_bytes: int = 2 * 10**9


LIMITS = CompileLimits()


class LimitReached(InputError):
    """Compiling a source exceeded its limits."""


class NotFinished(EnvironmentProblem):
    """A program exceeded its limit of time or output."""


class Outcome(NamedTuple):
    """The exit code of a program, and the beginning of its output and of its messages."""

    code: int
    output: str
    messages: str

    @property
    def log(self) -> str:
        """Both, the output first."""
        return self.output + self.messages


@lru_cache(maxsize=8)
def find_programs(name: str) -> tuple[Program, ...]:
    """Return every program of that name ("ptxas"), newest first, one per version."""
    return newest_first(program for path in _candidates(name) if (program := _program(path)) is not None)


def newest_first(tools: Iterable[_Tool]) -> tuple[_Tool, ...]:
    """Return the first tool of each version, newest first."""
    by_version: dict[tuple[int, int], _Tool] = {}
    for tool in tools:
        by_version.setdefault(tool.version, tool)
    return tuple(by_version[version] for version in sorted(by_version, reverse=True))


def program_for(name: str, target: str) -> Program | None:
    """Return the newest program of that name that compiles for a target, or None."""
    return next((program for program in find_programs(name) if target in targets_of(program)), None)


def targets_of(program: Program) -> frozenset[str]:
    """Return the targets that a compiler knows, by its help."""
    return frozenset(_TARGET.findall(_answer(program.path, "--help")))


def _candidates(name: str) -> list[Path]:
    candidates = [folder / name for folder in cuda_folders(_WHEEL_FOLDERS, ("bin",))]
    on_path = program_on_path(name, os.environ)
    if on_path is not None:
        candidates.append(Path(on_path))
    return [path for path in candidates if path.is_file()]


def cuda_folders(in_wheels: Sequence[str], in_toolkit: Sequence[str]) -> Iterator[Path]:
    """Yield the folders of installed wheels, then those of toolkits: CUDA_HOME, CUDA_PATH, /usr/local/cuda*."""
    for package in map(Path, sys.path):
        if package.name in {"site-packages", "dist-packages"}:
            yield from (package / part for part in in_wheels)
    named = filter(os.path.isabs, (os.environ.get("CUDA_HOME", ""), os.environ.get("CUDA_PATH", "")))
    for toolkit in (*map(Path, named), *sorted(_TOOLKITS.glob("cuda*"))):
        yield from (toolkit / part for part in in_toolkit)


def _program(path: Path) -> Program | None:
    """Return a program with the version that it prints; None if it cannot be started or prints none."""
    try:
        match = _VERSION.search(_answer(path, "--version"))
    except EnvironmentProblem:
        return None
    return Program(path, (int(match[1]), int(match[2]))) if match else None


@lru_cache(maxsize=32)
def _answer(path: Path, option: str) -> str:
    return run([str(path), option], _ANSWER_S).output


@contextlib.contextmanager
def private_folder() -> Iterator[Path]:
    """Give a temporary folder and remove it after the block, however that ends."""
    with TemporaryDirectory(prefix="gpuprof-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def compile_with(command: Sequence[str], source: bytes | Path, limits: CompileLimits) -> tuple[bytes, Outcome]:
    """Run a compiler, whose last arguments will be `-o`, the file to write, and the source, in a folder of its own.

    Return what it wrote, nothing if it failed, and its outcome. Raises LimitReached if it exceeds its limits.
    """
    with private_folder() as folder:
        written, file = folder / "code.cubin", folder / "source"
        if isinstance(source, Path):
            file = source.absolute()
        else:
            file.write_bytes(source)
        try:
            outcome = run(
                [*command, "-o", str(written), str(file)],
                limits.seconds,
                memory_bytes=limits.memory_bytes,
                folder=folder,
            )
        except NotFinished as error:
            more = f"--compile-timeout {2 * limits.seconds:g} allows more"
            raise LimitReached(f"compiling takes longer than {limits.seconds:g} s", more) from error
        if outcome.code == 0 and written.is_file():
            return written.read_bytes(), outcome
    if _NO_MEMORY.search(outcome.log):
        allowed = format_si(limits.memory_bytes, "B").replace(".00", "")
        more = format_si(2 * limits.memory_bytes, "B").replace(".00", "").replace(" ", "")
        raise LimitReached(f"compiling takes more than {allowed} of memory", f"--compile-memory {more} allows more")
    return b"", outcome


def run(
    command: Sequence[str],
    patience_s: float,
    *,
    memory_bytes: int = LIMITS.memory_bytes,
    folder: Path | None = None,
    cwd: Path | None = None,
    stdin: bytes = b"",
    most_output: int = _MOST_OUTPUT,
) -> Outcome:
    """Run a program; it and all that it started ends with the call. Its temporary files go into `folder`.

    It gets only the environment variables that compilers read, and the memory limit for each of its processes. Input
    and output are files without a name, of which nothing is left if this process is killed. Raises EnvironmentProblem
    if it cannot be started, and NotFinished if it takes longer than `patience_s`.
    """
    environment = {name: value for name, value in os.environ.items() if _VARIABLES.fullmatch(name)}
    environment["PATH"] = programs_path(os.environ)
    if folder is not None:
        environment |= dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(folder))
    try:
        if shutil.which(command[0]) is None:
            raise FileNotFoundError("there is no such program")
        with TemporaryFile() as given, TemporaryFile() as output, TemporaryFile() as messages:
            given.write(stdin)
            given.seek(0)
            code = _ended(
                ["/bin/sh", "-c", _WITHIN, str(memory_bytes // 1024), *command],
                patience_s,
                stdin=given,
                stdout=output,
                stderr=messages,
                env=environment,
                cwd=cwd,
            )
            return Outcome(code, _beginning(output, most_output), _beginning(messages, most_output))
    except subprocess.TimeoutExpired as error:
        raise NotFinished(f"{command[0]} did not finish within {patience_s:.0f} s") from error
    except (OSError, ValueError) as error:
        raise EnvironmentProblem(f"{command[0]} cannot be run: {error}") from error


def _ended(command: Sequence[str], patience_s: float, **options: Any) -> int:
    """Run a program in a session of its own and return its exit code; all of the session ends with the call."""
    started = None
    try:
        with _signals_delayed():
            started = subprocess.Popen(command, start_new_session=True, **options)
        _wait(started, patience_s)
    finally:
        if started is not None:
            _end(started)
    return started.returncode


def _wait(started: subprocess.Popen[bytes], patience_s: float) -> None:
    """Wait for a process to end. `Popen.wait` with a timeout polls, which adds up to 50 ms.

    Raises subprocess.TimeoutExpired.
    """
    until = time.monotonic() + patience_s
    with contextlib.suppress(AttributeError, OSError):  # Linux has it from 5.3 on
        handle = os.pidfd_open(started.pid)
        try:
            ended = select.poll()
            ended.register(handle, select.POLLIN)
            ended.poll(1000 * patience_s)
        finally:
            os.close(handle)
    started.wait(max(0.0, until - time.monotonic()))


@contextlib.contextmanager
def _signals_delayed() -> Iterator[None]:
    """Delay signals until after the block, so that a process that starts in it is known when a handler raises.

    They are not blocked, because the process would inherit that; it inherits no handler.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []
    handlers = {}
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        handler = signal.getsignal(number)
        if callable(handler):
            handlers[number] = handler
    try:
        for number in handlers:
            signal.signal(number, lambda number, _: received.append(number))
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for caught in dict.fromkeys(received):
            signal.raise_signal(caught)


def _end(started: subprocess.Popen[bytes]) -> None:
    """Kill a program's process group; its children may still run after the program has ended."""
    with contextlib.suppress(OSError):
        os.killpg(started.pid, signal.SIGKILL)
    started.wait()


def _beginning(file: IO[bytes], most: int) -> str:
    file.seek(0)
    return file.read(most).decode("utf-8", "replace")
