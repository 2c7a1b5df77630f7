"""Global accesses that move more sectors than their lanes need, with the shape that explains it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from gpuprof.annotated.excess_accesses import explains
from gpuprof.diagnose.thresholds import MORE_SECTORS
from gpuprof.review.contract import CodeAccess
from gpuprof.sass.dataflow.addresses import KernelAddresses, LaneAddress
from gpuprof.sass.dataflow.expressions import LANES
from gpuprof.sass.patterns.lane_shapes import LaneShape, shapes_of
from gpuprof.units import SECTOR_BYTES

_WORD_BYTES = 4
_NEIGHBOUR_BYTES = 4 * 32 * 16
"""Loads of one array at most this far apart are taken for the taps of a stencil."""


class ExcessAccess(NamedTuple):
    """An access with excess sectors and the shape of its lanes, which explains them."""

    access: CodeAccess
    shape: LaneShape


def is_global(access: CodeAccess) -> bool:
    """Return whether an access is a load or store of global memory."""
    return access.space == "global" and access.kind != "atomic"


def extra_sectors(access: CodeAccess) -> float:
    """Return the sectors of a request beyond those that it needs; 0 if they are not known."""
    if access.sectors_per_request is None or access.needed_per_request is None:
        return 0.0
    return access.sectors_per_request - access.needed_per_request


def shares_words(access: CodeAccess, lanes: Sequence[int], sectors: float) -> bool:
    """Return whether lanes share words, so that a request touches no more sectors than one of 32 adjacent words.

    For example, a warp of 16 × 2 threads whose rows each read one word touches two sectors; 32 adjacent words are in
    four.
    """
    return len(set(lanes)) < LANES and sectors <= LANES * max(_WORD_BYTES, access.width_bytes) / SECTOR_BYTES


def has_excess(access: CodeAccess) -> bool:
    """Return whether a request is known to move more sectors than it needs."""
    return is_global(access) and extra_sectors(access) >= MORE_SECTORS.value


def excess_accesses(accesses: Iterable[CodeAccess], addresses: KernelAddresses) -> Mapping[int, ExcessAccess]:
    """Return the accesses whose shape explains their excess sectors, by their offset."""
    items = {offset: item for (offset, space), item in addresses.by_request.items() if space == "global"}
    shapes = shapes_of(addresses, {})
    structures = {items[at].base for at, shape in shapes.items() if shape.name == "structure" and at in items}
    found = {}
    for access in filter(has_excess, accesses):
        item = items.get(access.offset)
        shape = shapes.get(access.offset)
        if item is None or shape is None or not _is_cause(access, shape, item, items.values()):
            continue
        # A member without neighbours, of a structure whose other members have some.
        name = "structure" if shape.name == "stride" and item.base in structures else shape.name
        apart = shape.apart if access.lane_stride_bytes is None else access.lane_stride_bytes
        found[access.offset] = ExcessAccess(access, replace(shape, name=name, apart=apart))
    return found


def _is_cause(access: CodeAccess, shape: LaneShape, item: LaneAddress, others: Iterable[LaneAddress]) -> bool:
    """Return whether a shape causes the excess; taps of a stencil and lanes that share words do not."""
    if shape.name == "misaligned" and _is_tap(item, others):
        return False
    if item.known and shares_words(access, item.apart, access.sectors_per_request or 0.0):
        return False
    return explains(shape, extra_sectors(access))


def _is_tap(item: LaneAddress, others: Iterable[LaneAddress]) -> bool:
    """Return whether another load has the same base and a near offset."""
    if item.request.kind != "load":
        return False
    for other in others:
        is_of_array = other.base == item.base and other.request.kind == "load"
        if is_of_array and 0 < abs(other.offset - item.offset) <= _NEIGHBOUR_BYTES:
            return True
    return False
