"""Compute the values that instructions write from the values that they read."""

from __future__ import annotations

from collections.abc import Mapping

from gpuprof.sass.dataflow.expressions import (
    MOST_TERMS,
    ONE,
    UNIFORM,
    WORD_BITS,
    LinearExpr,
    Symbol,
    SymbolKind,
    Symbols,
    reduced,
    uniform_of,
)
from gpuprof.sass.dataflow.operand_reader import OperandReader, Result, Results, Rule
from gpuprof.sass.dataflow.reaching_definitions import Definition, ReachingDefinitions
from gpuprof.sass.dataflow.sum_rules import SUM_RULES
from gpuprof.sass.dataflow.warps import ThreadBlock
from gpuprof.sass.dataflow.word_rules import OPCODE_RULES, WORD_RULES
from gpuprof.sass.instruction import Instruction
from gpuprof.sass.operands import LANE_BY_LANE, written
from gpuprof.sass.requests import requests

_MOST_KEPT = 1 << 16
_LOADS_CONSTANTS = {"LDC", "ULDC", "LDCU"}


class Evaluation:
    """The values of instructions of one kernel, shared by all warps.

    Values are cached by the values that they are computed from: two thirds of those of a further warp are known.
    """

    def __init__(self, reaching: ReachingDefinitions, constants: Mapping[int, int]) -> None:
        self.symbols = Symbols()
        self.constants = constants
        self._reaching = reaching
        self._known: dict[tuple[object, ...], LinearExpr] = {}
        self._results: tuple[object, Mapping[str, Result]] = (None, {})
        self._unknown: dict[tuple[Definition, bool], str] = {}

    def value(self, place: Definition, read: tuple[LinearExpr, ...], active: int, warp: ThreadBlock) -> LinearExpr:
        """Return the value of a definition; `read` has the values of its sources, in their order.

        Only special registers depend on the warp, and instructions that read them read nothing else.
        """
        key = (place, read, active) if read else (place, active, warp)
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= _MOST_KEPT:
                self._known.clear()
            known = self._known[key] = self._evaluated(place, read, active, warp)
        return known

    def _evaluated(self, place: Definition, read: tuple[LinearExpr, ...], active: int, warp: ThreadBlock) -> LinearExpr:
        if not place.unguarded:
            yes, no, guard = read
            if "!" in (self._reaching.instruction(place).predicate or ""):
                guard = ONE.plus(guard, -1)
            return self.named(place, self.symbols.choose(guard, yes, no, active))
        result = self._all_results(place, read, active, warp).get(place.name)
        value = result() if callable(result) else result
        return self.named(place, value if value is None or len(value.terms) <= MOST_TERMS else None)

    def _all_results(
        self, place: Definition, read: tuple[LinearExpr, ...], active: int, warp: ThreadBlock
    ) -> Mapping[str, Result]:
        """Return all results of the instruction of a definition; those of the last one are cached."""
        key = place.block, place.at, read, active, warp
        last, found = self._results
        if last != key:
            known = {source.name: value for source, value in zip(self._reaching.sources(place), read, strict=True)}
            found = results(self._reaching.instruction(place), self.reader(known, active, warp))
            self._results = key, found
        return found

    def reader(self, known: Mapping[str, LinearExpr], active: int, warp: ThreadBlock) -> OperandReader:
        """Return a reader of the operands of an instruction."""
        return OperandReader(known, self.symbols, warp, self.constants, active)

    def named(self, place: Definition, value: LinearExpr | None) -> LinearExpr:
        """Return a value with its unknown part named by a symbol."""
        if value is not None and value.align == WORD_BITS:
            return value
        varies = value is None and not place.name.startswith("U")
        name = self._unknown.get((place, varies))
        if name is None:
            name = self._unknown[place, varies] = self._new_symbol(place, varies=varies)
        if value is None:
            return LinearExpr(0, ((name, 1),))
        rest = LinearExpr(0, ((name, 1 << value.align),))
        return LinearExpr(reduced(value.lanes, value.align), value.terms).plus(rest)

    def _new_symbol(self, place: Definition, *, varies: bool) -> str:
        instruction = self._reaching.instruction(place) if place.at >= 0 else None
        kind = _kind(place, instruction)
        name = join_name(place) if instruction is None else f"{instruction.address:x} {place.name}"
        if not place.unguarded:
            name = f"{name} or not"
        if not varies:
            name = f"{name} in all lanes"
        self.symbols.by_name[name] = Symbol(
            kind=kind,
            varies=varies,
            block=place.block,
            address=instruction.address if instruction is not None else None,
            opcode=instruction.name if instruction is not None else "",
            reads=self._reaching.sources(place),
            place=place,
        )
        return name


def _kind(place: Definition, instruction: Instruction | None) -> SymbolKind:
    if instruction is None:
        return "join"
    if not place.unguarded:
        return "choice"
    memory_requests = requests(instruction)
    if memory_requests or instruction.name in _LOADS_CONSTANTS:
        return "shared" if memory_requests and memory_requests[0].space == "shared" else "loaded"
    return "result"


def join_name(place: Definition) -> str:
    """Return the name of the value that a register has at the beginning of a block."""
    return f"join {place.block} {place.name}"


def results(instruction: Instruction, reader: OperandReader) -> Mapping[str, Result]:
    """Return the values that an instruction writes in its active lanes, as far as they are known."""
    writes = _by_rule(instruction, reader)
    if writes is not None:
        return dict(writes)
    if instruction.name in LANE_BY_LANE:
        views = map(reader.symbols.lanes_of, reader.known.values())
        return dict.fromkeys(written(instruction), uniform_of(views))
    if _loads_from_one_place(instruction, reader):
        return {name: UNIFORM for name in written(instruction) if "P" not in name}
    return {}


def _by_rule(instruction: Instruction, reader: OperandReader) -> Results | None:
    rule = _rule_of(instruction)
    try:
        return rule(instruction, reader) if rule is not None else None
    except (ValueError, IndexError):  # more or fewer operands than the rule knows
        return None


def _rule_of(instruction: Instruction) -> Rule | None:
    """Return the rule of an opcode; one on uniform registers has the same rule."""
    opcode, name = instruction.opcode.removeprefix("U"), instruction.name.removeprefix("U")
    return OPCODE_RULES.get(opcode) or WORD_RULES.get(name) or SUM_RULES.get(name)


def _loads_from_one_place(instruction: Instruction, reader: OperandReader) -> bool:
    """Return whether all lanes load from one address in global or shared memory."""
    request, *more = requests(instruction) or (None,)
    if request is None or more or instruction.name == "LDSM":
        return False
    if request.kind != "load" or request.space not in {"global", "shared"}:
        return False
    where = reader.symbols.lanes_of(reader.address(request.operand))
    return where is not None and isinstance(where.lanes, int)
