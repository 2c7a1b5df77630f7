"""The shapes in which the lanes of a warp touch global memory: what causes excess sectors decides what repairs them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from gpuprof.diagnose.case import EXECUTED, Case
from gpuprof.diagnose.rule import Threshold, percent
from gpuprof.diagnose.traffic import ALL_SECTORS, EXCESS_SECTORS
from gpuprof.model.findings import Cases
from gpuprof.model.recorded import ProfiledInstruction
from gpuprof.model.session import Evidence, Location

ShapeName = Literal["neighbours", "structure", "stride", "scatter", "misaligned", "partial"]

WIDE = Threshold("neighbouring-words", 16, "B")
LINE = Threshold("structure-stride", 128, "B")
SHIFTED = percent("misaligned", 20.0)
MOST = percent("one-pattern", 50.0)
CASES_OF_SHAPES: Mapping[ShapeName, Cases] = MappingProxyType(
    {
        "neighbours": Cases(why=("neighbours",), action=("wide",), advice=("neighbours",)),
        "structure": Cases(why=("structure",), action=("structure",), advice=("structure",)),
        "stride": Cases(why=("stride",), action=("consecutive",), advice=("consecutive", "not-wider")),
        "scatter": Cases(why=("scatter",), action=("scatter",), advice=("scatter",)),
        "misaligned": Cases(why=("misaligned",), action=("align",), advice=("align",)),
        "partial": Cases(why=("partial",), action=("partial",), advice=("partial",)),
    }
)
"""Why accesses of each shape move too much, what to change, and how: cases of the wording of uncoalesced-global."""


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
        share = Evidence("", 100 * self.share, "%", threshold=MOST.value, role="share-of-pattern")
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
        role = f"{self.accesses}-of-pattern"
        count = Evidence("", float(self.instructions), "instruction", threshold=None, role=role)
        lanes = (replace(item, role=f"{item.role}-by-code") for item in _of_lanes(self.lanes))
        if self.share is None:
            return (count, *lanes)
        share = Evidence("", 100 * self.share, "%", threshold=MOST.value, role="share-of-pattern-by-code")
        return (count, *lanes, share)


def _of_lanes(lanes: LaneShape) -> Iterator[Evidence]:
    """Return how lanes touch memory, as far as it is known."""
    items = (
        (lanes.width_bytes, "B", "access-bytes"),
        (lanes.apart, "B", "lane-stride"),
        (lanes.beside if lanes.beside > 1 else None, "word", "adjacent-words"),
        (lanes.step, "B", "loop-step"),
    )
    for value, unit, role in items:
        if value is not None:
            yield Evidence("", float(value), unit, threshold=None, role=role)


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
    return Evidence("", sectors, "sector/request", threshold=needed, role="worst-request")
