"""Trip counts of loops that are constants.

A trip count is known if a loop has one exit, whose branch compares an induction variable with a loop-invariant value,
and both have known initial values. Iterations are those of the machine code: a loop that the compiler unrolled four
times has one iteration for four of the source.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gpuprof.sass.dataflow.expressions import WORD, LinearExpr, number_of, signed
from gpuprof.sass.dataflow.reaching_definitions import Definition
from gpuprof.sass.dataflow.solution import Induction, Solution
from gpuprof.sass.dataflow.word_rules import COMPARE
from gpuprof.sass.flow.graph import ControlFlowGraph
from gpuprof.sass.instruction import ENDS, Instruction

_COMPARISONS = {"ISETP", "UISETP"}
_BRANCHES = {"BRA", "BRA.U", "CALL.REL.NOINC"}
_END_THREADS = {*ENDS, "BREAK", "BPT"}


def trip_counts_of(solution: Solution) -> dict[int, int]:
    """Return the known trip counts of loops by the address of their headers."""
    solution = solution.of_every_path()
    if not solution.settled:
        return {}
    graph = solution.graph
    counts = {}
    for header in graph.loops:
        exit_block = _exit(graph, header)
        count = _count(solution, header, exit_block) if exit_block is not None else None
        if count is not None:
            counts[graph.blocks[header][0].address] = count
    return counts


def _exit(graph: ControlFlowGraph, header: int) -> int | None:
    """Return the block with the only exit of a loop, if each iteration ends with it; else None.

    Only a jump may follow it: `@P0 CALL.REL.NOINC 0x90`, then `BRA 0x10`.
    """
    body = graph.loops[header]
    before = graph.predecessors
    back = [block for block in before[header] if block in body]
    leaving = [block for block in body if not body.issuperset(graph.successors[block])]
    if len(back) != 1 or len(leaving) != 1 or graph.loops_around[leaving[0]][0] != header:
        return None
    if any(_ends_threads(graph.blocks[block]) for block in body):
        return None
    is_lone_jump = len(graph.blocks[back[0]]) == 1 and before[back[0]] == leaving
    return leaving[0] if back == leaving or is_lone_jump else None


def _ends_threads(block: Sequence[Instruction]) -> bool:
    return any(instruction.name in _END_THREADS and not instruction.idle for instruction in block)


def _count(solution: Solution, header: int, block: int) -> int | None:
    """Return the trip count of a loop whose exit is the last branch of a block."""
    graph = solution.graph
    branch = graph.blocks[block][-1]
    flags = solution.definitions.conditions(block)
    if branch.opcode not in _BRANCHES or len(flags) != 1:
        return None
    goes_back = any(branch.target == graph.blocks[inside][0].address for inside in graph.loops[header])
    flag = flags[0].lstrip("!")
    place = solution.read_by(block, len(graph.blocks[block]) - 1, flag)
    copied = _copied_flag(_written_in_loop(solution, header, place))
    if copied is not None:
        flag = copied
        place = solution.read_by(place.block, place.at, flag)
    compare = _written_in_loop(solution, header, place)
    if compare is None:
        return None
    continues_if = (goes_back != flags[0].startswith("!")) == (compare.operands[0] == flag)
    return _compared(solution, header, place, compare, continues_if=continues_if)


def _compared(
    solution: Solution, header: int, place: Definition, compare: Instruction, *, continues_if: bool
) -> int | None:
    """Return the trip count of a loop that continues if the result of `ISETP.LT.AND P0, …` is `continues_if`."""
    how, *kinds = compare.opcode.split(".")[1:] or ("",)
    if compare.name not in _COMPARISONS or how not in COMPARE or kinds not in (["AND"], ["U32", "AND"]):
        return None
    if len(compare.operands) != 5 or compare.operands[4] not in {"PT", "UPT"} or compare.predicate is not None:
        return None
    reader = solution.reader(place.block, place.at, compare.operands[2:4])
    left, right = map(reader.word, compare.operands[2:4])
    is_right = number_of(right) is not None
    limit = number_of(right if is_right else left)
    counter = left if is_right else right
    induction = _counter(solution, header, counter) if counter is not None else None
    if limit is None or induction is None or induction.entry is None or induction.step is None:
        return None
    read = int if "U32" in kinds else signed
    end = read(limit)

    def continues(number: int) -> bool:
        is_so = COMPARE[how](number, end) if is_right else COMPARE[how](end, number)
        return is_so == continues_if

    return _iterations(read(induction.entry), induction.step, end, continues, is_signed=read is signed)


def _written_in_loop(solution: Solution, header: int, place: Definition) -> Instruction | None:
    inside = place.at >= 0 and place.block in solution.graph.loops[header]
    return solution.graph.blocks[place.block][place.at] if inside else None


def _copied_flag(instruction: Instruction | None) -> str | None:
    """Return the predicate that `PLOP3.LUT P6, PT, PT, PT, UP2, 0x80, 0x0` copies; 0x80 is the table of AND."""
    if instruction is None or instruction.opcode != "PLOP3.LUT":
        return None
    match instruction.operands:
        case (_, "PT", "PT", "PT", flag, "0x80", _) if not flag.startswith("!"):
            return flag
    return None


def _counter(solution: Solution, header: int, value: LinearExpr) -> Induction | None:
    """Return the value of a counter in the first iteration and its step; None if it is no induction variable.

    A counter is a plain number if there is no second iteration.
    """
    number = number_of(value)
    if number is not None:
        return Induction(number, 0)
    symbols = [solution.symbols.by_name[name] for name, _ in value.terms]
    place = symbols[0].place if len(symbols) == 1 and symbols[0].kind == "join" else None
    if place is None or place.block != header:
        return None
    entry, step = solution.induction(place)
    further = number_of(value.plus(solution.value_of(place), -1))
    if entry is None or further is None:
        return None
    return Induction((entry + further) % WORD, step)


def _iterations(begin: int, step: int, limit: int, continues: Callable[[int], bool], *, is_signed: bool) -> int | None:
    """Return the trip count of a loop that compares its counter at the end of each iteration; None if it wraps around.

    The comparison changes in the first or second iteration, or when the counter reaches or passes the limit.
    """
    near = (limit - begin) // step if step else 0
    for iteration in sorted({0, 1, near, near + 1}):
        number = begin + iteration * step
        if iteration >= 0 and not continues(number):
            low = -WORD // 2 if is_signed else 0
            return iteration + 1 if low <= number < low + WORD else None
    return None
