"""Global accesses whose stride depends on arguments, and the cost of a request by their value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from gpuprof.review.contract import CodeAccess
from gpuprof.review.facts.code_facts import CodeFacts
from gpuprof.review.facts.excess_sectors import is_global, shares_words
from gpuprof.review.facts.strides import costs_of_values, stride_arguments
from gpuprof.review.kernel import ArgumentPart
from gpuprof.sass.dataflow.addresses import LaneAddress, stride_of
from gpuprof.sass.dataflow.expressions import LANES
from gpuprof.units import SECTOR_BYTES


class ArgumentAccess(NamedTuple):
    """An access whose stride has an argument, or a product of arguments, as a factor.

    `sectors` maps values of this factor to the sectors of a request. `needed` are the sectors with adjacent lanes.
    """

    access: CodeAccess
    item: LaneAddress
    arguments: tuple[ArgumentPart, ...]
    sectors: Mapping[int, int]
    needed: float

    @property
    def if_one(self) -> int:
        """Return the sectors of a request if the factor is 1."""
        return self.sectors[1]

    @property
    def if_large(self) -> int:
        """Return the sectors of a request if the factor is large."""
        return self.sectors[max(self.sectors)]

    @property
    def large_from(self) -> int:
        """Return the least value from which on a request takes the most sectors."""
        smaller = [value for value, sectors in self.sectors.items() if sectors != self.if_large]
        return min(value for value in self.sectors if value > max(smaller, default=0))

    @property
    def bytes_apart(self) -> int | None:
        """Return the distance of the lanes if the factor is 1; None if it is not the same for all."""
        return stride_of(next(iter(self.item.times.values())))

    @property
    def most_extra(self) -> float:
        """Return the most excess sectors; 0 if lanes that share words explain them."""
        worst = max(self.sectors, key=lambda value: self.sectors[value])
        most = self.sectors[worst]
        lanes = self.item.lanes(worst)
        if lanes is not None and shares_words(self.access, lanes, most):
            return 0.0
        return most - self.needed


def argument_accesses(facts: CodeFacts) -> Iterator[ArgumentAccess]:
    """Yield the accesses of unknown cost whose stride has arguments as its only unknown factor."""
    unknown = [access for access in facts.accesses if is_global(access) and access.sectors_per_request is None]
    addresses = facts.addresses if unknown else None
    if addresses is None:
        return
    for access in unknown:
        item = addresses.by_request.get((access.offset, "global"))
        arguments = stride_arguments(facts, item) if item is not None else ()
        sectors = costs_of_values(item) if item is not None and arguments else {}
        if item is not None and sectors:
            needed = access.needed_per_request or float(-(-LANES * access.width_bytes // SECTOR_BYTES))
            yield ArgumentAccess(access, item, tuple(sorted(arguments)), sectors, needed)
