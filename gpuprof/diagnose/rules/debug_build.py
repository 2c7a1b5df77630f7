"""The code was compiled without optimization.

Without optimisation, ptxas emits moves of a register onto itself, which it never does with it. With
`-G`, accesses also name no memory space (LD, ST); those of optimised code do (LDG, STS).
"""

from __future__ import annotations

import re
from functools import lru_cache

from gpuprof.annotated.counts import EXECUTED
from gpuprof.code.binary.encodings import moves_of
from gpuprof.diagnose.bounds import speedup_bound
from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.rule import AT_KERNEL, Findings, Rule, amounts_of, finding
from gpuprof.diagnose.thresholds import context, percent
from gpuprof.hardware.specs import WARP_OPCODES
from gpuprof.model.field_types import Confidence
from gpuprof.model.findings import Cases
from gpuprof.model.session import Evidence, Finding

SELF_MOVES = percent("self-moves", 5.0)

MOVES = percent("moves", 30.0)

_SELF_MOVE = re.compile(r"(?:@!?U?P\w+\s+)?MOV(?:\.64)?\s+(U?R\d+)(?:\.64)?\s*,\s*\1(?:\.64)?\s*;?\s*")

_GENERIC, _OF_A_SPACE = ("LD", "ST"), ("LDG", "STG", "LDS", "STS", "LDL", "STL")

_NOT_OF_BUILD = {"dram", "fp64", "tensor", "xu", "launch"}
"""Units that optimised code keeps as busy, because the bytes and the results are the same."""


def _debug(facts: KernelFacts) -> Findings:
    """Report moves onto the same register, as executed or in the code, or else many moves by opcode."""
    counted = sum(instruction.counts.get(EXECUTED, 0.0) for instruction in facts.code if instruction.sass)
    in_code = _moves_of(facts.machine_code)
    if counted:
        moves = sum(facts.code[place].counts.get(EXECUTED, 0.0) for place in _self_moves_in(facts.sass))
        yield from _by_self_moves(facts, moves / counted, "self-moves-executed", EXECUTED)
    elif in_code.instructions:
        yield from _by_self_moves(facts, in_code.onto_itself / in_code.instructions, "self-moves-in-code", "")
    elif not facts.has_sass:
        yield from _by_many_moves(facts)


def _by_self_moves(facts: KernelFacts, share: float, headline: str, metric: str) -> Findings:
    if SELF_MOVES.is_reached(share):
        yield _unoptimised(facts, share, (headline,), "measured", SELF_MOVES.evidence(100 * share, metric=metric))


_moves_of = lru_cache(maxsize=64)(moves_of)


@lru_cache(maxsize=256)
def _self_moves_in(code: tuple[str, ...]) -> tuple[int, ...]:
    """Return the indices of the moves of a register onto itself."""
    return tuple(place for place, sass in enumerate(code) if _SELF_MOVE.fullmatch(sass))


def _by_many_moves(facts: KernelFacts) -> Findings:
    """Yield a finding by the share of moves: a guess unless most accesses name no memory space."""
    opcodes = facts.opcode_counts()
    share = opcodes.get("MOV", 0.0) / (sum(opcodes.values()) or 1.0)
    if not MOVES.is_reached(share):
        return
    evidence = MOVES.evidence(100 * share, metric=WARP_OPCODES)
    generic = sum(opcodes.get(name, 0.0) for name in _GENERIC)
    known = sum(opcodes.get(name, 0.0) for name in _OF_A_SPACE)
    if generic > known:
        accesses = context("generic-accesses", 100 * generic / (generic + known), "%", metric=WARP_OPCODES)
        yield _unoptimised(facts, share, ("moves", "generic-accesses"), "inferred", evidence, *accesses)
    else:
        yield _unoptimised(facts, share, ("moves",), "guess", evidence)


def _unoptimised(
    facts: KernelFacts, share: float, headline: tuple[str, ...], confidence: Confidence, *evidence: Evidence
) -> Finding:
    saving = None
    if facts.busiest_need is not None:
        # Results and bytes stay the same; optimised code can also do without some of these.
        relieved = dict.fromkeys(facts.needs.keys() - _NOT_OF_BUILD, 0.0)
        saving = speedup_bound(facts, relieved).no_more_than(1.0 - facts.arithmetic_fraction)
        saving = saving.only_if("same-floating-point-work-and-bytes")
    return finding(
        facts,
        Cases(headline=headline),
        amounts=amounts_of(share=share),
        confidence=confidence,
        # All other findings are about code that the program should not have, however much it gains.
        severity=None if confidence == "guess" else "high",
        saving=saving,
        evidence=evidence,
    )


RULE = Rule(
    "debug-build",
    thresholds=(SELF_MOVES, MOVES),
    check=_debug,
    metrics=(WARP_OPCODES,),
    place=AT_KERNEL,
    invalidates="code",
)
