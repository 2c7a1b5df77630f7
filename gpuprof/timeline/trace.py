"""A timeline as recorded: everything that the GPUs did, when, and what the program said it was doing."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from msgspec import Struct

from gpuprof.hardware.device import RecordedDevice
from gpuprof.model.kernel_kinds import COMMUNICATION, kind_by_name
from gpuprof.model.recorded import Dim3
from gpuprof.timeline.intervals import TimeInterval

KERNEL, COPY, SET, TRY = "kernel", "copy", "memory set", "autotuning"
"""What a GPU does: runs a kernel, copies memory, sets memory, or runs a kernel that an autotuner tries."""
GRAPH = "CUDA graph"
"""What a GPU does, too: replays a CUDA graph that was recorded as a whole, without its kernels and copies."""
DIRECTIONS = ("host to device", "device to host", "device to device", "peer to peer", "host to host")
"""The names of copies; a copy whose direction was not recorded is called "copy"."""
PAGEABLE, PINNED, UNIFIED = "pageable", "pinned", "unified"
"""The memory that a copy reads or writes on the host, or that the driver moves by pages."""
PROFILER_STEP = "ProfilerStep"
"""What PyTorch's profiler calls the steps that a program marks for it."""
OPTIMIZER_STEP = "optimizer step"
"""What is called a step from the end of one call of an optimizer to the end of the next."""
MODULE_CALL = "call of "
"""A step from one call of an outermost module to the next is called so, with the module's name behind it."""

SDPA_MATH = "aten::_scaled_dot_product_attention_math"
"""The operator with which PyTorch computes scaled_dot_product_attention without a fused kernel."""

STACKS, SHAPES, MEMORY = "stacks", "shapes", "memory"
"""What PyTorch's profiler records at the cost of the program's time, if it was asked to."""


class Collective(Struct, frozen=True):
    """What a communication kernel does, if the trace says so: "all_reduce", bytes of one rank, number of ranks.

    `group` names the ranks that do it together, and `number` counts what they did; None in older traces.
    """

    name: str
    bytes: int | None
    ranks: int | None
    group: str | None = None
    number: int | None = None


TensorShape = tuple[int, ...]


class MatrixProduct(Struct, frozen=True):
    """A call of one of PyTorch's operators that multiply matrices, convolutions and attention included.

    `start_s` as of an activity. `shapes` are those of its inputs in their order, None for an input that is no tensor,
    and None in all if the trace has no shapes. `dtypes` and `settings` are the data types and the values of the
    inputs as the trace writes them, "" if it has none; there are no `settings` before PyTorch 2.1. `strides` are
    those of `shapes`, empty if the trace has none.
    """

    name: str
    start_s: float
    shapes: tuple[TensorShape | None, ...] | None
    dtypes: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    strides: tuple[TensorShape | None, ...] = ()


class Activity(NamedTuple):
    """One thing that a GPU did. Times in seconds since the start of the trace; a time that was not recorded is None.

    `name` is a kernel's demangled name, the direction of a copy, or the number of a whole graph: "graph 3". `ranges`
    were open when it was launched, outermost first, without steps. `operator` is the framework's operator that launched
    it, with shapes if recorded. `device` counts the trace's devices from 0. `shared_bytes` are per block, static and
    dynamic. `launched_s` is when the program launched it, far in the past if before the recording, `queued_s` the time
    from the end of that call to its start, and `call` the number of the call that did, which grows with the calls of
    its process; all of a graph has the number of its launch. `product` is the place in the trace's products of the one
    that launched it. `graph_launch` is the same for all that one launch of a CUDA graph did, and for nothing else in
    the trace. `operand_bytes` are those that its operator reads and writes, each once; None unless that is point-wise
    and launched nothing else. `memory` is the host's end of a copy, or unified memory. `in_sdpa`: PyTorch's
    scaled_dot_product_attention launched it because it chose no fused kernel.
    """

    kind: str
    name: str
    device: int
    start_s: float
    duration_s: float | None
    stream: int | None = None
    grid: Dim3 | None = None
    block: Dim3 | None = None
    registers_per_thread: int | None = None
    shared_bytes: int | None = None
    bytes: int | None = None
    ranges: tuple[str, ...] = ()
    operator: str | None = None
    mangled: str | None = None
    process: int | None = None
    collective: Collective | None = None
    launched_s: float | None = None
    queued_s: float | None = None
    call: int | None = None
    product: int | None = None
    graph_launch: Hashable = None
    operand_bytes: int | None = None
    memory: str | None = None
    in_sdpa: bool = False

    @property
    def interval(self) -> TimeInterval:
        """Return when it begins and ends; one without a duration is an instant."""
        return self.start_s, self.start_s + (self.duration_s or 0.0)

    @property
    def launch_s(self) -> float:
        """Return when the program launched it, or when it began if only that is known."""
        return self.launched_s if self.launched_s is not None else self.start_s

    @property
    def is_kernel(self) -> bool:
        """Return whether it is a kernel."""
        return self.kind == KERNEL

    @property
    def runs_kernels(self) -> bool:
        """Return whether it is a kernel, or a whole graph, whose kernels are not known one by one."""
        return self.kind in (KERNEL, GRAPH)

    @property
    def computes(self) -> bool:
        """Return whether it runs kernels that do not exchange data with other GPUs, as far as that is known."""
        return self.runs_kernels and not is_communication(self.name)


class HostWait(NamedTuple):
    """A call in which a process waited for a GPU, such as cudaStreamSynchronize. All as of an activity.

    `operator` is the outermost one of the framework around the call, such as `aten::item`; None if none is known.
    """

    start_s: float
    end_s: float
    process: int | None = None
    operator: str | None = None


class ProgramStep(Struct, frozen=True):
    """A step of the program: a profiler's, from one call of its optimizer or module to the next, or an NVTX range that
    comes again. Times as of an activity."""

    name: str
    start_s: float
    duration_s: float
    thread: Hashable = None

    @property
    def interval(self) -> TimeInterval:
        """Return when it begins and ends."""
        return self.start_s, self.start_s + self.duration_s


class Trace(Struct, frozen=True):
    """One file as read. `activities`, `steps` and `products` come in the order of their start; of products only those
    that launched something on a GPU. `kind` is one of a timeline in `sources.SOURCE_KINDS`. `from_start`: it surely
    begins with the program. `host_waits` come in the order of their end; None if no calls of CUDA were recorded.
    `profiler_calls`: the program calls cudaProfilerStart or cudaProfilerStop. `hook_ranges` are the names of the ranges
    that gpuprof opened in it; None if that is not known. `recorded` says what the profiler recorded beside times,
    which slows the program: STACKS, SHAPES, MEMORY. `overhead` is when it worked itself, such as
    flushing a buffer, by start. `incomplete`: some of what the GPUs did may be missing, so that a pause may be none."""

    file: str
    sha256: str
    kind: str
    tool: str
    tool_version: str | None
    devices: tuple[RecordedDevice, ...]
    activities: tuple[Activity, ...]
    steps: tuple[ProgramStep, ...] = ()
    rank: int | None = None
    ranks: int | None = None
    peak_memory_bytes: int | None = None
    driver: str | None = None
    created_s: float | None = None
    command: str | None = None
    warnings: tuple[str, ...] = ()
    products: tuple[MatrixProduct, ...] = ()
    from_start: bool = False
    host_waits: tuple[HostWait, ...] | None = None
    profiler_calls: bool = False
    hook_ranges: frozenset[str] | None = None
    recorded: frozenset[str] = frozenset()
    overhead: tuple[TimeInterval, ...] = ()
    incomplete: bool = False


def is_communication(name: str) -> bool:
    """Return whether a kernel of this name exchanges data with other GPUs."""
    return kind_by_name(name) == COMMUNICATION


def movement(activity: Activity) -> str:
    """Return the direction of a copy, or the name of another kind of activity that is no kernel."""
    return activity.name if activity.kind == COPY else activity.kind
