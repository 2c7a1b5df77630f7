"""The shapes of a warp's global accesses, from the addresses of its lanes."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, compress, pairwise
from typing import Literal, NamedTuple

from msgspec import Struct

from gpuprof.sass.dataflow.accesses import accesses_of
from gpuprof.sass.dataflow.addresses import KernelAddresses, LaneAddress, addresses_of
from gpuprof.sass.dataflow.definition_graph import definition_graph
from gpuprof.sass.dataflow.expressions import LANES
from gpuprof.sass.dataflow.launch_constants import known_constants
from gpuprof.sass.dataflow.solution import Solution
from gpuprof.sass.dataflow.warps import ThreadBlock
from gpuprof.sass.flow.graph import graph_of
from gpuprof.sass.instruction import Instruction
from gpuprof.sass.requests import LaneRequest, requests
from gpuprof.units import SECTOR_BYTES

ShapeName = Literal["neighbours", "structure", "stride", "scatter", "misaligned", "partial"]

WIDE_BYTES = 16
"""The most bytes that a thread can access at once."""
LINE_BYTES = 128
"""The bytes of a cache line."""
_SPACES = frozenset({"global", "generic"})


class LaneShape(Struct, frozen=True):
    """How the lanes of a warp access memory in one instruction.

    `apart`: the bytes from most lanes to the next; None if code and launch do not show it. `beside`: the number of
    adjacent words that a thread accesses one at a time, per iteration if it is in a loop. `step`: the bytes from one
    iteration to the next; None if there is no such step.
    """

    name: ShapeName
    width_bytes: int
    apart: int | None
    beside: int = 1
    step: int | None = None


class LaunchedCode(NamedTuple):
    """The code of a kernel, and how it was launched."""

    code: tuple[Instruction, ...]
    target: str
    block: tuple[int, int, int]
    grid: tuple[int, int, int] | None


class WarpRequest(NamedTuple):
    """An access of a warp by its code: its shape, if known, and the maximum waste of a request.

    `most`: the most unused sectors that it touches; those of lanes far apart if the addresses are unknown.
    """

    kind: str
    shape: LaneShape | None
    most: float


def global_requests(launch: LaunchedCode) -> Mapping[int, WarpRequest]:
    """Return every access of global memory by its address; nothing if the code cannot be followed."""
    graph = graph_of(launch.code)
    if graph is None:
        return {}
    constants = known_constants(launch.target, launch.block, launch.grid)
    solution = Solution(definition_graph(graph), ThreadBlock(launch.block), constants)
    addresses = addresses_of(solution, _SPACES)
    lanes = _active_lanes(solution, addresses)
    shapes = shapes_of(addresses, lanes)
    known = {}
    for instruction in launch.code:
        at = instruction.address
        for request in requests(instruction):
            if request.space in _SPACES:
                most = _most_unused(addresses.by_request.get((at, request.space)), lanes.get(at, ()), request)
                known[at] = WarpRequest(request.kind, shapes.get(at), most)
    return known


def _active_lanes(solution: Solution, addresses: KernelAddresses) -> Mapping[int, Sequence[int]]:
    """Return the known offsets of active lanes by the instruction's address."""
    lanes = {}
    for access in accesses_of(solution).values():
        if access.offsets is not None and (access.address, access.space) in addresses.by_request:
            lanes[access.address] = tuple(compress(access.offsets, access.active))
    return lanes


def _most_unused(item: LaneAddress | None, lanes: Sequence[int], request: LaneRequest) -> float:
    """Return the maximum number of sectors of a request beyond those that its bytes fill."""
    width = request.width_bytes
    apart = LANES * max(0.0, 1.0 - width / SECTOR_BYTES)
    if item is None:
        return apart
    distances = _distances(item, lanes)
    numbers = [distance for distance in distances if distance is not None]
    beside = max(numbers.count(width), numbers.count(-width))
    # A row of lanes that begins inside a sector touches one sector more; a single word fills a part of one.
    ends = 1.0 + len(distances) - beside if beside else 0.0
    if len(numbers) < len(distances):
        return min(apart, 2 * ends or apart)
    begins = set(accumulate(numbers, initial=0))
    sectors = {at // SECTOR_BYTES for begin in begins for at in (begin, begin + width - 1)}
    return min(apart, len(sectors) - len(begins) * width / SECTOR_BYTES + ends)


class _Run(NamedTuple):
    """Adjacent accesses of a thread: their bytes, the number of words, and the offsets of all accesses of this base."""

    accesses: Sequence[LaneAddress]
    size: int
    beside: int
    offsets: Sequence[int]


def shapes_of(addresses: KernelAddresses, lanes: Mapping[int, Sequence[int]]) -> Mapping[int, LaneShape]:
    """Return the shape of each global access by address; contiguous lanes count as misaligned.

    An access has no shape if all lanes touch one address: it never moves more than it needs. `lanes` has the offsets of
    active lanes, if known.
    """
    groups: defaultdict[tuple[object, ...], list[LaneAddress]] = defaultdict(list)
    for item in addresses.by_request.values():
        if item.request.space in _SPACES:
            groups[item.base, item.request.kind, item.loop].append(item)
    shapes = {}
    for group in groups.values():
        for run in _runs(group):
            for item in run.accesses:
                address = item.instruction.address
                shape = _shape(item, _distances(item, lanes.get(address, ())), run, addresses)
                if shape is not None:
                    shapes[address] = shape
    return shapes


def _runs(group: Sequence[LaneAddress]) -> Iterator[_Run]:
    """Split accesses of one base into runs of adjacent ones."""
    offsets = sorted({item.offset for item in group})
    runs: list[list[LaneAddress]] = []
    end = 0
    for item in sorted(group, key=lambda item: item.offset):
        if not runs or item.offset > end:
            runs.append([])
            end = item.offset
        runs[-1].append(item)
        end = max(end, item.offset + item.request.width_bytes)
    for run in runs:
        size = max(item.offset + item.request.width_bytes for item in run) - run[0].offset
        yield _Run(run, size, len({item.offset for item in run}), offsets)


def _distances(item: LaneAddress, lanes: Sequence[int]) -> list[int | None]:
    """Return the distance of each lane from the one before; None where it is unknown."""
    if lanes:
        return [after - before for before, after in pairwise(lanes)]
    if item.varying:
        return [None]
    parts = zip(item.apart, *item.times.values(), strict=True)
    return [after[0] - before[0] if after[1:] == before[1:] else None for before, after in pairwise(parts)]


def _shape(
    item: LaneAddress, distances: Sequence[int | None], run: _Run, addresses: KernelAddresses
) -> LaneShape | None:
    """Return the shape of an access; None if all lanes touch one address, or if nothing is known."""
    if set(distances) <= {0}:
        return None
    width = item.request.width_bytes
    apart = _majority(distances)
    if apart is not None and abs(apart) == width:
        is_whole = distances.count(apart) == len(distances)
        return LaneShape("misaligned", width, apart) if is_whole else LaneShape("partial", width, None)
    step = item.step
    if step is not None and abs(step) > run.size:
        step = None
    name = _by_neighbours(item, run, apart, step)
    if name is None and None in distances:
        by_loaded = addresses.differs_by_loaded(item)
        if by_loaded is None:
            return None
        if by_loaded:
            name = "scatter"
    return LaneShape(name or "stride", width, apart or None, run.beside, step)


def _majority(distances: Sequence[int | None]) -> int | None:
    """Return the value of more than half of the distances; None if there is none."""
    number = max(set(distances), key=distances.count)
    return number if 2 * distances.count(number) > len(distances) else None


def _by_neighbours(item: LaneAddress, run: _Run, apart: int | None, step: int | None) -> ShapeName | None:
    """Return a shape that follows from other words of the same thread; None if there is none."""
    if step is None and apart is not None and WIDE_BYTES < abs(apart) <= LINE_BYTES:
        place = bisect_left(run.offsets, item.offset)
        near = run.offsets[max(0, place - 1) : place + 2]
        if any(0 < abs(offset - item.offset) < abs(apart) for offset in near):
            return "structure"
    is_wide = run.size >= WIDE_BYTES or (apart is not None and run.size == abs(apart))
    return "neighbours" if step is not None or (run.beside > 1 and is_wide) else None
