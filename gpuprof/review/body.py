"""The code of a kernel with the functions that lie behind it, and ways to look around in it."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpuprof.sass.binary.cubin import InnerFunction
from gpuprof.sass.binary.elf import INSTRUCTION_BYTES
from gpuprof.sass.flow.loops import jumping_calls
from gpuprof.sass.instruction import Instruction

WINDOW = 64
"""The instructions of a sequence lie no further apart than this, also where others are mixed in."""
_OWN_FUNCTION = re.compile(r"__(?:cuda_sm|internal_)|__cuda_reduxsync")


@dataclass(frozen=True)
class KernelBody:
    """The code of a kernel with the functions that lie behind it."""

    code: Sequence[Instruction]
    inner: Sequence[InnerFunction]

    def own(self, indices: Sequence[int]) -> list[int]:
        """Return those of instructions, by their indices in order, that are in no function of the compiler's."""
        spans = sorted(self._spans())
        own = []
        span = 0
        for index in indices:
            address = self.code[index].address
            while span < len(spans) and spans[span][1] <= address:
                span += 1
            if span == len(spans) or address < spans[span][0]:
                own.append(index)
        return own

    def _spans(self) -> Iterator[tuple[int, int]]:
        if self.inner or not self.code:
            for function in self.inner:
                if is_of_library(function):
                    yield function.offset, function.offset + function.size_bytes
            return
        jumps = jumping_calls(self.code)
        calls = (item for item in self.code if item.name == "CALL" and item.address not in jumps)
        targets = [item.target for item in calls if item.target is not None and item.target > item.address]
        if targets:
            yield min(targets), self.code[-1].address + INSTRUCTION_BYTES

    def index(self, address: int) -> int:
        """Return the index of the first instruction from an address on."""
        return bisect_left(self.code, address, key=lambda instruction: instruction.address)

    def after(self, index: int, count: int = WINDOW) -> Sequence[Instruction]:
        """Return the instructions behind one."""
        return self.code[index + 1 : index + 1 + count]

    def before(self, index: int, count: int = WINDOW) -> Sequence[Instruction]:
        """Return the instructions in front of one, the last first."""
        return self.code[max(0, index - count) : index][::-1]

    def function(self, address: int | None) -> InnerFunction | None:
        """Return the function that begins at an address."""
        return next((function for function in self.inner if function.offset == address), None)


def is_of_library(function: InnerFunction) -> bool:
    """Tell whether a function within a kernel's code is the compiler's own, such as the slow path of a sine."""
    return _OWN_FUNCTION.search(function.name) is not None
