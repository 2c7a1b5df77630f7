"""Pairs kernels of one function with other template arguments, and names that differ in a compiler's numbers."""

from __future__ import annotations

from collections.abc import Hashable

from gpuprof.comparison.matching.leftovers import LeftGroup, Leftovers
from gpuprof.comparison.matching.traits import Traits

_LIKE_CLASSES = 0.75
"""Two carriers run the same code if they share at least this fraction of the types among their arguments."""
_MOST_NUMBERED = 64
"""Of more kernels that differ in numbers alone, the order of these is too weak a sign."""
_MOST_FLOP, _MOST_LAUNCHES, _MOST_INSTRUCTIONS, _MOST_THREADS = 4.0, 4.0, 16.0, 1024.0
"""What a change of code does not change by more than such a factor: another tile has the same FLOP, and a loop over
the grid that replaces a thread for each element has at most the threads that a block can have less of."""
_FLOP_PER_THREAD, _FLOP_PER_BYTE = 64.0, 4.0
"""A kernel that does as much is known by its FLOP; elementwise kernels all do a few for each element."""


def pair_template_arguments(left: Leftovers) -> None:
    """Pair a function whose template arguments changed, if it is the only one of its ranges."""
    left.join("reconfigured", lambda traits: (_function(traits), traits.classes), may_be_same)
    left.join("reconfigured", _function, lambda base, new: _like_classes(base, new) and may_be_same(base, new))


def pair_numbered(left: Leftovers) -> None:
    """Pair names that differ only in the numbers that compilers give: lines, counters.

    Several of them are paired in the order of their numbers, if their launch configurations then agree.
    """
    left.join("renamed", _launched_stem, may_be_same)
    for group in left.groups(_stem):
        if 1 < len(group.base) == len(group.new) <= _MOST_NUMBERED:
            _pair_in_order(left, group)
    left.join("renamed", _stem, may_be_same)


def pair_same_flop(left: Leftovers) -> None:
    """Pair the only kernel of its ranges with the only one of them on the other side, if both do as many FLOP."""
    left.join("renamed", lambda traits: traits.key.ranges, _same_flop)


def is_same_function(base: Traits, new: Traits) -> bool:
    """Return whether two kernels are one function in the same ranges, with whichever arguments."""
    return _function(base) == _function(new)


def may_be_same(base: Traits, new: Traits) -> bool:
    """Return whether nothing that is known of two kernels forbids that one became the other."""
    if base.paths == new.paths and _apart(base.work.get("flop"), new.work.get("flop"), _MOST_FLOP):
        return False
    if _apart(base.work.get("instructions"), new.work.get("instructions"), _MOST_INSTRUCTIONS):
        return False
    return not (
        _apart(base.kernel.launches, new.kernel.launches, _MOST_LAUNCHES)
        or _apart(base.threads, new.threads, _MOST_THREADS)
    )


def _apart(base: float | None, new: float | None, factor: float) -> bool:
    """Return whether two amounts differ by more than a factor; a zero or missing amount does not count."""
    return bool(base and new) and max(base or 0, new or 0) > factor * min(base or 0, new or 0)


def _function(traits: Traits) -> Hashable:
    return traits.function, traits.head, traits.key.ranges


def _stem(traits: Traits) -> Hashable:
    return (traits.stem, traits.key.ranges) if traits.numbers else None


def _launched_stem(traits: Traits) -> Hashable:
    return (_stem(traits), traits.key.grid, traits.key.block) if traits.numbers else None


def _like_classes(base: Traits, new: Traits) -> bool:
    every = base.classes | new.classes
    return len(base.classes & new.classes) >= _LIKE_CLASSES * len(every)


def _pair_in_order(left: Leftovers, group: LeftGroup) -> None:
    sides = [sorted(side, key=lambda traits: traits.numbers) for side in group]
    if any(len({traits.numbers for traits in side}) < len(side) for side in sides):
        return
    pairs = list(zip(*sides, strict=True))
    if all(_same_configuration(base, new) and may_be_same(base, new) for base, new in pairs):
        for base, new in pairs:
            left.pair("renamed", [base], [new])


def _same_configuration(base: Traits, new: Traits) -> bool:
    return (base.key.grid, base.key.block) == (new.key.grid, new.key.block)


def _same_flop(base: Traits, new: Traits) -> bool:
    ours, theirs = base.work.get("flop", 0.0), new.work.get("flop", 0.0)
    if abs(ours - theirs) > 0.001 * ours or base.kernel.launches != new.kernel.launches:
        return False
    return all(_is_heavy(traits) for traits in (base, new))


def _is_heavy(traits: Traits) -> bool:
    flop, dram = traits.work.get("flop", 0.0), traits.work.get("dram-bytes", 0.0)
    return flop > 0 and flop >= _FLOP_PER_THREAD * (traits.threads or 0) and flop >= _FLOP_PER_BYTE * dram
