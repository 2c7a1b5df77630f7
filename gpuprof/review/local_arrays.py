"""Accesses of a kernel's own arrays in local memory."""

from __future__ import annotations

from gpuprof.review.body import is_of_library
from gpuprof.review.facts import CodeFacts
from gpuprof.sass.instruction import Instruction


def own_arrays(facts: CodeFacts) -> list[Instruction]:
    """Return the accesses of arrays, without those of sines, cosines and tangents of large arguments."""
    library = _library_code(facts) if facts.local_memory.arrays else []
    return [access for access in facts.local_memory.arrays if not any(access.address in span for span in library)]


def _library_code(facts: CodeFacts) -> list[range]:
    spans = []
    for function in facts.known.kernel.kernel.inner:
        if is_of_library(function):
            spans.append(range(function.offset, function.offset + function.size_bytes))
    spans += [operation.slow_code for operation in facts.operations]
    return spans
