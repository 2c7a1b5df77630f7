"""The shapes of a warp's global accesses, each with its own cause of excess and its own fix."""

from __future__ import annotations

from gpuprof.annotated.excess_accesses import MOST_FRACTION, SHIFTED_FRACTION, ExcessCause
from gpuprof.diagnose.thresholds import Threshold, context, percent
from gpuprof.model.findings import Cases
from gpuprof.model.session import Evidence
from gpuprof.sass.patterns.lane_shapes import LINE_BYTES, WIDE_BYTES, LaneShape, ShapeName

WIDE = Threshold("neighbouring-words", WIDE_BYTES, "B")
LINE = Threshold("structure-stride", LINE_BYTES, "B")
SHIFTED = percent("misaligned", 100 * SHIFTED_FRACTION)
MOST = percent("one-pattern", 100 * MOST_FRACTION)


def cases_of_shape(name: ShapeName) -> Cases:
    """Return the reason, action and advice for a shape, as cases of the rule's wording."""
    advice = (name, "not-wider") if name == "stride" else (name,)
    return Cases(why=(name,), action=(name,), advice=advice)


def shape_evidence(cause: ExcessCause) -> tuple[Evidence, ...]:
    """Return the known parts of the shape of the accesses that cause an excess, and their share of it."""
    share = "share-of-pattern"
    if cause.request is not None:
        sectors, needed = cause.request
        evidence: tuple[Evidence, ...] = (Evidence("", sectors, "sector/request", needed, role="worst-request"),)
    else:
        share = "share-of-pattern-by-code"
        evidence = context("accesses-of-pattern", cause.accesses, "instruction")
    return (*evidence, *lane_evidence(cause.lanes), MOST.evidence(100 * cause.share, share))


def lane_evidence(lanes: LaneShape) -> tuple[Evidence, ...]:
    """Return the known parts of a shape."""
    evidence = context("access-bytes", lanes.width_bytes, "B") + context("lane-stride", lanes.apart, "B")
    evidence += context("adjacent-words", lanes.beside if lanes.beside > 1 else None, "word")
    return evidence + context("loop-step", lanes.step, "B")
