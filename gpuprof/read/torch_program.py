"""What a PyTorch program says of its own work: where its steps end, and which calls multiply matrices."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Protocol, TypeVar

from gpuprof.model.torch_ranges import MODULE, OPTIMIZER_CALL
from gpuprof.read.step_ranges import ProgramRange, is_named_step, split_ranges, step_name
from gpuprof.read.timeline_parts import ThreadSpan, program_step
from gpuprof.timeline.torch_flop import PRODUCTS
from gpuprof.timeline.trace import MODULE_CALL, OPTIMIZER_STEP, PROFILER_STEP, ProgramStep


class Call(ThreadSpan, Protocol):
    """A span of a trace that has a name and arguments; `duration` in nanoseconds, None where it was not recorded."""

    @property
    def name(self) -> str:
        """What was called."""
        ...

    @property
    def duration(self) -> int | None:
        """How long it took."""
        ...

    @property
    def args(self) -> Mapping[str, Any]:
        """What the trace says of it."""
        ...


AnyCall = TypeVar("AnyCall", bound=Call)


def steps(
    profiler: Iterable[Call],
    marked: Iterable[Call],
    annotations: Iterable[Call],
    modules: Iterable[Call],
    origin: int,
) -> list[ProgramStep]:
    """Return the profiler's steps; without them the `marked` ranges whose name says that they are steps.

    Else steps are from one call of an optimizer to the next; marked ranges that come again and again; or from one call
    of an outermost module to the next. The first call only ends what was not recorded from its beginning: n calls make
    n − 1 steps.
    """
    own = [
        program_step(PROFILER_STEP, call.thread, call.start - origin, call.start + call.duration - origin)
        for call in profiler
        if call.duration is not None
    ]
    ranges = [] if own else _marked_steps(marked, origin)
    named = [step for step in ranges if is_named_step(step.name)]
    program_steps = own or named or _optimizer_steps(annotations, origin) or ranges or _module_steps(modules, origin)
    return sorted(program_steps, key=lambda step: step.start_s)


def _marked_steps(marked: Iterable[Call], origin: int) -> list[ProgramStep]:
    """Return the ranges that are steps of a program by the rules for all of its ranges."""
    ranges = (ProgramRange(call.name, call.thread, call.start, call.end, nested=True) for call in marked)
    return [
        program_step(step_name(step.name), step.thread, step.start - origin, step.end - origin)
        for step in split_ranges(ranges).steps
    ]


def _optimizer_steps(annotations: Iterable[Call], origin: int) -> list[ProgramStep]:
    """Return the steps from the end of one call of an optimizer to the end of the next, for each kind of optimizer."""
    calls = outermost(call for call in annotations if OPTIMIZER_CALL.fullmatch(call.name))
    kinds = {call.name for call in calls}
    ends: defaultdict[tuple[str, Hashable], list[int]] = defaultdict(list)
    for call in calls:
        kind = OPTIMIZER_CALL.sub(r"\1", call.name)
        ends[OPTIMIZER_STEP if len(kinds) == 1 else f"{OPTIMIZER_STEP} ({kind})", call.thread].append(call.end)
    return list(_between(ends, origin))


def _module_steps(modules: Iterable[Call], origin: int) -> list[ProgramStep]:
    """Return the steps from the beginning of one call of an outermost module to that of the next."""
    starts: defaultdict[tuple[str, Hashable], list[int]] = defaultdict(list)
    for call in outermost(modules):
        starts[f"{MODULE_CALL}{call.name.removeprefix(MODULE)}", call.thread].append(call.start)
    return list(_between(starts, origin))


def _between(moments: Mapping[tuple[str, Hashable], list[int]], origin: int) -> Iterator[ProgramStep]:
    for (name, thread), times in moments.items():
        for start, end in pairwise(sorted(times)):
            if end > start:
                yield program_step(name, thread, start - origin, end - origin)


def outermost(calls: Iterable[AnyCall]) -> list[AnyCall]:
    """Return the calls that are in no other one of their thread, in the order of their start.

    Of calls that begin and end together the earlier one is outer.
    """
    outer: list[AnyCall] = []
    until: dict[Hashable, int] = {}
    for call in sorted(calls, key=lambda call: (call.start, -call.end)):
        if call.thread not in until or call.start >= until[call.thread]:
            outer.append(call)
            until[call.thread] = call.end
    return outer


def products(operators: Iterable[AnyCall]) -> list[AnyCall]:
    """Return the calls of operators that multiply matrices; where one calls another, the outer one."""
    return outermost(call for call in operators if call.name in PRODUCTS)


def that_launched(calls: Iterable[AnyCall], launchers: Iterable[Sequence[AnyCall]]) -> list[AnyCall]:
    """Return those of the calls that are among the launchers of something: others ran on the CPU, or only recorded a
    graph."""
    used = {id(call) for stack in launchers for call in stack}
    return [call for call in calls if id(call) in used]
