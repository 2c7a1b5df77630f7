"""Remove the kernels that the user excludes from a session, but keep their time."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from gpuprof.diagnose.summary import summarised
from gpuprof.errors import UsageError
from gpuprof.model.kernel_match import KernelPattern, kernel_pattern
from gpuprof.model.run_totals import narrowed
from gpuprof.model.session import Exclusion, KernelProfile, Session
from gpuprof.privacy.texts import clean_text

OPTION = "--exclude"


def without_excluded(session: Session, texts: Sequence[str]) -> Session:
    """Return the session without the kernels that match these patterns, with a summary of the others.

    Shares stay those of the whole run. Raise UsageError for an invalid pattern, and if no kernel is left.
    """
    patterns = [kernel_pattern(text, OPTION) for text in texts]
    gone, left = list[KernelProfile](), list[KernelProfile]()
    for kernel in session.kernels:
        (gone if any(_fits(pattern, kernel) for pattern in patterns) else left).append(kernel)
    if not gone:
        return session
    if not left:
        raise UsageError("every kernel is excluded", f"drop one of {', '.join(map(repr, texts))}")
    used = [clean_text(pattern.text) for pattern in patterns if any(_fits(pattern, kernel) for kernel in gone)]
    return summarised(replace(narrowed(session, left), excluded=_exclusion(session.excluded, gone, left, used)))


def unused(session: Session, texts: Sequence[str]) -> tuple[str, ...]:
    """Return the patterns that match no kernel of a session."""
    patterns = [kernel_pattern(text, OPTION) for text in texts]
    return tuple(pattern.text for pattern in patterns if not any(_fits(pattern, kernel) for kernel in session.kernels))


def _fits(pattern: KernelPattern, kernel: KernelProfile) -> bool:
    return pattern.fits(kernel.label, kernel.demangled, kernel.id)


def _exclusion(
    before: Exclusion | None, gone: Sequence[KernelProfile], left: Sequence[KernelProfile], used: Sequence[str]
) -> Exclusion:
    """Return the exclusion of these kernels added to an earlier one of the session."""
    known = before or Exclusion(patterns=(), kernels=0, launches=0, untimed=0, time_s=None, time_share=None)
    labels = {kernel.label for kernel in gone}
    is_in_part = not labels.isdisjoint(kernel.label for kernel in left)
    share = _sum_of_known([known.time_share, *(kernel.time_share for kernel in gone)])
    return Exclusion(
        patterns=tuple(dict.fromkeys((*known.patterns, *used))),
        kernels=known.kernels + (len(gone) if is_in_part else len(labels)),
        launches=known.launches + sum(kernel.launches for kernel in gone),
        untimed=known.untimed + sum(kernel.launches for kernel in gone if kernel.time_share is None),
        time_s=_sum_of_known([known.time_s, *(kernel.time_total_s for kernel in gone)]),
        time_share=min(1.0, share) if share is not None else None,
    )


def _sum_of_known(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
