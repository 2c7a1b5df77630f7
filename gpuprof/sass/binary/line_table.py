"""Reads the line table of a cubin: the source lines of its instructions.

A cubin has one `.debug_line` section for all its functions; relocations name the function of each run of instructions.
`.nv_debug_line_sass` is another table, from SASS to PTX.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import NamedTuple

from gpuprof.sass.binary.elf import INSTRUCTION_BYTES, TEXT, Elf, cubin_elf, refusing_damage
from gpuprof.sass.binary.line_program import FileAndLine, line_rows

_LARGEST_WITHOUT_CODE = 1 << 24
"""If the machine code was taken out of a cubin, its functions keep their sizes, which are larger than the file."""

_Rows = dict[int, FileAndLine | None]
"""By offset: the source line that begins there, or None if a run of instructions ends."""


class LineRun(NamedTuple):
    """Instructions of one source line: offsets in their kernel from `start` to before `end`."""

    start: int
    end: int
    line: FileAndLine


def line_tables(cubin: bytes, *, innermost: bool = True) -> Mapping[str, Mapping[int, FileAndLine]]:
    """Return the source lines of instructions by offset, by the symbol of their kernel, as of `line_runs`."""
    tables = {}
    for name, runs in line_runs(cubin, innermost=innermost).items():
        lines: dict[int, FileAndLine] = {}
        for run in runs:
            lines.update(dict.fromkeys(range(run.start, run.end, INSTRUCTION_BYTES), run.line))
        tables[name] = lines
    return tables


def line_runs(cubin: bytes, *, innermost: bool = True) -> Mapping[str, tuple[LineRun, ...]]:
    """Return the runs of instructions that have a source line, in order, by the symbol of their kernel.

    An instruction of an inlined function has a row for each call around it, the outermost first. `innermost` takes
    the last one, the line of the inlined function itself, as nvdisasm does; else it is the first one, as in NVIDIA's
    reader of reports. Empty if the cubin has no line table. Raises DamagedInput for a damaged one.
    """
    with refusing_damage("the line table of a cubin"):
        elf = cubin_elf(cubin)
        functions = _functions(elf)
        code: dict[int, _Rows] = {}
        for place, address, line in line_rows(elf.named(".debug_line")):
            if place in functions:
                rows = code.setdefault(functions[place], {})
                # An instruction that only begins behind a row is the first that has its line.
                offset = -(-address // INSTRUCTION_BYTES) * INSTRUCTION_BYTES
                if rows.get(offset) is None or (innermost and line is not None):
                    rows[offset] = line
        if sum(elf.sections[number].size for number in code) > max(2 * len(cubin), _LARGEST_WITHOUT_CODE):
            raise ValueError("its functions are larger than the file")
        tables = {}
        for number, rows in code.items():
            section = elf.sections[number]
            tables[section.name.removeprefix(TEXT)] = tuple(_runs(rows, section.size))
        return tables


def _functions(elf: Elf) -> dict[int, int]:
    """Map each relocated place of the table to the section of the function that begins there."""
    functions = {}
    symbols = elf.symbols()
    for section in elf.sections:
        if section.name in (".rel.debug_line", ".rela.debug_line"):
            for place, number in elf.relocations(section):
                functions[place] = symbols[number].section
    return functions


def _runs(rows: _Rows, size: int) -> Iterator[LineRun]:
    """Yield the runs of instructions with a line: each has that of the last row at or before it."""
    for (offset, line), (end, _) in pairwise([*sorted(rows.items()), (size, None)]):
        if line is not None and offset < min(end, size):
            yield LineRun(offset, min(end, size), line)
