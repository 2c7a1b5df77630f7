"""Barriers of the whole block that some threads may not reach."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence

from gpuprof.review.facts.code_facts import CodeFacts
from gpuprof.review.facts.definitions import Definitions, definitions_of
from gpuprof.sass.instruction import JUMPS, Instruction
from gpuprof.sass.operands import LANE_BY_LANE

_OF_ALL_THREADS = ("0x0",)
"""The operands of __syncthreads: barrier 0, no number of threads."""
_INDEX = ("SR_TID", "SR_LANE", "SR_EQMASK", "SR_LTMASK", "SR_LEMASK", "SR_GTMASK", "SR_GEMASK", "SR_VIRTID")
_OF_EACH_LANE = ("ATOM", "SHFL")
_OF_WARP = ("U", "R2UR", "S2UR", "VOTE", "REDUX", "CREDUX")
"""Opcodes whose result is the same in all lanes begin with these."""


def conditional_barriers(facts: CodeFacts) -> Mapping[int, Instruction]:
    """Map the offset of each barrier whose condition differs between threads to the instruction with that condition.

    ptxas puts BSSY and BSYNC around code that threads may take differently; between them lies the jump that skips the
    barrier. A short branch becomes a predicate of the barrier itself: `@!P0 BAR.SYNC`.
    """
    barriers = [item for item in facts.named("BAR") if item.is_a("BAR.SYNC") and item.operands == _OF_ALL_THREADS]
    guarded = [barrier for barrier in barriers if barrier.predicate is not None]
    regions = list(_regions(facts, [barrier.address for barrier in barriers]))
    if not guarded and not regions:
        return {}
    definitions = definitions_of(facts)
    conditions = {barrier.address: barrier for barrier in guarded if _compares_index(definitions, barrier)}
    for branch in facts.named(*JUMPS):
        inside = [
            barrier
            for barrier in _skipped(branch, barriers)
            if any(branch.address in region and barrier.address in region for region in regions)
        ]
        if inside and _differs(definitions, branch):
            for barrier in inside:
                conditions.setdefault(barrier.address, branch)
    return conditions


def _regions(facts: CodeFacts, barriers: Sequence[int]) -> Iterator[range]:
    """Yield the range from each BSSY to its target, if a barrier is in it."""
    for item in facts.named("BSSY"):
        if item.target is not None and bisect_left(barriers, item.address) < bisect_left(barriers, item.target):
            yield range(item.address + 1, item.target)


def _skipped(branch: Instruction, barriers: Sequence[Instruction]) -> Sequence[Instruction]:
    """Return the barriers that a forward jump skips, or that a backward jump repeats."""
    target = branch.address if branch.target is None else branch.target
    first, last = sorted((branch.address, target))
    addresses = [barrier.address for barrier in barriers]
    return barriers[bisect_left(addresses, first) : bisect_right(addresses, last - 1)]


def _compares_index(definitions: Definitions, barrier: Instruction) -> bool:
    """Return whether a barrier's predicate is computed lane by lane from the thread index."""
    origins = definitions.origins(barrier, lambda item: item.name in LANE_BY_LANE)
    return any(map(_reads_index, origins))


def _differs(definitions: Definitions, branch: Instruction) -> bool:
    """Return whether a branch may differ between threads: it depends on their index, on an atomic or on a shuffle."""
    origins = definitions.origins(branch, lambda item: not item.name.startswith(_OF_WARP))
    return any(_reads_index(origin) or origin.name.startswith(_OF_EACH_LANE) for origin in origins)


def _reads_index(instruction: Instruction) -> bool:
    return any(operand.startswith(_INDEX) for operand in instruction.operands)
