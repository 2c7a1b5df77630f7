"""Rules on control flow: barriers that not all threads of a block may reach."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from gpuprof.review.case import CodeCase
from gpuprof.review.contract import CodeFinding
from gpuprof.review.divergence import divergent_branches
from gpuprof.review.rules.rule import CodeRule, code_evidence, finding_at
from gpuprof.sass.dataflow.solution import Solution
from gpuprof.sass.instruction import JUMPS, Instruction
from gpuprof.sass.operands import named, sources
from gpuprof.units import counted

_OF_ALL_THREADS = "0x0"
"""Barrier 0 without a number of threads: what __syncthreads is."""


def _barriers(case: CodeCase) -> Iterator[CodeFinding]:
    """Yield a finding where a barrier of the whole block stands in a branch, or a loop, that threads take differently.

    ptxas puts BSSY and BSYNC around what threads may take differently; a jump that skips the barrier lies between. Of a
    short branch it makes predicates instead: `@!P0 BAR.SYNC`.
    """
    barriers = [item for item in case.known.named("BAR") if _is_of_block(item)]
    regions = _regions(case, [barrier.address for barrier in barriers])
    if not regions and all(barrier.predicate is None for barrier in barriers):
        return
    behind = {barrier.address: barrier for barrier in barriers if barrier.predicate and _is_by_index(case, barrier)}
    for branch in divergent_branches(case.code) if regions else ():
        for barrier in _skipped(branch, barriers):
            if any(start < branch.address and barrier.address < end for start, end in regions):
                behind.setdefault(barrier.address, branch)
    if behind:
        yield _finding(case, behind)


def _is_of_block(instruction: Instruction) -> bool:
    """Tell whether all threads of the block are waited for."""
    return instruction.is_a("BAR.SYNC") and instruction.operands == (_OF_ALL_THREADS,)


def _is_by_index(case: CodeCase, barrier: Instruction) -> bool:
    """Tell whether the predicate of a barrier compares a sum of the thread's index, as far as that is sure."""
    sums = case.addresses.sums if case.addresses is not None else None
    blocks = sums.graph.blocks if sums is not None else ()
    block = next((number for number, block in enumerate(blocks) if barrier in block), None)
    if sums is None or block is None:
        return False
    for name in named(barrier.predicate or ""):
        place = sums.read_by(block, blocks[block].index(barrier), name)
        compare = blocks[place.block][place.at] if place.at >= 0 else None
        if compare is not None and compare.name == "ISETP":
            read = [register for operand in sources(compare) for register in named(operand) if "P" not in register]
            held = [sums.held(sums.read_by(place.block, place.at, register)) for register in read]
            if any(not isinstance(value.lanes, int) for value in held):
                return True
            return any(_is_of_index(sums, symbol) for value in held for symbol, _ in value.terms)
    return False


def _is_of_index(sums: Solution, symbol: str) -> bool:
    return symbol.startswith("SR_TID") or sums.symbols.of[symbol].kind == "lanes"


def _regions(case: CodeCase, barriers: list[int]) -> list[tuple[int, int]]:
    """Return the code between each BSSY and where its threads meet again, if a barrier is in it."""
    spans = [(item.address, item.target) for item in case.known.named("BSSY")] if barriers else []
    return [
        (start, end)
        for start, end in spans
        if end is not None and bisect_left(barriers, start) < bisect_left(barriers, end)
    ]


def _skipped(branch: Instruction, barriers: list[Instruction]) -> list[Instruction]:
    """Return the barriers that a thread passes by when it jumps, or comes by again when it jumps back."""
    target = branch.target if branch.target is not None else branch.address
    first, last = sorted((branch.address, target))
    addresses = [barrier.address for barrier in barriers]
    return barriers[bisect_left(addresses, first) : bisect_right(addresses, last - 1)]


def _finding(case: CodeCase, behind: dict[int, Instruction]) -> CodeFinding:
    barriers = [case.at[address] for address in sorted(behind)]
    conditions = {condition.address: condition for condition in behind.values()}
    jumps = sum(condition.name in JUMPS for condition in conditions.values())
    lines = sorted({place[1] for address in conditions if (place := case.known.lines.get(address)) is not None})
    where = f" (line{'s' if len(lines) > 1 else ''} {', '.join(map(str, lines[:5]))})" if lines else ""
    what, where_to = (counted(jumps, "branch", "es"), "branch") if jumps else ("a predicate", "condition")
    loaded = " or from what it loaded" if jumps else ""
    return finding_at(
        case,
        "divergent-barrier",
        barriers,
        headline=f"{counted(len(barriers), 'barrier')} behind a {where_to} that depends on the thread",
        why=f"The condition of {what}{where} comes from the thread's index{loaded}. If it is not the "
        "same for all threads of a block, some do not reach the barrier: that is undefined, and may deadlock.",
        action="Move __syncthreads out of the branch, so that all threads of a block reach it equally often",
        advice="Let the condition switch the work off and not the barrier: if (i < n) { … } __syncthreads(); run loops "
        "with barriers by a count that depends on the block alone. Where the condition is the same for the block by "
        "design, compute it from blockIdx and arguments.",
        evidence=(code_evidence(len(barriers), "", "barriers in such branches"),),
        certainty="guess",
    )


RULES: tuple[CodeRule, ...] = (
    CodeRule(
        id="divergent-barrier",
        title="A barrier that not all threads may reach",
        looks_at="Barriers of the whole block (BAR.SYNC 0x0) that a jump passes by or repeats, whose condition depends "
        "on the thread's index or on loaded values, between BSSY and BSYNC, where ptxas expects threads to differ; and "
        "barriers with a predicate that compares the index.",
        silent="The condition is the same for the block, as far as the code shows it; threads leave the kernel before "
        "the barrier (EXIT); the barrier has a number of threads, or names another barrier than 0.",
        check=_barriers,
    ),
)
