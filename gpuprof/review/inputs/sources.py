"""CUDA sources into kernels: compiled by NVRTC or, where they need a host compiler's headers, by nvcc."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from gpuprof.review.kernel import SCALAR_BYTES, InputModule
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
_FIRST_WITH_SUFFIX = 90
_PTX_FILE = re.compile(r"ptxas \S+\.ptx, line \d+; error\s*: ")
"""How ptxas begins what it says of the file that nvcc wrote, and has removed since."""
_NEWER_STANDARD = "c++20"
_NO_HEADER = re.compile(
    r'(?:could not|cannot) open source file "([^"\n]{1,300})"|error: (\S{1,300}): No such file or directory'
)
"""How NVRTC and nvcc say that a header is missing, and how its host compiler does."""
_NAMED_FLAG = re.compile(r"requires (--[\w-]{1,60}) nvcc flag|flag '(--[\w-]{1,60})'")
"""How nvcc names the flag that a source needs, such as --extended-lambda."""
_FLAG_HINT = (
    "options of NVRTC: https://docs.nvidia.com/cuda/nvrtc/#supported-compile-options; a value stands behind =, as in "
    "--flag=-maxrregcount=64"
)
_SYSTEM_HEADERS = ("/usr/include", "/usr/local/include", "/usr/lib/gcc")
_LINES = {"nvrtc": "--generate-line-info", "nvcc": "-lineinfo"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    """A source: its name as typed, its path, its text, and the folders whose files messages may quote."""

    name: str
    path: Path
    text: str
    folders: tuple[str, ...]

    def quotes(self, file: str) -> bool:
        """Return whether a compiler's message about a file may be shown: `#include` and `#line` can name any file."""
        path = os.path.realpath(self.path.absolute().parent / file)
        return file == self.name or any(path.startswith(folder + os.sep) for folder in self.folders)


def source_modules(path: Path, name: str, choice: KernelChoice) -> Iterator[InputModule]:
    """Yield the kernels of a source for each target. Raises InputError where it does not compile."""
    text = read_bytes(path, name, _MOST_SOURCE).decode("utf-8-sig", "replace")
    folders = _quoted_folders(path, choice)
    source = _Source(name=name, path=path, text=text, folders=folders)
    notes = () if choice.targets else (f"{name}: compiled for {DEFAULT_TARGET}, since no --arch was given",)
    declared = plain_names(text)
    arguments: Mapping[str, Sequence[DebugArgument]] = {}
    for target in choice.targets or (DEFAULT_TARGET,):
        request = replace(choice.request, limits=choice.request.limits.begun())
        compiled = _compiled(source, target, request)
        tool = " ".join((compiled.compiler, *compiled.options))
        module = module_of_cubin(compiled.cubin, name, choice, tools=(tool,), notes=notes, wanted=True)
        if not module.holds and "__global__" in text:
            raise InputError(
                f"{name}: has kernels, but none was compiled: nothing instantiates its templates",
                "add a line for each that is to be checked: template __global__ void NAME<TYPE>(PARAMETERS);",
            )
        lines = _lines_of(compiled.cubin, source)
        kernels = []
        for kernel in module.kernels:
            placed = replace(kernel, lines=lines.get(kernel.kernel.mangled, {}))
            parameters = kernel.kernel.parameters
            names = names_for(kernel.name, len(parameters), declared)
            if names is None or any(parameter.size_bytes > SCALAR_BYTES for parameter in parameters):
                arguments = arguments or _arguments(source, target, request)
                placed = with_names(placed, arguments.get(kernel.kernel.mangled, ()))
            else:
                placed = replace(placed, argument_names=names)
            kernels.append(placed)
        yield replace(module, target=target, kernels=tuple(kernels))


def _arguments(source: _Source, target: str, request: ReviewRequest) -> Mapping[str, Sequence[DebugArgument]]:
    """Return the arguments by kernel as a compiler names them for a debugger; none if that takes too long."""
    with contextlib.suppress(GpuprofError):
        return debug_arguments(_by_any(source, target, replace(request, flags=(*request.flags, "-G"))).cubin)
    return {}


def _quoted_folders(source: Path, choice: KernelChoice) -> tuple[str, ...]:
    """Return the source's repository, or its folder, the folders of `-I`, and those of compilers' headers."""
    folder = source.absolute().parent
    own = repository_root(folder) or str(folder)
    headers = map(str, _headers(choice.targets or (DEFAULT_TARGET,)))
    torch = choice.request.torch.include_folders if choice.request.torch is not None else ()
    return tuple(map(os.path.realpath, (own, *choice.request.include_folders, *torch, *_SYSTEM_HEADERS, *headers)))


def _headers(targets: Iterable[str]) -> Iterator[Path]:
    """Yield the compilers' header folders."""
    for nvrtc in filter(None, map(_nvrtc_for, targets)):
        yield from cuda_header_folders(nvrtc)
    for tool in find_programs("nvcc"):
        yield from (tool.path.resolve().parents[1] / folder for folder in ("include", "targets"))


def _compiled(source: _Source, target: str, request: ReviewRequest) -> Compiled:
    """Compile as the user says; what does not compile as C++17 is tried as C++20, for what to say of it."""
    try:
        compiled = _by_any(source, target, request)
    except LimitReached:
        raise
    except InputError as error:
        if request.standard is None:
            with contextlib.suppress(GpuprofError):
                _by_any(source, target, replace(request, standard=_NEWER_STANDARD))
                error.hint = f"it compiles as C++20: --std {_NEWER_STANDARD}"
        raise
    if request.flags and not compiled.cubin.startswith(ELF_START):
        flags = " ".join(f"--flag={flag}" for flag in request.flags)
        raise UsageError(
            f"{source.name}: with {flags:.200} no machine code is written",
            "leave out what has a compiler write something else, such as -ptx, -dlto or --dryrun",
        )
    return compiled


def _by_any(source: _Source, target: str, request: ReviewRequest) -> Compiled:
    """Compile by NVRTC, and by nvcc what that refuses: it has no host compiler's headers, and no host code."""
    nvcc = nvcc_for(target)
    # The headers of a build are those of a host compiler, too.
    nvrtc = _nvrtc_for(target) if nvcc is None or not request.header_folders else None
    refused = _by_nvrtc(nvrtc, source, target, request) if nvrtc is not None else None
    if isinstance(refused, Compiled):
        return refused
    if nvcc is None:
        if refused is None:
            raise _no_compiler(source, target)
        raise _refusal(source, target, refused, _without_nvcc(target))
    compiled = compile_with_nvcc(nvcc, source.path, target, _nvcc_options(request), source.quotes, request.limits)
    if isinstance(compiled, Compiled):
        return compiled
    if refused is not None and _is_of_option(refused) and "nvcc fatal" in compiled.why:
        raise _refusal(source, target, refused, None)
    if lacks_host_compiler(compiled):
        if refused is None:
            raise EnvironmentProblem(
                f"{nvcc} finds no C++ compiler", "install g++, or name the one to take: NVCC_CCBIN"
            )
        raise _refusal(
            source, target, refused, "if it needs a host compiler's headers, install g++: nvcc takes them from it"
        )
    raise _refusal(source, target, compiled, _of_another_target(target, compiled.why))


def _of_another_target(target: str, why: str) -> str | None:
    """Say which target has the instructions that a plain one refuses, such as wgmma."""
    if "not supported on .target" in why and target[-1:].isdecimal() and int(target[3:]) >= _FIRST_WITH_SUFFIX:
        return f"--arch {target}a has the instructions of that architecture alone"
    return None


def _nvrtc_for(target: str) -> Nvrtc | None:
    """Return an NVRTC for the target; None where there is none: nvcc may do."""
    try:
        return compiler_for(target)
    except EnvironmentProblem:
        return None


def _no_compiler(source: _Source, target: str) -> UsageError | EnvironmentProblem:
    """Say which targets the compilers here know, or how to get one."""
    said = f"{source.name}: no compiler here compiles for {target}"
    try:
        numbers = {number for nvrtc in find_nvrtc() for number in nvrtc.architectures}
    except EnvironmentProblem as error:
        return EnvironmentProblem(said, error.hint or INSTALL_HINT)
    return UsageError(said, f"there are {', '.join(f'sm_{number}' for number in sorted(numbers))}")


def _without_nvcc(target: str) -> str:
    """Say what is missing where NVRTC refused a source, and there is no nvcc for the target."""
    if find_programs("nvcc"):
        return f"if it needs a host compiler's headers, {target} needs another nvcc than those here"
    return f"if it needs a host compiler's headers, it needs nvcc; {NVCC_HINT}"


def _by_nvrtc(nvrtc: Nvrtc, source: _Source, target: str, request: ReviewRequest) -> Compiled | NotCompiled:
    folders = [source.path.absolute().parent, *map(Path, request.include_folders)]
    options = (
        *target_options(target, request.standard or DEFAULT_STANDARD),
        _LINES["nvrtc"],
        *(f"--define-macro={define}" for define in request.defines),
        *request.flags,
        *include_options(*folders, *_others(request), *cuda_header_folders(nvrtc)),
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


def _is_of_option(refused: NotCompiled) -> bool:
    """Tell whether NVRTC did not get to the source, for an option that it does not know."""
    return INVALID_OPTION in refused.log


def _nvcc_options(request: ReviewRequest) -> tuple[str, ...]:
    return (
        f"-std={request.standard or DEFAULT_STANDARD}",
        _LINES["nvcc"],
        *(f"-D{define}" for define in request.defines),
        *request.flags,
        *include_options(*(Path(folder).absolute() for folder in request.include_folders), *_others(request)),
    )


def _others(request: ReviewRequest) -> list[Path]:
    """Return the folders of headers that are not the source's own: those of its build, and of packages."""
    packages = filter(Path.is_dir, cuda_folders(FOLDERS, ()))
    return [*map(Path, request.header_folders), *packages]


def _refusal(source: _Source, target: str, refused: NotCompiled, hint: str | None) -> InputError | UsageError:
    """Say what a compiler refused: an option, or the source."""
    if _is_of_option(refused):
        said = refused.why.partition(f"{INVALID_OPTION}: ")[2] or refused.why
        others = "; nvcc takes more, and there is none here that can be asked" if hint is not None else ""
        return UsageError(f"{source.name} was not compiled: {' '.join(said.split()):.500}", _FLAG_HINT + others)
    why = _PTX_FILE.sub("ptxas: ", refused.why.replace(str(source.path.absolute()), source.name))
    flag = _NAMED_FLAG.search(refused.why)
    if flag is not None and hint is None:
        hint = f"--flag={flag[1] or flag[2]}"
    header = _NO_HEADER.search(refused.log)
    package = header_hint(header[1] or header[2]) if header is not None else None
    if package is not None:
        hint = package
    elif header is not None and header[0] in refused.why:
        name = header[1] or header[2]
        cubin = f"nvcc -cubin -lineinfo -arch={target} {source.path.name}"
        own = (
            f"-I DIR names the folder of {name:.100}; or compile it as your build does, with "
            f"--compile-commands or `{cubin}`, and check {source.path.stem}.cubin"
        )
        hint = f"{own}; {hint}" if hint else own
    return InputError(f"{source.name} does not compile for {target}: {why[:2000]}", hint)


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
