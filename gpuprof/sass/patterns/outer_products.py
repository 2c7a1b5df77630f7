"""Detection of matrix products without a kernel name: outer products of loaded values in the hot code.

In a step of a matrix product every value of one operand is multiplied by every value of the other, and each product is
added to a sum of its own.
A filter, a stencil or the chain of a polynomial adds several pairs to one sum; a product of a matrix and a vector uses
each element of the matrix once.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import NamedTuple

from gpuprof.sass.instruction import Instruction
from gpuprof.sass.operands import sources
from gpuprof.sass.straight_line import writers_of

MULTIPLY_ADDS = {"FFMA": "fp32", "HFMA2": "fp16", "DFMA": "fp64", "IDP": "int8"}
"""Multiply-add opcodes and the type of their inputs: `IDP.4A` takes four pairs of 8 bits, `HFMA2` two of 16 bits."""
_ARITHMETIC = ("FADD", "FMUL", "HADD2", "HMUL2", "DADD", "DMUL", "MUFU", *MULTIPLY_ADDS)
_HOT = 0.5
"""Instructions at least half as frequent as the most frequent multiply-add are in its loop."""
_LEAST_SIDE = 2
_BACK = 4
"""Maximum number of moves and conversions between a load and the multiplication: widening two packed values takes up
to three."""

_REGISTER = re.compile(r"[-|~!]*(R\d{1,4})(?:\.reuse)?((?:\.\w+)*)\|?")
_LOADS = {"LD", "LDG", "LDS", "LDSM", "SHFL"}
_MOVES = re.compile(
    r"MOV|PRMT|SHL|SHF|LOP3|IMAD\.(?:MOV|U32|SHL)|HADD2\.F32|HADD2\.BF16|F2F|F2FP|I2F|I2FP|SGXT|UNPACK|HMUL2\.BF16"
)


class _Value(NamedTuple):
    """The value written to a register by the instruction with the index `written_at`, or a half of a packed one."""

    register: str
    written_at: int
    half: str


class OuterProducts(NamedTuple):
    """The share of outer products in the arithmetic of the hot code, and their main type."""

    path: str
    share: float


class _Sum(NamedTuple):
    """A multiply-add: its factors, and the register that the chain of additions starts from."""

    factors: tuple[_Value, _Value]
    root: str


def outer_products(code: Iterable[tuple[Instruction | None, float]]) -> OuterProducts | None:
    """Return the type and share of outer products in the hot code, if that is known.

    `code` has each instruction with its execution count; None for text that cannot be parsed.
    """
    known = [(item, count) for item, count in code if item is not None]
    most = max((count for item, count in known if item.name in MULTIPLY_ADDS), default=0.0)
    if most <= 0:
        return None
    hot = [(item, count) for item, count in known if count >= _HOT * most]
    arithmetic = sum(count for item, count in hot if item.opcode.startswith(_ARITHMETIC))
    by_path: defaultdict[str, float] = defaultdict(float)
    for at in _complete(_sums([item for item, _ in hot])):
        item, count = hot[at]
        by_path[MULTIPLY_ADDS[item.name]] += count
    main = max(by_path, key=lambda name: by_path[name], default="")
    return OuterProducts(main, by_path[main] / arithmetic)


def _sums(hot: Sequence[Instruction]) -> dict[int, _Sum]:
    """Return the multiply-adds whose factors are loaded in the hot code, by their index in it.

    A value that is read before it is written comes from the previous iteration.
    """
    length = len(hot)
    rounds = list(writers_of([*hot, *hot]))
    loaded = _loaded(hot, [{index % length for index in writers.values()} for writers in rounds[length:]])
    roots: dict[int | None, str] = {}
    sums: dict[int, _Sum] = {}
    for at, instruction in enumerate(hot):
        operands = [_REGISTER.fullmatch(operand) for operand in sources(instruction)[:3]]
        if instruction.name not in MULTIPLY_ADDS or len(operands) < 3 or operands[2] is None:
            continue
        writers = rounds[length + at]
        addend: str = operands[2][1]
        before = writers.get(addend)
        roots[length + at] = roots.get(before, addend)
        factors = []
        for match in operands[:2]:
            if match is not None and match[1] in writers:
                factors.append(_Value(match[1], writers[match[1]] % length, match[2]))
        is_sum = before is not None and hot[before % length].name in MULTIPLY_ADDS
        if is_sum and len(factors) == 2 and all(value.written_at in loaded for value in factors):
            sums[at] = _Sum((factors[0], factors[1]), roots[length + at])
    return sums


def _loaded(hot: Sequence[Instruction], read_from: Sequence[Set[int]]) -> set[int]:
    """Return the indices of loads, and of moves and conversions of loaded values."""
    loaded = {at for at, instruction in enumerate(hot) if instruction.name in _LOADS}
    moves = [at for at, instruction in enumerate(hot) if _MOVES.match(instruction.opcode)]
    for _ in range(_BACK):
        loaded |= {at for at in moves if not read_from[at].isdisjoint(loaded)}
    return loaded


def _complete(sums: Mapping[int, _Sum]) -> Iterator[int]:
    """Yield the indices of multiply-adds that pair all values of two sets, each pair in its own sum."""
    neighbours: defaultdict[_Value, set[_Value]] = defaultdict(set)
    places: defaultdict[_Value, list[int]] = defaultdict(list)
    for at, item in sums.items():
        left, right = item.factors
        neighbours[left].add(right)
        neighbours[right].add(left)
        places[left].append(at)
    seen = set[_Value]()
    for start in neighbours:
        if start in seen:
            continue
        even, odd = _two_sides(start, neighbours)
        seen |= even | odd
        if min(len(even), len(odd)) < _LEAST_SIDE or not even.isdisjoint(odd):
            continue
        group = sorted(at for value in even | odd for at in places[value])
        pairs = {frozenset(sums[at].factors) for at in group}
        roots = {sums[at].root for at in group}
        if len(pairs) == len(group) == len(even) * len(odd) == len(roots):
            yield from group


def _two_sides(start: _Value, neighbours: Mapping[_Value, set[_Value]]) -> tuple[set[_Value], set[_Value]]:
    """Return the values an even, and those an odd number of pairs away; they overlap if the graph is not bipartite."""
    sides = set[_Value](), set[_Value]()
    queue = [(start, 0)]
    while queue:
        value, side = queue.pop()
        if value not in sides[side]:
            sides[side].add(value)
            queue.extend((other, 1 - side) for other in neighbours[value])
    return sides
