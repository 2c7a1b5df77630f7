"""The steps of a program: how long they take, how many start in a second, and which of them is its loop. Pure."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from gpuprof.model.groups import by_key, spread
from gpuprof.model.session import StepTimes
from gpuprof.model.sources import TORCH_TRACE
from gpuprof.timeline.trace import MODULE_CALL, OPTIMIZER_STEP, PROFILER_STEP, ProgramStep, Trace


class StepNumber(NamedTuple):
    """A step by what a program does from its start on, so that another run of it can count to the same step.

    By "optimizer" it begins where so many calls of Optimizer.step have ended in the process; by "module" with the call
    of this number, from 1, of the outermost module of the name `module` in the main thread.
    """

    by: Literal["optimizer", "module"]
    number: int
    module: str = ""


def step_times(traces: Sequence[Trace], warm_up: Mapping[int, int]) -> Iterator[StepTimes]:
    """Yield the times of each kind of step of each trace, without so many first ones of its loop, by trace."""
    for source, trace in enumerate(traces):
        named = _named(trace.steps)
        loop = _loop(named)
        if loop is not None:
            named[loop] = named[loop][warm_up.get(source, 0) :]
        for name, steps in named.items():
            times = spread([step.duration_s for step in steps])
            if times is not None:
                yield StepTimes(
                    source=source,
                    name=name,
                    count=len(steps),
                    threads=len({step.thread for step in steps}),
                    duration_percentiles_s=times,
                    per_s=_rate(steps),
                    loop=name == loop,
                )


def loop_of(trace: Trace) -> Sequence[ProgramStep]:
    """Return the steps that the work of a trace is counted by, by their start; none where it has no steps."""
    named = _named(trace.steps)
    loop = _loop(named)
    return named[loop] if loop is not None else ()


def step_number(trace: Trace, step: ProgramStep) -> StepNumber | None:
    """Return the number of one of a trace's steps; None unless gpuprof's own survey by PyTorch's profiler recorded it.

    n calls make n - 1 steps, so the first step by optimizers has number 1. Of several kinds of optimizers one that is
    called only once has no steps, and its call is not counted.
    """
    if not trace.from_start or trace.kind != TORCH_TRACE:
        return None
    if step.name.startswith(OPTIMIZER_STEP):
        return StepNumber("optimizer", sum(end <= step.start_s for end in _calls_ended(trace.steps)))
    if step.name.startswith(MODULE_CALL) and _is_main(step.thread):
        calls = (other for other in trace.steps if (other.name, other.thread) == (step.name, step.thread))
        number = sum(call.start_s <= step.start_s for call in calls)
        return StepNumber("module", number, step.name.removeprefix(MODULE_CALL))
    return None


def _calls_ended(steps: Iterable[ProgramStep]) -> Iterator[float]:
    """Yield when the calls of optimizers ended: where their steps begin, and where the last step of each kind ends."""
    last: dict[Hashable, ProgramStep] = {}
    for step in steps:
        if step.name.startswith(OPTIMIZER_STEP):
            yield step.start_s
            last[step.name, step.thread] = step
    yield from (step.interval[1] for step in last.values())


def _is_main(thread: Hashable) -> bool:
    """Return whether a thread, as `process/thread`, is the one that its process began with: on Linux they are equal."""
    process, _, own = str(thread).partition("/")
    return process == own


def _named(steps: Iterable[ProgramStep]) -> dict[str, list[ProgramStep]]:
    return by_key((step.name, step) for step in steps)


def _loop(named: Mapping[str, Sequence[ProgramStep]]) -> str | None:
    """Return the step that work is counted by: the profiler's own, else the one with the longest time in all."""
    if PROFILER_STEP in named:
        return PROFILER_STEP
    return max(named, key=lambda name: sum(step.duration_s for step in named[name]), default=None)


def _rate(steps: Iterable[ProgramStep]) -> float | None:
    """Return the steps that a thread starts in a second: (n − 1) ÷ from its first start to its last, over threads."""
    starts = by_key((step.thread, step.start_s) for step in steps)
    rates = [(len(at) - 1) / (max(at) - min(at)) for at in starts.values() if max(at) > min(at)]
    return sum(rates) / len(rates) if rates else None
