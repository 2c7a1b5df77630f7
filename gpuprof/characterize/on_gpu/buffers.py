"""The GPU memory of a probe: allocated, filled as its file says, shared by configurations, given back."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from gpuprof.characterize.on_gpu.chase import Chase, chase
from gpuprof.characterize.probes.contents import random_bytes
from gpuprof.characterize.record.configurations import Configuration, buffer_bytes
from gpuprof.characterize.record.gpu import DeviceError, Gpu, Memory, OutOfMemory

if TYPE_CHECKING:
    from gpuprof.characterize.probes.probe import Buffer, Kernel

_ALIGNED = 256
_EVICTING = 2
"""Memory so many times as large as L2 leaves nothing else in it."""
_SEED = 0
"""Of cycles."""


class Filled(NamedTuple):
    """Memory that holds what the probe wants; `chase` where that is one."""

    memory: Memory
    chase: Chase | None


_Key = tuple[str, int, str, int, int]
"""Name, bytes, data, stride, allocation: memory with the same key holds the same."""


class Pool:
    """Memory of one probe. What configurations have in common is allocated once, until `release`."""

    def __init__(self, gpu: Gpu) -> None:
        self._gpu = gpu
        self._held: dict[_Key, Filled] = {}

    def buffers(self, kernel: Kernel, configuration: Configuration) -> dict[str, Filled]:
        """Return the kernel's buffers for a configuration.

        Raises OutOfMemory, also where they do not fit the card; DeviceError for a chase too small.
        """
        sizes = buffer_bytes(kernel, configuration, self._gpu.properties)
        if sizes is None:
            raise OutOfMemory("the GPU's memory is too small for buffers larger than L2")
        return {name: self._buffer(name, sizes[name], buffer, configuration) for name, buffer in kernel.buffers.items()}

    def plain(self, name: str, size: int) -> Memory:
        """Return memory that holds zeros at first."""
        return self._get((name, size, "zeros", 0, 0), self._zeros).memory

    def release(self) -> None:
        """Give all of it back."""
        held, self._held = self._held, {}
        for filled in held.values():
            self._gpu.release(filled.memory)

    def _buffer(self, name: str, size: int, buffer: Buffer, configuration: Configuration) -> Filled:
        data = configuration.data if buffer.fill == "data" else buffer.fill
        stride = round(configuration.values[buffer.stride] if isinstance(buffer.stride, str) else buffer.stride or 0)
        key = (name, size, data, stride, configuration.allocation)
        if data == "chase":
            return self._get(key, lambda memory: self._chase(memory, size, stride, buffer.window_bytes))
        if data == "random":
            return self._get(key, lambda memory: self._random(memory, buffer.type))
        return self._get(key, self._zeros)

    def _get(self, key: _Key, fill: Callable[[Memory], Chase | None]) -> Filled:
        if key not in self._held:
            memory = self._allocate(key)
            try:
                self._held[key] = Filled(memory, fill(memory))
            except DeviceError as error:
                if not error.fatal:
                    self._gpu.release(memory)
                raise
        return self._held[key]

    def _allocate(self, key: _Key) -> Memory:
        """Allocate; where memory is short, what other sizes and allocations hold is given back first."""
        size, allocation = max(_ALIGNED, key[1]), key[-1]
        try:
            return self._displaced(size, allocation)
        except OutOfMemory:
            for other in [other for other in self._held if other[0] == key[0] and other != key]:
                self._gpu.release(self._held.pop(other).memory)
            return self._gpu.allocate(size)

    def _displaced(self, size: int, times: int) -> Memory:
        """Allocate behind so many others that are given back at once: the next allocation is other physical memory."""
        before: list[Memory] = []
        try:
            for _ in range(times):
                before.append(self._gpu.allocate(size))
            return self._gpu.allocate(size)
        finally:
            for memory in before:
                self._gpu.release(memory)

    def _zeros(self, memory: Memory) -> None:
        self._gpu.zero(memory)

    def _random(self, memory: Memory, kind: str) -> None:
        self._gpu.repeat(memory, random_bytes(kind))

    def _chase(self, memory: Memory, size: int, stride: int, window_bytes: float | None) -> Chase:
        """Lay out a cycle, the same on every allocation: a long one takes seconds to draw."""
        try:
            cycle = chase(memory.address, size, stride, window_bytes, _SEED)
        except ValueError as error:
            raise DeviceError(str(error)) from error
        self._gpu.scatter(memory, stride, cycle.words())
        if size > self._gpu.properties.l2_bytes:
            self._evict()
        return cycle

    def _evict(self) -> None:
        """Write over memory twice as large as L2: what was in it, such as the last lines of a buffer, is so no more."""
        scratch = self._gpu.allocate(int(_EVICTING * self._gpu.properties.l2_bytes))
        try:
            self._gpu.zero(scratch)
        finally:
            self._gpu.release(scratch)
