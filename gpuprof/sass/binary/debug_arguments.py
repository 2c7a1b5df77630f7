"""Reads names and members of kernels' arguments from the debug information of a cubin, or of PTX.

NVIDIA's compilers write it with -G: DWARF 2 (https://dwarfstd.org, DWARF Debugging Information Format, version 2,
section 7.5), with texts in place and references within their unit.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Collection, Iterator, Mapping, Sequence
from math import prod
from typing import NamedTuple

from gpuprof.sass.binary.elf import ELF_START, cubin_elf
from gpuprof.sass.binary.line_program import uleb

_MOST_BYTES, _MOST_ENTRIES, _MOST_STEPS, _MOST_DIMENSIONS = 1 << 23, 1 << 19, 1 << 18, 8
_VERSION = 2
_UNIT = struct.Struct("<IHIx")
"""Header of a unit: its length after this field, the version, the offset of its abbreviations."""
_ARRAY, _PARAMETER, _FUNCTION = 0x01, 0x05, 0x2E
_STRUCTURES = frozenset((0x02, 0x13, 0x17))
_OTHER_NAMES = frozenset((0x16, 0x26, 0x35, 0x37))
"""typedef, const, volatile and restrict, which refer to another type."""
_POINTERS = frozenset((0x0F, 0x10, 0x42))
_NAME, _SIZE, _BITS, _COUNT, _MEMBER_AT, _TYPE, _LINKAGE_NAME = 0x03, 0x0B, 0x0D, 0x37, 0x38, 0x49, 0x2007
_TEXT, _BLOCK, _NUMBERS, _REFERENCE = 0x08, 0x0A, frozenset((0x0D, 0x0F)), 0x13
_FIXED_BYTES = {0x01: 8, 0x05: 2, 0x06: 4, 0x0B: 1, 0x0C: 1, _REFERENCE: 4}
_PLUS_CONSTANT = 0x23
"""DW_OP_plus_uconst, the operation in the location of a member."""
_PTX_NUMBERS = re.compile(rb"\.b(8|16|32|64) (\S+)")


class Member(NamedTuple):
    """A number within an argument; `path` follows the argument's name, such as ".strides[1]"."""

    offset: int
    size_bytes: int
    path: str


class DebugArgument(NamedTuple):
    """An argument of a kernel. Only a structure has members."""

    name: str | None
    size_bytes: int
    members: tuple[Member, ...]


def debug_arguments(compiled: bytes, kernels: Collection[str]) -> Mapping[str, tuple[DebugArgument, ...]]:
    """Return the arguments of kernels by their symbols; nothing without debug information, or if it is broken."""
    section = _cubin_section if compiled.startswith(ELF_START) else _ptx_section
    try:
        return _DebugInfo(section(compiled, ".debug_info"), section(compiled, ".debug_abbrev")).arguments(kernels)
    except (struct.error, ValueError, IndexError, KeyError, OverflowError, RecursionError):
        return {}


def _cubin_section(cubin: bytes, name: str) -> bytes:
    return cubin_elf(cubin).named(name)


def _ptx_section(ptx: bytes, name: str) -> bytes:
    """Return the bytes of a section, which PTX writes as numbers. Labels count as zero."""
    body = ptx.partition(b".section\t%b\n\t{" % name.encode())[2].partition(b"}")[0]
    content = bytearray()
    for bits, values in _PTX_NUMBERS.findall(body):
        for value in values.split(b","):
            number = int(value) if value.isdigit() else 0
            content += number.to_bytes(int(bits) // 8, "little")
    return bytes(content)


class _Entry(NamedTuple):
    """A debugging information entry, with its values by attribute."""

    tag: int
    values: Mapping[int, int | bytes]
    children: list[_Entry]

    def text(self, attribute: int) -> str | None:
        value = self.values.get(attribute)
        return value.decode("utf-8", "replace") if isinstance(value, bytes) and value else None

    def number(self, attribute: int) -> int:
        value = self.values.get(attribute)
        return value if isinstance(value, int) else 0


class _Abbreviation(NamedTuple):
    """An abbreviation: the tag of entries, whether they have children, and the forms of their attributes."""

    tag: int
    has_children: int
    forms: Sequence[tuple[int, int]]


class _DebugInfo:
    """The entries of all units by their offset."""

    def __init__(self, info: bytes, abbreviations: bytes) -> None:
        self._info = info
        self._entries: dict[int, _Entry] = {}
        self._steps = 0
        bytes_read = len(info)
        start = 0
        while start < len(info):
            size, version, at = _UNIT.unpack_from(info, start)
            bytes_read += len(abbreviations)
            if version != _VERSION or bytes_read > _MOST_BYTES:
                raise ValueError("it is of another version, or too large")
            end = start + 4 + size
            self._read_unit(start, end, _abbreviations(abbreviations, at))
            start = end

    def _read_unit(self, start: int, end: int, table: Mapping[int, _Abbreviation]) -> None:
        parents: list[_Entry] = []
        at = start + _UNIT.size
        while at < end:
            offset = at
            number, at = uleb(self._info, at)
            if number == 0:
                del parents[-1:]
                continue
            kind = table[number]
            values = {}
            for attribute, form in kind.forms:
                values[attribute], at = self._value(at, form, start)
            entry = _Entry(kind.tag, values, [])
            self._entries[offset] = entry
            if len(self._entries) > _MOST_ENTRIES:
                raise ValueError("it has too many entries")
            if parents:
                parents[-1].children.append(entry)
            if kind.has_children:
                parents.append(entry)

    def _value(self, at: int, form: int, unit: int) -> tuple[int | bytes, int]:
        """Return the value of an attribute and the offset after it."""
        if form in _NUMBERS:
            return uleb(self._info, at)
        if form == _TEXT:
            end = self._info.index(b"\0", at)
            return self._info[at:end], end + 1
        if form == _BLOCK:
            end = at + 1 + self._info[at]
            return self._info[at + 1 : end], end
        end = at + _FIXED_BYTES[form]
        value = int.from_bytes(self._info[at:end], "little")
        return value + unit if form == _REFERENCE else value, end

    def arguments(self, kernels: Collection[str]) -> dict[str, tuple[DebugArgument, ...]]:
        """Return the arguments of these kernels, except kernels without debug information."""
        found = {}
        for entry in self._entries.values():
            name = (entry.text(_LINKAGE_NAME) or entry.text(_NAME)) if entry.tag == _FUNCTION else None
            if name is not None and name in kernels:
                found[name] = tuple(self._argument(child) for child in entry.children if child.tag == _PARAMETER)
        return found

    def _argument(self, parameter: _Entry) -> DebugArgument:
        kind = self._type_of(parameter)
        members = tuple(self._members(kind, Member(0, 0, ""))) if kind.tag in _STRUCTURES else ()
        return DebugArgument(parameter.text(_NAME), self._size(kind), members)

    def _step(self) -> None:
        self._steps += 1
        if self._steps > _MOST_STEPS:
            raise ValueError("its types take too long")

    def _type_of(self, entry: _Entry) -> _Entry:
        """Return the type of an entry, behind typedefs and qualifiers."""
        self._step()
        kind = self._entries[entry.number(_TYPE)]
        return self._type_of(kind) if kind.tag in _OTHER_NAMES else kind

    def _size(self, kind: _Entry) -> int:
        if kind.tag in _POINTERS:
            return 8
        if kind.tag == _ARRAY:
            return prod(_extents(kind)) * self._size(self._type_of(kind))
        return kind.number(_SIZE)

    def _members(self, kind: _Entry, at: Member) -> Iterator[Member]:
        """Yield the numbers in a type, in order."""
        if kind.tag == _ARRAY:
            element = self._type_of(kind)
            yield from self._elements(element, at, _extents(kind))
        elif kind.tag in _STRUCTURES:
            for entry in kind.children:
                self._step()
                place = entry.values.get(_MEMBER_AT)
                # A virtual base is elsewhere; bits have no place of their own.
                if isinstance(place, bytes) and place[0] == _PLUS_CONSTANT and _BITS not in entry.values:
                    offset, _ = uleb(place, 1)
                    name = entry.text(_NAME)
                    path = f"{at.path}.{name}" if name else at.path
                    yield from self._members(self._type_of(entry), Member(at.offset + offset, 0, path))
        elif size := self._size(kind):
            yield at._replace(size_bytes=size)

    def _elements(self, element: _Entry, at: Member, extents: Sequence[int]) -> Iterator[Member]:
        if not extents:
            yield from self._members(element, at)
            return
        stride = self._size(element) * prod(extents[1:])
        for index in range(extents[0]):
            self._step()
            place = Member(at.offset + index * stride, 0, f"{at.path}[{index}]")
            yield from self._elements(element, place, extents[1:])


def _abbreviations(section: bytes, at: int) -> Mapping[int, _Abbreviation]:
    """Return a table by its numbers."""
    numbers = _numbers(section, at)
    table = {}
    while number := next(numbers):
        tag, has_children = next(numbers), next(numbers)
        forms = []
        while any(pair := (next(numbers), next(numbers))):
            forms.append(pair)
        table[number] = _Abbreviation(tag, has_children, forms)
    return table


def _numbers(section: bytes, at: int) -> Iterator[int]:
    while True:
        number, at = uleb(section, at)
        yield number


def _extents(array: _Entry) -> list[int]:
    return [entry.number(_COUNT) for entry in array.children[:_MOST_DIMENSIONS]]
