"""CUDA sources into kernels: compiled by NVRTC or, if they need a host compiler's headers, by nvcc."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from gpuprof.errors import EnvironmentProblem, GpuprofError, InputError, UsageError
from gpuprof.privacy.source_files import repository_root
from gpuprof.review.inputs.chosen import module_of_cubin, with_names
from gpuprof.review.inputs.file_bytes import read_bytes
from gpuprof.review.inputs.headers import FOLDERS, header_hint
from gpuprof.review.inputs.request import ReviewRequest
from gpuprof.review.inputs.signatures import names_for, plain_names
from gpuprof.review.inputs.targets import DEFAULT_TARGET
from gpuprof.review.kernel import CompiledKernel, InputModule
from gpuprof.sass.binary.debug_arguments import DebugArgument, debug_arguments
from gpuprof.sass.binary.elf import ELF_START
from gpuprof.sass.binary.line_table import line_tables
from gpuprof.sass.tools.compile import (
    DEFAULT_STANDARD,
    Compiled,
    NotCompiled,
    compile_with_nvcc,
    compile_with_nvrtc,
    compiler_for,
    include_options,
    install_hint,
    target_options,
)
from gpuprof.sass.tools.programs import NVCC_HINT, cuda_folders, find_programs, program_for

_MOST_SOURCE = 64 * 2**20
_SUFFIX_FROM = 90
_NO_HEADER = re.compile(
    r'(?:could not|cannot) open source file "(?P<edg>[^"\n]{1,300})"'
    r"|error: (?P<gcc>\S{1,300}): No such file or directory"
)
"""Messages on a missing header: of NVRTC and nvcc, and of nvcc's host compiler."""
_OF_NVRTC = "nvrtc: "
"""The beginning of NVRTC's messages on options."""
_FLAG_HINT = (
    "options of NVRTC: https://docs.nvidia.com/cuda/nvrtc/#supported-compile-options; write a value behind =, as in "
    "--flag=-maxrregcount=64"
)
_FOR_HOST = "if it needs a host compiler's headers, "
_SYSTEM_HEADERS = ("/usr/include", "/usr/local/include", "/usr/lib/gcc")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    """A source that is compiled for a target: its name as typed, and the folders whose files messages may quote."""

    name: str
    path: Path
    text: str
    target: str
    folders: tuple[str, ...]

    def quotes(self, file: str) -> bool:
        """Return whether a compiler's message about a file may be shown: `#include` and `#line` can name any file."""
        path = os.path.realpath(self.path.absolute().parent / file)
        return file == self.name or any(path.startswith(folder + os.sep) for folder in self.folders)


def source_modules(path: Path, name: str, request: ReviewRequest) -> Sequence[InputModule]:
    """Return the kernels of a source for one target. Raises InputError if it does not compile."""
    source = _Source(
        name=name,
        path=path,
        text=read_bytes(path, name, _MOST_SOURCE).decode("utf-8-sig", "replace"),
        target=next(iter(request.targets), DEFAULT_TARGET),
        folders=_quoted_folders(path, request),
    )
    compiled = _compiled(source, request)
    if not compiled.cubin.startswith(ELF_START):
        flags = " ".join(f"--flag={flag}" for flag in request.flags)
        raise UsageError(
            f"{name}: with {flags:.200} no machine code is written",
            "leave out what has a compiler write something else, such as -ptx, -dlto or --dryrun",
        )
    tool = " ".join((compiled.compiler, *compiled.options))
    notes = () if request.targets else (f"{name}: compiled for {source.target}, since no --arch was given",)
    module = module_of_cubin(compiled.cubin, name, request, tools=(tool,), notes=notes, wanted=True)
    if not module.holds and "__global__" in source.text:
        raise InputError(
            f"{name}: has kernels, but none was compiled: nothing instantiates its templates",
            "add a line for each that is to be checked: template __global__ void NAME<TYPE>(PARAMETERS);",
        )
    lines = _lines(compiled.cubin, source)
    placed = [replace(kernel, lines=lines.get(kernel.kernel.mangled, {})) for kernel in module.kernels]
    return [replace(module, target=source.target, kernels=_named(placed, source, request, compiled))]


def _quoted_folders(source: Path, request: ReviewRequest) -> tuple[str, ...]:
    """Return the source's repository, or its folder, the folders of `-I`, and those of compilers and torch."""
    folder = source.absolute().parent
    folders: list[str | Path] = [repository_root(folder) or folder, *request.include_folders, *_SYSTEM_HEADERS]
    folders += cuda_folders(("nvidia", "torch"), ("include", "targets"))
    for tool in find_programs("nvcc"):
        folders += (tool.path.resolve().parents[1] / name for name in ("include", "targets"))
    return tuple(map(os.path.realpath, folders))


def _compiled(source: _Source, request: ReviewRequest) -> Compiled:
    """Compile by NVRTC, and by nvcc what that refuses: it has no host compiler's headers, and no host code."""
    options = (
        *target_options(source.target, request.standard or DEFAULT_STANDARD),
        "--generate-line-info",
        *include_options(*(Path(folder).absolute() for folder in request.include_folders)),
        *request.flags,
        *(f"-D{define}" for define in request.defines),
        *include_options(*filter(Path.is_dir, cuda_folders(FOLDERS, ()))),
    )
    nvcc = program_for("nvcc", source.target)
    nvrtc = None
    if nvcc is None or not request.is_built:  # the headers of a build are those of a host compiler, too
        with contextlib.suppress(EnvironmentProblem):  # there may be an nvcc alone
            nvrtc = compiler_for(source.target)
    refused = None
    if nvrtc is not None:
        beside = include_options(source.path.absolute().parent)
        own = (*beside, *options)
        outcome = compile_with_nvrtc(nvrtc, source.text, source.name, own, source.quotes, request.limits)
        if isinstance(outcome, Compiled):
            return outcome
        refused = outcome
    if nvcc is None:
        if refused is None:
            message = f"{source.name}: no compiler here compiles for {source.target}"
            raise EnvironmentProblem(message, install_hint(source.target))
        missing = f"{source.target} needs another nvcc than those here"
        raise _refusal(source, refused, missing if find_programs("nvcc") else f"it needs nvcc; {NVCC_HINT}")
    made = compile_with_nvcc(nvcc, source.path, options, source.quotes, request.limits)
    if isinstance(made, Compiled):
        return made
    if made is not None:
        raise _refusal(source, made)
    if refused is None:
        raise EnvironmentProblem(f"{nvcc} finds no C++ compiler", "install g++, or name the one to take: NVCC_CCBIN")
    raise _refusal(source, refused, "install g++: nvcc takes them from it")


def _refusal(source: _Source, refused: NotCompiled, for_host: str | None = None) -> GpuprofError:
    """Return the error for a refused option or source. `for_host` is a hint for sources that need a host compiler."""
    if refused.why.startswith(_OF_NVRTC):
        return UsageError(f"{source.name} was not compiled: {refused.why:.500}", _FLAG_HINT)
    why = refused.why.replace(str(source.path.absolute()), source.name)
    hints = [_FOR_HOST + for_host] if for_host is not None else []
    missing = _NO_HEADER.search(refused.why)
    if missing is not None:
        header = missing["edg"] or missing["gcc"]
        cubin = f"nvcc -cubin -lineinfo -arch={source.target} {source.path.name}"
        own = (
            f"-I DIR names the folder of {header:.100}; or compile it as your build does, with --compile-commands or "
            f"`{cubin}`, and check {source.path.stem}.cubin"
        )
        package = header_hint(header)
        hints = [package] if package is not None else [own, *hints]
    elif "not supported on .target" in why and source.target[3:].isdecimal() and int(source.target[3:]) >= _SUFFIX_FROM:
        hints.append(f"--arch {source.target}a has the instructions of that architecture alone")
    return InputError(f"{source.name} does not compile for {source.target}: {why[:2000]}", "; ".join(hints) or None)


def _lines(cubin: bytes, source: _Source) -> Mapping[str, Mapping[int, tuple[str, int]]]:
    """Return the lines of each kernel, files named as the user would: from the folder that this runs in."""
    here = f"{Path.cwd()}{os.sep}"
    own = os.path.normpath(source.path.absolute())

    @cache
    def named(file: str) -> str:
        path = os.path.normpath(file)
        return source.name if path == own else path.removeprefix(here)

    tables = {}
    for symbol, lines in line_tables(cubin).items():
        tables[symbol] = {offset: (named(file), line) for offset, (file, line) in lines.items()}
    return tables


def _named(
    kernels: Sequence[CompiledKernel], source: _Source, request: ReviewRequest, compiled: Compiled
) -> tuple[CompiledKernel, ...]:
    """Return kernels with the names of their arguments. If some are not declared plainly, compile the source again."""
    declared = plain_names(source.text)
    plain = [names_for(kernel, declared) for kernel in kernels]
    debug: Mapping[str, Sequence[DebugArgument]] = {}
    if None in plain:
        # PTX for a debugger takes less than machine code, and most often less than the first compilation.
        flags = ("-G",) if compiled.compiler.startswith("NVRTC") else ("-G", "-ptx")
        with contextlib.suppress(GpuprofError):  # it may take too long: parts are then named by their offset
            compiled = _compiled(source, replace(request, flags=(*request.flags, *flags)))
            debug = debug_arguments(compiled.cubin, [kernel.kernel.mangled for kernel in kernels])
    named = []
    for kernel, names in zip(kernels, plain, strict=True):
        known = replace(kernel, argument_names=names) if names is not None else kernel
        named.append(with_names(known, debug.get(kernel.kernel.mangled, ())))
    return tuple(named)
