"""Where the page's numbers come from, with what is needed to record them again: sources, GPU, clocks, ceilings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone

from gpuprof.model.denominators import amount
from gpuprof.model.path_names import path_name, work_unit
from gpuprof.model.session import KernelProfile, Session, Source
from gpuprof.present.page.parts import LabelledText, Table
from gpuprof.units import format_si
from gpuprof.words.profile_values import (
    LEVEL_NAMES,
    NOT_COLLECTED,
    count_text,
    device_text,
    missing_work,
    paths_text,
    remedy_for,
    row_noun,
    samples_text,
    source_text,
)

_PATH = re.compile(r"^(?:tensor\.)?(?:fp|int|bf|tf)\d+\b")
_VECTOR_PATHS = ("fp64", "fp32", "fp16")
"""Work counts as collected with one of these: that no tensor instruction ran tells nothing of the others."""


def header_facts(session: Session) -> Iterator[LabelledText]:
    """Yield what a reader must know before any number: the GPU, what was recorded and how."""
    for device in session.devices:
        yield LabelledText("GPU", device_text(device))
    for text in dict.fromkeys(source_text(source) for source in session.sources):
        yield LabelledText("Recorded with", text)
    if not session.kernels or session.only_times:
        return
    yield LabelledText("SM clock", _clock_text(session.kernels))
    collected, lacking = _collected(session.kernels)
    others = max(kernel.collected_total for kernel in session.kernels)
    if not collected and others:
        collected.append(count_text(others, "counter"))
    yield LabelledText("Collected", ", ".join(collected) or "nothing")
    if lacking:
        yield LabelledText("Not collected", ", ".join(lacking))


def source_facts(source: Source) -> Iterator[LabelledText]:
    """Yield what is known of a file."""
    yield LabelledText("File", source.file)
    yield LabelledText("SHA-256", source.sha256)
    yield LabelledText("Kind", source.kind)
    yield LabelledText("Recorded with", source_text(source))
    yield LabelledText("Driver", source.driver if source.driver else "not recorded")
    if source.created_s is not None:
        when = datetime.fromtimestamp(source.created_s, tz=timezone.utc)
        yield LabelledText("Recorded", f"{when:%Y-%m-%d %H:%M} UTC")
    yield LabelledText("Command", source.command if source.command else "not recorded")
    for sampled in source.samples:
        yield LabelledText(f"GPU {sampled.gpu} during the run", samples_text(sampled))
    for warning in source.warnings:
        yield LabelledText("Warning", warning)


def run_facts(session: Session) -> Iterator[LabelledText]:
    """Yield what holds for all files: GPUs, clocks, throttling, and the gpuprof that wrote the page."""
    for device in session.devices:
        yield LabelledText("GPU", device_text(device))
    if session.kernels and not session.only_times:
        yield LabelledText("SM clock", _clock_text(session.kernels))
        yield LabelledText("Throttled", _throttling(session.kernels))
    yield LabelledText("gpuprof", session.gpuprof_version)


def ceiling_table(session: Session) -> Table:
    """Return name, origin, value, clock and source of each ceiling, and the GPU where there are several."""
    rows = (
        (
            LEVEL_NAMES[ceiling.level] if ceiling.level is not None else path_name(ceiling.path or ""),
            _gpu_name(session, ceiling.device),
            ceiling.origin.replace("-", "\u00a0"),
            format_si(ceiling.value, "B/s" if ceiling.level is not None else work_unit(ceiling.path or "")),
            format_si(ceiling.clock_hz, "Hz") if ceiling.clock_hz is not None else "no clock",
            ceiling.source,
        )
        for ceiling in session.ceilings
    )
    heads = ("Ceiling", "GPU", "Origin", "Value", "Clock", "Source")
    return _by_gpu(heads, tuple(rows), (3, 4), several=len(session.devices) > 1)


def denominator_table(session: Session) -> Table:
    """Return what each report implies of its GPU beside what the spec says, and why they differ."""
    rows = (
        (
            _PATH.sub(lambda match: path_name(match[0]), check.unit),
            _gpu_name(session, check.device),
            amount(check.implied, check.measure),
            amount(check.specified, check.measure),
            check.reason or "agrees",
            check.implied_by,
            check.specified_by,
        )
        for check in session.denominators
    )
    heads = ("Peak", "GPU", "Report implies", "Spec says", "Verdict", "Implied by", "Specified by")
    several = len({check.device for check in session.denominators}) > 1
    return _by_gpu(heads, tuple(rows), (2, 3), several=several)


def _gpu_name(session: Session, number: int) -> str:
    name = next((device.name for device in session.devices if device.id == number), None)
    return name or f"GPU {number}"


def _by_gpu(
    heads: tuple[str, ...], rows: tuple[tuple[str, ...], ...], numbers: tuple[int, ...], *, several: bool
) -> Table:
    """Return a table; its second column, the GPU, only if there are several."""
    if several:
        return Table(heads, rows, numbers)
    without = tuple((first, *rest) for first, _, *rest in (heads, *rows))
    return Table(without[0], without[1:], tuple(place - 1 for place in numbers))


def _clock_text(kernels: Sequence[KernelProfile]) -> str:
    clocks = [kernel.sm_clock_hz for kernel in kernels if kernel.sm_clock_hz is not None]
    if not clocks:
        return NOT_COLLECTED
    low, high = format_si(min(clocks), "Hz"), format_si(max(clocks), "Hz")
    return low if low == high else f"{low} to {high}"


def _throttling(kernels: Sequence[KernelProfile]) -> str:
    known = [kernel for kernel in kernels if kernel.throttled is not None]
    if not known:
        return "not recorded"
    count = sum(bool(kernel.throttled) for kernel in known)
    return f"{count} of {count_text(len(known), *row_noun(known))}" if count else "no"


def _collected(kernels: Sequence[KernelProfile]) -> tuple[list[str], list[str]]:
    """Split what a report can hold into what any kernel has and what none has."""
    has = {
        "durations": any(kernel.duration_s is not None for kernel in kernels),
        "work": any(work.path in _VECTOR_PATHS for kernel in kernels for work in kernel.work),
    }
    for level, name in LEVEL_NAMES.items():
        has[f"{name} traffic"] = any(traffic.level == level for kernel in kernels for traffic in kernel.traffic)
    has["throughput"] = any(kernel.throughput for kernel in kernels)
    has["occupancy"] = any(kernel.occupancy.achieved is not None for kernel in kernels)
    has["warp states"] = any(kernel.stalls for kernel in kernels)
    excerpts = [excerpt for kernel in kernels for excerpt in kernel.excerpts]
    has["code"] = any(excerpt.has_text for excerpt in excerpts)
    if excerpts and not has["code"]:
        has["line numbers"] = True
    without = [name for name, is_held in has.items() if not is_held and name != "work"]
    return [name for name, is_held in has.items() if is_held], [*_missing_work(kernels, known=has["work"]), *without]


def _missing_work(kernels: Sequence[KernelProfile], *, known: bool) -> Iterator[str]:
    """Yield the work that no kernel has, with what would collect it."""
    nowhere = set.intersection(*(set(missing_work(kernel)) for kernel in kernels))
    paths = [path for path in missing_work(kernels[0]) if path in nowhere]
    if paths:
        yield f"{paths_text(paths)} ({remedy_for(kernels[0], f'work.{paths[0]}')})"
    elif not known:
        yield "work"
