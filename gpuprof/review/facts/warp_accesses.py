"""The accesses of the warps of a block: of all full warps at once, or of a sample if full warps differ."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

from gpuprof.review.code import KernelCode
from gpuprof.review.facts.mean_costs import AnalysedWarp, report_of
from gpuprof.review.facts.solutions import block_of, reads_rows, solution_in, solve
from gpuprof.sass.dataflow.accesses import Accesses, accesses_in_all_blocks
from gpuprof.sass.dataflow.expressions import LANES
from gpuprof.sass.dataflow.solution import Solution
from gpuprof.sass.dataflow.warps import ThreadBlock, any_warp, warps_of

_MOST_ANALYSED, _MOST_WARPS = 16_000, 8
"""Limits on single warps that are analysed: their instructions in total, and their number."""


class WarpLimit(NamedTuple):
    """How many warps of a block were analysed one by one, and how many it has."""

    analysed: int
    warps: int


class KernelAccesses(NamedTuple):
    """The accesses of analysed warps. `limit` is set if the kernel is too long to analyse as many warps as usual."""

    warps: tuple[AnalysedWarp, ...] = ()
    limit: WarpLimit | None = None


@lru_cache(maxsize=2)
def warp_accesses(code: KernelCode) -> KernelAccesses:
    """Return the accesses of all full warps at once, or of a sample of single warps if warps differ."""
    block = block_of(code)
    solution = _of_all(code)
    every = accesses_in_all_blocks(solution) if solution is not None else None
    whole = KernelAccesses((AnalysedWarp(every),) if every is not None else ())
    if block is None:
        return whole
    threads = block[0] * block[1] * block[2]
    full = threads % LANES == 0
    most = min(_MOST_WARPS, _MOST_ANALYSED // max(1, len(code.code)))
    warps = math.ceil(threads / LANES)
    limit = WarpLimit(most, warps) if most < min(warps, _MOST_WARPS) else None
    if most == 0:
        return whole._replace(limit=limit)
    sample = warps_of(block, max(2, most))
    known = {number: _in_warp(code, ThreadBlock(block, number)) for number in (sample[0].number, sample[-1].number)}
    if full and every is not None and all(other and _touch_alike(every, other) for other in known.values()):
        return whole
    analysed = []
    for number, weight in warps_of(block, most):
        accesses = known[number] if number in known else _in_warp(code, ThreadBlock(block, number))
        if accesses is None:
            return whole
        analysed.append(AnalysedWarp(accesses, weight))
    return KernelAccesses(tuple(analysed), limit)


def _of_all(code: KernelCode) -> Solution | None:
    """Return the values in any full warp; None if full warps differ, or the code cannot be analysed."""
    block = block_of(code)
    warp = any_warp(block, only_x=block is not None or not reads_rows(code))
    return solution_in(code, warp) if warp is not None else None


def _in_warp(code: KernelCode, warp: ThreadBlock) -> Accesses | None:
    solution = solve(code, warp) if warp.warp else solution_in(code, warp)
    return accesses_in_all_blocks(solution) if solution is not None else None


def _touch_alike(every: Accesses, other: Accesses) -> bool:
    """Return whether one warp has the same accesses, with the same reported costs, as all warps at once."""
    if every.keys() != other.keys():
        return False
    return all(
        report_of(access, AnalysedWarp(other)) == report_of(every[at], AnalysedWarp(every))
        for at, access in other.items()
    )
