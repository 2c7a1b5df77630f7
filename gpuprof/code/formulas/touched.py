"""What the address of a memory instruction is made of: the thread's index, loaded values, the steps of loops.

`lanes` tells the addresses themselves where all that they depend on is known. Here they are sums of numbers and of
symbols that stand for what is not known, such as the length of a row; so the code alone tells that two accesses lie
side by side, that a loop steps by a word, or that an address was looked up in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Flag, auto
from functools import reduce
from operator import or_

from gpuprof.code.flow.graph import ControlFlowGraph, graph_of
from gpuprof.code.formulas.sums import START, GuardedSums, Registers, Sum, SumReader, at_start, result_of
from gpuprof.code.lanes.values import LANES, signed
from gpuprof.code.sass.instruction import Instruction
from gpuprof.code.sass.operands import named, sources
from gpuprof.code.sass.requests import RequestKind, requests
from gpuprof.code.sass.writes import may_write


class LaneOrigin(Flag):
    """What makes an address differ between the lanes of a warp."""

    NOTHING = 0
    X = auto()
    YZ = auto()
    LANE = auto()
    LOADED = auto()
    UNKNOWN = auto()


@dataclass(frozen=True, slots=True)
class Touched:
    """One global access of a kernel, as far as its code tells.

    `base` names all of the address but its constant part, `offset`: accesses of one base lie as far apart as their
    offsets. `along_x` is how many bytes the next threadIdx.x lies further; None where that is not known, or where more
    than a product with it depends on it. `loop` is the first block of the innermost loop around it; `step`, by how many
    bytes the innermost loop that moves it does so in each turn; None where none does, or not by a number.
    """

    address: int
    kind: RequestKind
    width_bytes: int
    base: str
    offset: int
    origin: LaneOrigin
    along_x: int | None
    step: int | None = None
    loop: int | None = None


def touched(
    code: Sequence[Instruction], block: tuple[int, int, int], constants: Mapping[int, int]
) -> tuple[Touched, ...]:
    """Return the global accesses of a kernel; none where its jumps cannot be followed.

    `constants` are the known bytes of constant bank 0 by their offset.
    """
    graph = graph_of(code)
    if graph is None or not any(requests(instruction) for instruction in code):
        return ()
    trace = _Trace(graph, block, constants)
    return tuple(trace.accesses()) if trace.settled else ()


_MOST_ROUNDS = 12
"""So often the blocks are gone through at most; compiled kernels take five."""
_MOST_TERMS = 64
"""A sum of more symbols becomes one of its own, or code that adds up all that it loads takes seconds."""
_TID_X = "SR_TID.X"
_SAME_FOR_A_WARP = ("R2UR", "VOTE", "REDUX", "CREDUX", "MATCH", "ELECT")
_LANE = ("LANE", "EQMASK", "LTMASK", "LEMASK", "GTMASK", "GEMASK")
"""Special registers that differ between lanes, beside the thread's index."""


class _Trace:
    """A kernel whose blocks are gone through until nothing new is learnt of what registers hold at their beginning.

    Where ways that meet bring different sums for a register, it holds a symbol of its own from there on.
    """

    def __init__(self, graph: ControlFlowGraph, block: tuple[int, int, int], constants: Mapping[int, int]) -> None:
        self._graph, self._block, self._constants = graph, block, constants
        self._predecessors = graph.predecessors()
        self._origins: dict[str, LaneOrigin] = {}
        self._places: dict[str, int] = {}
        self._joins: set[tuple[int, str]] = set()
        self._begins: dict[int, Registers] = {}
        self._ends: dict[int, Registers] = {}
        self._local = LaneOrigin.NOTHING
        order = graph.order()
        self.settled = any(not self._learn(order) for _ in range(_MOST_ROUNDS))

    def accesses(self) -> Iterator[Touched]:
        """Yield the global accesses in the order of the code."""
        for number in sorted(self._begins):
            yield from self._run(number, dict(self._begins[number]))

    def _learn(self, order: Sequence[int]) -> bool:
        """Go through the blocks once; tell whether something new was learnt."""
        before = (len(self._joins), dict(self._origins), self._local)
        new = False
        for number in order:
            state = self._meet(number)
            if state != self._begins.get(number):
                self._begins[number], new = state, True
            end = dict(state)
            for _ in self._run(number, end):
                pass
            self._ends[number] = end
        return new or before != (len(self._joins), self._origins, self._local)

    def _meet(self, number: int) -> Registers:
        """Return what registers hold at the beginning of a block."""
        come = [self._ends[source] for source in self._predecessors[number] if source in self._ends]
        if number in self._graph.entries:
            come.append({})
        names = dict.fromkeys(name for state in come for name in state)
        return {name: self._joined(number, name, [state.get(name, at_start(name)) for state in come]) for name in names}

    def _joined(self, number: int, name: str, sums: Sequence[Sum]) -> Sum:
        if (number, name) not in self._joins and all(other == sums[0] for other in sums):
            return sums[0]
        self._joins.add((number, name))
        symbol = _join_of(number, name)
        return self._symbol(symbol, number, reduce(or_, (self._origin(held) for held in sums)))

    def _symbol(self, symbol: str, number: int, origin: LaneOrigin) -> Sum:
        """Return a symbol that is made in a block; what makes it differ between lanes only ever becomes more."""
        self._origins[symbol] = self._origins.get(symbol, LaneOrigin.NOTHING) | origin
        self._places[symbol] = number
        return Sum(0, ((symbol, 1),))

    def _origin(self, held: Sum) -> LaneOrigin:
        return reduce(or_, (self._origin_of(symbol) for symbol, _ in held.terms), LaneOrigin.NOTHING)

    def _origin_of(self, symbol: str) -> LaneOrigin:
        """Return what makes a symbol differ between lanes; a function is called with what is not known."""
        called = symbol.startswith(START) and len(self._graph.entries) > 1
        return self._origins.get(symbol, LaneOrigin.UNKNOWN if called else LaneOrigin.NOTHING)

    def _run(self, number: int, state: Registers) -> Iterator[Touched]:
        """Go through a block and change the state; yield its accesses."""
        guarded: GuardedSums = {}
        for instruction in self._graph.blocks[number]:
            reader = SumReader(instruction, state, guarded, self._constants)
            yield from self._touched(number, instruction, reader)
            if not instruction.idle:
                self._execute(number, instruction, reader, state, guarded)
        for name in self._graph.called.get(number, frozenset()) or ():
            state[name] = self._symbol(f"call in {number} {name}", number, LaneOrigin.UNKNOWN)

    def _execute(
        self,
        number: int,
        instruction: Instruction,
        reader: SumReader,
        state: Registers,
        guarded: GuardedSums,
    ) -> None:
        origin = self._read(instruction, reader)
        if instruction.name == "STL":
            self._local |= origin
        names = may_write(instruction)

        def product(*factors: Sum) -> Sum:
            both = reduce(or_, map(self._origin, factors))
            return self._symbol(f"{instruction.address:x} product", number, both)

        held = result_of(instruction, reader, product)
        if held is not None and len(held.terms) > _MOST_TERMS:
            held = None
        if instruction.name == "S2R" and instruction.operands[-1] == _TID_X:
            held = self._symbol(_TID_X, 0, origin)
        first = next((name for name in names if "P" not in name), None)
        for name in names:
            symbol = f"{instruction.address:x} {name}"
            new = held if held is not None and name == first else self._symbol(symbol, number, origin)
            for key in [key for key in guarded if name in (key[0], key[1].lstrip("@!"))]:
                del guarded[key]
            if instruction.predicate and new != state.get(name):
                guarded[name, instruction.predicate] = new
                both = origin | self._origin(new) | self._origin(state.get(name, at_start(name)))
                new = self._symbol(f"{symbol} or not", number, both)
            state[name] = new

    def _read(self, instruction: Instruction, reader: SumReader) -> LaneOrigin:
        """Return what makes the results of an instruction differ between lanes, other than by a sum."""
        name = instruction.name
        if name == "S2R":
            return self._special(instruction)
        if name.startswith(("U", *_SAME_FOR_A_WARP)):
            return LaneOrigin.NOTHING
        if name == "LDL":
            return self._local
        text = (*sources(instruction), instruction.predicate or "")
        read = (reader.register(register) for part in text for register in named(part))
        origin = reduce(or_, map(self._origin, read), LaneOrigin.NOTHING)
        if name.startswith("ATOM"):
            return LaneOrigin.LOADED
        if (requests(instruction) or name == "LDC") and name != "STL":
            return LaneOrigin.LOADED if origin else LaneOrigin.NOTHING
        return origin

    def _special(self, instruction: Instruction) -> LaneOrigin:
        source = instruction.operands[-1].removeprefix("SR_")
        width, height, _ = self._block
        if source == "TID.X":
            return LaneOrigin.X
        if source in {"TID.Y", "TID.Z"}:
            rows = width if source == "TID.Y" else width * height
            return LaneOrigin.NOTHING if rows % LANES == 0 else LaneOrigin.YZ
        return LaneOrigin.LANE if source.startswith(_LANE) else LaneOrigin.NOTHING

    def _touched(self, number: int, instruction: Instruction, reader: SumReader) -> Iterator[Touched]:
        for request in requests(instruction):
            if request.space not in {"global", "generic"}:
                continue
            where = reader.address(request.operand)
            if where is None:
                where = self._symbol(f"{instruction.address:x} address", number, LaneOrigin.UNKNOWN)
            loops = self._loops_around(number)
            steps = (self._step(header, where) for header in loops)
            step = next((step for step in steps if step != 0), None)
            yield Touched(
                address=instruction.address,
                kind=request.kind,
                width_bytes=request.width_bytes,
                base=" + ".join(f"{factor}·{symbol}" for symbol, factor in where.terms),
                offset=signed(where.number),
                origin=self._origin(where),
                along_x=self._along_x(where),
                step=step,
                loop=loops[0] if loops else None,
            )

    def _along_x(self, where: Sum) -> int | None:
        of_x = [(symbol, factor) for symbol, factor in where.terms if LaneOrigin.X in self._origin_of(symbol)]
        if not of_x:
            return 0
        symbol, factor = of_x[0]
        return signed(factor) if len(of_x) == 1 and symbol == _TID_X else None

    def _loops_around(self, number: int) -> list[int]:
        """Return the loops that a block is in, the innermost first."""
        around = [(len(body), header) for header, body in self._graph.loops.items() if number in body]
        return [header for _, header in sorted(around)]

    def _step(self, header: int, where: Sum) -> int | None:
        """Return by how much a turn of a loop moves a sum; None where it is not the same number in each."""
        body = self._graph.loops[header]
        moved = 0
        for symbol, factor in where.terms:
            if self._places.get(symbol, -1) not in body:
                continue
            step = self._step_of_join(header, symbol)
            if step is None:
                return None
            moved += signed(factor) * step
        return moved

    def _step_of_join(self, header: int, symbol: str) -> int | None:
        """Return by how much a turn of a loop moves a register that its header has a symbol for."""
        name = symbol.rpartition(" ")[2]
        if symbol != _join_of(header, name):
            return None
        last = [
            self._ends[source].get(name, at_start(name)).plus(Sum(0, ((symbol, 1),)), -1)
            for source in self._predecessors[header]
            if source in self._graph.loops[header] and source in self._ends
        ]
        steps = {held.number for held in last if not held.terms}
        return signed(steps.pop()) if len(steps) == 1 and all(not held.terms for held in last) else None


def _join_of(number: int, name: str) -> str:
    """Return the symbol of what a register holds where ways meet that bring different sums."""
    return f"join {number} {name}"
