"""The rule on FP32 divisions, square roots and functions that take many instructions."""

from __future__ import annotations

from collections.abc import Iterator

from gpuprof.model.findings import Cases
from gpuprof.model.session import Finding
from gpuprof.review.facts.code_facts import CodeFacts
from gpuprof.review.facts.costly_operations import IN_KERNEL, IN_LOOP, costly_operations
from gpuprof.review.rules.rule import CodeRule

_KINDS = {
    "division": ("division-fp32", "reciprocal-fp32"),
    "root": ("root-fp32",),
    "trigonometry": ("trigonometry-fp32",),
    "power": ("power-fp32",),
    "remainder": ("remainder-fp32",),
}
_WITH_SLOW_PATH = ("division", "root")


def _special(facts: CodeFacts) -> Iterator[Finding]:
    for case, kinds in _KINDS.items():
        costly = costly_operations(facts, kinds)
        if costly is None:
            continue
        has_slow_path = case in _WITH_SLOW_PATH and costly.slow
        is_outside = case == "division" and not costly.in_loops
        cases = Cases(
            headline=(case, costly.location),
            why=(case, "shared/slow-path") if has_slow_path else (case,),
            action=("division-outside-loops" if is_outside else case,),
            advice=(case,),
        )
        yield costly.finding("special-function-bound", cases)


RULE = CodeRule(id="special-function-bound", thresholds=(IN_LOOP, IN_KERNEL), check=_special)
