"""The program that runs under ncu: launches the kernels of a case on this GPU, and compares what they computed.

`python -m benchmarks.diagnosis.launch DEVICE NAME`. Each kernel runs once before, unseen, so that clocks have risen and
code is loaded; ncu sees what lies between cudaProfilerStart and cudaProfilerStop: the last launch of each kernel.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple

import numpy as np

from benchmarks.diagnosis.agree import argument
from benchmarks.diagnosis.case import FIXED, SLOW, Case, Room, Shape, Sizes
from benchmarks.diagnosis.case_file import load_cases
from benchmarks.diagnosis.compiled import compile_case
from benchmarks.diagnosis.contents import Array, agree, contents
from gpuprof.characterize.on_gpu.compiler import nvrtc_for
from gpuprof.characterize.on_gpu.device import cuda_version
from gpuprof.characterize.probes.probe import target_of
from gpuprof.characterize.record.gpu import DeviceError
from gpuprof.code.tools.compile import NotCompiled
from gpuprof.errors import EnvironmentProblem, GpuprofError, ProgramFailed


class Gpu:
    """CUDA's calls through CuPy, and the memory of one case."""

    def __init__(self, device: int) -> None:
        try:
            from cupy.cuda import driver, runtime  # type: ignore[import-not-found, unused-ignore]
        except ImportError as error:
            raise EnvironmentProblem(
                f"CuPy cannot be imported: {error}", "python -m pip install cupy-cuda13x"
            ) from error
        self._runtime: Any = runtime
        self._driver: Any = driver
        runtime.setDevice(device)
        runtime.free(runtime.malloc(256))  # so that there is a context
        properties = runtime.getDeviceProperties(device)
        self.target = target_of(f"{properties['major']}.{properties['minor']}") or ""
        cuda = cuda_version(int(runtime.driverGetVersion()))
        self.nvrtc = nvrtc_for(cuda, self.target, self._try) if self.target else None
        self.sm_count = int(properties["multiProcessorCount"])

    def load(self, cubin: bytes, entries: Sequence[str]) -> dict[str, int]:
        """Load a cubin; return its kernels."""
        module = self._driver.moduleLoadData(cubin)
        return {entry: int(self._driver.moduleGetFunction(module, entry)) for entry in entries}

    def _try(self, cubin: bytes, _sha256: str, entry: str) -> None:
        try:
            self.load(cubin, [entry])
        except RuntimeError as error:
            raise DeviceError(f"{error}") from error

    def blocks_per_sm(self, kernel: int, threads: int, shared_bytes: int) -> int:
        """Return how many blocks of a kernel one SM holds."""
        self._allow_shared(kernel, shared_bytes)
        return int(self._driver.occupancyMaxActiveBlocksPerMultiprocessor(kernel, threads, shared_bytes))

    def place(self, array: Array, where: str) -> int:
        """Return the address of a copy of an array in the GPU's memory, or in the host's that the GPU reaches."""
        runtime = self._runtime
        if where == "host":
            address = int(runtime.hostAlloc(array.nbytes, runtime.hostAllocMapped))
        else:
            address = int(runtime.malloc(array.nbytes))
        runtime.memcpy(address, array.ctypes.data, array.nbytes, runtime.memcpyDefault)
        return address

    def fetch(self, address: int, like: Array) -> Array:
        """Return a copy of what lies at an address."""
        array = np.empty_like(like)
        self._runtime.memcpy(array.ctypes.data, address, array.nbytes, self._runtime.memcpyDefault)
        return array

    def release(self, address: int, where: str) -> None:
        """Give memory back."""
        (self._runtime.freeHost if where == "host" else self._runtime.free)(address)

    def launch(self, kernel: int, shape: Shape, cells: Sequence[Any]) -> None:
        """Launch a kernel and wait for it."""
        pointers = (ctypes.c_void_p * len(cells))(*(ctypes.addressof(cell) for cell in cells))
        self._allow_shared(kernel, shape.shared_bytes)
        self._driver.launchKernel(
            kernel, *shape.grid, *shape.block, shape.shared_bytes, 0, ctypes.addressof(pointers), 0
        )
        self._runtime.deviceSynchronize()

    @contextmanager
    def seen(self) -> Iterator[None]:
        """Let ncu see what is launched meanwhile."""
        self._runtime.profilerStart()
        try:
            yield
        finally:
            self._runtime.profilerStop()

    def _allow_shared(self, kernel: int, size: int) -> None:
        if size:
            attribute = self._driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            self._driver.funcSetAttribute(kernel, attribute, size)


class Loaded(NamedTuple):
    """A case on this GPU: its kernels, the room that they have, and its sizes."""

    kernels: dict[str, int]
    rooms: dict[str, Room]
    sizes: Sizes


def main(arguments: Sequence[str]) -> int:
    """Launch what the command line says; return 1 where the kernels disagree."""
    device, name = arguments
    (case,) = load_cases([name])
    gpu = Gpu(int(device))
    loaded = _loaded(gpu, case)
    for entry in case.entries:
        _run(gpu, case, entry, loaded, seen=False)
    results = {entry: _run(gpu, case, entry, loaded, seen=True) for entry in case.entries}
    problems = list(_differences(case, results)) if SLOW in results else []
    print(f"{case.name}: {'; '.join(problems) or 'the kernels agree'}", flush=True)
    return 1 if problems else 0


def _differences(case: Case, results: Mapping[str, dict[str, Array]]) -> Iterator[str]:
    for name, buffer in case.buffers.items():
        if buffer.result is None:
            continue
        apart = agree(results[SLOW][name], results[FIXED][name], buffer.type, buffer.result)
        if apart is not None:
            yield f"{name} differs by {apart:.2g} of its largest value, more than {buffer.result:g}"


def _loaded(gpu: Gpu, case: Case) -> Loaded:
    if gpu.target not in case.targets:
        raise ProgramFailed(f"{case.name} is not for {gpu.target}: {case.unsupported.get(gpu.target, 'see its file')}")
    compiled = compile_case(case, gpu.target, gpu.nvrtc)
    if isinstance(compiled, NotCompiled):
        raise ProgramFailed(f"{case.name} does not compile for {gpu.target}: {compiled.why}")
    kernels = {entry: gpu.load(of_kernel.cubin, [entry])[entry] for entry, of_kernel in compiled.items()}
    rooms = {entry: Room(gpu.sm_count, _blocks(gpu, case, entry, kernels[entry])) for entry in case.entries}
    return Loaded(kernels, rooms, case.sized(rooms[case.entries[0]]))


def _blocks(gpu: Gpu, case: Case, entry: str, kernel: int) -> int:
    shape = case.launches[entry].shape(case.small, Room(1, 1))
    blocks = gpu.blocks_per_sm(kernel, shape.threads, shape.shared_bytes)
    if not blocks:
        raise ProgramFailed(f"a block of {case.name}'s {entry} does not fit on an SM of this GPU")
    return blocks


def _run(gpu: Gpu, case: Case, entry: str, loaded: Loaded, *, seen: bool) -> dict[str, Array]:
    """Launch one kernel of a case with fresh buffers, its last launch seen by ncu; return its results."""
    launch = case.launches[entry]
    shape = launch.shape(loaded.sizes, loaded.rooms[entry])
    arrays = {name: contents(name, buffer, loaded.sizes) for name, buffer in case.buffers.items()}
    places = {name: gpu.place(array, case.buffers[name].places[entry]) for name, array in arrays.items()}
    for number in range(launch.times):
        watched = gpu.seen() if seen and number == launch.times - 1 else nullcontext()
        with watched:
            gpu.launch(loaded.kernels[entry], shape, _cells(case, loaded.sizes, places, number))
    results = {
        name: gpu.fetch(places[name], arrays[name])
        for name, buffer in case.buffers.items()
        if buffer.result is not None
    }
    for name, address in places.items():
        gpu.release(address, case.buffers[name].places[entry])
    return results


def _cells(case: Case, sizes: Sizes, places: dict[str, int], number: int) -> list[Any]:
    """Return the arguments, each in memory of its own."""
    return [
        ctypes.c_uint64(places[name or ""]) if kind == "buffer" else argument(sizes, kind, name or "", number)
        for kind, name in case.arguments
    ]


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except GpuprofError as error:
        sys.exit(f"error: {error.message}")
