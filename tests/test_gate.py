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
from gpuprof.sass.instruction import Instruction, parse_sass
from tests.cuda_tools import kernel_of, needs_cuda_wheels, recorded, twin_named
from tests.table import each_row

TARGETS = ("sm_75", "sm_90a", "sm_100a", "sm_120a")


def exactly(number: int) -> Count:
    return Count(IntegerProduct((number,)), IntegerProduct((number,)))


def rules(
    required: dict[str, int], *, forbidden: tuple[str, ...] = (), allowed: tuple[str, ...] = (),
    no_zero_operands: tuple[str, ...] = (), chained: tuple[str, ...] = (), together: tuple[str, ...] = (),
    chains: dict[str, int] | None = None, max_overhead: int = 10, emulated_by: dict[str, int] | None = None,
    within: str = "loop",
) -> GateRules:  # fmt: skip
    return GateRules(
        within=within, required=tuple((opcode, exactly(number)) for opcode, number in required.items()),
        forbidden=forbidden, allowed=allowed, no_zero_operands=no_zero_operands, chained=chained, together=together,
        chains=tuple((opcode, IntegerProduct((number,))) for opcode, number in (chains or {}).items()),
        max_overhead=IntegerProduct((max_overhead,)),
        emulated_by=tuple((opcode, exactly(number)) for opcode, number in (emulated_by or {}).items()),
    )  # fmt: skip


def answer(name: str, given: GateRules, *, clocked: bool = True) -> Judgement:
    return judge(given, {}, recorded(name), clocked=clocked)


NATIVE_OR = {"HMMA.16816.F32": 8, "FADD": 16}


@each_row(
    ("name", "given", "gate", "why"),
    [
        ("ffma-sm_70", rules({"FFMA": 16}), "pass", ("16 FFMA", "3 others")),
        ("ffma-left-by-a-call-sm_80", rules({"FFMA": 256}), "pass", ("256 FFMA", "5 others")),
        ("read-sm_75", rules({"LDG.E.128": 4}, max_overhead=23), "pass", ("4 LDG.E.128", "23 others")),
        ("mma-sm_90a", rules({"HMMA.16816.F32": 8}, no_zero_operands=("HMMA",)), "pass", ("8 HMMA.16816", "3 others")),
        ("ffma-sm_70", rules({"FFMA": 32}), "fail", ("16 FFMA", "not 32")),
        ("ffma-sm_70", rules({"FFMA": 16}, max_overhead=2), "fail", ("3 other", "more than 2")),
        ("ffma-sm_70", rules({"FFMA": 16}, forbidden=("IADD3",)), "fail", ("1 IADD3", "forbidden")),
        ("ffma-sm_70", rules({"FFMA": 16}, chained=("FFMA",)), "fail", ("16 of 16 FFMA",)),
        ("mma-zero-fragments-sm_80", rules({"HMMA": 4}, no_zero_operands=("HMMA",)), "fail", ("4 HMMA", "zero")),
        ("fp8-emulated-sm_90a", rules({"QMMA": 4}), "fail", ("0 QMMA", "not 4")),
        ("int4-by-calls-sm_100a", rules({"IMMA": 4}, max_overhead=99), "fail", ("4 CALL.REL.NOINC", "forbidden")),
        # The loop with the required instructions is judged, not those inside it.
        ("shared-atomic-sm_90a", rules({"ATOMS.CAST.SPIN": 4}, max_overhead=40), "pass", ("4 ATOMS.CAST.SPIN",)),
        # Spills are named.
        ("ffma-spills-sm_90a", rules({"FFMA": 34}, max_overhead=99), "fail", ("STL", "LDL.LU", "forbidden")),
        # Emulation passes only if it is expected and does all the work.
        ("fp8-emulated-sm_90a", rules({"QMMA": 4}, emulated_by=NATIVE_OR), "emulated", ("8 HMMA.16816.F32, 16 FADD",)),
        ("fp8-merged-sm_90a", rules({"QMMA": 4}, emulated_by=NATIVE_OR), "fail", ("2 HMMA.16816.F32", "not 8")),
        # What is allowed is not forbidden.
        ("bulk-copy-sm_90a", rules({"UBLKCP": 1, "SYNCS": 3}, max_overhead=40), "fail", ("2 S2UR", "forbidden")),
        ("bulk-copy-sm_90a", rules({"UBLKCP": 1, "SYNCS": 3}, allowed=("S2UR",), max_overhead=40), "pass", ()),
        # Independent chains are counted.
        ("ffma-sm_70", rules({"FFMA": 16}, chains={"FFMA": 4}), "pass", ()),
        ("mma-sm_90a", rules({"HMMA": 8}, chains={"HMMA": 8}), "fail", ("2 HMMA", "not 8")),
    ],
)
def test_recorded_code_passes_as_it_is_meant_and_fails_with_what_is_wrong(
    name: str, given: GateRules, gate: str, why: tuple[str, ...]
) -> None:
    judged = answer(name, given)
    assert judged.gate == gate
    assert [part for part in why if part not in judged.why] == [], judged.why


def code_of(*lines: str) -> tuple[Instruction, ...]:
    return parse_sass("\n".join(f"/*{16 * index:04x}*/ {line} ;" for index, line in enumerate(lines)))


def chain(*registers: str) -> tuple[Instruction, ...]:
    return code_of(*(f"LDG.E.64 R{register}, [R{register}.64]" for register in registers), "@P0 BRA 0x0", "EXIT")


@each_row(("registers", "gate"), [("2222", "pass"), ("2", "pass"), ("2424", "fail"), ("2244", "fail")])
def test_a_chain_is_one(registers: str, gate: str) -> None:
    given = rules({"LDG": len(registers)}, chained=("LDG",))
    assert judge(given, {}, chain(*registers), clocked=False).gate == gate


@each_row(
    ("lines", "why"),
    [(("LDG.E R4, [R2.64]", "LDG.E R5, [R2.64+0x4]", "LOP3.LUT R1, R4, R5, R1, 0x96, !PT"), None),
     (("LDG.E R4, [R2.64]", "LOP3.LUT R1, R4, R1, RZ, 0x3c, !PT", "LDG.E R5, [R2.64+0x4]"), "1 of 2 LDG"),
     (("LDG.E R4, [R2.64]", "LDG.E R5, [R4.64]", "IADD3 R2, R2, 0x8, RZ"), "1 of 2 LDG")],
)  # fmt: skip
def test_loads_that_are_meant_to_be_in_flight_together(lines: tuple[str, ...], why: str | None) -> None:
    judged = judge(rules({"LDG": 2}, together=("LDG",)), {}, code_of(*lines, "@P0 BRA 0x0", "EXIT"), clocked=False)
    assert judged.gate == ("fail" if why else "pass")
    assert (why or "2 LDG") in judged.why


COUNT = "ATOMG.E.INC R6, [R8.64], R9"
LOAD = "LDG.E R4, [R2.64]"
USE = "SHFL.IDX PT, R7, R6, RZ, 0x1f"


@each_row(
    ("lines", "why"),
    [
        ((COUNT, LOAD, "@P0 BRA 0x10", "@P1 BRA 0x0"), None),
        ((COUNT, LOAD, "@P0 BRA 0x0", "@P1 BRA 0x0"), "0 ATOMG.E.INC"),  # in the loop
        (("IADD3 R6, R6, R9, RZ", LOAD, "@P0 BRA 0x10", "@P1 BRA 0x0"), "0 ATOMG.E.INC"),
        ((COUNT, LOAD, "@P0 BRA 0x10", "EXIT"), "0 ATOMG.E.INC"),  # before it
        ((COUNT, LOAD, COUNT.replace("R6", "R7"), "@P0 BRA 0x10", "@P1 BRA 0x0"), "1 ATOMG.E.INC"),  # in both
        ((COUNT, USE, LOAD, "@P0 BRA 0x20", "@P1 BRA 0x0"), "1 of ATOMG.E.INC"),  # waited for at once
        ((COUNT, LOAD, "@P0 BRA 0x10", USE, "@P1 BRA 0x0"), None),
        ((COUNT, "STL [R1], R5", LOAD, "@P0 BRA 0x20", "@P1 BRA 0x0"), "1 STL"),
    ],
)
def test_what_belongs_around_the_loop_is_there_alone_and_not_waited_for(
    lines: tuple[str, ...], why: str | None
) -> None:
    given = replace(rules({"LDG": 1}), around=(("ATOMG.E.INC", exactly(1)),))
    judged = judge(given, {}, code_of(*lines, "EXIT"), clocked=False)
    assert judged.gate == ("fail" if why else "pass")
    assert (why or "1 LDG") in judged.why


def test_either_of_two_opcodes_counts() -> None:
    code = code_of("IADD R1, R1, R2", "IADD3 R1, R1, R2, RZ", "@P0 BRA 0x0", "EXIT")
    judged = judge(rules({"IADD/IADD3": 2}, max_overhead=1), {}, code, clocked=False)
    assert judged.gate == "pass" and judged.why.startswith("2 IADD/IADD3 ")
    assert judge(rules({"IADD/IADD3": 1}), {}, code, clocked=False).gate == "fail"


def test_a_range_of_counts() -> None:
    code = chain(*"222")
    for low, high, gate in ((1, 3, "pass"), (3, None, "pass"), (4, None, "fail"), (1, 2, "fail")):
        count = Count(IntegerProduct((low,)), IntegerProduct((high,)) if high else None)
        given = GateRules("loop", (("LDG", count),), (), (), (), (), (), (), IntegerProduct((9,)), ())
        assert judge(given, {}, code, clocked=False).gate == gate


class Twin(NamedTuple):
    """A probe with one mistake in its source (old text, new text), and what the gate must say of it."""

    probe: str
    old: str
    new: str
    says: str
    changes: tuple[tuple[str, str], ...] = ()


TWINS = {
    "it has one chain": Twin("fma", "x[chain] = fmaf(x[chain], a, b)", "x[0] = fmaf(x[0], a, b)", "1 FFMA continue"),
    "its result is never used": Twin("fma", "keep(sink, sum);", "", "no loop"),
    "it spills": Twin("fma", "_bounds__(1024)", "_bounds__(1024, 2)", "LDL", (("CHAINS", "72"), ("UNROLL", "1"))),
    "it reads the clock each time": Twin("fma", "++i) {", "++i) {\n        if (now().cycles == 1) break;", "forbidden"),
    "the clock starts late": Twin("fma", "= begin();", "{};", "reads of the clock"),
    "its loads wait for one another": Twin(
        "read", "value[k] = element[k * BLOCK];", "value[k] = element[k * BLOCK + (k ? value[k - 1].x : 0)];",
        "7 of 8 LDG",
    ),
    "fragments of A are zero": Twin("mma", "a[i] = fragment[i]", "a[i] = 0", "by zero"),
}  # fmt: skip


GOOD = {
    "fma": ("sm_75", "sm_120a"), "read": ("sm_75", "sm_90a"), "mma": ("sm_90a", "sm_120a"),
    "fp8-mma": ("sm_89", "sm_90a", "sm_100a", "sm_120a"), "chase": ("sm_75", "sm_100a"),
}  # fmt: skip
"""Probes as they are, and the targets that they are compiled for."""

Case = tuple[str, str, int]
"""The name of a twin, its target, and which of its variants."""


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[Case, Judgement]:
    """What the gate says of every twin on every target of its probe; one run, for the disassembler starts slowly."""
    folder = tmp_path_factory.mktemp("twins")
    cases = dict(_cases(folder))
    return dict(zip(cases, (judged.judgement for judged in check(tuple(cases.values()))), strict=True))


def _cases(folder: Path) -> Iterator[tuple[Case, Variant]]:
    for index, (name, twin) in enumerate(TWINS.items()):
        for variant in _bad_variants(twin, folder / str(index), TARGETS[index % 2 :: 2]):
            yield (name, variant.target, 0), variant
    for name, targets in GOOD.items():
        probe = twin_named(name, folder)
        for target in targets:
            for number, variant in enumerate(variants(probe, target)):
                yield (name, target, number), variant


def _bad_variants(twin: Twin, folder: Path, targets: tuple[str, ...]) -> Iterator[Variant]:
    folder.mkdir()
    probe = twin_named(twin.probe, folder)
    kernel = kernel_of(probe)
    text = kernel.source.read_text(encoding="utf-8")
    assert text.count(twin.old) == 1
    kernel.source.write_text(text.replace(twin.old, twin.new), encoding="utf-8")
    for target in (target for target in targets if target in probe.targets):
        yield Variant(probe, kernel, target, {**next(kernel.assignments(target)), **dict(twin.changes)})


@pytest.mark.compilers
@needs_cuda_wheels
def test_good_twins_pass_and_bad_ones_are_caught_on_every_target(answers: dict[Case, Judgement]) -> None:
    for name in ("fma", "read", "mma"):
        gates = [answer.gate for (twin, _, _), answer in answers.items() if twin == name]
        assert len(gates) >= 2 and set(gates) == {"pass"}, name
    for name, bad in TWINS.items():
        of_twin = [judged for (twin, _, _), judged in answers.items() if twin == name]
        assert of_twin and {judged.gate for judged in of_twin} == {"fail"}, name
        assert all(bad.says in judged.why for judged in of_twin), (name, of_twin)


@pytest.mark.compilers
@needs_cuda_wheels
def test_fp8_is_native_emulated_or_merged_and_two_chains_are_no_latency(answers: dict[Case, Judgement]) -> None:
    for target, rotating, constant in (
        ("sm_89", "pass", "pass"), ("sm_90a", "emulated", "fail"), ("sm_100a", "emulated", "fail"),
        ("sm_120a", "pass", "pass"),
    ):  # fmt: skip
        assert [answers["fp8-mma", target, number].gate for number in (0, 1)] == [rotating, constant], target
    for target in GOOD["chase"]:
        assert answers["chase", target, 0].gate == "pass"
        two = answers["chase", target, 1]
        assert two.gate == "fail" and "do not wait" in two.why
