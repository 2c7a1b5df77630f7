"""Files of any kind into modules of compiled kernels; the kind follows from the content first, then from the name."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from gpuprof.errors import EnvironmentProblem, GpuprofError, InputError, UsageError
from gpuprof.model.recorded import Dim3, dims_text
from gpuprof.read.identify import Look, is_packed, is_report, unzipped
from gpuprof.read.plain_file import PlainFile, known_as, plain_file
from gpuprof.review.inputs.arguments import with_arguments
from gpuprof.review.inputs.binaries import binary_modules
from gpuprof.review.inputs.file_bytes import head_of
from gpuprof.review.inputs.ptx import is_ptx, ptx_modules
from gpuprof.review.inputs.request import READS, Build, ReviewRequest
from gpuprof.review.inputs.sources import source_modules
from gpuprof.review.inputs.triton import cubin_modules, triton_modules
from gpuprof.review.kernel import CompiledKernel, InputModule
from gpuprof.sass.binary.host_binary import binary_kind
from gpuprof.sass.tools.programs import LimitReached

_HEAD_BYTES = 2**16
_NAMES_LISTED = 5
_CUDA = re.compile(rb"\b__(?:global|device)__\b|\bcuda_runtime\.h\b")
_SOURCES = (".cu", ".cuh", ".cpp", ".cc", ".cxx", ".c", ".h", ".hpp")
_PACKED = (".whl", ".zip", ".gz", ".tgz", ".zst", ".xz", ".bz2")
_OTHERS: tuple[tuple[tuple[str, ...], str, str], ...] = (
    ((".py",), "is a Python script", "run it, and name the kernels that it compiled: Triton's are in ~/.triton/cache"),
    (_PACKED, "is a compressed archive", "unpack it, and name what is inside: a report, a .so"),
    ((".nsys-rep", ".qdrep", ".sqlite"), "is of Nsight Systems, and has no code", "name a report of ncu"),
    ((".hsaco",), "is compiled for AMD's GPUs", "gpuprof check reads NVIDIA's code"),
    ((".json",), "has no GPU code", "name the .cubin beside it; of a build: --compile-commands FILE"),
    ((".ttir", ".ttgir", ".llir", ".source"), "is intermediate code of Triton", "name the .cubin beside it"),
)
"""Ends of the names of files without GPU code, their kind, and a hint what to name instead."""


Refused = tuple[str, GpuprofError]
"""A file that cannot be reviewed, and why."""
_Reader = Callable[[Path, str, ReviewRequest], Iterable[InputModule]]


def modules_of(request: ReviewRequest, left_out: list[Refused] | None = None) -> tuple[InputModule, ...]:
    """Return the device code of the files, with the requested kernels. Raises InputError and DamagedInput.

    `left_out`, if it is given, gets the files that cannot be read, and the sources that cannot be compiled for an
    architecture, if others can.
    """
    modules: list[InputModule] = []
    refused: list[Refused] = []
    readers: list[_Reader] = []
    for name in request.files:
        try:
            with plain_file(name, _is_packed, salvage=request.salvage) as file:
                reader = _reader(file)
                readers.append(reader)
                for part in _parts(file, reader, request):
                    try:
                        modules += _modules(file, reader, part)
                    except (InputError, EnvironmentProblem, UsageError) as error:
                        refused.append((file.name, error))
        except InputError as error:
            refused.append((known_as(name), error))
    if not refused:
        _check_options(request, readers)
    if refused and (left_out is None or not modules):
        raise refused[0][1]
    try:
        chosen = _chosen(modules, request)
    except GpuprofError as error:
        # The kernel may be in the files that cannot be read.
        raise (refused[0][1] if refused else error) from None
    if left_out is not None:
        left_out += refused
    return chosen


def _is_packed(look: Look) -> bool:
    """Return whether a file is compressed code, not an archive of several files."""
    return is_packed(look) or binary_kind(unzipped(look.head)) is not None


def _check_options(request: ReviewRequest, readers: Sequence[_Reader]) -> None:
    """Raise UsageError if options are for sources, and no file is one: they would change nothing."""
    options = " ".join(request.compiler_options())
    if options and source_modules not in readers:
        raise UsageError(
            f"{options:.100}: none of the files is a source, so nothing is compiled with that",
            "name a .cu, or leave it out",
        )


def _parts(file: PlainFile, reader: _Reader, request: ReviewRequest) -> Sequence[ReviewRequest]:
    """Return the ways in which a file is to be compiled: by build, and by architecture."""
    if reader not in (source_modules, ptx_modules):
        return [request]
    parts = []
    for build in request.builds.get(file.name, (Build(),)):
        built = request.built_as(build).built_as(request.torch or Build())
        parts += [replace(built, targets=(target,)) for target in built.targets] or [built]
    return parts


def _modules(file: PlainFile, reader: _Reader, request: ReviewRequest) -> list[InputModule]:
    with file.named():
        try:
            modules = list(reader(file.path, file.name, request))
        except LimitReached as error:
            raise InputError(f"{file.name}: {error.message}", error.hint) from error
    if file.damage is not None and modules:
        modules[0] = replace(modules[0], notes=(f"{file.name}: {file.damage}", *modules[0].notes))
    return modules


def _reader(file: PlainFile) -> _Reader:
    """Return the reader of a file. Raises InputError if there is none."""
    if os.path.isdir(file.path):  # noqa: PTH112 (Path.is_dir fails for names that are too long)
        return triton_modules
    name = file.name.lower()
    if file.is_copy:
        name = name.removesuffix(".gz")
    look = Look(name, file.path, head_of(file.path, file.name, _HEAD_BYTES))
    if not look.head:
        raise InputError(f"{file.name} is empty")
    if is_report(look):
        return _report
    kind = binary_kind(look.head)
    if kind is not None:
        return cubin_modules if kind == "cubin" else binary_modules
    if is_ptx(look.head) or name.endswith(".ptx"):
        return ptx_modules
    for suffixes, what, hint in _OTHERS:
        if name.endswith(suffixes):
            raise InputError(f"{file.name} {what}", hint)
    if look.head.startswith(b"version https://git-lfs"):
        raise InputError(f"{file.name} is a Git LFS pointer, not the file itself", "git lfs pull")
    if b"\0" not in look.head and (name.endswith(_SOURCES) or _CUDA.search(look.head)):
        return source_modules
    what = "binary data of an unknown kind" if b"\0" in look.head else "no kind of file that has GPU code"
    raise InputError(f"{file.name} is {what}", READS)


def _report(path: Path, name: str, request: ReviewRequest) -> Iterable[InputModule]:
    from gpuprof.review.inputs.reports import report_modules

    return report_modules(path, name, request)


def _chosen(modules: Sequence[InputModule], request: ReviewRequest) -> tuple[InputModule, ...]:
    """Return the modules with the requested kernels. Raises UsageError if there is none."""
    kernels = [kernel for module in modules for kernel in module.kernels]
    number = request.kernel.number if request.kernel is not None else None
    if number is not None:
        if number >= len(kernels):
            last = f"--kernel #{number}: the last kernel is #{len(kernels) - 1}"
            raise UsageError(last if kernels else "there is no kernel")
        kernels = [kernels[number]]
        modules = [
            replace(module, kernels=tuple(kernel for kernel in module.kernels if kernel is kernels[0]))
            for module in modules
        ]
    if kernels:
        _check_block(kernels, request.block)
    else:
        _check_names(modules, request)
    return with_arguments(modules, request.arguments)


def _check_names(modules: Sequence[InputModule], request: ReviewRequest) -> None:
    """Raise UsageError if no kernel has the requested name or architecture."""
    names = list(dict.fromkeys(f"{name:.100}" for module in modules for name in module.names))
    if request.kernel is not None and names:
        more = " and more" if len(names) > _NAMES_LISTED else ""
        listed = "; ".join(names[:_NAMES_LISTED])
        raise UsageError(f"no kernel matches {request.kernel.text!r:.80}", f"there are: {listed}{more}")
    targets = sorted({module.target for module in modules if module.holds})
    if request.targets and targets and not any(module.form == "ptx" for module in modules):
        raise UsageError(
            f"there is no code that runs on {', '.join(request.targets)}", f"there is code for {', '.join(targets)}"
        )


def _check_block(kernels: Sequence[CompiledKernel], block: Dim3 | None) -> None:
    """Raise UsageError for a block that fits no kernel."""
    if block is not None and not any(kernel.shape.block == block for kernel in kernels):
        why = kernels[0].notes[-1].partition(": ")[2]
        raise UsageError(
            f"--block {dims_text(block)} fits no kernel, such as {kernels[0].name:.100}: {why}",
            "leave --block out, or choose kernels by --kernel",
        )
