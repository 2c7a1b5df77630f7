"""Rules on grids, waves, blocks and occupancy: what they say, what they leave to others, and when they say nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpuprof.hardware.device import RecordedDevice
from gpuprof.hardware.specs import WARP_OPCODES
from tests.kernels import REGISTERS, WAVES, Made, Values, busy, coded, issued, lasting, made, pipes, stalls
from tests.rule_examples import (
    ACTIVE,
    EXCESS,
    HALF_OCCUPANCY,
    PER_SECTOR_LOAD,
    REQUESTS,
    THREADS,
    TOTAL,
    Judged,
    OfUnknownGpu,
    check_row,
    half_full,
    said,
    says,
    silent,
)  # fmt: skip
from tests.table import each_row

GRID, TAIL, IMBALANCE, OCCUPANCY = "small-grid", "tail-effect", "load-imbalance", "low-occupancy"
BLOCK, SHORT_BLOCKS, SHORT_KERNEL, WAITING = "block-size", "short-blocks", "short-kernel", "latency-bound"
UNCOALESCED, DIVERGENCE, MEMORY = "uncoalesced-global", "branch-divergence", "memory-latency"
BUSIEST_SM, AVERAGE_SM, ELAPSED = "sm__cycles_active.max", "sm__cycles_active.avg", "sm__cycles_elapsed.max"
ELIGIBLE = "smsp__warps_eligible.avg.per_cycle_active"
IDLE = {**busy(sm=20, dram=20), **issued(20)}


def of_grid(blocks: int, *parts: Values) -> Made:
    return made(*parts, grid=(blocks, 1, 1))


def of_block(threads: int, *parts: Values) -> Made:
    return made(*parts, block=(threads, 1, 1))


def of_sms(busiest: float, average: float, elapsed: float | None = None) -> Values:
    return {BUSIEST_SM: busiest, AVERAGE_SM: average, **({ELAPSED: elapsed} if elapsed is not None else {})}


# Grids and waves.

AVERAGE_ALONE = made({AVERAGE_SM: 700.0, ELAPSED: 1000.0}, lasting(1e-4), busy(sm=35))
"""SMs idle for 30 % of 100 µs, of which a launch can take 3."""
FEW_ACTIVE = of_grid(54, lasting(1e-4), {WAVES: 0.1, AVERAGE_SM: 100.0, ELAPSED: 1000.0})
"""54 blocks on 108 SMs; an average SM works 10 % of the time, so one with a block 20 %."""
ONE_WORKS = of_grid(324, {WAVES: 0.375}, of_sms(1e5, 4e3, 1e5), lasting(1e-4), busy(sm=1, memory=1), issued(3))
"""Three blocks on each of 108 SMs; one SM works all the time, and an average one for 4 % of it."""
BLOCKS_OF_HALF_AN_SM = {
    f"launch__occupancy_limit_{name}": value
    for name, value in (("registers", 2.0), ("shared_mem", 32.0), ("warps", 8.0), ("blocks", 32.0))
}
FILL = of_grid(6912, {REGISTERS: 32.0, ACTIVE: 30.0, WAVES: 8.0}, of_sms(2e4, 1.5e4, 2.1e4), lasting(2e-5), busy(sm=5))
"""Blocks of 1 500 × 3 ÷ 8 = 563 cycles; SMs idle for a quarter of the time of the busiest, less than a third full."""


def executed(**counts: float) -> dict[str, dict[str | int, float]]:
    """How often warps executed each opcode."""
    histogram: dict[str | int, float] = dict(counts.items())
    return {WARP_OPCODES: histogram}


@each_row(
    ("launch", "rule", "expected"),
    [
        silent("no size", made({WAVES: 0.1}, grid=None), GRID),
        says("by waves", of_grid(107, {WAVES: 0.5}), GRID, 0.5, "107 blocks"),
        # 14 of 56 SMs have a block, or of 108, the most of a GPU of 8.0; a part of a GPU, or one that has no spec, may
        # have fewer. The launch takes 1 µs.
        says("fewer than any GPU", OfUnknownGpu(of_grid(14, lasting())), GRID, (1 - 14 / 108) * 0.999, "56 SMs",
             confidence="guess"),
        # An average SM works for a fifth of the time, one with a block for all of it at most: 70 SMs or fewer.
        says("as few as work shows", OfUnknownGpu(of_grid(14, {AVERAGE_SM: 200.0, ELAPSED: 1000.0}, lasting())), GRID,
             (1 - 14 / 70) * 0.999, "56 SMs", confidence="guess"),
        # The smallest slice of a GPU of 8.0 has 56 ÷ 7 SMs: 7 blocks are too few for any, however waves are rounded.
        *(says("fewer than any slice", OfUnknownGpu(of_grid(7, lasting(), more)), GRID, (1 - 7 / 108) * 0.999,
               "7 blocks, fewer than the GPU has SMs", confidence="inferred", severity="high")
          for more in ({}, {WAVES: 0.0})),
        says("as many as a slice", OfUnknownGpu(of_grid(8, lasting())), GRID, 100 / 108 * 0.999, "56 SMs",
             confidence="guess"),
        # Small products of an architecture without a spec count: RTX A400 has 6 SMs, T400 6, RTX PRO 500 14.
        *(silent("as many as a small product", OfUnknownGpu(of_grid(blocks, lasting()), capability), GRID)
          for capability, blocks in (("7.5", 6), ("8.6", 20), ("8.9", 16), ("12.0", 14))),
        # 64 blocks of 2 an SM are a third of a wave on 96 SMs.
        says("SMs by waves", OfUnknownGpu(of_grid(64, BLOCKS_OF_HALF_AN_SM, {WAVES: 1 / 3})), GRID, 1 / 3,
             "about 96 SMs", confidence="inferred"),
        # More blocks do not shorten the launch. 27 of 108 SMs have a block; of 4 µs the busiest SM works for 3.
        says("the launch stays", of_grid(27, {WAVES: 0.25, BUSIEST_SM: 6e3, ELAPSED: 8e3}, lasting(4e-6)), GRID,
             0.75 * 0.75),

        *(silent("whole or many waves", made({WAVES: waves}), TAIL) for waves in (0.5, 1.0, 2.0, 3.0, 5.0, 5.5, 100.3)),
        *(says("the empty part of all rounds", made({WAVES: waves}), TAIL, gain) for waves, gain in (
            (1.07, 0.465), (1.6, 0.2), (2.0001, 0.9999 / 3), (2.5, 0.5 / 3), (4.5, 0.1))),
        # 1.1 waves of 132 SMs with one block each: 45 % of the time is idle, and so it was measured.
        says("as measured", made({WAVES: 1.1}, of_sms(1000.0, 560.0)), TAIL, 0.45, confidence="measured"),
        silent("the tail explains it", made({WAVES: 1.1}, of_sms(1000.0, 560.0)), IMBALANCE),
        says("the busiest unit", made({WAVES: 1.07}, busy(dram=90)), TAIL, 0.1),

        # Of an average SM alone: launch, tail or grid can be why. A launch can take 3 of 12 µs.
        *(silent(name, launch, IMBALANCE) for name, launch in {
            "a launch": AVERAGE_ALONE.plus(lasting(1.2e-5)), "two of three rounds": AVERAGE_ALONE.plus({WAVES: 2.1}),
            "no size": replace(AVERAGE_ALONE, grid=None)}.items()),
        # 4.9 waves leave 2 % of the places empty; 50 % are there, 15 % were filled.
        says("beyond the tail", made(HALF_OCCUPANCY, {ACTIVE: 15.0, WAVES: 4.9}), IMBALANCE,
             1 - 0.15 / (0.5 * 4.9 / 5)),
        # Up to 3 of the 100 µs can be the launch's.
        says("a block an SM that idles", FEW_ACTIVE, IMBALANCE, 0.77, "20 %"),
        silent("under one wave", made(of_sms(1000.0, 300.0), {WAVES: 0.5}), IMBALANCE),
        # Of 97 to 100 % of the time the average SM with a block works for 4 %: one block has nearly all the work.
        says("one block has the work", ONE_WORKS, IMBALANCE, 0.95, "4.0 %", confidence="inferred", severity="high"),
        says("one block has the work", ONE_WORKS, GRID, 0.625 * 0.04, severity="info"),
        # All SMs have a block: without the busiest one the launch can be the reason.
        silent("the launch may be why", ONE_WORKS.without(BUSIEST_SM), IMBALANCE),
        # 96 of 108 SMs have a block, which is a tenth of the GPU. One warp a scheduler is another matter.
        *(says("SMs and warp slots", of_grid(96, {WAVES: 0.889}, more), GRID, gain, text, confidence=sure)
          for more, gain, text, sure in (
              ({}, 1 / 9, "96 blocks for 108 SMs", "measured"), (busy(sm=95), 0.05, "96 blocks for", "measured"))),
        says("a busy unit", of_grid(256, {WAVES: 0.6}, busy(sm=30, l1=70)), GRID, 0.3, severity="info"),
        silent("nearly a wave", of_grid(256, {WAVES: 0.97}), GRID),
        silent("nearly all SMs", of_grid(105, {WAVES: 0.95}), GRID),
        silent("starts of blocks", FILL, IMBALANCE),
        says("starts of blocks", FILL, SHORT_BLOCKS, 0.7 * 1.5 / 2.1, "562 cycles"),
        # 1 − 30 ÷ 50, and no more than idle slots and the busiest unit.
        *(says("of warps", made(HALF_OCCUPANCY, {ACTIVE: 30.0, WAVES: 8.0}, more), IMBALANCE, gain)
          for more, gain in ((issued(75), 0.25), (busy(sm=75), 0.25), ({}, 0.4))),
        says("slots beside a busy unit", made(HALF_OCCUPANCY, {ACTIVE: 30.0, WAVES: 8.0}, busy(sm=85)), IMBALANCE, 0.15,
             severity="info"),
        *(says("of SMs", made(of_sms(1000.0, 700.0), more), IMBALANCE, gain)
          for more, gain in ((busy(sm=85), 0.15), ({}, 0.3))),

        # Nothing busy is no finding of a short kernel.
        silent("4 µs", made(busy(sm=2, memory=10), lasting(4e-6)), WAITING),
    ],
)  # fmt: skip
def test_grids_waves_and_uneven_work(launch: Judged, rule: str, expected: dict[str, Any] | None) -> None:
    check_row(launch, rule, expected)


def test_a_short_kernel_is_told_first_and_what_else_it_has_are_guesses() -> None:
    idle = of_grid(8, {WAVES: 0.1}, busy(sm=2, dram=3), stalls(imc_miss=40), issued(5))
    first, *others = idle.plus(lasting(4e-6)).profile().findings
    assert first.rule == SHORT_KERNEL and {item.rule for item in others} >= {GRID, "constant-miss"}
    assert {(item.severity, item.confidence) for item in others} <= {("low", "guess"), ("info", "guess")}
    longer = idle.plus(lasting(6e-6)).profile().findings[0]
    assert (longer.rule, longer.severity) == (GRID, "high")
    helper = replace(of_block(1, IDLE, lasting(2e-6)), grid=(1, 1, 1))
    assert helper.profile().findings[0].rule == SHORT_KERNEL and helper.finding(BLOCK).severity == "low"
    # Of 1024 threads that a block can have 1023 are not there, and of 108 SMs 107 have no work.
    alone = replace(of_block(1, busy(sm=0.1), lasting(1e-2)), grid=(1, 1, 1))
    assert [item.rule for item in alone.profile().findings[:2]] == [BLOCK, GRID]


# What a launch takes, other fixes leave. In 6 of 8 µs SMs work.

SIX_OF_EIGHT = {**of_sms(9e3, 9e3, 12e3), **lasting(8e-6)}
EXCESS_SECTORS = {**SIX_OF_EIGHT, WAVES: 1.0, TOTAL: 1000.0, EXCESS: 600.0}


@each_row(
    ("launch", "rule", "expected"),
    [
        says("sectors", made(EXCESS_SECTORS), UNCOALESCED, 0.6 * 0.75, kind="conditional"),
        # Warps wait for them in half of those.
        says("sectors that half of the time waits for", made(EXCESS_SECTORS, stalls(long_scoreboard=40, wait=60),
             busy(dram=20, l2=20, l1=20, memory=20)), UNCOALESCED, 0.6 * 0.75 * 0.5, kind="conditional"),
        says("waits", made(SIX_OF_EIGHT, stalls(long_scoreboard=40), issued(30)), MEMORY, 0.4 * 0.75),
    ],
)  # fmt: skip
def test_no_fix_of_a_kernel_shortens_its_launch(launch: Judged, rule: str, expected: dict[str, Any] | None) -> None:
    check_row(launch, rule, expected)


# Blocks: lanes that they leave empty.

SCATTERED = {PER_SECTOR_LOAD: 4.0, **busy(l1=60, dram=30), **stalls(long_scoreboard=60), **issued(20)}


@each_row(
    ("launch", "rule", "expected"),
    [
        *(says("empty lanes", of_block(threads, busy(sm=20)), BLOCK, gain, kind="conditional")
          for threads, gain in ((1, 31 / 32), (31, 1 / 32), (33, 31 / 64), (96 + 24, 8 / 128))),
        # 1000 threads leave 24 of 1024 lanes empty: 2.3 %.
        *(silent("whole warps", of_block(threads, IDLE), BLOCK) for threads in (32, 64, 256, 1000, 1024)),
        # 33 threads, and the last thread's warp leaves at once.
        silent("last warps that execute nothing", of_block(33, IDLE, {THREADS: 31.9}), BLOCK),
        # 16 of 32 lanes: of a pipe that is 90 % busy 45 % remain, of DRAM's 80 % all.
        says("no bytes", of_block(16, busy(dram=80, sm=90), pipes(fma=90)), BLOCK, 0.2, kind="conditional",
             remains={"dram": 0.8, "fma": 0.45}),
        # 20 of 32 lanes have a thread, and all of them are active; then half of them.
        silent("lanes without a thread", of_block(20, IDLE, {THREADS: 20.0}), DIVERGENCE),
        says("lanes with a thread", of_block(20, IDLE, {THREADS: 10.0}), DIVERGENCE, 0.5, "10 of 20"),
        says("lanes without a thread", of_block(20, IDLE, {THREADS: 10.0}), BLOCK, 12 / 32),
        # What empty lanes explain.
        says("a pipe", of_block(8, busy(sm=75), pipes(alu=75, fma=10)), "integer-bound", 1.0, cause=BLOCK),
        says("a lone lane cannot use a sector", of_block(1, SCATTERED), UNCOALESCED, 0.875, cause=BLOCK),
        says("waits of a few lanes", of_block(4, IDLE, stalls(long_scoreboard=60)), MEMORY, 0.6, cause=BLOCK),
    ],
)  # fmt: skip
def test_lanes_that_blocks_leave_empty(launch: Judged, rule: str, expected: dict[str, Any] | None) -> None:
    check_row(launch, rule, expected)


# Blocks of few warps, and short ones.

FEW_WARPS = of_block(32, {REGISTERS: 32.0, WAVES: 8.0, ACTIVE: 48.0}, IDLE, stalls(long_scoreboard=70))
"""An SM of the A100 takes 32 blocks: 32 of 64 warps."""
BASIC = of_block(32, {REGISTERS: 32.0, WAVES: 8.0, ACTIVE: 48.0}, busy(sm=20, dram=55, memory=55))
"""The basic set: no schedulers, no warp states."""
SHORT = of_grid(6912, {REGISTERS: 32.0, ACTIVE: 50.0, WAVES: 8.0, AVERAGE_SM: 1e4}, busy(sm=20))
"""An SM runs 64 blocks of 8 warps, 4 at a time, in 10 000 cycles: one lives for 625."""
UNKNOWN_SMS = replace(SHORT, device=RecordedDevice(compute_capability="8.0"))


@each_row(
    ("launch", "rule", "expected"),
    [
        says("few warps a block", FEW_WARPS, BLOCK, 0.5, severity="high"),
        says("few warps a block", FEW_WARPS, OCCUPANCY, 0.5, cause=BLOCK),
        says("few warps a block", FEW_WARPS, MEMORY, 0.7, cause=BLOCK),
        *(silent(name, launch, BLOCK) for name, launch in {
            "registers allow fewer warps than the blocks are": FEW_WARPS.plus({REGISTERS: 128.0}),
            "the places are not taken": FEW_WARPS.plus({ACTIVE: 20.0}),
            "the grid is under a wave": replace(FEW_WARPS.plus({WAVES: 0.5}), grid=(1728, 1, 1)),
            "DRAM is busy": FEW_WARPS.plus(busy(dram=70)),
            "a pipe's queue is full": FEW_WARPS.plus(stalls(math_pipe_throttle=60, long_scoreboard=20)),
            "two warps a block fill the SM": replace(FEW_WARPS, block=(64, 1, 1)),
            "what limits the warps is not known": FEW_WARPS.without(REGISTERS),
            "no unit was collected": FEW_WARPS.without(*busy(sm=0, dram=0)),
        }.items()),
        # The SM bounds issue slots that were not collected.
        says("the basic set", BASIC, BLOCK, 0.45, confidence="inferred"),

        says("half of the places", SHORT, SHORT_BLOCKS, 0.5),
        silent("short blocks explain it", SHORT, IMBALANCE),
        silent("long blocks", SHORT.plus({AVERAGE_SM: 1e5}), SHORT_BLOCKS),
        says("long blocks", SHORT.plus({AVERAGE_SM: 1e5}), IMBALANCE, 0.5),
        # 8 rounds in 10 000 cycles, half of whose places are filled: 625 cycles.
        says("SMs unknown", UNKNOWN_SMS, SHORT_BLOCKS, 0.5, "625 cycles"),
        *(says("no more than slots and units leave", SHORT.plus(more), SHORT_BLOCKS, gain, confidence="inferred")
          for more, gain in ((busy(dram=55), 0.45), (issued(58), 0.42), ({}, 0.5))),
        *(silent(name, launch, SHORT_BLOCKS) for name, launch in {
            "the places are filled": SHORT.plus({ACTIVE: 95.0}), "the grid is under a wave": SHORT.plus({WAVES: 0.5}),
            "a few blocks are long": SHORT.plus({BUSIEST_SM: 8e4}),
            "a last round": replace(SHORT.plus({WAVES: 1.5, ACTIVE: 70.0}), grid=(1296, 1, 1)),
            "achieved occupancy is not known": SHORT.without(ACTIVE),
            "nor how long a block lives": SHORT.without(AVERAGE_SM),
        }.items()),
        # What each block waits for at its start and end is explained by their number.
        *(says(reason, SHORT.plus(stalls(**{reason: 45}), issued(20)), rule, 0.45, cause=cause)
          for reason, rule, cause in (("imc_miss", "constant-miss", SHORT_BLOCKS), ("drain", MEMORY, SHORT_BLOCKS),
                                      ("no_instruction", "instruction-fetch", SHORT_BLOCKS),
                                      ("long_scoreboard", MEMORY, None))),
    ],
)  # fmt: skip
def test_blocks_of_few_warps_and_short_ones(launch: Judged, rule: str, expected: dict[str, Any] | None) -> None:
    check_row(launch, rule, expected)


# Occupancy.

DEFAULT_SET = of_grid(4096, {REGISTERS: 255.0, WAVES: 37.9, ACTIVE: 12.4}, busy(sm=10, memory=6, dram=6))
"""8 warps of 255 registers are all that fit, and ncu's default set has no warp states."""
STARVED = made(HALF_OCCUPANCY, {WAVES: 8.0}, issued(40), busy(sm=40), stalls(wait=60), {ELIGIBLE: 0.5})


@each_row(
    ("launch", "rule", "expected"),
    [
        silent("full occupancy", made({REGISTERS: 32.0}), OCCUPANCY),
        *(says("missing warps", made(HALF_OCCUPANCY, more), OCCUPANCY, gain)
          for more, gain in ((issued(75), 0.25), (busy(sm=85), 0.15), ({}, 0.5))),
        # 48 KiB and 1 KiB reserved: 3 blocks in 164 KiB.
        says("shared memory", made({REGISTERS: 32.0, "launch__shared_mem_per_block_static": 49152.0,
             "launch__shared_mem_per_block_dynamic": 0.0}), OCCUPANCY, 0.625, "shared memory"),
        says("starved", STARVED, OCCUPANCY, 0.5, confidence="inferred"),
        # 1 − 0.125; nothing shows why warps wait.
        says("no unit busy", DEFAULT_SET, OCCUPANCY, 0.875, confidence="guess", severity="low"),
        # More warps are not recommended if DRAM queues their loads; an idle DRAM has no queue.
        says("loads of 400 cycles", half_full(400), OCCUPANCY, 0.5, severity="high"),
        says("a queue", half_full(1600), OCCUPANCY, 0.0, severity="info"),
        says("a grid that does not fill it", of_grid(54, HALF_OCCUPANCY, issued(20), busy(sm=20), stalls(wait=60)),
             OCCUPANCY, 0.0, severity="info"),
    ],
)  # fmt: skip
def test_occupancy(launch: Judged, rule: str, expected: dict[str, Any] | None) -> None:
    check_row(launch, rule, expected)


@each_row(
    ("registers", "shared", "threads", "advice"),
    [
        # Registers limit: nothing that needs more of them.
        (255.0, 0.0, 256, ("registers",)),
        # 48 KiB and 1 KiB reserved: 3 blocks in 164 KiB.
        (32.0, 49152.0, 256, ("shared-memory", "in-flight")),
        # 2 blocks of 24 warps by their size and by their registers: the size costs nothing to change.
        (32.0, 0.0, 768, ("block-size", "registers", "all")),
    ],
)
def test_the_cheapest_change_that_raises_occupancy_comes_first(
    registers: float, shared: float, threads: int, advice: tuple[str, ...]
) -> None:
    of_shared = {"launch__shared_mem_per_block_static": shared, "launch__shared_mem_per_block_dynamic": 0.0}
    launch = of_block(threads, {REGISTERS: registers, WAVES: 8.0}, of_shared, IDLE, stalls(wait=60))
    cases = said(launch, OCCUPANCY).cases
    assert (cases.action, cases.advice) == (("main", advice[0]), advice)


def test_shared_memory_is_shown_as_it_is_allocated() -> None:
    static = {"launch__shared_mem_per_block_static": 49152.0, "launch__shared_mem_per_block_dynamic": 0.0}
    evidence = said(made({REGISTERS: 32.0}, static), OCCUPANCY).evidence
    assert [item.value for item in evidence if item.role == "shared-memory"] == [50176.0]


def test_registers_that_leave_eight_warps_are_the_first_guess_without_warp_states() -> None:
    assert [item.rule for item in DEFAULT_SET.profile().findings] == [OCCUPANCY, WAITING]


def test_empty_warp_slots_of_working_sms_are_a_finding_of_their_own() -> None:
    # A block of 8 warps on 96 of 108 SMs: 1 − 0.889 × 8 ÷ 64, of which the busiest unit leaves 78 %.
    tiles = of_grid(96, {WAVES: 96 / 108, REGISTERS: 255.0}, issued(17), busy(sm=22, memory=20))
    slots, sms = tiles.findings(GRID)
    assert (slots.confidence, sms.confidence) == ("inferred", "measured")
    assert [slots.gain_kernel, sms.gain_kernel] == pytest.approx([0.78, 1 / 9])
    # If the busiest unit takes 70 % of the time, warps that are not there hardly cost any.
    assert [item.confidence for item in tiles.plus(busy(sm=70)).findings(GRID)] == ["measured"]
    # If two thirds of the SMs have no block, that explains most.
    assert [item.confidence for item in replace(tiles, grid=(36, 1, 1)).findings(GRID)] == ["measured"]


def test_a_short_kernel_matters_less_the_longer_it_is() -> None:
    found = [said(made(lasting(seconds)), SHORT_KERNEL) for seconds in (2e-6, 3e-6, 4e-6, 4.96e-6)]
    assert [item.gain_kernel for item in found] == pytest.approx([1 / 2, 1 / 3, 1 / 4, 1 / 4.96])
    # Half of it counts at 4 µs, and hardly any at 4.96.
    assert [item.severity for item in found] == ["high", "high", "medium", "info"]


def test_one_block_more_than_a_wave_is_no_wave() -> None:
    assert said(made({WAVES: 257 / 256}), TAIL).headline == "Tail effect: the last of 2 waves fills 0.39 % of the GPU"


# Blocks without work: 55 296 warps of which 1 in 20 goes on.

GUARDED = (("ISETP.GE.AND P0, PT, R0, R2, PT", 55296.0), ("@P0 EXIT", 55296.0), ("LDG.E R4, [R2]", 2765.0),
           ("STG.E [R2], R4", 2765.0), ("EXIT", 2765.0))  # fmt: skip


@each_row(
    ("launch", "share"),
    [
        (replace(SHORT, histograms=executed(**{"ISETP": 55296.0, "LDG.E": 2765.0, "STG.E": 2765.0})), 1 - 5530 / 55296),
        (replace(coded(*GUARDED), grid=SHORT.grid, values=SHORT.values), 0.95),
        # 0.1 % of a request per cycle of 108 SMs in 12 000 cycles.
        (SHORT.plus({REQUESTS: 0.1, "sm__cycles_elapsed.avg": 1.2e4}), 1 - 0.001 * 1.2e4 * 108 / 55296),
        (replace(SHORT, histograms=executed(**{"LDG.E": 55296.0, "STG.E": 55296.0})), None),
        (SHORT, None),
    ],
)  # fmt: skip
def test_blocks_that_exit_at_once_are_named(launch: Made, share: float | None) -> None:
    finding = said(launch, SHORT_BLOCKS)
    assert finding.cases.action == (("main",) if share is None else ("exits",))
    exits = [amount.value for amount in finding.amounts if amount.name == "exits"]
    assert share is None or exits == [pytest.approx(share, rel=1e-3)]


# What is known of the reason.


@each_row(
    ("launch", "rule", "why"),
    [
        # The A100 has 108 SMs; a GPU without a name any number of them.
        (of_grid(54, {WAVES: 0.5}), GRID, "no-block"),
        (of_grid(108, {WAVES: 0.5}), GRID, "slots"),
        (OfUnknownGpu(of_grid(14, lasting())), GRID, "perhaps-no-block"),
        (STARVED, OCCUPANCY, "latencies"),
        (STARVED.without(*stalls(wait=60)).plus(busy(sm=40, memory=40)), OCCUPANCY, "few-eligible"),
        (DEFAULT_SET, OCCUPANCY, "no-unit-busy"),
        (made(HALF_OCCUPANCY, busy(sm=70)), OCCUPANCY, "not-shown"),
        (made(HALF_OCCUPANCY, busy(sm=85)), OCCUPANCY, "unit-full"),
        (made(of_sms(1000.0, 700.0)), IMBALANCE, "main"),
        (made(HALF_OCCUPANCY, {ACTIVE: 30.0, WAVES: 8.0}), IMBALANCE, "occupancy"),
        (FEW_ACTIVE, IMBALANCE, "few-blocks"),
    ],
)  # fmt: skip
def test_the_reason_given_is_one_that_is_known(launch: Judged, rule: str, why: str) -> None:
    assert said(launch, rule).cases.why == (why,)
