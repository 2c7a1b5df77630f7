"""Disassembles and reviews many kernels on all cores, in order, with progress."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec.structs import replace as replaced

from gpuprof.diagnose.ranking import numbered
from gpuprof.errors import EnvironmentProblem
from gpuprof.review.contract import ReviewedKernel
from gpuprof.review.kernel import CompiledKernel
from gpuprof.review.slices import given_up, reviewed_slice, slices_of
from gpuprof.sass.binary.elf import INSTRUCTION_BYTES
from gpuprof.sass.tools.disassemble import Disassembler, brings, disassembler_for, find_disassemblers
from gpuprof.workers import done_by_workers, processors

Progress = Callable[[int, int], None]
"""Told how many bytes of code are done, and of how many."""


_LITTLE_BYTES = 4000 * INSTRUCTION_BYTES
"""So much is done before processes are ready for it."""
_PATIENCE_S, _PATIENCE_S_PER_BYTE = 60.0, 0.005 / INSTRUCTION_BYTES
"""So long a piece may take: thirty times what it does on a slow machine."""


def reviewed_kernels(kernels: Sequence[CompiledKernel], progress: Progress) -> Iterator[ReviewedKernel]:
    """Yield what is told of the kernels, in order. Raises EnvironmentProblem where no nvdisasm reads a target.

    Kernels of the same code and launch configuration, such as the launches of a report, are reviewed once.
    """
    firsts = _firsts(kernels)
    own = {number: kernels[number] for number in dict.fromkeys(firsts)}
    done, whole = 0, sum(len(kernel.kernel.code) for kernel in own.values())
    reviewed: dict[int, ReviewedKernel] = {}
    ended = _ended(own, whole)
    progress(0, whole)
    for number, (kernel, first) in enumerate(zip(kernels, firsts, strict=True)):
        while first not in reviewed:
            for other, result in next(ended):
                reviewed[other] = result
                done += len(own[other].kernel.code)
            progress(done, whole)
        yield reviewed[first] if number == first else _launched_again(reviewed[first], kernel, number)


NumberedKernels = Sequence[tuple[int, ReviewedKernel]]


def _ended(own: Mapping[int, CompiledKernel], whole: int) -> Iterator[NumberedKernels]:
    """Yield kernels that were reviewed, by their numbers: in processes of their own where there is much to do."""
    count = processors()
    slices = list(slices_of(own, count))
    count = min(count, len(slices))
    if count < 2 or whole < _LITTLE_BYTES:
        for piece in slices:
            yield _work(own, piece)
        return
    for piece, result in done_by_workers(
        slices, lambda piece: _work(own, piece), count, lambda piece: _patience_s(own, piece)
    ):
        yield result if result is not None else [(number, given_up(number, own[number])) for number in piece]


def _work(own: Mapping[int, CompiledKernel], piece: Sequence[int]) -> NumberedKernels:
    return list(zip(piece, reviewed_slice([(number, own[number]) for number in piece]), strict=True))


def _patience_s(own: Mapping[int, CompiledKernel], piece: Sequence[int]) -> float:
    return _PATIENCE_S + _PATIENCE_S_PER_BYTE * sum(len(own[number].kernel.code) for number in piece)


def _firsts(kernels: Sequence[CompiledKernel]) -> list[int]:
    """Return for each kernel the number of the first that has the same code and launch configuration."""
    firsts: dict[object, int] = {}
    return [firsts.setdefault(_identity(kernel), number) for number, kernel in enumerate(kernels)]


def _identity(kernel: CompiledKernel) -> object:
    shape = kernel.shape
    return (
        kernel.name,
        kernel.target,
        kernel.kernel,
        (shape.block, shape.grid, shape.dynamic_shared_bytes),
        (frozenset(shape.arguments.items()), frozenset(shape.parts.items())),
        id(kernel.cubin) if kernel.lines is None else hash(frozenset(kernel.lines.items())),
        (kernel.argument_names, kernel.members),
        kernel.notes,
    )


def _launched_again(reviewed: ReviewedKernel, kernel: CompiledKernel, number: int) -> ReviewedKernel:
    findings = tuple(numbered(reviewed.findings, number))
    return replaced(
        reviewed, id=number, label=kernel.label, origin=kernel.origin, launch=kernel.launch, findings=findings
    )


def disassemblers_for(kernels: Sequence[CompiledKernel]) -> tuple[Disassembler, ...]:
    """Return those that the targets of these kernels need. Raises EnvironmentProblem where none can be read."""
    targets = dict.fromkeys(kernel.target for kernel in kernels if kernel.kernel.code)
    tools = dict.fromkeys(tool for tool in map(disassembler_for, targets) if tool is not None)
    if targets and not tools:
        have = ", ".join(map(str, find_disassemblers()))
        names = ", ".join(f"{target:.40}" for target in targets)
        said = f"{have} does not read code for {names}" if have else f"no nvdisasm at hand reads code for {names}"
        hints = dict.fromkeys(brings(target, newer=bool(have)) for target in targets)
        raise EnvironmentProblem(said, "; ".join(hints))
    return tuple(tools)
