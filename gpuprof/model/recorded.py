"""What a reader returns: sources, devices and launches as recorded, before any interpretation.

Metric values are in the base units of `gpuprof.units`; percentages stay percent.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Annotated, NamedTuple, Protocol

from msgspec import Struct, field

from gpuprof.hardware.device import RecordedDevice
from gpuprof.model.field_types import Celsius, Fraction, Hertz, Watts, Whole, Word, about

Dim3 = tuple[Whole, Whole, Whole]


def dims_text(size: Dim3) -> str:
    """Write a grid or block without trailing ones: (65535, 1, 1) → "65535", (32, 24, 1) → "32×24"."""
    dimensions = size if size[2] != 1 else size[:2] if size[1] != 1 else size[:1]
    return "×".join(map(str, dimensions))


def configuration_text(grid: Dim3 | None, block: Dim3 | None) -> str:
    """Write grid and block in a few characters: "65535×128", "(32,24)×(16,16)"; empty where one is not known."""
    if grid is None or block is None:
        return ""
    return "×".join(
        f"({','.join(dimensions)})" if len(dimensions) > 1 else dimensions[0]
        for dimensions in (dims_text(size).split("×") for size in (grid, block))
    )


class Metric(Struct, frozen=True):
    """One recorded value in a base unit. `digits` tells how many significant digits a printed source kept."""

    value: float | str
    unit: str
    digits: int | None = None


def printed_rounding(number: float, digits: int | None) -> float:
    """Return half a unit of the last digit that was kept, as a fraction of the value; zero if nothing was rounded.

    Of "0.00" no digit was kept: all of it can be rounding. Units scale by powers of ten, which leave the digits as they
    are.
    """
    if digits == 0:
        return 1.0
    if digits is None or not number:
        return 0.0
    leading = number / math.pow(10.0, math.floor(math.log10(number)))
    return 0.5 * 10.0 ** (1 - digits) / leading


class Missing(Struct, frozen=True):
    """A value that is not known: what, why, and what would make it known."""

    what: Annotated[str, about("names of the values")]
    why: Annotated[str, about("what the source lacks")]
    how: Annotated[str, about("what would make it known")]


SASS_TEXT, SOURCE_LINES = "SASS text", "source lines"
"""Parts of a kernel's code that can be missing."""


class MetricTable(Protocol):
    """The metrics of one launch. A name that was not recorded gives None, never zero."""

    __slots__ = ()

    def get(self, name: str) -> Metric | None:
        """Return the metric of that exact name."""
        ...

    def number(self, name: str) -> float | None:
        """Return its value where it is a number."""
        metric = self.get(name)
        return plausible(metric.value) if metric is not None else None

    def digits(self, name: str) -> int | None:
        """Return how many significant digits of it a printed source kept; None where nothing was rounded."""
        metric = self.get(name)
        return metric.digits if metric is not None else None

    def has(self, name: str) -> bool:
        """Tell whether there is an entry of that name, even one without a number."""
        return self.get(name) is not None

    def is_strange(self, name: str) -> bool:  # noqa: ARG002
        """Return whether the value of that name has an unknown form, or no unit, and is therefore missing."""
        return False

    def names(self) -> tuple[str, ...]:
        """Return the names of all recorded metrics, sorted."""
        ...

    def instances(self, name: str) -> Mapping[str | int, float] | None:  # noqa: ARG002
        """Return a metric's values by instance: by opcode for a histogram, by program counter for samples."""
        return None


_SMALLEST, _LARGEST = 1e-30, 1e30


def plausible(value: float | str) -> float | None:
    """Return a number that a GPU can have counted: zero, or between 1e-30 and 1e30. Anything else was not measured.

    What is computed from others, negative or infinite, comes from damaged files and would break every ratio.
    """
    if isinstance(value, str) or not (value == 0 or _SMALLEST <= value <= _LARGEST):
        return None
    return value


def whole(value: float | None) -> int | None:
    """Return a number that counts something."""
    return round(value) if value is not None else None


def integer(metrics: MetricTable, name: str) -> int | None:
    """Return a metric as a whole number."""
    return whole(metrics.number(name))


class DictMetrics(MetricTable):
    """A metric table held in memory."""

    __slots__ = ("_instances", "_metrics", "_without_unit")

    def __init__(
        self,
        metrics: Mapping[str, Metric],
        instances: Mapping[str, Mapping[str | int, float]] | None = None,
        without_unit: frozenset[str] = frozenset(),
    ) -> None:
        self._metrics = dict(metrics)
        self._without_unit = without_unit
        self._instances = dict(instances or {})

    def get(self, name: str) -> Metric | None:
        """Return the metric of that exact name."""
        return self._metrics.get(name)

    def is_strange(self, name: str) -> bool:
        """Return whether a number of that name was printed without its unit, and is therefore missing."""
        return name in self._without_unit

    def names(self) -> tuple[str, ...]:
        """Return the names of all recorded metrics, sorted."""
        return tuple(sorted(self._metrics))

    def instances(self, name: str) -> Mapping[str | int, float] | None:
        """Return a metric's values by instance."""
        return self._instances.get(name)


class ProfiledInstruction(Struct, frozen=True):
    """One SASS instruction: its address, text, source position and recorded counts (samples, executions).

    `sass` is empty where the report lacks the code.
    """

    pc: int
    sass: str
    file: str | None
    line: int | None
    counts: Mapping[str, float]


class CodeListing(Struct, frozen=True):
    """All instructions of a kernel and those that were counted in functions that it calls, in address order.

    `start` is the address of the kernel, None where that is not known; `functions` are the symbols of the functions by
    their addresses, empty where only the address is known. What was not executed has no counts.
    """

    start: int | None = None
    functions: Mapping[int, str] = field(default_factory=dict)
    instructions: tuple[ProfiledInstruction, ...] = ()


class EmbeddedProgram(NamedTuple):
    """The cubin that a source embeds of a launch, and the name of the kernel's symbol in it."""

    mangled: str
    cubin: bytes


class LaunchDetails(Struct, frozen=True):
    """What a source holds about a launch beyond its metrics, read on demand, because it can be large.

    These are the details of a text export or of a trace: nothing. A report has its own.
    """

    def source_files(self) -> Mapping[str, str]:
        """Return embedded source text by file name; empty text where only the name was recorded."""
        return {}

    def instructions(self, counts: tuple[str, ...] | None = None) -> tuple[ProfiledInstruction, ...]:  # noqa: ARG002
        """Return the SASS in address order, with source positions and the named counts (None: all) of each one."""
        return ()

    def listing(self, counts: tuple[str, ...]) -> CodeListing:  # noqa: ARG002
        """Return every instruction of the kernel, counted or not, with the named counts."""
        return CodeListing()

    def machine_code(self) -> bytes:
        """Return the kernel's machine code, 16 bytes an instruction, executed or not; empty where none is embedded."""
        return b""

    def code_start(self) -> int | None:
        """Return the address of the kernel's first instruction; None where it is not known."""
        return None

    def program(self) -> EmbeddedProgram | None:
        """Return the cubin that the kernel is in; None where none is embedded."""
        return None

    def code_gaps(self) -> tuple[Missing, ...]:
        """Return what is missing of the kernel's code, with reasons: SASS_TEXT, SOURCE_LINES."""
        return ()


WHOLE_GRAPH = "graph"
"""The kind of a launch that is a CUDA graph which ncu profiled as one."""


class Launch(Struct, frozen=True):
    """One profiled kernel launch, range or graph, as recorded. `mangled` is its symbol's name, where that is known.

    A source may have only averages over several invocations, and the durations of the shortest and longest one.
    """

    name: str
    demangled: str
    device: int
    kind: str = "kernel"
    process: int | None = None
    stream: int | None = None
    grid: Dim3 | None = None
    block: Dim3 | None = None
    ranges: tuple[str, ...] = ()
    metrics: MetricTable = field(default_factory=lambda: DictMetrics({}))
    details: LaunchDetails = field(default_factory=LaunchDetails)
    mangled: str | None = None
    invocations: int = 1
    duration_range_s: tuple[float, float] | None = None


class Throttling(Struct, frozen=True):
    """Why the driver lowered the clocks, and in which share of the samples."""

    reason: Annotated[Word, about("the driver's reason")]
    share: Annotated[Fraction, about("of the samples")]


class GpuSamples(Struct, frozen=True, kw_only=True):
    """What the driver said of a GPU while the program ran, in the samples in which it was not idle."""

    gpu: Annotated[Whole, about("its number on the machine")]
    name: Annotated[str, about("product name")]
    samples: Annotated[Whole, about("samples in which it was not idle")]
    sm_clock_min_hz: Annotated[Hertz | None, about("lowest SM clock")]
    sm_clock_median_hz: Annotated[Hertz | None, about("median SM clock")]
    sm_clock_max_hz: Annotated[Hertz | None, about("highest SM clock")]
    power_max_w: Annotated[Watts | None, about("highest power")]
    temperature_max_c: Annotated[Celsius | None, about("highest temperature")]
    throttling: Annotated[
        tuple[Throttling, ...] | None, about("why the driver lowered clocks; null: not known, empty: it did not")
    ]


class Report(Struct, frozen=True):
    """One file as read. `warnings` are sentences about what could not be read of it.

    `names` holds every metric name that can occur in it, where the file lists them.
    """

    file: str
    sha256: str
    kind: str
    tool: str
    tool_version: str | None
    launches: tuple[Launch, ...]
    devices: tuple[RecordedDevice, ...]
    clock_control: str | None = None
    cache_control: str | None = None
    command: str | None = None
    driver: str | None = None
    created_s: int | None = None
    names: frozenset[str] | None = None
    warnings: tuple[str, ...] = ()
    samples: tuple[GpuSamples, ...] = ()
    rank: int | None = None

    def __iter__(self) -> Iterator[Launch]:
        return iter(self.launches)


def names_of(launches: Iterable[Launch]) -> frozenset[str]:
    """Return the names of all metrics, so that a metric that no launch has is looked up once."""
    return frozenset(chain.from_iterable(launch.metrics.names() for launch in launches))
