"""The configurations of a probe on one GPU: parameter values, run-time variables, launch shapes, data, regime.

A point is a result of its own: one value for each of the probe's series and of its horizontal axis. Its configurations
differ in everything else; the best of them counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from gpuprof.characterize.probes.probe import Buffer, Kernel, Probe, Size, Sweep
from gpuprof.characterize.record.gpu import Properties, Shape
from gpuprof.characterize.record.samples import Parameter

OF_MEMORY = 0.9
"""Ranges of sizes stop where a buffer would take more of the free memory."""
_GRAIN = 128
"""Sizes of a range are whole cache lines."""
_WARP = 32

MEASURED = (
    "sms", "ran", "result", "settled", "at_once", "calculated", "power_w", "temperature_c", "joule_per_iteration",
    "pcie_generation", "pcie_width",
)  # fmt: skip
"""What a series' configuration holds besides its choices: what was seen when it ran."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """One way to run a probe's kernel. `blocks` is blocks per SM, or None where the probe gives the grid itself."""

    assignment: Mapping[str, str]
    values: Mapping[str, float]
    block: int
    blocks: int | None
    shape: Shape
    data: str
    regime: str
    cubin: str = ""
    allocation: int = 0

    def words(self) -> dict[str, Parameter]:
        """Return it as a series of samples names it."""
        words: dict[str, Parameter] = dict(self.assignment)
        words |= {name: _plain(value) for name, value in self.values.items()}
        words |= {"block": self.block, "grid": self.shape.grid, "data": self.data, "regime": self.regime}
        if self.blocks is not None:
            words["blocks_per_sm"] = self.blocks
        return words | {"cubin": self.cubin[:12], "allocation": self.allocation}

    def names(self) -> dict[str, str]:
        """Return parameters and run-time variables as text: what counts of work are made of."""
        return with_values(self.assignment, self.values)


@dataclass(frozen=True, slots=True)
class Point:
    """One result: the values that fix it, and the configurations that compete for it."""

    fixed: tuple[tuple[str, Parameter], ...]
    configurations: tuple[Configuration, ...] = field(default=(), compare=False)


def with_values(assignment: Mapping[str, str], values: Mapping[str, float]) -> dict[str, str]:
    """Return parameters together with run-time variables, whole ones without a decimal point."""
    return dict(assignment) | {name: str(_plain(value)) for name, value in values.items()}


def points(
    probe: Probe,
    kernel: Kernel,
    assignments: Sequence[Mapping[str, str]],
    properties: Properties,
    *,
    data: str,
    regime: str,
    free_bytes: float,
) -> tuple[Point, ...]:
    """Return what is to be measured of a probe: the parameter values that passed their gate, with everything else."""
    groups: dict[tuple[tuple[str, Parameter], ...], list[Configuration]] = {}
    axes = (*probe.series, *([probe.along] if probe.along else []))
    for one in _configurations(probe, kernel, assignments, properties, data, regime, free_bytes):
        words = one.words()
        groups.setdefault(tuple((axis, words[axis]) for axis in axes), []).append(one)
    return tuple(Point(fixed, tuple(ones)) for fixed, ones in groups.items())


def _configurations(
    probe: Probe,
    kernel: Kernel,
    assignments: Sequence[Mapping[str, str]],
    properties: Properties,
    data: str,
    regime: str,
    free_bytes: float,
) -> Iterator[Configuration]:
    sweeps = {name: sweep_values(sweep, properties.l2_bytes, free_bytes) for name, sweep in probe.sweeps.items()}
    for assignment in assignments:
        for chosen in product(*sweeps.values()):
            values = dict(zip(sweeps, chosen, strict=True))
            for block, blocks, shape in _shapes(kernel, with_values(assignment, values), properties):
                yield Configuration(assignment, values, block, blocks, shape, data, regime)


def _shapes(
    kernel: Kernel, names: Mapping[str, str], properties: Properties
) -> Iterator[tuple[int, int | None, Shape]]:
    """Yield threads, blocks per SM and the launch for each shape that the probe wants tried."""
    launch = kernel.launch
    cluster = launch.cluster.value(names)
    for threads in dict.fromkeys(one.value(names) for one in launch.block):
        for count in launch.grid or launch.blocks_per_sm:
            grid = count if launch.grid else count * properties.sm_count
            whole = max(cluster, grid - grid % cluster)
            shape = Shape(whole, threads, launch.shared_bytes.value(names), launch.carveout, launch.cooperative)
            yield threads, None if launch.grid else count, shape


def sweep_values(sweep: Sweep, l2_bytes: float, free_bytes: float) -> tuple[float, ...]:
    """Return the values of a run-time variable; a range in whole lines, up to what the memory holds."""
    if sweep.first is None or sweep.last is None:
        return sweep.values
    first, last = size_bytes(sweep.first, l2_bytes), size_bytes(sweep.last, l2_bytes)
    steps = (sweep.per_doubling or 1) * math.log2(last / first) if last > first else 0.0
    sizes = (first * 2 ** (step / (sweep.per_doubling or 1)) for step in range(round(steps) + 1))
    whole = (float(max(_GRAIN, round(size / _GRAIN) * _GRAIN)) for size in sizes)
    return tuple(dict.fromkeys(size for size in whole if size <= OF_MEMORY * free_bytes))


def size_bytes(size: Size, l2_bytes: float) -> float:
    """Return a size that depends on the GPU: the largest of its terms."""
    return max(size.least, size.times_l2 * l2_bytes)


def buffer_bytes(buffer: Buffer, one: Configuration, l2_bytes: float) -> int:
    """Return the bytes of a buffer in a configuration."""
    each = size_bytes(buffer.size, l2_bytes) if buffer.size is not None else one.values[buffer.sweep or ""]
    return math.ceil(each) * sharers(buffer.per, one.shape.grid, one.block)


def sharers(per: str, grid: int, block: int) -> int:
    """Return how many threads, warps or blocks a launch has; 1 for the grid."""
    return {"thread": grid * block, "warp": grid * math.ceil(block / _WARP), "block": grid, "grid": 1}[per]


def iteration_work(kernel: Kernel, what: str, names: Mapping[str, str], grid: int, block: int) -> float | None:
    """Return what one iteration does on the whole GPU: FLOP, operations, bytes or results; None if not counted."""
    each = kernel.work.amount(what, names)
    return each * sharers(kernel.work.per, grid, block) if each is not None else None


def chosen(words: Mapping[str, Parameter]) -> dict[str, Parameter]:
    """Return a series' configuration without what was only seen when it ran: what makes it the same one again."""
    return {name: value for name, value in words.items() if name not in MEASURED}


def _plain(value: float) -> int | float:
    return int(value) if value == int(value) else value
