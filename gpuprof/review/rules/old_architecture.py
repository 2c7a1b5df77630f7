"""The rule on matrix instructions of an older architecture."""

from __future__ import annotations

from collections.abc import Iterator

from gpuprof.diagnose.rule import labels_of
from gpuprof.diagnose.rules.old_architecture import OLD_INSTRUCTION, newer_instructions
from gpuprof.diagnose.thresholds import context
from gpuprof.model.findings import Cases
from gpuprof.model.session import Finding
from gpuprof.review.facts.code_facts import CodeFacts
from gpuprof.review.rules.rule import CodeRule, code_finding

_LONGEST_TARGET = 20


def _older(facts: CodeFacts) -> Iterator[Finding]:
    """Yield a finding for mma.sync in loops if the architecture has a faster matrix instruction."""
    arch = facts.arch
    keys = {opcode.key for _, opcode in facts.matrix}
    if arch is None or any(key.instruction != OLD_INSTRUCTION for key in keys):
        return
    newer = min((name for _, name in newer_instructions(arch.compute, keys)), default=None)
    in_loops = [item for item, _ in facts.matrix if facts.depth(item.address)]
    if newer is None or not in_loops:
        return
    target = facts.kernel.target
    advice = ["library", newer]
    if not target.endswith(("a", "f")):
        advice.insert(1, "target")
    yield code_finding(
        facts,
        "old-architecture",
        in_loops,
        Cases(headline=("in-loops",), why=("in-code",), advice=tuple(advice)),
        labels=labels_of(newer=(newer,), target=(target[:_LONGEST_TARGET],)),
        evidence=context("in-loops", len(in_loops), ""),
    )


RULE = CodeRule(id="old-architecture", check=_older)
