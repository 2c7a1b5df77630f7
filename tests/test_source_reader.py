"""The embedded program is asked first, and NVIDIA's reader for what that leaves open; both say the same."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from gpuprof.code.binary.elf import INSTRUCTION_BYTES
from gpuprof.code.tools.user_cache import UserCache
from gpuprof.read import source_reader, source_text
from gpuprof.read.ncu_code import CodeReader, InstructionPlace
from gpuprof.read.ncu_details import NcuDetails
from gpuprof.read.ncu_rep import read_ncu_rep
from gpuprof.read.source_data import SourceData
from gpuprof.read.source_reader import LaunchProgram, SourceReader
from gpuprof.read.source_text import TextStore
from tests.conftest import SHARED
from tests.cuda_tools import needs_cuda_wheels
from tests.elf_files import Content, cubin_file
from tests.test_real_reports import native_actions
from tests.test_source_data import SECOND, START, Tool, program

SASS = "NVIDIA'S WORD"


class Native(CodeReader):
    """Stands for NVIDIA's reader, and notes what it is asked."""

    __slots__ = ("asked", "sass")

    def __init__(self, sass: str = SASS) -> None:
        super().__init__(Path("r.ncu-rep"), ())
        self.asked: list[Sequence[int]] = []
        self.sass = sass

    def prepare(self) -> None:
        self.asked.append(())

    def sources(self, number: int) -> Mapping[str, str]:
        return {"native.cu": ""}

    def places(self, number: int, pcs: Sequence[int]) -> dict[int, InstructionPlace]:
        self.asked.append(list(pcs))
        return {pc: InstructionPlace(self.sass, "native.cu", 1) for pc in pcs}


def reader(programs: Sequence[LaunchProgram | None], native: Native) -> SourceReader:
    return SourceReader(lambda number: programs[number], lambda: native, lambda: range(len(programs)))


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> Tool:
    monkeypatch.setattr(source_reader, "TextStore", lambda: TextStore(UserCache(None)))
    return Tool(monkeypatch)


def two() -> SourceData:
    cubin = cubin_file(Content(".text.second", bytes(64), info=1), Content(".text.third", bytes(16), info=1))
    return SourceData(program(cubin, kernel=START, second=SECOND))


def test_what_the_program_tells_is_not_asked_again(tool: Tool) -> None:
    native = Native()
    code = reader([LaunchProgram(two(), "kernel")], native)
    code.prepare()
    assert code.places(0, [START])[START].sass == "IADD3 R0, RZ, RZ, RZ"
    assert code.sources(0) == {} and code.start(0) == START and native.asked == []
    text = code.text(0)
    assert text is not None and text[16] == "BRA 0x0"


def test_only_what_is_open_is_asked_of_nvidias_reader(tool: Tool) -> None:
    native = Native()
    places = reader([LaunchProgram(two(), "kernel")], native).places(0, [START, 64])
    assert native.asked == [[64]] and places[64].sass == SASS and places[START].sass != SASS


def test_all_is_asked_where_the_report_embeds_no_program(tool: Tool) -> None:
    native = Native()
    code = reader([None], native)
    code.prepare()
    assert code.sources(0) == {"native.cu": ""} and code.places(0, [16])[16].sass == SASS
    assert code.start(0) is None and code.text(0) is None and native.asked == [(), [16]]


def test_kernels_of_a_report_are_disassembled_with_one_call(tool: Tool) -> None:
    data = two()
    names = ("kernel", "second", "kernel", "third", "missing")
    code = reader([LaunchProgram(data, name) for name in names], Native())
    code.places(0, [START])
    code.places(1, [SECOND])
    assert [len(asked) for asked in tool.asked] == [3]


def test_what_is_read_ahead_is_bounded(tool: Tool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_reader, "_MOST_AHEAD", 150)
    code = reader([LaunchProgram(two(), name) for name in ("kernel", "second", "third")], Native())
    code.places(0, [START])
    assert [sum(map(len, asked)) for asked in tool.asked] == [128]


def test_without_a_disassembler_nvidias_reader_tells_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_text, "disassembler_for", lambda target: None)
    native = Native()
    code = reader([LaunchProgram(two(), "kernel")], native)
    assert code.places(0, [START])[START].sass == SASS and code.places(0, [START + 16])[START + 16].sass == SASS
    assert native.asked == [[START], [START + 16]]


def test_a_chip_that_neither_knows_is_asked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_text, "disassembler_for", lambda target: None)
    native = Native(sass="")
    code = reader([LaunchProgram(two(), "kernel")], native)
    assert code.places(0, [START])[START] == ("", "native.cu", 1)
    assert code.places(0, [START + 16]) == {START + 16: InstructionPlace("", None, None)}
    assert code.places(0, [START + 32, 64])[64].file == "native.cu"
    assert native.asked == [[START], [START + 32, 64]]


def test_the_address_may_be_told_by_the_launch(tool: Tool) -> None:
    data = SourceData(program())
    code = reader([LaunchProgram(data, "kernel", (START,)), LaunchProgram(data, "kernel", (1, 2))], Native())
    assert code.start(0) == START and code.start(1) is None
    assert code.places(0, [START])[START].sass != SASS and code.places(1, [START])[START].sass == SASS


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@needs_cuda_wheels
def test_both_ways_say_the_same_of_every_instruction(real_report: Path) -> None:
    """Of the kernels of all real reports: sources, lines and, where NVIDIA's reader knows the chip, text."""
    actions = native_actions(real_report)
    native, store = CodeReader(SHARED, actions), TextStore(UserCache(None))
    seen = set()
    for number, (launch, action) in enumerate(zip(read_ncu_rep(real_report), actions, strict=True)):
        details = launch.details
        assert isinstance(details, NcuDetails) and details.reference is not None
        mangled, reference = details.mangled, details.reference
        told = details.programs.source(reference)
        assert told is not None
        start, code = told.starts.get(mangled), told.function(mangled)
        own = None
        if start is None:
            start = address_of(action)
            own = (mangled, start)
        assert start and code is not None
        if (reference, mangled) in seen:
            continue
        seen.add((reference, mangled))
        assert told.sources() == native.sources(number)
        pcs = range(start, start + len(code.code), INSTRUCTION_BYTES)
        theirs = native.places(number, pcs)
        assert told.lines(pcs, own) == {pc: position_of(place) for pc, place in theirs.items()}
        known = {pc: place for pc, place in theirs.items() if place.sass}
        assert told.target is not None and (known or told.target in ("sm_70", "sm_72"))
        if known and store.reads(told.target):
            assert len(known) == len(pcs)
            assert told.places(pcs, store, own) == known
    assert seen


def address_of(action: Any) -> int:
    """The address of a launch's only function, where a report of an old driver tells it."""
    functions = action.metric_by_name("launch__function_pcs")
    assert functions.num_instances() == 1
    return int(functions.as_uint64(0))


def position_of(place: InstructionPlace) -> tuple[str, int] | None:
    return None if place.file is None or place.line is None else (place.file, place.line)
