"""Communication between GPUs runs while no other kernel runs."""

from __future__ import annotations

from gpuprof.diagnose.exposed import exposed_finding, exposed_rule, of_all, part_case
from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.pauses import gpu_case
from gpuprof.diagnose.rule import Findings
from gpuprof.model.findings import MAIN, Cases
from gpuprof.model.session import Communication


def _exposed_communication(facts: KernelFacts) -> Findings:
    for exposed in facts.exposed:
        talk = exposed.done
        if not isinstance(talk, Communication) or exposed.awaited is not None:
            continue
        headline = ("name", gpu_case(exposed), part_case(exposed, talk))
        if talk.waiting_s is None:
            cases = Cases(headline=headline, why=("with-waits", *of_all(exposed)), advice=(*MAIN, "with-waits"))
        else:
            cases = Cases(headline=(*headline, "without-waits"), why=("without-waits", *of_all(exposed)))
        yield exposed_finding(facts, exposed, cases)


RULE = exposed_rule("exposed-communication", _exposed_communication)
