"""The questions about a kernel that its limits leave open, which more counters can answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from gpuprof.model.session import KernelProfile

Question = Literal["work", "tensor-work", "memory", "pipes", "waits"]
"""FLOP by opcodes; FLOP of tensor instructions, if opcodes do not give them; use of memory; busy
pipes; reasons and locations of stalls."""
QUESTIONS: tuple[Question, ...] = ("work", "tensor-work", "memory", "pipes", "waits")
_NEAR_PEAK = 0.9
"""If a pipe is this busy, the gain is less than a tenth, whatever else is counted."""
_BUSY = 0.6
"""A unit that is less busy is no bottleneck by NVIDIA's speed-of-light rule."""
_ARITHMETIC = ("tensor", "fma", "fmaheavy", "fp64")
_LEVELS = ("dram", "l2", "l1")


def open_questions(kernel: KernelProfile) -> frozenset[Question]:
    """Return the questions that a kernel's limits leave open: only its work if near its peak.

    If a memory level is busy, the use of its bytes is open; if the SM is busy, the pipe. If nothing
    is busy, both are open. In all three cases the stalls of warps are open, and the work is unless
    the operator's shapes give it.
    """
    questions = set[Question]()
    if not any(pipe.name in _ARITHMETIC and pipe.fraction >= _NEAR_PEAK for pipe in kernel.pipes):
        questions.add("waits")
        busy = {unit.unit for unit in kernel.throughput if unit.fraction >= _BUSY}
        if not busy.isdisjoint(_LEVELS) or "sm" not in busy:
            questions.add("memory")
        if "sm" in busy or busy.isdisjoint(_LEVELS):
            questions.add("pipes")
    if kernel.operator_flop is None or not kernel.operator_flop.exact:
        questions |= {"work", "tensor-work"}
    return frozenset(questions)
