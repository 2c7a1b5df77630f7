"""The program that a report embeds: what follows from its message is told, and nothing is guessed."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuprof.errors import DamagedInput
from gpuprof.read import source_text
from gpuprof.read.source_data import NOWHERE, InstructionPlace, SourceData
from gpuprof.read.source_text import FunctionCode, TextStore
from gpuprof.read.wire import message, number
from gpuprof.sass.tools.disassemble import Disassembler, PlacedText
from gpuprof.sass.tools.user_cache import UserCache
from tests.elf_files import KERNEL as CODE
from tests.elf_files import Content, cubin_file
from tests.table import each_row
from tests.test_line_table import END, SET_ADDRESS, special, table

START = 0x7F00_0000_0100
SECOND = START + 0x1000
TWO = cubin_file(Content(".text.second", bytes(64), info=1))
KERNEL = FunctionCode("sm_90", bytes(range(128)))


def program(cubin: bytes = TWO, **starts: int) -> bytes:
    """A SourceData of a cubin whose functions lie at these addresses."""
    functions = b"".join(message(1, message(1, name.encode()) + number(2, start)) for name, start in starts.items())
    return number(1, 5) + message(4, cubin) + message(9, functions)


class Tool:
    """Stands for nvdisasm: each instruction is told with its place, the second is a jump to the first."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, version: tuple[int, int] = (13, 5)) -> None:
        self.asked: list[list[bytes]] = []
        self.answer: list[tuple[PlacedText, ...] | str] | None = None
        monkeypatch.setattr(source_text, "disassembler_for", lambda target: Disassembler(Path("nvdisasm"), version))
        monkeypatch.setattr(source_text, "placed_texts", self.texts)

    def texts(self, tool: Disassembler, target: str, codes: Sequence[bytes]) -> list[tuple[PlacedText, ...] | str]:
        assert target == "sm_90"
        self.asked.append(list(codes))
        return self.answer if self.answer is not None else [listing(code) for code in codes]


def listing(code: bytes) -> tuple[PlacedText, ...]:
    places = range(0, len(code), 16)
    return tuple(PlacedText("BRA ", 0) if at == 16 else PlacedText(f"IADD3 R{at}, RZ, RZ, RZ") for at in places)


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> Tool:
    return Tool(monkeypatch)


@pytest.fixture
def store(tool: Tool, tmp_path: Path) -> TextStore:
    return TextStore(UserCache(tmp_path / "cache"))


def test_instructions_are_told_by_address_jumps_as_addresses_and_called_functions_too(store: TextStore) -> None:
    data = SourceData(program(kernel=START, second=SECOND))
    assert data.places([START, START + 16, SECOND + 32], store) == {
        START: InstructionPlace("IADD3 R0, RZ, RZ, RZ", None, None),
        START + 16: InstructionPlace(f"BRA {START:#x}", None, None),
        SECOND + 32: InstructionPlace("IADD3 R32, RZ, RZ, RZ", None, None),
    }


@each_row("pc", [0, START - 16, START + 8, START + 128, SECOND + 64])
def test_nothing_is_told_of_an_address_outside_or_between(pc: int, store: TextStore) -> None:
    data = SourceData(program(kernel=START, second=SECOND))
    assert data.places([pc], store) == {pc: NOWHERE}


def test_functions_that_overlap_or_that_two_addresses_are_told_for_are_not_known(store: TextStore) -> None:
    overlapping = SourceData(program(kernel=START, second=START + 64))
    assert overlapping.places([START, START + 64], store) == {START: NOWHERE, START + 64: NOWHERE}
    data = SourceData(program(kernel=START))
    assert data.places([START], store, ("kernel", START + 128)) == {START: NOWHERE}
    assert data.places([START], store, ("kernel", START))[START].sass


@each_row("cubin", [b"", b"no cubin", TWO[:700], cubin_file()[:64]])
def test_without_a_whole_cubin_nothing_is_known(cubin: bytes, store: TextStore) -> None:
    data = SourceData(program(cubin, kernel=START))
    assert data.places([START], store) == {START: NOWHERE} and data.function("kernel") is None
    assert data.is_broken is bool(cubin)
    both = SourceData(program(TWO) + program(cubin_file()))
    assert both.cubin is None and both.is_broken and both.places([START], store) == {START: NOWHERE}
    ptx = SourceData(number(1, 5) + message(3, b".version 8.0") + message(9, message(1, message(1, b"k"))))
    assert ptx.places([0], store) == {0: NOWHERE} and not ptx.is_broken
    assert ptx.target is None and ptx.function("k") is None


def test_sources_by_name_and_bytes_that_are_no_text() -> None:
    files = message(1, message(1, b"/a.cu") + message(2, b"int \xff;")) + message(1, message(1, b"/b.h"))
    assert SourceData(message(8, files)).sources() == {"/a.cu": "int \udcff;", "/b.h": ""}
    assert SourceData(b"").sources() == {}


def test_lines_are_told_of_a_cubin_whose_machine_code_was_taken_out(store: TextStore, tool: Tool) -> None:
    stripped = with_lines(Content(".text.kernel", kind=8, size=128, info=24 << 24 | 1))
    data = SourceData(program(stripped, kernel=START))
    assert data.places([START, START + 112, START + 128], store) == {
        START: ("", "/src/a.cu", 7),
        START + 112: ("", "/src/a.cu", 8),
        START + 128: NOWHERE,
    }
    assert data.function("kernel") is None and tool.asked == []


def with_lines(kernel: Content = CODE) -> bytes:
    """A cubin with a line table; with `kernel` in place of its machine code."""
    lines = table(SET_ADDRESS + special(0, 6) + special(16, 1) + bytes([2, 112]) + END)
    place = lines.index(SET_ADDRESS) + 3
    relocation = place.to_bytes(8, "little") + (1 << 32 | 2).to_bytes(8, "little")
    more = Content(".debug_line", lines), Content(".rel.debug_line", relocation, kind=9, link=2)
    return cubin_file(*more, kernel=kernel)


def test_a_broken_line_table_leaves_the_text(store: TextStore) -> None:
    data = SourceData(program(cubin_file(Content(".debug_line", b"\xff" * 40)), kernel=START))
    assert data.places([START], store)[START] == ("IADD3 R0, RZ, RZ, RZ", None, None) and data.has_broken_lines


def test_text_is_asked_once_and_then_comes_from_memory_and_from_the_cache_unless_that_is_nonsense(
    store: TextStore, tool: Tool, tmp_path: Path
) -> None:
    store.learn([KERNEL, KERNEL])
    store.learn([KERNEL])
    assert tool.asked == [[KERNEL.code]] and store.text(KERNEL) == listing(KERNEL.code)
    again = TextStore(UserCache(tmp_path / "cache"))
    again.learn([KERNEL])
    assert len(tool.asked) == 1 and list(again.text(KERNEL) or ()) == list(listing(KERNEL.code))
    (entry,) = (tmp_path / "cache").iterdir()
    for count, nonsense in enumerate(
        [b"", b"NOP", b"NOP\n" * 6, b"\n".join([b"BRA \tno"] * 8), b"\xff\n" * 7], start=2
    ):
        UserCache(tmp_path / "cache").write(entry.name, nonsense)
        anew = TextStore(UserCache(tmp_path / "cache"))
        anew.learn([KERNEL])
        assert len(tool.asked) == count and anew.text(KERNEL) == listing(KERNEL.code)


@settings(max_examples=12)
@given(at=st.integers(0, 2000), flip=st.integers(1, 255), cut=st.integers(0, 2000))
def test_damage_is_told_or_leaves_less_known(at: int, flip: int, cut: int) -> None:
    whole = program(kernel=START, second=SECOND) + message(8, message(1, message(1, b"a") + message(2, b"text")))
    at %= len(whole)
    damaged = (whole[:at] + bytes([whole[at] ^ flip]) + whole[at + 1 :])[: max(1, len(whole) - cut % len(whole))]
    with suppress(DamagedInput), pytest.MonkeyPatch.context() as patch:
        patch.setattr(source_text, "disassembler_for", lambda target: None)
        data = SourceData(damaged)
        data.sources()
        data.places([START, SECOND], TextStore(UserCache(None)))
        data.function("kernel")
