"""Figures of the whole run on both sides: GPU time, launches, idle time, copies, steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isfinite, log
from statistics import fmean

from msgspec import Struct
from msgspec.structs import replace

from gpuprof.comparison.contract import BUSY, GPU_TIME, PER_STEP, REPLAYS, QuantityChange, TimeWord
from gpuprof.comparison.per_step import computing_gpus
from gpuprof.comparison.sides import Side, has_replays_alone, has_whole_graphs, run_time_s, sums_alike
from gpuprof.comparison.timing.noise import Samples, estimate, too_few
from gpuprof.comparison.values import Values, all_known
from gpuprof.model.field_types import JudgedPart
from gpuprof.model.run_totals import running_s, step_s
from gpuprof.model.session import DeviceTimeline, Session


class _Quantity(Struct, frozen=True):
    """A figure of a run that `of` takes from a session.

    `of_judged`: of a trace's judged part. `by_step`: its part of a step can be given.
    """

    name: str
    unit: str
    of: Callable[[Session], float | None]
    of_judged: bool = False
    by_step: bool = True


def totals_of(
    base: Side, new: Side, *, comparable: bool = True, identical: bool = False, shift: float = 0.0
) -> tuple[QuantityChange, ...]:
    """Return the figures that a side or both have, the GPU time of all kernels first.

    Figures of the judged part of traces are left out if that differs between the sides; times and
    launches of kernels are, if a side has whole graphs: then the time with any work comes first, and that in graphs and
    their replays follow.

    By step, the span is left out: it is the step.

    `identical`: both sides are the same recordings. `shift`: how far other clocks alone can set seconds of the sides
    apart, as a logarithm.
    """
    parts = judged_parts(base), judged_parts(new)
    alike = not all(parts) or parts[0] == parts[1]
    first: tuple[_Quantity, ...] = ()
    if has_whole_graphs(base) or has_whole_graphs(new):
        first = (_BUSY, _GRAPHS, _GRAPH_REPLAYS)
    elif sums_alike(base, new):
        replays = has_replays_alone(base) or has_replays_alone(new)
        time = _Quantity(REPLAYS if replays else GPU_TIME, "s", run_time_s)
        first = (time, _Quantity("launches", "launches", _launches))
    quantities = [*first, *(quantity for quantity in _QUANTITIES if quantity not in first)]
    quantities = [quantity for quantity in quantities if alike or not quantity.of_judged]
    if base.per == "step":
        quantities = [quantity for quantity in quantities if quantity.name != _SPAN]
    changes = [_change(quantity, base, new, comparable=comparable, shift=shift) for quantity in quantities]
    if identical and comparable:
        changes = [replace(change, verdict="same") if change.unit == "s" else change for change in changes]
    return tuple(change for change in changes if change.base is not None or change.new is not None)


def judged_parts(side: Side) -> frozenset[JudgedPart]:
    """Return the judged parts of the traces of a side; empty if it has none."""
    return frozenset(gpu.judged or "all" for run in side.runs for gpu in computing_gpus(run.session))


def _change(quantity: _Quantity, base: Side, new: Side, *, comparable: bool, shift: float) -> QuantityChange:
    base_values = _values(quantity, base)
    new_values = _values(quantity, new)
    before = fmean(base_values) if base_values else None
    after = fmean(new_values) if new_values else None
    verdict: TimeWord = "unknown"
    if comparable and quantity.unit == "s":
        verdict = _verdict(base_values, new_values, shift)
    return QuantityChange(
        name=f"{quantity.name}{PER_STEP}" if quantity.by_step and base.per == "step" else quantity.name,
        unit=quantity.unit,
        base=before,
        new=after,
        ratio=Values(before, after).ratio if before is not None and after is not None else None,
        verdict=verdict,
    )


def _values(quantity: _Quantity, side: Side) -> list[float]:
    values = []
    for run, steps in zip(side.runs, side.steps, strict=True):
        value = quantity.of(run.session)
        if value is not None and isfinite(value) and value >= 0:
            values.append(value / steps if quantity.by_step else value)
    return values


def _verdict(base: Sequence[float], new: Sequence[float], shift: float) -> TimeWord:
    """Return the verdict on times of whole runs, if enough of them show their noise; none is assumed."""
    if not base or not new or too_few(len(base), len(new)) or min(*base, *new) <= 0:
        return "unknown"
    return estimate(_samples(base), _samples(new), shift=shift).word


def _samples(values: Sequence[float]) -> Samples:
    return Samples(tuple(map(log, values)), (0.0,) * len(values))


def _launches(session: Session) -> float | None:
    if session.run is not None:
        return session.run.launches
    return sum(kernel.launches for kernel in session.kernels) if session.kernels else None


def _of_gpus(of: Callable[[DeviceTimeline], float | None]) -> Callable[[Session], float | None]:
    """Return a function for the mean of a figure over the GPUs that compute in a run; None unless all have it."""

    def mean(session: Session) -> float | None:
        values = all_known(map(of, computing_gpus(session)))
        return fmean(values) if values else None

    return mean


def _copies_s(device: DeviceTimeline) -> float | None:
    times = all_known(copies.time_s for copies in device.copies)
    return sum(times) if times is not None else None


def _idle_s(device: DeviceTimeline) -> float | None:
    return device.gaps.total_s if device.gaps is not None else None


def _graphs_s(device: DeviceTimeline) -> float:
    return device.graphs.time_s if device.graphs is not None else 0.0


def _graph_replays(session: Session) -> float | None:
    """Return the replays of whole CUDA graphs on all GPUs of a run."""
    if session.timeline is None:
        return None
    return sum(gpu.graphs.replays for gpu in session.timeline.devices if gpu.graphs is not None)


def _peak_memory(session: Session) -> float | None:
    return session.timeline.peak_memory_bytes if session.timeline is not None else None


_SPAN = "span"
_BUSY = _Quantity(BUSY, "s", _of_gpus(lambda device: device.busy_s), of_judged=True)
_GRAPHS = _Quantity("whole-graphs", "s", _of_gpus(_graphs_s), of_judged=True)
_GRAPH_REPLAYS = _Quantity("whole-graph-replays", "replays", _graph_replays, of_judged=True)
_QUANTITIES = (
    _Quantity("step", "s", lambda session: step_s(computing_gpus(session)), of_judged=True, by_step=False),
    _Quantity(_SPAN, "s", _of_gpus(running_s), of_judged=True),
    _BUSY,
    _Quantity("idle", "s", _of_gpus(_idle_s), of_judged=True),
    _Quantity("copies", "s", _of_gpus(_copies_s), of_judged=True),
    _Quantity("peak-memory", "B", _peak_memory, by_step=False),
)
