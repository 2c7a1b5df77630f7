"""Causes that names, shapes and the order of launches prove: unfused attention, unaligned products, chains."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from gpuprof.hardware.device import RecordedDevice
from gpuprof.hardware_finder import HardwareFinder
from gpuprof.model.product_names import OperandAlignment, operand_alignment
from gpuprof.model.session import Finding, Session
from gpuprof.model.torch_ranges import operator_and_shapes
from gpuprof.timeline.analysis import analyse_traces
from gpuprof.timeline.trace import KERNEL, Activity, MatrixProduct, ProgramStep, Trace
from gpuprof.words.finding_text import certainty_text
from tests.table import each_row
from tests.test_traces import event, gpu, launch, read
from tests.worded import diagnose

A100 = RecordedDevice("NVIDIA A100 80GB PCIe", "8.0", sm_count=108)
V100 = RecordedDevice("Tesla V100-SXM2-16GB", "7.0", sm_count=80)
P100 = RecordedDevice("Tesla P100-PCIE-16GB", "6.0", sm_count=56)

GEMM = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn"
SOFTMAX = "void (anonymous namespace)::cunn_SoftMaxForward<8, c10::BFloat16, float, c10::BFloat16>(c10::BFloat16*)"
SOFTMAX_BACKWARD = "void (anonymous namespace)::softmax_warp_backward<float, float, float, 10, false, false>(float*)"
ADD = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>>(int)"
)
MUL = "void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl_nocast<at::native::BinaryFunctor>>(int)"
COPY = "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)>(int)"
FILL = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, std::array<char*, 1ul>>(int)"
DROPOUT = (
    "void at::native::(anonymous namespace)::fused_dropout_kernel_vec<float, float, unsigned int, 1, 4, bool>(float)"
)
FOREACH = (
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<TensorListMetadata<2>, BinaryOpListFunctor>(T)"
)
FUSED_ADAM = (
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<T<4>, FusedAdamMathFunctor<float, 4>>(T)"
)

Step = tuple[str, str | None]
"""The name of a kernel and the operator that launched it."""

SCORES = "[32, 1024, 1024]"
MAKE: Step = (GEMM, "aten::bmm [32, 1024, 64]×[32, 64, 1024]")
READ: Step = (GEMM, f"aten::bmm {SCORES}×[32, 1024, 64]")
NORMALISE: Step = (SOFTMAX, "aten::_softmax [2, 16, 1024, 1024]")
NAMELESS: tuple[Step, ...] = ((GEMM, "aten::bmm"), (SOFTMAX, "aten::_softmax"), (GEMM, "aten::bmm"))
"""Attention without the shapes of operators."""
LINEAR: Step = (GEMM, "aten::addmm [2048, 1024]×[1024, 1024]")


def in_a_row(*steps: Step, device: RecordedDevice = A100, **more: object) -> Session:
    """The session of kernels that run one after the other on one stream, each for 100 µs."""
    return session(launches(*steps, device=device, **more))


def session(trace: Trace) -> Session:
    return diagnose(analyse_traces([trace], HardwareFinder(), "1"))


def launches(*steps: Step, device: RecordedDevice = A100, **more: object) -> Trace:
    us = 100.0
    activities: list[Activity] = []
    products: list[MatrixProduct] = []
    for number, (name, operator) in enumerate(steps):
        product = None
        if operator is not None and operator.startswith("aten::bmm ["):
            left, right = (tuple(map(int, shape.strip("[]").split(","))) for shape in operator[10:].split("×"))
            product = len(products)
            dtypes = ("c10::BFloat16", "c10::BFloat16")
            products.append(MatrixProduct("aten::bmm", number * us * 1e-6, (left, right), dtypes, strides=(None, None)))
        activities.append(
            Activity(
                KERNEL, name, 0, number * us * 1e-6, us * 1e-6, 7, (5000, 1, 1), (256, 1, 1), 32, 0,
                operator=operator, product=product, **more,  # type: ignore[arg-type]
            )
        )  # fmt: skip
    return Trace(
        "t.json", "0" * 64, "torch-trace", "torch", None, (device,), tuple(activities), products=tuple(products)
    )


def of_rule(found: Session, rule: str) -> dict[str, Finding]:
    """Findings of a rule by the operator, or else the name, of their kernel."""
    return {
        (kernel.ranges[-1] if kernel.ranges else kernel.demangled): finding
        for kernel in found.kernels
        for finding in kernel.findings
        if finding.rule == rule
    }


def test_a_softmax_between_products_of_its_shape_is_unfused_attention() -> None:
    found = in_a_row(
        LINEAR,
        MAKE,
        (ADD, f"aten::add {SCORES}, [32, 1, 1024]"),
        NORMALISE,
        (DROPOUT, f"aten::native_dropout {SCORES}"),
        READ,
        LINEAR,
    )
    parts = of_rule(found, "unfused-attention")
    assert len(parts) == 5 and LINEAR[1] not in parts
    assert parts["aten::_softmax [2, 16, 1024, 1024]"].gain_kernel == pytest.approx(1.0)
    # 4.3 GFLOP at nine tenths of the time that 312 TFLOP/s take: 12.4 of 100 µs.
    flop = 2 * 32 * 1024 * 1024 * 64
    assert parts[str(MAKE[1])].gain_kernel == pytest.approx(1 - 0.9 * flop / 312e12 / 100e-6)
    assert {part.cases.action for part in parts.values()} == {("fused",)}
    first = found.recommendations[0]
    assert (first.rule, first.gain_kind) == ("unfused-attention", "bound")
    assert first.gain_total == pytest.approx(sum(part.gain_kernel or 0.0 for part in parts.values()) / 7)


K_AND_V = "[256, 128, 4096]", "[256, 4096, 128]"


def decoding(us: float, strides: tuple[tuple[int, ...], ...], dtype: str = "c10::BFloat16") -> dict[str, Finding]:
    """Findings on one query for each of 256 heads over 4096 keys, whose products take so many microseconds each."""
    steps: list[Step] = [
        (GEMM, f"aten::bmm [256, 1, 128]×{K_AND_V[0]}"),
        (SOFTMAX, "aten::_softmax [8, 32, 1, 4096]"),
        (GEMM, f"aten::bmm [256, 1, 4096]×{K_AND_V[1]}"),
    ]
    trace = launches(*steps)
    timed = tuple(one._replace(duration_s=us * 1e-6) for one in trace.activities)
    products = tuple(replace(one, strides=strides, dtypes=(dtype, dtype)) for one in trace.products)
    return of_rule(session(replace(trace, activities=timed, products=products)), "unfused-attention")


def test_a_fused_kernel_still_reads_keys_and_values() -> None:
    parts = decoding(150, ((128, 128, 1), (524288, 4096, 1)))
    found = [parts[operator].gain_kernel or 0.0 for operator in parts if "bmm" in operator]
    # K or V of 2 · 256 · 128 · 4096 B and 64 KiB of Q or O in 150 µs of 1935 GB/s, of which kernels reach 92 %.
    reached = (2 * 256 * 128 * 4096 + 2 * 256 * 128) / 150e-6 / 1935e9
    assert reached == pytest.approx(0.925, abs=1e-3)
    assert len(found) == 2 and all(0.0 <= gain <= 1 - reached for gain in found)
    # Half as fast, they have half of the time to gain.
    slower = decoding(300, ((128, 128, 1), (524288, 4096, 1)))
    gains = [part.gain_kernel or 0.0 for operator, part in slower.items() if "bmm" in operator]
    assert all(0.45 < gain <= 1 - reached / 2 for gain in gains)


@each_row("dtype", ["c10::BFloat16", "signed char"])
def test_scores_are_most_of_the_bytes_if_heads_share_keys_and_values(dtype: str) -> None:
    gains = [part.gain_kernel or 0.0 for part in decoding(20, ((128, 128, 1), (0, 4096, 1)), dtype).values()]
    assert len(gains) == 3 and min(gains) > 0.9


def test_without_strides_it_is_not_known_how_long_keys_and_values_take() -> None:
    parts = decoding(150, ())
    assert [part.gain_kernel for part in parts.values()] == [None, 1.0, None]


def test_heads_that_share_keys_may_be_folded_into_the_queries() -> None:
    folded = [
        (GEMM, "aten::bmm [16, 4096, 64]×[16, 64, 1024]"),
        (SOFTMAX, "aten::_softmax [4, 4, 4, 1024, 1024]"),
        (GEMM, "aten::bmm [16, 4096, 1024]×[16, 1024, 64]"),
    ]
    assert len(of_rule(in_a_row(*folded), "unfused-attention")) == 3


def test_a_kernel_that_goes_is_no_guess_however_short_it_is() -> None:
    trace = launches(MAKE, (MUL, f"aten::mul {SCORES}"), NORMALISE, READ)
    short = tuple(one._replace(duration_s=3e-6) if one.name == MUL else one for one in trace.activities)
    parts = of_rule(session(replace(trace, activities=short)), "unfused-attention")
    assert {part.confidence for part in parts.values()} == {"inferred"}


def test_attention_in_every_layer_is_one_recommendation() -> None:
    found = in_a_row(*(24 * [MAKE, NORMALISE, READ]))
    (item,) = (item for item in found.recommendations if item.rule == "unfused-attention")
    assert (item.gain_total or 0.0) > 0.9


def test_the_backward_pass_of_unfused_attention_is_a_part_of_it() -> None:
    gradients = [
        (GEMM, "aten::bmm [32, 1024, 1024]×[32, 1024, 64]"),
        (GEMM, "aten::bmm [32, 1024, 64]×[32, 64, 1024]"),
        (SOFTMAX_BACKWARD, "aten::_softmax_backward_data [2, 16, 1024, 1024], [2, 16, 1024, 1024]"),
        (MUL, "aten::mul [2, 16, 1024, 1024]"),
        (GEMM, "aten::bmm [32, 64, 1024]×[32, 1024, 1024]"),
        (GEMM, "aten::bmm [32, 1024, 1024]×[32, 1024, 64]"),
    ]
    parts = of_rule(in_a_row(LINEAR, *gradients, LINEAR), "unfused-attention")
    assert set(parts) == {operator for _, operator in gradients}


def test_attention_of_which_the_math_backend_was_chosen_needs_another_backend() -> None:
    found = in_a_row(MAKE, NORMALISE, READ, in_sdpa=True)
    assert {part.cases.action for part in of_rule(found, "unfused-attention").values()} == {("backend",)}


def test_without_shapes_a_softmax_between_batched_products_is_a_guess() -> None:
    first, softmax, last = NAMELESS
    masked = (first, (ADD, "aten::add"), softmax, (DROPOUT, "aten::native_dropout"), last)
    parts = of_rule(in_a_row(*masked, (GEMM, "aten::addmm"), (ADD, "aten::add")), "unfused-attention")
    # One of two additions is between the products; of these nothing is known.
    assert {operator: part.gain_kernel for operator, part in parts.items()} == {
        "aten::bmm": None, "aten::add": 0.5, "aten::_softmax": 1.0, "aten::native_dropout": 1.0,
    }  # fmt: skip
    assert {(part.confidence, part.cases.action) for part in parts.values()} == {("guess", ("fused",))}
    assert not any(part.labels for part in parts.values())


@each_row(
    "steps",
    [
        pytest.param((NAMELESS[0], NAMELESS[1], (GEMM, "aten::mm")), id="a layer reads it"),
        pytest.param((NAMELESS[0], (GEMM, "aten::addmm"), *NAMELESS[1:]), id="a layer between"),
        pytest.param(NAMELESS[1:], id="nothing makes it"),
        pytest.param((NAMELESS[0], (SOFTMAX, "aten::_softmax [2048, 1024]"), NAMELESS[2]), id="shapes say no"),
    ],
)
def test_names_alone_do_not_show_attention(steps: tuple[Step, ...]) -> None:
    assert of_rule(in_a_row(*steps), "unfused-attention") == {}


def test_all_that_the_math_backend_launches_is_attention_without_any_shapes() -> None:
    others = ((MUL, "aten::mul"), ("reduce_kernel<bool>", "aten::all"))
    found = in_a_row(others[0], *NAMELESS[:2], others[1], NAMELESS[2], in_sdpa=True)
    parts = of_rule(found, "unfused-attention")
    assert {operator: part.gain_kernel for operator, part in parts.items()} == {
        "aten::mul": 1.0, "aten::bmm": None, "aten::_softmax": 1.0, "aten::all": 1.0,
    }  # fmt: skip
    assert {(part.confidence, part.cases.action) for part in parts.values()} == {("inferred", ("backend",))}


@each_row(
    ("side", "width", "parts"),
    [
        # FlashAttention takes 256; memory-efficient attention more, but then scores are worth it only if larger.
        (128, 256, 3),
        (4096, 512, 3),
        (512, 512, 0),
        (256, 768, 0),
    ],
)
def test_of_heads_wider_than_flash_attention_takes_scores_are_larger(side: int, width: int, parts: int) -> None:
    found = in_a_row(
        (GEMM, f"aten::bmm [2, {side}, {width}]×[2, {width}, {side}]"),
        (SOFTMAX, f"aten::_softmax [2, {side}, {side}]"),
        (GEMM, f"aten::bmm [2, {side}, {side}]×[2, {side}, {width}]"),
    )
    findings = of_rule(found, "unfused-attention")
    assert len(findings) == parts
    change = ("wide" if width > 256 else "fused",)
    assert all((part.cases.action, part.cases.advice) == (change, change) for part in findings.values())


def test_a_layer_that_makes_values_or_positions_may_be_between() -> None:
    positions = (GEMM, "aten::addmm [961, 512]×[512, 16]")
    values = (GEMM, "aten::cudnn_convolution [32, 64, 32, 32]×[64, 64, 1, 1]")
    parts = of_rule(in_a_row(MAKE, positions, NORMALISE, values, READ), "unfused-attention")
    assert set(parts) == {MAKE[1], NORMALISE[1], READ[1]}


@each_row(
    "operator", ["aten::addmm [4096, 8192]×[8192, 512]", "aten::cudnn_convolution [4, 512, 128, 128]×[64, 512, 1, 1]"]
)
def test_a_layer_that_takes_what_looks_like_scores_is_before_another_softmax(operator: str) -> None:
    # Linear attention: the keys' softmax, its product with the values, and that of queries with both.
    layer = [
        (SOFTMAX, "aten::_softmax [128, 64, 4096]"),
        (GEMM, "aten::bmm [128, 64, 4096]×[128, 4096, 64]"),
        (GEMM, "aten::bmm [128, 4096, 64]×[128, 64, 64]"),
        (GEMM, operator),
    ]
    assert of_rule(in_a_row(*(2 * layer)), "unfused-attention") == {}


def test_a_trace_says_that_the_math_backend_launched_a_kernel() -> None:
    trace = read(
        event("cpu_op", "aten::scaled_dot_product_attention", 0, 90),
        event("cpu_op", "aten::_scaled_dot_product_attention_math", 1, 80),
        event("cpu_op", "aten::_softmax", 2, 10, **{"Input Dims": [[2, 16, 1024, 1024], [], []]}),
        launch(5, 3),
        gpu("kernel", SOFTMAX, 100, 20, 5),
        event("cpu_op", "aten::_softmax", 92, 10),
        launch(6, 93),
        gpu("kernel", SOFTMAX, 130, 20, 6),
    )
    assert [(one.operator, one.in_sdpa) for one in trace.activities] == [
        ("aten::_softmax [2, 16, 1024, 1024]", True), ("aten::_softmax", False),
    ]  # fmt: skip


def items(operator: str, count: int = 6) -> Trace:
    """A loop that computes 100 µs and then waits for a value, which takes the program until 100 µs later."""
    events = []
    for number in range(count):
        at = 1000.0 + 200 * number
        events += [
            launch(2 * number + 10, at),
            gpu("kernel", GEMM, at + 5, 100, 2 * number + 10),
            event("cpu_op", "aten::item" if operator == "aten::_local_scalar_dense" else operator, at + 10, 108),
            event("cpu_op", operator, at + 11, 106),
            event("cuda_runtime", "cudaMemcpyAsync", at + 12, 3, correlation=2 * number + 11),
            event("cuda_runtime", "cudaStreamSynchronize", at + 16, 100, correlation=9000 + number),
            gpu("gpu_memcpy", "Memcpy DtoH (Device -> Pageable)", at + 105, 2, 2 * number + 11, bytes=4),
        ]
    return read(*events)


@each_row("operator", ["aten::_local_scalar_dense", "aten::nonzero"])
def test_the_operator_in_which_the_program_waits_is_named(operator: str) -> None:
    outermost = "aten::item" if operator == "aten::_local_scalar_dense" else operator
    trace = items(operator)
    assert {wait.operator for wait in trace.host_waits or ()} == {outermost}
    (finding,) = of_rule(session(trace), "launch-gaps").values()
    assert finding.cases.why[:2] == ("waiting", "waiting-in")
    assert outermost in finding.why
    (amount,) = (amount for amount in finding.amounts if amount.name == "waiting_in")
    assert amount.value == pytest.approx(1.0)


def test_ranges_of_an_export_show_attention_as_operators_do() -> None:
    outer = "aten::_scaled_dot_product_attention_math [2, 16, 1024, 64]"
    steps = [(name, None) for name, _ in (MAKE, NORMALISE, READ)]
    ranges = [(outer, str(operator)) for _, operator in (MAKE, NORMALISE, READ)]
    trace = launches(*steps)
    named = tuple(one._replace(ranges=around) for one, around in zip(trace.activities, ranges, strict=True))
    parts = of_rule(session(replace(trace, activities=named)), "unfused-attention")
    assert [part.cases.action for part in parts.values()] == 3 * [("backend",)]
    # Nothing is known of the arithmetic, so that only the softmax has a gain.
    assert [part.gain_kernel for part in parts.values()] == [None, 1.0, None]


def test_a_softmax_that_inductor_generated_counts_by_its_name() -> None:
    parts = of_rule(in_a_row(MAKE, ("triton_per_fused__softmax_add_3", None), READ), "unfused-attention")
    assert len(parts) == 3


@each_row(
    "steps",
    [
        pytest.param((LINEAR, (SOFTMAX, "aten::_softmax [2048, 1024]"), LINEAR), id="a classifier"),
        pytest.param(
            (
                (GEMM, "aten::mm [1024, 64]×[64, 1024]"),
                (SOFTMAX, "aten::_softmax [1, 1024, 1024]"),
                (GEMM, "aten::mm [1024, 1024]×[1024, 64]"),
            ),
            id="weights as keys and values",
        ),
        pytest.param((MAKE, (SOFTMAX, f"aten::_log_softmax {SCORES}"), READ), id="a loss"),
        pytest.param((MAKE, (SOFTMAX, "aten::_softmax [32, 1024, 512]"), READ), id="another shape"),
        pytest.param((MAKE, NORMALISE, LINEAR), id="no product reads it"),
        pytest.param((MAKE, NORMALISE, NORMALISE, READ), id="two softmaxes"),
        pytest.param(
            (
                (GEMM, "aten::bmm [32, 64, 1024]×[32, 1024, 64]"),
                (SOFTMAX, "aten::_softmax [32, 64, 64]"),
                (GEMM, "aten::bmm [32, 64, 64]×[32, 64, 1024]"),
            ),
            id="channels attend to channels over 1024 pixels",
        ),
        pytest.param(
            (LINEAR, ("pytorch_flash::flash_fwd_kernel<T>", "aten::_flash_attention_forward [2, 16]"), LINEAR),
            id="fused",
        ),
    ],
)
def test_what_only_looks_like_unfused_attention_is_none(steps: tuple[Step, ...]) -> None:
    assert of_rule(in_a_row(*steps), "unfused-attention") == {}


def test_kernels_on_another_stream_are_not_between() -> None:
    trace = launches(MAKE, NORMALISE, (SOFTMAX, "aten::_softmax [2, 8]"), READ)
    other = trace.activities[2]._replace(stream=9)
    beside = replace(trace, activities=(*trace.activities[:2], other, trace.activities[3]))
    assert of_rule(session(trace), "unfused-attention") == {}
    assert len(of_rule(session(beside), "unfused-attention")) == 3


def test_products_of_more_dimensions_count_as_batched() -> None:
    parts = of_rule(
        in_a_row(
            (GEMM, "aten::matmul [2, 16, 1024, 64]×[2, 16, 64, 1024]"),
            NORMALISE,
            (GEMM, "aten::matmul [2, 16, 1024, 1024]×[2, 16, 1024, 64]"),
        ),
        "unfused-attention",
    )
    assert len(parts) == 3
    linear = (
        (GEMM, "aten::matmul [2, 1024, 64]×[64, 1024]"),
        NORMALISE,
        (GEMM, "aten::matmul [2, 1024, 1024]×[1024, 64]"),
    )
    assert of_rule(in_a_row(*linear), "unfused-attention") == {}


@each_row("shape", ["[1,,2]", "[" + "9" * 5000 + "]", "[1, ]", "[[[[", "[-1, 2]"])
def test_shapes_that_are_none_are_left_out(shape: str) -> None:
    assert operator_and_shapes(f"aten::bmm {shape}×[1, 2, 3]") == ("aten::bmm", ((1, 2, 3),))
    in_a_row((GEMM, None), ranges=(f"aten::bmm {shape}×[1, 2, 3]",))


@each_row(
    ("name", "alignment"),
    [
        ("cutlass_80_tensorop_bf16_s16816gemm_bf16_256x128_64x3_tn_align2", OperandAlignment(2, 8, 2, "tn")),
        ("cutlass_75_tensorop_bf16_s1688gemm_bf16_128x128_nn_align1", OperandAlignment(1, 8, 2, "nn")),
        ("cutlass_80_wmma_tensorop_s161616gemm_f16_32x32_64x1_tn_align2", OperandAlignment(2, 8, 2, "tn")),
        ("cutlass_80_tensorop_h16816gemm_128x256_32x3_tn_align2", OperandAlignment(2, 8, 2, "tn")),
        ("cutlass_70_tensorop_f16_s884gemm_f16_128x64_tn_align2", OperandAlignment(2, 8, 2, "tn")),
        ("cutlass_80_tensorop_s16816gemm_relu_bf16_64x64_64x6_tn_align8", OperandAlignment(8, 8, 2, "tn")),
        ("cutlass_80_tensorop_s1688gemm_128x256_32x3_nt_align1", OperandAlignment(1, 4, 4, "nt")),
        ("cutlass_80_tensorop_s1688gemm_128x64_16x6_tn_align4", OperandAlignment(4, 4, 4, "tn")),
        ("cutlass_80_tensorop_i16832gemm_s8_256x128_64x3_tn_align16", OperandAlignment(16, 16, 1, "tn")),
        (
            "sm80_xmma_gemm_f16f16_f16f32_f32_nn_n_tilesize32x32x64_stage6_warpsize2x2x1_tensor16x8x16_aligna2_alignc2"
            "_execute_kernel_trt",
            OperandAlignment(2, 8, 2, "nn"),
        ),
        ("cutlass_80_simt_sgemm_256x128_8x4_nn_align1", None),
        ("cutlass_80_tensorop_d884gemm_64x64_16x4_nt_align1", None),
        ("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize64x128x8_stage3_warpsize1x4x1_ffma_aligna4_alignc4", None),
        ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_kernel__5x_cublas", None),
        ("sm80_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc_tilesize64x64x64_tensor16x8x16_aligna4", None),
        (GEMM, None),
    ],
)  # fmt: skip
def test_the_alignment_of_a_product_is_read_from_its_name(name: str, alignment: OperandAlignment | None) -> None:
    assert operand_alignment(f"void cutlass::Kernel2<{name}>({name}::Params)") == alignment


UNALIGNED = "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_256x128_64x3_{}_align2>(T1::Params)"


@each_row(
    ("layout", "operator", "sizes", "action"),
    [
        ("tn", "aten::bmm [1, 141, 512]×[1, 512, 30522]", ("30522",), "pad-8"),
        # The rows of both operands are 512 long.
        ("tn", "aten::bmm [1, 141, 512]×[1, 512, 512]", (), "pad-8"),
        ("nt", "aten::bmm [1, 141, 512]×[1, 512, 512]", ("141",), "pad-8"),
        ("nn", "aten::bmm [1, 512, 5185]×[1, 5185, 64]", ("5185",), "pad-8"),
        ("nn", "aten::bmm [1, 512, 512]×[1, 512, 64]", (), "view"),
        ("nn", None, (), "pad-8"),
    ],
)
def test_unaligned_rows_are_named_by_the_layout(
    layout: str, operator: str | None, sizes: tuple[str, ...], action: str
) -> None:
    (finding,) = of_rule(in_a_row((UNALIGNED.format(layout), operator)), "unaligned-product").values()
    assert finding.cases.action == (action,)
    assert [label.texts for label in finding.labels if label.name == "sizes"] == ([sizes] if sizes else [])
    if operator is None:
        assert (finding.gain_kernel, finding.severity) == (None, "low")
    else:
        assert finding.gain_kind == "bound"


def test_pointwise_kernels_in_a_row_are_a_chain() -> None:
    size = "[16, 512, 1024]"
    chain = [
        (ADD, f"aten::add {size}, {size}"),
        (COPY, f"aten::copy_ {size}, {size}"),
        (MUL, f"aten::mul {size}, [1024]"),
    ]
    found = in_a_row(LINEAR, *chain, LINEAR)
    parts = of_rule(found, "elementwise-chain")
    assert set(parts) == {operator for _, operator in chain}
    # Three, two and two passes; two results are neither written nor read again.
    for part in parts.values():
        assert part.gain_kernel == pytest.approx(4 / 7)
        assert (part.gain_kind, part.confidence, part.cases.action) == ("conditional", "inferred", ("fuse",))


@each_row(
    "steps",
    [
        pytest.param(2 * ((ADD, "aten::add [4096, 512], [4096, 512]"),), id="two"),
        pytest.param(3 * ((FILL, "aten::fill_ [4096, 512]"),), id="fills"),
        pytest.param(4 * ((COPY, "aten::copy_ [4096, 512], [4096, 512]"),), id="copies"),
        pytest.param(
            2 * ((ADD, "aten::add [4096, 512], [4096, 512]"), (ADD, "aten::add [512], [512]")), id="two sizes"
        ),
        pytest.param(2 * ((ADD, "aten::add [4096, 512], [4096, 512]"), LINEAR), id="products between"),
        pytest.param(24 * ((ADD, "aten::add_ [4096, 512], [4096, 512]"),), id="gradients are accumulated"),
        pytest.param(3 * (("triton_poi_fused_add_mul_0", None),), id="already fused"),
        pytest.param(3 * ((FUSED_ADAM, "aten::_fused_adamw_ [512, 512]"),), id="a fused optimizer"),
    ],
)
def test_what_no_chain_is(steps: tuple[Step, ...]) -> None:
    assert of_rule(in_a_row(LINEAR, *steps, LINEAR), "elementwise-chain") == {}


def test_a_chain_ends_with_the_step_of_the_program() -> None:
    pair = [(ADD, "aten::add [4096, 4096], [4096, 4096]"), (MUL, "aten::mul [4096, 4096]")]
    trace = launches(*(2 * pair))
    assert of_rule(session(trace), "elementwise-chain")
    halves = tuple(ProgramStep("ProfilerStep", start_s, 200e-6, thread="1/1") for start_s in (0.0, 190e-6))
    assert not of_rule(session(replace(trace, steps=halves)), "elementwise-chain")


def test_lists_of_tensors_are_members_of_a_chain() -> None:
    lists = [6 * [(ADD, "aten::add_ [512, 512], [512, 512]")], 6 * [(MUL, "aten::mul_ [512, 512]")]]
    assert of_rule(in_a_row(*lists[0], *lists[1]), "elementwise-chain") == {}
    found = in_a_row(*lists[0], *lists[1], *lists[0])
    (kernels,) = {part.amounts[0].value for part in of_rule(found, "elementwise-chain").values()}
    assert kernels == 3


def test_without_shapes_equal_grids_make_a_chain_a_guess() -> None:
    parts = of_rule(in_a_row((ADD, None), (MUL, None), (COPY, None)), "elementwise-chain")
    assert {part.confidence for part in parts.values()} == {"guess"} and len(parts) == 3


def test_an_optimizer_with_a_pass_per_operation_should_be_fused() -> None:
    steps = [(FOREACH, f"aten::_foreach_{name} [512, 512], [512]") for name in ("lerp_", "mul_", "sqrt", "addcdiv_")]
    found = in_a_row(*(2 * steps[:1]), *steps[1:], ranges=("Optimizer.step#AdamW.step",))
    parts = of_rule(found, "elementwise-chain")
    assert {part.cases.action for part in parts.values()} == {("optimizer",)}
    # Two launches of one operator are one of four passes of two operands and a result each.
    assert {round(part.gain_kernel or 0.0, 6) for part in parts.values()} == {round(2 * 3 / 12, 6)}


def test_between_kernels_of_an_incomplete_trace_there_may_have_been_others() -> None:
    chain = launches(
        *[(ADD, "aten::add [4096, 4096], [4096, 4096]"), (MUL, "aten::mul [4096, 4096], [4096, 4096]")] * 3
    )
    unnamed = launches((GEMM, "aten::bmm"), (SOFTMAX, "aten::_softmax"), (GEMM, "aten::bmm"))
    shaped = launches(MAKE, NORMALISE, READ)
    for made, rule, stays in (
        (chain, "elementwise-chain", False), (unnamed, "unfused-attention", False), (shaped, "unfused-attention", True),
    ):  # fmt: skip
        assert of_rule(session(made), rule)
        assert bool(of_rule(session(replace(made, incomplete=True)), rule)) is stays


def test_kernels_of_attention_are_no_chain() -> None:
    between = [(ADD, f"aten::add {SCORES}, {SCORES}"), (MUL, f"aten::mul {SCORES}"), (MUL, f"aten::div {SCORES}")]
    found = in_a_row(MAKE, *between, NORMALISE, READ)
    assert len(of_rule(found, "unfused-attention")) == 6
    assert of_rule(found, "elementwise-chain") == {}


@each_row(
    ("device", "name", "gain", "action"),
    [
        # TF32 does 8 times as much as FP32 on an A100, FP16 8 times on a V100.
        (A100, "ampere_sgemm_128x64_tn", 1 - 19.5 / 156, "tf32"),
        (V100, "volta_sgemm_128x64_tn", 1 - 15.7 / 125, "narrower"),
        (
            V100,
            "void magma_sgemmEx_kernel<float, float, float, true, false, 6, 4, 6, 3, 4>(int)",
            1 - 15.7 / 125,
            "narrower",
        ),
        (V100, "sgemm_32x32x32_NN_vec", 1 - 15.7 / 125, "narrower"),
        (V100, "void magma_sgemmEx_kernel<float, __nv_bfloat16, __nv_bfloat16, true, false>(int)", None, ""),
        (P100, "maxwell_sgemm_128x64_tn", None, ""),
        (A100, "ampere_cgemm_64x64_tn", 1 - 19.5 / 156, "complex"),
        (V100, "volta_cgemm_64x64_tn", None, ""),
        (A100, "ampere_dgemm_128x64_tn", 1 - 9.7 / 19.5, "fp64"),
        (A100, "cutlass_80_tensorop_s1688gemm_128x64_16x6_tn_align4", None, ""),
        (A100, "void gemv2T_kernel_val<int, int, float, float, float, float, 128, 16, 4, 4, false>(P)", None, ""),
    ],
)
def test_a_product_that_is_known_by_its_name_alone_gains_if_arithmetic_limits_it(
    device: RecordedDevice, name: str, gain: float | None, action: str
) -> None:
    findings = of_rule(in_a_row((name, None), device=device), "tensor-cores-idle")
    assert len(findings) == (gain is not None)
    for finding in findings.values():
        assert finding.gain_kernel == pytest.approx(gain, rel=0.02)
        assert (finding.gain_kind, finding.confidence, finding.cases.action) == ("conditional", "guess", (action,))


@each_row(
    ("operator", "sizes", "action"),
    [
        ("aten::addmm [4096, 1023]×[1023, 4095]", ("4095", "1023"), "unaligned-product/pad-8"),
        ("aten::addmm [4096, 1024]×[1024, 4096]", (), "inputs-of-16-bits"),
        (None, (), "inputs-of-16-bits"),
    ],
)
def test_a_library_multiplies_16_bits_in_fp32_if_sizes_are_unaligned(
    operator: str | None, sizes: tuple[str, ...], action: str
) -> None:
    found = in_a_row(("volta_fp16_sgemm_fp16_128x64_tn", operator), device=V100)
    (finding,) = of_rule(found, "tensor-cores-idle").values()
    # FP16 does 8 times as much as FP32.
    assert finding.gain_kernel == pytest.approx(1 - 15.7 / 125, rel=0.02)
    assert finding.cases.action == (action,)
    assert [label.texts for label in finding.labels if label.name == "sizes"] == ([sizes] if sizes else [])


def test_tensor_cores_of_volta_do_not_take_bf16() -> None:
    found = in_a_row(("volta_bf16_sgemm_bf16_128x64_tn", None), device=V100)
    assert of_rule(found, "tensor-cores-idle") == {}


def test_what_times_show_is_not_inferred_from_counters() -> None:
    assert "counters" in certainty_text("inferred", only_times=False)
    assert "counters" not in certainty_text("inferred", only_times=True)
    assert certainty_text("guess", only_times=True) == certainty_text("guess", only_times=False)
