"""Accesses of a kernel's own arrays in local memory."""

from __future__ import annotations

from gpuprof.review.facts import CodeFacts
from gpuprof.sass.instruction import Instruction


def own_arrays(facts: CodeFacts) -> list[Instruction]:
    """Return the accesses of arrays, without those of sines, cosines and tangents of large arguments."""
    arrays = facts.local_memory.arrays
    if not arrays:
        return []
    slow = [operation.slow_code for operation in facts.operations]
    library = [*facts.library, *slow]
    return [access for access in arrays if not any(access.address in span for span in library)]
