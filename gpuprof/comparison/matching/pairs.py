"""Pair all kernels of the two sides."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from gpuprof.comparison.matching.leftovers import Leftovers, grouped
from gpuprof.comparison.matching.named import named_pairs
from gpuprof.comparison.matching.same import (
    launch_of,
    pair_configurations,
    pair_numbered,
    pair_same_flop,
    pair_template_arguments,
    pairs_of_launches,
)
from gpuprof.comparison.matching.similar import pair_similar
from gpuprof.comparison.matching.split import pair_split_and_fused
from gpuprof.comparison.pair import NamedMatch, Pair
from gpuprof.comparison.sides import KernelKey, Side, together


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
    pairs = named_pairs(base, new, named)
    taken = {id(kernel) for pair in pairs for kernel in (*pair.base, *pair.new)}
    before = {kernel.key: kernel for kernel in base.kernels if id(kernel) not in taken}
    after = {kernel.key: kernel for kernel in new.kernels if id(kernel) not in taken}
    keys = {*before, *after}
    exact = [Pair("exact", (before.pop(key),), (after.pop(key),)) for key in list(before) if key in after]
    if identical:
        return (*pairs, *exact)
    left = Leftovers(before.values(), after.values())
    exact += pairs_of_launches(left)
    taken_keys = keys - {*left.base, *left.new}
    _pair_in_ranges(left, taken_keys)
    pairs += _with_other_ranges(exact, left)
    pair_similar(left)
    if left.has_ranges:
        left = left.in_any_range()
        _pair_in_ranges(left, {key.launch for key in taken_keys})
        pair_similar(left)
    return (*pairs, *left.pairs, *left.rest())


def _pair_in_ranges(left: Leftovers, exact: Iterable[KernelKey]) -> None:
    """Pair nearly equal kernels of the same ranges. `exact` are the kernels whose launches both sides have."""
    pair_configurations(left, exact)
    pair_split_and_fused(left)
    pair_template_arguments(left)
    pair_numbered(left)
    pair_same_flop(left)


def _with_other_ranges(exact: Sequence[Pair], left: Leftovers) -> list[Pair]:
    """Return the exact pairs. If a side has more ranges of one, join all pairs of its launches, with these ranges."""
    more_base = grouped(left.base.values(), launch_of)
    more_new = grouped(left.new.values(), launch_of)
    by_launch: defaultdict[KernelKey, list[Pair]] = defaultdict(list)
    for pair in exact:
        by_launch[pair.base[0].key.launch].append(pair)
    joined = []
    for launch, pairs in by_launch.items():
        base, new = left.take(more_base.get(launch, ()), more_new.get(launch, ()))
        if not base and not new:
            joined += pairs
            continue
        before = (*base, *(pair.base[0] for pair in pairs))
        after = (*new, *(pair.new[0] for pair in pairs))
        joined.append(Pair("exact", (together(before),), (together(after),)))
    return joined
