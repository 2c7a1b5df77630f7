"""Chains of FP64 instructions that are connected by their results, with the conversions around them.

A literal without f, such as 0.1, makes a chain whose inputs are widened from FP32 and whose results are narrowed to it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from gpuprof.diagnose.facts.code import FP64_SEEDS
from gpuprof.review.facts.code_facts import CodeFacts
from gpuprof.review.facts.definitions import definitions_of
from gpuprof.sass.instruction import Instruction
from gpuprof.sass.operands import named, sources, written

FP64_OPCODES = ("DADD", "DMUL", "DFMA", "DSETP", "DMNMX")
_FROM_FLOAT = re.compile(r"^F2F\.(?:\w+\.)*F64\.(?:F32|F16|BF16)\b")
_FROM_INTEGER = re.compile(r"^I2F(?:P)?\.(?:\w+\.)*F64\b")
_NARROWS = re.compile(r"^F2F\.(?:\w+\.)*(?:F32|F16|BF16)\.F64\b|^F2I\.(?:\w+\.)*F64\b")
_LITERAL = re.compile(r"[-|~]*(?:\d|\+?INF|c\[0x[1-9a-f])")
_COMPILERS_CONSTANT = re.compile(r"c\[0x[1-9a-f]")
_LEAVES = ("ST", "RED", "ATOM", "SHFL")
_SETS = {"MOV", "IMAD", "UMOV", "UIMAD", "CS2R", "CS2UR", "HFMA2", "UHFMA2"}
_LOADS_CONSTANT = {"LDC", "ULDC", "LDCU"}


class Fp64Chain(NamedTuple):
    """FP64 instructions that are connected by their results, with the conversions around them.

    `with_constant` are those that read a constant.
    """

    instructions: Sequence[Instruction]
    with_constant: Sequence[Instruction]


def chains_between_fp32(facts: CodeFacts) -> Sequence[Fp64Chain]:
    """Return the chains whose inputs are widened from FP32 and whose results are narrowed or compared.

    Chains are left out if one of their values is meant as FP64: loaded, stored, an argument, or a sum over a loop.
    """
    if not any(_FROM_FLOAT.match(instruction.opcode) for instruction in facts.named("F2F")):
        return ()
    chains = _Chains(facts)
    slow = [operation.slow_code for operation in facts.operations if operation.slow_code]
    for instruction in facts.code:
        if not any(instruction.address in code for code in slow):
            chains.add(instruction)
    return tuple(chains.between_fp32())


class _Chains:
    """The chains of the instructions that were added so far; all sets have addresses of instructions."""

    def __init__(self, facts: CodeFacts) -> None:
        self._facts = facts
        self._definitions = definitions_of(facts)
        self._chain_of: dict[int, set[int]] = {}
        self._members: set[int] = set()
        self._results: set[int] = set()
        """Instructions with an FP64 result, or a half of one."""
        self._widened: set[int] = set()
        self._narrowed: set[int] = set()
        self._meant: set[int] = set()
        """Instructions that read or store a value that is meant as FP64."""
        self._with_constant: set[int] = set()

    def add(self, instruction: Instruction) -> None:
        """Connect an instruction with those whose results it reads."""
        address = instruction.address
        origins = {origin.address: origin for origin in self._definitions.origins(instruction)}
        read = origins.keys() & self._results
        if read and instruction.name.startswith(_LEAVES):
            self._meant |= read
            return
        widens = _FROM_FLOAT.match(instruction.opcode) or _FROM_INTEGER.match(instruction.opcode)
        if widens:
            read = set()
        narrows = read and _NARROWS.match(instruction.opcode)
        computes = instruction.name in FP64_OPCODES or instruction.opcode.startswith(FP64_SEEDS)
        if widens or narrows or computes:
            self._members.add(address)
        elif not read or instruction.name == "ISETP":
            return
        # Other instructions move a half of a number, or use its bits.
        self._connect(address, read)
        if _FROM_FLOAT.match(instruction.opcode):
            self._widened.add(address)
        if narrows or instruction.name == "DSETP":
            self._narrowed.add(address)
        if not narrows and _gives_value(instruction):
            self._results.add(address)
        if computes:
            self._note_operands(instruction, [origins[other] for other in origins.keys() - read])

    def _connect(self, address: int, read: Iterable[int]) -> None:
        joined = max((self._chain_of[source] for source in read), key=len, default=set[int]())
        for source in read:
            other = self._chain_of[source]
            if other is not joined:
                joined |= other
                self._chain_of.update(dict.fromkeys(other, joined))
        joined.add(address)
        self._chain_of[address] = joined

    def _note_operands(self, instruction: Instruction, others: Iterable[Instruction]) -> None:
        """Record whether an operand is a constant, or data: a result of a later instruction is a sum over a loop.

        Results of called functions are neither: these are divisions and roots.
        """
        known = list(filter(self._gives_known_value, others))
        constants = list(filter(_sets_constant, known))
        if len(constants) < len(known):
            self._meant.add(instruction.address)
        if constants or any(_LITERAL.match(operand) for operand in sources(instruction)):
            self._with_constant.add(instruction.address)

    def _gives_known_value(self, instruction: Instruction) -> bool:
        if not _gives_value(instruction):
            return False
        return (
            instruction.name not in _SETS or _sets_constant(instruction) or bool(self._definitions.inputs(instruction))
        )

    def between_fp32(self) -> Iterator[Fp64Chain]:
        """Yield the chains between FP32 values without a value that is meant as FP64."""
        for chain in {id(chain): chain for chain in self._chain_of.values()}.values():
            if chain & self._widened and chain & self._narrowed and not chain & self._meant:
                yield Fp64Chain(
                    self._instructions(chain & self._members), self._instructions(chain & self._with_constant)
                )

    def _instructions(self, addresses: Iterable[int]) -> Sequence[Instruction]:
        return [self._facts.at[address] for address in sorted(addresses)]


def _gives_value(instruction: Instruction) -> bool:
    """Return whether an instruction writes a register, not only predicates."""
    return any("P" not in name for name in written(instruction))


def _sets_constant(instruction: Instruction) -> bool:
    operands = sources(instruction)
    if instruction.name in _LOADS_CONSTANT:
        return any(_COMPILERS_CONSTANT.match(operand) for operand in operands)
    return instruction.name in _SETS and not any(named(operand) for operand in operands)
