"""Fat binaries come apart into all their code, compressed or not; broken ones are refused; no file is left behind."""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuprof.errors import DamagedInput
from gpuprof.sass.binary.cubin import read_cubin
from gpuprof.sass.binary.fatbin import FatEntry, fatbin_entries
from gpuprof.sass.tools.cuobjdump import cubin_of, find_cuobjdump, ptx_of
from tests.device_code import FOLDER, cubin_for, entries, needs_cuobjdump
from tests.table import each_row

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
    assert [read_cubin(cubin_of(item)).target for item in read if item.kind == "sass"] == ["sm_80", "sm_90a", "sm_100f"]
    assert b".target sm_90" in bytes(read[2].stored)


@pytest.mark.compilers
@needs_cuobjdump
@pytest.mark.usefixtures("emptied")
@each_row("name", PACKED)
def test_compressed_code_and_ptx_are_those_of_the_same_source_uncompressed(name: str) -> None:
    (plain_ptx,) = (item for item in entries("plain.fatbin") if item.kind == "ptx")
    for item in entries(name):
        if item.kind == "sass":
            unpacked, plain = read_cubin(cubin_of(item)), read_cubin(cubin_for(item.target))
            assert unpacked.target == item.target
            assert [kernel.code for kernel in unpacked.kernels] == [kernel.code for kernel in plain.kernels]
        else:
            assert ptx_of(item).split() == ptx_of(plain_ptx).split() and b".entry scale(" in ptx_of(item)


@pytest.mark.compilers
@needs_cuobjdump
def test_all_modules_come_out_where_nvidias_extraction_writes_over_some(tmp_path: Path) -> None:
    """first.o and second.o are of a file of one name; cuobjdump names what it extracts after that."""
    tool = find_cuobjdump()
    assert tool is not None
    held = [item for name in ("first.o", "second.o") for item in entries_of_object(name) if item.kind == "sass"]
    file = tmp_path / "both.fatbin"
    file.write_bytes(b"".join(container(bytes(item.header) + item.stored) for item in held))
    subprocess.run([tool.path, "-xelf", "all", file.name], cwd=tmp_path, capture_output=True, check=True)
    assert len(list(tmp_path.glob("*.cubin"))) == 2
    kernels = [
        [kernel.mangled for kernel in read_cubin(cubin_of(item)).kernels] for item in fatbin_entries(file.read_bytes())
    ]
    assert sorted(map(sorted, kernels)) == [["copy", "scale"], ["copy", "scale"], ["scale"], ["scale"]]


def entries_of_object(name: str) -> list[FatEntry]:
    """The entries of an object file, which has them in a section; here they are sought by their magic."""
    data = (FOLDER / name).read_bytes()
    start = data.index(struct.pack("<I", 0xBA55ED50))
    (size,) = struct.unpack_from("<Q", data, start + 8)
    return list(fatbin_entries(data[start : start + 16 + size]))


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
        (b"junk" * 8, "byte 0, but 6a756e6b"), (container(entry(b"a")) + b"\1" + bytes(40), "byte 81"),
        (container(entry(b"a"))[:-1], "81 of 80: truncated"), (container(entry(b"a"))[:12], "truncated"),
        (container(b"short"), "truncated"), (container(entry(b"a")[:-1]), "container"),
        (container(entry(b"a", flags=0x8011, unpacked=2**40)), "1,099,511,627,776 bytes"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_damage(data: bytes, why: str) -> None:
    with pytest.raises(DamagedInput, match=why):
        list(fatbin_entries(data))


@each_row("at", [64, 68, 72, 92])
def test_a_table_of_packed_entries_that_does_not_add_up_is_damage(at: int) -> None:
    """`at` is an offset in the header of the second entry: the count, the length, a kind, what is further in it."""
    data = bytearray((FOLDER / "packed.fatbin").read_bytes())
    (skipped,) = struct.unpack_from("<Q", data, 16 + 8)
    start = 16 + struct.unpack_from("<I", data, 16 + 4)[0] + skipped
    data[start + at] ^= 0x41
    try:
        kinds = [item.kind for item in fatbin_entries(bytes(data))]
    except DamagedInput as error:
        assert "add up" in error.message or "truncated" in error.message
    else:
        assert (at, "other" in kinds) == (72, True)


@given(st.data(), st.sampled_from(["plain.fatbin", *PACKED]))
def test_a_fat_binary_that_was_altered_is_read_or_refused(data: st.DataObject, name: str) -> None:
    content = bytearray((FOLDER / name).read_bytes())
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, min(len(content), 600) - 8))
        size = data.draw(st.sampled_from([1, 2, 4, 8]))
        content[at : at + size] = data.draw(st.binary(min_size=size, max_size=size))
    try:
        for item in fatbin_entries(bytes(content[: data.draw(st.integers(0, len(content)))])):
            assert len(item.alone()) <= len(content) + 16
    except DamagedInput as error:
        assert len(error.message) < 300
