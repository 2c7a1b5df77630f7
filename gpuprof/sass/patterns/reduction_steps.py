"""Steps of reductions in shared memory: a combined value is stored, then all threads wait."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from gpuprof.sass.instruction import instruction_of
from gpuprof.sass.operands import named, registers_of, sources, written

_COMBINING = (
    "FADD", "FMNMX", "FSEL", "DADD", "DMNMX", "IADD", "IADD3", "VIADD", "IMNMX", "VIMNMX", "LOP3", "SEL", "HADD2",
    "HMNMX2",
)  # fmt: skip
"""Opcodes that combine two values: sums, extremes and logic.

Products mostly scale by a pivot or a sum.
"""
_COPYING = ("MOV", "IMAD.MOV", "IMAD.U32")
BETWEEN_LANES = ("SHFL", "REDUX", "CREDUX")
_LATER = 24
"""Maximum number of instructions from the store of a step to its barrier."""


class TreeStep(NamedTuple):
    """A store of a value combined from values loaded from shared memory, and the next barrier."""

    store: int
    barrier: int
    loads: frozenset[int] = frozenset()


@lru_cache(maxsize=256)
def steps_of(code: tuple[str, ...]) -> tuple[TreeStep, ...]:
    """Return the steps of reductions in SASS; none if values are also copied or shuffled.

    The code is read from its first instruction to its last and jumps are ignored: a step is
    straight-line code.
    """
    loaded: dict[str, frozenset[int]] = {}
    combined: dict[str, frozenset[int]] = {}
    stores: list[tuple[int, frozenset[int]]] = []
    steps: list[TreeStep] = []
    for place, instruction in enumerate(map(instruction_of, code)):
        if instruction is None or instruction.idle:
            continue
        opcode, name = instruction.opcode, instruction.name
        if name in BETWEEN_LANES:
            return ()
        if name == "BAR":
            steps += [TreeStep(store, place, loads) for store, loads in stores if place <= store + _LATER]
            stores.clear()
        elif name == "STS":
            values = set(_values(instruction.operands[-1:], opcode))
            if values & loaded.keys():
                return ()
            if values & combined.keys():
                stores.append((place, _origins(values, combined)))
        else:
            results = set(written(instruction))
            read = set(_values(sources(instruction), opcode))
            is_copy = opcode.startswith(_COPYING)
            of_loaded = _origins(read, loaded)
            of_combined = _origins(read, combined)
            for register in results:
                loaded.pop(register, None)
                combined.pop(register, None)
            if name == "LDS" or (is_copy and of_loaded):
                loaded |= dict.fromkeys(results, of_loaded if is_copy else frozenset((place,)))
            elif ((name in _COMBINING or opcode == "IMAD.IADD") and of_loaded) or (is_copy and of_combined):
                combined |= dict.fromkeys(results, of_combined if is_copy else of_loaded)
    return tuple(steps)


def _origins(registers: Iterable[str], loads: Mapping[str, frozenset[int]]) -> frozenset[int]:
    """Return the indices of the loads that these registers come from."""
    return frozenset[int]().union(*(loads[register] for register in registers if register in loads))


def _values(operands: Sequence[str], opcode: str) -> Iterator[str]:
    """Yield the registers whose values are read, all parts of wide ones.

    Registers of addresses are left out.
    """
    for operand in operands:
        if "[" not in operand:
            for name in named(operand):
                yield from registers_of(name, opcode)
