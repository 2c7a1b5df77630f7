"""What an instruction writes to a register, as a sum of what it reads, of numbers for each lane, and of symbols."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache

from msgspec import Struct

from gpuprof.sass.formulas.places import RegisterPlace
from gpuprof.sass.formulas.sums import Sum, SumReader, bank_offset, result_of
from gpuprof.sass.formulas.symbols import MOST_TERMS, Symbol, SymbolKind, Symbols, warp_wide
from gpuprof.sass.instruction import Instruction, Operation
from gpuprof.sass.lanes.operands import Reader, ThreadBlock, WarpRegisters
from gpuprof.sass.lanes.rules import results
from gpuprof.sass.lanes.values import LANES, LaneValue
from gpuprof.sass.operands import written
from gpuprof.sass.requests import requests
from gpuprof.sass.writes import may_write

_ALL = (1 << LANES) - 1
_SAME_FOR_A_WARP = ("R2UR", "VOTE", "REDUX", "CREDUX", "MATCH", "ELECT")
_BANK_LOADS = {"LDC", "ULDC", "LDCU"}
_MASKS: Mapping[str, Callable[[int], int]] = {
    "EQMASK": lambda lane: 1 << lane,
    "LTMASK": lambda lane: (1 << lane) - 1,
    "LEMASK": lambda lane: (2 << lane) - 1,
    "GTMASK": lambda lane: _ALL & ~((2 << lane) - 1),
    "GEMASK": lambda lane: _ALL & ~((1 << lane) - 1),
}


class Written(Struct, frozen=True, kw_only=True):
    """A register that an instruction writes, and what the instruction reads, by the names of registers.

    `needs` are the places where what it reads was written.
    """

    place: RegisterPlace
    instruction: Instruction
    needs: tuple[RegisterPlace, ...]
    reads: Mapping[str, Sum]


class LaneResults:
    """The rules for instructions of one kernel. `assumed_rows`: rows of threads were taken to fill warps."""

    def __init__(self, symbols: Symbols, block: tuple[int, int, int] | None, constants: Mapping[int, int]) -> None:
        self.symbols, self._block, self._constants = symbols, block, constants
        self.assumed_rows = False
        self._lane_results: dict[
            tuple[Operation, tuple[tuple[str, LaneValue | None], ...]], Mapping[str, LaneValue | None]
        ] = {}

    def result(self, step: Written) -> Sum:
        """Return what a register holds behind an instruction that writes it."""
        if step.instruction.name in {"S2R", "S2UR"}:
            return self._special(step)
        loaded = self._bank_word(step) if step.instruction.name in _BANK_LOADS else None
        return loaded or self._by_sum(step) or self._by_lanes(step) or self._opaque(step)

    def _by_sum(self, step: Written) -> Sum | None:
        if step.place.name not in _registers_written(step.instruction.operation)[:1]:
            return None
        held = result_of(step.instruction, self._reader(step), self.symbols.product(step.place.block))
        if held is None or len(held.terms) > MOST_TERMS:
            return None
        self.symbols.note_constants(*(symbol for symbol, _ in held.terms))
        return held

    def _reader(self, step: Written) -> SumReader:
        return SumReader(step.reads, self._constants)

    def _bank_word(self, step: Written) -> Sum | None:
        """Return a word of constant bank 0, of loads of several words the one that a register gets."""
        names = _registers_written(step.instruction.operation)
        offset = bank_offset(step.instruction.operands[-1])
        if step.place.name not in names or offset is None:
            return None
        operand = f"c[0x0][{offset + 4 * names.index(step.place.name):#x}]"
        held = self._reader(step).word(operand)
        if held is not None:
            self.symbols.note_constants(*(symbol for symbol, _ in held.terms))
        return held

    def _special(self, step: Written) -> Sum:
        source = step.instruction.operands[-1].removeprefix("SR_")
        if step.instruction.name == "S2R" and source in {"TID.X", "TID.Y", "TID.Z"}:
            return self._thread_index("XYZ".index(source[-1]), source)
        if source == "LANEID":
            return self.symbols.vector(tuple(range(LANES)))
        if source in _MASKS:
            return self.symbols.vector(tuple(_MASKS[source](lane) for lane in range(LANES)))
        same = step.instruction.name == "S2UR" or not source.startswith(("CLOCK", "GLOBALTIMER"))
        return self.symbols.new(f"SR_{source}", Symbol(kind="launch", varies=not same, block=-1))

    def _thread_index(self, axis: int, source: str) -> Sum:
        if self._block is not None:
            return self.symbols.vector(ThreadBlock(self._block).indices()[axis])
        self.assumed_rows = True
        rest = self.symbols.new(f"SR_{source}", Symbol(kind="launch", varies=False))
        return self.symbols.vector(tuple(range(LANES))).plus(rest, LANES) if axis == 0 else rest

    def _by_lanes(self, step: Written) -> Sum | None:
        """Let the rules for known lanes work it out, where what differs between lanes is known."""
        name = step.instruction.name
        if requests(step.instruction) or name.startswith(("LD", "ATOM")):
            return None
        lanes = tuple((read, self.symbols.lanes_of(held)) for read, held in step.reads.items())
        writes = self._lane_results.get((step.instruction.operation, lanes))
        if writes is None:
            writes = self._run(step.instruction.without_predicate(), lanes)
            self._lane_results[step.instruction.operation, lanes] = writes
        result = writes.get(step.place.name)
        if result is None or result.high:
            return None
        if result.exact:
            return self.symbols.vector(result.lanes)
        if result.uniform:
            return None
        rest = Symbol(
            kind="result", varies=False, block=step.place.block, address=step.instruction.address, reads=step.needs
        )
        known = self.symbols.vector(result.lanes)
        return known.plus(
            self.symbols.new(f"{step.instruction.address:x} {step.place.name} rest", rest), 1 << result.align
        )

    def _run(
        self, instruction: Instruction, known: Iterable[tuple[str, LaneValue | None]]
    ) -> Mapping[str, LaneValue | None]:
        """Return what the rules for known lanes say that an instruction writes."""
        state = WarpRegisters(_ALL, {name: held for name, held in known if held is not None})
        reader = Reader(instruction, state, ThreadBlock(self._block or (LANES, 1, 1)), self._constants)
        try:
            return dict(results(instruction, reader))
        except (ValueError, IndexError, KeyError):  # code that no compiler wrote
            return {}

    def _opaque(self, step: Written) -> Sum:
        # What an instruction may write, and may not, still holds what it held before, which is not among its reads.
        sure = step.place.name in written(step.instruction)
        varies = not sure or any(map(self.symbols.varies, step.reads.values()))
        kind: SymbolKind = "result"
        asked = requests(step.instruction)
        if asked or step.instruction.name in _BANK_LOADS:
            space = asked[0].space if asked else "global"
            kind = "shared" if space == "shared" else "loaded"
            varies = varies or space == "local" or (bool(asked) and asked[0].kind == "atomic")
        elif step.instruction.name == "SHFL":
            varies = True
        if step.instruction.name.startswith(("U", *_SAME_FOR_A_WARP)) or warp_wide(step.place.name):
            varies = False
        symbol = Symbol(
            kind=kind, varies=varies, block=step.place.block, address=step.instruction.address, reads=step.needs
        )
        return self.symbols.new(f"{step.instruction.address:x} {step.place.name}", symbol)


@lru_cache(maxsize=1 << 16)
def _registers_written(operation: Operation) -> tuple[str, ...]:
    """Return the registers that an operation may write, without predicates."""
    return tuple(name for name in may_write(Instruction.at(0, operation)) if "P" not in name)
