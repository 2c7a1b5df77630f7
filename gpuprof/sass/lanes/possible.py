"""Which registers something may be known of, in any walk through a kernel: what follows from loads never is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from gpuprof.sass.flow.graph import ControlFlowGraph
from gpuprof.sass.instruction import Instruction
from gpuprof.sass.lanes.effects import Effect, effect_of, mask_of

_PREDICATES = mask_of(f"{kind}{number}" for kind in ("P", "UP") for number in range(8))


class PossibleStep(NamedTuple):
    """An instruction that a walk may have to look at.

    It `runs` where something may be known of what it writes. Else `forgets` is what it writes of which something may
    have been known, as a mask, with predicates: what was written under one is kept as long as that is not written.
    Of its address, if it has one, something `may_be_known`.
    """

    instruction: Instruction
    effect: Effect
    runs: bool
    forgets: int
    may_be_known: bool


@lru_cache(maxsize=2)
def possible_steps(
    graph: ControlFlowGraph, scattered: frozenset[int] = frozenset()
) -> tuple[tuple[PossibleStep, ...], ...]:
    """Return the steps of each block that may matter to any walk; `scattered` loads are from different places."""
    effects = [[effect_of(instruction.operation) for instruction in block] for block in graph.blocks]
    if scattered:
        effects = [
            [
                effect._replace(blank=True) if instruction.address in scattered else effect
                for instruction, effect in zip(block, row, strict=True)
            ]
            for block, row in zip(graph.blocks, effects, strict=True)
        ]
    begins = _begins(effects, graph.successors, graph.called)
    return tuple(_steps(block, row, begin) for block, row, begin in zip(graph.blocks, effects, begins, strict=True))


def _begins(
    effects: Sequence[Sequence[Effect]],
    successors: Sequence[Sequence[int]],
    called: Mapping[int, frozenset[str] | None],
) -> list[int]:
    """Return what something may be known of at the beginning of each block, on any way there."""
    begins = [0] * len(effects)
    lost = {number: -1 if names is None else mask_of(names) for number, names in called.items()}
    waiting = dict.fromkeys(reversed(range(len(effects))))
    while waiting:
        number, _ = waiting.popitem()
        known = begins[number]
        for effect in effects[number]:
            if _tells(effect, known):
                known |= effect.gone
            elif not effect.guard:
                known &= ~effect.gone
        known &= ~lost.get(number, 0)
        for target in successors[number]:
            if known & ~begins[target]:
                begins[target] |= known
                waiting[target] = None
    return begins


def _tells(effect: Effect, known: int) -> bool:
    """Tell whether something may be known of a result of an instruction."""
    if effect.blank or effect.all_of & ~known:
        return False
    return not effect.some_of or effect.some_of & known != 0


def _steps(block: Sequence[Instruction], effects: Sequence[Effect], known: int) -> tuple[PossibleStep, ...]:
    steps = []
    for instruction, effect in zip(block, effects, strict=True):
        before, gone = known, effect.gone
        if _tells(effect, known):
            runs, forgets = True, 0
            known |= gone
        elif effect.guard:
            runs, forgets = gone & known != 0, 0
        else:
            runs, forgets = False, gone & (known | _PREDICATES)
            known &= ~gone
        if runs or forgets or effect.asks:
            steps.append(
                PossibleStep(
                    instruction=instruction,
                    effect=effect,
                    runs=runs,
                    forgets=forgets,
                    may_be_known=not effect.address & ~before,
                )
            )
    return tuple(steps)
