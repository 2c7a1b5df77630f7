"""The steps of a program: how long they take, how many start in a second, and which of them is its loop. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from gpuprof.model.groups import spread
from gpuprof.model.session import StepTimes
from gpuprof.model.trace import PROFILER_STEP, ProgramStep, Trace


def step_times(traces: Sequence[Trace]) -> Iterator[StepTimes]:
    """Yield the times of each kind of step of each trace."""
    for source, trace in enumerate(traces):
        named = _named(trace.steps)
        loop = _loop(named)
        for name, steps in named.items():
            times = spread([step.duration_s for step in steps])
            if times is not None:
                threads = len({step.thread for step in steps})
                yield StepTimes(
                    source=source,
                    name=name,
                    count=len(steps),
                    threads=threads,
                    duration_percentiles_s=times,
                    per_s=_rate(steps),
                    loop=name == loop,
                )


def loop_of(trace: Trace) -> Sequence[ProgramStep]:
    """Return the steps that the work of a trace is counted by; none where it has no steps."""
    named = _named(trace.steps)
    loop = _loop(named)
    return named[loop] if loop is not None else ()


def _named(steps: Iterable[ProgramStep]) -> dict[str, list[ProgramStep]]:
    named: dict[str, list[ProgramStep]] = {}
    for step in steps:
        named.setdefault(step.name, []).append(step)
    return named


def _loop(named: Mapping[str, Sequence[ProgramStep]]) -> str | None:
    """Return the step that work is counted by: the profiler's own, else the one with the longest time in all."""
    if PROFILER_STEP in named:
        return PROFILER_STEP
    return max(named, key=lambda name: sum(step.duration_s for step in named[name]), default=None)


def _rate(steps: Iterable[ProgramStep]) -> float | None:
    """Return the steps that a thread starts in a second: (n − 1) ÷ from its first start to its last, over threads."""
    starts: dict[object, list[float]] = {}
    for step in steps:
        starts.setdefault(step.thread, []).append(step.start_s)
    rates = [(len(at) - 1) / (max(at) - min(at)) for at in starts.values() if max(at) > min(at)]
    return sum(rates) / len(rates) if rates else None
