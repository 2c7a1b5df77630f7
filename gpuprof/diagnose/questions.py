"""Which questions about a kernel are open once its limits are known: what counters could show why it is not faster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from gpuprof.model.session import KernelProfile

Question = Literal["work", "tensor-work", "memory", "pipes", "waits"]
"""FLOP by opcodes; FLOP of tensor instructions, if opcodes do not give them; how memory is used; what executes; why and
where warps wait."""
QUESTIONS: tuple[Question, ...] = ("work", "tensor-work", "memory", "pipes", "waits")
_NEAR_PEAK = 0.9
"""If a pipe is so busy, less than a tenth can be gained, whatever else is counted."""
_BUSY = 0.6
"""A unit that is less busy is no bottleneck by NVIDIA's speed-of-light rule."""
_ARITHMETIC = ("tensor", "fma", "fmaheavy", "fp64")
_LEVELS = ("dram", "l2", "l1")


def open_questions(kernel: KernelProfile) -> frozenset[Question]:
    """Return what the limits of a kernel leave open: its work alone if its arithmetic is near its peak.

    If a memory level is busy, it is open how its bytes are used; if the SM is, which pipe. If nothing is busy, both are
    open. In all three cases it is open where and why warps wait, and the work unless the operator's shapes give it.
    """
    pipes = {pipe.name: pipe.fraction for pipe in kernel.pipes}
    if max((pipes.get(name, 0.0) for name in _ARITHMETIC), default=0.0) >= _NEAR_PEAK:
        questions = set[Question]()
    else:
        questions = {"waits"}
        busy = {unit.unit for unit in kernel.throughput if unit.fraction >= _BUSY}
        if not busy.isdisjoint(_LEVELS) or "sm" not in busy:
            questions.add("memory")
        if "sm" in busy or busy.isdisjoint(_LEVELS):
            questions.add("pipes")
    if kernel.operator_flop is None or not kernel.operator_flop.exact:
        questions |= {"work", "tensor-work"}
    return frozenset(questions)
