"""Review many kernels on all cores: split them into batches, give these to processes, return results in order."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from msgspec.structs import replace as replaced

from gpuprof.diagnose.ranking import numbered
from gpuprof.errors import EnvironmentProblem
from gpuprof.review.batch import reviewed_batch, without_code
from gpuprof.review.contract import ReviewedKernel
from gpuprof.review.kernel import CompiledKernel
from gpuprof.sass.binary.elf import INSTRUCTION_BYTES
from gpuprof.sass.tools.disassemble import Disassembler, brings, disassembler_for, find_disassemblers
from gpuprof.workers import done_by_workers, processors

Progress = Callable[[int, int], None]
"""Receives the bytes of code that are done, and their total."""

_LITTLE_BYTES = 4000 * INSTRUCTION_BYTES
"""Less code is reviewed in this process: it takes less time than to start others."""
_LEAST_BYTES = 8_000 * INSTRUCTION_BYTES
_MOST_BYTES = 100_000 * INSTRUCTION_BYTES
"""Size of a batch, the code of one call of nvdisasm: to start it takes as long as 15,000 instructions."""
_PATIENCE_S = 60.0
_PATIENCE_S_PER_BYTE = 0.005 / INSTRUCTION_BYTES
"""The time limit of a batch: thirty times what it takes on a slow machine."""
_GIVEN_UP = "reading them crashed or took too long"


def disassemblers_for(kernels: Iterable[CompiledKernel]) -> tuple[tuple[Disassembler, ...], tuple[str, ...]]:
    """Return the disassemblers for the targets of these kernels, and a note for each target that none reads.

    Raises EnvironmentProblem if there is no nvdisasm.
    """
    tools: dict[Disassembler, None] = {}
    unread = []
    for target in dict.fromkeys(kernel.target for kernel in kernels if kernel.has_code):
        tool = disassembler_for(target)
        if tool is not None:
            tools[tool] = None
        else:
            unread.append(target)
    if unread and not find_disassemblers():
        raise EnvironmentProblem("nvdisasm, which reads machine code, was not found", brings(unread[0]))
    return tuple(tools), tuple(f"no nvdisasm here reads code for {target:.40}: {brings(target)}" for target in unread)


def reviewed_kernels(kernels: Sequence[CompiledKernel], progress: Progress) -> Iterator[ReviewedKernel]:
    """Yield the reviews of the kernels, in order.

    Kernels of the same code and launch configuration, such as the launches of a report, are reviewed once.
    """
    firsts: dict[Hashable, int] = {}
    first_of = [firsts.setdefault(_identity(kernel), number) for number, kernel in enumerate(kernels)]
    distinct = {number: kernels[number] for number in firsts.values()}
    done = 0
    total_bytes = _code_bytes(distinct.values())
    reviewed: dict[int, ReviewedKernel] = {}
    batches = _reviewed_batches(distinct, total_bytes)
    progress(0, total_bytes)
    for number, (kernel, first) in enumerate(zip(kernels, first_of, strict=True)):
        while first not in reviewed:
            batch, results = next(batches)
            reviewed.update(zip(batch, results, strict=True))
            done += _code_bytes(distinct[other] for other in batch)
            progress(done, total_bytes)
        yield replaced(
            reviewed[first],
            id=number,
            label=kernel.label,
            origin=kernel.origin,
            launch=kernel.launch,
            findings=tuple(numbered(reviewed[first].findings, number)),
        )


def _identity(kernel: CompiledKernel) -> Hashable:
    """Return a key of all that a review depends on.

    Lines that an input reader knows are those of one kernel: their identity is enough. A launch has mappings, which are
    no keys: its text is one.
    """
    names = (kernel.name, kernel.target, kernel.argument_names, kernel.members, kernel.notes, kernel.bare)
    return kernel.kernel, kernel.cubin, id(kernel.lines), str(kernel.shape), names


def _code_bytes(kernels: Iterable[CompiledKernel]) -> int:
    return sum(len(kernel.kernel.code) for kernel in kernels)


def _reviewed_batches(
    distinct: Mapping[int, CompiledKernel], total_bytes: int
) -> Iterator[tuple[Sequence[int], Sequence[ReviewedKernel]]]:
    """Yield batches with their reviews as they are done, in other processes if that saves time."""

    def work(batch: Sequence[int]) -> list[ReviewedKernel]:
        return reviewed_batch([distinct[number] for number in batch])

    def patience_s(batch: Sequence[int]) -> float:
        return _PATIENCE_S + _PATIENCE_S_PER_BYTE * _code_bytes(distinct[number] for number in batch)

    batches = list(_batches(distinct, total_bytes))
    count = min(processors(), len(batches))
    if count < 2 or total_bytes < _LITTLE_BYTES:
        for batch in batches:
            yield batch, work(batch)
        return
    for batch, results in done_by_workers(batches, work, count, patience_s):
        yield batch, results or [without_code(distinct[number], _GIVEN_UP) for number in batch]


def _batches(distinct: Mapping[int, CompiledKernel], total_bytes: int) -> Iterator[list[int]]:
    """Yield the batches, as numbers of kernels: kernels of one cubin and target, in order.

    The batches become smaller towards the end, so that all processes end at about the same time.
    """
    left = total_bytes
    for _, group in groupby(distinct, key=lambda number: (distinct[number].target, distinct[number].cubin)):
        batch: list[int] = []
        size = 0
        for number in group:
            length = len(distinct[number].kernel.code)
            if batch and size + length > min(_MOST_BYTES, max(_LEAST_BYTES, left // (2 * processors()))):
                yield batch
                batch = []
                size = 0
            batch.append(number)
            size += length
            left -= length
        yield batch
