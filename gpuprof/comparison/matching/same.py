"""Pair kernels that differ only in launch configuration, template arguments or a compiler's numbers."""

from __future__ import annotations

from collections.abc import Hashable

from gpuprof.comparison.matching.leftovers import Leftovers, grouped
from gpuprof.comparison.matching.traits import Traits
from gpuprof.model.kernel_names import unnumbered

_MOST_SIZES = 4.0
"""Among several sizes of a kernel two are the same one, changed, only within this factor: a batch
of four times as much is a change of the input, and more of it another input."""
_LIKE_CLASSES = 0.75
"""Two carriers run the same code if they share this fraction of the types of their arguments."""
_MOST_NUMBERED = 64
"""If more kernels differ in numbers alone, the order of these numbers is too weak a sign."""
_MOST_FLOP, _MOST_LAUNCHES, _MOST_INSTRUCTIONS, _MOST_THREADS = 4.0, 4.0, 16.0, 1024.0
"""Largest factors of a change by other code: another tile has the same FLOP, and a loop over the
grid that replaces a thread for each element has fewer threads by at most the size of a block."""
_FLOP_PER_THREAD, _FLOP_PER_BYTE = 64.0, 4.0
"""A kernel that does as much is recognizable by its FLOP; elementwise kernels all do a few for each element."""


def pair_renumbered(left: Leftovers) -> None:
    """Pair kernels that a compiler gave another number, by their launch configuration and then in order of the numbers.

    If both sides have the same numbers but other launch configurations, the numbers identify the kernels.
    """
    for base, new in left.groups(_without_number):
        before = grouped(base, _launch)
        after = grouped(new, _launch)
        same_names = {traits.key.name for traits in base} == {traits.key.name for traits in new}
        if same_names and before.keys() != after.keys():
            continue
        for launch, ours in before.items():
            theirs = after.get(launch, [])
            if len(ours) == len(theirs):
                left.pair_in_order("renamed", (ours, theirs), lambda traits: traits.numbers, may_be_same)


def _without_number(traits: Traits) -> Hashable:
    head, number = unnumbered(traits.key.name)
    return (head, traits.key.ranges) if number else None


def pair_configurations(left: Leftovers) -> None:
    """Pair the launch configurations of a name in its ranges that only one side has.

    First those with as many threads, then the others in the order of their size, if both sides have
    as many of them.
    """
    left.join("reconfigured", _place_and_threads)
    left.join("reconfigured", _place, may_be_same)
    for base, new in left.groups(_place):
        if 1 < len(base) == len(new):
            left.pair_in_order("reconfigured", (base, new), lambda traits: traits.threads or 0, _like_size)


def _place(traits: Traits) -> Hashable:
    return traits.key.name, traits.key.ranges


def _place_and_threads(traits: Traits) -> Hashable:
    return (_place(traits), traits.threads) if traits.threads is not None else None


def _like_size(base: Traits, new: Traits) -> bool:
    return bool(base.threads and new.threads) and not _apart(base.threads, new.threads, _MOST_SIZES)


def _launch(traits: Traits) -> tuple[Hashable, Hashable]:
    return traits.key.grid, traits.key.block


def pair_template_arguments(left: Leftovers) -> None:
    """Pair a function whose template arguments changed, if it is the only one of its ranges."""
    left.join("reconfigured", lambda traits: (_function(traits), traits.classes), may_be_same)
    left.join(
        "reconfigured",
        _function,
        lambda base, new: _like_classes(base, new) and may_be_same(base, new),
    )


def _function(traits: Traits) -> Hashable:
    """Return the function of a kernel in its ranges, without its arguments."""
    return traits.function, traits.head, traits.key.ranges


def _like_classes(base: Traits, new: Traits) -> bool:
    return len(base.classes & new.classes) >= _LIKE_CLASSES * len(base.classes | new.classes)


def pair_numbered(left: Leftovers) -> None:
    """Pair names that differ only in the numbers that compilers give: lines, counters.

    Several of them are paired in the order of their numbers, if their launch configurations then
    agree.
    """
    left.join(
        "renamed",
        lambda traits: (_stem(traits), _launch(traits)) if traits.numbers else None,
        may_be_same,
    )
    for base, new in left.groups(_stem):
        if 1 < len(base) == len(new) <= _MOST_NUMBERED:
            left.pair_in_order("renamed", (base, new), lambda traits: traits.numbers, _like_launch)
    left.join("renamed", _stem, may_be_same)


def _like_launch(base: Traits, new: Traits) -> bool:
    return _launch(base) == _launch(new) and may_be_same(base, new)


def _stem(traits: Traits) -> Hashable:
    return (traits.stem, traits.key.ranges) if traits.numbers else None


def pair_same_flop(left: Leftovers) -> None:
    """Pair the only kernel of its ranges with the only one of them on the other side, if both do as many FLOP."""
    left.join("renamed", lambda traits: traits.key.ranges, _same_flop)


def _same_flop(base: Traits, new: Traits) -> bool:
    flop = base.work.get("flop", 0.0)
    if abs(flop - new.work.get("flop", 0.0)) > 0.001 * flop or base.kernel.launches != new.kernel.launches:
        return False
    return _is_heavy(base) and _is_heavy(new)


def _is_heavy(traits: Traits) -> bool:
    flop = traits.work.get("flop", 0.0)
    dram = traits.work.get("dram-bytes", 0.0)
    return flop > 0 and flop >= _FLOP_PER_THREAD * (traits.threads or 0) and flop >= _FLOP_PER_BYTE * dram


def may_be_same(base: Traits, new: Traits) -> bool:
    """Return whether no known amount of two kernels rules out that one became the other."""
    if base.paths == new.paths and _apart(base.work.get("flop"), new.work.get("flop"), _MOST_FLOP):
        return False
    return not (
        _apart(base.work.get("instructions"), new.work.get("instructions"), _MOST_INSTRUCTIONS)
        or _apart(base.kernel.launches, new.kernel.launches, _MOST_LAUNCHES)
        or _apart(base.threads, new.threads, _MOST_THREADS)
    )


def _apart(base: float | None, new: float | None, factor: float) -> bool:
    """Return whether two amounts differ by more than a factor; zeros and missing ones do not."""
    return base is not None and new is not None and max(base, new) > factor * min(base, new) > 0
