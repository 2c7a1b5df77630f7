"""What is still to be asked of a kernel whose limits are known: which counters would tell why it is not faster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from gpuprof.model.session import KernelProfile

Question = Literal["work", "tensor-work", "memory", "pipes", "waits"]
"""FLOP by opcodes; FLOP of tensor instructions that opcodes do not tell; how memory is used; what executes; why and
where warps wait."""
QUESTIONS: tuple[Question, ...] = ("work", "tensor-work", "memory", "pipes", "waits")
NEAR_PEAK = 0.9
"""A pipe that is so busy leaves less than a tenth to gain, whatever else is counted."""
BUSY = 0.6
"""NVIDIA's speed-of-light rule takes a unit that is less busy than this for no bottleneck."""
_ARITHMETIC = ("tensor", "fma", "fmaheavy", "fp64")
_LEVELS = ("dram", "l2", "l1")


def open_questions(kernel: KernelProfile, *, opcodes_tell_tensor_work: bool) -> frozenset[Question]:
    """Return what the limits of a kernel leave open; nothing for one whose arithmetic is near its peak.

    A busy memory level leaves open how its bytes are used; another busy unit which pipe it is. A kernel in which
    nothing is busy may have any cause. Where and why warps wait is open in all of them. Work is open unless the
    shapes of the operator tell it.
    """
    pipes = {pipe.name: pipe.fraction for pipe in kernel.pipes}
    if max((pipes.get(name, 0.0) for name in _ARITHMETIC), default=0.0) >= NEAR_PEAK:
        return frozenset()
    questions: set[Question] = {"waits"}
    busy = {unit.unit for unit in kernel.throughput if unit.fraction >= BUSY}
    if not busy.isdisjoint(_LEVELS) or "sm" not in busy:
        questions.add("memory")
    if "sm" in busy or busy.isdisjoint(_LEVELS):
        questions.add("pipes")
    if kernel.operator_flop is None or not kernel.operator_flop.exact:
        questions.add("work")
        if runs_on_tensor_cores(kernel) and not opcodes_tell_tensor_work:
            questions.add("tensor-work")
    return frozenset(questions)


def runs_on_tensor_cores(kernel: KernelProfile) -> bool:
    """Tell whether any tensor instruction ran, by what was counted."""
    return any(pipe.name == "tensor" and pipe.fraction > 0 for pipe in kernel.pipes)
