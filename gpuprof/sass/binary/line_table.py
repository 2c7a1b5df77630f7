"""Reads the line table of a cubin: which source line an instruction was compiled from.

A cubin has one `.debug_line` section for all its functions; relocations say to which function each run of instructions
belongs. `.nv_debug_line_sass` is another table, from SASS to PTX.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import NamedTuple

from gpuprof.errors import DamagedInput
from gpuprof.sass.binary.elf import INSTRUCTION_BYTES, NO_BITS, Elf, ElfSection, ElfSymbol, cubin_elf, text_at
from gpuprof.sass.binary.line_program import BrokenTable, FileAndLine, line_rows

_TABLE = b".debug_line"
_STRINGS = (".debug_str", ".debug_line_str")
_TEXT = b".text."
_RELOCATIONS = {b".rel" + _TABLE: struct.Struct("<QQ"), b".rela" + _TABLE: struct.Struct("<QQq")}
_OF_A_SECTION = 3
"""The type of the symbol that a section has for itself."""
_MOST_NAMED_BYTES = 1 << 26
_LARGEST_WITHOUT_CODE = 1 << 24
"""Of a cubin whose machine code was taken out, the sizes of functions are left, and they are larger than the file."""

_Rows = dict[int, FileAndLine | None]
"""What begins at an offset: a source line, or None where a run of instructions ends."""


class LineRun(NamedTuple):
    """Instructions of one source line: offsets in their kernel from `start` to before `end`."""

    start: int
    end: int
    line: FileAndLine


def line_tables(cubin: bytes, *, innermost: bool = True) -> Mapping[str, Mapping[int, FileAndLine]]:
    """Return for each kernel, by its symbol, the source line of each instruction that has one, by offset in the kernel.

    As of `line_runs`.
    """
    return {
        name: {offset: run.line for run in runs for offset in range(run.start, run.end, INSTRUCTION_BYTES)}
        for name, runs in line_runs(cubin, innermost=innermost).items()
    }


def line_runs(cubin: bytes, *, innermost: bool = True) -> Mapping[str, tuple[LineRun, ...]]:
    """Return for each kernel, by its symbol, the runs of instructions that have a source line, in their order.

    Where inlining begins, the table has a row for each call around an instruction, the outermost first. `innermost`
    takes the last one, the line of the inlined function itself, as nvdisasm does; else it is the first one, as in
    NVIDIA's reader of reports. Empty where the cubin has no line table. Raises DamagedInput for one that is broken.
    """
    try:
        elf = cubin_elf(cubin)
        table = elf.named(_TABLE)
        return _tables(elf, table, innermost=innermost) if table is not None and table.kind != NO_BITS else {}
    except (BrokenTable, struct.error, ValueError, IndexError, OverflowError) as error:
        raise DamagedInput(f"the line table of a cubin cannot be read: {error}") from error


def _tables(elf: Elf, table: ElfSection, *, innermost: bool) -> Mapping[str, tuple[LineRun, ...]]:
    content = elf.content(table)
    strings = {name: elf.named(name.encode()) for name in _STRINGS}
    texts = {name: elf.content(section) for name, section in strings.items() if section is not None}
    functions = dict(_functions(elf, content))
    code: dict[int, _Rows] = {}
    for place, address, line in line_rows(content, texts):
        function = functions.get(place)
        if function is not None:
            rows = code.setdefault(function.section, {})
            # An instruction that only begins behind a row is the first that has its line.
            offset = -(-max(0, address + function.base) // INSTRUCTION_BYTES) * INSTRUCTION_BYTES
            if rows.get(offset) is None or (innermost and line is not None):
                rows[offset] = line
    sizes = _sizes(elf, code)
    return {_name(elf, number, len(code)): tuple(_runs(rows, sizes[number])) for number, rows in code.items()}


class _Function(NamedTuple):
    """The section of a function's code, and what is to be added to addresses of the table to be offsets in it."""

    section: int
    base: int


def _functions(elf: Elf, table: bytes) -> Iterator[tuple[int, _Function]]:
    """Yield for each place of the table that is relocated the function that it names.

    In code that was copied from a running program symbols are addresses, and so is what stands in the table already.
    """
    for name, entry in _RELOCATIONS.items():
        section = elf.named(name)
        if section is None:
            continue
        symbols = tuple(elf.symbols(elf.sections[section.link]))
        starts = {symbol.section: symbol.value for symbol in symbols if symbol.kind == _OF_A_SECTION and symbol.value}
        content = elf.content(section)
        for place, info, *addend in entry.iter_unpack(content[: len(content) // entry.size * entry.size]):
            yield place, _function(symbols[info >> 32], starts, addend, _address(table, place))


def _function(symbol: ElfSymbol, starts: Mapping[int, int], addend: list[int], written: int) -> _Function:
    """Return what a relocation names; an addend of its own stands for what is written at its place."""
    if symbol.section in starts:
        return _Function(symbol.section, -starts[symbol.section])
    return _Function(symbol.section, symbol.value + (addend[0] - written if addend else 0))


def _address(table: bytes, place: int) -> int:
    return int.from_bytes(table[place : place + 8], "little")


def _sizes(elf: Elf, numbers: Mapping[int, _Rows]) -> dict[int, int]:
    """Return the sizes of sections with code. Raises ValueError where they cannot all lie in the file."""
    sizes = {number: elf.sections[number].size for number in numbers}
    if sum(sizes.values()) > max(2 * len(elf.data), _LARGEST_WITHOUT_CODE):
        raise ValueError("its functions are larger than the file")
    return sizes


def _name(elf: Elf, number: int, of: int) -> str:
    """Return the symbol of the kernel whose code a section is."""
    start = elf.names_at + elf.sections[number].name
    name = text_at(elf.data[start : start + _MOST_NAMED_BYTES // of], 0)
    return name.removeprefix(_TEXT).decode("utf-8", "replace")


def _runs(rows: _Rows, size: int) -> Iterator[LineRun]:
    """Yield the runs of instructions with a line: each has that of the last row at or before it."""
    for (offset, line), (end, _) in pairwise([*sorted(rows.items()), (size, None)]):
        if line is not None and offset < min(end, size):
            yield LineRun(offset, min(end, size), line)
