"""How a program was built: without optimisation, or with matrix instructions of an older architecture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from gpuprof.code.binary.encodings import Moves, moves_of
from gpuprof.diagnose.case import EXECUTED
from gpuprof.hardware.device import RecordedDevice
from gpuprof.hardware.specs import WARP_OPCODES
from gpuprof.model.recorded import ProfiledInstruction
from tests.kernels import (
    Histograms,
    Made,
    Program,
    busy,
    issued,
    lasting,
    made,
    operations,
    pipes,
    session,
    stalls,
)
from tests.real_sessions import loaded
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
CUBLAS = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn"


def running(lines: Sequence[str], metric: str = EXECUTED) -> Made:
    """A launch in which each instruction of the code counts ten."""
    code = tuple(ProfiledInstruction(16 * place, line, None, None, {metric: 10.0}) for place, line in enumerate(lines))
    histogram: dict[str | int, float] = {instruction.pc: 10.0 for instruction in code}
    return made(busy(dram=20, sm=60), lasting(), histograms={metric: histogram}, details=Program(code))


def test_moves_of_a_register_onto_itself_are_what_the_compiler_leaves_without_optimisation() -> None:
    finding = running(UNOPTIMISED).finding("debug-build")
    assert finding.headline == "Unoptimised build: 30 % of executed instructions move a register onto itself"
    assert (finding.confidence, finding.severity, finding.gain_kind) == ("measured", "high", "fixed-work")
    # DRAM needs its 20 % for the same bytes.
    assert finding.gain_kernel == pytest.approx(0.8) and finding.held == "the same floating-point work and bytes"


def word(opcode: int, target: int = 0, operand: int = 0) -> bytes:
    """An instruction's word: its opcode and two registers."""
    return (opcode | target << 16 | operand << 32).to_bytes(16, "little")


def test_code_without_counts_of_executions_shows_the_moves_that_it_holds() -> None:
    # 3 of 10 move a register onto itself; NOPs and zeros fill up the section, and do not count.
    code = [word(0x202, 4, 4)] * 3 + [word(0x202, 4, 5)] * 3 + [word(0x221, 4, 4)] * 4
    padded = b"".join((*code, *[word(0x918)] * 6, bytes(16)))
    launch = replace(made(busy(dram=20, sm=60), lasting()), details=Program(machine=padded))
    finding = launch.finding("debug-build")
    assert finding.confidence == "measured" and "30 % of instructions in its code" in finding.headline
    few = b"".join((*code[:3], *[word(0x221)] * 58))
    assert replace(launch, details=Program(machine=few)).findings("debug-build") == []
    assert replace(launch, details=Program(machine=padded[:15])).findings("debug-build") == []


def test_a_real_report_of_a_debug_build_shows_it_without_any_counts_by_instruction(reports: Path) -> None:
    kernels = loaded(reports / "cudacode-profile.ncu-rep").kernels
    shares = [kernel.findings[0].evidence[0].value for kernel in kernels]
    # What remains of its FP64 work after that is told behind it, although that gains more.
    opportunities = loaded(reports / "cudacode-profile.ncu-rep").opportunities
    assert [item.rule for item in opportunities] == ["debug-build", "fp64-bound"]
    assert [kernel.findings[0].rule for kernel in kernels] == ["debug-build", "debug-build"]
    # What NVIDIA's ncu lists of them: 34 of 109 instructions and 63 of 184, without padding.
    assert [round(share) for share in shares] == [31, 34]


def test_optimised_code_moves_and_is_no_debug_build() -> None:
    assert running(OPTIMISED).findings("debug-build") == []
    # The code decides where it is there, whatever the opcodes look like.
    moves: Histograms = {WARP_OPCODES: {"MOV": 60.0, "LD.E": 40.0}}
    launch = running(OPTIMISED)
    assert replace(launch, histograms={**launch.histograms, **moves}).findings("debug-build") == []


def test_moves_beside_accesses_that_name_their_memory_space_are_a_guess() -> None:
    moves: Histograms = {WARP_OPCODES: {"MOV": 40.0, "LDG.E": 8.0, "STG.E": 2.0, "FFMA": 50.0}}
    finding = made(busy(dram=10), lasting(), histograms=moves).finding("debug-build")
    assert (finding.confidence, finding.severity) == ("guess", "low")


def test_work_of_the_fp32_pipe_stays_in_optimised_code() -> None:
    # 2 · 3.456e9 FLOP in 1 ms of 13.824 TFLOP/s: half of the FP32 peak.
    launch = running(UNOPTIMISED).plus(operations(ffma=3.456e9, fadd=0, fmul=0))
    assert launch.finding("debug-build").gain_kernel == pytest.approx(0.5)


def test_all_else_goes_with_a_debug_build_but_for_what_its_launch_alone_tells() -> None:
    slow = replace(running(UNOPTIMISED), grid=(20, 1, 1)).plus(
        pipes(alu=85), stalls(long_scoreboard=50), issued(30), {"launch__waves_per_multiprocessor": 0.1}
    )
    findings = slow.profile().findings
    causes = {finding.rule: finding.cause for finding in findings}
    assert findings[0].rule == "debug-build"
    assert causes["integer-bound"] == causes["memory-latency"] == "0.debug-build"
    assert causes["small-grid"] is None


def test_a_roof_stays_a_roof_in_a_debug_build() -> None:
    launch = running(UNOPTIMISED).plus(busy(dram=92))
    (roof,) = launch.findings("dram-bandwidth")
    assert (roof.severity, roof.cause) == ("info", None)


def test_lanes_that_blocks_leave_empty_and_traffic_with_the_host_outlast_a_debug_build() -> None:
    sectors = {f"lts__t_sectors_srcunit_tex_aperture_{what}_lookup_miss.sum": 1e6 for what in ("sysmem", "device")}
    launch = replace(running(UNOPTIMISED).plus(sectors, pipes(alu=85)), block=(1, 1, 1))
    causes = {finding.rule: (finding.severity, finding.cause) for finding in launch.profile().findings}
    assert causes["block-size"] == ("high", None) and causes["host-memory-traffic"] == ("medium", None)
    assert launch.findings("debug-build")[0].severity == "high"


def test_without_any_unit_nothing_tells_what_optimisation_saves() -> None:
    finding = replace(made(lasting()), details=Program(machine=word(0x202, 4, 4) * 10)).finding("debug-build")
    assert (finding.gain_kernel, finding.severity) == (None, "info")


def test_a_guess_voids_nothing() -> None:
    moves: Histograms = {WARP_OPCODES: {"MOV": 40.0, "LDG.E": 8.0, "FFMA": 52.0}}
    launch = made(busy(dram=10), lasting(), pipes(alu=85), histograms=moves)
    assert launch.findings("debug-build") and launch.finding("integer-bound").cause is None


@each_row("file", ["gpu_workshop-MW_Baseline.ncu-rep", "cutlass-384.ncu-rep", "sglang-profile.ncu-rep",
                                  "indexspaces.jl-profile.ncu-rep"])  # fmt: skip
def test_optimised_kernels_of_real_reports_are_no_debug_builds(reports: Path, file: str) -> None:
    rules = {finding.rule for kernel in loaded(reports / file).kernels for finding in kernel.findings}
    assert rules and not rules & {"debug-build", "old-architecture", "reduction-tree"}


def matrices(opcode: str, count: float, device: RecordedDevice = H100, name: str = "gemm") -> Made:
    histograms: Histograms = {WARP_OPCODES: {opcode: count, "STG.E": 1.0}}
    launch = made(busy(dram=20, l2=30), lasting(), pipes(tensor=80), histograms=histograms, name=name)
    return replace(launch, device=device)


def test_mma_sync_on_a_gpu_with_wgmma_is_told_with_what_the_newer_instruction_leaves() -> None:
    # 66e6 · 4096 FLOP in 1 ms: half of 132 SMs · 4096 FLOP a clock · 1 GHz.
    launch = matrices("HMMA.16816.F32.BF16", 66e6)
    finding = launch.finding("old-architecture")
    assert finding.gain_kernel == pytest.approx(0.5) and finding.held == "the same bytes and other arithmetic"
    assert finding.action == "Use this architecture's own matrix instructions (wgmma)"
    assert launch.finding("tensor-compute-bound").cause == finding.id


def test_mma_sync_has_a_quarter_of_the_rate_of_tcgen05() -> None:
    # 8192 FLOP a clock on 148 SMs: 59.2e6 · 4096 in 1 ms are 20 % of it, and 80 % of what mma.sync can do.
    finding = matrices("HMMA.16816.F32", 59.2e6, B200).finding("old-architecture")
    assert "20 % of the rate of tcgen05" in finding.headline and "25 % of the rate" in finding.why
    # DRAM and L2 stay: L2 at 30 %.
    assert finding.gain_kernel == pytest.approx(0.7) and finding.confidence == "inferred"


@each_row(
    ("opcode", "device"),
    [
        ("HGMMA.64x256x16.F32.BF16", H100),
        ("DMMA.884", H100),
        ("HMMA.16816.F32.BF16", RTX_5090),
        ("UTCHMMA.2CTA", B200),
        ("IMMA.16832.S8.S8", RecordedDevice(name="NVIDIA B300", compute_capability="10.3", sm_count=148)),
    ],
)
def test_the_fastest_instruction_of_an_architecture_is_not_an_older_one(opcode: str, device: RecordedDevice) -> None:
    assert matrices(opcode, 60e6, device).findings("old-architecture") == []


def test_a_kernel_that_uses_both_instructions_uses_the_newer_one() -> None:
    both: Histograms = {WARP_OPCODES: {"HMMA.16816.F32": 60e6, "HGMMA.64x256x16.F32": 1e5}}
    assert replace(matrices("HMMA", 0), histograms=both).findings("old-architecture") == []


def test_little_matrix_work_is_no_matter_of_the_instruction() -> None:
    # 10 % of the peak are 16 % of what mma.sync can do.
    assert matrices("HMMA.16816.F32.BF16", 13.2e6).findings("old-architecture") == []


@each_row(("name", "value", "told"), [("gemm", 0.0, 1), ("gemm", 5.0, 0), (CUBLAS, None, 1)])
def test_without_opcodes_the_pipe_of_wgmma_or_the_librarys_name_tell(name: str, value: float | None, told: int) -> None:
    launch = made(busy(dram=20, l2=30), lasting(), pipes(tensor=80), {GMMA: value} if value is not None else {})
    findings = replace(launch, device=H100, name=name).findings("old-architecture")
    assert len(findings) == told
    if told:
        # The pipe's 80 % shrink to 63 % of that.
        assert findings[0].gain_kernel == pytest.approx(1 - 0.8 * 0.63) and findings[0].confidence == "inferred"


@each_row(
    ("name", "told"),
    [
        (CUBLAS, True),
        (
            "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_tn_align8>(T1::Params)",
            True,
        ),
        ("sm80_xmma_fprop_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize128x128x16", True),
        ("volta_h884gemm_128x256_ldg8_nn", True),
        ("turing_fp16_s1688cudnn_fp16_128x128_ldg8_relu_f2f_exp_small_nhwc_tn_v1", True),
        ("ampere_sgemm_128x64_nn", False),
        ("volta_scudnn_128x64_relu_small_nn_v1", False),
        ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1", False),
        ("nvjet_hsh_128x256_64x4_2x1_v_bz_coopA_TNT", False),
        ("my_gemm", False),
    ],
)
def test_names_of_tensor_kernels_tell_the_architecture_that_they_were_written_for(name: str, told: bool) -> None:
    launch = replace(made(busy(dram=20), lasting(), pipes(tensor=80)), device=H100, name=name)
    assert bool(launch.findings("old-architecture")) is told
    assert replace(launch, device=RTX_5090).findings("old-architecture") == []


def test_a_forward_compatible_kernel_is_a_guess_without_a_gain() -> None:
    name = "cutlass_75_wmma_tensorop_s161616gemm_f16_forwardCompat_64x64_32x2_nn_align8"
    launch = made(busy(dram=20), lasting(), name=name)
    finding = launch.finding("old-architecture")
    assert (finding.confidence, finding.severity, finding.gain_kernel) == ("guess", "info", None)
    assert replace(launch, name=name.replace("_75_", "_80_")).findings("old-architecture") == []


def test_the_moves_in_code_are_counted_once_for_the_launches_of_a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bytes] = []

    def counting(code: bytes) -> Moves:
        asked.append(code)
        return moves_of(code)

    monkeypatch.setattr("gpuprof.diagnose.case.moves_of", counting)
    programs = [word(0x202, 4, 4) * 4, word(0x221, 4, 4) * 4]
    launches = [replace(made(busy(dram=20, sm=60), lasting()), details=Program(machine=code)) for code in programs]
    found = session(*launches, *launches).kernels
    assert asked == programs
    assert [any(finding.rule == "debug-build" for finding in kernel.findings) for kernel in found] == [True, False] * 2
