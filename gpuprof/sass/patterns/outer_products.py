"""Detection of matrix products by code, without a name: outer products of loaded values in the hot
code.

In a step of a matrix product every value of one operand meets every value of the other, each pair
in a sum of its own. A filter, a stencil or the chain of a polynomial adds several pairs to one sum;
a product of a matrix and a vector uses each element of the matrix once.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from msgspec import Struct

from gpuprof.sass.instruction import Instruction, Operation, instruction_of
from gpuprof.sass.operands import named, sources, written

MULTIPLY_ADDS = {"FFMA": "fp32", "HFMA2": "fp16", "DFMA": "fp64", "IDP": "int8"}
"""Multiply-add opcodes and the type of their inputs: `IDP.4A` takes four pairs of 8 bits,
`HFMA2` two of 16 bits."""
_OTHER_ARITHMETIC = ("FADD", "FMUL", "HADD2", "HMUL2", "DADD", "DMUL", "MUFU", "FFMA", "HFMA2", "DFMA", "IDP")
_HOT = 0.5
"""Instructions at least half as frequent as the most frequent multiply-add are in its loop."""
_LEAST_SIDE = 2
_BACK = 4
"""Maximum number of moves and conversions between a load and the multiplication: widening two
packed values takes up to three."""

_REGISTER = re.compile(r"^[-|~!]*(R\d{1,4})(?:\.reuse)?((?:\.\w+)*)\|?$")
_LOADS = re.compile(r"^(?:LD|LDG|LDS|LDSM|SHFL)\b")
_MOVES = re.compile(
    r"^(?:MOV|PRMT|SHL|SHF|LOP3|IMAD\.(?:MOV|U32|SHL)|HADD2\.F32|HADD2\.BF16|F2F|F2FP|I2F|I2FP|SGXT|UNPACK|HMUL2\.BF16)"
)


class Value(NamedTuple):
    """The value of a register between two writes. `written_at` is the index of the write in the hot
    code; None: before.

    `half` distinguishes the halves of a packed register.
    """

    register: str
    written_at: int | None
    half: str = ""


class OuterProducts(NamedTuple):
    """The share of outer products in the arithmetic of the hot code, and their main type."""

    path: str
    share: float


class _Step(Struct, frozen=True, kw_only=True, eq=False):
    """The role of an instruction in products. `path`: the type that it multiplies and adds; None if
    it does not.

    `factors` are the registers and halves that it multiplies, `to` the register that it adds to;
    None for other operands. Each instruction has one cached step, so steps are compared by
    identity.
    """

    opcode: str
    destinations: tuple[str, ...]
    reads: tuple[str, ...]
    path: str | None
    factors: tuple[tuple[str, str] | None, ...]
    to: str | None
    is_load: bool
    is_move: bool


_Counted = tuple[_Step, float]
"""An instruction and its number of executions."""


def outer_products(code: Iterable[tuple[str, float]]) -> OuterProducts | None:
    """Return the type and share of outer products in the hot code, if that is known.

    `code` are the instructions with the number of their executions.
    """
    steps = ((_step_of(sass), count) for sass, count in code)
    return _of_hot([(step, count) for step, count in steps if step is not None])


def outer_products_of_loop(loop: Iterable[Instruction]) -> OuterProducts | None:
    """Return the same for the instructions of an innermost loop, which all run equally often."""
    return _of_hot([(_step(instruction.operation), 1.0) for instruction in loop if not instruction.idle])


def _of_hot(code: Sequence[_Counted]) -> OuterProducts | None:
    most = max((count for step, count in code if step.path is not None), default=0.0)
    if most <= 0:
        return None
    hot = [(step, count) for step, count in code if count >= _HOT * most]
    arithmetic = sum(count for step, count in hot if step.opcode.startswith(_OTHER_ARITHMETIC))
    by_path: defaultdict[str, float] = defaultdict(float)
    for at in _in_outer_products(tuple(step for step, _ in hot)):
        step, count = hot[at]
        by_path[step.path or ""] += count
    main = max(by_path, key=lambda name: by_path[name], default="")
    return OuterProducts(main, by_path[main] / arithmetic)


@lru_cache(maxsize=1 << 14)
def _step_of(sass: str) -> _Step | None:
    instruction = instruction_of(sass)
    return _step(instruction.operation) if instruction is not None else None


@lru_cache(maxsize=1 << 14)
def _step(operation: Operation) -> _Step:
    instruction = Instruction.at(0, operation)
    read = sources(instruction)
    multiplied = [_REGISTER.match(operand) for operand in read[:2]]
    addend = _REGISTER.match(read[2]) if len(read) >= 3 else None
    return _Step(
        opcode=operation.opcode,
        destinations=tuple(name for name in written(instruction) if name.startswith("R")),
        reads=tuple(name for operand in read for name in named(operand)),
        path=MULTIPLY_ADDS.get(operation.name) if len(read) >= 3 else None,
        factors=tuple((match[1], match[2]) if match is not None else None for match in multiplied),
        to=addend[1] if addend is not None else None,
        is_load=_LOADS.match(operation.opcode) is not None,
        is_move=_MOVES.match(operation.opcode) is not None,
    )


class _Sum(Struct, frozen=True):
    """A multiply-add: its factors, and the root of the sum that it adds to."""

    factors: tuple[Value, Value]
    root: str


def _sums(hot: Sequence[_Step]) -> dict[int, _Sum]:
    """Return the multiply-adds whose factors are loaded in the hot code, by their index in it.

    A value that is read before it is written comes from the loop's previous round.
    """
    now = {register: at for at, step in enumerate(hot) for register in step.destinations}
    moved: dict[int, list[int | None]] = {}
    earlier: set[str] = set()
    roots: dict[int, str] = {}
    sums: dict[int, _Sum] = {}
    for at, step in enumerate(hot):
        if step.is_move:
            moved[at] = [now.get(name) for name in step.reads]
        if step.path is not None and step.to is not None:
            before = now.get(step.to)
            roots[at] = roots[before] if before in roots and step.to in earlier else step.to
            values = [Value(name, now.get(name), half) for name, half in filter(None, step.factors)]
            if before is not None and hot[before].path is not None and len(values) == 2:
                sums[at] = _Sum((values[0], values[1]), roots[at])
        for register in step.destinations:
            now[register] = at
            earlier.add(register)
    written_at = {value.written_at for sum_ in sums.values() for value in sum_.factors}
    loaded = {at for at in written_at if _is_loaded(at, hot, moved)}
    return {at: sum_ for at, sum_ in sums.items() if all(value.written_at in loaded for value in sum_.factors)}


def _is_loaded(written_at: int | None, hot: Sequence[_Step], moved: Mapping[int, Sequence[int | None]]) -> bool:
    """Return whether a value comes from a load of the hot code, also by moves and conversions."""
    places = {written_at}
    for _ in range(_BACK + 1):
        if any(at is not None and hot[at].is_load for at in places):
            return True
        places = {before for at in places if at is not None for before in moved.get(at, ())}
    return False


@lru_cache(maxsize=256)
def _in_outer_products(hot: tuple[_Step, ...]) -> tuple[int, ...]:
    """Return the indices of multiply-adds that pair all values of two sets, each pair in its own
    sum.

    The result is cached: launches of a kernel mostly have the same hot code.
    """
    return tuple(_complete(_sums(hot)))


def _complete(sums: dict[int, _Sum]) -> Iterator[int]:
    neighbours: dict[Value, set[Value]] = {}
    places: dict[Value, list[int]] = {}
    for at, item in sums.items():
        left, right = item.factors
        neighbours.setdefault(left, set()).add(right)
        neighbours.setdefault(right, set()).add(left)
        places.setdefault(left, []).append(at)
    seen = set[Value]()
    for start in neighbours:
        if start in seen:
            continue
        sides = _two_sides(start, neighbours)
        values = sides[0] | sides[1]
        seen |= values
        if min(map(len, sides)) < _LEAST_SIDE or not sides[0].isdisjoint(sides[1]):
            continue
        group = sorted(at for value in values for at in places.get(value, ()))
        pairs = {frozenset(sums[at].factors) for at in group}
        roots = {sums[at].root for at in group}
        if len(pairs) == len(group) == len(sides[0]) * len(sides[1]) == len(roots):
            yield from group


def _two_sides(start: Value, neighbours: Mapping[Value, set[Value]]) -> tuple[set[Value], set[Value]]:
    """Return the values an even and an odd number of pairs away; both overlap if not bipartite."""
    sides = set[Value](), set[Value]()
    queue = [(start, 0)]
    while queue:
        value, side = queue.pop()
        if value not in sides[side]:
            sides[side].add(value)
            queue.extend((other, 1 - side) for other in neighbours[value])
    return sides
