"""A session's verdict and opportunities, made from its kernels and their findings alone."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from gpuprof.diagnose.opportunities import opportunities
from gpuprof.diagnose.order import numbered
from gpuprof.diagnose.verdict import run_verdict
from gpuprof.model.run_totals import busy_share, narrowed
from gpuprof.model.session import SCHEMA_VERSION, Finding, KernelProfile, Session


def summarised(session: Session) -> Session:
    """Return the session with its verdict and opportunities; findings without an id, of version 1, get theirs."""
    kernels = tuple(map(_with_ids, session.kernels))
    session = replace(session, kernels=kernels)
    return replace(session, verdict=run_verdict(session), opportunities=opportunities(kernels, busy_share(session)))


def chosen(session: Session, kernels: Iterable[KernelProfile]) -> Session:
    """Return the session with these of its kernels, judged by them."""
    return summarised(narrowed(session, kernels))


def completed(session: Session) -> Session:
    """Return a session that was read as this version of the contract has it: one of version 1 lacks what is judged."""
    if session.schema_version == SCHEMA_VERSION and session.verdict is not None:
        return session
    if session.schema_version < SCHEMA_VERSION:
        session = replace(session, kernels=tuple(map(_without_ids, session.kernels)))
    return replace(summarised(session), schema_version=SCHEMA_VERSION)


def _without_ids(kernel: KernelProfile) -> KernelProfile:
    """Return a kernel of version 1, which had no ids: whatever is there in their place."""
    return replace(kernel, findings=tuple(replace(finding, id="", cause=None) for finding in kernel.findings))


def _with_ids(kernel: KernelProfile) -> KernelProfile:
    if all(finding.id for finding in kernel.findings):
        return kernel
    return replace(kernel, findings=tuple(map(_of_version_2, numbered(kernel.findings, kernel.id))))


def _of_version_2(finding: Finding) -> Finding:
    """Give a finding of version 1, in which every gain was told as the most that a repair saves, what it lacks."""
    has_gain = finding.gain_kernel is not None or finding.gain_total is not None
    kind = finding.gain_kind or ("bound" if has_gain else None)
    return replace(finding, action=finding.action or _first_sentence(finding.advice), gain_kind=kind)


def _first_sentence(advice: str) -> str:
    return advice.partition(". ")[0].rstrip(".")
