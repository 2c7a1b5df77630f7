"""Which step of a program is profiled, by a number that another run of it can count to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from gpuprof.model.groups import by_key
from gpuprof.model.sources import TORCH_TRACE
from gpuprof.timeline.trace import MODULE_CALL, OPTIMIZER_STEP, ProgramStep, Trace


class StepNumber(NamedTuple):
    """A step by what a program does from its start on, so that another run of it can count to the same step.

    By "optimizer" it begins when so many calls of Optimizer.step have ended in the process; by "module" with the call
    of this number, from 1, of the outermost module of the name `module` in the main thread.
    """

    by: Literal["optimizer", "module"]
    number: int
    module: str = ""


def step_number(trace: Trace, step: ProgramStep) -> StepNumber | None:
    """Return the number of one of a trace's steps; None unless gpuprof's own survey by PyTorch's profiler recorded it.

    n calls make n - 1 steps, so the first step by optimizers has number 1. Of several kinds of optimizers one that is
    called only once has no steps, and its call is not counted.
    """
    if not trace.from_start or trace.kind != TORCH_TRACE:
        return None
    if step.name.startswith(OPTIMIZER_STEP):
        return StepNumber("optimizer", sum(end <= step.start_s for end in _calls_ended(trace.steps)))
    # On Linux the main thread has the number of its process.
    process, _, thread = str(step.thread).partition("/")
    if step.name.startswith(MODULE_CALL) and thread == process:
        calls = (other for other in trace.steps if (other.name, other.thread) == (step.name, step.thread))
        number = sum(call.start_s <= step.start_s for call in calls)
        return StepNumber("module", number, step.name.removeprefix(MODULE_CALL))
    return None


def _calls_ended(steps: Iterable[ProgramStep]) -> Iterator[float]:
    """Yield when the calls of optimizers ended: where their steps begin, and where the last step of each kind ends."""
    kinds = by_key(((step.name, step.thread), step) for step in steps if step.name.startswith(OPTIMIZER_STEP))
    for of_kind in kinds.values():
        yield from (step.start_s for step in of_kind)
        yield of_kind[-1].interval[1]
