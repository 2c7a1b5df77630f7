"""Line tables of cubins: which source line an instruction was compiled from."""

from __future__ import annotations

import struct
from itertools import accumulate
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuprof.errors import DamagedInput
from gpuprof.read.ncu_rep import read_ncu_rep
from gpuprof.sass.binary.line_program import line_rows
from gpuprof.sass.binary.line_table import _LARGEST_WITHOUT_CODE, line_tables
from tests.table import each_row

SPECIAL = 13
"""The first special opcode of the tables here: with a base of -5 and a range of 14, as LLVM and ptxas have them."""


def uleb(value: int) -> bytes:
    out = b""
    while value >= 0x80:
        out, value = out + bytes([value & 0x7F | 0x80]), value >> 7
    return out + bytes([value])


def extended(opcode: int, payload: bytes = b"") -> bytes:
    return b"\0" + uleb(1 + len(payload)) + bytes([opcode]) + payload


SET_ADDRESS, END = extended(2, bytes(8)), extended(1)


def special(advance: int, line: int) -> bytes:
    """Move on by so many bytes and lines, and make a row."""
    return bytes([SPECIAL + advance * 14 + line + 5])


def table(program: bytes, version: int = 2, folders: tuple[str, ...] = ("/src",), file: str = "a.cu") -> bytes:
    """A table of one file, in the first folder."""
    lengths = bytes([0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1])
    names = b"".join(name.encode() + b"\0" for name in folders)
    entries = names + b"\0" + file.encode() + b"\0" + uleb(len(folders) and 1) + uleb(0) + uleb(0) + b"\0"
    body = bytes([1, 1, 256 - 5, 14, SPECIAL]) + lengths + entries
    head = struct.pack("<HI", version, len(body)) + body + program
    return struct.pack("<I", len(head)) + head


def cubin(
    lines: bytes,
    code_bytes: int = 64,
    *,
    addend: int | None = None,
    kernel: bytes = b"k",
    place: int = -1,
) -> bytes:
    """A cubin of one kernel; `place` is where in the table the relocation is, by default at the first address."""
    place = lines.find(SET_ADDRESS) + 3 if place < 0 else place
    kind = b".rel" if addend is None else b".rela"
    relocation = struct.pack("<QQ", place, (1 << 32) | 2) + (b"" if addend is None else struct.pack("<q", addend))
    symbols = bytes(24) + struct.pack("<IBBHQQ", 0, 0x12, 0x10, 2, 0, code_bytes)
    contents = {
        b"": (0, b""), b".shstrtab": (3, b""), b".text." + kernel: (1, bytes(code_bytes)), b".debug_line": (1, lines),
        kind + b".debug_line": (9 if addend is None else 4, relocation), b".symtab": (2, symbols),
        b".debug_line_str": (1, b"no\0\0b.cu\0"),
    }  # fmt: skip
    names = b"\0".join(contents) + b"\0"
    contents[b".shstrtab"] = (3, names)
    ends = list(accumulate((len(content) for _, content in contents.values()), initial=64))
    headers = b"".join(
        struct.pack("<IIQQQQIIQQ", names.index(name + b"\0"), kind, 0, 0, start, len(content), 5, 0, 1, 0)
        for (name, (kind, content)), start in zip(contents.items(), ends, strict=False)
    )
    ident = struct.pack("<4sBBBBB7x", b"\x7fELF", 2, 1, 1, 51, 7)
    head = ident + struct.pack("<HHIQQQIHHHHHH", 2, 190, 1, 0, 0, ends[-1], 80, 64, 0, 0, 64, len(contents), 1)
    return head + b"".join(content for _, content in contents.values()) + headers


PROGRAM = SET_ADDRESS + special(0, 8) + special(16, 2) + bytes([2]) + uleb(32) + bytes([3]) + b"\x77" + bytes([1]) + END
"""Line 9 at 0, 11 at 16, and 32 bytes on 9 lines back (−9 is 0x77 as a signed number): line 2 at 48."""


def test_rows_worked_out_by_hand() -> None:
    """An instruction without a row of its own has the line of that before it."""
    expected = {0: ("/src/a.cu", 9), 16: ("/src/a.cu", 11), 32: ("/src/a.cu", 11), 48: ("/src/a.cu", 2)}
    assert line_tables(cubin(table(PROGRAM))) == {"k": expected}
    assert line_tables(cubin(table(PROGRAM)).replace(b".debug_line", b".debug_rows")) == {}


@each_row(
    ("program", "lines"),
    [
        # Nothing is said behind the end of a run of instructions.
        (SET_ADDRESS + special(0, 8) + bytes([2]) + uleb(32) + END, dict.fromkeys((0, 16), 9)),
        # Line zero is no line.
        (SET_ADDRESS + special(0, -1) + special(16, 3) + END, dict.fromkeys((16, 32, 48), 3)),
        # Addresses far outside the kernel are no lines of it.
        (SET_ADDRESS + special(0, 8) + bytes([2]) + uleb(1 << 40) + special(0, 1) + END
         + extended(2, struct.pack("<Q", 1 << 60)) + END, dict.fromkeys((0, 16, 32, 48), 9)),
    ],
)  # fmt: skip
def test_lines_begin_and_end_where_the_table_says(program: bytes, lines: dict[int, int]) -> None:
    assert line_tables(cubin(table(program)))["k"] == {at: ("/src/a.cu", line) for at, line in lines.items()}


def test_versions_that_no_toolkit_writes_are_damage() -> None:
    program = SET_ADDRESS + special(0, 8) + END
    assert line_tables(cubin(table(program, 3)))["k"] == line_tables(cubin(table(program, 2)))["k"]
    with pytest.raises(DamagedInput, match="version 5"):
        line_tables(cubin(table(program, 5)))


def test_names_that_would_take_too_much_memory_are_damage() -> None:
    files = b"".join(b"f%d\0\1\0\0" % number for number in range(5000))
    data = table(PROGRAM, folders=("x" * 10_000,)).replace(b"a.cu\0\1\0\0", files)
    grown = len(files) - 8
    length, version, header = struct.unpack_from("<IHI", data)
    with pytest.raises(DamagedInput, match="memory"):
        line_tables(cubin(struct.pack("<IHI", length + grown, version, header + grown) + data[10:]))


def test_of_rows_at_one_instruction_the_innermost_or_the_outermost_counts() -> None:
    """NVIDIA's own opcode 0x90 says between them what was inlined; it is passed over by its length."""
    inlined = special(0, 8) + extended(0x90, uleb(1) + uleb(0)) + special(0, 8)
    data = cubin(table(SET_ADDRESS + inlined + END), code_bytes=16)
    assert line_tables(data)["k"] == {0: ("/src/a.cu", 17)}
    assert line_tables(data, innermost=False)["k"] == {0: ("/src/a.cu", 9)}


def test_a_function_begins_where_the_table_is_relocated() -> None:
    """In code that was copied from a running program, the table has an address there."""
    program = special(0, 8) + END
    expected = {"k": dict.fromkeys((0, 16, 32, 48), ("/src/a.cu", 9))}
    copied = table(extended(2, struct.pack("<Q", 0x7F0000001000)) + program)
    place = copied.index(b"\0\x10\0\0\0\x7f")
    assert line_tables(cubin(table(SET_ADDRESS + program))) == expected
    assert line_tables(cubin(copied, place=place)) == expected
    assert line_tables(cubin(table(SET_ADDRESS + program), addend=0)) == expected


@given(st.binary(max_size=300))
def test_any_bytes_as_a_table_are_rows_or_broken(data: bytes) -> None:
    try:
        rows = list(line_rows(data))
    except (ValueError, IndexError, struct.error):
        return
    assert len(rows) <= len(data)


GOOD = cubin(table(PROGRAM))


@given(st.data())
def test_a_cubin_with_altered_bytes_is_read_or_damaged(data: st.DataObject) -> None:
    altered = bytearray(GOOD)
    for _ in range(data.draw(st.integers(1, 4))):
        altered[data.draw(st.integers(0, len(altered) - 1))] = data.draw(st.integers(0, 255))
    try:
        tables = line_tables(bytes(altered))
    except DamagedInput:
        return
    assert sum(map(len, tables.values())) <= _LARGEST_WITHOUT_CODE // 16


def test_reports_have_the_lines_that_nvidias_reader_says(real_report: Path) -> None:
    if real_report.suffix in {".ncu-rep", ".nsight-cuprof-report"}:
        _compare_with_reader(real_report)


def _compare_with_reader(report: Path) -> int:
    """Compare each executed instruction of each launch; return how many had a line. The first of a kernel has one."""
    compared = 0
    for launch in read_ncu_rep(report).launches:
        program = launch.details.program()
        tables = line_tables(program.cubin, innermost=False) if program is not None else {}
        if program is None or program.mangled not in tables:
            continue
        places = {
            instruction.pc: (instruction.file, instruction.line)
            for instruction in launch.details.instructions(("inst_executed",))
            if instruction.file
        }
        start = min(places, default=0)
        mine = tables[program.mangled]
        assert {pc - start: mine.get(pc - start) for pc in places} == {pc - start: at for pc, at in places.items()}
        compared += len(places)
    return compared
