"""A short regular expression that the demangled name of one kernel has, and no other name of a run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_WORD = re.compile(r"\w+", re.ASCII)
_MOST_WORDS = 3
_MOST_READ = 200
"""Words of a name that are tried: library names have hundreds, and the first ones tell most."""
_LONGEST = 120
"""A longer part of a name is none that anyone reads."""


def escaped(name: str) -> str:
    """Escape what is special in regular expressions, those of ncu included."""
    return re.sub(r"([\\^$.|?*+()\[\]{}])", r"\\\1", name)


def telling_expression(base: str, demangled: str, names: Iterable[str]) -> str:
    """Return an expression that a name has, and none of the others in `names`.

    That is the function's own name, `base`; that as a word; that with its namespaces; that and what tells among the
    words behind it: `Kernel2.*cutlass_80_tensorop_s16816gemm`. Where nothing so short tells, the function's own name.
    """
    others = {name for name in names if base in name and name != demangled}
    for before, part in _candidates(base, demangled):
        if not any(_has(other, before, part) for other in others):
            return f"{escaped(before)}.*{part}" if before else part
    return base


def _has(name: str, before: str, part: str) -> bool:
    """Return whether an expression matches after the first `before`, and so after any."""
    return re.compile(part).search(name, name.find(before) + len(before)) is not None


def _candidates(base: str, demangled: str) -> Iterator[tuple[str, str]]:
    """Yield the text that must come first, and an expression for what follows."""
    yield "", escaped(base)
    own = re.search(rf"\b{escaped(base)}\b", demangled)
    if own is None:
        return
    yield "", rf"\b{escaped(base)}\b"
    if own.start() == 0:
        yield "", rf"^{escaped(base)}\b"
    before = [word.start() for word in _WORD.finditer(demangled, 0, own.start())]
    for start in before[: -_MOST_WORDS - 1 : -1]:
        yield from _written("", demangled[start : own.end()])
    behind = list(_WORD.finditer(demangled, own.end()))[:_MOST_READ]
    spans = [
        demangled[first.start() : last.end()]
        for count in range(1, _MOST_WORDS + 1)
        for first, last in zip(behind, behind[count - 1 :], strict=False)
    ]
    # Numbers tell a reader less than words.
    for span in sorted(spans, key=lambda span: span[0].isdigit()):
        yield from _written(base, span)


def _written(before: str, part: str) -> Iterator[tuple[str, str]]:
    if len(part) <= _LONGEST and part.isprintable():
        yield before, escaped(part)
        yield before, rf"\b{escaped(part)}\b"
