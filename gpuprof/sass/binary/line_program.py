"""Reads `.debug_line` as ptxas writes it, DWARF 2 or 3: the source line that a run of instructions was compiled from.

A table is a header with names of files, and a program whose opcodes make rows (DWARF 3, chapter 6.2). NVIDIA's own
extended opcodes, which record inlining, give their length as all do and are skipped: a row has the line of the inlined
function, as in NVIDIA's own tools.
"""

from __future__ import annotations

import struct
from collections.abc import Generator, Iterator
from typing import NamedTuple

FileAndLine = tuple[str, int]
"""File and line."""

_HEADER = struct.Struct("<IHIBxbBB")
"""Length, version, length of the header, size of a step, base and range of lines, number of opcodes."""
_BEFORE_VERSION, _BEFORE_STEP = 4, 10
_VERSIONS = (2, 3)
_LARGEST_LINE = 0xFFFFFFFF
_EXTENDED, _COPY, _ADVANCE_PC, _ADVANCE_LINE, _SET_FILE, _CONST_ADD_PC = 0, 1, 2, 3, 4, 8
"""ptxas writes no opcode 9, whose operand is no LEB128 number."""
_END_SEQUENCE, _SET_ADDRESS = 1, 2
_MOST_PATHS = 2**24
"""Characters of all paths of a table: many files may name one long folder."""


class Row(NamedTuple):
    """From this address on, instructions come from `line`; None: the run of instructions ends before it.

    `address` counts from the function that a relocation puts at `place`, an offset in the section. If code was copied
    from a running program, the table has an address there, else 0.
    """

    place: int
    address: int
    line: FileAndLine | None


class _Table(NamedTuple):
    """A header: the offsets of its opcodes, their operands by opcode, and the paths of files by number."""

    start: int
    end: int
    step: int
    line_base: int
    line_range: int
    operands: bytes
    paths: list[str]


def line_rows(section: bytes) -> Iterator[Row]:
    """Yield the rows of all tables of a `.debug_line` section. Raises errors for `refusing_damage`."""
    start = 0
    while start < len(section):
        table = _table(section, start)
        start = yield from _rows(section, table)
        if start != table.end:
            raise ValueError("it ends within an opcode")


def _table(data: bytes, at: int) -> _Table:
    length, version, header_length, step, line_base, line_range, opcodes = _HEADER.unpack_from(data, at)
    if version not in _VERSIONS or not line_range or not opcodes:
        raise ValueError(f"the line table at byte {at} has {length} bytes and version {version}")
    start = at + _BEFORE_STEP + header_length
    end = at + _BEFORE_VERSION + length
    names = at + _HEADER.size + opcodes - 1
    operands = b"\0" + data[at + _HEADER.size : names]
    return _Table(start, end, step, line_base, line_range, operands, _paths(data[names:start]))


def _paths(header: bytes) -> list[str]:
    """Return the paths of files by their numbers, from 1 on, without steps of `./`."""
    folders = [""]
    at = 0
    while header[at]:
        name, at = _text(header, at)
        folders.append(name.rstrip("/") + "/")
    at += 1
    paths = [""]
    left = _MOST_PATHS
    while header[at]:
        name, at = _text(header, at)
        folder, at = uleb(header, at)
        _, at = uleb(header, at)
        _, at = uleb(header, at)
        before = "" if name.startswith("/") else folders[folder]
        left -= len(before) + len(name)
        if left < 0:
            raise ValueError("the names in it take too much memory")
        paths.append((before + name).replace("/./", "/").removeprefix("./"))
    return paths


def _text(data: bytes, start: int) -> tuple[str, int]:
    """Return a text and the offset after it."""
    end = data.index(b"\0", start)
    return data[start:end].decode("utf-8", "replace"), end + 1


def _rows(data: bytes, table: _Table) -> Generator[Row, None, int]:
    """Yield the rows of a table, and return where its last opcode ends.

    One long function: a call for each opcode would take most of the time.
    """
    at, end, step, line_base, line_range, operands, paths = table
    place = address = 0
    file = line = 1
    while at < end:
        opcode = data[at]
        at += 1
        if opcode >= len(operands):
            advance, forward = divmod(opcode - len(operands), line_range)
            address += advance * step
            line += line_base + forward
            yield Row(place, address, _source(paths, file, line))
        elif opcode == _COPY:
            yield Row(place, address, _source(paths, file, line))
        elif opcode == _ADVANCE_PC:
            count, at = uleb(data, at)
            address += count * step
        elif opcode == _ADVANCE_LINE:
            count, at = _sleb(data, at)
            line += count
        elif opcode == _SET_FILE:
            file, at = uleb(data, at)
        elif opcode == _CONST_ADD_PC:
            address += (255 - len(operands)) // line_range * step
        elif opcode == _EXTENDED:
            size, at = uleb(data, at)
            if data[at] == _END_SEQUENCE:
                yield Row(place, address, None)
                address = 0
                file = line = 1
            elif data[at] == _SET_ADDRESS:
                place = at + 1
                address = 0
            at += size
        else:
            for _ in range(operands[opcode]):
                _, at = uleb(data, at)
    return at


def _source(paths: list[str], file: int, line: int) -> FileAndLine | None:
    """Return a source line; None for line 0, which no source has, and for a file without a name."""
    if 0 < line < _LARGEST_LINE and 0 < file < len(paths):
        return paths[file], line
    return None


def uleb(data: bytes, at: int) -> tuple[int, int]:
    """Return an unsigned LEB128 number of up to 64 bits and the offset behind it (DWARF 3, 7.6)."""
    value = shift = 0
    while shift <= 63:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at
    raise ValueError("a line table has a number of more than 64 bits")


def _sleb(data: bytes, at: int) -> tuple[int, int]:
    value, end = uleb(data, at)
    bits = 7 * (end - at)
    return value - (1 << bits) if value >> (bits - 1) else value, end
