"""A probe's kernel on a GPU, ready to run: its cubin loaded, its arguments in memory, one sample for one launch."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import mode
from typing import TYPE_CHECKING

from gpuprof.characterize.on_gpu.buffers import Filled, Pool
from gpuprof.characterize.record.configurations import Configuration, buffer_bytes
from gpuprof.characterize.record.gpu import (
    PATIENCE_S,
    RECORD_BYTES,
    DeviceError,
    Function,
    Gpu,
    Memory,
    Stopped,
    Timed,
    Way,
)
from gpuprof.characterize.record.series import Observed, Sample, Series
from gpuprof.characterize.record.windows import first_wave, missing, most_at_once, sm_cycles, window
from gpuprof.errors import GpuprofError

if TYPE_CHECKING:
    import numpy as np

    from gpuprof.characterize.gates.check import Checked
    from gpuprof.characterize.probes.probe import Argument, Kernel
    from gpuprof.characterize.record.gpu import Records

MOST_ITERATIONS = 2**28
"""Four times as many still fit into 32 bits, and so do twice as many threads' sums."""
_LEAST_ITERATIONS = 2
"""With one iteration the matrix probes store their product in place of being timed."""
_TRIES = 12
_PATIENCE = 20
"""A launch that takes so many times as long as it should hangs."""
_EVENT_SLACK = 1.02
_EVENT_SLACK_S = 5e-6
"""Events have steps of half a microsecond, globaltimer of up to one."""


class BrokenRun(GpuprofError):
    """A launch that cannot be what was meant: blocks without a record, two clocks that disagree."""


class KernelLauncher:
    """Loads kernels once, and makes configurations ready. `stop` is asked before every launch.

    `launched`: how many launches, or rows of them, have come to their end.
    """

    def __init__(self, gpu: Gpu, stop: Callable[[], bool] = lambda: False) -> None:
        self.gpu, self.stop = gpu, stop
        self.pool = Pool(gpu)
        self.launched = 0
        self._functions: dict[str, Function] = {}

    def ready(self, checked: Checked, configuration: Configuration) -> Ready:
        """Return a configuration that can be launched. Raises DeviceError, OutOfMemory."""
        kernel, function = checked.variant.kernel, self.function(checked)
        return Ready(self, kernel, function, configuration, self.pool.buffers(kernel, configuration))

    def function(self, checked: Checked) -> Function:
        """Return the kernel of a cubin; the gate's own bytes are what is loaded."""
        compiled = checked.compiled
        if compiled is None:
            raise DeviceError(f"{checked.variant.kernel.entry} was not compiled")
        if compiled.sha256 not in self._functions:
            entry = checked.variant.kernel.entry
            self._functions[compiled.sha256] = self.gpu.load(compiled.cubin, compiled.sha256, entry)
        return self._functions[compiled.sha256]

    def release(self) -> None:
        """Give memory back and forget the kernels."""
        self._functions = {}
        self.pool.release()

    def forget(self) -> None:
        """Forget memory and kernels: they went with the context that they were in."""
        self._functions, self.pool = {}, Pool(self.gpu)


class Ready:
    """One configuration with its kernel and its memory."""

    def __init__(
        self,
        launcher: KernelLauncher,
        kernel: Kernel,
        function: Function,
        configuration: Configuration,
        buffers: dict[str, Filled],
    ) -> None:
        self._launcher, self.gpu = launcher, launcher.gpu
        self.kernel, self.function, self.configuration, self.buffers = kernel, function, configuration, buffers
        self.shape = configuration.shape
        pool = launcher.pool
        self.clocks = pool.plain("clocks", RECORD_BYTES * configuration.shape.grid) if kernel.clocked else None
        self.sink = pool.plain("sink", 4 * configuration.shape.grid * configuration.block)
        self.seen = Observed()
        self._last = 1, 0.0
        self._sizes = buffer_bytes(kernel, configuration, self.gpu.properties) or {}

    def series(self, probe: str, round_: int, samples: Sequence[Sample]) -> Series:
        """Return samples of it, with what was seen meanwhile."""
        return Series(
            probe=probe, config=self.configuration.config, seen=self.seen, round=round_, samples=tuple(samples)
        )

    def fits(self) -> bool:
        """Tell whether all blocks of the launch can be resident at once, by CUDA's occupancy calculator."""
        at_once = self.gpu.blocks_at_once(self.function, self.configuration.block, self.shape.shared_bytes)
        return self.shape.grid <= at_once * self.gpu.properties.sm_count

    def run(self, iterations: int, *, watched: bool = False) -> Sample:
        """Launch once; the time is from the first block's begin to the last one's end, or between the events.

        Raises BrokenRun for a launch that cannot be right, and Stopped.
        """
        return self._sample(iterations, self.launch(iterations, watched=watched))

    def _sample(self, iterations: int, timed: Timed) -> Sample:
        seconds, cycles = timed.seconds, None
        if timed.records is not None:
            blocks = window(timed.records)
            if self.seen.sms is None:
                self.seen = replace(self.seen, sms=blocks.sms)
            seconds, cycles = blocks.nanoseconds / 1e9, float(blocks.cycles)
            if seconds > timed.seconds * _EVENT_SLACK + _EVENT_SLACK_S:
                raise BrokenRun(f"the blocks ran for {seconds:.6g} s by globaltimer, {timed.seconds:.6g} s by events")
        telemetry = timed.telemetry
        return Sample(
            iterations,
            seconds,
            cycles,
            sm_clock_hz=telemetry.sm_clock_hz if telemetry else None,
            reasons=telemetry.reasons if telemetry else None,
        )

    def launch(self, iterations: int, *, watched: bool = False) -> Timed:
        """Launch once. Raises BrokenRun where a block has left no record, and Stopped."""
        if self._launcher.stop():
            raise Stopped
        arguments = [self._argument(argument, iterations) for argument in self.kernel.arguments]
        timed = self.gpu.time(
            self.function, self.shape, arguments, self.clocks, watched=watched, patience_s=self._patience_s(iterations)
        )
        self._launcher.launched += 1
        self._last = max(1, iterations), timed.seconds
        if timed.records is not None and (lost := missing(timed.records)):
            raise BrokenRun(f"{lost} of {self.shape.grid} blocks left no record: the launch failed silently")
        return timed

    def _patience_s(self, iterations: int) -> float:
        """Return how long a launch may take: many times what the last one would have taken for so many iterations."""
        before, seconds = self._last
        return max(PATIENCE_S, _PATIENCE * seconds * max(1.0, iterations / before))

    def run_by_sm(self, iterations: int) -> tuple[Sample, dict[int, int]]:
        """Launch once; return the sample and the cycles of each SM."""
        sample, records = self._recorded(iterations)
        return sample, sm_cycles(records)

    def run_at_once(self, iterations: int) -> tuple[Sample, int]:
        """Launch once; return the sample and how many blocks overlapped on an SM: what most SMs had."""
        sample, records = self._recorded(iterations)
        return sample, mode(most_at_once(records).values())

    def _recorded(self, iterations: int) -> tuple[Sample, Records]:
        timed = self.launch(iterations)
        if timed.records is None:
            raise BrokenRun("the kernel records no clocks")
        return self._sample(iterations, timed), timed.records

    def launches(self, count: int, way: Way) -> float:
        """Return the seconds of so many launches. Raises Stopped."""
        if self._launcher.stop():
            raise Stopped
        arguments = [self._argument(argument, 0) for argument in self.kernel.arguments]
        seconds = self.gpu.launches(self.function, self.shape, arguments, count, way)
        self._launcher.launched += 1
        return seconds

    def one_wave(self) -> None:
        """Make the grid of a clustered launch so small that no cluster waits for another to end."""
        cluster = self.kernel.launch.cluster.value(self.configuration.names())
        if cluster <= 1:
            return
        records = self.launch(_LEAST_ITERATIONS * 64).records
        if records is not None and (at_once := first_wave(records)) < self.shape.grid:
            self.shape = replace(self.shape, grid=max(cluster, at_once - at_once % cluster))
            self.seen = replace(self.seen, ran=self.shape.grid)

    def iterations_for(self, seconds: float, least: int = _LEAST_ITERATIONS) -> int:
        """Return how many iterations take so long. Raises BrokenRun where the time does not grow with them."""
        count = max(least, _LEAST_ITERATIONS)
        for _ in range(_TRIES):
            time_s = self.run(count).time_s
            if time_s >= 0.9 * seconds or count >= MOST_ITERATIONS:
                return count
            wanted = math.ceil(count * seconds / time_s) if time_s > seconds / 50 else 20 * count
            count = min(max(wanted, count + 1), MOST_ITERATIONS)
        raise BrokenRun(f"{count} iterations take {time_s:.3g} s: the time hardly grows with their number")

    def _argument(self, argument: Argument, iterations: int) -> np.generic:
        import numpy as np

        kind, name = argument.kind, argument.name or ""
        if kind in {"clocks", "sink", "buffer"}:
            return np.uint64(self._address(kind, name))
        if kind == "iterations":
            return np.uint32(iterations)
        if kind == "bytes":
            return np.uint64(self._bytes(self.buffers[name].memory, name))
        values = self.configuration.values
        return _scalar(kind, values[name] if name in values else float(name))

    def _address(self, kind: str, name: str) -> int:
        if kind == "clocks":
            return self.clocks.address if self.clocks is not None else 0
        return self.sink.address if kind == "sink" else self.buffers[name].memory.address

    def _bytes(self, memory: Memory, name: str) -> int:
        """Return the size that the probe asked for: what is allocated may be a little more."""
        return min(memory.bytes, self._sizes.get(name, memory.bytes))


def _scalar(kind: str, value: float) -> np.generic:
    """Return a number as the kernel takes it."""
    import numpy as np

    if kind == "u32":
        return np.uint32(int(value))
    if kind == "u64":
        return np.uint64(int(value))
    return np.float32(value) if kind == "f32" else np.float64(value)
