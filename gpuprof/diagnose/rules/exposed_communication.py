"""Communication between GPUs runs while no other kernel runs."""

from __future__ import annotations

from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.rule import Findings, amounts_of
from gpuprof.diagnose.timeline_findings import exposed_finding, exposed_rule
from gpuprof.model.findings import MAIN
from gpuprof.model.session import Communication


def _exposed_communication(facts: KernelFacts) -> Findings:
    for exposed in facts.exposed:
        talk = exposed.done
        if not isinstance(talk, Communication) or exposed.awaited is not None:
            continue
        change = "with-waits" if talk.waiting_s is None else "without-waits"
        headline = MAIN if talk.waiting_s is None else (*MAIN, "without-waits")
        amounts = amounts_of("s", communication=talk.time_s)
        yield exposed_finding(facts, exposed, change, headline, (change,), amounts=amounts)


RULE = exposed_rule("exposed-communication", _exposed_communication)
