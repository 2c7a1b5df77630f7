"""What operators ask of a kernel by shapes: worked out by hand, and against what counters saw of the same run."""

from __future__ import annotations

from collections.abc import Iterable
from io import BytesIO

import pytest
from msgspec import structs
from msgspec.structs import replace

from gpuprof.hardware_finder import HardwareFinder
from gpuprof.model.analyse import Analysis
from gpuprof.model.session import KernelProfile, OperatorFlop, Session
from gpuprof.model.surveyed import joined
from gpuprof.read.torch_trace import read_torch_trace
from gpuprof.store.read import read_session
from gpuprof.timeline.analysis import analyse_traces
from gpuprof.timeline.torch_flop import ProductFlop, product_flop
from gpuprof.timeline.trace import MatrixProduct
from gpuprof.words.flop import of_peak_text, operator_flop_text
from tests.table import each_row
from tests.test_timeline import TRANSFORMER, kernel, session, trace

BF16, FLOAT = "c10::BFloat16", "float"
SIMT = "void cutlass::Kernel2<cutlass_80_simt_sgemm_256x128_8x4_nn_align1>(Params)"


def product(
    name: str = "aten::mm", left: tuple[int, ...] = (1000, 2000), right: tuple[int, ...] = (2000, 3000), of: str = BF16
) -> MatrixProduct:
    return MatrixProduct(name, 0.0, (left, right), (of, of), ())


def recorded(*launches: tuple[str, float, int | None], products: tuple[MatrixProduct, ...] = (product(),)) -> Session:
    """The session of a trace on an A100 of kernels: name, microseconds, and the place of the product."""
    kernels = [kernel(name, 1000.0 * at, us, product=of) for at, (name, us, of) in enumerate(launches)]
    found = trace(*kernels)
    return session(structs.replace(found, products=products))


def asked(found: Session, name: str) -> OperatorFlop | None:
    (one,) = (one for one in found.kernels if one.demangled == name)
    return one.operator_flop


def test_a_product_is_twice_m_n_k_over_the_time_of_its_kernel() -> None:
    session_of_it = recorded(("ampere_bf16_s16816gemm", 100, 0))
    found = asked(session_of_it, "ampere_bf16_s16816gemm")
    # 2 · 1000 · 2000 · 3000 = 12 GFLOP in 100 µs of 312 TFLOP/s; 2 bytes of 2, 6 and 3 million elements.
    assert found is not None and (found.path, found.flop, found.exact) == ("tensor.bf16", 12e9, True)
    assert found.flop_per_s == pytest.approx(120e12) and found.operand_bytes == 22e6
    (part,) = found.utilisation
    assert (part.ceiling_path, part.origin) == ("tensor.bf16", "rated")
    assert part.fraction == pytest.approx(120 / 312, rel=1e-3)
    # The L2 cache, of 40 MB, holds all 22 MB: none of them need come from DRAM.
    assert found.dram_fraction is None
    assert of_peak_text(found) == "bf16 38 %"
    verdict = session_of_it.verdict
    assert verdict is not None and (verdict.state, verdict.ceiling, verdict.fraction) == ("open", None, None)
    assert "38 %" in verdict.sentence and "38 %" in operator_flop_text(found)
    # Data that does not fit in L2 comes from DRAM.
    found = asked(recorded(("gemm", 100, 0), products=(product(left=(1000, 8000), right=(8000, 3000)),)), "gemm")
    # 2 bytes of 8, 24 and 3 million elements: 70 MB in 100 µs are 700 GB/s of 1935.
    assert found is not None and found.operand_bytes == 70e6
    assert found.dram_fraction == pytest.approx(700 / 1935, rel=1e-3)


def test_a_product_of_one_row_is_told_by_its_bytes() -> None:
    one_row = product(left=(1, 4000), right=(4000, 10000))
    found = asked(recorded(("gemv", 50, 0), products=(one_row,)), "gemv")
    # 80 MB in 50 µs are 1.6 of 1.935 TB/s; 80 MFLOP are nothing.
    assert found is not None and of_peak_text(found) == "DRAM 83 %"
    # What comes faster than DRAM can bring it did not come from there.
    faster = asked(recorded(("gemv", 10, 0), products=(one_row,)), "gemv")
    assert faster is not None and faster.dram_fraction is None and of_peak_text(faster) == "bf16 2.6 %"


@each_row(
    ("name", "path", "ceilings", "text"),
    [
        (SIMT, "fp32", ["fp32"], "fp32 62 %"),
        ("ampere_sgemm_128x64_nn", "fp32", ["fp32"], "fp32 62 %"),
        ("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize64x128x8_stage3_warpsize1x4x1_ffma_aligna4_alignc4", "fp32",
         ["fp32"], "fp32 62 %"),
        ("sm80_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize128x128x16", "tensor.tf32", ["tensor.tf32"], "tf32 7.7 %"),
        ("ampere_tf32_s1688gemm_128x128_ldg8_stages_32x3_tn", "tensor.tf32", ["tensor.tf32"], "tf32 7.7 %"),
        ("some_kernel", "fp32", ["fp32", "tensor.tf32"], "fp32 7.7–62 %"),
    ],
)  # fmt: skip
def test_the_name_of_a_kernel_tells_where_fp32_is_multiplied(
    name: str, path: str, ceilings: list[str], text: str
) -> None:
    found = asked(recorded((name, 1000, 0), products=(product(of=FLOAT),)), name)
    assert found is not None and found.path == path
    assert [part.ceiling_path for part in found.utilisation] == ceilings
    # 12 GFLOP in 1 ms: 12 of 19.5 and of 156 TFLOP/s.
    assert of_peak_text(found) == text


def test_the_kernel_that_multiplies_has_all_of_it() -> None:
    found = recorded(("ampere_bf16_s16816gemm", 100, 0), ("cublasLt::splitKreduce_kernel", 10, 0))
    assert asked(found, "cublasLt::splitKreduce_kernel") is None
    gemm = asked(found, "ampere_bf16_s16816gemm")
    assert gemm is not None and gemm.flop == 12e9


def test_kernels_that_multiply_together_have_the_flop_by_their_times() -> None:
    found = recorded(("ampere_sgemm_a", 100, 0), ("ampere_sgemm_b", 300, 0))
    parts = [asked(found, name) for name in ("ampere_sgemm_a", "ampere_sgemm_b")]
    assert [part.flop for part in parts if part is not None] == pytest.approx([3e9, 9e9])
    assert {(part.is_part, part.exact) for part in parts if part is not None} == {(True, False)}
    # What one of them does is not known.
    assert [one.own_flop for one in found.kernels] == [None, None]


def _analysis_of_transformer() -> Analysis:
    recorded_trace = read_torch_trace(BytesIO(TRANSFORMER.read_bytes()), "t", "0" * 64)
    return analyse_traces([recorded_trace], HardwareFinder(), "1", whole=True)


def test_launches_of_several_sizes_under_one_name_have_no_flop_in_common() -> None:
    products = (product(), product(left=(10, 20), right=(20, 30)))
    assert asked(recorded(("gemm", 100, 0), ("gemm", 100, 1), products=products), "gemm") is None
    assert asked(recorded(("gemm", 100, 0), ("gemm", 100, None)), "gemm") is None


def test_attention_may_leave_out_what_is_masked() -> None:
    shapes = ((2, 8, 64, 32),) * 3
    attention = MatrixProduct("aten::_scaled_dot_product_flash_attention", 0.0, shapes, (BF16,) * 3, ())
    found = asked(recorded(("flash_fwd_kernel", 100, 0), products=(attention,)), "flash_fwd_kernel")
    # 2 · 2 · 8 · 64 · 64 · (32 + 32), whatever the mask.
    assert found is not None and found.flop == 2 * 2 * 8 * 64 * 64 * 64
    assert not found.exact and found.operand_bytes is None


def attention(setting: str, queries: int = 64, keys: int = 64) -> MatrixProduct:
    shapes = ((2, 8, queries, 32), (2, 8, keys, 32), (2, 8, keys, 32))
    settings = ("", "", "", "0.", setting) if setting else ()
    return MatrixProduct("aten::_scaled_dot_product_flash_attention", 0.0, shapes, (BF16,) * 3, settings)


FLASH = (
    "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<128, 128, 64, 4, false, false, "
    "cutlass::bfloat16_t>, false, {}, false, false, true>(pytorch_flash::Flash_fwd_params)"
)


@each_row(
    ("name", "product", "share", "of_flop"),
    [
        ("fmha", attention("True"), 0.5, (0.5,)),
        ("fmha", attention("False"), 1.0, (1.0,)),
        (FLASH.format("true"), attention(""), 0.5, (0.5,)),
        (FLASH.format("false"), attention(""), 1.0, (1.0,)),
        ("fmha", attention(""), 1.0, (1.0, 0.5)),
        ("fmha", attention("True", queries=16), 1.0, ()),
        ("fmha", attention("False", queries=16), 1.0, (1.0,)),
    ],
)
def test_a_causal_mask_hides_half_of_the_scores(
    name: str, product: MatrixProduct, share: float, of_flop: tuple[float, ...]
) -> None:
    found = asked(recorded((name, 100, 0), products=(product,)), name)
    # Two products of 2 · 2 · 8 · queries · 64 · 32 FLOP.
    queries = (product.shapes or ())[0][2]  # type: ignore[index]
    whole = 2 * 2 * 2 * 8 * queries * 64 * 32
    assert found is not None and (found.flop, found.causal) == (share * whole, share == 0.5)
    assert [part.fraction for part in found.utilisation] == [
        pytest.approx(one * whole / 100e-6 / 312e12) for one in of_flop
    ]


@each_row(
    ("name", "place", "causal"),
    [
        ("aten::_scaled_dot_product_efficient_attention", 6, "True"),
        ("aten::_scaled_dot_product_cudnn_attention", 6, "True"),
        ("aten::_scaled_dot_product_flash_attention_backward", 11, "True"),
        ("aten::_scaled_dot_product_efficient_attention_backward", 11, "True"),
        ("aten::_scaled_dot_product_cudnn_attention_backward", 14, "True"),
        ("aten::_flash_attention_forward", 8, "True"),
        ("aten::_flash_attention_backward", 11, "True"),
        ("aten::_efficient_attention_forward", 9, "1"),
        ("aten::_efficient_attention_backward", 14, "2"),
    ],
)
def test_settings_say_whether_attention_is_causal(name: str, place: int, causal: str) -> None:
    shapes = ((2, 64, 64, 32),) * (4 if name.endswith("backward") else 3)
    for setting, expected in ((causal, True), ("0" if causal != "True" else "False", False), ("", None)):
        settings = ("",) * place + (setting,)
        found = product_flop(MatrixProduct(name, 0.0, shapes, (BF16,) * 4, settings))
        assert isinstance(found, ProductFlop) and (found.causal, found.as_many_keys) == (expected, True)


def test_a_product_of_complex_numbers_is_four_products() -> None:
    found = asked(recorded(("cgemm", 100, 0), products=(product(of="c10::complex<float>"),)), "cgemm")
    assert found is not None and (found.flop, found.exact, found.utilisation) == (48e9, False, ())


def test_both_peaks_are_named_if_either_may_be_it() -> None:
    verdict = recorded(("some_kernel", 1000, 0), products=(product(of=FLOAT),)).verdict
    assert verdict is not None and "7.7 % of rated TF32 or 62 % of rated FP32" in verdict.sentence


def _without_sources(asked_for: OperatorFlop | None) -> OperatorFlop | None:
    """Return it without the text of its ceilings' sources, which changes with the specs."""
    if asked_for is None:
        return None
    return replace(asked_for, utilisation=tuple(replace(one, source="") for one in asked_for.utilisation))


def test_counters_saw_what_the_shapes_ask_for() -> None:
    """A transformer in FP32 on an H100: FLOP by shapes, of the survey, against those that ncu counted."""
    surveyed = _analysis_of_transformer()
    assert sum(one.operator_flop is not None for one in surveyed.session.kernels) == 31
    # A profiled kernel keeps what its operator asked for.
    again: list[KernelProfile] = [*joined(surveyed, surveyed).session.kernels]
    assert [one.operator_flop for one in again] == [one.operator_flop for one in surveyed.session.kernels]
    recording = read_session(TRANSFORMER.with_name("session.json").read_bytes(), "session.json")
    of_shapes = {one.id: _without_sources(one.operator_flop) for one in surveyed.session.kernels}
    assert {one.id: _without_sources(one.operator_flop) for one in recording.kernels} == of_shapes
    products = [one for one in recording.kernels if one.operator_flop is not None and one.operator_flop.exact]
    assert len(products) == 27
    assert len(_ratios(products)) == 23
    # Four of them had the counters of launches with 75 % and 400 % of their FLOP.
    refused = [one for one in products if not one.work]
    assert sorted(one.id for one in refused) == [11, 96, 402, 522]
    for one in refused:
        assert [gap.what for gap in one.missing] == ["counters"] and "GFLOP" in one.missing[0].why
        assert one.time_total_s and not one.findings and not one.roofline


@each_row("with_operators", [True, False])
def test_products_get_counters_of_their_own_shapes_alone(*, with_operators: bool) -> None:
    """What was counted on the H100, given to its survey again: by operators, and by names, grids and FLOP alone."""
    surveyed = _analysis_of_transformer()
    recording = read_session(TRANSFORMER.with_name("session.json").read_bytes(), "session.json")
    recorded_of = {one.id: own for one, own in zip(surveyed.session.kernels, surveyed.recorded, strict=True)}
    counted = [
        (one if with_operators else replace(one, ranges=()), recorded_of[one.id])
        for one in recording.kernels
        if one.counts and not any(gap.what == "counters of this range" for gap in one.missing)
    ]
    profiled = Analysis(replace(recording, kernels=tuple(one for one, _ in counted)), tuple(own for _, own in counted))
    found = joined(profiled, surveyed).session.kernels
    products = [one for one in found if one.operator_flop is not None and one.operator_flop.exact]
    assert len(_ratios(products)) >= 23
    assert [[gap.what for gap in one.missing] for one in products if not one.work] == [["counters"]] * 4


def _ratios(products: Iterable[KernelProfile]) -> list[float]:
    """FLOP that were counted ÷ FLOP of the shapes, of all that show counters."""
    found = [
        sum(work.flop or 0.0 for work in one.work if work.path == "fp32") / one.operator_flop.flop
        for one in products
        if one.operator_flop is not None and one.work
    ]
    # What the hardware does beside: edges of tiles, a bias, the scaling of sums.
    assert all(1.0 <= ratio <= 1.03 for ratio in found), found
    return found


def test_a_product_on_the_pipes_for_scalars_is_told_in_a_trace() -> None:
    found = recorded((SIMT, 1000, 0), products=(product(of=FLOAT),))
    (told,) = (finding for finding in found.kernels[0].findings if finding.rule == "tensor-cores-idle")
    assert "62 %" in told.headline and told.severity == "high" and "TF32" in str(told.held)
    # The same FLOP at 156 TFLOP/s take 77 of 1000 µs.
    assert told.gain_kernel == pytest.approx(1 - 12e9 / 156e12 / 1e-3, rel=0.01)
    # At a tenth of that rate arithmetic is not what it waits for.
    slow = recorded((SIMT, 10_000, 0), products=(product(of=FLOAT),))
    (fact,) = (finding for finding in slow.kernels[0].findings if finding.rule == "tensor-cores-idle")
    assert fact.severity == "info"
