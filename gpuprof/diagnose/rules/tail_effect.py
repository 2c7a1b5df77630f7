"""The last wave of blocks fills only a part of the GPU."""

from __future__ import annotations

import math

from gpuprof.diagnose.bounds import without_idle
from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.facts.launch import WAVES
from gpuprof.diagnose.rule import AT_WARPS, Findings, Rule, amounts_of, finding
from gpuprof.diagnose.thresholds import TAIL_SHARE, TAIL_SLACK


def _tail(facts: KernelFacts) -> Findings:
    waves, tail = facts.waves, facts.tail
    if waves is None or tail is None:
        return
    rounds = math.ceil(waves)
    empty = facts.working_share * tail
    if facts.active_share is not None:
        # The idle time of an average SM can be the tail itself: only the busiest SM shows the
        # launch's part.
        working = 1.0 if facts.busiest_share is None else facts.working_share
        # An SM with one block of the last round has work, and most of its warp slots are empty.
        empty = min(empty, working - facts.active_share * facts.resident_share)
    yield finding(
        facts,
        amounts=amounts_of("", rounds=rounds) + amounts_of(partial=waves - (rounds - 1)),
        confidence="measured" if facts.is_tail_measured else "inferred",
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
