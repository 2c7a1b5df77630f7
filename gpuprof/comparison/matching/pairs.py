"""Pair all kernels of the two sides."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence

from gpuprof.comparison.matching.leftovers import LeftGroup, Leftovers
from gpuprof.comparison.matching.named import named_pairs
from gpuprof.comparison.matching.same import (
    pair_configurations,
    pair_numbered,
    pair_same_flop,
    pair_template_arguments,
    pairs_of_launches,
)
from gpuprof.comparison.matching.similar import pair_similar
from gpuprof.comparison.matching.split import pair_split_and_fused
from gpuprof.comparison.pair import NamedMatch, Pair
from gpuprof.comparison.sides import KernelKey, Side, SideKernel, together


def pairs_of(base: Side, new: Side, named: Sequence[NamedMatch] = (), *, identical: bool = False) -> tuple[Pair, ...]:
    """Return every kernel of both sides, each once, with its partners on the other side.

    Kernels that the user names are paired first, then equal ones, then less and less alike ones. No
    step pairs a kernel that may belong to another one as well: a wrong pair is worse than none. The
    order of launches does not count, because runs of one program differ in it.

    A function and launch configuration of both sides is never new or gone. It is compared range by
    range if both sides have the same ranges of it. Of ranges that only one side has, all launches
    are compared as one.

    If the sides are `identical`, one recording, kernels that the user's names leave without their
    equal are on both sides, neither new nor gone, and left out. Raises UsageError for a name that
    fits no kernel.
    """
    pairs, taken = named_pairs(base, new, named)
    before = {kernel.key: kernel for kernel in base.kernels if id(kernel) not in taken}
    after = {kernel.key: kernel for kernel in new.kernels if id(kernel) not in taken}
    keys = {*before, *after}
    exact = [Pair("exact", (before.pop(key),), (after.pop(key),)) for key in list(before) if key in after]
    if identical:
        return (*pairs, *exact)
    left = Leftovers(before.values(), after.values())
    exact += pairs_of_launches(left)
    equal = keys - {*left.base, *left.new}
    pairs += _with_other_ranges(exact, left, equal)
    pair_similar(left)
    if left.has_ranges:
        left = left.in_any_range()
        _pair_in_ranges(left, {key.launch for key in equal})
        pair_similar(left)
    return (*pairs, *left.pairs, *left.rest())


def _pair_in_ranges(left: Leftovers, exact: Iterable[KernelKey]) -> None:
    """Pair nearly equal kernels of the same ranges. `exact` are the kernels whose launches both sides have."""
    pair_configurations(left, exact)
    pair_split_and_fused(left)
    pair_template_arguments(left)
    pair_numbered(left)
    pair_same_flop(left)


def _with_other_ranges(exact: Sequence[Pair], left: Leftovers, equal: set[KernelKey]) -> list[Pair]:
    """Pair what is left, range by range, and return the exact pairs, joined with what one side has more of.

    A kernel whose launches both sides have, but in a range that only one of them has, can belong to one of this range
    that only the other side has. Otherwise all its launches are compared as one. `equal` are the kernels of the exact
    pairs.
    """
    by_launch: defaultdict[KernelKey, list[Pair]] = defaultdict(list)
    for pair in exact:
        by_launch[pair.base[0].key.launch].append(pair)
    strays = _strays(left, by_launch.keys(), equal)
    joined = []
    for launch, pairs in by_launch.items():
        if launch not in strays:
            joined += pairs
            continue
        base, new = strays[launch]
        before = together([*base, *(pair.base[0] for pair in pairs)])
        after = together([*new, *(pair.new[0] for pair in pairs)])
        joined.append(Pair("exact", (before,), (after,)))
    return joined


def _strays(
    left: Leftovers, launches: Collection[KernelKey], equal: set[KernelKey]
) -> dict[KernelKey, tuple[list[SideKernel], list[SideKernel]]]:
    """Pair what is left, range by range, but no two kernels of these launches; return those that have no partner."""
    more_base = [traits for traits in left.base.values() if traits.key.launch in launches]
    more_new = [traits for traits in left.new.values() if traits.key.launch in launches]
    left.take(more_base, more_new)
    _pair_in_ranges(left, equal)
    strays: dict[KernelKey, tuple[list[SideKernel], list[SideKernel]]] = {}
    sides: tuple[LeftGroup, LeftGroup] = (more_base, []), ([], more_new)
    for more in sides:
        if not any(more):
            continue
        left.put_back(*more)
        _pair_in_ranges(left, equal)
        for place, kernels in enumerate(left.take(*more)):
            for kernel in kernels:
                strays.setdefault(kernel.key.launch, ([], []))[place].append(kernel)
    return strays
