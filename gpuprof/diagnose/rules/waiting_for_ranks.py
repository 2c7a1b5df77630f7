"""Communication waits for other ranks."""

from __future__ import annotations

from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.rule import Findings, amounts_of, labels_of
from gpuprof.diagnose.thresholds import percent
from gpuprof.diagnose.timeline_findings import exposed_finding, exposed_rule
from gpuprof.model.findings import MAIN
from gpuprof.model.session import Communication, Evidence

STRAGGLER = percent("straggler", 50.0)


def _waits_for_ranks(facts: KernelFacts) -> Findings:
    for exposed in facts.exposed:
        talk = exposed.done
        if not isinstance(talk, Communication) or exposed.awaited is None:
            continue
        rank, part = exposed.awaited
        # A rank is a straggler if it has this part of all waits beyond an even share.
        even = 100 / exposed.gpu.gpus
        least = even + STRAGGLER.value / 100 * (100 - even)
        whose = "one-rank" if 100 * part >= least else "any-rank"
        yield exposed_finding(
            facts,
            exposed,
            whose,
            (*MAIN, whose),
            MAIN,
            amounts=amounts_of("s", communication=talk.time_s) + amounts_of(waits_for_one=part),
            labels=labels_of(slowest=(str(rank),)),
            evidence=(Evidence("", 100 * part, "%", least, role="waits-for-one"),),
        )


RULE = exposed_rule("waiting-for-ranks", _waits_for_ranks, STRAGGLER)
