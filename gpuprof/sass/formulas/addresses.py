"""What the lanes' addresses of each memory instruction are made of, and what is not known of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from msgspec import Struct

from gpuprof.sass.flow.graph import ControlFlowGraph, graph_of
from gpuprof.sass.formulas.registers import LaneSums
from gpuprof.sass.formulas.sums import Sum
from gpuprof.sass.formulas.symbols import Symbol, Vector
from gpuprof.sass.instruction import Instruction
from gpuprof.sass.lanes.values import LANES, WORD, signed
from gpuprof.sass.requests import LaneRequest, Space, requests

_MOST_LEAVES = 400
_MOST_ALIGNED = 128
_LOADED = frozenset({"loaded", "shared"})
_ZEROS: Vector = (0,) * LANES


class LaneAddress(Struct, frozen=True, kw_only=True):
    """The address of one memory request in the lanes of a warp.

    Lane i lies `apart[i]` bytes behind lane 0, and `times[factors][i]` bytes more for each product of `factors`, which
    are symbols that all lanes share. `varying` are symbols that lanes do not share, of which no more is known.

    `base` names all of the address but its constant part, `offset`: accesses of one base lie as far apart as their
    offsets. `loop` is the first block of the innermost loop around it; `moves`: that loop changes it. `step` is by how
    many bytes the innermost loop that changes it does so in each turn; None where none does, or not by a number.
    `aligned` is the largest power of two, up to 128, of which the address is surely a multiple if the pointer that it
    begins with is.
    """

    instruction: Instruction
    request: LaneRequest
    block: int
    index: int
    apart: Vector
    times: Mapping[tuple[str, ...], Vector]
    varying: tuple[str, ...]
    base: str
    offset: int
    step: int | None
    loop: int | None
    moves: bool
    aligned: int

    @property
    def known(self) -> bool:
        """Tell whether the distances of the lanes are numbers."""
        return not self.times and not self.varying

    @property
    def same(self) -> bool:
        """Tell whether all lanes have the same address."""
        return self.known and not any(self.apart)

    @property
    def stride(self) -> int | None:
        """Return by how many bytes each lane lies behind the one before it, if that is the same number for all."""
        return stride_of(self.apart) if self.known else None

    def lanes(self, value: int) -> Vector | None:
        """Return the lanes' distances from lane 0 where the only unknown product has a value; None: there are more."""
        if self.varying or len(self.times) > 1:
            return None
        lanes = self.apart
        for vector in self.times.values():
            lanes = tuple(signed((at + value * more) % WORD) for at, more in zip(lanes, vector, strict=True))
        return lanes


def stride_of(lanes: Sequence[int]) -> int | None:
    """Return the distance from each lane to the next, if it is the same for all."""
    step = lanes[1] - lanes[0]
    return step if all(lane == lanes[0] + step * index for index, lane in enumerate(lanes)) else None


@dataclass(frozen=True)
class KernelAddresses:
    """The memory requests of a kernel by the instruction's address and the space."""

    sums: LaneSums
    of: Mapping[tuple[int, Space], LaneAddress] = field(default_factory=dict)
    _leaves: dict[tuple[str, ...], frozenset[str]] = field(default_factory=dict, repr=False)
    _made_of: dict[str, tuple[str, ...]] = field(default_factory=dict, repr=False)
    _kinds: dict[str, frozenset[str]] = field(default_factory=dict, repr=False)

    def symbol(self, name: str) -> Symbol:
        """Return what a symbol stands for."""
        return self.sums.symbols.of[name]

    def leaves(self, *names: str) -> frozenset[str]:
        """Return what symbols follow from: arguments, launch, numbers of lanes, loaded values."""
        known = self._leaves.get(names)
        if known is None:
            known = self._leaves[names] = self._search(names)
        return known

    def _search(self, names: tuple[str, ...]) -> frozenset[str]:
        waiting, seen, leaves = list(names), set(names), set()
        while waiting and len(seen) < _MOST_LEAVES:
            name = waiting.pop()
            inner = self._made_of.get(name)
            if inner is None:
                inner = self._made_of[name] = tuple(dict.fromkeys(self._inner(name)))
            if not inner:
                leaves.add(name)
            new = [term for term in inner if term not in seen]
            seen.update(new)
            waiting += new
        return frozenset(leaves.union(waiting))

    def _inner(self, name: str) -> Iterator[str]:
        symbol = self.symbol(name)
        if symbol.kind in _LOADED:
            return
        yield from symbol.factors
        for held in self.sums.joins.get(name, ()):
            yield from (term for term, _ in held.terms)
        for place in symbol.reads:
            yield from (term for term, _ in self.sums.held(place).terms)

    def deciding(self, name: str) -> frozenset[str]:
        """Return what decides for all lanes together which of several values a symbol is; nothing if lanes differ."""
        symbol = self.symbol(name)
        places = list(self.sums.deciding(symbol.block) or ()) if symbol.kind == "join" else []
        if symbol.kind == "choice" or self._selects(symbol):
            places = [place for place in symbol.reads if "P" in place.name]
        terms = [term for place in places for term, _ in self.sums.held(place).terms]
        return self.leaves(*terms) if not any(self.symbol(term).varies for term in terms) else frozenset()

    def _selects(self, symbol: Symbol) -> bool:
        return symbol.kind == "result" and self._names.get(symbol.address) in {"SEL", "FSEL"}

    @cached_property
    def _names(self) -> Mapping[int | None, str]:
        """The names of the instructions by their addresses."""
        return {item.address: item.name for block in self.sums.graph.blocks for item in block}

    def looked_up(self, item: LaneAddress) -> bool | None:
        """Tell whether lanes differ by something loaded, and not by their index alone; None where that is not known."""
        kinds = [self._differ_by(name) for name in item.varying]
        if any(not of.isdisjoint(_LOADED) for of in kinds):
            return True
        return False if all(of == {"lanes"} for of in kinds) else None

    def _differ_by(self, name: str) -> frozenset[str]:
        """Return the kinds of what makes a symbol differ between lanes; of what was spilled that is not known."""
        known = self._kinds.get(name)
        if known is None:
            leaves = [leaf for leaf in map(self.symbol, self.leaves(name)) if leaf.varies]
            known = frozenset("local" if self._names.get(leaf.address) == "LDL" else leaf.kind for leaf in leaves)
            self._kinds[name] = known
        return known


def lane_addresses(
    code: Sequence[Instruction],
    block: tuple[int, int, int] | None,
    constants: Mapping[int, int],
    spaces: frozenset[str] = frozenset({"global", "generic", "shared"}),
) -> KernelAddresses | None:
    """Return what the addresses of a kernel's memory instructions are made of; None where its jumps are not known."""
    graph = graph_of(code)
    if graph is None:
        return None
    asked = [
        (number, index, request)
        for number, instructions in enumerate(graph.blocks)
        for index, instruction in enumerate(instructions)
        for request in requests(instruction)
        if request.space in spaces
    ]
    sums = LaneSums(graph, block, constants)
    held = sums.addresses([(number, index, request.operand) for number, index, request in asked])
    known = {}
    for (number, index, request), where in zip(asked, held, strict=True):
        if where is not None:
            item = _address(sums, graph, (number, index), request, where)
            known[item.instruction.address, request.space] = item
    return KernelAddresses(sums, known)


def _address(
    sums: LaneSums, graph: ControlFlowGraph, place: tuple[int, int], request: LaneRequest, where: Sum
) -> LaneAddress:
    number, index = place
    apart, times, varying = _split(sums, where)
    around = sorted((len(body), header) for header, body in graph.loops.items() if number in body)
    steps = (_step(sums, graph, header, where) for _, header in around)
    return LaneAddress(
        instruction=graph.blocks[number][index],
        request=request,
        block=number,
        index=index,
        apart=tuple(map(signed, apart)),
        times=times,
        varying=varying,
        base=" + ".join(f"{factor}·{symbol}" for symbol, factor in where.terms),
        offset=signed(where.number),
        step=next((step for step in steps if step != 0), None),
        loop=around[0][1] if around else None,
        moves=bool(around) and any(sums.symbols.of[name].block in graph.loops[around[0][1]] for name, _ in where.terms),
        aligned=_alignment(where),
    )


def _alignment(where: Sum) -> int:
    """Return a power of two that divides an address; the only symbol that is not multiplied is its pointer."""
    single = [name for name, factor in where.terms if factor == 1]
    factors = [factor for _, factor in where.terms if factor != 1]
    if len(single) != 1:
        return 1
    return min([_MOST_ALIGNED, *(factor & -factor for factor in (*factors, where.number) if factor)])


def _split(sums: LaneSums, where: Sum) -> tuple[Vector, dict[tuple[str, ...], Vector], tuple[str, ...]]:
    """Part a sum into what lanes are apart, the same times products of what they share, and what else differs."""
    parts: dict[tuple[str, ...], Vector] = {}
    varying = []
    for name, factor in where.terms:
        factors = sums.symbols.of[name].factors or (name,)
        shared = tuple(part for part in factors if not sums.symbols.of[part].varies)
        vectors = [sums.symbols.of[part].vector for part in factors if sums.symbols.of[part].varies]
        lanes = [factor] * LANES
        for vector in vectors:
            lanes = [lane * times % WORD for lane, times in zip(lanes, vector or _ZEROS, strict=True)]
        if None in vectors:
            varying += [
                part for part in factors if sums.symbols.of[part].varies and sums.symbols.of[part].vector is None
            ]
        elif vectors:
            known = parts.get(shared, _ZEROS)
            parts[shared] = tuple((before + lane) % WORD for before, lane in zip(known, lanes, strict=True))
    apart = parts.pop((), _ZEROS)
    return apart, {shared: vector for shared, vector in parts.items() if any(vector)}, tuple(dict.fromkeys(varying))


def _step(sums: LaneSums, graph: ControlFlowGraph, header: int, where: Sum) -> int | None:
    """Return by how much a turn of a loop moves an address; None where it is not the same number in each."""
    moved = 0
    for name, factor in where.terms:
        symbol = sums.symbols.of[name]
        if symbol.block not in graph.loops[header]:
            continue
        steps = {step for held in sums.joins.get(name, ()) for step in _steps(name, held)}
        if symbol.kind != "join" or symbol.block != header or len(steps) != 1:
            return None
        moved += signed(factor) * steps.pop()
    return moved


def _steps(name: str, held: Sum) -> Iterator[int]:
    own = name.removesuffix(" in all lanes")
    if (own, 1) in held.terms and len(held.terms) == 1:
        yield signed(held.number)
