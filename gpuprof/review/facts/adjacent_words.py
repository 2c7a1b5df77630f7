"""Adjacent words that a thread accesses one at a time, and that no other lane of its warp accesses."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import pairwise

from gpuprof.model.groups import collected
from gpuprof.sass.dataflow.addresses import LaneAddress
from gpuprof.sass.patterns.lane_shapes import WIDE_BYTES

_MANY = 4
"""So many words contain an aligned pair wherever they start. Two may be the ends of a row (at[i], at[i + 1])."""

AdjacentWords = Sequence[LaneAddress]
"""Accesses of adjacent words by one thread, in the order of their addresses."""


def adjacent_words(items: Iterable[LaneAddress]) -> list[AdjacentWords]:
    """Return the groups of adjacent words that are accessed together: same kind, width and conditions."""
    groups = collected((_together(item), item) for item in items)
    return [run for group in groups for run in _runs(group) if _is_of_one_thread(run)]


def _together(item: LaneAddress) -> Hashable:
    request = item.request
    return item.base, item.block, item.instruction.predicate, request.kind, request.width_bytes


def widest_bytes(run: AdjacentWords) -> int:
    """Return the bytes of the widest access to these words: a power of two, at most 16."""
    size = run[0].request.width_bytes * len(run)
    return min(WIDE_BYTES, 1 << (size.bit_length() - 1))


def wide_accesses(run: AdjacentWords) -> int:
    """Return the number of wide accesses for these words."""
    size = run[0].request.width_bytes * len(run)
    return size // WIDE_BYTES + (size % WIDE_BYTES).bit_count()


def _runs(group: Iterable[LaneAddress]) -> Iterator[AdjacentWords]:
    by_address = sorted(group, key=lambda item: item.instruction.address, reverse=True)
    first_of = {item.offset: item for item in by_address}
    run: list[LaneAddress] = []
    for offset in sorted(first_of):
        if run and offset != run[-1].offset + run[-1].request.width_bytes:
            yield run
            run = []
        run.append(first_of[offset])
    if run:
        yield run


def _is_of_one_thread(run: AdjacentWords) -> bool:
    """Return whether the words belong to one thread: other lanes access words beyond them."""
    first = run[0]
    width = first.request.width_bytes
    size = width * len(run)
    # If all lanes access the same words, a request needs one sector and no lane has words of its own.
    if len(run) < 2 or first.same:
        return False
    distances = [abs(lane - other) for lane, other in pairwise(first.apart) if lane != other]
    if first.known and distances and min(distances) < size:
        return False
    if len(run) < _MANY and first.aligned < widest_bytes(run):
        return False
    # For example rows of five words: at most one of two threads can have its words aligned.
    return _shared_alignment(first) >= 2 * width


def _shared_alignment(item: LaneAddress) -> int:
    """Return the largest power of two, at most 16, that divides the distances between the addresses of threads."""
    distances = [lane for vector in (item.apart, *item.times.values()) for lane in vector]
    for term in item.base.split(" + "):
        factor, is_product, _ = term.partition("·")
        if is_product and factor != "1":
            distances.append(int(factor))
    return min((abs(distance & -distance) for distance in distances if distance), default=WIDE_BYTES)
