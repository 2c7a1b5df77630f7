"""Every rule on launches made by hand: where it speaks, with which numbers, and where it keeps silent."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import pytest
from msgspec import structs

from gpuprof.diagnose import (
    access,
    access_shape,
    blocks,
    build,
    coalescing,
    compute,
    dram_latency,
    effects,
    far_memory,
    fp64,
    fusing,
    idle_lanes,
    latency,
    launch,
    limits,
    matrix,
    nvidia_messages,
    reduction,
)
from gpuprof.diagnose.case import EXECUTED, SAMPLES, WELL_USED, Case
from gpuprof.diagnose.diagnose import diagnose
from gpuprof.diagnose.needs import Saving
from gpuprof.diagnose.registry import RULES, rule_named
from gpuprof.diagnose.rule import HIGH, LOW, MEDIUM, RuleVerdict, Threshold, finding_of
from gpuprof.diagnose.told_work import work_of_peak
from gpuprof.diagnose.traffic import wavefronts_per_request
from gpuprof.hardware.device import RecordedDevice
from gpuprof.hardware.specs import THREAD_OPCODES, WARP_OPCODES, ComputeKey
from gpuprof.hardware_finder import HardwareFinder
from gpuprof.model.analyse import analyse
from gpuprof.model.ceilings import Hardware
from gpuprof.model.field_types import CONFIDENCES, SEVERITIES, Confidence
from gpuprof.model.occupancy import LIMITERS
from gpuprof.model.recorded import FixedDetails, ProfiledInstruction, RuleResult
from gpuprof.model.session import Evidence, Finding
from tests import builders
from tests.kernels import (
    CLOCK,
    DURATION,
    ISSUE,
    REGISTERS,
    WAVES,
    Histograms,
    Made,
    Program,
    busy,
    coded,
    counted_code,
    issued,
    lasting,
    made,
    operations,
    pipe_metric,
    pipes,
    session,
    stall_metric,
    stalls,
    told,
)
from tests.table import each_row

TOTAL = "memory_l2_theoretical_sectors_global"
EXCESS = "derived__memory_l2_theoretical_sectors_global_excessive"
IDEAL = "memory_l2_theoretical_sectors_global_ideal"
PER_SECTOR_LOAD = "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio"
PER_SECTOR_STORE = "smsp__sass_average_data_bytes_per_sector_mem_global_op_st.ratio"
PERCENT_PER_SECTOR = "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.pct"
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
GLOBAL_LOADS_RUN = "sass__inst_executed_global_loads"
GLOBAL_STORES_RUN = "sass__inst_executed_global_stores"
HOST = "lts__t_sectors_srcunit_tex_aperture_sysmem_lookup_miss.sum"
DEVICE = "lts__t_sectors_srcunit_tex_aperture_device_lookup_miss.sum"
HOST_FILLS = "lts__d_sectors_fill_sysmem.avg.pct_of_peak_sustained_elapsed"
DEVICE_FILLS = "lts__d_sectors_fill_device.avg.pct_of_peak_sustained_elapsed"
L2_ATOMICS = "lts__d_atomic_input_cycles_active.avg.pct_of_peak_sustained_elapsed"
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
"""Rules that read timelines; tests/test_timeline.py tries them."""
OF_SEVERAL = OF_RUN | {rule.id for rule in RULES if rule.of_launches}
"""Those and rules that compare launches; tests/test_across.py tries them."""
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
    # 70 % busy: 30 % of the time is left until DRAM is full.
    Example("dram-bandwidth", "busy", made(busy(dram=70, l2=40, l1=30, sm=20)), 0.30, "high", "measured", "70 %",
            (*busy(dram=0),)),
    # 1.35 GB in 1 ms.
    Example("dram-bandwidth", "near its ceiling", made(busy(dram=90, l2=40), lasting(), {"dram__bytes.sum": 1.35e9}),
            0.10, "info", "measured", "1.35 TB/s, 90 %", (*busy(dram=0),)),
    # DRAM stays at 30 %.
    Example("l2-bandwidth", "busy", made(busy(dram=30, l2=75, l1=50, sm=20)), 0.70, "high", "inferred", "75 %",
            (*busy(l2=0),)),
    # 2 · 2.7648e9 FLOP in 1 ms of 13.824 TFLOP/s: 40 % of the FP32 peak stays, more than DRAM's 30 %.
    Example("l2-bandwidth", "with arithmetic below it",
            made(busy(dram=30, l2=75, l1=50, sm=40), lasting(), operations(ffma=2.7648e9, fadd=0, fmul=0)),
            0.60, "high", "inferred", "75 %"),
    # L2 stays at 35 %.
    Example("l1-bandwidth", "busy", made(busy(dram=20, l2=35, l1=85)), 0.65, "high", "inferred", "85 %",
            (*busy(l1=0),)),
    # The basic set: memory is 70 % busy, and neither DRAM (10 %) nor L2 (30 %) explains it.
    Example("l1-bandwidth", "by memory as a whole", made(busy(memory=70, dram=10, l2=30, sm=30)), 0.70,
            "high", "inferred", "70 %", (*busy(memory=0),)),
    # 80 of 10: eight passes a request; the requests stay, and L2 at 30 %.
    Example("l1-bandwidth", "by its data pipe",
            made(busy(dram=10, l2=30), {WAVEFRONTS: 80.0, REQUESTS: 10.0}, SHARED_4K), 0.70, "high", "inferred",
            "80 % busy with global and shared accesses; 8 wavefronts per request", (WAVEFRONTS,)),
    # L2 needs 20 %; the other 30 % of the time are not those of shared memory.
    Example("shared-bandwidth", "busy", made(busy(dram=10, l2=20), {SHARED_BUSY: 70.0}), 0.70, "high", "inferred",
            "70 %", (SHARED_BUSY,)),
    # 300 of 1000 misses; DRAM stays 50 % busy.
    Example("host-memory-traffic", "a third of the misses", made(busy(dram=50), {HOST: 300.0, DEVICE: 700.0}),
            0.5, "high", "measured", "30 %", (HOST, DEVICE)),
    # 0.6 of 0.8 parts come from the host; 25 % of L1's requests stay.
    Example("host-memory-traffic", "by what L2 is filled with (basic set)",
            made(busy(dram=1, l2=2), {REQUESTS: 25.0, HOST_FILLS: 0.6, DEVICE_FILLS: 0.2}), 0.75, "high", "inferred",
            "75 %", (HOST_FILLS, DEVICE_FILLS)),
)  # fmt: skip

ACCESS = (
    # 600 of 1000 sectors; of DRAM's 50 % then only 20 % would stay.
    Example("uncoalesced-global", "by excess counters", made(busy(dram=50), {TOTAL: 1000.0, EXCESS: 600.0}),
            0.6, "high", "measured", "60 % of sectors are not needed (600 of 1\u202f000)", (TOTAL, EXCESS)),
    # 1000 − 700 of 1000.
    Example("uncoalesced-global", "by the ideal number", made(busy(dram=50), {TOTAL: 1000.0, IDEAL: 700.0}),
            0.3, "high", "measured", "30 %", (TOTAL, IDEAL)),
    # The FP64 pipe needs 85 % of the time, and memory next to nothing.
    Example("uncoalesced-global", "of a kernel full of arithmetic",
            made(busy(dram=2, l2=2), pipes(fp64=85), {TOTAL: 1000.0, EXCESS: 760.0}), 0.15, "medium", "measured",
            "76 %"),
    # 24 of 32 bytes for nothing.
    Example("uncoalesced-global", "by bytes per sector", made(busy(dram=40), {PER_SECTOR_LOAD: 8.0}),
            0.75, "low", "guess", "8 of 32 bytes per sector are used", (PER_SECTOR_LOAD,)),
    Example("uncoalesced-global", "by the percentage of a sector", made(busy(dram=40), {PERCENT_PER_SECTOR: 25.0}),
            0.75, "low", "guess", "8 of 32 bytes per sector are used", (PERCENT_PER_SECTOR,)),
    # 32 − 4 of 32 sectors.
    Example("uncoalesced-global", "by sectors per request",
            made(busy(dram=50), {LOAD_SECTORS: 3200.0, LOAD_REQUESTS: 100.0}), 0.875, "high", "inferred",
            "32 sectors per load request", (LOAD_SECTORS, LOAD_REQUESTS)),
    # 80 of 10: seven of eight passes; the requests' 10 % stay.
    Example("uncoalesced-global", "by passes through L1 (basic set)",
            made(busy(memory=80, dram=10, l2=20), {WAVEFRONTS: 80.0, REQUESTS: 10.0}, NO_SHARED),
            0.875, "high", "inferred", "8 L1 wavefronts", (WAVEFRONTS, REQUESTS)),
    # 600 of 1000, as the message says.
    Example("uncoalesced-global", "by NVIDIA's message",
            made(busy(dram=50), details=told("UncoalescedGlobalAccess", "This kernel has uncoalesced global accesses "
                 "resulting in a total of 600 excessive sectors (60% of the total 1000 sectors).")),
            0.6, "high", "measured", "60 % of sectors are not needed (600 of 1\u202f000)"),
    # 400 of 1000 × the pipe's 55 %.
    Example("shared-bank-conflict", "by excess wavefronts",
            made({SHARED_WAVES: 1000.0, SHARED_EXCESS: 400.0, SHARED_BUSY: 55.0}), 0.4 * of_time(0.55), "high",
            "measured", "40 % of wavefronts (400 of 1\u202f000)", (SHARED_WAVES, SHARED_EXCESS)),
    # 1000 − 700 of 1000 × 50 %.
    Example("shared-bank-conflict", "by the ideal number",
            made({SHARED_WAVES: 1000.0, f"{SHARED_WAVES}_ideal": 700.0, SHARED_BUSY: 50.0}), 0.3 * of_time(0.5),
            "medium", "measured", "30 % of wavefronts (300 of 1\u202f000)", (SHARED_WAVES, f"{SHARED_WAVES}_ideal")),
    # 300 of 1000 × L1's 40 %, whatever the warps wait for.
    Example("shared-bank-conflict", "by the hardware's count",
            made(busy(l1=40), {CONFLICTS: 300.0, SHARED_PASSES: 1000.0}, stalls(short_scoreboard=30, mio_throttle=20)),
            0.3 * of_time(0.4), "medium", "inferred", "30 % of wavefronts (300 of 1\u202f000)",
            (CONFLICTS, SHARED_PASSES)),
    # 200 of 1000 sectors.
    Example("local-memory-spill", "by sectors",
            made(busy(dram=60), {LOCAL_LOADS: 100.0, LOCAL_STORES: 100.0, LOAD_SECTORS: 500.0, STORE_SECTORS: 300.0}),
            0.2, "high", "measured", "20 %"),
    # 40 of 100 instructions.
    Example("local-memory-spill", "by instructions",
            made(busy(dram=60), {LOCAL_LOADS_RUN: 30.0, LOCAL_STORES_RUN: 10.0, GLOBAL_LOADS_RUN: 50.0,
                                 GLOBAL_STORES_RUN: 10.0}),
            0.4, "high", "measured", "40 %"),
    # 50 % of the accesses × 15 of 16 bytes' worth of them and 10 % × 14 of 16, × 40 % of the warps throttled.
    Example("narrow-access", "of a byte", made(busy(l1=20), stalls(lg_throttle=40), histograms={
            WARP_OPCODES: {"LDG.E.U8": 50.0, "STG.E.U16": 10.0, "LDG.E.128.CONSTANT": 40.0, "FFMA": 99.0}}),
            0.55625 * of_time(0.4), "high", "inferred", "60 %", (WARP_OPCODES,)),
    # 80 % × 12 of 16 × 50 %.
    Example("narrow-access", "of four bytes under pressure", made(busy(l1=20), stalls(lg_throttle=50), histograms={
            WARP_OPCODES: {"LDG.E": 80.0, "LDG.E.128": 20.0}}),
            0.6 * of_time(0.5), "high", "inferred", "80 %", (WARP_OPCODES, stall_metric("lg_throttle"))),
    # Where no waits were collected, the 50 % that the unit is busy.
    Example("atomic-contention", "at L2", made({L2_ATOMICS: 50.0}), 0.50, "high", "measured", "50 %", (L2_ATOMICS,)),
    Example("atomic-contention", "in shared memory", made({SHARED_ATOMICS: 40.0}), 0.40, "high", "measured", "40 %",
            (SHARED_ATOMICS,)),
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
    # Memory's 55 % stays, more than the 40 %.
    Example("fp64-bound", "with memory behind it", made(busy(dram=55), pipes(fp64=80)), 0.45, "high", "inferred",
            "80 %"),
    # 65 of 100 instructions are no divisions: 80 % · 65 % ÷ 2 = 26 %; DRAM's 30 % is more.
    Example("fp64-bound", "by divisions", made(busy(dram=30), pipes(fp64=80), histograms=DIVIDES), 0.70, "high",
            "inferred", "divisions and square roots: about 35 % of FP64 instructions", (pipe_metric("fp64"),)),
    # All of the 20 % at most; the pipe is not full, so it is a remark.
    Example("fp64-bound", "of its peak", made(lasting(), FP64_FIFTH), 0.20, "info", "inferred", "20 %",
            tuple(FP64_FIFTH)),
    # Until the pipe is full.
    Example("fp32-compute-bound", "busy", made(busy(sm=70, dram=20), pipes(fma=70, alu=20)), 0.30, "high", "measured",
            "70 %", (pipe_metric("fma"),)),
    # DRAM is full before the pipe.
    Example("fp32-compute-bound", "with DRAM busier", made(busy(sm=70, dram=85), pipes(fma=70, alu=20)), 0.15,
            "medium", "measured", "70 %"),
    Example("fp32-compute-bound", "near its ceiling", made(busy(sm=85), pipes(fma=85), lasting(), FP32_MOST), 0.15,
            "info", "measured", "85 % busy, 10.4 TFLOP/s", (pipe_metric("fma"),)),
    # Half of the peak in a pipe that is 85 % busy: something else fills it, and no roof is told.
    Example("fp32-compute-bound", "full of little work", made(busy(sm=85), pipes(fma=85), lasting(), FP32_HALF), 0.15,
            "medium", "measured", "85 % busy, 6.91 TFLOP/s"),
    # The FMA pipe's 30 % stay.
    Example("integer-bound", "ALU", made(busy(sm=70), pipes(alu=70, fma=30), lasting(),
            operations(ffma=2.0736e9, fadd=0, fmul=0)), 0.70, "high", "measured", "70 %", (pipe_metric("alu"),)),
    # A full ALU is no roof: DRAM's 40 % stay.
    Example("integer-bound", "full", made(busy(sm=95, dram=40), pipes(alu=95)), 0.60, "high", "measured", "95 %",
            (pipe_metric("alu"),)),
    # 60 of 100 on the FMA pipe are IMAD: the other 40 % of 75 % stay.
    Example("integer-bound", "IMAD", made(busy(sm=75), pipes(fma=75),
            histograms={WARP_OPCODES: {"IMAD.WIDE": 40.0, "IMAD": 20.0, "FFMA": 40.0}}), 0.70, "high", "inferred",
            "75 %", (pipe_metric("fma"), WARP_OPCODES)),
    # The ALU's 30 % and DRAM's 20 % stay.
    Example("special-function-bound", "busy", made(busy(dram=20), pipes(xu=65, alu=30)), 0.70, "high", "measured",
            "65 %", (pipe_metric("xu"),)),
    Example("special-function-bound", "full", made(busy(dram=20), pipes(xu=95, alu=30)), 0.70, "high", "measured",
            "95 %", (pipe_metric("xu"),)),
    Example("tensor-compute-bound", "busy", made(pipes(tensor=75)), 0.25, "high", "measured", "75 %",
            (pipe_metric("tensor"),)),
    Example("tensor-compute-bound", "near its ceiling", made(pipes(tensor=90)), 0.10, "info", "measured", "90 %",
            (pipe_metric("tensor"),)),
    # In TF32 tensor cores would take 50 % · 128 ÷ 1024 = 6.25 %; DRAM's 20 % stay.
    Example("tensor-cores-idle", "a product by name",
            made(busy(dram=20), pipes(tensor=0), lasting(), FP32_HALF, name="my_gemm"), 0.80, "high", "inferred",
            "50 %", (pipe_metric("tensor"), next(iter(FP32_HALF)))),
    # 50 % · 128 ÷ 1024 = 6.25 %.
    Example("tensor-cores-idle", "a product by its arithmetic", made(pipes(tensor=0), lasting(), FP32_HALF),
            0.9375, "low", "guess", "50 %", (CLOCK,)),
    # The opcodes say that no matrix instruction ran.
    Example("tensor-cores-idle", "by opcodes", made(lasting(), FP32_HALF, name="my_gemm",
            histograms={WARP_OPCODES: {"FFMA": 89.0, "STG.E": 1.0, "HFMA2.MMA": 10.0}}), 0.9375, "high", "inferred",
            "50 %", (WARP_OPCODES,)),
    # 10 of 100 are multiplications that an addition could take in, of a pipe that is 80 % busy.
    Example("non-fused-fp", "FP32", made(pipes(fma=80), operations(ffma=60, fadd=30, fmul=10)), 0.08, "low",
            "guess", "40 %", tuple(operations(ffma=0, fadd=0, fmul=0))),
    # 40 of 100 find a partner: 40 % of 70 %.
    Example("non-fused-fp", "FP64", made(pipes(fp64=70), operations(dfma=0, dadd=60, dmul=40)), 0.28, "high",
            "inferred", "100 %", tuple(operations(dfma=0, dadd=0, dmul=0))),
    # Half of 70 % would go, but DRAM's 75 % stay.
    Example("non-fused-fp", "with memory behind it", made(busy(dram=75), pipes(fp64=70),
            operations(dfma=0, dadd=50, dmul=50)), 0.25, "high", "inferred", "100 %"),
    # 90 of 150, as the message says, of a pipe that is 50 % busy.
    Example("non-fused-fp", "by NVIDIA's message", made(pipes(fp64=50), details=told(
            "FPInstructions", "This kernel executes 60 fused and 90 non-fused FP64 instructions.")),
            0.15, "low", "guess", "60 %"),
)  # fmt: skip

LAUNCH = (
    # 27 blocks on 108 SMs fill an eighth of the places for warps.
    Example("small-grid", "by SMs", made({WAVES: 0.125}, grid=(27, 1, 1)), 0.875, "high", "measured",
            "27 blocks for 108 SMs"),
    # No more than until the SM, at 40 %, is full.
    Example("small-grid", "by SMs, one of them busy", made({WAVES: 0.125}, busy(sm=40), grid=(27, 1, 1)), 0.60, "high",
            "measured", "27 blocks for 108 SMs"),
    Example("small-grid", "by waves", made({WAVES: 0.4}, grid=(200, 1, 1)), 0.60, "high", "measured", "40 %", (WAVES,)),
    # Half of an SM's warps are no small part of it.
    Example("small-grid", "by waves of half-filled SMs", made({WAVES: 0.4}, HALF_OCCUPANCY, grid=(200, 1, 1)), 0.60,
            "high", "measured", "40 %", (WAVES,)),
    # 0.4 waves of a quarter of the warps: 128 registers leave 16 of 64. Smaller tiles fill SMs that are idle.
    Example("small-grid", "by waves of large tiles", made({WAVES: 0.4, REGISTERS: 128.0}, busy(sm=5),
            grid=(200, 1, 1)), 0.90, "high", "measured", "40 %", (WAVES,)),
    # Whether they are, no launch tells: few warps of matrix instructions can fill an SM.
    Example("small-grid", "by waves of large tiles that only a launch tells of", made({WAVES: 0.4, REGISTERS: 128.0},
            grid=(200, 1, 1)), 0.60, "high", "measured", "40 %", (WAVES,)),
    Example("small-grid", "by more than half a wave", made({WAVES: 0.7}, grid=(200, 1, 1)), 0.30, "low", "guess",
            "70 %", (WAVES,)),
    # 40 % of the issue slots used, and no unit more than half busy.
    Example("small-grid", "by more than half a wave of idle SMs",
            made({WAVES: 0.7}, issued(40), busy(sm=50), grid=(200, 1, 1)), 0.30, "high", "inferred", "70 %", (WAVES,)),
    # 64 registers for 1024 threads are the whole register file: a second block does not fit.
    Example("barrier-wait", "one block an SM", made({REGISTERS: 64.0}, stalls(barrier=15), issued(40), busy(sm=50),
            block=(1024, 1, 1)), 0.15, "medium", "measured", "15 %", (stall_metric("barrier"),)),
    # 1 − 1.07 ÷ 2
    Example("tail-effect", "1.07 waves", made({WAVES: 1.07}), 0.465, "high", "inferred", "7.0 %", (WAVES,)),
    # 1 − 1.6 ÷ 2 = 0.2; the SMs idle for 150 of 1000 cycles only.
    Example("tail-effect", "1.6 waves with SMs at work",
            made({WAVES: 1.6, "sm__cycles_active.avg": 850.0, "sm__cycles_elapsed.max": 1000.0}), 0.15, "medium",
            "inferred", "1.6 waves", (WAVES,)),
    # 1 − 2.2 ÷ 3
    Example("tail-effect", "2.2 waves", made({WAVES: 2.2}), 0.8 / 3, "high", "inferred", "20 %", (WAVES,)),
    # 1 − 700 ÷ 1000; the busiest works 1000 ÷ 700 − 1 longer.
    Example("load-imbalance", "of SMs", made({"sm__cycles_active.max": 1000.0, "sm__cycles_active.avg": 700.0}), 0.30,
            "high", "measured", "43 %", ("sm__cycles_active.max", "sm__cycles_active.avg")),
    # 700 of 1000 cycles, and a launch takes 3 of 100 µs at most.
    Example("load-imbalance", "of an average SM alone", made({"sm__cycles_active.avg": 700.0,
            "sm__cycles_elapsed.max": 1000.0}, lasting(1e-4)), 0.27, "high", "inferred", "no work for 30 % of the time",
            ("sm__cycles_active.avg", DURATION)),
    # 100 000 cycles, 4 blocks of 8 warps held of 64 a SM runs: one lives for 6 250 cycles. 1 − 32 ÷ 64
    Example("load-imbalance", "of long blocks", made({REGISTERS: 32.0, ACTIVE: 50.0, WAVES: 8.0,
            "sm__cycles_active.avg": 1e5}, grid=(6912, 1, 1)), 0.50, "low", "guess", "50 %", (ACTIVE, WAVES)),
    # A tenth of the cycles: one lives for 625. SMs work for 80 % of the time, and half of their places are empty.
    Example("short-blocks", "half of the places", made({REGISTERS: 32.0, ACTIVE: 50.0, WAVES: 8.0,
            "sm__cycles_active.avg": 1e4, "sm__cycles_elapsed.max": 1.25e4}, busy(sm=20), grid=(6912, 1, 1)), 0.40,
            "high", "inferred", "625 cycles each", (REGISTERS, ACTIVE, WAVES)),
    # DRAM leaves 10 %.
    Example("short-blocks", "at DRAM's roof", made({REGISTERS: 32.0, ACTIVE: 50.0, WAVES: 8.0,
            "sm__cycles_active.avg": 1e4}, busy(dram=90), grid=(6912, 1, 1)), 0.10, "info", "guess",
            "50 % achieved occupancy, 100 % theoretical", (REGISTERS, ACTIVE, WAVES, "sm__cycles_active.avg")),
    # 40 threads take two warps, so that 24 of 64 lanes are empty.
    Example("block-size", "of 40 threads", made(busy(sm=30), block=(40, 1, 1)), 0.375, "high", "measured",
            "blocks of 40 threads fill 20 of 32 lanes", ()),
    # The last warps do little, so that 28 of 32 lanes are active on average.
    Example("block-size", "of 40 threads with short last warps", made(busy(sm=30), {THREADS: 28.0}, block=(40, 1, 1)),
            0.125, "medium", "measured", "20 of 32 lanes", ()),
    # Full lanes leave DRAM 70 % busy.
    Example("block-size", "of one thread behind DRAM", made(busy(dram=70, sm=30), block=(1, 1, 1)), 0.30, "high",
            "measured", "fill 1 of 32 lanes", ()),
    # 32 blocks of a warp are half of 64 warps. More of them wait as these do, for 80 % of the time.
    Example("block-size", "of one warp", made({REGISTERS: 32.0, ACTIVE: 48.0, WAVES: 8.0}, busy(sm=20), issued(20),
            stalls(long_scoreboard=80), block=(32, 1, 1)), 0.50, "high", "inferred",
            "the 32 blocks of 1 warp that an SM takes fill 50 % of its warp slots", (REGISTERS, *busy(sm=0))),
    # 17 of 32 lanes, and half of the warps: 1 − 17 ÷ 64
    Example("block-size", "of 17 threads", made({REGISTERS: 32.0, ACTIVE: 48.0, WAVES: 8.0}, busy(sm=20), issued(20),
            stalls(long_scoreboard=80), block=(17, 1, 1)), 47 / 64, "high", "inferred", "17 of 32 lanes", ()),
    # 1 − 30 ÷ 50
    Example("load-imbalance", "of warps", made(HALF_OCCUPANCY, {ACTIVE: 30.0, WAVES: 8.0}), 0.40, "low", "guess",
            "30 %", (REGISTERS, ACTIVE, WAVES)),
    # 1 − 1000 ÷ 1250, less than the 50 % in which L2 works.
    Example("load-imbalance", "of L2 slices", made(busy(l2=50), {"lts__cycles_active.max": 1250.0,
            "lts__cycles_active.avg": 1000.0}), 0.20, "medium", "inferred", "active 25 % longer",
            ("lts__cycles_active.max", "lts__cycles_active.avg")),
    # Half of the warps are missing; 60 % of the issue slots and of the SM are idle, and 60 % of the warps wait.
    Example("low-occupancy", "starved", made(HALF_OCCUPANCY, {WAVES: 8.0}, issued(40), busy(sm=40), stalls(wait=60),
            {"smsp__warps_eligible.avg.per_cycle_active": 0.5}), 0.50, "high", "inferred", "50 %", (REGISTERS,)),
    # 30 % of the issue slots are idle: the warps that are there use most of them.
    Example("low-occupancy", "not starved", made(HALF_OCCUPANCY, {WAVES: 8.0}, issued(70), busy(sm=40),
            stalls(wait=60)), 0.30, "info", "guess", "50 %", (REGISTERS,)),
    Example("low-occupancy", "of a grid under one wave", made(HALF_OCCUPANCY, {WAVES: 0.5}), 0.0, "info", "guess",
            "50 %", (REGISTERS,)),
    # A launch takes 1 µs at least; that of the second kernel 2.4 of its 4 µs, by the busiest SM.
    Example("short-kernel", "4 µs", made(lasting(4e-6)), 0.25, "high", "measured", "4.00 µs", (DURATION,)),
    Example("short-kernel", "mostly its launch", made(lasting(4e-6), {"sm__cycles_active.max": 2e3,
            "sm__cycles_elapsed.max": 5e3}), 0.60, "high", "measured", "4.00 µs",
            (DURATION,)),
)  # fmt: skip

LATENCY = (
    # 40 + 5 % of the warps wait; DRAM is full after another 50 %, and 70 % of the issue slots are idle.
    Example("memory-latency", "long scoreboard", made(stalls(long_scoreboard=40, lg_throttle=5), issued(30),
            busy(dram=50)), 0.45, "high", "inferred", "40 %", (stall_metric("long_scoreboard"),)),
    # DRAM is full before the wait is gone: bandwidth explains it, so it is a remark.
    Example("memory-latency", "near DRAM's roof", made(stalls(long_scoreboard=60), issued(30), busy(dram=85)), 0.15,
            "info", "inferred", "60 %", (stall_metric("long_scoreboard"),)),
    # 60 % of the slots are used: the other 40 % are all that can be gained.
    Example("dependency-latency", "wait", made(stalls(wait=50), issued(60), busy(sm=55)), 0.40, "high", "inferred",
            "50 %", (stall_metric("wait"),)),
    # The integer pipe needs 75 % of the time: 25 % are left, and the pipe is why they wait.
    Example("dependency-latency", "of a busy pipe", made(stalls(wait=50), issued(60), pipes(alu=75)), 0.25, "info",
            "inferred", "50 %", (stall_metric("wait"),)),
    Example("barrier-wait", "barrier", made(stalls(barrier=25), issued(30)), 0.25, "high", "measured", "25 %",
            (stall_metric("barrier"),)),
    # 15 + 10 %
    Example("barrier-wait", "with fences", made(stalls(barrier=15, membar=10), issued(30)), 0.25, "high", "measured",
            "25 %", (stall_metric("barrier"), stall_metric("membar"))),
    # 15 + 7 %
    Example("instruction-fetch", "both reasons", made(stalls(no_instruction=15, branch_resolving=7), issued(30)), 0.22,
            "high", "inferred", "22 %", (stall_metric("no_instruction"), stall_metric("branch_resolving"))),
    # 25 % of 8 µs are 2 µs: a few misses. SMs work for 7 of the 8 µs.
    Example("instruction-fetch", "at the start", made(stalls(no_instruction=25), issued(30), lasting(8e-6)), 0.21875,
            "info", "inferred", "25 %", (stall_metric("no_instruction"),)),
    # 25 % of 1 ms, but for the 1 µs of its launch
    Example("constant-miss", "long kernel", made(stalls(imc_miss=25), issued(30), lasting()), 0.25 * 0.999, "high",
            "inferred", "25 %", (stall_metric("imc_miss"),)),
    # 25 % of 20 µs are 5 µs; a first wave of 64 warps waits for that of the 25.6 warps that are there on average: 2 µs.
    Example("constant-miss", "of the first wave", made(stalls(imc_miss=25), issued(30), lasting(20e-6),
            {REGISTERS: 32.0, ACTIVE: 40.0, WAVES: 8.0}), 0.25 * 0.95, "info", "inferred", "25 %",
            (stall_metric("imc_miss"),)),
    # Its launch takes as long as the kernel, which explains the wait. SMs work for 1 of the 2 µs.
    Example("constant-miss", "short kernel", made(stalls(imc_miss=25), issued(30), lasting(2e-6)), 0.125, "info",
            "guess", "25 %", (stall_metric("imc_miss"),)),
    # 16 of 32 threads; 70 % of memory is free.
    Example("branch-divergence", "half a warp", made({THREADS: 16.0}, busy(dram=30)), 0.50, "high", "measured",
            "16 of 32 threads", (THREADS,)),
    # Memory stays 60 % busy.
    Example("branch-divergence", "with memory behind it", made({"derived__avg_thread_executed": 8.0}, busy(dram=60)),
            0.40, "high", "measured", "8 of 32 threads", ("derived__avg_thread_executed",)),
    # The pipe needs a quarter of its 90 %: 1 − 0.225 is more than the 75 % of the threads that are idle.
    Example("branch-divergence", "of a busy pipe", made({THREADS: 8.0}, busy(sm=90), pipes(fma=90)), 0.75, "high",
            "measured", "8 of 32 threads", (THREADS,)),
    # In 40 % of their time the warps wait for that.
    Example("latency-bound", "with a stall",
            made(busy(sm=20, dram=30, memory=30), stalls(short_scoreboard=40), issued(10)), 0.40, "high",
            "inferred", "30 % busy; 40 % of warp time in Short Scoreboard"),
    # 1 − 30 %
    Example("latency-bound", "with no stall above others",
            made(busy(sm=20, dram=30, memory=30), stalls(wait=20), issued(10)), 0.70, "high", "inferred", "30 % busy"),
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
            "high", "measured", "none of its 103 k instructions writes to global memory or multiplies",
            (WARP_OPCODES,)),
    # DRAM stays at 10 %; instructions, and with them the SM, go.
    Example("debug-build", "by opcodes", made(busy(dram=10, sm=60), lasting(), histograms=UNOPTIMISED), 0.90, "high",
            "inferred", "40 % of executed instructions", (WARP_OPCODES,)),
    # Half of the time is left with DRAM at 20 % and L2 at 30 %; 50 % ÷ 63 % of what mma.sync can do is 79 %.
    Example("old-architecture", "by work", replace(made(busy(dram=20, l2=30), lasting(), pipes(tensor=70),
            histograms=MMA_SYNC), device=H100), 0.50, "high", "inferred", "50 % of the rate of wgmma",
            (WARP_OPCODES,)),
    # 30 % at barriers and 10 % for shared memory, while 80 % of the slots are idle.
    Example("reduction-tree", "by opcodes", made(busy(dram=20), stalls(barrier=30, short_scoreboard=10), issued(20),
            histograms=TREE, grid=(1, 1, 1)), 0.40, "low", "guess", "22 % of threads",
            (THREAD_OPCODES, WARP_OPCODES, stall_metric("barrier"))),
)  # fmt: skip

EXAMPLES = (*BANDWIDTH, *ACCESS, *COMPUTE, *LAUNCH, *LATENCY, *BUILD)


def named(examples: Iterable[Example]) -> list[object]:
    return [pytest.param(example, id=f"{example.rule}: {example.what}") for example in examples]


def test_every_rule_has_an_example() -> None:
    assert {example.rule for example in EXAMPLES} == {rule.id for rule in RULES} - OF_SEVERAL


@each_row("example", named(EXAMPLES))
def test_a_rule_speaks_with_the_gain_worked_out_by_hand(example: Example) -> None:
    found = example.launch.finding(example.rule)
    assert found.gain_kernel == (pytest.approx(example.gain) if example.gain is not None else None)
    assert (found.severity, found.confidence) == (example.severity, example.confidence)


@each_row("example", named(EXAMPLES))
def test_a_headline_holds_its_number_with_the_unit(example: Example) -> None:
    headline = example.launch.finding(example.rule).headline
    assert example.says in headline
    assert re.search(
        r"\d[\d.\u202f]* ?(%|of 32 bytes|extra|L1 wavefronts|sectors|SMs?|block|waves|threads?|µs|k instructions)",
        headline,
    )


@each_row("example", named(EXAMPLES))
def test_why_and_advice_are_sentences(example: Example) -> None:
    found = example.launch.finding(example.rule)
    for text in (found.why, found.advice):
        assert len(text.split()) >= 4 and text[0] == text[0].upper() and text.endswith((".", ".)"))
        assert "  " not in text and "None" not in text and "nan" not in text
    assert not found.headline.endswith(".") and "None" not in found.headline


@each_row("example", named(EXAMPLES))
def test_evidence_names_its_metric_and_what_the_value_was_held_against(example: Example) -> None:
    found = example.launch.finding(example.rule)
    assert all(item.unit and item.meaning and math.isfinite(item.value) for item in found.evidence)
    assert any(item.metric for item in found.evidence), "nothing says where the numbers come from"
    assert any(item.threshold is not None for item in found.evidence), "nothing was held against a threshold"


@each_row("example", named(EXAMPLES))
def test_evidence_of_a_recorded_metric_has_its_recorded_value(example: Example) -> None:
    found = example.launch.finding(example.rule)
    for item in found.evidence:
        recorded = example.launch.values.get(item.metric)
        is_share = item.unit == "%" and "pct" not in item.metric
        if recorded is not None and not is_share:
            assert item.value == recorded


COMPUTED = ("launch__grid_size", "launch__block_size", REPORTED_OCCUPANCY, "rule ")
"""Told from the launch itself, computed from it, and NVIDIA's messages."""


@each_row("example", named(EXAMPLES))
def test_evidence_rests_on_what_was_recorded(example: Example) -> None:
    recorded = {*example.launch.values, *example.launch.histograms}
    for item in example.launch.finding(example.rule).evidence:
        for name in item.metric.split(" + "):
            alone = f"smsp__sass_thread_inst_executed_op_{name}_pred_on.sum"
            assert name == "" or name.startswith(COMPUTED) or {name, alone} & recorded


def busy_metric(unit: str) -> str:
    return next(iter(busy(**{unit: 0})))


@each_row(
    ("rule", "what", "metric", "value", "unit", "threshold"),
    [
        ("dram-bandwidth", "busy", busy_metric("dram"), 70, "%", limits.BUSY),
        ("dram-bandwidth", "near its ceiling", "", 1.35e12, "B/s", None),
        ("l2-bandwidth", "busy", busy_metric("l2"), 75, "%", limits.BUSY),
        ("l1-bandwidth", "busy", busy_metric("l1"), 85, "%", limits.BUSY),
        ("l1-bandwidth", "by its data pipe", WAVEFRONTS, 80, "%", limits.BUSY),
        ("l1-bandwidth", "by its data pipe", REQUESTS, 10, "%", None),
        ("shared-bandwidth", "busy", SHARED_BUSY, 70, "%", limits.BUSY),
        ("host-memory-traffic", "a third of the misses", HOST, 300, "sector", None),
        ("host-memory-traffic", "a third of the misses", "", 30, "%", limits.HOST_SHARE),
        ("host-memory-traffic", "by what L2 is filled with (basic set)", HOST_FILLS, 0.6, "%", limits.HOST_FILL),
        ("uncoalesced-global", "by the percentage of a sector", PERCENT_PER_SECTOR, 25, "%", None),
        ("uncoalesced-global", "by excess counters", EXCESS, 600, "sector", None),
        ("uncoalesced-global", "by excess counters", TOTAL, 1000, "sector", None),
        ("uncoalesced-global", "by excess counters", "", 60, "%", coalescing.EXCESS),
        ("uncoalesced-global", "by NVIDIA's message", "rule UncoalescedGlobalAccess", 600, "sector", None),
        ("uncoalesced-global", "by sectors per request", "", 32, "sector/request", None),
        ("uncoalesced-global", "by passes through L1 (basic set)", "", 8, "wavefront/request", limits.MANY_WAVEFRONTS),
        ("shared-bank-conflict", "by excess wavefronts", SHARED_EXCESS, 400, "wavefront", None),
        ("shared-bank-conflict", "by excess wavefronts", "", 40, "%", access.CONFLICTS),
        ("shared-bank-conflict", "by the hardware's count", CONFLICTS, 300, "wavefront", None),
        ("shared-bank-conflict", "by the hardware's count", SHARED_PASSES, 1000, "wavefront", None),
        ("shared-bank-conflict", "by the hardware's count", stall_metric("mio_throttle"), 20, "%", None),
        ("local-memory-spill", "by sectors", LOCAL_LOADS, 100, "sector", None),
        ("local-memory-spill", "by sectors", "", 20, "%", access.SPILL),
        ("narrow-access", "of a byte", WARP_OPCODES, 60, "%", access.NARROW),
        ("narrow-access", "of four bytes under pressure", stall_metric("lg_throttle"), 50, "%", access.NARROW_PRESSURE),
        ("atomic-contention", "at L2", L2_ATOMICS, 50, "%", access.ATOMICS),
        ("fp64-bound", "pipe full", pipe_metric("fp64"), 80, "%", compute.PIPE_BUSY),
        ("fp64-bound", "of its peak", "", 20, "%", fp64.FP64),
        ("fp64-bound", "by divisions", WARP_OPCODES, 35, "%", None),
        ("fp32-compute-bound", "busy", pipe_metric("fma"), 70, "%", compute.PIPE_BUSY),
        ("tensor-cores-idle", "a product by name", "", 1600, "%", matrix.FASTER),
        ("non-fused-fp", "FP64", "", 0, "%", fusing.NEVER_FUSED),
        ("tensor-cores-idle", "a product by name", "", 50, "%", compute.FMA_WORK),
        ("tensor-cores-idle", "a product by name", pipe_metric("tensor"), 0, "%", None),
        ("non-fused-fp", "FP32", next(iter(FP32_HALF)), 60, "instruction", None),
        ("non-fused-fp", "FP32", "", 20, "%", fusing.NON_FUSED),
        ("non-fused-fp", "FP32", pipe_metric("fma"), 80, "%", None),
        ("small-grid", "by waves", WAVES, 0.4, "wave", launch.FULL_WAVE),
        ("uncoalesced-global", "by passes through L1 (basic set)", WAVEFRONTS, 80, "%", limits.BUSY),
        ("tail-effect", "2.2 waves", "", 100 / 3, "%", launch.TAIL_SHARE),
        ("block-size", "of 40 threads", "launch__block_size", 40, "thread", None),
        ("block-size", "of 40 threads", "", 37.5, "%", blocks.EMPTY_LANES),
        ("block-size", "of 40 threads with short last warps", THREADS, 28, "thread", None),
        ("block-size", "of one warp", REPORTED_OCCUPANCY, 50, "%", launch.FULL),
        ("block-size", "of one warp", ISSUE, 20, "%", launch.STARVED_ISSUE),
        ("short-blocks", "half of the places", "", 625, "cycle", blocks.SHORT_BLOCK),
        ("short-blocks", "half of the places", "", 50, "%", blocks.OCCUPANCY_GAP),
        ("load-imbalance", "of SMs", "", 30, "%", blocks.IMBALANCE),
        ("load-imbalance", "of warps", ACTIVE, 30, "%", None),
        ("load-imbalance", "of warps", REPORTED_OCCUPANCY, 50, "%", None),
        ("load-imbalance", "of warps", "", 20, "%", blocks.OCCUPANCY_GAP),
        ("load-imbalance", "of L2 slices", "", 25, "%", blocks.SLICES),
        ("load-imbalance", "of L2 slices", "", 50, "%", None),
        ("low-occupancy", "starved", REPORTED_OCCUPANCY, 50, "%", launch.FULL),
        ("low-occupancy", "starved", REGISTERS, 64, "register", None),
        ("low-occupancy", "starved", ISSUE, 40, "%", None),
        ("short-kernel", "4 µs", DURATION, 4e-6, "s", launch.SHORT),
        ("memory-latency", "long scoreboard", stall_metric("long_scoreboard"), 40, "%", latency.DOMINANT),
        ("memory-latency", "long scoreboard", ISSUE, 30, "%", latency.ISSUE),
        ("dependency-latency", "wait", stall_metric("wait"), 50, "%", latency.DOMINANT),
        ("barrier-wait", "barrier", stall_metric("barrier"), 25, "%", latency.NOTABLE),
        ("branch-divergence", "half a warp", THREADS, 16, "thread", idle_lanes.THREADS),
        ("latency-bound", "with a stall", "", 30, "%", latency.LATENCY_BOUND),
        ("latency-bound", "with a stall", stall_metric("short_scoreboard"), 40, "%", latency.DOMINANT),
    ],
)
def test_evidence_is_the_number_that_decides(
    rule: str, what: str, metric: str, value: float, unit: str, threshold: Threshold | None
) -> None:
    example = next(one for one in EXAMPLES if (one.rule, one.what) == (rule, what))
    evidence = [item for item in example.launch.finding(rule).evidence if math.isclose(item.value, value)]
    assert (metric, unit) in [(item.metric if metric else "", item.unit) for item in evidence]
    if threshold is not None:
        assert (unit, threshold.value) in [(item.unit, item.threshold) for item in evidence]


NEEDED = [
    pytest.param(example, need, id=f"{example.rule}: {example.what}: {need}")
    for example in EXAMPLES
    for need in example.needs
]


def test_every_rule_is_tried_without_what_it_looks_at() -> None:
    # The grid and local memory are tried below: their metrics are sums, or no metrics at all.
    assert {example.rule for example in EXAMPLES if example.needs} == {rule.id for rule in RULES} - {
        "local-memory-spill",
        *OF_SEVERAL,
    }


@each_row(("example", "need"), NEEDED)
def test_a_rule_is_silent_without_its_metric(example: Example, need: str) -> None:
    assert example.launch.findings(example.rule)
    # Waves also follow from the registers.
    left = example.launch.without(need, *((REGISTERS,) if need == WAVES else ())).findings(example.rule)
    # Without any pipe the busy SM is still told, as a guess.
    assert [found for found in left if found.confidence != "guess" or "not collected" not in found.headline] == []


def test_a_busy_sm_without_pipes_is_a_guess_that_says_what_to_collect() -> None:
    found = made(busy(sm=70, dram=20)).finding("integer-bound")
    assert (found.confidence, found.severity) == ("guess", "low") and found.gain_kernel == pytest.approx(0.3)
    assert (found.gain_kind, found.held) == ("fixed-work", "the same instructions")
    assert found.headline.startswith("Instruction throughput: "), "no FLOP was counted"
    assert "ComputeWorkloadAnalysis" in found.why
    assert made(busy(sm=59, dram=20)).findings("integer-bound") == []
    assert made(busy(sm=70, dram=80)).findings("integer-bound") == []
    assert made(busy(sm=70, memory=69)).findings("integer-bound") == [], "the load/store unit is part of the SM"
    assert made(busy(sm=70), lasting(), FP32_HALF).findings("integer-bound") == []
    assert made(busy(sm=70), lasting(), FP32_HALF).finding("fp32-compute-bound").confidence == "guess"


def test_a_launch_without_metrics_has_no_findings() -> None:
    assert made(grid=None, block=None).profile().findings == ()


@each_row("rule", [rule.id for rule in RULES])
def test_all_metrics_at_zero_are_no_defect(rule: str) -> None:
    # What ran has a duration, a clock, waves and warps: two waves of 8 blocks on 108 SMs.
    names = {name for example in EXAMPLES for name in example.launch.values} - {DURATION, CLOCK, WAVES, ACTIVE}
    zeros = made(dict.fromkeys(names, 0.0), lasting(), grid=(1728, 1, 1))
    assert zeros.findings(rule) == [] or rule == "latency-bound"


# A share needs both sides of it.


def test_half_of_the_counters_of_conflicts_are_no_conflicts() -> None:
    other = {CONFLICTS: 300.0, SHARED_PASSES: 1000.0}
    for half in ({SHARED_WAVES: 1000.0}, {SHARED_EXCESS: 400.0}):
        assert made(half).findings("shared-bank-conflict") == []
        assert made(half, other).finding("shared-bank-conflict").confidence == "inferred"


def test_local_sectors_without_global_ones_are_no_share() -> None:
    assert made(busy(dram=60), {LOCAL_LOADS: 100.0, LOCAL_STORES: 100.0}).findings("local-memory-spill") == []


def test_local_instructions_without_global_ones_are_no_share() -> None:
    assert made(busy(dram=60), {LOCAL_LOADS_RUN: 30.0, LOCAL_STORES_RUN: 10.0}).findings("local-memory-spill") == []


def test_global_sectors_without_local_ones_are_no_spill() -> None:
    assert made(busy(dram=60), {LOAD_SECTORS: 500.0, STORE_SECTORS: 300.0}).findings("local-memory-spill") == []


def test_a_kernel_that_only_touches_local_memory_spills_all_its_sectors() -> None:
    sectors = {LOCAL_LOADS: 100.0, LOCAL_STORES: 100.0, LOAD_SECTORS: 0.0, STORE_SECTORS: 0.0}
    assert made(busy(dram=60), sectors).finding("local-memory-spill").gain_kernel == pytest.approx(1.0)


def test_a_share_of_instructions_is_not_called_one_of_sectors() -> None:
    example = next(one for one in ACCESS if one.what == "by instructions")
    found = example.launch.finding("local-memory-spill")
    assert "sector" not in found.headline and "instruction" in found.headline
    assert LOCAL_LOADS_RUN in [item.metric for item in found.evidence]


@each_row(
    ("registers", "block", "full"),
    [
        (255.0, (256, 1, 1), True),
        (128.0, (256, 1, 1), False),
        (64.0, (1024, 1, 1), True),  # 65536 ÷ 1024
        (56.0, (1024, 1, 1), False),
    ],
)
def test_all_registers_in_use_are_told_as_the_cause_of_spills(
    registers: float, block: tuple[int, int, int], full: bool
) -> None:
    sectors = {LOCAL_LOADS: 100.0, LOCAL_STORES: 100.0, LOAD_SECTORS: 500.0, STORE_SECTORS: 300.0}
    found = made(busy(dram=60), sectors, {REGISTERS: registers}, block=block).finding("local-memory-spill")
    assert (f"All {registers:.0f} registers" in found.why) is full


# Coalescing: what counts exactly goes before what infers.


def test_counted_sectors_without_excess_are_coalesced_whatever_else_is_seen() -> None:
    # One thread of a warp stores 4 bytes: a sector of 32 is the least that this can take, so none is excess.
    scalar = made(busy(dram=50), {TOTAL: 1000.0, EXCESS: 0.0, PER_SECTOR_STORE: 4.0})
    assert scalar.findings("uncoalesced-global") == []


def test_sixteen_bytes_a_thread_take_four_passes_and_are_coalesced() -> None:
    wide = made(busy(memory=80, dram=10), {WAVEFRONTS: 80.0, REQUESTS: 20.0, TOTAL: 1000.0, EXCESS: 0.0}, NO_SHARED)
    assert wide.findings("uncoalesced-global") == []


def test_conflicts_of_shared_memory_are_not_taken_for_uncoalesced_access() -> None:
    passes = made(busy(memory=80, dram=10), {WAVEFRONTS: 80.0, REQUESTS: 10.0}, SHARED_4K)
    assert passes.findings("uncoalesced-global") == []


def test_many_passes_of_a_quiet_l1_are_no_finding() -> None:
    quiet = made(busy(memory=40, dram=10), {WAVEFRONTS: 40.0, REQUESTS: 5.0}, NO_SHARED)
    assert quiet.findings("uncoalesced-global") == [] and quiet.findings("l1-bandwidth") == []


def test_passes_of_a_kernel_whose_shared_memory_is_unknown_are_a_guess_at_most() -> None:
    found = made(busy(memory=80, dram=10), {WAVEFRONTS: 80.0, REQUESTS: 10.0}).findings("uncoalesced-global")
    assert found == [] or found[0].confidence == "guess"


def test_loads_and_stores_count_by_their_sectors() -> None:
    # 48 of 64 bytes where nothing tells how many there are of each; 3 · 32 + 1 · 16 of 4 · 32 where it does.
    used = made(busy(dram=40), {PER_SECTOR_LOAD: 32.0, PER_SECTOR_STORE: 16.0})
    assert used.finding("uncoalesced-global").gain_kernel == pytest.approx(0.25)
    counted = used.plus({LOAD_SECTORS: 300.0, STORE_SECTORS: 100.0}).finding("uncoalesced-global")
    assert "stores use 16 of 32 bytes" in counted.headline
    assert counted.gain_kernel == pytest.approx(0.125)


@each_row(("excess", "passes"), [(400.0, "1.67 times as many as needed"), (1000.0, "several wavefronts.")])
def test_conflicts_are_told_as_passes(excess: float, passes: str) -> None:
    # 1000 ÷ (1000 − 400)
    assert passes in made({SHARED_WAVES: 1000.0, SHARED_EXCESS: excess}).finding("shared-bank-conflict").why


def test_kernels_without_loads_have_no_unused_bytes() -> None:
    assert made(busy(dram=40), {PER_SECTOR_LOAD: 0.0, PER_SECTOR_STORE: 32.0}).findings("uncoalesced-global") == []


@each_row("sectors", [4.0, 8.0, 16.0])
def test_requests_of_four_to_sixteen_bytes_a_thread_are_coalesced(sectors: float) -> None:
    loads = {LOAD_SECTORS: 100 * sectors, LOAD_REQUESTS: 100.0}
    assert made(busy(dram=50), loads).findings("uncoalesced-global") == []


def test_only_a_text_export_is_read_for_its_messages() -> None:
    text = "total of 600 excessive sectors (60% of the total 1000 sectors)"
    assert made(busy(dram=50), details=told("OtherRule", text)).findings("uncoalesced-global") == []


def test_counters_go_before_the_message_about_the_same_thing() -> None:
    message = told("UncoalescedGlobalAccess", "total of 600 excessive sectors (60% of the total 1000 sectors)")
    found = made(busy(dram=50), {TOTAL: 1000.0, EXCESS: 200.0}, details=message).finding("uncoalesced-global")
    assert found.gain_kernel == pytest.approx(0.2)


def test_local_memory_is_told_by_nvidias_rule_where_it_was_not_counted() -> None:
    message = (
        "This workload accesses local memory (https://docs), accounting for 40.62% of all sectors requested in L1TEX."
    )
    found = made(details=told("MemoryLocalAccess", message)).finding("local-memory-spill")
    assert found.gain_kernel == pytest.approx(0.4062) and "41 % of sectors" in found.headline
    assert found.evidence[0].metric == "rule MemoryLocalAccess"


def test_nvidias_estimate_bounds_what_its_message_alone_tells_while_nothing_is_known_to_be_busy() -> None:
    local = "accesses local memory, accounting for 40.0% of all sectors requested in L1TEX."
    loads = (
        "The memory access pattern for global loads from L1TEX might not be optimal. On average, only 8.0 of the 32 "
        "bytes transmitted per sector are utilized by each thread."
    )

    def said(local_percent: float | None, loads_percent: float | None) -> FixedDetails:
        texts = (local, local_percent), (loads, loads_percent)
        return FixedDetails(tuple(
            RuleResult("", "", "optimization", title="", message=text, speedup_percent=gain, speedup_scope="global")
            for text, gain in texts
        ))  # fmt: skip

    both = made(details=said(30.0, 3.5))
    spills, unused = both.finding("local-memory-spill"), both.finding("uncoalesced-global")
    assert (spills.gain_kernel, spills.confidence, spills.held) == (0.3, "inferred", "what NVIDIA's rule assumes")
    assert (unused.gain_kernel, unused.confidence, unused.severity) == (0.035, "guess", "low")
    # Without an estimate a share of accesses is a guess of a cost, and local memory leaves 60 % to the loads' 75 %.
    open_ = made(details=said(None, None))
    spills, unused = open_.finding("local-memory-spill"), open_.finding("uncoalesced-global")
    assert spills.gain_kernel == pytest.approx(0.4) and spills.confidence == "guess"
    assert unused.gain_kernel == pytest.approx(0.75 * 0.6) and unused.gain_kind == "fixed-work"
    # How busy units are bounds better than what the rule assumes.
    known = made(busy(memory=95, dram=95, l2=50, l1=40), details=said(30.0, 3.5)).finding("local-memory-spill")
    assert known.gain_kernel == pytest.approx(0.4)


def test_conflicts_are_read_from_a_message_that_someone_has_shortened() -> None:
    text = "This results in 60 bank conflicts, 60.00% of the overall 100 wavefronts."
    told_of = made(details=told("", text)).finding("shared-bank-conflict")
    assert "60 % of wavefronts (60 of 100)" in told_of.headline


def test_numbers_of_a_message_may_have_groups_of_digits() -> None:
    message = told("UncoalescedGlobalAccess", "total of 6,000 excessive sectors (60% of the total 10,000 sectors)")
    assert made(details=message).finding("uncoalesced-global").gain_kernel == pytest.approx(0.6)


def test_a_wait_that_is_told_alone_leaves_open_what_else_warps_wait_for() -> None:
    barrier = told(
        "CPIStall", "being stalled waiting for sibling warps at a CTA barrier. This represents about 40.0% of"
    )
    values = ({TOTAL: 1000.0, EXCESS: 600.0}, busy(dram=15, l2=20, l1=10, sm=40))
    assert made(*values, details=barrier).finding("uncoalesced-global").gain_kernel == pytest.approx(0.6)


def test_requests_that_only_an_average_tells_of_are_judged_as_those_that_were_counted() -> None:
    name = "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio"
    found = made({name: 32.0}).finding("uncoalesced-global")
    assert found.headline == "Uncoalesced global access: 32 sectors per load request"
    assert found.gain_kernel == pytest.approx(1 - 4 / 32) and found.evidence[0].metric == name
    assert made({name: 16.0}).findings("uncoalesced-global") == []


def test_of_loads_and_stores_the_one_is_named_that_wastes_its_sectors() -> None:
    used = {what: f"smsp__sass_average_data_bytes_per_sector_mem_global_op_{what}.ratio" for what in ("ld", "st")}
    sectors = {
        f"l1tex__t_sectors_pipe_lsu_mem_global_op_{what}.sum": count for what, count in (("ld", 3e6), ("st", 1e6))
    }
    for load, store, text in (
        (32.0, 4.0, "stores use 4 of 32 bytes"),
        (12.0, 32.0, "loads use 12 of 32 bytes"),
        # (3 × 12 + 4) ÷ 4
        (12.0, 4.0, "10 of 32 bytes per sector are used"),
    ):
        found = made(sectors, {used["ld"]: load, used["st"]: store}).finding("uncoalesced-global")
        assert found.headline == f"Uncoalesced global access: {text}"


@each_row("unit", ["sm", "smsp"])
def test_conflicts_that_instrumentation_counts_by_kind_are_those_of_each_warp(unit: str) -> None:
    name = f"{unit}__sass_l1tex_data_bank_conflicts_pipe_lsu_mem_shared_op_ldsm.sum"
    # The hardware's counter of plain loads has none of those of matrix loads.
    plain = {"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum": 0.0}
    found = made(plain, {name: 864 * 8 * 256.0}).finding("shared-bank-conflict")
    assert "256 extra wavefronts per warp" in found.headline and found.evidence[0].metric == name
    assert made(plain, {name: 0.0}).findings("shared-bank-conflict") == []


def test_memory_that_nobody_waits_for_bounds_the_gain_of_coalescing() -> None:
    # 10 % of the warps wait for memory, and its busiest unit is 20 % busy: 60 % of that.
    values = (
        {TOTAL: 1000.0, EXCESS: 600.0},
        stalls(long_scoreboard=6, lg_throttle=4),
        busy(dram=15, l2=20, l1=10, sm=40),
    )
    assert made(*values).finding("uncoalesced-global").gain_kernel == pytest.approx(0.6 * of_time(0.2))


def test_without_any_sign_of_how_much_memory_costs_the_bound_is_the_excess() -> None:
    assert made({TOTAL: 1000.0, EXCESS: 600.0}).finding("uncoalesced-global").gain_kernel == pytest.approx(0.6)


def moving(l2: float, dram: float) -> dict[str, float]:
    """Sectors of 32 bytes that L2 passes to the SMs, and that DRAM reads."""
    return {"lts__t_sectors_srcunit_tex.sum": l2, "dram__bytes_read.sum": 32 * dram, "dram__bytes_write.sum": 0.0}


STREAM = made(busy(dram=89, l2=50, l1=33), {TOTAL: 4000.0, EXCESS: 3000.0}, lasting(), stalls(long_scoreboard=80))
"""Scalar accesses that move a quarter of what they fetch from L1."""


def test_an_excess_that_never_leaves_l1_relieves_nothing_below() -> None:
    # L2 and DRAM move the 1000 ideal sectors: DRAM's 89 % stay, unless the data itself is used in part.
    found = STREAM.plus(moving(1000, 1000)).finding("uncoalesced-global")
    assert found.gain_kernel == pytest.approx(0.11)
    assert (found.gain_kind, found.held) == ("fixed-work", "the same data through L2 and DRAM")
    assert "stays in L1" in found.why and "wide access" in found.action
    # What goes is no more than 3 of 4 parts of L1's third of the time.
    idle = STREAM.plus(moving(1000, 1000), busy(dram=40, l2=30, l1=33)).finding("uncoalesced-global")
    assert idle.gain_kernel == pytest.approx(0.75 * of_time(0.33) * 0.999)


def test_an_excess_that_dram_hardly_moves_gains_little_while_dram_is_the_limit() -> None:
    # Of 4000 sectors 400 are excess; L2 and DRAM move 3680, 80 more than the ideal 3600: 2.2 % of what is waited for.
    sectors = {TOTAL: 4000.0, EXCESS: 400.0}
    limited = made(busy(dram=75, l2=30, l1=20, memory=75), stalls(long_scoreboard=80, wait=20), sectors, lasting(),
                   moving(3680, 3680))  # fmt: skip
    found = limited.finding("uncoalesced-global")
    # L1 has a tenth of its 20 % too much, and nothing queues for it: a little more than DRAM's part.
    assert found.gain_kernel == pytest.approx(0.1 * of_time(0.2) * 0.999) and found.held is not None
    # What L1's queue holds up is more; so is all where no level below is the limit.
    queued = limited.without(*stalls(long_scoreboard=80, wait=20)).plus(stalls(lg_throttle=60, wait=40))
    assert queued.finding("uncoalesced-global").gain_kernel == pytest.approx(0.1 * of_time(0.6) * 0.999)
    waiting = limited.plus(busy(dram=40, memory=40)).finding("uncoalesced-global")
    assert waiting.gain_kernel == pytest.approx(0.1 * 0.999)


def test_an_excess_that_reaches_dram_goes_as_far_as_it_is_there() -> None:
    # All 4000 sectors come from DRAM: a quarter of its 89 % stays, and 3 of 4 parts are all that can go, but for 1 µs
    # of the 1 ms, which is the launch's.
    found = STREAM.plus(moving(4000, 4000)).finding("uncoalesced-global")
    assert found.gain_kernel == pytest.approx(0.75 * 0.999) and found.gain_kind == "bound"
    # Half of the excess: of 2500 sectors at most 2500 − 1000 go with the same data, 0.6 of DRAM's, which is the limit.
    half = STREAM.plus(moving(2500, 2500)).finding("uncoalesced-global")
    assert half.gain_kernel == pytest.approx(0.6 * 0.999) and half.gain_kind == "fixed-work"
    # Most of DRAM's bytes are others', or are fetched again: with the same data no more than 3000 of 30 000 sectors go.
    others = STREAM.plus(moving(30_000, 30_000)).finding("uncoalesced-global")
    assert others.gain_kernel == pytest.approx(1 - 0.89 * 0.9) and others.gain_kind == "fixed-work"


def test_dram_that_moves_the_excess_is_explained_by_it() -> None:
    for sectors, is_cause in ((4000, True), (1000, False)):
        dram = STREAM.plus(moving(sectors, sectors)).finding("dram-bandwidth")
        assert (dram.cause == "0.uncoalesced-global") is is_cause
        assert dram.severity == "info"


def test_a_word_that_all_threads_read_is_no_excess() -> None:
    # Four of 32 bytes, but a sector a request is the least that there is.
    loads = {PER_SECTOR_LOAD: 4.0, LOAD_SECTORS: 100.0, LOAD_REQUESTS: 100.0}
    assert made(busy(dram=50), loads).findings("uncoalesced-global") == []
    assert made(busy(dram=50), loads, {LOAD_SECTORS: 800.0}).finding("uncoalesced-global").gain_kernel == pytest.approx(
        0.875
    )


def test_bytes_of_a_sector_prove_no_excess_where_single_words_use_as_few() -> None:
    # A coalesced load uses 32 bytes of a sector, a word that all threads read 4: 18 on average.
    loads = {PER_SECTOR_LOAD: 18.0}
    alone = made(busy(dram=21, l2=18, l1=99), loads).finding("uncoalesced-global")
    assert (alone.confidence, alone.severity) == ("guess", "low") and "broadcast" in alone.why
    # L2 and DRAM are not kept busy by words that all threads read.
    assert made(busy(dram=70), loads).finding("uncoalesced-global").confidence == "inferred"
    ratio = "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio"
    for told_by in ({ratio: 8.0}, {LOAD_SECTORS: 800.0, LOAD_REQUESTS: 100.0}):
        found = made(busy(dram=21), loads, told_by).finding("uncoalesced-global")
        assert found.confidence == "measured" and "broadcast" not in found.why
    # A sector per request is the least that there is.
    assert made(busy(dram=21), loads, {ratio: 1.02}).finding("uncoalesced-global").gain_kernel == pytest.approx(
        1 - 1 / 1.02
    )


def test_l1_of_active_cycles_counts_for_the_time_that_the_sms_are_active() -> None:
    # 81 % of 90 % of the time; 40 of 5 are eight passes a request.
    values = {
        "l1tex__throughput.avg.pct_of_peak_sustained_active": 81.0, "sm__cycles_active.avg": 90.0,
        "sm__cycles_elapsed.max": 100.0, WAVEFRONTS: 40.0, REQUESTS: 5.0,
    }  # fmt: skip
    found = made(busy(dram=40, l2=40), values, NO_SHARED).finding("uncoalesced-global")
    assert "8 L1 wavefronts" in found.headline
    assert found.evidence[0].value == pytest.approx(72.9) and found.evidence[0].meaning == "L1 busy"
    # DRAM's and L2's 40 % may go with the excess too, as nothing tells their sectors; the requests' 5 % stay.
    assert found.gain_kernel == pytest.approx(0.875)


# Conflicts, spills, atomics: what stays.


def test_conflicts_leave_the_passes_that_are_none() -> None:
    # 90 − 0.4 · 80 = 58 % of L1's time stays.
    values = {SHARED_WAVES: 1000.0, SHARED_EXCESS: 400.0, SHARED_BUSY: 80.0, WAVEFRONTS: 90.0}
    found = made(busy(dram=20), values).finding("shared-bank-conflict")
    assert found.gain_kernel == pytest.approx(0.4)
    assert made(busy(dram=20), values, busy(sm=70)).finding("shared-bank-conflict").gain_kernel == pytest.approx(0.3)
    assert {item.unit: item.fraction for item in found.remains} == pytest.approx({"l1": 0.58, "dram": 0.2})


def test_conflicts_of_an_idle_pipe_cost_no_more_than_its_passes() -> None:
    # 42 % of the passes, and the pipe works 10 % of the time; 54 of 108 SMs have a block: 20 % there.
    values = {CONFLICTS: 420.0, SHARED_PASSES: 1000.0, SHARED_BUSY: 10.0}
    few = made(values, grid=(54, 1, 1)).finding("shared-bank-conflict")
    assert few.gain_kernel == pytest.approx(0.42 * of_time(0.2))
    cycles = {"sm__cycles_active.avg": 400.0, "sm__cycles_elapsed.max": 1000.0}
    active = made(values, cycles, grid=(54, 1, 1)).finding("shared-bank-conflict")
    assert active.gain_kernel == pytest.approx(0.42 * of_time(0.25))


def test_a_spill_leaves_the_bytes_that_are_not_its_own() -> None:
    sectors = {LOCAL_LOADS: 600.0, LOCAL_STORES: 200.0, LOAD_SECTORS: 100.0, STORE_SECTORS: 100.0}
    kernel = made(busy(dram=80, l2=60), pipes(fma=30), sectors, lasting(), moving(1000, 4000))
    # 800 of L2's 1000 sectors and of DRAM's 4000: 64 % of DRAM's time stays.
    found = kernel.finding("local-memory-spill")
    assert found.gain_kernel == pytest.approx(0.36) and found.gain_kind == "bound"
    # Of the loads 100 miss L1: 300 sectors of DRAM's 4000, and 74 % stay.
    missing = kernel.plus({"l1tex__t_sectors_pipe_lsu_mem_local_op_ld_lookup_miss.sum": 100.0})
    assert missing.finding("local-memory-spill").gain_kernel == pytest.approx(0.26)


SPILLING = ("STL [R1], R2", "LDG.E R4, [R2.64]", "LDL R6, [R1]", "@P0 BRA 0x60", "FADD R7, R6, R6", "EXIT",
            "FADD R8, R6, R6", "FADD R9, R4, R4", "EXIT")  # fmt: skip


def spilling(waits: tuple[float, ...], *sass: str) -> Made:
    """A tenth of the sectors, while warps wait for memory for most of the time; each instruction with its samples."""
    reason = "smsp__pcsamp_warps_issue_stalled_long_scoreboard"
    code = tuple(
        ProfiledInstruction(16 * place, text, None, None, {EXECUTED: 1.0, SAMPLES: samples, reason: samples})
        for place, (text, samples) in enumerate(zip(sass or SPILLING, waits, strict=True))
    )
    of_pc: dict[str | int, float] = {item.pc: item.counts[SAMPLES] for item in code}
    sectors = {LOCAL_LOADS: 60.0, LOCAL_STORES: 40.0, LOAD_SECTORS: 800.0, STORE_SECTORS: 100.0,
               "l1tex__t_sectors_pipe_lsu_mem_local_op_ld_lookup_miss.sum": 0.0}  # fmt: skip
    counts = {"sass__inst_executed_local_loads": 1.0, "sass__inst_executed_local_stores": 1.0,
              "smsp__inst_executed.sum": 100.0}  # fmt: skip
    return made(busy(dram=20, l2=20, l1=20, memory=20), issued(20), stalls(long_scoreboard=80, wait=20), sectors,
                counts, lasting(), moving(1000, 1000), histograms={SAMPLES: of_pc, reason: of_pc},
                details=Program(code))  # fmt: skip


def test_a_spill_gains_no_more_than_what_waits_for_it_by_the_code() -> None:
    # 10 % of the sectors, and all of the time in waits; but 6 of 100 samples are at the accesses or at their users.
    few = spilling((1, 50, 1, 0, 2, 0, 2, 44, 0)).finding("local-memory-spill")
    assert few.gain_kernel == pytest.approx(of_time(0.06), rel=0.01) and few.held == "the other stalls unchanged"
    # Of units: a tenth of L1 at 20 %.
    none = spilling((0, 50, 0, 0, 0, 0, 0, 50, 0)).finding("local-memory-spill")
    assert none.gain_kernel == pytest.approx(of_time(0.02), rel=0.01) and none.severity == "info"
    # Where they all wait for it, its share of the sectors tells no less than before.
    every = spilling((0, 0, 0, 0, 50, 0, 50, 0, 0)).finding("local-memory-spill")
    assert every.gain_kernel == pytest.approx(0.1, rel=0.01)


@each_row(("place", "text"), [(1, "LD.E R4, [R2.64]"), (3, "BRX R2 -0x60"), (3, "")])
def test_what_waits_for_a_spill_is_unknown_where_other_code_may_access_it(place: int, text: str) -> None:
    code = [text if number == place else sass for number, sass in enumerate(SPILLING)]
    found = spilling((1, 50, 1, 0, 2, 0, 2, 44, 0), *code).finding("local-memory-spill")
    assert found.gain_kernel == pytest.approx(0.1, rel=0.01)


def test_a_spill_that_fills_dram_explains_its_bandwidth() -> None:
    sectors = {LOCAL_LOADS: 600.0, LOCAL_STORES: 200.0, LOAD_SECTORS: 100.0, STORE_SECTORS: 100.0}
    dram = made(busy(dram=70, l2=60), sectors, lasting(), moving(1000, 800)).finding("dram-bandwidth")
    assert dram.cause == "0.local-memory-spill"


def test_atomics_in_loops_take_their_instructions_along() -> None:
    waits = stalls(long_scoreboard=90)
    plain = made(busy(dram=10, sm=60), {L2_ATOMICS: 50.0}, waits, histograms={WARP_OPCODES: {"RED.E.ADD": 5.0}})
    # All of the wait goes; the SM's speed of light goes with the load/store unit's.
    assert plain.plus(pipes(alu=40)).finding("atomic-contention").gain_kernel == pytest.approx(0.6)
    loops = replace(plain, histograms={WARP_OPCODES: {"ATOMG.E.CAS.STRONG.GPU": 5.0}}).plus(pipes(alu=40))
    assert loops.finding("atomic-contention").gain_kernel == pytest.approx(0.9)


# Widths of accesses.


def test_widths_are_read_from_opcodes() -> None:
    histogram: dict[str | int, float] = {
        "LDG.E.U8.CONSTANT": 1, "STG.E.S16": 2, "LDG.E": 4, "LD.E": 8, "LDG.E.64": 16, "@P0": 1000,
        "LDGSTS.E.BYPASS.LTC128B.128": 32, "STG.E.128": 64, "LDS.128": 1000, "STL.U8": 1000, "LDC.U8": 1000,
    }  # fmt: skip
    assert access.global_widths(histogram) == {1: 1, 2: 2, 4: 12, 8: 16, 16: 96}


def test_the_barrier_of_asynchronous_copies_moves_nothing() -> None:
    assert access.global_widths({"LDGDEPBAR": 100.0, "LDGSTS.E.BYPASS.128": 10.0}) == {16: 10}


def test_accesses_of_32_bytes_are_wide() -> None:
    assert access.global_widths({"LDG.E.ENL2.256.CONSTANT": 10.0}) == {32: 10}


def test_a_few_accesses_of_four_bytes_are_no_defect_under_pressure() -> None:
    few: Histograms = {WARP_OPCODES: {"LDG.E": 30.0, "LDG.E.128": 70.0}}
    assert made(stalls(lg_throttle=60), histograms=few).findings("narrow-access") == []


def test_narrow_accesses_of_unknown_pressure_do_not_gain_zero() -> None:
    found = made(histograms={WARP_OPCODES: {"LDG.E.U8": 10.0}}).finding("narrow-access")
    assert found.gain_kernel is None or found.gain_kernel > 0


# Arithmetic.


def test_divisions_are_named_only_where_they_are_much_of_it() -> None:
    few: Histograms = {WARP_OPCODES: {"DFMA": 97.0, "DADD": 3.0, "MUFU.RSQ64H": 3.0}}  # 3 · 7 of 100
    found = made(pipes(fp64=80), histograms=few).finding("fp64-bound")
    assert "division" not in found.headline + found.why + found.advice
    assert any(item.metric == WARP_OPCODES and item.value == pytest.approx(21) for item in found.evidence)


def test_divisions_are_no_more_than_all_of_the_arithmetic() -> None:
    many: Histograms = {WARP_OPCODES: {"DFMA": 100.0, "MUFU.RCP64H": 50.0}}  # 50 · 7 of 100
    assert "about 100 % of FP64 instructions" in made(pipes(fp64=80), histograms=many).finding("fp64-bound").headline


def test_divisions_get_their_own_advice() -> None:
    found = made(pipes(fp64=80), histograms=DIVIDES).finding("fp64-bound")
    assert "reciprocal" in found.advice and "division" in found.why
    assert "FP32 is 2 times as fast" in found.why


def at_lines(*code: tuple[str, int | None, float], machine_code: bytes = b"", gap_before: int = 0) -> Made:
    """A full FP64 pipe with divisions: its instructions with their lines and how often they run.

    From `gap_before` on they lie elsewhere: a function that is called comes first.
    """
    pcs = [16 * place + (4096 if place >= gap_before else 0) for place in range(len(code))]
    items = tuple(
        ProfiledInstruction(pc, sass, "flux.f90" if line else None, line, {EXECUTED: runs})
        for pc, (sass, line, runs) in zip(pcs, code, strict=True)
    )
    runs: Histograms = {EXECUTED: {item.pc: item.counts[EXECUTED] for item in items}, **DIVIDES}
    return made(pipes(fp64=80), histograms=runs, details=Program(items, machine=machine_code))


def test_divisions_are_where_they_run_and_not_where_most_fp64_is() -> None:
    code = (("DMUL R2, R4, R6", 288, 500.0), ("MUFU.RCP64H R7, R9", 295, 30.0), ("DFMA R8, R6, R4, R2", 295, 30.0),
            ("MUFU.RSQ64H R7, R9", 297, 10.0), ("MUFU.RCP64H R5, R7", None, 90.0))  # fmt: skip
    place = at_lines(*code).finding("fp64-bound").location
    # 30 of 40 that have a line: the slow path that all of them call has none.
    assert place is not None and place.line == 295 and place.share == pytest.approx(0.75)


def encoded(lower: int, upper: int = 0) -> bytes:
    return lower.to_bytes(8, "little") + upper.to_bytes(8, "little")


def test_divisions_are_found_by_their_encoding_where_the_report_has_no_text() -> None:
    # As nvdisasm reads them: DMUL, MUFU.RCP64H R7, R9, MUFU.RCP64H R13, 60, MUFU.RCP R5, R4, EXIT, NOP.
    code = b"".join((encoded(0x7228), encoded(0x900077308, 0x4E220000001800), encoded(0x404E0000000D7908, 0x1800),
                     encoded(0x400057308, 0x1000), encoded(0x794D), encoded(0x7918)))  # fmt: skip
    lines = (("", None, 900.0), ("", None, 900.0),  # a function that is called
             ("", 288, 500.0), ("", 295, 30.0), ("", 296, 10.0), ("", 280, 600.0), ("", 301, 5.0))  # fmt: skip
    place = at_lines(*lines, machine_code=code, gap_before=2).finding("fp64-bound").location
    assert place is not None and place.line == 295 and place.share == pytest.approx(0.75)
    # Which run of addresses the machine code is of is not certain.
    assert at_lines(*lines, machine_code=code[:64], gap_before=2).finding("fp64-bound").location is None


def test_integers_on_the_fma_pipe_are_not_called_fp32() -> None:
    example = next(one for one in COMPUTE if one.what == "IMAD")
    assert example.launch.findings("fp32-compute-bound") == []
    floating = replace(example.launch, histograms={WARP_OPCODES: {"IMAD": 40.0, "FFMA": 60.0}})
    assert floating.findings("integer-bound") == [] and floating.findings("fp32-compute-bound")


def test_a_throttled_pipe_speaks_only_while_issue_slots_are_idle() -> None:
    throttled = made(pipes(fma=45, alu=20), stalls(math_pipe_throttle=40))
    assert throttled.plus(issued(50)).findings("fp32-compute-bound")
    assert throttled.plus(issued(95)).findings("fp32-compute-bound") == []


def test_a_gain_of_fusing_is_unknown_where_the_pipe_is() -> None:
    found = made(operations(ffma=60, fadd=30, fmul=10)).finding("non-fused-fp")
    assert found.gain_kernel is None and found.severity == "info"


def test_without_the_pipe_the_gain_of_fusing_rests_on_the_peak() -> None:
    # 2 · 3 + 4 = 10 parts are 3.456e9 FLOP: a quarter of the peak of 1 ms, so the pipe is half full at most. 4 of 7
    # instructions stand alone.
    part = 3.456e8
    found = made(lasting(), operations(ffma=3 * part, fadd=2 * part, fmul=2 * part)).finding("non-fused-fp")
    assert found.gain_kernel == pytest.approx(4 / 7 / 2 * 0.5)


def test_tensor_instructions_are_no_idle_tensor_cores() -> None:
    assert made(pipes(tensor=20), lasting(), FP32_HALF).findings("tensor-cores-idle") == []
    few: Histograms = {WARP_OPCODES: {"FFMA": 90.0, "HMMA.16816.F32": 1.0}}
    assert made(pipes(tensor=0), lasting(), FP32_HALF, histograms=few).findings("tensor-cores-idle") == []


def on(name: str, capability: str, sms: int) -> Callable[[Made], list[Finding]]:
    """What the rules say of a launch on that product."""
    device = RecordedDevice(name=name, compute_capability=capability, sm_count=sms)
    report = builders.report

    def judged(launch: Made) -> list[Finding]:
        (kernel,) = diagnose(analyse([report(launch.launch(), device=device)], builders.hardware_of, "9.9")).kernels
        return list(kernel.findings)

    return judged


def of_rule(rule: str, findings: Iterable[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.rule == rule]


@each_row(
    ("name", "told"),
    [("NVIDIA GeForce RTX 2080 Ti", 1), ("Tesla T4", 1), ("Some RTX card", 1), ("NVIDIA GeForce GTX 1660 Ti", 0),
     ("NVIDIA GeForce GTX 1650", 0), ("NVIDIA T400", 0), ("", 0)],
)  # fmt: skip
def test_a_product_without_tensor_cores_has_none_that_are_idle(name: str, told: int) -> None:
    # 2 · 2.176e9 FLOP in 1 ms of 68 SMs · 128 · 1 GHz: half of the FP32 peak.
    launch = made(pipes(tensor=0), lasting(), operations(ffma=2.176e9, fadd=0, fmul=0), name="my_gemm")
    assert len(of_rule("tensor-cores-idle", on(name, "7.5", 68)(launch))) == told


@each_row(
    ("name", "capability", "sms", "ahead"),
    [("Tesla V100-SXM2-16GB", "7.0", 80, "(into registers)"), ("Tesla T4", "7.5", 40, "(into registers)"),
     ("NVIDIA A100-SXM4-40GB", "8.0", 108, "(cp.async; num_stages"), (H100.name, "9.0", 132, "(cp.async, TMA; num"),
     ("", "", 100, "(cp.async, TMA; num")],
)  # fmt: skip
def test_a_tile_is_fetched_ahead_by_what_the_gpu_has(name: str, capability: str, sms: int, ahead: str) -> None:
    launch = made(stalls(long_scoreboard=50), issued(20))
    (found,) = of_rule("memory-latency", on(name, capability, sms)(launch))
    assert ahead in found.advice


def test_tensor_cores_are_told_for_the_types_that_are_faster() -> None:
    # A10G: TF32 has FP32's rate, BF16 with sums in FP32 twice as much. 2 · 5.12e9 FLOP in 1 ms of 80 · 256 · 1 GHz is
    # half of the peak: tensor cores take a quarter of the time.
    launch = made(pipes(tensor=0), lasting(), operations(ffma=5.12e9, fadd=0, fmul=0), name="my_gemm")
    (finding,) = of_rule("tensor-cores-idle", on("NVIDIA A10G", "8.6", 80)(launch))
    assert finding.gain_kernel == pytest.approx(0.75)
    assert "2 times as much per cycle in BF16 or FP16" in finding.why and "TF32 is not faster" in finding.advice
    assert (finding.confidence, finding.action) == (
        "inferred",
        "Run the matrix multiplication on the tensor cores, with 16-bit inputs",
    )
    here = made(pipes(tensor=0), lasting(), FP32_HALF, name="my_gemm").finding("tensor-cores-idle")
    assert "8 times as much per cycle in TF32, 16 times in BF16 or FP16" in here.why


def test_half_of_the_tensor_pipe_is_the_roof_where_sums_in_fp32_have_half_of_the_rate() -> None:
    sums: dict[str | int, float] = {"HMMA.16816.F32.BF16": 100.0, "FFMA": 10.0}
    launch = made(pipes(tensor=48, alu=10), histograms={WARP_OPCODES: sums})
    (finding,) = of_rule("tensor-compute-bound", on("NVIDIA GeForce RTX 3090", "8.6", 82)(launch))
    assert finding.severity == "info" and "48 % busy of the 50 % possible with FP32 sums" in finding.headline
    assert finding.gain_kernel == pytest.approx(1 - 0.48 / 0.5)
    assert (finding.gain_kind, finding.held) == ("fixed-work", "the same instructions")
    assert launch.findings("tensor-compute-bound") == [], "an A100 sums in FP32 at the full rate"
    half = made(pipes(tensor=48, alu=10), histograms={WARP_OPCODES: {"HMMA.16816.F16": 100.0}})
    assert of_rule("tensor-compute-bound", on("NVIDIA GeForce RTX 3090", "8.6", 82)(half)) == []
    unknown = made(pipes(tensor=48, alu=10))
    assert of_rule("tensor-compute-bound", on("NVIDIA GeForce RTX 3090", "8.6", 82)(unknown)) == []


@each_row("what", ["busy", "near its ceiling", "full of little work"])
def test_a_full_pipe_saves_what_the_same_instructions_leave(what: str) -> None:
    example = next(example for example in COMPUTE if (example.rule, example.what) == ("fp32-compute-bound", what))
    finding = example.launch.finding("fp32-compute-bound")
    assert (finding.gain_kind, finding.held) == ("fixed-work", "the same instructions")


@each_row("rule", ["integer-bound", "special-function-bound"])
def test_a_full_pipe_of_what_can_be_avoided_is_no_roof(rule: str) -> None:
    example = next(example for example in COMPUTE if (example.rule, example.what) == (rule, "full"))
    finding = example.launch.finding(rule)
    assert finding.severity == "high" and "ceiling" not in finding.headline


def test_a_full_fma_pipe_is_a_roof_only_with_work_that_was_counted() -> None:
    full = made(busy(sm=95), pipes(fma=95))
    assert full.finding("fp32-compute-bound").severity != "info"
    assert (
        "only 35 % of the FP32 peak"
        in full.plus(lasting(), operations(ffma=0.35 * 6.912e9, fadd=0, fmul=0)).finding("fp32-compute-bound").why
    )


def test_integers_stay_out_of_the_bound_with_the_other_opcodes_in_the_issue_slots() -> None:
    # 60 of 100 instructions are integers: 40 % of the 80 % of issue slots stay, more than the FMA pipe's 20 %.
    cycles = {"sm__cycles_active.avg": 1000.0, "sm__cycles_elapsed.max": 1000.0}
    opcodes: Histograms = {WARP_OPCODES: {"IADD3": 40.0, "LOP3.LUT": 20.0, "FFMA": 30.0, "LDG.E": 10.0}}
    launch = made(busy(sm=80, dram=10), pipes(alu=75, fma=20), issued(80), cycles, histograms=opcodes)
    assert launch.finding("integer-bound").gain_kernel == pytest.approx(1 - 0.4 * 0.8)


def test_the_half_of_the_fma_pipe_that_multiplies_integers_tells_them_without_opcodes() -> None:
    # 2 · 45 − 85 = 5 % of the other half: no floating-point work.
    heavy = {"sm__pipe_fmaheavy_cycles_active.avg.pct_of_peak_sustained_elapsed": 85.0}
    judged = on("NVIDIA A10G", "8.6", 80)
    (finding,) = of_rule("integer-bound", judged(made(pipes(fma=45, alu=10), heavy)))
    assert "85 %" in finding.headline and "IMAD" in finding.headline
    # 2 · 80 − 85 = 75 %: both halves work, on floating point.
    both = judged(made(pipes(fma=80, alu=10), heavy))
    assert of_rule("integer-bound", both) == [] and len(of_rule("fp32-compute-bound", both)) == 1


def test_the_time_of_fp64_goes_with_the_instructions_of_its_functions() -> None:
    # ALU instructions of FP64 functions go, too; DRAM's 10 % and the load/store pipe's 25 % stay. With so few FP64
    # units FP32 takes 1/32 of the time.
    launch = made(busy(sm=80, dram=10), pipes(alu=80, fp64=76, lsu=25))
    (finding,) = of_rule("fp64-bound", on("NVIDIA GeForce RTX 2080 Ti", "7.5", 68)(launch))
    assert finding.gain_kernel == pytest.approx(0.75) and finding.gain_kind == "bound"
    assert "else at most 20 %" in finding.why


def test_actions_of_arithmetic_are_short_and_hold_no_number_of_the_kernel() -> None:
    for example in COMPUTE:
        action = example.launch.finding(example.rule).action
        assert action and len(action) <= 110 and not action.endswith(".")
        assert set(re.findall(r"\d+", action)) <= {"16", "32", "64"}


def test_a_pipe_without_others_to_compare_is_the_busiest() -> None:
    throttled = made(pipes(xu=45), stalls(math_pipe_throttle=40), issued(30))
    assert throttled.findings("special-function-bound")
    assert throttled.plus(pipes(fma=50)).findings("special-function-bound") == []


# Limits.


def test_only_the_busiest_memory_level_is_the_limit() -> None:
    rules = {finding.rule for finding in made(busy(dram=50, l2=80, l1=75)).profile().findings}
    assert "l2-bandwidth" in rules and not rules & {"dram-bandwidth", "l1-bandwidth"}


def test_a_part_of_l2_that_carries_no_bytes_is_no_bandwidth() -> None:
    # NVIDIA's memory throughput holds L2's bandwidths: 64 % of something else.
    launch = made(busy(dram=41, l2=64, l1=20, sm=15, memory=47))
    assert launch.findings("l2-bandwidth") == []
    assert launch.plus(busy(memory=64)).findings("l2-bandwidth")
    # Of L1 it holds less: L1's own percentage is of cycles in which it has work.
    assert made(busy(dram=10, l2=20, l1=90, sm=15, memory=50)).findings("l1-bandwidth")


@each_row(
    ("dram", "action"),
    [
        (1e9, "Move fewer bytes through L2: larger tiles, reuse in registers, shared memory"),
        (3e9, "Move fewer bytes: fuse kernels, use a narrower type"),
        (None, "Move fewer bytes through L2: keep what is read again in registers and shared memory, or fuse"),
    ],
)
def test_tiles_help_l2_where_it_moves_more_than_dram(dram: float | None, action: str) -> None:
    bytes_moved = {"lts__t_bytes.sum": 4e9} | ({"dram__bytes.sum": dram} if dram else {})
    found = made(busy(dram=30, l2=75, l1=50, sm=20), bytes_moved).finding("l2-bandwidth")
    assert found.action == action
    assert ("MemoryWorkloadAnalysis" in found.advice) == (dram is None)


def test_dram_near_its_roof_is_told_although_l2_is_busier() -> None:
    near = {finding.rule for finding in made(busy(dram=82, l2=90, l1=20)).profile().findings}
    assert {"dram-bandwidth", "l2-bandwidth"} <= near
    below = {finding.rule for finding in made(busy(dram=70, l2=85, l1=20)).profile().findings}
    assert "l2-bandwidth" in below and "dram-bandwidth" not in below


def test_dram_is_the_limit_where_another_level_is_as_busy() -> None:
    rules = {finding.rule for finding in made(busy(dram=68, l2=70, l1=40)).profile().findings}
    assert "dram-bandwidth" in rules and "l2-bandwidth" not in rules


def test_the_gain_of_dram_is_for_the_same_bytes_and_no_more_than_the_busiest_unit_leaves() -> None:
    found = made(busy(dram=70, l2=40, l1=30, sm=78)).finding("dram-bandwidth")
    assert found.gain_kernel == pytest.approx(0.22) and (found.gain_kind, found.held) == (
        "fixed-work",
        "the same bytes",
    )
    # An FP64 pipe that is 90 % busy bounds fewer bytes too.
    full = made(busy(dram=70, l2=40, l1=30), pipes(fp64=90)).finding("dram-bandwidth")
    assert full.gain_kernel == pytest.approx(0.1) and full.gain_kind == "bound"


def test_a_level_beside_a_dram_of_unknown_speed_is_a_guess() -> None:
    assert made(busy(l2=30, l1=85)).finding("l1-bandwidth").confidence == "guess"
    assert made(busy(l2=85, l1=30)).finding("l2-bandwidth").confidence == "guess"
    # So can be an SM that was not collected, but for a level that is near its ceiling itself.
    assert made(busy(dram=10, l2=75, l1=30)).finding("l2-bandwidth").confidence == "guess"
    assert made(busy(dram=10, l2=85, l1=30)).finding("l2-bandwidth").confidence == "inferred"
    # The memory throughput is that of the busiest level.
    assert made(busy(l2=30, l1=85, memory=85)).finding("l1-bandwidth").confidence == "inferred"
    assert made(busy(dram=70)).finding("dram-bandwidth").confidence == "inferred"


def test_reuse_leaves_the_arithmetic_and_not_the_instructions_of_the_accesses() -> None:
    # The load/store unit and with it the SM are 91 % busy; the FMA pipe's 17 % stay, and are told as held.
    found = made(busy(dram=1, l2=5, l1=91, sm=91), pipes(lsu=91, fma=17)).finding("l1-bandwidth")
    assert found.gain_kernel == pytest.approx(0.83)
    assert found.held == "the same arithmetic and the same bytes through L2 and DRAM"


ALWAYS_ACTIVE = {"sm__cycles_active.avg": 1e6, "sm__cycles_elapsed.max": 1e6}
ACHIEVED = "The kernel achieved {} of this device's fp32 peak performance and 0% of its fp64 peak performance."


@each_row(
    ("rule", "text", "gain"),
    [
        # 71 % of the active cycles, which are 90 % of all.
        ("HighPipeUtilization", "FMA is the highest-utilized pipeline (71.0%) based on active cycles", 1 - 0.639),
        ("SOLFPRoofline", ACHIEVED.format("64%"), 0.36),
    ],
)
def test_arithmetic_that_nvidias_rules_tell_of_stays_where_accesses_go(rule: str, text: str, gain: float) -> None:
    cycles = {"sm__cycles_active.avg": 9e5, "sm__cycles_elapsed.max": 1e6}
    launch = made(busy(dram=7, l2=7, l1=82, sm=65), cycles, details=told(rule, text))
    assert launch.finding("l1-bandwidth").gain_kernel == pytest.approx(gain)


def test_fewer_accesses_promise_nothing_where_nothing_tells_of_the_arithmetic() -> None:
    # Half precision, integers and tensor cores are no part of NVIDIA's 0 %.
    for details in (None, told("SOLFPRoofline", ACHIEVED.format("0%"))):
        found = made(busy(dram=12, l2=18, l1=89, sm=68), details=details).finding("l1-bandwidth")
        # L2 stays at 18 %, with as many bytes: what saves accesses saves bytes of L2, too, so that it bounds nothing.
        assert found.gain_kernel == pytest.approx(0.82) and found.gain_kind == "fixed-work"
        assert found.held == "little arithmetic and the same bytes through L2 and DRAM"
        assert "l2" not in {item.unit for item in found.remains}


@each_row(
    ("name", "compute_capability", "gain"),
    [
        # 4 × 60 % instructions a cycle; at most 0.8 of them are accesses, with a pass each: 1.6 ÷ 4 stay.
        ("NVIDIA A100", "8.0", 0.6),
        # Turing takes a request every second cycle: 2.4 − 0.4 stay.
        ("NVIDIA GeForce RTX 2080 Ti", "7.5", 0.5),
    ],
)
def test_instructions_beyond_the_passes_of_l1_are_no_accesses_and_stay(
    name: str, compute_capability: str, gain: float
) -> None:
    launch = made(busy(dram=2, l2=10, l1=80, sm=60), issued(60), ALWAYS_ACTIVE)
    (found,) = of_rule("l1-bandwidth", on(name, compute_capability, 68)(launch))
    assert found.gain_kernel == pytest.approx(gain)
    assert found.held == "the same other instructions and the same bytes through L2 and DRAM"
    # Instructions that can all be accesses bound nothing.
    (found,) = of_rule("l1-bandwidth", on(name, compute_capability, 68)(launch.plus(issued(10))))
    assert found.gain_kernel == pytest.approx(0.8)


def test_an_sm_above_memory_as_a_whole_does_something_else_than_accesses() -> None:
    # What is 83 % busy are no accesses, which are a part of the 75 %, and not the issue slots.
    launch = made(busy(dram=70, l2=40, l1=88, memory=75, sm=83), issued(47), ALWAYS_ACTIVE)
    found = launch.finding("l1-bandwidth")
    assert found.gain_kernel == pytest.approx(0.17)
    assert found.held == "the same other instructions and the same bytes through L2 and DRAM"
    assert found.headline.endswith(", and the SM 83 % with other instructions")
    # Issue slots that were not collected may be what is busy: of 4 × 83 % in a cycle 0.88 may be accesses.
    blind = made(busy(dram=10, l2=40, l1=88, memory=75, sm=83)).finding("l1-bandwidth")
    assert blind.gain_kernel == pytest.approx(1 - (0.83 - 0.22))
    # Within rounding of memory it may be the load/store unit, and of the pipe of addresses it is that.
    assert launch.plus(busy(memory=82)).finding("l1-bandwidth").gain_kernel == pytest.approx(0.3)
    assert launch.plus(pipes(alu=83)).finding("l1-bandwidth").gain_kernel == pytest.approx(0.3)


def test_a_full_gpu_that_does_nothing_waits_in_line_for_something() -> None:
    idle = busy(dram=0.1, l2=1.6, l1=0.3, sm=0.3)
    # 65 536 blocks of 8 warps on 108 SMs of 64 warps: 76 waves, or more.
    for values_ in (idle, {**idle, WAVES: 38.0}):
        found = made(values_, lasting(), grid=(65536, 1, 1)).finding("latency-bound")
        assert found.confidence == "guess" and "atomics" in found.action and "lts__t_sectors_op_red" in found.advice
    for waiting in (made(idle, lasting(), {WAVES: 3.0}), made(busy(dram=20, l2=12, l1=8, sm=9), grid=(65536, 1, 1))):
        assert waiting.finding("latency-bound").action == "Put more independent work in flight per thread"


FAR = made(busy(dram=0.3, l2=16, l1=0.6, sm=0.5), {ACTIVE: 80.0}, lasting(), grid=(65536, 1, 1))
"""51.2 of 64 warps and no more than 4 × 0.005 instructions a cycle: 2560 cycles for each of a warp."""


def test_warps_that_wait_longer_than_memory_takes_seem_to_wait_for_the_host() -> None:
    found = FAR.finding("host-memory-traffic")
    assert found.confidence == "guess" and found.severity == "low"
    assert found.gain_kernel == pytest.approx(0.84) and "2560 cycles" in found.headline
    assert "cudaMemPrefetchAsync" in found.action and "lts__t_sectors_op_atom.sum" in found.advice
    # It says what the two guesses would say of: independent work and even blocks help against no page fault.
    assert FAR.findings("latency-bound") == [] and FAR.findings("load-imbalance") == []


@each_row(
    "also",
    [
        busy(sm=5),
        busy(dram=20),
        busy(l1=9),
        busy(l2=2),
        {HOST_FILLS: 0.0, DEVICE_FILLS: 1.0},
        {"device__attribute_integrated": 1.0},
        stalls(barrier=80),
        issued(3) | ALWAYS_ACTIVE,
    ],
    ids=["busier", "DRAM", "L1", "in line", "counted", "integrated", "barriers", "issues"],
)  # fmt: skip
def test_warps_that_can_wait_for_something_else_are_not_said_to_wait_for_the_host(also: dict[str, float]) -> None:
    assert FAR.plus(also).findings("host-memory-traffic") == []
    rules = {finding.rule for finding in FAR.plus(also).profile().findings}
    assert rules & {"latency-bound", "barrier-wait", "load-imbalance"}


def test_what_waits_for_links_to_other_gpus_is_not_said_to_wait_for_the_host() -> None:
    assert replace(FAR, name="ncclDevKernel_AllReduce_Sum_bf16_RING_LL").findings("host-memory-traffic") == []


def test_wider_reads_of_shared_memory_help_where_their_queue_is_full_and_no_arithmetic_is_fed() -> None:
    search = made(busy(dram=20, l2=20, l1=90, sm=90), stalls(mio_throttle=60), issued(30), SHARED_4K, lasting())
    assert "16 bytes" in search.finding("l1-bandwidth").action
    product = search.plus(operations(ffma=1e9, fadd=0, fmul=0))
    assert "larger tile" in product.finding("l1-bandwidth").action
    assert (
        "16 bytes" in made({SHARED_BUSY: 70.0}, stalls(mio_throttle=60), issued(30)).finding("shared-bandwidth").action
    )


def test_integers_that_change_bits_are_told_from_indices() -> None:
    bits, indices = (with_bit_work(share).finding("integer-bound") for share in (55.0, 10.0))
    # 55 of 100 integer instructions; a move is none.
    assert "55 % of the integer instructions change bits" in bits.why and "indices" not in bits.action
    assert "Indices, conditions and moves are overhead" in indices.why and "simpler indices" in indices.action
    assert bits.gain_kernel == indices.gain_kernel


def test_requests_that_queue_are_not_asked_for_more() -> None:
    queued, idle = (waiting_for_loads(cycles).finding("dram-bandwidth") for cycles in (2421.0, 700.0))
    assert "wait 2\u202f421 cycles for a load, so that requests queue" in queued.why
    assert "in flight" not in f"{queued.action} {queued.advice}" and queued.gain_kernel == pytest.approx(0.30)
    assert "too few bytes are in flight" in idle.why and idle.action.startswith("Keep more bytes in flight")
    # No warp waits for what the TMA engine loads, and without opcodes nobody knows how many loads there are.
    for unknown in (waiting_for_loads(2421.0, "UTMALDG.2D"), made(busy(dram=70, l2=10))):
        assert "too few bytes may be in flight" in unknown.finding("dram-bandwidth").why
    tied = made(busy(dram=70, l2=69)).finding("dram-bandwidth")
    assert tied.why.startswith("DRAM and L2 are equally busy but could carry more")


def test_below_its_roof_dram_gains_by_bytes_in_flight_and_beyond_it_by_fewer() -> None:
    assert made(busy(dram=70, l2=40, l1=30, sm=20)).finding("dram-bandwidth").action.startswith("Keep more bytes")
    assert made(busy(dram=90, l2=40, l1=30, sm=20)).finding("dram-bandwidth").action.startswith("Move fewer bytes")


def test_the_levels_below_bound_nothing_that_fewer_accesses_gain() -> None:
    # 66 % of L1 are all that is its own; the launch takes 1 µs of 1 ms.
    found = made(busy(dram=8, l2=24, l1=66), lasting()).finding("l1-bandwidth")
    assert found.gain_kernel == pytest.approx(0.66) and found.held == "the rest of its time unchanged"
    assert [item.unit for item in found.remains] == ["launch"]
    l2 = made(busy(dram=2, l2=83, l1=74, sm=12)).finding("l2-bandwidth")
    assert l2.gain_kernel == pytest.approx(0.83) and l2.gain_kind == "fixed-work"


def test_what_a_level_is_not_busy_for_stays_with_the_rest_of_the_time() -> None:
    found = made(busy(dram=4, l2=6, l1=73, sm=73), pipes(lsu=73, fma=8)).finding("l1-bandwidth")
    assert found.gain_kernel == pytest.approx(0.73) and found.held == "the rest of its time unchanged"


@each_row(
    ("text", "work"),
    [
        (ACHIEVED.format("47%"), {"fp32": 0.47, "fp64": 0.0}),
        ("The workload achieved  close to 1% of this device's FP32 peak performance and 16% of its FP64 peak "
         "performance.", {"fp32": 0.01, "fp64": 0.16}),
        ("The ratio of peak float (fp32) to double (fp64) performance on this device is 2:1.", {}),
    ],
)  # fmt: skip
def test_the_work_of_its_peak_is_read_from_nvidias_roofline_rule(text: str, work: dict[str, float]) -> None:
    assert work_of_peak(told("", text).rule_results()) == pytest.approx(work)


def test_writes_to_the_host_count_although_l2_calls_them_hits() -> None:
    writes, dram = "lts__t_sectors_srcunit_tex_aperture_sysmem_op_write.sum", "dram__sectors_write.sum"
    counted = {HOST: 0.0, DEVICE: 600.0, writes: 300.0, dram: 100.0}
    found = made(busy(dram=50), counted).finding("host-memory-traffic")
    assert "30 %" in found.headline
    assert {writes, dram} <= {evidence.metric for evidence in found.evidence}
    assert made(busy(dram=50), {**counted, writes: 50.0}).findings("host-memory-traffic") == []
    # Of one side alone nothing follows: the misses decide.
    assert made(busy(dram=50), {HOST: 0.0, DEVICE: 600.0, writes: 300.0}).findings("host-memory-traffic") == []
    assert (
        made(busy(dram=50), {HOST: 300.0, DEVICE: 700.0, dram: 9e9}).finding("host-memory-traffic").severity == "high"
    )


def test_memory_that_is_the_hosts_own_is_no_host_traffic() -> None:
    integrated = made(busy(dram=50), {HOST: 900.0, DEVICE: 100.0, "device__attribute_integrated": 1.0})
    assert integrated.findings("host-memory-traffic") == []


def test_l1_that_is_busy_with_shared_memory_is_told_as_shared_memory() -> None:
    found = made(busy(l1=85, dram=10), {SHARED_BUSY: 80.0})
    assert found.findings("shared-bandwidth") and found.findings("l1-bandwidth") == []


def test_l1_of_active_cycles_is_no_limit_over_elapsed_ones() -> None:
    active = made(busy(dram=20), {"l1tex__throughput.avg.pct_of_peak_sustained_active": 90.0})
    assert active.findings("l1-bandwidth") == []


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
    found = analyse([report], builders.hardware_of, "9.9")
    case = Case(found.session.kernels[0], found.recorded[0])
    assert wavefronts_per_request(case) == pytest.approx(passes, rel=1e-3)


def test_memory_that_l2_explains_is_not_l1() -> None:
    assert made(busy(memory=70, l2=70, dram=10)).findings("l1-bandwidth") == []


def test_one_pass_a_request_is_told_as_efficient() -> None:
    efficient = made(busy(l1=85, dram=10), {WAVEFRONTS: 80.0, REQUESTS: 80.0})
    assert "one wavefront per request" in efficient.finding("l1-bandwidth").headline


def test_all_misses_to_the_host_gain_what_memory_costs() -> None:
    # DRAM's 10 % stay, and no more can go than 40 % of waits explain.
    found = made(busy(dram=10), stalls(long_scoreboard=90), issued(5), {HOST: 1000.0, DEVICE: 0.0})
    assert found.finding("host-memory-traffic").gain_kernel == pytest.approx(0.9)
    few = found.plus(stalls(long_scoreboard=40)).finding("host-memory-traffic")
    assert few.gain_kernel == pytest.approx(of_time(0.4))


# Launch.


@each_row("waves", [0.5, 1.0, 2.0, 3.0, 5.0, 5.5, 100.3])
def test_whole_waves_and_many_of_them_have_no_tail(waves: float) -> None:
    assert made({WAVES: waves}).findings("tail-effect") == []


@each_row(
    ("waves", "gain"),
    [(1.07, 0.465), (1.6, 0.2), (2.0001, 0.9999 / 3), (2.5, 0.5 / 3), (4.5, 0.1)],
)
def test_the_tail_is_the_empty_part_of_all_rounds(waves: float, gain: float) -> None:
    assert made({WAVES: waves}).finding("tail-effect").gain_kernel == pytest.approx(gain)


def test_sms_that_idle_because_of_the_last_round_are_a_tail_and_no_imbalance() -> None:
    # 1.1 waves of 132 SMs with one block each: 45 % of the time is idle, and so it was measured.
    seen = made({WAVES: 1.1, "sm__cycles_active.max": 1000.0, "sm__cycles_active.avg": 560.0})
    assert seen.finding("tail-effect").confidence == "measured"
    assert seen.finding("tail-effect").gain_kernel == pytest.approx(0.45)
    assert seen.findings("load-imbalance") == []


@each_row(("waves", "active"), [(1.5, 400.0), (1.05, 880.0)])
def test_sms_that_idle_for_another_time_than_the_last_round_takes_are_both(waves: float, active: float) -> None:
    seen = made({WAVES: waves, "sm__cycles_active.max": 1000.0, "sm__cycles_active.avg": active})
    assert seen.finding("tail-effect").confidence == "inferred"
    assert seen.finding("load-imbalance").gain_kernel == pytest.approx(1 - active / 1000)


AVERAGE_ALONE = made({"sm__cycles_active.avg": 700.0, "sm__cycles_elapsed.max": 1000.0}, lasting(1e-4), busy(sm=35))


@each_row(
    "launch",
    [
        # A launch can take 3 of 12 µs: 5 % are left. Two of three rounds are full. Half of the SMs have a block.
        AVERAGE_ALONE.plus(lasting(1.2e-5)),
        AVERAGE_ALONE.plus({WAVES: 2.1}),
        replace(AVERAGE_ALONE, grid=(54, 1, 1)),
        replace(AVERAGE_ALONE, grid=None),
    ],
)
def test_idle_time_of_an_average_sm_that_launch_tail_or_grid_can_be_is_not_told(launch: Made) -> None:
    assert not [finding for finding in launch.findings("load-imbalance") if "average SM" in finding.headline]


def test_idle_time_of_an_average_sm_is_told_of_an_unknown_gpu_that_has_blocks_for_all_sms() -> None:
    assert OfUnknownGpu(AVERAGE_ALONE).findings("load-imbalance")[0].gain_kernel == pytest.approx(0.27)
    assert OfUnknownGpu(replace(AVERAGE_ALONE, grid=(90, 1, 1))).findings("load-imbalance") == []


def test_more_work_in_flight_gains_nothing_while_sms_have_no_work() -> None:
    # Of the 70 % in which an average SM works the SM is busy for half: the launch takes 1 of 100 µs.
    waits = replace(AVERAGE_ALONE.plus(busy(memory=10)), grid=None)
    assert waits.finding("latency-bound").gain_kernel == pytest.approx(0.99 * 0.5)


@each_row(("dram", "explained"), [(74.8, True), (69.0, False)])
def test_a_unit_that_is_busy_for_longer_than_full_rounds_last_explains_the_tail(dram: float, explained: bool) -> None:
    # 2.08 of 3 rounds: were the last as long as the others, no unit could be busy for more than 69.3 % of the time.
    launched = made({WAVES: 2.08}, busy(dram=dram, l2=35, l1=20, memory=dram, sm=13))
    tail, limit = launched.finding("tail-effect"), launched.finding("dram-bandwidth")
    assert (tail.cause == limit.id) == explained


@each_row(("sm", "explained"), [(70.0, True), (65.0, False)])
def test_a_busy_sm_explains_the_tail_whichever_pipe_it_is_busy_with(sm: float, explained: bool) -> None:
    # 1⅓ of 2 rounds: were both as long, the first one would have to be busier than all of the time above 66.7 %.
    launched = made({WAVES: 4 / 3}, busy(dram=15, l2=15, memory=15, sm=sm), pipes(alu=53))
    tail, limit = launched.finding("tail-effect"), launched.finding("integer-bound")
    assert (tail.cause == limit.id) == explained


def test_an_occupancy_gap_beyond_the_tail_is_an_imbalance() -> None:
    # 4.9 waves leave 2 % of the places empty; 50 % are there, 15 % were filled.
    gap = made(HALF_OCCUPANCY, {ACTIVE: 15.0, WAVES: 4.9}).finding("load-imbalance")
    assert gap.gain_kernel == pytest.approx(1 - 0.15 / (0.5 * 4.9 / 5))
    # 1.5 waves leave a quarter empty: 37.5 % of 50 %.
    assert made(HALF_OCCUPANCY, {ACTIVE: 36.0, WAVES: 1.5}).findings("load-imbalance") == []


def test_a_tail_is_bound_by_the_places_that_stayed_empty_and_not_by_sms_with_any_work() -> None:
    busy_sms = {WAVES: 1.5, "sm__cycles_active.avg": 950.0, "sm__cycles_elapsed.max": 1000.0}
    assert made(busy_sms).finding("tail-effect").gain_kernel == pytest.approx(0.05)
    # 40 of 50 places filled while an SM had work, which it had for 95 % of the time.
    filled = made(busy_sms, HALF_OCCUPANCY, {ACTIVE: 40.0}).finding("tail-effect")
    assert filled.gain_kernel == pytest.approx(1 - 0.95 * 0.8)


def test_a_tail_costs_no_more_than_the_busiest_unit_leaves() -> None:
    assert made({WAVES: 1.07}, busy(dram=90)).finding("tail-effect").gain_kernel == pytest.approx(0.1)


def test_a_grid_without_a_size_is_not_small() -> None:
    assert made({WAVES: 0.1}, grid=None).findings("small-grid") == []
    assert made({WAVES: 0.1, "launch__grid_size": 54.0}, grid=None).finding("small-grid").gain_kernel == 0.9


def test_without_waves_the_filled_slots_are_not_known() -> None:
    found = made(grid=(54, 1, 1)).finding("small-grid")
    assert found.headline == "Small grid: 54 blocks for 108 SMs"
    assert found.gain_kernel == pytest.approx(0.5)


def test_one_block_an_sm_without_barriers_is_enough() -> None:
    assert made({WAVES: 1.0}, stalls(wait=20), grid=(108, 1, 1)).findings("small-grid") == []


def test_a_barrier_that_no_second_block_covers_is_felt_sooner() -> None:
    alone = made({REGISTERS: 64.0}, stalls(barrier=10), issued(40), block=(1024, 1, 1)).finding("barrier-wait")
    assert "Only one block fits" in alone.why
    assert made({REGISTERS: 32.0}, stalls(barrier=10), issued(40), block=(1024, 1, 1)).findings("barrier-wait") == []


def test_few_blocks_of_an_unknown_gpu_are_still_few() -> None:
    nothing = Hardware.of(builders.a100().arch, None, RecordedDevice())
    few = diagnose(analyse([builders.report(structs.replace(made().launch(), grid=(3, 1, 1)))], lambda _: nothing, "1"))
    more = diagnose(
        analyse([builders.report(structs.replace(made().launch(), grid=(4, 1, 1)))], lambda _: nothing, "1")
    )
    assert "3 blocks, fewer than any GPU" in few.kernels[0].findings[0].headline
    assert not [found for found in more.kernels[0].findings if found.rule == "small-grid"]


def of_unknown_gpu(launch: Made) -> list[Finding]:
    """What is found on some GPU of compute capability 8.0: the smallest known one has 56 SMs (A30)."""
    hardware = HardwareFinder()(RecordedDevice(compute_capability="8.0"))
    session = diagnose(analyse([builders.report(launch.launch())], lambda _: hardware, "1"))
    return list(session.kernels[0].findings)


def test_blocks_are_few_where_no_known_gpu_of_the_capability_has_so_few_sms() -> None:
    few = of_unknown_gpu(made(lasting(), grid=(14, 1, 1)))
    # 14 of 56 SMs have a block; a part of a GPU, or one that has no spec, may have fewer.
    assert few[0].headline == "Small grid: 14 blocks; GPUs of compute capability 8.0 with a spec have 56 SMs or more"
    assert (few[0].rule, few[0].confidence) == ("small-grid", "guess")
    assert few[0].gain_kernel == pytest.approx(0.75 * 0.999)  # of 1 ms its launch takes 1 µs
    assert "small-grid" not in {item.rule for item in of_unknown_gpu(made(lasting(), grid=(56, 1, 1)))}


def active_for(percent: float) -> dict[str, float]:
    """The share of the time in which an average SM has work."""
    return {"sm__cycles_active.avg": 1e4 * percent, "sm__cycles_elapsed.max": 1e6}


def test_sms_without_work_show_few_blocks_where_the_number_of_sms_is_unknown() -> None:
    # 64 of an A100's 108 SMs are 59 %; blocks that end early make it 57 %.
    for share in (59.2, 57.3):
        (few, *_) = of_unknown_gpu(made(lasting(), active_for(share), busy(dram=26, sm=4), grid=(64, 1, 1)))
        assert (few.rule, few.confidence) == ("small-grid", "inferred")
        assert few.headline == "Small grid: 64 blocks for about 108 SMs"
        assert few.gain_kernel == pytest.approx(44 / 108, rel=0.01)
    # 80 SMs are no A30 and no A100; 128 are more than either has.
    guessed = of_unknown_gpu(made(lasting(), active_for(75), grid=(60, 1, 1)))
    assert [found.confidence for found in guessed if found.rule == "small-grid"] == ["guess"]
    # Of 10 µs the launch can take 3 µs.
    for values in ({**lasting(), **active_for(50)}, {**lasting(10e-6), **active_for(59.2)}):
        assert "small-grid" not in {found.rule for found in of_unknown_gpu(made(values, grid=(64, 1, 1)))}


def test_waves_that_nvidias_rule_tells_show_a_small_grid() -> None:
    text = (
        "This kernel grid is too small to fill the available resources on this device, resulting in only 0.2 full "
        "waves across all SMs. Look at Launch Statistics for more details."
    )
    launch = replace(made(lasting(), grid=(64, 1, 1)), details=told("SOLBottleneck", text))
    finding = next(item for item in of_unknown_gpu(launch) if item.rule == "small-grid")
    assert finding.headline == "Small grid: 64 blocks fill about 20 % of one wave"
    # The message rounds to a tenth: up to 0.25 are filled. Of 1 ms the launch takes 1 µs.
    assert finding.gain_kernel == pytest.approx(0.75 * 0.999) and finding.evidence[1].value == 0.2


@each_row(("memory", "confidence"), [(95.0, "inferred"), (30.0, "guess")])
def test_bytes_that_nvidias_rule_finds_unused_show_uncoalesced_loads(memory: float, confidence: str) -> None:
    text = (
        "The memory access pattern for global loads from L1TEX might not be optimal. On average, only 4.0 of the 32 "
        "bytes transmitted per sector are utilized by each thread. This could possibly be caused by a stride."
    )
    launch = replace(made(lasting(), busy(memory=memory)), details=told("MemoryCacheAccessPattern", text))
    finding = launch.finding("uncoalesced-global")
    assert "4 of 32 bytes per loaded sector are used" in finding.headline
    assert finding.confidence == confidence
    stores = text.replace("loads from", "stores to")
    assert replace(launch, details=told("MemoryCacheAccessPattern", stores)).findings("uncoalesced-global") == []


def test_drams_bytes_of_their_peak_tell_how_busy_it_is_where_nothing_else_does() -> None:
    launch = made(lasting(), {"dram__bytes.sum.pct_of_peak_sustained_elapsed": 89.4})
    assert launch.finding("dram-bandwidth").evidence[0].value == pytest.approx(89.4)
    both = launch.plus({"gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed": 93.0})
    assert both.finding("dram-bandwidth").evidence[0].value == pytest.approx(93.0)


def test_a_short_kernel_is_told_first_and_what_else_it_has_are_guesses() -> None:
    idle = made({WAVES: 0.1}, busy(sm=2, dram=3), stalls(imc_miss=40), issued(5), grid=(8, 1, 1))
    found = idle.plus(lasting(4e-6)).profile().findings
    assert found[0].rule == "short-kernel"
    assert {finding.rule for finding in found[1:]} >= {"small-grid", "constant-miss"}
    assert {(finding.severity, finding.confidence) for finding in found[1:]} <= {("low", "guess"), ("info", "guess")}
    longer = idle.plus(lasting(6e-6)).profile().findings
    assert (longer[0].rule, longer[0].severity) == ("small-grid", "high")


def test_nothing_busy_is_no_finding_of_a_short_kernel() -> None:
    assert made(busy(sm=2, memory=10), lasting(4e-6)).findings("latency-bound") == []
    assert made(busy(sm=2, memory=10), lasting(6e-6)).findings("latency-bound")


def test_every_limiter_of_occupancy_has_an_action_and_advice() -> None:
    assert set(LIMITERS) <= set(launch.LIMITER_ACTION) and set(LIMITERS) <= set(launch.LIMITER_ADVICE)


def test_fusing_a_few_instructions_of_a_full_pipe_saves_little() -> None:
    counted = {f"smsp__sass_thread_inst_executed_op_{op}_pred_on.sum": count
               for op, count in (("ffma", 0.0), ("fadd", 50.0), ("fmul", 50.0))}  # fmt: skip
    alone = made(pipes(fma=80), counted)
    assert alone.finding("non-fused-fp").gain_kernel == pytest.approx(0.5 * 0.8)
    # A tenth of what the pipe executes are theirs.
    few = made(pipes(fma=80), counted, histograms={WARP_OPCODES: {"FADD": 50.0, "FMUL": 50.0, "IMAD": 900.0}})
    assert few.finding("non-fused-fp").gain_kernel == pytest.approx(0.5 * 0.08)


CONFLICTS_OF = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{}.sum"
PASSES_OF = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{}.sum"


def test_conflicts_of_loads_and_stores_are_added_up() -> None:
    # 300 + 100 of 600 + 200 passes.
    by_kind = {CONFLICTS_OF.format("ld"): 300.0, CONFLICTS_OF.format("st"): 100.0}
    both = made(by_kind, {PASSES_OF.format("ld"): 600.0, PASSES_OF.format("st"): 200.0}, busy(l1=80))
    assert "50 % of wavefronts (400 of 800)" in both.finding("shared-bank-conflict").headline
    assert both.finding("shared-bank-conflict").gain_kernel == pytest.approx(0.5)


@each_row(("kind", "word"), [("ld", "load"), ("st", "store")])
def test_conflicts_of_one_way_are_of_its_wavefronts_where_those_alone_were_counted(kind: str, word: str) -> None:
    alone = {CONFLICTS_OF.format(kind): 300.0, PASSES_OF.format(kind): 600.0}
    told = made(alone, grid=(1, 1, 1)).finding("shared-bank-conflict")
    assert f"50 % of {word} wavefronts (300 of 600)" in told.headline
    other = "st" if kind == "ld" else "ld"
    # What conflicts the other way has without its wavefronts is not of these.
    beside = made(alone, {CONFLICTS_OF.format(other): 900.0}, grid=(1, 1, 1)).finding("shared-bank-conflict")
    assert f"50 % of {word} wavefronts (300 of 600)" in beside.headline
    assert made({CONFLICTS_OF.format(kind): 1.0, PASSES_OF.format(kind): 600.0}).findings("shared-bank-conflict") == []


def test_l1_that_is_far_busier_than_what_issues_accesses_takes_many_passes() -> None:
    # 96 ÷ 6 = 16 passes a request at least; 20 % leave 4.8, 24 % the 4 of 16 bytes a thread.
    issued = "sm__memory_throughput.avg.pct_of_peak_sustained_elapsed"
    none_shared = {"launch__shared_mem_per_block_static": 0.0, "launch__shared_mem_per_block_dynamic": 0.0}
    many = made(busy(l1=96), {issued: 6.0}, none_shared)
    told = many.finding("uncoalesced-global")
    assert "at least 16 L1 wavefronts" in told.headline and told.confidence == "inferred"
    assert many.findings("l1-bandwidth") == []
    assert made(busy(l1=96), {issued: 20.0}, none_shared).findings("uncoalesced-global")
    assert made(busy(l1=96), {issued: 24.0}, none_shared).findings("uncoalesced-global") == []
    some_shared = {**none_shared, "launch__shared_mem_per_block_static": 4096.0}
    assert made(busy(l1=96), {issued: 6.0}, some_shared).findings("uncoalesced-global") == []


@each_row("level", ["L1", "L1TEX", "L2", "DRAM"])
def test_the_bytes_used_of_a_sector_are_told_of_the_level_that_they_cost_most_in(level: str) -> None:
    text = (
        f"The memory access pattern for global loads from {level} might not be optimal. On average, only 5.0 of the 32 "
        "bytes transmitted per sector are utilized by each thread."
    )
    said = RuleResult(rule="", section="Memory Workload Analysis Tables", kind="optimization", title="", message=text)
    assert nvidia_messages.load_sectors((said,)) == nvidia_messages.LoadSectors(5.0)


@each_row(
    ("said", "told"),
    [
        ("close to 64% of this device's fp32 peak performance and 0%", {"fp32": 0.64, "fp64": 0.0}),
        ("7% of this device's fp32 peak performance and close to 41%", {"fp32": 0.07, "fp64": 0.41}),
        ("1.2.3% of this device's fp32 peak performance and 0%", {}),
        ("% of this device's fp32 peak performance and 0%", {}),
    ],
)
def test_what_the_roofline_rule_says_of_arithmetic_is_read_or_left(said: str, told: dict[str, float]) -> None:
    text = f"The kernel achieved {said} of its fp64 peak performance."
    assert work_of_peak([RuleResult(rule="", section="", kind="info", title="", message=text)]) == told


def test_the_sectors_of_a_request_beside_those_that_it_needs_tell_the_same_until_2022() -> None:
    text = (
        "The memory access pattern for global loads in L1TEX might not be optimal. On average, this kernel accesses "
        "4.0 bytes per thread per memory request; but the address pattern, possibly caused by the stride between "
        "threads, results in 16.0 sectors per request, or 16.0*32 = 512.0 bytes of cache data transfers per request. "
        "The optimal thread address pattern for 4.0 byte accesses would result in 4.0*32 = 128.0 bytes of cache data "
        "transfers per request, to maximize L1TEX cache performance."
    )

    def used(text: str) -> nvidia_messages.LoadSectors | None:
        said = RuleResult(rule="", section="", kind="warning", title="", message=text)
        return nvidia_messages.load_sectors((said,))

    # 4 sectors hold what 16 move: 8 of 32 bytes.
    assert used(text) == (8.0, 16.0)
    details = FixedDetails((RuleResult(rule="", section="", kind="warning", title="", message=text),))
    for kernel in (made(busy(l2=75), details=details), made(busy(l2=30), details=details)):
        found = kernel.finding("uncoalesced-global")
        assert found.headline.endswith("16 sectors per load request, 4 are needed")
        assert found.confidence == "inferred" and "broadcast" not in found.why
    # Of stores it does not say how many there are: a block that stores one result complains as loudly.
    assert used(text.replace("global loads", "global stores")) is None
    assert used(text.replace("global loads", "local loads")) is None
    assert used(text.replace("16.0 sectors", "0.0 sectors")) is None
    assert used(text.replace("16.0 sectors", "16..0 sectors")) is None


ACTIVE_L1 = "l1tex__throughput.avg.pct_of_peak_sustained_active"


def test_the_sm_s_speed_of_light_stands_for_what_issues_accesses_in_the_basic_set() -> None:
    # L1 is 96 % busy, and no part of the SM more than 6 %: 16 passes a request at least.
    basic = made(busy(l1=96, sm=6, memory=96, dram=5, l2=10), NO_SHARED)
    assert "at least 16 L1 wavefronts" in basic.finding("uncoalesced-global").headline
    assert made(busy(l1=96, sm=24, memory=96, dram=5, l2=10), NO_SHARED).findings("uncoalesced-global") == []


def test_l1_that_is_full_while_sms_work_is_the_limit_although_many_do_not() -> None:
    # SMs work half of the time, and L1 then has no cycle left.
    half = made({ACTIVE_L1: 99.0, "sm__cycles_active.avg": 5e5, "gpc__cycles_elapsed.max": 1e6},
                busy(sm=20, memory=49.5, dram=5, l2=10), SHARED_4K)  # fmt: skip
    told = half.finding("l1-bandwidth")
    assert told.headline == "L1 bandwidth: 50 % busy with global and shared accesses, 99 % while SMs have work"
    # Fewer accesses shorten the work of those SMs, which is all of the time; L2 needs 10 % for the same bytes.
    assert told.gain_kernel == pytest.approx(0.9), "not 49.5 ÷ 80 %: that most SMs have no work makes it no shorter"
    assert half.plus({ACTIVE_L1: 70.0}, busy(memory=35)).findings("l1-bandwidth") == []
    # What is busier than it can be tells only that there are few cycles.
    hardly = made({ACTIVE_L1: 304.0, "sm__cycles_active.avg": 3.0, "gpc__cycles_elapsed.max": 4e3},
                  busy(sm=0.2, memory=0.2, dram=0.1, l2=0.1), SHARED_4K)  # fmt: skip
    assert hardly.findings("l1-bandwidth") == []
    assert half.plus({"sm__cycles_active.avg": 9e5, ACTIVE_L1: 55.0}).findings("l1-bandwidth") == []


def test_passes_that_follow_from_a_bound_are_told_as_that() -> None:
    many = made(busy(l1=96, sm=6, memory=96, dram=5, l2=10))
    assert many.finding("l1-bandwidth").headline.endswith("; at least 16 wavefronts per request")
    assert many.finding("l1-bandwidth").action == "Let a warp's threads touch consecutive addresses and different banks"


@each_row(
    ("name", "compute_capability", "cycles"),
    [("NVIDIA A100", "8.0", 1), ("NVIDIA GeForce RTX 2080 Ti", "7.5", 2)],
)
def test_counted_conflicts_cost_no_more_than_the_cycles_that_they_take(
    name: str, compute_capability: str, cycles: int
) -> None:
    # 9.52 M of 13.6 M passes on 68 SMs in 1 M cycles: 14 % of them, or twice that.
    counts = {CONFLICTS: 9.52e6, SHARED_PASSES: 13.6e6, "sm__cycles_elapsed.max": 1e6, "sm__cycles_active.avg": 1e6}
    launch = made(counts, busy(dram=10, l2=4, l1=96, sm=40), SHARED_4K)
    (found,) = of_rule("shared-bank-conflict", on(name, compute_capability, 68)(launch))
    assert found.gain_kernel == pytest.approx(of_time(0.14 * cycles))
    # Without the number of cycles it is their share, while L1 is busy.
    (found,) = of_rule("shared-bank-conflict", on(name, compute_capability, 68)(launch.without(*counts).plus(
        {CONFLICTS: 9.52e6, SHARED_PASSES: 13.6e6})))  # fmt: skip
    assert found.gain_kernel == pytest.approx(0.6)


@each_row(("conflicts", "explains"), [(7e6, True), (4.5e6, False)], ids=["most", "fewer than half"])
def test_conflicts_that_are_most_passes_come_before_the_bandwidth_that_they_take(
    conflicts: float, explains: bool
) -> None:
    # No access at all would gain 90 %; 7 M cycles of 108 SMs × 206 000 are 31 %, and 1.25 times as much 39 %.
    launch = made({CONFLICTS: conflicts, SHARED_PASSES: 1e7, "sm__cycles_elapsed.max": 2.06e5}, SHARED_4K,
                  busy(dram=4, l2=10, l1=96, sm=10))  # fmt: skip
    assert (launch.finding("shared-bank-conflict").gain_kernel or 0.0) < 0.45
    limit = launch.finding("l1-bandwidth")
    assert (limit.cause is not None and limit.severity == "info") == explains


def test_accesses_that_are_wide_already_or_scattered_are_not_to_be_made_wider() -> None:
    # 98 ÷ 24 = 4.1 passes a request at least, as 16 bytes a thread take; 98 ÷ 60 = 1.6 can be narrow ones.
    passes = made(busy(l1=98, sm=24, memory=98, dram=1, l2=5), NO_SHARED)
    found = passes.finding("l1-bandwidth")
    assert found.headline.endswith("busy with loads and stores; at least 4.1 wavefronts per request")
    assert found.action.startswith("Check coalescing") and "scattered" in found.why
    narrow = passes.plus(busy(sm=60))
    assert narrow.finding("l1-bandwidth").action.startswith("Make fewer and wider")
    # So are loads that take 16 sectors a request; 4 are those of 4 bytes a thread.
    wide = narrow.plus({SECTORS_OF_LOADS: 15.8}).finding("l1-bandwidth")
    assert wide.action.startswith("Check coalescing") and "15.8 sectors per request" in wide.why
    assert narrow.plus({SECTORS_OF_LOADS: 4.0}).finding("l1-bandwidth").action.startswith("Make fewer and wider")


SECTORS_OF_LOADS = "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio"


@each_row(
    ("proof", "action"),
    [
        (stalls(mio_throttle=50), "Read shared memory with fewer and wider loads"),
        ({CONFLICTS_OF.format("ld"): 0.0, CONFLICTS_OF.format("st"): 5.0}, "Compute a larger tile"),
        ({CONFLICTS_OF.format("ld"): 0.0, CONFLICTS_OF.format("st"): 0.0}, "Make fewer and wider accesses"),
    ],
    ids=["its queue", "its conflicts", "neither"],
)
def test_shared_memory_of_unknown_size_is_seen_by_its_queue_and_its_conflicts(
    proof: dict[str, float], action: str
) -> None:
    launch = made(busy(l1=90, sm=76, memory=90, dram=7, l2=9), issued(30), proof)
    assert launch.finding("l1-bandwidth").action.startswith(action)
    # A block that is known to have none waits for something else in that queue.
    assert launch.plus(NO_SHARED).finding("l1-bandwidth").action.startswith("Make fewer and wider accesses")


def test_what_an_sm_does_beside_accesses_is_fed_by_shared_memory() -> None:
    launch = made(busy(l1=95, sm=65, memory=57, dram=57, l2=44), issued(38), ALWAYS_ACTIVE, stalls(mio_throttle=46))
    found = launch.finding("l1-bandwidth")
    assert found.action.startswith("Compute a larger tile") and found.gain_kernel == pytest.approx(0.35)
    assert "queue of shared memory" in found.why
    assert any(item.meaning == "Stall MIO Throttle" for item in found.evidence)


def test_a_kernel_without_floating_point_work_is_not_told_to_feed_multiply_adds() -> None:
    launch = made(busy(l1=96, sm=60, memory=60, dram=14, l2=4), SHARED_4K,
                  details=told("SOLFPRoofline", ACHIEVED.format("0%")))  # fmt: skip
    found = launch.finding("l1-bandwidth")
    assert found.action.startswith("Combine more elements per thread") and "shuffles" in found.advice
    tensor = launch.plus(pipes(tensor=30)).finding("l1-bandwidth")
    assert tensor.action.startswith("Compute a larger tile")


def test_a_busy_load_store_unit_does_not_hide_full_issue_slots() -> None:
    both = made(busy(sm=75), pipes(fma=56, lsu=64))
    assert "busiest arithmetic pipe at 56 %" in both.finding("fp32-compute-bound").headline
    # Where the load/store unit is what keeps the SM busy, arithmetic is not.
    assert made(busy(sm=65), pipes(fma=56, lsu=64)).findings("fp32-compute-bound") == []


def test_conflicts_without_all_passes_are_told_by_warp_and_without_a_gain() -> None:
    # 108 blocks of 256 threads are 864 warps.
    only = {CONFLICTS_OF.format("ld"): 864 * 31.0}
    alone = made(only, grid=(108, 1, 1)).finding("shared-bank-conflict")
    assert "31.0 extra wavefronts per warp" in alone.headline and (alone.gain_kernel, alone.severity) == (None, "info")
    # The passes of loads are not all that the conflicts of loads and stores are among.
    stores = {CONFLICTS_OF.format("st"): 864.0, PASSES_OF.format("ld"): 2 * 864.0}
    both = made(only, stores, grid=(108, 1, 1)).finding("shared-bank-conflict").headline
    assert "32.0 extra wavefronts per warp (31.0 of loads, 1.00 of stores); the total" in both


def test_more_blocks_do_not_shorten_the_launch() -> None:
    # 27 of 108 SMs have a block: three quarters have none. Of 4 µs the busiest SM works for 3.
    grid, empty = (27, 1, 1), 0.75
    few = made({WAVES: 0.25, "sm__cycles_active.max": 6e3, "sm__cycles_elapsed.max": 8e3}, lasting(4e-6), grid=grid)
    assert few.finding("small-grid").gain_kernel == pytest.approx(empty * 0.75)
    # Without the busiest SM: an average one works for 15 % of the time, so one with a block for 60 %.
    average = made(
        {WAVES: 0.25, "sm__cycles_active.avg": 1.2e3, "sm__cycles_elapsed.max": 8e3}, lasting(4e-6), grid=grid
    )
    assert average.finding("small-grid").gain_kernel == pytest.approx(empty * 0.6)
    # Cycles of two passes that are 10 % apart are no launch of 100 µs: 3 µs at most.
    long = made({WAVES: 0.25, "sm__cycles_active.max": 9e5, "sm__cycles_elapsed.max": 1e6}, lasting(1e-3), grid=grid)
    assert long.finding("small-grid").gain_kernel == pytest.approx(empty * 0.997)


def test_what_an_average_sm_works_tells_no_launch_where_it_is_not_known_how_many_have_a_block() -> None:
    cycles = {"sm__cycles_active.avg": 100.0, "sm__cycles_elapsed.max": 8e3}
    two = replace(made(cycles, lasting(4e-6), grid=(2, 1, 1)))
    unknown = next(item for item in of_unknown_gpu(two) if item.rule == "short-kernel")
    assert unknown.gain_kernel == pytest.approx(0.25), "1 of 4 µs, not 3"
    # A quarter of a wave of two blocks an SM is a block for every other one, which work for 2 % of the time.
    held = {f"launch__occupancy_limit_{what}": 2.0 for what in ("warps", "registers", "shared_mem", "blocks")}
    by_waves = replace(made(cycles, lasting(40e-6), held, {WAVES: 0.25}), grid=(20, 1, 1))
    grid = next(item for item in of_unknown_gpu(by_waves) if item.rule == "small-grid")
    assert grid.gain_kernel == pytest.approx(0.75 * (1 - 3 / 40)), "3 of 40 µs at most"
    # Of 108 SMs two have a block: those work for 67 % of the time, and 1.3 µs are the launch's.
    assert two.finding("short-kernel").gain_kernel == pytest.approx(1 - 100 * 54 / 8e3)


def test_what_is_empty_between_rounds_of_blocks_bounds_nothing() -> None:
    # Of 5 µs the busiest SM works for 3. In one round the rest is the launch's, whatever is changed.
    cycles = {"sm__cycles_active.max": 3e3, "sm__cycles_elapsed.max": 5e3}
    launched = made(cycles, lasting(5e-6), busy(dram=10, l2=10, l1=10, memory=10, sm=10))
    one, several = launched.plus({WAVES: 1.0}), launched.plus({WAVES: 6.0})
    remains = [made_of.finding("latency-bound").remains[0] for made_of in (one, several)]
    assert [(item.unit, round(item.fraction, 3)) for item in remains] == [("launch", 0.4), ("launch", 0.2)]


def test_another_launch_takes_no_work_off_the_sm() -> None:
    found = made(lasting(4e-6), busy(dram=10, l2=10, l1=10, memory=10, sm=60)).finding("short-kernel")
    assert found.remains[0].unit == "sm" and found.remains[0].fraction == pytest.approx(0.6)


def test_a_tail_does_not_fill_the_launch() -> None:
    # 1.5 waves: a quarter of the places in 9 of 10 µs could be empty; SMs work for 85 % of them, full.
    tail = {WAVES: 1.5, "sm__cycles_active.avg": 8.5e3, "sm__cycles_elapsed.max": 1e4}
    known = made(tail, {"sm__cycles_active.max": 9e3}, lasting(1e-5))
    assert known.finding("tail-effect").gain_kernel == pytest.approx(0.05)
    assert made(tail, lasting(1e-5)).finding("tail-effect").gain_kernel == pytest.approx(0.15)


def test_sectors_that_are_not_needed_cost_nothing_of_the_launch() -> None:
    # 60 % of the sectors, in the 6 of 8 µs in which SMs work; warps wait for them in half of those.
    excess = {"memory_l2_theoretical_sectors_global": 1000.0,
              "derived__memory_l2_theoretical_sectors_global_excessive": 600.0}  # fmt: skip
    cycles = {WAVES: 1.0, "sm__cycles_active.max": 9e3, "sm__cycles_elapsed.max": 12e3}
    all_of_it = made(excess, cycles, lasting(8e-6)).finding("uncoalesced-global")
    assert all_of_it.gain_kernel == pytest.approx(0.6 * 0.75) and all_of_it.gain_kind == "bound"
    half = made(excess, cycles, lasting(8e-6), stalls(long_scoreboard=40, wait=60), busy(dram=1, l2=1, l1=1, memory=1))
    waits = half.finding("uncoalesced-global")
    assert waits.gain_kernel == pytest.approx(0.6 * 0.75 * 0.5) and waits.gain_kind == "fixed-work"
    # That an average SM works for 75 % of the time is its launch: no SM has ended before the others.
    same = {"sm__cycles_active.avg": 9e3}
    assert half.plus(same).finding("uncoalesced-global").gain_kernel == pytest.approx(0.6 * 0.75 * 0.5)


def test_empty_lanes_cost_nothing_of_the_launch() -> None:
    cycles = {"sm__cycles_active.max": 9e3, "sm__cycles_elapsed.max": 12e3}
    half = made(cycles, {THREADS: 16.0}, lasting(8e-6))
    assert half.finding("branch-divergence").gain_kernel == pytest.approx(0.5 * 0.75)
    small = replace(made(cycles, lasting(8e-6)), block=(16, 1, 1))
    assert small.finding("block-size").gain_kernel == pytest.approx(0.5 * 0.75)


def test_a_cuda_graph_is_not_what_a_short_kernel_gains_by() -> None:
    found = made(lasting(4e-6)).finding("short-kernel")
    assert "graph" not in found.action and "hardly the kernels" in found.advice


def test_what_warps_wait_is_of_the_time_in_which_sms_work() -> None:
    # 40 % of the warps' time, in 6 of 8 µs.
    cycles = {"sm__cycles_active.max": 9e3, "sm__cycles_elapsed.max": 12e3}
    short = made(cycles, lasting(8e-6), stalls(long_scoreboard=40), issued(30))
    assert short.finding("memory-latency").gain_kernel == pytest.approx(0.4 * 0.75)


def test_one_block_an_sm_that_mostly_idles_is_an_imbalance() -> None:
    # 54 blocks on 108 SMs: half of them have one. An average SM works 10 % of the time, so one with a block 20 %. Up to
    # 3 of the 100 µs can be the launch's.
    few = made(lasting(1e-4), {WAVES: 0.1, "sm__cycles_active.avg": 100.0, "sm__cycles_elapsed.max": 1000.0},
               grid=(54, 1, 1))  # fmt: skip
    uneven = few.finding("load-imbalance")
    assert uneven.gain_kernel == pytest.approx(0.77) and "work 20 % of the time" in uneven.headline
    assert replace(few, grid=(162, 1, 1)).findings("load-imbalance") == []
    # 80 % of 5 µs are less than a launch can take.
    assert made(lasting(5e-6), {WAVES: 0.1, "sm__cycles_active.avg": 100.0, "sm__cycles_elapsed.max": 1000.0},
                grid=(54, 1, 1)).findings("load-imbalance") == []  # fmt: skip


def test_a_grid_under_one_wave_is_no_imbalance() -> None:
    uneven = {"sm__cycles_active.max": 1000.0, "sm__cycles_active.avg": 300.0}
    assert made(uneven, {WAVES: 0.5}).findings("load-imbalance") == []
    assert made(uneven, {WAVES: 1.5}).findings("load-imbalance")


@each_row(("more", "gain"), [(issued(75), 0.25), (busy(sm=85), 0.15), ({}, 0.4)])
def test_a_gap_of_occupancy_gains_no_more_than_idle_slots_and_the_busiest_unit(
    more: dict[str, float], gain: float
) -> None:
    # 1 − 30 ÷ 50
    found = made(HALF_OCCUPANCY, {ACTIVE: 30.0, WAVES: 8.0}, more).finding("load-imbalance")
    assert found.gain_kernel == pytest.approx(gain)


@each_row(("more", "gain"), [(issued(75), 0.25), (busy(sm=85), 0.15), ({}, 0.5)])
def test_missing_warps_gain_no_more_than_idle_slots_and_the_busiest_unit(more: dict[str, float], gain: float) -> None:
    assert made(HALF_OCCUPANCY, more).finding("low-occupancy").gain_kernel == pytest.approx(gain)


@each_row(("more", "gain"), [(busy(sm=85), 0.15), ({}, 0.3)])
def test_an_uneven_load_gains_no_more_than_the_busiest_unit_leaves(more: dict[str, float], gain: float) -> None:
    uneven = {"sm__cycles_active.max": 1000.0, "sm__cycles_active.avg": 700.0}
    assert made(uneven, more).finding("load-imbalance").gain_kernel == pytest.approx(gain)


def test_waits_for_memory_are_no_latency_while_a_level_that_was_not_collected_may_be_full() -> None:
    waits = made(stalls(long_scoreboard=60), issued(10))
    either = "Memory latency or bandwidth: 60 % of warp time in Long Scoreboard"
    assert waits.finding("memory-latency").headline.startswith(either)
    # DRAM is quiet, but L2 may be full, as with stores at a stride of a row.
    quiet = waits.plus(busy(dram=13)).finding("memory-latency")
    assert quiet.headline.startswith(either) and "or memory is full" in quiet.why
    for known in (busy(dram=13, memory=20), busy(dram=13, l2=20, l1=5), busy(dram=70)):
        assert waits.plus(known).finding("memory-latency").headline.startswith("Memory latency: 60 %")


def test_uneven_slices_that_hardly_work_are_a_guess() -> None:
    uneven = {"lts__cycles_active.max": 1250.0, "lts__cycles_active.avg": 1000.0}
    # 7 % × 1.25: the busiest slice works for 9 % of the time, whatever else was not collected.
    idle = made(busy(dram=1, l2=7), uneven)
    assert idle.finding("load-imbalance").confidence == "guess"
    verdict = session(idle).verdict
    assert verdict is not None and "slice" not in verdict.sentence
    assert made(uneven).finding("load-imbalance").confidence == "guess"
    assert made(busy(dram=1, l2=40), uneven).finding("load-imbalance").confidence == "inferred"


def test_a_bandwidth_is_told_without_a_rate_of_half_of_it_or_one_that_nobody_counted() -> None:
    l2 = made(busy(dram=30, l2=75, l1=50, sm=20), lasting())
    # ncu's roofline set counts what L2 returns and not what it takes: 2e12 B/s of unknown more.
    assert l2.plus({"lts__lts2xbar_cycles_active.sum.per_second": 6.25e10}).finding("l2-bandwidth").headline == (
        "L2 bandwidth: 75 % of peak"
    )
    # 62.5e6 sectors of 32 B in 1 ms.
    both = l2.plus({"lts__t_sectors_srcunit_tex.sum": 62.5e6}).finding("l2-bandwidth")
    assert both.headline == "L2 bandwidth: 2.00 TB/s, 75 % of peak"
    # 70 % of DRAM's rated peak would be a rate at the rated clock.
    assert made(busy(dram=70, l2=40, l1=30, sm=20), lasting()).finding("dram-bandwidth").headline == (
        "DRAM bandwidth: 70 % of peak"
    )


def test_uneven_slices_of_an_unknown_l2_do_not_gain_zero() -> None:
    found = made({"lts__cycles_active.max": 1250.0, "lts__cycles_active.avg": 1000.0}).finding("load-imbalance")
    assert found.gain_kernel is None or found.gain_kernel > 0


@each_row(
    ("values", "limiter", "advice"),
    [
        ({REGISTERS: 64.0}, "registers", "fewer registers"),
        # 48 KiB and 1 KiB reserved: 3 blocks in 164 KiB.
        ({REGISTERS: 32.0, "launch__shared_mem_per_block_static": 49152.0, "launch__shared_mem_per_block_dynamic": 0.0},
         "shared memory", "less shared memory"),
    ],
)  # fmt: skip
def test_the_limiter_of_occupancy_is_named_with_its_remedy(values: dict[str, float], limiter: str, advice: str) -> None:
    found = made(values).finding("low-occupancy")
    assert f"limited by {limiter}" in found.headline and advice in found.advice


def test_blocks_of_one_warp_are_limited_by_their_number() -> None:
    # 32 blocks of one warp: 32 of 64.
    found = made({REGISTERS: 16.0}, block=(32, 1, 1)).finding("low-occupancy")
    assert "50 % theoretical, limited by blocks" in found.headline


def test_fewer_bytes_of_l2_that_are_used_once_are_fewer_of_dram_s() -> None:
    """With DRAM's 3 of 4 GB as they are, L2 could save a quarter of its 75 % at most, and not by fusing kernels."""
    launch = made(busy(dram=38, l2=75, l1=50, sm=20), lasting(), {"lts__t_bytes.sum": 4e9})
    once = launch.plus({"dram__bytes.sum": 3e9}).finding("l2-bandwidth")
    assert once.gain_kernel == pytest.approx(0.75) and "DRAM" not in (once.held or "")
    again = launch.plus({"dram__bytes.sum": 1e9}).finding("l2-bandwidth")
    assert again.gain_kernel == pytest.approx(0.62) and (again.held or "").endswith("the same bytes through DRAM")


def test_one_direction_of_l2_does_not_tell_whether_its_bytes_are_used_once() -> None:
    # 6.25e10 × 32 B/s for 1 ms are 2e9 B to the SMs; with as many from them it would be more than twice DRAM's 1.5e9.
    returned = {"lts__lts2xbar_cycles_active.sum.per_second": 6.25e10, "dram__bytes.sum": 1.5e9}
    found = made(busy(dram=30, l2=75, l1=50, sm=20), lasting(), returned).finding("l2-bandwidth")
    assert "To see which it is" in found.advice and "little is read again" not in found.advice


def half_full(cycles: float, dram: float = 50.0) -> Made:
    """Half of the warps, with 9 cycles in Long Scoreboard an instruction, so many instructions to a load."""
    counted: dict[str | int, float] = {"LDG.E": 1.0, "FFMA": cycles / 9}
    waits = {**stalls(long_scoreboard=90), "smsp__inst_issued.sum": cycles / 9, WAVES: 8.0}
    return made(
        HALF_OCCUPANCY, waits, issued(10), busy(dram=dram, sm=20, memory=50), histograms={WARP_OPCODES: counted}
    )


def test_more_warps_are_not_asked_for_where_dram_queues_their_loads() -> None:
    found = half_full(400).finding("low-occupancy")
    assert found.severity == "high" and found.gain_kernel == pytest.approx(0.5)
    queued = half_full(1600).finding("low-occupancy")
    assert (queued.severity, queued.gain_kernel) == ("info", 0.0) and "only make the queue longer" in queued.why
    # A DRAM that is idle has no queue: what takes so long is elsewhere.
    assert half_full(1600, dram=4).finding("low-occupancy").severity == "high"


def test_full_occupancy_has_no_limiter() -> None:
    assert made({REGISTERS: 32.0}).findings("low-occupancy") == []


@each_row(
    "change",
    [
        pytest.param(busy(sm=75), id="a unit is busy"),
        pytest.param({"smsp__warps_eligible.avg.per_cycle_active": 1.5}, id="warps are eligible"),
    ],
)
def test_low_occupancy_is_a_guess_unless_the_schedulers_starve(change: dict[str, float]) -> None:
    starved = next(one.launch for one in LAUNCH if one.what == "starved")
    assert starved.plus(change).finding("low-occupancy").confidence == "guess"


@each_row(("blocks", "text"), [(107, "107 blocks for 108 SMs"), (1, "1 block for 108 SMs")])
def test_one_block_is_singular(blocks: int, text: str) -> None:
    assert text in made({WAVES: 0.5}, grid=(blocks, 1, 1)).finding("small-grid").headline


# Waiting.


def test_a_barrier_is_told_with_the_size_of_its_block() -> None:
    launched = made(stalls(barrier=25), block=(32, 4, 2))
    assert "256 threads" in launched.finding("barrier-wait").why
    assert "threads" not in replace(launched, block=None).finding("barrier-wait").why


def test_a_fence_of_hardly_any_time_is_no_part_of_a_barrier() -> None:
    found = made(stalls(barrier=25, membar=4)).finding("barrier-wait")
    assert found.gain_kernel == pytest.approx(0.25)
    assert stall_metric("membar") not in [item.metric for item in found.evidence]


@each_row("rule", ["memory-latency", "dependency-latency", "barrier-wait", "instruction-fetch", "constant-miss"])
def test_waits_cost_nothing_while_nearly_every_cycle_issues(rule: str) -> None:
    for example in LATENCY:
        if example.rule == rule:
            assert example.launch.plus(issued(85)).findings(rule) == []


def test_a_wait_is_told_where_the_issue_slots_are_not_known() -> None:
    assert made(stalls(barrier=25)).finding("barrier-wait").gain_kernel == pytest.approx(0.25)


def test_hit_rates_say_how_far_a_load_travels() -> None:
    rates = {"l1tex__t_sector_hit_rate.pct": 25.0, "lts__t_sector_hit_rate.pct": 50.0}
    moved = {"l1tex__t_bytes.sum": 1e6, "lts__t_bytes.sum": 1e6}
    found = made(stalls(long_scoreboard=50), issued(20), rates, moved, lasting()).finding("memory-latency")
    assert found.why.startswith("25 % of accesses hit in L1, 50 % of the rest in L2.")


def test_a_cache_that_nothing_hits_is_told_so() -> None:
    rates = {"l1tex__t_sector_hit_rate.pct": 0.0, "lts__t_sector_hit_rate.pct": 0.0}
    moved = {"l1tex__t_bytes.sum": 1e6, "lts__t_bytes.sum": 1e6}
    found = made(stalls(long_scoreboard=50), issued(20), rates, moved, lasting()).finding("memory-latency")
    assert found.why.startswith("0 % of accesses hit in L1, 0 % of the rest in L2.")


@each_row(
    ("words", "rule"),
    [
        ("for a scoreboard dependency on a L1TEX (local, global, surface, texture) operation", "memory-latency"),
        ("for sibling warps at a CTA barrier", "barrier-wait"),
        ("on a fixed latency execution dependency", "dependency-latency"),
        ("for an immediate constant cache (IMC) miss", "constant-miss"),
        ("for a branch target to be computed, and the warp program counter to be updated", "instruction-fetch"),
        ("for the L1 instruction queue for local and global (LG) memory operations to be not full", "memory-latency"),
    ],
)
@each_row("share", ["This represents", "Read on about local and global memory. This stall type represents"])
def test_a_text_export_without_warp_states_has_the_stall_that_nvidias_rule_tells(
    words: str, rule: str, share: str
) -> None:
    message = f"On average, each warp spends 9.9 cycles being stalled waiting {words}. {share} about 45.5% of"
    found = made(issued(20), details=told("CPIStall", message)).finding(rule)
    assert found.gain_kernel == pytest.approx(0.455)
    assert "rule CPIStall" in [item.metric for item in found.evidence]


def test_a_full_warp_and_one_that_was_not_counted_do_not_diverge() -> None:
    assert made({THREADS: 32.0}).findings("branch-divergence") == []
    assert made({THREADS: 0.0}).findings("branch-divergence") == []


def explained(launched: Made, rule: str) -> str | None:
    """The rule whose finding explains what that rule says of a launch."""
    cause = launched.finding(rule).cause
    return cause.partition(".")[2] if cause is not None else None


MEMORY_WAITS = made(stalls(long_scoreboard=50), issued(20))
HALF_WAVE = {WAVES: 0.4}


@each_row(
    ("launched", "rule", "cause"),
    [
        (MEMORY_WAITS, "memory-latency", None),
        (MEMORY_WAITS.plus({TOTAL: 1000.0, EXCESS: 600.0}), "memory-latency", "uncoalesced-global"),
        # At its roof there is nothing to repair, and it is still why they wait.
        (MEMORY_WAITS.plus(busy(dram=90)), "memory-latency", "dram-bandwidth"),
        (replace(MEMORY_WAITS.plus(HALF_WAVE), grid=(200, 1, 1)), "memory-latency", "small-grid"),
        (MEMORY_WAITS.plus(HALF_OCCUPANCY, {WAVES: 8.0}, busy(sm=30)), "memory-latency", "low-occupancy"),
        # With 4 of 5 places empty it is not the limit of occupancy that keeps warps away.
        (MEMORY_WAITS.plus(HALF_OCCUPANCY, {WAVES: 8.0, ACTIVE: 10.0}, busy(sm=30)), "memory-latency", None),
        (made(stalls(wait=50), issued(20), HALF_WAVE, grid=(200, 1, 1)), "dependency-latency", "small-grid"),
        # The slowest warp is behind a load.
        (made(stalls(barrier=26, long_scoreboard=59), issued(10)), "barrier-wait", "memory-latency"),
        (made(stalls(barrier=40, long_scoreboard=35), issued(10)), "barrier-wait", None),
        (made(stalls(barrier=40), issued(10), {THREADS: 8.0}), "barrier-wait", "branch-divergence"),
        (made(stalls(no_instruction=5, branch_resolving=20), issued(10), {THREADS: 8.0}), "instruction-fetch",
         "branch-divergence"),
        (made(stalls(no_instruction=25), issued(10), {THREADS: 8.0}), "instruction-fetch", None),
        (made(stalls(imc_miss=40), issued(10), lasting(3e-6)), "constant-miss", "short-kernel"),
    ],
)  # fmt: skip
def test_a_wait_is_explained_by_what_brings_it_about(launched: Made, rule: str, cause: str | None) -> None:
    assert explained(launched, rule) == cause
    assert cause is None or launched.finding(rule).severity == "info"


def test_a_barrier_behind_a_load_that_is_not_coalesced_is_the_accesses_fault() -> None:
    both = made(stalls(barrier=26, long_scoreboard=59), issued(10), {TOTAL: 1000.0, EXCESS: 600.0})
    assert explained(both, "barrier-wait") == explained(both, "memory-latency") == "uncoalesced-global"
    assert both.profile().findings[0].rule == "uncoalesced-global"


def test_no_share_of_warp_time_is_called_a_bound() -> None:
    for example in LATENCY:
        if "wait" in example.rule or "latency" in example.rule:
            found = example.launch.finding(example.rule)
            assert (found.gain_kind, bool(found.held)) == ("fixed-work", True)


TEXTURE_QUEUE = made(stalls(tex_throttle=60), issued(20), busy(sm=50), pipes(fp64=50, alu=10))


def test_fp64_instructions_in_the_texture_queue_do_not_wait_for_memory() -> None:
    # No texture instruction was executed, or nothing tells of them and FP64 is the busiest pipe.
    no_texture = replace(TEXTURE_QUEUE, histograms={WARP_OPCODES: {"DFMA": 10.0, "LDG.E.64": 5.0, "TEX.LL": 0.0}})
    assert TEXTURE_QUEUE.findings("memory-latency") == no_texture.findings("memory-latency") == []
    assert (
        TEXTURE_QUEUE.plus({"sm__inst_executed_pipe_tex.avg.pct_of_peak_sustained_elapsed": 0.0}).findings(
            "memory-latency"
        )
        == []
    )


@each_row(
    "launched",
    [
        replace(TEXTURE_QUEUE, histograms={WARP_OPCODES: {"DFMA": 10.0, "@P0 TEX.LL": 5.0}}),
        TEXTURE_QUEUE.plus({"sm__inst_executed_pipe_tex.avg.pct_of_peak_sustained_elapsed": 5.0}),
        TEXTURE_QUEUE.plus(pipes(fp64=5, alu=10)),
        TEXTURE_QUEUE.without(pipe_metric("fp64")),
    ],
)
def test_textures_in_the_texture_queue_wait_for_memory(launched: Made) -> None:
    assert "texture queue" in launched.finding("memory-latency").headline


def test_waits_for_memory_of_unknown_load_are_not_put_down_to_few_requests() -> None:
    assert "was not collected" in MEMORY_WAITS.finding("memory-latency").why
    assert "Too few requests" in MEMORY_WAITS.plus(busy(dram=30)).finding("memory-latency").why


def test_sms_that_stay_idle_as_blocks_divide_are_no_imbalance() -> None:
    # 162 blocks on 108 SMs: half of the SMs have two, the others one.
    uneven = made({"sm__cycles_active.max": 1000.0, "sm__cycles_active.avg": 750.0}, grid=(162, 1, 1))
    assert uneven.findings("load-imbalance") == []
    assert replace(uneven, grid=(216, 1, 1)).findings("load-imbalance")
    # 54 blocks have no work for the others.
    assert replace(uneven, grid=(54, 1, 1)).findings("load-imbalance") == []


def test_the_limit_of_a_grid_that_does_not_fill_it_is_a_fact_without_waves_too() -> None:
    few = made(HALF_OCCUPANCY, issued(20), busy(sm=20), stalls(wait=60), grid=(54, 1, 1)).finding("low-occupancy")
    assert (few.severity, few.gain_kernel) == ("info", 0.0)


def test_idle_units_and_schedulers_tell_that_more_warps_help_where_no_states_were_collected() -> None:
    idle = made(HALF_OCCUPANCY, issued(20), busy(sm=20, dram=50),
                {ACTIVE: 48.0, "smsp__warps_eligible.avg.per_cycle_active": 0.3})  # fmt: skip
    # Half of the warps are missing; DRAM needs half of the time.
    found = idle.finding("low-occupancy")
    assert (found.severity, found.confidence) == ("high", "inferred") and found.gain_kernel == pytest.approx(0.5)
    for lacking in (*busy(dram=0), *busy(sm=0), "smsp__warps_eligible.avg.per_cycle_active"):
        assert idle.without(lacking).finding("low-occupancy").severity == "info"


def test_places_that_stand_empty_between_short_blocks_are_no_latency() -> None:
    # 64 blocks of 8 warps an SM, 4 of them at a time, in 8 000 cycles: one lives for 500.
    short = made({REGISTERS: 32.0, ACTIVE: 50.0, "sm__cycles_active.avg": 8e3}, busy(sm=20, memory=10), stalls(wait=20),
                 issued(20), grid=(6912, 1, 1))  # fmt: skip
    assert short.finding("short-blocks").severity == "high" and short.findings("latency-bound") == []
    # With most issue slots used while an SM works, more warps are no sure help.
    unsure = short.plus(issued(70)).finding("latency-bound")
    assert unsure.severity == "info" and "a block lives for 500 cycles" in unsure.why
    assert unsure.action == short.finding("short-blocks").action
    full = short.plus({ACTIVE: 95.0, "sm__cycles_active.avg": 4e3}).finding("latency-bound")
    assert full.severity == "high" and "all warp slots are taken" in full.why


def test_nothing_busy_says_how_many_warps_are_there() -> None:
    waiting = made(busy(sm=20, memory=10), {ACTIVE: 95.0})
    assert "all warp slots are taken" in waiting.finding("latency-bound").why
    assert (
        "no more than 50 % of the warp slots"
        in waiting.plus(HALF_OCCUPANCY, {ACTIVE: 49.0}).finding("latency-bound").why
    )
    assert "only 20 % of the warp slots" in waiting.plus(HALF_OCCUPANCY, {ACTIVE: 20.0}).finding("latency-bound").why
    assert "slots" not in made(busy(sm=20, memory=10)).finding("latency-bound").why


def test_a_busy_pipe_is_a_busy_unit() -> None:
    assert made(busy(sm=20, memory=10), pipes(fma=65)).findings("latency-bound") == []


def test_nothing_busy_is_told_only_where_nothing_else_explains_it() -> None:
    assert made(busy(sm=20, memory=10), stalls(barrier=40), issued(20)).findings("latency-bound") == []
    assert made(busy(sm=20, memory=10), stalls(barrier=5), issued(20)).findings("latency-bound")


def test_a_unit_that_was_not_collected_may_be_busy() -> None:
    assert made(busy(sm=20)).findings("latency-bound") == []
    assert made(busy(dram=10, l2=5)).findings("latency-bound") == []
    assert made(busy(sm=20, dram=10, l2=5)).findings("latency-bound") == []
    assert made(busy(sm=20, dram=10, l2=5, l1=30)).findings("latency-bound")


def test_nothing_busy_says_what_would_tell_why() -> None:
    assert "--section WarpStateStats" in made(busy(sm=20, memory=10)).finding("latency-bound").why


# Thresholds: each decides where its rule says so, whatever its value.


class Judged(Protocol):
    """A launch that rules can be asked of."""

    def findings(self, rule: str) -> list[Finding]:
        """What that rule says of the launch."""


@dataclass(frozen=True, slots=True)
class Edge:
    """Launches on the two sides of a threshold: `above` tells on which of them `told` holds."""

    rule: str
    threshold: Threshold
    at: Callable[[float], Judged]
    told: Callable[[list[Finding]], bool] = bool
    above: bool = True


@dataclass(frozen=True, slots=True)
class OfUnknownGpu:
    """A launch on some GPU of compute capability 8.0."""

    launch: Made

    def findings(self, rule: str) -> list[Finding]:
        """What that rule says of the launch."""
        return [finding for finding in of_unknown_gpu(self.launch) if finding.rule == rule]


def has_few_blocks(found: list[Finding]) -> bool:
    return any(finding.headline.startswith("Small grid: ") for finding in found)


def waits_in_line(found: list[Finding]) -> bool:
    return ["wait in line" in finding.action for finding in found] == [True]


def is_settled(found: list[Finding]) -> bool:
    return [finding.severity for finding in found] == ["info"]


def is_high(found: list[Finding]) -> bool:
    return [finding.severity for finding in found] == ["high"]


def is_guess(found: list[Finding]) -> bool:
    return [finding.confidence for finding in found] == ["guess"]


def is_inferred(found: list[Finding]) -> bool:
    return [finding.confidence for finding in found] == ["inferred"]


def names_a_wait(found: list[Finding]) -> bool:
    return "of warp time" in found[0].headline


def many_passes(found: list[Finding]) -> bool:
    return "bank conflicts" in found[0].why


def l2_is_quiet(found: list[Finding]) -> bool:
    return "that hit in L1" in found[0].why


def may_be_a_table(found: list[Finding]) -> bool:
    return ["a table" in finding.action for finding in found] == [True]


def starts_inside(found: list[Finding]) -> bool:
    return found[0].action == "Start rows at a multiple of 32 bytes"


def reads_wide(found: list[Finding]) -> bool:
    return "in one wide access" in found[0].action


def reads_shared(found: list[Finding]) -> bool:
    return "shared accesses" in found[0].headline


def helps_by_coalescing(found: list[Finding]) -> bool:
    return found[0].action.startswith("Check coalescing")


def splits_structures(found: list[Finding]) -> bool:
    return "SoA" in found[0].action


def lies_at_a_stride(found: list[Finding]) -> bool:
    return "are far apart" in found[0].why


def lanes_apart(distance: str, *loads: str) -> Made:
    """Loads of 32 sectors a request, of which 28 are excess, by lanes so far apart."""
    address = ("S2R R0, SR_TID.X", 0.0, 0.0), (f"IMAD R4, R0, {distance}, R2", 0.0, 0.0)
    return counted_code(*address, *((load, 32e3, 28e3) for load in loads), ("EXIT", 0.0, 0.0))


def counts_all_warps(found: list[Finding]) -> bool:
    return (found[0].gain_kernel or 0) > 0.61


def pipe_edges(rule: str, pipe: str) -> tuple[Edge, ...]:
    other = "alu" if pipe != "alu" else "fma"
    return (
        Edge(rule, compute.PIPE_BUSY, lambda value: made(pipes(**{pipe: value, other: 10}))),
        Edge(rule, compute.SM_PIPE, lambda value: made(pipes(**{pipe: value, other: 10}), busy(sm=70))),
        throttle_edge(rule, pipe),
    )


def throttle_edge(rule: str, pipe: str) -> Edge:
    other = "alu" if pipe != "alu" else "fma"
    at = made(pipes(**{pipe: 45, other: 10}), issued(30))
    return Edge(rule, compute.THROTTLED, lambda value: at.plus(stalls(math_pipe_throttle=value)))


def wait_edges(rule: str, reason: str, threshold: Threshold) -> tuple[Edge, ...]:
    return (
        Edge(rule, threshold, lambda value: made(stalls(**{reason: value}), issued(20))),
        Edge(rule, latency.ISSUE, lambda value: made(stalls(**{reason: 50}), issued(value)), above=False),
    )


def fused(share_alone: float) -> Made:
    """Arithmetic of which that share stands alone."""
    return made(pipes(fma=80), operations(ffma=1 - share_alone, fadd=share_alone, fmul=0))


def product(percent_of_peak: float) -> Made:
    """Fused multiply-adds at that percentage of the FP32 peak of 13.824 TFLOP/s, for 1 ms."""
    ffma = 13.824e9 / 2 * percent_of_peak / 100
    return made(pipes(tensor=0), lasting(), operations(ffma=ffma, fadd=0, fmul=0))


def partly_fused(percent: float) -> Made:
    """As many thread instructions as half of the peak needs if fused, of which that percentage is."""
    values = operations(ffma=6e9 * percent / 100, fadd=6e9 * (1 - percent / 100), fmul=0)
    return made(pipes(tensor=0), lasting(), values)


def partly_outer_products(percent: float) -> Made:
    """A loop of 100 instructions a round: that many of them in an outer product of 2 × 2, the others additions."""
    tile = ["LDS.64 R20, [R40]", "LDS.64 R22, [R41]"]
    sums = [f"FFMA R{2 * i + j}, R{20 + i}, R{22 + j}, R{2 * i + j}" for i in range(2) for j in range(2)]
    runs = [(text, 1e6) for text in tile] + [(text, 250.0 * percent) for text in sums]
    return coded(*runs, ("FADD R30, R30, R31", 1000.0 * (100 - percent))).plus(pipes(tensor=0, fma=70), lasting())


def full_fma(percent: float, work: float) -> Made:
    """An FMA pipe that busy, with that percentage of the FP32 peak of 13.824 TFLOP/s."""
    return made(pipes(fma=percent, alu=10), lasting(), operations(ffma=13.824e9 / 2 * work / 100, fadd=0, fmul=0))


@dataclass(frozen=True, slots=True)
class ByTensorRate:
    """A matrix product on a GPU whose tensor cores have that percentage of FP32's rate."""

    percent: float

    def findings(self, rule: str) -> list[Finding]:
        hardware = builders.a100()
        plain = hardware.rates[ComputeKey("fp32")]
        key = ComputeKey("tensor.bf16", "fp32", "mma.sync")
        rates = {ComputeKey("fp32"): plain, key: structs.replace(plain, value=plain.value * self.percent / 100)}
        report = builders.report(product(50).launch())
        (kernel,) = diagnose(analyse([report], lambda _: structs.replace(hardware, rates=rates), "9.9")).kernels
        return of_rule(rule, kernel.findings)


SMALL_BLOCKS = made({REGISTERS: 32.0, WAVES: 8.0}, busy(sm=20), issued(20), stalls(wait=60), block=(32, 1, 1))
"""32 blocks of one warp are all that an SM takes, and half of its warps."""
SHORT_BLOCKS = made({REGISTERS: 32.0, ACTIVE: 50.0, WAVES: 8.0, "sm__cycles_active.avg": 1e4}, busy(sm=20),
                    grid=(6912, 1, 1))  # fmt: skip
"""An SM runs 64 blocks of 8 warps, 4 at a time: one lives for 625 cycles."""


def self_moves(percent: float) -> Made:
    """Code of which that share moves a register onto itself, as executed."""
    counts: dict[str | int, float] = {0: percent, 16: 100 - percent}
    code = (
        ProfiledInstruction(0, "@P0 MOV R4, R4", None, None, {EXECUTED: percent}),
        ProfiledInstruction(16, "MOV R4, R5", None, None, {EXECUTED: 100 - percent}),
    )
    return made(histograms={EXECUTED: counts}, details=Program(code))


def mma_sync(percent: float) -> Made:
    """Matrix work that is that share of what mma.sync can do: 63 % of 4096 FLOP a clock on 132 SMs, 1 ms at 1 GHz."""
    histograms: Histograms = {WARP_OPCODES: {"HMMA.16816.F32": percent / 100 * 0.63 * 132e6}}
    return replace(made(lasting(), histograms=histograms), device=H100)


def tree(adding: float = 20.0, steps: float = 9.0, barriers: float = 8.0) -> Made:
    """A block of 8 warps in which that share of the threads at a barrier has added."""
    passes = 8 * steps
    histograms: Histograms = {
        THREAD_OPCODES: {"BAR": 32 * passes, "STS": 32 * passes * adding / 100, "LDS": 32 * passes * adding / 100},
        WARP_OPCODES: {"BAR.SYNC": passes, "IMAD": passes * (100 - barriers) / barriers},
    }
    return made(stalls(barrier=30), issued(20), histograms=histograms, grid=(1, 1, 1))


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


def asks_for_fewer_values(found: list[Finding]) -> bool:
    return [finding.action.startswith("Unpack, pack or hash") for finding in found] == [True]


def asks_for_fewer_bytes(found: list[Finding]) -> bool:
    return [finding.action[:16] for finding in found] == ["Move fewer bytes"]


EDGES = (
    Edge("dram-bandwidth", limits.BUSY, lambda value: made(busy(dram=value, l2=10))),
    Edge("dram-bandwidth", limits.NEAR_ROOF, lambda value: made(busy(dram=value, l2=10)), is_settled),
    Edge("integer-bound", compute.BIT_WORK, with_bit_work, asks_for_fewer_values),
    Edge("dram-bandwidth", dram_latency.QUEUED, waiting_for_loads, asks_for_fewer_bytes),
    Edge("dram-bandwidth", limits.BALANCED, lambda value: made(busy(dram=65, l2=10, sm=65 + value)), above=False),
    Edge("l2-bandwidth", limits.BALANCED, lambda value: made(busy(dram=10, l2=65, sm=65 + value)), above=False),
    Edge("l2-bandwidth", limits.BUSY, lambda value: made(busy(dram=10, l2=value))),
    Edge("l1-bandwidth", limits.BUSY, lambda value: made(busy(dram=10, l1=value))),
    Edge("l1-bandwidth", limits.NEAR_ROOF, lambda value: made(
         {ACTIVE_L1: value, "sm__cycles_active.avg": 5e5, "gpc__cycles_elapsed.max": 1e6},
         busy(sm=20, memory=value / 2, dram=5, l2=10), SHARED_4K)),
    Edge("l1-bandwidth", limits.MANY_WAVEFRONTS,
         lambda value: made(busy(l1=80), SHARED_4K, {WAVEFRONTS: 10 * value, REQUESTS: 10.0}), many_passes),
    Edge("l1-bandwidth", limits.WIDE_PASSES,
         lambda value: made(busy(l1=90, sm=90 / value, memory=90, dram=1, l2=5), NO_SHARED), helps_by_coalescing),
    Edge("l1-bandwidth", limits.WIDE_SECTORS,
         lambda value: made(busy(l1=90), NO_SHARED, {SECTORS_OF_LOADS: value}), helps_by_coalescing),
    Edge("l1-bandwidth", latency.DOMINANT,
         lambda value: made(busy(l1=90), stalls(mio_throttle=value), issued(20)), reads_shared),
    Edge("l1-bandwidth", limits.FROM_L2, lambda value: made(
         busy(l1=80, l2=0.8 * value, dram=1), SHARED_4K, {WAVEFRONTS: 80.0, REQUESTS: 10.0}), l2_is_quiet, above=False),
    Edge("shared-bandwidth", limits.BUSY, lambda value: made({SHARED_BUSY: value})),
    Edge("host-memory-traffic", limits.HOST_FILL, lambda value: made({HOST_FILLS: value, DEVICE_FILLS: 0.0})),
    Edge("host-memory-traffic", dram_latency.FAR, lambda value: FAR.plus(busy(sm=100 * 51.2 / (4 * value)))),
    Edge("host-memory-traffic", dram_latency.IDLE, lambda value: FAR.plus(busy(dram=value)), above=False),
    Edge("host-memory-traffic", far_memory.TAKES_IN, lambda value: FAR.plus(busy(l2=value))),
    Edge("host-memory-traffic", limits.HOST_SHARE, lambda value: made({HOST: value, DEVICE: 100 - value})),
    Edge("uncoalesced-global", coalescing.EXCESS, lambda value: made({TOTAL: 100.0, EXCESS: value})),
    Edge("uncoalesced-global", limits.MANY_WAVEFRONTS,
         lambda value: made(busy(memory=80), {WAVEFRONTS: 80.0, REQUESTS: 80 / value}, NO_SHARED)),
    Edge("uncoalesced-global", access_shape.SHIFTED,
         lambda value: made({TOTAL: 100.0, EXCESS: value}), starts_inside, above=False),
    Edge("uncoalesced-global", coalescing.IN_L2,
         lambda value: made({TOTAL: 100.0, EXCESS: 80.0, "lts__t_sector_hit_rate.pct": value}), may_be_a_table),
    # Bytes that a thread reads one at a time, in a row of a length that the code does not know.
    Edge("uncoalesced-global", access_shape.WIDE, lambda value: lanes_apart(
         "c[0x0][0x168]", *(f"LDG.E.U8 R6, [R4.64+{at:#x}]" for at in range(math.floor(value)))), reads_wide),
    Edge("uncoalesced-global", access_shape.LINE, lambda value: lanes_apart(
         hex(math.ceil(value)), "LDG.E R6, [R4.64]", "LDG.E R7, [R4.64+0x8]"), splits_structures, above=False),
    # Of the other load nothing tells where it leads.
    Edge("uncoalesced-global", access_shape.MOST, lambda value: counted_code(
         ("S2R R0, SR_TID.X", 0, 0), ("IMAD R4, R0, c[0x0][0x168], R2", 0, 0), ("LDG.E R6, [R4.64]", 100, value),
         ("LDG.E R7, [R8.64]", 100, 100 - value), ("EXIT", 0, 0)), lies_at_a_stride),
    Edge("shared-bank-conflict", access.CONFLICTS, lambda value: made({SHARED_WAVES: 100.0, SHARED_EXCESS: value})),
    Edge("local-memory-spill", access.SPILL, lambda value: made(
         {LOCAL_LOADS: value, LOCAL_STORES: 0, LOAD_SECTORS: 100 - value, STORE_SECTORS: 0})),
    Edge("narrow-access", access.NARROW, lambda value: made(
         histograms={WARP_OPCODES: {"LDG.E.U8": value, "LDG.E.128": 100 - value}})),
    Edge("narrow-access", access.NARROW_PRESSURE, lambda value: made(
         stalls(lg_throttle=value), histograms={WARP_OPCODES: {"LDG.E": 10.0}})),
    Edge("atomic-contention", access.ATOMICS, lambda value: made({L2_ATOMICS: value})),
    Edge("fp64-bound", compute.PIPE_BUSY, lambda value: made(pipes(fp64=value, alu=10))),
    Edge("fp64-bound", fp64.FP64,
         lambda value: made(lasting(), operations(dfma=6.912e9 / 2 * value / 100, dadd=0, dmul=0))),
    throttle_edge("fp64-bound", "fp64"),
    Edge("fp64-bound", compute.SM_PIPE, lambda value: made(pipes(fp64=value, alu=10), busy(sm=70))),
    *pipe_edges("fp32-compute-bound", "fma"),
    Edge("fp32-compute-bound", compute.PIPE_NEAR_ROOF, lambda value: full_fma(value, 70), is_settled),
    Edge("fp32-compute-bound", compute.ROOF_WORK, lambda value: full_fma(90, value), is_settled),
    *pipe_edges("integer-bound", "alu"),
    *pipe_edges("special-function-bound", "xu"),
    *pipe_edges("tensor-compute-bound", "tensor"),
    Edge("tensor-compute-bound", compute.PIPE_NEAR_ROOF, lambda value: made(pipes(tensor=value, alu=10)), is_settled),
    # One instruction in so many cycles of the SM, which is 90 % busy.
    Edge("tensor-compute-bound", compute.SCALAR_CYCLES, lambda value: made(
         busy(sm=90, memory=20), issued(90 / value), {"sm__cycles_active.avg": 1e6, "sm__cycles_elapsed.max": 1e6})),
    Edge("tensor-cores-idle", compute.FMA_WORK, product),
    Edge("tensor-cores-idle", matrix.FUSED_SHARE, partly_fused),
    Edge("tensor-cores-idle", matrix.OUTER_PRODUCTS, partly_outer_products),
    Edge("tensor-cores-idle", matrix.MULTIPLIES, lambda value: made(
         pipes(tensor=0), lasting(), name="my_gemm", histograms={WARP_OPCODES: {"FFMA": value, "IMAD": 100 - value}})),
    # No pipe is known.
    Edge("tensor-cores-idle", compute.PIPE_BUSY,
         lambda value: made(busy(sm=value), lasting(), name="ampere_sgemm_128x64_nn"), is_high),
    Edge("tensor-cores-idle", matrix.FASTER, ByTensorRate),
    # Half of what stands alone could go.
    Edge("non-fused-fp", fusing.NON_FUSED, lambda value: fused(2 * value / 100)),
    Edge("non-fused-fp", fusing.NEVER_FUSED, lambda value: fused(1 - value / 100), is_guess),
    Edge("small-grid", launch.FULL_WAVE, lambda value: made({WAVES: value}, grid=(200, 1, 1)), above=False),
    Edge("small-grid", launch.HALF_WAVE, lambda value: made({WAVES: value}, grid=(200, 1, 1)), is_guess),
    Edge("small-grid", launch.STARVED_ISSUE,
         lambda value: made({WAVES: 0.7}, issued(value), busy(sm=30), grid=(200, 1, 1)), is_guess),
    Edge("small-grid", launch.STARVED_ISSUE,
         lambda value: made({WAVES: 0.7}, issued(30), busy(sm=value), grid=(200, 1, 1)), is_guess),
    Edge("small-grid", launch.FEW_WARPS, lambda value: made(
         {WAVES: 0.4, REPORTED_OCCUPANCY: value}, REPORTED_LIMITS, busy(sm=5), grid=(200, 1, 1)), counts_all_warps,
         above=False),
    # 3 of 1000 µs can be the launch's; 108 SMs, and 5 % more.
    Edge("small-grid", launch.TAIL_SHARE, lambda value: OfUnknownGpu(made(
         lasting(), active_for(99.7 - value), grid=(round(1.08 * (99.7 - value)), 1, 1))), has_few_blocks),
    Edge("small-grid", launch.TAIL_SLACK, lambda value: OfUnknownGpu(made(
         lasting(), active_for(100 * 64 / (108 * (1 + value / 100))), grid=(64, 1, 1))), has_few_blocks, above=False),
    # What takes as long as a kernel that does nothing has no use for a larger grid.
    Edge("small-grid", launch.NOTHING, lambda value: made({WAVES: 0.2}, lasting(value), grid=(20, 1, 1)),
         is_settled, above=False),
    Edge("small-grid", launch.LAUNCH_ALONE, lambda value: made(
         {WAVES: 0.2, "sm__cycles_active.max": 1e4 * (1 - value / 100), "sm__cycles_elapsed.max": 1e4}, lasting(4e-6),
         grid=(20, 1, 1)), is_settled),
    # The last of so many rounds takes that share of the time.
    Edge("tail-effect", launch.TAIL_SHARE, lambda value: made({WAVES: math.ceil(100 / value) - 0.5})),
    Edge("tail-effect", launch.TAIL_SLACK, lambda value: made(
         {WAVES: 1.5, "sm__cycles_active.max": 100.0, "sm__cycles_active.avg": 75 - value - 1e-9}), is_inferred),
    Edge("load-imbalance", blocks.RAMP, lambda value: made(
         {"sm__cycles_active.max": 100.0, "sm__cycles_active.avg": 75.0}, lasting(4 * value))),
    # A full SM that runs 64 blocks of 8 warps holds 8 of them.
    Edge("load-imbalance", blocks.SHORT_BLOCK, lambda value: made(
         {REGISTERS: 32.0, ACTIVE: 100.0, "sm__cycles_active.max": 9.5 * value, "sm__cycles_active.avg": 8 * value},
         grid=(6912, 1, 1))),
    Edge("block-size", blocks.EMPTY_LANES, lambda value: made(
         busy(sm=30), {THREADS: 32 * (1 - value / 100)}, block=(40, 1, 1))),
    Edge("block-size", launch.STARVED_ISSUE, lambda value: SMALL_BLOCKS.plus(issued(value)), above=False),
    Edge("block-size", launch.TAKEN, lambda value: SMALL_BLOCKS.plus({ACTIVE: value / 2})),
    Edge("block-size", launch.COVERED, lambda value: SMALL_BLOCKS.plus(stalls(wait=value))),
    Edge("short-blocks", blocks.SHORT_BLOCK, lambda value: SHORT_BLOCKS.plus({"sm__cycles_active.avg": 16 * value}),
         above=False),
    Edge("short-blocks", blocks.OCCUPANCY_GAP, lambda value: SHORT_BLOCKS.plus({ACTIVE: 100 - value})),
    Edge("short-blocks", launch.STARVED_ISSUE, lambda value: SHORT_BLOCKS.plus(issued(value)), is_guess),
    # A block on each of half of the SMs: one with a block is idle for 1 − active ÷ half of the time.
    Edge("shared-bank-conflict", access.CONFLICTS_A_WARP, lambda value: made(
         {"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum": 864 * value}, grid=(108, 1, 1))),
    Edge("load-imbalance", blocks.UNEVEN_BLOCKS, lambda value: made(lasting(1e-4), {WAVES: 0.1,
         "sm__cycles_active.avg": 500 * (1 - value / 100), "sm__cycles_elapsed.max": 1000.0}, grid=(54, 1, 1))),
    Edge("load-imbalance", blocks.IMBALANCE,
         lambda value: made({"sm__cycles_active.max": 100.0, "sm__cycles_active.avg": 100 - value})),
    # 1.5 waves leave the SMs idle for a quarter of the time.
    Edge("load-imbalance", launch.TAIL_SLACK, lambda value: made(
         {WAVES: 1.5, "sm__cycles_active.max": 100.0, "sm__cycles_active.avg": 75 - value - 1e-9})),
    Edge("load-imbalance", blocks.OCCUPANCY_GAP, lambda value: made(HALF_OCCUPANCY, {ACTIVE: 50 - value, WAVES: 8.0})),
    Edge("load-imbalance", blocks.SLICES,
         lambda value: made({"lts__cycles_active.max": 100 + value, "lts__cycles_active.avg": 100.0})),
    Edge("load-imbalance", blocks.SLICE_BUSY, lambda value: made(
         busy(l2=value / 1.25), {"lts__cycles_active.max": 125.0, "lts__cycles_active.avg": 100.0}), is_inferred),
    Edge("low-occupancy", launch.FULL, lambda value: made({REPORTED_OCCUPANCY: value}, REPORTED_LIMITS), above=False),
    Edge("low-occupancy", dram_latency.QUEUED, half_full, is_settled),
    Edge("low-occupancy", dram_latency.IDLE, lambda value: half_full(1600, dram=value), is_settled),
    Edge("low-occupancy", launch.STARVED_ISSUE,
         lambda value: made(HALF_OCCUPANCY, {WAVES: 8.0}, issued(value), busy(sm=30), stalls(wait=60)), is_settled),
    Edge("low-occupancy", launch.COVERED, lambda value: made(
         HALF_OCCUPANCY, {WAVES: 8.0}, issued(30), busy(sm=30), stalls(wait=value)), is_settled, above=False),
    Edge("low-occupancy", launch.TAKEN, lambda value: made(
         HALF_OCCUPANCY, {ACTIVE: value / 2}, issued(30), busy(sm=30), stalls(wait=60)), is_settled, above=False),
    Edge("short-kernel", launch.SHORT, lambda value: made(lasting(value)), above=False),
    *wait_edges("memory-latency", "long_scoreboard", latency.DOMINANT),
    Edge("memory-latency", latency.LATENCY_BOUND,
         lambda value: made(stalls(long_scoreboard=50), issued(20), busy(dram=value)), is_settled),
    *wait_edges("dependency-latency", "wait", latency.DOMINANT),
    Edge("dependency-latency", latency.LATENCY_BOUND,
         lambda value: made(stalls(wait=50), issued(20), busy(sm=value)), is_settled),
    Edge("barrier-wait", latency.ALONE, lambda value: made(
         {REGISTERS: 64.0}, stalls(barrier=value), issued(20), block=(1024, 1, 1))),
    *wait_edges("barrier-wait", "barrier", latency.NOTABLE),
    *wait_edges("instruction-fetch", "no_instruction", latency.NOTABLE),
    Edge("instruction-fetch", latency.START_UP, lambda value: made(
         stalls(no_instruction=25), issued(20), lasting(4 * value)), is_settled, above=False),
    *wait_edges("constant-miss", "imc_miss", latency.NOTABLE),
    Edge("constant-miss", latency.START_UP, lambda value: made(
         stalls(imc_miss=25), issued(20), lasting(4 * value)), is_settled, above=False),
    Edge("stores-nothing", effects.WRITING, lambda value: made(
         lasting(), histograms={WARP_OPCODES: {"STG.E": value, "LDG.E": 9.0}}, name=GEMM_NAME), above=False),
    Edge("debug-build", build.SELF_MOVES, self_moves),
    Edge("debug-build", build.MOVES,
         lambda value: made(histograms={WARP_OPCODES: {"MOV": value, "FADD": 100 - value}})),
    Edge("old-architecture", build.OLD_BUSY, mma_sync, is_guess, above=False),
    Edge("old-architecture", build.OLD_USED, mma_sync),
    Edge("reduction-tree", reduction.ADDING, lambda value: tree(adding=value), above=False),
    Edge("reduction-tree", reduction.STEPS, lambda value: tree(steps=value)),
    Edge("reduction-tree", reduction.BARRIERS, lambda value: tree(barriers=value)),
    Edge("reduction-tree", latency.NOTABLE, lambda value: tree().plus(stalls(barrier=value))),
    Edge("branch-divergence", idle_lanes.THREADS, lambda value: made({THREADS: value}), above=False),
    Edge("latency-bound", latency.LATENCY_BOUND, lambda value: made(busy(sm=value, memory=10)), above=False),
    Edge("latency-bound", latency.DOMINANT,
         lambda value: made(busy(sm=20, memory=10), issued(20), stalls(mio_throttle=value)), names_a_wait),
    Edge("latency-bound", dram_latency.SLOWER_THAN_LOADS,
         lambda value: made(busy(sm=value, memory=1), {WAVES: 16.0}), waits_in_line, above=False),
    Edge("latency-bound", latency.MANY_WAVES,
         lambda value: made(busy(sm=1, memory=1), {WAVES: value}), waits_in_line),
    # An SM that runs 64 blocks of 8 warps holds 4 of them, then 8 less some.
    Edge("latency-bound", blocks.SHORT_BLOCK, lambda value: made(
         {REGISTERS: 32.0, ACTIVE: 50.0, "sm__cycles_active.avg": 16 * value}, busy(sm=20, memory=10), issued(70),
         stalls(wait=20), grid=(6912, 1, 1)), is_settled, above=False),
    Edge("latency-bound", blocks.OCCUPANCY_GAP, lambda value: made(
         {REGISTERS: 32.0, ACTIVE: 100 - value, "sm__cycles_active.avg": 1e3}, busy(sm=20, memory=10), issued(70),
         stalls(wait=20), grid=(6912, 1, 1)), is_settled),
)  # fmt: skip


def test_every_threshold_is_tried_on_both_sides() -> None:
    tried = {(edge.rule, edge.threshold) for edge in EDGES}
    rules = [rule for rule in RULES if rule.id not in OF_SEVERAL]
    assert {(rule.id, threshold) for rule in rules for threshold in rule.thresholds} <= tried


@each_row(
    "rule",
    ["fp64-bound", "fp32-compute-bound", "integer-bound", "special-function-bound", "tensor-compute-bound"],
)
def test_what_makes_a_pipe_the_limit_is_listed_with_its_rule(rule: str) -> None:
    listed = rule_named(rule)
    assert listed is not None
    assert {compute.PIPE_BUSY, compute.SM_PIPE, compute.THROTTLED} <= set(listed.thresholds)


@each_row(
    "edge", [pytest.param(edge, id=f"{edge.rule}: {edge.threshold.name} {edge.threshold.value:g}") for edge in EDGES]
)
def test_a_threshold_decides_just_on_each_side_of_it(edge: Edge) -> None:
    below, above = (edge.at(edge.threshold.value * side).findings(edge.rule) for side in (0.999, 1.001))
    assert edge.told(above) is edge.above
    assert edge.told(below) is not edge.above


def test_thresholds_have_a_unit_and_a_reason() -> None:
    for rule in RULES:
        assert rule.thresholds
        for threshold in rule.thresholds:
            assert threshold.name and threshold.unit and len(threshold.reason.split()) >= 3


def test_rules_are_known_by_unique_ids_and_describe_themselves() -> None:
    assert len({rule.id for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert rule_named(rule.id) is rule
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", rule.id)
        assert rule.about in ("defect", "limit", "symptom")
        assert all(text.endswith(".") for text in (rule.looks_at, rule.gain, rule.silent))
    assert rule_named("no-such-rule") is None


# Severity.


def verdict(gain: float | None, confidence: Confidence = "measured", settled: bool = False) -> RuleVerdict:
    return RuleVerdict(
        headline="headline",
        why="why",
        advice="advice",
        confidence=confidence,
        saving=Saving(gain, "bound") if gain is not None else None,
        evidence=(Evidence("metric", 1.0, "%", threshold=None, meaning="meaning"),),
        settled=settled,
    )


@each_row(
    ("about", "gain", "confidence", "settled", "severity"),
    [
        ("defect", HIGH, "measured", False, "high"),
        ("defect", HIGH, "inferred", False, "high"),
        ("defect", HIGH - 0.001, "measured", False, "medium"),
        ("defect", MEDIUM, "measured", False, "medium"),
        ("defect", MEDIUM - 0.001, "measured", False, "low"),
        ("defect", LOW, "measured", False, "low"),
        ("defect", LOW - 0.001, "measured", False, "info"),
        ("defect", None, "measured", False, "info"),
        ("defect", 0.9, "guess", False, "low"),
        ("defect", LOW - 0.001, "guess", False, "info"),
        ("defect", 0.9, "measured", True, "info"),
        ("limit", 0.9, "measured", False, "high"),
        ("limit", 0.9, "guess", False, "low"),
        ("symptom", 0.9, "inferred", False, "high"),
        ("symptom", MEDIUM - 0.001, "inferred", False, "low"),
    ],
)
def test_severity_follows_gain_confidence_and_what_can_be_repaired(
    about: str, gain: float | None, confidence: Confidence, settled: bool, severity: str
) -> None:
    rule = next(rule for rule in RULES if rule.about == about)
    assert finding_of(rule, verdict(gain, confidence, settled), 0.5).severity == severity


@each_row(("gain", "kept"), [(1.7, 1.0), (-0.2, 0.0), (0.4, 0.4)])
def test_a_gain_is_a_fraction_of_the_time(gain: float, kept: float) -> None:
    for saving in (Saving(1.0, "bound").no_more_than(gain), Saving(1.0, "bound").if_held(gain, "the rest")):
        found = finding_of(RULES[0], structs.replace(verdict(1.0), saving=saving), 0.5)
        assert (found.gain_kernel, found.gain_total) == (kept, kept * 0.5)


def test_without_a_share_of_the_run_nothing_is_gained_for_it() -> None:
    found = finding_of(RULES[0], verdict(0.4), None)
    assert (found.gain_kernel, found.gain_total) == (0.4, None)


@each_row("example", named(EXAMPLES))
def test_severities_and_confidences_are_those_of_the_contract(example: Example) -> None:
    for found in example.launch.profile().findings:
        assert found.severity in SEVERITIES and found.confidence in CONFIDENCES


def test_rules_of_the_run_need_no_counters_and_are_tried_on_timelines() -> None:
    text = (Path(__file__).parent / "test_timeline.py").read_text(encoding="utf-8")
    assert all(rule.by_times and not rule.metrics for rule in RULES if rule.of_run)
    assert all(f'"{name}"' in text for name in OF_RUN)


# A gain is a bound only where no perfect repair saves more.


def kind_of(launch: Made, rule: str) -> tuple[str | None, str | None]:
    finding = launch.finding(rule)
    return finding.gain_kind, finding.held


def needs_left(launch: Made, rule: str) -> dict[str, float]:
    return {item.unit: item.fraction for item in launch.finding(rule).remains}


def test_a_load_store_unit_told_of_active_cycles_needs_so_much_of_the_time_that_sms_work() -> None:
    lsu = {"sm__inst_executed_pipe_lsu.avg.pct_of_peak_sustained_active": 80.0}
    few = {"sm__cycles_active.avg": 100.0, "sm__cycles_elapsed.max": 1000.0}
    full = made(pipes(fp64=70), histograms=DIVIDES)
    assert needs_left(full.plus(lsu, few), "fp64-bound")["l1"] == pytest.approx(0.08)
    assert "l1" not in needs_left(full.plus(lsu), "fp64-bound")


def test_narrower_data_take_fewer_bytes() -> None:
    for rule, pipe in (("fp64-bound", "fp64"), ("tensor-compute-bound", "tensor"), ("fp32-compute-bound", "fma")):
        launch = made(pipes(**{pipe: 65}), busy(dram=75, l2=10, sm=65), lasting())
        assert launch.finding(rule).gain_kernel == pytest.approx(0.25)
        assert kind_of(launch, rule)[0] == "fixed-work"


def test_a_division_that_goes_leaves_the_bytes() -> None:
    launch = made(pipes(fp64=70), busy(dram=45, l2=10), lasting(), histograms=DIVIDES)
    assert kind_of(launch, "fp64-bound") == ("bound", None)


def test_integer_divisions_run_on_the_pipe_of_special_functions_too() -> None:
    divides = made(pipes(alu=65, xu=75), busy(dram=10), lasting())
    assert divides.finding("integer-bound").gain_kernel == pytest.approx(0.25)
    assert kind_of(divides, "integer-bound")[0] == "fixed-work"
    assert kind_of(divides.plus(busy(dram=80)), "integer-bound")[0] == "bound"


def test_wider_accesses_spare_the_arithmetic_of_addresses() -> None:
    bytes_only = made(busy(l1=70), pipes(alu=70), stalls(lg_throttle=50), histograms={WARP_OPCODES: {"LDG.E.U8": 9.0}})
    assert bytes_only.finding("narrow-access").gain_kernel == pytest.approx(0.3)
    assert kind_of(bytes_only, "narrow-access") == ("fixed-work", "the same address arithmetic")
    assert kind_of(bytes_only.plus(busy(dram=90)), "narrow-access")[0] == "bound"


def test_a_loop_of_compare_and_swap_tries_less_often_without_contention() -> None:
    tries, waits = "the same number of retries per atomic", "the other stalls unchanged"
    for opcode, expected in (("ATOMG.E.CAS", tries), ("RED.E.ADD", waits)):
        launch = made(busy(dram=10), {SHARED_ATOMICS: 40.0}, stalls(mio_throttle=40), histograms={
            WARP_OPCODES: {opcode: 9.0}})  # fmt: skip
        assert launch.finding("atomic-contention").gain_kernel == pytest.approx(of_time(0.4))
        assert kind_of(launch, "atomic-contention") == ("fixed-work", expected)


def test_threads_that_go_together_again_can_share_sectors() -> None:
    launch = made(busy(l2=65), {THREADS: 8.0})
    assert launch.finding("branch-divergence").gain_kernel == pytest.approx(0.35)
    assert kind_of(launch, "branch-divergence") == ("fixed-work", "the same bytes through L2 and DRAM")


def test_fewer_passes_of_scattered_accesses_move_fewer_bytes() -> None:
    launch = made(
        busy(dram=10, l2=70), {WAVEFRONTS: 90.0, REQUESTS: 5.0, "launch__shared_mem_per_block_static": 1024.0}
    )
    assert launch.finding("l1-bandwidth").gain_kernel == pytest.approx(0.3)
    assert kind_of(launch, "l1-bandwidth") == ("fixed-work", "the same bytes through L2 and DRAM")


def test_spills_that_stay_in_l1_do_not_fill_dram() -> None:
    sectors = {LOCAL_LOADS: 5e8, LOCAL_STORES: 0.0, LOAD_SECTORS: 5e8, STORE_SECTORS: 0.0, "dram__bytes.sum": 16e9}
    misses = "l1tex__t_sectors_pipe_lsu_mem_local_op_ld_lookup_miss.sum"
    launch = made(busy(dram=85, l2=10, l1=10), sectors)
    assert launch.plus({misses: 0.0}).finding("dram-bandwidth").cause is None
    assert launch.plus({misses: 5e8}).finding("dram-bandwidth").cause == "0.local-memory-spill"


def test_local_stores_that_were_not_counted_are_not_taken_for_none() -> None:
    launch = made(busy(dram=60, l2=10, l1=10), {LOCAL_LOADS: 100.0, LOAD_SECTORS: 300.0, STORE_SECTORS: 600.0})
    spilled = launch.finding("local-memory-spill")
    assert spilled.gain_kernel == pytest.approx(0.25)
    assert spilled.gain_kind == "fixed-work"
    assert made(busy(dram=60), {LOCAL_LOADS: 100.0, STORE_SECTORS: 600.0}).findings("local-memory-spill") == []


def test_one_long_block_among_short_ones_is_an_imbalance() -> None:
    short = made({REGISTERS: 32.0, ACTIVE: 100.0, "sm__cycles_active.avg": 8e3}, lasting(1e-2), grid=(6912, 1, 1))
    assert short.plus({"sm__cycles_active.max": 11e3}).findings("load-imbalance") == []
    uneven = short.plus({"sm__cycles_active.max": 80e3}).finding("load-imbalance")
    assert uneven.severity == "high"
    assert uneven.gain_kernel == pytest.approx(0.9 * 0.9999)  # of 10 ms its launch takes 1 µs


def test_the_busiest_slice_of_l2_can_be_full_while_the_average_is_not() -> None:
    slices = made(busy(l2=20), {"lts__cycles_active.max": 1000.0, "lts__cycles_active.avg": 250.0})
    assert slices.finding("load-imbalance").gain_kernel == pytest.approx(0.75)


def test_few_warps_that_work_on_alone_can_wait_for_memory_all_the_time() -> None:
    excess = {TOTAL: 1000.0, EXCESS: 875.0}
    launch = made(busy(l1=3, l2=2, dram=2), excess, stalls(long_scoreboard=4), {"sm__cycles_elapsed.max": 1e6})
    assert launch.plus({"sm__cycles_active.avg": 1e6}).finding(UNCOALESCED).gain_kernel == pytest.approx(0.875 * 0.05)
    assert launch.plus({"sm__cycles_active.avg": 1e5}).finding(UNCOALESCED).gain_kernel == pytest.approx(0.875 * 0.95)


def test_passes_that_shared_memory_may_cause_are_no_bound_of_coalescing() -> None:
    launch = made(busy(l1=95, l2=20, dram=5), {TOTAL: 1000.0, EXCESS: 500.0, WAVEFRONTS: 95.0, REQUESTS: 5.9},
                  {"launch__shared_mem_per_block_static": 16.0}, stalls(lg_throttle=80))  # fmt: skip
    assert launch.finding(UNCOALESCED).gain_kernel == pytest.approx(0.5)
    assert kind_of(launch, UNCOALESCED) == ("fixed-work", "the same L1 wavefronts per sector")


def test_atomics_of_l2_do_not_fill_shared_memory() -> None:
    launch = made(busy(dram=1, l2=30), {SHARED_BUSY: 70.0, L2_ATOMICS: 95.0}, stalls(long_scoreboard=30))
    assert launch.finding("shared-bandwidth").cause is None
    assert launch.plus({SHARED_ATOMICS: 60.0}).finding("shared-bandwidth").cause == "0.atomic-contention"


UNCOALESCED = "uncoalesced-global"


def test_an_sm_that_is_busy_with_hardly_an_instruction_multiplies_matrices() -> None:
    active = {"sm__cycles_active.avg": 0.95e6, "sm__cycles_elapsed.max": 1e6}
    gemm = made(busy(sm=91, memory=15), issued(3.3), active, name="gemm_kernel")
    found = gemm.finding("tensor-compute-bound")
    assert "one instruction per 29 cycles" in found.headline and found.confidence == "inferred"
    assert found.severity == "info" and "near its ceiling" in found.headline
    assert gemm.findings("fp32-compute-bound") == [] and gemm.findings("integer-bound") == []
    # Where memory is as busy, accesses that take many passes keep the SM so.
    assert made(busy(sm=91, memory=91), issued(3.3), active).findings("tensor-compute-bound") == []


def test_a_busy_sm_of_a_kernel_with_the_name_of_matrix_instructions_is_no_fp32() -> None:
    for name in ("turing_fp16_s1688gemm_fp16_256x128_ldg8_relu_f2f_tn", "nvjet_hsh_128x256_64x4_2x1_v_bz_coopA_NNT"):
        gemm = made(busy(sm=74, memory=38), name=name)
        found = gemm.finding("tensor-compute-bound")
        assert (found.headline, found.confidence) == ("Tensor cores, by its name: SM 74 % busy", "guess")
        assert gemm.findings("fp32-compute-bound") == [] and gemm.findings("integer-bound") == []
    # What is collected tells more than a name, and a scalar name tells of FP32.
    assert made(busy(sm=74), pipes(fma=70, tensor=0), name=name).findings("tensor-compute-bound") == []
    assert made(busy(sm=74, memory=38), name="volta_sgemm_128x64_nn").finding("fp32-compute-bound")


def test_much_fp32_work_that_nvidias_rule_tells_fills_a_busy_sm() -> None:
    told_much = made(busy(sm=74, memory=38), details=told("SOLFPRoofline", ACHIEVED.format("64%")))
    assert told_much.finding("fp32-compute-bound") and told_much.findings("integer-bound") == []
    told_none = made(busy(sm=74, memory=38), details=told("SOLFPRoofline", ACHIEVED.format("0%")))
    assert told_none.finding("integer-bound").headline.startswith("Instruction throughput: ")


@each_row(("loads", "spoken"), [(32.0, True), (20.0, False)])
def test_counts_alone_let_one_guess_that_shared_memory_is_the_limit(loads: float, spoken: bool) -> None:
    name = "smsp__sass_inst_executed_op_shared_ld.sum"
    counted = {"smsp__inst_executed.sum": 100e6, name: loads * 1e6}
    findings = made(counted).findings("shared-bandwidth")
    assert [(item.confidence, item.severity) for item in findings] == [("guess", "info")] * spoken
    assert made(counted, busy(dram=30)).findings("shared-bandwidth") == []
