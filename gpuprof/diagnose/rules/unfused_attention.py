"""The kernel is a part of attention that writes its scores to memory."""

from __future__ import annotations

from gpuprof.diagnose.bounds import Saving, speedup_bound
from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.facts.unit_names import WORK
from gpuprof.diagnose.rule import AT_KERNEL, Findings, Rule, amounts_of, cases_of, finding, labels_of
from gpuprof.diagnose.thresholds import Threshold, context
from gpuprof.model.findings import CaseName
from gpuprof.model.patterns import AttentionPart
from gpuprof.timeline.attention import WIDEST_HEAD

HEAD = Threshold("widest-head", WIDEST_HEAD, "element")


def _unfused(facts: KernelFacts) -> Findings:
    part = facts.patterns.attention
    if part is None:
        return
    why: tuple[CaseName, ...] = (part.role,)
    if part.in_sdpa:
        why += ("in-sdpa",)
    yield finding(
        facts,
        cases_of("backend" if part.in_sdpa else "fused", why=why),
        amounts=amounts_of(work=facts.need(WORK)),
        labels=labels_of(scores=(" × ".join(map(str, part.scores)),)),
        confidence="inferred",
        saving=_saving(facts, part),
        severity="low" if part.role == "product" and WORK not in facts.needs else None,
        evidence=context("share", 100 * part.share, "%"),
    )


def _saving(facts: KernelFacts, part: AttentionPart) -> Saving | None:
    """Bound the saving: a fused kernel still does the products, and passes over the scores no more.

    It is not known of a product whose arithmetic is not known.
    """
    if part.role != "product":
        return Saving(part.share)
    if WORK not in facts.needs:
        return None
    return speedup_bound(facts, {"dram": 0.0, "l2": 0.0}).no_more_than(part.share)


RULE = Rule(
    "unfused-attention",
    thresholds=(HEAD,),
    check=_unfused,
    by_times=True,
    of_launches=True,
    place=AT_KERNEL,
)
