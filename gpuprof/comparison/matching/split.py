"""Finds kernels that were split into several, and several that were fused into one."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from gpuprof.comparison.matching.leftovers import Leftovers, grouped
from gpuprof.comparison.matching.traits import Traits

_MOST_PARTS = 6
_MOST_CANDIDATES = 64
"""Of a word that more kernels have, no parts are sought."""
_EXACTLY, _NEARLY = 0.005, 0.05
"""Relative difference of FLOP between parts and whole: if only FLOP agree, and if the names agree, too."""
_INSTRUCTIONS, _BYTES = 0.02, 0.1
"""The same of instructions and DRAM bytes, if no FLOP are known: both have to add up."""
_SMALLEST = 0.01
"""A part does at least this much of the whole's work; what does less was not part of it."""


_Whole = tuple[Traits, Sequence[Traits]]
"""A kernel and its parts on the other side."""


def pair_split_and_fused(left: Leftovers) -> None:
    """Pair a kernel with those of its ranges on the other side that do the same together.

    Their names are contained in its name, all of it, as in Triton's `fused_add_mul`; or their work adds up, if
    nothing else of these ranges is left on both sides.
    """
    for way in (_by_names, _by_work):
        split = list(way(left.base.values(), left.new.values()))
        fused = list(way(left.new.values(), left.base.values()))
        uses = Counter(id(traits) for whole, parts in (*split, *fused) for traits in (whole, *parts))
        for whole, parts in (pair for pair in split if _once(pair, uses)):
            left.pair("split", [whole], parts)
        for whole, parts in (pair for pair in fused if _once(pair, uses)):
            left.pair("fused", parts, [whole])


def _once(pair: _Whole, uses: Mapping[int, int]) -> bool:
    """Return whether none of its kernels belongs to another whole as well."""
    return all(uses[id(traits)] == 1 for traits in (pair[0], *pair[1]))


def _by_names(wholes: Iterable[Traits], others: Iterable[Traits]) -> Iterator[_Whole]:
    by_word: defaultdict[tuple[tuple[str, ...], str], list[Traits]] = defaultdict(list)
    for other in others:
        if other.own_words:
            by_word[other.key.ranges, min(other.own_words)].append(other)
    for whole in wholes:
        parts = tuple(_parts_by_name(whole, by_word))
        if 2 <= len(parts) <= _MOST_PARTS and _cover(whole, parts) and _add_up(whole, parts):
            yield whole, parts


def _parts_by_name(whole: Traits, by_word: Mapping[tuple[tuple[str, ...], str], Sequence[Traits]]) -> Iterator[Traits]:
    for word in sorted(whole.own_words):
        candidates = by_word.get((whole.key.ranges, word), ())
        if len(candidates) <= _MOST_CANDIDATES:
            yield from (part for part in candidates if part.own_words < whole.own_words and _same_launches(whole, part))


def _cover(whole: Traits, parts: Sequence[Traits]) -> bool:
    """Return whether each word of the whole is in one of the parts, and in no other."""
    return len(whole.own_words) == sum(len(part.own_words) for part in parts) and whole.own_words == frozenset().union(
        *(part.own_words for part in parts)
    )


def _add_up(whole: Traits, parts: Sequence[Traits]) -> bool:
    """Return whether the FLOP of the parts add up to those of the whole, or are not all known."""
    flop = _amounts("flop", whole, parts)
    return flop is None or _sums_to(flop, _NEARLY)


def _by_work(wholes: Iterable[Traits], others: Iterable[Traits]) -> Iterator[_Whole]:
    theirs = grouped(others, _ranges)
    for ranges, (whole, *more) in grouped(wholes, _ranges).items():
        parts = theirs.get(ranges, [])
        is_one = not more and 2 <= len(parts) <= _MOST_PARTS
        if is_one and all(_same_launches(whole, part) for part in parts) and _same_work(whole, parts):
            yield whole, parts


def _ranges(traits: Traits) -> tuple[str, ...]:
    return traits.key.ranges


def _same_work(whole: Traits, parts: Sequence[Traits]) -> bool:
    flop = _amounts("flop", whole, parts)
    if flop is not None and flop[0] > 0:
        return _shares(flop) and _sums_to(flop, _EXACTLY)
    instructions, dram = (_amounts(name, whole, parts) for name in ("instructions", "dram-bytes"))
    if instructions is None or dram is None:
        return False
    return _shares(instructions) and _sums_to(instructions, _INSTRUCTIONS) and _sums_to(dram, _BYTES)


def _amounts(name: str, whole: Traits, parts: Sequence[Traits]) -> list[float] | None:
    """Return an amount of the whole and of its parts; None unless all are known."""
    amounts = [traits.work.get(name) for traits in (whole, *parts)]
    known = [amount for amount in amounts if amount is not None]
    return known if len(known) == len(amounts) else None


def _sums_to(amounts: Sequence[float], tolerance: float) -> bool:
    return abs(sum(amounts[1:]) - amounts[0]) <= tolerance * amounts[0]


def _shares(amounts: Sequence[float]) -> bool:
    return amounts[0] > 0 and min(amounts[1:]) >= _SMALLEST * amounts[0]


def _same_launches(whole: Traits, part: Traits) -> bool:
    return whole.kernel.launches == part.kernel.launches
