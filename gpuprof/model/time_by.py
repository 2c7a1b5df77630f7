"""Time by operator, module, range or kernel: which kernels belong together, and what each group takes of the run."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from msgspec import Struct

from gpuprof.errors import UsageError
from gpuprof.model.field_types import Bound
from gpuprof.model.group_work import OfPeak, flop_of, of_peak
from gpuprof.model.groupings import GROUPINGS, By
from gpuprof.model.groups import collected
from gpuprof.model.headline import by_time, main_point
from gpuprof.model.kernel_names import unnumbered
from gpuprof.model.labels import short_name
from gpuprof.model.run_totals import run_of, running_s, timed_launches
from gpuprof.model.session import KernelProfile, Session
from gpuprof.model.sources import TORCH_TRACE
from gpuprof.model.timed import GRAPH_REPLAY
from gpuprof.model.torch_ranges import innermost_module, operator_name, own_ranges

_OF_TORCH = "aten::"
"""How the names of torch's own operators begin."""
_COLLECTIVE = "record_param_comms"
"""What PyTorch's profiler calls every collective operation: the kernel's name says which it is."""
_IDENTIFIER = re.compile(r"[^\W\d]\w*")


class GroupedKernel(Struct, frozen=True):
    """All launches of a kernel within a group, whatever their launch configuration; `id` is that of the longest."""

    id: int
    label: str
    demangled: str
    launches: int
    time_s: float


class Steps(Struct, frozen=True):
    """The steps of a program, counted on each GPU, and the time of the GPUs for them.

    `gpus` is how many GPUs have as many of them each; None if not all have.
    """

    count: int
    time_s: float
    gpus: int | None = None


class TimeGroup(Struct, frozen=True):
    """All launches of one operator, module, range or kernel; `kind` says which, "kernel" if no operator launched it.

    `kernels` counts different kernels. The time is that of the launches with a duration, None if none has one.
    `time_share` is of the time of all kernels of the run, `share_of_step` of the steps' time on the GPUs.
    `fraction_of_roof` is of the DRAM roofline at the kernels' clocks, weighted by time; None unless it is known of all
    that time. `flop` and `of_peak` are by the shapes of an operator's inputs; `flop_bound` says that some are missing.
    """

    name: str
    kind: By
    kernels: int
    launches: int
    untimed_launches: int
    time_s: float | None
    time_share: float | None
    share_of_step: float | None
    flop: float | None
    flop_bound: Bound | None
    of_peak: OfPeak | None
    fraction_of_roof: float | None
    longest: GroupedKernel | None


class TimeBy(Struct, frozen=True):
    """The groups, the longest first, those without a time last.

    The time is that of the launches with a duration, `run_time_s` that of all kernels of the run; None where none is
    known. `steps` are those that the kernels of operators were launched in, None if others were launched, too.
    `replays` are the launches of whole CUDA graphs, which have a time only if no kernel has one.
    """

    by: By
    time_s: float | None
    run_time_s: float | None
    launches: int
    untimed_launches: int
    steps: Steps | None
    replays: int
    groups: tuple[TimeGroup, ...]


def nameless(by: By) -> str:
    """Return the name of the group of the kernels that have no operator, module or range."""
    return f"(no {by})"


def time_by(session: Session, kernels: Sequence[KernelProfile], by: str) -> TimeBy:
    """Return the time of these kernels of a session by what launched them, or by their names.

    Those without a module or range are a group, too; those without an operator are a group for each kernel. Raises
    UsageError if no kernel has one.
    """
    grouping = next((name for name in GROUPINGS if name == by), None)
    if grouping is None:
        raise UsageError(f"there is no time by {by!r:.80}", f"there is time by {', '.join(GROUPINGS)}")
    times = _times(session, kernels, grouping)
    if times is None:
        raise UsageError(*_nothing(session, kernels, grouping))
    return times


def first_times(session: Session, kernels: Sequence[KernelProfile]) -> TimeBy | None:
    """Return the time by operators, else by functions: the first thing to look at without counters.

    None if there are counters, and if each function is one kernel or differs in its launches alone, not in ranges.
    """
    if not session.only_times:
        return None
    places: dict[str, set[tuple[str, tuple[str, ...]]]] = {}
    for kernel in kernels:
        places.setdefault(kernel.function_name, set()).add((kernel.demangled, kernel.ranges))
    is_split = any(len(own) > 1 for own in places.values())
    return _times(session, kernels, "operator") or (_times(session, kernels, "kernel") if is_split else None)


def _times(session: Session, kernels: Sequence[KernelProfile], by: By) -> TimeBy | None:
    labels, run_time_s = own_labels(session.kernels), run_of(session).time_s
    names = _names(session, kernels, by)
    if not any(names):
        return None
    steps = _steps_of(session) if by == "operator" else None
    members: dict[tuple[By, str], list[KernelProfile]] = {}
    for name, kernel in zip(names, kernels, strict=True):
        kind: By = "kernel" if by == "operator" and not name else by
        own_name = kernel.function_name if kind == "kernel" else name or nameless(by)
        members.setdefault((kind, own_name), []).append(kernel)
    run = _Run(labels, run_time_s, steps)
    groups = [_group(kind, name, own, run) for (kind, name), own in members.items()]
    times = [group.time_s for group in groups if group.time_s is not None]
    return TimeBy(
        by=by,
        time_s=sum(times) if times else None,
        run_time_s=run_time_s if run_time_s > 0 else None,
        launches=sum(group.launches for group in groups),
        untimed_launches=sum(group.untimed_launches for group in groups),
        steps=steps,
        replays=sum(kernel.launches for kernel in kernels if kernel.duration_source == GRAPH_REPLAY),
        groups=tuple(sorted(groups, key=lambda group: (group.time_s is None, -(group.time_s or 0.0), group.name))),
    )


class _Run(NamedTuple):
    """What the groups of a run are named and measured by."""

    labels: Mapping[str, str]
    time_s: float
    steps: Steps | None


def _steps_of(session: Session) -> Steps | None:
    """Return the steps that are judged; None without any, and of a survey, whose kernels are those of the whole run."""
    devices = session.timeline.devices if session.timeline is not None else ()
    time_s = sum(map(running_s, devices))
    if time_s <= 0 or any(source.is_survey for source in session.sources) or not all(own.steps for own in devices):
        return None
    are_alike = len({device.steps for device in devices}) == 1
    return Steps(sum(device.steps for device in devices), time_s, len(devices) if are_alike else None)


def _names(session: Session, kernels: Sequence[KernelProfile], by: By) -> list[str]:
    """Return for each kernel the group that it belongs to; empty if it is not known."""
    if by == "kernel":
        return [kernel.function_name for kernel in kernels]
    of_torch = is_of_torch(session)
    if by == "range":
        return [_range_of(session, kernel, of_torch=of_torch) for kernel in kernels]
    if not of_torch:
        return [""] * len(kernels)
    if by == "operator":
        names = (operator_name(kernel.ranges) or _last_operator(session, kernel) for kernel in kernels)
        return [name if name != _COLLECTIVE else "" for name in names]
    return [innermost_module(_without_last(session, kernel)) for kernel in kernels]


def is_of_torch(session: Session) -> bool:
    """Return whether a program of PyTorch ran: elsewhere `Solver::step` is a range of the program's own."""
    is_trace = any(source.kind.startswith(TORCH_TRACE) for source in session.sources)
    return is_trace or any(text.startswith(_OF_TORCH) for kernel in session.kernels for text in kernel.ranges)


def _range_of(session: Session, kernel: KernelProfile, *, of_torch: bool) -> str:
    """Return the path of the ranges around a kernel, without PyTorch's own ones; the same twice in a row is one."""
    ranges = own_ranges(_without_last(session, kernel)) if of_torch else kernel.ranges
    return " / ".join(name for name, _ in groupby(ranges))


def _without_last(session: Session, kernel: KernelProfile) -> tuple[str, ...]:
    """Return the ranges around a kernel without an operator that has the name of none."""
    return kernel.ranges[:-1] if _last_operator(session, kernel) else kernel.ranges


def _last_operator(session: Session, kernel: KernelProfile) -> str:
    """Return the last range if that is an operator with the name of none: `FlashAttnFunc [2, 8]`.

    So are called functions of a program's own autograd, and by torch.compile what launches one kernel. Without shapes
    they differ from modules only in a trace, in which operators come last.
    """
    name, shapes, _ = (kernel.ranges[-1] if kernel.ranges else "").partition(" [")
    is_trace = session.sources[kernel.source].kind == TORCH_TRACE
    is_operator = is_trace or shapes or name == short_name(kernel.demangled)
    if not is_operator or not _IDENTIFIER.fullmatch(name):
        return ""
    return kernel.function_name if unnumbered(name) == unnumbered(kernel.demangled) else name


def own_labels(kernels: Sequence[KernelProfile]) -> dict[str, str]:
    """Return the kernels' labels by their names, without the operator or the module that launched them."""
    return {kernel.demangled: kernel.numbered_name for kernel in kernels}


def _group(kind: By, name: str, members: Sequence[KernelProfile], run: _Run) -> TimeGroup:
    times = [kernel.time_total_s for kernel in members if kernel.time_total_s is not None]
    time_s = sum(times) if times else None
    launches = sum(kernel.launches for kernel in members)
    timed = sum(timed_launches(kernel) for kernel in members if kernel.time_total_s is not None)
    flop, flop_bound = flop_of(members) if kind == "operator" else (None, None)
    return TimeGroup(
        name=name,
        kind=kind,
        kernels=len({kernel.demangled for kernel in members}),
        launches=launches,
        untimed_launches=launches - timed,
        time_s=time_s,
        time_share=min(1.0, time_s / run.time_s) if time_s is not None and run.time_s > 0 else None,
        share_of_step=time_s / run.steps.time_s if time_s is not None and run.steps is not None else None,
        flop=flop,
        flop_bound=flop_bound,
        of_peak=of_peak(members) if kind == "operator" else None,
        fraction_of_roof=_fraction_of_roof(members),
        longest=_longest(members, run.labels),
    )


def _fraction_of_roof(members: Sequence[KernelProfile]) -> float | None:
    """Return the mean over the time of the members: what they would take at their rooflines, over what they take."""
    time_s = at_roof_s = 0.0
    for kernel in members:
        if kernel.time_total_s is None:
            continue
        point = main_point(kernel)
        if point is None or any("work.tensor" in gap.what for gap in kernel.missing):
            return None
        time_s += kernel.time_total_s
        at_roof_s += kernel.time_total_s * point.fraction_of_roof
    return at_roof_s / time_s if time_s > 0 else None


def _longest(members: Sequence[KernelProfile], labels: Mapping[str, str]) -> GroupedKernel | None:
    """Return the kernel that takes most of the members' time; None if none has a time."""
    timed = by_time(kernel for kernel in members if kernel.time_total_s is not None)
    together = collected((kernel.demangled, kernel) for kernel in timed)
    if not together:
        return None
    own = max(together, key=lambda launches: sum(kernel.time_total_s or 0.0 for kernel in launches))
    return GroupedKernel(
        id=own[0].id,
        label=labels[own[0].demangled],
        demangled=own[0].demangled,
        launches=sum(kernel.launches for kernel in own),
        time_s=sum(kernel.time_total_s or 0.0 for kernel in own),
    )


def _nothing(session: Session, kernels: Sequence[KernelProfile], by: By) -> tuple[str, str]:
    """Say that nothing has an operator, module or range, what would record it, and what there is instead."""
    if not kernels:
        return "no kernel was profiled", "profile a program that runs kernels: gpuprof run -- PROGRAM"
    where = _WHERE[by]
    if by == "range" and session.timeline is not None and session.timeline.steps:
        where += " other than its steps"
    is_trace = any(source.kind.startswith(TORCH_TRACE) for source in session.sources)
    record = _RECORD_IN_TRACE.get(by) if is_trace else None
    others = [other for other in GROUPINGS if any(_names(session, kernels, other))]
    there = " or ".join(f"--by {other}" for other in others)
    return f"no kernel was launched {where}", f"{record or _RECORD[by]}; this run can be shown {there}"


_WHERE = {"operator": "by a PyTorch operator", "module": "in a PyTorch module", "range": "in a range"}
_RECORD = {
    "operator": "gpuprof run -- python SCRIPT records the operators of a PyTorch program",
    "module": "gpuprof run -- python SCRIPT records the modules of a PyTorch program",
    "range": "mark parts of the program with NVTX ranges, in Python with gpuprof.annotate(NAME)",
}
_RECORD_IN_TRACE = {
    "operator": "profile with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]",
    "module": "profile with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA] and with_stack=True",
    "range": "mark parts of the program with torch.profiler.record_function(NAME)",
}
"""What a trace of PyTorch's profiler is asked for instead."""
