"""A session without the kernels that the user does not want to hear of; their time stays known."""

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
    """Return the session without the kernels that these patterns name, judged by the others.

    Shares stay those of the whole run. Raises UsageError for a pattern that is none, and where no kernel is left.
    """
    patterns = [kernel_pattern(text, OPTION) for text in texts]
    gone = [kernel for kernel in session.kernels if _is_named(kernel, patterns)]
    if not gone:
        return session
    dropped = {kernel.id for kernel in gone}
    left = [kernel for kernel in session.kernels if kernel.id not in dropped]
    if not left:
        raise UsageError("every kernel is excluded", f"drop one of {', '.join(map(repr, texts))}")
    used = tuple(
        clean_text(pattern.text) for pattern in patterns if any(_is_named(kernel, [pattern]) for kernel in gone)
    )
    now = _exclusion(gone, left, used)
    return summarised(replace(narrowed(session, left), excluded=_together(session.excluded, now)))


def unused(session: Session, texts: Sequence[str]) -> tuple[str, ...]:
    """Return the patterns that name no kernel of a session."""
    patterns = [kernel_pattern(text, OPTION) for text in texts]
    return tuple(
        pattern.text for pattern in patterns if not any(_is_named(kernel, [pattern]) for kernel in session.kernels)
    )


def _is_named(kernel: KernelProfile, patterns: Sequence[KernelPattern]) -> bool:
    return any(pattern.fits(kernel.label, kernel.demangled, kernel.id) for pattern in patterns)


def _exclusion(gone: Sequence[KernelProfile], left: Sequence[KernelProfile], used: tuple[str, ...]) -> Exclusion:
    labels = {kernel.label for kernel in gone}
    in_part = labels & {kernel.label for kernel in left}
    times = [kernel.time_total_s for kernel in gone if kernel.time_total_s is not None]
    shares = [kernel.time_share for kernel in gone if kernel.time_share is not None]
    return Exclusion(
        patterns=used,
        kernels=len(gone) if in_part else len(labels),
        launches=sum(kernel.launches for kernel in gone),
        untimed=sum(kernel.launches for kernel in gone if kernel.time_share is None),
        time_s=sum(times) if times else None,
        time_share=min(1.0, sum(shares)) if shares else None,
    )


def _together(before: Exclusion | None, now: Exclusion) -> Exclusion:
    """Add what is excluded to what a session lacks already."""
    if before is None:
        return now
    times = [time for time in (before.time_s, now.time_s) if time is not None]
    shares = [share for share in (before.time_share, now.time_share) if share is not None]
    return Exclusion(
        patterns=tuple(dict.fromkeys((*before.patterns, *now.patterns))),
        kernels=before.kernels + now.kernels,
        launches=before.launches + now.launches,
        untimed=before.untimed + now.untimed,
        time_s=sum(times) if times else None,
        time_share=min(1.0, sum(shares)) if shares else None,
    )
