"""Patterns of a warp's global accesses, each with its own cause of excess and its own fix."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from gpuprof.annotated.counts import EXECUTED
from gpuprof.code.patterns.lane_shapes import LINE_BYTES, WIDE_BYTES, LaneShape, ShapeName
from gpuprof.diagnose.facts.traffic import ALL_SECTORS, EXCESS_SECTORS
from gpuprof.diagnose.thresholds import Threshold, context, percent
from gpuprof.model.findings import Cases
from gpuprof.model.recorded import ProfiledInstruction
from gpuprof.model.session import Evidence, Location

WIDE = Threshold("neighbouring-words", WIDE_BYTES, "B")
LINE = Threshold("structure-stride", LINE_BYTES, "B")
SHIFTED = percent("misaligned", 20.0)
MOST = percent("one-pattern", 50.0)


def cases_of_shape(name: ShapeName) -> Cases:
    """Return the reason, action and advice for a shape, as cases of the rule's wording."""
    advice = (name, "not-wider") if name == "stride" else (name,)
    return Cases(why=(name,), action=(name,), advice=advice)


class FoundShape(Struct, frozen=True):
    """The shape of the accesses with most excess, its evidence, and the line of most of them."""

    name: ShapeName
    evidence: tuple[Evidence, ...]
    location: Location | None


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
