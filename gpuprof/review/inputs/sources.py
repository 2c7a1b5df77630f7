"""CUDA sources into kernels: compiled by NVRTC or, if they need a host compiler's headers, by nvcc."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from gpuprof.errors import EnvironmentProblem, GpuprofError, InputError, UsageError
from gpuprof.privacy.source_files import repository_root
from gpuprof.review.inputs.chosen import KernelChoice, module_of_cubin, with_names
from gpuprof.review.inputs.file_bytes import read_bytes
from gpuprof.review.inputs.headers import FOLDERS, header_hint
from gpuprof.review.inputs.request import ReviewRequest
from gpuprof.review.inputs.signatures import names_for, plain_names
from gpuprof.review.inputs.targets import DEFAULT_TARGET
from gpuprof.review.kernel import SCALAR_BYTES, CompiledKernel, InputModule
from gpuprof.sass.binary.debug_arguments import DebugArgument, debug_arguments
from gpuprof.sass.binary.elf import ELF_START
from gpuprof.sass.binary.line_table import line_tables
from gpuprof.sass.tools.compile import (
    DEFAULT_STANDARD,
    Compiled,
    NotCompiled,
    compiled_with,
    compiler_for,
    cuda_header_folders,
    first_errors,
    include_options,
    target_options,
)
from gpuprof.sass.tools.nvcc import compile_with_nvcc, lacks_host_compiler, nvcc_for
from gpuprof.sass.tools.nvrtc import INSTALL_HINT, INVALID_OPTION, Nvrtc, compile_apart, find_nvrtc
from gpuprof.sass.tools.programs import NVCC_HINT, LimitReached, cuda_folders, find_programs

_MOST_SOURCE = 64 * 2**20
_LEAST_S = 10.0
"""So long a compiler may take to name arguments; longer if it took longer for the code."""
_FIRST_WITH_SUFFIX = 90
_PTX_FILE = re.compile(r"ptxas \S+\.ptx, line \d+; error\s*: ")
"""How ptxas begins what it says of the file that nvcc wrote, and has removed since."""
_NEWER_STANDARD = "c++20"
_NO_HEADER = re.compile(
    r'(?:could not|cannot) open source file "(?P<edg>[^"\n]{1,300})"'
    r"|error: (?P<gcc>\S{1,300}): No such file or directory"
)
"""How NVRTC and nvcc say that a header is missing, and how its host compiler does."""
_NAMED_FLAG = re.compile(r"requires (--[\w-]{1,60}) nvcc flag|flag '(--[\w-]{1,60})'")
"""How nvcc names the flag that a source needs, such as --extended-lambda."""
_FLAG_HINT = (
    "options of NVRTC: https://docs.nvidia.com/cuda/nvrtc/#supported-compile-options; a value stands behind =, as in "
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


def source_modules(path: Path, name: str, choice: KernelChoice) -> Iterator[InputModule]:
    """Yield the kernels of a source for one target. Raises InputError if it does not compile."""
    text = read_bytes(path, name, _MOST_SOURCE).decode("utf-8-sig", "replace")
    target = next(iter(choice.targets), DEFAULT_TARGET)
    request = replace(choice.request, limits=choice.request.limits.begun())
    folders = _quoted_folders(path, target, request)
    source = _Source(name=name, path=path, text=text, target=target, folders=folders)
    begun_s = time.monotonic()
    compiled = _compiled(source, request)
    took_s = time.monotonic() - begun_s
    tool = " ".join((compiled.compiler, *compiled.options))
    notes = () if choice.targets else (f"{name}: compiled for {target}, since no --arch was given",)
    module = module_of_cubin(compiled.cubin, name, choice, tools=(tool,), notes=notes, wanted=True)
    if not module.holds and "__global__" in text:
        raise InputError(
            f"{name}: has kernels, but none was compiled: nothing instantiates its templates",
            "add a line for each that is to be checked: template __global__ void NAME<TYPE>(PARAMETERS);",
        )
    lines = _lines_of(compiled.cubin, source)
    placed = [replace(kernel, lines=lines.get(kernel.kernel.mangled, {})) for kernel in module.kernels]
    # PTX for a debugger takes less than machine code, and most often less than the first compilation.
    flags = ("-G",) if compiled.compiler.startswith("NVRTC") else ("-G", "-ptx")
    limits = request.limits._replace(seconds=max(took_s, _LEAST_S)).begun()
    request = replace(request, flags=(*request.flags, *flags), limits=limits)
    yield replace(module, target=target, kernels=tuple(_named(placed, source, request)))


def _named(kernels: Sequence[CompiledKernel], source: _Source, request: ReviewRequest) -> Iterator[CompiledKernel]:
    """Yield kernels with the names of their arguments.

    If one is a structure, or declared in an unusual way, the source is compiled once more, as `request` says.
    """
    declared = plain_names(source.text)
    debug: Mapping[str, Sequence[DebugArgument]] | None = None
    for kernel in kernels:
        parameters = kernel.kernel.parameters
        names = names_for(kernel.name, len(parameters), declared)
        if names is not None and all(parameter.size_bytes <= SCALAR_BYTES for parameter in parameters):
            yield replace(kernel, argument_names=names)
            continue
        if debug is None:
            debug = {}
            with contextlib.suppress(GpuprofError):  # it may take too long: parts are then named by their offset
                symbols = [kernel.kernel.mangled for kernel in kernels]
                debug = debug_arguments(_by_any(source, request).cubin, symbols)
        yield with_names(kernel, debug.get(kernel.kernel.mangled, ()))


def _quoted_folders(source: Path, target: str, request: ReviewRequest) -> tuple[str, ...]:
    """Return the source's repository, or its folder, the folders of `-I`, and those of compilers and torch."""
    folder = source.absolute().parent
    folders = [repository_root(folder) or str(folder), *request.include_folders, *_SYSTEM_HEADERS]
    if request.torch is not None:
        folders += request.torch.include_folders
    nvrtc = _nvrtc_for(target)
    if nvrtc is not None:
        folders += map(str, cuda_header_folders(nvrtc))
    for tool in find_programs("nvcc"):
        folders += (str(tool.path.resolve().parents[1] / name) for name in ("include", "targets"))
    return tuple(map(os.path.realpath, folders))


def _compiled(source: _Source, request: ReviewRequest) -> Compiled:
    """Compile as the user says; what does not compile as C++17 is tried as C++20, for the hint."""
    try:
        compiled = _by_any(source, request)
    except LimitReached:
        raise
    except InputError as error:
        if request.standard is None:
            with contextlib.suppress(GpuprofError):
                _by_any(source, replace(request, standard=_NEWER_STANDARD))
                error.hint = f"it compiles as C++20: --std {_NEWER_STANDARD}"
        raise
    if request.flags and not compiled.cubin.startswith(ELF_START):
        flags = " ".join(f"--flag={flag}" for flag in request.flags)
        raise UsageError(
            f"{source.name}: with {flags:.200} no machine code is written",
            "leave out what has a compiler write something else, such as -ptx, -dlto or --dryrun",
        )
    return compiled


def _by_any(source: _Source, request: ReviewRequest) -> Compiled:
    """Compile by NVRTC, and by nvcc what that refuses: it has no host compiler's headers, and no host code."""
    nvcc = nvcc_for(source.target)
    # The headers of a build are those of a host compiler, too.
    nvrtc = _nvrtc_for(source.target) if nvcc is None or not request.header_folders else None
    refused = _by_nvrtc(nvrtc, source, request) if nvrtc is not None else None
    if isinstance(refused, Compiled):
        return refused
    if nvcc is None:
        raise _refusal(source, refused, _without_nvcc(source.target)) if refused else _no_compiler(source)
    options = (
        f"-std={request.standard or DEFAULT_STANDARD}",
        "-lineinfo",
        *(f"-D{define}" for define in request.defines),
        *request.flags,
        *include_options(*_folders(request)),
    )
    compiled = compile_with_nvcc(nvcc, source.path, source.target, options, source.quotes, request.limits)
    if isinstance(compiled, Compiled):
        return compiled
    if refused is not None and INVALID_OPTION in refused.log and "nvcc fatal" in compiled.why:
        raise _refusal(source, refused, None)
    if not lacks_host_compiler(compiled):
        raise _refusal(source, compiled, _of_another_target(source.target, compiled.why))
    if refused is None:
        raise EnvironmentProblem(f"{nvcc} finds no C++ compiler", "install g++, or name the one to take: NVCC_CCBIN")
    raise _refusal(source, refused, f"{_FOR_HOST}install g++: nvcc takes them from it")


def _of_another_target(target: str, why: str) -> str | None:
    """Say which target has the instructions that a plain one refuses, such as wgmma."""
    if "not supported on .target" in why and target[-1:].isdecimal() and int(target[3:]) >= _FIRST_WITH_SUFFIX:
        return f"--arch {target}a has the instructions of that architecture alone"
    return None


def _nvrtc_for(target: str) -> Nvrtc | None:
    """Return an NVRTC for the target; None if there is none: nvcc may do."""
    with contextlib.suppress(EnvironmentProblem):
        return compiler_for(target)
    return None


def _no_compiler(source: _Source) -> UsageError | EnvironmentProblem:
    """Say which targets the compilers here know, or how to get one."""
    message = f"{source.name}: no compiler here compiles for {source.target}"
    try:
        numbers = {number for nvrtc in find_nvrtc() for number in nvrtc.architectures}
    except EnvironmentProblem as error:
        return EnvironmentProblem(message, error.hint or INSTALL_HINT)
    return UsageError(message, f"there are {', '.join(f'sm_{number}' for number in sorted(numbers))}")


def _without_nvcc(target: str) -> str:
    """Say what is missing if NVRTC refused a source, and there is no nvcc for the target."""
    return _FOR_HOST + (
        f"{target} needs another nvcc than those here" if find_programs("nvcc") else f"it needs nvcc; {NVCC_HINT}"
    )


def _by_nvrtc(nvrtc: Nvrtc, source: _Source, request: ReviewRequest) -> Compiled | NotCompiled:
    folders = (source.path.absolute().parent, *_folders(request), *cuda_header_folders(nvrtc))
    options = (
        *target_options(source.target, request.standard or DEFAULT_STANDARD),
        "--generate-line-info",
        *(f"--define-macro={define}" for define in request.defines),
        *request.flags,
        *include_options(*folders),
    )
    try:
        outcome = compile_apart(nvrtc, source.text, source.name, options, request.limits)
    except EnvironmentProblem as error:
        if INVALID_OPTION not in error.message:
            raise
        return NotCompiled(False, error.message, error.message)
    if outcome.cubin is None:
        why = first_errors(outcome.log, source.quotes) or f"{nvrtc} makes no machine code of it"
        return NotCompiled(False, why, outcome.log)
    return compiled_with(outcome.cubin, nvrtc, options)


def _folders(request: ReviewRequest) -> list[Path]:
    """Return the folders of headers: those of the user, of the build, and of packages."""
    named = (Path(folder).absolute() for folder in (*request.include_folders, *request.header_folders))
    return [*named, *filter(Path.is_dir, cuda_folders(FOLDERS, ()))]


def _refusal(source: _Source, refused: NotCompiled, hint: str | None) -> InputError | UsageError:
    """Say what a compiler refused: an option, or the source."""
    if INVALID_OPTION in refused.log:
        said = refused.why.partition(f"{INVALID_OPTION}: ")[2] or refused.why
        others = "; nvcc takes more, and there is none here that can be asked" if hint is not None else ""
        return UsageError(f"{source.name} was not compiled: {' '.join(said.split()):.500}", _FLAG_HINT + others)
    why = _PTX_FILE.sub("ptxas: ", refused.why.replace(str(source.path.absolute()), source.name))
    flag = _NAMED_FLAG.search(refused.why)
    if flag is not None and hint is None:
        hint = f"--flag={flag[1] or flag[2]}"
    missing = _NO_HEADER.search(refused.log)
    if missing is not None:
        header = missing["edg"] or missing["gcc"]
        cubin = f"nvcc -cubin -lineinfo -arch={source.target} {source.path.name}"
        own = (
            f"-I DIR names the folder of {header:.100}; or compile it as your build does, with --compile-commands or "
            f"`{cubin}`, and check {source.path.stem}.cubin"
        )
        package = header_hint(header)
        if package is not None:
            hint = package
        elif missing[0] in refused.why:  # else it is named in a file that may not be quoted
            hint = f"{own}; {hint}" if hint else own
    return InputError(f"{source.name} does not compile for {source.target}: {why[:2000]}", hint)


def _lines_of(cubin: bytes, source: _Source) -> Mapping[str, Mapping[int, tuple[str, int]]]:
    """Return the lines of each kernel, files named as the user would: from the folder that this runs in."""

    @cache
    def short(file: str) -> str:
        if os.path.normpath(file) in names:
            return source.name
        return os.path.relpath(file) if os.path.normpath(file).startswith(here) else file

    here = f"{Path.cwd()}{os.sep}"
    names = {os.path.normpath(source.path.absolute()), os.path.realpath(source.path)}
    return {
        kernel: {offset: (short(file), line) for offset, (file, line) in lines.items()}
        for kernel, lines in line_tables(cubin).items()
    }
