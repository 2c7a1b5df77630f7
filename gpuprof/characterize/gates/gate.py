"""Judges whether the code that would be timed is the code that the probe means: rules against SASS."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from gpuprof.characterize.gates.chains import carried, early_waits, read_by, zero_factors
from gpuprof.characterize.probes.probe import Assignment, Count, GateRules
from gpuprof.sass.flow.graph import Loop, find_loops, flow_of
from gpuprof.sass.instruction import Instruction
from gpuprof.sass.operands import waits_for

GateStatus = Literal["pass", "fail", "emulated", "unsupported"]

NEVER_MEANT = ("LDL", "STL", "CALL", "BRX", "S2R", "S2UR", "CS2R", "CS2UR", "BAR", "F2FP", "F2F", "I2F", "F2I")
"""Forbidden in a loop unless the probe requires or allows them: spills, calls, clock reads, barriers, conversions."""

_SPILLS = ("LDL", "STL")
_CLOCK = "SR_CLOCKLO"


class Judgement(NamedTuple):
    """A gate's answer (None: the code was not looked at), why, and how often each opcode is in the loop."""

    gate: GateStatus | None
    why: str
    opcodes: Mapping[str, int]


def judge(rules: GateRules, assignment: Assignment, code: Sequence[Instruction], *, clocked: bool) -> Judgement:
    """Apply the rules to a kernel's code. `clocked`: the loop must lie between two reads of the clock."""
    place = _place(rules, code)
    if place is None:
        return Judgement("fail", "no loop: the work was folded away or unrolled completely", _counts(code))
    loop = place.instructions
    emulated = bool(rules.emulated_by) and not _matching(_names(rules.required), loop)
    meant = (rules.emulated_by if emulated else rules.required) or ()
    problems = [
        *_miscounted(meant, assignment, loop, rules.within),
        *_unwanted(rules, loop, flow_of(code).jumps),
        *_zeros(rules, code, place),
        *_broken_chains(rules, loop),
        *_early_waits(rules, loop),
        *_other_chains(rules, assignment, loop),
        *(_misplaced(rules, assignment, place, _around(code, place)) if rules.around else ()),
        *(() if emulated else _overhead(rules, assignment, loop)),
        *(_unclocked(code, place) if clocked and rules.within == "loop" else ()),
        *(["native, but emulation was expected"] if rules.emulated_by and not emulated else ()),
    ]
    opcodes = _counts(loop)
    if problems:
        return Judgement("fail", "; ".join(problems), opcodes)
    if emulated:
        why = f"no {_words(_names(rules.required))}: emulated by {_census(_names(meant), loop)}"
        return Judgement("emulated", why, opcodes)
    why = f"{_census(_names(meant), loop)} and {_others(rules, loop)} others in the {rules.within}"
    return Judgement("pass", why, opcodes)


def _around(code: Sequence[Instruction], place: Loop) -> tuple[Instruction, ...]:
    """Return what the smallest loop around a loop holds besides it; nothing where there is none."""
    inside = {item.address for item in place.instructions}
    loops = (loop.instructions for loop in find_loops(code))
    outer = next((instructions for instructions in loops if inside < {item.address for item in instructions}), ())
    return tuple(item for item in outer if item.address not in inside)


def _misplaced(rules: GateRules, assignment: Assignment, place: Loop, around: Sequence[Instruction]) -> Iterator[str]:
    """Say what is not in the loop around the loop as it should be: how often, there alone, and not waited for before.

    What is issued before the inner loop is meant to be under way while that runs, and spills cost there as well.
    """
    meant = rules.around or ()
    yield from _miscounted(meant, assignment, around, "loop around it")
    for opcode in _names(meant):
        if inside := _matching([opcode], place.instructions):
            yield f"{inside} {opcode.rstrip('$')} in the loop, not around it"
    for opcode, number in Counter(item.opcode for item in around if _is_any(item, _SPILLS)).items():
        yield f"{number} {opcode} in the loop around it, which is forbidden"
    before = [item for item in around if item.address < place.header]
    if waits := read_by(_names(meant), before):
        yield f"{waits} of {_words(_names(meant))} are waited for before the loop"


def _names(counted: Sequence[tuple[str, Count]] | None) -> tuple[str, ...]:
    return tuple(opcode for opcode, _ in counted or ())


def _place(rules: GateRules, code: Sequence[Instruction]) -> Loop | None:
    """Return what the rules are about: the loop with most of the required instructions, the innermost of equals.

    A loop around it has as many; a loop that the compiler unrolled once more has too many, and fails.
    """
    if rules.within == "function":
        return Loop(0, tuple(code))
    wanted = _names(rules.required) + _names(rules.emulated_by)
    return max(find_loops(code), key=lambda loop: _matching(wanted, loop.instructions), default=None)


def _matching(opcodes: Sequence[str], code: Sequence[Instruction]) -> int:
    return sum(_is_any(item, opcodes) for item in code)


def _counts(code: Sequence[Instruction]) -> dict[str, int]:
    counts = Counter(item.opcode for item in code if not item.idle)
    return dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))


def _words(opcodes: Sequence[str]) -> str:
    return " ".join(opcode.rstrip("$") for opcode in opcodes)


def _census(opcodes: Sequence[str], code: Sequence[Instruction]) -> str:
    return ", ".join(f"{_matching([opcode], code)} {opcode.rstrip('$')}" for opcode in opcodes)


def _miscounted(
    meant: Sequence[tuple[str, Count]], assignment: Assignment, code: Sequence[Instruction], within: str | None
) -> Iterator[str]:
    for opcode, count in meant:
        counted = _matching([opcode], code)
        low, high = count.low.value(assignment), count.high.value(assignment) if count.high else None
        if counted < low or (high is not None and counted > high):
            wanted = str(low) if low == high else f"at least {low}" if high is None else f"{low} to {high}"
            yield f"{counted} {opcode.rstrip('$')} in the {within}, not {wanted}"


def _unwanted(rules: GateRules, code: Sequence[Instruction], jumps: frozenset[int]) -> Iterator[str]:
    """Name what is forbidden and there. A probe forbids by itself; NEVER_MEANT gives way to required and allowed."""
    excused = (*_names(rules.required), *_names(rules.emulated_by), *(rules.allowed or ()))
    general = NEVER_MEANT if rules.within == "loop" else ()
    unwanted = [
        item.opcode
        for item in code
        if _is_any(item, rules.forbidden or ())
        or (_is_any(item, general) and not _is_any(item, excused) and not _harmless(item, jumps))
    ]
    for opcode, number in Counter(unwanted).items():
        yield f"{number} {opcode} in the {rules.within}, which is forbidden"


def _harmless(item: Instruction, jumps: frozenset[int]) -> bool:
    """Tell whether it only looks forbidden: `CS2R R4, SRZ` sets a register to zero, and some calls are jumps."""
    return item.address in jumps or item.operands[-1:] == ("SRZ",)


def _is_any(item: Instruction, opcodes: Sequence[str]) -> bool:
    """Tell whether an instruction is one of these; `IADD/IADD3` is either."""
    return not item.idle and any(item.is_a(name) for opcode in opcodes for name in opcode.split("/"))


def _zeros(rules: GateRules, code: Sequence[Instruction], place: Loop) -> Iterator[str]:
    before = [item for item in code if item.address < place.header]
    for opcode in rules.no_zero_operands or ():
        zeros = zero_factors(opcode, place.instructions, before)
        if zeros:
            yield f"{zeros} {opcode.rstrip('$')} multiply by zero"


def _broken_chains(rules: GateRules, code: Sequence[Instruction]) -> Iterator[str]:
    """Say where, of the instructions that must form one chain, one does not read what the one before it wrote."""
    links = [item for item in code if _is_any(item, rules.chained or ())]
    broken = sum(not waits_for(item, before) for item, before in zip(links, links[-1:] + links[:-1], strict=True))
    if broken:
        yield f"{broken} of {len(links)} {_words(rules.chained or ())} do not wait for the one before"


def _early_waits(rules: GateRules, code: Sequence[Instruction]) -> Iterator[str]:
    """Say how many results are waited for before all that must be in flight together are issued."""
    opcodes = rules.together or ()
    early = early_waits(opcodes, code)
    if early:
        yield f"{early} of {_matching(opcodes, code)} {_words(opcodes)} are waited for before the last one is issued"


def _other_chains(rules: GateRules, assignment: Assignment, code: Sequence[Instruction]) -> Iterator[str]:
    for opcode, count in rules.chains or ():
        chains, wanted = carried(opcode, code), count.value(assignment)
        if chains != wanted:
            yield f"{chains} {opcode.rstrip('$')} continue across iterations, not {wanted}: the number of chains"


def _overhead(rules: GateRules, assignment: Assignment, code: Sequence[Instruction]) -> Iterator[str]:
    if rules.max_overhead is None:
        return
    others = _others(rules, code)
    most = rules.max_overhead.value(assignment)
    if others > most:
        yield f"{others} other instructions in the {rules.within}, more than {most}"


def _others(rules: GateRules, code: Sequence[Instruction]) -> int:
    """Count what is not required, without the fillers with which the compiler waits for a result."""
    return sum(not item.idle for item in code) - _matching(_names(rules.required), code)


def _unclocked(code: Sequence[Instruction], loop: Loop) -> Iterator[str]:
    inside = {item.address for item in loop.instructions}
    reads = [item.address for item in code if _CLOCK in item.operands and item.address not in inside]
    if not any(address < loop.header for address in reads) or not any(address > loop.header for address in reads):
        yield "the loop does not lie between two reads of the clock"
