"""A short regular expression that matches the demangled name of one kernel of a run only."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_WORD = re.compile(r"\w+", re.ASCII)
_MOST_WORDS = 3
_MOST_READ = 200
"""Words of a name that are tried: library names have hundreds, and the first ones differ most."""
_LONGEST = 120
"""Maximum length of the part of a name; nobody reads a longer one."""


def escaped(name: str) -> str:
    """Escape the special characters of regular expressions, including those of ncu."""
    return re.sub(r"([\\^$.|?*+()\[\]{}])", r"\\\1", name)


def unique_expression(base: str, demangled: str, names: Iterable[str]) -> str:
    """Return an expression that matches the name `demangled` and none of the others in `names`.

    Try the function's own name, `base`; that name as a whole word; with its namespaces; then with
    distinctive words after it: `Kernel2.*cutlass_80_tensorop_s16816gemm`. If no short expression is
    unique, return the own name.
    """
    others = {name for name in names if base in name and name != demangled}
    for before, part in _candidates(base, demangled):
        if not any(_matches(other, before, part) for other in others):
            return f"{escaped(before)}.*{part}" if before else part
    return base


def _matches(name: str, before: str, part: str) -> bool:
    """Return whether an expression matches after the first `before`, and so after any of them."""
    return re.compile(part).search(name, name.find(before) + len(before)) is not None


def _candidates(base: str, demangled: str) -> Iterator[tuple[str, str]]:
    """Yield the text that must come first, and an expression for the part after it."""
    yield "", escaped(base)
    own = re.search(rf"\b{escaped(base)}\b", demangled)
    if own is None:
        return
    yield "", rf"\b{escaped(base)}\b"
    if own.start() == 0:
        yield "", rf"^{escaped(base)}\b"
    before = list(_WORD.finditer(demangled, 0, own.start()))
    for word in before[: -_MOST_WORDS - 1 : -1]:
        yield from _expressions("", demangled[word.start() : own.end()])
    behind = list(_WORD.finditer(demangled, own.end()))[:_MOST_READ]
    spans = []
    for more in range(_MOST_WORDS):
        for first, last in zip(behind, behind[more:], strict=False):
            spans.append(demangled[first.start() : last.end()])
    # Words are easier to recognize than numbers.
    for span in sorted(spans, key=lambda span: span[0].isdigit()):
        yield from _expressions(base, span)


def _expressions(before: str, part: str) -> Iterator[tuple[str, str]]:
    if len(part) <= _LONGEST and part.isprintable():
        yield before, escaped(part)
        yield before, rf"\b{escaped(part)}\b"
