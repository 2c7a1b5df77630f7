"""The steps of a program: how long they take, how many start in a second, and which of them is its loop. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from gpuprof.model.groups import by_key, spread
from gpuprof.model.run_totals import step_s
from gpuprof.model.session import DeviceTimeline, StepTimes
from gpuprof.timeline.intervals import is_within, merged
from gpuprof.timeline.trace import PROFILER_STEP, ProgramStep, Trace


class JudgedLoop(NamedTuple):
    """The steps that the work of a trace is counted by, without those that warm up, and how long one takes on the GPU.

    `source` is the place of the trace, and `devices` are its GPUs. `step_s` is None if none is judged by steps.
    """

    source: int
    trace: Trace
    devices: Sequence[DeviceTimeline]
    steps: Sequence[ProgramStep]
    step_s: float | None


def judged_loop(source: int, trace: Trace, devices: Iterable[DeviceTimeline]) -> JudgedLoop:
    """Return the loop of a trace; `devices` are those of all traces."""
    own = [device for device in devices if device.source == source]
    warm_up = max((device.warm_up.steps for device in own if device.warm_up is not None), default=0)
    return JudgedLoop(source, trace, own, loop_of(trace)[warm_up:], step_s(own))


def step_times(judged: JudgedLoop) -> Iterator[StepTimes]:
    """Yield the times of each kind of step of a trace, without those of its loop that warm up."""
    loop = loop_of(judged.trace)
    for name, steps in by_key((step.name, step) for step in judged.trace.steps).items():
        counted = judged.steps if steps == loop else steps
        times = spread([step.duration_s for step in counted])
        if times is not None:
            yield StepTimes(
                source=judged.source,
                name=name,
                count=len(counted),
                threads=threads_of(counted),
                duration_percentiles_s=times,
                per_s=_rate(counted, judged),
                loop=steps == loop,
            )


def loop_of(trace: Trace) -> Sequence[ProgramStep]:
    """Return the steps of the loop that work is counted by, in order; none if the trace has no steps.

    They are the profiler's own, else those with the longest time in all.
    """
    named = by_key((step.name, step) for step in trace.steps)
    if PROFILER_STEP in named:
        return named[PROFILER_STEP]
    return max(named.values(), key=lambda steps: sum(step.duration_s for step in steps), default=[])


def _rate(steps: Sequence[ProgramStep], loop: JudgedLoop) -> float | None:
    """Return how many steps a thread makes in a second.

    In a loop that is judged: how many start in a step of the loop ÷ how long that takes on the GPU. Launching can run
    ahead of the GPU. Else (n − 1) ÷ the time from its first start to its last.
    """
    within = merged(step.interval for step in loop.steps)
    inside = [step for step in steps if is_within(step.start_s, within)]
    if loop.step_s and len(inside) > threads_of(inside):
        return len(inside) / threads_of(inside) / len(loop.steps) * threads_of(loop.steps) / loop.step_s
    starts = by_key((step.thread, step.start_s) for step in steps)
    rates = [(len(at) - 1) / (max(at) - min(at)) for at in starts.values() if max(at) > min(at)]
    return sum(rates) / len(rates) if rates else None


def threads_of(steps: Iterable[ProgramStep]) -> int:
    """Return how many threads ran steps."""
    return len({step.thread for step in steps})
