"""The border to NVRTC: finds its libraries, old and new, and calls them through ctypes.

One process may need several of them: NVRTC 13 compiles for sm_75 and newer, sm_70 needs NVRTC 12, and a driver of CUDA
12 loads no code of NVRTC 13. The binding packages load one library for the whole process, so the few functions needed
are called directly.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import site
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from gpuprof.errors import EnvironmentProblem

INSTALL_HINT = "install it: python -m pip install nvidia-cuda-nvrtc nvidia-cuda-nvdisasm"
OLD_INSTALL_HINT = "python -m pip install nvidia-cuda-nvrtc-cu12"
NAMED = "GPUPROF_NVRTC"
"""The variable that names the NVRTC to be taken before all others: a library, or a folder that has one."""

_WHEEL_FOLDERS = ("nvidia/cu13/lib", "nvidia/cu13/bin/x86_64", "nvidia/cuda_nvrtc/lib", "nvidia/cuda_nvrtc/bin")
_TOOLKIT_FOLDERS = ("lib64", "lib", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib", "bin")
_LIBRARIES = ("libnvrtc.so.1[0-9]", "nvrtc64_1[0-9]0_0.dll")
_OK, _COMPILATION_FAILED = 0, 6
INVALID_OPTION = "NVRTC_ERROR_INVALID_OPTION"
"""What its error is called where it does not know an option, or not its value."""
_TRIAL = "import ctypes, sys; ctypes.CDLL(sys.argv[1]).nvrtcVersion"
_PATIENCE_S = 30.0


class CompileOutcome(NamedTuple):
    """What NVRTC made of a source: a cubin, or None; and its log."""

    cubin: bytes | None
    log: str


class Nvrtc:
    """One NVRTC library."""

    def __init__(self, path: Path) -> None:
        _try(path)
        self._builtins = _builtins_beside(path)
        self._library = ctypes.CDLL(str(path))
        self.path = path
        self.version = self._version()
        self.architectures = self._architectures()

    def compile(self, source: str, name: str, options: Sequence[str]) -> CompileOutcome:
        """Compile one translation unit. Raises EnvironmentProblem where NVRTC itself fails, such as for an option."""
        program = ctypes.c_void_p()
        created = self._library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), name.encode(), 0, None, None)
        self._require(created, "nvrtcCreateProgram")
        try:
            texts = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
            code = self._library.nvrtcCompileProgram(program, len(options), texts)
            log = self._bytes(program, "ProgramLog").rstrip(b"\0").decode("utf-8", "replace")
            if code not in {_OK, _COMPILATION_FAILED}:
                # Other lines may quote files that the source includes.
                own = "\n".join(line for line in log.split("\n") if line.startswith("nvrtc"))
                raise EnvironmentProblem(f"{self}: {self._message(code)}: {own}")
            return CompileOutcome(self._bytes(program, "CUBIN") if code == _OK else None, log)
        finally:
            self._library.nvrtcDestroyProgram(ctypes.byref(program))

    def knows(self, target: str) -> bool:
        """Tell whether it compiles for a target ("sm_90a")."""
        number = target.removeprefix("sm_").rstrip("af")
        return number.isdecimal() and int(number) in self.architectures

    def _bytes(self, program: ctypes.c_void_p, what: str) -> bytes:
        size = ctypes.c_size_t()
        self._require(getattr(self._library, f"nvrtcGet{what}Size")(program, ctypes.byref(size)), what)
        buffer = ctypes.create_string_buffer(size.value)
        self._require(getattr(self._library, f"nvrtcGet{what}")(program, buffer), what)
        return buffer.raw

    def _version(self) -> tuple[int, int]:
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._require(self._library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)), "nvrtcVersion")
        return major.value, minor.value

    def _architectures(self) -> frozenset[int]:
        count = ctypes.c_int()
        self._require(self._library.nvrtcGetNumSupportedArchs(ctypes.byref(count)), "nvrtcGetNumSupportedArchs")
        numbers = (ctypes.c_int * count.value)()
        self._require(self._library.nvrtcGetSupportedArchs(numbers), "nvrtcGetSupportedArchs")
        return frozenset(numbers)

    def _require(self, code: int, what: str) -> None:
        if code != _OK:
            raise EnvironmentProblem(f"{self.path}: {what}: {self._message(code)}", INSTALL_HINT)

    def _message(self, code: int) -> str:
        function = self._library.nvrtcGetErrorString
        function.restype = ctypes.c_char_p
        return bytes(function(code) or b"unknown error").decode("ascii", "replace")

    def __str__(self) -> str:
        return f"NVRTC {self.version[0]}.{self.version[1]}"


@lru_cache(maxsize=1)
def find_nvrtc() -> tuple[Nvrtc, ...]:
    """Return one NVRTC per version, newest first; before them that which GPUPROF_NVRTC names.

    Raises EnvironmentProblem where there is none, or none where the variable says.
    """
    named = os.environ.get(NAMED)
    first = _named(named) if named else None
    by_version: dict[tuple[int, int], Nvrtc] = {}
    for nvrtc in _loaded(_candidates(os.environ)):
        if first is None or nvrtc.version != first.version:
            by_version.setdefault(nvrtc.version, nvrtc)
    if first is None and not by_version:
        raise EnvironmentProblem("NVRTC (the CUDA run-time compiler) was not found", INSTALL_HINT)
    newest_first = (by_version[version] for version in sorted(by_version, reverse=True))
    return (*(() if first is None else (first,)), *newest_first)


def _named(place: str) -> Nvrtc:
    """Return the NVRTC that the user names: this library, or the newest in this folder of a wheel or a toolkit."""
    folders = [Path(place, part) for part in ("", *_WHEEL_FOLDERS, *_TOOLKIT_FOLDERS)]
    libraries = [Path(place)] if Path(place).is_file() else list(_libraries_in(folders))
    newest = max(_loaded(libraries), key=lambda nvrtc: nvrtc.version, default=None)
    if newest is None:
        hint = "set it to a libnvrtc.so.12 or libnvrtc.so.13 or to its folder, or unset it"
        raise EnvironmentProblem(f"{NAMED}={place} cannot be loaded as NVRTC", hint)
    return newest


def _loaded(paths: Iterable[Path]) -> Iterator[Nvrtc]:
    """Yield the libraries that can be loaded and answer."""
    for path in paths:
        with contextlib.suppress(OSError, AttributeError, ValueError, EnvironmentProblem):
            yield Nvrtc(path)


def _try(path: Path) -> None:
    """Load a library in a process of its own: a damaged one may crash it. Raises OSError where that fails."""
    command = [sys.executable, "-I", "-S", "-c", _TRIAL, str(path)]
    try:
        failed = subprocess.run(command, capture_output=True, check=False, timeout=_PATIENCE_S).returncode
    except subprocess.TimeoutExpired as error:
        raise OSError(f"{path} was not loaded within {_PATIENCE_S:.0f} s") from error
    if failed:
        raise OSError(f"{path} cannot be loaded")


def _builtins_beside(path: Path) -> tuple[ctypes.CDLL, ...]:
    """Load what NVRTC 13.0 looks for by name alone when it compiles, and does not find beside itself."""
    loaded = []
    for library in sorted(path.parent.glob("libnvrtc-builtins.so.*")):
        with contextlib.suppress(OSError):
            loaded.append(ctypes.CDLL(str(library)))
    return tuple(loaded)


def _candidates(environ: Mapping[str, str]) -> Iterator[Path]:
    yield from _libraries_in(library_folders(environ, _WHEEL_FOLDERS, _TOOLKIT_FOLDERS))


def _libraries_in(folders: Iterable[Path]) -> Iterator[Path]:
    for folder in folders:
        for pattern in _LIBRARIES:
            yield from sorted(folder.glob(pattern), reverse=True)


def library_folders(environ: Mapping[str, str], in_wheels: Sequence[str], in_toolkit: Sequence[str]) -> Iterator[Path]:
    """Yield the folders of wheels, then those of the CUDA toolkit: CUDA_HOME, CUDA_PATH, the usual place."""
    for packages in _package_folders():
        yield from (packages / part for part in in_wheels)
    roots = filter(os.path.isabs, (environ.get(name, "") for name in ("CUDA_HOME", "CUDA_PATH")))
    for root in (*roots, "/usr/local/cuda"):
        yield from (Path(root) / part for part in in_toolkit)


def _package_folders() -> Iterator[Path]:
    """Yield the folders that wheels are installed into, this environment's first."""
    seen = set()
    for name in (sysconfig.get_path("platlib"), sysconfig.get_path("purelib"), *sys.path, site.getusersitepackages()):
        if name and name not in seen and Path(name).name in {"site-packages", "dist-packages"}:
            seen.add(name)
            yield Path(name)
