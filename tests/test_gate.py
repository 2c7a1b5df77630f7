"""The SASS gate: good kernels pass, and each of their bad twins is caught."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from gpuprof.characterize.gates.check import Variant, check, variants
from gpuprof.characterize.gates.gate import Judgement, judge
from gpuprof.characterize.probes.probe import Count, GateRules, IntegerProduct
from gpuprof.code.sass.instruction import parse_sass
from tests.cuda_tools import kernel_of, needs_cuda_wheels, recorded, twin_named
from tests.table import each_row

TARGETS = ("sm_75", "sm_90a", "sm_100a", "sm_120a")


# Rules against recorded code


def exactly(number: int) -> Count:
    return Count(IntegerProduct((number,)), IntegerProduct((number,)))


def rules(
    required: dict[str, int],
    *,
    forbidden: tuple[str, ...] = (),
    allowed: tuple[str, ...] = (),
    no_zero_operands: tuple[str, ...] = (),
    chained: tuple[str, ...] = (),
    together: tuple[str, ...] = (),
    chains: dict[str, int] | None = None,
    max_overhead: int = 10,
    emulated_by: dict[str, int] | None = None,
    within: str = "loop",
) -> GateRules:
    """Rules with exact counts."""
    return GateRules(
        within=within,
        required=tuple((opcode, exactly(number)) for opcode, number in required.items()),
        forbidden=forbidden,
        allowed=allowed,
        no_zero_operands=no_zero_operands,
        chained=chained,
        together=together,
        chains=tuple((opcode, IntegerProduct((number,))) for opcode, number in (chains or {}).items()),
        max_overhead=IntegerProduct((max_overhead,)),
        emulated_by=tuple((opcode, exactly(number)) for opcode, number in (emulated_by or {}).items()),
    )


def answer(name: str, given: GateRules, *, clocked: bool = True) -> Judgement:
    return judge(given, {}, recorded(name), clocked=clocked)


@each_row(
    ("name", "given", "why"),
    [
        ("ffma-sm_70", rules({"FFMA": 16}), "16 FFMA and 3 others in the loop"),
        ("ffma-sm_120a", rules({"FFMA": 16}), "16 FFMA and 3 others in the loop"),
        ("ffma-left-by-a-call-sm_80", rules({"FFMA": 256}), "256 FFMA and 5 others in the loop"),
        ("read-sm_75", rules({"LDG.E.128": 4}, max_overhead=23), "4 LDG.E.128 and 23 others in the loop"),
        (
            "mma-sm_90a",
            rules({"HMMA.16816.F32": 8}, no_zero_operands=("HMMA",)),
            "8 HMMA.16816.F32 and 3 others in the loop",
        ),
    ],
)
def test_code_as_it_is_meant_passes(name: str, given: GateRules, why: str) -> None:
    assert answer(name, given)[:2] == ("pass", why)


@each_row(
    ("name", "given", "why"),
    [
        ("ffma-sm_70", rules({"FFMA": 32}), "16 FFMA in the loop, not 32"),
        ("ffma-sm_70", rules({"FFMA": 16}, max_overhead=2), "3 other instructions in the loop, more than 2"),
        ("ffma-sm_70", rules({"FFMA": 16}, forbidden=("IADD3",)), "1 IADD3 in the loop, which is forbidden"),
        ("ffma-sm_70", rules({"FFMA": 16}, chained=("FFMA",)), "16 of 16 FFMA do not wait for the one before"),
        ("ffma-spills-sm_90a", rules({"FFMA": 34}, max_overhead=99), "which is forbidden"),
        ("mma-zero-fragments-sm_80", rules({"HMMA": 4}, no_zero_operands=("HMMA",)), "4 HMMA multiply by zero"),
        ("fp8-emulated-sm_90a", rules({"QMMA": 4}), "0 QMMA in the loop, not 4"),
        (
            "int4-by-calls-sm_100a",
            rules({"IMMA": 4}, max_overhead=99),
            "4 CALL.REL.NOINC in the loop, which is forbidden",
        ),
        ("shared-atomic-sm_90a", rules({"ATOMS.ADD": 4}, max_overhead=99), "0 ATOMS.ADD in the loop, not 4"),
    ],
)
def test_code_that_is_not_meant_fails(name: str, given: GateRules, why: str) -> None:
    found = answer(name, given)
    assert found.gate == "fail"
    assert why in found.why


def test_spills_are_named() -> None:
    found = answer("ffma-spills-sm_90a", rules({"FFMA": 34}, max_overhead=99))
    assert {"STL", "LDL.LU"} <= set(found.opcodes)
    assert "STL" in found.why
    assert "LDL.LU" in found.why


def test_emulation_passes_only_where_it_is_expected_and_does_all_the_work() -> None:
    expected = rules({"QMMA": 4}, emulated_by={"HMMA.16816.F32": 8, "FADD": 16})
    assert answer("fp8-emulated-sm_90a", expected)[:2] == (
        "emulated",
        "no QMMA: emulated by 8 HMMA.16816.F32, 16 FADD",
    )
    merged = answer("fp8-merged-sm_90a", expected)
    assert merged.gate == "fail"
    assert "2 HMMA.16816.F32 in the loop, not 8" in merged.why


def test_native_code_fails_where_emulation_is_expected() -> None:
    found = answer("mma-sm_90a", rules({"HMMA": 8}, emulated_by={"FADD": 1}))
    assert found[:2] == ("fail", "native, but emulation was expected")


def test_a_subroutine_can_be_what_emulates() -> None:
    found = answer("int4-by-calls-sm_100a", rules({"IMMA": 4}, emulated_by={"CALL": 4}))
    assert found.gate == "emulated"


def test_the_loop_with_the_required_instructions_is_judged_not_those_inside_it() -> None:
    found = answer("shared-atomic-sm_90a", rules({"ATOMS.CAST.SPIN": 4}, max_overhead=40))
    assert found.gate == "pass"
    assert found.opcodes["ATOMS.CAST.SPIN"] == 4


def test_what_is_allowed_is_not_forbidden() -> None:
    found = answer("bulk-copy-sm_90a", rules({"UBLKCP": 1, "SYNCS": 3}, max_overhead=40))
    assert found[:2] == ("fail", "2 S2UR in the loop, which is forbidden")
    given = rules({"UBLKCP": 1, "SYNCS": 3}, allowed=("S2UR",), max_overhead=40)
    assert answer("bulk-copy-sm_90a", given).gate == "pass"


def test_opcodes_of_the_loop_come_most_frequent_first_without_fillers() -> None:
    found = answer("mma-sm_90a", rules({"HMMA": 8}))
    assert next(iter(found.opcodes.items())) == ("HMMA.16816.F32", 8)
    assert sum(found.opcodes.values()) == 11
    assert "@!UPT" not in "".join(found.opcodes)


def test_a_whole_kernel_can_be_judged() -> None:
    null = parse_sass("/*0000*/ MOV R1, c[0x0][0x28] ;\n/*0010*/ EXIT ;\n/*0020*/ BRA 0x20 ;\n/*0030*/ NOP ;")
    assert judge(rules({"EXIT": 1}, within="function"), {}, null, clocked=False).gate == "pass"
    assert judge(rules({"EXIT": 1}), {}, null, clocked=False)[:2] == (
        "fail",
        "no loop: the work was folded away or unrolled completely",
    )
    tight = rules({"EXIT": 1}, within="function", max_overhead=1)
    assert judge(tight, {}, null, clocked=False)[:2] == ("fail", "2 other instructions in the function, more than 1")


def chain(*registers: str) -> str:
    """A loop of loads through the registers named."""
    lines = [f"LDG.E.64 R{register}, [R{register}.64]" for register in registers]
    return "\n".join(f"/*{16 * index:04x}*/ {line} ;" for index, line in enumerate([*lines, "@P0 BRA 0x0", "EXIT"]))


@each_row(("registers", "gate"), [("2222", "pass"), ("2", "pass"), ("2424", "fail"), ("2244", "fail")])
def test_a_chain_is_one(registers: str, gate: str) -> None:
    given = rules({"LDG": len(registers)}, chained=("LDG",))
    assert judge(given, {}, parse_sass(chain(*registers)), clocked=False).gate == gate


@each_row(
    ("lines", "why"),
    [
        (("LDG.E R4, [R2.64]", "LDG.E R5, [R2.64+0x4]", "LOP3.LUT R1, R4, R5, R1, 0x96, !PT"), None),
        (("LDG.E R4, [R2.64]", "LOP3.LUT R1, R4, R1, RZ, 0x3c, !PT", "LDG.E R5, [R2.64+0x4]"), "1 of 2 LDG"),
        (("LDG.E R4, [R2.64]", "LDG.E R5, [R4.64]", "IADD3 R2, R2, 0x8, RZ"), "1 of 2 LDG"),
    ],
)
def test_loads_that_are_meant_to_be_in_flight_together(lines: tuple[str, ...], why: str | None) -> None:
    text = "\n".join(f"/*{16 * index:04x}*/ {line} ;" for index, line in enumerate([*lines, "@P0 BRA 0x0", "EXIT"]))
    found = judge(rules({"LDG": 2}, together=("LDG",)), {}, parse_sass(text), clocked=False)
    assert found.gate == ("fail" if why else "pass")
    assert (why or "2 LDG") in found.why


@each_row(
    ("lines", "why"),
    [
        (("ATOMG.E.INC R6, [R8.64], R9", "LDG.E R4, [R2.64]", "@P0 BRA 0x10", "@P1 BRA 0x0"), None),
        (("ATOMG.E.INC R6, [R8.64], R9", "LDG.E R4, [R2.64]", "@P0 BRA 0x0", "@P1 BRA 0x0"), "0 ATOMG.E.INC in the"),
        (("IADD3 R6, R6, R9, RZ", "LDG.E R4, [R2.64]", "@P0 BRA 0x10", "@P1 BRA 0x0"), "0 ATOMG.E.INC in the loop"),
        (("ATOMG.E.INC R6, [R8.64], R9", "LDG.E R4, [R2.64]", "@P0 BRA 0x10", "EXIT"), "0 ATOMG.E.INC in the loop"),
        (
            (
                "ATOMG.E.INC R6, [R8.64], R9",
                "LDG.E R4, [R2.64]",
                "ATOMG.E.INC R7, [R8.64], R9",
                "@P0 BRA 0x10",
                "@P1 BRA 0x0",
            ),
            "1 ATOMG.E.INC in the loop, not around it",
        ),
        (
            (
                "ATOMG.E.INC R6, [R8.64], R9",
                "SHFL.IDX PT, R7, R6, RZ, 0x1f",
                "LDG.E R4, [R2.64]",
                "@P0 BRA 0x20",
                "@P1 BRA 0x0",
            ),
            "1 of ATOMG.E.INC are waited for before the loop",
        ),
        (
            (
                "ATOMG.E.INC R6, [R8.64], R9",
                "LDG.E R4, [R2.64]",
                "@P0 BRA 0x10",
                "SHFL.IDX PT, R7, R6, RZ, 0x1f",
                "@P1 BRA 0x0",
            ),
            None,
        ),
        (
            ("ATOMG.E.INC R6, [R8.64], R9", "STL [R1], R5", "LDG.E R4, [R2.64]", "@P0 BRA 0x20", "@P1 BRA 0x0"),
            "1 STL in the loop around it, which is forbidden",
        ),
    ],
    ids=[
        "around the loop",
        "in the loop",
        "nowhere",
        "before the loop",
        "in both",
        "waited for at once",
        "waited for behind the loop",
        "with a spill",
    ],
)
def test_what_belongs_around_the_loop_is_there_alone_and_not_waited_for(
    lines: tuple[str, ...], why: str | None
) -> None:
    text = "\n".join(f"/*{16 * index:04x}*/ {line} ;" for index, line in enumerate([*lines, "EXIT"]))
    given = replace(rules({"LDG": 1}), around=(("ATOMG.E.INC", exactly(1)),))
    found = judge(given, {}, parse_sass(text), clocked=False)
    assert found.gate == ("fail" if why else "pass")
    assert (why or "1 LDG") in found.why


def test_independent_chains_are_counted() -> None:
    assert answer("ffma-sm_70", rules({"FFMA": 16}, chains={"FFMA": 4})).gate == "pass"
    assert answer("mma-sm_90a", rules({"HMMA": 8}, chains={"HMMA": 2})).gate == "pass"
    found = answer("mma-sm_90a", rules({"HMMA": 8}, chains={"HMMA": 8}))
    assert found[:2] == ("fail", "2 HMMA continue across iterations, not 8: the number of chains")


def test_either_of_two_opcodes_counts() -> None:
    code = parse_sass(
        "/*0000*/ IADD R1, R1, R2 ;\n/*0010*/ IADD3 R1, R1, R2, RZ ;\n/*0020*/ @P0 BRA 0x0 ;\n/*0030*/ EXIT ;"
    )
    found = judge(rules({"IADD/IADD3": 2}, max_overhead=1), {}, code, clocked=False)
    assert found[:2] == ("pass", "2 IADD/IADD3 and 1 others in the loop")
    assert judge(rules({"IADD/IADD3": 1}), {}, code, clocked=False).gate == "fail"


def test_a_range_of_counts() -> None:
    code = parse_sass(chain(*"222"))
    for low, high, gate in ((1, 3, "pass"), (3, None, "pass"), (4, None, "fail"), (1, 2, "fail")):
        count = Count(IntegerProduct((low,)), IntegerProduct((high,)) if high else None)
        given = GateRules("loop", (("LDG", count),), (), (), (), (), (), (), IntegerProduct((9,)), ())
        assert judge(given, {}, code, clocked=False).gate == gate


# Bad twins, compiled


class Twin(NamedTuple):
    """A probe with one mistake in its source (old text, new text), and what the gate must say of it."""

    probe: str
    old: str
    new: str
    says: str
    changes: tuple[tuple[str, str], ...] = ()


EQUAL_LOADS = """asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
    : "=r"(value[k].x), "=r"(value[k].y), "=r"(value[k].z), "=r"(value[k].w) : "l"(element));"""

TWINS = {
    "it has one chain": Twin("fma", "x[chain] = fmaf(x[chain], a, b)", "x[0] = fmaf(x[0], a, b)", "1 FFMA continue"),
    "its result is never used": Twin("fma", "keep(sink, sum);", "", "no loop"),
    "it is unrolled once more": Twin(
        "fma", "#pragma unroll 1\n", "#pragma unroll 4\n", "512 FFMA in the loop, not 128"
    ),
    "it spills": Twin("fma", "_bounds__(1024)", "_bounds__(1024, 2)", "LDL", (("CHAINS", "72"), ("UNROLL", "1"))),
    "it reads the clock each time": Twin(
        "fma", "++i) {", "++i) {\n        if (now().cycles == 1) break;", "which is forbidden"
    ),
    "it waits at a barrier": Twin("fma", "++i) {", "++i) {\n        __syncthreads();", "1 BAR.SYNC"),
    "it converts": Twin("fma", "x[chain], a, b)", "x[chain], a, (float)(i + chain))", "other instructions in the loop"),
    "the clock starts late": Twin("fma", "= begin();", "{};", "between two reads of the clock"),
    "its loads are equal": Twin(
        "read", "value[k] = element[k * BLOCK];", EQUAL_LOADS, "1 LDG.E.128 in the loop, not 8"
    ),
    "its loads are narrow": Twin(
        "read",
        "= element[k * BLOCK];",
        "= make_uint4(((const u32 *)(element + k * BLOCK))[0], 1, 2, 3);",
        "0 LDG.E.128",
    ),
    "its loads are never used": Twin("read", "keep(sink, sum.x ^ sum.y ^ sum.z ^ sum.w);", "", "no loop"),
    "its loads wait for one another": Twin(
        "read",
        "value[k] = element[k * BLOCK];",
        "value[k] = element[k * BLOCK + (k ? value[k - 1].x : 0)];",
        "7 of 8 LDG",
    ),
    "fragments of A are zero": Twin("mma", "a[i] = fragment[i]", "a[i] = 0", "by zero"),
    "fragments of B are zero": Twin("mma", "b[i] = fragment[4 + i]", "b[i] = 0", "by zero"),
    "all fragments are zero": Twin("mma", "a[i] = fragment[i]", "a[i] = 0, b[i & 1] = 0", "by zero"),
}


Case = tuple[str, str, int]
"""The name of a twin, its target, and which of its variants."""


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[Case, Judgement]:
    """What the gate says of every twin on every target of its probe; one run, for the disassembler starts slowly."""
    folder = tmp_path_factory.mktemp("twins")
    cases = dict(_cases(folder))
    return dict(zip(cases, (found.judgement for found in check(tuple(cases.values()))), strict=True))


def _cases(folder: Path) -> Iterator[tuple[Case, Variant]]:
    for index, (name, twin) in enumerate(TWINS.items()):
        for variant in _bad_variants(twin, folder / str(index)):
            yield (name, variant.target, 0), variant
    for name in ("fma", "read", "mma", "fp8-mma", "chase"):
        probe = twin_named(name, folder)
        for target in ("sm_89", *TARGETS):
            for number, variant in enumerate(variants(probe, target)):
                yield (name, target, number), variant


def _bad_variants(twin: Twin, folder: Path) -> Iterator[Variant]:
    folder.mkdir()
    probe = twin_named(twin.probe, folder)
    kernel = kernel_of(probe)
    text = kernel.source.read_text(encoding="utf-8")
    assert text.count(twin.old) == 1
    kernel.source.write_text(text.replace(twin.old, twin.new), encoding="utf-8")
    for target in (target for target in TARGETS if target in probe.targets):
        yield Variant(probe, kernel, target, {**next(kernel.assignments(target)), **dict(twin.changes)})


@needs_cuda_wheels
@each_row("name", ["fma", "read", "mma"])
def test_the_good_twin_passes(name: str, answers: dict[Case, Judgement]) -> None:
    found = [answer.gate for (twin, _, _), answer in answers.items() if twin == name]
    assert len(found) >= len(TARGETS)
    assert set(found) == {"pass"}


@needs_cuda_wheels
@each_row("name", TWINS)
def test_bad_twin_is_caught_on_every_target(name: str, answers: dict[Case, Judgement]) -> None:
    of_twin = [found for (twin, _, _), found in answers.items() if twin == name]
    assert len(of_twin) >= len(TARGETS) - 1
    assert {found.gate for found in of_twin} == {"fail"}
    assert all(TWINS[name].says in found.why for found in of_twin)


@needs_cuda_wheels
@each_row(
    ("target", "rotating", "constant"),
    [
        ("sm_89", "pass", "pass"),
        ("sm_90a", "emulated", "fail"),
        ("sm_100a", "emulated", "fail"),
        ("sm_120a", "pass", "pass"),
    ],
)
def test_fp8_is_native_emulated_or_merged(
    target: str, rotating: str, constant: str, answers: dict[Case, Judgement]
) -> None:
    assert answers["fp8-mma", target, 0].gate == rotating
    assert answers["fp8-mma", target, 1].gate == constant


@needs_cuda_wheels
@each_row("target", TARGETS)
def test_two_chains_are_no_latency(target: str, answers: dict[Case, Judgement]) -> None:
    assert answers["chase", target, 0].gate == "pass"
    two = answers["chase", target, 1]
    assert two.gate == "fail"
    assert "do not wait for the one before" in two.why


def test_number_of_a_parameter_that_has_no_value_names_it() -> None:
    assert IntegerProduct((2, "CHAINS")).value({"CHAINS": "4"}) == 8
    with pytest.raises(ValueError, match="they lack CHAINS"):
        IntegerProduct((2, "CHAINS")).value({})
