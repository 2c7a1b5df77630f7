"""Select the kernels and architectures of a file that a request names, and set their launch configuration."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from gpuprof.errors import DamagedInput
from gpuprof.model.recorded import Dim3, dims_text
from gpuprof.review.inputs.request import ReviewRequest
from gpuprof.review.inputs.targets import runs_on
from gpuprof.review.kernel import ArgumentPart, CompiledKernel, InputModule, KnownLaunch
from gpuprof.sass.binary.cubin import CubinKernel, read_cubin
from gpuprof.sass.binary.debug_arguments import DebugArgument, debug_arguments
from gpuprof.sass.tools.demangle import demangled

_UNKNOWN = KnownLaunch()


def module_of_cubin(
    data: bytes,
    origin: str,
    request: ReviewRequest,
    *,
    shape: KnownLaunch = _UNKNOWN,
    tools: tuple[str, ...] = (),
    notes: tuple[str, ...] = (),
    wanted: bool | None = None,
) -> InputModule:
    """Return the module of a cubin with the requested kernels. Raises DamagedInput for a broken cubin.

    `shape` is the launch configuration in the file; the user's options fill its gaps. `wanted`: its architecture is
    requested; None: decide by the cubin's target.
    """
    try:
        cubin = read_cubin(data)
    except DamagedInput as error:
        raise DamagedInput(f"{origin}: {error.message}", error.hint) from error
    if wanted is None:
        wanted = is_target_chosen(request, cubin.target, [cubin.target])
    names = demangled([kernel.mangled for kernel in cubin.kernels]) if wanted else {}
    debug = debug_arguments(data, names) if b".debug_info" in data else {}
    kernels = []
    for kernel in cubin.kernels if wanted else ():
        name = names[kernel.mangled]
        if is_name_chosen(request, kernel.mangled, name):
            compiled = compiled_kernel(kernel, name, cubin.target, data, origin=origin, request=request, shape=shape)
            kernels.append(with_names(compiled, debug.get(kernel.mangled, ())))
    if cubin.relocatable:
        notes += (
            f"{origin}: not linked (-rdc=true): what kernels call in other files may need more registers, stack and "
            "shared memory than is given here; the linked program has the whole",
        )
    return InputModule(
        origin=origin,
        target=cubin.target,
        form="sass",
        holds=len(cubin.kernels),
        kernels=tuple(kernels),
        names=tuple(names.values()),
        tools=tools,
        notes=notes,
    )


def is_name_chosen(request: ReviewRequest, mangled: str, name: str) -> bool:
    """Return whether a kernel matches the requested expression; True for a number, which selects among all files."""
    if request.kernel is None or request.kernel.regex is None:
        return True
    with request.in_time():
        return request.kernel.fits(mangled, name)


def is_target_chosen(request: ReviewRequest, target: str, available: Sequence[str]) -> bool:
    """Return whether code for a target is selected, from a file with code for the `available` targets.

    For an architecture that the file lacks, the newest code that runs on it is selected.
    """
    return not request.targets or any(target == fitting(wanted, available) for wanted in request.targets)


def fitting(wanted: str, available: Sequence[str]) -> str | None:
    """Return the target of the code that a chip runs: its own, else the newest that runs on it; None if none does."""
    if wanted in available:
        return wanted
    running = [target for target in available if runs_on(target, wanted)]
    return max(running, key=lambda target: (int(target.strip("sm_af")), target), default=None)


def with_names(kernel: CompiledKernel, debug: Sequence[DebugArgument]) -> CompiledKernel:
    """Return a kernel with the names of its arguments and their members, if debug information has the same ones."""
    sizes = [parameter.size_bytes for parameter in kernel.kernel.parameters]
    if not debug or [argument.size_bytes for argument in debug] != sizes:
        return kernel
    return replace(kernel, argument_names=tuple(argument.name for argument in debug), members=tuple(_members(debug)))


def _members(debug: Sequence[DebugArgument]) -> Iterator[ArgumentPart]:
    for ordinal, argument in enumerate(debug):
        for member in argument.members:
            yield ArgumentPart(ordinal, *member, argument.name)


def compiled_kernel(
    kernel: CubinKernel,
    name: str,
    target: str,
    data: bytes,
    *,
    origin: str,
    request: ReviewRequest,
    shape: KnownLaunch,
) -> CompiledKernel:
    """Return a kernel with its launch: as the file says it, else as the user does, else as the code asks for it."""
    block, why = _block(kernel, shape.block, request.block)
    dynamic = shape.dynamic_shared_bytes
    return CompiledKernel(
        name=name,
        target=target,
        origin=origin,
        cubin=data,
        kernel=kernel,
        shape=KnownLaunch(
            block=block,
            grid=shape.grid or request.grid,
            dynamic_shared_bytes=dynamic if dynamic is not None else request.dynamic_shared_bytes,
        ),
        notes=(f"--block {dims_text(request.block)} is not applied: {why}",) if why and request.block else (),
    )


def _block(kernel: CubinKernel, recorded: Dim3 | None, asked: Dim3 | None) -> tuple[Dim3 | None, str]:
    """Return the block of a kernel, and why it is not the one that the user asks for."""
    fixed = recorded or kernel.required_block
    if asked is None or asked == fixed:
        return fixed, ""
    if fixed is not None:
        return fixed, f"the {'file says' if recorded else 'code requires'} {dims_text(fixed)}"
    if kernel.max_threads is not None and asked[0] * asked[1] * asked[2] > kernel.max_threads:
        return None, f"the code allows {kernel.max_threads} threads per block"
    return asked, ""
