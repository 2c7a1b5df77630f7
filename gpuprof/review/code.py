"""The code of one kernel: its instructions, their source lines, its architecture, the functions that it calls."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter

from gpuprof.hardware.specs import ArchSpec
from gpuprof.review.kernel import CompiledKernel
from gpuprof.sass.binary.cubin import InnerFunction
from gpuprof.sass.binary.local_memory import LOCAL_OPCODES, LocalMemory, local_memory
from gpuprof.sass.instruction import Instruction

_OF_LIBRARY = re.compile(r"__(?:cuda_sm|internal_)|__cuda_reduxsync")


@dataclass(frozen=True, kw_only=True, eq=False)
class KernelCode:
    """One kernel and its code.

    `code` has no padding after the last instruction. If it could not be read, `unread` is the reason. `lines` maps
    offsets to source lines; empty without line information. `arch` is None if no spec describes the target. Objects
    compare by identity, so that they can be keys of caches.
    """

    kernel: CompiledKernel
    code: tuple[Instruction, ...]
    lines: Mapping[int, tuple[str, int]]
    arch: ArchSpec | None
    unread: str | None = None

    @cached_property
    def by_name(self) -> Mapping[str, Sequence[Instruction]]:
        """Map opcodes without modifiers to the instructions, in order."""
        by_name: dict[str, list[Instruction]] = {}
        for instruction in self.code:
            by_name.setdefault(instruction.name, []).append(instruction)
        return by_name

    def named(self, *names: str) -> Sequence[Instruction]:
        """Return the instructions with these opcodes (without modifiers), in order."""
        items = [item for name in dict.fromkeys(names) for item in self.by_name.get(name, ())]
        return sorted(items, key=attrgetter("address")) if len(names) > 1 else items

    def has_any(self, names: Iterable[str]) -> bool:
        """Return whether an instruction has one of these opcodes (without modifiers)."""
        return not self.by_name.keys().isdisjoint(names)

    @cached_property
    def at(self) -> Mapping[int, Instruction]:
        """Return the instructions by offset."""
        return {instruction.address: instruction for instruction in self.code}

    def index(self, offset: int) -> int:
        """Return the index of the first instruction at or after an offset."""
        return bisect_left(self.code, offset, key=lambda instruction: instruction.address)

    def between(self, start: int, end: int) -> Sequence[Instruction]:
        """Return the instructions from `start` up to, but not at, `end`."""
        return self.code[self.index(start) : self.index(end)]

    @cached_property
    def functions(self) -> Mapping[int | None, InnerFunction]:
        """Return the functions after the kernel's own code, by offset."""
        return {function.offset: function for function in self.kernel.kernel.inner}

    @cached_property
    def library(self) -> Sequence[range]:
        """Return the ranges of the compiler's functions, such as the slow path of a sine."""
        own = [function for function in self.kernel.kernel.inner if _OF_LIBRARY.search(function.name)]
        return [range(function.offset, function.offset + function.size_bytes) for function in own]

    @cached_property
    def local_memory(self) -> LocalMemory:
        """Return its accesses of local memory: spills and arrays."""
        return local_memory(self.kernel.kernel, self.code) if self.has_any(LOCAL_OPCODES) else LocalMemory()
