"""How a program was built: without optimisation, or with matrix instructions of an older architecture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from gpuprof.annotated.counts import EXECUTED
from gpuprof.hardware.device import RecordedDevice
from gpuprof.hardware.specs import WARP_OPCODES
from gpuprof.model.recorded import ProfiledInstruction
from gpuprof.recordings import recordings
from tests.kernels import (
    Histograms,
    Made,
    Program,
    Values,
    busy,
    issued,
    lasting,
    made,
    pipes,
    stalls,
)  # fmt: skip
from tests.readings import session_of, unpacked
from tests.rule_examples import Judged, check_row, says, silent
from tests.table import each_row

UNOPTIMISED = (
    "LDC R1, c[0x0][0x28]", "MOV R2, R3", "MOV R6, R6", "@P0 MOV R7, R7", "MOV.64 R8, R8", "IADD3 R6, R6, R7, RZ",
    "LD.E R8, desc[UR4][R8.64]", "MOV R10, R8", "ST.E desc[UR4][R10.64], R8", "EXIT",
)  # fmt: skip
"""As a compiler writes it with -G: 3 of 10 move a register onto itself."""
OPTIMISED = ("LDC R1, c[0x0][0x28]", "MOV R2, R3", "IMAD.MOV.U32 R4, RZ, RZ, R5", "LDG.E R8, desc[UR4][R8.64]", "EXIT")
H100 = RecordedDevice(name="NVIDIA H100 80GB HBM3", compute_capability="9.0", sm_count=132)
B200 = RecordedDevice(name="NVIDIA B200", compute_capability="10.0", sm_count=148)
RTX_5090 = RecordedDevice(name="NVIDIA GeForce RTX 5090", compute_capability="12.0", sm_count=170)
GMMA = "sm__inst_executed_pipe_tensor_op_gmma.avg.pct_of_peak_sustained_active"
OLD_NAMES = (
    "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn", "volta_h884gemm_128x256_ldg8_nn",
    "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_tn_align8>(T1::Params)",
    "sm80_xmma_fprop_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize128x128x16",
    "turing_fp16_s1688cudnn_fp16_128x128_ldg8_relu_f2f_exp_small_nhwc_tn_v1",
)  # fmt: skip
"""Names of tensor kernels state the architecture that they were written for."""
OTHER_NAMES = (
    "ampere_sgemm_128x64_nn", "volta_scudnn_128x64_relu_small_nn_v1", "nvjet_hsh_128x256_64x4_2x1_v_bz_coopA_TNT",
    "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1", "my_gemm",
)  # fmt: skip
DEBUG, OLD = "debug-build", "old-architecture"
B300 = RecordedDevice(name="NVIDIA B300", compute_capability="10.3", sm_count=148)


def running(lines: Sequence[str], metric: str = EXECUTED) -> Made:
    """A launch in which each instruction of the code counts ten."""
    code = tuple(ProfiledInstruction(16 * place, line, None, None, {metric: 10.0}) for place, line in enumerate(lines))
    histogram: dict[str | int, float] = {instruction.pc: 10.0 for instruction in code}
    return made(busy(dram=20, sm=60), lasting(), histograms={metric: histogram}, details=Program(code))


def matrices(opcode: str, count: float, device: RecordedDevice = H100) -> Made:
    histograms: Histograms = {WARP_OPCODES: {opcode: count, "STG.E": 1.0}}
    launch = made(busy(dram=20, l2=30), lasting(), pipes(tensor=80), histograms=histograms, name="gemm")
    return replace(launch, device=device)


def on_h100(name: str, *parts: Values) -> Made:
    return replace(made(busy(dram=20, l2=30), lasting(), pipes(tensor=80), *parts, name=name), device=H100)


def word(opcode: int, target: int = 0, operand: int = 0) -> bytes:
    """An instruction's word: its opcode and two registers."""
    return (opcode | target << 16 | operand << 32).to_bytes(16, "little")


MOVES: Histograms = {WARP_OPCODES: {"MOV": 60.0, "LD.E": 40.0}}
IN_SPACES: Histograms = {WARP_OPCODES: {"MOV": 40.0, "LDG.E": 8.0, "STG.E": 2.0, "FFMA": 50.0}}
SLOW = replace(running(UNOPTIMISED), grid=(20, 1, 1)).plus(
    pipes(alu=85), stalls(long_scoreboard=50), issued(30), {"launch__waves_per_multiprocessor": 0.1}
)


@each_row(
    ("launch", "rule", "expected"),
    [
        # DRAM needs its 20 % for the same bytes.
        says("by executions", running(UNOPTIMISED), DEBUG, 0.8, "30 %", confidence="measured", severity="high",
             kind="conditional"),
        # Machine code alone: 3 of 10 instructions move a register onto itself; NOPs and zeros fill up the section.
        says("by code", replace(made(busy(dram=20, sm=60), lasting()), details=Program(machine=b"".join(
             (*[word(0x202, 4, 4)] * 3, *[word(0x202, 4, 5)] * 7, *[word(0x918)] * 6, bytes(16))))), DEBUG, 0.8, "30 %",
             confidence="measured"),
        silent("optimised", running(OPTIMISED), DEBUG),
        # Accesses name their memory space: a guess, which voids nothing.
        says("by opcodes", made(busy(dram=10), lasting(), pipes(alu=85), histograms=IN_SPACES), DEBUG, 0.9,
             confidence="guess", severity="low"),
        says("a guess voids nothing", made(busy(dram=10), lasting(), pipes(alu=85), histograms=IN_SPACES),
             "integer-bound", 0.9, cause=None),
        # Most accesses name no space, as only -G writes them: sure enough to void all else.
        says("by generic accesses", made(busy(dram=10), lasting(), pipes(alu=85), histograms=MOVES), DEBUG, 0.9,
             confidence="inferred", severity="high"),
        says("generic accesses void", made(busy(dram=10), lasting(), pipes(alu=85), histograms=MOVES),
             "integer-bound", 0.9, cause=DEBUG),
        # FP64 needs 76 % in any build: a fix of the build gains 24 %, and still comes before FP32 instead.
        says("little gain", running(UNOPTIMISED).plus(pipes(fp64=76, alu=80)), DEBUG, 0.24, severity="high"),
        says("little gain", running(UNOPTIMISED).plus(pipes(fp64=76, alu=80)), "fp64-bound", 0.62, cause=DEBUG),
        # All else goes with a debug build but for what its launch alone tells, a roof, and traffic with the host.
        says("goes", SLOW, "integer-bound", 0.8, cause=DEBUG),
        says("stays", SLOW, "small-grid", 0.15, cause=None),
        says("a roof", running(UNOPTIMISED).plus(busy(dram=92)), "dram-bandwidth", 0.08, severity="info", cause=None),

        # wgmma takes two thirds of the time that mma.sync keeps the pipe busy.
        says("mma.sync", matrices("HMMA.16816.F32.BF16", 66e6), OLD, 1 - 0.8 * 2 / 3, "wgmma"),
        # tcgen05 takes a quarter: 20 %, less than L2's 30 %.
        says("tcgen05", matrices("HMMA.16816.F32", 59.2e6, B200), OLD, 0.7, "tcgen05", confidence="inferred"),
        *(silent("the fastest instruction", matrices(opcode, 60e6, device), OLD) for opcode, device in (
            ("HGMMA.64x256x16.F32.BF16", H100), ("DMMA.884", H100), ("HMMA.16816.F32.BF16", RTX_5090),
            ("UTCHMMA.2CTA", B200), ("IMMA.16832.S8.S8", B300))),
        silent("both instructions", replace(matrices("HMMA", 0), histograms={
               WARP_OPCODES: {"HMMA.16816.F32": 60e6, "HGMMA.64x256x16.F32": 1e5}}), OLD),
        # Without opcodes, the wgmma pipe or the library's name decides: the pipe's 80 % shrink to two thirds.
        says("no wgmma", on_h100("gemm", {GMMA: 0.0}), OLD, 1 - 0.8 * 2 / 3, confidence="inferred"),
        *(says("the name", on_h100(name), OLD, 1 - 0.8 * 2 / 3, confidence="inferred") for name in OLD_NAMES),
        *(silent("the name", on_h100(name), OLD) for name in OTHER_NAMES),
    ],
)  # fmt: skip
def test_how_a_program_was_built(launch: Judged, rule: str, expected: dict[str, Any] | None) -> None:
    check_row(launch, rule, expected)


def test_optimised_programs_are_no_debug_builds() -> None:
    for recording in recordings():
        rules = {item.rule for kernel in session_of(unpacked(recording)).kernels for item in kernel.findings}
        assert rules and not rules & {DEBUG, OLD, "reduction-tree"}
