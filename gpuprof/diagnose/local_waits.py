"""The instructions at which warps wait for local memory: its accesses, and the first uses of loaded
values.

It follows the code, which takes time: import it only if local memory is worth it.
"""

from __future__ import annotations

from gpuprof.code.patterns.local_accesses import local_accesses
from gpuprof.diagnose.facts.code import SAMPLES
from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.facts.waits import stall_metric

_FOR_LOADS = stall_metric("long_scoreboard", "sampled")


def local_waits(facts: KernelFacts) -> float | None:
    """Return the share of the samples of warps that were at an access of local memory, or waited
    for its result.

    None if the code or the samples are not known, or other instructions may access local memory.
    """
    total = sum(item.counts.get(SAMPLES, 0.0) for item in facts.code)
    if not total or not all(facts.sass):
        return None
    waiting = local_accesses(facts.sass, tuple(item.pc for item in facts.code))
    if waiting is None:
        return None
    waits = 0.0
    for place, is_access in waiting.items():
        counts = facts.code[place].counts
        # A reason with next to no samples is not read by instruction: then count all samples.
        waits += counts.get(SAMPLES if is_access else _FOR_LOADS, counts.get(SAMPLES, 0.0))
    return min(1.0, waits / total)
