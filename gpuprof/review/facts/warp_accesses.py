"""The accesses of the warps of a block: of all full warps at once, or of a sample of warps if these differ."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from gpuprof.review.code import KernelCode
from gpuprof.review.facts.mean_costs import AnalysedWarp, report_of
from gpuprof.review.facts.solutions import block_of, reads_rows, solution_in, solve
from gpuprof.sass.dataflow.accesses import Known, every_access
from gpuprof.sass.dataflow.expressions import LANES
from gpuprof.sass.dataflow.solution import Solution
from gpuprof.sass.dataflow.warps import ThreadBlock, any_warp, warps_of

_MOST_ANALYSED, _MOST_WARPS = 16_000, 8
"""Instructions of all warps that are analysed one by one, and the most of these warps."""


class WarpLimit(NamedTuple):
    """How many warps of a block were analysed one by one, and how many it has."""

    analysed: int
    warps: int


class KernelAccesses(NamedTuple):
    """The accesses of analysed warps. `limit`: the others may differ, as the kernel is too long to check that."""

    warps: tuple[AnalysedWarp, ...] = ()
    limit: WarpLimit | None = None


@lru_cache(maxsize=2)
def warp_accesses(code: KernelCode) -> KernelAccesses:
    """Return the accesses of all full warps at once; of some of them one by one if what they run or touch differs."""
    block = block_of(code)
    solution = _of_all(code)
    every = every_access(solution) if solution is not None else None
    whole = KernelAccesses((AnalysedWarp(every),) if every is not None else ())
    if block is None:
        return whole
    threads = block[0] * block[1] * block[2]
    full = threads % LANES == 0
    most, warps = min(_MOST_WARPS, _MOST_ANALYSED // max(1, len(code.code))), -(-threads // LANES)
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
    """Return the values in any full warp; None if these are not alike, or the code cannot be followed."""
    block = block_of(code)
    warp = any_warp(block, only_x=block is not None or not reads_rows(code))
    return solution_in(code, warp) if warp is not None else None


def _in_warp(code: KernelCode, warp: ThreadBlock) -> Known | None:
    solution = solve(code, warp) if warp.warp else solution_in(code, warp)
    return every_access(solution) if solution is not None else None


def _touch_alike(every: Known, other: Known) -> bool:
    """Return whether no more and no less is known of one warp than of all."""
    if every.keys() != other.keys():
        return False
    return all(
        report_of(access, AnalysedWarp(other)) == report_of(every[at], AnalysedWarp(every))
        for at, access in other.items()
    )
