"""DRAM, host memory, local memory and atomics: what limits a kernel, what it gains, and the facts behind it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpuprof.diagnose.bounds import capped, explained, saving
from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.facts.waits import MEMORY_STALLS
from gpuprof.diagnose.rules.dram_bandwidth import RULE
from gpuprof.hardware.device import RecordedDevice
from gpuprof.hardware.specs import WARP_OPCODES
from gpuprof.hardware_finder import HardwareFinder
from gpuprof.model.analyse import analyse
from gpuprof.model.session import Finding
from tests import builders
from tests.kernels import WAVES, Histograms, Made, Values, busy, issued, lasting, made, pipes, stalls
from tests.rule_examples import (
    DEVICE,
    HOST,
    L2_ATOMICS,
    LOAD_SECTORS,
    LOCAL_LOADS,
    LOCAL_LOADS_RUN,
    LOCAL_STORES,
    LOCAL_STORES_RUN,
    STORE_SECTORS,
    THREADS,
    Judged,
    On,
    check_row,
    moving,
    of_time,
    said,
    says,
    silent,
    waiting_for_loads,
)  # fmt: skip
from tests.table import each_row

DRAM, LATENCY, SPILL = "dram-bandwidth", "memory-latency", "local-memory-spill"
HOST_TRAFFIC, ATOMICS, DIVERGENCE = "host-memory-traffic", "atomic-contention", "branch-divergence"
TURING = RecordedDevice("NVIDIA GeForce RTX 2080 Ti", "7.5", sm_count=68)
MISSES = "lts__t_sectors_srcunit_tex_lookup_miss.sum"
RUN = "smsp__inst_executed.sum"


def facts_of(launch: Made, device: RecordedDevice = builders.A100) -> KernelFacts:
    analysis = analyse([builders.report(launch.launch(), device=device)], builders.hardware_of, "9.9")
    return KernelFacts(analysis.session.kernels[0], analysis.recorded[0])


def first(launch: Made) -> Finding:
    return launch.profile().findings[0]


# Near what DRAM reaches.


def test_a_roof_comes_before_what_gains_no_more_than_the_rest_to_it() -> None:
    """16 of 32 lanes are idle, but DRAM at 82 % leaves 18 % to any change that moves the same bytes."""
    near = made({THREADS: 16.0}, busy(dram=82, l2=20, l1=20, sm=50))
    assert said(near, DIVERGENCE).gain_kernel == pytest.approx(0.18)
    assert [finding.rule for finding in near.profile().findings][:2] == [DRAM, DIVERGENCE]


def test_wasted_bytes_come_before_the_roof_that_they_fill() -> None:
    launch = made(
        busy(dram=90, l2=40, l1=30), lasting(), stalls(long_scoreboard=80), moving(4000, 4000), {
            "memory_l2_theoretical_sectors_global": 4000.0,
            "derived__memory_l2_theoretical_sectors_global_excessive": 3000.0,
        }
    )  # fmt: skip
    assert first(launch).rule == "uncoalesced-global"
    assert said(launch, DRAM).severity == "info"


@each_row(
    ("percent", "is_fact", "gain"),
    [
        # An A100 reaches 96 % of its peak: 77 % are 80.2 % of that, and 76 % are 79.2 %.
        (77.0, True, 1 - 77 / 96),
        (76.0, False, 1 - 76 / 96),
    ],
)
def test_near_is_of_what_dram_reaches(percent: float, gain: float, *, is_fact: bool) -> None:
    (finding,) = RULE.check(facts_of(made(busy(dram=percent, l2=40, l1=30))))
    assert (finding.severity == "info") == is_fact
    assert finding.gain_kernel == pytest.approx(gain)


AVERAGE_SM, ELAPSED = "sm__cycles_active.avg", "sm__cycles_elapsed.max"


def working(percent: float) -> Values:
    """An average SM works for this part of 20 µs, in 8 waves."""
    return {AVERAGE_SM: 200.0 * percent, ELAPSED: 2e4, WAVES: 8.0, **lasting(2e-5)}


@each_row(
    ("dram", "active", "is_full", "gain"),
    [
        # 96 % of DRAM's peak is its ceiling: 72 % are 75 % of that, in 76 % of the time. The launch takes 3 of 20 µs
        # or less: more bytes in flight gain 10 % at most.
        (72.0, 76.0, True, 0.1),
        # DRAM still writes back after the SMs have ended.
        (72.0, 70.0, True, 0.1),
        # But not for as long as SMs that wait for a few long blocks are idle.
        (72.0, 50.0, False, 0.25),
        # 75 % in 90 % of the time are 83 %.
        (72.0, 90.0, False, 0.25),
        # Near the ceiling in all of the time, but the rest of it is not DRAM's.
        (79.2, 85.0, True, 0.025),
    ],
)
def test_dram_that_is_full_while_sms_work_has_no_room_for_more_bytes_in_flight(
    dram: float, active: float, gain: float, *, is_full: bool
) -> None:
    (finding,) = RULE.check(facts_of(made(busy(dram=dram, l2=26, l1=20, sm=20), working(active))))
    assert ("while-working" in finding.cases.headline) == is_full
    assert (finding.severity == "info") == is_full
    assert finding.gain_kernel == pytest.approx(gain)


def test_sms_without_a_block_do_not_fill_dram() -> None:
    """Half of the SMs have a block, and work all the time: DRAM at 62 % could carry the bytes of more."""
    half = replace(made(busy(dram=62, l2=26, l1=20), {AVERAGE_SM: 1e4, ELAPSED: 2e4}, lasting()), grid=(54, 1, 1))
    (finding,) = RULE.check(facts_of(half))
    assert finding.cases.headline == ("main",) and finding.severity == "high"


# Limit or latency.

BUSY = busy(dram=67, l2=30, l1=30, sm=55)


@each_row(
    ("launch", "rule", "expected"),
    [
        says("warps wait for it", made(BUSY, stalls(long_scoreboard=60)), DRAM, 0.33, confidence="measured"),
        says("waits unknown", made(BUSY), DRAM, 0.33, confidence="inferred"),
        # Of the 85 % that are not at barriers 16 % wait for memory: other work sets the pace.
        says("warps hardly wait", made(BUSY, stalls(long_scoreboard=9, lg_throttle=7, barrier=15,
             math_pipe_throttle=25)), DRAM, 0.33, confidence="guess", severity="low"),
        # Waits for loads were not collected: they are unknown, not none.
        says("loads not collected", made(BUSY, stalls(barrier=15)), DRAM, 0.33, confidence="inferred"),
        silent("half full", made(busy(dram=50, l2=30, l1=30, sm=20), stalls(long_scoreboard=80), issued(10)), DRAM),
        says("half full", made(busy(dram=50, l2=30, l1=30, sm=20), stalls(long_scoreboard=80), issued(10)), LATENCY,
             0.5, severity="high"),
    ],
)  # fmt: skip
def test_dram_is_a_limit_if_it_is_busy_and_warps_wait_for_it(
    launch: Judged, rule: str, expected: dict[str, Any] | None
) -> None:
    check_row(launch, rule, expected)


def test_dram_is_a_limit_by_misses_of_l2_if_its_own_counters_were_not_collected() -> None:
    """In 1 ms DRAM of 616 GB/s moves 19.25 M sectors of 32 bytes: 16 M misses are 83 % of them, or more."""
    missing = made(busy(l2=40, l1=30), lasting(), {MISSES: 16e6})
    facts = facts_of(missing, TURING)
    assert facts.dram_at_least == pytest.approx(16e6 * 32 / 616e9 / 1e-3, rel=2e-3)
    finding = said(On(missing, TURING.name, "7.5", 68), DRAM)
    assert (finding.confidence, finding.severity) == ("inferred", "info")
    assert (finding.evidence[0].metric, finding.evidence[0].unit) == ("", "%"), "computed from the misses"
    # An A100 has two halves of L2: what misses one can be in the other.
    assert facts_of(missing).dram_at_least is None
    # What was counted goes before what follows from misses.
    assert facts_of(missing.plus(busy(dram=50)), TURING).need("dram") == 0.5
    # A lower bound does not show that DRAM is idle.
    assert facts_of(missing, TURING).memory_busy is None


RATE, L2_HITS = "dram__bytes.sum.per_second", "lts__t_sector_hit_rate.pct"
CACHES, REQUESTS = (
    f"gpu__compute_memory_{what}_throughput.avg.pct_of_peak_sustained_elapsed" for what in ("access", "request")
)


def of_unknown_gpu(launch: Made, capability: str = "8.0") -> KernelFacts:
    hardware = HardwareFinder()(RecordedDevice(compute_capability=capability))
    analysis = analyse([builders.report(launch.launch())], lambda _: hardware, "1")
    return KernelFacts(analysis.session.kernels[0], analysis.recorded[0])


@each_row(
    ("values", "expected"),
    [
        # An A100 80GB SXM has the most bytes per second of 8.0: 2039 GB/s.
        ({RATE: 1.6e12}, 1.6 / 2.039),
        ({RATE: 1.6e12, CACHES: 40.0, REQUESTS: 70.0}, 0.7),
        # L2 reuses nothing: the memory that caches do not keep busy is DRAM.
        ({RATE: 1.0e12, CACHES: 48.0, REQUESTS: 80.0, L2_HITS: 1.0}, 0.8),
        # L2 answers a third of the sectors: the crossbar to the SMs can be the busy part.
        ({RATE: 1.0e12, CACHES: 48.0, REQUESTS: 80.0, L2_HITS: 33.0}, 1.0 / 2.039),
        ({CACHES: 79.0, REQUESTS: 80.0, L2_HITS: 1.0}, None),
        # How busy memory is as a whole was not collected: what the caches leave is not known.
        ({CACHES: 5.0, L2_HITS: 1.0}, None),
    ],
)
def test_dram_without_its_own_share_is_known_by_its_rate_or_by_what_the_caches_leave(
    values: Values, expected: float | None
) -> None:
    facts = of_unknown_gpu(made(values))
    assert facts.dram_at_least == (pytest.approx(expected, rel=2e-3) if expected is not None else None)
    assert facts.needs.get("dram") == facts.dram_at_least
    assert facts.at_most("dram") is None


@each_row(
    ("shares", "opcodes", "share"),
    [
        ({"long_scoreboard": 20.0, "barrier": 20.0}, {"LDG.E": 1.0}, 0.2 / 0.8),
        ({"long_scoreboard": 20.0, "lg_throttle": 10.0, "drain": 10.0}, {"LDG.E": 1.0}, 0.4),
        # Warps wait at other barriers for bytes of the TMA engine.
        ({"long_scoreboard": 20.0}, {"UTMALDG.2D": 1.0}, None),
        ({"barrier": 20.0}, {"LDG.E": 1.0}, None),
    ],
)
def test_waits_for_memory_are_a_share_of_those_that_are_not_at_barriers(
    shares: Values, opcodes: dict[str | int, float], share: float | None
) -> None:
    facts = facts_of(made(stalls(**shares), histograms={WARP_OPCODES: opcodes}))
    assert facts.waits_for_memory == (None if share is None else pytest.approx(share))


@each_row(
    ("percent", "seconds", "queues"),
    [
        # 96 % of the peak is the most: 48 % are half of it.
        (49.0, 1e-3, True),
        (47.0, 1e-3, False),
        # A third of 3 µs is the launch: DRAM is used for 33 of 67 parts of the rest, and 48 % of that.
        (33.0, 3e-6, True),
        (31.0, 3e-6, False),
    ],
)
def test_loads_queue_at_a_half_used_dram(percent: float, seconds: float, *, queues: bool) -> None:
    launch = waiting_for_loads(2000.0).plus(busy(dram=percent), lasting(seconds))
    assert facts_of(launch).queues_at_dram == queues


# Host memory.

ATOMIC = "lts__t_sectors_srcunit_tex_aperture_sysmem_op_{}.sum".format


@each_row(
    ("launch", "rule", "expected"),
    [
        # 20 of 120 misses, beside 3200 sectors that DRAM moves: a kernel that writes.
        silent("few beside writes", made(busy(dram=40), lasting(), {HOST: 20.0, DEVICE: 100.0,
               "dram__bytes.sum": 32 * 3200.0}), HOST_TRAFFIC),
        # 400 of 400 + 600 sectors, whatever was written to the host.
        says("misses against DRAM", made(busy(dram=40), lasting(), {HOST: 400.0, DEVICE: 100.0,
             "dram__bytes.sum": 32 * 600.0}), HOST_TRAFFIC, 0.6, "40 % of traffic", confidence="measured"),
        # Four accesses, 5 µs each, of 1 ms.
        says("a flag in host memory", made(busy(dram=1), lasting(), {HOST: 4.0, DEVICE: 10.0,
             "dram__bytes.sum": 320.0}), HOST_TRAFFIC, 0.02, severity="info"),
        says("misses alone", made(busy(dram=40), {HOST: 400.0, DEVICE: 600.0}), HOST_TRAFFIC, 0.6, "40 % of L2 misses",
             confidence="inferred"),
    ],
)  # fmt: skip
def test_host_traffic_is_a_share_of_all_traffic(launch: Judged, rule: str, expected: dict[str, Any] | None) -> None:
    check_row(launch, rule, expected)


def test_atomics_on_host_memory_are_named() -> None:
    traffic = {HOST: 10.0, ATOMIC("atom"): 200.0, ATOMIC("red"): 100.0, DEVICE: 0.0, "dram__bytes.sum": 32 * 100.0}
    finding = said(made(busy(dram=1), lasting(), traffic), HOST_TRAFFIC)
    # 300 atomics beside 100 sectors of DRAM.
    assert finding.amount("share") == pytest.approx(0.75)
    assert finding.cases.why == finding.cases.action == ("atomics",)
    # The full set has the misses of atomics alone.
    missing = {HOST: 300.0, ATOMIC("red_lookup_miss"): 290.0, DEVICE: 0.0, "dram__bytes.sum": 32 * 100.0}
    assert said(made(busy(dram=1), lasting(), missing), HOST_TRAFFIC).cases.why == ("atomics",)
    some = said(made(busy(dram=1), lasting(), {**traffic, HOST: 900.0}), HOST_TRAFFIC)
    assert some.cases.why == ("main",)


# Local memory.

ALL_STORED = {STORE_SECTORS: 0.0, LOCAL_STORES: 0.0}


def test_local_memory_gains_by_its_instructions_if_warps_wait() -> None:
    """An accumulator in local memory: 9 of 99 sectors, because the loads of global memory are scattered, but 80 of 90
    accesses, for each of which warps wait as long: 80 of 90 parts of the 90 %."""
    counted = {LOCAL_LOADS: 9.0, LOAD_SECTORS: 90.0, **ALL_STORED}
    executed = {LOCAL_LOADS_RUN: 80.0, LOCAL_STORES_RUN: 0.0, RUN: 400.0,
                "sass__inst_executed_global_loads": 10.0, "sass__inst_executed_global_stores": 0.0}  # fmt: skip
    launch = made(counted, executed, busy(dram=5, l2=10, l1=20, sm=20), stalls(long_scoreboard=90), issued(10))
    finding = said(launch, SPILL)
    # These 80 % explain all of the time, but for what L2 (10 %) needs for the other 90 of 99 sectors.
    assert finding.gain_kernel == pytest.approx(1 - 0.1 * 90 / 99) and finding.severity == "high"


LOCAL_ALONE = {LOCAL_LOADS: 900.0, LOCAL_STORES: 50.0, LOAD_SECTORS: 40.0, STORE_SECTORS: 10.0}
WAITING = (busy(dram=67, l2=30, l1=30, sm=20, memory=67), stalls(long_scoreboard=60), issued(10), lasting())


@each_row(
    ("launch", "rule", "expected"),
    [
        # 950 of the 1000 sectors of DRAM and L2 can be local: that is what fills them, and what warps wait for.
        says("fills DRAM", made(*WAITING, LOCAL_ALONE, moving(1000, 1000)), DRAM, 0.33, severity="info", cause=SPILL),
        says("fills DRAM", made(*WAITING, LOCAL_ALONE, moving(1000, 1000)), LATENCY, 0.33, severity="info",
             cause=SPILL),
        # 950 of 100 000 sectors do not.
        says("hardly reaches DRAM", made(*WAITING, LOCAL_ALONE, moving(1e5, 1e5)), DRAM, 0.33, cause=None),
    ],
)  # fmt: skip
def test_local_memory_explains_levels_that_it_fills(launch: Judged, rule: str, expected: dict[str, Any] | None) -> None:
    check_row(launch, rule, expected)


def test_local_bytes_of_a_level_are_loads_that_miss_and_stores() -> None:
    launch = made(lasting(), LOCAL_ALONE, moving(1000, 500))
    # (900 + 50) of 1000 sectors, and more than DRAM's 500.
    assert facts_of(launch).local_share_of("l2") == pytest.approx(0.95)
    assert facts_of(launch).local_share_of("dram") == 1.0
    # Of 900 loads 100 miss L1: 150 sectors pass it.
    missing = launch.plus({"l1tex__t_sectors_pipe_lsu_mem_local_op_ld_lookup_miss.sum": 100.0})
    assert facts_of(missing).local_share_of("l2") == pytest.approx(0.15)
    # Missing is not zero.
    assert facts_of(launch.without(LOCAL_STORES)).local_share_of("l2") is None
    assert facts_of(made(LOCAL_ALONE)).local_share_of("dram") is None


def test_the_stack_of_a_printf_is_no_spill() -> None:
    opcodes: Histograms = {WARP_OPCODES: {"STL": 20.0, "LDL": 4.0, "CALL.ABS.NOINC": 1.0, "FFMA": 100.0}}
    launch = made(busy(dram=10, sm=10), LOCAL_ALONE, stalls(long_scoreboard=50), histograms=opcodes)
    assert said(launch, SPILL).cases.action == ("stack",)
    # Divisions call by a relative address, and 24 accesses are no stack of theirs.
    divides: Histograms = {WARP_OPCODES: {"STL": 20.0, "LDL": 4.0, "CALL.REL.NOINC": 9.0, "FFMA": 100.0}}
    spills = made(busy(dram=10, sm=10), LOCAL_ALONE, stalls(long_scoreboard=50), histograms=divides)
    assert said(spills, SPILL).cases.action == ("keep-arrays",)
    # 24 of 100 000 instructions cost nothing, even if they are all that accesses memory.
    rare = launch.plus({LOCAL_LOADS_RUN: 4.0, LOCAL_STORES_RUN: 20.0, RUN: 1e5})
    assert rare.findings(SPILL) == []


# Atomics.


def counting(opcode: str, *parts: Values) -> Made:
    return made(*parts, histograms={WARP_OPCODES: {opcode: 9.0, "LDG.E": 90.0}})


AT_L2 = (busy(dram=5, l2=20, l1=20, sm=20), {L2_ATOMICS: 40.0}, stalls(long_scoreboard=80), issued(10))


@each_row(
    ("launch", "rule", "expected"),
    [
        # Reductions return nothing: the waits for loads are not theirs, and the unit is busy for 40 %.
        says("reductions", counting("RED.E.ADD.STRONG.GPU", *AT_L2), ATOMICS, of_time(0.4)),
        says("results", counting("ATOMG.E.ADD.STRONG.GPU", *AT_L2), ATOMICS, 0.95),
        # DRAM is busier than the unit of the atomics: that those cost time is not measured.
        says("beside a busy DRAM", made(busy(dram=75, l2=40, l1=30), {L2_ATOMICS: 35.0}, stalls(long_scoreboard=80)),
             ATOMICS, 0.25, confidence="guess", severity="low"),
        says("beside a busy DRAM", made(busy(dram=75, l2=40, l1=30), {L2_ATOMICS: 35.0}, stalls(long_scoreboard=80)),
             DRAM, 0.25, severity="high", cause=None),
    ],
)  # fmt: skip
def test_atomics_gain_what_waits_for_them(launch: Judged, rule: str, expected: dict[str, Any] | None) -> None:
    check_row(launch, rule, expected)


# Bounds of what memory explains.


@each_row(
    ("dram", "waits", "share"),
    [
        # DRAM at 40 % of the 80 % that count as well used, or 60 % of waits: the larger of both.
        (0.4, 20.0, 0.5),
        (0.4, 60.0, 0.75),
        (0.9, 20.0, 1.0),
    ],
)
def test_a_level_explains_the_time_in_which_it_is_busy_or_waited_for(dram: float, waits: float, share: float) -> None:
    facts = facts_of(made(stalls(long_scoreboard=waits)))
    assert explained(facts, dram, MEMORY_STALLS) == pytest.approx(share)
    assert explained(facts, None, MEMORY_STALLS) == 1.0


def test_a_share_of_a_level_gains_no_more_than_the_time_that_the_level_explains() -> None:
    facts = facts_of(made(pipes(fma=10)))
    bound = saving({"dram": 0.5, "fma": 0.1}, {"dram": 0.2})
    assert bound.fraction == pytest.approx(0.9)
    # 60 % of the bytes go: of all of the time, or of the half that DRAM explains while other waits stay.
    whole, half = capped(facts, bound, 0.6, 1.0), capped(facts, bound, 0.6, 0.5)
    assert whole.fraction == pytest.approx(0.6) and not whole.assumes
    assert half.fraction == pytest.approx(0.3) and len(half.assumes) == 1
