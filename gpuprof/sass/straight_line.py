"""Straight-line code: the instruction that last wrote each register that an instruction reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from gpuprof.sass.instruction import Instruction
from gpuprof.sass.operands import named, registers_read, written


def writers_of(code: Iterable[Instruction]) -> Iterator[Mapping[str, int]]:
    """Yield for each instruction a mapping from each register that it reads to the index of its last writer.

    Registers that the code does not write are left out. Pass the code of a loop twice to see, in its second half, the
    values that come from the iteration before.
    """
    last: dict[str, int] = {}
    for index, instruction in enumerate(code):
        read = (*registers_read(instruction), *named(instruction.predicate or ""))
        yield {name: last[name] for name in read if name in last}
        last.update(dict.fromkeys(written(instruction), index))
