"""Reads the operands of an instruction in the 32 lanes of a warp: registers, numbers, constants, addresses."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from gpuprof.sass.instruction import Instruction
from gpuprof.sass.lanes.arithmetic import (
    Wide,
    add_wide,
    extended,
    inverse,
    multiply,
    negative,
    negative_wide,
    pair,
)
from gpuprof.sass.lanes.values import LANES, ONE, UNIFORM, ZERO, LaneValue, bits, constant, value
from gpuprof.sass.operands import AddressTerm, address_terms

_OPERAND = re.compile(
    r"(?P<sign>[-~]?)(?:(?P<register>U?R)(?P<number>\d+|Z)|(?P<constant>c\[.*\])|(?P<immediate>0x[0-9a-f]+|\d+)|SRZ)"
    r"(?:\.reuse)?"
)
_FLAG = re.compile(r"(?P<not>!?)(?P<name>U?P)(?P<number>\d+|T)(?:\.reuse)?")
_BANK_0 = re.compile(r"c\[0x0\]\[(?:U?RZ\+?)?(?P<offset>0x[0-9a-f]+)?\]")
_REGISTER = re.compile(r"\bU?R\d+")


class ThreadBlock(NamedTuple):
    """A block of threads: its size, and which of its warps is looked at; `first`: it is known to be block 0."""

    size: tuple[int, int, int]
    warp: int = 0
    first: bool = False

    @property
    def threads(self) -> int:
        """Return how many threads it has."""
        return self.size[0] * self.size[1] * self.size[2]

    def indices(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """Return threadIdx of each lane: x runs fastest (CUDA C++ Programming Guide, Thread Hierarchy)."""
        width, height, _ = self.size
        threads = range(self.warp * LANES, (self.warp + 1) * LANES)
        return (
            tuple(thread % width for thread in threads),
            tuple(thread // width % height for thread in threads),
            tuple(thread // (width * height) for thread in threads),
        )

    @property
    def lanes(self) -> int:
        """Return which lanes have a thread, a bit for each."""
        return sum(1 << lane for lane in range(LANES) if self.warp * LANES + lane < self.threads)


Guarded = tuple[str, LaneValue]


class WarpRegisters:
    """What registers and predicates hold, those that are known, and which lanes may be running, a bit for each.

    A uniform register holds the same for all lanes, even where no more is known of it. `guarded` are registers that
    were last written under a predicate, `@!P0`, and what they hold in the lanes in which it is true.
    """

    __slots__ = ("active", "guarded", "values")

    def __init__(
        self, active: int, values: Mapping[str, LaneValue] | None = None, guarded: Mapping[str, Guarded] | None = None
    ) -> None:
        self.active = active
        self.values = dict(values or {})
        self.guarded = dict(guarded or {})

    def same_as(self, other: WarpRegisters) -> bool:
        """Tell whether the same is known."""
        return self.active == other.active and self.values == other.values and self.guarded == other.guarded

    def kept(self, active: int, names: Collection[str]) -> WarpRegisters:
        """Return what is known of some registers, in these lanes."""
        kept = WarpRegisters(active)
        kept.values = {name: held for name, held in self.values.items() if name in names}
        if self.guarded:
            kept.guarded = {name: held for name, held in self.guarded.items() if name in names}
        return kept

    def read(self, names: Sequence[str]) -> list[LaneValue | str | None]:
        """Return what registers hold, and what under which predicate."""
        held: list[LaneValue | str | None] = list(map(self.values.get, names))
        if self.guarded:
            for name in names:
                held += self.guarded.get(name, (None, None))
        return held

    def get(self, name: str, predicate: str | None = None) -> LaneValue | None:
        """Return what a register or a predicate holds where an instruction's predicate is true."""
        if predicate and name in self.guarded and self.guarded[name][0] == predicate:
            return self.guarded[name][1]
        return self.values.get(name, UNIFORM if name[0] == "U" else None)

    def put(self, name: str, held: LaneValue | None) -> None:
        """Change what a register or a predicate holds."""
        if held is None:
            self.values.pop(name, None)
        else:
            self.values[name] = held
        self.guarded.pop(name, None)
        if "P" in name and self.guarded:
            for register in [key for key, (predicate, _) in self.guarded.items() if predicate.lstrip("@!") == name]:
                del self.guarded[register]

    def forget(self, names: Collection[str] | None) -> None:
        """Drop what is known of registers and predicates; None: of all."""
        gone = [*self.values, *self.guarded] if names is None else names
        for name in gone:
            self.put(name, None)

    def guard(self, name: str, predicate: str, held: LaneValue | None) -> None:
        """Note what a register holds in the lanes in which a predicate is true."""
        if held is not None:
            self.guarded[name] = (predicate, held)


class Reader:
    """Reads operands with what is known when an instruction begins. `constants`: bytes of bank 0 by their offset."""

    def __init__(
        self, instruction: Instruction, state: WarpRegisters, block: ThreadBlock, constants: Mapping[int, int]
    ) -> None:
        self.instruction, self.state, self.block, self.constants = instruction, state, block, constants

    def register(self, name: str) -> LaneValue | None:
        """Return what a register or a predicate holds in the lanes in which the instruction runs."""
        return self.state.get(name, self.instruction.predicate)

    def word(self, operand: str) -> LaneValue | None:
        """Return an operand of one word; None also for forms that are not known."""
        match = _OPERAND.fullmatch(operand)
        if match is None:
            return None
        if match["register"]:
            held = ZERO if match["number"] == "Z" else self.register(match["register"] + match["number"])
        elif match["constant"]:
            held = self.bank(match["constant"])
        else:
            held = constant(int(match["immediate"] or "0", 0))
        return negative(held) if match["sign"] == "-" else inverse(held) if match["sign"] else held

    def wide(self, operand: str) -> Wide | None:
        """Return an operand of two words: a pair of registers, two words of constants, or a number with its sign."""
        match = _OPERAND.fullmatch(operand)
        if match is None or match["sign"] == "~":
            return None
        if match["register"]:
            held = pair(*self._registers(match["register"], match["number"]))
        elif match["constant"]:
            held = pair(self.bank(match["constant"]), self.bank(match["constant"], skip=4))
        else:
            held = Wide((int(match["immediate"] or "0", 0),) * LANES, 64)
        return negative_wide(held) if match["sign"] else held

    def _registers(self, kind: str, number: str) -> tuple[LaneValue | None, LaneValue | None]:
        if number == "Z":
            return ZERO, ZERO
        return self.register(f"{kind}{number}"), self.register(f"{kind}{int(number) + 1}")

    def flag(self, operand: str) -> LaneValue | None:
        """Return a predicate, true only where it is known to be: 1 for PT."""
        match = _FLAG.fullmatch(operand)
        if match is None:
            return None
        held = ONE if match["number"] == "T" else self.register(match["name"] + match["number"])
        if not match["not"] or held is None or held is UNIFORM:
            return held
        return value(1 - word for word in held.lanes) if held.exact else UNIFORM if held.uniform else None

    def bank(self, operand: str, *, skip: int = 0, size: int = 4, sign: bool = False) -> LaneValue | None:
        """Return a constant; what is not given is the same for all lanes, as it is loaded from one place."""
        match = _BANK_0.fullmatch(operand)
        if match is None:
            return self.same_from(operand)
        offset = int(match["offset"] or "0", 16) + skip
        number, known = 0, 0
        while known < size and offset + known in self.constants:
            number |= self.constants[offset + known] << 8 * known
            known += 1
        if known < size:
            return value((number,) * LANES, 8 * known)
        top = 1 << 8 * size - 1
        return constant(number - 2 * top if sign and number & top else number)

    def same_from(self, operand: str) -> LaneValue | None:
        """Return what is read from an address: the same, if the address is the same."""
        registers = [self.register(name) for name in _REGISTER.findall(operand)]
        return UNIFORM if all(register is not None and register.uniform for register in registers) else None

    def running(self) -> int:
        """Return the lanes in which the instruction may run, a bit for each."""
        flag = self.flag(self.instruction.predicate[1:]) if self.instruction.predicate else ONE
        return self.state.active & bits(flag) if flag is not None and flag.exact else self.state.active

    def address(self, operand: str, *, wide: bool) -> Wide | None:
        """Return the address between brackets: `desc[UR4][R2.64+UR8+0x10]`, `[R3.X4+0x80]`; `wide`: of two words."""
        terms = address_terms(operand)
        if terms is None or any(len(term.kinds) > 1 for term in terms):
            return None
        first = next((term.register for term in terms if term.register), None)
        return add_wide(Wide((0,) * LANES, 64), *(self._term(term, wide=wide, first=first) for term in terms))

    def _term(self, term: AddressTerm, *, wide: bool, first: str | None) -> Wide | None:
        name, kind = term.register, "".join(term.kinds)
        if name is None:
            return Wide((term.number,) * LANES, 64)
        if kind == "64" or (wide and not kind and (name[0] == "U" or name == first)):
            return self.wide(name)
        word = self.word(name)
        scaled = multiply(word, constant(int(kind[1:]))) if kind.startswith("X") else word
        return extended(scaled, sign=False)
