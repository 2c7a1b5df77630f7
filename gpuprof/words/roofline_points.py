"""What is said below a roofline: clocks, counters, and why kernels have no point."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from gpuprof.hardware.specs import LEVELS, PATHS
from gpuprof.model.headline import listed
from gpuprof.model.path_names import path_name
from gpuprof.model.recorded import Missing
from gpuprof.model.session import Ceiling, KernelProfile, Session, Work
from gpuprof.text import cut_middle
from gpuprof.units import format_si
from gpuprof.words.profile_values import (
    LEVEL_NAMES,
    above_ceiling,
    count_text,
    missing_work,
    paths_text,
    remedy_for,
    row_noun,
)

if TYPE_CHECKING:
    from gpuprof.comparison.compare import Compared

# Kernels whose clock differs more than this from that of the drawn ceilings are mentioned.
_CLOCK_TOLERANCE = 0.05
_NAME = 80
_CEILING_FROM = {
    "at-clock": "give a GPU spec with --spec NAME|FILE",
    "rated": "give a GPU spec with --spec NAME|FILE",
    "measured": "gpuprof characterize measures them on that GPU",
}


def lacks_float_work(kernel: KernelProfile) -> bool:
    """Return whether all paths of a kernel were counted and none has floating-point work."""
    unknown = [path for path in missing_work(kernel) if path != "int32"]
    return bool(kernel.work) and not unknown and not _counted_work(kernel)


def without_point(kernel: KernelProfile, level: str = "dram", ceiling: str = "at-clock") -> Missing:
    """Return why a kernel has no roofline point at a level, and what would give it one."""
    impossible = above_ceiling(kernel, level)
    if impossible is not None:
        return impossible
    name = LEVEL_NAMES[level]
    counted = _counted_work(kernel)
    unknown = [path for path in missing_work(kernel) if path != "int32"]
    traffic = next((item for item in kernel.traffic if item.level == level), None)
    rates = [item.flop_per_s for item in counted]
    if not kernel.work:
        why, how = "work not collected", remedy_for(kernel, "work.fp32")
    elif not counted and unknown:
        why, how = f"{paths_text(unknown)} not collected", remedy_for(kernel, f"work.{unknown[0]}")
    elif lacks_float_work(kernel):
        why, how = "no floating-point work", ""
    elif traffic is None:
        why, how = f"{name} traffic not collected", remedy_for(kernel, f"traffic.{level}")
    elif not traffic.bytes and not traffic.bytes_per_s:
        why, how = f"no {name} traffic", ""
    elif kernel.duration_s is None and (traffic.bytes_per_s is None or not any(rates)):
        why, how = "duration not collected", remedy_for(kernel, "duration")
    elif ceiling == "rated" and level != "dram":
        why, how = f"datasheets rate no {name} bandwidth", "choose --ceiling at-clock"
    else:
        why, how = f"no {ceiling} ceiling known for its work", _CEILING_FROM[ceiling]
    return Missing("roofline point", why, how)


def _counted_work(kernel: KernelProfile) -> list[Work]:
    return [item for item in kernel.work if item.path != "int32" and (item.flop or item.flop_per_s)]


def left_out_note(session: Session, kernels: Collection[int], why: str, how: str | None) -> str:
    """Return which kernels have no point for a common reason, and what would give them one."""
    left_out = [kernel for kernel in session.kernels if kernel.id in kernels]
    names = list(dict.fromkeys(kernel.label for kernel in left_out))
    text = ", ".join(cut_middle(name, _NAME) for name in names[:2])
    if len(names) > 2:
        text += f" and {len(names) - 2} more"
    launches = sum(kernel.launches for kernel in left_out)
    hint = f"; {how}" if how else ""
    return f"Not on the roofline: {text} ({count_text(launches, 'launch', 'es')}): {why}{hint}."


def pairs_without_point_note(compared: Compared, drawn: Collection[int]) -> str:
    """Write how many kernels of a comparison have no point, and why; `drawn` are the ids of those that have one."""
    reasons = []
    for change, pair in zip(compared.comparison.kernels, compared.pairs, strict=True):
        if change.id not in drawn:
            reasons.append(without_point((*pair.new, *pair.base)[0].representative).why)
    of_all = f"{len(reasons)} of {count_text(len(compared.pairs), 'kernel')}"
    return f"Not drawn: {of_all}: {', '.join(dict.fromkeys(reasons))}."


def clock_notes(kernels: Sequence[KernelProfile], ceilings: Sequence[Ceiling]) -> Iterator[str]:
    """Yield a note if the drawn at-clock ceilings are not those of every kernel that is drawn."""
    clocks = [kernel.sm_clock_hz for kernel in kernels if kernel.sm_clock_hz is not None]
    roofs = [item.clock_hz for item in ceilings if item.origin == "at-clock" and item.path and item.clock_hz]
    if not clocks or not roofs or all(abs(clock / roofs[0] - 1) <= _CLOCK_TOLERANCE for clock in clocks):
        return
    yield (
        f"Kernels ran at {format_si(min(clocks), 'Hz')} to {format_si(max(clocks), 'Hz')}; the at-clock ceilings are "
        f"drawn for {format_si(roofs[0], 'Hz')}, the clock of the longest. Each kernel's percentage is taken at its "
        "own clock."
    )


def certificate_notes(paths: Collection[str]) -> Iterator[str]:
    """Yield a note on the paths whose counters nothing verifies."""
    if paths:
        names = listed([path_name(path) for path in sorted(paths, key=PATHS.index)])
        yield f"Hollow: the counters of {names} are neither certified nor checked on this architecture."


def too_many_notes(kernels: Sequence[KernelProfile], drawn: int, placed: int) -> Iterator[str]:
    """Yield a note on which kernels are drawn if more have a point."""
    plural = "".join(row_noun(kernels))
    if drawn < placed == len(kernels):
        yield f"Drawn: the {drawn} of {placed} {plural} with most time."
    elif drawn < placed:
        yield f"Drawn: of the {placed} {plural} that have a point, the {drawn} with most time."


def level_notes(kernel: KernelProfile, levels: Collection[str], ceiling: str) -> Iterator[str]:
    """Yield what is missing for the points of a kernel, which has some at these levels."""
    if not levels:
        reason = without_point(kernel, ceiling=ceiling)
        yield f"No point: {reason.why}" + (f"; {reason.how}." if reason.how else ".")
        return
    known = {*levels, *(item.level for item in kernel.traffic)}
    for level in LEVELS:
        if level not in known:
            yield f"{LEVEL_NAMES[level]} traffic not collected; {remedy_for(kernel, f'traffic.{level}')}."
