"""The code of a kernel with the functions behind it."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
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

    def is_own(self, index: int) -> bool:
        """Return whether an instruction is outside of the compiler's functions."""
        return not any(self.code[index].address in span for span in self._library_spans)

    @cached_property
    def _library_spans(self) -> Sequence[range]:
        """The offsets of the compiler's functions; without names, of all code from the first called one on."""
        spans = library_spans(self.inner)
        if not self.inner and self.code:
            jumps = jumping_calls(self.code)
            calls = [item for item in self.code if item.name == "CALL" and item.address not in jumps]
            targets = [item.target for item in calls if item.target is not None and item.target > item.address]
            if targets:
                spans.append(range(min(targets), self.code[-1].address + INSTRUCTION_BYTES))
        return spans

    def index(self, address: int) -> int:
        """Return the index of the first instruction from an address on."""
        return bisect_left(self.code, address, key=lambda instruction: instruction.address)

    def after(self, index: int, count: int = WINDOW) -> Sequence[Instruction]:
        """Return the instructions after one."""
        return self.code[index + 1 : index + 1 + count]

    def before(self, index: int, count: int = WINDOW) -> Sequence[Instruction]:
        """Return the instructions before one, the last first."""
        return self.code[max(0, index - count) : index][::-1]


def library_spans(inner: Iterable[InnerFunction]) -> list[range]:
    """Return the offsets of the functions within a kernel's code that are the compiler's: the slow path of a sine."""
    own = [function for function in inner if _OF_LIBRARY.search(function.name)]
    return [range(function.offset, function.offset + function.size_bytes) for function in own]
