"""Reductions in shared memory: the steps that code shows, what is no such step, and what they cost."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuprof.annotated.counts import EXECUTED
from gpuprof.model.recorded import ProfiledInstruction
from gpuprof.sass.patterns.reduction_steps import steps_of
from tests.kernels import Histograms, Made, Program, busy, issued, made, stalls
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
    assert "12 %" in finding.headline and finding.confidence == "inferred"
    # 8 of the 9 barriers are its own: 8 ÷ 9 of 36 %; its loads are not all.
    assert finding.gain_kernel == pytest.approx(0.32) and finding.gain_kind == "conditional"
    assert finding.place is not None and finding.place.line == 10 + BARRIER
    assert {item.meaning: item.value for item in finding.evidence}["barriers per block"] == 8.0
    # The wait at its barriers goes with it.
    assert block().finding("barrier-wait").cause == finding.id


def with_loads(count: float) -> Made:
    launch = block(adding=8.0)
    threads = dict(launch.histograms[TRUE]) | dict.fromkeys((16 * place for place in LOADS), count)
    return replace(launch, histograms={**launch.histograms, TRUE: threads})


@each_row(
    "launch",
    [
        # 255 + 254 + 252 + … + 128 of 8 · 256 threads: 88 %.
        pytest.param(block(adding=1793.0), id="a step of all threads is a scan"),
        # Shortest paths: every thread compares, and the few that know a shorter one store it.
        pytest.param(with_loads(864.0 * 2048), id="all threads try and few store"),
        pytest.param(block(long_scoreboard=60.0, barrier=10.0), id="nobody waits for it"),
    ],
)
def test_what_is_no_tree(launch: Made) -> None:
    assert launch.findings("reduction-tree") == []


STEP_OF_DOUBLES = ("LDS.64 R2, [R9]", "LDS.64 R4, [R8]", "DADD R2, R2, R4", "STS.64 [R9], R2", "BAR.SYNC 0x0")


@each_row(
    ("code", "steps"),
    [
        (LOOP, 1),
        # Code that also does something else is no plain tree; a shuffle that never runs is none.
        ((*LOOP[:7], "SHFL.DOWN PT, R9, R4, 0x10, 0x1f", *LOOP[7:]), 0),
        # Sums and extremes of any type are steps, and a store of anything else is none.
        *(((*LOOP[:7], f"@!P1 {line}", *LOOP[8:]), 1)
          for line in ("FMNMX R4, R3, R2, !PT", "IMAD.IADD R4, R3, 0x1, R2", "IADD3 R4, R3, R2, RZ",
                       "DADD R4, R2, R8")),
        *(((*LOOP[:7], line, *LOOP[8:]), 0)
          for line in ("FFMA R4, R3, R2, R9", "FMUL R4, R3, R2", "LDG.E R4, [R8.64]", "MOV R4, R9",
                       "IMAD.WIDE R4, R3, 0x4, R2")),
        # Doubles and vectors are followed in all their registers.
        (STEP_OF_DOUBLES, 1),
        (("LDS.128 R4, [R9]", "FADD R0, R7, R1", "STS [R9], R0", "BAR.SYNC 0x0"), 1),
        (LOOP[4:10] * 3, 3),
    ],
)  # fmt: skip
def test_steps_of_a_tree_are_read_from_code(code: tuple[str, ...], steps: int) -> None:
    assert len(steps_of(code)) == steps
    assert [(at.store, at.barrier) for at in steps_of(LOOP[4:10] * 3)] == [(4, 5), (10, 11), (16, 17)]
