"""The rule on block sizes: blocks with empty lanes, or larger than the kernel allows."""

from __future__ import annotations

import math
from collections.abc import Iterator

from gpuprof.diagnose.rule import amounts_of, cases_named
from gpuprof.diagnose.thresholds import EMPTY_LANES, context
from gpuprof.model.findings import Cases
from gpuprof.model.session import Finding
from gpuprof.review.facts.code_facts import CodeFacts
from gpuprof.review.rules.rule import CodeRule, code_finding
from gpuprof.units import WARP_THREADS

_ID = "block-size"


def _block_size(facts: CodeFacts) -> Iterator[Finding]:
    threads = facts.threads_per_block
    most = facts.resources.max_threads
    if not threads:
        return
    evidence = context("threads", threads, "thread")
    if most is not None and threads > most:
        yield code_finding(
            facts,
            _ID,
            (),
            cases_named("above-bounds"),
            amounts=amounts_of("thread", threads=threads, most=most),
            evidence=evidence + context("most-threads", most, "thread"),
        )
    lanes = threads / math.ceil(threads / WARP_THREADS)
    empty = 1.0 - lanes / WARP_THREADS
    if EMPTY_LANES.is_reached(empty):
        change = "full-warps" if threads < WARP_THREADS else "multiple-of-32"
        yield code_finding(
            facts,
            _ID,
            (),
            Cases(headline=("main", "lanes"), why=("lanes",), action=(change,), advice=(change,)),
            amounts=amounts_of("thread", threads=threads) + amounts_of("lane", lanes=lanes),
            evidence=(*evidence, EMPTY_LANES.evidence(100 * empty)),
        )


RULE = CodeRule(id=_ID, check=_block_size, thresholds=(EMPTY_LANES,))
