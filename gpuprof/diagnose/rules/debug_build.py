"""The code was compiled without optimisation.

Without optimisation, ptxas emits moves of a register onto itself, which it never does with it. With
`-G`, accesses also name no memory space (LD, ST); those of optimised code do (LDG, STS).
"""

from __future__ import annotations

import re
from functools import lru_cache

from gpuprof.diagnose.bounds import speedup_bound
from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.rule import AT_KERNEL, Findings, Rule, amounts_of, finding
from gpuprof.diagnose.thresholds import percent
from gpuprof.hardware.specs import WARP_OPCODES
from gpuprof.model.field_types import Confidence
from gpuprof.model.findings import Cases
from gpuprof.sass.binary.encodings import Moves, moves_of

SELF_MOVES = percent("self-moves", 5.0)

MOVES = percent("moves", 30.0)

_SELF_MOVE = re.compile(r"(?:@!?U?P\w+\s+)?MOV(?:\.64)?\s+(U?R\d+)(?:\.64)?\s*,\s*\1(?:\.64)?\s*;?\s*")

_NOT_OF_BUILD = {"dram", "fp64", "tensor", "xu", "launch"}
"""Units that optimised code keeps as busy, because the bytes and the results are the same."""


def _debug(facts: KernelFacts) -> Findings:
    """Report moves onto the same register in the code, or else many moves by opcode."""
    moves = _self_moves_in(facts.code.sass) if facts.code.has_sass else _moves_of(facts.code.machine_code)
    confidence: Confidence = "measured"
    if moves.instructions:
        threshold, metric = SELF_MOVES, ""
        share = moves.onto_itself / moves.instructions
    else:
        threshold, metric = MOVES, WARP_OPCODES
        share = facts.share_of_opcodes("MOV")
        opcodes = facts.opcode_counts()
        generic = sum(opcodes.get(name, 0.0) for name in ("LD", "ST"))
        known = sum(opcodes.get(name, 0.0) for name in ("LDG", "STG", "LDS", "STS", "LDL", "STL"))
        confidence = "inferred" if generic > known else "guess"
    if not threshold.is_reached(share):
        return
    headline = [threshold.name]
    if confidence == "inferred":
        headline.append("generic-accesses")
    saving = None
    if facts.busiest_need is not None:
        # Results and bytes stay the same; optimised code can also do without some of these.
        relieved = dict.fromkeys(facts.needs.keys() - _NOT_OF_BUILD, 0.0)
        saving = speedup_bound(facts, relieved).no_more_than(1.0 - facts.arithmetic_fraction)
        saving = saving.only_if("same-floating-point-work-and-bytes")
    yield finding(
        facts,
        Cases(headline=tuple(headline)),
        amounts=amounts_of(share=share),
        confidence=confidence,
        # All other findings are about code that the program should not have, however much it gains.
        severity=None if confidence == "guess" else "high",
        saving=saving,
        evidence=(threshold.evidence(100 * share, metric=metric),),
    )


_moves_of = lru_cache(maxsize=64)(moves_of)


@lru_cache(maxsize=256)
def _self_moves_in(code: tuple[str, ...]) -> Moves:
    """Return the number of moves of a register onto itself, and of known instructions."""
    onto_itself = sum(_SELF_MOVE.fullmatch(sass) is not None for sass in code)
    return Moves(onto_itself, sum(map(bool, code)))


RULE = Rule(
    "debug-build",
    thresholds=(SELF_MOVES, MOVES),
    check=_debug,
    metrics=(WARP_OPCODES,),
    place=AT_KERNEL,
    invalidates="code",
)
