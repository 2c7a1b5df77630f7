"""What measuring asks of a GPU: a protocol, and the values that cross it. `device` answers it with CuPy and NVML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from gpuprof.errors import GpuprofError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Records = NDArray[np.void]
    """One record a block, of RECORD."""

RECORD = [
    ("begin_cycles", "<u8"), ("end_cycles", "<u8"), ("begin_ns", "<u8"), ("end_ns", "<u8"),
    ("sm", "<u4"), ("padding", "<u4"),
]  # fmt: skip
"""The struct Clocks of probe.cuh as numpy reads it."""
RECORD_BYTES = 40

PATIENCE_S = 5.0
"""A launch has at least so long; one that takes longer hangs, unless it was said to take long."""

MemoryKind = Literal["device", "pinned", "pageable", "peer"]
"""Memory of this GPU, page-locked and pageable memory of the host, memory of another GPU."""
Way = Literal["synchronous", "queued", "graph"]
"""How launches follow each other: each waited for, all in a row, all in one graph."""


class DeviceError(GpuprofError):
    """A CUDA call failed. `fatal`: nothing works after it until `restart`, such as after an illegal address."""

    def __init__(self, message: str, *, fatal: bool = False) -> None:
        super().__init__(message)
        self.fatal = fatal


class OutOfMemory(DeviceError):
    """The GPU has not as much memory left."""


class Hung(DeviceError):
    """A call that does not come back. What hangs cannot be called off: the process that has made it must end."""

    def __init__(self, message: str) -> None:
        super().__init__(message, fatal=True)


class Stopped(Exception):
    """The user wants the run to end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NvmlSettings:
    """What NVML knows of the GPU that does not change while it is measured; None where it does not say.

    `cpus`: the processors on its side of the host ("0-15,64-79"); the process that holds it keeps to them.
    """

    pci_id: str | None = None
    pci_subsystem: str | None = None
    driver: str | None = None
    ecc: bool | None = None
    mig: bool | None = None
    mps: bool | None = None
    persistence: bool | None = None
    power_limit_w: float | None = None
    default_power_limit_w: float | None = None
    max_sm_clock_hz: float | None = None
    max_memory_clock_hz: float | None = None
    max_pcie_generation: int | None = None
    max_pcie_width: int | None = None
    cpus: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Properties(NvmlSettings):
    """What the GPU is and how it is set. Clocks in Hz, sizes in bytes; None where nobody says."""

    name: str
    compute_capability: str
    sm_count: int
    memory_bytes: float
    l2_bytes: float
    shared_per_block: int
    threads_per_sm: int
    memory_bus_bits: int | None = None
    cuda: str | None = None
    peers: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Telemetry:
    """What the driver says of the GPU at one moment. `energy_j` counts from some start."""

    sm_clock_hz: float | None = None
    memory_clock_hz: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    reasons: int | None = None
    energy_j: float | None = None
    pcie_generation: int | None = None
    pcie_width: int | None = None


class Others(NamedTuple):
    """Other processes on the GPU: how many the driver shows, and how busy the GPU is without us (fraction)."""

    processes: int | None
    busy: float | None


class Memory(NamedTuple):
    """An allocation of device memory."""

    address: int
    bytes: int


class Function(Protocol):
    """A loaded kernel."""

    @property
    def entry(self) -> str:
        """Return its name."""
        ...


@dataclass(frozen=True, slots=True)
class LaunchConfiguration:
    """How a kernel is launched: blocks of the grid, threads of a block, dynamic shared memory.

    `carveout`: the preferred shared memory carveout, as a fraction of the most that an SM can have; a hint that the
    driver need not follow. None: the driver chooses.
    """

    grid: int
    block: int
    shared_bytes: int = 0
    carveout: float | None = None
    cooperative: bool = False


class Timed(NamedTuple):
    """One launch: seconds between the events around it, a record of each block, and what NVML said meanwhile."""

    seconds: float
    records: Records | None
    telemetry: Telemetry | None


class Gpu(Protocol):
    """One GPU. Every call may raise DeviceError; one that another process makes, Stopped as well."""

    @property
    def properties(self) -> Properties:
        """Return what it is."""
        ...

    def telemetry(self) -> Telemetry:
        """Return its clocks, power, temperature and throttle reasons now."""
        ...

    def others(self) -> Others:
        """Return who else uses it. Only right while this process does nothing on it."""
        ...

    def now(self) -> float:
        """Return seconds of a clock that never goes back."""
        ...

    def wait(self, seconds: float) -> None:
        """Do nothing for so long."""
        ...

    def free_bytes(self) -> int:
        """Return how much memory is left."""
        ...

    def allocate(self, size: int) -> Memory:
        """Return fresh memory. Raises OutOfMemory."""
        ...

    def release(self, memory: Memory) -> None:
        """Give memory back."""
        ...

    def zero(self, memory: Memory) -> None:
        """Fill with zeros."""
        ...

    def repeat(self, memory: Memory, pattern: bytes) -> None:
        """Fill with copies of `pattern`, the last one cut where the memory ends."""
        ...

    def scatter(self, memory: Memory, stride: int, values: NDArray[np.uint64]) -> None:
        """Write 64-bit words `stride` bytes apart from the start, and nothing between them."""
        ...

    def read(self, memory: Memory, size: int) -> bytes:
        """Return the first bytes of memory."""
        ...

    def load(self, cubin: bytes, sha256: str, entry: str) -> Function:
        """Load a kernel of a cubin that must have this SHA-256: the very bytes that the gate saw."""
        ...

    def blocks_at_once(self, function: Function, block: int, shared_bytes: int) -> int:
        """Return how many blocks can be resident on one SM, by CUDA's occupancy calculator."""
        ...

    def time(
        self,
        function: Function,
        shape: LaunchConfiguration,
        arguments: Sequence[np.generic],
        clocks: Memory | None,
        *,
        watched: bool = False,
        patience_s: float = PATIENCE_S,
    ) -> Timed:
        """Launch once and wait. `clocks` is where the kernel writes its records; `watched` asks NVML meanwhile.

        Raises Hung for a kernel that has not ended after `patience_s`.
        """
        ...

    def launches(
        self, function: Function, shape: LaunchConfiguration, arguments: Sequence[np.generic], count: int, way: Way
    ) -> float:
        """Return the seconds of `count` launches."""
        ...

    def copies(self, source: MemoryKind, target: MemoryKind, size: int, count: int) -> float:
        """Return the seconds of `count` copies of `size` bytes. Raises DeviceError where what arrives is not equal."""
        ...

    def end_copies(self) -> None:
        """Give back the memory that the copies have used."""
        ...

    def restart(self) -> None:
        """Begin anew after what was fatal: memory and kernels are gone. Raises DeviceError where the GPU is lost."""
        ...
