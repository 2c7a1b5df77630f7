"""The rule on code that was compiled without optimisation."""

from __future__ import annotations

from collections.abc import Iterator

from gpuprof.diagnose.rule import amounts_of
from gpuprof.diagnose.rules.debug_build import SELF_MOVES
from gpuprof.model.findings import Cases
from gpuprof.model.session import Finding
from gpuprof.review.facts.code_facts import CodeFacts
from gpuprof.review.rules.rule import CodeRule, code_finding
from gpuprof.sass.instruction import Instruction


def _debug(facts: CodeFacts) -> Iterator[Finding]:
    moves = [item for item in facts.named("MOV") if _is_self_move(item)]
    share = len(moves) / max(1, len(facts.code))
    if SELF_MOVES.is_reached(share):
        yield code_finding(
            facts,
            "debug-build",
            moves[:1],
            Cases(headline=(SELF_MOVES.name,)),
            amounts=amounts_of(share=share),
            evidence=(SELF_MOVES.evidence(100 * share),),
        )


def _is_self_move(instruction: Instruction) -> bool:
    operands = instruction.operands
    return len(operands) == 2 and operands[0] == operands[1].removesuffix(".reuse")


RULE = CodeRule(id="debug-build", thresholds=(SELF_MOVES,), check=_debug)
