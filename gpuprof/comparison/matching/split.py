"""Find kernels that were split into several, and several that were fused into one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

from gpuprof.comparison.matching.leftovers import Leftovers, grouped
from gpuprof.comparison.matching.traits import Traits
from gpuprof.comparison.values import all_known

_MOST_PARTS = 6
_MOST_CANDIDATES = 64
"""Words that more kernels have are not used to find parts."""
_EXACTLY, _NEARLY = 0.005, 0.05
"""Relative difference of FLOP between parts and whole: if only FLOP agree, or the names, too."""
_INSTRUCTIONS, _BYTES = 0.02, 0.1
"""The same of instructions and DRAM bytes, if no FLOP are known: both have to add up."""
_SMALLEST = 0.01
"""A part does at least this much of the whole's work; a kernel that does less was not part of it."""

_Whole = tuple[Traits, Sequence[Traits]]
"""A kernel and its parts on the other side."""


def pair_split_and_fused(left: Leftovers) -> None:
    """Pair a kernel with those of its ranges on the other side that do the same together.

    Their names make up its name, as in Triton's `fused_add_mul`; or their work adds up, if no other
    kernel of these ranges is left on either side.
    """
    for find in (_by_names, _by_work):
        split = list(find(left.base.values(), left.new.values()))
        fused = list(find(left.new.values(), left.base.values()))
        uses = Counter(id(traits) for whole, parts in (*split, *fused) for traits in (whole, *parts))
        for whole, parts in split:
            if _once(whole, parts, uses):
                left.pair("split", [whole], parts)
        for whole, parts in fused:
            if _once(whole, parts, uses):
                left.pair("fused", parts, [whole])


def _once(whole: Traits, parts: Sequence[Traits], uses: Mapping[int, int]) -> bool:
    """Return whether none of these kernels belongs to another whole as well."""
    return all(uses[id(traits)] == 1 for traits in (whole, *parts))


def _by_names(wholes: Iterable[Traits], others: Iterable[Traits]) -> Iterator[_Whole]:
    named = [other for other in others if other.own_words]
    by_word = grouped(named, lambda traits: (traits.key.ranges, min(traits.own_words)))
    for whole in wholes:
        parts = tuple(_parts_by_name(whole, by_word))
        if 2 <= len(parts) <= _MOST_PARTS and _cover(whole, parts) and _add_up(whole, parts):
            yield whole, parts


def _parts_by_name(whole: Traits, by_word: Mapping[Hashable, Sequence[Traits]]) -> Iterator[Traits]:
    for word in sorted(whole.own_words):
        candidates = by_word.get((whole.key.ranges, word), ())
        if len(candidates) <= _MOST_CANDIDATES:
            for part in candidates:
                if part.own_words < whole.own_words and _same_launches(whole, part):
                    yield part


def _cover(whole: Traits, parts: Sequence[Traits]) -> bool:
    """Return whether each word of the whole is in one of the parts, and in no other."""
    words = [word for part in parts for word in part.own_words]
    return len(whole.own_words) == len(words) and whole.own_words == set(words)


def _add_up(whole: Traits, parts: Sequence[Traits]) -> bool:
    """Return whether the FLOP of the parts add up to those of the whole, or are not all known."""
    flop = _amounts("flop", whole, parts)
    return flop is None or _sums_to(flop, _NEARLY)


def _by_work(wholes: Iterable[Traits], others: Iterable[Traits]) -> Iterator[_Whole]:
    by_ranges = grouped(others, _ranges)
    for ranges, (whole, *more) in grouped(wholes, _ranges).items():
        parts = by_ranges.get(ranges, [])
        if more or not 2 <= len(parts) <= _MOST_PARTS:
            continue
        if all(_same_launches(whole, part) for part in parts) and _same_work(whole, parts):
            yield whole, parts


def _ranges(traits: Traits) -> tuple[str, ...]:
    return traits.key.ranges


def _same_work(whole: Traits, parts: Sequence[Traits]) -> bool:
    flop = _amounts("flop", whole, parts)
    if flop is not None and flop[0] > 0:
        return _shares(flop) and _sums_to(flop, _EXACTLY)
    instructions = _amounts("instructions", whole, parts)
    dram = _amounts("dram-bytes", whole, parts)
    if instructions is None or dram is None:
        return False
    return _shares(instructions) and _sums_to(instructions, _INSTRUCTIONS) and _sums_to(dram, _BYTES)


def _amounts(name: str, whole: Traits, parts: Sequence[Traits]) -> list[float] | None:
    """Return an amount of the whole and of its parts; None unless all are known."""
    return all_known(traits.work.get(name) for traits in (whole, *parts))


def _sums_to(amounts: Sequence[float], tolerance: float) -> bool:
    return abs(sum(amounts[1:]) - amounts[0]) <= tolerance * amounts[0]


def _shares(amounts: Sequence[float]) -> bool:
    return amounts[0] > 0 and min(amounts[1:]) >= _SMALLEST * amounts[0]


def _same_launches(whole: Traits, part: Traits) -> bool:
    return whole.kernel.launches == part.kernel.launches
