"""What a user asks to be reviewed, as the command line and `gpuprof.check` give it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from gpuprof.model.recorded import Dim3
from gpuprof.privacy.source_files import PathMap
from gpuprof.sass.tools.programs import LIMITS, CompileLimits

READS = "gpuprof check reads .cu, .ptx, .cubin, .fatbin, objects, programs, .so, archives, Triton's cache and .ncu-rep"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewRequest:
    """What is to be reviewed and how it is launched; `asked.py` refuses what cannot be.

    `targets`: architectures to compile for, or to choose of those that a file has; empty: of sources the default, of
    binaries all. `kernel` is a regular expression on names, tried before anything is disassembled, or #N, the place of
    a kernel among all of the files; `in_time` limits how long an expression may take on a name. `arguments` are values
    by ordinal or name ("3", "N"). `defines`, `include_folders`, `standard` and `flags` are for compilers of sources.
    `limits` are of each compilation. `salvage`: of damaged reports what can be read. `keep_private`: folders, and
    secrets in names, stay; `path_maps` say where source folders lie in the repository.
    """

    files: tuple[str, ...]
    targets: tuple[str, ...] = ()
    kernel: str | None = None
    block: Dim3 | None = None
    grid: Dim3 | None = None
    dynamic_shared_bytes: int | None = None
    arguments: Mapping[str, int] = field(default_factory=dict)
    defines: tuple[str, ...] = ()
    include_folders: tuple[str, ...] = ()
    standard: str | None = None
    flags: tuple[str, ...] = ()
    limits: CompileLimits = LIMITS
    salvage: bool = False
    keep_private: bool = False
    path_maps: tuple[PathMap, ...] = ()
    in_time: Callable[[], AbstractContextManager[None]] = nullcontext

    def compiler_options(self) -> list[str]:
        """Return what is for compilers of sources, as it is typed."""
        options = [part for text in self.defines for part in ("-D", text)]
        options += [part for folder in self.include_folders for part in ("-I", folder)]
        options += ["--std", self.standard] if self.standard is not None else []
        return options + [f"--flag={flag}" for flag in self.flags]
