"""Remove the kernels that the user excludes from a session, but keep their time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from gpuprof.errors import UsageError
from gpuprof.model.kernel_match import KernelPattern, kernel_pattern
from gpuprof.model.run_totals import narrowed
from gpuprof.model.session import Exclusion, KernelProfile, Session

OPTION = "--exclude"


def without_excluded(session: Session, texts: Sequence[str], shown: Callable[[str], str] = str) -> Session:
    """Return the session without the kernels that match these patterns; if there are any, also without its verdict.

    Shares stay those of the whole run. The session keeps each pattern as `shown` returns it. Raise UsageError for an
    invalid pattern, and if no kernel is left.
    """
    matches = _matches(session, texts)
    excluded = {number for _, ids in matches for number in ids}
    if not excluded:
        return session
    gone = [kernel for kernel in session.kernels if kernel.id in excluded]
    left = [kernel for kernel in session.kernels if kernel.id not in excluded]
    if not left:
        raise UsageError("every kernel is excluded", f"drop one of {', '.join(map(repr, texts))}")
    used = [shown(text) for text, ids in matches if ids]
    exclusion = _exclusion(session.excluded, gone, left, used)
    return replace(narrowed(session, left), excluded=exclusion)


def means(pattern: KernelPattern, kernel: KernelProfile) -> bool:
    """Return whether a pattern means a kernel: by a label, its full name or its number."""
    return pattern.fits(kernel.label, kernel.function_name, kernel.demangled, number=kernel.id)


def unused(session: Session, texts: Sequence[str]) -> tuple[str, ...]:
    """Return the patterns that match no kernel of a session."""
    return tuple(text for text, ids in _matches(session, texts) if not ids)


def _matches(session: Session, texts: Sequence[str]) -> list[tuple[str, list[int]]]:
    """Return each pattern with the ids of the kernels that match it."""
    matches = []
    for text in texts:
        pattern = kernel_pattern(text, OPTION)
        matches.append((text, [kernel.id for kernel in session.kernels if means(pattern, kernel)]))
    return matches


def _exclusion(
    before: Exclusion | None, gone: Sequence[KernelProfile], left: Sequence[KernelProfile], used: Sequence[str]
) -> Exclusion:
    """Return the exclusion of these kernels added to an earlier one of the session."""
    known = before or Exclusion(patterns=(), kernels=0, launches=0, untimed=0, time_s=None, time_share=None)
    functions = {kernel.numbered_name for kernel in gone}
    is_in_part = not functions.isdisjoint(kernel.numbered_name for kernel in left)
    share = _sum(known.time_share, *(kernel.time_share for kernel in gone))
    return Exclusion(
        patterns=tuple(dict.fromkeys((*known.patterns, *used))),
        kernels=known.kernels + len(gone if is_in_part else functions),
        launches=known.launches + sum(kernel.launches for kernel in gone),
        untimed=known.untimed + sum(kernel.launches for kernel in gone if kernel.time_share is None),
        time_s=_sum(known.time_s, *(kernel.time_total_s for kernel in gone)),
        time_share=min(1.0, share) if share is not None else None,
    )


def _sum(*values: float | None) -> float | None:
    """Return the sum of the known values; None if there is none."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None
