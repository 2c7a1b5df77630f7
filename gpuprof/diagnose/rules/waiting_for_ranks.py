"""Communication waits for other ranks."""

from __future__ import annotations

from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.rule import Findings, amounts_of, labels_of
from gpuprof.diagnose.thresholds import percent
from gpuprof.diagnose.timeline_findings import exposed_finding, exposed_rule
from gpuprof.model.findings import MAIN, CaseName
from gpuprof.model.session import Communication
from gpuprof.timeline.worst_gpu import Awaited

EXPLAINED = percent("explained", 80.0)
OTHERS = percent("others", 50.0)


def _waits_for_ranks(facts: KernelFacts) -> Findings:
    for exposed in facts.exposed:
        talk, awaited = exposed.done, exposed.awaited
        if not isinstance(talk, Communication) or awaited is None:
            continue
        cause, explained = _cause(awaited)
        yield exposed_finding(
            facts,
            exposed,
            cause,
            (*MAIN, cause),
            (*MAIN, cause),
            amounts=(
                amounts_of("s", communication=talk.time_s)
                + amounts_of(waits_for_one=awaited.share, explained=explained)
            ),
            labels=labels_of(slowest=(str(awaited.rank),)),
            evidence=(EXPLAINED.evidence(100 * explained),),
        )


def _cause(awaited: Awaited) -> tuple[CaseName, float]:
    """Return why ranks wait, and the share of all waits that one measured difference explains."""
    if awaited.late_for is not None and EXPLAINED.is_reached(awaited.explained):
        return f"late-{awaited.late_for}", awaited.explained
    if awaited.all_late_for is not None and EXPLAINED.is_reached(awaited.all_explained):
        return f"turns-{awaited.all_late_for}", awaited.all_explained
    return "no-one" if OTHERS.is_reached(1 - awaited.share) else "unknown", awaited.explained


RULE = exposed_rule("waiting-for-ranks", _waits_for_ranks, EXPLAINED, OTHERS)
