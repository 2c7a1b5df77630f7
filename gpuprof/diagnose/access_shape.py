"""Patterns of a warp's global accesses, each with its own cause of excess and its own fix.

The shape of those with most excess is known by counts and by the lanes' addresses in the code.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from msgspec import Struct

from gpuprof.annotated.counts import EXECUTED
from gpuprof.annotated.kernel_code import total
from gpuprof.code.patterns.lane_shapes import (
    LINE_BYTES,
    WIDE_BYTES,
    LaneShape,
    LaunchedCode,
    ShapeName,
    lane_shapes,
)
from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.facts.traffic import ALL_SECTORS, EXCESS_SECTORS
from gpuprof.diagnose.thresholds import Threshold, context, percent
from gpuprof.model.findings import Cases
from gpuprof.model.recorded import ProfiledInstruction
from gpuprof.model.session import Evidence, Location

WIDE = Threshold("neighbouring-words", WIDE_BYTES, "B")
LINE = Threshold("structure-stride", LINE_BYTES, "B")
SHIFTED = percent("misaligned", 20.0)
MOST = percent("one-pattern", 50.0)


_Known = TypeVar("_Known")
_TARGET = re.compile(r"sm_\d+[af]?")
_MOST_CODE, _MOST_JUMPS = 4000, 200
"""Limits on instructions and jumps; more take seconds."""
_ONE_MORE = 1.5
"""An access that starts inside a sector touches one sector more than it needs.

0.5 is a margin for warps at an edge.
"""


def cases_of_shape(name: ShapeName) -> Cases:
    """Return the reason, action and advice for a shape, as cases of the rule's wording."""
    advice = (name, "not-wider") if name == "stride" else (name,)
    return Cases(why=(name,), action=(name,), advice=advice)


class FoundShape(Struct, frozen=True):
    """The shape of the accesses with most excess, its evidence, and the line of most of them."""

    name: ShapeName
    evidence: tuple[Evidence, ...]
    location: Location | None


def followed(walk: Callable[[LaunchedCode], Mapping[int, _Known]], launch: LaunchedCode | None) -> Mapping[int, _Known]:
    """Return the results of following the code by address.

    Nothing without code, or if no compiler wrote it.
    """
    if launch is None:
        return {}
    try:
        return walk(launch)
    except (ValueError, IndexError, KeyError):
        return {}


def shape_of_excess(facts: KernelFacts) -> FoundShape | None:
    """Return the shape that causes most excess.

    None without code or counts, or if no shape causes half of it.
    """
    every = total(facts.code, EXCESS_SECTORS)
    if every <= 0:
        return None
    shapes = dict(followed(lane_shapes, launched_code(facts)))
    of_name: defaultdict[ShapeName, list[ProfiledInstruction]] = defaultdict(list)
    for item in facts.code:
        shape = shapes.get(item.pc)
        excess = item.counts.get(EXCESS_SECTORS, 0.0)
        if shape is None or excess <= 0 or not item.counts.get(EXECUTED):
            continue
        shapes[item.pc] = shape = _as_counted(shape, item)
        if shape.name != "misaligned" or excess <= _ONE_MORE * item.counts[EXECUTED]:
            of_name[shape.name].append(item)
    if not of_name:
        return None
    items = max(of_name.values(), key=lambda items: total(items, EXCESS_SECTORS))
    share = total(items, EXCESS_SECTORS) / every
    if not MOST.is_reached(share):
        return None
    worst = worst_of(items)
    pattern = MOST.evidence(100 * min(1.0, share), "share-of-pattern")
    weights = {item.pc: item.counts[EXCESS_SECTORS] for item in items}
    return FoundShape(
        shapes[worst.pc].name,
        (request_evidence(worst), *lane_evidence(shapes[worst.pc]), pattern),
        facts.place(lambda item: weights.get(item.pc, 0.0)),
    )


def launched_code(facts: KernelFacts) -> LaunchedCode | None:
    """Return the code and the launch of a case.

    None if they are not known, or the code is too long to follow.
    """
    target, block = facts.arch.name, facts.kernel.block
    if block is None or not facts.has_sass or not _TARGET.fullmatch(target):
        return None
    code = facts.kernel_code.operations
    if len(code) > _MOST_CODE or sum(item.target is not None for item in code) > _MOST_JUMPS:
        return None
    return LaunchedCode(code, target, block, grid=facts.kernel.grid)


def _as_counted(shape: LaneShape, item: ProfiledInstruction) -> LaneShape:
    """Return "misaligned" for lanes with few excess sectors, except for partial rows."""
    is_little = 100 * item.counts[EXCESS_SECTORS] < SHIFTED.value * item.counts.get(ALL_SECTORS, 0.0)
    return LaneShape("misaligned", shape.width_bytes, None) if is_little and shape.name != "partial" else shape


def lane_evidence(lanes: LaneShape) -> tuple[Evidence, ...]:
    """Return the known parts of a lane shape as evidence."""
    words = lanes.beside if lanes.beside > 1 else None
    return (
        context("access-bytes", lanes.width_bytes, "B")
        + context("lane-stride", lanes.apart, "B")
        + context("adjacent-words", words, "word")
        + context("loop-step", lanes.step, "B")
    )


def worst_of(items: Sequence[ProfiledInstruction]) -> ProfiledInstruction:
    """Return the instruction with the most excess sectors."""
    return max(items, key=lambda item: item.counts.get(EXCESS_SECTORS, 0.0))


def request_evidence(item: ProfiledInstruction) -> Evidence:
    """Return an instruction's sectors per request, with the needed number as the threshold."""
    sectors, executed = item.counts.get(ALL_SECTORS, 0.0), item.counts[EXECUTED]
    needed = max(0.0, sectors - item.counts[EXCESS_SECTORS]) / executed
    return Evidence("", sectors / executed, "sector/request", needed, role="worst-request")
