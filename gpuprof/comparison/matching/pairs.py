"""Pair all kernels of the two sides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from gpuprof.comparison.matching.leftovers import Leftovers
from gpuprof.comparison.matching.named import named_pairs
from gpuprof.comparison.matching.same import (
    pair_configurations,
    pair_numbered,
    pair_ranges,
    pair_same_flop,
    pair_template_arguments,
)
from gpuprof.comparison.matching.similar import pair_similar
from gpuprof.comparison.matching.split import pair_split_and_fused
from gpuprof.comparison.pair import NamedMatch, Pair
from gpuprof.comparison.sides import Side


def pairs_of(base: Side, new: Side, named: Sequence[NamedMatch] = (), *, identical: bool = False) -> tuple[Pair, ...]:
    """Return every kernel of both sides, each once, with its partners on the other side.

    Kernels that the user names are paired first, then equal ones, then less and less alike ones. No
    step pairs a kernel that may belong to another one as well: a wrong pair is worse than none. The
    order of launches does not count, because runs of one program differ in it. If the sides are
    `identical`, one recording, kernels that the user's names leave without their equal are on both
    sides, neither new nor gone, and left out. Raises UsageError for a name that fits no kernel.
    """
    pairs = named_pairs(base, new, named)
    taken = {id(kernel) for pair in pairs for kernel in (*pair.base, *pair.new)}
    before = {kernel.key: kernel for kernel in base.kernels if id(kernel) not in taken}
    after = {kernel.key: kernel for kernel in new.kernels if id(kernel) not in taken}
    names = Counter(key.name for key in (*before, *after))
    equal = [key for key in before if key in after]
    pairs += [Pair("exact", (before.pop(key),), (after.pop(key),)) for key in equal]
    if identical:
        return tuple(pairs)
    left = Leftovers(before.values(), after.values())
    pair_configurations(left, equal)
    pair_ranges(left, names)
    pair_split_and_fused(left)
    pair_template_arguments(left)
    pair_numbered(left)
    pair_same_flop(left)
    pair_similar(left)
    return (*pairs, *left.pairs, *left.rest())
