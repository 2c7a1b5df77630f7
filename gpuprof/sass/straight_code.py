"""Values in straight code: which instructions read what others wrote, in the order of the code."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from gpuprof.sass.instruction import Instruction
from gpuprof.sass.operands import named, registers_read, written


def writers_of(code: Iterable[Instruction]) -> Iterator[Mapping[str, int]]:
    """Yield for each instruction the registers that it reads, and for each the index of its last writer in the code.

    Registers that the code does not write are left out. If the code of a loop comes twice, its second half reads values
    of the iteration before as well.
    """
    last: dict[str, int] = {}
    for index, instruction in enumerate(code):
        read = (*registers_read(instruction), *named(instruction.predicate or ""))
        yield {name: last[name] for name in read if name in last}
        last.update(dict.fromkeys(written(instruction), index))
