"""What a PyTorch program says of its own work: where its steps end, and which calls multiply matrices."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from itertools import pairwise

from msgspec.structs import replace

from gpuprof.model.torch_ranges import MODULE, OPTIMIZER_CALL
from gpuprof.read.timeline_parts import program_step
from gpuprof.read.torch_events import Span
from gpuprof.timeline.torch_flop import PRODUCTS
from gpuprof.timeline.trace import MODULE_CALL, OPTIMIZER_STEP, PROFILER_STEP, ProgramStep


def steps(
    profiler: Iterable[Span], optimizers: Iterable[Span], modules: Iterable[Span], origin: int
) -> list[ProgramStep]:
    """Return the profiler's steps; without them those between calls of an optimizer, else of the outermost modules.

    The first call only ends what was not recorded from its beginning: n calls make n − 1 steps.
    """
    own = [
        program_step(PROFILER_STEP, call.thread, call.start - origin, call.end - origin)
        for call in profiler
        if call.end > call.start
    ]
    program_steps = own or _optimizer_steps(optimizers, origin) or _module_steps(modules, origin)
    return sorted(program_steps, key=lambda step: step.start_s)


def _optimizer_steps(optimizers: Iterable[Span], origin: int) -> list[ProgramStep]:
    """Return the steps from the end of one call of an optimizer to the end of the next, for each kind of optimizer."""
    ends: defaultdict[tuple[str, Hashable], list[int]] = defaultdict(list)
    for call in outermost(optimizers):
        ends[OPTIMIZER_CALL.sub(rf"{OPTIMIZER_STEP} (\1)", call.name), call.thread].append(call.end)
    steps = _between(ends, origin)
    if len({name for name, _ in ends}) == 1:
        return [replace(step, name=OPTIMIZER_STEP) for step in steps]
    return steps


def _module_steps(modules: Iterable[Span], origin: int) -> list[ProgramStep]:
    """Return the steps from the beginning of one call of an outermost module to that of the next."""
    starts: defaultdict[tuple[str, Hashable], list[int]] = defaultdict(list)
    for call in outermost(modules):
        starts[f"{MODULE_CALL}{call.name.removeprefix(MODULE)}", call.thread].append(call.start)
    return _between(starts, origin)


def _between(moments: Mapping[tuple[str, Hashable], list[int]], origin: int) -> list[ProgramStep]:
    return [
        program_step(name, thread, start - origin, end - origin)
        for (name, thread), times in moments.items()
        for start, end in pairwise(sorted(times))
        if end > start
    ]


def outermost(calls: Iterable[Span]) -> list[Span]:
    """Return the calls that are in no other one of their thread, in the order of their start.

    Of calls that begin and end together the earlier one is outer.
    """
    outer: list[Span] = []
    until: dict[Hashable, int] = {}
    for call in sorted(calls, key=lambda call: (call.start, -call.end)):
        if call.thread not in until or call.start >= until[call.thread]:
            outer.append(call)
            until[call.thread] = call.end
    return outer


def products(operators: Iterable[Span]) -> list[Span]:
    """Return the calls of operators that multiply matrices; where one calls another, the outer one."""
    return outermost(call for call in operators if call.name in PRODUCTS)
