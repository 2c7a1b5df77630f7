"""Stands in for CuPy's runtime and driver calls on the host: memory is the host's, kernels are Python functions."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from gpuprof.characterize.record.gpu import RECORD


class CudaError(RuntimeError):
    """As CuPy raises it: the name of the code is in the text."""


Kernel = Callable[["StandinCuda", int, int, list[int]], None]
"""What a launch does: the stand-in, grid, block, addresses of the arguments."""


class StandinCuda:
    """Runtime and driver in one object, with what was called in `calls`."""

    memcpyDefault, memcpyDeviceToDevice = 4, 3  # noqa: N815
    streamNonBlocking, hostAllocDefault, streamCaptureModeThreadLocal = 1, 0, 1  # noqa: N815
    cudaDevAttrMultiProcessorCount, cudaDevAttrL2CacheSize = 16, 38  # noqa: N815
    cudaDevAttrMaxSharedMemoryPerBlockOptin, cudaDevAttrMaxThreadsPerMultiProcessor = 97, 39  # noqa: N815
    cudaDevAttrGlobalMemoryBusWidth = 37  # noqa: N815
    CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8
    CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT = 9

    def __init__(self, kernels: dict[str, tuple[int, Kernel]] | None = None, *, gpus: int = 1) -> None:
        self.kernels = kernels or {"stamps": (3, stamps), "nothing": (0, nothing)}
        self.gpus = gpus
        self.memory: dict[int, Any] = {}
        self.calls: list[str] = []
        self.fail: dict[str, Exception] = {}
        self.device = 0
        self.waiting: Callable[[int], object] | None = None
        self.elapsed_ms = 0.5
        self.corrupt = False
        self.hangs = False
        self.dead = False
        self._names: list[str] = []

    def __getattribute__(self, name: str) -> Any:
        attribute = object.__getattribute__(self, name)
        if callable(attribute) and not name.startswith("_"):
            object.__getattribute__(self, "calls").append(name)
            failure = object.__getattribute__(self, "fail").get(name)
            if failure is not None:
                raise failure
        return attribute

    # runtime

    def getDeviceCount(self) -> int:  # noqa: N802
        return self.gpus

    def setDevice(self, device: int) -> None:  # noqa: N802
        self.device = device

    def deviceGetPCIBusId(self, _device: int) -> str:  # noqa: N802
        return "0000:01:00.0"

    def getDeviceProperties(self, _device: int) -> dict[str, object]:  # noqa: N802
        return {"name": b"Stand-in", "major": 8, "minor": 0, "totalGlobalMem": 2**30}

    def deviceGetAttribute(self, attribute: int, _device: int) -> int:  # noqa: N802
        return {16: 4, 38: 2**20, 97: 2**16, 39: 2048, 37: 384}[attribute]

    def deviceCanAccessPeer(self, _one: int, _other: int) -> bool:  # noqa: N802
        return True

    def deviceEnablePeerAccess(self, _other: int) -> None:  # noqa: N802
        pass

    def driverGetVersion(self) -> int:  # noqa: N802
        return 13010

    def streamCreateWithFlags(self, _flags: int) -> int:  # noqa: N802
        return 77

    def eventCreate(self) -> int:  # noqa: N802
        return 1

    def eventRecord(self, _event: int, _stream: int) -> None:  # noqa: N802
        pass

    def eventQuery(self, event: int) -> int:  # noqa: N802
        if self.hangs:
            return 600
        self.eventSynchronize(event)
        return 0

    def eventSynchronize(self, _event: int) -> None:  # noqa: N802
        if self.waiting is not None:
            waiting, self.waiting = self.waiting, None
            waiting(0)

    def eventElapsedTime(self, _start: int, _end: int) -> float:  # noqa: N802
        return self.elapsed_ms

    def streamSynchronize(self, _stream: int) -> None:  # noqa: N802
        if self.dead:
            raise CudaError("cudaErrorIllegalAddress: an illegal memory access was encountered")

    def launchHostFunc(self, _stream: int, callback: Callable[[int], object], _word: int) -> None:  # noqa: N802
        self.waiting = callback

    def memGetInfo(self) -> tuple[int, int]:  # noqa: N802
        return 2**29, 2**30

    def malloc(self, size: int) -> int:
        buffer = ctypes.create_string_buffer(size)
        self.memory[ctypes.addressof(buffer)] = buffer
        return ctypes.addressof(buffer)

    def free(self, address: int) -> None:
        del self.memory[address]

    def hostAlloc(self, size: int, _flags: int) -> int:  # noqa: N802
        return self.malloc(size)

    def freeHost(self, address: int) -> None:  # noqa: N802
        self.free(address)

    def memsetAsync(self, address: int, value: int, size: int, _stream: int) -> None:  # noqa: N802
        ctypes.memset(address, value, size)

    def memcpyAsync(self, target: int, source: int, size: int, _kind: int, _stream: int) -> None:  # noqa: N802
        ctypes.memmove(target, source, size)
        if self.corrupt and target in self.memory:
            ctypes.memset(target + size - 1, 0, 1)

    def memcpyPeerAsync(  # noqa: N802
        self, target: int, _target_device: int, source: int, _source_device: int, size: int, stream: int
    ) -> None:
        self.memcpyAsync(target, source, size, 4, stream)

    def memcpy2DAsync(  # noqa: N802
        self,
        target: int,
        to_pitch: int,
        source: int,
        from_pitch: int,
        width: int,
        height: int,
        _kind: int,
        _stream: int,
    ) -> None:
        for row in range(height):
            ctypes.memmove(target + row * to_pitch, source + row * from_pitch, width)

    # driver

    def moduleLoadData(self, cubin: bytes) -> bytes:  # noqa: N802
        return cubin

    def moduleGetFunction(self, _module: bytes, entry: str) -> int:  # noqa: N802
        self._names.append(entry)
        return len(self._names) - 1

    def occupancyMaxActiveBlocksPerMultiprocessor(self, _function: int, block: int, _shared: int) -> int:  # noqa: N802
        return 2048 // block

    def funcSetAttribute(self, _function: int, _attribute: int, _value: int) -> None:  # noqa: N802
        pass

    def launchKernel(self, function: int, *arguments: int) -> None:  # noqa: N802
        grid, _, _, block, _, _, _shared, _stream, parameters, _extra = arguments
        self._launch(function, grid, block, parameters)

    def _launch(self, function: int, grid: int, block: int, parameters: int) -> None:
        pointers = ctypes.cast(parameters, ctypes.POINTER(ctypes.c_void_p))
        count, kernel = self.kernels[self._names[function]]
        kernel(self, grid, block, [pointers[index] or 0 for index in range(count)])


def stamps(_cuda: StandinCuda, grid: int, _block: int, addresses: list[int]) -> None:
    """A kernel `(clocks, iterations, sink)`: every block records ten cycles and five nanoseconds an iteration."""
    clocks = ctypes.c_uint64.from_address(addresses[0]).value
    iterations = ctypes.c_uint32.from_address(addresses[1]).value
    records = np.zeros(grid, dtype=np.dtype(RECORD))
    records["begin_cycles"], records["end_cycles"] = 100, 100 + 10 * iterations
    records["begin_ns"], records["end_ns"] = 1000, 1000 + 5 * iterations
    records["sm"] = np.arange(grid) % 4
    ctypes.memmove(clocks, records.tobytes(), records.nbytes)


def nothing(cuda: StandinCuda, _grid: int, _block: int, _addresses: list[int]) -> None:
    """A kernel without arguments."""
    cuda.calls.append("nothing ran")
