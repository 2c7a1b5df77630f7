"""Remove the kernels that the user excludes from a session, but keep their time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from gpuprof.diagnose.summary import summarised
from gpuprof.errors import UsageError
from gpuprof.model.kernel_match import KernelPattern, kernel_pattern
from gpuprof.model.run_totals import narrowed
from gpuprof.model.session import Exclusion, KernelProfile, Session
from gpuprof.privacy.texts import clean_text

OPTION = "--exclude"


def without_excluded(session: Session, texts: Sequence[str]) -> Session:
    """Return the session without the kernels that match these patterns, summarised again.

    Shares stay those of the whole run. Raise UsageError for an invalid pattern, and if no kernel is
    left.
    """
    excluded = set[int]()
    used = []
    for pattern, ids in _matches(session, texts):
        excluded.update(ids)
        if ids:
            used.append(clean_text(pattern.text))
    if not excluded:
        return session
    gone = [kernel for kernel in session.kernels if kernel.id in excluded]
    left = [kernel for kernel in session.kernels if kernel.id not in excluded]
    if not left:
        raise UsageError("every kernel is excluded", f"drop one of {', '.join(map(repr, texts))}")
    exclusion = _exclusion(session.excluded, gone, left, used)
    return summarised(replace(narrowed(session, left), excluded=exclusion))


def unused(session: Session, texts: Sequence[str]) -> tuple[str, ...]:
    """Return the patterns that match no kernel of a session."""
    return tuple(pattern.text for pattern, ids in _matches(session, texts) if not ids)


def _matches(session: Session, texts: Sequence[str]) -> Iterator[tuple[KernelPattern, list[int]]]:
    """Yield each pattern with the ids of the kernels that match it."""
    for text in texts:
        pattern = kernel_pattern(text, OPTION)
        ids = []
        for kernel in session.kernels:
            if pattern.fits(kernel.label, kernel.demangled, kernel.id):
                ids.append(kernel.id)
        yield pattern, ids


def _exclusion(
    before: Exclusion | None, gone: Sequence[KernelProfile], left: Sequence[KernelProfile], used: Sequence[str]
) -> Exclusion:
    """Return the exclusion of these kernels added to an earlier one of the session."""
    known = before or Exclusion(patterns=(), kernels=0, launches=0, untimed=0, time_s=None, time_share=None)
    launches = known.launches
    untimed = known.untimed
    time_s = known.time_s
    share = known.time_share
    for kernel in gone:
        launches += kernel.launches
        if kernel.time_total_s is not None:
            time_s = (time_s or 0.0) + kernel.time_total_s
        if kernel.time_share is not None:
            share = (share or 0.0) + kernel.time_share
        else:
            untimed += kernel.launches
    labels = {kernel.label for kernel in gone}
    is_in_part = not labels.isdisjoint(kernel.label for kernel in left)
    return Exclusion(
        patterns=tuple(dict.fromkeys((*known.patterns, *used))),
        kernels=known.kernels + len(gone if is_in_part else labels),
        launches=launches,
        untimed=untimed,
        time_s=time_s,
        time_share=min(1.0, share) if share is not None else None,
    )
