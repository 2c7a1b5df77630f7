"""Finds the libraries of NVRTC, old and new, and calls them through ctypes.

One process may need several of them: NVRTC 13 compiles for sm_75 and newer, sm_70 needs NVRTC 12, and a driver of CUDA
12 loads no code of NVRTC 13. The binding packages load one library for the whole process, so the few functions that are
needed are called directly.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from gpuprof.errors import EnvironmentProblem, GpuprofError
from gpuprof.sass.tools.programs import (
    LIMITS,
    CompileLimits,
    compile_with,
    cuda_folders,
    newest_first,
    run,
)
from gpuprof.working_folder import python_command

INSTALL_HINT = "install it: python -m pip install nvidia-cuda-nvrtc nvidia-cuda-nvdisasm"
OLD_INSTALL_HINT = "install it: python -m pip install nvidia-cuda-nvrtc-cu12"
NAMED = "GPUPROF_NVRTC"
"""The variable that names the NVRTC that comes before all others: a library, or a folder that has one."""

_WHEEL_FOLDERS = ("nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib")
_TOOLKIT_FOLDERS = ("lib64", "lib", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib")
_LIBRARY = "libnvrtc.so.1[0-9]"
_OK = 0
_NOT_COMPILED = (5, 6)
"""NVRTC_ERROR_INVALID_OPTION, and NVRTC_ERROR_COMPILATION."""
_TRIAL = "import ctypes, sys; ctypes.CDLL(sys.argv[1]).nvrtcVersion"
_PATIENCE_S = 30.0
_REFUSED = 3
"""The exit code of the child if NVRTC itself fails."""


class CompileOutcome(NamedTuple):
    """The cubin of a source, None if it does not compile, and the log."""

    cubin: bytes | None
    log: str


class Nvrtc:
    """One NVRTC library."""

    def __init__(self, path: Path) -> None:
        self._builtins = _builtins_beside(path)
        self._library = ctypes.CDLL(str(path))
        self.path = path
        major, minor, count = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
        self._call("nvrtcVersion", ctypes.byref(major), ctypes.byref(minor))
        self.version = (major.value, minor.value)
        self._call("nvrtcGetNumSupportedArchs", ctypes.byref(count))
        numbers = (ctypes.c_int * count.value)()
        self._call("nvrtcGetSupportedArchs", numbers)
        self.architectures = frozenset(numbers)

    def compile(self, source: str, name: str, options: Sequence[str]) -> CompileOutcome:
        """Compile one translation unit. Raises EnvironmentProblem if NVRTC itself fails."""
        program = ctypes.c_void_p()
        self._call("nvrtcCreateProgram", ctypes.byref(program), source.encode(), name.encode(), 0, None, None)
        try:
            texts = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
            code = self._library.nvrtcCompileProgram(program, len(options), texts)
            log = self._bytes(program, "ProgramLog").rstrip(b"\0").decode("utf-8", "replace")
            if code not in (_OK, *_NOT_COMPILED):
                # Other lines may quote files that the source includes.
                own = "\n".join(line for line in log.split("\n") if line.startswith("nvrtc"))
                raise EnvironmentProblem(f"{self}: {self._message(code)}: {own}")
            return CompileOutcome(self._bytes(program, "CUBIN") if code == _OK else None, log)
        finally:
            self._library.nvrtcDestroyProgram(ctypes.byref(program))

    def knows(self, target: str) -> bool:
        """Return whether it compiles for a target ("sm_90a")."""
        number = target.removeprefix("sm_").rstrip("af")
        return number.isdecimal() and int(number) in self.architectures

    def _bytes(self, program: ctypes.c_void_p, part: str) -> bytes:
        size = ctypes.c_size_t()
        self._call(f"nvrtcGet{part}Size", program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        self._call(f"nvrtcGet{part}", program, buffer)
        return buffer.raw

    def _call(self, function: str, *arguments: object) -> None:
        code = getattr(self._library, function)(*arguments)
        if code != _OK:
            raise EnvironmentProblem(f"{self.path}: {function}: {self._message(code)}", INSTALL_HINT)

    def _message(self, code: int) -> str:
        function = self._library.nvrtcGetErrorString
        function.restype = ctypes.c_char_p
        return bytes(function(code) or b"unknown error").decode("ascii", "replace")

    def __str__(self) -> str:
        return f"NVRTC {self.version[0]}.{self.version[1]}"


@lru_cache(maxsize=1)
def find_nvrtc() -> tuple[Nvrtc, ...]:
    """Return one NVRTC per version, newest first; before them the one that GPUPROF_NVRTC names.

    Raises EnvironmentProblem if there is none, or none where the variable says.
    """
    place = os.environ.get(NAMED)
    named = _named(place) if place else None
    found = newest_first(_loaded(_candidates()))
    if named is not None:
        return (named, *(nvrtc for nvrtc in found if nvrtc.version != named.version))
    if not found:
        raise EnvironmentProblem("NVRTC (the CUDA run-time compiler) was not found", INSTALL_HINT)
    return found


def _named(place: str) -> Nvrtc:
    """Return the NVRTC that the user names: this library, or the newest in this folder of a wheel or a toolkit."""
    libraries = [Path(place)]
    if not libraries[0].is_file():
        libraries = _libraries_in(Path(place, part) for part in ("", *_WHEEL_FOLDERS, *_TOOLKIT_FOLDERS))
    newest = next(iter(newest_first(_loaded(libraries))), None)
    if newest is None:
        hint = "set it to a libnvrtc.so.12 or libnvrtc.so.13 or to its folder, or unset it"
        raise EnvironmentProblem(f"{NAMED}={place} cannot be loaded as NVRTC", hint)
    return newest


def _candidates() -> list[Path]:
    return _libraries_in(cuda_folders(_WHEEL_FOLDERS, _TOOLKIT_FOLDERS))


def _libraries_in(folders: Iterable[Path]) -> list[Path]:
    libraries = []
    for folder in folders:
        libraries += sorted(folder.glob(_LIBRARY), reverse=True)
    return libraries


def _loaded(paths: Iterable[Path]) -> Iterator[Nvrtc]:
    """Yield the libraries that can be loaded and answer."""
    for path in paths:
        with contextlib.suppress(OSError, AttributeError, ValueError, EnvironmentProblem):
            # A damaged library may crash the process that loads it.
            if run([sys.executable, "-I", "-S", "-c", _TRIAL, str(path)], _PATIENCE_S).code == 0:
                yield Nvrtc(path)


def _builtins_beside(path: Path) -> list[ctypes.CDLL]:
    """Load the library that NVRTC 13.0 looks for by name alone when it compiles, and does not find beside itself."""
    loaded = []
    for library in sorted(path.parent.glob("libnvrtc-builtins.so.*")):
        with contextlib.suppress(OSError):
            loaded.append(ctypes.CDLL(str(library)))
    return loaded


def compile_apart(
    nvrtc: Nvrtc, source: str, name: str, options: Sequence[str], limits: CompileLimits = LIMITS
) -> CompileOutcome:
    """Compile in a process of its own: a source that makes NVRTC crash or hang ends that process alone.

    Raises LimitReached, and EnvironmentProblem if NVRTC itself fails.
    """
    command = python_command(__name__, str(nvrtc.path), name, *options)
    cubin, outcome = compile_with(command, source.encode(), limits)
    if outcome.code == _REFUSED:
        raise EnvironmentProblem(outcome.messages)
    if outcome.code:
        raise EnvironmentProblem(f"{nvrtc} ended with {outcome.code} on {name:.100}: {outcome.log.strip()[-300:]}")
    return CompileOutcome(cubin or None, outcome.output)


def main(arguments: Sequence[str]) -> None:
    """Compile in the child; the log goes to its standard output."""
    library, name, *options, _, cubin, source = arguments
    try:
        outcome = Nvrtc(Path(library)).compile(Path(source).read_text(encoding="utf-8"), name, options)
    except (GpuprofError, OSError) as error:
        sys.stderr.buffer.write(str(error).encode(errors="replace"))
        sys.exit(_REFUSED)
    sys.stdout.buffer.write(outcome.log.encode())
    if outcome.cubin is not None:
        Path(cubin).write_bytes(outcome.cubin)
