"""A session with its sentences: those of findings, recommendations and the verdict, each written once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from gpuprof.model.session import Finding, KernelProfile, Recommendation, RunVerdict, Session
from gpuprof.words.findings import assumption_text, common_headline, with_sentences
from gpuprof.words.notes import notes
from gpuprof.words.verdict import ceiling_name, unknown_sentence, verdict_sentence


def worded(session: Session) -> Session:
    """Return the session with the sentences of whatever has none yet; the same session if nothing lacks any."""
    verdict = session.verdict
    lacking = verdict is not None and not _is_worded(verdict)
    if not lacking and all(item.headline for item in session.recommendations) and _have_sentences(session.kernels):
        return session
    kernels = tuple(map(_worded_kernel, session.kernels))
    findings = {finding.id: finding for kernel in kernels for finding in kernel.findings}
    recommendations = tuple(_worded_recommendation(item, findings) for item in session.recommendations)
    session = replace(session, kernels=kernels, recommendations=recommendations)
    return session if verdict is None else replace(session, verdict=_worded_verdict(session, verdict))


def _is_worded(verdict: RunVerdict) -> bool:
    return bool(verdict.sentence or verdict.notes)


def _have_sentences(kernels: Iterable[KernelProfile]) -> bool:
    return all(finding.headline for kernel in kernels for finding in kernel.findings)


def _worded_verdict(session: Session, verdict: RunVerdict) -> RunVerdict:
    if _is_worded(verdict):
        return verdict
    return replace(
        verdict,
        sentence=verdict_sentence(session, verdict),
        ceiling=ceiling_name(verdict.subject) if verdict.subject is not None and verdict.fraction is not None else None,
        notes=tuple(notes(session, verdict)),
        unknown=unknown_sentence(session, verdict),
    )


def _worded_kernel(kernel: KernelProfile) -> KernelProfile:
    findings = tuple(map(with_sentences, kernel.findings))
    return replace(kernel, findings=findings) if findings else kernel


def _worded_recommendation(item: Recommendation, findings: Mapping[str, Finding]) -> Recommendation:
    if item.headline:
        return item
    members = [findings[name] for name in item.findings]
    held = assumption_text(item.assumes) or item.held
    return replace(item, headline=common_headline(members), action=members[0].action, held=held)
