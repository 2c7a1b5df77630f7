"""Patterns of a warp's global accesses, each with its own cause of excess and its own fix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from gpuprof.diagnose.facts.code import EXECUTED
from gpuprof.diagnose.facts.traffic import ALL_SECTORS, EXCESS_SECTORS
from gpuprof.diagnose.thresholds import Threshold, context, percent
from gpuprof.model.findings import Cases
from gpuprof.model.recorded import ProfiledInstruction
from gpuprof.model.session import Evidence, Location

ShapeName = Literal["neighbours", "structure", "stride", "scatter", "misaligned", "partial"]

WIDE = Threshold("neighbouring-words", 16, "B")
LINE = Threshold("structure-stride", 128, "B")
SHIFTED = percent("misaligned", 20.0)
MOST = percent("one-pattern", 50.0)


def cases_of_shape(name: ShapeName) -> Cases:
    """Return the reason, action and advice for a shape, as cases of the rule's wording."""
    advice = (name, "not-wider") if name == "stride" else (name,)
    return Cases(why=(name,), action=(name,), advice=advice)


class LaneShape(Struct, frozen=True):
    """How the lanes of a warp access memory in one instruction.

    `apart`: the bytes from most lanes to the next; None if code and launch do not show it.
    `beside`: the number of adjacent words that a thread accesses one at a time, per iteration if it
    is in a loop.
    `step`: the bytes from one iteration to the next; None if there is no such step.
    """

    name: ShapeName
    width_bytes: int
    apart: int | None
    beside: int = 1
    step: int | None = None


class FoundShape(Struct, frozen=True):
    """The shape of the accesses with most excess, its evidence, and the line of most of them."""

    name: ShapeName
    evidence: tuple[Evidence, ...]
    location: Location | None


def lane_evidence(lanes: LaneShape, how: str = "") -> tuple[Evidence, ...]:
    """Return the known parts of a lane shape as evidence; the roles end with `how`."""
    words = lanes.beside if lanes.beside > 1 else None
    return (
        context(f"access-bytes{how}", lanes.width_bytes, "B")
        + context(f"lane-stride{how}", lanes.apart, "B")
        + context(f"adjacent-words{how}", words, "word")
        + context(f"loop-step{how}", lanes.step, "B")
    )


def worst_of(items: Sequence[ProfiledInstruction]) -> ProfiledInstruction:
    """Return the instruction with the most excess sectors."""
    return max(items, key=lambda item: item.counts.get(EXCESS_SECTORS, 0.0))


def request_evidence(item: ProfiledInstruction) -> Evidence:
    """Return an instruction's sectors per request, with the needed number as the threshold."""
    sectors, executed = item.counts.get(ALL_SECTORS, 0.0), item.counts[EXECUTED]
    needed = max(0.0, sectors - item.counts[EXCESS_SECTORS]) / executed
    return Evidence("", sectors / executed, "sector/request", needed, role="worst-request")
