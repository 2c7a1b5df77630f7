"""How long a step will take: what each of its points needs once, and what it takes where there is time. A guess.

The numbers are what calls to CUDA and NVML take on a server, rounded up. A run measures how long it really takes, and
shares out what is left; only that every point comes to its turn rests on nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from gpuprof.characterize.maths.statistics import StopRule
from gpuprof.characterize.measure.effort import LEAST_ROUNDS, Effort
from gpuprof.characterize.measure.step import Step
from gpuprof.characterize.record.configurations import Configuration, ResultPoint, buffer_bytes, points
from gpuprof.characterize.record.gpu import Properties
from gpuprof.characterize.record.reduction import MULTIPLES

if TYPE_CHECKING:
    from gpuprof.characterize.probes.probe import Buffer, Probe

_LAUNCH_S = 250e-6
"""A launch besides the kernel: arguments, records, the way to the process that holds the GPU and back."""
_WATCH_S = 2e-3
"""Asking NVML for clock and reasons: in one launch of a round, which goes on meanwhile."""
_READY_LAUNCHES = 8
"""From a configuration to how many iterations fill the window."""
_WARM_LAUNCHES = 6
_LOAD_S = 3e-3
_EVALUATE_S = 15e-3
"""Intervals by resampling, for each point."""
_FILL_BYTES_PER_S = 400e9
_ALLOCATE_S, _ALLOCATE_BYTES_PER_S = 300e-6, 500e9
_NODE_S, _NODE_OF_MANY_S, _MANY_NODES = 60e-9, 200e-9, 2**20
"""A node of a chase: drawn, sent, written. A cycle that the host's caches do not hold takes longer."""
_SPARE_FACTOR = 3.0
"""A point that does not settle at once takes so many times what it needs least, where there is time."""


class Cost(NamedTuple):
    """Seconds for each point once, on all allocations, and with everything that the effort allows."""

    least_s: float
    good_s: float
    seconds: float


class Where(NamedTuple):
    """What a plan is for: the target, the GPU, and how much of its memory is free."""

    target: str
    properties: Properties
    free_bytes: float


class PointPlan(NamedTuple):
    """How the points of a kernel are measured: how long, on how many allocations of memory, in which order.

    `order` returns the points of one allocation, which is the seed of what is random in it.
    """

    rule: StopRule
    allocations: int
    order: Callable[[Sequence[ResultPoint], int], tuple[ResultPoint, ...]]


def each_point_cost(step: Step, where: Where, _effort: Effort, *, point_s: float, overfull: bool = False) -> Cost:
    """Return what a step takes whose points take so long each."""
    least_s = point_s * len(_points(step, where, overfull=overfull))
    return Cost(least_s, least_s, 2 * least_s)


def points_cost(step: Step, where: Where, effort: Effort, plan: PointPlan) -> Cost:
    """Return what a kernel's points take: sweeps, the winners once more, and again on other allocations."""
    probe, points = step.probe, _points(step, where)
    sustained = step.regime == "sustained"
    window_s = effort.sustained_window_s if sustained else effort.window_s
    fills = [_fill_s(probe, point.configurations[0], where.properties) for point in points]
    filled = sum(fills) if sized(probe) else max(fills, default=0.0)
    sweeps = sum(_sweep_s(len(point.configurations), effort) for point in points)
    final_s = _ready_s(window_s) + _warm_s(window_s) + _EVALUATE_S
    settle = effort.least_settle_s if sustained else 0.0
    least_rounds = LEAST_ROUNDS if sustained else plan.rule.least
    finals = len(points) * (final_s + settle + least_rounds * _round_s(window_s))
    least_s = sweeps + finals + filled
    longest = len(points) * (effort.settle_s if sustained else 0.0) + _SPARE_FACTOR * finals
    good_s = least_s + (plan.allocations - 1) * (finals + filled)
    return Cost(least_s, good_s, good_s + longest)


def _points(step: Step, where: Where, *, overfull: bool = False) -> tuple[ResultPoint, ...]:
    kernel = step.probe.kernel
    if kernel is None:
        return ()
    return points(
        step.probe, kernel, list(kernel.assignments(where.target)), where.properties,
        data=step.data, regime=step.regime, free_bytes=where.free_bytes, overfull=overfull,
    )  # fmt: skip


def walks(probe: Probe) -> bool:
    """Tell whether a kernel walks through its memory: latencies depend on where that is."""
    return probe.kernel is not None and any(buffer.fill == "chase" for buffer in probe.kernel.buffers.values())


def sized(probe: Probe) -> bool:
    """Tell whether the points of a probe have memory of their own: it is given back after each."""
    return probe.kernel is not None and any(
        buffer.sweep is not None or buffer.fill == "chase" for buffer in probe.kernel.buffers.values()
    )


def _round_s(window_s: float) -> float:
    return sum(MULTIPLES) * window_s + len(MULTIPLES) * _LAUNCH_S + max(0.0, _WATCH_S - MULTIPLES[-1] * window_s)


def _ready_s(window_s: float) -> float:
    return _LOAD_S + _READY_LAUNCHES * _LAUNCH_S + 2.5 * window_s


def _warm_s(window_s: float) -> float:
    return _WARM_LAUNCHES * (MULTIPLES[-1] * window_s + _LAUNCH_S)


def _sweep_s(candidates: int, effort: Effort) -> float:
    if candidates < 2:
        return 0.0
    each = _ready_s(effort.window_s) + effort.sweep_rounds * _round_s(effort.window_s)
    return candidates * each + _warm_s(effort.window_s)


def _fill_s(probe: Probe, configuration: Configuration, properties: Properties) -> float:
    kernel = probe.kernel
    if kernel is None:
        return 0.0
    sizes = buffer_bytes(kernel, configuration, properties) or {}
    return sum(_buffer_s(kernel.buffers[name], configuration, size) for name, size in sizes.items())


def _buffer_s(buffer: Buffer, configuration: Configuration, size: int) -> float:
    allocate_s = _ALLOCATE_S + size / _ALLOCATE_BYTES_PER_S
    if buffer.fill != "chase":
        return allocate_s + size / _FILL_BYTES_PER_S
    stride = configuration.values[buffer.stride] if isinstance(buffer.stride, str) else buffer.stride or size
    nodes = size / stride
    return allocate_s + nodes * (_NODE_OF_MANY_S if nodes > _MANY_NODES else _NODE_S)
