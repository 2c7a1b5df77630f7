"""Kernel names as the regular expressions by which ncu is told what to profile.

ncu takes an expression in `context:stream:name:invocation`, so no colon may be in it. One part of ncu reads it as
Boost's regular expressions, another as those of the C++ library, so what is no letter, digit or _ becomes any
character. ncu compiles it anew for each launch, and a class such as `[a-z]` alone costs libstdc++ some 30 µs: there are
none.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from gpuprof.collect.name_pieces import pieces_of_name, pieces_of_symbol

LONGEST = 16_000
"""Characters of all names together: libstdc++ takes 1 ms to compile so much, and gives up from about 85,000 on."""
_Name = tuple[str, ...]
"""A name in pieces, each an expression."""


class NameFilter(NamedTuple):
    """What ncu compares names by, "mangled" or "demangled", and the expression that the whole name must match."""

    base: str
    expression: str


def by_symbol(mangled: Iterable[str], others: Iterable[str] = (), never: Iterable[str] = ()) -> NameFilter:
    """Return the filter for kernels whose symbols are known.

    `others` are those not wanted. Where the symbols are too long together, their beginnings count, as far as they
    tell these from the others; at last as far as they tell them from those in `never`, which must not come.
    """
    return _filter("mangled", pieces_of_symbol, mangled, others, never)


def by_name(demangled: Iterable[str], others: Iterable[str] = (), never: Iterable[str] = ()) -> NameFilter:
    """Return the filter for kernels of which only the names for people are known, as PyTorch's traces have them.

    More than the kernels meant may come: where ncu may write a name otherwise, the expression takes anything.
    """
    return _filter("demangled", pieces_of_name, demangled, others, never)


def _filter(
    base: str,
    pieces: Callable[[str], list[str]],
    wanted: Iterable[str],
    others: Iterable[str],
    never: Iterable[str],
) -> NameFilter:
    names, avoided, forbidden = ({tuple(pieces(name)) for name in which} for which in (wanted, others, never))
    others_in_order, never_in_order = sorted((avoided | forbidden) - names), sorted(forbidden - names)
    return NameFilter(base, f"^{_fitting(names, others_in_order, never_in_order)}$")


def _fitting(wanted: set[_Name], others: list[_Name], never: list[_Name]) -> str:
    """Have names together fit: in full, else as far as they differ from the others, else cut alike."""
    every = _either(wanted)
    if len(every) <= LONGEST:
        return every
    told_apart = [_cut(name, _shared(name, others) + 1) for name in wanted]
    least = {name: _shared(name, never) + 1 for name in told_apart}
    longest = max(map(len, told_apart))

    def size(pieces: int) -> int:
        return len(_either(_cut_all(least, pieces)))

    return _either(_cut_all(least, max(1, bisect_right(range(longest + 1), LONGEST, key=size) - 1)))


def _cut_all(least: Mapping[_Name, int], length: int) -> set[_Name]:
    return {_cut(name, max(length, fewest)) for name, fewest in least.items()}


def _either(names: Iterable[_Name]) -> str:
    """Write names as one group in which common beginnings stand once."""
    return _branches([*map(list, sorted(names))], 0)


def _branches(names: list[list[str]], place: int) -> str:
    """Write what follows on pieces that names share, from a place on; they are in order."""
    written = []
    for _, group in groupby(names, key=lambda name: name[place : place + 1]):
        ones = list(group)
        until = _common_all(ones, place)
        rest = _branches(ones, until) if len(ones) > 1 else ""
        written.append("".join(ones[0][place:until]) + rest)
    every = f"({'|'.join(filter(None, written))})"
    return every if all(written) else f"{every}?"


def _common_all(names: list[list[str]], place: int) -> int:
    """Return up to where names in order share their pieces: the first and the last differ first."""
    if len(names) == 1:
        return len(names[0])
    first, last = names[0], names[-1]
    while place < min(len(first), len(last)) and first[place] == last[place]:
        place += 1
    return place


def _cut(name: _Name, length: int) -> _Name:
    return name if length >= len(name) else (*name[:length], ".*")


def _shared(name: _Name, others: list[_Name]) -> int:
    """Return how many of the first pieces another name has too; the closest ones are next to it in order."""
    place = bisect_left(others, name)
    return max((_common(name, other) for other in others[max(0, place - 1) : place + 1]), default=0)


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    pairs = zip(one, other, strict=False)
    return next((count for count, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))
