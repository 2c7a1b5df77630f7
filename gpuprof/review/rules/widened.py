"""FP64 arithmetic on values that begin and end as FP32, which a literal without f, such as 0.1, brings about."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from gpuprof.model.session import Finding
from gpuprof.review.dependents import FP64_OPCODES
from gpuprof.review.facts import CodeFacts
from gpuprof.review.rules.rule import code_evidence, finding_at
from gpuprof.review.sequences import LONGEST_REDUCTION_ENTRY
from gpuprof.sass.instruction import Instruction
from gpuprof.sass.operands import named, registers_of, sources, written
from gpuprof.units import counted

_WIDENS = re.compile(r"^F2F\.(?:\w+\.)*F64\.(?:F32|F16|BF16)\b")
_FROM_INTEGER = re.compile(r"^I2F(?:P)?\.(?:\w+\.)*F64\b")
_NARROWS = re.compile(r"^F2F\.(?:\w+\.)*(?:F32|F16|BF16)\.F64\b|^F2I\.(?:\w+\.)*F64\b")
_LITERAL = re.compile(r"[-|~]*(?:\d|\+?INF|c\[0x[1-9a-f])")
_LEAVES = ("ST", "RED", "ATOM", "SHFL")
_SETS = {"MOV", "IMAD", "UMOV", "UIMAD", "CS2R", "CS2UR", "HFMA2", "UHFMA2"}
_LOADS_CONSTANT = {"LDC", "ULDC", "LDCU"}
_CONSTANTS_OF_COMPILER = re.compile(r"c\[0x[1-9a-f]")
_MOST_WORK = 8
"""Loops are read through until so many times the code was, the smallest first; nests of real kernels are less deep."""


@dataclass(slots=True)
class _Chain:
    """FP64 instructions that one another's results go into. `own`: by itself FP64, such as data of that type."""

    into: _Chain | None = None
    instructions: list[Instruction] = field(default_factory=list)
    widened: bool = False
    literals: list[Instruction] = field(default_factory=list)
    narrowed: bool = False
    own: bool = False

    def root(self) -> _Chain:
        """Return the chain that it was joined to."""
        chain = self
        while chain.into is not None:
            chain = chain.into
        return chain

    def join(self, other: _Chain) -> _Chain:
        """Make two chains one."""
        first, second = self.root(), other.root()
        if first is second:
            return first
        if len(first.instructions) < len(second.instructions):
            first, second = second, first
        second.into = first
        first.instructions += second.instructions
        first.literals += second.literals
        first.widened |= second.widened
        first.narrowed |= second.narrowed
        first.own |= second.own
        return first


def widened(case: CodeFacts) -> Iterator[Finding]:
    """Yield a finding where FP32 values are widened, computed with in FP64 beside a literal, and narrowed again."""
    if not any(_WIDENS.match(instruction.opcode) for instruction in case.known.named("F2F")):
        return
    chains = [chain for chain in _chains(case) if _is_by_accident(chain)]
    if not chains:
        return
    literals = [instruction for chain in chains for instruction in chain.literals]
    every = [instruction for chain in chains for instruction in chain.instructions]
    fp64 = sum(instruction.name in FP64_OPCODES for instruction in every)
    conversions = len(every) - fp64
    yield finding_at(
        case,
        "fp64-bound",
        literals,
        headline=f"FP64 arithmetic on FP32 values: {counted(fp64, 'instruction')}, "
        f"{counted(conversions, 'conversion')}",
        why="The values are widened from FP32, meet a constant in FP64, and are narrowed again. FP64 has fewer units "
        "than FP32, and each conversion (F2F) is an instruction on top.",
        action="Write the constant in FP32: 0.1f instead of 0.1",
        advice="Check these lines for literals without f (0.1 → 0.1f), double constants and functions without f "
        "(sqrt → sqrtf). nvcc -Xptxas -warn-double-usage says which kernels still use FP64.",
        evidence=(
            code_evidence(fp64, "", "FP64 instructions between FP32 values"),
            code_evidence(conversions, "", "conversions from and to FP64 around them"),
        ),
    )


def _is_by_accident(chain: _Chain) -> bool:
    return bool(chain.widened and chain.narrowed and chain.literals and not chain.own)


def _chains(case: CodeFacts) -> list[_Chain]:
    """Return the chains of FP64 arithmetic of a kernel, in one pass over its code.

    What a loop hands on from turn to turn in FP64 is a sum that is meant to be FP64.
    """
    held: dict[str, _Chain | None] = {}
    every: list[_Chain] = []
    skipped = _slow_parts(case)
    carried = _carried(case)
    for instruction in case.code:
        for register in carried.get(instruction.address, ()):
            held[register] = _Chain(own=True)
        if instruction.address in skipped:
            continue
        chain = _step(instruction, held)
        if chain is not None and not chain.root().instructions:
            every.append(chain)
        if chain is not None:
            chain.root().instructions.append(instruction)
    roots = {id(chain.root()): chain.root() for chain in every}
    return list(roots.values())


def _step(instruction: Instruction, held: dict[str, _Chain | None]) -> _Chain | None:
    """Take over what an instruction does with FP64 values; return the chain that it is part of."""
    opcode = instruction.opcode
    is_fp64 = instruction.name in FP64_OPCODES
    widens = bool(_WIDENS.match(opcode) or _FROM_INTEGER.match(opcode))
    read = [held[name] for name in _read(instruction, wide=is_fp64) if held.get(name) is not None]
    chains = [chain for chain in read if chain is not None]
    result: _Chain | None = None
    if widens:
        result = _Chain(widened=bool(_WIDENS.match(opcode)))
    elif is_fp64 or opcode.startswith(("MUFU.RCP64H", "MUFU.RSQ64H")):
        result = _joined(chains) or _Chain()
        result.own |= _reads_others(instruction, held)
        if instruction.name == "DSETP":
            result.narrowed = True
        if is_fp64 and _has_constant(instruction, held):
            result.literals.append(instruction)
    elif chains and _NARROWS.match(opcode):
        chain = _joined(chains)
        if chain is not None:
            chain.narrowed = True
        _forget(instruction, held)
        return chain
    elif chains and instruction.name.startswith(_LEAVES):
        for chain in chains:
            chain.root().own = True
    elif chains and instruction.name != "ISETP":
        result = _joined(chains)
        _hold(instruction, held, result)
        return None
    _hold(instruction, held, result)
    return result


def _joined(chains: Sequence[_Chain]) -> _Chain | None:
    joined: _Chain | None = None
    for chain in chains:
        joined = chain.root() if joined is None else joined.join(chain)
    return joined


def _has_constant(instruction: Instruction, held: dict[str, _Chain | None]) -> bool:
    """Tell whether a number is among the operands, or a register that was set to one."""
    operands = sources(instruction)
    if any(_LITERAL.match(operand) for operand in operands):
        return True
    return any(name not in held for operand in operands for name in named(operand) if "P" not in name)


def _reads_others(instruction: Instruction, held: dict[str, _Chain | None]) -> bool:
    """Tell whether an FP64 instruction reads a register that holds neither a chain nor a constant: data in FP64."""
    return any(name in held and held[name] is None for name in _read(instruction, wide=False))


def _read(instruction: Instruction, *, wide: bool) -> Iterator[str]:
    for operand in sources(instruction):
        for name in named(operand):
            yield name
            if wide and name.startswith("R"):
                yield f"R{int(name[1:]) + 1}"


def _hold(instruction: Instruction, held: dict[str, _Chain | None], chain: _Chain | None) -> None:
    """Note what the written registers hold: a chain, data (None), or a constant, of which nothing is kept."""
    for name in _written(instruction):
        if chain is not None:
            held[name] = chain
        elif _sets_constant(instruction):
            held.pop(name, None)
        else:
            held[name] = None


def _forget(instruction: Instruction, held: dict[str, _Chain | None]) -> None:
    for name in _written(instruction):
        held[name] = None


def _written(instruction: Instruction) -> tuple[str, ...]:
    if _WIDENS.match(instruction.opcode) or _FROM_INTEGER.match(instruction.opcode):
        return registers_of(instruction.operands[0], "DADD") if instruction.operands else ()
    return written(instruction)


def _sets_constant(instruction: Instruction) -> bool:
    operands = sources(instruction)
    if instruction.name in _LOADS_CONSTANT:
        return any(_CONSTANTS_OF_COMPILER.match(operand) for operand in operands)
    return instruction.name in _SETS and not any(named(operand) for operand in operands)


def _carried(case: CodeFacts) -> dict[int, set[str]]:
    """Return for the first instruction of each loop the registers that its FP64 arithmetic reads before it writes."""
    carried: dict[int, set[str]] = {}
    left = _MOST_WORK * len(case.code)
    for loop in sorted(case.loops, key=lambda loop: loop.end - loop.start):
        code = case.between(loop.start, loop.end)
        left -= len(code)
        if left < 0:
            break
        carried[loop.start] = _handed_on(code)
    return carried


def _handed_on(loop: Sequence[Instruction]) -> set[str]:
    written_before: set[str] = set()
    read_first: set[str] = set()
    summed: set[str] = set()
    for instruction in loop:
        names = set(_written(instruction))
        if instruction.name in FP64_OPCODES:
            read_first |= {name for name in _read(instruction, wide=True) if name not in written_before}
            summed |= names
        written_before |= names
    return read_first & summed


def _slow_parts(case: CodeFacts) -> frozenset[int]:
    """Return what sines and cosines of FP32 do in FP64 for large arguments."""
    slow: set[int] = set()
    for operation in case.operations:
        if operation.kind == "trigonometry-fp32":
            index = case.index(operation.at.address)
            slow.update(item.address for item in case.code[index : index + operation.slow + LONGEST_REDUCTION_ENTRY])
    return frozenset(slow)
