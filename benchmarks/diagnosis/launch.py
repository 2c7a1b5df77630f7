"""The program that runs under ncu: launches the kernels of cases on this GPU, and compares what they computed.

`python -m benchmarks.diagnosis.launch DEVICE SECONDS PROGRESS NAME…`. Each kernel runs once before, unseen, so that
clocks have risen and code is loaded; ncu sees what lies between cudaProfilerStart and cudaProfilerStop: the last launch
of each kernel, in an NVTX range with the name of its case. After so many seconds no case is begun but the first.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.diagnosis.agree import argument
from benchmarks.diagnosis.case import FIXED, SLOW, Case, Room, Shape, Sizes
from benchmarks.diagnosis.case_file import load_cases
from benchmarks.diagnosis.compiled import compile_case
from benchmarks.diagnosis.contents import Array, Pattern, agree, pattern
from benchmarks.diagnosis.progress import AGREES, BEGUN, LAUNCHED, WRONG, Step, tell
from gpuprof.characterize.on_gpu.compiler import nvrtc_for
from gpuprof.characterize.on_gpu.device import cuda_version
from gpuprof.characterize.probes.probe import target_of
from gpuprof.characterize.record.gpu import DeviceError
from gpuprof.errors import EnvironmentProblem, GpuprofError, ProgramFailed
from gpuprof.sass.tools.compile import Compiled, NotCompiled

CASE_LIMIT_S = 60.0
"""A case that takes longer hangs: it ends the program, and ncu writes what it has of the cases before."""
_MOST_THREADS = 8


class Gpu:
    """CUDA's calls through CuPy."""

    def __init__(self, device: int) -> None:
        try:
            from cupy.cuda import driver, nvtx, runtime  # type: ignore[import-not-found, unused-ignore]
        except ImportError as error:
            raise EnvironmentProblem(
                f"CuPy cannot be imported: {error}", "python -m pip install cupy-cuda13x"
            ) from error
        self._runtime: Any = runtime
        self._driver: Any = driver
        self._nvtx: Any = nvtx
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

    def place(self, size: int, where: str) -> int:
        """Return the address of so many bytes of the GPU's memory, or of the host's that the GPU reaches."""
        if where == "host":
            return int(self._runtime.hostAlloc(size, self._runtime.hostAllocMapped))
        return int(self._runtime.malloc(size))

    def fill(self, address: int, filling: Pattern) -> None:
        """Fill a buffer: its pattern comes from the host once, and is doubled where the buffer is."""
        copy, kind = self._runtime.memcpy, self._runtime.memcpyDefault
        there = min(filling.elements.nbytes, filling.nbytes)
        copy(address, filling.elements.ctypes.data, there, kind)
        while there < filling.nbytes:
            more = min(there, filling.nbytes - there)
            copy(address + there, address, more, kind)
            there += more
        self._runtime.deviceSynchronize()

    def fetch(self, address: int, like: Pattern) -> Array:
        """Return a copy of what lies in a buffer."""
        array = np.empty(like.length, like.elements.dtype)
        self._runtime.memcpy(array.ctypes.data, address, array.nbytes, self._runtime.memcpyDefault)
        return array

    def release(self, address: int, where: str) -> None:
        """Give memory back."""
        (self._runtime.freeHost if where == "host" else self._runtime.free)(address)

    def works(self) -> bool:
        """Tell whether the GPU still takes calls: after a kernel that failed it takes none from this process."""
        try:
            self._runtime.deviceSynchronize()
        except RuntimeError:
            return False
        return True

    def launch(self, kernel: int, shape: Shape, cells: Sequence[Any]) -> None:
        """Launch a kernel and wait for it."""
        pointers = (ctypes.c_void_p * len(cells))(*(ctypes.addressof(cell) for cell in cells))
        self._allow_shared(kernel, shape.shared_bytes)
        self._driver.launchKernel(
            kernel, *shape.grid, *shape.block, shape.shared_bytes, 0, ctypes.addressof(pointers), 0
        )
        self._runtime.deviceSynchronize()

    @contextmanager
    def seen(self, case: str) -> Iterator[None]:
        """Let ncu see what is launched meanwhile, in a range with the name of a case."""
        self._nvtx.RangePush(case)
        self._runtime.profilerStart()
        try:
            yield
        finally:
            self._runtime.profilerStop()
            self._nvtx.RangePop()

    def _allow_shared(self, kernel: int, size: int) -> None:
        if size:
            attribute = self._driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            self._driver.funcSetAttribute(kernel, attribute, size)


class Loaded(NamedTuple):
    """A case on this GPU: its kernels, the room that they have, its sizes, and what its buffers begin with."""

    kernels: dict[str, int]
    rooms: dict[str, Room]
    sizes: Sizes
    fillings: Mapping[str, Pattern]


Results = dict[str, Array]
"""What a kernel has left in the buffers of results, by name."""
Code = dict[str, Compiled] | NotCompiled


def main(arguments: Sequence[str]) -> int:
    """Launch what the command line says; return 1 where a case fails or its kernels disagree."""
    device, seconds, progress, *names = arguments
    gpu, cases = Gpu(int(device)), load_cases(names)
    until = time.monotonic() + float(seconds)
    with ThreadPoolExecutor(min(_MOST_THREADS, os.cpu_count() or 1)) as pool:
        codes = [pool.submit(compile_case, case, gpu.target, gpu.nvrtc) for case in cases]
        verdicts: list[Future[bool] | None] = []
        for case, code in zip(cases, codes, strict=True):
            if verdicts and time.monotonic() > until:
                break
            verdicts.append(_launched(gpu, case, code, pool, Path(progress)))
        return 0 if all(verdict is not None and verdict.result() for verdict in verdicts) else 1


def _launched(
    gpu: Gpu, case: Case, code: Future[Code], pool: ThreadPoolExecutor, progress: Path
) -> Future[bool] | None:
    """Launch the kernels of a case, and have what they computed compared; None where that failed.

    Raises ProgramFailed where the GPU takes no more calls.
    """
    tell(progress, case.name, Step(BEGUN))
    try:
        with _within_time():
            loaded = _loaded(gpu, case, code, pool)
            results = {entry: _run(gpu, case, entry, loaded) for entry in case.entries}
    except (GpuprofError, RuntimeError, MemoryError) as error:
        why = error.message if isinstance(error, GpuprofError) else str(error)
        tell(progress, case.name, Step(WRONG, why))
        if not gpu.works():
            raise ProgramFailed(f"{case.name}: {why}") from error
        print(f"{case.name}: {why}", flush=True)
        return None
    tell(progress, case.name, Step(LAUNCHED))
    return pool.submit(_compared, case, results, progress)


@contextmanager
def _within_time() -> Iterator[None]:
    """End this program where what is done meanwhile hangs, be it within a call of CUDA."""
    faulthandler.dump_traceback_later(CASE_LIMIT_S, exit=True, file=2)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


def _compared(case: Case, results: Mapping[str, Results], progress: Path) -> bool:
    """Tell whether the kernels of a case agree, and write it down."""
    problems = "; ".join(_differences(case, results)) if SLOW in results else ""
    tell(progress, case.name, Step(WRONG, problems) if problems else Step(AGREES))
    print(f"{case.name}: {problems or 'the kernels agree'}", flush=True)
    return not problems


def _differences(case: Case, results: Mapping[str, Results]) -> Iterator[str]:
    for name, buffer in case.buffers.items():
        if buffer.result is None:
            continue
        apart = agree(results[SLOW][name], results[FIXED][name], buffer.type, buffer.result)
        if apart is not None:
            yield f"{name} differs by {apart:.2g} of its largest value, more than {buffer.result:g}"


def _loaded(gpu: Gpu, case: Case, code: Future[Code], pool: ThreadPoolExecutor) -> Loaded:
    if gpu.target not in case.targets:
        raise ProgramFailed(f"{case.name} is not for {gpu.target}: {case.unsupported.get(gpu.target, 'see its file')}")
    compiled = code.result()
    if isinstance(compiled, NotCompiled):
        raise ProgramFailed(f"{case.name} does not compile for {gpu.target}: {compiled.why}")
    kernels = {entry: gpu.load(of_kernel.cubin, [entry])[entry] for entry, of_kernel in compiled.items()}
    rooms = {entry: Room(gpu.sm_count, _blocks(gpu, case, entry, kernels[entry])) for entry in case.entries}
    sizes = case.sized(rooms[case.entries[0]])
    patterns = pool.map(partial(pattern, sizes=sizes), case.buffers, case.buffers.values())
    return Loaded(kernels, rooms=rooms, sizes=sizes, fillings=dict(zip(case.buffers, patterns, strict=True)))


def _blocks(gpu: Gpu, case: Case, entry: str, kernel: int) -> int:
    shape = case.launches[entry].shape(case.small, Room(1, 1))
    blocks = gpu.blocks_per_sm(kernel, shape.threads, shape.shared_bytes)
    if not blocks:
        raise ProgramFailed(f"a block of {case.name}'s {entry} does not fit on an SM of this GPU")
    return blocks


def _run(gpu: Gpu, case: Case, entry: str, loaded: Loaded) -> Results:
    """Run one kernel of a case twice with fresh buffers, its very last launch seen by ncu; return its results."""
    launch = case.launches[entry]
    shape = launch.shape(loaded.sizes, loaded.rooms[entry])
    with ExitStack() as held:
        places: dict[str, int] = {}
        for name, filling in loaded.fillings.items():
            where = case.buffers[name].places[entry]
            places[name] = gpu.place(filling.nbytes, where)
            held.callback(_given_back, gpu, places[name], where)
        for seen in (False, True):
            for name, filling in loaded.fillings.items():
                gpu.fill(places[name], filling)
            for number in range(launch.times):
                watched = gpu.seen(case.name) if seen and number == launch.times - 1 else nullcontext()
                with watched:
                    gpu.launch(loaded.kernels[entry], shape, _cells(case, loaded.sizes, places, number))
        return {
            name: gpu.fetch(places[name], loaded.fillings[name])
            for name, buffer in case.buffers.items()
            if buffer.result is not None
        }


def _given_back(gpu: Gpu, address: int, where: str) -> None:
    with contextlib.suppress(RuntimeError):  # after a kernel that failed nothing can be given back
        gpu.release(address, where)


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
