"""The border to CuPy: one GPU behind the protocol `Gpu`, through CUDA's runtime and driver calls only.

Nothing of CuPy's arrays is used: those compile kernels of their own, and need CUDA's headers for it.
"""

from __future__ import annotations

import ctypes
import hashlib
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NamedTuple

from gpuprof.characterize.on_gpu.device_copies import DeviceCopies, copy_on
from gpuprof.characterize.on_gpu.device_launches import QUEUE, LaunchRows, elapsed_s
from gpuprof.characterize.on_gpu.nvml_view import NvmlView
from gpuprof.characterize.record.gpu import (
    PATIENCE_S,
    RECORD,
    RECORD_BYTES,
    DeviceError,
    Function,
    Hung,
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
from gpuprof.collect.machine import DRIVER_BY_CUDA, Machine
from gpuprof.errors import EnvironmentProblem

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_NO_MEMORY = ("OUT_OF_MEMORY", "MemoryAllocation")
_MAX_PITCH = 2**31 - 1
_WORD = 8
_SENT_WORDS = 2**22
"""Words that are sent to the GPU at once."""


class _Loaded(NamedTuple):
    """A kernel. Its module stays loaded until the process ends."""

    entry: str
    pointer: int


class _Call(NamedTuple):
    """What a launch is called with, and what the addresses in it point to."""

    launch: tuple[int, ...]
    cells: list[Any]
    pointers: Any


def open_gpu(index: int = 0) -> CudaGpu:
    """Return the GPU of that CUDA number. Raises EnvironmentProblem without CuPy, driver or GPU."""
    runtime, driver = _cupy()
    try:
        count = runtime.getDeviceCount()
    except Exception as error:
        raise EnvironmentProblem(f"no NVIDIA GPU to measure: {error}", "gpuprof doctor shows details") from error
    if not 0 <= index < count:
        raise EnvironmentProblem(f"there is no GPU {index}; this process sees {count}", "choose one with --device")
    return CudaGpu(runtime, driver, index)


def _cupy() -> tuple[Any, Any]:
    """Return CuPy's runtime and driver calls."""
    try:
        from cupy.cuda import driver, runtime  # type: ignore[import-not-found, unused-ignore]
    except ImportError as error:
        raise EnvironmentProblem(
            f"CuPy, which runs the micro-kernels, cannot be imported: {error}",
            f"install it: python -m pip install {_package()}",
        ) from error
    return runtime, driver


def _package() -> str:
    """Return the package for the driver that is loaded, the newest where none is."""
    version = Machine().driver_version()
    return "cupy-cuda12x" if version is not None and version[0] < DRIVER_BY_CUDA[13] else "cupy-cuda13x"


class CudaGpu:
    """One GPU, in the CUDA context of this process."""

    def __init__(self, runtime: Any, driver: Any, index: int) -> None:
        self._runtime, self._driver = runtime, driver
        self._stream = 0
        with self._calling("the GPU cannot be used"):
            self._nvml = NvmlView(runtime.deviceGetPCIBusId(index))
            runtime.setDevice(index)
            self._stream = runtime.streamCreateWithFlags(runtime.streamNonBlocking)
            self._start, self._end = runtime.eventCreate(), runtime.eventCreate()
            self.properties = _properties(runtime, self._nvml, index)
        self._copies = DeviceCopies(runtime, self._stream, index, self.properties.peers)
        self._rows = LaunchRows(runtime, self._stream)

    def telemetry(self) -> Telemetry:
        """Return its clocks, power, temperature and throttle reasons now."""
        return self._nvml.telemetry()

    def others(self) -> Others:
        """Return who else uses it."""
        return self._nvml.others()

    def now(self) -> float:
        """Return seconds of a clock that never goes back."""
        return time.perf_counter()

    def wait(self, seconds: float) -> None:
        """Sleep."""
        time.sleep(seconds)

    def free_bytes(self) -> int:
        """Return how much memory is left."""
        with self._calling("the free memory is not known"):
            return int(self._runtime.memGetInfo()[0])

    def allocate(self, size: int) -> Memory:
        """Return fresh memory. Raises OutOfMemory."""
        with self._calling(f"{size} bytes cannot be allocated"):
            return Memory(int(self._runtime.malloc(size)), size)

    def release(self, memory: Memory) -> None:
        """Give memory back."""
        with self._calling("memory cannot be freed"):
            self._runtime.free(memory.address)

    def zero(self, memory: Memory) -> None:
        """Fill with zeros."""
        with self._calling("memory cannot be cleared"):
            self._runtime.memsetAsync(memory.address, 0, memory.bytes, self._stream)
            self._runtime.streamSynchronize(self._stream)

    def repeat(self, memory: Memory, pattern: bytes) -> None:
        """Fill with copies of a pattern: one from the host, then what is there is doubled."""
        done = min(len(pattern), memory.bytes)
        source = ctypes.create_string_buffer(pattern, len(pattern))
        with self._calling("memory cannot be filled"):
            copy_on(self._runtime, self._stream, memory.address, ctypes.addressof(source), done)
            while done < memory.bytes:
                size = min(done, memory.bytes - done)
                copy_on(self._runtime, self._stream, memory.address + done, memory.address, size)
                done += size

    def scatter(self, memory: Memory, stride: int, values: NDArray[np.uint64]) -> None:
        """Write 64-bit words `stride` bytes apart: sent to the GPU as they are, and there copied as rows of one word.

        Rows of one word from the host would cross the link one by one, millions of them.
        """
        if stride > _MAX_PITCH:
            raise DeviceError(f"words cannot be written {stride} bytes apart")
        runtime = self._runtime
        sent = self.allocate(min(len(values), _SENT_WORDS) * _WORD)
        try:
            with self._calling("addresses cannot be written"):
                for first in range(0, len(values), _SENT_WORDS):
                    count = min(len(values) - first, _SENT_WORDS)
                    place, source = memory.address + first * stride, values.ctypes.data + first * _WORD
                    copy_on(runtime, self._stream, sent.address, source, count * _WORD)
                    runtime.memcpy2DAsync(
                        place, stride, sent.address, _WORD, _WORD, count, runtime.memcpyDeviceToDevice, self._stream
                    )
                    runtime.streamSynchronize(self._stream)
        finally:
            self.release(sent)

    def read(self, memory: Memory, size: int) -> bytes:
        """Return the first bytes of memory."""
        buffer = ctypes.create_string_buffer(size)
        with self._calling("memory cannot be read"):
            copy_on(self._runtime, self._stream, ctypes.addressof(buffer), memory.address, size)
        return buffer.raw

    def load(self, cubin: bytes, sha256: str, entry: str) -> Function:
        """Load a kernel of a cubin that must have this SHA-256."""
        if hashlib.sha256(cubin).hexdigest() != sha256:
            raise DeviceError(f"the cubin of {entry} is not the one that was checked")
        with self._calling(f"the driver does not load {entry}; it may be older than the compiler"):
            module = self._driver.moduleLoadData(cubin)
            return _Loaded(entry, int(self._driver.moduleGetFunction(module, entry)))

    def blocks_at_once(self, function: Function, block: int, shared_bytes: int) -> int:
        """Return how many blocks can be resident on one SM, by CUDA's occupancy calculator."""
        pointer = _pointer(function)
        with self._calling(f"the occupancy of {function.entry} is not known"):
            self._allow_shared(pointer, shared_bytes)
            return int(self._driver.occupancyMaxActiveBlocksPerMultiprocessor(pointer, block, shared_bytes))

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
        """Launch once between two events, ask NVML while it runs if `watched`, and wait. Raises Hung."""
        runtime, call = self._runtime, _call(shape, self._stream, arguments)
        with self._calling(f"{function.entry} failed"):
            if clocks is not None:
                runtime.memsetAsync(clocks.address, 0, RECORD_BYTES * shape.grid, self._stream)
            self._prepare(function, shape)
            runtime.eventRecord(self._start, self._stream)
            self._launch(function, shape, call)
            runtime.eventRecord(self._end, self._stream)
            telemetry = self._nvml.clock_and_reasons() if watched else None
            seconds = elapsed_s(runtime, self._start, self._end, patience_s)
            records = self._records(clocks, shape.grid) if clocks is not None else None
        return Timed(seconds, records, telemetry)

    def _records(self, clocks: Memory, grid: int) -> NDArray[np.void]:
        import numpy as np

        return np.frombuffer(self.read(clocks, RECORD_BYTES * grid), dtype=np.dtype(RECORD))

    def _prepare(self, function: Function, shape: LaunchConfiguration) -> None:
        """Set what a launch needs of the kernel: its dynamic shared memory, the preferred shared memory carveout."""
        pointer, driver = _pointer(function), self._driver
        self._allow_shared(pointer, shape.shared_bytes)
        if shape.carveout is not None:
            attribute = driver.CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT
            driver.funcSetAttribute(pointer, attribute, round(shape.carveout * 100))

    def _allow_shared(self, pointer: int, size: int) -> None:
        if size:
            attribute = self._driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            self._driver.funcSetAttribute(pointer, attribute, size)

    def _launch(self, function: Function, shape: LaunchConfiguration, call: _Call) -> None:
        if shape.cooperative:
            self._driver.launchCooperativeKernel(_pointer(function), *call.launch)
        else:
            self._driver.launchKernel(_pointer(function), *call.launch, 0)

    def launches(
        self, function: Function, shape: LaunchConfiguration, arguments: Sequence[np.generic], count: int, way: Way
    ) -> float:
        """Return the seconds of `count` launches: on the host's clock where each is waited for, else between events.

        Raises DeviceError for more launches than fit into the driver's queue.
        """
        if way == "queued" and count > QUEUE:
            raise DeviceError(f"{count} launches do not fit into the queue of {QUEUE}")
        call = _call(shape, self._stream, arguments)
        with self._calling(f"{function.entry} failed"):
            self._prepare(function, shape)
            return self._rows.time(lambda: self._launch(function, shape, call), count, way)

    def copies(self, source: MemoryKind, target: MemoryKind, size: int, count: int) -> float:
        """Return the seconds of `count` copies of `size` bytes."""
        with self._calling(f"copying from {source} to {target} memory failed"):
            return self._copies.time(source, target, size, count)

    def end_copies(self) -> None:
        """Give back the memory of the copies."""
        with self._calling("memory cannot be freed"):
            self._copies.release()

    def restart(self) -> None:
        """Raise DeviceError: a context that is broken stays so as long as its process lives."""
        raise DeviceError("the CUDA context of this process is broken", fatal=True)

    @contextmanager
    def _calling(self, what: str) -> Iterator[None]:
        """Turn CUDA's errors into DeviceError. A context in which something hangs is asked nothing more."""
        try:
            yield
        except Hung as error:
            raise Hung(f"{what}: {error.message}") from error
        except DeviceError as error:
            raise DeviceError(error.message, fatal=not self._alive()) from error
        except (RuntimeError, ValueError, OverflowError) as error:
            if any(word in str(error) for word in _NO_MEMORY):
                raise OutOfMemory(f"{what}: {error}") from error
            raise DeviceError(f"{what}: {error}", fatal=not self._alive()) from error

    def _alive(self) -> bool:
        """Tell whether the context still works: after an illegal address every call fails."""
        try:
            self._runtime.streamSynchronize(self._stream)
        except RuntimeError:
            return False
        return True


def _properties(runtime: Any, nvml: NvmlView, index: int) -> Properties:
    device = runtime.getDeviceProperties(index)

    def attribute(name: str) -> int:
        return int(runtime.deviceGetAttribute(getattr(runtime, f"cudaDevAttr{name}"), index))

    others = (other for other in range(runtime.getDeviceCount()) if other != index)
    name = device["name"]
    return Properties(
        name=name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name),
        compute_capability=f"{device['major']}.{device['minor']}",
        sm_count=attribute("MultiProcessorCount"),
        memory_bytes=float(device["totalGlobalMem"]),
        l2_bytes=float(attribute("L2CacheSize")),
        shared_per_block=attribute("MaxSharedMemoryPerBlockOptin"),
        threads_per_sm=attribute("MaxThreadsPerMultiProcessor"),
        memory_bus_bits=attribute("GlobalMemoryBusWidth") or None,
        cuda=cuda_version(runtime.driverGetVersion()),
        peers=tuple(other for other in others if runtime.deviceCanAccessPeer(index, other)),
        **asdict(nvml.settings()),
    )


def cuda_version(number: int) -> str:
    """Write CUDA's version number: 13000 → "13.0"."""
    return f"{number // 1000}.{number % 1000 // 10}"


def _call(shape: LaunchConfiguration, stream: int, arguments: Sequence[np.generic]) -> _Call:
    """Lay the arguments out in memory: CUDA takes the address of each."""
    import numpy as np

    cells = [np.array([argument]) for argument in arguments]
    pointers = (ctypes.c_void_p * max(1, len(cells)))(*(cell.ctypes.data for cell in cells))
    launch = (shape.grid, 1, 1, shape.block, 1, 1, shape.shared_bytes, stream, ctypes.addressof(pointers))
    return _Call(launch, cells, pointers)


def _pointer(function: Function) -> int:
    assert isinstance(function, _Loaded)
    return function.pointer
