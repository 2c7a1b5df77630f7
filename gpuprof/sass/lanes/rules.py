"""What each opcode does to the registers of the 32 lanes of a warp. What has no rule leaves nothing known behind."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator
from itertools import dropwhile
from typing import NamedTuple

from gpuprof.sass.instruction import Instruction
from gpuprof.sass.lanes.arithmetic import halves
from gpuprof.sass.lanes.comparisons import COMPARISON_RULES
from gpuprof.sass.lanes.integers import INTEGER_RULES, IS_FLAG, NAME, LaneRule, Results, next_register, two
from gpuprof.sass.lanes.operands import Reader
from gpuprof.sass.lanes.values import (
    LANES,
    UNIFORM,
    WORD_BITS,
    ZERO,
    choose,
    constant,
    uniform_of,
    value,
)
from gpuprof.sass.lanes.warps import thread_indices
from gpuprof.sass.operands import named, sources, written
from gpuprof.sass.requests import LaneRequest, requests
from gpuprof.sass.writes import LANE_BY_LANE, first_register, may_write

_INDICES = ("TID.X", "TID.Y", "TID.Z")
_SAME_FOR_A_WARP = {"CgaCtaId", "VIRTUALSMID", "NTID.X", "NTID.Y", "NTID.Z", "NCTAID.X", "NCTAID.Y", "NCTAID.Z"}
_REGISTER = re.compile(r"[-~|]*(R\d+)(?:\.\w+)*\|?")
_SMALL = {"U8": (1, False), "S8": (1, True), "U16": (2, False), "S16": (2, True)}


def results(instruction: Instruction, reader: Reader) -> Results:
    """Return what an instruction writes, in the lanes in which it runs."""
    writes = _by_rule(instruction, reader)
    if writes is None:
        writes = [(name, None) for name in may_write(instruction)]
        if instruction.name in LANE_BY_LANE:
            held = uniform_of(map(reader.register, registers_read(instruction)))
            writes += [(name, held) for name in written(instruction)]
        elif _loads_from_one_place(instruction, reader):
            writes = [(name, UNIFORM) for name, _ in writes if "P" not in name]
    return writes


class NeededRegisters(NamedTuple):
    """Of which registers something must be known for anything to be known of a result: of each, and of one at least."""

    all_of: frozenset[str] = frozenset()
    some_of: frozenset[str] = frozenset()


def needed_for_result(instruction: Instruction) -> NeededRegisters | None:
    """Return of which registers something must be known for anything to be of a result; None: it is never known.

    Of uniform registers something always is.
    """
    name = instruction.name
    rule_name = name if name in _RULES else name.removeprefix("U")
    if rule_name in _KNOWN_ANYWAY:
        return NeededRegisters()
    read = sources(instruction)
    if rule_name in _CHOSEN:
        begin, end = _CHOSEN[rule_name]
        either = [_REGISTER.fullmatch(operand) for operand in read[begin:end]]
        return NeededRegisters(some_of=frozenset(match[1] for match in either if match) if all(either) else frozenset())
    if rule_name in _RULES:
        operands = read[:-1] if rule_name in _CHOOSES else read
        if rule_name != "PLOP3":  # a sum may carry over to two predicates
            operands = tuple(dropwhile(IS_FLAG.fullmatch, operands))
        names: Iterable[str] = (name for operand in operands for name in named(operand))
    elif name in LANE_BY_LANE:
        names = registers_read(instruction)
    elif (request := _load_of_a_register(instruction)) is not None:
        names = named(request.operand)
    else:
        return None
    return NeededRegisters(all_of=frozenset(name for name in names if name[0] != "U"))


def depends_on_walk(instruction: Instruction) -> bool:
    """Tell whether results depend on more than what registers hold: on the launch, the warp, or which lanes run."""
    name = instruction.name
    if _CHOOSES.intersection((name, name.removeprefix("U"))) or _RULES.get(name) is _special:
        return True
    return any("c[" in operand for operand in instruction.operands)


def _by_rule(instruction: Instruction, reader: Reader) -> Results | None:
    """Return what a rule says; None also where it does not say what comes first, the result."""
    rule = _RULES.get(instruction.name) or _RULES.get(instruction.name.removeprefix("U"))
    try:
        writes = rule(instruction, reader) if rule else None
    except (ValueError, IndexError):  # more or fewer operands than the rule knows
        return None
    return writes if {name for name, _ in writes or ()}.issuperset(first_register(instruction)) else None


def registers_read(instruction: Instruction) -> Iterator[str]:
    """Yield the registers and predicates that are read, of numbers of two words both."""
    double = "64" in instruction.opcode or instruction.name.startswith("D")
    for operand in sources(instruction):
        for kind, number in NAME.findall(operand):
            yield f"{kind}{number}"
            if double and kind.endswith("R"):
                yield f"{kind}{int(number) + 1}"


def _loads_from_one_place(instruction: Instruction, reader: Reader) -> bool:
    """Tell whether all lanes load the same: from one address, of a space in which it is the same place for all."""
    request = _load_of_a_register(instruction)
    where = reader.address(request.operand, wide=request.wide) if request is not None else None
    return where is not None and where.lanes.count(where.lanes[0]) == LANES


def _load_of_a_register(instruction: Instruction) -> LaneRequest | None:
    """Return what a load asks for whose lanes all get the same from the same address."""
    request, *more = requests(instruction) or (None,)
    if request is None or more or instruction.name == "LDSM":
        return None
    return request if request.kind == "load" and request.space in {"global", "shared"} else None


# Copies and constants


def _move(instruction: Instruction, reader: Reader) -> Results | None:
    target, source, *rest = instruction.operands
    if rest:
        return None
    if instruction.is_a("MOV.64") or instruction.is_a("UMOV.64"):
        return two(target, reader.wide(source))
    return [(target, reader.word(source))]


def _select(instruction: Instruction, reader: Reader) -> Results | None:
    target, yes, no, flag = instruction.operands
    active, chosen = reader.state.active, reader.flag(flag)
    if not instruction.opcode.endswith(".64"):
        return [(target, choose(chosen, reader.word(yes), reader.word(no), active))]
    pairs = zip(halves(reader.wide(yes)), halves(reader.wide(no)), strict=True)
    low, high = (choose(chosen, word_if, word_else, active) for word_if, word_else in pairs)
    return [(target, low), (next_register(target), high)]


def _half_floats(instruction: Instruction, _: Reader) -> Results | None:
    packed = packed_halves(instruction)
    return [(instruction.operands[0], constant(packed))] if packed is not None else None


def packed_halves(instruction: Instruction) -> int | None:
    """Return what `HFMA2 R5, -RZ, RZ, 0, 2.4e-07` sets R5 to: two half-precision numbers, the upper one first."""
    factors = list(instruction.operands[1:])
    if instruction.opcode not in {"HFMA2", "HFMA2.MMA"} or len(factors) != 4 or factors[:2] != ["-RZ", "RZ"]:
        return None
    try:
        low, high = struct.pack("<e", float(factors[3])), struct.pack("<e", float(factors[2]))
    except (ValueError, OverflowError):
        return None
    return int.from_bytes(low + high, "little")


def _load_constant(instruction: Instruction, reader: Reader) -> Results | None:
    target, source = instruction.operands
    kinds = set(instruction.opcode.split(".")[1:])
    small = kinds & _SMALL.keys()
    if kinds - small - {"64", "128"} or len(kinds) > 1:
        return None
    if small:
        size, sign = _SMALL[small.pop()]
        return [(target, reader.bank(source, size=size, sign=sign))]
    count = int(max(kinds, default="32")) // WORD_BITS
    return [(next_register(target, word), reader.bank(source, skip=4 * word)) for word in range(count)]


def _special(instruction: Instruction, reader: Reader) -> Results | None:
    """Read a special register. The block is not known, or it is block 0; its threads are."""
    target, source = instruction.operands
    name = source.removeprefix("SR_")
    if name in _INDICES:
        return [(target, thread_indices(reader.block)[_INDICES.index(name)])]
    if name == "LANEID":
        return [(target, value(range(LANES)))]
    if name.startswith("CTAID"):
        return [(target, ZERO if reader.block.first else UNIFORM)]
    if source == "SRZ":
        return [(target, ZERO)] + ([] if ".32" in instruction.opcode else [(next_register(target), ZERO)])
    return [(target, UNIFORM)] if name in _SAME_FOR_A_WARP else None


def _to_uniform(instruction: Instruction, reader: Reader) -> Results | None:
    target, source, *rest = instruction.operands
    held = reader.word(source)
    return None if rest else [(target, held if held is not None and held.uniform else UNIFORM)]


def _vote(instruction: Instruction, _: Reader) -> Results | None:
    """Every lane that votes hears the same."""
    return [(name, UNIFORM) for name in written(instruction)]


def _shuffle(instruction: Instruction, reader: Reader) -> Results | None:
    """Give a word that is the same in all lanes, or that all lanes take from one lane of the whole warp."""
    flag, target, source, lane, clamp = instruction.operands
    if instruction.is_a("SHFL.IDX") and clamp == "0x1f":
        held = uniform_of([reader.word(lane)]) or uniform_of([reader.word(source)])
    else:
        held = uniform_of([reader.word(source)])
    return [(flag, None), (target, held)]


_RULES: dict[str, LaneRule] = {
    **INTEGER_RULES,
    **COMPARISON_RULES,
    "CS2R": _special,
    "HFMA2": _half_floats,
    "LDC": _load_constant,
    "LDCU": _load_constant,
    "MOV": _move,
    "R2UR": _to_uniform,
    "S2R": _special,
    "S2UR": _special,
    "SEL": _select,
    "SHFL": _shuffle,
    "VOTE": _vote,
}
_KNOWN_ANYWAY = {"CS2R", "R2UR", "S2R", "S2UR", "VOTE"}
"""Rules by which something is known of a result whatever is read."""
_CHOSEN = {"SEL": (0, 2), "SHFL": (0, 2)}
"""Rules that may give one of some sources while nothing is known of the others, and which these are."""
_CHOOSES = {"IMNMX", "SEL", "VIADDMNMX", "VIMNMX"}
"""Rules that choose by their last source, a predicate."""
