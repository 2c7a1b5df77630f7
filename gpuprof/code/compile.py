"""Compiles one file for one exact target with NVRTC, without a GPU, and says what stands in the way."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from gpuprof.code.nvrtc import OLD_INSTALL_HINT, Nvrtc, find_nvrtc

_STANDARD = "--std=c++17"
_ERROR = re.compile(r"\berror\s*:|^ptxas fatal")
_REFUSED = re.compile(
    r"requires \.target|not supported on \.target|cannot be compiled for architecture|Illegal vector size: 8$"
)
"""The last is how NVRTC before 12.9 calls a load of 256 bits, which Blackwell has."""
_POSITION = re.compile(r"^ptxas application ptx input, line \d+; error\s*: ")


@dataclass(frozen=True, slots=True)
class Compiled:
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
    sha256 = hashlib.sha256(outcome.cubin).hexdigest()
    return Compiled(cubin=outcome.cubin, sha256=sha256, compiler=str(nvrtc), options=recorded(options), log=outcome.log)


def _refusal(log: str) -> NotCompiled:
    """Read NVRTC's log: the target is to blame where ptxas says so in the first error."""
    errors = [line.strip() for line in log.splitlines() if _ERROR.search(line)]
    first = errors[0] if errors else log.strip() or "NVRTC gives no reason"
    return NotCompiled(_REFUSED.search(first) is not None, _POSITION.sub("", first), log)


def compiler_for(target: str) -> Nvrtc | None:
    """Return the first NVRTC that knows the target, the newest unless the user names one; or None."""
    return next((nvrtc for nvrtc in find_nvrtc() if nvrtc.knows(target)), None)


def target_options(target: str) -> tuple[str, ...]:
    """Return the options for exactly one target and the language that kernels are written in."""
    return f"--gpu-architecture={target}", _STANDARD


def include_options(*folders: Path) -> tuple[str, ...]:
    """Return the options that name folders of headers."""
    return tuple(f"--include-path={folder}" for folder in folders)


def recorded(options: tuple[str, ...]) -> tuple[str, ...]:
    """Return the options without the folders of this machine, which do not change the code."""
    return tuple(option for option in options if not option.startswith("--include-path="))


def _no_compiler(target: str) -> str:
    have = ", ".join(map(str, find_nvrtc()))
    hint = f"; {OLD_INSTALL_HINT}" if target == "sm_70" else "; a newer NVRTC is needed"
    return f"{have} does not compile for {target}{hint}"
