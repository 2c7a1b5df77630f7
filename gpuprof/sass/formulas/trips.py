"""How often loops run, where their code makes that a constant.

A loop counts where one branch alone leaves it, by a comparison of a register that each turn moves by the same number
with one that the loop does not change, and both begin with numbers that are known. The turns are those of the machine
code: of a loop that the compiler unrolled four times there is one turn for four of the source.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from msgspec import Struct

from gpuprof.sass.flow.graph import ENDS, ControlFlowGraph, graph_of
from gpuprof.sass.formulas.numbers import BlockPlace, NumberFinder
from gpuprof.sass.formulas.sums import START, Sum, SumReader, at_start, result_of
from gpuprof.sass.instruction import Instruction
from gpuprof.sass.lanes.values import WORD, signed
from gpuprof.sass.operands import named, sources

_OPPOSITE = {"LT": "GE", "GE": "LT", "LE": "GT", "GT": "LE", "EQ": "NE", "NE": "EQ"}
_TURNED = {"LT": "GT", "GT": "LT", "LE": "GE", "GE": "LE", "EQ": "EQ", "NE": "NE"}
_COMPARISONS = {"ISETP", "UISETP"}
_BRANCHES = {"BRA", "BRA.U", "CALL.REL.NOINC"}
_END_THREADS = {*ENDS, "BREAK", "BPT"}
_DEEPEST = 12
"""So many instructions lie between a counter and what it is compared as, at most."""


def trip_counts(code: Sequence[Instruction], constants: Mapping[int, int]) -> dict[int, int]:
    """Return how often loops run each time that they are entered, by the address of the header, where that is known.

    `constants` are the known bytes of constant bank 0 by their offset.
    """
    graph = graph_of(code)
    if graph is None or not graph.loops:
        return {}
    kernel = _Kernel(graph, constants)
    counts = {}
    for header, body in graph.loops.items():
        own = frozenset(block for block in body if graph.loops_around[block][0] == header)
        count = _Loop(kernel, header, body=body, own=own).count()
        if count is not None:
            counts[graph.blocks[header][0].address] = count
    return counts


class _Comparison(Struct, frozen=True):
    """The loop goes on where a register that it moves compares so with one that it does not."""

    moved: Sum
    limit: str
    how: str
    unsigned: bool


class _Kernel:
    """What all loops of a kernel ask. `ending` are the blocks in which threads may end."""

    def __init__(self, graph: ControlFlowGraph, constants: Mapping[int, int]) -> None:
        self.graph, self.finder = graph, NumberFinder(graph, constants)
        self.ending = frozenset(number for number, block in enumerate(graph.blocks) if _ends_threads(block))

    @cached_property
    def writing(self) -> Mapping[str, Sequence[int]]:
        """Return the blocks that may write each register, themselves or by a call."""
        writing: dict[str, list[int]] = {}
        for number, names in enumerate(self.graph.written):
            for name in names or ():
                writing.setdefault(name, []).append(number)
        return writing


def _ends_threads(block: Sequence[Instruction]) -> bool:
    return any(instruction.name in _END_THREADS and not instruction.idle for instruction in block)


class _Loop:
    """One loop. `own` are its blocks that are in no loop inside it."""

    def __init__(self, kernel: _Kernel, header: int, *, body: frozenset[int], own: frozenset[int]) -> None:
        self._kernel, self._graph, self._finder = kernel, kernel.graph, kernel.finder
        self._header, self._body, self._own = header, body, own
        self._back = [block for block in kernel.graph.predecessors()[header] if block in body]
        self._known: dict[str, list[BlockPlace]] = {}

    def count(self) -> int | None:
        """Return how often it runs; None where that is not known."""
        exit_block = self._exit()
        if exit_block is None:
            return None
        comparison = self._comparison(exit_block)
        if comparison is None or len(comparison.moved.terms) != 1 or comparison.moved.terms[0][1] != 1:
            return None
        name = comparison.moved.terms[0][0].removeprefix(START)
        step = self._step(name)
        begin = self._finder.on_entry(self._header, self._body, name)
        limit = self._finder.operand_on_entry(self._header, self._body, comparison.limit)
        if step is None or begin is None or limit is None:
            return None
        first = (begin + comparison.moved.number) % WORD
        return _turns(first, step, limit=limit, how=comparison.how, unsigned=comparison.unsigned)

    def _exit(self) -> int | None:
        """Return the block with the only branch that leaves the loop, if each turn ends with it."""
        if len(self._back) != 1 or not self._body.isdisjoint(self._kernel.ending):
            return None
        leaving = {block for block in self._body if not self._body.issuperset(self._graph.successors[block])}
        if len(leaving) != 1 or not leaving <= self._own:
            return None
        if any(self._graph.written[block] is None for block in self._body):
            return None
        (exit_block,) = leaving
        return exit_block if self._ends_turn(exit_block) else None

    def _ends_turn(self, block: int) -> bool:
        """Tell whether nothing follows a block in a turn but a jump: `@P0 CALL.REL.NOINC 0x90`, then `BRA 0x10`."""
        back = self._back[0]
        lone_jump = len(self._graph.blocks[back]) == 1 and self._graph.predecessors()[back] == [block]
        return back == block or lone_jump

    def _comparison(self, block: int) -> _Comparison | None:
        """Return what the last branch of a block goes back by."""
        branch = self._graph.blocks[block][-1]
        flags = [branch.predicate[1:]] if branch.predicate else []
        flags += branch.operands[:-1]
        if branch.opcode not in _BRANCHES or len(flags) != 1:
            return None
        negated, name = flags[0].startswith("!"), flags[0].lstrip("!")
        place = self._last_writer(name, BlockPlace(block, len(self._graph.blocks[block]) - 1))
        copied = _copied_flag(self._instruction(place)) if place is not None else None
        if place is not None and copied is not None:
            place, name = self._last_writer(copied, place), copied
        if place is None or branch.target is None:
            return None
        compare = self._instruction(place)
        back = any(branch.target == self._graph.blocks[inside][0].address for inside in (self._header, *self._back))
        return self._compared(compare, place, name, goes_on_if_true=back != negated)

    def _compared(
        self, compare: Instruction, place: BlockPlace, flag: str, *, goes_on_if_true: bool
    ) -> _Comparison | None:
        """Read `ISETP.LT.AND P0, PT, R2, 0x20, PT`."""
        kinds = compare.opcode.split(".")
        if compare.name not in _COMPARISONS or len(compare.operands) != 5 or compare.predicate is not None:
            return None
        if kinds[1:] not in ([kinds[1], "AND"], [kinds[1], "U32", "AND"]) or kinds[1] not in _OPPOSITE:
            return None
        first, _, left, right, third = compare.operands
        if third not in {"PT", "UPT"}:
            return None
        how = kinds[1] if (first == flag) == goes_on_if_true else _OPPOSITE[kinds[1]]
        unsigned = "U32" in kinds
        if self._keeps(right):
            moved, limit = self._at(left, place), right
        elif self._keeps(left):
            moved, limit, how = self._at(right, place), left, _TURNED[how]
        else:
            return None
        return None if moved is None else _Comparison(moved, limit, how=how, unsigned=unsigned)

    def _keeps(self, operand: str) -> bool:
        """Tell whether the loop changes nothing of an operand."""
        return not any(self._writers(name) for name in named(operand))

    def _step(self, name: str) -> int | None:
        """Return by how much a turn moves a register; None where it is not the same number in each."""
        end = self._back[0]
        held = self._register_at(name, BlockPlace(end, len(self._graph.blocks[end])), _DEEPEST)
        if held is None or held.terms != at_start(name).terms:
            return None
        return signed(held.number) or None

    def _at(self, operand: str, place: BlockPlace) -> Sum | None:
        """Return what an operand is at a place, as a sum of what registers hold when a turn begins."""
        names = named(operand)
        if len(names) != 1:
            return None
        held = self._register_at(names[0], place, _DEEPEST)
        reader = SumReader({names[0]: held}, {}) if held is not None else None
        return reader.word(operand) if reader is not None else None

    def _register_at(self, name: str, place: BlockPlace, depth: int) -> Sum | None:
        """Return what a register holds at a place that every turn comes to once."""
        if depth == 0:
            return None
        if not self._writers(name):
            return at_start(name)
        writer = self._last_writer(name, place)
        if writer is None:
            return None
        if not self._before(writer, place):
            return at_start(name)
        instruction = self._instruction(writer)
        names = {read for operand in sources(instruction) for read in named(operand)}
        state = {read: self._register_at(read, writer, depth - 1) for read in names}
        known = {read: held for read, held in state.items() if held is not None}
        if len(known) < len(names) or instruction.operands[:1] != (name,):
            return None
        return result_of(instruction, SumReader(known, self._finder.constants), _no_product)

    def _before(self, first: BlockPlace, second: BlockPlace) -> bool:
        """Tell whether a place comes before another in a turn."""
        if first.block == second.block:
            return first.at < second.at
        return self._graph.tree.dominates(first.block, second.block)

    def _last_writer(self, name: str, place: BlockPlace) -> BlockPlace | None:
        """Return what writes a register last before a place: in its block, or the one place of the loop that does.

        None where that is not known, or not done in every turn.
        """
        beside = self._graph.writers[place.block].get(name, ())
        nearest = bisect_left(beside, place.at) - 1
        if nearest >= 0:
            last = BlockPlace(place.block, beside[nearest])
            return last if not self._instruction(last).predicate else None
        writers = self._writers(name)
        if len(writers) != 1 or writers[0].block not in self._own:
            return None
        place = writers[0]
        always = all(self._graph.tree.dominates(place.block, block) for block in self._back)
        return place if always and place.at >= 0 and not self._instruction(place).predicate else None

    def _instruction(self, place: BlockPlace) -> Instruction:
        return self._graph.blocks[place.block][place.at]

    def _writers(self, name: str) -> Sequence[BlockPlace]:
        """Return where the loop may write a register; -1 in a block stands for a function that is called."""
        if name not in self._known:
            blocks = self._body.intersection(self._kernel.writing.get(name, ()))
            self._known[name] = [BlockPlace(block, at) for block in blocks for at in self._places(block, name)]
        return self._known[name]

    def _places(self, block: int, name: str) -> Iterator[int]:
        yield from self._graph.writers[block].get(name, ())
        if name in (self._graph.called.get(block) or ()):
            yield -1


def _copied_flag(instruction: Instruction) -> str | None:
    """Return the predicate that `PLOP3.LUT P6, PT, PT, PT, UP2, 0x80, 0x0` copies: the table is that of AND."""
    _, *others, flag, table, _ = instruction.operands if len(instruction.operands) == 7 else ("",) * 4
    plain = instruction.opcode == "PLOP3.LUT" and table == "0x80" and set(others) == {"PT"}
    return flag if plain and not flag.startswith("!") and flag not in {"PT", "UPT"} else None


def _no_product(first: Sum, second: Sum) -> Sum:
    """Stand for a product of two registers: it is no register of the loop."""
    return Sum(0, ((f"{first} × {second}", 1),))


def _turns(first: int, step: int, *, limit: int, how: str, unsigned: bool) -> int | None:
    """Return how often a loop runs whose counter is compared at the end of each turn; None where it wraps around."""
    read = int if unsigned else signed
    low, high = (0, WORD - 1) if unsigned else (-WORD // 2, WORD // 2 - 1)
    begin, end = read(first), read(limit)
    if how in {"GT", "GE"}:
        begin, end, step, low, high = -begin, -end, -step, -high, -low
        how = {"GT": "LT", "GE": "LE"}[how]
    if how == "EQ":
        return 1 if begin != end else 2
    if how == "NE":
        more, rest = divmod(end - begin, step)
        return more + 1 if rest == 0 and more >= 0 else None
    more = end - begin if how == "LT" else end - begin + 1
    if more <= 0:
        return 1
    turns = -(-more // step) if step > 0 else -1
    return turns + 1 if step > 0 and begin + turns * step <= high else None
