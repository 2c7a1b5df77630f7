"""Which kernels and architectures of a file are asked for, and how they are launched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from gpuprof.errors import DamagedInput
from gpuprof.model.kernel_match import KernelPattern, kernel_pattern
from gpuprof.model.recorded import Dim3, dims_text
from gpuprof.review.inputs.request import ReviewRequest
from gpuprof.review.inputs.targets import runs_on
from gpuprof.review.kernel import ArgumentPart, CompiledKernel, InputModule, KnownLaunch
from gpuprof.sass.binary.cubin import Cubin, CubinKernel, read_cubin
from gpuprof.sass.binary.debug_arguments import DebugArgument, debug_arguments
from gpuprof.sass.tools.demangle import demangled

_NAMES_TOLD = 5


@dataclass(slots=True)
class KernelChoice:
    """What of the files is asked for. `names` collects the kernels that were looked at, for errors."""

    request: ReviewRequest
    pattern: KernelPattern | None
    names: dict[str, None] = field(default_factory=dict)

    @property
    def targets(self) -> tuple[str, ...]:
        """Return the architectures that are asked for; none where nobody says."""
        return self.request.targets

    def means(self, mangled: str, name: str) -> bool:
        """Tell whether a kernel is asked for by name; numbers are looked at when all are there."""
        if len(self.names) <= _NAMES_TOLD:
            self.names.setdefault(name)
        if self.pattern is None or self.pattern.regex is None:
            return True
        with self.request.in_time():
            return self.pattern.fits(mangled, name)

    def means_target(self, target: str, there: Sequence[str]) -> bool:
        """Tell whether code for a target is asked for, where the file also has that of `there`.

        For an architecture that the file does not have, it is the newest code that runs on it.
        """
        return not self.targets or any(target == fitting(wanted, there) for wanted in self.targets)


def fitting(wanted: str, there: Sequence[str]) -> str | None:
    """Return the target of the code that a chip runs: its own, else the newest that runs on it; None if none does."""
    if wanted in there:
        return wanted
    running = [target for target in there if runs_on(target, wanted)]
    return max(running, key=lambda target: (int(target.strip("sm_af")), target), default=None)


def choice_of(request: ReviewRequest) -> KernelChoice:
    """Return what is asked for."""
    pattern = kernel_pattern(request.kernel, "--kernel") if request.kernel is not None else None
    return KernelChoice(request, pattern)


def module_of_cubin(
    data: bytes,
    origin: str,
    choice: KernelChoice,
    *,
    shape: KnownLaunch | None = None,
    tools: tuple[str, ...] = (),
    notes: tuple[str, ...] = (),
    wanted: bool | None = None,
) -> InputModule:
    """Return the module of a cubin with the kernels that are asked for. Raises DamagedInput for a broken one.

    `shape` is what the file says of launches; what the user says counts where it says nothing. `wanted` tells whether
    its architecture is asked for; None: by the cubin alone.
    """
    try:
        cubin = read_cubin(data)
    except DamagedInput as error:
        raise DamagedInput(f"{origin}: {error.message}", error.hint) from error
    if wanted is None:
        wanted = choice.means_target(cubin.target, [cubin.target])
    return InputModule(
        origin=origin,
        target=cubin.target,
        form="sass",
        holds=len(cubin.kernels),
        kernels=kernels_of(cubin, data, origin, choice, shape=shape) if wanted else (),
        tools=tools,
        notes=(*notes, *_not_linked(cubin, origin)),
    )


def _not_linked(cubin: Cubin, origin: str) -> tuple[str, ...]:
    """Say what is not known of code that is to be linked."""
    if not cubin.relocatable:
        return ()
    return (
        f"{origin}: not linked (-rdc=true): what kernels call in other files may need more registers, stack and shared "
        "memory than is told here; the linked program has the whole",
    )


def kernels_of(
    cubin: Cubin, data: bytes, origin: str, choice: KernelChoice, *, shape: KnownLaunch | None = None
) -> tuple[CompiledKernel, ...]:
    """Return the kernels of a cubin that are asked for."""
    names = demangled([kernel.mangled for kernel in cubin.kernels])
    debug = debug_arguments(data) if b".debug_info" in data else {}
    kernels = []
    for kernel in cubin.kernels:
        name = names.get(kernel.mangled, kernel.mangled)
        if choice.means(kernel.mangled, name):
            compiled = compiled_kernel(kernel, name, cubin.target, data, origin=origin, choice=choice, shape=shape)
            kernels.append(with_names(compiled, debug.get(kernel.mangled, ())))
    return tuple(kernels)


def with_names(kernel: CompiledKernel, debug: Sequence[DebugArgument]) -> CompiledKernel:
    """Return a kernel with the names of its arguments and their members, if debug information has the same ones."""
    sizes = [parameter.size_bytes for parameter in kernel.kernel.parameters]
    if not debug or [argument.size_bytes for argument in debug] != sizes:
        return kernel
    members = tuple(
        ArgumentPart(ordinal, *member, argument.name)
        for ordinal, argument in enumerate(debug)
        for member in argument.members
    )
    return replace(kernel, argument_names=tuple(argument.name for argument in debug), members=members)


def compiled_kernel(
    kernel: CubinKernel,
    name: str,
    target: str,
    data: bytes,
    *,
    origin: str,
    choice: KernelChoice,
    shape: KnownLaunch | None = None,
) -> CompiledKernel:
    """Return a kernel with its launch: as the file says it, else as the user does, else as the code asks for it."""
    said = shape or KnownLaunch()
    asked = choice.request
    block, notes = _block(kernel, asked.block) if said.block is None else (said.block, _not_applied(said.block, asked))
    return CompiledKernel(
        name=name,
        target=target,
        origin=origin,
        cubin=data,
        kernel=kernel,
        shape=KnownLaunch(
            block=block,
            grid=said.grid or asked.grid,
            dynamic_shared_bytes=(
                said.dynamic_shared_bytes if said.dynamic_shared_bytes is not None else asked.dynamic_shared_bytes
            ),
        ),
        notes=notes,
    )


def _not_applied(block: Dim3, asked: ReviewRequest) -> tuple[str, ...]:
    if asked.block is None or asked.block == block:
        return ()
    return (f"--block {dims_text(asked.block)} is not applied: the file says {dims_text(block)}",)


def _block(kernel: CubinKernel, asked: Dim3 | None) -> tuple[Dim3 | None, tuple[str, ...]]:
    """Return the block of a kernel, and what stands against that which the user gave."""
    if asked is None:
        return kernel.required_block, ()
    if kernel.required_block is not None and kernel.required_block != asked:
        return kernel.required_block, (
            f"--block {dims_text(asked)} is not applied: the code requires {dims_text(kernel.required_block)}",
        )
    threads = asked[0] * asked[1] * asked[2]
    if kernel.max_threads is not None and threads > kernel.max_threads:
        return None, (
            f"--block {dims_text(asked)} is not applied: the code allows {kernel.max_threads} threads per block",
        )
    return asked, ()
