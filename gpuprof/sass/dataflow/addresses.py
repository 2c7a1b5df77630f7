"""The terms of the addresses of each memory instruction: distances between lanes, strides, and unknowns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec import Struct

from gpuprof.sass.dataflow.definition_graph import AskedRequest
from gpuprof.sass.dataflow.expressions import LANE, WORD, Lanes, LinearExpr, Symbol, apart, signed, spread
from gpuprof.sass.dataflow.solution import Solution
from gpuprof.sass.instruction import Instruction
from gpuprof.sass.requests import LaneRequest, Space

_MOST_LEAVES = 400
_MOST_ALIGNED = 128
_LOADED = frozenset({"loaded", "shared"})

Vector = tuple[int, ...]
"""A number for each lane."""


class LaneAddress(Struct, frozen=True, kw_only=True):
    """The address of one memory request in the lanes of a warp.

    Lane i lies `apart[i]` bytes behind lane 0, and `times[factors][i]` bytes more for each product of `factors`, which
    are symbols that all lanes share. `varying` are symbols that lanes do not share, of which no more is known.

    `base` names all of the address but its constant part, `offset`: accesses of one base lie as far apart as their
    offsets. `loop` is the first block of the innermost loop around it; `moves`: that loop changes it. `step` is by how
    many bytes the innermost loop that changes it does so in each turn; None if none does, or not by a number.
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
        """Return whether the distances of the lanes are numbers."""
        return not self.times and not self.varying

    @property
    def same(self) -> bool:
        """Return whether all lanes have the same address."""
        return self.known and not any(self.apart)

    @property
    def stride(self) -> int | None:
        """Return by how many bytes each lane lies behind the one before it, if that is the same number for all."""
        return stride_of(self.apart) if self.known else None

    def lanes(self, value: int) -> Vector | None:
        """Return the distances from lane 0 if the only unknown product has this value; None if there are more."""
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

    sums: Solution
    of: Mapping[tuple[int, Space], LaneAddress]
    _made_of: dict[str, tuple[str, ...]] = field(default_factory=dict, repr=False)

    def symbol(self, name: str) -> Symbol:
        """Return a symbol by its name."""
        return self.sums.symbols.of[name]

    def leaves(self, *names: str) -> frozenset[str]:
        """Return what symbols follow from: arguments, launch, numbers of lanes, loaded values."""
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
        for place in symbol.reads:
            held = self.sums.held(place)
            if not all(isinstance(lanes, int) for lanes in (held.lanes, *(factor for _, factor in held.terms))):
                yield LANE
            yield from (term for term, _ in held.terms if term != name)

    def deciding(self, name: str) -> frozenset[str]:
        """Return what decides for all lanes together which of several values a symbol is; nothing if lanes differ."""
        symbol = self.symbol(name)
        places = list(self.sums.definitions.deciding(symbol.block)) if symbol.kind == "join" else []
        if symbol.kind == "choice" or symbol.opcode in {"SEL", "FSEL"}:
            places = [place for place in symbol.reads if "P" in place.name]
        held = [self.sums.held(place) for place in places]
        if any(map(self.sums.symbols.varies, held)):
            return frozenset()
        return self.leaves(*(term for value in held for term, _ in value.terms))

    def looked_up(self, item: LaneAddress) -> bool | None:
        """Return whether lanes differ by something loaded, and not by their index alone; None if that is not known."""
        kinds = [self._differ_by(name) for name in item.varying]
        if any(not of.isdisjoint(_LOADED) for of in kinds):
            return True
        return False if all(of == {"lanes"} for of in kinds) else None

    def _differ_by(self, name: str) -> frozenset[str]:
        """Return the kinds of the unknowns by which lanes differ; those of spilled values are not known."""
        leaves = [leaf for leaf in map(self.symbol, self.leaves(name)) if leaf.varies]
        return frozenset("local" if leaf.opcode == "LDL" else leaf.kind for leaf in leaves)


def addresses_of(
    solution: Solution, spaces: frozenset[str] = frozenset({"global", "generic", "shared"})
) -> KernelAddresses:
    """Return the terms of the addresses of memory instructions, on every path."""
    solution = solution.of_every_path()
    known = {}
    for asked in solution.definitions.asked if solution.settled else ():
        where = solution.address(asked) if asked.request.space in spaces else None
        if where is not None:
            known[asked.instruction.address, asked.request.space] = _address(solution, asked, where)
    return KernelAddresses(solution, known)


def _address(solution: Solution, asked: AskedRequest, where: LinearExpr) -> LaneAddress:
    graph = solution.graph
    times, varying = _split(solution, where)
    around = graph.loops_around.get(asked.block, ())
    steps = (_step(solution, header, where) for header in around)
    body = graph.loops[around[0]] if around else frozenset()
    return LaneAddress(
        instruction=asked.instruction,
        request=asked.request,
        block=asked.block,
        index=asked.at,
        apart=apart(where.lanes),
        times=times,
        varying=varying,
        base=_base(where),
        offset=signed(_first(where.lanes)),
        step=next((step for step in steps if step != 0), None),
        loop=around[0] if around else None,
        moves=any(solution.symbols.of[name].block in body for name, _ in where.terms),
        aligned=_alignment(where),
    )


def _base(where: LinearExpr) -> str:
    """Return a name for all of an address but the number of the first lane."""
    vectors = [apart(where.lanes), *(factor for _, factor in where.terms if not isinstance(factor, int))]
    return " + ".join([f"{hash(tuple(vectors)):x}", *(f"{_first(factor)}·{name}" for name, factor in where.terms)])


def _first(lanes: Lanes) -> int:
    return spread(lanes)[0]


def _alignment(where: LinearExpr) -> int:
    """Return a power of two that divides an address; the only symbol that is not multiplied is its pointer."""
    if sum(lanes == 1 for _, lanes in where.terms) != 1:
        return 1
    numbers = {number for lanes in (where.lanes, *(lanes for _, lanes in where.terms)) for number in spread(lanes)}
    return min([_MOST_ALIGNED, *(number & -number for number in numbers - {0, 1})])


def _split(solution: Solution, where: LinearExpr) -> tuple[dict[tuple[str, ...], Vector], tuple[str, ...]]:
    """Return how far lanes are apart by products of what they share, and the other symbols that differ."""
    times = {}
    varying: dict[str, None] = {}
    for name, factor in where.terms:
        factors = solution.symbols.factors(name)
        if solution.symbols.of[name].varies:
            varying.update((part, None) for part in factors if solution.symbols.of[part].varies)
        elif not isinstance(factor, int):
            times[factors] = tuple([lane % WORD for lane in apart(factor)])
    return times, tuple(varying)


def _step(solution: Solution, header: int, where: LinearExpr) -> int | None:
    """Return the bytes by which an iteration of a loop moves an address; None if they are not always the same."""
    moved = 0
    for name, factor in where.terms:
        symbol = solution.symbols.of[name]
        if symbol.block not in solution.graph.loops[header]:
            continue
        if symbol.kind != "join" or symbol.place is None or symbol.block != header or not isinstance(factor, int):
            return None
        step = solution.moves(symbol.place).step
        own = dict(solution.held(symbol.place).terms).get(name)
        if step is None or not isinstance(own, int):
            return None
        moved += signed(factor) * step // signed(own)
    return moved
