"""A GPU that is a model: known peaks, latencies and capacities, some noise, and ways to misbehave.

It is fake: its numbers are chosen here, and only tests see them.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from gpuprof.characterize.gates.check import Checked, Variant
from gpuprof.characterize.gates.gate import Judgement
from gpuprof.characterize.on_gpu.device_launches import QUEUE
from gpuprof.characterize.probes.probe import Kernel, Probe
from gpuprof.characterize.record.configurations import iteration_work
from gpuprof.characterize.record.gpu import (
    PATIENCE_S,
    RECORD,
    DeviceError,
    Function,
    LaunchConfiguration,
    Memory,
    MemoryKind,
    Others,
    OutOfMemory,
    Properties,
    Telemetry,
    Timed,
    Way,
)
from gpuprof.sass.tools.compile import Compiled

if TYPE_CHECKING:
    from numpy.typing import NDArray

MIB, GIB = 2**20, 2**30
SM_HZ = 1.5e9
MEMORY_HZ = 2e9
SETUP_CYCLES = 4000

PROPERTIES = Properties(
    name="Fake GPU of the tests", compute_capability="8.0", sm_count=8, memory_bytes=32 * GIB, l2_bytes=4 * MIB,
    shared_per_block=160 * 1024, threads_per_sm=2048, memory_bus_bits=512, pci_id="ffff:0001",
    pci_subsystem="ffff:0002", driver="999.1", cuda="99.0", ecc=True, mig=False, mps=False, persistence=True,
    power_limit_w=400.0, default_power_limit_w=400.0, max_sm_clock_hz=SM_HZ, max_memory_clock_hz=MEMORY_HZ,
    max_pcie_generation=4, max_pcie_width=16,
)  # fmt: skip
DRAM_PEAK = MEMORY_HZ * 2 * 512 / 8
"""What memory clock and bus of the fake allow: 256 GB/s."""


@dataclass(frozen=True)
class Call:
    """One launch as a law sees it."""

    probe: Probe
    kernel: Kernel
    assignment: Mapping[str, str]
    shape: LaunchConfiguration
    arguments: Mapping[str, float]
    contents: Mapping[str, object]

    def names(self) -> dict[str, str]:
        values = {name: str(int(value)) for name, value in self.arguments.items()}
        return {**values, **self.assignment}

    def work(self, what: str) -> float:
        found = iteration_work(self.kernel, what, self.names(), self.shape.grid, self.shape.block)
        assert found is not None, f"{self.probe.id} counts no {what}"
        return found

    def per_sm(self, what: str) -> float:
        return self.work(what) / min(self.shape.grid, PROPERTIES.sm_count)


Law = Callable[[Call], float]
"""Cycles of one iteration."""


def usual(call: Call) -> float:
    """Half of a plausible rate in whatever unit the probe has."""
    unit = call.probe.unit
    counted = [what for what, _ in call.kernel.work.iteration]
    if unit in {"cycle", "B", "block", "s"} and "result" in counted:
        return 40.0 * (call.kernel.work.amount("result", call.names()) or 1)
    what = counted[0]
    if unit.endswith("/s"):
        return call.work(what) / (0.5 * DRAM_PEAK) * SM_HZ
    return call.per_sm(what) / 32.0


@dataclass
class Misbehaviour:
    """What a hostile GPU does; each number counts the calls of `time` from 0."""

    raises: Mapping[int, BaseException] = field(default_factory=dict)
    lost_blocks: int = 0
    events_short: bool = False
    nonlinear: float = 0.0
    nvml_factor: float = 1.0
    reasons: Callable[[float], int] = lambda _time: 0
    sm_hz: Callable[[float], float] = lambda _time: SM_HZ
    wrong_walk: bool = False
    copies_wrong: bool = False


@dataclass(frozen=True)
class FakeFunction:
    entry: str
    probe: Probe
    assignment: Mapping[str, str]


class FakeGpu:
    """The protocol `Gpu` on a model with a clock of its own."""

    def __init__(
        self,
        probes: Sequence[Probe],
        laws: Mapping[str, Law] | None = None,
        *,
        noise: float = 0.0005,
        properties: Properties = PROPERTIES,
        bad: Misbehaviour | None = None,
        others: Others | None = None,
    ) -> None:
        self.properties = properties
        self.laws, self.noise, self.bad = dict(laws or {}), noise, bad or Misbehaviour()
        self._by_entry = {probe.kernel.entry: probe for probe in probes if probe.kernel is not None}
        self._others = others or Others(0, 0.0)
        self._random = np.random.default_rng(0)
        self.clock = 0.0
        self.calls = 0
        self._next = 1 * GIB
        self.memory: dict[int, Memory] = {}
        self.words: dict[int, tuple[int, NDArray[np.uint64]]] = {}
        self.walked: dict[int, list[int]] = {}
        self.bytes_at: dict[int, bytearray] = {}
        self.fail_where: Callable[[str], None] = lambda _entry: None
        self.rates = {("pinned", "device"): 20e9, ("device", "pinned"): 22e9, ("device", "device"): 100e9}
        self.launch_s = {"synchronous": 8e-6, "queued": 2e-6, "graph": 1e-6}
        self.watts = 100.0
        self.by_sm: dict[str, Callable[[Call, int], float]] = {}
        self._made: dict[tuple[int, int], tuple[NDArray[np.void], NDArray[np.uint64]]] = {}
        self.limits: dict[str, int] = {}
        self.restarts, self.gone = 0, False

    # what it says of itself

    def telemetry(self) -> Telemetry:
        hz = self.bad.sm_hz(self.clock) * self.bad.nvml_factor
        return Telemetry(
            sm_clock_hz=hz,
            memory_clock_hz=MEMORY_HZ,
            power_w=self.watts,
            temperature_c=50.0,
            reasons=self.bad.reasons(self.clock),
            energy_j=self.clock * self.watts,
            pcie_generation=4,
            pcie_width=16,
        )

    def others(self) -> Others:
        return self._others

    def now(self) -> float:
        return self.clock

    def wait(self, seconds: float) -> None:
        self.clock += seconds

    # memory

    def free_bytes(self) -> int:
        return int(self.properties.memory_bytes) - sum(one.bytes for one in self.memory.values())

    def allocate(self, size: int) -> Memory:
        if size > self.free_bytes():
            raise OutOfMemory(f"{size} bytes cannot be allocated")
        memory = Memory(self._next, size)
        self._next += (size + 511) // 256 * 256
        self.memory[memory.address] = memory
        return memory

    def release(self, memory: Memory) -> None:
        del self.memory[memory.address]
        self.words.pop(memory.address, None)
        self.walked.pop(memory.address, None)
        self.bytes_at.pop(memory.address, None)

    def zero(self, memory: Memory) -> None:
        self.bytes_at[memory.address] = bytearray(min(memory.bytes, MIB))

    def repeat(self, memory: Memory, pattern: bytes) -> None:
        size = min(memory.bytes, MIB)
        self.bytes_at[memory.address] = bytearray((pattern * (size // len(pattern) + 1))[:size])

    def scatter(self, memory: Memory, stride: int, words: NDArray[np.uint64]) -> None:
        self.words[memory.address] = stride, words
        self.walked[memory.address] = [memory.address]

    def read(self, memory: Memory, size: int) -> bytes:
        return bytes(self.bytes_at.get(memory.address, bytearray(size))[:size])

    # kernels

    def load(self, cubin: bytes, sha256: str, entry: str) -> Function:
        if hashlib.sha256(cubin).hexdigest() != sha256:
            raise DeviceError(f"the cubin of {entry} is not the one that was checked")
        return FakeFunction(entry, self._by_entry[entry], json.loads(cubin))

    def blocks_at_once(self, function: Function, block: int, shared_bytes: int) -> int:
        threads = self.properties.threads_per_sm // max(32, math.ceil(block / 32) * 32)
        return min(64, threads, self.limits.get(function.entry, threads))

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
        number, self.calls = self.calls, self.calls + 1
        if number in self.bad.raises:
            raise self.bad.raises[number]
        self.fail_where(function.entry)
        assert isinstance(function, FakeFunction)
        call = self._call(function, shape, arguments)
        iterations = int(call.arguments.get("iterations", 0))
        cycles = self._cycles(call, iterations)
        hz = self.bad.sm_hz(self.clock)
        seconds = cycles / hz
        self._effects(call, iterations)
        at_once = self.properties.sm_count * self.blocks_at_once(function, shape.block, shape.shared_bytes)
        waves = math.ceil(shape.grid / at_once)
        records = self._records(call, cycles, seconds, at_once) if clocks is not None else None
        seconds *= waves * max(self._factors(call))
        self.clock += seconds + 20e-6
        events = seconds * (0.5 if self.bad.events_short else 1.0) + 3e-6
        return Timed(events, records, self.telemetry() if watched else None)

    def _call(self, function: FakeFunction, shape: LaunchConfiguration, arguments: Sequence[np.generic]) -> Call:
        kernel = function.probe.kernel
        assert kernel is not None
        assert len(arguments) == len(kernel.arguments)
        named: dict[str, float] = {}
        contents: dict[str, object] = {}
        for argument, value in zip(kernel.arguments, arguments, strict=True):
            name = argument.name or argument.kind
            number = float(value.item())
            if argument.kind == "buffer":
                contents[name] = self.memory[int(number)]
            elif argument.kind == "bytes":
                named[f"bytes {name}"] = number
            elif not name.replace(".", "").replace("-", "").isdigit():
                named[name] = number
        return Call(function.probe, kernel, function.assignment, shape, named, contents)

    def _cycles(self, call: Call, iterations: int) -> float:
        each = self.laws.get(call.kernel.entry, usual)(call)
        each *= 1 + self.bad.nonlinear * math.log2(max(iterations, 1))
        # Noise is of the launch; a millionth of it is left where the model has none.
        return SETUP_CYCLES + iterations * each * (1 + self.noise * float(self._random.standard_normal()))

    def _effects(self, call: Call, iterations: int) -> None:
        """Do to memory what the kernel would: only walks are modelled."""
        walk, chain = call.contents.get("walk"), call.contents.get("chain")
        if not isinstance(walk, Memory) or not isinstance(chain, Memory) or chain.address not in self.words:
            return
        steps = iterations * (call.kernel.work.amount("result", call.names()) or 0)
        address = self._end(chain.address, steps)
        if self.bad.wrong_walk:
            address += self.words[chain.address][0]
        self.bytes_at[walk.address] = bytearray(np.array([chain.address, address], dtype=np.uint64).tobytes())

    def _end(self, start: int, steps: float) -> int:
        """Where a walk ends that is not too long; one through the same words goes the same way."""
        stride, words = self.words[start]
        way = self.walked[start]
        while len(way) <= steps <= 4096:
            way.append(words.item((way[-1] - start) // stride))
        return way[int(steps)] if steps <= 4096 else start

    def _records(self, call: Call, cycles: float, seconds: float, at_once: int) -> NDArray[np.void]:
        """Blocks go round the SMs; those that do not fit begin when a wave has ended."""
        grid = call.shape.grid
        records, wave = self._blocks(grid, at_once)
        records = records.copy()
        factor = np.array(self._factors(call))[records["sm"]] if call.kernel.entry in self.by_sm else 1.0
        begin_cycles = records["begin_cycles"] + wave * round(cycles)
        begin_ns = round((self.clock + 1) * 1e9) + wave * round(seconds * 1e9)
        records["begin_cycles"], records["begin_ns"] = begin_cycles, begin_ns
        records["end_cycles"] = begin_cycles + np.round(cycles * factor).astype(np.uint64)
        records["end_ns"] = begin_ns + np.round(seconds * 1e9 * factor).astype(np.uint64)
        if self.bad.lost_blocks:
            for name in ("begin_cycles", "end_cycles", "begin_ns", "end_ns"):
                records[name][: self.bad.lost_blocks] = 0
        return records

    def _blocks(self, grid: int, at_once: int) -> tuple[NDArray[np.void], NDArray[np.uint64]]:
        """Records of so many blocks that say on which SM each runs and when its clock began, and the wave of each."""
        if (grid, at_once) not in self._made:
            records = np.zeros(grid, dtype=np.dtype(RECORD))
            records["sm"] = np.arange(grid) % self.properties.sm_count
            records["begin_cycles"] = 10_000_000 + records["sm"].astype(np.uint64) * 1_000
            self._made[grid, at_once] = records, (np.arange(grid) // at_once).astype(np.uint64)
        return self._made[grid, at_once]

    def _factors(self, call: Call) -> list[float]:
        by_sm = self.by_sm.get(call.kernel.entry)
        return [by_sm(call, sm) for sm in range(self.properties.sm_count)] if by_sm else [1.0]

    def launches(
        self, function: Function, shape: LaunchConfiguration, arguments: Sequence[np.generic], count: int, way: Way
    ) -> float:
        if way == "queued" and count > QUEUE:
            raise DeviceError(f"{count} launches do not fit into the queue")
        seconds = (5e-6 + count * self.launch_s[way]) * (1 + self.noise * float(self._random.standard_normal()))
        self.clock += seconds
        return seconds

    def copies(self, source: MemoryKind, target: MemoryKind, size: int, count: int) -> float:
        if self.bad.copies_wrong:
            raise DeviceError(f"the data copied to {target} memory differs from what was sent")
        rate = self.rates.get((source, target), 5e9)
        seconds = count * (4e-6 + size / rate) * (1 + self.noise * float(self._random.standard_normal()))
        self.clock += seconds
        return seconds

    def end_copies(self) -> None:
        pass

    def restart(self) -> None:
        self.restarts += 1
        if self.gone:
            raise DeviceError("it is not there any more", fatal=True)
        self.memory.clear()
        self.words.clear()
        self.walked.clear()
        self.bytes_at.clear()

    def close(self) -> None:
        pass


def compiled(
    probes: Sequence[Probe], target: str, _tell: Callable[[int, int], None], *, gate: str | None = "pass"
) -> dict[str, tuple[Checked, ...]]:
    """Variants with a cubin that the fake GPU can load: it only says what it was made of. The gate's word is given."""
    found: dict[str, tuple[Checked, ...]] = {}
    for probe in probes:
        if probe.kernel is None or target not in probe.targets:
            continue
        for assignment in probe.kernel.assignments(target):
            cubin = json.dumps({**assignment, "probe": probe.id}).encode()
            sha = hashlib.sha256(cubin).hexdigest()
            one = Checked(
                Variant(probe, probe.kernel, target, assignment),
                Compiled(cubin, sha, "no compiler", ()),
                Judgement(gate, "made up by the tests", {}),  # type: ignore[arg-type]
            )
            found[probe.id] = (*found.get(probe.id, ()), one)
    return found
