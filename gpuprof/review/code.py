"""The code of one kernel: its instructions, their source lines, its architecture, the functions behind it."""

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
    """One kernel and its code. `lines` are source places by offset; empty without line information.

    `code` is without the padding behind the last instruction; if it could not be read, `unread` says why. `arch` is
    None for a target that no spec describes. Each is its own key, so that a result for one can be cached.
    """

    kernel: CompiledKernel
    code: tuple[Instruction, ...]
    lines: Mapping[int, tuple[str, int]]
    arch: ArchSpec | None
    unread: str | None = None

    @cached_property
    def by_name(self) -> Mapping[str, Sequence[Instruction]]:
        """Return its instructions in order by the first word of their opcodes."""
        by_name: dict[str, list[Instruction]] = {}
        for instruction in self.code:
            by_name.setdefault(instruction.name, []).append(instruction)
        return by_name

    def named(self, *names: str) -> Sequence[Instruction]:
        """Return its instructions whose opcodes begin with one of these words, in order."""
        items = [item for name in dict.fromkeys(names) for item in self.by_name.get(name, ())]
        return sorted(items, key=attrgetter("address")) if len(names) > 1 else items

    def has_any(self, names: Iterable[str]) -> bool:
        """Return whether the opcode of an instruction begins with one of these words."""
        return not self.by_name.keys().isdisjoint(names)

    @cached_property
    def at(self) -> Mapping[int, Instruction]:
        """Return its instructions by their offset."""
        return {instruction.address: instruction for instruction in self.code}

    def index(self, offset: int) -> int:
        """Return the index of the first instruction from an offset on."""
        return bisect_left(self.code, offset, key=lambda instruction: instruction.address)

    def between(self, start: int, end: int) -> Sequence[Instruction]:
        """Return the instructions from one offset to another."""
        return self.code[self.index(start) : self.index(end)]

    @cached_property
    def functions(self) -> Mapping[int | None, InnerFunction]:
        """Return the functions behind it by their offset."""
        return {function.offset: function for function in self.kernel.kernel.inner}

    @cached_property
    def library(self) -> Sequence[range]:
        """Return the offsets of the compiler's functions, such as the slow path of a sine."""
        own = [function for function in self.kernel.kernel.inner if _OF_LIBRARY.search(function.name)]
        return [range(function.offset, function.offset + function.size_bytes) for function in own]

    @cached_property
    def local_memory(self) -> LocalMemory:
        """Return its accesses of local memory: spills and arrays."""
        return local_memory(self.kernel.kernel, self.code) if self.has_any(LOCAL_OPCODES) else LocalMemory()
