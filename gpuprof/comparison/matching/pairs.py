"""Pair all kernels of the two sides."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

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
from gpuprof.comparison.sides import KernelKey, Side, SideKernel, grouped_by_launch, together


def pairs_of(base: Side, new: Side, named: Sequence[NamedMatch] = (), *, identical: bool = False) -> tuple[Pair, ...]:
    """Return every kernel of both sides, each once, with its partners on the other side.

    Kernels that the user names are paired first, then equal ones, then less and less alike ones. No
    step pairs a kernel that may belong to another one as well: a wrong pair is worse than none. The
    order of launches does not count, because runs of one program differ in it.

    A function and launch configuration of both sides is never new or gone. If both have it in the
    same ranges, these are compared one by one, else all of its launches as one.

    If the sides are `identical`, one recording, kernels that the user's names leave without their
    equal are on both sides, neither new nor gone, and left out. Raises UsageError for a name that
    fits no kernel.
    """
    pairs = named_pairs(base, new, named)
    taken = {id(kernel) for pair in pairs for kernel in (*pair.base, *pair.new)}
    before = {kernel.key: kernel for kernel in base.kernels if id(kernel) not in taken}
    after = {kernel.key: kernel for kernel in new.kernels if id(kernel) not in taken}
    if identical:
        return (*pairs, *(Pair("exact", (kernel,), (after[key],)) for key, kernel in before.items() if key in after))
    launches = {key.launch for key in before} & {key.launch for key in after}
    equal = [key for key in (*before, *after) if key.launch in launches]
    pairs += _pairs_of_launches(*({key: side[key] for key in equal if key in side} for side in (before, after)))
    left = Leftovers(*([side[key] for key in side if key.launch not in launches] for side in (before, after)))
    _pair_nearly_equal(left, equal)
    if any(key.ranges for key in (*left.base, *left.new)):
        left = left.in_any_range()
        _pair_nearly_equal(left, {key.launch for key in equal})
    return (*pairs, *left.pairs, *left.rest())


def _pairs_of_launches(base: dict[KernelKey, SideKernel], new: dict[KernelKey, SideKernel]) -> Iterator[Pair]:
    """Yield the pairs of kernels whose function and launch configuration both sides have."""
    after = grouped_by_launch(new.values())
    for launch, kernels in grouped_by_launch(base.values()).items():
        if {kernel.key for kernel in kernels} == {kernel.key for kernel in after[launch]}:
            yield from (Pair("exact", (kernel,), (new[kernel.key],)) for kernel in kernels)
        else:
            yield Pair("exact", (together(kernels),), (together(after[launch]),))


def _pair_nearly_equal(left: Leftovers, equal: Iterable[KernelKey]) -> None:
    """Pair nearly equal kernels, most of them of the same ranges. `equal` are the kernels that both sides have."""
    pair_configurations(left, equal)
    pair_split_and_fused(left)
    pair_template_arguments(left)
    pair_numbered(left)
    pair_same_flop(left)
    pair_similar(left)
