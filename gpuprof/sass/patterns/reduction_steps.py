"""Steps of reductions in shared memory: a combined value is stored, then all threads wait."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from gpuprof.sass.instruction import Instruction, instruction_of, operation_of
from gpuprof.sass.operands import named, registers_read
from gpuprof.sass.straight_line import writers_of

_COMBINING = (
    "FADD", "FMNMX", "FSEL", "DADD", "DMNMX", "IADD", "IADD3", "VIADD", "IMNMX", "VIMNMX", "LOP3", "SEL", "HADD2",
    "HMNMX2",
)  # fmt: skip
"""Opcodes that combine two values: sums, extremes and logic. Products mostly scale by a pivot or a sum."""
_COPYING = ("MOV", "IMAD.MOV", "IMAD.U32")
BETWEEN_LANES = ("SHFL", "REDUX", "CREDUX")
_LATER = 24
"""Maximum number of instructions from the store of a step to its barrier."""

_Loads = frozenset[int]


class TreeStep(NamedTuple):
    """A store of a value combined from values loaded from shared memory, and the next barrier."""

    store: int
    barrier: int
    loads: frozenset[int] = frozenset()


def steps_of(code: tuple[str, ...]) -> tuple[TreeStep, ...]:
    """Return the steps of reductions in SASS; none if loaded values are also stored unchanged or shuffled.

    The code is read from its first instruction to its last and jumps are ignored: a step is straight-line code.
    """
    nothing = Instruction(0, operation_of("NOP", ()))
    instructions = [instruction_of(sass) or nothing for sass in code]
    loaded: dict[int, _Loads] = {}
    """The loads of values that were only copied since, by the index of the instruction that wrote the value."""
    combined: dict[int, _Loads] = {}
    """The loads of values that were combined from loaded ones, by the same index."""
    stores: dict[int, _Loads] = {}
    steps: list[TreeStep] = []
    for place, (instruction, writers) in enumerate(zip(instructions, writers_of(instructions), strict=True)):
        if instruction.idle:
            continue
        if instruction.name in BETWEEN_LANES:
            return ()
        values = [writers[name] for name in _values_read(instruction) if name in writers]
        if instruction.name == "STS":
            if any(value in loaded for value in values):
                return ()
            if any(value in combined for value in values):
                stores[place] = _origins(values, combined)
        elif instruction.name == "BAR":
            steps += [TreeStep(store, place, loads) for store, loads in stores.items() if place <= store + _LATER]
            stores.clear()
        elif instruction.name == "LDS":
            loaded[place] = frozenset({place})
        else:
            of_loaded = _origins(values, loaded)
            of_combined = _origins(values, combined)
            is_copy = instruction.opcode.startswith(_COPYING)
            if is_copy and of_loaded:
                loaded[place] = of_loaded
            elif is_copy and of_combined:
                combined[place] = of_combined
            elif of_loaded and (instruction.name in _COMBINING or instruction.opcode == "IMAD.IADD"):
                combined[place] = of_loaded
    return tuple(steps)


def _values_read(instruction: Instruction) -> Iterator[str]:
    """Yield the registers that are read, except a store's address."""
    address = named("".join(instruction.operands[:1])) if instruction.name == "STS" else ()
    yield from (name for name in registers_read(instruction) if name not in address)


def _origins(values: Iterable[int], loads: Mapping[int, _Loads]) -> _Loads:
    return frozenset[int]().union(*(loads[value] for value in values if value in loads))
