"""Which kernels of the two sides belong together."""

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
    """Return every kernel of both sides, each once, with what it belongs to on the other side.

    First what the user names, then what is equal, then what is less and less alike; at no step a kernel is paired
    that another one may belong to as well: a wrong pair is worse than none. The order of launches does not count,
    because runs of one program differ in it. If the sides are `identical`, one recording, what the user's names leave
    without its like is on both sides, and neither new nor gone: it is left out. Raises UsageError for a name that fits
    no kernel.
    """
    said = named_pairs(base, new, named)
    taken = {id(kernel) for pair in said for kernel in (*pair.base, *pair.new)}
    ours, theirs = ([kernel for kernel in side.kernels if id(kernel) not in taken] for side in (base, new))
    partners = {kernel.key: kernel for kernel in theirs}
    exact = [Pair("exact", (kernel,), (partners[kernel.key],)) for kernel in ours if kernel.key in partners]
    if identical:
        return (*said, *exact)
    keys = {pair.base[0].key for pair in exact}
    left = Leftovers(*([kernel for kernel in side if kernel.key not in keys] for side in (ours, theirs)))
    pair_configurations(left, keys)
    pair_ranges(left, Counter(kernel.key.name for kernel in (*ours, *theirs)))
    pair_split_and_fused(left)
    pair_template_arguments(left)
    pair_numbered(left)
    pair_same_flop(left)
    pair_similar(left)
    return (*said, *exact, *left.pairs, *left.rest())
