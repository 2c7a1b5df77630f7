"""Launches on which each rule speaks, with what it has to say worked out by hand, and how to ask rules of a launch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import pytest
from _pytest.mark import ParameterSet

from gpuprof.diagnose.registry import RULES
from gpuprof.diagnose.thresholds import WELL_USED
from gpuprof.hardware.device import RecordedDevice
from gpuprof.hardware.specs import THREAD_OPCODES, WARP_OPCODES
from gpuprof.hardware_finder import HardwareFinder
from gpuprof.model.analyse import analyse
from gpuprof.model.session import Finding
from gpuprof.words.session import worded
from tests import builders
from tests.kernels import (
    DURATION,
    REGISTERS,
    WAVES,
    Histograms,
    Made,
    busy,
    issued,
    lasting,
    made,
    operations,
    pipe_metric,
    pipes,
    stall_metric,
    stalls,
)  # fmt: skip
from tests.worded import diagnose

TOTAL = "memory_l2_theoretical_sectors_global"
EXCESS = "derived__memory_l2_theoretical_sectors_global_excessive"
PER_SECTOR_LOAD = "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio"
PER_SECTOR_STORE = "smsp__sass_average_data_bytes_per_sector_mem_global_op_st.ratio"
LOAD_SECTORS = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"
STORE_SECTORS = "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"
LOAD_REQUESTS = "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"
WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed"
REQUESTS = "l1tex__lsuin_requests.avg.pct_of_peak_sustained_elapsed"
SHARED_BUSY = "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum.pct_of_peak_sustained_elapsed"
SHARED_WAVES = "memory_l1_wavefronts_shared"
SHARED_EXCESS = "derived__memory_l1_wavefronts_shared_excessive"
CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"
SHARED_PASSES = "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"
LOCAL_LOADS = "l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum"
LOCAL_STORES = "l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum"
LOCAL_LOADS_RUN = "sass__inst_executed_local_loads"
LOCAL_STORES_RUN = "sass__inst_executed_local_stores"
HOST = "lts__t_sectors_srcunit_tex_aperture_sysmem_lookup_miss.sum"
DEVICE = "lts__t_sectors_srcunit_tex_aperture_device_lookup_miss.sum"
HOST_FILLS = "lts__d_sectors_fill_sysmem.avg.pct_of_peak_sustained_elapsed"
DEVICE_FILLS = "lts__d_sectors_fill_device.avg.pct_of_peak_sustained_elapsed"
L2_ATOMICS = "lts__d_atomic_input_cycles_active.avg.pct_of_peak_sustained_elapsed"
FABRIC = "lts__ltcfabric2ltc_cycles_active.avg.pct_of_peak_sustained_elapsed"
SHARED_ATOMICS = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_atom.sum.pct_of_peak_sustained_elapsed"
THREADS = "smsp__thread_inst_executed_per_inst_executed.ratio"
ACTIVE = "sm__warps_active.avg.pct_of_peak_sustained_active"
REPORTED_OCCUPANCY = "sm__maximum_warps_per_active_cycle_pct"

SHARED_4K = {"launch__shared_mem_per_block_static": 4096.0, "launch__shared_mem_per_block_dynamic": 0.0}
NO_SHARED = {"launch__shared_mem_per_block_static": 0.0, "launch__shared_mem_per_block_dynamic": 0.0}
REPORTED_LIMITS = {
    f"launch__occupancy_limit_{name}": value
    for name, value in (("registers", 4.0), ("shared_mem", 32.0), ("warps", 8.0), ("blocks", 32.0))
}
OF_RUN = {rule.id for rule in RULES if rule.of_run}
"""Rules that read timelines."""
OF_SEVERAL = OF_RUN | {rule.id for rule in RULES if rule.of_launches}
"""Those, and rules that compare launches."""
HALF_OCCUPANCY = {REGISTERS: 64.0}
"""8 warps a block, 2048 registers a warp: 8 warps in each quarter of the SM, so 4 blocks and 32 of 64 warps."""


def of_time(share: float) -> float:
    """What a unit so busy, or warps that wait so often, can explain of the time: all of it where it is well used."""
    return min(1.0, share / WELL_USED)


@dataclass(frozen=True, slots=True)
class Example:
    """A launch on which a rule speaks, and what it must say. Without any one of `needs` it must be silent."""

    rule: str
    what: str
    launch: Made
    gain: float | None
    severity: str
    confidence: str
    says: str
    needs: tuple[str, ...] = ()


BANDWIDTH = (
    # 70 % busy: 30 % of the time is left until DRAM is full. That warps wait for it is not known.
    Example("dram-bandwidth", "busy", made(busy(dram=70, l2=40, l1=30, sm=20)), 0.30, "high", "inferred", "70 %",
            (*busy(dram=0),)),
    # 1.35 GB in 1 ms.
    Example("dram-bandwidth", "near its ceiling", made(busy(dram=90, l2=40), lasting(), {"dram__bytes.sum": 1.35e9}),
            0.10, "info", "measured", "1.35 TB/s, 90 %"),
    # DRAM stays at 30 % of the three quarters of the time in which L2 is busy.
    Example("l2-bandwidth", "busy", made(busy(dram=30, l2=75, l1=50, sm=20)), 0.75 * 0.70, "high", "inferred", "75 %",
            (*busy(l2=0),)),
    # L2 stays at 35 %.
    Example("l1-bandwidth", "busy", made(busy(dram=20, l2=35, l1=85)), 0.85 * 0.65, "high", "inferred", "85 %",
            (*busy(l1=0),)),
    # The basic set: memory is 70 % busy, and neither DRAM (10 %) nor L2 (30 %) explains it.
    Example("l1-bandwidth", "by memory as a whole", made(busy(memory=70, dram=10, l2=30, sm=30)), 0.70 * 0.70,
            "high", "inferred", "70 %", (*busy(memory=0),)),
    # 80 of 10: eight passes a request; the requests stay, and L2 at 30 %.
    Example("l1-bandwidth", "by its data pipe",
            made(busy(dram=10, l2=30), {WAVEFRONTS: 80.0, REQUESTS: 10.0}, SHARED_4K), 0.70, "high", "inferred",
            "80 %", (WAVEFRONTS,)),
    # L2 needs 20 %; the other 30 % of the time are not those of shared memory.
    Example("shared-bandwidth", "busy", made(busy(dram=10, l2=20), {SHARED_BUSY: 70.0}), 0.70 * 0.80, "high",
            "inferred", "70 %", (SHARED_BUSY,)),
    # 300 of 1000 misses; DRAM stays 50 % busy. It may get more writes than the host.
    Example("host-memory-traffic", "a third of the misses", made(busy(dram=50), {HOST: 300.0, DEVICE: 700.0}),
            0.5, "high", "inferred", "30 %", (HOST, DEVICE)),
    # 0.6 of 0.8 parts come from the host; 25 % of L1's requests stay.
    Example("host-memory-traffic", "by what L2 is filled with (basic set)",
            made(busy(dram=1, l2=2), {REQUESTS: 25.0, HOST_FILLS: 0.6, DEVICE_FILLS: 0.2}), 0.75, "high", "inferred",
            "75 %", (HOST_FILLS, DEVICE_FILLS)),
)  # fmt: skip

ACCESS = (
    # 600 of 1000 sectors; of DRAM's 50 % then only 20 % would stay.
    Example("uncoalesced-global", "by excess counters", made(busy(dram=50), {TOTAL: 1000.0, EXCESS: 600.0}),
            0.6, "high", "measured", "60 %", (TOTAL, EXCESS)),
    # The FP64 pipe needs 85 % of the time, and memory next to nothing.
    Example("uncoalesced-global", "of a kernel full of arithmetic",
            made(busy(dram=2, l2=2), pipes(fp64=85), {TOTAL: 1000.0, EXCESS: 760.0}), 0.15, "medium", "measured",
            "76 %"),
    Example("uncoalesced-global", "by the bytes of a sector", made(busy(dram=40), {PER_SECTOR_LOAD: 8.0}),
            0.75, "low", "guess", "8 of 32", (PER_SECTOR_LOAD,)),
    # 32 − 4 of 32 sectors.
    Example("uncoalesced-global", "by sectors per request",
            made(busy(dram=50), {LOAD_SECTORS: 3200.0, LOAD_REQUESTS: 100.0}), 0.875, "high", "inferred",
            "32 sectors", (LOAD_SECTORS, LOAD_REQUESTS)),
    # 80 of 10: seven of eight passes; the requests' 10 % stay.
    Example("uncoalesced-global", "by passes through L1 (basic set)",
            made(busy(memory=80, dram=10, l2=20), {WAVEFRONTS: 80.0, REQUESTS: 10.0}, NO_SHARED),
            0.875, "high", "inferred", "8 L1 wavefronts", (WAVEFRONTS, REQUESTS)),
    # 400 of 1000 × the pipe's 55 %.
    Example("shared-bank-conflict", "by excess wavefronts",
            made({SHARED_WAVES: 1000.0, SHARED_EXCESS: 400.0, SHARED_BUSY: 55.0}), 0.4 * of_time(0.55), "high",
            "measured", "40 %", (SHARED_WAVES, SHARED_EXCESS)),
    # 300 of 1000 × L1's 40 %, whatever the warps wait for.
    Example("shared-bank-conflict", "by the hardware's count",
            made(busy(l1=40), {CONFLICTS: 300.0, SHARED_PASSES: 1000.0}, stalls(short_scoreboard=30, mio_throttle=20)),
            0.3 * of_time(0.4), "medium", "inferred", "30 %",
            (CONFLICTS, SHARED_PASSES)),
    # 200 of 1000 sectors, and as much of the waits, which are not known.
    Example("local-memory-spill", "by sectors",
            made(busy(dram=60), {LOCAL_LOADS: 100.0, LOCAL_STORES: 100.0, LOAD_SECTORS: 500.0, STORE_SECTORS: 300.0}),
            of_time(0.2), "high", "measured", "20 %"),
    # 50 % of the accesses × 15 of 16 bytes' worth of them and 10 % × 14 of 16, × 40 % of the warps throttled.
    Example("narrow-access", "of a byte", made(busy(l1=20), stalls(lg_throttle=40), histograms={
            WARP_OPCODES: {"LDG.E.U8": 50.0, "STG.E.U16": 10.0, "LDG.E.128.CONSTANT": 40.0, "FFMA": 99.0}}),
            0.55625 * of_time(0.4), "high", "inferred", "60 %", (WARP_OPCODES,)),
    # 80 % × 12 of 16 × 50 %.
    Example("narrow-access", "of four bytes under pressure", made(busy(l1=20), stalls(lg_throttle=50), histograms={
            WARP_OPCODES: {"LDG.E": 80.0, "LDG.E.128": 20.0}}),
            0.6 * of_time(0.5), "high", "inferred", "80 %", (WARP_OPCODES, stall_metric("lg_throttle"))),
    # Without collected waits: the 50 % that the unit is busy.
    Example("atomic-contention", "at L2", made({L2_ATOMICS: 50.0}), 0.50, "high", "measured", "50 %", (L2_ATOMICS,)),
    # 40 + 30 % of the warps wait in the queues; DRAM's 10 % stays.
    Example("atomic-contention", "by the waits in the queues", made(busy(dram=10, l2=50, sm=60), {SHARED_ATOMICS: 40.0},
            stalls(mio_throttle=40, short_scoreboard=30)), of_time(0.7), "high", "measured", "40 %", (SHARED_ATOMICS,)),
)  # fmt: skip

DIVIDES: Histograms = {WARP_OPCODES: {"DFMA": 70.0, "DMUL": 20.0, "DADD": 10.0, "MUFU.RCP64H": 5.0}}
"""Each of 5 reciprocals goes with 7 instructions: 35 of 100 are divisions."""
FP32_HALF = operations(ffma=3.456e9, fadd=0, fmul=0)
"""2 · 3.456e9 FLOP in 1 ms of 13.824 TFLOP/s: half of the FP32 peak."""
FP64_FIFTH = operations(dfma=0.6912e9, dadd=0, dmul=0)
"""2 · 0.6912e9 FLOP in 1 ms of 6.912 TFLOP/s: a fifth of the FP64 peak."""

FP32_MOST = operations(ffma=5.184e9, fadd=0, fmul=0)
"""2 · 5.184e9 FLOP in 1 ms of 13.824 TFLOP/s: three quarters of the FP32 peak."""

COMPUTE = (
    # FP32 is twice as fast on an A100: 80 % become 40 %, more than DRAM's 30 %.
    Example("fp64-bound", "pipe full", made(busy(dram=30), pipes(fp64=80)), 0.60, "high", "inferred", "80 %",
            (pipe_metric("fp64"),)),
    # 65 of 100 instructions are no divisions: 80 % · 65 % ÷ 2 = 26 %; DRAM's 30 % is more.
    Example("fp64-bound", "by divisions", made(busy(dram=30), pipes(fp64=80), histograms=DIVIDES), 0.70, "high",
            "inferred", "35 %", (pipe_metric("fp64"),)),
    # All of the 20 % at most; the pipe is not full, so it is a remark.
    Example("fp64-bound", "of its peak", made(lasting(), FP64_FIFTH), 0.20, "info", "inferred", "20 %",
            tuple(FP64_FIFTH)),
    Example("fp32-compute-bound", "near its ceiling", made(busy(sm=85), pipes(fma=85), lasting(), FP32_MOST), 0.15,
            "info", "measured", "10.4 TFLOP/s", (pipe_metric("fma"),)),
    # Half of the peak in a pipe that is 85 % busy: something else fills it, so no roof is reported.
    Example("fp32-compute-bound", "full of little work", made(busy(sm=85), pipes(fma=85), lasting(), FP32_HALF), 0.15,
            "medium", "measured", "6.91 TFLOP/s"),
    # A full ALU is no roof: DRAM's 40 % stay.
    Example("integer-bound", "full", made(busy(sm=95, dram=40), pipes(alu=95)), 0.60, "high", "measured", "95 %",
            (pipe_metric("alu"),)),
    # 60 of 100 on the FMA pipe are IMAD: the other 40 % of 75 % stay.
    Example("integer-bound", "IMAD", made(busy(sm=75), pipes(fma=75),
            histograms={WARP_OPCODES: {"IMAD.WIDE": 40.0, "IMAD": 20.0, "FFMA": 40.0}}), 0.70, "high", "inferred",
            "75 %", (pipe_metric("fma"), WARP_OPCODES)),
    # 70 % of the issue slots in all cycles, no pipe above 40 %: the same instructions leave 30 %.
    Example("issue-bound", "of the slots", made(busy(sm=70, dram=20), issued(70),
            pipes(alu=30, fma=40, xu=5, fp64=0, tensor=0),
            {"sm__cycles_active.avg": 1e6, "sm__cycles_elapsed.max": 1e6}), 0.30, "high", "measured", "70 %",
            ("smsp__issue_active.avg.per_cycle_active",)),
    Example("issue-bound", "of a pipe for constants", made(busy(sm=65, dram=20), pipes(adu=65, alu=30)), 0.35, "high",
            "measured", "ADU pipe 65 %", (pipe_metric("adu"),)),
    Example("issue-bound", "without pipes", made(busy(sm=70, dram=20)), 0.30, "low", "guess", "SM 70 %"),
    Example("special-function-bound", "full", made(busy(dram=20), pipes(xu=95, alu=30)), 0.70, "high", "measured",
            "95 %", (pipe_metric("xu"),)),
    Example("tensor-compute-bound", "near its ceiling", made(pipes(tensor=90)), 0.10, "info", "measured", "90 %",
            (pipe_metric("tensor"),)),
    # In TF32 tensor cores would take 50 % · 128 ÷ 1024 = 6.25 %; DRAM's 20 % stay.
    Example("tensor-cores-idle", "a product by name",
            made(busy(dram=20), pipes(tensor=0), lasting(), FP32_HALF, name="my_gemm"), 0.80, "high", "inferred",
            "50 %", (pipe_metric("tensor"), next(iter(FP32_HALF)))),
    # The opcodes say that no matrix instruction ran.
    Example("tensor-cores-idle", "by opcodes", made(lasting(), FP32_HALF, name="my_gemm",
            histograms={WARP_OPCODES: {"FFMA": 89.0, "STG.E": 1.0, "HFMA2.MMA": 10.0}}), 0.9375, "high", "inferred",
            "50 %", (WARP_OPCODES,)),
    # Two BF16 values a load; tensor cores need 30 % of the time.
    Example("unaligned-product", "by its name", made(busy(dram=20, l2=10, l1=80), pipes(tensor=30),
            name="void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_256x128_64x3_tn_align2>(P)"), 0.70,
            "high", "inferred", "4 B instead of 16 B"),
    # 10 of 100 are multiplications that an addition could take in, of a pipe that is 80 % busy.
    Example("non-fused-fp", "FP32", made(pipes(fma=80), operations(ffma=60, fadd=30, fmul=10)), 0.08, "low",
            "guess", "40 %", tuple(operations(ffma=0, fadd=0, fmul=0))),
    # 40 of 100 find a partner: 40 % of 70 %.
    Example("non-fused-fp", "FP64", made(pipes(fp64=70), operations(dfma=0, dadd=60, dmul=40)), 0.28, "high",
            "inferred", "100 %", tuple(operations(dfma=0, dadd=0, dmul=0))),
)  # fmt: skip

LAUNCH = (
    # 27 blocks on 108 SMs.
    Example("small-grid", "by SMs", made({WAVES: 0.125}, grid=(27, 1, 1)), 0.75, "high", "measured",
            "27 blocks"),
    # Every SM has a block. No counter shows whether its few warps wait.
    Example("small-grid", "by waves", made({WAVES: 0.4}, grid=(200, 1, 1)), 0.60, "low", "guess", "40 %", (WAVES,)),
    # 0.4 waves of a quarter of the warps: 128 registers leave 16 of 64. Smaller tiles fill SMs that are idle.
    Example("small-grid", "by waves of large tiles", made({WAVES: 0.4, REGISTERS: 128.0}, busy(sm=5),
            grid=(200, 1, 1)), 0.90, "high", "inferred", "40 %", (WAVES,)),
    # 40 % of the issue slots used, and no unit more than half busy.
    Example("small-grid", "of idle SMs",
            made({WAVES: 0.7}, issued(40), busy(sm=50), grid=(200, 1, 1)), 0.30, "high", "inferred", "70 %", (WAVES,)),
    # 64 registers for 1024 threads are the whole register file: a second block does not fit.
    Example("barrier-wait", "one block an SM", made({REGISTERS: 64.0}, stalls(barrier=15), issued(40), busy(sm=50),
            block=(1024, 1, 1)), 0.15, "medium", "measured", "15 %", (stall_metric("barrier"),)),
    # 1 − 1.6 ÷ 2 = 0.2; the SMs idle for 150 of 1000 cycles only.
    Example("tail-effect", "1.6 waves with SMs at work",
            made({WAVES: 1.6, "sm__cycles_active.avg": 850.0, "sm__cycles_elapsed.max": 1000.0}), 0.15, "medium",
            "inferred", "last of 2 waves", (WAVES,)),
    # 1 − 2.2 ÷ 3
    Example("tail-effect", "2.2 waves", made({WAVES: 2.2}), 0.8 / 3, "high", "inferred", "20 %", (WAVES,)),
    # 1 − 700 ÷ 1000; the busiest works 1000 ÷ 700 − 1 longer.
    Example("load-imbalance", "of SMs", made({"sm__cycles_active.max": 1000.0, "sm__cycles_active.avg": 700.0}), 0.30,
            "high", "measured", "43 %", ("sm__cycles_active.max", "sm__cycles_active.avg")),
    # 700 of 1000 cycles, and a launch takes 3 of 100 µs at most.
    Example("load-imbalance", "of an average SM alone", made({"sm__cycles_active.avg": 700.0,
            "sm__cycles_elapsed.max": 1000.0}, lasting(1e-4)), 0.27, "high", "inferred", "30 %",
            ("sm__cycles_active.avg", DURATION)),
    # 100 000 cycles, 4 blocks of 8 warps held of 64 a SM runs: one lives for 6 250 cycles. 1 − 32 ÷ 64
    Example("load-imbalance", "of long blocks", made({REGISTERS: 32.0, ACTIVE: 50.0, WAVES: 8.0,
            "sm__cycles_active.avg": 1e5}, grid=(6912, 1, 1)), 0.50, "low", "guess", "50 %", (ACTIVE, WAVES)),
    # A tenth of the cycles: one lives for 625. SMs work for 80 % of the time, and half of their places are empty.
    Example("short-blocks", "half of the places", made({REGISTERS: 32.0, ACTIVE: 50.0, WAVES: 8.0,
            "sm__cycles_active.avg": 1e4, "sm__cycles_elapsed.max": 1.25e4}, busy(sm=20), grid=(6912, 1, 1)), 0.40,
            "high", "inferred", "625 cycles", (REGISTERS, ACTIVE, WAVES)),
    # DRAM leaves 10 %.
    Example("short-blocks", "at DRAM's roof", made({REGISTERS: 32.0, ACTIVE: 50.0, WAVES: 8.0,
            "sm__cycles_active.avg": 1e4}, busy(dram=90), grid=(6912, 1, 1)), 0.10, "info", "guess",
            "50 %", (REGISTERS, ACTIVE, WAVES, "sm__cycles_active.avg")),
    # 40 threads take two warps, so that 24 of 64 lanes are empty.
    Example("block-size", "of 40 threads", made(busy(sm=30), block=(40, 1, 1)), 0.375, "high", "measured",
            "20 of 32", ()),
    # The last warps do little, so that 28 of 32 lanes are active on average.
    Example("block-size", "of 40 threads with short last warps", made(busy(sm=30), {THREADS: 28.0}, block=(40, 1, 1)),
            0.125, "medium", "measured", "20 of 32", ()),
    # Full lanes leave DRAM 70 % busy.
    Example("block-size", "of one thread behind DRAM", made(busy(dram=70, sm=30), block=(1, 1, 1)), 0.30, "high",
            "measured", "1 of 32", ()),
    # 32 blocks of a warp are half of 64 warps. More of them wait as these do, for 80 % of the time.
    Example("block-size", "of one warp", made({REGISTERS: 32.0, ACTIVE: 48.0, WAVES: 8.0}, busy(sm=20), issued(20),
            stalls(long_scoreboard=80), block=(32, 1, 1)), 0.50, "high", "inferred",
            "50 %", (REGISTERS, *busy(sm=0))),
    # 1 − 30 ÷ 50
    Example("load-imbalance", "of warps", made(HALF_OCCUPANCY, {ACTIVE: 30.0, WAVES: 8.0}), 0.40, "low", "guess",
            "30 %", (REGISTERS, ACTIVE, WAVES)),
    # Half of the warps are missing; 60 % of the issue slots and of the SM are idle, and 60 % of the warps wait.
    Example("low-occupancy", "starved", made(HALF_OCCUPANCY, {WAVES: 8.0}, issued(40), busy(sm=40), stalls(wait=60),
            {"smsp__warps_eligible.avg.per_cycle_active": 0.5}), 0.50, "high", "inferred", "50 %", (REGISTERS,)),
    # A launch takes 1 µs at least. Half of the way from 3 to 5 µs, half of it counts.
    Example("short-kernel", "4 µs", made(lasting(4e-6)), 0.25, "medium", "inferred", "4.00 µs", (DURATION,)),
)  # fmt: skip

LATENCY = (
    # 40 + 5 % of the warps wait; DRAM is full after another 50 %, and 70 % of the issue slots are idle.
    Example("memory-latency", "long scoreboard", made(stalls(long_scoreboard=40, lg_throttle=5), issued(30),
            busy(dram=50)), 0.45, "high", "inferred", "45 %", (stall_metric("long_scoreboard"),)),
    # DRAM is full before the wait is gone: bandwidth explains it, so it is a remark.
    Example("memory-latency", "near DRAM's roof", made(stalls(long_scoreboard=60), issued(30), busy(dram=85)), 0.15,
            "info", "inferred", "60 %", (stall_metric("long_scoreboard"),)),
    # 60 % of the slots are used: the other 40 % are all that can be gained.
    Example("dependency-latency", "wait", made(stalls(wait=50), issued(60), busy(sm=55)), 0.40, "high", "inferred",
            "50 %", (stall_metric("wait"),)),
    Example("barrier-wait", "barrier", made(stalls(barrier=25), issued(30)), 0.25, "high", "measured", "25 %",
            (stall_metric("barrier"),)),
    # 15 + 7 %
    Example("instruction-fetch", "both reasons", made(stalls(no_instruction=15, branch_resolving=7), issued(30)), 0.22,
            "high", "inferred", "22 %", (stall_metric("no_instruction"), stall_metric("branch_resolving"))),
    # 25 % of 1 ms, but for the 1 µs of its launch
    Example("constant-miss", "long kernel", made(stalls(imc_miss=25), issued(30), lasting()), 0.25 * 0.999, "high",
            "inferred", "25 %", (stall_metric("imc_miss"),)),
    # 25 % of 20 µs are 5 µs; a first wave of 64 warps waits for that of the 25.6 warps that are there on average: 2 µs.
    Example("constant-miss", "of the first wave", made(stalls(imc_miss=25), issued(30), lasting(20e-6),
            {REGISTERS: 32.0, ACTIVE: 40.0, WAVES: 8.0}), 0.25 * 0.95, "info", "inferred", "25 %",
            (stall_metric("imc_miss"),)),
    # 16 of 32 threads; 70 % of memory is free.
    Example("branch-divergence", "half a warp", made({THREADS: 16.0}, busy(dram=30)), 0.50, "high", "measured",
            "16 of 32", (THREADS,)),
    # Memory stays 60 % busy.
    Example("branch-divergence", "with memory behind it", made({"derived__avg_thread_executed": 8.0}, busy(dram=60)),
            0.40, "high", "measured", "8 of 32", ("derived__avg_thread_executed",)),
    # In 40 % of their time the warps wait for that.
    Example("latency-bound", "with a stall",
            made(busy(sm=20, dram=30, memory=30), stalls(short_scoreboard=40), issued(10), {WAVES: 8.0, ACTIVE: 90.0}),
            0.40, "high", "inferred", "40 %"),
    Example("latency-bound", "without stalls", made(busy(sm=30, memory=10)), 0.70, "low", "guess", "30 %",
            (*busy(sm=0, memory=0),)),
)  # fmt: skip

UNOPTIMISED: Histograms = {WARP_OPCODES: {"MOV": 40, "LD.E": 8, "ST.E": 2, "FFMA": 10, "IADD3": 40}}
# 66 million instructions of 4096 FLOP in 1 ms: half of what wgmma does on 132 SMs, 4096 FLOP a clock, at 1 GHz.
MMA_SYNC: Histograms = {WARP_OPCODES: {"HMMA.16816.F32.BF16": 66e6, "LDSM.16.M88.4": 33e6}}
H100 = RecordedDevice(name="NVIDIA H100 80GB HBM3", compute_capability="9.0", sm_count=132)
# 256 threads store once, then 128, 64 … 1 of them in 8 steps: 511 stores at 9 barriers of 256 threads are 22 %.
TREE: Histograms = {
    THREAD_OPCODES: {"STS": 511.0, "LDS": 511.0, "BAR": 2304.0, "FADD": 255.0},
    WARP_OPCODES: {"STS": 20.0, "LDS": 40.0, "BAR.SYNC": 72.0, "FADD": 40.0, "ISETP": 300.0, "IMAD": 428.0},
}
GEMM_NAME = "void cutlass::Kernel<cutlass::gemm::kernel::Gemm<float>>(T1::Params)"
BUILD = (
    # A product that only copies into shared memory and leaves.
    Example("stores-nothing", "a product by name", made(busy(l2=6), lasting(), histograms={
            WARP_OPCODES: {"LDGSTS.E.BYPASS.128": 8_000, "IMAD.MOV.U32": 95_000, "EXIT": 424}}, name=GEMM_NAME), None,
            "high", "measured", "103",
            (WARP_OPCODES,)),
    # DRAM stays at 10 %; instructions, and with them the SM, go.
    Example("debug-build", "by opcodes", made(busy(dram=10, sm=60), lasting(), histograms=UNOPTIMISED), 0.90, "high",
            "inferred", "40 %", (WARP_OPCODES,)),
    # wgmma takes two thirds of the pipe's 75 %: 50 %, with DRAM at 20 % and L2 at 30 %.
    Example("old-architecture", "by opcodes", replace(made(busy(dram=20, l2=30), lasting(), pipes(tensor=75),
            histograms=MMA_SYNC), device=H100), 0.50, "high", "inferred", "wgmma",
            (WARP_OPCODES,)),
    # 30 % at barriers and 10 % for shared memory, while 80 % of the slots are idle.
    Example("reduction-tree", "by opcodes", made(busy(dram=20), stalls(barrier=30, short_scoreboard=10), issued(20),
            histograms=TREE, grid=(1, 1, 1)), 0.40, "low", "guess", "22 %",
            (THREAD_OPCODES, WARP_OPCODES, stall_metric("barrier"))),
)  # fmt: skip

EXAMPLES = (*BANDWIDTH, *ACCESS, *COMPUTE, *LAUNCH, *LATENCY, *BUILD)


class Judged(Protocol):
    """A launch that rules can be asked of."""

    def findings(self, rule: str) -> list[Finding]:
        """Return what that rule says of the launch."""


@dataclass(frozen=True, slots=True)
class On:
    """A launch on that product, which may have no spec."""

    launch: Made
    name: str | None
    capability: str | None
    sms: int | None

    def findings(self, rule: str) -> list[Finding]:
        device = RecordedDevice(name=self.name, compute_capability=self.capability, sm_count=self.sms)
        report = builders.report(self.launch.launch(), device=device)
        (kernel,) = worded(diagnose(analyse([report], builders.hardware_of, "9.9"))).kernels
        return of_rule(rule, kernel.findings)


@dataclass(frozen=True, slots=True)
class OfUnknownGpu:
    """A launch on some GPU of this compute capability: of 8.0 the smallest known one has 56 SMs (A30)."""

    launch: Made
    capability: str = "8.0"

    def findings(self, rule: str) -> list[Finding]:
        return of_rule(rule, self.all_findings())

    def all_findings(self) -> tuple[Finding, ...]:
        hardware = HardwareFinder()(RecordedDevice(compute_capability=self.capability))
        session = diagnose(analyse([builders.report(self.launch.launch())], lambda _: hardware, "1"))
        return worded(session).kernels[0].findings


def of_rule(rule: str, findings: Iterable[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.rule == rule]


def said(launch: Judged, rule: str) -> Finding:
    (finding,) = launch.findings(rule)
    return finding


# Rows of tables: a launch, a rule, and what the rule must say about it, or `None` if it must say nothing.


def says(
    why: str, launch: Judged, rule: str, gain: float | None, shows: str = "",
    evidence: Mapping[str, float] | None = None, remains: Mapping[str, float] | None = None, **attributes: str | None,
) -> ParameterSet:  # fmt: skip
    """A row whose rule speaks: with this gain, attributes of the finding, values of evidence and remaining needs.

    `shows` is a part of its headline; `cause` names the rule that explains it.
    """
    assert set(attributes) <= {"severity", "confidence", "kind", "cause"}
    expected: dict[str, Any] = {"gain": gain, "shows": shows, "evidence": evidence or {}, **attributes}
    if remains is not None:
        expected["remains"] = remains
    return pytest.param(launch, rule, expected, id=f"{why}: {rule}")


def silent(why: str, launch: Judged, *rules: str) -> ParameterSet:
    """A row whose rules have nothing to say."""
    return pytest.param(launch, rules, None, id=f"{why}: not {', '.join(rules)}")


def check_row(launch: Judged, rule: str | tuple[str, ...], expected: dict[str, Any] | None) -> None:
    """Compare what the rule of a row says with what it has to say."""
    if expected is None:
        told_of = [finding.headline for name in rule for finding in launch.findings(name)]
        assert told_of == [], told_of
        return
    assert isinstance(rule, str)
    finding = said(launch, rule)
    values = {item.metric: item.value for item in finding.evidence}
    actual = {
        "gain": finding.gain_kernel, "kind": finding.gain_kind, "severity": finding.severity,
        "confidence": finding.confidence, "cause": finding.cause and finding.cause.partition(".")[2],
        "shows": expected["shows"] if expected["shows"] in finding.headline else finding.headline,
        "evidence": {name: values.get(name) for name in expected["evidence"]},
        "remains": {item.unit: item.fraction for item in finding.remains},
    }  # fmt: skip
    wrong = {
        name: (actual[name], value)
        for name, value in expected.items()
        if actual[name] != (value if value is None or isinstance(value, str) else pytest.approx(value, rel=1e-3))
    }
    assert not wrong, f"{wrong}, each with what is expected"


# Launches that tests of several families start from.

ALWAYS_ACTIVE = {"sm__cycles_active.avg": 1e6, "sm__cycles_elapsed.max": 1e6}
ACTIVE_L1 = "l1tex__throughput.avg.pct_of_peak_sustained_active"
SECTORS_OF_LOADS = "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio"
CONFLICTS_OF = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{}.sum"
PASSES_OF = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{}.sum"


def moving(l2: float, dram: float) -> dict[str, float]:
    """Sectors of 32 bytes that L2 passes to the SMs, and that DRAM reads."""
    return {"lts__t_sectors_srcunit_tex.sum": l2, "dram__bytes_read.sum": 32 * dram, "dram__bytes_write.sum": 0.0}


def active_for(percent: float) -> dict[str, float]:
    """The share of the time in which an average SM has work."""
    return {"sm__cycles_active.avg": 1e4 * percent, "sm__cycles_elapsed.max": 1e6}


def half_full(cycles: float, dram: float = 50.0) -> Made:
    """Half of the warps, with 9 cycles in Long Scoreboard an instruction, so many instructions to a load."""
    counted: dict[str | int, float] = {"LDG.E": 1.0, "FFMA": cycles / 9}
    waits = {**stalls(long_scoreboard=90), "smsp__inst_issued.sum": cycles / 9, WAVES: 8.0}
    return made(
        HALF_OCCUPANCY, waits, issued(10), busy(dram=dram, sm=20, memory=50), histograms={WARP_OPCODES: counted}
    )


def waiting_for_loads(cycles: float, *bulk: str) -> Made:
    """A launch with DRAM 70 % busy: 9 cycles in Long Scoreboard an instruction, so many instructions to a load."""
    counted: dict[str | int, float] = {"LDG.E.64": 1.0, "FFMA": cycles / 9}
    counted.update((name, 1.0) for name in bulk)
    waits = {**stalls(long_scoreboard=90), "smsp__inst_issued.sum": cycles / 9}
    return made(busy(dram=70, l2=10), waits, histograms={WARP_OPCODES: counted})


def with_bit_work(percent: float) -> Made:
    """A launch whose ALU is full of integer instructions, that many of which change bits."""
    histograms: dict[str, dict[str | int, float]] = {
        WARP_OPCODES: {"LOP3.LUT": percent, "IADD3": 60 - percent, "IMAD": 40.0, "MOV": 50.0, "FFMA": 50.0}
    }
    return made(busy(sm=70), pipes(alu=70), histograms=histograms)
