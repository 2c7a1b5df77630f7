"""What a case of `microkernels/bottlenecks/` says, as typed values: two kernels, their data and launches, the gate."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, prod
from pathlib import Path
from typing import NamedTuple

from gpuprof.characterize.probes.probe import Argument, Condition, GateRules
from gpuprof.hardware.library import SpecLibrary, compile_targets
from gpuprof.hardware.yaml_tree import FileLine
from gpuprof.resources import data_dir

_PRODUCTS = ("a100-80gb-sxm", "rtx-3090", "rtx-4090", "h200-sxm", "b200", "rtx-5090")
TYPICAL = {compile_targets()[gpu.arch]: gpu for gpu in map(SpecLibrary(folders=(data_dir("specs"),)).gpu, _PRODUCTS)}
"""What the gate looks at: targets, and the product of each architecture whose SMs count for waves."""
TARGETS = tuple(TYPICAL)
SLOW, FIXED = "slow", "fixed"
NONE = "none"
"""In the place of a planted rule: nothing is wrong."""
LAUNCH_GATE = "launch"
"""In the place of a gate: the cause is in the launch or in where a buffer lies, not in the code."""
BLOCK, OCCUPANCY, WIDTH, INSTRUCTIONS = TRAITS = ("block", "occupancy", "width", "instructions")
"""What can make a kernel slow besides its cause: threads a block, resident warps, bytes of a load, instructions."""

FAMILIES = (
    "coalescing", "shared", "occupancy", "launch", "spills", "divergence", "synchronisation", "compute", "memory",
    "tensor", "well-tuned",
)  # fmt: skip
TYPES = ("u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64", "f16", "bf16", "f32", "f64")
SCALARS = ("u32", "u64", "i32", "f32", "f64")
PLACES = ("device", "host")
OPTIONS = ("--device-debug",)
"""Options of the compiler that a case may give one of its kernels."""

Sizes = Mapping[str, int]


class Waves(NamedTuple):
    """A size that depends on the GPU: `by` for each block of so many waves of `slow`."""

    waves: float
    by: int


@dataclass(frozen=True, slots=True)
class Room:
    """What a launch shape may depend on: the SMs of a GPU, and the blocks of `slow` that one of them holds."""

    sm_count: int
    blocks_per_sm: int


class Sum(NamedTuple):
    """`[rows, columns, {plus: 1}]`: a product of sizes and numbers, and something added."""

    factors: tuple[int | str, ...]
    plus: int

    def value(self, sizes: Sizes) -> int:
        """Return the number."""
        return prod(sizes[factor] if isinstance(factor, str) else factor for factor in self.factors) + self.plus


class Extent(NamedTuple):
    """Blocks along one axis: a number, a size divided by what a block does, or so many for each SM; and some more."""

    number: int | None = None
    cover: str | None = None
    by: int = 1
    sms: int | None = None
    plus: int = 0

    def value(self, sizes: Sizes, room: Room) -> int:
        """Return the number of blocks."""
        if self.cover is not None:
            return ceil(sizes[self.cover] / self.by) + self.plus
        if self.sms is not None:
            return self.sms * room.sm_count + self.plus
        return (self.number or 0) + self.plus


class Shape(NamedTuple):
    """A launch shape with numbers."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int

    @property
    def threads(self) -> int:
        """Return the threads of a block."""
        return prod(self.block)

    @property
    def blocks(self) -> int:
        """Return the blocks of the grid."""
        return prod(self.grid)


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """A launch shape as the file gives it."""

    grid: tuple[Extent, ...]
    block: tuple[int, ...]
    shared_bytes: int
    times: int

    def shape(self, sizes: Sizes, room: Room) -> Shape:
        """Return the shape for these sizes on this GPU."""
        grid = [extent.value(sizes, room) for extent in self.grid]
        return Shape(_three(grid), _three(self.block), self.shared_bytes)


def _three(numbers: tuple[int, ...] | list[int]) -> tuple[int, int, int]:
    x, y, z = (*numbers, 1, 1)[:3]
    return x, y, z


class Fill(NamedTuple):
    """How a buffer begins: a kind, and the numbers or names of sizes that it needs."""

    kind: str
    values: tuple[float | str, ...] = ()


@dataclass(frozen=True, slots=True)
class BufferSpec:
    """An array. `result`: both kernels write it and agree within this fraction of its largest value."""

    type: str
    count: Sum
    fill: Fill
    result: float | None
    places: Mapping[str, str]


class Bound(NamedTuple):
    """A number of the compiled kernel or its launch that must be in a range: `sectors` of LDG, `registers`, `waves`."""

    what: str
    opcode: str | None
    low: float | None
    high: float | None


class Twin(NamedTuple):
    """What one of the two kernels must look like."""

    code: GateRules | None
    bounds: tuple[Bound, ...]


class Expected(NamedTuple):
    """The share of time that the fix should save, where that can be worked out."""

    low: float
    high: float
    why: str


@dataclass(frozen=True, slots=True)
class Case:
    """A planted bottleneck and its fix; without `slow` a kernel that needs none.

    `besides`: traits in which `slow` is worse besides its cause, each with why that is no second cause.
    `options`: of the compiler, for each kernel beyond those that all are compiled with.
    """

    source: Path
    title: str
    family: str
    planted_rule: str
    limiter: str | None
    lines: tuple[int, ...]
    not_first: tuple[str, ...]
    roof: str | None
    fix: str | None
    gain: Expected | None
    besides: Mapping[str, str]
    targets: tuple[str, ...]
    unsupported: Mapping[str, str]
    sizes: Mapping[str, int | Waves]
    small: Sizes
    arguments: tuple[Argument, ...]
    buffers: Mapping[str, BufferSpec]
    launches: Mapping[str, LaunchSpec]
    options: Mapping[str, tuple[str, ...]]
    gate: Mapping[str, tuple[tuple[Condition, Twin], ...]] | None
    place: FileLine

    @property
    def name(self) -> str:
        """Return the name."""
        return self.source.stem

    def digest(self) -> str:
        """Return a hash of what the case is made of: its files, and the headers of its folder."""
        files = (self.source, self.source.with_suffix(".yaml"), *sorted(self.source.parent.glob("*.cuh")))
        checksum = hashlib.sha256()
        for file in files:
            checksum.update(file.read_bytes())
        return checksum.hexdigest()

    @property
    def entries(self) -> tuple[str, ...]:
        """Return its kernels."""
        return (FIXED,) if self.planted_rule == NONE else (SLOW, FIXED)

    def twin(self, entry: str, target: str) -> Twin:
        """Return what a kernel must look like on a target: the base, with what overrides it."""
        code: GateRules | None = None
        bounds: dict[tuple[str, str | None], Bound] = {}
        for condition, twin in (self.gate or {}).get(entry, ()):
            if condition.holds(target, {}):
                if twin.code is not None:
                    code = twin.code if code is None else code.overlaid(twin.code)
                bounds.update({(bound.what, bound.opcode): bound for bound in twin.bounds})
        return Twin(code, tuple(bounds.values()))

    def sized(self, room: Room) -> Sizes:
        """Return the sizes on a GPU."""
        return {
            name: size.by * max(1, round(size.waves * room.sm_count * room.blocks_per_sm))
            if isinstance(size, Waves)
            else size
            for name, size in self.sizes.items()
        }
