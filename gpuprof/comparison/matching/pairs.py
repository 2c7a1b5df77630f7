"""Pair all kernels of the two sides."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import chain

from gpuprof.comparison.matching.leftovers import Leftovers
from gpuprof.comparison.matching.named import named_pairs
from gpuprof.comparison.matching.same import (
    pair_configurations,
    pair_numbered,
    pair_same_flop,
    pair_template_arguments,
)
from gpuprof.comparison.matching.similar import pair_similar
from gpuprof.comparison.matching.split import pair_split_and_fused
from gpuprof.comparison.pair import NamedMatch, Pair
from gpuprof.comparison.sides import Side, SideKernel, grouped_by_launch, together


def pairs_of(base: Side, new: Side, named: Sequence[NamedMatch] = (), *, identical: bool = False) -> tuple[Pair, ...]:
    """Return every kernel of both sides, each once, with its partners on the other side.

    Kernels that the user names are paired first, then equal ones, then less and less alike ones. No
    step pairs a kernel that may belong to another one as well: a wrong pair is worse than none. The
    order of launches does not count, because runs of one program differ in it.

    A function and launch configuration of both sides is never new or gone. If both have it in the
    same ranges, these are compared one by one, else all of its launches as one. Without counters a
    function of both sides is not new or gone either: all that is not the same of it is one kernel.

    If the sides are `identical`, one recording, kernels that the user's names leave without their
    equal are on both sides, neither new nor gone, and left out. Raises UsageError for a name that
    fits no kernel.
    """
    pairs = named_pairs(base, new, named)
    taken = {id(kernel) for pair in pairs for kernel in (*pair.base, *pair.new)}
    before, after = (
        grouped_by_launch(kernel for kernel in side.kernels if id(kernel) not in taken) for side in (base, new)
    )
    for launch in [launch for launch in before if launch in after]:
        pairs += _pairs_of_launch(before.pop(launch), after.pop(launch), identical=identical)
    if identical:
        return tuple(pairs)
    left = Leftovers(chain.from_iterable(before.values()), chain.from_iterable(after.values()))
    _pair_nearly_equal(left)
    if any(key.ranges for key in (*left.base, *left.new)):
        left = left.in_any_range()
        _pair_nearly_equal(left)
    return tuple(_with_reconfigured([*pairs, *left.pairs, *left.rest()]))


def _with_reconfigured(pairs: Sequence[Pair]) -> Iterator[Pair]:
    """Yield the pairs; all that may be moved of a function are one pair if some of its launches have no partner."""
    functions: defaultdict[str, list[Pair]] = defaultdict(list)
    for pair in pairs:
        if _may_be_moved(pair):
            functions[(*pair.base, *pair.new)[0].key.name].append(pair)
        else:
            yield pair
    for moved in functions.values():
        base = [kernel for pair in moved for kernel in pair.base]
        new = [kernel for pair in moved for kernel in pair.new]
        if base and new and any(pair.match in ("new", "gone") for pair in moved):
            yield Pair("reconfigured", (together(base),), (together(new),))
        else:
            yield from moved


def _may_be_moved(pair: Pair) -> bool:
    """Return whether launches of a kernel without counters may have another configuration on the other side.

    Those of an equal kernel are not, if there are as many of them.
    """
    kernels = (*pair.base, *pair.new)
    if any(kernel.counts or kernel.key.grid is None for kernel in kernels):
        return False
    if pair.match == "reconfigured":
        return len({kernel.key.name for kernel in kernels}) == 1
    return pair.match in ("new", "gone") or (pair.match == "exact" and pair.launches.base != pair.launches.new)


def _pairs_of_launch(base: Sequence[SideKernel], new: Sequence[SideKernel], *, identical: bool) -> list[Pair]:
    """Return the pairs of a function and launch configuration that both sides have."""
    others = {kernel.key: kernel for kernel in new}
    if identical or others.keys() == {kernel.key for kernel in base}:
        return [Pair("exact", (kernel,), (others[kernel.key],)) for kernel in base if kernel.key in others]
    return [Pair("exact", (together(base),), (together(new),))]


def _pair_nearly_equal(left: Leftovers) -> None:
    """Pair nearly equal kernels, most of them of the same ranges."""
    pair_configurations(left)
    pair_split_and_fused(left)
    pair_template_arguments(left)
    pair_numbered(left)
    pair_same_flop(left)
    pair_similar(left)
