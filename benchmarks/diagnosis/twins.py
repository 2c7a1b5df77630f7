"""Tells what else than its cause slows `slow` against its fix: a second cause would blur what is scored.

Four traits are compared, each of which alone can make a kernel slow, and only where `slow` is the worse: a fix may
have its price. A rule has traits of its own; a case excuses others under `besides`, each with the reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from benchmarks.diagnosis.case import BLOCK, FIXED, INSTRUCTIONS, OCCUPANCY, SLOW, WIDTH, Case, Room
from benchmarks.diagnosis.compiled import CompiledKernel
from gpuprof.sass.flow.graph import Loop, find_loops
from gpuprof.sass.instruction import Instruction

OCCUPANCY_TOLERANCE = 1.25
"""`fixed` may have so many times the warps: where all wait and nothing else counts, that saves a fifth of the time,
about the least that cases expect of a fix."""
INSTRUCTION_TOLERANCE = 1.5
"""`slow` may have so many times the instructions a loaded byte: a loop that is unrolled loses its counter, its
comparison and its jump, a third of a short loop. It matters only where schedulers are busy, and the rules for which
they are have this trait as their own."""

_LAUNCH = (BLOCK, OCCUPANCY)
_WORK = (INSTRUCTIONS, WIDTH)
ITS_OWN: Mapping[str, tuple[str, ...]] = {
    "debug-build": (OCCUPANCY, *_WORK),
    "old-architecture": (OCCUPANCY, INSTRUCTIONS),
    "low-occupancy": _LAUNCH,
    "block-size": _LAUNCH,
    "short-blocks": (BLOCK, INSTRUCTIONS),
    "reduction-tree": (BLOCK, INSTRUCTIONS),
    "load-imbalance": (BLOCK,),
    "tail-effect": (BLOCK,),
    "small-grid": (BLOCK,),
    "short-kernel": (BLOCK,),
    "barrier-wait": (BLOCK,),
    "narrow-access": _WORK,
    "local-memory-spill": (OCCUPANCY, INSTRUCTIONS),
    "fp32-compute-bound": (INSTRUCTIONS,),
    "fp64-bound": (INSTRUCTIONS,),
    "integer-bound": (INSTRUCTIONS,),
    "issue-bound": (INSTRUCTIONS,),
    "special-function-bound": (INSTRUCTIONS,),
    "non-fused-fp": (INSTRUCTIONS,),
    "tensor-cores-idle": (INSTRUCTIONS,),
    "branch-divergence": (INSTRUCTIONS,),
    "instruction-fetch": (INSTRUCTIONS,),
    "dependency-latency": (INSTRUCTIONS,),
    "atomic-contention": (INSTRUCTIONS,),
    "l1-bandwidth": (INSTRUCTIONS,),
    "l2-bandwidth": (INSTRUCTIONS,),
    "shared-bandwidth": (INSTRUCTIONS,),
}
"""Which traits are a rule's own: its cause is in them, or nothing fixes it without them. Other rules have none."""

_WIDTHS = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16, "256": 32}
_WORD = 4
_LOADS = ("LDG", "LDGSTS")


def second_causes(
    case: Case, kernels: Mapping[str, CompiledKernel], rooms: Mapping[str, Room]
) -> Iterator[tuple[str, str]]:
    """Yield the traits, not of the planted rule's own, in which `slow` is the worse, with what both kernels have."""
    if SLOW in kernels:
        for trait, text in _worse(case, kernels, rooms):
            if trait not in ITS_OWN.get(case.planted_rule, ()):
                yield trait, text


def _worse(case: Case, kernels: Mapping[str, CompiledKernel], rooms: Mapping[str, Room]) -> Iterator[tuple[str, str]]:
    """Yield the traits in which `slow` is worse by more than their tolerance; another block size always counts."""
    slow, fixed = (case.launches[entry].shape(case.small, Room(1, 1)).threads for entry in (SLOW, FIXED))
    if slow != fixed:
        yield BLOCK, f"blocks have {slow} and {fixed} threads"
    slow, fixed = (rooms[entry].blocks_per_sm * -(-threads // 32) for entry, threads in ((SLOW, slow), (FIXED, fixed)))
    if fixed > OCCUPANCY_TOLERANCE * slow:
        yield OCCUPANCY, f"an SM holds {slow} and {fixed} warps"
    slow, fixed = (max(map(width, _loads(kernels[entry].code)), default=0) for entry in (SLOW, FIXED))
    if slow and fixed > slow:
        yield WIDTH, f"a lane loads up to {slow} and {fixed} bytes at once"
    before, after = (instructions_per_byte(kernels[entry].code) for entry in (SLOW, FIXED))
    if before is not None and after is not None and before > INSTRUCTION_TOLERANCE * after:
        yield INSTRUCTIONS, f"a byte loaded takes {before:.2g} and {after:.2g} instructions"


def instructions_per_byte(code: Sequence[Instruction]) -> float | None:
    """Return the instructions a byte that a lane loads from global memory; None where none is loaded.

    Those of the innermost loop that loads most, else of the loop that loads most, else of the whole kernel.
    """
    every = find_loops(code)
    loops = [loop for loop in every if _bytes(loop.instructions)]
    innermost = [loop for loop in loops if not any(_within(other, loop) for other in every)]
    busiest = max(innermost or loops, key=lambda loop: _bytes(loop.instructions), default=None)
    part = busiest.instructions if busiest is not None else code
    loaded = _bytes(part)
    return sum(not item.idle for item in part) / loaded if loaded else None


def width(load: Instruction) -> int:
    """Return the bytes a lane that a load fetches."""
    return next((_WIDTHS[word] for word in load.opcode.split(".") if word in _WIDTHS), _WORD)


def _within(inner: Loop, outer: Loop) -> bool:
    return inner.header != outer.header and any(item.address == inner.header for item in outer.instructions)


def _bytes(code: Sequence[Instruction]) -> int:
    return sum(map(width, _loads(code)))


def _loads(code: Sequence[Instruction]) -> list[Instruction]:
    return [item for item in code if item.name in _LOADS and not item.idle]
