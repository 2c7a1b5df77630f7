"""What a probe file says, as typed values: kernel, sweeps, work, gate, limit, expected range."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gpuprof.hardware.library import compile_targets
from gpuprof.hardware.specs import ComputeKey
from gpuprof.hardware.yaml_tree import FileLine

if TYPE_CHECKING:
    from gpuprof.characterize.probes.tiles import Tile

QUANTITIES = ("throughput", "bandwidth", "latency", "capacity", "time", "rate", "power")
METHODS = ("slope", "curve", "map", "resident", "launch", "copy", "power")
LAUNCHED = ("synchronous", "queued", "graph")
MEMORIES = ("pinned", "pageable", "device", "peer")
STATISTICS = ("median", "mode", "slope")
REGIMES = ("short", "sustained")
DATA = ("zeros", "random")
CHECKS = ("sum", "tile", "pattern", "chain")
FILLS = ("zeros", "random", "data", "chase", "none")
TYPES = ("bits", "f16", "bf16", "f32", "f64", "e4m3", "e5m2")
SHARES = ("thread", "warp", "block", "grid")
WORK = ("flop", "op", "byte", "result")

Assignment = Mapping[str, str]
"""A value for each compile-time parameter: what `-D` gets. Where work names a sweep, its value, too."""


class IntegerProduct(NamedTuple):
    """A product of whole numbers, compile-time parameters and, for work and shared memory, sweeps: `[2, CHAINS]`."""

    factors: tuple[int | str, ...]

    def value(self, assignment: Assignment) -> int:
        """Return the number for one assignment of the parameters. Raises ValueError where one has no value."""
        missing = [factor for factor in self.factors if isinstance(factor, str) and factor not in assignment]
        if missing:
            raise ValueError(f"they lack {missing[0]}")
        return prod(int(assignment[factor]) if isinstance(factor, str) else factor for factor in self.factors)


class Count(NamedTuple):
    """How often an opcode must occur. `high` None: no upper bound."""

    low: IntegerProduct
    high: IntegerProduct | None


@dataclass(frozen=True, slots=True)
class Condition:
    """Where an entry applies: on these targets (none named: on all) and with these values of parameters or sweeps."""

    targets: tuple[str, ...] = ()
    values: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def holds(self, target: str, assignment: Assignment) -> bool:
        """Tell whether the override applies to this target and assignment."""
        return (not self.targets or target in self.targets) and all(
            assignment.get(name) in values for name, values in self.values
        )


@dataclass(frozen=True, slots=True)
class GateRules:
    """What the SASS must look like. In an override, None means: as before."""

    within: str | None = None
    required: tuple[tuple[str, Count], ...] | None = None
    forbidden: tuple[str, ...] | None = None
    allowed: tuple[str, ...] | None = None
    no_zero_operands: tuple[str, ...] | None = None
    chained: tuple[str, ...] | None = None
    together: tuple[str, ...] | None = None
    chains: tuple[tuple[str, IntegerProduct], ...] | None = None
    max_overhead: IntegerProduct | None = None
    emulated_by: tuple[tuple[str, Count], ...] | None = None
    around: tuple[tuple[str, Count], ...] | None = None

    def overlaid(self, other: GateRules) -> GateRules:
        """Return these rules with those of `other` that it gives."""
        given = {name: value for name in self.__slots__ if (value := getattr(other, name)) is not None}
        return replace(self, **given)


@dataclass(frozen=True, slots=True)
class GateSpec:
    """The rules of a probe, and what changes them for a target or a parameter value, in order."""

    base: GateRules
    overrides: tuple[tuple[Condition, GateRules], ...]

    def rules(self, target: str, assignment: Assignment) -> GateRules:
        """Return the rules for one target and one assignment."""
        rules = self.base
        for condition, change in self.overrides:
            if condition.holds(target, assignment):
                rules = rules.overlaid(change)
        return rules


class Argument(NamedTuple):
    """A kernel argument: a role (`clocks`), or a kind with a name or a value (`buffer src`, `f32 1.5`)."""

    kind: str
    name: str | None


class Size(NamedTuple):
    """Bytes that depend on the GPU: the largest of the terms that are given."""

    least: float
    times_l2: float


@dataclass(frozen=True, slots=True)
class Buffer:
    """Device memory that the kernel gets.

    Its size is given, per thread, warp or block of the launch or for the grid, or is that of a sweep. A chase is a
    random cycle of addresses `stride` bytes apart (a size or a sweep), shuffled within windows of `window` bytes.
    """

    size: Size | None
    sweep: str | None
    per: str
    fill: str
    type: str
    stride: float | str | None
    window_bytes: float | None


@dataclass(frozen=True, slots=True)
class Sweep:
    """A run-time variable: its values in base units, or a range with steps per doubling."""

    values: tuple[float, ...]
    first: Size | None = None
    last: Size | None = None
    per_doubling: int | None = None


@dataclass(frozen=True, slots=True)
class LaunchShapes:
    """Launch configurations to try; the first of each is the default. `grid` None: `blocks_per_sm` on every SM.

    `all_blocks`: those of `blocks_per_sm` that an SM has room for, and as many as it has room for.
    """

    block: tuple[IntegerProduct, ...]
    blocks_per_sm: tuple[int, ...]
    all_blocks: bool
    grid: tuple[int, ...] | None
    shared_bytes: IntegerProduct
    carveout: float | None
    cluster: IntegerProduct
    cooperative: bool


class IterationWork(NamedTuple):
    """What one iteration of the timed loop does, per thread, warp, block or for the whole grid."""

    per: str
    iteration: tuple[tuple[str, IntegerProduct], ...]

    def amount(self, what: str, assignment: Assignment) -> int | None:
        """Return FLOP, operations, bytes or results; None where the probe does not count them."""
        return next((amount.value(assignment) for name, amount in self.iteration if name == what), None)


@dataclass(frozen=True, slots=True)
class PhysicalLimit:
    """The physical limit of the result: a named rate of the architecture or the product, or a rate with its source.

    `floor`: the least fraction of it that is believed, with the reason `why`; None: that of all probes.
    """

    condition: Condition
    compute: ComputeKey | None = None
    bandwidth: str | None = None
    operation: str | None = None
    rate: float | None = None
    fraction: float = 1.0
    source: str | None = None
    floor: float | None = None
    why: str | None = None

    @property
    def level(self) -> str | None:
        """Return the memory level that it is the bandwidth of, in either direction."""
        return self.bandwidth.removesuffix("_write") if self.bandwidth is not None else None


@dataclass(frozen=True, slots=True)
class Expected:
    """A published range: in the probe's unit, or as fractions of the limit."""

    condition: Condition
    products: tuple[str, ...]
    low: float
    high: float
    of_limit: bool
    source: str


@dataclass(frozen=True, slots=True)
class Kernel:
    """The CUDA side of a probe."""

    source: Path
    entry: str
    arguments: tuple[Argument, ...]
    parameters: tuple[tuple[str, tuple[str, ...]], ...]
    buffers: Mapping[str, Buffer]
    launch: LaunchShapes
    work: IterationWork
    unrolled: IntegerProduct
    gate: GateSpec
    left_out: tuple[tuple[Condition, str], ...]

    @property
    def clocked(self) -> bool:
        """Tell whether the kernel stamps clocks at both ends of its loop."""
        return Argument("clocks", None) in self.arguments

    def assignments(self, target: str) -> Iterator[dict[str, str]]:
        """Yield the combinations of parameter values for a target, the default (the first of each) first."""
        names = [name for name, _ in self.parameters]
        for values in product(*(values for _, values in self.parameters)):
            assignment = dict(zip(names, values, strict=True))
            if not any(condition.holds(target, assignment) for condition, _ in self.left_out):
                yield assignment


@dataclass(frozen=True, slots=True)
class TileSpec:
    """The product that `check: tile` compares: the fields of `Tile`, of which each may depend on parameters."""

    m: IntegerProduct
    n: IntegerProduct
    k: IntegerProduct
    times: IntegerProduct
    a: str
    b: str
    d: str
    held: tuple[int, ...]
    of: int
    by: str

    def resolved(self, assignment: Assignment) -> Tile:
        """Return the tile for one assignment of the parameters."""
        from gpuprof.characterize.probes.tiles import Tile

        m, n, k, times = (size.value(assignment) for size in (self.m, self.n, self.k, self.times))
        a, b, d, by = (_word(text, assignment) for text in (self.a, self.b, self.d, self.by))
        return Tile(m=m, n=n, k=k, times=times, a=a, b=b, d=d, held=self.held, of=self.of, by=by)


def _word(text: str, assignment: Assignment) -> str:
    """Put the value of a parameter in the place of its name, which is the first word: "TYPE in bytes"."""
    first, space, rest = text.partition(" ")
    return assignment.get(first, first) + space + rest


class Transfer(NamedTuple):
    """What is copied from where to where."""

    source: str
    destination: str


@dataclass(frozen=True, slots=True)
class Probe:
    """One measurement: what it is, how it runs, when its code is the code that was meant, what it should give."""

    name: str
    family: str
    title: str
    quantity: str
    unit: str
    method: str
    statistic: str
    regimes: tuple[str, ...]
    data: tuple[str, ...]
    targets: tuple[str, ...]
    unsupported: Mapping[str, str]
    kernel: Kernel | None
    sweeps: Mapping[str, Sweep]
    along: str | None
    series: tuple[str, ...]
    launched: str | None
    transfer: Transfer | None
    load: str | None
    check: str | None
    tile: TileSpec | None
    limits: tuple[PhysicalLimit, ...]
    expected: tuple[Expected, ...]
    place: FileLine

    @property
    def id(self) -> str:
        """Return "family/name"."""
        return f"{self.family}/{self.name}"

    @property
    def sparse(self) -> bool:
        """Tell whether it multiplies matrices of structured sparsity: of the work that it claims the half is done."""
        return self.tile is not None and bool(self.tile.held)

    def limit(self, target: str, assignment: Assignment) -> PhysicalLimit | None:
        """Return the limit on this target, or None where the probe has none."""
        return next((limit for limit in self.limits if limit.condition.holds(target, assignment)), None)


def all_targets() -> tuple[str, ...]:
    """Return what probes are compiled for, as the specs of architectures name it."""
    return tuple(compile_targets().values())


def target_of(compute_capability: str) -> str | None:
    """Return the target for a device: "9.0" → "sm_90a"; None where probes are compiled for no such device."""
    return target_named("sm_" + compute_capability.replace(".", ""))


def targets_named(text: str) -> tuple[str, ...]:
    """Return the targets that "sm_90", "sm_80..sm_89", "sm_100.." or "..sm_89" mean; none where a name is unknown."""
    first, dots, last = text.partition("..")
    if not dots:
        return tuple(filter(None, [target_named(text)]))
    every = all_targets()
    low, high = target_named(first or every[0]), target_named(last or every[-1])
    if low is None or high is None:
        return ()
    return every[every.index(low) : every.index(high) + 1]


def targets_from(lowest: str) -> tuple[str, ...]:
    """Return a target and all newer ones."""
    every = all_targets()
    return every[every.index(lowest) :]


def target_named(name: str) -> str | None:
    """Return the target that a user means by "sm_90" or "sm_90a"; None if probes are compiled for no such one."""
    return next((target for arch, target in compile_targets().items() if name in {arch, target}), None)
