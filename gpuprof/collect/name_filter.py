"""Kernel names as the regular expressions by which ncu is told what to profile.

ncu takes an expression in `context:stream:name:invocation`, so no colon may be in it. One part of ncu reads it as
Boost's regular expressions, another as those of the C++ library, so what is no letter, digit or _ becomes any
character. ncu compiles it anew for each launch, and a class such as `[a-z]` alone costs libstdc++ some 30 µs: there are
none.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from gpuprof.collect.name_pieces import pieces_of_name, pieces_of_symbol, without_scopes

LONGEST = 16_000
"""Characters of all names together: libstdc++ takes 1 ms to compile so much, and gives up from about 85,000 on."""
_DEEPEST = 100
"""Names of which each begins the next, so many of them, are written one beside the other."""
_Name = tuple[str, ...]
"""A name in pieces, each an expression."""


class NameFilter(NamedTuple):
    """What ncu compares names by, "mangled" or "demangled", and the expression that a name must have.

    It begins with ^; an alternative without $ takes every name that begins so, as in ncu's own example `regex:^foo`.
    """

    base: str
    expression: str


def by_symbol(mangled: Iterable[str], others: Iterable[str] = (), never: Iterable[str] = ()) -> NameFilter:
    """Return the filter for kernels whose symbols are known.

    `others` are those not wanted. Where the symbols are too long together, their beginnings count, as far as they
    tell these from the others. None of those in `never` comes, even if one that is wanted is lost by that.
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
    forbidden = tuple(never)
    names, avoided, feared = ({tuple(pieces(name)) for name in which} for which in (wanted, others, forbidden))
    # A piece may be optional, so that pieces which differ may still match the same name: it is tried.
    names = {name for name in names if not _hits("".join(name), forbidden)}
    fewest = {name: _fewest(name, forbidden) for name in names}
    either = _fitting(fewest, sorted((avoided | feared) - names))
    return NameFilter(base, f"^{either}" if names else "^$")


def _hits(expression: str, forbidden: Iterable[str]) -> bool:
    pattern = re.compile(f"^({expression})")
    return any(pattern.search(written) for name in forbidden for written in (name, without_scopes(name)))


def _fewest(name: _Name, forbidden: Sequence[str]) -> int:
    """Return how many pieces of a name must stay: its function, and so many that nothing forbidden matches."""
    own = next((place + 1 for place, piece in enumerate(name) if _is_own(piece)), len(name))
    if not forbidden:
        return own
    return next((end for end in range(own, len(name)) if not _hits("".join(name[:end]), forbidden)), len(name))


def _is_own(piece: str) -> bool:
    """Tell whether a piece is a word that must be there."""
    return any(char.isalnum() or char == "_" for char in piece) and piece[-1] not in "?*" and piece != "void "


def _fitting(fewest: Mapping[_Name, int], others: Sequence[_Name]) -> str:
    """Have names together fit: in full, else as much as fits of what tells them from the others, else of all alike."""
    every = _either(fewest)
    if len(every) <= LONGEST:
        return every
    told_apart = {name: max(least, _shared(name, others) + 1) for name, least in fewest.items()}
    if len(_either(name[:least] for name, least in told_apart.items())) <= LONGEST:
        fewest, most = told_apart, {name: len(name) for name in told_apart}
    else:
        most = told_apart

    def written(pieces: int) -> str:
        return _either(name[: max(least, min(pieces, most[name]))] for name, least in fewest.items())

    longest = max(most.values())
    return written(max(0, bisect_right(range(longest + 1), LONGEST, key=lambda pieces: len(written(pieces))) - 1))


def _either(names: Iterable[_Name]) -> str:
    """Write names as one group in which common beginnings stand once."""
    return _branches(sorted(set(names)), 0)


def _branches(names: Sequence[_Name], place: int, depth: int = 0) -> str:
    """Write what follows on pieces that names share, from a place on; they are in order."""
    written = []
    for _, group in groupby(names, key=lambda name: name[place : place + 1]):
        alike = list(group)
        if depth > _DEEPEST:
            written += ["".join(name[place:]) for name in alike]
            continue
        until = _common(alike[0], alike[-1])  # of names in order these differ first
        rest = _branches(alike, until, depth + 1) if len(alike) > 1 else ""
        written.append("".join(alike[0][place:until]) + rest)
    every = f"({'|'.join(filter(None, written))})"
    return every if all(written) else f"{every}?"


def _shared(name: _Name, others: Sequence[_Name]) -> int:
    """Return how many of the first pieces another name has too; the closest ones are next to it in order."""
    place = bisect_left(others, name)
    return max((_common(name, other) for other in others[max(0, place - 1) : place + 1]), default=0)


def _common(first: Sequence[str], second: Sequence[str]) -> int:
    pairs = zip(first, second, strict=False)
    return next((count for count, (a, b) in enumerate(pairs) if a != b), min(len(first), len(second)))
