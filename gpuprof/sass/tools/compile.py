"""Compiles one file for one exact target with NVRTC, without a GPU, and says what stands in the way."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from gpuprof.sass.tools.nvrtc import OLD_INSTALL_HINT, Nvrtc, find_nvrtc, library_folders

DEFAULT_STANDARD = "c++17"
_ERROR = re.compile(r"\berror\s*:|^ptxas fatal")
_SAYS_ERROR = re.compile(r"\berror\b[^:]{0,40}:|\bfatal\b[^:]{0,40}:|^nvcc fatal")
_PLACE = re.compile(r"^([^\s(].{0,4096}?)(?:\((\d{1,9})\)|:(\d{1,9}(?::\d{1,9})?)): ")
"""Places in messages of EDG (NVRTC, nvcc) and g++."""
_PTXAS = re.compile(r"^ptxas [^,]{1,4096}, line \d+; error\s*: ")
"""Where ptxas says so of PTX that another compiler wrote to a temporary file: the line tells a user nothing."""
_ABORTED = "Ptx assembly aborted due to errors"
_MOST_ERRORS, _LONGEST_ERROR = 3, 300
_REFUSED = re.compile(
    r"requires \.target|not supported on \.target|cannot be compiled for architecture|Illegal vector size: 8$"
)
"""The last is how NVRTC before 12.9 calls a load of 256 bits, which Blackwell has."""
_POSITION = re.compile(r"^ptxas application ptx input, line \d+; error\s*: ")


class Compiled(Struct, frozen=True):
    """A cubin, its SHA-256, with which compiler and options it was made, and what the compiler said."""

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

    Raises EnvironmentProblem where there is no NVRTC.
    """
    nvrtc = nvrtc or compiler_for(target)
    if nvrtc is None:
        return NotCompiled(True, _no_compiler(target), "")
    outcome = nvrtc.compile(source.read_text(encoding="utf-8"), source.name, options)
    if outcome.cubin is None:
        return _refusal(outcome.log)
    return compiled_with(outcome.cubin, str(nvrtc), options, outcome.log)


def compiled_with(cubin: bytes, compiler: str, options: tuple[str, ...], log: str) -> Compiled:
    """Return a cubin with what made it, but for the folders of this machine."""
    sha256 = hashlib.sha256(cubin).hexdigest()
    return Compiled(cubin=cubin, sha256=sha256, compiler=compiler, options=recorded(options), log=log)


Quotable = Callable[[str], bool]
"""Whether messages about a file may be shown. A source can include any file that its user can read."""


def first_errors(log: str, quotable: Quotable) -> str:
    """Return the first errors of a compiler with their places as FILE:LINE; empty where it names none.

    Lines that begin with a space are those of the files, as compilers quote them.
    """
    said = (line for line in log.split("\n") if _SAYS_ERROR.search(line) and _ABORTED not in line)
    errors = dict.fromkeys(_error(line.rstrip(), quotable) for line in said if not line[0].isspace())
    return "; ".join(_short(error) for error in list(errors)[:_MOST_ERRORS])


def _error(line: str, quotable: Quotable) -> str:
    place = _PLACE.match(line)
    if place is None:
        return _PTXAS.sub("ptxas: error: ", line)
    named = f"{place[1]}:{place[2] or place[3]}: "
    if not quotable(place[1]):
        return f"{named}error; its text is left out because the file is outside the source's repository"
    return named + line[place.end() :]


def _short(error: str) -> str:
    return error if len(error) <= _LONGEST_ERROR else f"{error[:_LONGEST_ERROR]}…"


def _refusal(log: str) -> NotCompiled:
    """Read NVRTC's log: the target is to blame where ptxas says so in the first error."""
    errors = [line.strip() for line in log.splitlines() if _ERROR.search(line)]
    first = errors[0] if errors else log.strip() or "NVRTC gives no reason"
    return NotCompiled(_REFUSED.search(first) is not None, _POSITION.sub("", first), log)


def compiler_for(target: str) -> Nvrtc | None:
    """Return the first NVRTC that knows the target, the newest unless the user names one; or None."""
    return next((nvrtc for nvrtc in find_nvrtc() if nvrtc.knows(target)), None)


def target_options(target: str, standard: str = DEFAULT_STANDARD) -> tuple[str, ...]:
    """Return the options for exactly one target and the language that kernels are written in."""
    return f"--gpu-architecture={target}", f"--std={standard}"


def include_options(*folders: Path) -> tuple[str, ...]:
    """Return the options that name folders of headers."""
    return tuple(f"--include-path={folder}" for folder in folders)


def cuda_header_folders(nvrtc: Nvrtc) -> tuple[Path, ...]:
    """Return the folders of CUDA's own headers: those of the release that the NVRTC is of, else others that there are.

    NVRTC itself has only what it needs to compile, and neither `cuda_fp16.h` nor `cooperative_groups.h`.
    """
    beside = [parent / "include" for parent in nvrtc.path.resolve().parents[1:4]]
    wheels = (
        ("nvidia/cu13/include",) if nvrtc.version[0] >= 13 else ("nvidia/cuda_runtime/include", "nvidia/cu13/include")
    )
    folders = [*beside, *library_folders(os.environ, wheels, ("include",))]
    headers = next((folder for folder in folders if (folder / "cuda_fp16.h").is_file()), None)
    if headers is None:
        return ()
    return (headers, headers / "cccl") if (headers / "cccl").is_dir() else (headers,)


def recorded(options: tuple[str, ...]) -> tuple[str, ...]:
    """Return the options without the folders of this machine, which do not change the code."""
    return tuple(option for option in options if not option.startswith("--include-path="))


def _no_compiler(target: str) -> str:
    have = ", ".join(map(str, find_nvrtc()))
    hint = f"; {OLD_INSTALL_HINT}" if target == "sm_70" else "; a newer NVRTC is needed"
    return f"{have} does not compile for {target}{hint}"
