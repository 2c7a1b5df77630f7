"""Reads line tables as DWARF has them, versions 2 to 5: which source line a run of instructions was compiled from.

A table is a header with names of files, and a program whose opcodes make rows (DWARF 5, chapter 6.2). NVIDIA's own
extended opcodes, which say what was inlined where, tell their length as all do and are passed over: a row has the line
of the function that was inlined, as NVIDIA's own tools show it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct

FileAndLine = tuple[str, int]
"""File and line."""

_LONG = 0xFFFFFFFF
"""In place of a length: the table has lengths of 64 bits."""
_VERSIONS = (2, 3, 4, 5)
_END_SEQUENCE, _SET_ADDRESS = 1, 2
_COPY, _ADVANCE_PC, _ADVANCE_LINE, _SET_FILE, _CONST_ADD_PC, _FIXED_ADVANCE_PC = 1, 2, 3, 4, 8, 9
_PATH, _DIRECTORY = 1, 2
_MOST_ENTRIES = 1 << 16
"""No toolkit writes as many folders or files in one table; a damaged one may claim any number."""
_FIXED_BYTES = {0x0B: 1, 0x05: 2, 0x06: 4, 0x07: 8, 0x1E: 16}
"""Sizes of the forms data1, data2, data4, data8 and data16."""
_STRING, _LINE_STRP, _STRP, _UDATA, _BLOCK = 0x08, 0x1F, 0x0E, 0x0F, 0x09


class Row(NamedTuple):
    """From this address on, instructions come from `line`; None: the run of instructions ends before it.

    `place` is where in the section the address was set that this one counts from: what a relocation names.
    """

    place: int
    address: int
    line: FileAndLine | None


class BrokenTable(ValueError):
    """What is wrong with a table."""


def line_rows(section: bytes, strings: Mapping[str, bytes]) -> Iterator[Row]:
    """Yield the rows of all tables of a `.debug_line` section.

    `strings` are the sections `.debug_str` and `.debug_line_str`, which names of files may be in. Raises BrokenTable.
    """
    start = 0
    try:
        while start < len(section):
            table = _header(section, start, strings)
            yield from _rows(section, table)
            start = table.end
    except (struct.error, IndexError, OverflowError) as error:
        raise BrokenTable(f"the line table at byte {start} ends too soon") from error


class _Table(Struct, frozen=True, kw_only=True):
    """A header. `program` and `end` are where its opcodes begin and end; `lengths`: operands of each opcode."""

    program: int
    end: int
    step: int
    line_base: int
    line_range: int
    lengths: Sequence[int]
    folders: Sequence[str]
    files: Sequence[tuple[str, int]]
    first_file: int


def _header(data: bytes, start: int, strings: Mapping[str, bytes]) -> _Table:
    (length,) = struct.unpack_from("<I", data, start)
    word, at = "<I", start + 4
    if length == _LONG:
        (length,) = struct.unpack_from("<Q", data, at)
        word, at = "<Q", at + 8
    end = at + length
    (version,) = struct.unpack_from("<H", data, at)
    if end > len(data) or version not in _VERSIONS:
        raise BrokenTable(f"the line table at byte {start} has {length} bytes and version {version}")
    at += 4 if version >= 5 else 2
    (header_length,) = struct.unpack_from(word, data, at)
    at += struct.calcsize(word)
    program, step = at + header_length, data[at]
    at += 2 if version >= 4 else 1
    _is_statement, line_base, line_range, opcode_base = struct.unpack_from("<BbBB", data, at)
    names = _Names(data, at + 3 + opcode_base, program)
    if program > end or not line_range or not opcode_base:
        raise BrokenTable(f"the line table at byte {start} has a header that makes no sense")
    folders, files = names.entries_with_forms(strings, word) if version >= 5 else names.entries()
    return _Table(
        program=program,
        end=end,
        step=step,
        line_base=line_base,
        line_range=line_range,
        lengths=(0, *data[at + 4 : at + 3 + opcode_base]),
        folders=folders,
        files=files,
        first_file=0 if version >= 5 else 1,
    )


class _Names:
    """The names of folders and files in a header, from `at` to `end`."""

    def __init__(self, data: bytes, at: int, end: int) -> None:
        self._data = data
        self._at = at
        self._end = end

    def entries(self) -> tuple[list[str], list[tuple[str, int]]]:
        """Return the folders, the first of them without a name, and the files with their folders, as to version 4."""
        folders = ["", *iter(self._text, "")]
        files = []
        for name in iter(self._text, ""):
            files.append((name, self._number()))
            self._number(), self._number()
        return folders, files

    def entries_with_forms(self, strings: Mapping[str, bytes], word: str) -> tuple[list[str], list[tuple[str, int]]]:
        """Return folders and files as of version 5, where the header says how their entries are written."""
        folders = [name for name, _ in self._table(strings, word)]
        return folders, self._table(strings, word)

    def _table(self, strings: Mapping[str, bytes], word: str) -> list[tuple[str, int]]:
        self._need(1)
        count = self._data[self._at]
        self._at += 1
        forms = [(self._number(), self._number()) for _ in range(count)]
        entries = self._number()
        if entries > _MOST_ENTRIES or (entries and not forms):
            raise BrokenTable(f"a line table claims to name {entries} files or folders")
        table = []
        for _ in range(entries):
            values = {kind: self._value(form, strings, word) for kind, form in forms}
            name, folder = values.get(_PATH, ""), values.get(_DIRECTORY, 0)
            table.append((name if isinstance(name, str) else "", folder if isinstance(folder, int) else 0))
        return table

    def _value(self, form: int, strings: Mapping[str, bytes], word: str) -> str | int:
        if form == _STRING:
            return self._text()
        if form == _UDATA:
            return self._number()
        if form in (_LINE_STRP, _STRP):
            (offset,) = struct.unpack(word, self._bytes(struct.calcsize(word)))
            return _text_at(strings.get(".debug_line_str" if form == _LINE_STRP else ".debug_str", b""), offset)
        size = self._number() if form == _BLOCK else _FIXED_BYTES.get(form)
        if size is None:
            raise BrokenTable(f"a line table has a name of the form {form:#x}, which is not known")
        return int.from_bytes(self._bytes(size), "little")

    def _text(self) -> str:
        end = self._data.find(b"\0", self._at, self._end)
        if end < 0:
            raise BrokenTable("a line table has a name without an end")
        text = self._data[self._at : end].decode("utf-8", "replace")
        self._at = end + 1
        return text

    def _number(self) -> int:
        number, self._at = _uleb(self._data, self._at)
        self._need(0)
        return number

    def _bytes(self, size: int) -> bytes:
        self._need(size)
        self._at += size
        return self._data[self._at - size : self._at]

    def _need(self, size: int) -> None:
        if self._at + size > self._end:
            raise BrokenTable("the names of a line table end too soon")


def _text_at(strings: bytes, offset: int) -> str:
    end = strings.find(b"\0", offset)
    return strings[offset : end if end >= 0 else len(strings)].decode("utf-8", "replace")


def _rows(data: bytes, table: _Table) -> Iterator[Row]:
    """Yield what the opcodes of a table make. Long, because a call for each opcode would take most of the time."""
    opcode_base, step, line_range, line_base = len(table.lengths), table.step, table.line_range, table.line_base
    constant = (255 - opcode_base) // line_range * step
    sources = _Sources(table)
    at, end = table.program, table.end
    place, address, file, line = 0, 0, 1, 1
    while at < end:
        opcode = data[at]
        at += 1
        if opcode >= opcode_base:
            opcode -= opcode_base
            address += opcode // line_range * step
            line += line_base + opcode % line_range
            yield Row(place, address, sources.line(file, line))
        elif opcode == _ADVANCE_PC:
            count, at = _uleb(data, at)
            address += count * step
        elif opcode == _ADVANCE_LINE:
            count, at = _sleb(data, at)
            line += count
        elif opcode == _COPY:
            yield Row(place, address, sources.line(file, line))
        elif opcode == _SET_FILE:
            file, at = _uleb(data, at)
        elif opcode == _FIXED_ADVANCE_PC:
            address += int.from_bytes(data[at : at + 2], "little")
            at += 2
        elif opcode == _CONST_ADD_PC:
            address += constant
        elif opcode:
            at = _behind_operands(data, at, table.lengths[opcode])
        else:
            size, at = _uleb(data, at)
            what = _extended(data, at, at + size if at + size <= end else 0)
            if what == _END:
                yield Row(place, address, None)
                address, file, line = 0, 1, 1
            elif what is not None:
                place, address = at + 1, what
            at += size


def _behind_operands(data: bytes, at: int, count: int) -> int:
    """Return where the operands of an opcode that is of no use here end."""
    for _ in range(count):
        _, at = _uleb(data, at)
    return at


_END = -1


def _extended(data: bytes, start: int, end: int) -> int | None:
    """Return the address that an extended opcode sets, _END for the end of a run, None for all others."""
    if start >= end:
        raise BrokenTable(f"the opcode at byte {start} of a line table is longer than the table")
    if data[start] == _SET_ADDRESS:
        return int.from_bytes(data[start + 1 : min(end, start + 9)], "little")
    return _END if data[start] == _END_SEQUENCE else None


class _Sources:
    """The source lines of a table: one value for each, however many rows have it."""

    def __init__(self, table: _Table) -> None:
        self._table = table
        self._names: dict[int, str] = {}
        self._lines: dict[int, dict[int, FileAndLine | None]] = {}

    def line(self, file: int, line: int) -> FileAndLine | None:
        """Return a source line; None for line 0, which no source has, and for a file without a name."""
        lines = self._lines.setdefault(file, {})
        if line not in lines:
            name = self._name(file)
            lines[line] = (name, line) if name and 0 < line < _LONG else None
        return lines[line]

    def _name(self, file: int) -> str:
        if file not in self._names:
            self._names[file] = _path(self._table, file - self._table.first_file)
        return self._names[file]


def _path(table: _Table, index: int) -> str:
    """Return the path of a file, with its folder before it unless it begins at the root, without steps of `./`."""
    if not 0 <= index < len(table.files):
        return ""
    name, folder = table.files[index]
    before = table.folders[folder] if 0 <= folder < len(table.folders) else ""
    path = name if not before or name.startswith("/") else f"{before.rstrip('/')}/{name}"
    return path.replace("/./", "/").removeprefix("./")


def _uleb(data: bytes, at: int) -> tuple[int, int]:
    """Return an unsigned LEB128 number and where it ends (DWARF 5, 7.6); no number here has more than 64 bits."""
    byte = data[at]
    if byte < 0x80:
        return byte, at + 1
    value, shift = byte & 0x7F, 7
    while byte >= 0x80:
        at += 1
        byte = data[at]
        value |= (byte & 0x7F) << shift
        shift += 7
        if shift > 70:
            raise BrokenTable("a line table has a number of more than 64 bits")
    return value, at + 1


def _sleb(data: bytes, at: int) -> tuple[int, int]:
    value, end = _uleb(data, at)
    bits = 7 * (end - at)
    return (value - (1 << bits) if value >> (bits - 1) else value), end
