"""The code of a report's launches comes from the programs that it embeds, and is what NVIDIA's own reader says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import gpuprof
from gpuprof.annotated.counts import opcode_of
from gpuprof.diagnose.facts.code import FP64_SEEDS
from gpuprof.diagnose.rules.narrow_access import width_of
from gpuprof.model.recorded import SASS_TEXT, SOURCE_LINES, LaunchDetails
from gpuprof.read import source_reader, source_text
from gpuprof.read.ncu_details import NcuDetails
from gpuprof.read.ncu_rep import read_ncu_rep
from gpuprof.read.source_data import NOWHERE, InstructionPlace, SourceData
from gpuprof.read.source_reader import LaunchProgram, SourceReader
from gpuprof.read.source_text import FunctionCode, TextStore
from gpuprof.sass.binary.elf import INSTRUCTION_BYTES
from gpuprof.sass.binary.encodings import opcodes_of
from gpuprof.sass.tools.disassemble import BRINGS_DISASSEMBLER, disassembler_for
from gpuprof.sass.tools.user_cache import UserCache
from tests.conftest import OWN_REPORTS
from tests.cuda_tools import needs_cuda_wheels
from tests.elf_files import Content, cubin_file
from tests.nvidias_spelling import spelled
from tests.table import each_row
from tests.test_real_reports import native_actions
from tests.test_source_data import SECOND, START, Tool, program, with_lines

NO_SASS = ("N/A", "???")
"""What NVIDIA's reader says for an instruction whose code it does not have, or cannot read."""


def reader(*programs: LaunchProgram | None) -> SourceReader:
    return SourceReader(lambda number: programs[number], lambda: range(len(programs)))


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> Tool:
    monkeypatch.setattr(source_reader, "TextStore", lambda: TextStore(UserCache(None)))
    return Tool(monkeypatch)


def two() -> SourceData:
    cubin = cubin_file(Content(".text.second", bytes(64), info=1), Content(".text.third", bytes(16), info=1))
    return SourceData(program(cubin, kernel=START, second=SECOND))


@each_row(("target", "hint"), [("sm_90", BRINGS_DISASSEMBLER), ("sm_72", "CUDA 12"), ("sm_70", "CUDA 12")])
def test_without_a_disassembler_lines_are_there_and_what_brings_text_is_said(
    target: str, hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_text, "disassembler_for", lambda target: None)
    data = SourceData(program(with_lines(), kernel=START))
    monkeypatch.setattr(data, "target", target)
    code = reader(LaunchProgram(data, "kernel"))
    assert code.places(0, [START + 16]) == {START + 16: InstructionPlace("", "/src/a.cu", 8)}
    (gap,) = code.gaps(0)
    assert gap.what == SASS_TEXT and target in gap.why and hint in gap.how


def test_what_is_not_known_is_a_gap_that_says_why(tool: Tool) -> None:
    code = reader(None, LaunchProgram(two(), "missing"))
    assert code.sources(0) == {} and code.places(0, [16]) == {16: NOWHERE}
    assert [[gap.what for gap in code.gaps(number)] for number in (0, 1)] == [[SASS_TEXT], [SASS_TEXT]]
    (gap,) = reader(LaunchProgram(SourceData(program(b"no cubin")), "kernel")).gaps(0)
    assert gap.what == SASS_TEXT and "damaged" in gap.why
    broken = SourceData(program(cubin_file(Content(".debug_line", b"\xff" * 40)), kernel=START))
    code = reader(LaunchProgram(broken, "kernel"))
    assert code.places(0, [START])[START] == ("IADD3 R0, RZ, RZ, RZ", None, None)
    (gap,) = code.gaps(0)
    assert gap.what == SOURCE_LINES and "damaged" in gap.why
    tool.answer = ["unknown instruction"]
    (gap,) = reader(LaunchProgram(SourceData(program()), "kernel")).gaps(0)
    assert (gap.what, gap.why) == (SASS_TEXT, "unknown instruction") and "nvidia-cuda-nvdisasm" in gap.how


@needs_cuda_wheels
@pytest.mark.compilers
def test_both_readers_say_the_same_of_every_instruction(real_report: Path) -> None:
    """Of the kernels of all real reports: sources, lines and, where NVIDIA's reader knows the chip, text."""
    store, seen = TextStore(UserCache(None)), set()
    for launch, action in zip(read_ncu_rep(real_report), native_actions(real_report), strict=True):
        details = launch.details
        assert isinstance(details, NcuDetails) and details.reference is not None
        mangled, reference = details.mangled, details.reference
        told = details.programs.source(reference)
        assert told is not None
        start, code, own = told.starts.get(mangled), told.function(mangled), None
        if start is None:
            start = address_of(action)
            own = (mangled, start)
        assert start and code is not None
        if (reference, mangled) in seen:
            continue
        seen.add((reference, mangled))
        assert told.sources() == {str(name): str(text) for name, text in action.source_files().items()}
        pcs = range(start, start + len(code.code), INSTRUCTION_BYTES)
        theirs = {pc: nvidias_place(action, pc) for pc in pcs}
        places = told.places(pcs, store, own)
        assert {pc: position_of(place) for pc, place in places.items()} == {
            pc: position_of(place) for pc, place in theirs.items()
        }
        assert (store.without_text(code) is None) is (disassembler_for(code.target) is not None)
        assert any(place.sass for place in theirs.values()) or told.target in VOLTA
        if told.target not in VOLTA:
            assert places == theirs
    assert seen


@needs_cuda_wheels
@pytest.mark.compilers
def test_opcodes_by_machine_code_are_those_of_the_text(real_report: Path) -> None:
    store, named = TextStore(UserCache(None)), 0
    codes = [code for launch in read_ncu_rep(real_report) if (code := code_of(launch.details)) is not None]
    store.learn(codes)
    for code in dict.fromkeys(codes):
        for opcode, text in zip(opcodes_of(code.code), store.text(code) or (), strict=False):
            whole = opcode_of(text.text)
            name = whole.partition(".")[0]
            assert opcode.partition(".")[0] in ("", name, name.replace("REDG", "RED"))
            assert not opcode or width_of(opcode) == width_of(whole)
            assert (opcode in FP64_SEEDS) is whole.startswith(FP64_SEEDS)
            named += bool(opcode)
    assert named or all(disassembler_for(code.target) is None for code in codes)


def code_of(details: LaunchDetails) -> FunctionCode | None:
    assert isinstance(details, NcuDetails)
    source = details.programs.source(details.reference)
    return source.function(details.mangled) if source is not None else None


def test_without_a_disassembler_findings_keep_file_and_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_text, "disassembler_for", lambda target: None)
    findings = [finding for kernel in gpuprof.load(OWN_REPORTS[1]).kernels for finding in kernel.findings]
    places = {
        finding.rule: (Path(finding.place.file).name, finding.place.line)
        for finding in findings
        if finding.place is not None and finding.place.file is not None
    }
    assert places == dict.fromkeys(("dram-bandwidth", "memory-latency"), ("launches.cu", 51))


VOLTA = ("sm_70", "sm_72")


def nvidias_place(action: Any, pc: int) -> InstructionPlace:
    info, sass = action.source_info(pc), str(action.sass_by_pc(pc) or "").strip()
    file, line = (info.file_name(), int(info.line())) if info is not None else (None, None)
    return InstructionPlace(spelled(sass) if sass not in NO_SASS else "", file, line)


def address_of(action: Any) -> int:
    """The address of a launch's only function, where a report of an old driver tells it."""
    functions = action.metric_by_name("launch__function_pcs")
    assert functions.num_instances() == 1
    return int(functions.as_uint64(0))


def position_of(place: InstructionPlace) -> tuple[str, int] | None:
    return None if place.file is None or place.line is None else (place.file, place.line)
