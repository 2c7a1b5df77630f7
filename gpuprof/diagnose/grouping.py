"""A session with equal launches as one kernel each: shares, gains and the verdict are then those of the groups."""

from __future__ import annotations

from gpuprof.diagnose.summary import summarised
from gpuprof.model.merged import launches_of, merged
from gpuprof.model.session import Session


def grouped(session: Session) -> Session:
    """Return the session with equal launches as one kernel each, judged by them; as it is where no two are equal."""
    groups = merged(session, launches_of(session.kernels))
    return summarised(groups) if groups is not None else session
