"""How long a step will take: what each of its points needs once, and what it takes where there is time. A guess.

The numbers are what calls to CUDA and NVML take on a server, rounded up. A run measures how long it really takes, and
shares out what is left; only that every point comes to its turn rests on nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from gpuprof.characterize.measure.effort import LEAST_ROUNDS, Effort
from gpuprof.characterize.record.configurations import Configuration, ResultPoint, buffer_bytes, points, sweep_values
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
_LAUNCH_ROW_S = 0.3
_MAP_POINT_S = 0.15
_RESIDENT_S = 0.02
_COPY_POINT_S = 0.012
_PAGEABLE_BYTES_PER_S, _PINNED_BYTES_PER_S = 3e9, 10e9
_COPIES = 6
_SPARE_FACTOR = 3.0
"""A point that does not settle at once takes so many times what it needs least, where there is time."""


class Cost(NamedTuple):
    """Seconds for each point once, on all allocations, and with everything that the effort allows."""

    least_s: float
    good_s: float
    seconds: float


def forecast(
    probe: Probe, regime: str, data: str, target: str, properties: Properties, free_bytes: float, effort: Effort
) -> Cost:
    """Return what a probe takes in one regime with one kind of data."""
    if probe.method == "power":
        return Cost(effort.least_power_s, effort.least_power_s, effort.power_s)
    if probe.method == "copy":
        return _copies(probe, properties, free_bytes)
    if probe.kernel is None:
        return Cost(0.0, 0.0, 0.0)
    found = points(
        probe, probe.kernel, list(probe.kernel.assignments(target)), properties,
        data=data, regime=regime, free_bytes=free_bytes,
    )  # fmt: skip
    each = {"launch": _LAUNCH_ROW_S, "resident": _RESIDENT_S, "map": _MAP_POINT_S}.get(probe.method)
    if each is not None:
        return Cost(each * len(found), each * len(found), 2 * each * len(found))
    return _kernel(probe, found, regime, properties, effort)


def _kernel(probe: Probe, found: Sequence[ResultPoint], regime: str, properties: Properties, effort: Effort) -> Cost:
    """A slope or a curve: sweeps, the winners once more, and again on other allocations."""
    sustained = regime == "sustained"
    window_s = effort.sustained_window_s if sustained else effort.window_s
    rule = effort.curve if probe.method == "curve" else effort.rule
    fills = [_fill_s(probe, point.configurations[0], properties) for point in found]
    shared = max(fills, default=0.0) if not sized(probe) else 0.0
    sweeps = sum(_sweep_s(len(point.configurations), effort) for point in found)
    final_s = _ready_s(window_s) + _warm_s(window_s) + _EVALUATE_S
    settle = effort.least_settle_s if sustained else 0.0
    least_rounds = LEAST_ROUNDS if sustained else rule.least
    finals = len(found) * (final_s + settle + least_rounds * _round_s(window_s))
    filled = sum(fills) if sized(probe) else shared
    least_s = sweeps + finals + filled
    longest = len(found) * (effort.settle_s if sustained else 0.0) + _SPARE_FACTOR * finals
    good_s = least_s + (allocations(probe, effort) - 1) * (finals + filled)
    return Cost(least_s, good_s, good_s + longest)


def allocations(probe: Probe, effort: Effort) -> int:
    """Return on how many allocations a probe is measured: L2 and latencies depend on where their memory is."""
    kernel = probe.kernel
    if kernel is None or not kernel.buffers:
        return 1
    walks = any(buffer.fill == "chase" for buffer in kernel.buffers.values())
    cached = any(limit.bandwidth == "l2" for limit in probe.limits) and probe.method == "slope"
    return effort.allocations if walks or cached else 1


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


def _fill_s(probe: Probe, one: Configuration, properties: Properties) -> float:
    kernel = probe.kernel
    if kernel is None:
        return 0.0
    sizes = buffer_bytes(kernel, one, properties) or {}
    return sum(_buffer_s(kernel.buffers[name], one, size) for name, size in sizes.items())


def _buffer_s(buffer: Buffer, one: Configuration, size: int) -> float:
    allocate_s = _ALLOCATE_S + size / _ALLOCATE_BYTES_PER_S
    if buffer.fill != "chase":
        return allocate_s + size / _FILL_BYTES_PER_S
    stride = one.values[buffer.stride] if isinstance(buffer.stride, str) else buffer.stride or size
    nodes = size / stride
    return allocate_s + nodes * (_NODE_OF_MANY_S if nodes > _MANY_NODES else _NODE_S)


def _copies(probe: Probe, properties: Properties, free_bytes: float) -> Cost:
    sizes = [size for sweep in probe.sweeps.values() for size in sweep_values(sweep, properties.l2_bytes, free_bytes)]
    places = {probe.transfer.source, probe.transfer.destination} if probe.transfer is not None else set()
    rate = _PAGEABLE_BYTES_PER_S if "pageable" in places else _PINNED_BYTES_PER_S
    least_s = sum(_COPY_POINT_S + _COPIES * size / rate for size in sizes)
    return Cost(least_s, least_s, 2 * least_s)
