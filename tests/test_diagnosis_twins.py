"""What else than its cause differs between the kernels of a case: which traits count, from where on, and for whom."""

from __future__ import annotations

import re
from pathlib import Path

from benchmarks.diagnosis.case import Room
from benchmarks.diagnosis.compiled import CompiledKernel
from benchmarks.diagnosis.twins import ITS_OWN, instructions_per_byte, second_causes, width
from gpuprof.diagnose.registry import RULES
from gpuprof.sass.instruction import Instruction, operation_of
from tests.table import each_row
from tests.test_diagnosis_score import case

LOAD = Instruction(0, operation_of("LDG.E.CONSTANT", ("R2", "desc[UR4][R2.64]")))


def code(*opcodes: str, back_to: int | None = None) -> tuple[Instruction, ...]:
    """Instructions one after the other; with `back_to` the last jumps to the one of that number."""
    listing = [Instruction(16 * number, operation_of(opcode, ("R1", "R2"))) for number, opcode in enumerate(opcodes)]
    if back_to is not None:
        listing.append(Instruction(16 * len(listing), operation_of("BRA", (hex(16 * back_to),), "@P0")))
    return (*listing, Instruction(16 * len(listing), operation_of("EXIT", ())))


def kernel(*opcodes: str) -> CompiledKernel:
    return CompiledKernel(16, 0, 0, 16 * len(opcodes), code(*opcodes))


def traits(
    folder: Path, slow: CompiledKernel, fixed: CompiledKernel, blocks: tuple[int, int] = (8, 8), **lines: str | None
) -> dict[str, list[str]]:
    """The reported numbers of slow and fixed, by trait."""
    rooms = {"slow": Room(132, blocks[0]), "fixed": Room(132, blocks[1])}
    causes = dict(second_causes(case(folder, **lines), {"slow": slow, "fixed": fixed}, rooms))
    return {trait: re.findall(r"\d+", text) for trait, text in causes.items()}


def test_traits_count_from_where_on_they_change_the_time(tmp_path: Path) -> None:
    same, narrow, wide = kernel("LDG.E", "FADD"), kernel("LDG.E", "FADD"), kernel("LDG.E.128", *["FADD"] * 7)
    assert traits(tmp_path, same, same) == {}
    assert traits(tmp_path, narrow, wide) == {"width": ["4", "16"]}
    assert traits(tmp_path, wide, narrow) == {}
    assert traits(tmp_path, same, same, (12, 16)) == {"occupancy": ["12", "16"]}
    assert traits(tmp_path, same, same, (12, 15)) == traits(tmp_path, same, same, (16, 12)) == {}
    fixed = kernel("LDG.E", "FADD", "STG.E")  # and EXIT: four for four bytes
    assert traits(tmp_path, kernel("LDG.E", *["FADD"] * 3, "STG.E"), fixed) == {}
    assert traits(tmp_path, kernel("LDG.E", *["FADD"] * 5, "STG.E"), fixed) == {"instructions": ["2", "1"]}
    for slow, quick in ((64, 32), (32, 64)):
        launch = f"launch: {{slow: {{grid: [n], block: [{slow}]}}, fixed: {{grid: [n], block: [{quick}]}}}}"
        rooms = (64 // slow, 64 // quick)
        assert traits(tmp_path, same, same, rooms, launch=launch) == {"block": [str(slow), str(quick)]}


def test_what_is_a_rules_own_is_no_second_cause(tmp_path: Path) -> None:
    slow, fixed = kernel("LDG.E.U8", *["FADD"] * 8), kernel("LDG.E.128", *["FADD"] * 8)
    assert traits(tmp_path, slow, fixed).keys() == {"width", "instructions"}
    assert traits(tmp_path, slow, fixed, planted_rule="planted_rule: narrow-access") == {}
    assert list(second_causes(case(tmp_path), {"fixed": kernel("LDG.E")}, {"fixed": Room(132, 8)})) == []
    assert set(ITS_OWN) <= {rule.id for rule in RULES}


@each_row(
    ("opcode", "size"),
    [("LDG.E", 4), ("LDG.E.U8.CONSTANT", 1), ("LDG.E.S16", 2), ("LDG.E.64", 8), ("LDGSTS.E.BYPASS.128", 16)],
)
def test_the_bytes_of_a_load_are_in_its_opcode(opcode: str, size: int) -> None:
    assert width(Instruction(LOAD.address, operation_of(opcode, LOAD.operands))) == size


def test_instructions_a_byte_are_those_of_the_innermost_loop_that_loads() -> None:
    looped = code("MOV", "MOV", "LDG.E.64", "FADD", "FADD", back_to=2)
    assert instructions_per_byte(looped) == 4 / 8
    assert instructions_per_byte(code("MOV", "LDG.E", "FADD", "STG.E")) == 5 / 4
    assert instructions_per_byte(code("MOV", "FADD")) is None
