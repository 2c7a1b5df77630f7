"""The other half of the border to CuPy: copies between host and GPU memory, timed and compared with their source."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from typing import Any

from gpuprof.characterize.on_gpu.device_launches import elapsed_s, held_back
from gpuprof.characterize.record.gpu import DeviceError, MemoryKind

_PATTERN = bytes(range(1, 252))
"""Its length, 251, shares no divisor with a power of two, so that a shifted copy is not equal."""
_COMPARED = 2**20


class DeviceCopies:
    """Copies of one GPU. Its memory is kept from one size to the next and grows with them."""

    def __init__(self, runtime: Any, stream: int, index: int, peers: tuple[int, ...]) -> None:
        self._runtime, self._stream, self._index, self._peers = runtime, stream, index, peers
        self._memory: dict[tuple[MemoryKind, str], tuple[int, int, Any]] = {}
        self._start, self._end = runtime.eventCreate(), runtime.eventCreate()

    def time(self, source: MemoryKind, target: MemoryKind, size: int, count: int) -> float:
        """Return the seconds of `count` copies of `size` bytes between events; of pageable memory on the host's clock.

        A copy of pageable memory comes back when the host may write again, so that events miss part of it.
        """
        from_address, to_address = self._place(source, "source", size), self._place(target, "target", size)
        self._write(from_address, source, size, _pattern)
        self._write(to_address, target, size, _nothing)
        if "pageable" in {source, target}:
            seconds = self._by_host(from_address, to_address, size, count)
        else:
            seconds = self._by_events((source, target), from_address, to_address, size, count)
        self._compare(to_address, target, size)
        return seconds

    def release(self) -> None:
        """Give all memory back."""
        for (place, _), (address, _, _) in self._memory.items():
            self._free(place, address)
        self._memory = {}

    def _by_host(self, source: int, target: int, size: int, count: int) -> float:
        began = time.perf_counter()
        for _ in range(count):
            copy_on(self._runtime, self._stream, target, source, size)
        return time.perf_counter() - began

    def _by_events(
        self, places: tuple[MemoryKind, MemoryKind], source: int, target: int, size: int, count: int
    ) -> float:
        runtime = self._runtime
        with held_back(runtime, self._stream):
            runtime.eventRecord(self._start, self._stream)
            for _ in range(count):
                if "peer" in places:
                    devices = [self._peers[0] if place == "peer" else self._index for place in places]
                    runtime.memcpyPeerAsync(target, devices[1], source, devices[0], size, self._stream)
                else:
                    runtime.memcpyAsync(target, source, size, runtime.memcpyDefault, self._stream)
            runtime.eventRecord(self._end, self._stream)
        return elapsed_s(runtime, self._start, self._end)

    def _place(self, place: MemoryKind, role: str, size: int) -> int:
        """Return the address of memory that is large enough."""
        address, there, owner = self._memory.get((place, role), (0, 0, None))
        if there < size:
            if there:
                self._free(place, address)
            address, owner = self._allocate(place, size)
            self._memory[place, role] = (address, size, owner)
        return address

    def _allocate(self, place: MemoryKind, size: int) -> tuple[int, Any]:
        runtime = self._runtime
        if place == "pinned":
            return int(runtime.hostAlloc(size, runtime.hostAllocDefault)), None
        if place == "pageable":
            owner = ctypes.create_string_buffer(size)
            ctypes.memset(owner, 1, size)  # so that no page is touched for the first time by a timed copy
            return ctypes.addressof(owner), owner
        if place == "device":
            return int(runtime.malloc(size)), None
        return self._on_peer(size), None

    def _on_peer(self, size: int) -> int:
        runtime = self._runtime
        if not self._peers:
            raise DeviceError("no other GPU is reachable from this one")
        _connect(runtime, self._peers[0])
        runtime.setDevice(self._peers[0])
        try:
            _connect(runtime, self._index)
            return int(runtime.malloc(size))
        finally:
            runtime.setDevice(self._index)

    def _free(self, place: MemoryKind, address: int) -> None:
        if place == "pinned":
            self._runtime.freeHost(address)
        elif place != "pageable":
            self._runtime.free(address)

    def _write(self, address: int, place: MemoryKind, size: int, content: Callable[[int, int], bytes]) -> None:
        """Put `content` of an offset and a length at both ends."""
        for offset, length in _ends(size):
            text = content(offset, length)
            if place in {"pinned", "pageable"}:
                ctypes.memmove(address + offset, text, length)
            else:
                source = ctypes.create_string_buffer(text, length)
                copy_on(self._runtime, self._stream, address + offset, ctypes.addressof(source), length)

    def _compare(self, address: int, place: MemoryKind, size: int) -> None:
        for offset, length in _ends(size):
            buffer = ctypes.create_string_buffer(length)
            if place in {"pinned", "pageable"}:
                ctypes.memmove(buffer, address + offset, length)
            else:
                copy_on(self._runtime, self._stream, ctypes.addressof(buffer), address + offset, length)
            if buffer.raw != _pattern(offset, length):
                raise DeviceError(f"the data copied to {place} memory differs from what was sent")


def copy_on(runtime: Any, stream: int, target: int, source: int, size: int) -> None:
    """Copy on a stream, which the default stream does not wait for, and wait."""
    runtime.memcpyAsync(target, source, size, runtime.memcpyDefault, stream)
    runtime.streamSynchronize(stream)


def _connect(runtime: Any, other: int) -> None:
    """Let the current GPU reach another one's memory; it is no error if it can already."""
    try:
        runtime.deviceEnablePeerAccess(other)
    except RuntimeError as error:
        if "AlreadyEnabled" not in str(error):
            raise


def _ends(size: int) -> tuple[tuple[int, int], ...]:
    """Return offset and length of the parts that are compared: all of a small copy, both ends of a large one."""
    if size <= 2 * _COMPARED:
        return ((0, size),)
    return ((0, _COMPARED), (size - _COMPARED, _COMPARED))


def _pattern(offset: int, length: int) -> bytes:
    start = offset % len(_PATTERN)
    return (_PATTERN * (length // len(_PATTERN) + 2))[start : start + length]


def _nothing(_: int, length: int) -> bytes:
    return bytes(length)
