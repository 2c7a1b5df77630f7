"""Tells whether more could be known of a kernel's accesses by looking at its warps one by one.

It could where what is not known follows from threadIdx. What is loaded from addresses whose lanes lie known distances
apart is as unknown in each warp as in all.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from gpuprof.code.flow.graph import ENDS, ControlFlowGraph
from gpuprof.code.lanes.relevance import WalkStep, relevance_of
from gpuprof.code.sass.instruction import JUMPS
from gpuprof.code.sass.operands import named, sources, written
from gpuprof.code.sass.requests import requests
from gpuprof.code.sass.writes import first_register, may_write

_INDICES = {"SR_TID.X", "SR_TID.Y", "SR_TID.Z"}
_BRANCHES = JUMPS | ENDS
_OF_TWO_WORDS = re.compile(r"64|^U?IMAD\..*(?:WIDE|HI)|^D")


def follows_from_warp(graph: ControlFlowGraph, unknown: Collection[int]) -> bool:
    """Tell whether branches, predicates of accesses, or addresses that are `unknown` follow from threadIdx.

    `unknown` are the offsets of memory instructions whose addresses are not known.
    """
    relevance = relevance_of(graph)
    begins: dict[int, frozenset[str]] = dict.fromkeys(graph.entries, frozenset())
    waiting = dict.fromkeys(graph.entries)
    while waiting:
        number, _ = waiting.popitem()
        held = set(begins[number])
        for step in relevance.steps[number]:
            if held and step.asks and _asks_for(step, held, unknown):
                return True
            if step.relevant:
                _pass_on(step, held, unknown)
        for target in graph.successors[number]:
            before = begins.get(target)
            more = (held & relevance.live[target]) | (before or frozenset())
            if before is None or more != before:
                begins[target] = frozenset(more)
                waiting[target] = None
    return False


def _asks_for(step: WalkStep, held: set[str], unknown: Collection[int]) -> bool:
    """Tell whether what an instruction does depends on these registers in a way that is not known."""
    instruction = step.instruction
    if instruction.name in _BRANCHES:
        return not held.isdisjoint(_named(instruction.predicate or "", *instruction.operands))
    if not held.isdisjoint(_named(instruction.predicate or "")):
        return True
    return instruction.address in unknown and not held.isdisjoint(_address(step))


def _pass_on(step: WalkStep, held: set[str], unknown: Collection[int]) -> None:
    """Change the registers that follow from threadIdx as an instruction does."""
    instruction = step.instruction
    writes = may_write(instruction)
    asked = requests(instruction)
    if asked:
        read = {*_named(instruction.predicate or ""), *(writes if instruction.predicate else ())}
        read |= _address(step) if instruction.address in unknown else set()
    else:
        read = _read(step)
    if not held.isdisjoint(read) or not _INDICES.isdisjoint(instruction.operands):
        held.update(writes, step.gone)
    elif instruction.predicate is None:
        held.difference_update(first_register(instruction), written(instruction))


def _read(step: WalkStep) -> set[str]:
    """Return what an instruction reads, and what it leaves as it is where its predicate is false."""
    instruction = step.instruction
    names = _named(instruction.predicate or "", *sources(instruction))
    kept = may_write(instruction) if instruction.predicate else ()
    return {*(_both(names) if _OF_TWO_WORDS.search(instruction.opcode) else names), *kept}


def _address(step: WalkStep) -> set[str]:
    """Return the registers of an instruction's addresses; of those of two words both."""
    return _both(_named(*(request.operand for request in requests(step.instruction))))


def _both(names: Iterable[str]) -> set[str]:
    """Return registers with those that are the upper words if these are the lower."""
    split = [(name, name.rstrip("0123456789")) for name in names]
    return {f"{kind}{int(name[len(kind) :]) + more}" for name, kind in split for more in (0, 1)}


def _named(*operands: str) -> set[str]:
    return {name for operand in operands for name in named(operand)}
