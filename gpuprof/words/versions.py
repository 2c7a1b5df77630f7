"""A fix as text: how slow a kernel is, why, what to change, and what the fix gave beside what was promised."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from gpuprof.diagnose.verdict import run_verdict
from gpuprof.model.session import Finding, KernelProfile, Session
from gpuprof.model.version_pairs import VersionPair, what_to_fix
from gpuprof.units import format_percent, significant
from gpuprof.words.finding_text import evidence_texts, held_text
from gpuprof.words.profile_values import LEVEL_NAMES, duration_text
from gpuprof.words.verdict import ceiling_name

_NOT_KNOWN = "duration not collected"


def slow_text(kernel: KernelProfile, session: Session) -> str:
    """Say how long a kernel takes, how close it is to its ceiling, and how busy the rest of the GPU is meanwhile."""
    verdict = run_verdict(replace(session, kernels=(kernel,)))
    time = duration_text(kernel.duration_s) if kernel.duration_s is not None else _NOT_KNOWN
    at = ""
    if verdict.fraction is not None and verdict.subject is not None:
        at = f" at {format_percent(verdict.fraction)} of {ceiling_name(verdict.subject)}"
    others = ", ".join(_others(kernel, verdict.subject))
    return f"{kernel.label}: {time}{at}{f'; {others}' if others else ''}"


def _others(kernel: KernelProfile, subject: str | None) -> Iterator[str]:
    busy = {unit.unit: unit.fraction for unit in kernel.throughput if unit.is_exact}
    for level, name in LEVEL_NAMES.items():
        if level in busy and level != subject:
            yield f"{name} {format_percent(busy[level])}"
    if kernel.scheduler is not None and kernel.scheduler.issue_active is not None:
        yield f"issue slots {format_percent(kernel.scheduler.issue_active)}"


def why_texts(finding: Finding | None) -> tuple[str, ...]:
    """Return what was found and the evidence that decided it, with how sure that is."""
    if finding is None:
        return ("no rule found anything to fix",)
    decided = [item for item in finding.evidence if item.threshold is not None] or finding.evidence
    evidence = next(evidence_texts(replace(finding, evidence=tuple(decided[:1]))), "")
    return finding.headline, "; ".join(part for part in (evidence, finding.confidence) if part)


def action_text(finding: Finding | None) -> str:
    """Say what to change in one sentence."""
    return (finding.action or finding.advice) if finding is not None else "none known"


def saved_text(pair: VersionPair) -> str:
    """Say what the finding promised and what the fix saved, however that turned out."""
    times = f": {duration_text(pair.before.duration_s)} → {duration_text(pair.after.duration_s)}"
    in_kernel = f"{times if pair.saved is not None else ''} in {pair.after.label}"
    return f"{_promise(pair)}, {_kept(pair)}{in_kernel}{_rest(pair)}"


def _rest(pair: VersionPair) -> str:
    if pair.is_found_again:
        return "; the finding remains"
    return "; the finding is gone" if pair.is_gone else ""


def _promise(pair: VersionPair) -> str:
    promised, finding = pair.promised, pair.finding
    if promised is None or finding is None:
        return "nothing promised"
    if finding.gain_kind == "bound":
        return f"at most {format_percent(promised)} promised"
    return " ".join(part for part in (f"{format_percent(promised)} promised", held_text(finding.held)) if part)


def _kept(pair: VersionPair) -> str:
    saved = pair.saved
    if saved is None:
        return f"what was saved is not known ({_NOT_KNOWN})"
    if saved < 0:
        return f"but the fix takes {format_percent(-saved)} longer"
    return f"{format_percent(saved)} saved{', more than promised' if pair.breaks_promise else ''}"


def outcome_text(kernels: Sequence[KernelProfile]) -> str:
    """Say in a sentence what all fixes gave together, and what remains; kernels come in the order of the fixes."""
    first, last = kernels[0], kernels[-1]
    rest = what_to_fix(last)
    remains = f"what remains: {rest.headline}" if rest is not None else "no rule finds more to fix"
    return f"{_speedup(first, last)}; {remains}"


def _speedup(first: KernelProfile, last: KernelProfile) -> str:
    if not first.duration_s or not last.duration_s:
        return f"{first.label} → {last.label}, {_NOT_KNOWN}"
    times = f"{duration_text(first.duration_s)} → {duration_text(last.duration_s)}"
    if last.duration_s <= first.duration_s:
        return f"{times}, {significant(first.duration_s / last.duration_s)} times as fast"
    return f"{times}, {significant(last.duration_s / first.duration_s)} times as long"
