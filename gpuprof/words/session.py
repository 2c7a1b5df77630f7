"""A session with the sentences of its findings, its recommendations and its verdict."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from gpuprof.model.session import Finding, KernelProfile, Recommendation, Session
from gpuprof.words.findings import assumption_text, common_headline, with_answer, with_sentences
from gpuprof.words.missing_metrics import command_of
from gpuprof.words.notes import notes
from gpuprof.words.verdict import ceiling_name, unknown_sentence, verdict_sentence


def worded(session: Session) -> Session:
    """Return the session with the sentences of whatever has none yet."""
    kernels = tuple(map(_worded_kernel, session.kernels))
    findings = {finding.id: finding for kernel in kernels for finding in kernel.findings}
    recommendations = [_worded_recommendation(item, findings) for item in session.recommendations]
    session = replace(session, kernels=kernels, recommendations=tuple(recommendations))
    verdict = session.verdict
    if verdict is None or verdict.sentence or verdict.notes:
        return session
    ceiling = None
    if verdict.subject is not None and verdict.fraction is not None:
        ceiling = ceiling_name(verdict.subject)
    verdict = replace(
        verdict,
        sentence=verdict_sentence(session, verdict),
        ceiling=ceiling,
        notes=tuple(notes(session, verdict)),
        unknown=unknown_sentence(session, verdict),
        command=command_of(session, verdict),
    )
    return replace(session, verdict=verdict)


def _worded_kernel(kernel: KernelProfile) -> KernelProfile:
    findings = tuple(map(with_sentences, kernel.findings))
    return replace(kernel, findings=findings, answers=tuple(map(with_answer, kernel.answers)))


def _worded_recommendation(item: Recommendation, findings: Mapping[str, Finding]) -> Recommendation:
    if item.headline:
        return item
    members = [findings[name] for name in item.findings]
    held = assumption_text(item.assumes) or item.held
    return replace(item, headline=common_headline(members), action=members[0].action, held=held)
