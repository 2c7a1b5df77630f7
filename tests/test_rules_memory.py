"""Rules on accesses and memory levels: which comes first, what a fix leaves, and when they say nothing."""

from __future__ import annotations

from typing import Any

import pytest

from gpuprof.annotated.counts import EXECUTED, SAMPLES
from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.rules import narrow_access
from gpuprof.hardware.device import RecordedDevice
from gpuprof.hardware.specs import WARP_OPCODES
from gpuprof.model.analyse import analyse
from gpuprof.model.recorded import ProfiledInstruction
from gpuprof.model.session import Finding
from tests import builders
from tests.kernels import (
    Made,
    Program,
    Values,
    busy,
    issued,
    lasting,
    made,
    operations,
    pipes,
    stalls,
)  # fmt: skip
from tests.rule_examples import (
    CONFLICTS,
    CONFLICTS_OF,
    DEVICE,
    EXCESS,
    HOST,
    L2_ATOMICS,
    LOAD_REQUESTS,
    LOAD_SECTORS,
    LOCAL_LOADS,
    LOCAL_LOADS_RUN,
    LOCAL_STORES,
    LOCAL_STORES_RUN,
    NO_SHARED,
    PASSES_OF,
    PER_SECTOR_LOAD,
    PER_SECTOR_STORE,
    REQUESTS,
    SECTORS_OF_LOADS,
    SHARED_4K,
    SHARED_ATOMICS,
    SHARED_BUSY,
    SHARED_PASSES,
    STORE_SECTORS,
    TOTAL,
    WAVEFRONTS,
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

UNCOALESCED, CONFLICT, SPILL = "uncoalesced-global", "shared-bank-conflict", "local-memory-spill"
L1, L2, DRAM, SHARED = "l1-bandwidth", "l2-bandwidth", "dram-bandwidth", "shared-bandwidth"
HOST_TRAFFIC = "host-memory-traffic"
ATOMICS, NARROW = "atomic-contention", "narrow-access"
EXCESS_600 = {TOTAL: 1000.0, EXCESS: 600.0}
A10G, TURING = ("NVIDIA A10G", "8.6", 80), ("NVIDIA GeForce RTX 2080 Ti", "7.5", 68)


# Coalescing: what counts exactly goes before what infers.

PASSES = made(busy(memory=80, dram=10), {WAVEFRONTS: 80.0, REQUESTS: 10.0})


@each_row(
    ("launch", "rule", "expected"),
    [
        # One thread of a warp stores 4 bytes: a sector of 32 is the least that this can take.
        silent("a sector is the least", made(busy(dram=50), {TOTAL: 1000.0, EXCESS: 0.0, PER_SECTOR_STORE: 4.0}),
               UNCOALESCED),
        silent("conflicts of shared memory", PASSES.plus(SHARED_4K), UNCOALESCED),
        *(silent("4 to 16 bytes a thread", made(busy(dram=50), {LOAD_SECTORS: 100 * n, LOAD_REQUESTS: 100.0}),
                 UNCOALESCED) for n in (4.0, 8.0, 16.0)),
        # A sector a request is the least that there is.
        silent("a word that all threads read", made(busy(dram=50), {PER_SECTOR_LOAD: 4.0, LOAD_SECTORS: 100.0,
               LOAD_REQUESTS: 100.0}), UNCOALESCED),
        # 10 % of the warps wait for memory, and its busiest unit is 20 % busy: 60 % of that.
        says("nobody waits for memory", made(EXCESS_600, stalls(long_scoreboard=6, lg_throttle=4),
             busy(dram=15, l2=20, l1=10, sm=40)), UNCOALESCED, 0.6 * of_time(0.2)),
    ],
)  # fmt: skip
def test_accesses_of_global_memory(launch: Judged, rule: str, expected: dict[str, Any] | None) -> None:
    check_row(launch, rule, expected)


# The gain from removing excess sectors, by the level that serves them.

STREAM = made(busy(dram=89, l2=50, l1=33), {TOTAL: 4000.0, EXCESS: 3000.0}, lasting(), stalls(long_scoreboard=80))
"""Scalar accesses that move a quarter of what they fetch from L1."""
A_TENTH = made(busy(dram=75, l2=30, l1=20, memory=75), {TOTAL: 4000.0, EXCESS: 400.0}, lasting(), moving(3680, 3680))
"""Of 4000 sectors 400 are excess; L2 and DRAM move 3680, 80 more than the ideal 3600."""
TWO_PASSES = {WAVEFRONTS: 33.0, REQUESTS: 16.5}
IN_MEMORY, IN_QUEUE = stalls(long_scoreboard=80, wait=20), stalls(lg_throttle=60, wait=40)


@each_row(
    ("launch", "rule", "expected"),
    [
        # L2 and DRAM move the 1000 ideal sectors: DRAM's 89 % stay.
        says("it stays in L1", STREAM.plus(moving(1000, 1000)), UNCOALESCED, 0.11, kind="conditional"),
        # L1 has a tenth of its 20 % too much, and nothing queues for it: a little more than DRAM's 2.2 %.
        says("DRAM hardly moves it", A_TENTH.plus(IN_MEMORY), UNCOALESCED, 0.1 * of_time(0.2) * 0.999,
             kind="conditional"),
        # All 4000 sectors come from DRAM: a quarter of its 89 % stays, and 3 of 4 parts are all that can go, unless
        # requests take many passes.
        says("it reaches DRAM", STREAM.plus(moving(4000, 4000)), UNCOALESCED, 0.75 * 0.999, kind="conditional"),
        says("in two passes", STREAM.plus(moving(4000, 4000), TWO_PASSES), UNCOALESCED, 0.75 * 0.999, kind="bound"),
        says("DRAM moves it", STREAM.plus(moving(4000, 4000)), DRAM, 0.11, severity="info", cause=UNCOALESCED),
    ],
)  # fmt: skip
def test_excess_sectors_gain_what_their_level_costs(launch: Judged, rule: str, expected: dict[str, Any] | None) -> None:
    check_row(launch, rule, expected)


@each_row(
    ("launch", "why"),
    [
        (STREAM, ("not-adjacent",)),
        (STREAM.plus(moving(1000, 1000)), ("not-adjacent", "stays-in-l1")),
        (STREAM.plus(moving(4000, 900)), ("not-adjacent",)),
        (PASSES.plus(NO_SHARED), ("many-wavefronts",)),
        (PASSES.plus(NO_SHARED, moving(4000, 4000)), ("many-wavefronts",)),
    ],
)  # fmt: skip
def test_an_excess_that_l2_does_not_move_stays_in_l1(launch: Made, why: tuple[str, ...]) -> None:
    assert said(launch, UNCOALESCED).cases.why == why


@each_row(
    ("reason", "why"), [("long_scoreboard", "room"), ("lg_throttle", "room"), ("drain", "room")]
)  # fmt: skip
def test_a_full_queue_is_no_lack_of_requests(reason: str, why: str) -> None:
    assert said(made(busy(dram=20, l2=20, l1=20, memory=20), issued(20), stalls(**{reason: 50.0})),
                "memory-latency").cases.why == (why,)  # fmt: skip


@each_row(
    ("registers", "threads", "advice"),
    [(255.0, 256, ()), (64.0, 1024, ("smaller-blocks",)), (40.0, 1024, ("raise-cap",)), (40.0, 256, ("raise-cap",))],
)
def test_a_register_cap_is_raised_only_below_the_most_registers(
    registers: float, threads: int, advice: tuple[str, ...]
) -> None:
    launch = made(
        {"launch__registers_per_thread": registers}, busy(dram=60), LOCAL, {LOAD_SECTORS: 0.0, STORE_SECTORS: 0.0},
        block=(threads, 1, 1),
    )  # fmt: skip
    assert said(launch, SPILL).cases.advice == (*advice, "shorter-ranges")


# Conflicts, spills, narrow accesses and atomics.

LOCAL = {LOCAL_LOADS: 100.0, LOCAL_STORES: 100.0}
MISSES = "l1tex__t_sectors_pipe_lsu_mem_local_op_ld_lookup_miss.sum"
LOADS_ALONE = {CONFLICTS_OF.format("ld"): 864 * 31.0}
COUNTED = made({CONFLICTS: 9.52e6, SHARED_PASSES: 13.6e6, "sm__cycles_elapsed.max": 1e6, "sm__cycles_active.avg": 1e6},
               busy(dram=10, l2=4, l1=96, sm=40), SHARED_4K)  # fmt: skip
"""9.52 M of 13.6 M passes, on 68 SMs in 1 M cycles: 14 % of them."""


def conflicts(kind: str, count: float, passes: float | None = None) -> Values:
    counted = {CONFLICTS_OF.format(kind): count}
    return counted if passes is None else {**counted, PASSES_OF.format(kind): passes}


def most_passes(count: float) -> Made:
    """No access at all would gain 90 %; `count` of 10 M passes are conflicts."""
    return made({CONFLICTS: count, SHARED_PASSES: 1e7, "sm__cycles_elapsed.max": 2.06e5}, SHARED_4K,
                busy(dram=4, l2=10, l1=96, sm=10))  # fmt: skip


def atomics(opcode: str, *parts: Values) -> Made:
    return made(*parts, histograms={WARP_OPCODES: {opcode: 9.0}})


ARRAYS = made(busy(dram=0, l2=0, l1=80), pipes(alu=45), LOCAL, {LOAD_SECTORS: 0.0, STORE_SECTORS: 0.0, MISSES: 0.0},
              moving(1000, 1000), lasting())  # fmt: skip
"""All accesses are of local memory, and hit L1; the integer pipe is 45 % busy."""
FULL_ATOMICS = {L2_ATOMICS: 90.0, **stalls(drain=90)}
IN_LOOPS = (busy(dram=10, sm=60), {L2_ATOMICS: 50.0}, stalls(long_scoreboard=90), pipes(alu=40))


@each_row(
    ("launch", "rule", "expected"),
    [
        # 300 + 100 of 600 + 200 passes.
        says("loads and stores", made(conflicts("ld", 300, 600), conflicts("st", 100, 200), busy(l1=80)), CONFLICT, 0.5,
             "400 of 800"),
        *(silent("few", made(conflicts(kind, 1.0, 600.0)), CONFLICT) for kind in ("ld", "st")),
        # 108 blocks of 256 threads are 864 warps.
        says("passes unknown", made(LOADS_ALONE, grid=(108, 1, 1)), CONFLICT, None, "31.0", severity="info"),
        # Turing takes a pass every second cycle.
        says("cycles", On(COUNTED, "NVIDIA A100", "8.0", 68), CONFLICT, of_time(0.14)),
        says("cycles of Turing", On(COUNTED, *TURING), CONFLICT, of_time(0.28)),
        # 7 M cycles of 108 SMs × 206 000 are 31 %, and 1.25 times as much 39 %.
        says("most passes", most_passes(7e6), L1, 0.9, severity="info", cause=CONFLICT),
        says("most passes", most_passes(7e6), CONFLICT, of_time(7e6 / (108 * 2.06e5))),

        silent("local sectors alone", made(busy(dram=60), LOCAL), SPILL),
        says("nothing but local", made(busy(dram=60), LOCAL, {LOAD_SECTORS: 0.0, STORE_SECTORS: 0.0}), SPILL, 1.0),
        # A loop over an array is unrolled: its index arithmetic and its slots are no bound. A spill has none.
        says("arrays", ARRAYS.plus({"launch__registers_per_thread": 40.0}), SPILL, 0.55, kind="conditional"),
        says("spills", ARRAYS.plus({"launch__registers_per_thread": 255.0}), SPILL, 0.55, kind="bound"),

        # All of the wait goes; loops of compare-and-swap take their arithmetic along. Nothing waits for the result of
        # RED: 50 % ÷ 0.8.
        says("in no loop", atomics("RED.E.ADD", *IN_LOOPS), ATOMICS, 0.625, kind="conditional"),
        # The instructions that add go, too, and with them their addresses and issue slots, but not FP64.
        says("all of the time", atomics("RED.E.ADD", FULL_ATOMICS, issued(60), pipes(alu=40)), ATOMICS, 1.0,
             kind="bound"),
        says("arithmetic", atomics("RED.E.ADD", FULL_ATOMICS, issued(60), pipes(fp64=40)), ATOMICS, 0.6, kind="bound"),
        # Sums in shared memory move fewer bytes; with the same bytes, DRAM needs 30 %.
        says("bytes", atomics("RED.E.ADD", FULL_ATOMICS, busy(dram=30)), ATOMICS, 0.7, kind="conditional"),
        says("in loops", atomics("ATOMG.E.CAS.STRONG.GPU", *IN_LOOPS), ATOMICS, 0.9),
        *(says("in shared memory", atomics(opcode, busy(dram=10), {SHARED_ATOMICS: 40.0}, stalls(mio_throttle=40)),
               ATOMICS, of_time(0.4), kind="conditional") for opcode in ("ATOMG.E.CAS", "RED.E.ADD")),
        says("atomics of shared memory", made(busy(dram=1, l2=30), stalls(long_scoreboard=30), {
             SHARED_BUSY: 70.0, SHARED_ATOMICS: 60.0}), SHARED, 0.7 * 0.7, cause=ATOMICS),
    ],
)  # fmt: skip
def test_conflicts_spills_narrow_accesses_and_atomics(
    launch: Judged, rule: str, expected: dict[str, Any] | None
) -> None:
    check_row(launch, rule, expected)


SPILLING = ("STL [R1], R2", "LDG.E R4, [R2.64]", "LDL R6, [R1]", "@P0 BRA 0x60", "FADD R7, R6, R6", "EXIT",
            "FADD R8, R6, R6", "FADD R9, R4, R4", "EXIT")  # fmt: skip


def spilling(waits: tuple[float, ...], sass: tuple[str, ...] = SPILLING) -> Finding:
    """A tenth of the sectors, while warps wait for memory for most of the time; each instruction with its samples."""
    reason = "smsp__pcsamp_warps_issue_stalled_long_scoreboard"
    code = tuple(
        ProfiledInstruction(16 * place, text, None, None, {EXECUTED: 1.0, SAMPLES: samples, reason: samples})
        for place, (text, samples) in enumerate(zip(sass, waits, strict=True))
    )
    of_pc: dict[str | int, float] = {item.pc: item.counts[SAMPLES] for item in code}
    sectors = {LOCAL_LOADS: 60.0, LOCAL_STORES: 40.0, LOAD_SECTORS: 800.0, STORE_SECTORS: 100.0, MISSES: 0.0}
    counts = {LOCAL_LOADS_RUN: 1.0, LOCAL_STORES_RUN: 1.0, "smsp__inst_executed.sum": 100.0}
    launch = made(busy(dram=20, l2=20, l1=20, memory=20), issued(20), stalls(long_scoreboard=80, wait=20), sectors,
                  counts, lasting(), moving(1000, 1000), histograms={SAMPLES: of_pc, reason: of_pc},
                  details=Program(code))  # fmt: skip
    return launch.finding(SPILL)


def test_a_spill_gains_no_more_than_what_waits_for_it_by_the_code() -> None:
    # 10 % of the sectors, and all of the time in waits; but 6 of 100 samples are at the accesses or at their users.
    few = spilling((1, 50, 1, 0, 2, 0, 2, 44, 0))
    assert few.gain_kernel == pytest.approx(of_time(0.06), rel=0.01) and few.gain_kind == "conditional"
    # Of units: a tenth of L1 at 20 %.
    none = spilling((0, 50, 0, 0, 0, 0, 0, 50, 0))
    assert none.gain_kernel == pytest.approx(of_time(0.02), rel=0.01) and none.severity == "info"
    # If all wait for it, all of the time goes but for what DRAM and L2 need, however few sectors are local.
    assert spilling((0, 0, 0, 0, 50, 0, 50, 0, 0)).gain_kernel == pytest.approx(0.808, rel=0.01)
    # Its consumers are unknown if other code may access it.
    for place, text in ((1, "LD.E R4, [R2.64]"), (3, "BRX R2 -0x60"), (3, "")):
        code = tuple(text if number == place else sass for number, sass in enumerate(SPILLING))
        assert spilling((1, 50, 1, 0, 2, 0, 2, 44, 0), code).gain_kernel == pytest.approx(0.1, rel=0.01)


def test_widths_are_read_from_opcodes() -> None:
    widths = {
        "LDG.E.U8.CONSTANT": 1, "STG.E.S16": 2, "LDG.E": 4, "LD.E": 4, "LDG.E.64": 8, "@P0": 0,
        "LDGSTS.E.BYPASS.LTC128B.128": 16, "STG.E.128": 16, "LDS.128": 0, "STL.U8": 0, "LDC.U8": 0,
        "LDG.E.ENL2.256.CONSTANT": 32, "LDGDEPBAR": 0,
    }  # fmt: skip
    assert {opcode: narrow_access.width_of(opcode) for opcode in widths} == widths


# Levels of memory.

BUSY_L2 = busy(dram=30, l2=75, l1=50, sm=20)
ONE_WAY = "lts__lts2xbar_cycles_active.sum.per_second"
WRITES, DRAM_BYTES = "lts__t_sectors_srcunit_tex_aperture_sysmem_op_write.sum", "dram__bytes.sum"
WRITTEN = {HOST: 0.0, DEVICE: 600.0, WRITES: 300.0, DRAM_BYTES: 700.0 * 32}
TO_HOST = made(busy(dram=10), stalls(long_scoreboard=90), issued(5), {HOST: 1000.0, DEVICE: 0.0})


@each_row(
    ("launch", "rule", "expected"),
    [
        silent("L2 is busier", made(busy(dram=50, l2=80, l1=75)), DRAM, L1),
        says("the busiest level", made(busy(dram=50, l2=80, l1=75)), L2, 0.8 * 0.5),
        says("DRAM near its roof", made(busy(dram=82, l2=90, l1=20)), DRAM, 0.1),
        silent("DRAM is as busy", made(busy(dram=68, l2=70, l1=40)), L2),
        says("the busiest unit stays", made(busy(dram=70, l2=40, l1=30, sm=78)), DRAM, 0.22, kind="conditional"),
        # A pipe that is 90 % busy bounds fewer bytes too.
        says("a full pipe", made(busy(dram=70, l2=40, l1=30), pipes(fp64=90)), DRAM, 0.1, kind="bound"),
        says("shared memory fills L1", made(busy(l1=85, dram=10), {SHARED_BUSY: 80.0}), SHARED, 0.8 * 0.9),
        silent("L2 explains it", made(busy(memory=70, l2=70, dram=10)), L1),

        # Writes to the host count although L2 calls them hits.
        says("writes", made(busy(dram=50), WRITTEN, lasting()), HOST_TRAFFIC, 0.5, "30 %", {WRITES: 300.0}),
        silent("the host's own memory", made(busy(dram=50), {HOST: 900.0, DEVICE: 100.0,
               "device__attribute_integrated": 1.0}), HOST_TRAFFIC),
        # DRAM's 10 % stay.
        says("all misses", TO_HOST, HOST_TRAFFIC, 0.9),
    ],
)  # fmt: skip
def test_levels_of_memory_and_the_host(launch: Judged, rule: str, expected: dict[str, Any] | None) -> None:
    check_row(launch, rule, expected)


BUSY_L1 = made(busy(l1=90, sm=76, memory=90, dram=7, l2=9), issued(30))
NARROW_LOADS = made(busy(l1=98, sm=60, memory=98, dram=1, l2=40), NO_SHARED)
SEARCH = made(busy(dram=20, l2=20, l1=90, sm=90), stalls(mio_throttle=60), issued(30), SHARED_4K, lasting())
MOVED_4_GB = made(BUSY_L2, {"lts__t_bytes.sum": 4e9})
QUEUE = stalls(mio_throttle=50)


@each_row(
    ("rule", "some", "others"),
    [
        # Tiles help L2 if it moves more than DRAM, and may help if that is not known.
        (L2, [MOVED_4_GB.plus({"dram__bytes.sum": 1e9}), MOVED_4_GB], [MOVED_4_GB.plus({"dram__bytes.sum": 3e9})]),
        # 6.25e10 × 32 B/s for 1 ms are 2e9 B one way; both would be more than twice DRAM's 1.5e9.
        (L2, [made(BUSY_L2, lasting(), {ONE_WAY: 6.25e10, "dram__bytes.sum": 1.5e9}), MOVED_4_GB], []),
        # Requests that queue are not asked for more; no warp waits for what the TMA engine loads.
        # Without the waits it is not known what keeps DRAM from more, and fewer bytes always help.
        (DRAM, [waiting_for_loads(2421.0), made(busy(dram=90, l2=40, l1=30, sm=20)), made(busy(dram=70, l2=10)),
                waiting_for_loads(700.0, "UTMALDG.2D")], [waiting_for_loads(700.0)]),
        # Accesses that are wide or scattered already are not to be made wider: 16 sectors a request are.
        (L1, [NARROW_LOADS.plus(busy(sm=24)), NARROW_LOADS.plus({SECTORS_OF_LOADS: 15.8})],
         [NARROW_LOADS, NARROW_LOADS.plus({SECTORS_OF_LOADS: 4.0})]),
        # Shared memory of unknown size is seen by its conflicts. Its queue has other users.
        (L1, [BUSY_L1, BUSY_L1.plus(QUEUE), BUSY_L1.plus(conflicts("ld", 0), conflicts("st", 0))],
         [BUSY_L1.plus(NO_SHARED), BUSY_L1.plus(conflicts("ld", 0), conflicts("st", 5))]),
        (L1, [BUSY_L1.plus(conflicts("ld", 0), conflicts("st", 5)), BUSY_L1.plus(SHARED_4K)],
         [BUSY_L1.plus(NO_SHARED)]),
        # A larger tile helps if its values feed multiply-adds, but no search and no sum.
        (L1, [SEARCH, SEARCH.plus(operations(ffma=1e8, fadd=1e9, fmul=0)), SEARCH.plus(pipes(fma=9, alu=10))],
         [SEARCH.plus(operations(ffma=1e9, fadd=0, fmul=0)), SEARCH.plus(pipes(fma=10, alu=9))]),
    ],
)  # fmt: skip
def test_advice_depends_on_what_moves_the_bytes(rule: str, some: list[Made], others: list[Made]) -> None:
    actions = {said(launch, rule).action for launch in some}
    assert len(actions) == 1 and "" not in actions
    assert actions.isdisjoint(said(launch, rule).action for launch in others)


@each_row(
    ("name", "capability", "wavefronts", "requests", "passes"),
    [
        # A naive product of A10G: a warp's two loads touch 32 lines and 1, and 32 + 1 passes are 16.5 a request.
        ("NVIDIA A10G", "8.6", 97.498, 11.8176, 16.5),
        # Its coalesced form, and a fill of an A40: one pass each.
        ("NVIDIA A10G", "8.6", 45.61, 91.2163, 1.0),
        ("NVIDIA A40", "8.6", 20.0, 40.0, 1.0),
        # Kernels of one wavefront per request on Turing, and one of 8 bytes a thread.
        ("NVIDIA GeForce GTX 1660 Ti", "7.5", 10.0, 20.0, 1.0),
        ("NVIDIA GeForce RTX 2080 Ti", "7.5", 30.0, 30.0, 2.0),
        # An A100 counted 3 548 160 requests of 37 298 106 cycles as 9.51 %: one a cycle is all.
        ("NVIDIA A100 80GB PCIe", "8.0", 85.485, 9.5377, 8.963),
    ],
)
def test_passes_a_request_are_counted_at_the_rate_of_each_gpu(
    name: str, capability: str, wavefronts: float, requests: float, passes: float
) -> None:
    device = RecordedDevice(name, capability)
    report = builders.report(made({WAVEFRONTS: wavefronts, REQUESTS: requests}).launch(), device=device)
    analysis = analyse([report], builders.hardware_of, "9.9")
    case = KernelFacts(analysis.session.kernels[0], analysis.recorded[0])
    assert case.wavefronts_per_request == pytest.approx(passes, rel=1e-3)


@each_row(
    ("waits", "why", "action"),
    [
        ({}, "unknown-waits", "main"),
        (stalls(long_scoreboard=60), "few-in-flight", "few-in-flight"),
        # A warp at a barrier waits for one that waits for memory in 20 of 65 parts.
        (stalls(long_scoreboard=20, barrier=35), "few-in-flight", "few-in-flight"),
        (stalls(long_scoreboard=20, barrier=15), "few-waits", "main"),
        # Warps hardly wait for memory: more loads in flight change nothing.
        (stalls(math_pipe_throttle=50, long_scoreboard=20), "few-waits", "main"),
    ],
)  # fmt: skip
def test_too_few_bytes_in_flight_are_not_blamed_if_warps_hardly_wait(
    waits: dict[str, float], why: str, action: str
) -> None:
    cases = said(made(busy(dram=70, l2=10), waits), "dram-bandwidth").cases
    assert (cases.why[1], cases.action) == (why, (action,))
