"""How often loops run, if their code makes that a constant.

That is known if one branch alone leaves a loop, by a comparison of a register that each iteration moves by the same
number with one that the loop does not change, and both begin with known numbers. The iterations are those of the
machine code: of a loop that the compiler unrolled four times there is one iteration for four of the source.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from gpuprof.sass.dataflow.expressions import WORD, LinearExpr, number_of, signed
from gpuprof.sass.dataflow.reaching_definitions import RegisterPlace
from gpuprof.sass.dataflow.solution import Solution
from gpuprof.sass.flow.graph import ENDS
from gpuprof.sass.instruction import Instruction

_OPPOSITE = {"LT": "GE", "GE": "LT", "LE": "GT", "GT": "LE", "EQ": "NE", "NE": "EQ"}
_TURNED = {"LT": "GT", "GT": "LT", "LE": "GE", "GE": "LE", "EQ": "EQ", "NE": "NE"}
_COMPARISONS = {"ISETP", "UISETP"}
_BRANCHES = {"BRA", "BRA.U", "CALL.REL.NOINC"}
_END_THREADS = {*ENDS, "BREAK", "BPT"}


def trip_counts_of(solution: Solution) -> dict[int, int]:
    """Return how often loops run each time that they are entered, by the address of the header, if that is known."""
    solution = solution.of_every_path()
    graph = solution.graph
    counts = {}
    for header, body in graph.loops.items() if solution.settled else ():
        count = _Loop(solution, header, body).count()
        if count is not None:
            counts[graph.blocks[header][0].address] = count
    return counts


class _Comparison(Struct, frozen=True):
    """The loop continues if a counter compares so with a number. `begin`: the counter of the first iteration."""

    begin: int
    step: int
    limit: int
    how: str
    unsigned: bool


class _Loop:
    """One loop."""

    def __init__(self, solution: Solution, header: int, body: frozenset[int]) -> None:
        self._solution, self._graph = solution, solution.graph
        self._header, self._body = header, body
        self._back = [block for block in solution.graph.predecessors()[header] if block in body]

    def count(self) -> int | None:
        """Return how often it runs; None if that is not known."""
        exit_block = self._exit()
        comparison = self._comparison(exit_block) if exit_block is not None else None
        return _turns(comparison) if comparison is not None else None

    def _exit(self) -> int | None:
        """Return the block with the only branch that leaves the loop, if each iteration ends with it."""
        graph, body = self._graph, self._body
        if len(self._back) != 1 or any(_ends_threads(graph.blocks[block]) for block in body):
            return None
        leaving = {block for block in body if not body.issuperset(graph.successors[block])}
        if len(leaving) != 1 or any(graph.written[block] is None for block in body):
            return None
        (exit_block,) = leaving
        is_own = graph.loops_around[exit_block][0] == self._header
        return exit_block if is_own and self._ends_iteration(exit_block) else None

    def _ends_iteration(self, block: int) -> bool:
        """Return whether nothing but a jump follows a block: `@P0 CALL.REL.NOINC 0x90`, then `BRA 0x10`."""
        back = self._back[0]
        lone_jump = len(self._graph.blocks[back]) == 1 and self._graph.predecessors()[back] == [block]
        return back == block or lone_jump

    def _comparison(self, block: int) -> _Comparison | None:
        """Return the comparison by which the last branch of a block goes back."""
        branch = self._graph.blocks[block][-1]
        flags = self._solution.definitions.conditions(block)
        if branch.opcode not in _BRANCHES or len(flags) != 1 or branch.target is None:
            return None
        negated, flag = flags[0].startswith("!"), flags[0].lstrip("!")
        place = self._solution.read_by(block, len(self._graph.blocks[block]) - 1, flag)
        copied = _copied_flag(self._written_by(place))
        if copied is not None:
            flag = copied
            place = self._solution.read_by(place.block, place.at, flag)
        compare = self._written_by(place)
        back = any(branch.target == self._graph.blocks[inside][0].address for inside in (self._header, *self._back))
        return self._compared(compare, place, flag, continues_if_true=back != negated) if compare else None

    def _written_by(self, place: RegisterPlace) -> Instruction | None:
        return self._graph.blocks[place.block][place.at] if place.at >= 0 and place.block in self._body else None

    def _compared(
        self, compare: Instruction, place: RegisterPlace, flag: str, *, continues_if_true: bool
    ) -> _Comparison | None:
        """Read `ISETP.LT.AND P0, PT, R2, 0x20, PT`."""
        kinds = compare.opcode.split(".")
        if compare.name not in _COMPARISONS or len(compare.operands) != 5 or compare.predicate is not None:
            return None
        if kinds[1:] not in ([kinds[1], "AND"], [kinds[1], "U32", "AND"]) or kinds[1] not in _OPPOSITE:
            return None
        first, _, *operands, third = compare.operands
        if third not in {"PT", "UPT"}:
            return None
        reader = self._solution.reader(place.block, place.at, operands)
        left, right = map(reader.word, operands)
        how = kinds[1] if (first == flag) == continues_if_true else _OPPOSITE[kinds[1]]
        if left is not None and left.exact:
            left, right, how = right, left, _TURNED[how]
        limit = number_of(right)
        if left is None or limit is None:
            return None
        counter = self._counter(left)
        return _Comparison(*counter, limit, how, "U32" in kinds) if counter is not None else None

    def _counter(self, value: LinearExpr) -> tuple[int, int] | None:
        """Return the number in the first iteration of a counter that joins in the header, and its step.

        It stays a number if there is no second iteration.
        """
        number = number_of(value)
        if number is not None:
            return number, 0
        symbols = [self._solution.symbols.of[name] for name, _ in value.terms]
        if len(symbols) != 1 or symbols[0].place is None or symbols[0].kind != "join":
            return None
        place = symbols[0].place
        if place.block != self._header:
            return None
        entry, step = self._solution.moves(place)
        further = number_of(value.plus(self._solution.held(place), -1))
        if step is None or further is None or entry is None:
            return None
        return (entry + further) % WORD, step


def _ends_threads(block: Sequence[Instruction]) -> bool:
    return any(instruction.name in _END_THREADS and not instruction.idle for instruction in block)


def _copied_flag(instruction: Instruction | None) -> str | None:
    """Return the predicate that `PLOP3.LUT P6, PT, PT, PT, UP2, 0x80, 0x0` copies: the table is that of AND."""
    if instruction is None:
        return None
    _, *others, flag, table, _ = instruction.operands if len(instruction.operands) == 7 else ("",) * 4
    plain = instruction.opcode == "PLOP3.LUT" and table == "0x80" and set(others) == {"PT"}
    return flag if plain and not flag.startswith("!") and flag not in {"PT", "UPT"} else None


def _turns(comparison: _Comparison) -> int | None:
    """Return how often a loop runs whose counter is compared at the end of each turn; None if it wraps around."""
    read = int if comparison.unsigned else signed
    low, high = (0, WORD - 1) if comparison.unsigned else (-WORD // 2, WORD // 2 - 1)
    begin, end, step, how = read(comparison.begin), read(comparison.limit), comparison.step, comparison.how
    if how in {"GT", "GE"}:
        begin, end, step, low, high = -begin, -end, -step, -high, -low
        how = {"GT": "LT", "GE": "LE"}[how]
    if how == "EQ":
        if begin != end:
            return 1
        return 2 if step else None
    if how == "NE":
        if begin == end or not step:
            return 1 if begin == end else None
        more, rest = divmod(end - begin, step)
        return more + 1 if rest == 0 and more >= 0 else None
    more = end - begin if how == "LT" else end - begin + 1
    if more <= 0:
        return 1
    turns = -(-more // step) if step > 0 else -1
    return turns + 1 if step > 0 and begin + turns * step <= high else None
