"""The values of registers in code, and the accesses and loops that follow from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpuprof.sass.dataflow.accesses import access_of, accesses_in_all_blocks
from gpuprof.sass.dataflow.definition_graph import definition_graph
from gpuprof.sass.dataflow.request_costs import Access
from gpuprof.sass.dataflow.solution import Solution
from gpuprof.sass.dataflow.trip_counts import trip_counts_of
from gpuprof.sass.dataflow.warps import ANY_ROWS, ThreadBlock
from gpuprof.sass.flow.graph import graph_of
from gpuprof.sass.instruction import Instruction
from gpuprof.sass.requests import requests


def solution_of(code: Sequence[Instruction], warp: ThreadBlock, constants: Mapping[int, int]) -> Solution:
    """The values of registers in a warp."""
    graph = graph_of(code)
    assert graph is not None
    return Solution(definition_graph(graph), warp, constants)


def accesses(
    code: Sequence[Instruction], block: tuple[int, int, int], constants: Mapping[int, int], warp: int = 0
) -> tuple[Access, ...]:
    """The accesses of one warp in any block, in the order of the code, with those that it never comes to."""
    known = accesses_in_all_blocks(solution_of(code, ThreadBlock(block, warp), constants)) or {}
    return tuple(
        known.get((item.address, request.space), access_of(item, request, 0))
        for item in code
        for request in requests(item)
    )


def trip_counts(code: Sequence[Instruction], constants: Mapping[int, int]) -> dict[int, int]:
    """How often loops run, by the address of the header."""
    return trip_counts_of(solution_of(code, ANY_ROWS, constants))
