"""Debug information that is made byte by byte names the members of an argument; broken, it names nothing."""

from __future__ import annotations

import struct

from gpuprof.sass.binary.debug_arguments import DebugArgument, Member, debug_arguments
from tests.elf_files import Content, cubin_file
from tests.table import each_row

FUNCTION, PARAMETER, STRUCTURE, MEMBER, NUMBER, ARRAY, RANGE, TYPEDEF = range(1, 9)
NAMED, TYPED = b"\x03\x08", b"\x49\x13"
ABBREVIATIONS = b"".join(
    bytes((number, tag, has_children)) + forms + b"\0\0"
    for number, tag, has_children, forms in (
        (FUNCTION, 0x2E, 1, b"\x87\x40\x08"), (PARAMETER, 0x05, 0, NAMED + TYPED), (STRUCTURE, 0x13, 1, b"\x0b\x0b"),
        (MEMBER, 0x0D, 0, NAMED + TYPED + b"\x38\x0a"), (NUMBER, 0x24, 0, b"\x0b\x0b"), (ARRAY, 0x01, 1, TYPED),
        (RANGE, 0x21, 0, b"\x37\x0b"), (TYPEDEF, 0x16, 0, TYPED),
    )
) + b"\0"  # fmt: skip
END = b"\0"


def reference(offset: int) -> bytes:
    return struct.pack("<I", offset)


def member(name: bytes, kind: int, offset: int) -> bytes:
    return bytes((MEMBER,)) + name + b"\0" + reference(kind) + bytes((2, 0x23, offset))


def unit(entries: bytes, version: int = 2) -> bytes:
    return struct.pack("<IHIB", len(entries) + 7, version, 0, 8) + entries


INT, FLOATS, VIEW = 11, 13, 23
"""Offsets: a number of 4 bytes, float[2][3] of it, and a structure of both."""
TYPES = (
    bytes((NUMBER, 4))
    + bytes((ARRAY,)) + reference(INT) + bytes((RANGE, 2, RANGE, 3)) + END
    + bytes((STRUCTURE, 28)) + member(b"n", INT, 0) + member(b"m", FLOATS, 4) + END
)  # fmt: skip
KERNEL = (
    bytes((FUNCTION,)) + b"kernel\0"
    + bytes((PARAMETER,)) + b"in\0" + reference(VIEW) + bytes((PARAMETER,)) + b"count\0" + reference(INT) + END
)  # fmt: skip
GOOD = unit(TYPES + KERNEL)


def read(info: bytes) -> object:
    """What a cubin with these entries names of its kernel."""
    cubin = cubin_file(Content(".debug_info", info), Content(".debug_abbrev", ABBREVIATIONS))
    return debug_arguments(cubin, ["kernel"]).get("kernel")


def test_arguments_and_their_members_are_named() -> None:
    elements = [(4 * (3 * row + column), f".m[{row}][{column}]") for row in range(2) for column in range(3)]
    members = (Member(0, 4, ".n"), *(Member(4 + at, 4, path) for at, path in elements))
    expected = DebugArgument("in", 28, members), DebugArgument("count", 4, ())
    assert read(GOOD) == expected
    sections = (("info", GOOD), ("abbrev", ABBREVIATIONS))
    ptx = "".join(
        f"\t.section\t.debug_{name}\n\t{{\n.b8 {','.join(map(str, content))}\n\t}}\n" for name, content in sections
    )
    assert debug_arguments(ptx.encode(), ["kernel"]) == {"kernel": expected}
    assert debug_arguments(ptx.encode(), ["other"]) == {} == debug_arguments(cubin_file(), ["kernel"])


def test_each_unit_has_offsets_of_its_own() -> None:
    assert read(unit(TYPES) + GOOD) == read(GOOD)


@each_row(
    "info",
    [
        unit(TYPES + KERNEL, version=5), GOOD[:40], GOOD + b"\1",
        # A type that is itself, a structure in itself, an array of 2^24 structures, and a million entries.
        unit(bytes((TYPEDEF,)) + reference(INT) + KERNEL.replace(reference(VIEW), reference(INT))),
        unit(TYPES.replace(b"n\0" + reference(INT), b"n\0" + reference(VIEW)) + KERNEL),
        unit(TYPES.replace(bytes((RANGE, 2, RANGE, 3)), bytes((RANGE, 255)) * 3) + KERNEL),
        GOOD + unit(bytes((NUMBER, 4)) * 1_000_000),
    ],
)  # fmt: skip
def test_what_is_broken_or_takes_too_long_names_nothing(info: bytes) -> None:
    assert read(info) is None


def test_whatever_byte_is_altered_nothing_else_is_raised() -> None:
    for at in range(len(GOOD)):
        for byte in (0, 1, 0x7F, 0xFF):
            read(GOOD[:at] + bytes((byte,)) + GOOD[at + 1 :])
