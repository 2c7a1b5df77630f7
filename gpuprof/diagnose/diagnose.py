"""Runs the rules over every kernel of an analysis, says which finding explains which, and judges the whole run."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import structs
from msgspec.structs import replace

from gpuprof.diagnose.across import faster_launches
from gpuprof.diagnose.case import Case
from gpuprof.diagnose.causes import with_causes
from gpuprof.diagnose.excerpts import excerpts
from gpuprof.diagnose.exposed import exposed_of
from gpuprof.diagnose.gaps import pauses_of
from gpuprof.diagnose.kernel_code import SeenCode
from gpuprof.diagnose.kinds import speaking, with_usual_change
from gpuprof.diagnose.launch import SHORT_KERNEL, is_short
from gpuprof.diagnose.line_work import line_work
from gpuprof.diagnose.many import Diagnosis, each_of
from gpuprof.diagnose.order import in_order, numbered
from gpuprof.diagnose.registry import RULES
from gpuprof.diagnose.rule import Rule, as_guess
from gpuprof.diagnose.summary import summarised
from gpuprof.model.analyse import Analysis
from gpuprof.model.recorded import Missing
from gpuprof.model.run_totals import busy_share
from gpuprof.model.session import Finding, Session

FALLBACK = "latency-bound"
_NO_SOURCE = Missing(
    "source text", "the report has file names and line numbers only", "profile again with ncu --import-source yes"
)


def diagnose(analysis: Analysis) -> Session:
    """Return the analysis' session with findings and code excerpts for every kernel, a verdict and recommendations."""
    session, pauses = analysis.session, pauses_of(analysis.session)
    exposed = exposed_of(session)
    faster = faster_launches(analysis)
    busy, seen = busy_share(session), SeenCode()

    def diagnosis(place: int) -> Diagnosis:
        kernel = session.kernels[place]
        share = kernel.time_share * busy if kernel.time_share is not None else None
        case = Case(
            kernel,
            analysis.recorded[place],
            pauses=pauses.get(kernel.id),
            exposed=exposed.get(kernel.id, ()),
            faster=faster.get(kernel.id),
            timed_only=session.only_times,
            run_share=share,
            seen=seen,
        )
        return _diagnosed(case)

    several = zip(session.kernels, each_of(analysis, diagnosis), strict=True)
    kernels = tuple(own.of(kernel) for kernel, own in several)
    return summarised(structs.replace(session, kernels=kernels))


def _diagnosed(case: Case) -> Diagnosis:
    findings = in_order(_findings(case))
    code = excerpts(case)
    lines, dropped = line_work(case)
    missing = case.kernel.missing
    if case.code_error is not None:
        missing = (*missing, Missing("source and SASS", case.code_error, "profile again"))
    elif case.code:
        without_text = (_NO_SOURCE,) if code and not any(excerpt.has_text for excerpt in code) else ()
        missing = (*missing, *case.recorded.launch.details.code_gaps(), *without_text)
    return Diagnosis(findings=findings, excerpts=code, missing=missing, lines=lines, lines_dropped=dropped)


def _findings(case: Case) -> Iterable[Finding]:
    """Run every rule. That nothing is busy is only told where no other finding says why."""
    spoken = [(rule, _found(rule, verdict, case)) for rule in _applying(case) for verdict in rule.check(case)]
    explained = is_short(case) or any(
        rule.id != FALLBACK and finding.severity in ("high", "medium") for rule, finding in spoken
    )
    kept = [(rule, finding) for rule, finding in spoken if rule.id != FALLBACK or not explained]
    findings = numbered((finding for _, finding in kept), case.kernel.id)
    return with_causes([(rule, finding) for (rule, _), finding in zip(kept, findings, strict=True)], case)


def _found(rule: Rule, found: Finding, case: Case) -> Finding:
    """Return what a rule found with its rule; a gain of a kernel as short as its launch is a guess."""
    found = replace(found, rule=rule.id)
    if rule.id != SHORT_KERNEL and found.gain_kernel is not None and is_short(case):
        found = as_guess(found)
    return with_usual_change(found, case)


_OF_TIMELINES = tuple(rule for rule in RULES if rule.by_times or rule.of_timelines)


def _applying(case: Case) -> tuple[Rule, ...]:
    """A timeline gives rules on times what they need, if the kernel has any; what is of the run is told in any case."""
    if not case.timed_only:
        return speaking(RULES, case)
    tells = case.kernel.duration_s is not None or case.pauses is not None or case.exposed
    return speaking(_OF_TIMELINES, case) if tells else ()
