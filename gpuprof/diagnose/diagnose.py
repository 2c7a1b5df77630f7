"""Run the rules on every kernel, find the causes among findings, and summarise the run."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator

from msgspec.structs import replace

from gpuprof.annotated.counts import EXECUTED
from gpuprof.annotated.excerpts import excerpts
from gpuprof.annotated.kernel_code import SeenCode
from gpuprof.annotated.line_work import line_work
from gpuprof.diagnose.causes import with_causes
from gpuprof.diagnose.configurations import faster_launches
from gpuprof.diagnose.counted_answers import counted_answers
from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.facts.patterns import Patterns, patterns_of
from gpuprof.diagnose.kinds import rules_of_kind, with_usual_change
from gpuprof.diagnose.ranking import about, in_order, numbered, saving_of
from gpuprof.diagnose.registry import RULES
from gpuprof.diagnose.rule import SHORT_KERNEL, Rule
from gpuprof.diagnose.summary import summarised
from gpuprof.diagnose.timeline_findings import EXPOSED_SHARE
from gpuprof.errors import DamagedInput
from gpuprof.model.analyse import Analysis
from gpuprof.model.recorded import Missing
from gpuprof.model.run_totals import busy_share
from gpuprof.model.session import Finding, KernelProfile, Session
from gpuprof.timeline.worst_gpu import exposed_of, pauses_of
from gpuprof.workers import Worth, made_by_workers

FALLBACK = "latency-bound"
_NO_SOURCE = Missing(
    "source text", "the report has file names and line numbers only", "profile again with ncu --import-source yes"
)


_WITH_CODE, _WITH_COUNTERS, _WITH_TIMES = Worth(48, each=8), Worth(150, each=30), Worth(1_000, each=400)
"""Numbers of kernels that are worth workers.

One takes 10 ms with counts of every instruction, 3 ms with all counters, 0.2 ms with times alone.
"""


def diagnose(analysis: Analysis) -> Session:
    """Return the session with findings and code excerpts, a verdict and recommendations."""
    session = analysis.session
    pauses = pauses_of(session)
    exposed = exposed_of(session, EXPOSED_SHARE.value / 100)
    faster = faster_launches(analysis)
    patterns = patterns_of(analysis.sequences, session.kernels)
    busy = busy_share(session)
    seen = SeenCode()

    def diagnosed(place: int) -> KernelProfile:
        kernel = session.kernels[place]
        facts = KernelFacts(
            kernel,
            analysis.recorded[place],
            pauses=pauses.get(kernel.id),
            exposed=exposed.get(kernel.id, ()),
            faster=faster.get(kernel.id),
            patterns=patterns.get(kernel.id, Patterns()),
            timed_only=session.only_times,
            seen=seen,
        )
        if kernel.time_share is not None:
            facts.run_share = kernel.time_share * busy
        return _diagnosed(facts)

    return summarised(replace(session, kernels=tuple(_each_of(analysis, diagnosed))))


def _each_of(analysis: Analysis, diagnosed: Callable[[int], KernelProfile]) -> Iterator[KernelProfile]:
    """Yield the profile of each kernel of an analysis, in order.

    `diagnosed` makes that of one index.
    """
    launches = [recorded.launch for recorded in analysis.recorded]
    # Kernels of one name are neighbours, because they share cached results.
    order = sorted(range(len(launches)), key=lambda at: launches[at].mangled or "")
    for launch in launches:
        if launch.metrics.has(EXECUTED):
            with contextlib.suppress(DamagedInput):
                # One call of nvdisasm reads the code of all kernels, instead of one per worker.
                launch.details.code_gaps()
            return made_by_workers(order, diagnosed, _WITH_CODE)
    return made_by_workers(order, diagnosed, _WITH_TIMES if analysis.session.only_times else _WITH_COUNTERS)


def _diagnosed(facts: KernelFacts) -> KernelProfile:
    findings = in_order(_findings(facts))
    texts = facts.source_texts
    code = excerpts(facts.code, texts)
    lines, dropped = line_work(facts.code, texts, facts.metrics, uses_local=_uses_local(facts.kernel))
    missing = facts.kernel.missing
    if facts.code_error is not None:
        missing += (Missing("source and SASS", facts.code_error, "profile again"),)
    elif facts.code.instructions:
        missing += tuple(facts.recorded.launch.details.code_gaps())
        if code and not any(excerpt.has_text for excerpt in code):
            missing += (_NO_SOURCE,)
    return replace(
        facts.kernel,
        findings=findings,
        answers=counted_answers(facts, {finding.rule for finding in findings}),
        excerpts=code,
        missing=missing,
        lines=lines,
        lines_dropped=dropped,
    )


def _uses_local(kernel: KernelProfile) -> bool:
    """Return whether a kernel may access local memory: its sectors were counted, or are not known."""
    counts = {count.name: count.high for count in kernel.counts}
    return counts.get("local-load-sectors") != 0 or counts.get("local-store-sectors") != 0


def _findings(facts: KernelFacts) -> Iterable[Finding]:
    """Return the findings of every rule.

    The finding that nothing is busy is kept only if no other finding explains it.
    """
    rules = {rule.id: rule for rule in _applying(facts)}
    found = [_found(rule, finding, facts) for rule in rules.values() for finding in rule.check(facts)]
    fallback = next((finding for finding in found if finding.rule == FALLBACK), None)
    if fallback is not None and (facts.is_short or any(_explains(finding, fallback) for finding in found)):
        found.remove(fallback)
    return with_causes([(rules[finding.rule], finding) for finding in numbered(found, facts.kernel.id)], facts)


def _explains(finding: Finding, fallback: Finding) -> bool:
    """Return whether a finding names the reason of waits, or a defect that costs as much as they do."""
    if finding.rule == FALLBACK or finding.severity not in ("high", "medium"):
        return False
    return about(finding) != "defect" or saving_of(finding) >= saving_of(fallback)


def _found(rule: Rule, found: Finding, facts: KernelFacts) -> Finding:
    """Return a finding with its rule; a gain of a kernel as short as its launch is a guess, unless it all goes."""
    found = replace(found, rule=rule.id)
    if rule.id != SHORT_KERNEL and found.gain_kernel not in (None, 1.0) and facts.is_short:
        severity = "low" if found.severity in ("high", "medium") else found.severity
        found = replace(found, severity=severity, confidence="guess")
    return with_usual_change(found, facts)


_OF_TIMELINES = tuple(rule for rule in RULES if rule.by_times or rule.of_timelines)


def _applying(facts: KernelFacts) -> tuple[Rule, ...]:
    """Return the rules that apply.

    A kernel of a timeline needs a time, or pauses or exposed activity of the run.
    """
    if not facts.timed_only:
        return rules_of_kind(RULES, facts)
    if facts.kernel.duration_s is None and facts.pauses is None and not facts.exposed:
        return ()
    return rules_of_kind(_OF_TIMELINES, facts)
