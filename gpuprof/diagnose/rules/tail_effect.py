"""The last wave of blocks fills only a part of the GPU."""

from __future__ import annotations

import math

from gpuprof.diagnose.bounds import without_idle
from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.facts.launch import WAVES, has_tail, is_tail, tail_share
from gpuprof.diagnose.rule import AT_WARPS, Findings, Rule, amounts_of, finding
from gpuprof.diagnose.thresholds import TAIL_SHARE, TAIL_SLACK


def _tail(facts: KernelFacts) -> Findings:
    waves = facts.waves
    if waves is None or not has_tail(waves):
        return
    rounds = math.ceil(waves)
    empty, idle = facts.working_share * tail_share(waves), facts.idle_sms
    if facts.filled_share is not None:
        # The idle time of an average SM can be the tail itself: only the busiest SM shows the
        # launch's part.
        working = 1.0 if facts.busiest_share is None else facts.working_share
        empty = min(empty, working - facts.filled_share)
    yield finding(
        facts,
        amounts=(*amounts_of("", rounds=rounds), *amounts_of(partial=waves - (rounds - 1))),
        confidence="measured" if idle is not None and is_tail(waves, idle) else "inferred",
        saving=without_idle(facts, empty),
        evidence=(
            *facts.metric(WAVES, "waves", "wave"),
            TAIL_SHARE.evidence(100 / rounds, "time-of-last-wave"),
            *facts.active_evidence(),
        ),
    )


RULE = Rule(
    "tail-effect",
    thresholds=(TAIL_SHARE, TAIL_SLACK),
    check=_tail,
    metrics=(WAVES,),
    place=AT_WARPS,
)
