"""The addresses of memory requests as sums of terms: distances between lanes, strides, unknowns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec import Struct

from gpuprof.sass.dataflow.definition_graph import PlacedRequest
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

    - The address of lane i minus that of lane 0 is `apart[i]` bytes, plus `times[factors][i]` times the product of
      `factors`, for each entry of `times`. Factors are symbols with the same value in all lanes.
    - `varying` are symbols whose values differ between lanes in an unknown way.
    - `base` identifies the address except for its constant part, `offset`: the distance of two accesses with the same
      base is the difference of their offsets.
    - `loop` is the header of the innermost loop around the request; `changes_in_loop`: that loop changes the address.
    - `step` is the number of bytes by which an iteration of the innermost loop that changes the address moves it. None
      if no loop does, or if that number is unknown.
    - `aligned` is the largest power of two, up to 128, that divides the address if it divides its pointer.
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
    changes_in_loop: bool
    aligned: int

    @property
    def known(self) -> bool:
        """Return whether the distances between lanes are known numbers."""
        return not self.times and not self.varying

    @property
    def same(self) -> bool:
        """Return whether all lanes have the same address."""
        return self.known and not any(self.apart)

    @property
    def stride(self) -> int | None:
        """Return the bytes from each lane to the next, if that is the same number for all lanes."""
        return stride_of(self.apart) if self.known else None

    def lanes(self, value: int) -> Vector | None:
        """Return the distances from lane 0 if the only unknown product has this value; None if there are several."""
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

    solution: Solution
    by_request: Mapping[tuple[int, Space], LaneAddress]
    _made_of: dict[str, tuple[str, ...]] = field(default_factory=dict, repr=False)

    def symbol(self, name: str) -> Symbol:
        """Return a symbol by its name."""
        return self.solution.symbols.by_name[name]

    def leaves(self, *names: str) -> frozenset[str]:
        """Return the symbols that these depend on in the end: arguments, launch sizes, lane indices, loaded values."""
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
            value = self.solution.value_of(place)
            factors = [factor for _, factor in value.terms]
            if not all(isinstance(lanes, int) for lanes in (value.lanes, *factors)):
                yield LANE
            yield from (term for term, _ in value.terms if term != name)

    def deciding(self, name: str) -> frozenset[str]:
        """Return the symbols of the conditions that select a symbol's value; none if lanes may differ in them."""
        symbol = self.symbol(name)
        places = list(self.solution.definitions.deciding(symbol.block)) if symbol.kind == "join" else []
        if symbol.kind == "choice" or symbol.opcode in {"SEL", "FSEL"}:
            places = [place for place in symbol.reads if "P" in place.name]
        values = [self.solution.value_of(place) for place in places]
        if any(map(self.solution.symbols.varies, values)):
            return frozenset()
        return self.leaves(*(term for value in values for term, _ in value.terms))

    def differs_by_loaded(self, item: LaneAddress) -> bool | None:
        """Return whether addresses differ by a loaded value: False if by the lane index alone, None if unknown."""
        kinds = [self._differ_by(name) for name in item.varying]
        if any(not of.isdisjoint(_LOADED) for of in kinds):
            return True
        return False if all(of == {"lanes"} for of in kinds) else None

    def _differ_by(self, name: str) -> frozenset[str]:
        """Return the kinds of the unknowns that differ between lanes; spilled values have the kind `local`."""
        leaves = [leaf for leaf in map(self.symbol, self.leaves(name)) if leaf.varies]
        return frozenset("local" if leaf.opcode == "LDL" else leaf.kind for leaf in leaves)


def addresses_of(
    solution: Solution, spaces: frozenset[str] = frozenset({"global", "generic", "shared"})
) -> KernelAddresses:
    """Return the addresses of memory requests, on all paths."""
    solution = solution.of_every_path()
    known: dict[tuple[int, Space], LaneAddress] = {}
    if not solution.settled:
        return KernelAddresses(solution, known)
    for placed in solution.definitions.requests:
        where = solution.address(placed) if placed.request.space in spaces else None
        if where is not None:
            known[placed.instruction.address, placed.request.space] = _address(solution, placed, where)
    return KernelAddresses(solution, known)


def _address(solution: Solution, placed: PlacedRequest, where: LinearExpr) -> LaneAddress:
    graph = solution.graph
    times, varying = _split(solution, where)
    around = graph.loops_around.get(placed.block, ())
    steps = (_step(solution, header, where) for header in around)
    body = graph.loops[around[0]] if around else frozenset()
    return LaneAddress(
        instruction=placed.instruction,
        request=placed.request,
        block=placed.block,
        index=placed.at,
        apart=apart(where.lanes),
        times=times,
        varying=varying,
        base=_base(where),
        offset=signed(_first(where.lanes)),
        step=next((step for step in steps if step != 0), None),
        loop=around[0] if around else None,
        changes_in_loop=any(solution.symbols.by_name[name].block in body for name, _ in where.terms),
        aligned=_alignment(where),
    )


def _base(where: LinearExpr) -> str:
    """Return a name for an address without the constant part of lane 0."""
    vectors = [apart(where.lanes), *(factor for _, factor in where.terms if not isinstance(factor, int))]
    return " + ".join([f"{hash(tuple(vectors)):x}", *(f"{_first(factor)}·{name}" for name, factor in where.terms)])


def _first(lanes: Lanes) -> int:
    return spread(lanes)[0]


def _alignment(where: LinearExpr) -> int:
    """Return a power of two that divides an address; the only symbol without a factor is its pointer."""
    if sum(lanes == 1 for _, lanes in where.terms) != 1:
        return 1
    numbers = set(spread(where.lanes))
    for _, factor in where.terms:
        numbers.update(spread(factor))
    return min([_MOST_ALIGNED, *(number & -number for number in numbers - {0, 1})])


def _split(solution: Solution, where: LinearExpr) -> tuple[dict[tuple[str, ...], Vector], tuple[str, ...]]:
    """Return the distances of lanes by products of shared symbols, and the symbols that vary between lanes."""
    times = {}
    varying: dict[str, None] = {}
    for name, factor in where.terms:
        factors = solution.symbols.factors(name)
        if solution.symbols.by_name[name].varies:
            varying.update((part, None) for part in factors if solution.symbols.by_name[part].varies)
        elif not isinstance(factor, int):
            times[factors] = tuple([lane % WORD for lane in apart(factor)])
    return times, tuple(varying)


def _step(solution: Solution, header: int, where: LinearExpr) -> int | None:
    """Return the bytes by which an iteration of a loop moves an address; None if they are not constant."""
    moved = 0
    for name, factor in where.terms:
        symbol = solution.symbols.by_name[name]
        if symbol.block not in solution.graph.loops[header]:
            continue
        if symbol.kind != "join" or symbol.place is None or symbol.block != header or not isinstance(factor, int):
            return None
        step = solution.induction(symbol.place).step
        own = dict(solution.value_of(symbol.place).terms).get(name)
        if step is None or not isinstance(own, int):
            return None
        moved += signed(factor) * step // signed(own)
    return moved
