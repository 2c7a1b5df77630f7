"""Picks the kernels that --kernel asks for, in the order that --sort names."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

from gpuprof.errors import UsageError

if TYPE_CHECKING:
    from gpuprof.model.session import KernelProfile, Session


def _fraction_of_roof(kernel: KernelProfile) -> float | None:
    from gpuprof.model.headline import main_point

    point = main_point(kernel)
    return point.fraction_of_roof if point is not None else None


SORT_KEYS: dict[str, Callable[[KernelProfile], float | None]] = {
    "time": lambda kernel: -kernel.time_total_s if kernel.time_total_s is not None else None,
    "launch": lambda kernel: kernel.id,
    "roof": _fraction_of_roof,
    "occupancy": lambda kernel: kernel.occupancy.achieved,
}
"""What each --sort orders by, smallest first; kernels without the value come last."""


def sort_kernels(kernels: list[KernelProfile], order: str) -> list[KernelProfile]:
    """Sort kernels; equal ones keep the order of their launches."""

    def key(kernel: KernelProfile) -> tuple[bool, float, int]:
        value = SORT_KEYS[order](kernel)
        return value is None, value if value is not None else 0.0, kernel.id

    return sorted(kernels, key=key)


def select_kernels(session: Session, pattern: str | None) -> list[KernelProfile]:
    """Return the kernels whose label or full name matches, or the one numbered `#N`.

    Raises UsageError if none does, or if the pattern is no regular expression.
    """
    if pattern is None:
        return list(session.kernels)
    if re.fullmatch(r"#[0-9]{1,18}", pattern):
        kernels = [kernel for kernel in session.kernels if kernel.id == int(pattern[1:])]
        return kernels or _none_matches(session, pattern)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            regex = re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise UsageError(
            f"--kernel {pattern!r:.80} is not a regular expression: {error}", "escape ( ) [ ] * + ? with \\"
        ) from error
    kernels = [kernel for kernel in session.kernels if regex.search(kernel.label) or regex.search(kernel.demangled)]
    return kernels or _none_matches(session, pattern)


def _none_matches(session: Session, pattern: str) -> NoReturn:
    if not session.kernels:
        raise UsageError(f"no kernel matches {pattern!r:.80}: no kernel was profiled")
    by_number = pattern.startswith("#")
    named = (f"#{kernel.id} {kernel.label}" if by_number else kernel.label for kernel in session.kernels)
    names = list(dict.fromkeys(named))
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    raise UsageError(f"no kernel matches {pattern!r:.80}", f"there are: {'; '.join(names[:5])}{more}")
