"""Pair renamed kernels that are clearly most like each other."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations, product
from math import log2

from gpuprof.comparison.matching.leftovers import Leftovers
from gpuprof.comparison.matching.same import may_be_same
from gpuprof.comparison.matching.traits import Traits, words_of_ranges
from gpuprof.comparison.sides import KernelKey

_MOST_COMPARED = 60_000
"""Most pairs to examine, those with the rarest words first: it bounds the time."""
_RAREST = 3
"""Words of a kernel of which each two are looked up."""
_LEAST_NAME, _LEAST = 0.45, 0.65
"""A pair shares about half of the words of its names, and most of all known traits."""
_MARGIN = 0.1
"""A pair is better by so much than the next best, for both of its kernels."""
_NAME, _RANGES, _CONFIGURATION, _LAUNCHES, _WORK = 4.0, 2.0, 2.0, 1.0, 3.0
"""Weight of each likeness; traits that a side does not know do not count."""

_Edge = tuple[KernelKey, KernelKey]


def pair_similar(left: Leftovers) -> None:
    """Pair kernels of which each is the other's best, by a margin. No pair is a guess: unclear kernels stay alone."""
    weights = _weights(left)
    likeness: dict[_Edge, float] = {}
    for base, new in _compared(left, weights):
        edge = base.key, new.key
        if edge not in likeness and may_be_same(base, new):
            likeness[edge] = _likeness(base, new, weights)
    for base_key, new_key in sorted(_mutual(likeness), key=lambda edge: -likeness[edge]):
        base = left.base[base_key]
        new = left.new[new_key]
        is_same = (base.function, base.head) == (new.function, new.head)
        left.pair("reconfigured" if is_same else "renamed", [base], [new])


def _weights(left: Leftovers) -> dict[str, float]:
    """Weigh each word by its rarity on the side that has it more often."""
    base = _word_counts(left.base.values())
    new = _word_counts(left.new.values())
    return {word: 1 / log2(1 + max(base[word], new[word])) for word in base | new}


def _word_counts(kernels: Iterable[Traits]) -> Counter[str]:
    return Counter(word for traits in kernels for word in traits.all_words)


def _compared(left: Leftovers, weights: Mapping[str, float]) -> Iterator[tuple[Traits, Traits]]:
    """Yield pairs that share the rarest words, function, or place; all of one rarity or none."""
    base_hints = _by_hint(left.base.values(), weights)
    by_pairs: defaultdict[int, list[tuple[list[Traits], list[Traits]]]] = defaultdict(list)
    for hint, new in _by_hint(left.new.values(), weights).items():
        base = base_hints.get(hint)
        if base is not None:
            by_pairs[len(base) * len(new)].append((base, new))
    seen = 0
    for pairs in sorted(by_pairs):
        seen += pairs * len(by_pairs[pairs])
        if seen > _MOST_COMPARED:
            return
        for group in by_pairs[pairs]:
            yield from product(*group)


def _by_hint(kernels: Iterable[Traits], weights: Mapping[str, float]) -> dict[Hashable, list[Traits]]:
    hints: defaultdict[Hashable, list[Traits]] = defaultdict(list)
    for traits in kernels:
        for hint in _hints(traits, weights):
            hints[hint].append(traits)
    return hints


def _hints(traits: Traits, weights: Mapping[str, float]) -> Iterator[Hashable]:
    key = traits.key
    yield from traits.own_words
    rarest = sorted(traits.own_words, key=lambda word: (-weights[word], word))[:_RAREST]
    for two in combinations(rarest, 2):
        yield two
        yield two, key.grid, key.block
    yield "function", traits.function
    yield "name", key.name
    yield "place", key.ranges, key.grid, key.block, round(traits.kernel.launches)


def _likeness(base: Traits, new: Traits, weights: Mapping[str, float]) -> float:
    """Return how alike two kernels are, between 0 and 1; 0 if their names are not alike."""
    name = _name(base, new, weights)
    if name < _LEAST_NAME:
        return 0.0
    known = [(_NAME, name), (_LAUNCHES, _ratio(base.kernel.launches, new.kernel.launches))]
    if base.key.ranges or new.key.ranges:
        known.append(
            (
                _RANGES,
                _overlap(words_of_ranges(base.key.ranges), words_of_ranges(new.key.ranges), {}),
            )
        )
    if base.threads is not None and new.threads is not None:
        known.append((_CONFIGURATION, _configuration(base, new)))
    work = [_ratio(amount, new.work[name]) for name, amount in base.work.items() if name in new.work]
    if work:
        known.append((_WORK, sum(work) / len(work)))
    return sum(weight * value for weight, value in known) / sum(weight for weight, _ in known)


def _name(base: Traits, new: Traits, weights: Mapping[str, float]) -> float:
    if base.key.name == new.key.name:
        return 1.0
    if base.function == new.function and base.head != new.head:
        return 0.0  # one carrier, such as an elementwise kernel, of two functors
    own = _overlap(base.own_words, new.own_words, weights)
    return 0.7 * own + 0.3 * _overlap(base.all_words, new.all_words, weights)


def _overlap(base: frozenset[str], new: frozenset[str], weights: Mapping[str, float]) -> float:
    """Return twice the weight of the shared words over the weight of the words of both sides."""
    shared = sum(weights.get(word, 1.0) for word in base & new)
    both = sum(weights.get(word, 1.0) for word in (*base, *new))
    return 2 * shared / both if both else 0.0


def _configuration(base: Traits, new: Traits) -> float:
    if base.key.grid == new.key.grid and base.key.block == new.key.block:
        return 1.0
    return 0.5 * _ratio(base.threads or 0, new.threads or 0)


def _ratio(base: float, new: float) -> float:
    """Return the smaller over the larger; 1 for two zeros."""
    return min(base, new) / max(base, new) if max(base, new) > 0 else 1.0


def _mutual(likeness: Mapping[_Edge, float]) -> list[_Edge]:
    """Return the pairs that are alike enough, and for both kernels more so by a margin than any other pair."""
    values: defaultdict[tuple[int, KernelKey], list[float]] = defaultdict(list)
    for edge, value in likeness.items():
        for place, key in enumerate(edge):
            values[place, key].append(value)
    for ranked in values.values():
        ranked.sort()
    return [
        edge
        for edge, value in likeness.items()
        if value >= _LEAST and all(_is_best(value, values[item]) for item in enumerate(edge))
    ]


def _is_best(value: float, ranked: Sequence[float]) -> bool:
    """Return whether a value is the largest of these by a margin."""
    return value == ranked[-1] and (len(ranked) == 1 or value >= ranked[-2] + _MARGIN)
