"""Figures of the whole run on both sides: GPU time, launches, idle time, copies, steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isfinite, log
from statistics import fmean, median

from msgspec import Struct

from gpuprof.comparison.contract import GPU_TIME, REPLAYS, QuantityChange, TimeWord
from gpuprof.comparison.sides import Side, has_replays_alone, run_time_s, sums_alike
from gpuprof.comparison.timing.noise import Samples, estimate, too_few
from gpuprof.model.field_types import JudgedPart
from gpuprof.model.run_totals import running_s
from gpuprof.model.session import DeviceTimeline, Session


class _Quantity(Struct, frozen=True):
    """A figure of a run: `of` gives those of a session, one for each of what it has several of, such as steps.

    `of_judged`: it is of the part of a trace that is judged.
    """

    name: str
    unit: str
    of: Callable[[Session], float | None]
    of_judged: bool = False


def totals_of(base: Side, new: Side, *, comparable: bool = True, shift: float = 0.0) -> tuple[QuantityChange, ...]:
    """Return what is known of a side or both, the GPU time of all kernels first; of the part of traces that is judged
    only if that is the same on both sides, and no times and launches of kernels beside those of whole graphs.

    `shift`: what other clocks alone can set seconds of the sides apart by, as a logarithm.
    """
    sides = [[run.session for run in side.runs] for side in (base, new)]
    parts = judged_parts(base), judged_parts(new)
    alike = not all(parts) or parts[0] == parts[1]
    told = [quantity for quantity in _QUANTITIES if alike or not quantity.of_judged]
    if sums_alike(base, new):
        replays = has_replays_alone(base) or has_replays_alone(new)
        name = REPLAYS if replays else GPU_TIME
        told[:0] = _Quantity(name, "s", run_time_s), _Quantity("launches", "launches", _launches)
    changes = (_change(quantity, sides[0], sides[1], comparable=comparable, shift=shift) for quantity in told)
    return tuple(change for change in changes if change.base is not None or change.new is not None)


def judged_parts(side: Side) -> frozenset[JudgedPart]:
    """Return which parts of its traces a side is judged by; empty if it has none."""
    timelines = [run.session.timeline for run in side.runs]
    return frozenset(gpu.judged or "all" for timeline in timelines if timeline is not None for gpu in timeline.devices)


def _change(
    quantity: _Quantity, base: list[Session], new: list[Session], *, comparable: bool, shift: float
) -> QuantityChange:
    samples = [_samples(quantity, sessions) for sessions in (base, new)]
    before, after = (fmean(values) if values else None for values in samples)
    return QuantityChange(
        name=quantity.name,
        unit=quantity.unit,
        base=before,
        new=after,
        ratio=after / before if before and after is not None else None,
        verdict=_verdict(samples[0], samples[1], shift) if comparable and quantity.unit == "s" else "unknown",
    )


def _samples(quantity: _Quantity, sessions: Sequence[Session]) -> list[float]:
    values = (quantity.of(session) for session in sessions)
    return [value for value in values if value is not None and isfinite(value) and value >= 0]


def _verdict(base: Sequence[float], new: Sequence[float], shift: float) -> TimeWord:
    """Return the verdict on times of whole runs, if enough of them show their noise; none is assumed."""
    if not base or not new or too_few(len(base), len(new)) or min(*base, *new) <= 0:
        return "unknown"
    ours, theirs = (Samples(tuple(log(value) for value in side), (0.0,) * len(side)) for side in (base, new))
    return estimate(ours, theirs, shift=shift).word


def _launches(session: Session) -> float | None:
    if session.run is not None:
        return session.run.launches
    return sum(kernel.launches for kernel in session.kernels) if session.kernels else None


def _of_gpus(of: Callable[[DeviceTimeline], float | None]) -> Callable[[Session], float | None]:
    """Return what gives a figure of a run's timelines, the mean of its GPUs; None unless it is known of all."""

    def mean(session: Session) -> float | None:
        devices = session.timeline.devices if session.timeline is not None else ()
        values = [value for device in devices if (value := of(device)) is not None]
        return fmean(values) if values and len(values) == len(devices) else None

    return mean


def _copies_s(device: DeviceTimeline) -> float | None:
    times = [copies.time_s for copies in device.copies if copies.time_s is not None]
    return sum(times) if len(times) == len(device.copies) else None


def _step_s(session: Session) -> float | None:
    """Return the median step of the loop that the program's work is counted by, in the middle of its sources."""
    steps = session.timeline.steps if session.timeline is not None else ()
    medians = [step.duration_percentiles_s.p50 for step in steps if step.loop]
    return median(medians) if medians else None


def _peak_memory(session: Session) -> float | None:
    return session.timeline.peak_memory_bytes if session.timeline is not None else None


_QUANTITIES = (
    _Quantity("step", "s", _step_s),
    _Quantity("span", "s", _of_gpus(running_s), of_judged=True),
    _Quantity("busy", "s", _of_gpus(lambda device: device.busy_s), of_judged=True),
    _Quantity(
        "idle", "s", _of_gpus(lambda device: device.gaps.total_s if device.gaps is not None else None), of_judged=True
    ),
    _Quantity("copies", "s", _of_gpus(_copies_s), of_judged=True),
    _Quantity("peak-memory", "B", _peak_memory),
)
