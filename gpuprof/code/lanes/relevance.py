"""Which instructions may matter for the addresses that a kernel touches, and for the ways that its lanes take.

A walk executes only those: what a register holds is of no interest where nothing that follows reads it on the way to
an address, a branch or a predicate of either. Rather too many than too few are taken to matter.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from typing import NamedTuple

from gpuprof.code.flow.graph import ENDS, ControlFlowGraph
from gpuprof.code.lanes.rules import only_same_from_same, registers_read
from gpuprof.code.sass.instruction import JUMPS, Instruction
from gpuprof.code.sass.operands import written
from gpuprof.code.sass.requests import requests
from gpuprof.code.sass.writes import first_register, may_write

_NAME = re.compile(r"(U?[RP])(\d+)")
_LEADING, _PAIR = 3, 4
_NUMBERS = count()
_LEADS_AWAY = JUMPS | ENDS
_SETS_FLAGS = {"ISETP", "PLOP3", "UISETP", "UPLOP3"}


class WalkStep(NamedTuple):
    """An instruction of a walk. `reads`: what its results may depend on, where it is `relevant`.

    `asks`: it touches memory or leads away; `special`: it reads a special register; `constant`: it may read constant
    bank 0. `text`: a number of what it says; instructions that say the same mostly have the same. `gone`: what it
    writes, of which nothing is known afterwards unless something is known of all `strict`.
    """

    instruction: Instruction
    reads: tuple[str, ...] = ()
    relevant: bool = False
    asks: bool = False
    special: bool = False
    constant: bool = False
    text: int = -1
    strict: frozenset[str] = frozenset()
    gone: tuple[str, ...] = ()


class _Effect(NamedTuple):
    """What an instruction reads and writes, what it surely writes anew, and what an access or a branch needs of it."""

    reads: frozenset[str]
    writes: frozenset[str]
    kills: frozenset[str]
    needs: frozenset[str]
    sorted_reads: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Relevance:
    """The steps of each block, how many of them there are to the last that asks, those that are relevant, and what
    matters of what registers hold at its beginning.
    """

    steps: tuple[tuple[WalkStep, ...], ...]
    asking: tuple[int, ...]
    relevant: tuple[tuple[WalkStep, ...], ...]
    live: tuple[frozenset[str], ...]


@lru_cache(maxsize=2)
def relevance_of(graph: ControlFlowGraph) -> Relevance:
    """Return the steps of each block of a kernel; those of the last kernels are kept."""
    blocks, successors = graph.blocks, graph.successors
    effects = [[_effect(instruction) for instruction in block] for block in blocks]
    live = _live(effects, successors)
    steps = []
    for number, block in enumerate(blocks):
        after = _union(live[successor] for successor in successors[number])
        kept = [relevant for relevant, _ in _backwards(effects[number], after)]
        asks = [bool(requests(instruction)) or instruction.name in _LEADS_AWAY for instruction in block]
        steps.append(tuple(map(_step, block, effects[number], reversed(kept), asks)))
    return Relevance(
        steps=tuple(steps),
        asking=tuple(max((place for place, step in enumerate(block, 1) if step.asks), default=0) for block in steps),
        relevant=tuple(tuple(step for step in block if step.relevant) for block in steps),
        live=tuple(live),
    )


def _step(instruction: Instruction, effect: _Effect, relevant: bool, asks: bool) -> WalkStep:
    if not relevant:
        return WalkStep(instruction, asks=asks)
    special = instruction.name in {"S2R", "S2UR", "CS2R"}
    constant = any("c[" in operand for operand in instruction.operands)
    text, strict, gone = _text(instruction.opcode, instruction.operands, instruction.predicate)
    return WalkStep(
        instruction,
        reads=effect.sorted_reads,
        relevant=True,
        asks=asks,
        special=special,
        constant=constant,
        text=text,
        strict=strict,
        gone=gone,
    )


@lru_cache(maxsize=1 << 15)
def _text(opcode: str, operands: tuple[str, ...], predicate: str | None) -> tuple[int, frozenset[str], tuple[str, ...]]:
    """Number what an instruction says, which may get another number later on; say what it needs for any result."""
    instruction = Instruction(0, opcode, operands, predicate=predicate)
    if predicate is not None or not only_same_from_same(instruction):
        return next(_NUMBERS), _NOTHING, ()
    strict = frozenset(name for name in registers_read(instruction) if name[0] != "U")
    written_names = dict.fromkeys((*may_write(instruction), *written(instruction)))
    return next(_NUMBERS), strict, tuple(name for name in written_names if _NAME.fullmatch(name))


def _live(effects: Sequence[Sequence[_Effect]], successors: Sequence[Sequence[int]]) -> list[frozenset[str]]:
    """Return what matters at the beginning of each block: what a block needs grows until nothing new is found."""
    before: list[list[int]] = [[] for _ in effects]
    for number, targets in enumerate(successors):
        for target in targets:
            before[target].append(number)
    live: list[frozenset[str]] = [frozenset()] * len(effects)
    waiting = dict.fromkeys(range(len(effects)))
    while waiting:
        number, _ = waiting.popitem()
        after = _union(live[successor] for successor in successors[number])
        *_, (_, now) = _backwards(effects[number], after)
        if now != live[number]:
            live[number] = now
            waiting.update(dict.fromkeys(before[number]))
    return live


def _union(sets: Iterable[frozenset[str]]) -> frozenset[str]:
    return frozenset().union(*sets)


def _backwards(effects: Sequence[_Effect], after: frozenset[str]) -> Iterable[tuple[bool, frozenset[str]]]:
    """Yield from the last instruction to the first whether it matters, and what matters before it."""
    live = after
    for effect in reversed(effects):
        relevant = not effect.writes.isdisjoint(live)
        if relevant:
            live = live - effect.kills | effect.reads
        if effect.needs:
            live = live | effect.needs
        yield relevant, live


_NOTHING: frozenset[str] = frozenset()
_IDLE = _Effect(reads=_NOTHING, writes=_NOTHING, kills=_NOTHING, needs=_NOTHING)


def _effect(instruction: Instruction) -> _Effect:
    _, opcode, operands, predicate = instruction
    return _effect_of(opcode, operands, predicate)


@lru_cache(maxsize=1 << 15)
def _effect_of(opcode: str, operands: tuple[str, ...], predicate: str | None) -> _Effect:
    instruction = Instruction(0, opcode, operands, predicate=predicate)
    if instruction.idle:
        return _IDLE
    guard = _names([instruction.predicate]) if instruction.predicate else _NOTHING
    needs = guard | _names(request.operand for request in requests(instruction)) if requests(instruction) else _NOTHING
    if instruction.name in _LEADS_AWAY:
        return _IDLE._replace(needs=needs | guard | _names(instruction.operands))
    writes = frozenset(may_write(instruction)) | _leading(instruction)
    reads = _names(instruction.operands) | guard
    if instruction.predicate:
        reads |= writes
    kills = _NOTHING if instruction.predicate else _killed(instruction)
    return _Effect(reads=reads, writes=writes, kills=kills, needs=needs, sorted_reads=tuple(sorted(reads)))


def _names(texts: Iterable[str]) -> frozenset[str]:
    """Return the registers and predicates that are named, of registers also the next: numbers may be of two words."""
    named = {match for text in texts for match in _NAME.findall(text)}
    both = {f"{kind}{int(number) + more}" for kind, number in named for more in range(2 if kind[-1] == "R" else 1)}
    return frozenset(both)


def _leading(instruction: Instruction) -> frozenset[str]:
    """Return what the first operands name, with registers behind them: no rule writes more."""
    names = []
    for operand in instruction.operands[:_LEADING]:
        match = _NAME.fullmatch(operand)
        if match is None:
            if "[" in operand:
                break
            continue
        count = _PAIR if match[1][-1] == "R" else 1
        names += [f"{match[1]}{int(match[2]) + more}" for more in range(count)]
    return frozenset(names)


def _killed(instruction: Instruction) -> frozenset[str]:
    """Return what surely holds something else afterwards, whatever rule executes the instruction."""
    if instruction.name in _SETS_FLAGS:
        return frozenset(operand for operand in instruction.operands[:2] if _NAME.fullmatch(operand))
    return frozenset(name for name in first_register(instruction) if _NAME.fullmatch(name))
