"""The shapes in which the lanes of a warp touch global memory: what causes excess sectors decides what repairs them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from gpuprof.diagnose.case import EXECUTED, Case
from gpuprof.diagnose.rule import Threshold, percent
from gpuprof.diagnose.traffic import ALL_SECTORS, EXCESS_SECTORS
from gpuprof.model.recorded import ProfiledInstruction
from gpuprof.model.session import Evidence, Location

ShapeName = Literal["neighbours", "structure", "stride", "scatter", "misaligned", "partial"]

WIDE = Threshold(
    "neighbouring words", 16, "B", reason="the widest access on most GPUs: less leaves half a sector unused"
)
LINE = Threshold("lane stride of structures", 128, "B", reason="a cache line: lanes further apart are rows of a matrix")
SHIFTED = percent(
    "excess of misaligned accesses",
    20.0,
    "a misaligned row of 4-byte words moves five sectors instead of four",
)
MOST = percent("excess of one pattern", 50.0, "fixing a pattern that causes less leaves most of the excess")
_REQUEST = "sectors per request of the worst instruction, against those needed"
_BESIDE = "adjacent words that a thread accesses one at a time"


class LaneShape(Struct, frozen=True):
    """How the lanes of a warp touch memory in one instruction.

    `apart`: the bytes from most lanes to the next, where code and launch tell. `beside`: how many words side by
    side a thread touches one at a time, in a turn of a loop if it is in one; `step`: by how many bytes that goes on to
    the next ones; None where it does not.
    """

    name: ShapeName
    width_bytes: int
    apart: int | None
    beside: int = 1
    step: int | None = None


class ExcessShape(Struct, frozen=True):
    """The shape that causes most excess sectors of a kernel, as its worst instruction has it.

    `share` of the excess is of this shape; `sectors` and `needed` are those of a request of that instruction.
    `location` is the line that most of it comes from.
    """

    lanes: LaneShape
    share: float
    sectors: float
    needed: float
    location: Location | None

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """Return what tells the shape; the value held against the sectors of a request is what it needs."""
        share = Evidence(
            "", 100 * self.share, "%", threshold=MOST.value, meaning="share of the excess with this pattern"
        )
        return (_sectors_of_request(self.sectors, self.needed), *_of_lanes(self.lanes), share)


class CodeShape(Struct, frozen=True):
    """The shape of the only accesses that can cause most of the excess, by the code: it was not counted where it is.

    `instructions` are how many have it, each of them one of `accesses`: "loads", "stores". `share`: how much of the
    excess no other access can cause; None where that is not counted either, and no other can have any but at edges.
    """

    lanes: LaneShape
    instructions: int
    accesses: str
    share: float | None
    location: Location | None

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """Return what tells the shape, as the code has it."""
        meaning = f"{self.accesses} with this pattern in the code, where excess was not counted"
        count = Evidence("", float(self.instructions), "instruction", threshold=None, meaning=meaning)
        lanes = (replace(item, meaning=f"{item.meaning}, by the code") for item in _of_lanes(self.lanes))
        if self.share is None:
            return (count, *lanes)
        meaning = "share of the excess that only this pattern can cause, by the code"
        return (count, *lanes, Evidence("", 100 * self.share, "%", threshold=MOST.value, meaning=meaning))


def _of_lanes(lanes: LaneShape) -> Iterator[Evidence]:
    """Return how lanes touch memory, as far as it is known."""
    items = (
        (lanes.width_bytes, "B", "bytes per thread in one access"),
        (lanes.apart, "B", "stride from lane to lane"),
        (lanes.beside if lanes.beside > 1 else None, "word", _BESIDE),
        (lanes.step, "B", "address step per loop iteration"),
    )
    for value, unit, meaning in items:
        if value is not None:
            yield Evidence("", float(value), unit, threshold=None, meaning=meaning)


def worst_of(items: Sequence[ProfiledInstruction]) -> ProfiledInstruction:
    """Return the instruction with most excess."""
    return max(items, key=lambda item: item.counts.get(EXCESS_SECTORS, 0.0))


def of_request(item: ProfiledInstruction) -> tuple[float, float]:
    """Return the sectors of a request, and those that it needs."""
    sectors, executed = item.counts.get(ALL_SECTORS, 0.0), item.counts[EXECUTED]
    return sectors / executed, max(0.0, sectors - item.counts[EXCESS_SECTORS]) / executed


def worst_request(case: Case) -> tuple[Evidence, ...]:
    """Return what a request of the instruction with most excess takes, of which only the counts are known."""
    counted = [item for item in case.code if item.counts.get(EXCESS_SECTORS) and item.counts.get(EXECUTED)]
    return (_sectors_of_request(*of_request(worst_of(counted))),) if counted else ()


def _sectors_of_request(sectors: float, needed: float) -> Evidence:
    return Evidence("", sectors, "sector/request", threshold=needed, meaning=_REQUEST)
