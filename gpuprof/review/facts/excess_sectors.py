"""Accesses to global memory that move more sectors than their lanes need, and how their lanes lie."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from gpuprof.annotated.excess_accesses import ONE_MORE_SECTOR
from gpuprof.diagnose.thresholds import MORE_SECTORS
from gpuprof.review.contract import CodeAccess
from gpuprof.sass.dataflow.addresses import KernelAddresses, LaneAddress
from gpuprof.sass.dataflow.expressions import LANES
from gpuprof.sass.patterns.lane_shapes import LaneShape, shapes_of
from gpuprof.units import SECTOR_BYTES

_WORD_BYTES = 4
_NEIGHBOUR_BYTES = 4 * 32 * 16
"""Rows of one array that start inside a sector, at most this far from each other, are the taps of a stencil."""


class ExcessAccess(NamedTuple):
    """An access with excess sectors and the shape of its lanes.

    `by_lanes`: its lanes explain the excess. Some take no part, or several access the same word.
    """

    access: CodeAccess
    shape: LaneShape
    by_lanes: bool


def is_global(access: CodeAccess) -> bool:
    """Return whether it is a load or store of global memory."""
    return access.space == "global" and access.kind != "atomic"


def extra_sectors(access: CodeAccess) -> float:
    """Return the sectors of a request beyond those that it needs; 0 if they are not known."""
    if access.sectors_per_request is None or access.needed_per_request is None:
        return 0.0
    return access.sectors_per_request - access.needed_per_request


def shares_words(access: CodeAccess, lanes: Sequence[int], sectors: float) -> bool:
    """Return whether lanes access the same words, in no more sectors than 32 adjacent words take.

    A warp of 16 × 2 threads that reads one word in each of two rows touches two sectors; 32 adjacent words are in four.
    """
    return len(set(lanes)) < LANES and sectors <= LANES * max(_WORD_BYTES, access.width_bytes) / SECTOR_BYTES


def has_excess(access: CodeAccess) -> bool:
    """Return whether it is known that a request moves more sectors than it needs."""
    return is_global(access) and extra_sectors(access) >= MORE_SECTORS.value


def excess_accesses(accesses: Iterable[CodeAccess], addresses: KernelAddresses | None) -> Mapping[int, ExcessAccess]:
    """Return the accesses with excess sectors by their offset, without those of unknown shape."""
    excess = [access for access in accesses if has_excess(access)]
    shapes: Mapping[int, LaneShape] = {}
    items: Mapping[int, LaneAddress] = {}
    if addresses is not None:
        strides = {access.offset: access.lane_stride_bytes for access in excess}
        known = {at: [stride * lane for lane in range(LANES)] for at, stride in strides.items() if stride is not None}
        shapes = shapes_of(addresses, known)
        items = {offset: item for (offset, space), item in addresses.of.items() if space == "global"}
    structures = {items[at].base for at, shape in shapes.items() if shape.name == "structure" and at in items}
    found = {}
    for access in excess:
        stride = access.lane_stride_bytes
        shape = shapes.get(access.offset)
        item = items.get(access.offset)
        if shape is not None and item is not None:
            shape = _shape_in_kernel(access, shape, item, items.values(), structures)
        if shape is None and stride is not None and abs(stride) > access.width_bytes:
            shape = LaneShape("stride", access.width_bytes, stride)
        if shape is not None:
            shape = replace(shape, apart=stride if stride is not None else shape.apart)
            found[access.offset] = ExcessAccess(access, shape, item is not None and _by_lanes(access, item))
    return found


def _shape_in_kernel(
    access: CodeAccess, shape: LaneShape, item: LaneAddress, others: Iterable[LaneAddress], structures: set[str]
) -> LaneShape | None:
    """Return the shape as the other accesses show it; None if the excess may be that of rows inside a sector."""
    if shape.name == "misaligned" and _is_tap(item, others):
        return None
    if shape.name != "stride":
        return shape
    if item.varying and extra_sectors(access) <= ONE_MORE_SECTOR:
        return None
    return replace(shape, name="structure") if item.base in structures else shape


def _is_tap(item: LaneAddress, others: Iterable[LaneAddress]) -> bool:
    """Return whether another load has the same base, a little further."""
    if item.request.kind != "load":
        return False
    for other in others:
        is_of_array = other.base == item.base and other.request.kind == "load"
        if is_of_array and 0 < abs(other.offset - item.offset) <= _NEIGHBOUR_BYTES:
            return True
    return False


def _by_lanes(access: CodeAccess, item: LaneAddress) -> bool:
    is_adjacent = abs(item.stride or 0) == access.width_bytes
    if is_adjacent and extra_sectors(access) > ONE_MORE_SECTOR:
        return True
    return item.known and shares_words(access, item.apart, access.sectors_per_request or 0.0)
