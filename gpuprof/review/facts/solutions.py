"""The solved values of registers of a kernel, from which its accesses, addresses and trip counts are computed."""

from __future__ import annotations

from functools import lru_cache

from gpuprof.model.recorded import Dim3
from gpuprof.review.code import KernelCode
from gpuprof.sass.dataflow.definition_graph import definition_graph
from gpuprof.sass.dataflow.launch_constants import PlacedArgument, known_constants, pointers
from gpuprof.sass.dataflow.solution import Solution
from gpuprof.sass.dataflow.warps import THREAD_INDICES, ThreadBlock, any_warp
from gpuprof.sass.flow.graph import graph_of

MOST_INSTRUCTIONS = 200_000
"""Addresses of longer kernels are not analysed."""


def block_of(code: KernelCode) -> Dim3 | None:
    """Return the block of the launch, or the one that the kernel requires; None if unknown or empty."""
    block = code.kernel.shape.block or code.kernel.kernel.required_block
    return block if block is not None and min(block) > 0 else None


def solution_of(code: KernelCode) -> Solution | None:
    """Return the values in any full warp, or in the first if full warps differ; None if the code cannot be analysed.

    The rows of an unknown block are assumed to be multiples of 32 threads.
    """
    block = block_of(code)
    warp = any_warp(block)
    if warp is None and block is not None:
        warp = ThreadBlock(block)
    return solution_in(code, warp) if warp is not None else None


@lru_cache(maxsize=3)
def solution_in(code: KernelCode, warp: ThreadBlock) -> Solution | None:
    """Return `solve(code, warp)`, cached: the solutions of any warp and of the first warp are needed several times."""
    return solve(code, warp)


def solve(code: KernelCode, warp: ThreadBlock) -> Solution | None:
    """Return the values in a warp; None if the code cannot be analysed."""
    if len(code.code) > MOST_INSTRUCTIONS:
        return None
    try:
        graph = graph_of(code.code)
        return Solution(definition_graph(graph), warp, _constants(code)) if graph is not None else None
    except (ValueError, IndexError, KeyError, OverflowError):  # code that no compiler wrote
        return None


@lru_cache(maxsize=2)
def _constants(code: KernelCode) -> dict[int, int]:
    """Return the known bytes of constant bank 0: the launch configuration, given arguments, alignment of pointers."""
    kernel = code.kernel.kernel
    eight = {place.offset for place in kernel.parameters if place.size_bytes == 8}
    given = (PlacedArgument(*place) for place in code.kernel.given())
    return known_constants(
        code.kernel.target,
        block_of(code),
        code.kernel.shape.grid,
        given,
        begin=kernel.parameters_offset,
        aligned=lambda begin: pointers(code.code, {begin + offset for offset in eight}) if eight else frozenset(),
    )


def reads_rows(code: KernelCode) -> bool:
    """Return whether a kernel reads threadIdx.y or threadIdx.z."""
    return any(operand in THREAD_INDICES[1:] for item in code.code for operand in item.operands[1:2])
