"""The result of an analysis: exactly the values of the JSON contract, version 1, as frozen dataclasses.

Base SI units, the unit in the name. None means missing, and `missing` says why; zero means measured zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuprof.model.report import Dim3, Missing

if TYPE_CHECKING:
    import pandas

SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class Source:
    """A file that the session was made from."""

    file: str
    sha256: str
    kind: str
    tool: str
    tool_version: str | None
    clock_control: str | None
    cache_control: str | None
    command: str | None
    driver: str | None = None
    created_s: int | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU of the session and the spec that describes it (None: only its architecture's facts are used)."""

    id: int
    name: str | None
    compute_capability: str | None
    sm_count: int | None
    spec: str | None


@dataclass(frozen=True, slots=True)
class Ceiling:
    """A limit that percentages refer to: FLOP/s (OP/s for integers) of a path, or bytes/s of a level."""

    device: int
    id: str
    kind: str
    path: str | None
    level: str | None
    value: float
    clock_hz: float | None
    origin: str
    source: str


@dataclass(frozen=True, slots=True)
class Work:
    """Floating-point (or integer) operations of one path. `flop` is None where only the rate was recorded."""

    path: str
    flop: float | None
    flop_per_s: float | None
    basis: str


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes at one memory level, and which counters define them. None where only the rate was recorded."""

    level: str
    bytes: float | None
    bytes_per_s: float | None
    definition: str
    basis: str


@dataclass(frozen=True, slots=True)
class RooflinePoint:
    """A kernel under one roof: intensity in FLOP/byte, and the fraction of what the roof allows at that intensity."""

    path: str
    level: str
    intensity: float
    flop_per_s: float
    roof_flop_per_s: float
    fraction_of_roof: float
    ceiling: str
    bound: str


@dataclass(frozen=True, slots=True)
class Throughput:
    """Nsight Compute's speed of light of one unit, as a fraction of its peak over all elapsed cycles.

    `definition` says so where only another fraction was recorded, such as that "of active cycles".
    """

    unit: str
    fraction: float
    definition: str | None = None


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Resident warps as a fraction of the SM's limit, and what limits them."""

    theoretical: float | None
    achieved: float | None
    limiters: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Stall:
    """A warp state. `cycles_per_issue` are warp cycles in it per issued instruction (counter family only)."""

    reason: str
    share: float
    cycles_per_issue: float | None
    family: str


@dataclass(frozen=True, slots=True)
class KernelProfile:
    """One profiled launch, or a group of equal launches."""

    id: int
    source: int
    device: int
    rank: int | None
    process: int | None
    stream: int | None
    name: str
    demangled: str
    label: str
    ranges: tuple[str, ...]
    grid: Dim3 | None
    block: Dim3 | None
    registers_per_thread: int | None
    shared_memory_per_block: int | None
    launches: int
    duration_s: float | None
    duration_percentiles_s: None
    duration_source: str | None
    time_total_s: float | None
    time_share: float | None
    sm_clock_hz: float | None
    throttled: bool | None
    work: tuple[Work, ...]
    traffic: tuple[Traffic, ...]
    roofline: tuple[RooflinePoint, ...]
    throughput: tuple[Throughput, ...]
    occupancy: Occupancy
    stalls: tuple[Stall, ...]
    findings: tuple[()]
    missing: tuple[Missing, ...]


@dataclass(frozen=True, slots=True)
class Session:
    """Everything that the presenters show."""

    schema_version: int
    gpuprof_version: str
    sources: tuple[Source, ...]
    devices: tuple[Device, ...]
    ceilings: tuple[Ceiling, ...]
    kernels: tuple[KernelProfile, ...]
    timeline: None = None
    ranking: tuple[()] = ()

    def to_dataframe(self) -> pandas.DataFrame:
        """Return a pandas DataFrame with one row a kernel, the columns of `gpuprof.model.table.rows`."""
        import pandas

        from gpuprof.model.table import rows

        return pandas.DataFrame.from_records(rows(self))
