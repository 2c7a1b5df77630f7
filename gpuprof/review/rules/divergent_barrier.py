"""The rule on barriers that some threads of a block may not reach."""

from __future__ import annotations

from collections.abc import Iterator

from gpuprof.diagnose.rule import amounts_of, labels_of
from gpuprof.diagnose.thresholds import context
from gpuprof.model.findings import Cases
from gpuprof.model.session import Finding
from gpuprof.review.facts.barriers import conditional_barriers
from gpuprof.review.facts.code_facts import CodeFacts
from gpuprof.review.rules.rule import CodeRule, code_finding
from gpuprof.sass.instruction import JUMPS

_MOST_LINES = 5


def _divergent(facts: CodeFacts) -> Iterator[Finding]:
    conditions = conditional_barriers(facts)
    if not conditions:
        return
    is_branch = any(condition.name in JUMPS for condition in conditions.values())
    case = "branch" if is_branch else "predicate"
    lines = sorted({facts.lines[item.address][1] for item in conditions.values() if item.address in facts.lines})
    why = (case, "undefined", "lines") if lines else (case, "undefined")
    yield code_finding(
        facts,
        "divergent-barrier",
        [facts.at[offset] for offset in sorted(conditions)],
        Cases(headline=(case,), why=why),
        amounts=amounts_of("barrier", barriers=len(conditions)),
        labels=labels_of(lines=tuple(str(line) for line in lines[:_MOST_LINES])),
        evidence=context("barriers", len(conditions), ""),
        is_guess=True,
    )


RULE = CodeRule(id="divergent-barrier", check=_divergent)
