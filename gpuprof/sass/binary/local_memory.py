"""Tells what a kernel keeps in local memory: registers that were spilled, or arrays.

ptxas since CUDA 12.9 marks each instruction of a spill in the cubin (EIATTR_ANNOTATIONS, SpillRefill). Of older code
the addresses tell: the slots of spills lie at fixed distances from the stack pointer R1, those of arrays are reached
through addresses that are computed from it. Where a kernel has both, spills lie behind the arrays, and LDL.LU, which
loads a slot for the last time, shows where they begin; that much is a guess.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

from msgspec import Struct

from gpuprof.sass.binary.cubin import CubinKernel
from gpuprof.sass.binary.cubin_attributes import attributes
from gpuprof.sass.binary.elf import Elf, ElfSection, cubin_elf, text_at
from gpuprof.sass.instruction import Instruction

LOCAL_OPCODES = frozenset({"LDL", "STL"})
_STACK_POINTER = "R1"
_OF_STACK = re.compile(r"\[R1(?:\+(-?)0x([0-9a-f]+))?\]")
_READS_STACK = re.compile(r"\bR1\b")
_INFO = b".nv.info."
_ANNOTATIONS, _SPILL_REFILL = 0x55, 1
_API_VERSION, _MARKS_SPILLS = 0x37, 129
"""The attribute with the release of the toolkit, ten times, and the first known to mark spills (of 12.9, 13.0, 13.4 and
13.5 all do)."""
_MOST_NAMED_BYTES = 1 << 26


class LocalMemory(Struct, frozen=True, kw_only=True):
    """The instructions of a kernel that access local memory: of spills, and all others. `guessed`: told by signs."""

    spills: tuple[Instruction, ...] = ()
    arrays: tuple[Instruction, ...] = ()
    guessed: bool = False


def local_memory(cubin: bytes, kernel: CubinKernel, code: Sequence[Instruction]) -> LocalMemory:
    """Return what is kept in local memory by a kernel and the functions within its code."""
    accesses = [instruction for instruction in code if instruction.name in LOCAL_OPCODES and not instruction.idle]
    if not accesses:
        return LocalMemory()
    marked = _marked(cubin).get(kernel.mangled)
    spills: set[int] = set(marked or ())
    guessed = False
    for number, function in enumerate(_functions(kernel, code)):
        if marked is None or number:
            # What a function saves of its caller's registers is not marked, and ptxas -v counts it as spills.
            slots, sure = _spills(function)
            spills.update(slots)
            guessed = guessed or not sure
    return LocalMemory(
        spills=tuple(access for access in accesses if access.address in spills),
        arrays=tuple(access for access in accesses if access.address not in spills),
        guessed=guessed,
    )


@lru_cache(maxsize=4)
def _marked(cubin: bytes) -> Mapping[str, frozenset[int]]:
    """Return the offsets of spill instructions by kernel, for all kernels whose toolkit marks them."""
    try:
        elf = cubin_elf(cubin)
        sections = [section for section in elf.sections if elf.starts(section, _INFO)]
        return dict(_marks(elf, sections))
    except (struct.error, ValueError, IndexError, OverflowError):
        return {}


def _marks(elf: Elf, sections: Sequence[ElfSection]) -> Iterator[tuple[str, frozenset[int]]]:
    for section in sections:
        marks: set[int] = set()
        release = 0
        for number, value in attributes(elf.content(section)):
            if number == _API_VERSION and len(value) == 4:
                (release,) = struct.unpack("<I", value)
            elif number == _ANNOTATIONS:
                pairs = struct.iter_unpack("<II", value[: len(value) // 8 * 8])
                marks.update(offset for kind, offset in pairs if kind == _SPILL_REFILL)
        if marks or release >= _MARKS_SPILLS:
            start = elf.names_at + section.name + len(_INFO)
            name = text_at(elf.data[start : start + _MOST_NAMED_BYTES // len(sections)], 0)
            yield name.decode("utf-8", "replace"), frozenset(marks)


def _functions(kernel: CubinKernel, code: Sequence[Instruction]) -> list[list[Instruction]]:
    """Return the kernel's own instructions, and those of each function within its code."""
    spans = [(inner.offset, inner.offset + inner.size_bytes) for inner in kernel.inner]
    functions: list[list[Instruction]] = [[] for _ in range(len(spans) + 1)]
    current = 0
    for instruction in code:
        while current < len(spans) and instruction.address >= spans[current][1]:
            current += 1
        within = current < len(spans) and instruction.address >= spans[current][0]
        functions[current + 1 if within else 0].append(instruction)
    return functions


def _spills(function: Iterable[Instruction]) -> tuple[list[int], bool]:
    """Return the addresses of a function's spill instructions, and whether that is sure."""
    slots: list[tuple[Instruction, int]] = []
    has_arrays = False
    for instruction in function:
        if instruction.name in LOCAL_OPCODES:
            offset = stack_slot(instruction)
            if offset is not None:
                slots.append((instruction, offset))
        elif _takes_address(instruction):
            has_arrays = True
    loaded = {offset for access, offset in slots if access.name == "LDL"}
    if not has_arrays or not loaded:
        return [access.address for access, offset in slots if offset in loaded or not has_arrays], True
    first = min((offset for access, offset in slots if access.is_a("LDL.LU")), default=None)
    return [access.address for access, offset in slots if first is not None and offset >= first], False


def stack_slot(access: Instruction) -> int | None:
    """Return the distance from the stack pointer that an instruction accesses; None where its address is computed."""
    place = access.operands[0 if access.name == "STL" else 1] if len(access.operands) > 1 else ""
    match = _OF_STACK.fullmatch(place)
    if match is None:
        return None
    distance = int(match[2] or "0", 16)
    return -distance if match[1] else distance


def _takes_address(instruction: Instruction) -> bool:
    """Tell whether an address of local memory is made of the stack pointer."""
    target, *read = instruction.operands or ("",)
    return target != _STACK_POINTER and any(_READS_STACK.search(operand) for operand in read)
