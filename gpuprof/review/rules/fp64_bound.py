"""The rule on FP64 arithmetic between FP32 values, and on FP64 divisions and functions."""

from __future__ import annotations

from collections.abc import Iterator

from gpuprof.diagnose.rule import amounts_of, cases_named, cases_of
from gpuprof.diagnose.thresholds import context
from gpuprof.model.findings import Cases
from gpuprof.model.session import Finding
from gpuprof.review.facts.code_facts import CodeFacts
from gpuprof.review.facts.costly_operations import IN_KERNEL, IN_LOOP, costly_operations
from gpuprof.review.facts.fp64_chains import FP64_OPCODES, chains_between_fp32
from gpuprof.review.rules.rule import CodeRule, code_finding

_DIVISIONS = ("division-fp64", "reciprocal-fp64", "root-fp64")
_FUNCTIONS = ("trigonometry-fp64", "power-fp64")


def _fp64(facts: CodeFacts) -> Iterator[Finding]:
    yield from _between_fp32(facts)
    divisions = costly_operations(facts, _DIVISIONS)
    if divisions is not None:
        cases = Cases(
            headline=("division-takes", divisions.location),
            why=("refined-seed", "shared/slow-path") if divisions.slow else ("refined-seed",),
            action=("divisions",),
            advice=("divisions", "reciprocal-root"),
        )
        yield divisions.finding("fp64-bound", cases)
    functions = costly_operations(facts, _FUNCTIONS)
    if functions is not None:
        cases = cases_of("functions", ("functions", functions.location), ("functions",))
        yield functions.finding("fp64-bound", cases)


def _between_fp32(facts: CodeFacts) -> Iterator[Finding]:
    """Yield a finding for FP32 values that are widened, combined with an FP64 constant, and narrowed again."""
    chains = [chain for chain in chains_between_fp32(facts) if chain.with_constant]
    if not chains:
        return
    instructions = [instruction for chain in chains for instruction in chain.instructions]
    arithmetic = sum(instruction.name in FP64_OPCODES for instruction in instructions)
    conversions = len(instructions) - arithmetic
    yield code_finding(
        facts,
        "fp64-bound",
        [instruction for chain in chains for instruction in chain.with_constant],
        cases_named("between-fp32"),
        amounts=amounts_of("instruction", arithmetic=arithmetic) + amounts_of("conversion", conversions=conversions),
        evidence=context("between-fp32", arithmetic, "") + context("conversions", conversions, ""),
    )


RULE = CodeRule(id="fp64-bound", thresholds=(IN_LOOP, IN_KERNEL), check=_fp64)
