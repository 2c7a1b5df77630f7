"""Find the accesses that cause an excess by the code alone, without counts by instruction.

An access is the cause if no other access can cause that much. This needs an analysis of the whole
code; import this module only if the excess is worth it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from gpuprof.annotated.counts import EXECUTED
from gpuprof.annotated.kernel_code import line_of
from gpuprof.code.patterns.lane_shapes import WarpRequest, global_requests
from gpuprof.diagnose.access_shape import MOST, FoundShape, followed, lane_evidence, launched_code
from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.thresholds import context
from gpuprof.model.recorded import ProfiledInstruction


class _Suspect(NamedTuple):
    """An access that runs, and the maximum excess sectors of all its requests."""

    item: ProfiledInstruction
    request: WarpRequest
    most: float


def shape_by_code(facts: KernelFacts, excess: Mapping[str, float]) -> FoundShape | None:
    """Return the shape of accesses that must cause most of the excess, by the code.

    `excess` maps loads and stores, if they have an excess, to their excess sectors. The location is
    the line whose accesses alone can cause most of it, if there is one.
    """
    every = _suspects(facts, excess)
    known = [each for each in every if each.request.shape is not None and each.request.shape.name != "misaligned"]
    cause = _only_cause(known, lambda each: each.request.shape and each.request.shape.name, every, excess)
    line = _only_cause(cause, lambda each: line_of(each.item), every, excess)
    worst = max(line or cause, key=lambda each: each.most, default=None)
    if worst is None or worst.request.shape is None:
        return None
    evidence = context("accesses-of-pattern", len(cause), "instruction") + lane_evidence(worst.request.shape)
    share = MOST.evidence(100 * _least_share(cause, every, excess), "share-of-pattern-by-code")
    weights = {each.item.pc: each.most for each in line}
    place = facts.place(lambda item: weights.get(item.pc, 0.0))
    # Its share of the excess is not known.
    place = replace(place, share=None) if place is not None else None
    return FoundShape(worst.request.shape.name, (*evidence, share), place)


def _suspects(facts: KernelFacts, excess: Mapping[str, float]) -> Sequence[_Suspect]:
    """Return the accesses with an excess that run; none if a part of the code cannot be read, which may cause it."""
    launch = launched_code(facts)
    if launch is None or len(launch.code) != len(facts.code):
        return ()
    requests = followed(global_requests, launch)
    suspects = []
    for item in facts.code:
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
    causes = [group for group in groups.values() if MOST.is_reached(_least_share(group, every, excess))]
    return causes[0] if len(causes) == 1 else ()


def _least_share(group: Sequence[_Suspect], every: Sequence[_Suspect], excess: Mapping[str, float]) -> float:
    """Return the least share of the excess that a group causes, if others cause all they can."""
    surely = 0.0
    for kind, number in excess.items():
        own = sum(each.most for each in group if each.request.kind == kind)
        others = sum(each.most for each in every if each.request.kind == kind) - own
        surely += max(0.0, min(own, number - others))
    return min(1.0, surely / sum(excess.values())) if any(excess.values()) else 0.0
