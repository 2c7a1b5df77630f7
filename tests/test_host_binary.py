"""Device code is found in whatever holds it on the host, without reading the rest; what is not read says what to do."""

from __future__ import annotations

import os
import struct
import tracemalloc
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuprof.errors import DamagedInput, InputError
from gpuprof.sass.binary.fatbin import containers
from gpuprof.sass.binary.host_binary import binary_kind, device_code
from tests.device_code import FOLDER, cubin_for, fatbin_entries
from tests.elf_files import CUDA, X86_64, Content, cubin_file, elf_file
from tests.table import each_row

PLAIN = (FOLDER / "plain.fatbin").read_bytes()


class Code(NamedTuple):
    """Device code that was read."""

    member: str
    form: str
    content: bytes

    def targets(self) -> list[str]:
        return [entry.target for entry in fatbin_entries(self.content)]


def codes_of(file: Path) -> list[Code]:
    return [Code(code.member, code.form, bytes(code.part)) for code in device_code(file)]


def codes(folder: Path, data: bytes) -> list[Code]:
    file = folder / "input"
    file.write_bytes(data)
    return codes_of(file)


def member(name: bytes, content: bytes) -> bytes:
    """A member of an archive, padded to an even size."""
    header = name.ljust(16) + b"0".ljust(12) + b"0".ljust(6) * 2 + b"644".ljust(8) + b"%-10d" % len(content)
    return header + b"`\n" + content + b"\n" * (len(content) % 2)


@each_row("name", ["first.o", "lib.so", "zstd.fatbin"])
def test_objects_libraries_and_fat_binaries_have_the_code_that_they_were_compiled_to(name: str) -> None:
    (code,) = codes_of(FOLDER / name)
    assert (code.member, code.form) == ("", "fatbin")
    assert code.targets() == ["sm_80", "sm_90a", "compute_90"]


def test_programs_of_both_kinds_of_hosts_and_cubins_are_read(tmp_path: Path) -> None:
    (code,) = codes_of(FOLDER / "rdc.o")
    assert code.targets() == ["sm_90"]
    both = elf_file(X86_64, [Content("__nv_relfatbin", b"not asked for"), Content(".nv_fatbin", PLAIN)])
    (linked,) = codes(tmp_path, both)
    assert linked.content == PLAIN
    (code,) = codes(tmp_path, cubin_for("sm_80"))
    assert (code.form, code.content) == ("cubin", cubin_for("sm_80"))
    assert binary_kind(cubin_file()) == "cubin"


def test_of_a_library_of_gigabytes_only_the_code_is_read(tmp_path: Path) -> None:
    file = tmp_path / "library.so"
    data = elf_file(X86_64, [Content(".data", size=3 * 2**30), Content(".nv_fatbin", PLAIN)])
    with file.open("wb") as library:
        library.write(data)
        library.truncate(4 * 2**30)  # a hole: it takes no space
    tracemalloc.start()
    try:
        (code,) = codes_of(file)
        assert code.targets() == ["sm_80", "sm_90a", "compute_90", "sm_100f"]
        assert tracemalloc.get_traced_memory()[1] < 10e6
    finally:
        tracemalloc.stop()


def test_names_of_gigabytes_are_not_read(tmp_path: Path) -> None:
    data = bytearray(elf_file(X86_64, [Content(".nv_fatbin", PLAIN)]))
    (headers,) = struct.unpack_from("<Q", data, 0x28)
    struct.pack_into("<Q", data, headers + 2 * 64 + 32, 3 * 2**30)  # the size of the names of sections
    file = tmp_path / "library.so"
    with file.open("wb") as library:
        library.write(data)
        library.truncate(4 * 2**30)
    with pytest.raises(DamagedInput, match="3,221,225,472 bytes"):
        list(device_code(file))


@each_row(
    ("data", "why", "hint"),
    [
        (b"!<thin>\n" + bytes(60), "thin archive", "ar rc"),
        (b"MZ" + bytes(100), "Windows", "cuobjdump -xelf all"),
        (b"\xcf\xfa\xed\xfe" + bytes(100), "macOS", "cuobjdump -xelf all"),
        (b"plain text", "cubin", None),
        (b"", "cubin", None),
        (elf_file(X86_64, [Content(".text", b"x")]), "no CUDA code", "object file"),
        (elf_file(CUDA + 1, [Content(".data", PLAIN)]), "no CUDA code", "object file"),
        # objcopy --only-keep-debug leaves such sections.
        (elf_file(X86_64, [Content(".nv_fatbin", kind=8, size=10_000)]), "no CUDA code", "object file"),
        (b"!<arch>\n", "no CUDA code", "object file"),
    ],
)
def test_what_has_no_code_to_read_says_so(data: bytes, why: str, hint: str | None, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=why) as caught:
        codes(tmp_path, data)
    assert caught.value.hint is None if hint is None else hint in str(caught.value.hint)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(InputError, match="regular"):
            list(device_code(path))
    with pytest.raises(InputError, match="missing"):
        list(device_code(tmp_path / "missing"))


@each_row("left", [0, 64, 2000])
def test_a_file_that_becomes_shorter_while_it_is_read_is_damage(left: int, tmp_path: Path) -> None:
    file = tmp_path / "library.so"
    file.write_bytes((FOLDER / "lib.so").read_bytes())
    for code in device_code(file):
        os.truncate(file, left)
        with pytest.raises(DamagedInput, match="shorter"):
            list(containers(code.part))


@each_row(
    ("data", "why"),
    [
        (elf_file(X86_64, [Content(".nv_fatbin", b"", size=10_000)]), "fat binaries"),
        (b"\x7fELF\1\1" + bytes(100), "64-bit"),
        (b"!<arch>\n" + member(b"a.o/", bytes(100))[:-60], "byte 8"),
        (b"!<arch>\n" + b"x" * 60, "byte 8"),
        (b"!<arch>\n" + member(b"a.o/", b"\x7fELF" + bytes(96)), r"a\.o"),
    ],
)
def test_what_is_broken_is_damage(data: bytes, why: str, tmp_path: Path) -> None:
    with pytest.raises(DamagedInput, match=why):
        codes(tmp_path, data)


@pytest.fixture(scope="module")
def altered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for files that are altered, one after the other."""
    return tmp_path_factory.mktemp("altered")


@given(data=st.data(), name=st.sampled_from(["first.o", "rdc.o", "zstd.fatbin"]))
def test_a_file_that_was_altered_is_read_or_refused(data: st.DataObject, name: str, altered: Path) -> None:
    content = bytearray((FOLDER / name).read_bytes())
    table = int.from_bytes(content[0x28:0x30], "little") if name.endswith(".o") else 0
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.one_of(st.integers(0, 63), st.integers(table, len(content) - 8)))
        size = data.draw(st.sampled_from([1, 2, 4, 8]))
        content[at : at + size] = data.draw(st.binary(min_size=size, max_size=size))
    try:
        for code in codes(altered, bytes(content[: data.draw(st.integers(0, len(content)))])):
            if code.form == "fatbin":
                code.targets()
    except InputError as error:
        assert len(error.message) < 1000
