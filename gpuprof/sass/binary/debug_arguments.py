"""Reads names and members of kernels' arguments from the debug information of a cubin, or of PTX.

Compilers write it with -G (nvcc, NVRTC) or -g (clang): DWARF version 2, texts and references in place
(https://dwarfstd.org, DWARF Debugging Information Format, version 2 and 4, section 7.5).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import NamedTuple

from gpuprof.sass.binary.elf import ELF_START, cubin_elf

_MOST_BYTES = 1 << 24
_MOST_STEPS, _MOST_ELEMENTS, _MOST_DIMENSIONS, _DEEPEST = 1 << 18, 4096, 8, 32
_VERSIONS = range(2, 5)
_UNIT = struct.Struct("<IHIB")
_NAME, _SIZE, _TYPE, _COUNT, _LAST, _MEMBER_AT, _BITS = 0x03, 0x0B, 0x49, 0x37, 0x2F, 0x38, 0x0D
_LINKAGE_NAMES = (0x6E, 0x2007)
_ARRAY, _RANGE, _PARAMETER, _MEMBER, _BASE_CLASS, _FUNCTION = 0x01, 0x21, 0x05, 0x0D, 0x1C, 0x2E
_STRUCTURES = frozenset((0x02, 0x13, 0x17))
_UNION = 0x17
_OTHER_NAMES = frozenset((0x16, 0x26, 0x35, 0x37))
"""typedef, const, volatile and restrict: types that are another one."""
_POINTERS = frozenset((0x0F, 0x10, 0x42))
_PTX_NUMBERS = re.compile(rb"\.b(8|16|32|64)[ \t]+([^\n]*)")
_PLUS_CONSTANT = 0x23
"""DW_OP_plus_uconst, by which a member says where it is."""
_FIXED_BYTES = {
    0x01: 8, 0x05: 2, 0x06: 4, 0x07: 8, 0x0B: 1, 0x0C: 1, 0x0E: 4, 0x10: 8, 0x11: 1, 0x12: 2, 0x13: 4, 0x14: 8,
    0x17: 4, 0x19: 0,
}  # fmt: skip
_IN_UNIT = frozenset((0x11, 0x12, 0x13, 0x14, 0x15))
"""References that count from the start of their unit."""
_TEXT, _VARIABLE, _SIGNED = 0x08, frozenset((0x0D, 0x0F, 0x15)), 0x0D
_SIZED = {0x03: 2, 0x04: 4, 0x0A: 1, 0x09: None, 0x18: None}
"""Blocks by the bytes of their size; None: a number of variable length."""


class Member(NamedTuple):
    """A number within an argument; `path` follows the argument's name, such as ".strides[1]"."""

    offset: int
    size_bytes: int
    path: str


class DebugArgument(NamedTuple):
    """An argument of a kernel; one that is no structure has no members."""

    name: str | None
    size_bytes: int | None
    members: tuple[Member, ...]


def debug_arguments(compiled: bytes) -> Mapping[str, tuple[DebugArgument, ...]]:
    """Return the arguments of each function by its symbol; nothing without debug information, or if it is broken."""
    try:
        section = _ptx_section if not compiled.startswith(ELF_START) else _cubin_section
        entries = _entries(section(compiled, ".debug_info"), section(compiled, ".debug_abbrev"))
        steps = iter(range(_MOST_STEPS))
        return {name: tuple(_arguments(entry, entries, steps)) for name, entry in _functions(entries.values())}
    except (struct.error, ValueError, IndexError, KeyError, OverflowError, RecursionError):
        return {}


def _cubin_section(cubin: bytes, name: str) -> bytes:
    elf = cubin_elf(cubin)
    section = elf.named(name)
    return elf.content(section) if section is not None and section.size <= _MOST_BYTES else b""


def _ptx_section(ptx: bytes, name: str) -> bytes:
    """Return the bytes of a section, which PTX has as numbers; labels count as zero."""
    body = ptx.partition(b".section\t%b\n\t{" % name.encode())[2].partition(b"}")[0]
    content = bytearray()
    for bits, values in _PTX_NUMBERS.findall(body):
        size = int(bits) // 8
        for value in values.split(b","):
            number = int(value) if value.strip().isdigit() else 0
            content += (number % (1 << 8 * size)).to_bytes(size, "little")
    return bytes(content)


class _Entry:
    """A debugging information entry."""

    def __init__(self, tag: int, values: Mapping[int, int | bytes]) -> None:
        self.tag, self.values = tag, values
        self.children: list[_Entry] = []

    def number(self, attribute: int) -> int | None:
        value = self.values.get(attribute)
        return value if isinstance(value, int) else None

    def text(self, attribute: int) -> str | None:
        value = self.values.get(attribute)
        return value.decode("utf-8", "replace") if isinstance(value, bytes) and value else None


_Entries = Mapping[int, _Entry]
_Forms = Sequence[tuple[int, int]]


class _Reader:
    """Reads numbers and texts one after the other."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data, self.at = data, at

    def take(self, size: int) -> bytes:
        part = self.data[self.at : self.at + size]
        if len(part) < size:
            raise ValueError("it is truncated")
        self.at += size
        return part

    def fixed(self, size: int) -> int:
        return int.from_bytes(self.take(size), "little")

    def variable(self, *, signed: bool = False) -> int:
        """Read a LEB128 number."""
        number, shift, byte = 0, 0, 0x80
        while byte & 0x80:
            byte = self.fixed(1)
            number |= (byte & 0x7F) << shift
            shift += 7
            if shift > 70:
                raise ValueError("a number in it has no end")
        return number - (1 << shift) if signed and byte & 0x40 else number

    def text(self) -> bytes:
        end = self.data.index(b"\0", self.at)
        part = self.take(end - self.at)
        self.at += 1
        return part

    def value(self, form: int) -> int | bytes:
        """Read the value of an attribute. Raises ValueError for a form that is not known."""
        if form in _FIXED_BYTES:
            return self.fixed(_FIXED_BYTES[form])
        if form == _TEXT:
            return self.text()
        if form in _VARIABLE:
            return self.variable(signed=form == _SIGNED)
        if form not in _SIZED:
            raise ValueError(f"form {form:#x} is not known")
        size = _SIZED[form]
        return self.take(self.variable() if size is None else self.fixed(size))


def _entries(info: bytes, abbreviations: bytes) -> _Entries:
    """Return the entries of all units by their offset."""
    entries: dict[int, _Entry] = {}
    start = 0
    while start + _UNIT.size <= len(info):
        size, version, table, _ = _UNIT.unpack_from(info, start)
        if version in _VERSIONS:
            forms = _abbreviations(_Reader(abbreviations, table))
            _read_unit(_Reader(info[: start + 4 + size], start + _UNIT.size), start, forms, entries)
        start += 4 + size
    return entries


def _abbreviations(reader: _Reader) -> Mapping[int, tuple[int, bool, _Forms]]:
    """Read a table: tag, whether there are children, and attributes with their forms, by number."""
    table = {}
    while number := reader.variable():
        tag, has_children = reader.variable(), bool(reader.fixed(1))
        forms = []
        while any(pair := (reader.variable(), reader.variable())):
            forms.append(pair)
        table[number] = tag, has_children, forms
    return table


def _read_unit(
    reader: _Reader, start: int, table: Mapping[int, tuple[int, bool, _Forms]], entries: dict[int, _Entry]
) -> None:
    parents: list[_Entry] = []
    while reader.at < len(reader.data):
        at = reader.at
        number = reader.variable()
        if number == 0:
            if parents:
                parents.pop()
            continue
        tag, has_children, forms = table[number]
        values = {}
        for attribute, form in forms:
            value = reader.value(form)
            values[attribute] = value + start if form in _IN_UNIT and isinstance(value, int) else value
        entry = entries[at] = _Entry(tag, values)
        if parents:
            parents[-1].children.append(entry)
        if has_children:
            parents.append(entry)


def _functions(entries: Iterable[_Entry]) -> Iterator[tuple[str, _Entry]]:
    for entry in entries:
        if entry.tag == _FUNCTION:
            names = (entry.text(attribute) for attribute in (*_LINKAGE_NAMES, _NAME))
            name = next(filter(None, names), None)
            if name is not None:
                yield name, entry


def _arguments(function: _Entry, entries: _Entries, steps: Iterator[int]) -> Iterator[DebugArgument]:
    for entry in function.children:
        if entry.tag == _PARAMETER:
            kind = _type_of(entry, entries)
            members = tuple(_members(kind, entries, steps)) if kind.tag in _STRUCTURES else ()
            yield DebugArgument(entry.text(_NAME), _size(kind, entries), members)


def _type_of(entry: _Entry, entries: _Entries) -> _Entry:
    """Return the type of an entry, behind typedefs and qualifiers."""
    for _ in range(_DEEPEST):
        entry = entries[entry.number(_TYPE) or 0]
        if entry.tag not in _OTHER_NAMES:
            return entry
    raise ValueError("a type in it has no end")


def _size(kind: _Entry, entries: _Entries) -> int | None:
    if kind.tag in _POINTERS:
        return 8
    if kind.tag == _ARRAY:
        size = _size(_type_of(kind, entries), entries)
        for extent in _extents(kind):
            size = size * extent if size is not None else None
        return size
    return kind.number(_SIZE)


def _extents(array: _Entry) -> list[int]:
    extents = []
    for entry in array.children[:_MOST_DIMENSIONS]:
        if entry.tag == _RANGE:
            last, count = entry.number(_LAST), entry.number(_COUNT)
            extents.append(count if count is not None else (last or 0) + 1)
    return extents


def _members(kind: _Entry, entries: _Entries, steps: Iterator[int]) -> Iterator[Member]:
    """Yield the numbers in a structure, in order; fewer if it takes more `steps` than are left."""
    waiting = [(kind, Member(0, 0, ""))]
    while waiting:
        kind, at = waiting.pop()
        if kind.tag in _STRUCTURES or kind.tag == _ARRAY:
            inner = _elements(kind, at, entries) if kind.tag == _ARRAY else _fields(kind, at, entries)
            waiting += reversed([part for _, part in zip(steps, inner, strict=False)])
            continue
        size = _size(kind, entries)
        if size is not None:
            yield at._replace(size_bytes=size)


def _fields(structure: _Entry, at: Member, entries: _Entries) -> Iterator[tuple[_Entry, Member]]:
    for entry in structure.children:
        offset = _member_offset(entry, structure)
        if offset is not None:
            name = entry.text(_NAME) if entry.tag == _MEMBER else None
            yield _type_of(entry, entries), Member(at.offset + offset, 0, f"{at.path}.{name}" if name else at.path)


def _elements(array: _Entry, at: Member, entries: _Entries) -> Iterator[tuple[_Entry, Member]]:
    element = _type_of(array, entries)
    size = _size(element, entries) or 0
    extents = (range(min(extent, _MOST_ELEMENTS)) for extent in _extents(array))
    for index, place in enumerate(product(*extents)):
        path = "".join(f"[{number}]" for number in place)
        yield element, Member(at.offset + index * size, 0, at.path + path)


def _member_offset(entry: _Entry, kind: _Entry) -> int | None:
    """Return how far behind the start of its structure a member is; None for what is no member, or one of bits."""
    if entry.tag not in {_MEMBER, _BASE_CLASS} or _BITS in entry.values:
        return None
    place = entry.values.get(_MEMBER_AT, 0 if kind.tag == _UNION else None)
    if isinstance(place, bytes):
        return _Reader(place, 1).variable() if place[0] == _PLUS_CONSTANT else None
    return place
