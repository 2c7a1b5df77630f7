"""The kernel is one of several point-wise kernels in a row over data of one size."""

from __future__ import annotations

from gpuprof.diagnose.bounds import Saving
from gpuprof.diagnose.facts.chains import SHORTEST_CHAIN
from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.rule import AT_KERNEL, Findings, Rule, amounts_of, cases_named, finding
from gpuprof.diagnose.thresholds import Threshold

CHAIN = Threshold("chain", SHORTEST_CHAIN, "kernel")


def _chain(facts: KernelFacts) -> Findings:
    part = facts.patterns.chain
    if part is None:
        return
    yield finding(
        facts,
        cases_named("optimizer" if part.in_optimizer else "fuse"),
        amounts=amounts_of("kernel", kernels=part.kernels),
        confidence="inferred" if part.by_shapes else "guess",
        saving=Saving(part.share, assumes=("each-result-read-once",)),
        evidence=(CHAIN.evidence(part.kernels),),
    )


RULE = Rule(
    "elementwise-chain",
    thresholds=(CHAIN,),
    check=_chain,
    by_times=True,
    of_launches=True,
    place=AT_KERNEL,
)
