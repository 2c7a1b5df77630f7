"""How the bandwidth probes share out work: run on the host's processor, with a store that adds in place of one."""

from __future__ import annotations

import ctypes
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from benchmarks.diagnosis.host_run import compile_case, run
from gpuprof.characterize.probes.library import probe_folder
from tests.table import each_row

pytestmark = [
    pytest.mark.compilers,
    pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++ to compile for the host with"),
]

SOURCES = probe_folder() / "bandwidth"
TICKET, TICKETS, WARPS = 4096, 64, 2
PARAMETERS = {"BLOCK": 32 * WARPS, "WIDTH": 16, "DEPTH": 2, "TICKET": TICKET}

PROBE = """\
#pragma once
typedef unsigned int u32;
typedef unsigned long long u64;
struct Clocks { u32 unused; };
struct Stamp { u32 unused; };
__device__ Stamp begin() { __syncthreads(); return Stamp{0}; }
__device__ void end(Clocks *, Stamp) { __syncthreads(); }
"""
VECTOR = """\
#pragma once
#include "probe.cuh"
template <int bytes> struct alignas(bytes) Vector { u32 word[bytes / 4]; };
template <int bytes> __device__ void load(Vector<bytes> &value, const void *at) { value = *(const Vector<bytes> *)at; }
template <int bytes> __device__ void store(void *at, const Vector<bytes> &value) {
    for (int i = 0; i < bytes / 4; ++i) ((u32 *)at)[i] += value.word[i];
}
"""
DRAW = "if (lane == 0) coming = atomicInc(&drawn.tickets, 0xfffffffeu);"


def compiled(folder: Path, schedule: str) -> Path:
    """The copy with one schedule, its PTX replaced by what the host runs."""
    (folder / "probe.cuh").write_text(PROBE)
    (folder / "vector.cuh").write_text(VECTOR)
    shutil.copy(SOURCES / "walk.cuh", folder)
    text, count = re.subn(r"asm volatile\(.*?\);", DRAW, (SOURCES / "schedule.cuh").read_text(), flags=re.DOTALL)
    assert count == 1
    (folder / "schedule.cuh").write_text(text)
    defines = "".join(f"#define {name} {value}\n" for name, value in {**PARAMETERS, "SCHEDULE": schedule}.items())
    source = folder / "copy.cu"
    source.write_text(defines + (SOURCES / "dram-copy.cu").read_text())
    return compile_case(source, folder)


@each_row("schedule", ["Static", "Dynamic"])
def test_a_launch_moves_a_ticket_for_each_warp_and_iteration_and_all_places_alike(
    tmp_path: Path, schedule: str
) -> None:
    library = compiled(tmp_path, schedule)
    source = np.arange(1, TICKETS * TICKET // 4 + 1, dtype=np.uint32)
    # One launch after the other: each finds the counters as the first did.
    for grid, iterations in ((3, 2), (3, 5), (2, 40), (1, 1)):
        destination = np.zeros_like(source)
        clocks, count = np.zeros(grid, dtype=np.uint32), ctypes.c_uint32(iterations)
        arguments = (clocks, count, source, destination, ctypes.c_uint64(source.nbytes))
        run(library, "dram_copy", (grid, 1, 1), (PARAMETERS["BLOCK"], 1, 1), 0, arguments)
        times = destination // source
        assert np.array_equal(times * source, destination)
        moved = grid * WARPS * iterations
        rounds, rest = divmod(moved, TICKETS)
        by_ticket = times.reshape(TICKETS, -1)
        assert np.array_equal(by_ticket[:rest], np.full_like(by_ticket[:rest], rounds + 1))
        assert np.array_equal(by_ticket[rest:], np.full_like(by_ticket[rest:], rounds))


WALK = """\
#include "walk.cuh"
extern "C" __global__ void walk(u32 *places, u64 bytes, u32 chunk, u32 turns) {
    BlockWalk walk(bytes, chunk, 0);
    for (u32 i = 0; i < turns; ++i, walk.next()) places[blockIdx.x * turns + i] = walk.at;
}
"""


def test_blocks_walk_through_a_buffer_of_l2_from_places_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "probe.cuh").write_text(PROBE)
    shutil.copy(SOURCES / "walk.cuh", tmp_path)
    source = tmp_path / "walk.cu"
    source.write_text(WALK)
    library = compile_case(source, tmp_path)
    grid, turns = 60, 100
    for size, chunk in ((1600 * 1024, 65536), (1650 * 1024 + 128, 32768), (131072, 65536)):
        places = np.zeros((grid, turns), dtype=np.uint32)
        arguments = (places, ctypes.c_uint64(size), ctypes.c_uint32(chunk), ctypes.c_uint32(turns))
        run(library, "walk", (grid, 1, 1), (1, 1, 1), 0, arguments)
        # More blocks than chunks, and still no two of them at one place.
        assert size // chunk < grid
        assert len(np.unique(places[:, 0])) == grid
        assert int(places.max()) + chunk <= size
        for block in places:
            visited = np.unique(block)
            assert (np.diff(visited) == chunk).all()
            assert size - 2 * chunk < len(visited) * chunk <= size
