"""Rules on what warps wait for and on a GPU that does nothing: what they say, and what explains it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gpuprof.hardware.specs import WARP_OPCODES
from gpuprof.model.stalls import NOT_STALLED
from tests import builders
from tests.kernels import (
    REGISTERS,
    WAVES,
    Made,
    busy,
    issued,
    lasting,
    made,
    pipe_metric,
    pipes,
    stalls,
)  # fmt: skip
from tests.rule_examples import (
    ACTIVE,
    EXCESS,
    H100,
    HALF_OCCUPANCY,
    LATENCY,
    LOCAL_LOADS,
    THREADS,
    TOTAL,
    Judged,
    On,
    check_row,
    half_full,
    said,
    says,
    silent,
)  # fmt: skip
from tests.table import each_row

MEMORY, DEPENDENCY, BARRIER, FETCH, CONSTANT = (
    "memory-latency", "dependency-latency", "barrier-wait", "instruction-fetch", "constant-miss",
)  # fmt: skip
DIVERGENCE, WAITING, SHORT_BLOCKS = "branch-divergence", "latency-bound", "short-blocks"
TENSOR = "tensor-compute-bound"
SAMPLED_WITHOUT_ISSUE = {
    f"smsp__pcsamp_warps_issue_stalled_{reason}_not_issued": count
    for reason, count in (
        dict.fromkeys(builders.a100().arch.stalls, 0.0) | {"long_scoreboard": 400.0, "wait": 600.0}
    ).items()
    if reason not in NOT_STALLED
}
HALF_ACTIVE = {"sm__cycles_active.avg": 5e5, "sm__cycles_elapsed.max": 1e6}
MEMORY_WAITS = made(stalls(long_scoreboard=50), issued(20))
HALF_WAVE = {WAVES: 0.4}
EIGHT_WAVES = made(HALF_OCCUPANCY, {WAVES: 8.0})
EXCESS_600 = {TOTAL: 1000.0, EXCESS: 600.0}
BEHIND_A_LOAD = made(stalls(barrier=26, long_scoreboard=59), issued(10))
TEXTURE_QUEUE = made(stalls(tex_throttle=60), issued(20), busy(sm=50), pipes(fp64=50, alu=10))
TEXTURES = "sm__inst_executed_pipe_tex.avg.pct_of_peak_sustained_elapsed"
NOTHING_BUSY = made(busy(sm=20, memory=10))
SHORT = made({REGISTERS: 32.0, ACTIVE: 50.0, "sm__cycles_active.avg": 8e3}, busy(sm=20, memory=10), stalls(wait=20),
             issued(20), grid=(6912, 1, 1))  # fmt: skip
"""64 blocks of 8 warps an SM, 4 of them at a time, in 8 000 cycles: one lives for 500."""


@each_row(
    ("launch", "rule", "expected"),
    [
        # A barrier that no second block covers is felt sooner.
        says("one block an SM", made({REGISTERS: 64.0}, stalls(barrier=10), issued(40), block=(1024, 1, 1)), BARRIER,
             0.1),
        silent("two blocks", made({REGISTERS: 32.0}, stalls(barrier=10), issued(40), block=(1024, 1, 1)), BARRIER),
        *(silent("nearly every cycle issues", example.launch.plus(issued(85)), example.rule) for example in LATENCY
          if example.rule in (MEMORY, DEPENDENCY, BARRIER, FETCH, CONSTANT)),
        # FP64 instructions in the texture queue do not wait for memory.
        silent("FP64 in the queue of textures", TEXTURE_QUEUE, MEMORY),
        # The SM leaves half of the time.
        *(says("textures", launch, MEMORY, 0.5) for launch in (
            replace(TEXTURE_QUEUE, histograms={WARP_OPCODES: {"DFMA": 10.0, "@P0 TEX.LL": 5.0}}),
            TEXTURE_QUEUE.plus({TEXTURES: 5.0}), TEXTURE_QUEUE.plus(pipes(fp64=5, alu=10)),
            TEXTURE_QUEUE.without(pipe_metric("fp64")))),

        *(silent("whole warps or none", made({THREADS: threads}), DIVERGENCE) for threads in (32.0, 0.0)),
        # Threads that go together again can share sectors.
        says("L2 is busy", made(busy(l2=65), {THREADS: 8.0}), DIVERGENCE, 0.35, kind="conditional"),

        silent("a busy pipe is a busy unit", NOTHING_BUSY.plus(pipes(fma=65)), WAITING),
        silent("a barrier explains it", NOTHING_BUSY.plus(stalls(barrier=40), issued(20)), WAITING),
        # A unit that was not collected may be busy.
        *(silent("what was not collected", made(busy(**units)), WAITING) for units in (
            {"sm": 20}, {"dram": 10, "l2": 5}, {"sm": 20, "dram": 10, "l2": 5})),
        says("all levels", made(busy(sm=20, dram=10, l2=5, l1=30)), WAITING, 0.7),
        # Places between short blocks are no latency.
        says("short blocks", SHORT, SHORT_BLOCKS, 0.5, severity="high"),
        silent("short blocks", SHORT, WAITING),
    ],
)  # fmt: skip
def test_rules_on_waiting(launch: Judged, rule: str, expected: dict[str, Any] | None) -> None:
    check_row(launch, rule, expected)


@each_row(
    ("launch", "rule", "cause"),
    [
        (MEMORY_WAITS, MEMORY, None),
        (MEMORY_WAITS.plus(EXCESS_600), MEMORY, "uncoalesced-global"),
        # At its roof there is nothing to fix, and it is still why they wait.
        (MEMORY_WAITS.plus(busy(dram=90)), MEMORY, "dram-bandwidth"),
        (replace(MEMORY_WAITS.plus(HALF_WAVE), grid=(200, 1, 1)), MEMORY, "small-grid"),
        (MEMORY_WAITS.plus(HALF_OCCUPANCY, {WAVES: 8.0}, busy(sm=30)), MEMORY, "low-occupancy"),
        (made(stalls(wait=50), issued(20), HALF_WAVE, grid=(200, 1, 1)), DEPENDENCY, "small-grid"),
        # The slowest warp is behind a load.
        (BEHIND_A_LOAD, BARRIER, MEMORY),
        (BEHIND_A_LOAD.plus(EXCESS_600), BARRIER, "uncoalesced-global"),
        (made(stalls(barrier=40, long_scoreboard=35), issued(10)), BARRIER, None),
        (made(stalls(barrier=40), issued(10), {THREADS: 8.0}), BARRIER, DIVERGENCE),
        # Divergent warps are late, unless most of them wait for something else.
        (made(stalls(barrier=40, long_scoreboard=20), issued(10), {THREADS: 8.0}), BARRIER, None),
        # Warps wait for the pipe that limits them, or for the one that does.
        (made(stalls(barrier=20, math_pipe_throttle=40), issued(40), pipes(fma=90)), BARRIER, "fp32-compute-bound"),
        (made(stalls(barrier=40, math_pipe_throttle=20), issued(40), pipes(fma=90)), BARRIER, None),
        (made(stalls(barrier=40, short_scoreboard=20), issued(20), pipes(tensor=85, fma=20)), BARRIER, TENSOR),
        (made(stalls(wait=40), issued(20), pipes(tensor=85, fma=20)), DEPENDENCY, TENSOR),
        (made(stalls(no_instruction=5, branch_resolving=20), issued(10), {THREADS: 8.0}), FETCH, DIVERGENCE),
        (made(stalls(imc_miss=40), issued(10), lasting(3e-6)), CONSTANT, "short-kernel"),
    ],
)  # fmt: skip
def test_a_wait_is_explained_by_what_brings_it_about(launch: Made, rule: str, cause: str | None) -> None:
    finding = launch.finding(rule)
    assert (finding.cause and finding.cause.partition(".")[2]) == cause
    assert cause is None or finding.severity == "info"
    assert cause is None or launch.profile().findings[0].rule == cause


@each_row(
    ("shares", "change"),
    [({"barrier": 30, "membar": 4}, ("main",)), ({"barrier": 10, "membar": 20}, ("main", "fences")),
     ({"barrier": 2, "membar": 30}, ("fences",))],
)  # fmt: skip
def test_fences_are_not_called_barriers(shares: dict[str, float], change: tuple[str, ...]) -> None:
    found = said(made(stalls(**shares), issued(20)), BARRIER)
    assert found.cases.advice == change
    assert found.cases.action == change[:1]
    assert (found.cases.why[0], "fences" in found.cases.why) == (change[0], "fences" in change)


@each_row(
    ("launch", "confidence"),
    [
        (made(stalls(barrier=40), issued(20), histograms={WARP_OPCODES: {"UTMALDG.2D": 10.0, "FADD": 90.0}}), "guess"),
        (made(stalls(barrier=40), issued(20), histograms={WARP_OPCODES: {"HMMA.16816.F32": 9.0}}), "measured"),
        (replace(made(stalls(barrier=40), issued(20), pipes(tensor=50)), device=H100), "guess"),
        (replace(made(stalls(barrier=40), issued(20), pipes(tensor=10, fma=50)), device=H100), "measured"),
        # An A100 has no such copies.
        (made(stalls(barrier=40), issued(20), pipes(tensor=50)), "measured"),
    ],
)  # fmt: skip
def test_warps_with_roles_may_wait_for_each_other_by_design(launch: Made, confidence: str) -> None:
    found = said(launch, BARRIER)
    assert (found.confidence, "roles" in found.cases.why) == (confidence, confidence == "guess")


def test_consumers_at_a_barrier_do_not_make_an_excess_of_loads_worth_their_time() -> None:
    # 6 of the 40 % that delay a warp are for memory: 6 % and 6 ÷ 40 of the 40 % at barriers are 12 % of the states. A
    # unit counts from 80 % on as the limit, so loads explain 15 % of the time; 60 % of their sectors are excess.
    shares = {"long_scoreboard": 6.0, "short_scoreboard": 24.0, "barrier": 40.0, "sleeping": 10.0, "wait": 10.0}
    found = made(stalls(**shares), issued(10), busy(dram=12, l2=5, l1=5), EXCESS_600).finding("uncoalesced-global")
    assert found.gain_kernel is not None and abs(found.gain_kernel - 0.09) < 1e-9
    assert found.assumes == ("other-stalls-unchanged", "same-l1-wavefronts-per-sector")


def test_no_share_of_warp_time_is_called_a_bound() -> None:
    for example in LATENCY:
        if "wait" in example.rule or "latency" in example.rule:
            assert example.launch.finding(example.rule).gain_kind == "conditional"


def test_a_tile_is_fetched_ahead_by_what_the_gpu_has() -> None:
    v100, t4, a100, h100 = (
        said(On(MEMORY_WAITS, name, capability, sms), MEMORY).advice
        for name, capability, sms in (("Tesla V100-SXM2-16GB", "7.0", 80), ("Tesla T4", "7.5", 40),
                                      ("NVIDIA A100-SXM4-40GB", "8.0", 108), ("NVIDIA H100 80GB HBM3", "9.0", 132))
    )  # fmt: skip
    assert v100 == t4 and ["cp.async" in advice for advice in (t4, a100, h100)] == [False, True, True]
    assert ["TMA" in advice for advice in (t4, a100, h100)] == [False, False, True]
    unknown = said(On(MEMORY_WAITS, None, None, None), MEMORY)
    assert unknown.cases.advice == ("long-scoreboard", "shared/ahead-on-any-gpu", "reuse")


@each_row(
    ("launch", "why", "action"),
    [
        (MEMORY_WAITS.plus(busy(dram=50, l2=10, l1=10)), "room", "long-scoreboard"),
        # A busy unit or a queue hardly serves more loads.
        (MEMORY_WAITS.plus(busy(dram=70, l2=10, l1=10)), "unit-busy", "fewer-bytes"),
        (MEMORY_WAITS.plus(busy(dram=85, l2=10, l1=10)), "unit-busy", "fewer-bytes"),
        (half_full(1600), "queue", "fewer-bytes"),
        (made(stalls(drain=50), issued(20), busy(dram=85, l2=10, l1=10)), "unit-busy", "fewer-bytes"),
        # Fewer and wider accesses relieve a full L1, too.
        (made(stalls(lg_throttle=50), issued(20), busy(dram=5, l2=10, l1=85)), "unit-busy", "lg-throttle"),
    ],
)  # fmt: skip
def test_more_loads_are_not_the_advice_if_they_would_only_queue(launch: Made, why: str, action: str) -> None:
    cases = said(launch, MEMORY).cases
    assert (cases.why[-1], cases.action, cases.advice[0]) == (why, (action,), action)


@each_row(
    ("launch", "action", "advice"),
    [
        (half_full(1000), ("main", "registers"), ("registers",)),
        # A lower cap would spill more.
        (half_full(1000).plus({LOCAL_LOADS: 50.0}), ("main", "registers-spilled"), ("registers-spilled",)),
        # More warps do not help, so nothing says how to get them.
        (half_full(1600), ("queue",), ("queue",)),
        (made(HALF_OCCUPANCY, HALF_WAVE), ("few-blocks",), ("few-blocks",)),
        (EIGHT_WAVES.plus(busy(dram=79)), ("main", "registers"), ("registers",)),
        (EIGHT_WAVES.plus(busy(dram=80)), ("unit-full",), ("unit-full",)),
    ],
)  # fmt: skip
def test_occupancy_is_raised_only_if_that_can_help(
    launch: Made, action: tuple[str, ...], advice: tuple[str, ...]
) -> None:
    cases = said(launch, "low-occupancy").cases
    assert (cases.action, cases.advice) == (action, advice)


@each_row(
    ("launch", "action"),
    [
        (NOTHING_BUSY, "main"),
        # 255 registers leave 8 of 64 warps, all of them there: more work per thread would take more registers.
        (NOTHING_BUSY.plus({REGISTERS: 255.0, ACTIVE: 12.4}), "registers"),
        # A third of the slots that 255 registers leave is empty anyway.
        (NOTHING_BUSY.plus({REGISTERS: 255.0, ACTIVE: 8.3}), "main"),
        # 32 registers leave room for all warps.
        (NOTHING_BUSY.plus({REGISTERS: 32.0, ACTIVE: 95.0}), "main"),
        # Shared memory limits the warps, and registers are free for more work of each.
        (replace(NOTHING_BUSY.plus({REGISTERS: 32.0, "launch__shared_mem_per_block_static": 49152.0, ACTIVE: 37.0}),
                 grid=(3240, 1, 1)), "main"),
    ],
)  # fmt: skip
def test_latencies_are_hidden_by_what_the_launch_has_room_for(launch: Made, action: str) -> None:
    found = launch.finding(WAITING)
    assert (found.cases.action, found.cases.why) == ((action,), ("main", "stalls-unknown"))
    assert found.confidence == "guess"


def test_a_guess_of_occupancy_explains_a_guess_of_waits() -> None:
    # 255 registers leave an eighth of the slots, all taken; nothing is busy, and warp states were not collected.
    launch = NOTHING_BUSY.plus({REGISTERS: 255.0, ACTIVE: 12.4})
    first, second = launch.profile().findings
    assert (first.rule, first.confidence, first.cause) == ("low-occupancy", "guess", None)
    assert (second.rule, second.cause) == (WAITING, first.id)
    # Known warp states are no guess, and nothing that is one explains them.
    assert launch.plus(stalls(misc=40), issued(20)).finding(WAITING).confidence == "inferred"


@each_row(
    ("launch", "change"),
    [
        # 32 768 blocks of 8 warps are 37.9 waves of 108 SMs with 64 warps each, or more.
        (made(busy(sm=0.3, memory=1.6), lasting(24e-3), grid=(32768, 1, 1)), "in-line"),
        # 864 such blocks are one wave, or more.
        (made(busy(sm=0.3, memory=1.6), lasting(24e-3)), "in-line-or-few"),
        (made(busy(sm=0.3, memory=1.6), lasting(24e-3), grid=None), "in-line-or-few"),
        (made(busy(sm=0.3, memory=1.6), lasting(24e-3), {WAVES: 1.0}), "main"),
    ],
)
def test_a_long_kernel_that_keeps_nothing_busy_is_not_sent_more_accesses(launch: Made, change: str) -> None:
    found = launch.finding(WAITING)
    assert (found.cases.action, found.cases.why[0], found.confidence) == ((change,), change, "guess")


@each_row(
    "known",
    [{}, {WAVES: 8.0}, {ACTIVE: 90.0}],
)
def test_empty_slots_that_were_not_counted_can_be_the_reason_that_nothing_is_busy(known: dict[str, float]) -> None:
    waiting = NOTHING_BUSY.plus(stalls(misc=40), issued(20))
    found = waiting.plus(known).finding(WAITING)
    assert (found.confidence, found.cases.why) == ("guess", ("main", "launch-unknown"))
    assert waiting.plus({WAVES: 8.0, ACTIVE: 90.0}).finding(WAITING).confidence == "inferred"


@each_row(
    ("launch", "confidence"),
    [
        (made(stalls(long_scoreboard=40), busy(sm=50)), "inferred"),
        (made(stalls(long_scoreboard=40)), "inferred"),
        # The samples without an issued instruction say nothing about the others.
        (made(SAMPLED_WITHOUT_ISSUE), "guess"),
        (made(SAMPLED_WITHOUT_ISSUE, busy(sm=50)), "inferred"),
        (made(SAMPLED_WITHOUT_ISSUE, busy(sm=85)), None),
        # 85 % of the half of the time in which SMs work.
        (made(SAMPLED_WITHOUT_ISSUE, busy(sm=42.5), HALF_ACTIVE), None),
        # The scheduler mostly has another warp.
        (made(stalls(long_scoreboard=35, not_selected=50)), None),
        (made(stalls(long_scoreboard=40, not_selected=45), busy(sm=55, dram=50, l2=20, l1=20)), None),
        # It is counted how often it has none.
        (made(stalls(long_scoreboard=40, not_selected=45), issued(50)), "inferred"),
    ],
)
def test_waits_cost_time_only_if_issue_slots_are_idle(launch: Made, confidence: str | None) -> None:
    assert [found.confidence for found in launch.findings(MEMORY)] == ([] if confidence is None else [confidence])
    assert confidence or not launch.findings(WAITING)


ONE_BLOCK = replace(
    made(
        busy(sm=45, memory=30),
        issued(30),
        stalls(barrier=30, long_scoreboard=25, wait=15),
        {REGISTERS: 168.0, ACTIVE: 18.0},
        grid=(1320, 1, 1),
        block=(384, 1, 1),
    ),
    device=H100,
)
"""168 registers of 384 threads leave room for one block in an SM."""
MULTIPLIES = ONE_BLOCK.plus(stalls(barrier=30, long_scoreboard=25, wait=10, gmma=5))
"""Stall GMMA shows wgmma: a warp group copies tiles, and two multiply them."""


def test_few_warps_that_multiply_tiles_are_no_defect() -> None:
    first, *others = MULTIPLIES.profile().findings
    assert (first.rule, first.confidence, first.cases.action) == (WAITING, "guess", ("few-warps",))
    found = {item.rule: item for item in others}
    assert (found["low-occupancy"].severity, found["low-occupancy"].gain_kernel) == ("info", 0.0)
    assert (found[BARRIER].severity, found[BARRIER].cases.why) == ("info", ("main", "shared/few-warps"))
    # A busy tensor pipe is the limit, however long warps wait.
    first = MULTIPLIES.plus(pipes(tensor=75), busy(sm=75)).profile().findings[0]
    assert (first.rule, "wgmma" in first.cases.advice) == (TENSOR, False)


def test_a_name_with_warp_groups_shows_what_keeps_the_sm_busy() -> None:
    name = "void cutlass::device_kernel<flash::enable_sm90<flash::FlashAttnFwdSm90<T1>>>(T1::Params)"
    launch = replace(made(busy(sm=75, memory=30)), device=H100, name=name)
    assert [(item.rule, item.confidence) for item in launch.profile().findings] == [(TENSOR, "guess")]


def test_few_warps_of_other_kernels_are_one() -> None:
    first, *_ = ONE_BLOCK.profile().findings
    assert (first.rule, first.severity) == ("low-occupancy", "high")
    assert ONE_BLOCK.finding(BARRIER).cause == first.id


@each_row(
    ("shares", "headline"),
    [
        ({"long_scoreboard": 20.0, "lg_throttle": 25.0}, "45 % of warp time in Stall LG Throttle and Long Scoreboard"),
        ({"long_scoreboard": 40.0, "drain": 4.0}, "40 % of warp time in Stall Long Scoreboard (global or local"),
        ({"imc_miss": 25.0}, "25 % of warp time in Stall IMC Miss"),
        ({"barrier": 25.0}, "25 % of warp time in Stall Barrier"),
    ],
)
def test_all_waits_for_memory_count_together_and_stalls_have_one_name(shares: dict[str, float], headline: str) -> None:
    first, *_ = made(stalls(**shares), issued(20), busy(dram=20, l2=20, l1=20), lasting()).profile().findings
    assert headline in first.headline


def test_a_dependency_beside_a_busy_unit_is_a_fact_with_a_reason() -> None:
    found = said(made(stalls(wait=50), issued(20), busy(sm=65)), DEPENDENCY)
    assert (found.severity, found.cases.why) == ("info", ("main", "unit-busy"))


def test_a_matrix_vector_product_is_not_told_to_become_one() -> None:
    gemv = replace(NOTHING_BUSY, name="void gemv2T_kernel_val<int, int, float, float, float>(cublasGemvParams)")
    assert said(gemv, WAITING).cases.advice == ("main", "kinds/for-kind", "kinds/gemv-fill")
