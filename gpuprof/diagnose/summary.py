"""A session's verdict and recommendations, made from its kernels and their findings alone."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from gpuprof.diagnose.recommendations import recommendations
from gpuprof.diagnose.verdict import run_verdict
from gpuprof.model.merged import launches_of, merged
from gpuprof.model.run_totals import busy_share, narrowed
from gpuprof.model.session import KernelProfile, Session


def summarised(session: Session) -> Session:
    """Return the session with its verdict and recommendations."""
    ranked = recommendations(session.kernels, busy_share(session))
    return replace(session, verdict=run_verdict(session), recommendations=ranked)


def with_verdict(session: Session) -> Session:
    """Return the session with a verdict and recommendations; unchanged if it has a verdict."""
    return session if session.verdict is not None else summarised(session)


def chosen(session: Session, kernels: Iterable[KernelProfile]) -> Session:
    """Return the session with these kernels only, and the verdict and recommendations for them."""
    return summarised(narrowed(session, kernels))


def grouped(session: Session) -> Session:
    """Return the session with equal launches merged into kernels and judged again.

    Unchanged if no two are equal.
    """
    groups = merged(session, launches_of(session.kernels))
    return summarised(groups) if groups is not None else session
