"""Matrix products without tensor cores: which kernels are some, by name and by code, and what is said of them."""

from __future__ import annotations

import pytest

from gpuprof.hardware.device import RecordedDevice
from gpuprof.model.analyse import analyse
from gpuprof.model.product_names import (
    has_inputs_of_8_bits,
    has_inputs_of_16_bits,
    is_product_by_name,
    multiplies_on_tensor_cores,
    newest_generation,
    plain_library_type,
)
from gpuprof.model.session import Finding
from gpuprof.sass.instruction import instruction_of
from gpuprof.sass.patterns.outer_products import outer_products
from tests import builders
from tests.kernels import Made, busy, coded, lasting, made, operations, pipes, session
from tests.table import each_row
from tests.worded import diagnose

RULE = "tensor-cores-idle"
NAMES = (
    ("void cutlass::Kernel<cutlass_80_simt_sgemm_256x128_8x4_nn_align1>(T1::Params)", True),
    ("matrixMulKernel(float *, float *, float *, int)", True),
    ("implicit_convolve_sgemm<float, float, (int)1024>", True),
    ("fused_attention_kernel", True),
    ("gemv2T_kernel_val<int, float>(cublasGemvParamsEx)", False),
    ("void cublasLt::splitKreduce_kernel<(int)32>(cublasSplitKParams<float>)", False),
    ("convolutionRowsKernel(float *, float *)", False),
    ("conv_depthwise2d_forward_kernel<float>", False),
    ("spmm_csr_kernel", False),
    ("gemma_rms_norm", False),
    ("attention_softmax_kernel", False),
    ("triton_poi_fused_addmm_relu_0", False),
    ("convection_flux(float *)", False),
    ("conv2d_kernel(float *)", True),
    ("(anonymous namespace)::saxpy(float *)", False),
)
LIBRARY = (
    ("ampere_sgemm_128x64_nn", "fp32"),
    ("volta_dgemm_64x64_nt", "fp64"),
    ("void Kernel2<cutlass_80_simt_sgemm_256x128_8x4_nn_align1>(T1::Params)", "fp32"),
    ("cutlass3x_sm100_simt_sgemm_f32_f32_f32_f32_f32_128x64x16_tnn_align1_bias_f32_relu", "fp32"),
    ("cutlass_75_simt_igemm_s8_128x128", "int8"),
    ("ampere_scudnn_128x64_relu_medium_nn_v1", "fp32"),
    ("ampere_fp16_s16816gemm_fp16_256x128_ldg8_f2f_stages_32x3_nn", None),
    ("volta_h884gemm_256x64_ldg8_nn", None),
    ("cutlass_80_tensorop_d884gemm_64x64_16x3_nt_align1", None),
    ("volta_fp16_sgemm_fp16_128x64_tn", "fp32"),
    ("maxwell_fp16_sgemm_fp16_128x128_nt", "fp32"),
    ("ampere_bf16_sgemm_bf16_128x64_nn", "fp32"),
    ("my_sgemm", None),
)
TENSOR = (
    "volta_h884gemm_128x64_ldg8_nn", "volta_fp16_s884cudnn_fp16_256x64_ldg8_relu_exp_small_nhwc_tn_v1",
    "turing_fp16_s1688gemm_fp16_256x128_ldg8_relu_f2f_tn", "turing_int8_i8816gemm_int8_128x128_ldg16_tn",
    "ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_tn", "ampere_h16816gemm_64x64_nn",
    "void cutlass::Kernel2<cutlass_80_tensorop_i16832gemm_s8_256x128_64x3_tn_align16>(T1::Params)",
    "sm80_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_stage3_warpsize2x2x1_tensor16x8x16_kernel",
    "sm90_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize64x64x64_warpgroupsize1x1x1_execute_kernel__5x_cublas",
    "nvjet_hsh_128x256_64x4_2x1_v_bz_coopA_NNT", "wmma_ker(__half *, float *)", "gemm_4bit_sm80_m16n8k16<__half>",
    "void cutlass::device_kernel<cutlass::gemm::collective::CollectiveMma<MainloopSm90TmaGmmaWarpSpecialized<4>>>",
)  # fmt: skip
PLAIN = (
    "volta_sgemm_128x64_nn", "ampere_sgemm_32x32_sliced1x4_tn", "ampere_scudnn_128x64_relu_small_nn_v1",
    "sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize64x128x8_stage3_warpsize1x4x1_ffma_aligna4_execute_kernel",
    "void cutlass::Kernel2<cutlass_80_simt_sgemm_256x128_8x4_nn_align1>(T1::Params)", "gemm_4bit_simt<float, 3>",
    "gamma_kernel", "summary(float *)", "tinygemm", "void f<at::TensorOptions>(T1)", "sgemm_16816(float *)",
    "sgemm128n128k8", "sgemm_m128n128k8_simt", "gemm_m64n64k8<float>", "dotf32(float *)", "softmax_outf32(float *)",
    "myTensorOp(float *)", "ampere_sgemm_128x64_tf32(float *)",
)  # fmt: skip
BYTES = "reference_gemm(int, const signed char *, int, const signed char *, int *, int)"


@each_row(("name", "is_product"), NAMES)
def test_a_name_says_whether_a_kernel_multiplies_matrices(name: str, is_product: bool) -> None:
    assert is_product_by_name(name) == is_product


@each_row("name", TENSOR)
def test_a_name_with_a_matrix_instruction_is_of_tensor_cores(name: str) -> None:
    assert multiplies_on_tensor_cores(name) and plain_library_type(name) is None


def test_names_and_signatures_tell_data_types() -> None:
    assert {name: plain_library_type(name) for name, _ in LIBRARY} == dict(LIBRARY)
    assert [name for name in PLAIN if multiplies_on_tensor_cores(name)] == []
    assert has_inputs_of_16_bits("gemm(const __half *, const __half *, float *, int)")
    assert has_inputs_of_16_bits("void gemm<(int)4>(__nv_bfloat16 const*, __nv_bfloat16 const*, float*)")
    assert has_inputs_of_16_bits("volta_fp16_sgemm_fp16_128x64_tn")
    for name in ("gemm(const __half *, const float *, float *)", "gemm(float *, float *)", "gemm_half", LIBRARY[0][0]):
        assert not has_inputs_of_16_bits(name)
    assert has_inputs_of_8_bits(BYTES) and has_inputs_of_8_bits("gemm(const uint8_t *, int8_t const *, int *)")
    for name in ("gemm(const signed char *, const float *, float *)", "gemm(signed char, float *)"):
        assert not has_inputs_of_8_bits(name)


# 2 × 2: pairs of a row and a column, each in a sum of its own.
ROUND = (
    ("LDS.64 R20, [R40]", 100.0),
    ("LDS.64 R22, [R41]", 100.0),
    ("FFMA R0, R20, R22, R0", 100.0),
    ("FFMA R1, R20.reuse, R23, R1", 100.0),
    ("FFMA R2, R21, R22, R2", 100.0),
    ("FFMA R3, R21, R23.reuse, R3", 100.0),
)


def share_of(*runs: tuple[str, float]) -> float:
    seen = outer_products((instruction_of(text), count) for text, count in runs)
    assert seen is not None
    return seen.share


def test_all_pairs_in_sums_of_their_own_are_an_outer_product() -> None:
    assert share_of(*ROUND) == 1.0
    one_sum = [(text.replace("R3", "R0") if "FFMA" in text else text, count) for text, count in ROUND]
    assert share_of(*one_sum) == 0.0
    assert share_of(*ROUND[:-1]) == 0.0, "a pair is missing"
    # One addition for four multiply-adds; code that runs a tenth as often is outside the loop.
    assert share_of(*ROUND, ("FADD R9, R9, R8", 100.0)) == 0.8
    assert share_of(*ROUND, ("FADD R9, R9, R8", 10.0)) == 1.0
    # Factors that are not loaded in the loop are no operands.
    assert share_of(*ROUND[1:]) == 0.0
    assert share_of(("MUFU.RCP R20, R9", 100.0), ("MUFU.RCP R21, R9", 100.0), *ROUND[1:]) == 0.0
    widened = (("LDS R30, [R40]", 100.0), ("IMAD.U32 R20, R30, 0x10000, RZ", 100.0),
               ("LOP3.LUT R21, R30, 0xffff0000, RZ, 0xc0, !PT", 100.0))  # fmt: skip
    assert share_of(*widened, *ROUND[1:]) == 1.0
    # Code without text or multiply-adds gives nothing.
    for runs in ((("LDS R20, [R40]", 100.0),), tuple((text, 0.0) for text, _ in ROUND)):
        assert outer_products((instruction_of(text), count) for text, count in runs) is None
    assert outer_products(()) is None


# 13.824 TFLOP/s of FP32 in 1 ms: 1.3824e9 multiply-adds are a fifth of it.
FIFTH = operations(ffma=1.3824e9, fadd=0, fmul=0)


def first(launch: Made) -> Finding:
    return launch.profile().findings[0]


def test_a_naive_product_has_its_accesses_fixed_first() -> None:
    launch = made(busy(l1=95, dram=5, sm=95), pipes(tensor=0, fma=20, lsu=95), lasting(), FIFTH, name="gemm_naive")
    finding = launch.finding(RULE)
    assert finding.severity == "info" and first(launch).rule == "l1-bandwidth"
    assert "95 % busy" in finding.why
    # In TF32 20 % ÷ 8; L1's 95 % stay with the same operand reuse.
    assert finding.gain_kernel == pytest.approx(0.05)
    small = made(pipes(tensor=0, fma=20), lasting(), FIFTH, name="gemm_naive").finding(RULE)
    assert small.severity == "info" and small.cases.why[0] == "by-name" and "20 %" in small.why
    # One that is bound by bytes is silent.
    few_rows = made(busy(dram=74, l1=39, l2=40), pipes(tensor=0, fma=48), lasting(), name="ampere_sgemm_128x64_tn")
    assert few_rows.findings(RULE) == []
    assert few_rows.without("gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed").findings(RULE)


def test_a_product_at_the_roof_of_fp32_is_told_of_the_tensor_cores_first() -> None:
    # 90 % of the FP32 peak.
    work = operations(ffma=6.2208e9, fadd=0, fmul=0)
    launch = made(busy(l1=40, dram=10, sm=92), pipes(tensor=0, fma=91), lasting(), work, name="ampere_sgemm_128x64_nn")
    assert first(launch).rule == RULE and launch.finding("fp32-compute-bound").cause == launch.finding(RULE).id
    # 90 % ÷ 8 = 11.25 %, more than DRAM's 10 %.
    assert launch.finding(RULE).gain_kernel == pytest.approx(0.8875)
    assert launch.finding(RULE).gain_kind == "conditional"
    assert launch.finding(RULE).remains
    # A library's name is enough if nothing was collected; another program may have tensor instructions.
    bare = made(lasting(), name="ampere_sgemm_128x64_nn").finding(RULE)
    assert (bare.severity, bare.gain_kernel, bare.confidence) == ("info", None, "inferred")
    assert made(lasting(), name="my_sgemm").findings(RULE) == []


def test_a_name_alone_is_enough_and_a_busy_sm_shows_no_limit() -> None:
    values = (pipes(tensor=0, fma=80), lasting())
    assert made(*values, name="gemm_naive").finding(RULE).cases.why[0] == "by-name"
    convolution = made(*values, name="conv2d_kernel(float *)").finding(RULE)
    assert (convolution.cases.headline[0], convolution.confidence) == ("by-convolution", "guess")
    # Memory that is as busy as the SM can be what keeps it busy.
    library = made(busy(sm=70, l1=70, dram=10), lasting(), name="ampere_sgemm_128x64_nn").finding(RULE)
    assert library.cases.why[-1] == "memory-busier" and library.severity == "info"


def test_a_product_with_hardly_any_arithmetic_is_no_work_for_tensor_cores() -> None:
    # Outer products of two vectors: a multiplication for each value stored. 0.5 % of the FP32 peak.
    work = operations(ffma=0.005 * 6.912e9, fadd=0, fmul=0)
    assert made(pipes(tensor=0, fma=9), lasting(), work, name="my_gemm").findings(RULE) == []


def test_code_that_multiplies_no_matrices_takes_the_guess_back() -> None:
    half = operations(ffma=3.456e9, fadd=0, fmul=0)
    values = (pipes(tensor=0, fma=50), lasting(), half)
    assert made(*values).finding(RULE).confidence == "guess"
    chain = coded(("LDG.E R9, [R2.64]", 100.0), ("FFMA R0, R0, R9, R1", 100.0)).plus(*values)
    assert chain.findings(RULE) == []
    tile = coded(*ROUND).plus(*values).finding(RULE)
    assert tile.confidence == "inferred" and tile.cases.why[0] == "by-code"


def test_fp64_has_the_same_exactness_on_tensor_cores() -> None:
    # 90 % of 6.912 TFLOP/s; an A100 does twice as much with DMMA.
    work = operations(dfma=3.1104e9, dadd=0, dmul=0)
    launch = made(busy(dram=10), pipes(tensor=0, fp64=90), lasting(), work, name="dgemm_tiled")
    finding = launch.finding(RULE)
    assert finding.gain_kernel == pytest.approx(0.55) and finding.confidence == "inferred"
    assert "FP64" in finding.action and "TF32" not in finding.advice
    assert first(launch).rule == RULE and launch.finding("fp64-bound").cause == finding.id


def test_what_tensor_cores_gain_depends_on_the_gpu() -> None:
    fp64 = made(pipes(tensor=0, fp64=90), lasting(), name="volta_dgemm_64x64_nn")
    h100, b200 = ("NVIDIA H100 80GB HBM3", "9.0", 132), ("NVIDIA B200", "10.0", 148)
    assert len(on(fp64, *h100)) == 1
    assert on(fp64, *b200) == on(fp64, "NVIDIA GeForce RTX 4090", "8.9", 128) == []
    # Ways to FP32 accuracy are offered.
    (here,) = on(made(pipes(tensor=0, fma=80), lasting(), name="ampere_sgemm_128x64_nn"), *b200)
    assert "16BFX9" in here.advice and "3xTF32" in here.advice


def on(launch: Made, name: str, capability: str, sms: int) -> list[Finding]:
    device = RecordedDevice(name=name, compute_capability=capability, sm_count=sms)
    report = builders.report(launch.launch(), device=device)
    (kernel,) = diagnose(analyse([report], builders.hardware_of, "9.9")).kernels
    return [finding for finding in kernel.findings if finding.rule == RULE]


def test_a_product_that_is_not_known_may_have_half_of_the_rate() -> None:
    # Of Ada, TF32 is 1 or 2 times as fast as FP32, BF16 2 or 4 times: 80 % ÷ 2 stay.
    launch = made(pipes(tensor=0, fma=80), lasting(), name="ampere_sgemm_128x64_nn")
    (unknown,) = on(launch, "", "8.9", 128)
    assert unknown.gain_kernel == pytest.approx(0.6) and "least-rate" in unknown.cases.why
    # Of Ampere with FP32 at full rate all have one rate, which is that of others.
    (of_others,) = on(launch, "", "8.0", 108)
    assert "least-rate" in of_others.cases.why
    # An L4 is known to have all of it: 80 % ÷ 2 in TF32.
    (l4,) = on(launch, "NVIDIA L4", "8.9", 58)
    assert l4.gain_kernel == pytest.approx(0.6)
    assert unknown.held is not None and l4.held is not None and "TF32" in l4.held and "TF32" not in unknown.held


def test_integers_of_8_bits_that_are_multiplied_in_fp32_become_integer_products() -> None:
    # FP32 does 256 operations a cycle, the tensor cores 8192 of 8-bit integers.
    finding = made(pipes(tensor=0, fma=80), lasting(), name=BYTES).finding(RULE)
    assert "INT8" in finding.headline and "32 times" in finding.why
    assert "INT32" in finding.advice and "TF32" not in finding.advice
    assert finding.gain_kernel == pytest.approx(1 - 0.8 / 32)


def test_packed_fp16_and_dot_products_of_bytes_are_products_too() -> None:
    halves = [(text.replace("FFMA", "HFMA2"), count) for text, count in ROUND]
    fp16 = coded(*halves).plus(pipes(tensor=0, fp16=70), lasting()).finding(RULE)
    # 70 % at a quarter of 2048 FLOP a cycle.
    assert fp16.gain_kernel == pytest.approx(1 - 0.7 / 4) and "16-bit" in fp16.action
    # The pipe of IDP is not known; the SM's 80 % are no less. Of 64 · 8 operations a cycle, the tensor cores do 8 times
    # as many.
    bytes_of = [(text.replace("FFMA", "IDP.4A.S8.S8"), count) for text, count in ROUND]
    launch = coded(*bytes_of).plus(pipes(tensor=0), busy(sm=80), lasting())
    int8 = launch.finding(RULE)
    assert int8.gain_kernel == pytest.approx(1 - 0.8 / 8)
    assert "INT8" in int8.action and int8.confidence == "inferred"
    assert session(launch).kernels[0].findings


@each_row(
    ("name", "generation"),
    [
        ("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize64x128x8_ffma_aligna4", 8),
        ("fmha_cutlassF_f32_aligned_64x64_rf_sm80(Params)", 8),
        ("void cutlass::Kernel2<cutlass_75_tensorop_s1688gemm_256x128_nn_align4>(Params)", 7),
        ("turing_fp16_s1688cudnn_fp16_128x128_forwardCompat", 7),
        ("cutlass3x_sm100_bstensorop_s256x256x96spgemm", 10),
        ("void cutlass::device_kernel<sm80_like, cutlass::gemm::sm_90>(Params)", 9),
        ("nvjet_tst_128x256_64x4_2x1_v_bz_coopA_TNT", None),
        ("void lambda_kernel_sm8000(float *)", None),
        ("nomada_kernel", None),
    ],
)
def test_the_generation_that_a_kernel_was_made_for_is_in_its_name(name: str, generation: int | None) -> None:
    assert newest_generation(name) == generation
