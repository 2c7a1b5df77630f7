"""What a PyTorch program says of its own work: where its steps end, and which calls multiply matrices."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Protocol, TypeVar

from gpuprof.model.torch_flop import PRODUCTS
from gpuprof.model.trace import OPTIMIZER_STEP, PROFILER_STEP, ProgramStep
from gpuprof.read.timeline_parts import ThreadSpan

MODULE = "nn.Module: "
"""How the name of a module's call begins, in traces with stacks."""
_OPTIMIZER = re.compile(r"Optimizer\.step#(\w+)\.step")


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
    profiler: Iterable[Call], annotations: Iterable[Call], modules: Iterable[Call], origin: int
) -> list[ProgramStep]:
    """Return the profiler's steps; without them those between calls of an optimizer, else of the outermost modules.

    The first call only ends what was not recorded from its beginning: n calls make n − 1 steps.
    """
    own = [
        ProgramStep(PROFILER_STEP, (one.start - origin) / 1e9, one.duration / 1e9, one.thread)
        for one in profiler
        if one.duration is not None
    ]
    found = own or _optimizer_steps(annotations, origin) or _module_steps(modules, origin)
    return sorted(found, key=lambda step: step.start_s)


def _optimizer_steps(annotations: Iterable[Call], origin: int) -> list[ProgramStep]:
    """Return the steps from the end of one call of an optimizer to the end of the next, for each kind of optimizer."""
    calls = outermost(one for one in annotations if _OPTIMIZER.fullmatch(one.name))
    kinds = {one.name for one in calls}
    ends: defaultdict[tuple[str, Hashable], list[int]] = defaultdict(list)
    for one in calls:
        kind = _OPTIMIZER.sub(r"\1", one.name)
        ends[OPTIMIZER_STEP if len(kinds) == 1 else f"{OPTIMIZER_STEP} ({kind})", one.thread].append(one.end)
    return list(_between(ends, origin))


def _module_steps(modules: Iterable[Call], origin: int) -> list[ProgramStep]:
    """Return the steps from the beginning of one call of an outermost module to that of the next."""
    starts: defaultdict[tuple[str, Hashable], list[int]] = defaultdict(list)
    for one in outermost(modules):
        starts[f"call of {one.name.removeprefix(MODULE)}", one.thread].append(one.start)
    return list(_between(starts, origin))


def _between(moments: Mapping[tuple[str, Hashable], list[int]], origin: int) -> Iterator[ProgramStep]:
    for (name, thread), ones in moments.items():
        for start, end in pairwise(sorted(ones)):
            if end > start:
                yield ProgramStep(name, (start - origin) / 1e9, (end - start) / 1e9, thread)


def outermost(calls: Iterable[AnyCall]) -> list[AnyCall]:
    """Return the calls that are in no other one of their thread, in the order of their start.

    Of calls that begin and end together the earlier one is outer.
    """
    found: list[AnyCall] = []
    until: dict[Hashable, int] = {}
    for one in sorted(calls, key=lambda call: (call.start, -call.end)):
        if one.thread not in until or one.start >= until[one.thread]:
            found.append(one)
            until[one.thread] = one.end
    return found


def products(operators: Iterable[AnyCall]) -> list[AnyCall]:
    """Return the calls of operators that multiply matrices; where one calls another, the outer one."""
    return outermost(one for one in operators if one.name in PRODUCTS)


def that_launched(calls: Iterable[AnyCall], launchers: Iterable[Sequence[AnyCall]]) -> list[AnyCall]:
    """Return those of the calls that are among the launchers of something: others ran on the CPU, or only recorded a
    graph."""
    used = {id(one) for ones in launchers for one in ones}
    return [one for one in calls if id(one) in used]
