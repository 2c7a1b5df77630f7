"""Rules on control flow: barriers that not all threads of a block may reach."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from gpuprof.code.sass.instruction import Instruction
from gpuprof.review.case import CodeCase
from gpuprof.review.contract import CodeFinding
from gpuprof.review.divergence import divergent_branches
from gpuprof.review.rules.rule import CodeRule, code_evidence, finding_at
from gpuprof.units import counted

_OF_ALL_THREADS = "0x0"
"""Barrier 0 without a number of threads: what __syncthreads is."""


def _barriers(case: CodeCase) -> Iterator[CodeFinding]:
    """Yield a finding where a barrier of the whole block stands in a branch, or a loop, that threads take differently.

    ptxas puts BSSY and BSYNC around what threads may take differently; a jump that skips the barrier lies between.
    """
    barriers = [item for item in case.code if _is_of_block(item)]
    regions = _regions(case, [barrier.address for barrier in barriers])
    if not regions:
        return
    behind: dict[int, Instruction] = {}
    for branch in divergent_branches(case.code):
        for barrier in _skipped(branch, barriers):
            if any(start < branch.address and barrier.address < end for start, end in regions):
                behind.setdefault(barrier.address, branch)
    if behind:
        yield _finding(case, behind)


def _is_of_block(instruction: Instruction) -> bool:
    """Tell whether all threads of the block are waited for."""
    return instruction.is_a("BAR.SYNC") and instruction.operands == (_OF_ALL_THREADS,)


def _regions(case: CodeCase, barriers: list[int]) -> list[tuple[int, int]]:
    """Return the code between each BSSY and where its threads meet again, if a barrier is in it."""
    spans = [(item.address, item.target) for item in case.code if barriers and item.name == "BSSY"]
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
    branches = {branch.address: branch for branch in behind.values()}
    lines = sorted({place[1] for address in branches if (place := case.known.lines.get(address)) is not None})
    where = f" (line{'s' if len(lines) > 1 else ''} {', '.join(map(str, lines[:5]))})" if lines else ""
    return finding_at(
        case,
        "divergent-barrier",
        barriers,
        headline=f"{counted(len(barriers), 'barrier')} behind a branch that depends on the thread",
        why=f"The condition of {counted(len(branches), 'branch', 'es')}{where} comes from the thread's index or from "
        "what it loaded. If it is not the same for all threads of a block, some do not reach the barrier: that is "
        "undefined, and may deadlock.",
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
        "on the thread's index or on loaded values, between BSSY and BSYNC, where ptxas expects threads to differ.",
        silent="The condition is the same for the block, as far as the code shows it; threads leave the kernel before "
        "the barrier (EXIT); the barrier has a number of threads, or names another barrier than 0.",
        check=_barriers,
    ),
)
