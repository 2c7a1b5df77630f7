"""The data-flow solver: values of registers and active lanes in one warp, for all paths and loop iterations.

It is sparse conditional propagation: a value is evaluated again only if one that it depends on has changed, and only
along edges that lanes may take (Wegman and Zadeck, Constant Propagation with Conditional Branches, 1991). Values that
join become an expression with an unknown that lanes share. Each further change of a join makes it less precise, so the
solver terminates.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from heapq import heappop, heappush
from typing import NamedTuple

from gpuprof.sass.dataflow.definition_graph import DefinitionGraph
from gpuprof.sass.dataflow.evaluation import join_name
from gpuprof.sass.dataflow.expressions import (
    ONE,
    UNIFORM,
    WORD_BITS,
    LinearExpr,
    Symbol,
    by_mask,
    exactly,
    lane_mask,
    zero_bits,
)
from gpuprof.sass.dataflow.operand_reader import OperandReader
from gpuprof.sass.dataflow.reaching_definitions import Definition
from gpuprof.sass.dataflow.warps import ThreadBlock
from gpuprof.sass.instruction import JUMPS

_LEAST_STEPS = 20_000
_STEPS_PER_NODE = 16
"""Limits on evaluations and the terms of their results; compiled kernels take at most four for each node."""
_BOTTOM = -1


class _Part(NamedTuple):
    """The value of a register on an edge into a block: the predecessor, the value, and the lanes that take the edge."""

    source: int
    value: LinearExpr
    lanes: int


class Solver:
    """The values of one kernel in one warp: `value_of` a definition, `active` lanes of a block.

    `settled`: the solver terminated within its limits; otherwise nothing is known. `constants` are known bytes of
    constant bank 0. With `every_path`, lanes may take both sides of each branch, even if its condition is known.
    """

    def __init__(
        self,
        definitions: DefinitionGraph,
        warp: ThreadBlock,
        constants: Mapping[int, int],
        *,
        every_path: bool = False,
    ) -> None:
        self.definitions = definitions
        self.graph = definitions.graph
        self._before = definitions.reaching.before
        self.warp = warp
        self.constants = constants
        self._every_path = every_path
        self.evaluation = definitions.evaluation(constants)
        self.symbols = self.evaluation.symbols
        self.active: dict[int, int] = {}
        self._values: list[LinearExpr | None] = [None] * len(definitions.nodes)
        self._edges: dict[tuple[int, int], int] = {}
        """The lanes that may take each edge."""
        self._joined: dict[Definition, int] = {}
        """The precision of each join: its unknown is a multiple of 2^precision; `_BOTTOM` if nothing is known."""
        self._divergent_writes: dict[int, frozenset[str]] = {}
        """Registers that lanes may have written on different paths before they reconverge in a block."""
        self._diverged: set[int] = set()
        self._not_taken: set[tuple[int, int]] = set()
        """Edges that no lane took when their block was last evaluated, or before."""
        self._queue: list[int] = []
        self._queued: set[int] = set()
        self.settled = self._solve()

    def value_of(self, place: Definition) -> LinearExpr:
        """Return the value of a definition; an unknown value if it was not reached."""
        number = self.definitions.numbers.get(place)
        known = self._values[number] if number is not None else None
        return known if known is not None else self.evaluation.named(place, None)

    def read_by(self, block: int, at: int, name: str) -> Definition:
        """Return the definition of a register that an instruction reads."""
        return self.definitions.read_by(block, at, name)

    def reader(self, block: int, at: int, operands: Iterable[str]) -> OperandReader:
        """Return a reader for operands of an instruction."""
        known = {place.name: self.value_of(place) for place in self.definitions.read_in(block, at, operands)}
        return self.evaluation.reader(known, self.active.get(block, 0), self.warp)

    def _solve(self) -> bool:
        for entry in self.graph.entries:
            self._reach(entry)
        left = _LEAST_STEPS + _STEPS_PER_NODE * len(self.definitions.nodes)
        while self._queue:
            number = heappop(self._queue)
            self._queued.discard(number)
            left -= 1
            if left < 0:
                return False
            node = self.definitions.nodes[number]
            if node.place is None and number == self.definitions.of_block[node.block].start:
                self._begin(node.block)
            elif node.block not in self.active:
                continue
            elif node.place is None:
                self._end(node.block)
            else:
                value = self._evaluate(node.place, self.definitions.reads[number])
                left -= len(value.terms) if value is not None else 0
                if value is not None and value != self._values[number]:
                    self._values[number] = value
                    self._add(self.definitions.users[number])
        return True

    def _add(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            if number not in self._queued:
                self._queued.add(number)
                heappush(self._queue, number)

    def _reach(self, block: int) -> None:
        self._add([self.definitions.of_block[block][0]])

    def _begin(self, block: int) -> None:
        active = self.warp.lanes if block in self.graph.entries else 0
        for source in self._before[block]:
            active |= self._edges.get((source, block), 0)
        if active != self.active.get(block):
            self.active[block] = active
            self._add(self.definitions.of_block[block][1:])

    def _end(self, block: int) -> None:
        """Pass the lanes that leave a block to its successors."""
        last, successors = self.graph.blocks[block][-1], self.graph.successors[block]
        flag = self._lanes_that_jump(block)
        mask = lane_mask(flag)
        targets = []
        for target in successors:
            lanes = self.active[block]
            if mask is not None and (len(successors) > 1 or last.name not in JUMPS):
                lanes &= mask if last.target == self.graph.blocks[target][0].address else ~mask
            if not lanes and self._every_path:
                lanes = self.active[block]
            if not lanes:
                self._not_taken.add((block, target))
                continue
            targets.append(target)
            if lanes != self._edges.get((block, target)):
                self._edges[block, target] = lanes
                self._reach(target)
                self._add_joins(target)
        is_uniform = flag is not None and isinstance(flag.lanes, int) and (mask is None or self._every_path)
        if len(targets) > 1 and not is_uniform and block not in self._diverged:
            self._diverge(block)

    def _lanes_that_jump(self, block: int) -> LinearExpr | None:
        """Return the predicate of the lanes in which the last instruction of a block jumps or ends threads."""
        last = self.graph.blocks[block][-1]
        if last.branches_on_divergence and last.predicate is None:
            return UNIFORM
        conditions = self.definitions.conditions(block)
        if not conditions:
            return ONE if self.definitions.jumps_or_ends(block) else None
        reader = self.reader(block, len(self.graph.blocks[block]) - 1, conditions)
        return exactly(lambda *values: int(all(values)), *map(reader.flag_view, conditions))

    def _add_joins(self, block: int) -> None:
        nodes = self.definitions.nodes
        for number in self.definitions.of_block[block][1:-1]:
            place = nodes[number].place
            if place is None or place.at >= 0:
                break
            self._add([number])

    def _diverge(self, block: int) -> None:
        """Record where lanes that diverge at the end of a block reconverge."""
        self._diverged.add(block)
        merge = self.graph.reconvergence(block)
        for target in merge.blocks:
            self._divergent_writes[target] = self._divergent_writes.get(target, frozenset()) | merge.written
            if target in self.definitions.of_block:
                self._add_joins(target)

    # Values

    def _evaluate(self, place: Definition, reads: Sequence[int]) -> LinearExpr | None:
        if place.at < 0:
            return self._join(place, reads)
        read = tuple([known for number in reads if (known := self._values[number]) is not None])
        if len(read) < len(reads):
            read = tuple(map(self.value_of, self.definitions.reaching.sources(place)))
        return self.evaluation.value(place, read, self.active[place.block], self.warp)

    # Joins

    def _join(self, place: Definition, ways: Sequence[int]) -> LinearExpr | None:
        if not ways:
            return self._start(place)
        old = self._values[self.definitions.numbers[place]]
        if self._joined.get(place) == _BOTTOM:
            return old
        parts = []
        for source, way in zip(self._before[place.block], ways, strict=True):
            known = self._values[way]
            lanes = self._edges.get((source, place.block))
            if known is not None and lanes:
                parts.append(_Part(source, known, lanes))
        if not parts:
            return None
        if self._joins_by_lane(place) and not self._is_one_value(place.block, parts):
            met = self._joined_lane_by_lane(place, parts)
            if old is not None and met != old:
                met = None
        else:
            met = self._joined_value(place, [part.value for part in parts])
        if met is None:
            self._joined[place] = _BOTTOM
        return self.evaluation.named(place, met)

    def _start(self, place: Definition) -> LinearExpr:
        """Return the value of a register at an entry, or after a call that may have written it."""
        begins = self.graph.entries == (place.block,) and not self._before[place.block]
        varies = not (begins or place.name.startswith("U") or place.name == "R1")
        symbol = Symbol(kind="start", varies=varies, block=place.block)
        return self.symbols.new(f"start {place.block} {place.name}", symbol)

    def _joins_by_lane(self, place: Definition) -> bool:
        """Return whether lanes that took different paths may have different values of this register here."""
        is_written = place.name in self._divergent_writes.get(place.block, frozenset())
        return is_written and not place.name.startswith("U")

    def _is_one_value(self, block: int, parts: Sequence[_Part]) -> bool:
        """Return whether all entries of a loop have one value, and all its back edges have one value."""
        body = self.graph.loops.get(block)
        if body is None:
            return False
        values = {(part.source in body, part.value) for part in parts}
        return len(values) == len({is_inside for is_inside, _ in values})

    def _joined_value(self, place: Definition, values: Sequence[LinearExpr]) -> LinearExpr | None:
        """Join values that all lanes share: the first, plus an unknown multiple of their differences."""
        own = f"{join_name(place)} in all lanes"
        first = next((value for value in values if not any(name == own for name, _ in value.terms)), values[0])
        align = self._joined.get(place, WORD_BITS)
        for value in values:
            if value == first:
                continue
            rest = value.plus(first, -1)
            unknown = self.symbols.unknown_align(rest)
            if unknown is None or not isinstance(rest.lanes, int):
                return None
            align = min(align, unknown, zero_bits(rest.lanes))
        if align < WORD_BITS:
            self._joined[place] = align
        return first._replace(align=align)

    def _joined_lane_by_lane(self, place: Definition, parts: Sequence[_Part]) -> LinearExpr | None:
        """Join values of lanes that took different paths, lane by lane; None if that is unknown."""
        _, first, taken = parts[0]
        if any(self._changes_in_inner_loop(place.block, name) for name, _ in first.terms):
            return None
        lanes = first.lanes
        for _, value, mask in parts[1:]:
            mixed = by_mask(mask, value.lanes, lanes)
            if value.plus(first, -1).terms or by_mask(taken & mask, mixed, lanes) != lanes:
                return None
            lanes = mixed
            taken |= mask
        return first._replace(lanes=lanes)

    def _changes_in_inner_loop(self, block: int, name: str) -> bool:
        """Return whether a symbol comes from a loop that does not contain this block: it may differ by iteration."""
        around = self.graph.loops_around.get(self.symbols.by_name[name].block, ())
        return any(block not in self.graph.loops[header] for header in around)
