"""Compiles sources and PTX for one exact target, without a GPU, with NVRTC, nvcc and ptxas, and reads their errors."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from gpuprof.errors import EnvironmentProblem, InputError
from gpuprof.sass.tools.nvrtc import (
    INSTALL_HINT,
    OLD_INSTALL_HINT,
    Nvrtc,
    compile_apart,
    find_nvrtc,
)
from gpuprof.sass.tools.programs import (
    LIMITS,
    NVCC_HINT,
    CompileLimits,
    Program,
    compile_with,
    cuda_folders,
    find_programs,
    program_for,
)

DEFAULT_STANDARD = "c++17"
_SAYS_ERROR = re.compile(r"\berror\b[^:]{0,40}:|\bfatal\b[^:]{0,40}:|^nvcc fatal")
_INCLUDE = "--include-path="
_PLACE = re.compile(r"^([^\s(].{0,4096}?)(?:\((\d{1,9})\)|:(\d{1,9}(?::\d{1,9})?)): ")
"""Places in messages of EDG (NVRTC, nvcc) and g++."""
_PTXAS = re.compile(r"^ptxas [^,\n]{1,4096}, line (\d+); (?:error|fatal)\s*: ", re.MULTILINE)
"""An error of ptxas. In PTX that another compiler wrote to a temporary file, the line means nothing to a user."""
_ABORTED = "Ptx assembly aborted due to errors"
_MOST_ERRORS, _LONGEST_ERROR = 3, 300
_REFUSED = re.compile(
    r"requires \.target|not supported on \.target|cannot be compiled for architecture|Illegal vector size: 8$"
)
"""The last is the message of NVRTC before 12.9 for a load of 256 bits, which Blackwell has."""
_NO_HOST_COMPILER = re.compile(
    r"Cannot find compiler|host compiler .{0,80}not found|(?:gcc|g\+\+|cc1plus)\W.{0,20}(?:not found|No such file)"
)
_READ_BY_SHELL = frozenset('$`"\\')
"""nvcc hands its arguments to a shell, between double quotes: a file called `$(reboot).cu` would be run."""

Quotable = Callable[[str], bool]
"""Whether messages about a file may be shown. A source can include any file that its user can read."""


class Compiled(Struct, frozen=True):
    """A cubin, its SHA-256, the compiler and options that made it, and the compiler's log."""

    cubin: bytes
    sha256: str
    compiler: str
    options: tuple[str, ...]
    log: str = ""


class NotCompiled(NamedTuple):
    """Why there is no cubin: the target lacks a feature (`unsupported`), or the source is wrong."""

    why: str
    unsupported: bool = False


def compile_file(
    source: Path, target: str, options: tuple[str, ...], nvrtc: Nvrtc | None = None
) -> Compiled | NotCompiled:
    """Compile a file in this process with options that name the target; `nvrtc` None: with the first that knows it.

    Raises EnvironmentProblem if there is no NVRTC.
    """
    nvrtc = nvrtc or compiler_for(target)
    if nvrtc is None:
        names = ", ".join(map(str, find_nvrtc()))
        return NotCompiled(f"{names} does not compile for {target}; {install_hint(target)}", unsupported=True)
    outcome = nvrtc.compile(source.read_text(encoding="utf-8"), source.name, options)
    if outcome.cubin is not None:
        return _compiled(outcome.cubin, nvrtc, options, outcome.log)
    errors = _errors(outcome.log, lambda _: True)
    first = errors[0] if errors else outcome.log.strip() or "NVRTC gives no reason"
    return NotCompiled(first, unsupported=_REFUSED.search(first) is not None)


def compiler_for(target: str) -> Nvrtc | None:
    """Return the first NVRTC that knows the target, the newest unless the user names one; or None."""
    return next((nvrtc for nvrtc in find_nvrtc() if nvrtc.knows(target)), None)


def install_hint(target: str) -> str:
    """Return what to install so that NVRTC compiles for a target."""
    return OLD_INSTALL_HINT if target == "sm_70" else INSTALL_HINT


def compile_with_nvrtc(
    nvrtc: Nvrtc, source: str, name: str, options: tuple[str, ...], quotable: Quotable, limits: CompileLimits
) -> Compiled | NotCompiled:
    """Compile a source in a process of its own. Raises LimitReached, and EnvironmentProblem if NVRTC itself fails."""
    with_headers = (*options, *include_options(*_cuda_header_folders(nvrtc)))
    outcome = compile_apart(nvrtc, source, name, with_headers, limits)
    if outcome.cubin is None:
        return NotCompiled(first_errors(outcome.log, quotable) or f"{nvrtc} makes no machine code of it")
    return _compiled(outcome.cubin, nvrtc, options)


def compile_with_nvcc(
    nvcc: Program, source: Path, options: tuple[str, ...], quotable: Quotable, limits: CompileLimits
) -> Compiled | NotCompiled | None:
    """Compile the device code of a file; None if nvcc finds no C++ compiler.

    The cubin is empty if an option had nvcc do something else. Raises LimitReached.
    """
    command = [str(nvcc.path), "-cubin", *options, "-x", "cu"]
    for word in (*command, str(source.absolute())):
        if _is_unsafe(word):
            why = f'nvcc would have a shell read {word!r:.200}; it cannot have $, `, " or \\ in names and macros'
            return NotCompiled(why)
    cubin, outcome = compile_with(command, source, limits)
    if outcome.code == 0:
        return _compiled(cubin, nvcc, ("-cubin", *options))
    if _NO_HOST_COMPILER.search(outcome.log):
        return None
    return NotCompiled(first_errors(outcome.log, quotable) or f"nvcc ended with {outcome.code} and gives no reason")


def _is_unsafe(word: str) -> bool:
    """Return whether a shell would read more than text in an argument; nvcc escapes the quotes of macros only."""
    return bool(_READ_BY_SHELL.intersection(word.replace('"', "") if word.startswith("-D") else word))


def compile_ptx(ptx: bytes, target: str, name: str, limits: CompileLimits = LIMITS) -> Compiled:
    """Compile PTX, with the source lines that it names, by the newest ptxas for the target. Errors call it `name`.

    Raises InputError if it does not compile, LimitReached, and EnvironmentProblem if there is no ptxas.
    """
    tool = program_for("ptxas", target)
    if tool is None:
        if not find_programs("ptxas"):
            raise EnvironmentProblem("ptxas (the compiler of PTX) was not found", NVCC_HINT)
        raise InputError(f"{name}: no ptxas here compiles for {target}")
    options = (f"-arch={target}", "-lineinfo")
    cubin, outcome = compile_with([str(tool.path), *options], ptx, limits)
    if not cubin:
        log = _PTXAS.sub(lambda place: f"{name}:{place[1]}: error: ", outcome.log)
        why = first_errors(log, lambda file: file == name) or f"ptxas ended with {outcome.code}: {log:.300}"
        raise InputError(f"{name} does not compile for {target}: {why[:1000]}")
    return _compiled(cubin, tool, options)


def first_errors(log: str, quotable: Quotable) -> str:
    """Return the first errors of a compiler with their places as FILE:LINE; empty if it names none."""
    return "; ".join(_errors(log, quotable)[:_MOST_ERRORS])


def _compiled(cubin: bytes, compiler: object, options: tuple[str, ...], log: str = "") -> Compiled:
    """Return a cubin with its options, but for the folders of this machine, which do not change the code."""
    recorded = tuple(option for option in options if not option.startswith(_INCLUDE))
    return Compiled(cubin, hashlib.sha256(cubin).hexdigest(), str(compiler), recorded, log)


def _errors(log: str, quotable: Quotable) -> list[str]:
    """Return the errors in a log, each once; lines that begin with a space are quoted from files."""
    errors: dict[str, None] = {}
    for line in log.split("\n"):
        if _SAYS_ERROR.search(line) and _ABORTED not in line and not line[0].isspace():
            error = _error(line.rstrip(), quotable)
            errors[error if len(error) <= _LONGEST_ERROR else f"{error[:_LONGEST_ERROR]}…"] = None
    return list(errors)


def _error(line: str, quotable: Quotable) -> str:
    place = _PLACE.match(line)
    if place is None:
        return _PTXAS.sub("ptxas: error: ", line)
    named = f"{place[1]}:{place[2] or place[3]}: "
    if not quotable(place[1]):
        return f"{named}error; its text is left out because the file is outside the source's repository"
    return named + line[place.end() :]


def target_options(target: str, standard: str = DEFAULT_STANDARD) -> tuple[str, ...]:
    """Return the options for exactly one target and the language that kernels are written in."""
    return f"--gpu-architecture={target}", f"--std={standard}"


def include_options(*folders: Path) -> tuple[str, ...]:
    """Return the options that name folders of headers."""
    return tuple(f"{_INCLUDE}{folder}" for folder in folders)


def _cuda_header_folders(nvrtc: Nvrtc) -> tuple[Path, ...]:
    """Return the folders of CUDA's own headers: those of the release of the NVRTC, else others.

    NVRTC itself has only what it needs to compile, and neither `cuda_fp16.h` nor `cooperative_groups.h`.
    """
    wheels = ["nvidia/cu13/include"]
    if nvrtc.version[0] < 13:
        wheels.insert(0, "nvidia/cuda_runtime/include")
    beside = (parent / "include" for parent in nvrtc.path.resolve().parents[1:4])
    for folder in (*beside, *cuda_folders(wheels, ("include",))):
        if (folder / "cuda_fp16.h").is_file():
            return (folder, folder / "cccl") if (folder / "cccl").is_dir() else (folder,)
    return ()
