"""The steps of a PyTorch program, and its calls that multiply matrices."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from itertools import pairwise

from gpuprof.model.groups import by_key
from gpuprof.model.torch_ranges import MODULE, OPTIMIZER_CALL
from gpuprof.read.step_ranges import ProgramRange, is_named_step, split_ranges
from gpuprof.read.timeline_parts import CpuCall
from gpuprof.read.torch_events import Span
from gpuprof.timeline.torch_flop import PRODUCTS
from gpuprof.timeline.trace import MODULE_CALL, OPTIMIZER_STEP, PROFILER_STEP


def steps(
    profiler: Iterable[Span],
    marked: Iterable[Span],
    optimizers: Iterable[Span],
    modules: Iterable[Span],
    launches: Iterable[CpuCall],
) -> list[ProgramRange]:
    """Return the profiler's steps; without them the `marked` ranges whose name says that they are steps.

    Else steps are from one call of an optimizer to the next; marked ranges that come again and again; or from one call
    of an outermost module to the next. The first call only ends what was not recorded from its beginning: n calls make
    n − 1 steps. `launches` are the calls that launched something.
    """
    own = [ProgramRange(call.thread, call.start, call.end, PROFILER_STEP) for call in profiler if call.end > call.start]
    if own:
        return own
    spans = [ProgramRange(call.thread, call.start, call.end, call.name) for call in marked]
    ranges = split_ranges(spans, launches).steps
    named = [step for step in ranges if is_named_step(step.name)]
    return named or _optimizer_steps(optimizers) or ranges or _module_steps(modules)


def _optimizer_steps(optimizers: Iterable[Span]) -> list[ProgramRange]:
    """Return the steps from the end of one call of an optimizer to the end of the next, for each kind of optimizer."""
    calls = outermost(optimizers)
    name = OPTIMIZER_STEP if len({call.name for call in calls}) == 1 else rf"{OPTIMIZER_STEP} (\1)"
    return _between((OPTIMIZER_CALL.sub(name, call.name), call.thread, call.end) for call in calls)


def _module_steps(modules: Iterable[Span]) -> list[ProgramRange]:
    """Return the steps from the beginning of one call of an outermost module to that of the next."""
    return _between(
        (MODULE_CALL + call.name.removeprefix(MODULE), call.thread, call.start) for call in outermost(modules)
    )


def _between(moments: Iterable[tuple[str, Hashable, int]]) -> list[ProgramRange]:
    """Return the steps from each moment to the next with the same name and thread."""
    times_of = by_key(((name, thread), at) for name, thread, at in moments)
    return [
        ProgramRange(thread, start, end, name)
        for (name, thread), times in times_of.items()
        for start, end in pairwise(sorted(times))
        if end > start
    ]


def outermost(calls: Iterable[Span]) -> list[Span]:
    """Return the calls that are in no other one of their thread, in the order of their start.

    Of calls that begin and end together the earlier one is outer. Times are rounded: a call whose middle is in another
    one is in that.
    """
    outer: list[Span] = []
    until: dict[Hashable, int] = {}
    for call in sorted(calls, key=lambda call: (call.start, -call.end)):
        if call.start + call.end > 2 * until.get(call.thread, -1):
            outer.append(call)
            until[call.thread] = call.end
    return outer


def products(operators: Iterable[Span]) -> list[Span]:
    """Return the calls of operators that multiply matrices; if one calls another, the outer one."""
    return outermost(call for call in operators if call.name in PRODUCTS)
