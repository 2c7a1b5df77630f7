"""The loops of a kernel by their instructions: natural loops of the control flow that its jumps make."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gpuprof.sass.flow.graph import flow_of
from gpuprof.sass.instruction import Instruction


class Loop(NamedTuple):
    """A loop: every instruction from which a jump back to the header is reached without passing the header."""

    header: int
    instructions: tuple[Instruction, ...]


def find_loops(code: Sequence[Instruction]) -> tuple[Loop, ...]:
    """Return the loops of a kernel, the smallest first."""
    graph = flow_of(code)
    loops = (
        Loop(graph.blocks[header][0].address, tuple(item for block in sorted(body) for item in graph.blocks[block]))
        for header, body in graph.loops.items()
    )
    return tuple(sorted(loops, key=lambda loop: len(loop.instructions)))


def jumping_calls(code: Sequence[Instruction]) -> frozenset[int]:
    """Return the addresses of calls that are jumps."""
    return flow_of(code).jumps
