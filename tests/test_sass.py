"""SASS: what nvdisasm prints becomes instructions, and their jumps become loops."""

from __future__ import annotations

import re
import tracemalloc
from collections import Counter
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from gpuprof.characterize.gates.chains import zero_factors
from gpuprof.sass.flow.digraph import Digraph
from gpuprof.sass.flow.graph import Loop, find_loops, flow_of
from gpuprof.sass.instruction import Instruction, instruction_of, operation_of, parse_sass
from gpuprof.sass.operands import (
    address_terms,
    named,
    registers_read,
    sources,
    waits_for,
    written,
)
from tests.cuda_tools import RECORDED, recorded
from tests.table import each_row


def line(text: str) -> Instruction:
    """The instruction of a line, at address 0."""
    (instruction,) = parse_sass(f"        /*0000*/                   {text} ;")
    return instruction


def opcodes(loop: Loop) -> Counter[str]:
    return Counter(item.opcode for item in loop.instructions)


@each_row("file", RECORDED, ids=lambda file: file.stem)
def test_every_line_with_an_address_is_an_instruction(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    code = parse_sass(text)
    assert len(code) == len(re.findall(r"/\*[0-9a-f]{4,}\*/", text)) > 10
    assert [item.address for item in code] == [16 * index for index in range(len(code))]
    assert "EXIT" in {item.opcode for item in code}


def test_parts_of_an_instruction() -> None:
    item = line("@!P0 BRA 0x160")
    assert (item.predicate, item.opcode, item.operands, item.target) == ("@!P0", "BRA", ("0x160",), 0x160)
    item = line("LDG.E.128.CONSTANT R4, desc[UR6][R4.64]")
    assert (item.predicate, item.name, item.operands) == (None, "LDG", ("R4", "desc[UR6][R4.64]"))
    assert line("BRA.U !UP0, 0x5b0").target == 0x5B0
    assert line("EXIT").operands == ()
    assert line("FFMA R1, R2, R3, 0x160").target is None
    item = line("LDG.E.128.CONSTANT R4, [R4]")
    assert all(
        item.is_a(opcode) for opcode in ("LDG", "LDG.E", "LDG.E.128", "LDG.E.128.CONSTANT", "LDG.E.128.CONSTANT$")
    )
    assert not any(item.is_a(opcode) for opcode in ("LD", "LDG.E.12", "LDG.E.64", "LDG.128", "LDG$", "LDG.E.128$"))
    assert not line("FFMA2 R2, R2, R4, R6").is_a("FFMA")
    for text in ("NOP", "@!PT SHFL.IDX PT, RZ, RZ, RZ, RZ", "@!UPT UIADD3 URZ, URZ, URZ, URZ"):
        assert line(text).idle
    assert not line("@P0 FFMA R1, R2, R3, R4").idle
    load = instruction_of("@!P0 LDG.E.64.CONSTANT R2, desc[UR4][R4.64+0x8]", 0x40)
    assert load == Instruction(0x40, operation_of("LDG.E.64.CONSTANT", ("R2", "desc[UR4][R4.64+0x8]"), "@!P0"))
    assert load is not None and written(load) == ("R2", "R3") and named(load.operands[1]) == ("UR4", "R4")
    assert registers_read(line("STS.128 [R1], R4")) == ("R1", "R4", "R5", "R6", "R7")
    assert registers_read(line("DFMA R4, R6, R8, R10")) == ("R6", "R7", "R8", "R9", "R10", "R11")
    assert registers_read(line("IMAD.WIDE R4, R5, 0x4, R6")) == ("R5", "R6", "R7")
    assert instruction_of("") is None and instruction_of("see the source") is None
    assert address_terms("desc[UR4][R2.64+UR8+-0x10]") == (("R2", ("64",), 0), ("UR8", (), 0), (None, (), -16))
    assert address_terms("[R3.U32.X4]") == (("R3", ("U32", "X4"), 0),)
    assert address_terms("R3") is None and address_terms("[R3+a]") is None


# Loops


def test_a_counted_loop_is_found_and_the_padding_is_none() -> None:
    for name in ("ffma-sm_70", "ffma-sm_120a"):
        (loop,) = find_loops(recorded(name))
        assert opcodes(loop)["FFMA"] == 16
        assert loop.instructions[-1].target == loop.header == loop.instructions[0].address
    assert find_loops(()) == ()
    assert find_loops(parse_sass("/*0000*/ FFMA R1, R2, R3, R4 ;\n/*0010*/ EXIT ;\n/*0020*/ BRA 0x20 ;")) == ()


def test_calls_and_spins_are_told_from_loops() -> None:
    code = recorded("ffma-left-by-a-call-sm_80")
    (loop,) = find_loops(code)
    assert opcodes(loop)["FFMA"] == 256
    (call,) = (item for item in code if item.name == "CALL")
    assert flow_of(code).jumps == {call.address}
    assert call in loop.instructions
    code = recorded("int4-by-calls-sm_100a")
    assert Counter(item.name for item in code)["CALL"] == 4
    assert flow_of(code).jumps == frozenset()
    (loop,) = find_loops(code)
    assert opcodes(loop)["CALL.REL.NOINC"] == 4
    assert "RET.REL.NODEC" not in opcodes(loop)
    *spins, outer = find_loops(recorded("shared-atomic-sm_90a"))
    assert [opcodes(loop)["ATOMS.CAST.SPIN"] for loop in spins] == [1, 1, 1, 1]
    assert opcodes(outer)["ATOMS.CAST.SPIN"] == 4
    assert all(set(loop.instructions) < set(outer.instructions) for loop in spins)
    code = recorded("bulk-copy-sm_90a")
    outer = find_loops(code)[-1]
    end = next(item.address for item in code if item.opcode == "EXIT")
    behind = [item for item in outer.instructions if item.address > end]
    assert Counter(item.name for item in behind)["SYNCS"] == 1
    assert opcodes(outer)["UBLKCP.S.G"] == 1


def test_a_loop_of_a_called_function_is_a_loop() -> None:
    lines = ("CALL.REL.NOINC 0x20", "EXIT", "IADD3 R0, R0, 0x1, RZ", "@P0 BRA 0x20", "RET.REL.NODEC R4 0x0")
    (loop,) = find_loops(parse_sass("\n".join(f"/*{16 * at:04x}*/ {text} ;" for at, text in enumerate(lines))))
    assert loop.header == 0x20 and [item.name for item in loop.instructions] == ["IADD3", "BRA"]


def test_code_goes_on_behind_a_jump_that_asks_the_warp() -> None:
    # Turing's forms; since Ampere, BRA.DIV has a register beside its target.
    for jump, follows in {"BRA": {2}, "BRA.DIV": {1, 2}, "BRA.CONV": {1, 2}, "BRA.DIV UR4,": {1, 2}}.items():
        lines = (f"{jump} 0x20", "IADD3 R0, R0, 0x1, RZ", "EXIT")
        graph = flow_of(parse_sass("\n".join(f"/*{16 * at:04x}*/ {text} ;" for at, text in enumerate(lines))))
        assert set(graph.successors[0]) == follows, jump


def test_thousands_of_loops_within_loops_are_not_looked_for() -> None:
    count = 20_000
    nested = [[at + 1] if at < count // 2 else [count - at, at + 1] for at in range(1, count)]
    assert set(Digraph([[1], *nested, []], (0,)).loops) == {count // 2}, "the innermost alone, a block that repeats"


def test_thousands_of_regions_that_stay_open_take_bounded_memory() -> None:
    """Each may be entered or not; so behind the last one, 4,000 targets of BSYNC would be possible on each way."""
    lines = []
    for at in range(0, 8000, 2):
        lines += [f"@P0 BRA {hex(16 * (at + 2))}", f"BSSY B0, {hex(16 * at)}"]
    code = [instruction_of(text, 16 * at) for at, text in enumerate([*lines, "EXIT"])]
    tracemalloc.start()
    try:
        graph = flow_of([item for item in code if item is not None])
        assert tracemalloc.get_traced_memory()[1] < 400e6
    finally:
        tracemalloc.stop()
    assert graph.successors[:2] == ((1, 2), (2,))


graphs = st.integers(1, 7).flatmap(
    lambda size: st.lists(st.lists(st.integers(0, size - 1), max_size=2, unique=True), min_size=size, max_size=size)
)


def reach(graph: list[list[int]], start: int, without: int | None = None) -> set[int]:
    """The blocks that are reached from `start` without entering `without`."""
    seen: set[int] = set()
    waiting = [start] if start != without else []
    while waiting:
        block = waiting.pop()
        if block not in seen:
            seen.add(block)
            waiting += [other for other in graph[block] if other != without]
    return seen


@given(graphs)
def test_natural_loops_are_those_of_the_definition(graph: list[list[int]]) -> None:
    expected: dict[int, set[int]] = {}
    for block in reach(graph, 0):
        for header in graph[block]:
            if block == header or block not in reach(graph, 0, without=header):
                body = {other for other in reach(graph, 0) if block in reach(graph, other, without=header)}
                expected.setdefault(header, set()).update(body | {header, block})
    assert Digraph(graph, (0,)).loops == expected


# Operands


@each_row(
    ("text", "registers"),
    [
        ("FFMA R4, R4, R2.reuse, R3", ("R4",)), ("LDG.E.64 R2, desc[UR4][R2.64]", ("R2", "R3")),
        ("LDG.E.128.CONSTANT R4, [R4]", ("R4", "R5", "R6", "R7")),
        ("LDG.E.ENL2.256 R8, R4, desc[UR4][R2.64]", tuple(f"R{index}" for index in (8, 9, 10, 11, 4, 5, 6, 7))),
        ("STG.E.ENL2.256 desc[UR4][R2.64], R4, R8", ()),
        ("HMMA.16816.F32 R16, R4, R2, R16", ("R16", "R17", "R18", "R19")), ("HFMA2.MMA R3, -RZ, RZ, 0, 0", ("R3",)),
        ("DFMA R4, R4, R6, R8", ("R4", "R5")), ("CS2R R24, SRZ", ("R24", "R25")),
        ("IMAD.WIDE.U32 R4, R5, R0, c[0x0][0x178]", ("R4", "R5")), ("SHFL.BFLY PT, R5, R4, 0x1, 0x1f", ("R5",)),
        ("ISETP.GE.AND P0, PT, R9, 0x1, PT", ("P0",)), ("PLOP3.LUT P0, P1, PT, PT, PT, 0x8, 0x80", ("P0", "P1")),
        ("VOTE.ANY R0, PT, P0", ("R0",)), ("VOTE.ANY P0, P1", ("P0",)),
        ("IADD3 R24, P0, R24, 0x1, RZ", ("R24", "P0")), ("IADD3.X R26, RZ, RZ, R26, P0, !PT", ("R26",)),
        ("LOP3.LUT P2, R4, R4, R5, RZ, 0x3c, !PT", ("P2", "R4")), ("FFMA RZ, R4, R5, R6", ()),
        ("STG.E.64 desc[UR4][R2.64], R34", ()), ("REDUX.SUM UR4, R2", ("UR4",)), ("EXIT", ()), ("WARPSYNC R2", ()),
        ("IADD3 R0, P0, P1, R16, UR36, R11", ("R0", "P0", "P1")), ("FCHK P0, R0, R11", ("P0",)),
        ("I2F.F64 R10, R10", ("R10", "R11")), ("MUFU.RCP64H R11, R13", ("R11",)),
        ("SHF.L.U64.HI R3, R2, 0x2, R3", ("R3",)),
        ("R2P PR, R19, 0x3", tuple(f"P{index}" for index in range(7))), ("BMOV.32 B0, R5", ()),
        ("UNHEARD.OF R250, R2", tuple(f"R{index}" for index in (*range(250, 255), *range(2, 250)))),
    ],
)  # fmt: skip
def test_written_registers(text: str, registers: tuple[str, ...]) -> None:
    assert written(line(text)) == registers


def test_an_instruction_waits_for_what_it_reads() -> None:
    assert sources(line("SHFL.BFLY PT, R5, R4, 0x1, 0x1f")) == ("R4", "0x1", "0x1f")
    assert sources(line("FFMA R4, R4, R2.reuse, R3")) == ("R4", "R2.reuse", "R3")
    load, compare = line("LDG.E.64 R2, desc[UR4][R2.64]"), line("ISETP.LT.AND P0, PT, R0, R5, PT")
    for reads, writes, waits in (
        (load, load, True),
        (load, line("LDG.E.64 R4, desc[UR4][R4.64]"), False),
        (line("FFMA R1, R5, R6, R7"), line("LDG.E.64 R4, [R8.64]"), True),
        (line("FFMA R4, R5, R6, R7"), line("MOV R4, R1"), False),
        (line("FFMA R1, R21, UR2, R7"), line("MOV R2, R1"), False),
        (line("VOTE.ANY R0, PT, P0"), compare, True),
        (compare, line("VOTE.ANY R0, PT, P0"), True),
        (line("@!P0 MOV R3, R4"), compare, True),
        (line("@!P1 MOV R3, R4"), compare, False),
        (line("IADD3.X R26, RZ, RZ, R26, P0, !PT"), line("IADD3 R24, P0, R24, 0x1, RZ"), True),
    ):
        assert waits_for(reads, writes) is waits, (reads, writes)


ZERO = line("MOV R2, RZ")
LOADED = line("LDG.E R2, [R8.64]")
PRODUCT = line("FFMA R4, R4, R2, R3")


@each_row(
    ("loop", "before", "zeros"),
    [
        ([line("FFMA R4, RZ, R2, R3")], [], 1), ([line("FFMA R4, R4, -RZ, R3")], [], 1),
        ([line("FFMA R4, R4, R2, RZ")], [], 0), ([line("IMMA.16832.S8.S8 R8, RZ.ROW, R2.COL, R8")], [], 0),
        ([PRODUCT], [], 0), ([PRODUCT], [LOADED, ZERO], 1), ([PRODUCT], [ZERO, LOADED], 0),
        ([ZERO, PRODUCT], [LOADED], 1), ([LOADED, PRODUCT], [ZERO], 0), ([PRODUCT, LOADED], [ZERO], 0),
        ([PRODUCT, ZERO], [LOADED], 1), ([line("FFMA R4, R4, R3, R5")], [line("CS2R R2, SRZ")], 1),
        ([line("FFMA R4, R4, R3, R5")], [line("CS2R R2, SR_CLOCKLO")], 0),
        ([PRODUCT], [line("HFMA2.MMA R2, -RZ, RZ, 0, 0")], 1),
        ([PRODUCT], [line("HFMA2.MMA R2, -RZ, RZ, 3.5, 0")], 0),
    ],
)  # fmt: skip
def test_zero_factors(loop: list[Instruction], before: list[Instruction], zeros: int) -> None:
    assert zero_factors("FFMA", loop, before) == zeros
