"""Which kernels a user means: a regular expression that a label or a full name has, or `#N`, a number."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable

from msgspec import Struct

from gpuprof.errors import UsageError

_NUMBER = re.compile(r"#[0-9]{1,18}")


class KernelPattern(Struct, frozen=True):
    """What the user wrote, and what it means: a number, or an expression."""

    text: str
    number: int | None
    regex: re.Pattern[str] | None

    def fits(self, *names: str, number: int | None = None) -> bool:
        """Return whether it means the kernel of these names; a kernel without a number is meant by its names alone."""
        if self.regex is None:
            return number == self.number
        return any(self.regex.search(name) is not None for name in names)


def kernel_pattern(text: str, option: str) -> KernelPattern:
    """Return what an option names. Raises UsageError where that is no regular expression."""
    number = kernel_number(text)
    if number is not None:
        return KernelPattern(text, number, None)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return KernelPattern(text, None, re.compile(text))
    except (re.error, OverflowError, RecursionError) as error:
        raise UsageError(
            f"{option} {text!r:.80} is not a regular expression: {error}", "escape ( ) [ ] * + ? with \\"
        ) from error


def kernel_number(text: str) -> int | None:
    """Return the number that `#N` names; None for an expression."""
    return int(text[1:]) if _NUMBER.fullmatch(text) is not None else None


def name_patterns(texts: Iterable[str], option: str) -> tuple[KernelPattern, ...]:
    """Return what an option names where kernels have no numbers yet. Raises UsageError for `#N`, too."""
    patterns = tuple(kernel_pattern(text, option) for text in texts)
    for pattern in patterns:
        if pattern.regex is None:
            raise UsageError(
                f"{option} {pattern.text} is the number of a kernel in one report", "name the kernel by its name"
            )
    return patterns
