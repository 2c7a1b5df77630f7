"""The loops of a kernel: nesting, constant trip counts, the loop around each instruction."""

from __future__ import annotations

from collections.abc import Mapping

from gpuprof.review.code import KernelCode
from gpuprof.review.contract import CodeLoop
from gpuprof.review.facts.solutions import solution_of
from gpuprof.sass.binary.elf import INSTRUCTION_BYTES
from gpuprof.sass.dataflow.trip_counts import trip_counts_of
from gpuprof.sass.flow.graph import flow_of


def loops_of(code: KernelCode) -> tuple[CodeLoop, ...]:
    """Return the loops by the offsets of their headers; the id of each is its index."""
    graph = flow_of(code.code)
    numbers = _numbers(graph.loops)
    solution = solution_of(code) if numbers else None
    trips = trip_counts_of(solution) if solution is not None else {}
    loops = []
    for header, number in numbers.items():
        around = graph.loops_around[header]
        blocks = [graph.blocks[block] for block in sorted(graph.loops[header])]
        start = graph.blocks[header][0].address
        file, line = code.lines.get(start, (None, None))
        loop = CodeLoop(
            id=number,
            parent=numbers[around[1]] if len(around) > 1 else None,
            depth=len(around),
            start=blocks[0][0].address,
            end=blocks[-1][-1].address + INSTRUCTION_BYTES,
            instructions=sum(map(len, blocks)),
            trips=trips.get(start),
            file=file,
            line=line,
        )
        loops.append(loop)
    return tuple(loops)


def innermost_loops(code: KernelCode) -> Mapping[int, int]:
    """Map offsets of instructions in loops to the id of the innermost loop."""
    graph = flow_of(code.code)
    numbers = _numbers(graph.loops)
    return {
        instruction.address: numbers[around[0]]
        for block, around in graph.loops_around.items()
        for instruction in graph.blocks[block]
    }


def _numbers(loops: Mapping[int, object]) -> dict[int, int]:
    """Return the ids of loops by their headers."""
    return {header: number for number, header in enumerate(sorted(loops))}
