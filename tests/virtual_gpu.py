"""The fake GPU in the shape of an H200, on a virtual clock that charges what calls take on a real server.

The prices are round numbers at the slow end of what CUDA and NVML take; none was measured here. Nothing sleeps.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuprof.characterize.judge.limits import Bound, probe_limit
from gpuprof.characterize.on_gpu.environment import place_of
from gpuprof.characterize.probes.library import load_probes, probe_folder, select
from gpuprof.characterize.probes.probe import Probe
from gpuprof.characterize.probes.probe_file import UNITS
from gpuprof.characterize.record.gpu import (
    PATIENCE_S,
    Function,
    LaunchConfiguration,
    Memory,
    MemoryKind,
    Others,
    Telemetry,
    Timed,
    Way,
)
from gpuprof.hardware.library import SpecLibrary
from gpuprof.model.quantities import Clocks
from gpuprof.resources import data_dir
from tests.fake_gpu import GIB, MEMORY_HZ, MIB, PROPERTIES, Call, FakeFunction, FakeGpu, Law, Misbehaviour

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

BOOST_HZ, HEAVY_HZ, IDLE_HZ = 1.98e9, 1.68e9, 0.345e9
"""The clock of a light kernel, of one that draws all the power there is, and of an idle GPU."""
_WAKES_S, _FALLS_S, _RESTS_S = 0.02, 0.6, 2.0
"""How fast the clock rises from idle, falls under load, and after how long without any the GPU idles."""
H200 = replace(
    PROPERTIES,
    name="NVIDIA H200",
    compute_capability="9.0",
    sm_count=132,
    memory_bytes=141 * GIB,
    l2_bytes=50 * MIB,
    shared_per_block=227 * 1024,
    memory_bus_bits=6144,
    pci_id="10de:2335",
    max_sm_clock_hz=BOOST_HZ,
    max_memory_clock_hz=3.201e9,
    power_limit_w=700.0,
    default_power_limit_w=700.0,
    max_pcie_generation=5,
)
WORK = {"FLOP": "flop", "OP": "op", "B": "byte", "result": "result"}
CALL_S = 150e-6
"""The way to the process that holds the GPU and back, and what CuPy does there."""
NVML_S = 0.7e-3
"""One question to NVML."""
ALLOCATE_S, ALLOCATE_S_PER_BYTE = 100e-6, 1e-3 / GIB
SET_BYTES_PER_S, COPY_BYTES_PER_S = 2e12, 1.5e12
SCATTER_S = 25e-9
"""A word of a strided copy."""
SEND_BYTES_PER_S = 2e9
"""Through the pipe to the process that holds the GPU."""
LOAD_S = 3e-3
L1_CYCLES, L2_CYCLES, DRAM_CYCLES, TLB_CYCLES = 33.0, 270.0, 620.0, 400.0
TOUCH_CYCLES = 4.0
"""A node where 256 loads are in flight."""


class VirtualGpu(FakeGpu):
    """A GPU on which everything takes its time."""

    def __init__(self, probes: Sequence[Probe], laws: Mapping[str, Law] | None = None, **words: Any) -> None:
        self._hz, self._last_launch = IDLE_HZ, -10.0
        bad = words.pop("bad", Misbehaviour())
        bad.sm_hz = lambda _time: self._hz
        super().__init__(probes, laws, properties=words.pop("properties", H200), bad=bad, **words)
        self.laws = {probe.kernel.entry: law for probe in probes if probe.kernel is not None} | self.laws
        self.rates = {("pinned", "device"): 50e9, ("device", "pinned"): 50e9, ("device", "device"): 2e12}

    def charge(self, seconds: float) -> None:
        """Let so much time pass."""
        self.clock += seconds

    def telemetry(self) -> Telemetry:
        self.charge(7 * NVML_S)
        return replace(super().telemetry(), pcie_generation=5)

    def others(self) -> Others:
        self.charge(2 * NVML_S)
        return super().others()

    def free_bytes(self) -> int:
        self.charge(CALL_S)
        return super().free_bytes()

    def allocate(self, size: int) -> Memory:
        self.charge(CALL_S + ALLOCATE_S + size * ALLOCATE_S_PER_BYTE)
        return super().allocate(size)

    def release(self, memory: Memory) -> None:
        self.charge(CALL_S + ALLOCATE_S + memory.bytes * ALLOCATE_S_PER_BYTE / 2)
        super().release(memory)

    def zero(self, memory: Memory) -> None:
        self.charge(CALL_S + memory.bytes / SET_BYTES_PER_S)
        super().zero(memory)

    def repeat(self, memory: Memory, pattern: bytes) -> None:
        doublings = math.log2(max(2.0, memory.bytes / len(pattern)))
        self.charge(CALL_S + 20e-6 * doublings + 2 * memory.bytes / COPY_BYTES_PER_S)
        super().repeat(memory, pattern)

    def scatter(self, memory: Memory, stride: int, words: NDArray[np.uint64]) -> None:
        self.charge(CALL_S + SCATTER_S * len(words) + words.nbytes / SEND_BYTES_PER_S)
        super().scatter(memory, stride, words)

    def read(self, memory: Memory, size: int) -> bytes:
        self.charge(CALL_S + size / SEND_BYTES_PER_S)
        return super().read(memory, size)

    def load(self, cubin: bytes, sha256: str, entry: str) -> Function:
        self.charge(LOAD_S)
        return super().load(cubin, sha256, entry)

    def time(self, function: Function, shape: LaunchConfiguration, *words: Any, **named: Any) -> Timed:
        assert isinstance(function, FakeFunction)
        began = self.clock
        if began - self._last_launch > _RESTS_S:
            self._hz = IDLE_HZ
        self.charge(CALL_S + shape.grid * 40 / SEND_BYTES_PER_S)
        watched = named.pop("watched", False)
        timed = super().time(function, shape, *words, **named)
        # What the kernel does before its first stamp is in the time between the events only.
        kernel = function.probe.kernel
        if kernel is not None and "chain" in kernel.buffers:
            before_s = set_up_cycles(self._call(function, shape, words[0])) / self._hz
            self.charge(before_s)
            timed = timed._replace(seconds=timed.seconds + before_s)
        assert timed.seconds < named.get("patience_s", PATIENCE_S)
        if watched:
            # NVML is asked while the kernel runs; a short one ends before it has answered.
            self.charge(max(0.0, 2 * NVML_S - timed.seconds))
            timed = timed._replace(telemetry=FakeGpu.telemetry(self))
        self._drift(function.probe, self.clock - began)
        self._last_launch = self.clock
        return timed

    def _drift(self, probe: Probe, seconds: float) -> None:
        target = HEAVY_HZ if probe.family == "tensor" else BOOST_HZ
        slow = _WAKES_S if self._hz < target else _FALLS_S
        self._hz = target + (self._hz - target) * math.exp(-seconds / slow)

    def launches(
        self, function: Function, shape: LaunchConfiguration, arguments: Sequence[np.generic], count: int, way: Way
    ) -> float:
        self.charge(CALL_S + 5e-6 * count)
        return super().launches(function, shape, arguments, count, way)

    def copies(self, source: MemoryKind, target: MemoryKind, size: int, count: int) -> float:
        self.charge(CALL_S + 2 * min(size, 2 * MIB) / 5e9)
        return super().copies(source, target, size, count)


def law(call: Call) -> float:
    """Nine tenths of what limits the kernel, and latencies of the level that holds what is walked through."""
    kernel = call.kernel
    if "ways" in call.arguments:
        return 32 * (call.arguments["ways"] + 1.5)
    counted = [what for what, _ in kernel.work.iteration]
    if "result" in counted and call.probe.unit in {"cycle", "B", "block", "s"}:
        return latency(call) * (kernel.work.amount("result", call.names()) or 1)
    what, amount = next((word, call.work(word)) for word in [WORK.get(call.probe.unit.partition("/")[0]), *counted]
                        if word in counted)  # fmt: skip
    unit = call.probe.unit if UNITS.get(call.probe.unit) == what else "B/clk/SM"
    limit = limit_of(call.probe.id, tuple(sorted(call.assignment.items())), unit)
    sms = min(call.shape.grid, H200.sm_count)
    if limit is None:
        return amount / sms / 16.0
    cycles_at_limit = float(amount) / limit
    if unit.endswith("/s"):
        cycles_at_limit *= BOOST_HZ
    if unit.endswith("/SM"):
        cycles_at_limit /= sms
    return cycles_at_limit / 0.9


@cache
def limit_of(probe_id: str, assignment: tuple[tuple[str, str], ...], unit: str) -> float | None:
    """What the judge will hold a result against, in its unit and at the highest clock."""
    (probe,) = select(load_probes(probe_folder()), [probe_id])
    limit = probe.limit("sm_90a", dict(assignment))
    if limit is None:
        return None
    clocks = Clocks(sm_hz=HEAVY_HZ if probe.family == "tensor" else BOOST_HZ, dram_hz=MEMORY_HZ)
    found = probe_limit(limit, place_of(H200, SpecLibrary(folders=(data_dir("specs"),))).hardware, clocks, unit)
    return found.in_unit(unit) if isinstance(found, Bound) else None


def latency(call: Call) -> float:
    size = call.arguments.get("bytes chain", 0.0)
    if size <= 32 * 1024:
        return L1_CYCLES
    if size <= H200.l2_bytes or call.probe.id.startswith("latency/tlb"):
        return L2_CYCLES
    return DRAM_CYCLES + (TLB_CYCLES if size > 32 * GIB else 0)


def set_up_cycles(call: Call) -> float:
    """What the kernel does before its loop: some load every node of the chase, or walk through it once."""
    chain = call.contents.get("chain")
    buffer = call.kernel.buffers.get("chain")
    if not isinstance(chain, Memory) or buffer is None:
        return 0.0
    stride = call.arguments.get(str(buffer.stride)) if isinstance(buffer.stride, str) else buffer.stride
    nodes = call.arguments.get("bytes chain", 0.0) / (stride or 128.0)
    text = source(call.kernel.source)
    if "go_round<" in text:
        return nodes * latency(call)
    return nodes * TOUCH_CYCLES if "touch<" in text else 0.0


@cache
def source(path: Path) -> str:
    return path.read_text(encoding="utf-8")
