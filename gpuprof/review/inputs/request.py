"""The request of a review, as the command line and `gpuprof.check` make it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from gpuprof.model.kernel_match import KernelPattern
from gpuprof.model.recorded import Dim3
from gpuprof.privacy.source_files import PathMap
from gpuprof.sass.tools.programs import LIMITS, CompileLimits

READS = "gpuprof check reads .cu, .ptx, .cubin, .fatbin, objects, programs, .so, archives, Triton's cache and .ncu-rep"


class Build(NamedTuple):
    """How a build compiles the device code of a source. Macros and include folders are among the flags."""

    targets: tuple[str, ...] = ()
    standard: str | None = None
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewRequest:
    """What to review, and how kernels are launched. `options.py` validates the values.

    `targets`: architectures to compile for, or to choose from those in a file; empty: the default for sources, all for
    binaries. `kernel` is an expression on names, tried before anything is disassembled, or the place of a kernel among
    all of the files; `in_time` limits how long an expression may take on a name. `arguments` are values
    by ordinal, name or part ("3", "n", "in.stride"). `defines`, `include_folders`, `standard` and `flags` are for
    compilers of sources; those in `builds` come from a build's database, by file, and those in `torch` are for
    extensions of PyTorch; with them it `is_built` for a source. `limits` apply to each compilation.
    `salvage` reads what it can of damaged reports. `keep_private` keeps folders, and secrets in names;
    `path_maps` say where source folders lie in the repository.
    """

    files: tuple[str, ...]
    database: str | None = None
    chosen_files: str | None = None
    builds: Mapping[str, tuple[Build, ...]] = field(default_factory=dict)
    torch: Build | None = None
    targets: tuple[str, ...] = ()
    kernel: KernelPattern | None = None
    block: Dim3 | None = None
    grid: Dim3 | None = None
    dynamic_shared_bytes: int | None = None
    arguments: Mapping[str, int] = field(default_factory=dict)
    defines: tuple[str, ...] = ()
    include_folders: tuple[str, ...] = ()
    standard: str | None = None
    flags: tuple[str, ...] = ()
    is_built: bool = False
    limits: CompileLimits = LIMITS
    salvage: bool = False
    keep_private: bool = False
    path_maps: tuple[PathMap, ...] = ()
    in_time: Callable[[], AbstractContextManager[None]] = nullcontext

    def compiler_options(self) -> list[str]:
        """Return the options for compilers of sources, as they are typed."""
        options = ["--compile-commands", self.database] if self.database is not None else []
        options += ["--file", self.chosen_files] if self.chosen_files is not None else []
        options += ["--torch"] if self.torch is not None else []
        options += [part for text in self.defines for part in ("-D", text)]
        options += [part for folder in self.include_folders for part in ("-I", folder)]
        options += ["--std", self.standard] if self.standard is not None else []
        return options + [f"--flag={flag}" for flag in self.flags]

    def built_as(self, build: Build) -> ReviewRequest:
        """Return the request for a source with the flags of its build. The user's options take precedence."""
        return replace(
            self,
            targets=self.targets or build.targets,
            standard=self.standard or build.standard,
            flags=(*build.flags, *self.flags),
            is_built=self.is_built or bool(build.flags),
        )
