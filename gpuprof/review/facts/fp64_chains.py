"""FP64 instructions that are connected by their results, and the values that they begin and end with.

A literal without f, such as 0.1, makes a chain whose values begin and end as FP32.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gpuprof.diagnose.facts.code import FP64_SEEDS
from gpuprof.review.facts.code_facts import CodeFacts
from gpuprof.review.facts.dependents import FP64_OPCODES, names_read, registers_read
from gpuprof.sass.instruction import Instruction
from gpuprof.sass.operands import named, sources, written

_FROM_FLOAT = re.compile(r"^F2F\.(?:\w+\.)*F64\.(?:F32|F16|BF16)\b")
_FROM_INTEGER = re.compile(r"^I2F(?:P)?\.(?:\w+\.)*F64\b")
_NARROWS = re.compile(r"^F2F\.(?:\w+\.)*(?:F32|F16|BF16)\.F64\b|^F2I\.(?:\w+\.)*F64\b")
_LITERAL = re.compile(r"[-|~]*(?:\d|\+?INF|c\[0x[1-9a-f])")
_COMPILERS_CONSTANT = re.compile(r"c\[0x[1-9a-f]")
_LEAVES = ("ST", "RED", "ATOM", "SHFL")
_SETS = {"MOV", "IMAD", "UMOV", "UIMAD", "CS2R", "CS2UR", "HFMA2", "UHFMA2"}
_LOADS_CONSTANT = {"LDC", "ULDC", "LDCU"}
_MOST_WORK = 8
"""The instructions of loops that are read, as a multiple of the kernel's; nests of real kernels are less deep."""


@dataclass(slots=True, eq=False)
class Fp64Chain:
    """FP64 instructions that are connected by their results, with the conversions around them.

    `is_meant`: a value is FP64 by itself: loaded, stored, an argument, or a sum over a loop. `with_constant` are the
    instructions that read a constant.
    """

    instructions: list[Instruction] = field(default_factory=list)
    with_constant: list[Instruction] = field(default_factory=list)
    is_widened: bool = False
    is_narrowed: bool = False
    is_meant: bool = False

    @property
    def is_between_fp32(self) -> bool:
        """Whether values are widened from FP32 and results narrowed or compared, with nothing that is meant as FP64."""
        return self.is_widened and self.is_narrowed and not self.is_meant


def fp64_chains(facts: CodeFacts) -> Sequence[Fp64Chain]:
    """Return the chains of a kernel, in one pass over its code; none if no FP32 value is widened."""
    if not any(_FROM_FLOAT.match(instruction.opcode) for instruction in facts.named("F2F")):
        return ()
    slow_ends = {operation.slow_code.start: operation.slow_code.stop for operation in facts.operations}
    slow_end = 0
    sums = _sums_of_loops(facts)
    walk = _Walk()
    for instruction in facts.code:
        for register in sums.get(instruction.address, ()):
            walk.values[register] = walk.new_chain(is_meant=True)
        slow_end = max(slow_end, slow_ends.get(instruction.address, 0))
        if instruction.address >= slow_end:
            walk.execute(instruction)
    return [chain for chain in walk.chains if chain.instructions]


class _Walk:
    """The state before an instruction.

    `values` has the registers that have been written: with the chain of their value, or None for other data. A register
    that has a constant is not among them.
    """

    def __init__(self) -> None:
        self.values: dict[str, Fp64Chain | None] = {}
        self.chains: list[Fp64Chain] = []

    def new_chain(self, *, is_meant: bool = False) -> Fp64Chain:
        """Return another chain."""
        chain = Fp64Chain(is_meant=is_meant)
        self.chains.append(chain)
        return chain

    def execute(self, instruction: Instruction) -> None:
        """Note the effect of an instruction."""
        is_fp64 = instruction.name in FP64_OPCODES
        read = [self.values.get(name) for name in registers_read(instruction.operation)]
        chains = [chain for chain in read if chain is not None]
        narrows = bool(chains and _NARROWS.match(instruction.opcode))
        if _widens(instruction) or is_fp64 or narrows or instruction.opcode.startswith(FP64_SEEDS):
            chain = self.new_chain() if _widens(instruction) else self._joined(chains)
            chain.instructions.append(instruction)
            chain.is_widened |= _FROM_FLOAT.match(instruction.opcode) is not None
            chain.is_narrowed |= narrows or instruction.name == "DSETP"
            chain.is_meant |= not narrows and not _widens(instruction) and self._reads_data(instruction)
            if is_fp64 and self._reads_constant(instruction):
                chain.with_constant.append(instruction)
            self._write(instruction, None if narrows else chain)
        elif chains and instruction.name.startswith(_LEAVES):
            for chain in chains:
                chain.is_meant = True
            self._write(instruction, None)
        elif chains and instruction.name != "ISETP":
            # A move of one half, or another use of its bits.
            self._write(instruction, self._joined(chains))
        elif _sets_constant(instruction):
            for name in written(instruction):
                self.values.pop(name, None)
        else:
            self._write(instruction, None)

    def _joined(self, chains: Sequence[Fp64Chain]) -> Fp64Chain:
        """Return one chain of several, or a new one."""
        if not chains:
            return self.new_chain()
        first = max(chains, key=lambda chain: len(chain.instructions))
        for chain in chains:
            if chain is not first:
                self._absorb(first, chain)
        return first

    def _absorb(self, first: Fp64Chain, second: Fp64Chain) -> None:
        first.instructions += second.instructions
        first.with_constant += second.with_constant
        first.is_widened |= second.is_widened
        first.is_narrowed |= second.is_narrowed
        first.is_meant |= second.is_meant
        second.instructions.clear()
        second.with_constant.clear()
        for name, value in self.values.items():
            if value is second:
                self.values[name] = first

    def _write(self, instruction: Instruction, value: Fp64Chain | None) -> None:
        self.values.update(dict.fromkeys(written(instruction), value))

    def _reads_data(self, instruction: Instruction) -> bool:
        """Return whether it reads a register whose value is neither of a chain nor a constant."""
        names = names_read(instruction.operation) & self.values.keys()
        return any(self.values[name] is None for name in names)

    def _reads_constant(self, instruction: Instruction) -> bool:
        """Return whether it reads a number, or a register that was set to one."""
        if any(_LITERAL.match(operand) for operand in sources(instruction)):
            return True
        return any("P" not in name and name not in self.values for name in names_read(instruction.operation))


def _widens(instruction: Instruction) -> bool:
    return bool(_FROM_FLOAT.match(instruction.opcode) or _FROM_INTEGER.match(instruction.opcode))


def _sets_constant(instruction: Instruction) -> bool:
    operands = sources(instruction)
    if instruction.name in _LOADS_CONSTANT:
        return any(_COMPILERS_CONSTANT.match(operand) for operand in operands)
    return instruction.name in _SETS and not any(named(operand) for operand in operands)


def _sums_of_loops(facts: CodeFacts) -> Mapping[int, set[str]]:
    """Return the registers of FP64 sums over each loop, by the offset of its first instruction."""
    sums: dict[int, set[str]] = {}
    left = _MOST_WORK * len(facts.code)
    for loop in sorted(facts.loops, key=lambda loop: loop.end - loop.start):
        code = facts.between(loop.start, loop.end)
        left -= len(code)
        if left < 0:
            break
        sums[loop.start] = _read_before_written(code)
    return sums


def _read_before_written(loop: Sequence[Instruction]) -> set[str]:
    """Return the registers that FP64 instructions of a loop read before any writes them, and then write."""
    written_before: set[str] = set()
    read_first: set[str] = set()
    results: set[str] = set()
    for instruction in loop:
        names = written(instruction)
        if instruction.name in FP64_OPCODES:
            read_first |= registers_read(instruction.operation) - written_before
            results.update(names)
        written_before.update(names)
    return read_first & results
