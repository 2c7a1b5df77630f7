"""Sorts the accesses of a kernel to local memory into spilled registers and arrays.

ptxas since CUDA 12.9 marks each instruction of a spill in the cubin (EIATTR_ANNOTATIONS, SpillRefill). In older code,
the addresses show it: the slots of spills lie at fixed distances from the stack pointer R1, those of arrays are reached
through addresses that are computed from it. If a kernel has both, spills lie behind the arrays, and LDL.LU, which
loads a slot for the last time, shows where they begin; that much is a guess.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from math import inf

from msgspec import Struct

from gpuprof.sass.binary.cubin import CubinKernel
from gpuprof.sass.instruction import Instruction

LOCAL_OPCODES = frozenset({"LDL", "STL"})
_STACK_POINTER = "R1"
_OF_STACK = re.compile(r"\[R1(?:\+(-?)0x([0-9a-f]+))?\]")
_READS_STACK = re.compile(r"\bR1\b")


class LocalMemory(Struct, frozen=True, kw_only=True):
    """Instructions that access local memory, of spills and all others; `guessed` if the signs are not certain."""

    spills: tuple[Instruction, ...] = ()
    arrays: tuple[Instruction, ...] = ()
    guessed: bool = False


def local_memory(kernel: CubinKernel, code: Sequence[Instruction]) -> LocalMemory:
    """Return the accesses to local memory of a kernel and of the functions within its code."""
    accesses = [instruction for instruction in code if instruction.name in LOCAL_OPCODES and not instruction.idle]
    if not accesses:
        return LocalMemory()
    spills = set(kernel.spills or ())
    guessed = False
    for number, function in enumerate(_functions(kernel, code)):
        if kernel.spills is None or number:
            # What a function saves of its caller's registers is not marked, and ptxas -v counts it as spills.
            slots, sure = _spills(function)
            spills.update(slots)
            guessed = guessed or not sure
    return LocalMemory(
        spills=tuple(access for access in accesses if access.address in spills),
        arrays=tuple(access for access in accesses if access.address not in spills),
        guessed=guessed,
    )


def _functions(kernel: CubinKernel, code: Sequence[Instruction]) -> list[list[Instruction]]:
    """Return the kernel's own instructions, and those of each function within its code."""
    functions: list[list[Instruction]] = [[] for _ in range(len(kernel.inner) + 1)]
    starts = [function.offset for function in kernel.inner]
    ends = [0, *(function.offset + function.size_bytes for function in kernel.inner)]
    for instruction in code:
        number = bisect_right(starts, instruction.address)
        functions[number if instruction.address < ends[number] else 0].append(instruction)
    return functions


def _spills(function: Sequence[Instruction]) -> tuple[list[int], bool]:
    """Return the addresses of a function's spill instructions, and whether that is certain."""
    slots: list[tuple[Instruction, int]] = []
    for instruction in function:
        if instruction.name in LOCAL_OPCODES:
            offset = stack_slot(instruction)
            if offset is not None:
                slots.append((instruction, offset))
    if not any(_takes_stack_address(instruction) for instruction in function):
        return [access.address for access, _ in slots], True
    if not any(access.name == "LDL" for access, _ in slots):
        return [], True
    first = min((offset for access, offset in slots if access.is_a("LDL.LU")), default=inf)
    return [access.address for access, offset in slots if offset >= first], False


def stack_slot(access: Instruction) -> int | None:
    """Return the distance from the stack pointer that an instruction accesses; None if its address is computed."""
    place = access.operands[0 if access.name == "STL" else 1] if len(access.operands) > 1 else ""
    match = _OF_STACK.fullmatch(place)
    if match is None:
        return None
    distance = int(match[2] or "0", 16)
    return -distance if match[1] else distance


def _takes_stack_address(instruction: Instruction) -> bool:
    """Return whether an instruction makes an address of local memory from the stack pointer."""
    if instruction.name in LOCAL_OPCODES or not instruction.operands:
        return False
    target, *read = instruction.operands
    return target != _STACK_POINTER and any(_READS_STACK.search(operand) for operand in read)
