"""The load of L1 by kind of access: facts with numbers worked out by hand, and what rules make of them."""

from __future__ import annotations

import pytest

from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.hardware.device import RecordedDevice
from gpuprof.hardware.specs import WARP_OPCODES
from gpuprof.model.analyse import analyse
from tests import builders
from tests.kernels import WAVES, Made, Values, busy, counted_code, issued, lasting, made, pipes, session, stalls
from tests.rule_examples import (
    EXCESS,
    L2_ATOMICS,
    LOAD_REQUESTS,
    LOAD_SECTORS,
    LOCAL_LOADS,
    LOCAL_STORES,
    NO_SHARED,
    REQUESTS,
    SHARED_4K,
    SHARED_ATOMICS,
    SHARED_BUSY,
    SHARED_EXCESS,
    SHARED_PASSES,
    SHARED_WAVES,
    STORE_SECTORS,
    TOTAL,
    WAVEFRONTS,
    moving,
)
from tests.table import each_row

CYCLES = {"sm__cycles_elapsed.avg": 1e6, "sm__cycles_active.avg": 1e6}
"""With the 108 SMs of an A100, 108 M passes through L1 fill its data pipe."""
STORE_REQUESTS = LOAD_REQUESTS.replace("op_ld", "op_st")
TILED = {"LDG.E": 10.0, "LDS": 60.0, "SHFL.BFLY": 20.0, "STL": 10.0, "LDC.64": 50.0, "FFMA": 1000.0}
"""A tenth of the accesses are of global memory."""


def facts_of(launch: Made) -> KernelFacts:
    analysis = analyse([builders.report(launch.launch())], builders.hardware_of, "9.9")
    return KernelFacts(analysis.session.kernels[0], analysis.recorded[0])


def running(opcodes: dict[str, float], *values: Values) -> Made:
    histogram: dict[str | int, float] = {name: count for name, count in opcodes.items()}  # noqa: C416
    return made(*values, histograms={WARP_OPCODES: histogram})


@each_row(
    ("launch", "fraction"),
    [
        (made({SHARED_BUSY: 88.0}), 0.88),
        (made({SHARED_PASSES: 54e6}, CYCLES), 0.5),
        # At least one pass for each instruction: 27 M of 108 M.
        (running({"LDS.128": 20e6, "STS": 7e6, "LDG.E": 50e6}, CYCLES), 0.25),
        # Without shared memory, what is counted as its own are the data of stores.
        (made({SHARED_BUSY: 4.0}, NO_SHARED), 0.0),
        (made({SHARED_PASSES: 54e6}), None),
        (made(busy(l1=90)), None),
    ],
)
def test_the_part_of_l1_that_shared_memory_takes(launch: Made, fraction: float | None) -> None:
    assert facts_of(launch).l1_of_shared == (fraction if fraction is None else pytest.approx(fraction))


FILLED = {WAVEFRONTS: 95.0, SHARED_BUSY: 88.0, REQUESTS: 40.0}


@each_row(
    ("launch", "share"),
    [
        # 7 of 95 % are not of shared memory; a tenth of the 40 % of requests is less.
        (running(TILED, busy(l1=95), FILLED), 7 / 95),
        # A tenth of a full load/store unit is more.
        (running(TILED, busy(l1=95), FILLED, pipes(lsu=95)), 0.1),
        # All requests may be of global memory if their opcodes are not known.
        (made(busy(l1=95), FILLED), 40 / 95),
        # Shared memory alone is nearly as busy as L1.
        (made(busy(l1=90), {SHARED_BUSY: 88.0}), 2 / 90),
        # Two passes of ncu can differ a little.
        (made(busy(l1=90), {SHARED_BUSY: 91.0}), 0.0),
        # Neither passes nor requests are as busy as L1: tags are, which shared memory does not use.
        (made(busy(l1=95), {WAVEFRONTS: 50.0, SHARED_BUSY: 40.0, REQUESTS: 20.0}), 1.0),
        (made(busy(l1=95), {WAVEFRONTS: 95.0}), 1.0),
        (made(busy(l1=95), {WAVEFRONTS: 95.0, REQUESTS: 50.0}, NO_SHARED), 1.0),
    ],
)
def test_the_share_of_l1_that_global_accesses_cause_at_most(launch: Made, share: float) -> None:
    assert facts_of(launch).most_of_l1_by_global == pytest.approx(share)


def test_local_memory_takes_a_pass_for_four_sectors() -> None:
    # 108 M sectors are 27 M of 108 M passes.
    local = made(busy(l1=50), {LOCAL_LOADS: 100e6, LOCAL_STORES: 8e6, WAVEFRONTS: 50.0}, NO_SHARED, CYCLES)
    assert facts_of(local).l1_beside_global == pytest.approx(0.25)
    assert facts_of(local).most_of_l1_by_global == pytest.approx(0.5)
    assert facts_of(made(busy(l1=50))).l1_beside_global == 0.0


def test_the_share_of_the_load_store_unit_comes_from_opcodes() -> None:
    assert facts_of(running(TILED)).most_of_lsu_by_global == pytest.approx(0.1)
    assert facts_of(made()).most_of_lsu_by_global == 1.0


def test_the_busiest_level_by_global_accesses() -> None:
    # L1 is 7 % busy with them, DRAM 30 %.
    assert facts_of(running(TILED, busy(l1=95, l2=20, dram=30), FILLED)).busy_by_global == pytest.approx(0.3)
    assert facts_of(made(busy(l1=95, l2=20, dram=30))).busy_by_global == pytest.approx(0.95)
    assert facts_of(made(busy(l1=95))).busy_by_global is None


def test_the_bytes_that_accesses_need_keep_their_passes() -> None:
    # 172.8 M sectors of 32 bytes are 43.2 M passes of 128, 40 % of the cycles; with 20 % of shared memory 60 of 80 %.
    needed = {TOTAL: 200e6, EXCESS: 27.2e6}
    assert facts_of(made(busy(l1=80), needed, CYCLES, {SHARED_BUSY: 20.0})).l1_keeps_bytes == pytest.approx(0.75)
    assert facts_of(made(busy(l1=80), needed, CYCLES)).l1_keeps_bytes == pytest.approx(0.5)
    assert facts_of(made(busy(l1=80))).l1_keeps_bytes == 0.0


ONE_PASS = {WAVEFRONTS: 80.0, REQUESTS: 80.0}
HITS, L1_BYTES = "l1tex__t_sector_hit_rate.pct", {"l1tex__t_bytes.sum": 1e6}


@each_row(
    ("launch", "rereads"),
    [
        (made({TOTAL: 4000.0, EXCESS: 0.0}, moving(1000, 900)), True),
        (made({TOTAL: 4000.0, EXCESS: 0.0}, moving(1100, 900)), False),
        # Of scattered accesses only the needed bytes count: hits are then the rest of a sector.
        (made({TOTAL: 4000.0, EXCESS: 3000.0}, moving(1000, 900)), False),
        (made(busy(l1=80, l2=30), ONE_PASS, L1_BYTES, {HITS: 75.0}), True),
        (made(busy(l1=80, l2=30), ONE_PASS, L1_BYTES, {HITS: 74.0}), False),
        (made(busy(l1=80, l2=7.9), ONE_PASS, NO_SHARED), True),
        (made(busy(l1=80, l2=8.1), ONE_PASS, NO_SHARED), False),
        # L1 may serve shared memory.
        (made(busy(l1=80, l2=7.9), ONE_PASS), False),
        (made(busy(l1=80, l2=1), {WAVEFRONTS: 80.0, REQUESTS: 10.0}), False),
        (made(busy(l1=80, l2=1)), False),
    ],
)
def test_bytes_that_l1_has_already(launch: Made, rereads: bool) -> None:
    assert facts_of(launch).mostly_rereads is rereads


FITS = "launch__occupancy_limit_shared_mem"


@each_row(
    ("launch", "uses"),
    [
        (made({FITS: 4.0}), True),
        # A launch without shared memory fits eight times in the smallest carve-out.
        (made({FITS: 8.0}), None),
        (made({FITS: 4.0}, NO_SHARED), False),
        (running({"LDS.128": 1.0, "LDG.E": 1.0}), True),
        (running({"LD.E": 1.0}), None),
        # Shuffles, special functions and matrix loads wait in the same queue.
        (made(stalls(mio_throttle=60)), None),
    ],
)
def test_what_shows_shared_memory(launch: Made, uses: bool | None) -> None:
    assert facts_of(launch).uses_shared is uses


ROWS = busy(l1=99, sm=3, memory=99, l2=43, dram=29)
"""A thread for each row: L1 is 33 times as busy as the pipe of its requests."""


@each_row(
    ("launch", "capability", "passes"),
    [
        (made(ROWS), "8.0", 33),
        # Bulk copies cause at most as much as L2 is busy: (99 − 43) / 3.
        (made(ROWS), "9.0", 56 / 3),
        (made(ROWS, NO_SHARED), "9.0", 33),
        (made(busy(l1=99, sm=3, memory=99)), "9.0", None),
    ],
)
def test_the_least_passes_of_a_request(launch: Made, capability: str, passes: float | None) -> None:
    report = builders.report(launch.launch(), device=RecordedDevice("GPU", capability))
    analysis = analyse([report], builders.hardware_of, "9.9")
    least = KernelFacts(analysis.session.kernels[0], analysis.recorded[0]).passes
    assert least == (passes if passes is None else pytest.approx(passes))


EIGHT_PASSES = made(busy(l1=80, sm=10, memory=80, l2=20, dram=10))


@each_row(
    ("launch", "scattered", "rules"),
    [
        (EIGHT_PASSES.plus(NO_SHARED), True, ["uncoalesced-global"]),
        (EIGHT_PASSES.plus(SHARED_4K), False, ["l1-bandwidth"]),
        # Bank conflicts look the same, but not if global accesses mostly hit, or nearly all take 32 passes.
        (EIGHT_PASSES, False, ["l1-bandwidth"]),
        (EIGHT_PASSES.plus({HITS: 97.0}), True, ["uncoalesced-global"]),
        (EIGHT_PASSES.plus(busy(sm=4.8)), True, ["uncoalesced-global"]),
        (EIGHT_PASSES.plus(busy(sm=18)), False, ["l1-bandwidth"]),
    ],
)
def test_scattered_accesses_are_one_finding(launch: Made, scattered: bool, rules: list[str]) -> None:
    assert facts_of(launch).is_scattered is scattered
    found = session(launch).kernels[0].findings
    assert [finding.rule for finding in found] == rules
    assert found[0].confidence == "inferred" and found[0].severity == "high"


def test_full_load_store_instructions_are_known_by_the_same_speed_of_light() -> None:
    # Shuffles: the SM and memory show the same unit, which fills L1.
    shuffles = made(busy(l1=99.7, sm=99.5, memory=99.5, l2=2, dram=1))
    assert shuffles.finding("l1-bandwidth").cases.headline == ("instructions",)
    # Passes need more time than instructions, or other work keeps the SM busy.
    for other in (busy(sm=60), busy(sm=90, memory=90)):
        assert shuffles.plus(other).finding("l1-bandwidth").cases.headline == ("either",)
    assert shuffles.plus(NO_SHARED, busy(sm=60)).finding("l1-bandwidth").cases.headline == ("main",)
    assert shuffles.plus(SHARED_4K).finding("l1-bandwidth").cases.headline == ("with-shared",)


def test_the_gain_of_fewer_accesses_is_the_part_of_l1s_own_time() -> None:
    full = made(busy(l1=70, sm=30, memory=70, l2=30, dram=10)).finding("l1-bandwidth")
    assert full.gain_kernel == pytest.approx(0.7 * (1 - 0.3))
    assert full.assumes == ("little-arithmetic", "same-bytes-through-l2-and-dram", "rest-of-its-time-unchanged")


def test_l1_is_no_limit_while_more_blocks_could_fill_it() -> None:
    half_used = made(busy(l1=62, sm=37, memory=49, l2=49, dram=1), {WAVES: 0.4}, NO_SHARED, grid=(512, 1, 1))
    assert facts_of(half_used).l1_has_room and half_used.findings("l1-bandwidth") == []
    small = half_used.finding("small-grid")
    assert small.severity == "low" and small.gain_kernel == pytest.approx(0.38)
    for full in (busy(l1=81), {WAVES: 0.6}, busy(sm=70), {WAVES: 0.4, "sm__cycles_active.avg": 7e5,
                 "sm__cycles_elapsed.max": 1e6}):  # fmt: skip
        assert not facts_of(half_used.plus(full)).l1_has_room


def test_what_multiplies_matrices_is_known_by_name_or_multiply_adds() -> None:
    assert facts_of(made(name="my_gemm")).multiplies
    assert facts_of(running({"FFMA": 5.0, "LDG.E": 95.0})).multiplies
    assert not facts_of(running({"FFMA": 4.0, "LDG.E": 96.0})).multiplies
    assert not facts_of(made()).multiplies


def test_fragments_are_known_by_opcodes_or_the_tensor_pipe() -> None:
    assert facts_of(running({"HMMA.16816.F32": 1.0})).uses_fragments
    assert not facts_of(running({"FFMA": 1.0}, pipes(tensor=1))).uses_fragments
    assert facts_of(made(pipes(tensor=1))).uses_fragments
    assert not facts_of(made()).uses_fragments


SCATTER = {TOTAL: 4000.0, EXCESS: 3000.0}
STREAMS = {LOAD_SECTORS: 800.0, LOAD_REQUESTS: 200.0, STORE_SECTORS: 400.0, STORE_REQUESTS: 100.0}
"""At most 900 of the excess sectors are of loads and stores."""


def test_excess_of_atomics_is_known_by_instruction_or_by_what_loads_and_stores_cannot_cause() -> None:
    code = ("LDG.E R2, [R4.64]", 100, 40), ("RED.E.ADD.STRONG.GPU [R8.64], R5", 100, 60), ("EXIT", 0, 0)
    assert facts_of(counted_code(*code)).excess_is_of_atomics
    assert not facts_of(counted_code(code[0], ("ATOMG.E.ADD R3, [R8.64], R5", 100, 30), code[2])).excess_is_of_atomics
    assert facts_of(made(SCATTER, STREAMS)).excess_is_of_atomics
    assert not facts_of(made(SCATTER, STREAMS, {LOAD_SECTORS: 1800.0})).excess_is_of_atomics
    assert not facts_of(made(SCATTER)).excess_is_of_atomics


# What rules make of it.

BUSY_TILES = running(TILED, busy(l1=95, l2=10, dram=10, sm=50), FILLED, stalls(lg_throttle=12, mio_throttle=60),
                     SHARED_4K, CYCLES, lasting())  # fmt: skip
"""Shared memory fills L1; 4-byte loads of a tile cause 7 of its 95 %."""


def test_narrow_accesses_gain_no_more_than_their_own_part_of_a_full_l1() -> None:
    narrow = BUSY_TILES.finding("narrow-access")
    # 12 of 16 bytes' worth of 7 of 95 % can go; 5 % of the time L1 is idle.
    assert narrow.gain_kernel == pytest.approx(0.75 * 0.07 + 0.05)
    assert session(BUSY_TILES).kernels[0].findings[0].rule == "shared-bandwidth"


def test_scattered_accesses_gain_no_more_than_their_own_part_of_a_full_l1() -> None:
    # Counted passes of shared memory: 95.04 M of 108 M.
    launch = made(busy(l1=92, l2=5, dram=5), {TOTAL: 4e6, EXCESS: 3e6, SHARED_PASSES: 95.04e6}, SHARED_4K, CYCLES,
                  stalls(mio_throttle=70, long_scoreboard=5))  # fmt: skip
    assert launch.finding("uncoalesced-global").gain_kernel == pytest.approx(0.75 * 0.05 / 0.8, rel=0.01)


@pytest.mark.parametrize("opcode", ["LDG.E.U8", "STG.E.U16", "LDG.E"])
def test_width_costs_nothing_without_pressure(opcode: str) -> None:
    idle = running({opcode: 10.0}, busy(l1=20, sm=70), stalls(wait=40, lg_throttle=2), pipes(lsu=5), NO_SHARED)
    assert idle.findings("narrow-access") == []
    assert idle.plus({REQUESTS: 70.0}).findings("narrow-access") != []
    # Requests of shared memory are no pressure of global accesses.
    tiled = running({opcode: 10.0, "LDS": 90.0}, busy(l1=80), {REQUESTS: 70.0}, SHARED_4K)
    assert tiled.findings("narrow-access") == []


PRODUCT = running({"LDG.E": 200.0, "FFMA": 100.0, "IADD3": 100.0}, busy(l1=90, l2=4, dram=1, sm=60), NO_SHARED, CYCLES,
                  {TOTAL: 200e6, EXCESS: 0.0, WAVEFRONTS: 80.0, REQUESTS: 80.0}, moving(10e6, 1e6), pipes(lsu=70),
                  stalls(lg_throttle=60, long_scoreboard=20), issued(40), lasting())  # fmt: skip
"""A matrix product without tiles: global accesses need 6.4 GB, of which L2 moves a twentieth."""


def test_a_product_that_reads_everything_again_needs_tiles_before_wider_loads() -> None:
    first, *others = session(PRODUCT).kernels[0].findings
    assert (first.rule, first.cases.action, first.cause) == ("l1-bandwidth", ("reuse",), None)
    (narrow,) = (found for found in others if found.rule == "narrow-access")
    assert narrow.severity == "info"
    # 50 M passes of 128 bytes stay whatever the width: 46 % of the time.
    assert narrow.gain_kernel is not None and narrow.gain_kernel <= 1 - 50 / 108
    # A stream of new bytes gains from wider loads.
    stream = PRODUCT.plus(moving(200e6, 200e6))
    assert stream.finding("narrow-access").severity == "high"


def test_global_accesses_are_named_if_shared_memory_is_the_smaller_part_of_l1() -> None:
    launch = made(busy(l1=85, l2=50, dram=10), {WAVEFRONTS: 85.0, SHARED_BUSY: 10.0, REQUESTS: 85.0}, SHARED_4K)
    assert launch.finding("l1-bandwidth").cases.headline[0] == "main"
    assert launch.plus({SHARED_BUSY: 55.0}).finding("l1-bandwidth").cases.headline[0] == "with-shared"


def test_fragments_of_a_tile_are_not_given_a_larger_tile() -> None:
    launch = made(busy(dram=10, l2=20), {SHARED_BUSY: 70.0}, pipes(tensor=30))
    assert launch.finding("shared-bandwidth").cases.action == ("shared-bandwidth/fragments",)


def test_scattered_atomics_are_added_up_rather_than_coalesced() -> None:
    launch = made(busy(l1=20, l2=60, dram=10), SCATTER, STREAMS, stalls(long_scoreboard=60))
    found = launch.finding("uncoalesced-global")
    assert (found.cases.why, found.cases.action, found.cause) == (("atomics",), ("atomics",), None)
    # With the units of atomics busy, these are the cause.
    kernel = session(launch.plus({L2_ATOMICS: 60.0})).kernels[0]
    assert kernel.findings[0].rule == "atomic-contention"
    causes = [found.cause for found in kernel.findings if found.rule == "uncoalesced-global"]
    assert causes == [kernel.findings[0].id]
    assert SHARED_ATOMICS not in launch.values


def test_an_excess_that_dram_near_its_roof_does_not_see_is_information() -> None:
    launch = made(busy(dram=85, l2=40, l1=30), SCATTER, lasting(), stalls(long_scoreboard=80), moving(1000, 1000))
    found = launch.finding("uncoalesced-global")
    assert found.severity == "info" and found.gain_kernel == pytest.approx(0.15, abs=0.01)
    # What remains is of the same assumption as the gain: DRAM keeps its bytes.
    assert max(item.fraction for item in found.remains if item.unit == "dram") >= 0.85
    assert launch.plus(moving(4000, 4000)).finding("uncoalesced-global").severity == "high"


def test_an_excess_of_few_bytes_does_not_shorten_waits() -> None:
    # Three of four sectors, but each level is busy for 2 % of the time.
    launch = made(busy(dram=2, l2=2, l1=2), SCATTER, stalls(long_scoreboard=90))
    found = launch.finding("uncoalesced-global")
    assert found.gain_kernel == pytest.approx(0.75 * 0.02 / 0.8) and found.severity == "info"
    assert launch.plus(busy(dram=20)).finding("uncoalesced-global").severity == "high"


def test_the_least_passes_are_no_bound_of_what_can_go() -> None:
    found = made(busy(l1=80, sm=10, memory=80, l2=20, dram=10), NO_SHARED).finding("uncoalesced-global")
    # The accesses take eight passes or more; with 32 only the SM's 10 % would bound the gain.
    assert found.gain_kernel == pytest.approx(1 - 1 / 8)
    assert found.gain_kind == "conditional" and found.assumes[-1] == "no-more-l1-wavefronts"
    counted = made(busy(l1=80, sm=10, memory=80, l2=20, dram=10), NO_SHARED, {WAVEFRONTS: 80.0, REQUESTS: 10.0})
    assert counted.plus({TOTAL: 100.0, EXCESS: 50.0}).finding("uncoalesced-global").gain_kind == "bound"


def test_sectors_of_a_request_assume_the_width_of_its_accesses() -> None:
    columns = made(busy(dram=60, l1=95), {LOAD_SECTORS: 3200.0, LOAD_REQUESTS: 100.0}).finding("uncoalesced-global")
    # Of bytes, one of 32 sectors is needed, not four.
    assert columns.gain_kernel == pytest.approx(1 - 4 / 32) and columns.assumes[-1] == "four-bytes-per-thread"


def test_counted_sectors_do_not_hide_passes_that_were_not_counted() -> None:
    half = {TOTAL: 1000.0, EXCESS: 500.0}
    # Each request takes at least 15 passes; with one, L1 needs as much as the SM.
    full = made(busy(l1=90, sm=6), half, NO_SHARED).finding("uncoalesced-global")
    assert full.gain_kernel == pytest.approx(1 - 1 / 15) and full.gain_kind == "conditional"
    # They cost nothing if L1 is not full, and may be bank conflicts.
    for other in (busy(l1=45, sm=3), SHARED_4K):
        found = made(busy(l1=90, sm=6), half, NO_SHARED, other).finding("uncoalesced-global")
        assert found.gain_kernel == pytest.approx(0.5) and found.assumes[-1] == "same-l1-wavefronts-per-sector"


def test_conflicts_of_an_average_sm_bound_no_slower_sm() -> None:
    # One of 108 SMs is busy with conflicts for twice as long as the others.
    counts = {SHARED_WAVES: 1000.0, SHARED_EXCESS: 930.0, SHARED_BUSY: 0.86, "sm__cycles_active.avg": 505e3}
    launch = made(counts, {"sm__cycles_active.max": 1e6, "sm__cycles_elapsed.max": 1e6}, busy(l1=0.9))
    found = launch.finding("shared-bank-conflict")
    assert found.gain_kernel == pytest.approx(0.93 * 0.0086 / 0.505 / 0.8)
    assert found.gain_kind == "conditional" and found.assumes == ("same-load-on-all-sms",)


def test_waste_without_busy_units_or_stalls_is_a_guess() -> None:
    counts = {LOAD_SECTORS: 3200.0, LOAD_REQUESTS: 100.0, SHARED_WAVES: 1000.0, SHARED_EXCESS: 900.0}
    for known, confidences in (
        ({}, ("guess", "guess")),
        (busy(dram=50), ("inferred", "guess")),
        (busy(l1=50), ("inferred", "measured")),
        (stalls(short_scoreboard=40), ("inferred", "measured")),
    ):
        launch = made(counts, known)
        rules = ("uncoalesced-global", "shared-bank-conflict")
        assert tuple(launch.finding(rule).confidence for rule in rules) == confidences, known


def test_waits_for_shared_memory_show_the_cost_of_conflicts_without_its_load() -> None:
    conflicts = made({SHARED_WAVES: 1000.0, SHARED_EXCESS: 900.0}, stalls(short_scoreboard=40))
    found = conflicts.finding("shared-bank-conflict")
    assert found.gain_kernel == pytest.approx(0.9 * 0.4 / 0.8)
    assert found.assumes == ("same-load-on-all-sms", "other-stalls-unchanged")


def test_l1_is_surely_the_limit_only_if_the_levels_below_it_are_known() -> None:
    for known, confidence in (
        (busy(dram=10), "guess"),
        (busy(dram=10, l2=20), "inferred"),
        (busy(dram=10, memory=80), "inferred"),
    ):
        assert made(busy(l1=80, sm=40), known).finding("l1-bandwidth").confidence == confidence


def test_fewer_passes_of_a_full_l1_are_one_of_two_fixes() -> None:
    found = made(busy(l1=80, sm=10, memory=80, l2=20, dram=10), SHARED_4K).finding("l1-bandwidth")
    assert found.gain_kind == "conditional"
    assert found.assumes == ("same-accesses", "same-bytes-through-l2-and-dram")


def test_a_part_of_l1_beside_its_data_pipe_asks_for_no_wider_accesses() -> None:
    # Scattered atomics on a V100: L1 is busier than memory as a whole, which has L1's data pipe in it.
    atomics = made(busy(l1=62, sm=37, memory=49, l2=49, dram=1), {WAVES: 0.6}, NO_SHARED)
    assert atomics.finding("l1-bandwidth").cases.action == ("other-part",)
    assert atomics.plus(busy(memory=62)).finding("l1-bandwidth").cases.action == ("main",)
