"""Which shape a kernel's accesses have, from its code: what the lanes' addresses are made of, and what was counted.

It takes a walk through the code, so that it is only imported where excess sectors are worth it.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from gpuprof.code.formulas.touched import LaneOrigin, Touched, touched
from gpuprof.code.lanes.access import Access, accesses
from gpuprof.code.lanes.constants import constants_for
from gpuprof.code.lanes.values import LANES
from gpuprof.code.sass.instruction import Instruction, instruction_of
from gpuprof.diagnose.access_shape import (
    LINE,
    MOST,
    SHIFTED,
    WIDE,
    ExcessShape,
    LaneShape,
    ShapeName,
    of_request,
    worst_of,
)
from gpuprof.diagnose.case import EXECUTED, Case
from gpuprof.diagnose.traffic import ALL_SECTORS, EXCESS_SECTORS
from gpuprof.model.recorded import Dim3, ProfiledInstruction

_ONE_MORE = 1.5
"""What starts inside a sector touches one more than it needs; half of another is a margin for warps at an edge."""
_MOST_CODE, _MOST_JUMPS, _MOST_ROUNDS = 4000, 200, 12
"""Instructions, jumps and rounds through the code; more take seconds."""
_TARGET = re.compile(r"sm_\d+[af]?")


def shape_of_excess(case: Case) -> ExcessShape | None:
    """Return the shape that causes most excess; None where the report lacks code or counts, or no shape causes half."""
    excess = {item.pc: item.counts.get(EXCESS_SECTORS, 0.0) for item in case.code}
    total, target, block = sum(excess.values()), case.recorded.hardware.arch.name, case.kernel.block
    if total <= 0 or block is None or not any(item.sass for item in case.code) or not _TARGET.fullmatch(target):
        return None
    code = tuple(filter(None, (instruction_of(item.sass, item.pc) for item in case.code)))
    if len(code) > _MOST_CODE or sum(item.target is not None for item in code) > _MOST_JUMPS:
        return None
    try:
        shapes = dict(lane_shapes(code, target, block, case.kernel.grid))
    except (ValueError, IndexError, KeyError):  # code that no compiler wrote
        return None
    of_name: defaultdict[ShapeName, list[ProfiledInstruction]] = defaultdict(list)
    for item in case.code:
        shape = shapes.get(item.pc)
        if shape is not None and excess[item.pc] > 0 and item.counts.get(EXECUTED):
            shapes[item.pc] = shape = _as_counted(shape, item)
            if shape.name != "misaligned" or _one_more(item):
                of_name[shape.name].append(item)
    ranked = sorted(of_name.values(), key=lambda items: -sum(excess[item.pc] for item in items))
    if not ranked or 100 * sum(excess[item.pc] for item in ranked[0]) < MOST.value * total:
        return None
    return _of_items(case, ranked[0], shapes, total)


def _as_counted(shape: LaneShape, item: ProfiledInstruction) -> LaneShape:
    """Take lanes that touch few sectors more than they need for rows that begin inside one, whatever the code says."""
    little = 100 * item.counts[EXCESS_SECTORS] < SHIFTED.value * item.counts.get(ALL_SECTORS, 0.0)
    return LaneShape("misaligned", shape.width_bytes, None) if little and shape.name != "partial" else shape


def _one_more(item: ProfiledInstruction) -> bool:
    """Tell whether requests touch no more than a sector beyond those that they need."""
    return item.counts[EXCESS_SECTORS] <= _ONE_MORE * item.counts[EXECUTED]


def _of_items(
    case: Case, items: Sequence[ProfiledInstruction], shapes: Mapping[int, LaneShape], total: float
) -> ExcessShape:
    worst = worst_of(items)
    addresses = {item.pc for item in items}
    sectors, needed = of_request(worst)
    return ExcessShape(
        lanes=shapes[worst.pc],
        share=min(1.0, sum(item.counts[EXCESS_SECTORS] for item in items) / total),
        sectors=sectors,
        needed=needed,
        location=case.place(lambda item: item.counts.get(EXCESS_SECTORS, 0.0) if item.pc in addresses else 0.0),
    )


@lru_cache(maxsize=32)
def lane_shapes(code: tuple[Instruction, ...], target: str, block: Dim3, grid: Dim3 | None) -> Mapping[int, LaneShape]:
    """Return the shape of each global access whose code tells it, by address; contiguous lanes count as misaligned.

    An access has none where all lanes touch one place: it never moves more than it needs.
    """
    constants = constants_for(target, block, grid)
    walked = accesses(code, block, constants, most_rounds=_MOST_ROUNDS)
    lanes = {access.address: _offsets(access) for access in walked if access.space == "global"}
    return shapes_of(touched(code, block, constants), lanes, block)


def shapes_of(seen: Sequence[Touched], lanes: Mapping[int, Sequence[int]], block: Dim3) -> Mapping[int, LaneShape]:
    """Return the shape of each of these accesses, by address; `lanes`: where active lanes lie, of those known."""
    groups: defaultdict[tuple[object, ...], list[Touched]] = defaultdict(list)
    for access in seen:
        groups[access.base, access.kind, access.loop].append(access)
    sides = {access: run for group in groups.values() for run in _runs(group) for access in run.accesses}
    shapes = {}
    for access in seen:
        offsets = lanes.get(access.address, ())
        shape = _by_lanes(access, offsets) if offsets else _by_index(access, block)
        if shape is None and not _one_place(offsets):
            shape = _by_neighbours(access, sides[access], _apart(offsets) if offsets else _along_x(access, block))
        if shape is not None:
            shapes[access.address] = shape
    return shapes


def _offsets(access: Access) -> tuple[int, ...]:
    """Return where the active lanes touch memory, by the distance from lane 0; nothing where that is not known."""
    if access.offsets is None:
        return ()
    return tuple(offset for offset, active in zip(access.offsets, access.active, strict=True) if active)


def _one_place(offsets: Sequence[int]) -> bool:
    return len(offsets) > 0 and len(set(offsets)) == 1


def _apart(offsets: Sequence[int]) -> int | None:
    """Return by how much each lane lies further than the one before it, if that is the same for all."""
    distances = {after - before for before, after in pairwise(offsets)}
    return distances.pop() if len(distances) == 1 else None


def _by_lanes(access: Touched, offsets: Sequence[int]) -> LaneShape | None:
    """Tell contiguous lanes, and rows of them, by where they are known to lie."""
    width = access.width_bytes
    apart = _apart(offsets)
    if apart is not None:
        return LaneShape("misaligned", width, apart) if abs(apart) == width else None
    beside = sum(after - before == width for before, after in pairwise(offsets))
    return LaneShape("partial", width, None) if 2 * beside >= len(offsets) else None


def _by_index(access: Touched, block: Dim3) -> LaneShape | None:
    """Tell contiguous lanes, and rows of them, by what threadIdx.x is multiplied with."""
    if access.along_x is None or abs(access.along_x) != access.width_bytes:
        return None
    if _along_x(access, block) is not None:
        return LaneShape("misaligned", access.width_bytes, access.along_x)
    rows = access.origin in LaneOrigin.X | LaneOrigin.YZ and block[0] < LANES
    return LaneShape("partial", access.width_bytes, None) if rows else None


def _along_x(access: Touched, block: Dim3) -> int | None:
    """Return the distance of lanes where threadIdx.x alone makes it, in blocks whose rows fill warps."""
    return access.along_x if access.origin == LaneOrigin.X and block[0] % LANES == 0 else None


def _by_neighbours(access: Touched, run: _Run, apart: int | None) -> LaneShape | None:
    """Tell the other shapes by what else a thread touches beside the word, and by what the address is made of."""
    width, distance = access.width_bytes, abs(apart) if apart is not None else None
    bytes_beside, beside = run.size, run.beside
    step = access.step if access.step is not None and abs(access.step) <= bytes_beside else None

    def shape(name: ShapeName) -> LaneShape:
        return LaneShape(name=name, width_bytes=width, apart=apart, beside=beside, step=step)

    if access.origin is LaneOrigin.NOTHING or distance == 0:
        return None
    if step is None and distance is not None and WIDE.value < distance <= LINE.value:
        place = bisect_left(run.offsets, access.offset)
        near = run.offsets[max(0, place - 1) : place + 2]
        if any(0 < abs(offset - access.offset) < distance for offset in near):
            return shape("structure")
    if step is not None or (beside > 1 and (bytes_beside >= WIDE.value or bytes_beside == distance)):
        return shape("neighbours")
    if LaneOrigin.UNKNOWN in access.origin:
        return None
    return shape("scatter" if LaneOrigin.LOADED in access.origin else "stride")


@dataclass(frozen=True, slots=True)
class _Run:
    """Accesses of a thread that lie side by side: how many bytes and words they are, and the offsets of their group."""

    accesses: tuple[Touched, ...]
    size: int
    beside: int
    offsets: Sequence[int]


def _runs(group: Sequence[Touched]) -> Iterator[_Run]:
    """Part accesses of one base into those that lie side by side."""
    offsets = sorted({item.offset for item in group})
    run: list[Touched] = []
    end = 0
    for item in sorted(group, key=lambda item: item.offset):
        if run and item.offset > end:
            yield _run_of(run, end, offsets)
            run = []
        end = max(end, item.offset + item.width_bytes) if run else item.offset + item.width_bytes
        run.append(item)
    yield _run_of(run, end, offsets)


def _run_of(run: Sequence[Touched], end: int, offsets: Sequence[int]) -> _Run:
    beside = len({item.offset for item in run})
    return _Run(accesses=tuple(run), size=end - run[0].offset, beside=beside, offsets=offsets)
