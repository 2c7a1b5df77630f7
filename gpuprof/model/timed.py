"""What tells the group and the time of a kernel: all that is read of most launches of a session that has thousands."""

from __future__ import annotations

from msgspec import Struct

from gpuprof.model.field_types import ByteCount, Fraction, Hertz, Positive, Seconds, Whole
from gpuprof.model.recorded import Dim3
from gpuprof.model.session import Averages, DurationSpread, KernelProfile, LaunchTimes

COUNTED, GRAPH_REPLAY = "counters", "graph-replay"
"""Sources of durations from ncu: of a kernel, and of a CUDA graph that it replayed as a whole. On an H100 a graph of
three kernels took 140 to 328 µs, and the kernels one by one 8.7 µs in all. They are never added or compared."""
BY_NCU = frozenset((COUNTED, GRAPH_REPLAY))


class TimedKernel(Struct, frozen=True, kw_only=True):
    """These fields of a `KernelProfile`, as they are there."""

    id: Whole
    source: Whole
    device: Whole
    demangled: str
    ranges: tuple[str, ...]
    grid: Dim3 | None
    block: Dim3 | None
    registers_per_thread: Whole | None
    shared_memory_per_block: ByteCount | None
    launches: Positive
    duration_s: Seconds | None
    duration_percentiles_s: DurationSpread | None
    duration_source: str | None
    time_total_s: Seconds | None
    time_share: Fraction | None
    sm_clock_hz: Hertz | None
    launch_times: LaunchTimes | None = None
    averages: Averages | None = None


Groupable = KernelProfile | TimedKernel
"""What tells which kernels are alike."""
