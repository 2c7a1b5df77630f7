"""What else than its cause differs between the kernels of a case: which traits count, from where on, and for whom."""

from __future__ import annotations

from pathlib import Path

from benchmarks.diagnosis.case import Room
from benchmarks.diagnosis.compiled import CompiledKernel
from benchmarks.diagnosis.twins import ITS_OWN, instructions_per_byte, second_causes, width
from gpuprof.code.sass.instruction import Instruction
from gpuprof.diagnose.registry import RULES
from tests.table import each_row
from tests.test_diagnosis_score import case

LOAD = Instruction(0, "LDG.E.CONSTANT", ("R2", "desc[UR4][R2.64]"), None)


def code(*opcodes: str, back_to: int | None = None) -> tuple[Instruction, ...]:
    """Instructions one after the other; with `back_to` the last jumps to the one of that number."""
    found = [Instruction(16 * number, opcode, ("R1", "R2"), None) for number, opcode in enumerate(opcodes)]
    if back_to is not None:
        found.append(Instruction(16 * len(found), "BRA", (hex(16 * back_to),), "@P0"))
    return (*found, Instruction(16 * len(found), "EXIT", (), None))


def kernel(*opcodes: str) -> CompiledKernel:
    return CompiledKernel(16, 0, 0, 16 * len(opcodes), code(*opcodes))


def found(
    folder: Path, slow: CompiledKernel, fixed: CompiledKernel, blocks: tuple[int, int] = (8, 8), **lines: str | None
) -> dict[str, str]:
    rooms = {"slow": Room(132, blocks[0]), "fixed": Room(132, blocks[1])}
    return dict(second_causes(case(folder, **lines), {"slow": slow, "fixed": fixed}, rooms))


def test_twins_that_differ_in_their_addresses_alone_have_one_cause(tmp_path: Path) -> None:
    assert found(tmp_path, kernel("LDG.E", "FADD", "STG.E"), kernel("LDG.E", "FADD", "STG.E")) == {}


def test_a_repair_with_wider_loads_shows_and_one_with_narrower_loads_does_not(tmp_path: Path) -> None:
    narrow, wide = kernel("LDG.E", "FADD"), kernel("LDG.E.128", *["FADD"] * 7)
    assert found(tmp_path, narrow, wide) == {"width": "a lane loads up to 4 and 16 bytes at once"}
    assert found(tmp_path, wide, narrow) == {}


def test_a_repair_with_a_third_more_warps_shows_and_one_with_a_quarter_more_does_not(tmp_path: Path) -> None:
    same = kernel("LDG.E", "FADD")
    assert found(tmp_path, same, same, (12, 16)) == {"occupancy": "an SM holds 12 and 16 warps"}
    assert found(tmp_path, same, same, (12, 15)) == {}
    assert found(tmp_path, same, same, (16, 12)) == {}


def test_instructions_show_from_half_as_many_more_a_byte(tmp_path: Path) -> None:
    fixed = kernel("LDG.E", "FADD", "STG.E")  # and EXIT: four for four bytes
    assert found(tmp_path, kernel("LDG.E", *["FADD"] * 3, "STG.E"), fixed) == {}
    assert found(tmp_path, kernel("LDG.E", *["FADD"] * 5, "STG.E"), fixed) == {
        "instructions": "a byte loaded takes 2 and 1 instructions"
    }


def test_another_block_size_shows_whichever_is_larger(tmp_path: Path) -> None:
    same = kernel("LDG.E", "FADD")
    for slow, fixed in ((64, 32), (32, 64)):
        launch = f"launch: {{slow: {{grid: [n], block: [{slow}]}}, fixed: {{grid: [n], block: [{fixed}]}}}}"
        assert found(tmp_path, same, same, (64 // slow, 64 // fixed), launch=launch) == {
            "block": f"blocks have {slow} and {fixed} threads"
        }


def test_what_is_a_rules_own_is_no_second_cause(tmp_path: Path) -> None:
    slow, fixed = kernel("LDG.E.U8", *["FADD"] * 8), kernel("LDG.E.128", *["FADD"] * 8)
    assert found(tmp_path, slow, fixed).keys() == {"width", "instructions"}
    assert found(tmp_path, slow, fixed, planted_rule="planted_rule: narrow-access") == {}


def test_a_kernel_without_a_slow_twin_has_no_second_cause(tmp_path: Path) -> None:
    assert list(second_causes(case(tmp_path), {"fixed": kernel("LDG.E")}, {"fixed": Room(132, 8)})) == []


@each_row(
    ("opcode", "size"),
    [("LDG.E", 4), ("LDG.E.U8.CONSTANT", 1), ("LDG.E.S16", 2), ("LDG.E.64", 8), ("LDGSTS.E.BYPASS.128", 16)],
)
def test_the_bytes_of_a_load_are_in_its_opcode(opcode: str, size: int) -> None:
    assert width(Instruction(LOAD.address, opcode, LOAD.operands, LOAD.predicate)) == size


def test_instructions_a_byte_are_those_of_the_innermost_loop_that_loads() -> None:
    looped = code("MOV", "MOV", "LDG.E.64", "FADD", "FADD", back_to=2)
    assert instructions_per_byte(looped) == 4 / 8
    assert instructions_per_byte(code("MOV", "LDG.E", "FADD", "STG.E")) == 5 / 4
    assert instructions_per_byte(code("MOV", "FADD")) is None


def test_traits_are_owned_by_rules_that_exist() -> None:
    assert set(ITS_OWN) <= {rule.id for rule in RULES}
