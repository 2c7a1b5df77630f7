"""Which kernels of a comparison need a row of their own, and which of them share one."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from msgspec.structs import replace

from gpuprof.comparison.contract import ChangeCause, KernelChange, MatchKind
from gpuprof.comparison.values import Values, all_known
from gpuprof.model.kernel_key import kernel_key
from gpuprof.words.comparison import by_function
from gpuprof.words.comparison_causes import cause_text
from gpuprof.words.comparison_verdicts import launch_count, moving

_FOLDED: tuple[MatchKind, ...] = ("exact", "reconfigured", "renamed", "new", "gone", "unrecorded")


def changed_rows(kernels: Sequence[KernelChange]) -> list[KernelChange]:
    """Return the kernels that changed, are on one side only or may move the time of the run, in their order.

    If nothing is known to have changed, they are those whose time is not the same.
    """
    quiet = {kernel.id for kernel in quiet_rows(kernels)}
    changed = [kernel for kernel in kernels if kernel.id not in quiet]
    return changed or [kernel for kernel in kernels if kernel.time.verdict != "same"]


def quiet_rows(kernels: Sequence[KernelChange]) -> list[KernelChange]:
    """Return the kernels that are not known to have changed, nor move the time of the run.

    Their work is the same, their time the same or unclear. Neither one alone nor all of its function move the run.
    """
    moved = {kernel.id for function in by_function(kernels) for kernel in moving(function)}
    quiet = []
    for kernel in kernels:
        is_paired = kernel.match in ("exact", "unrecorded")
        is_same_work = kernel.work.verdict in ("same", "unknown", "unclear")
        if is_paired and is_same_work and kernel.id not in moved and not moving([kernel]):
            quiet.append(kernel)
    return quiet


def folded(kernels: Sequence[KernelChange]) -> list[KernelChange]:
    """Return kernels without counters with one for all ranges that launch a function in one configuration.

    These have one verdict; its time is the mean over the launches, its effect the sum.
    """
    rows: dict[Hashable, list[KernelChange]] = {}
    for kernel in kernels:
        rows.setdefault(_kind(kernel), []).append(kernel)
    return [_together(members) for members in rows.values()]


def _kind(kernel: KernelChange) -> Hashable:
    if kernel.work.verdict != "unknown" or kernel.match not in _FOLDED:
        return kernel.id
    base, new = (
        tuple((kernel_key(one.demangled), one.grid, one.block) for one in side) for side in (kernel.base, kernel.new)
    )
    return (base, new, kernel.match, kernel.time.verdict)


def _together(kernels: Sequence[KernelChange]) -> KernelChange:
    first = kernels[0]
    if len(kernels) == 1:
        return first
    base = tuple(one for kernel in kernels for one in kernel.base)
    new = tuple(one for kernel in kernels for one in kernel.new)
    base_s = _mean([(kernel.time.base_s, launch_count(kernel.base)) for kernel in kernels])
    new_s = _mean([(kernel.time.new_s, launch_count(kernel.new)) for kernel in kernels])
    ratio = new_s / base_s if base_s and new_s is not None else None
    needed = max(kernel.time.runs_needed or 0 for kernel in kernels) or None
    effects = all_known(kernel.effect for kernel in kernels)
    shared = [cause for cause in first.causes if all(cause in kernel.causes for kernel in kernels)]
    whole = replace(
        first,
        label=(*new, *base)[0].function or first.label,
        base=base,
        new=new,
        time=replace(first.time, base_s=base_s, new_s=new_s, ratio=ratio, interval=None, runs_needed=needed),
        effect=sum(effects) if effects is not None else None,
    )
    return replace(whole, causes=tuple(_of_all(cause, whole) for cause in shared))


def _of_all(cause: ChangeCause, whole: KernelChange) -> ChangeCause:
    """Return a cause; one that is about the number of launches has that of all ranges."""
    if cause.mechanism != "launches":
        return cause
    launches = Values(launch_count(whole.base), launch_count(whole.new))
    counted = replace(cause, values=(launches.named(cause.values[0].name),))
    return replace(counted, sentence=cause_text(counted, whole))


def _mean(times: Sequence[tuple[float | None, float]]) -> float | None:
    """Return the mean of times, each of so many launches; None if one is not known."""
    launches = sum(count for _, count in times)
    totals = all_known(time_s * count if time_s is not None else None for time_s, count in times)
    return sum(totals) / launches if totals is not None and launches else None
