"""Which addresses the lanes of a warp touch in a kernel of a case, from its SASS and its launch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from benchmarks.diagnosis.agree import scalar
from benchmarks.diagnosis.case import Case, Room
from benchmarks.diagnosis.compiled import CompiledKernel
from gpuprof.sass.dataflow.accesses import accesses_of as accesses_by_values
from gpuprof.sass.dataflow.definition_graph import definition_graph
from gpuprof.sass.dataflow.launch_constants import PlacedArgument, known_constants
from gpuprof.sass.dataflow.request_costs import Access
from gpuprof.sass.dataflow.solution import Solution
from gpuprof.sass.dataflow.warps import ThreadBlock
from gpuprof.sass.flow.graph import graph_of

Dims = tuple[int, int, int]


class ArgumentBytes(NamedTuple):
    """An argument of a kernel: a number of 1, 2, 4 or 8 bytes; without a value it is not known."""

    size_bytes: int
    value: int | None = None
    is_pointer: bool = False


POINTER = ArgumentBytes(8, is_pointer=True)
_BYTES = {"u64": 8, "f64": 8, "u32": 4, "i32": 4, "f32": 4}
_WHOLE = ("u32", "u64", "i32")


def accesses_of(
    case: Case, target: str, entry: str, kernel: CompiledKernel, rooms: Mapping[str, Room]
) -> tuple[Access, ...]:
    """Return the memory accesses of a kernel, by its large sizes."""
    sizes = case.sized(rooms[case.entries[0]])
    shape = case.launches[entry].shape(sizes, rooms[entry])
    constants = constants_for(target, shape.block, shape.grid, tuple(_arguments(case, sizes)))
    graph = graph_of(kernel.code)
    if graph is None:
        return ()
    return tuple(accesses_by_values(Solution(definition_graph(graph), ThreadBlock(shape.block), constants)).values())


def constants_for(
    target: str, block: Dims, grid: Dims | None, arguments: Sequence[ArgumentBytes] = ()
) -> dict[int, int]:
    """Return the known bytes of constant bank 0 by their offset, for one launch; `grid` None: not known.

    Arguments lie one behind the other, each at a multiple of its own size.
    """
    offset = 0
    placed: list[PlacedArgument] = []
    pointers: list[int] = []
    for argument in arguments:
        offset += -offset % argument.size_bytes
        placed.append(PlacedArgument(offset, argument.size_bytes, argument.value))
        pointers += [offset] if argument.is_pointer else []
        offset += argument.size_bytes
    return known_constants(target, block, grid, placed, aligned=lambda begin: [begin + at for at in pointers])


def _arguments(case: Case, sizes: Mapping[str, int]) -> Iterator[ArgumentBytes]:
    """Yield the arguments, whole numbers with their values."""
    for kind, name in case.arguments:
        if kind == "buffer":
            yield POINTER
        else:
            yield ArgumentBytes(_BYTES[kind], int(scalar(sizes, kind, name or "", 0)) if kind in _WHOLE else None)
