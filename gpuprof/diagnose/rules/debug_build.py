"""The code was compiled without optimization.

Without optimisation, ptxas emits moves of a register onto itself, which it never does with it. With
`-G`, accesses also name no memory space (LD, ST); those of optimised code do (LDG, STS).
"""

from __future__ import annotations

import re
from functools import lru_cache

from gpuprof.code.binary.encodings import moves_of
from gpuprof.diagnose.bounds import speedup_bound
from gpuprof.diagnose.facts.code import EXECUTED
from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.rule import AT_KERNEL, Findings, Rule, amounts_of, finding
from gpuprof.diagnose.thresholds import percent
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
    found = _self_moves(facts) or _many_moves(facts)
    if found is not None:
        yield found


def _self_moves(facts: KernelFacts) -> Finding | None:
    """Return a finding by the share of moves onto themselves, as executed or in the code."""
    counted = sum(instruction.counts.get(EXECUTED, 0.0) for instruction in facts.code if instruction.sass)
    if counted:
        headline = "self-moves-executed"
        metric = EXECUTED
        moves = sum(facts.code[place].counts.get(EXECUTED, 0.0) for place in _self_moves_in(facts.sass))
        share = moves / counted
    else:
        headline = "self-moves-in-code"
        metric = ""
        in_code = _moves_of(facts.machine_code)
        if not in_code.instructions:
            return None
        share = in_code.onto_itself / in_code.instructions
    if not SELF_MOVES.is_reached(share):
        return None
    evidence = SELF_MOVES.evidence(100 * share, metric=metric)
    return _unoptimised(facts, share, (headline,), "measured", evidence)


_moves_of = lru_cache(maxsize=64)(moves_of)


@lru_cache(maxsize=256)
def _self_moves_in(code: tuple[str, ...]) -> tuple[int, ...]:
    """Return the indices of the moves of a register onto itself."""
    return tuple(place for place, sass in enumerate(code) if _SELF_MOVE.fullmatch(sass))


def _many_moves(facts: KernelFacts) -> Finding | None:
    """Return a finding by the share of moves: a guess unless most accesses name no memory space."""
    if facts.has_sass or facts.machine_code:
        return None
    opcodes = facts.opcode_counts()
    total = sum(opcodes.values())
    share = opcodes.get("MOV", 0.0) / total if total else 0.0
    if not MOVES.is_reached(share):
        return None
    evidence = MOVES.evidence(100 * share, metric=WARP_OPCODES)
    generic = sum(opcodes.get(name, 0.0) for name in _GENERIC)
    known = sum(opcodes.get(name, 0.0) for name in _OF_A_SPACE)
    if generic <= known:
        return _unoptimised(facts, share, ("moves",), "guess", evidence)
    unspecific = 100 * generic / (generic + known)
    accesses = Evidence(WARP_OPCODES, unspecific, "%", 50.0, role="generic-accesses")
    return _unoptimised(facts, share, ("moves", "generic-accesses"), "inferred", evidence, accesses)


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
