"""Where the numbers of a session come from, as names and values: files, GPUs, clocks, and what was collected."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timezone

from gpuprof.model.session import KernelProfile, Session, Source
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

# Work counts as collected with one of these: that no tensor instruction ran says nothing of the others.
_VECTOR_PATHS = ("fp64", "fp32", "fp16")


def collected_facts(session: Session) -> Iterator[tuple[str, str]]:
    """Yield the quantities that any kernel of a session has, and those that none has; nothing without counters."""
    if not session.kernels or session.only_times:
        return
    collected, lacking = _collected(session.kernels)
    others = max(kernel.collected_total for kernel in session.kernels)
    if not collected and others:
        collected.append(count_text(others, "counter"))
    yield "Collected", ", ".join(collected) or "nothing"
    if lacking:
        yield "Not collected", ", ".join(lacking)


def run_facts(session: Session) -> Iterator[tuple[str, str]]:
    """Yield what all files have in common: GPUs, clocks, throttling."""
    for device in session.devices:
        yield "GPU", device_text(device)
    if session.kernels and not session.only_times:
        yield "SM clock", _clock_text(session.kernels)
        yield "Throttled", _throttling(session.kernels)


def source_facts(source: Source) -> Iterator[tuple[str, str]]:
    """Yield what is known of a file."""
    yield "File", source.file
    yield "SHA-256", source.sha256
    yield "Kind", source.kind
    yield "Recorded with", source_text(source)
    yield "Driver", source.driver or "not recorded"
    if source.created_s is not None:
        when = datetime.fromtimestamp(source.created_s, tz=timezone.utc)
        yield "Recorded", f"{when:%Y-%m-%d %H:%M} UTC"
    yield "Command", source.command or "not recorded"
    for sampled in source.samples:
        yield f"GPU {sampled.gpu} during the run", samples_text(sampled)
    for warning in source.warnings:
        yield "Warning", warning


def _clock_text(kernels: Sequence[KernelProfile]) -> str:
    clocks = [kernel.sm_clock_hz for kernel in kernels if kernel.sm_clock_hz is not None]
    if not clocks:
        return NOT_COLLECTED
    low = format_si(min(clocks), "Hz")
    high = format_si(max(clocks), "Hz")
    return low if low == high else f"{low} to {high}"


def _throttling(kernels: Sequence[KernelProfile]) -> str:
    known = [kernel for kernel in kernels if kernel.throttled is not None]
    if not known:
        return "not recorded"
    count = sum(bool(kernel.throttled) for kernel in known)
    return f"{count} of {count_text(len(known), *row_noun(known))}" if count else "no"


def _collected(kernels: Sequence[KernelProfile]) -> tuple[list[str], list[str]]:
    """Split what a report can have into what any kernel has and what none has."""
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
    collected = [name for name, is_there in has.items() if is_there]
    lacking = [name for name, is_there in has.items() if not is_there and name != "work"]
    return collected, [*_missing_work(kernels, known=has["work"]), *lacking]


def _missing_work(kernels: Sequence[KernelProfile], *, known: bool) -> Iterator[str]:
    """Yield the work that no kernel has, with what would collect it."""
    nowhere = set.intersection(*(set(missing_work(kernel)) for kernel in kernels))
    paths = [path for path in missing_work(kernels[0]) if path in nowhere]
    if paths:
        yield f"{paths_text(paths)} ({remedy_for(kernels[0], f'work.{paths[0]}')})"
    elif not known:
        yield "work"
