"""What tells that a kernel multiplies matrices without its name: outer products of loaded values in its hot code.

In a step of a matrix product every value of one operand meets every value of the other, each pair in a sum of its own.
A filter, a stencil or the chain of a polynomial adds several pairs to one sum; a product of a matrix and a vector uses
each element of the matrix once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gpuprof.code.sass.instruction import Instruction, instruction_of
from gpuprof.code.sass.operands import named, sources, written
from gpuprof.diagnose.case import EXECUTED
from gpuprof.model.recorded import ProfiledInstruction

MULTIPLY_ADDS = {"FFMA": "fp32", "HFMA2": "fp16", "DFMA": "fp64", "IDP": "int8"}
"""What multiplies and adds by type of the inputs: `IDP.4A` four pairs of 8 bits, `HFMA2` two pairs of 16 bits."""
_OTHER_ARITHMETIC = ("FADD", "FMUL", "HADD2", "HMUL2", "DADD", "DMUL", "MUFU", "FFMA", "HFMA2", "DFMA", "IDP")
_HOT = 0.5
"""Instructions that run at least half as often as the most frequent multiply-add belong to its loop."""
_LEAST_SIDE = 2
_BACK = 4
"""How many moves and conversions there are at most between a load and the multiplication: widening two packed values
takes up to three."""

_REGISTER = re.compile(r"^[-|~!]*(R\d{1,4})(?:\.reuse)?((?:\.\w+)*)\|?$")
_LOADS = re.compile(r"^(?:LD|LDG|LDS|LDSM|SHFL)\b")
_MOVES = re.compile(
    r"^(?:MOV|PRMT|SHL|SHF|LOP3|IMAD\.(?:MOV|U32|SHL)|HADD2\.F32|HADD2\.BF16|F2F|F2FP|I2F|I2FP|SGXT|UNPACK|HMUL2\.BF16)"
)


class Value(NamedTuple):
    """What a register holds between two writes: the write by its place in the hot code, None for before it.

    `half` tells the halves of a packed register apart.
    """

    register: str
    written_at: int | None
    half: str = ""


class OuterProducts(NamedTuple):
    """Which share of the arithmetic of the hot code is part of outer products, and of which type most of those are."""

    path: str
    share: float


@dataclass(frozen=True, slots=True)
class _Parsed:
    opcode: str
    destinations: tuple[str, ...]
    sources: tuple[str, ...]
    count: float


def outer_products(code: Sequence[ProfiledInstruction]) -> OuterProducts | None:
    """Return what the hot code multiplies and how much of it as outer products; None where the code is not known."""
    return _of_hot(list(_profiled(code)))


def outer_products_of_loop(loop: Iterable[Instruction]) -> OuterProducts | None:
    """Return the same of the instructions of an innermost loop, all of which run equally often."""
    return _of_hot([_parsed(instruction, 1.0) for instruction in loop if not instruction.idle])


def _of_hot(parsed: Sequence[_Parsed]) -> OuterProducts | None:
    most = max((item.count for item in parsed if _path(item) is not None), default=0.0)
    if most <= 0:
        return None
    hot = [item for item in parsed if item.count >= _HOT * most]
    arithmetic = sum(item.count for item in hot if item.opcode.startswith(_OTHER_ARITHMETIC))
    sums = _sums(hot)
    by_path: dict[str, float] = {}
    for at in _in_outer_products(sums):
        path = _path(hot[at]) or ""
        by_path[path] = by_path.get(path, 0.0) + hot[at].count
    main = max(by_path, key=lambda name: by_path[name], default="")
    return OuterProducts(main, by_path.get(main, 0.0) / arithmetic)


def _path(item: _Parsed) -> str | None:
    return MULTIPLY_ADDS.get(item.opcode.partition(".")[0]) if len(item.sources) >= 3 else None


def _profiled(code: Iterable[ProfiledInstruction]) -> Iterator[_Parsed]:
    for profiled in code:
        instruction = instruction_of(profiled.sass)
        if instruction is not None:
            yield _parsed(instruction, profiled.counts.get(EXECUTED, 0.0))


def _parsed(instruction: Instruction, count: float) -> _Parsed:
    return _Parsed(
        opcode=instruction.opcode,
        destinations=tuple(name for name in written(instruction) if name.startswith("R")),
        sources=sources(instruction),
        count=count,
    )


@dataclass(frozen=True, slots=True)
class _Sum:
    """A multiply-add: its factors, and the first multiply-add or the register of the sum that it adds to."""

    factors: tuple[Value, Value]
    root: str


def _sums(hot: Sequence[_Parsed]) -> dict[int, _Sum]:
    """Return the multiply-adds whose factors are loaded in the hot code, by their place in it.

    What is read before it is written was written at the end of the loop's last round.
    """
    last = {register: at for at, item in enumerate(hot) for register in item.destinations}
    writes: list[dict[str, int | None]] = []
    now: dict[str, int | None] = dict(last)
    earlier: set[str] = set()
    roots: dict[int, str] = {}
    sums: dict[int, _Sum] = {}
    for at, item in enumerate(hot):
        writes.append(now.copy() if _MOVES.match(item.opcode) else {})
        if _path(item) is not None:
            *factors, addend = item.sources[:3]
            values = [_value(operand, now) for operand in factors]
            to = _REGISTER.match(addend)
            before = now.get(to[1]) if to is not None else None
            if to is not None:
                known = before in roots and to[1] in earlier
                roots[at] = roots[before] if known and before is not None else to[1]
            sums_up = before is not None and _path(hot[before]) is not None
            if to is not None and values[0] is not None and values[1] is not None and sums_up:
                sums[at] = _Sum((values[0], values[1]), roots[at])
        for register in item.destinations:
            now[register] = at
            earlier.add(register)
    return {at: sum_ for at, sum_ in sums.items() if all(_is_loaded(v, hot, writes) for v in sum_.factors)}


def _value(operand: str, now: dict[str, int | None]) -> Value | None:
    match = _REGISTER.match(operand)
    return Value(match[1], now.get(match[1]), match[2]) if match is not None else None


def _is_loaded(value: Value, hot: Sequence[_Parsed], writes: Sequence[dict[str, int | None]]) -> bool:
    """Tell whether a value comes from a load of the hot code, with moves and conversions between."""
    places = {value.written_at}
    for _ in range(_BACK):
        before: set[int | None] = set()
        for at in places:
            if at is None:
                continue
            if _LOADS.match(hot[at].opcode):
                return True
            if _MOVES.match(hot[at].opcode):
                names = (name for operand in hot[at].sources for name in named(operand))
                before.update(writes[at].get(name) for name in names)
        places = before
    return any(at is not None and _LOADS.match(hot[at].opcode) for at in places)


def _in_outer_products(sums: dict[int, _Sum]) -> Iterator[int]:
    """Yield the places of those multiply-adds in which two sets of values meet completely, each pair in its own sum."""
    for group in _connected(sums):
        first = sums[group[0]].factors[0]
        sides = _two_sides(first, [sums[at].factors for at in group])
        if sides is None or min(map(len, sides)) < _LEAST_SIDE:
            continue
        pairs = {frozenset(sums[at].factors) for at in group}
        sums_of = {sums[at].root for at in group}
        if len(pairs) == len(group) == len(sides[0]) * len(sides[1]) == len(sums_of):
            yield from group


def _connected(sums: dict[int, _Sum]) -> list[list[int]]:
    """Return the multiply-adds in groups that share factors."""
    group_of: dict[Value, int] = {}
    groups: dict[int, list[int]] = {}
    for at, item in sums.items():
        joined = sorted({group_of[value] for value in item.factors if value in group_of})
        key = joined[0] if joined else at
        members = groups.setdefault(key, [])
        for other in joined[1:]:
            members.extend(groups.pop(other))
        members.append(at)
        for member in members if len(joined) > 1 else (at,):
            for value in sums[member].factors:
                group_of[value] = key
    return list(groups.values())


def _two_sides(start: Value, pairs: Sequence[tuple[Value, Value]]) -> tuple[set[Value], set[Value]] | None:
    """Split connected pairs so that each has one value on either side; None where that cannot be."""
    neighbours: dict[Value, set[Value]] = {}
    for left, right in pairs:
        if left == right:
            return None
        neighbours.setdefault(left, set()).add(right)
        neighbours.setdefault(right, set()).add(left)
    side = {start: 0}
    queue = [start]
    while queue:
        value = queue.pop()
        for other in neighbours[value]:
            if other not in side:
                side[other] = 1 - side[value]
                queue.append(other)
            elif side[other] == side[value]:
                return None
    return {v for v, s in side.items() if s == 0}, {v for v, s in side.items() if s == 1}
