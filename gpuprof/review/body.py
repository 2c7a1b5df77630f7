"""The code of a kernel with the functions behind it."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from gpuprof.sass.binary.cubin import InnerFunction
from gpuprof.sass.binary.elf import INSTRUCTION_BYTES
from gpuprof.sass.flow.loops import jumping_calls
from gpuprof.sass.instruction import Instruction

WINDOW = 64
"""The maximum length of a sequence, also with other instructions among it."""
_OF_LIBRARY = re.compile(r"__(?:cuda_sm|internal_)|__cuda_reduxsync")


@dataclass(frozen=True)
class KernelBody:
    """The code of a kernel with the functions behind it."""

    code: Sequence[Instruction]
    inner: Sequence[InnerFunction]

    @cached_property
    def functions(self) -> Mapping[int | None, InnerFunction]:
        """The functions by their offset."""
        return {function.offset: function for function in self.inner}

    def own(self, indices: Sequence[int]) -> list[int]:
        """Return the indices, of those in order, of instructions outside of the compiler's functions."""
        spans = sorted(self._library_spans())
        own = []
        span = 0
        for index in indices:
            address = self.code[index].address
            while span < len(spans) and spans[span][1] <= address:
                span += 1
            if span == len(spans) or address < spans[span][0]:
                own.append(index)
        return own

    def _library_spans(self) -> Iterator[tuple[int, int]]:
        """Yield begin and end of the compiler's functions; without names, of all code from the first called one on."""
        for function in self.inner:
            if is_of_library(function):
                yield function.offset, function.offset + function.size_bytes
        if not self.inner and self.code:
            jumps = jumping_calls(self.code)
            calls = [item for item in self.code if item.name == "CALL" and item.address not in jumps]
            targets = [item.target for item in calls if item.target is not None and item.target > item.address]
            if targets:
                yield min(targets), self.code[-1].address + INSTRUCTION_BYTES

    def index(self, address: int) -> int:
        """Return the index of the first instruction from an address on."""
        return bisect_left(self.code, address, key=lambda instruction: instruction.address)

    def after(self, index: int, count: int = WINDOW) -> Sequence[Instruction]:
        """Return the instructions after one."""
        return self.code[index + 1 : index + 1 + count]

    def before(self, index: int, count: int = WINDOW) -> Sequence[Instruction]:
        """Return the instructions before one, the last first."""
        return self.code[max(0, index - count) : index][::-1]


def is_of_library(function: InnerFunction) -> bool:
    """Return whether a function within a kernel's code is the compiler's, such as the slow path of a sine."""
    return _OF_LIBRARY.search(function.name) is not None
