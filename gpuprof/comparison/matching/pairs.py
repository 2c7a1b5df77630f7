"""Pair all kernels of the two sides."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from msgspec.structs import replace

from gpuprof.comparison.matching.leftovers import Leftovers
from gpuprof.comparison.matching.named import named_pairs
from gpuprof.comparison.matching.same import (
    pair_configurations,
    pair_numbered,
    pair_renumbered,
    pair_same_flop,
    pair_template_arguments,
)
from gpuprof.comparison.matching.similar import pair_similar
from gpuprof.comparison.matching.split import pair_split_and_fused
from gpuprof.comparison.pair import NamedMatch, Pair
from gpuprof.comparison.sides import KernelKey, Side, SideKernel, grouped_by_launch, together
from gpuprof.model.torch_ranges import own_ranges

_LEAST_LAYERS = 2
"""One range around all launches does not distinguish them."""


def pairs_of(base: Side, new: Side, named: Sequence[NamedMatch] = (), *, identical: bool = False) -> tuple[Pair, ...]:
    """Return every kernel of both sides, each once, with its partners on the other side.

    Kernels that the user names are paired first, then equal ones, then less and less alike ones. No
    step pairs a kernel that may belong to another one as well: a wrong pair is worse than none. The
    order of launches does not count, because runs of one program differ in it.

    A function and launch configuration of both sides is never new or gone. If both have it in the
    same ranges, these are compared one by one, else all of its launches as one. Without counters a
    function of both sides is not new or gone either: all that is not the same of it is one kernel.

    Another batch size changes all launch configurations, and one of a layer may then be that of another layer before.
    So a function that both sides launch in the same layers, in other configurations, is compared layer by layer.

    If the sides are `identical`, one recording, kernels that the user's names leave without their
    equal are on both sides, neither new nor gone, and left out. Raises UsageError for a name that
    fits no kernel.
    """
    pairs = named_pairs(base, new, named)
    taken = {id(kernel) for pair in pairs for kernel in (*pair.base, *pair.new)}
    rest = [[kernel for kernel in side.kernels if id(kernel) not in taken] for side in (base, new)]
    functions, others = map(_by_function, rest)
    for name in functions.keys() & others.keys():
        in_layers = _pairs_in_layers(functions[name], others[name])
        if in_layers:
            pairs += in_layers
            del functions[name], others[name]
    before, after = (grouped_by_launch(chain.from_iterable(side.values())) for side in (functions, others))
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


def _by_function(kernels: Iterable[SideKernel]) -> dict[str, list[SideKernel]]:
    functions: defaultdict[str, list[SideKernel]] = defaultdict(list)
    for kernel in kernels:
        functions[kernel.key.name].append(kernel)
    return functions


def _pairs_in_layers(base: Sequence[SideKernel], new: Sequence[SideKernel]) -> list[Pair]:
    """Return the pairs of a function in the ranges of the program around it, operators and their shapes aside.

    None unless both sides have it in the same ranges, several ones, and in other launch configurations, or if a
    kernel remains that has no partner in its range.
    """
    if grouped_by_launch(base).keys() == grouped_by_launch(new).keys():
        return []
    left = Leftovers(_in_layers(base), _in_layers(new))
    layers, others = ({key.ranges for key in side} for side in (left.base, left.new))
    if layers != others or len(layers) < _LEAST_LAYERS:
        return []
    left.join("exact", lambda traits: traits.key)
    pair_configurations(left)
    return [] if left.base or left.new else left.pairs


def _in_layers(kernels: Iterable[SideKernel]) -> Iterator[SideKernel]:
    """Yield kernels with the ranges of the program alone; those that are the same then as one."""
    groups: defaultdict[KernelKey, list[SideKernel]] = defaultdict(list)
    for kernel in kernels:
        groups[replace(kernel.key, ranges=own_ranges(kernel.key.ranges))].append(kernel)
    for key, members in groups.items():
        yield replace(members[0] if len(members) == 1 else together(members), key=key)


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
    pair_renumbered(left)
    pair_configurations(left)
    pair_split_and_fused(left)
    pair_template_arguments(left)
    pair_numbered(left)
    pair_same_flop(left)
    pair_similar(left)
