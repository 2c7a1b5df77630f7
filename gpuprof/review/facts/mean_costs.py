"""The cost of a memory request, as the mean over the analysed warps of a block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from msgspec.structs import replace

from gpuprof.sass.dataflow.request_costs import Access, lane_stride, merges, needed, sectors, wavefronts
from gpuprof.sass.requests import Space


class AnalysedWarp(NamedTuple):
    """The accesses of a warp by offset and space, and how many warps it represents."""

    known: Mapping[tuple[int, Space], Access]
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class RequestCost:
    """The mean cost of a request over the warps that run it, and the cost that adjacent lanes would have.

    None is unknown. `merged`: unknown because lanes share words.
    """

    passes: float | None
    needed: float | None
    stride: int | None
    merged: bool = False


class _Seen(NamedTuple):
    """An access in one warp, the global side of an LDGSTS beside its shared one, and how many warps it represents."""

    access: Access
    source: Access | None
    weight: float


def cost_of(at: tuple[int, Space], analysed: Sequence[AnalysedWarp]) -> RequestCost:
    """Return the mean cost of a request; unknown if it is unknown in any analysed warp that runs it."""
    seen = tuple(_seen(entry.known[at], entry) for entry in analysed if at in entry.known)
    return _cost_of(seen) if seen and at[1] != "generic" else RequestCost(None, None, None)


def report_of(access: Access, warp: AnalysedWarp) -> object:
    """Return all that is reported of an access in one warp, to compare warps."""
    return _cost_of((_seen(access, warp),)), sum(access.active) > 1, merges(access)


def _seen(access: Access, entry: AnalysedWarp) -> _Seen:
    """Return an access without its address, so that equal accesses share a cost."""
    source = None
    if access.kind == "copy" and access.space == "shared":
        source = replace(entry.known.get((access.address, "global"), access), address=0)
    return _Seen(replace(access, address=0), source, entry.weight)


@lru_cache(maxsize=1 << 12)
def _cost_of(seen: tuple[_Seen, ...]) -> RequestCost:
    passes = [_passes(entry) for entry in seen]
    known = [number for number in passes if number is not None]
    least = _mean(seen, [needed(entry.access) for entry in seen])
    if len(known) < len(passes):
        return RequestCost(None, least, None, merged=any(merges(entry.access) for entry in seen))
    cost = _mean(seen, known)
    strides = {lane_stride(entry.access) for entry in seen if sum(entry.access.active) > 1}
    return RequestCost(cost, min(cost, least), strides.pop() if len(strides) == 1 else None)


def _mean(seen: Sequence[_Seen], numbers: Sequence[int]) -> float:
    """Return the mean, weighted by warps; rounded, so that the mean of equal numbers is exact."""
    weight = sum(entry.weight for entry in seen)
    return round(sum(number * entry.weight for number, entry in zip(numbers, seen, strict=True)) / weight, 9)


def _passes(seen: _Seen) -> int | None:
    access = seen.access
    if access.space != "shared":
        return sectors(access)
    if access.kind != "copy":
        return None if merges(access) else wavefronts(access)
    return wavefronts(access, seen.source)
