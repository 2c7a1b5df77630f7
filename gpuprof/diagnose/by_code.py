"""Find the accesses that cause an excess by the code alone, without counts by instruction.

An access is the cause if no other access can cause that much. This needs an analysis of the whole
code; import this module only if the excess is worth it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from msgspec.structs import replace

from gpuprof.annotated.counts import EXECUTED
from gpuprof.annotated.kernel_code import line_of
from gpuprof.code.lanes.access import Access, accesses, merges, needed, wavefronts
from gpuprof.code.lanes.constants import constants_for
from gpuprof.code.lanes.values import LANES
from gpuprof.code.patterns.lane_shapes import MOST_ROUNDS, LaunchedCode, ShapeName, WarpRequest, global_requests
from gpuprof.diagnose.access_shape import MOST, FoundShape, lane_evidence
from gpuprof.diagnose.excess_shape import followed, launched_code
from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.thresholds import context
from gpuprof.model.recorded import ProfiledInstruction
from gpuprof.model.session import Evidence, Location

_SHARED = "shared"
_BANK_BYTES = 4


class _Suspect(NamedTuple):
    """An access that runs, and the maximum excess sectors or wavefronts of all its requests."""

    item: ProfiledInstruction
    request: WarpRequest
    most: float


class _Suspects(NamedTuple):
    """All accesses that can cause an excess, and the counted excess by kind."""

    every: Sequence[_Suspect]
    excess: Mapping[str, float]

    def share_of(self, group: Sequence[_Suspect]) -> float:
        """Return the least share of the excess that these cause, if others cause all they can."""
        total = surely = 0.0
        for kind, number in self.excess.items():
            own = _most_of(group, kind)
            others = _most_of(self.every, kind) - own
            surely += max(0.0, min(own, number - others))
            total += number
        return min(1.0, surely / total) if total > 0 else 0.0

    def only_line(self, among: Sequence[_Suspect]) -> Sequence[_Suspect]:
        """Return the accesses of the only line that alone causes most of the excess.

        Empty if there is not one.
        """
        by_line: defaultdict[tuple[object, ...], list[_Suspect]] = defaultdict(list)
        for each in among:
            by_line[line_of(each.item)].append(each)
        lines = [line for line in by_line.values() if MOST.is_reached(self.share_of(line))]
        return lines[0] if len(lines) == 1 else ()


def _most_of(group: Sequence[_Suspect], kind: str) -> float:
    return sum(each.most for each in group if each.request.kind == kind)


def _suspects(facts: KernelFacts, requests: Mapping[int, WarpRequest], excess: Mapping[str, float]) -> _Suspects:
    """Return the accesses of these kinds that run; none if executions were not counted."""
    every = []
    for item in facts.code:
        request = requests.get(item.pc)
        runs = item.counts.get(EXECUTED)
        if request is not None and request.kind in excess and runs:
            every.append(_Suspect(item, request, runs * request.most))
    return _Suspects(every, excess)


def shape_by_code(facts: KernelFacts, excess: Mapping[str, float]) -> FoundShape | None:
    """Return the shape of accesses that must cause most of the excess, by the code.

    `excess` maps loads and stores, if they have an excess, to their excess sectors. The location is
    the line whose accesses alone can cause most of it, if there is one.
    """
    suspects = _suspects(facts, followed(global_requests, _whole_code(facts)), excess)
    groups: defaultdict[ShapeName, list[_Suspect]] = defaultdict(list)
    for each in suspects.every:
        shape = each.request.shape
        if shape is not None and shape.name != "misaligned":
            groups[shape.name].append(each)
    causes = [group for group in groups.values() if MOST.is_reached(suspects.share_of(group))]
    if len(causes) != 1:
        return None
    cause = causes[0]
    line = suspects.only_line(cause)
    worst = max(line or cause, key=lambda each: each.most).request
    if worst.shape is None:
        return None
    evidence = context("accesses-of-pattern", len(cause), "instruction") + lane_evidence(worst.shape)
    share = MOST.evidence(100 * suspects.share_of(cause), "share-of-pattern-by-code")
    return FoundShape(worst.shape.name, (*evidence, share), _place(facts, line))


def conflicts_by_code(facts: KernelFacts, conflicts: float) -> tuple[Location | None, tuple[Evidence, ...]]:
    """Return the only line that can cause most of these conflicts, if any, with evidence."""
    suspects = _suspects(facts, followed(_shared_requests, _whole_code(facts)), {_SHARED: conflicts})
    line = suspects.only_line(suspects.every)
    place = _place(facts, line)
    if place is None:
        return None, ()
    return place, (MOST.evidence(100 * suspects.share_of(line), "of-one-line"),)


@lru_cache(maxsize=32)
def _shared_requests(launch: LaunchedCode) -> Mapping[int, WarpRequest]:
    """Return the requests to shared memory by address, with the most excess wavefronts of each.

    The first and the last warp of a block are analysed; the worse one counts.
    """
    constants = constants_for(launch.target, launch.block, launch.grid)
    last = (math.prod(launch.block) - 1) // LANES
    most: dict[int, float] = {}
    for warp in dict.fromkeys((0, last)):
        for access in accesses(launch.code, launch.block, constants, warp, MOST_ROUNDS):
            if access.space in {"shared", "generic"}:
                most[access.address] = max(most.get(access.address, 0.0), _extra_wavefronts(access))
    return {address: WarpRequest(_SHARED, None, extra) for address, extra in most.items()}


def _extra_wavefronts(access: Access) -> float:
    passes = wavefronts(access)
    if passes is None or access.holds.startswith("first turn") or access.kind == "copy" or merges(access):
        return LANES - max(1.0, access.width_bytes / _BANK_BYTES)
    return float(max(0, passes - needed(access)))


def _whole_code(facts: KernelFacts) -> LaunchedCode | None:
    """Return the code of a case.

    None if a part of it cannot be read, since that could cause the excess.
    """
    launch = launched_code(facts)
    return launch if launch is not None and len(launch.code) == len(facts.code) else None


def _place(facts: KernelFacts, line: Sequence[_Suspect]) -> Location | None:
    """Return the place of accesses of one line, without its unknown share of the excess."""
    most = {suspect.item.pc: suspect.most for suspect in line}
    place = facts.place(lambda item: most.get(item.pc, 0.0))
    return replace(place, share=None) if place is not None else None
