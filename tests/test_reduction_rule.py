"""Reductions in shared memory: the steps that code shows, what is no such step, and what they cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from gpuprof.diagnose.case import EXECUTED
from gpuprof.diagnose.reduction import steps_of
from gpuprof.hardware.specs import THREAD_OPCODES
from gpuprof.model.recorded import ProfiledInstruction
from tests.kernels import Histograms, Made, Program, busy, issued, made, session, stalls
from tests.table import each_row

TRUE = "thread_inst_executed_true"
LOOP = (
    "STS [R5], R0", "BAR.SYNC.DEFER_BLOCKING 0x0", "ISETP.GE.AND P1, PT, R7, R0, PT", "@!P1 LEA R2, R0, R5, 0x2",
    "@!P1 LDS R3, [R5]", "SHF.R.U32.HI R0, RZ, 0x1, R0", "@!P1 LDS R2, [R2]", "@!P1 FADD R4, R3, R2",
    "@!P1 STS [R5], R4", "BAR.SYNC.DEFER_BLOCKING 0x0", "ISETP.NE.AND P1, PT, R0, RZ, PT", "@P1 BRA 0x130",
    "LDS R5, [RZ]", "STG.E [R2.64], R5", "EXIT",
)  # fmt: skip
"""Adds up a block, half of the threads less each time round."""
LOADS, STORE, BARRIER = (4, 6), 8, 9


def block(adding: float = 255.0, steps: int = 8, lines: tuple[str, ...] = LOOP, **share: float) -> Made:
    """864 blocks of 256 threads, 8 warps: each instruction of the loop is executed `steps` times by each warp.

    `adding` is the number of threads of a block that store in all its steps.
    """
    times = {place: 864 * 8.0 * (steps if 2 <= place <= 11 else 1) for place in range(len(lines))}
    code = tuple(
        ProfiledInstruction(16 * place, line, "sum.cu", 10 + place, {EXECUTED: times[place]})
        for place, line in enumerate(lines)
    )
    threads: dict[str | int, float] = {16 * place: 32 * count for place, count in times.items()}
    for place in (*LOADS, STORE):
        threads[16 * place] = 864 * adding
    histograms: Histograms = {EXECUTED: {16 * place: count for place, count in times.items()}, TRUE: threads}
    waits = share or {"barrier": 36.0, "short_scoreboard": 8.0}
    return made(busy(dram=20), stalls(**waits), issued(20), histograms=histograms, details=Program(code))


def test_a_tree_in_shared_memory_is_told_with_what_its_barriers_cost() -> None:
    finding = block().finding("reduction-tree")
    # 128 + 64 + … + 1 of 8 times 256 threads add: 12.5 %.
    assert "12 % of threads" in finding.headline and finding.confidence == "inferred"
    # 8 of the 9 barriers are its own: 8 ÷ 9 of 36 %; its loads are not all.
    assert finding.gain_kernel == pytest.approx(0.32) and finding.gain_kind == "fixed-work"
    assert finding.location is not None and finding.location.line == 10 + BARRIER
    assert {item.meaning: item.value for item in finding.evidence}["barriers per block"] == 8.0


def test_the_wait_at_its_barriers_goes_with_it() -> None:
    launch = block()
    assert launch.finding("barrier-wait").cause == launch.finding("reduction-tree").id


def test_a_step_of_all_threads_is_a_scan_and_no_tree() -> None:
    # 255 + 254 + 252 + … + 128 of 8 · 256 threads: 88 %.
    assert block(adding=1793.0).findings("reduction-tree") == []


def test_a_step_that_all_threads_try_and_few_store_is_no_tree() -> None:
    # Shortest paths: every thread compares, and the few that found a shorter one store it.
    launch = block(adding=8.0)
    threads = dict(launch.histograms[TRUE])
    threads.update({16 * place: 864.0 * 2048 for place in LOADS})
    assert replace(launch, histograms={**launch.histograms, TRUE: threads}).findings("reduction-tree") == []


def test_a_sum_by_few_threads_at_one_barrier_is_no_tree() -> None:
    assert block(adding=8.0, steps=1).findings("reduction-tree") == []


def test_a_tree_that_nobody_waits_for_is_no_finding() -> None:
    assert block(long_scoreboard=60.0, barrier=10.0).findings("reduction-tree") == []


def test_without_threads_of_each_instruction_those_of_each_opcode_tell() -> None:
    per_opcode: Mapping[str | int, float] = {"LDS": 511.0, "STS": 511.0, "BAR": 2304.0}
    launch = block().without(TRUE)
    assert launch.findings("reduction-tree") == []
    finding = replace(launch, histograms={**launch.histograms, THREAD_OPCODES: per_opcode}).finding("reduction-tree")
    assert "22 % of threads" in finding.headline and finding.confidence == "inferred"
    # All threads load and few store: no step.
    tried = {**launch.histograms, THREAD_OPCODES: {**per_opcode, "LDS": 4096.0}}
    assert replace(launch, histograms=tried).findings("reduction-tree") == []


@each_row(
    ("what", "line"),
    [
        ("a shuffle", "SHFL.DOWN PT, R9, R4, 0x10, 0x1f"),
        ("a sum in one instruction", "REDUX.SUM UR4, R4"),
        ("a value stored as it was loaded", "STS [R6], R3"),
    ],
)
def test_code_that_also_does_something_else_is_no_plain_tree(what: str, line: str) -> None:
    assert len(steps_of(LOOP)) == 1
    assert steps_of((*LOOP[:7], line, *LOOP[7:])) == (), what


def test_a_shuffle_that_never_runs_is_none() -> None:
    assert len(steps_of(("@!PT SHFL.IDX PT, RZ, RZ, RZ, RZ", *LOOP))) == 1


@each_row("combined", ["FMNMX R4, R3, R2, !PT", "IMAD.IADD R4, R3, 0x1, R2", "IADD3 R4, R3, R2, RZ", "DADD R4, R2, R8"])
def test_sums_and_extremes_of_any_type_are_steps(combined: str) -> None:
    assert len(steps_of((*LOOP[:7], f"@!P1 {combined}", *LOOP[8:]))) == 1


@each_row(
    "line", ["FFMA R4, R3, R2, R9", "FMUL R4, R3, R2", "LDG.E R4, [R8.64]", "MOV R4, R9", "IMAD.WIDE R4, R3, 0x4, R2"]
)
def test_a_store_of_anything_else_is_no_step(line: str) -> None:
    assert steps_of((*LOOP[:7], line, *LOOP[8:])) == ()


def test_an_unrolled_tree_has_a_step_for_each_barrier() -> None:
    step = LOOP[4:10]
    assert [(at.store, at.barrier) for at in steps_of(step * 3)] == [(4, 5), (10, 11), (16, 17)]


def test_doubles_and_vectors_are_followed_in_all_their_registers() -> None:
    assert (
        len(steps_of(("LDS.64 R2, [R9]", "LDS.64 R4, [R8]", "DADD R2, R2, R4", "STS.64 [R9], R2", "BAR.SYNC 0x0"))) == 1
    )
    assert len(steps_of(("LDS.128 R4, [R9]", "FADD R0, R7, R1", "STS [R9], R0", "BAR.SYNC 0x0"))) == 1


SHARED = "smsp__sass_inst_executed_op_shared_{}.sum"
RATE = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{}.sum.per_second"


@each_row(
    ("loads", "stores", "spoken"),
    [
        # 8 warps store once, then 4, 2, 1 and five times 1; each step loads two values.
        (25.0, 20.0, True),
        # All 8 warps take part in the first five steps.
        (95.0, 55.0, True),
        (25.0, 24.0, False),
        (25.0, 8.0, False),
        (8.0, 20.0, False),
        # A tile of 640 elements, of which each thread reads five.
        (40.0, 20.0, False),
        # A value stays in its register, and all warps read the result.
        (12.0 + 8.0, 20.0, True),
    ],
)
def test_blocks_that_store_as_often_as_a_tree_does_are_one(loads: float, stores: float, spoken: bool) -> None:
    counted = made({SHARED.format("ld"): 864 * loads, SHARED.format("st"): 864 * stores})
    findings = counted.findings("reduction-tree")
    assert len(findings) == spoken
    if spoken:
        assert f"store {stores:.0f} times, like a tree of 8 steps" in findings[0].headline
        assert findings[0].gain_kernel is None and findings[0].confidence == "inferred"
    # What tells of time tells whether the tree costs any.
    assert counted.plus(busy(dram=30)).findings("reduction-tree") == []


def test_a_rate_of_passes_tells_a_tree_with_the_duration() -> None:
    rates = {RATE.format("ld"): 864 * 25 / 1e-3, RATE.format("st"): 864 * 20 / 1e-3}
    assert made(rates).findings("reduction-tree") == []
    assert len(made(rates, {"gpu__time_active.sum": 1.002e-3}).findings("reduction-tree")) == 1


@each_row("threads", [128, 384])
def test_stores_of_small_or_odd_blocks_tell_no_tree(threads: int) -> None:
    warps = threads // 32
    counted = {SHARED.format("ld"): 864 * 25.0, SHARED.format("st"): 864 * (2.0 * warps + 4)}
    assert made(counted, block=(threads, 1, 1)).findings("reduction-tree") == []


def test_a_run_of_counts_alone_is_said_to_have_those_and_no_times() -> None:
    counted = made({SHARED.format("ld"): 864 * 25.0, SHARED.format("st"): 864 * 20.0})
    verdict = session(counted).verdict
    assert verdict is not None and verdict.unknown is not None
    assert "has counts of its work, but none of what that work costs. Shared-memory reduction" in verdict.sentence
    assert verdict.unknown.startswith("The report does not show how busy the units are")
