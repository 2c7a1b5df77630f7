"""Compiles one file for one exact target with NVRTC, without a GPU, and reads the errors of compilers."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from gpuprof.sass.tools.nvrtc import INSTALL_HINT, OLD_INSTALL_HINT, Nvrtc, find_nvrtc
from gpuprof.sass.tools.programs import cuda_folders

DEFAULT_STANDARD = "c++17"
_SAYS_ERROR = re.compile(r"\berror\b[^:]{0,40}:|\bfatal\b[^:]{0,40}:|^nvcc fatal")
_INCLUDE = "--include-path="
_PLACE = re.compile(r"^([^\s(].{0,4096}?)(?:\((\d{1,9})\)|:(\d{1,9}(?::\d{1,9})?)): ")
"""Places in messages of EDG (NVRTC, nvcc) and g++."""
_PTXAS = re.compile(r"^ptxas [^,]{1,4096}, line \d+; error\s*: ")
"""An error of ptxas in PTX that another compiler wrote to a temporary file: the line means nothing to a user."""
_ABORTED = "Ptx assembly aborted due to errors"
_MOST_ERRORS, _LONGEST_ERROR = 3, 300
_REFUSED = re.compile(
    r"requires \.target|not supported on \.target|cannot be compiled for architecture|Illegal vector size: 8$"
)
"""The last is the message of NVRTC before 12.9 for a load of 256 bits, which Blackwell has."""


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
    """No cubin: the target cannot do it (`unsupported`), or the source is wrong. `log` is the compiler's."""

    unsupported: bool
    why: str
    log: str


def compile_file(
    source: Path, target: str, options: tuple[str, ...], nvrtc: Nvrtc | None = None
) -> Compiled | NotCompiled:
    """Compile a file with options that name the target; `nvrtc` None: with the first that knows it.

    Raises EnvironmentProblem if there is no NVRTC.
    """
    nvrtc = nvrtc or compiler_for(target)
    if nvrtc is None:
        names = ", ".join(map(str, find_nvrtc()))
        return NotCompiled(True, f"{names} does not compile for {target}; {install_hint(target)}", "")
    outcome = nvrtc.compile(source.read_text(encoding="utf-8"), source.name, options)
    if outcome.cubin is None:
        return _refusal(outcome.log)
    return compiled_with(outcome.cubin, nvrtc, options, outcome.log)


def compiler_for(target: str) -> Nvrtc | None:
    """Return the first NVRTC that knows the target, the newest unless the user names one; or None."""
    return next((nvrtc for nvrtc in find_nvrtc() if nvrtc.knows(target)), None)


def install_hint(target: str) -> str:
    """Return what brings an NVRTC that compiles for a target."""
    return OLD_INSTALL_HINT if target == "sm_70" else INSTALL_HINT


def compiled_with(cubin: bytes, compiler: object, options: tuple[str, ...], log: str = "") -> Compiled:
    """Return a cubin with its compiler and options, but for the folders of this machine."""
    return Compiled(cubin, hashlib.sha256(cubin).hexdigest(), str(compiler), recorded(options), log)


def recorded(options: tuple[str, ...]) -> tuple[str, ...]:
    """Return the options without the folders of this machine, which do not change the code."""
    return tuple(option for option in options if not option.startswith(_INCLUDE))


def _refusal(log: str) -> NotCompiled:
    """Read NVRTC's log: the target is to blame if ptxas says so in the first error."""
    errors = _errors(log, lambda _: True)
    first = errors[0] if errors else log.strip() or "NVRTC gives no reason"
    return NotCompiled(_REFUSED.search(first) is not None, first, log)


def first_errors(log: str, quotable: Quotable) -> str:
    """Return the first errors of a compiler with their places as FILE:LINE; empty if it names none."""
    return "; ".join(_errors(log, quotable)[:_MOST_ERRORS])


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


def cuda_header_folders(nvrtc: Nvrtc) -> tuple[Path, ...]:
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
