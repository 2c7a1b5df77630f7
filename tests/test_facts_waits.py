"""Facts of the waits of warps: shares by cause, and the waits at barriers that result from others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuprof.diagnose.bounds import OTHER_WAITS, Saving, at_work, capped, explained
from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.facts.waits import MEMORY_STALLS, WAITS
from gpuprof.hardware.device import RecordedDevice
from gpuprof.hardware.specs import WARP_OPCODES
from gpuprof.model.analyse import analyse
from gpuprof.model.session import Remaining
from tests import builders
from tests.kernels import ISSUE, WAVES, Made, busy, issued, lasting, made, pipes, stall_metric, stalls
from tests.table import each_row

ALL_STATES = "smsp__average_warp_latency_per_inst_issued.ratio"
SHARED_WAITS = WAITS["shared"]
CONSUMERS = {"long_scoreboard": 6.0, "short_scoreboard": 24.0, "barrier": 40.0, "sleeping": 10.0, "wait": 10.0}
"""Warps that multiply what others copied: 6 of 40 % of the waits that delay a warp are for memory."""


def facts_of(launch: Made) -> KernelFacts:
    """The facts of a launch on an A100."""
    analysis = analyse([builders.report(launch.launch())], lambda _: builders.a100(), "9.9")
    return KernelFacts(analysis.session.kernels[0], analysis.recorded[0])


def lacking(*reasons: str, **shares: float) -> Made:
    """A launch with the counters of all reasons but these; the shares are of all states."""
    every = {reason for of_cause in WAITS.values() for reason in of_cause} | {"sleeping", "misc", "not_selected"}
    none = dict.fromkeys(sorted(every), 0.0)
    return made(stalls(**(none | shares)), {ALL_STATES: 10.0}).without(*map(stall_metric, reasons))


def test_states_are_summed_by_cause() -> None:
    waits = facts_of(made(stalls(**CONSUMERS))).waits
    assert {cause: round(share, 9) for cause, share in waits.items() if share} == {
        "memory": 0.06, "shared": 0.24, "barrier": 0.4, "dependency": 0.1,
    }  # fmt: skip
    # Of 10 warps 3 wait for memory and 1 at a barrier; the reason of the other 6 was not collected.
    part = facts_of(lacking("wait", long_scoreboard=30, barrier=10, wait=60)).waits
    assert (part["memory"], part["barrier"], part["unknown"]) == pytest.approx((0.3, 0.1, 0.6))


@each_row(
    ("launch", "most", "rarely"),
    [
        (made(busy(sm=90), issued(79)), 0.79, True),
        (made(issued(80)), 0.80, False),
        # The SM is as busy as its issue slots, or busier: 40 % of the half of the time in which it works.
        (made(busy(sm=40), {"sm__cycles_active.avg": 5e5, "sm__cycles_elapsed.max": 1e6}), 0.80, False),
        (made(busy(sm=79)), 0.79, True),
        (made(), None, True),
        (made(stalls(wait=40, not_selected=29)), None, True),
        (made(stalls(wait=40, not_selected=30)), None, False),
    ],
)
def test_stalls_matter_while_issue_slots_are_idle(launch: Made, most: float | None, rarely: bool) -> None:
    facts = facts_of(launch)
    assert facts.issue_at_most == pytest.approx(most)
    assert facts.issues_rarely is rarely


def test_the_fewest_waves_are_those_of_full_warp_slots() -> None:
    # 6912 warps are one wave of 108 SMs with 64 warps each.
    assert facts_of(made(grid=(8 * 864, 1, 1))).waves_at_least == 8.0
    assert facts_of(made({WAVES: 9.0})).waves_at_least == 9.0
    assert facts_of(made(grid=None)).waves_at_least == 0.0


def test_fp64_instructions_in_the_queue_of_textures_wait_for_dispatch() -> None:
    waits = facts_of(made(stalls(tex_throttle=30, drain=10), pipes(fp64=50, alu=10))).waits
    assert (waits["memory"], waits["dispatch"]) == pytest.approx((0.1, 0.3))


@each_row(
    ("launch", "reasons", "share"),
    [
        # 6 % wait for memory, and 6 ÷ 40 of the 40 % at barriers for a warp that does.
        (made(stalls(**CONSUMERS)), MEMORY_STALLS, 0.12),
        (made(stalls(**CONSUMERS)), SHARED_WAITS, 0.48),
        (made(stalls(long_scoreboard=30, barrier=40)), MEMORY_STALLS, 0.70),
        # Nobody waits for memory, so no one at a barrier does.
        (made(stalls(barrier=60, sleeping=20)), MEMORY_STALLS, 0.0),
        # 20 % of the states are unknown: they are the loads', and delay 50 ÷ 70 of the barriers.
        (lacking("long_scoreboard", long_scoreboard=20, lg_throttle=30, wait=20, barrier=14), MEMORY_STALLS, 0.60),
        # Warps that wait for the MIO queue are not those that wait for loads.
        (lacking("mio_throttle", long_scoreboard=20, mio_throttle=30, wait=20), MEMORY_STALLS, 0.20),
        (made(busy(dram=30)), MEMORY_STALLS, 1.0),
    ],
)  # fmt: skip
def test_barriers_count_by_what_the_slowest_warp_waits_for(
    launch: Made, reasons: tuple[str, ...], share: float
) -> None:
    assert facts_of(launch).waits_behind(*reasons) == pytest.approx(share)


@each_row(
    ("launch", "share"),
    [
        # 12 % of the states, or 8 % of DRAM, of the 80 % that a well used unit reaches.
        (made(stalls(**CONSUMERS), busy(dram=8)), 0.15),
        (made(stalls(**CONSUMERS), busy(dram=40)), 0.50),
        (made(stalls(**CONSUMERS), busy(dram=80)), 1.0),
        (made(busy(dram=8)), 1.0),
        (made(stalls(**CONSUMERS)), 1.0),
    ],
)
def test_a_unit_explains_the_time_in_which_it_works_or_is_waited_for(launch: Made, share: float) -> None:
    facts = facts_of(launch)
    assert explained(facts, facts.needs.get("dram"), MEMORY_STALLS) == pytest.approx(share)


def test_late_blocks_are_explained_too() -> None:
    # An average SM works for 70 of 100 µs, and at most 3 µs are the launch's: 27 % of the time is late.
    launch = made(lasting(1e-4), {"sm__cycles_active.avg": 700.0, "sm__cycles_elapsed.max": 1000.0})
    facts = facts_of(launch)
    assert at_work(facts, 0.4, 0.2) == pytest.approx(0.4 / 0.8 + 0.27)
    assert at_work(facts, 0.4, 0.2, late=0.5) == pytest.approx(0.4 / 0.8 + 0.135)


def test_a_saving_of_waits_holds_only_if_others_stay() -> None:
    # A tenth of 10 µs is the launch's: 90 % of a half of the work, or of a half of a third of the time.
    facts = facts_of(made(lasting(1e-5)))
    bound = Saving(0.8, (Remaining("dram", 0.2),))
    whole, part = capped(facts, bound, 0.5, 1.0), capped(facts, bound, 0.5, 1 / 3)
    assert whole.fraction == pytest.approx(0.45) and not whole.assumes
    assert part.fraction == pytest.approx(0.15) and part.assumes == (OTHER_WAITS,)
    assert part.remains == bound.remains


@each_row(
    ("launch", "time", "beside"),
    [
        # 30 % of the slots in the 80 % of the time in which an average SM works; the FMA pipe needs more.
        (made(stalls(long_scoreboard=50), issued(30), pipes(fma=20, lsu=70),
              {"sm__cycles_active.avg": 80.0, "sm__cycles_elapsed.max": 100.0}), 0.24, True),
        (made(stalls(long_scoreboard=50), pipes(fma=59, tensor=80)), 0.59, True),
        (made(stalls(long_scoreboard=50), pipes(fma=60)), 0.60, False),
        (made(stalls(long_scoreboard=20, short_scoreboard=20, barrier=9), pipes(fma=20)), 0.20, False),
        (made(busy(sm=40, memory=60)), 0.40, True),
        (made(busy(sm=40, memory=30), histograms={WARP_OPCODES: {"BAR.SYNC": 2.0, "FFMA": 98.0}}), 0.40, True),
        (made(busy(sm=40, memory=30), histograms={WARP_OPCODES: {"BAR.SYNC": 1.0, "FFMA": 99.0}}), 0.40, False),
        (made({ISSUE: 0.3}), None, False),
    ],
)  # fmt: skip
def test_instructions_take_part_of_the_time(launch: Made, time: float | None, beside: bool) -> None:
    facts = facts_of(launch)
    assert facts.time_of_instructions == (pytest.approx(time) if time is not None else None)
    assert facts.waits_beside_instructions is beside


WGMMA: dict[str | int, float] = {"UTMALDG.2D": 10.0, "HGMMA.64x128x16.F32": 100.0, "SYNCS.PHASECHK": 200.0}
FA3 = "void cutlass::device_kernel<flash::enable_sm90<flash::FlashAttnFwdSm90<T1>>>(T1::Params)"
COOPERATIVE = "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<KernelTmaWarpSpecializedCooperative>>()"


def on(launch: Made, capability: str, name: str = "kernel") -> Made:
    """The launch on a GPU of this compute capability."""
    return replace(launch, name=name, device=RecordedDevice(name="GPU", compute_capability=capability, sm_count=132))


@each_row(
    ("launch", "expected"),
    [
        (on(made(histograms={WARP_OPCODES: WGMMA}), "9.0"), True),
        (on(made(histograms={WARP_OPCODES: {"UTCHMMA.2CTA": 10.0}}), "10.0"), True),
        # Warps pass on their registers, although they multiply by mma.sync.
        (on(made(histograms={WARP_OPCODES: {"USETMAXREG.DEALLOC.CTAPOOL": 9.0, "QMMA.16832": 90.0}}), "12.0"), True),
        # A name shows less than the executed opcodes.
        (on(made(histograms={WARP_OPCODES: {"HMMA.16816.F32": 90.0}}), "9.0", FA3), False),
        (on(made(stalls(gmma=1)), "9.0"), True),
        (on(made(stalls(wait=1)), "9.0"), False),
        *((on(made(), "9.0", name), True) for name in (
            "void wgmma_kernel<(int)128>(CUtensorMap)", FA3, COOPERATIVE, "nvjet_tst_128x256_64x4_1x2_h_bz_TNT",
            "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize2x1x1_kernel__5x_cublas",
            "matmul_kernel_tma_persistent_ws", "cudnn_generated_fort_native_sdpa_sm100_flash_fprop_f16_knob_7",
            "void deep_gemm::sm90_fp8_gemm_1d2d_impl<(unsigned int)0>()")),
        *((on(made(), "9.0", name), False) for name in (
            "void fp4_gemv_sm100_ptx_mma<(int)64>()", "void summa_kernel(float *)", "void sigmma(float *)",
            "ampere_sgemm_128x64_tn", "void flash_fwd_kernel<Flash_fwd_kernel_traits<(int)128>>()", "rows(float *)")),
        (on(made(), "8.0", "nvjet_tst_128x256_64x4_1x2_h_bz_TNT"), False),
        # The tensor pipe may be busy by either kind of instruction.
        (on(made(pipes(tensor=50, fma=20)), "9.0"), None),
        (on(made(pipes(tensor=20, fma=50)), "9.0"), False),
        (on(made(pipes(tensor=50, fma=20)), "8.0"), False),
    ],
)  # fmt: skip
def test_few_warps_are_enough_if_they_issue_copies_and_products_of_tiles(launch: Made, expected: bool | None) -> None:
    report = builders.report(launch.launch(), device=launch.device)
    analysis = analyse([report], lambda _: builders.hardware_of(launch.device), "9.9")
    assert KernelFacts(analysis.session.kernels[0], analysis.recorded[0]).needs_few_warps is expected


@each_row(
    ("launch", "expected"),
    [
        (made(busy(sm=40, memory=30), issued(40)), True),
        (made(busy(sm=40, memory=30)), True),
        (made(busy(sm=40, memory=60), issued(40)), False),
        (made(busy(sm=40, memory=30), issued(60)), False),
        (made(busy(sm=40, memory=30), issued(40), {"smsp__warps_eligible.avg.per_cycle_active": 1.0}), False),
        # wgmma keeps the tensor pipe busy with few instructions.
        (made(busy(sm=40, memory=30), issued(40), histograms={WARP_OPCODES: WGMMA}), False),
    ],
)
def test_idle_issue_slots_are_room_for_warps_unless_few_are_enough(launch: Made, expected: bool) -> None:
    assert facts_of(launch).has_room is expected
