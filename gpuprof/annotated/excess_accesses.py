"""The accesses that cause most of an excess of sectors, by the addresses of their lanes in the code.

Counts at each instruction give their share of the excess. Without these counts, an access is the cause if no other one
can cause that much.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from gpuprof.annotated.counts import ALL_SECTORS, EXCESS_SECTORS, EXECUTED
from gpuprof.annotated.kernel_code import CountedCode, line_of, total
from gpuprof.model.recorded import Dim3, ProfiledInstruction
from gpuprof.model.session import Location
from gpuprof.sass.patterns.lane_shapes import (
    LaneShape,
    LaunchedCode,
    ShapeName,
    WarpRequest,
    global_requests,
)

MOST_FRACTION = 0.5
"""The least part of an excess that its cause has."""
SHIFTED_FRACTION = 0.2
"""A smaller part of excess sectors is that of addresses that are not aligned, whatever the shape."""
_TARGET = re.compile(r"sm_\d+[af]?")
_MOST_CODE, _MOST_JUMPS = 4000, 200
"""Limits on instructions and jumps; more take seconds."""
_ONE_MORE_SECTOR = 1.5
"""An access that starts inside a sector touches one sector more than it needs.

0.5 is a margin for warps at an edge.
"""


class ExcessCause(NamedTuple):
    """Accesses of one shape that cause most of an excess.

    `share`: their least part of it. `accesses`: the number of them. `place`: the line of most of it; None if the code
    alone does not show one. `request`: the sectors of a request of the worst of them, and those that it needs; None
    without counts.
    """

    lanes: LaneShape
    share: float
    accesses: int
    place: Location | None
    request: tuple[float, float] | None = None


def launched_code(code: CountedCode, target: str, block: Dim3 | None, grid: Dim3 | None) -> LaunchedCode | None:
    """Return the code with its launch; None if it is not known, or too long to follow."""
    operations = code.operations
    if block is None or not operations or not _TARGET.fullmatch(target):
        return None
    if len(operations) > _MOST_CODE or sum(item.target is not None for item in operations) > _MOST_JUMPS:
        return None
    return LaunchedCode(operations, target, block, grid)


def cause_of_excess(code: CountedCode, launch: LaunchedCode, excess: Mapping[str, float]) -> ExcessCause | None:
    """Return the accesses that cause most of an excess; None if it is not known.

    `excess` maps loads and stores, if they have an excess, to their excess sectors. It is used if instructions have no
    counts of sectors.
    """
    if any(EXCESS_SECTORS in item.counts or ALL_SECTORS in item.counts for item in code.instructions):
        return _by_counts(code, launch)
    return _by_code(code, launch, excess) if excess else None


def _followed(launch: LaunchedCode) -> Mapping[int, WarpRequest]:
    """Return the accesses of global memory by address; nothing if no compiler wrote the code."""
    try:
        return global_requests(launch)
    except (ValueError, IndexError, KeyError):
        return {}


def _by_counts(code: CountedCode, launch: LaunchedCode) -> ExcessCause | None:
    """Return the accesses with most excess sectors; None if there are none, or if no shape causes half of them."""
    every = total(code.instructions, EXCESS_SECTORS)
    if every <= 0:
        return None
    shapes = {pc: request.shape for pc, request in _followed(launch).items() if request.shape is not None}
    of_name: defaultdict[ShapeName, list[ProfiledInstruction]] = defaultdict(list)
    for item in code.instructions:
        shape = shapes.get(item.pc)
        excess = item.counts.get(EXCESS_SECTORS, 0.0)
        if shape is None or excess <= 0 or not item.counts.get(EXECUTED):
            continue
        if excess < SHIFTED_FRACTION * item.counts.get(ALL_SECTORS, 0.0) and shape.name != "partial":
            shapes[item.pc] = shape = LaneShape("misaligned", shape.width_bytes, None)
        if explains(shape, excess / item.counts[EXECUTED]):
            of_name[shape.name].append(item)
    if not of_name:
        return None
    items = max(of_name.values(), key=lambda items: total(items, EXCESS_SECTORS))
    share = min(1.0, total(items, EXCESS_SECTORS) / every)
    if share < MOST_FRACTION:
        return None
    worst = max(items, key=lambda item: item.counts[EXCESS_SECTORS])
    sectors, executed = worst.counts.get(ALL_SECTORS, 0.0), worst.counts[EXECUTED]
    request = sectors / executed, max(0.0, sectors - worst.counts[EXCESS_SECTORS]) / executed
    weights = {item.pc: item.counts[EXCESS_SECTORS] for item in items}
    place = code.place(lambda item: weights.get(item.pc, 0.0))
    return ExcessCause(shapes[worst.pc], share, len(items), place, request)


def explains(shape: LaneShape, excess: float) -> bool:
    """Return whether an access of this shape may have so many excess sectors a request."""
    return shape.name != "misaligned" or excess <= _ONE_MORE_SECTOR


class _Suspect(NamedTuple):
    """An access that runs, and the maximum excess sectors of all its requests."""

    item: ProfiledInstruction
    request: WarpRequest
    most: float


def _by_code(code: CountedCode, launch: LaunchedCode, excess: Mapping[str, float]) -> ExcessCause | None:
    """Return the accesses that must cause most of the excess; None if others may cause it.

    The place is the line whose accesses alone can cause most of it, if there is one.
    """
    every = _suspects(code, launch, excess)
    known = [each for each in every if each.request.shape is not None and each.request.shape.name != "misaligned"]
    cause = _only_cause(known, lambda each: each.request.shape and each.request.shape.name, every, excess)
    line = _only_cause(cause, lambda each: line_of(each.item), every, excess)
    worst = max(line or cause, key=lambda each: each.most, default=None)
    if worst is None or worst.request.shape is None:
        return None
    weights = {each.item.pc: each.most for each in line}
    place = code.place(lambda item: weights.get(item.pc, 0.0))
    # Its share of the excess is not known.
    place = replace(place, share=None) if place is not None else None
    return ExcessCause(worst.request.shape, _least_share(cause, every, excess), len(cause), place)


def _suspects(code: CountedCode, launch: LaunchedCode, excess: Mapping[str, float]) -> Sequence[_Suspect]:
    """Return the accesses with an excess that run; none if a part of the code cannot be read, which may cause it."""
    if len(launch.code) != len(code.instructions):
        return ()
    requests = _followed(launch)
    suspects = []
    for item in code.instructions:
        request = requests.get(item.pc)
        runs = item.counts.get(EXECUTED)
        if request is not None and request.kind in excess and runs:
            suspects.append(_Suspect(item, request, runs * request.most))
    return suspects


def _only_cause(
    among: Sequence[_Suspect],
    key: Callable[[_Suspect], Hashable],
    every: Sequence[_Suspect],
    excess: Mapping[str, float],
) -> Sequence[_Suspect]:
    """Return the only group of accesses that alone causes most of the excess; empty if there is not one."""
    groups: defaultdict[Hashable, list[_Suspect]] = defaultdict(list)
    for each in among:
        groups[key(each)].append(each)
    causes = [group for group in groups.values() if _least_share(group, every, excess) >= MOST_FRACTION]
    return causes[0] if len(causes) == 1 else ()


def _least_share(group: Sequence[_Suspect], every: Sequence[_Suspect], excess: Mapping[str, float]) -> float:
    """Return the least share of the excess that a group causes, if others cause all they can."""
    surely = 0.0
    for kind, number in excess.items():
        own = sum(each.most for each in group if each.request.kind == kind)
        others = sum(each.most for each in every if each.request.kind == kind) - own
        surely += max(0.0, min(own, number - others))
    return min(1.0, surely / sum(excess.values())) if any(excess.values()) else 0.0
