"""The kernel is a part of attention that writes its scores to memory."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from gpuprof.diagnose.bounds import Saving, saving
from gpuprof.diagnose.facts.attention import WIDEST_HEAD, AttentionPart
from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.facts.unit_names import WORK
from gpuprof.diagnose.rule import AT_KERNEL, Findings, Rule, amounts_of, finding, labels_of
from gpuprof.diagnose.thresholds import Threshold, context
from gpuprof.model.findings import CaseName, Cases
from gpuprof.model.session import OperatorFlop
from gpuprof.model.torch_ranges import innermost_operator, operator_and_shapes

HEAD = Threshold("widest-head", WIDEST_HEAD, "element")
_BITS = re.compile(r"\d{1,2}$")
"""Of an element, in the name of its path."""
_MOST = 0.5
"""Of the bytes: if the scores are less, the others can take all of the time."""


def _unfused(facts: KernelFacts) -> Findings:
    part = facts.patterns.attention
    if part is None:
        return
    scores = (" × ".join(map(str, part.scores)),) if part.scores is not None else ()
    is_guess = not scores and not part.in_sdpa
    why: list[CaseName] = [part.role] if scores else []
    if part.in_sdpa:
        why.append("in-sdpa")
    if is_guess:
        why.append("likely")
    if not scores:
        why.append("unknown-scores")
    advice = "backend" if part.in_sdpa else "fused"
    if part.head is not None and part.head > WIDEST_HEAD:
        advice = "wide"
    yield finding(
        facts,
        Cases(
            headline=("main" if scores else "unknown-scores",),
            why=tuple(why),
            action=("backend" if part.in_sdpa else advice,),
            advice=(advice,),
        ),
        amounts=amounts_of(work=facts.need(WORK)),
        labels=labels_of(scores=scores),
        confidence="guess" if is_guess else "inferred",
        saving=_saving(facts, part),
        severity="low" if part.role == "product" and WORK not in facts.needs else None,
        evidence=context("share", 100 * part.share, "%"),
    )


def _saving(facts: KernelFacts, part: AttentionPart) -> Saving | None:
    """Bound the saving: a fused kernel still does the products on their other matrices, but without passes over scores.

    It is not known of a product if its arithmetic is not, or the time of most of its bytes.
    """
    if part.role != "product":
        return Saving(part.share)
    asked = facts.kernel.operator_flop
    if WORK not in facts.needs or asked is None or part.scores is None:
        return None
    needs, stays = dict(facts.least_times), _share_of_other_bytes(asked, facts.kernel.ranges, math.prod(part.scores))
    if asked.dram_fraction is not None:
        needs["dram"] = min(1.0, asked.dram_fraction / facts.dram_reached)
    elif stays > _MOST:
        return None
    return saving(needs, {"dram": stays, "l2": stays}).no_more_than(part.share)


def _share_of_other_bytes(asked: OperatorFlop, ranges: Sequence[str], scores: int) -> float:
    """Return the share that others than the scores have in the bytes of a product's operands and its result."""
    bits = _BITS.search(asked.path)
    if asked.operand_bytes is not None and bits is not None:
        return 1.0 - int(bits[0]) / 8 * scores / asked.operand_bytes
    _, shapes = operator_and_shapes(innermost_operator(ranges))
    if len(shapes) != 2:
        return 1.0
    left, right = shapes
    return 1.0 - scores / (math.prod(left) + math.prod(right) + math.prod(left[:-1]) * right[-1])


RULE = Rule(
    "unfused-attention",
    thresholds=(HEAD,),
    check=_unfused,
    by_times=True,
    of_launches=True,
    place=AT_KERNEL,
)
