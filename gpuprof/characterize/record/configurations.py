"""The configurations of a probe on one GPU: parameter values, run-time variables, launch shapes, data, regime.

A point is a result of its own: one value for each of the probe's series and of its horizontal axis. Its configurations
differ in everything else; the best of them counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from gpuprof.characterize.probes.probe import Buffer, Kernel, LaunchShapes, Probe, Size, Sweep
from gpuprof.characterize.record.gpu import LaunchConfiguration, Properties
from gpuprof.characterize.record.series import FixedValues, Series, SeriesConfig
from gpuprof.units import WARP_THREADS

OF_MEMORY = 0.9
"""Ranges of sizes stop where a buffer would take more of the free memory."""
_GRAIN = 128
"""Sizes of a range are whole cache lines."""
_OF_CARD = 0.8
"""Buffers of a configuration that are together larger than this part of the card's memory shrink to it."""
LARGE = 8
"""A buffer of so many times L2 is meant to miss it. One that the card has no room for at that size is not tried."""
_PAGE = 2 * 2**20
"""Shrunk buffers are whole pages, so that a chunk of any walk divides them."""
_MOST_BLOCKS = 32
"""No architecture has more blocks on an SM."""
_RESERVED = 1024
"""Bytes of shared memory that the driver takes for each block, from compute capability 8.0 on."""

CUBIN = 12
"""So many digits of the code's SHA-256 tell it from other code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """One way to run a probe's kernel. `blocks` is blocks per SM, or None where the probe gives the grid itself."""

    assignment: Mapping[str, str]
    values: Mapping[str, float]
    blocks: int | None
    shape: LaunchConfiguration
    data: str
    regime: str
    cubin: str = ""
    allocation: int = 0

    @property
    def block(self) -> int:
        """Return the threads per block."""
        return self.shape.block

    @property
    def config(self) -> SeriesConfig:
        """Return it as a series of samples has it."""
        return SeriesConfig(
            values={**self.assignment, **{name: _plain(value) for name, value in self.values.items()}},
            block=self.block, grid=self.shape.grid, data=self.data, regime=self.regime, blocks_per_sm=self.blocks,
            cubin=self.cubin[:CUBIN], allocation=self.allocation,
        )  # fmt: skip

    def names(self) -> dict[str, str]:
        """Return parameters and run-time variables as text: what counts of work are made of."""
        return with_values(self.assignment, self.values)


@dataclass(frozen=True, slots=True)
class ResultPoint:
    """One result: the values that fix it, and the configurations that compete for it."""

    fixed: FixedValues
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
    overfull: bool = False,
) -> tuple[ResultPoint, ...]:
    """Return what is to be measured of a probe: the parameter values that passed their gate, with everything else.

    `overfull`: all of its blocks per SM are tried, also those that an SM has no room for.
    """
    groups: dict[FixedValues, list[Configuration]] = {}
    axes = (*probe.series, *([probe.along] if probe.along else []))
    for configuration in _configurations(
        probe, kernel, assignments, properties, data=data, regime=regime, free_bytes=free_bytes, overfull=overfull
    ):
        groups.setdefault(configuration.config.fixed(axes), []).append(configuration)
    return tuple(ResultPoint(fixed, tuple(configurations)) for fixed, configurations in groups.items())


def _configurations(
    probe: Probe,
    kernel: Kernel,
    assignments: Sequence[Mapping[str, str]],
    properties: Properties,
    *,
    data: str,
    regime: str,
    free_bytes: float,
    overfull: bool,
) -> Iterator[Configuration]:
    sweeps = {name: sweep_values(sweep, properties.l2_bytes, free_bytes) for name, sweep in probe.sweeps.items()}
    for assignment in assignments:
        for chosen in product(*sweeps.values()):
            values = dict(zip(sweeps, chosen, strict=True))
            for blocks, shape in _shapes(kernel, with_values(assignment, values), properties, overfull=overfull):
                configuration = Configuration(
                    assignment=assignment, values=values, blocks=blocks, shape=shape, data=data, regime=regime
                )
                if buffer_bytes(kernel, configuration, properties) is not None:
                    yield configuration


def _shapes(
    kernel: Kernel, names: Mapping[str, str], properties: Properties, *, overfull: bool
) -> Iterator[tuple[int | None, LaunchConfiguration]]:
    """Yield blocks per SM and the launch configuration for each shape that the probe wants tried."""
    launch = kernel.launch
    cluster, shared_bytes = launch.cluster.value(names), launch.shared_bytes.value(names)
    for threads in dict.fromkeys(block.value(names) for block in launch.block):
        fitting = launch.blocks_per_sm if overfull else _blocks(launch, threads, shared_bytes, properties)
        for count in launch.grid or fitting:
            grid = count if launch.grid else count * properties.sm_count
            whole = max(cluster, grid - grid % cluster)
            shape = LaunchConfiguration(
                grid=whole, block=threads, shared_bytes=shared_bytes, carveout=launch.carveout,
                cooperative=launch.cooperative,
            )  # fmt: skip
            yield None if launch.grid else count, shape


def _blocks(launch: LaunchShapes, threads: int, shared_bytes: int, properties: Properties) -> tuple[int, ...]:
    """Return the blocks per SM to try, of those that an SM has room for; of all of them the most first."""
    most = most_blocks(threads, shared_bytes, properties)
    fitting = tuple(count for count in launch.blocks_per_sm if count <= most)
    if launch.all_blocks:
        return tuple(sorted({*fitting, *((most,) if most else ())}, reverse=True))
    return fitting


def most_blocks(threads: int, shared_bytes: int, properties: Properties) -> int:
    """Return how many blocks an SM has room for by its threads and its shared memory; registers may allow fewer."""
    most = min(_MOST_BLOCKS, properties.threads_per_sm // (math.ceil(threads / WARP_THREADS) * WARP_THREADS))
    if not shared_bytes:
        return most
    reserved = _RESERVED if int(properties.compute_capability.partition(".")[0]) >= 8 else 0
    return min(most, (properties.shared_per_block + reserved) // (shared_bytes + reserved))


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


def buffer_bytes(kernel: Kernel, configuration: Configuration, properties: Properties) -> dict[str, int] | None:
    """Return the bytes of each buffer in a configuration.

    Large ones that the probe file gives a size shrink by the same factor where the card is too small for all together.
    None where they would then no longer be large. What counts is all of the card's memory, not what is free of it: the
    sizes are the same in another run.
    """
    sizes = {name: _asked_bytes(buffer, configuration, properties.l2_bytes) for name, buffer in kernel.buffers.items()}
    least = LARGE * properties.l2_bytes
    large = {name for name, size in sizes.items() if kernel.buffers[name].size is not None and size >= least}
    room = _OF_CARD * properties.memory_bytes - sum(size for name, size in sizes.items() if name not in large)
    asked = sum(sizes[name] for name in large)
    if not large or asked <= room:
        return sizes
    shrunk = {name: int(sizes[name] * max(room, 0) / asked) // _PAGE * _PAGE for name in large}
    if any(size < least for size in shrunk.values()):
        return None
    return sizes | shrunk


def _asked_bytes(buffer: Buffer, configuration: Configuration, l2_bytes: float) -> int:
    each = size_bytes(buffer.size, l2_bytes) if buffer.size is not None else configuration.values[buffer.sweep or ""]
    return math.ceil(each) * sharers(buffer.per, configuration.shape.grid, configuration.block)


def sharers(per: str, grid: int, block: int) -> int:
    """Return how many threads, warps or blocks a launch has; 1 for the grid."""
    return {"thread": grid * block, "warp": grid * math.ceil(block / WARP_THREADS), "block": grid, "grid": 1}[per]


def iteration_work(kernel: Kernel, what: str, names: Mapping[str, str], grid: int, block: int) -> float | None:
    """Return what one iteration does on the whole GPU: FLOP, operations, bytes or results; None if not counted."""
    each = kernel.work.amount(what, names)
    return each * sharers(kernel.work.per, grid, block) if each is not None else None


def series_work(kernel: Kernel, what: str, series: Series) -> float | None:
    """Return what one iteration of a series did on the whole GPU. Raises ValueError where it launched no kernel."""
    return iteration_work(kernel, what, series.config.names(), series.grid, series.block)


def _plain(value: float) -> int | float:
    return int(value) if value == int(value) else value
