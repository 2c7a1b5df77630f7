"""Fat binaries come apart into all their code, compressed or not; broken ones are refused; no file is left behind."""

from __future__ import annotations

import struct
import subprocess
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuprof.errors import DamagedInput
from gpuprof.sass.binary.cubin import read_cubin
from gpuprof.sass.binary.unpacking import unpack_lz4, unpack_zstd
from gpuprof.sass.tools.programs import find_programs
from tests.device_code import FOLDER, cubin_for, entries, fatbin_entries, file_entries
from tests.table import each_row
from tests.zstd_bytes import compressed as zstd_frame

PACKED = ("zstd.fatbin", "lz4.fatbin", "packed.fatbin")
"""The three ways in which fatbinary compresses."""


def container(*held: bytes) -> bytes:
    """A container of these entries."""
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, sum(map(len, held))) + b"".join(held)


def entry(content: bytes, *, kind: int = 2, number: int = 80, flags: int = 0x11, unpacked: int = 0) -> bytes:
    """An entry of a container."""
    fields = (kind, 0x101, 64, len(content), 0, 0, 0x10008, number, 0, 0, flags, 0, unpacked)
    return struct.pack("<HHIQIIIIIIQQQ", *fields) + content


def test_the_entries_of_a_fat_binary_have_kind_and_target() -> None:
    read = entries("plain.fatbin")
    assert [(item.kind, item.target, item.compressed) for item in read] == [
        ("sass", "sm_80", False), ("sass", "sm_90a", False), ("ptx", "compute_90", False), ("sass", "sm_100f", False),
    ]  # fmt: skip
    assert [read_cubin(item.content()).target for item in read if item.kind == "sass"] == ["sm_80", "sm_90a", "sm_100f"]
    assert b".target sm_90" in read[2].content()


@each_row("name", PACKED)
def test_compressed_code_and_ptx_are_those_of_the_same_source_uncompressed(name: str) -> None:
    (plain_ptx,) = (item for item in entries("plain.fatbin") if item.kind == "ptx")
    for item in entries(name):
        assert item.compressed
        if item.kind == "sass":
            unpacked, plain = read_cubin(item.content()), read_cubin(cubin_for(item.target))
            assert unpacked.target == item.target
            assert [kernel.code for kernel in unpacked.kernels] == [kernel.code for kernel in plain.kernels]
        else:
            ptx = item.content().rstrip(b"\0")
            assert ptx.split() == plain_ptx.content().rstrip(b"\0").split() and b".entry scale(" in ptx


@pytest.mark.compilers
@pytest.mark.skipif(not find_programs("cuobjdump"), reason="there is no cuobjdump")
@each_row("name", [*PACKED, "lib.so"])
def test_code_is_unpacked_as_cuobjdump_unpacks_it(name: str, tmp_path: Path) -> None:
    tool = find_programs("cuobjdump")[0]
    subprocess.run([tool.path, "-xelf", "all", FOLDER / name], cwd=tmp_path, capture_output=True, check=True)
    unpacked = [item.content().rstrip(b"\0") for item in file_entries(FOLDER / name) if item.kind == "sass"]
    assert sorted(unpacked) == sorted(path.read_bytes().rstrip(b"\0") for path in tmp_path.iterdir())


def test_a_copy_in_a_block_repeats_what_it_makes() -> None:
    """Three letters and 9 from 3 before; one, and 15 + 255 + 2 + 4 from 1 before; one."""
    block = b"\x35abc\x03\0" + b"\x1fd\x01\0\xff\x02" + b"\x10e"
    assert unpack_lz4(block, 290) == b"abc" * 4 + b"d" * 277 + b"e"


@each_row(
    ("flags", "kind", "target"),
    [(0x100011, 1, "compute_90a"), (0x200011, 2, "sm_90f"), (0x11, 8, "sm_90"), (0x11, 64, "sm_90")],
)
def test_a_target_has_the_letter_of_its_flags(flags: int, kind: int, target: str) -> None:
    (item,) = fatbin_entries(container(entry(b"x", kind=kind, number=90, flags=flags)))
    assert item.target == target
    assert item.kind == {1: "ptx", 2: "sass", 8: "lto", 64: "other"}[kind]


@each_row(
    ("data", "why"),
    [
        (b"junk" * 8, "byte 0, but 6a756e6b"), (container(entry(b"a")) + b"\1" + bytes(40), "byte 88"),
        (container(entry(b"a"))[:-1], "81 of 80: truncated"), (container(entry(b"a"))[:12], "truncated"),
        (container(b"short"), "truncated"), (container(entry(b"a")[:-1]), "container"),
        (container(entry(b"a", flags=0x8011, unpacked=2**40)), "1,099,511,627,776 bytes"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_damage(data: bytes, why: str) -> None:
    with pytest.raises(DamagedInput, match=why):
        fatbin_entries(data)


@each_row("at", [64, 68, 92])
def test_a_table_of_packed_entries_that_does_not_add_up_is_damage(at: int) -> None:
    """`at` is an offset in the header of the second entry: the count, the length, what is further in it."""
    data = bytearray((FOLDER / "packed.fatbin").read_bytes())
    (skipped,) = struct.unpack_from("<Q", data, 16 + 8)
    start = 16 + struct.unpack_from("<I", data, 16 + 4)[0] + skipped
    data[start + at] ^= 0x41
    with pytest.raises(DamagedInput, match=r"add up|truncated"):
        fatbin_entries(bytes(data))


@each_row("name", PACKED)
def test_packed_code_that_is_broken_is_damage(name: str) -> None:
    whole = (FOLDER / name).read_bytes()
    for at in range(0, len(whole), 7):
        data = bytearray(whole)
        data[at] ^= 0x55
        try:
            unpacked = [item.content() for item in fatbin_entries(bytes(data))]
        except DamagedInput:
            continue
        assert sum(map(len, unpacked)) < 30_000


@each_row("block", [b"\x10a\x02\0", b"\x10a\0\0", b"\x1fa\x01\0" + b"\xff" * 9, b"\x10"])
def test_a_block_that_cannot_be_is_refused(block: bytes) -> None:
    with pytest.raises((ValueError, IndexError)):
        unpack_lz4(block, 1000)


def test_a_frame_is_unpacked_no_further_than_its_size() -> None:
    frame = zstd_frame(bytes(300_000_000))
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="instead of 1,000"):
            unpack_zstd(frame, 1000)
        assert tracemalloc.get_traced_memory()[1] < 10e6
    finally:
        tracemalloc.stop()


@given(st.data(), st.sampled_from(["plain.fatbin", *PACKED]))
def test_a_fat_binary_that_was_altered_is_read_or_refused(data: st.DataObject, name: str) -> None:
    content = bytearray((FOLDER / name).read_bytes())
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, min(len(content), 600) - 8))
        size = data.draw(st.sampled_from([1, 2, 4, 8]))
        content[at : at + size] = data.draw(st.binary(min_size=size, max_size=size))
    try:
        for item in fatbin_entries(bytes(content[: data.draw(st.integers(0, len(content)))])):
            assert len(item.content()) <= 2**29
    except DamagedInput as error:
        assert len(error.message) < 300
