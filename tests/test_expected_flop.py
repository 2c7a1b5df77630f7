"""Counters that cannot be those of a matrix product, by the FLOP of its shapes: worked out by hand."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace

from gpuprof.hardware.trust import Trust
from gpuprof.model.analyse import analyse
from gpuprof.model.expected_flop import contradiction, padding
from gpuprof.model.session import KernelProfile, OperatorFlop, Work
from gpuprof.model.torch_ranges import ProductSize, operator_with_shapes, product_size
from tests import builders
from tests.cli import gpuprof
from tests.table import each_row

RECORDED = Path(__file__).parent / "data/gpu/nvidia-h100-80gb-hbm3/run-transformer/run/session.json"
SIMT, XMMA = "cutlass_80_simt_sgemm_256x128_8x4_nn_align1", "sm80_xmma_gemm_f32f32_tn_n_tilesize64x128x8_ffma_aligna4"
TENSOR = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_stages_32x5_nn"
ANY = "some_kernel"
DEEP, SHALLOW = "aten::mm [2048, 2048]×[2048, 512]", "aten::addmm [2048, 512]×[512, 512]"
DEEP_FLOP, SHALLOW_FLOP = 2 * 2048 * 2048 * 512, 2 * 2048 * 512 * 512
SCALAR = {"fp64": 0.0, "fp32": 0.0, "fp16": 0.0}
TF32 = {**SCALAR, "tensor.tf32": 0.0, "tensor.bf16": 0.0}


def kernel(name: str, operator: str, flop: float, path: str = "fp32", *, exact: bool = True) -> KernelProfile:
    (one,) = analyse([builders.report(builders.launch({}, name=name))], builders.hardware_of, "1").session.kernels
    asked = OperatorFlop(
        path=path, flop=flop, flop_per_s=1.0, exact=exact, utilisation=(), operand_bytes=None, dram_fraction=None
    )
    return replace(one, demangled=name, ranges=("layers.0", operator), operator_flop=asked)


def counted(flop: Mapping[str, float | None], trust: Trust = "none") -> list[Work]:
    return [Work(path, count, None, basis="counted", certificate=trust) for path, count in flop.items()]


@each_row(
    ("name", "operator", "shapes", "fp32", "refused"),
    [
        # Recorded on an H100: the counters of depth 1536 beside depth 2048, and of depth 2048 beside depth 512.
        (SIMT, DEEP, DEEP_FLOP, 3_225_419_776.0, True),
        (XMMA, SHALLOW, SHALLOW_FLOP, 4_297_064_448.0, True),
        # And the right ones, the second of a sum in five parts.
        (SIMT, DEEP, DEEP_FLOP, 4_299_161_600.0, False),
        (SIMT, "aten::mm [1536, 2048]×[2048, 512]", 2 * 1536 * 2048 * 512, 3_250_323_456.0, False),
        # 95 % of 4.295 GFLOP are 4.080.
        (SIMT, DEEP, DEEP_FLOP, 4.08e9, False),
        (SIMT, DEEP, DEEP_FLOP, 4.07e9, True),
        # Sums of 512 may take 576: 105 % of 1.0737 · 576 ÷ 512 are 1.268 GFLOP.
        (XMMA, SHALLOW, SHALLOW_FLOP, 1.26e9, False),
        (XMMA, SHALLOW, SHALLOW_FLOP, 1.28e9, True),
        # 1000 columns are 1024 in tiles of 128, and sums of 512 may take 576: 105 % of 2.416 are 2.537 GFLOP.
        (XMMA, "aten::addmm [2048, 512]×[512, 1000]", 2 * 2048 * 512 * 1000, 2.53e9, False),
        (XMMA, "aten::addmm [2048, 512]×[512, 1000]", 2 * 2048 * 512 * 1000, 2.54e9, True),
        # One row may be a tile of 512.
        (ANY, "aten::mm [1, 512]×[512, 512]", 2 * 512 * 512, 400 * 2 * 512 * 512, False),
        # A sum of one product has no addition.
        (SIMT, "aten::mm [512, 1]×[1, 512]", 2 * 512 * 512, 512 * 512, False),
        (SIMT, "aten::mm [512, 1]×[1, 512]", 2 * 512 * 512, 0.9 * 512 * 512, True),
        # An empty product.
        (SIMT, "aten::mm [512, 0]×[0, 512]", 0, 512 * 512, False),
        # Nothing says how large the tile makes it.
        (SIMT, "aten::mm", DEEP_FLOP, 1.0, False),
    ],
)
def test_a_product_on_the_pipes_for_scalars(
    name: str, operator: str, shapes: float, fp32: float, *, refused: bool
) -> None:
    gap = contradiction(kernel(name, operator, shapes), counted({**TF32, "fp32": fp32}))
    assert (gap is not None) == refused


@each_row(
    ("name", "path", "work", "trust", "refused"),
    [
        # TF32 once; three times, as 3xTF32 does; and BF16 nine times, as emulation does.
        (ANY, "fp32", {**TF32, "tensor.tf32": DEEP_FLOP}, "certified", False),
        (ANY, "fp32", {**TF32, "tensor.tf32": 3 * DEEP_FLOP}, "certified", False),
        (ANY, "tensor.tf32", {**TF32, "tensor.tf32": 3 * DEEP_FLOP}, "certified", False),
        (ANY, "fp32", {**TF32, "tensor.bf16": 9 * DEEP_FLOP}, "certified", False),
        (ANY, "fp32", {**TF32, "tensor.tf32": 0.75 * DEEP_FLOP}, "none", True),
        # FP64 as integers.
        (ANY, "fp64", {**SCALAR, "tensor.fp64": 0.0, "tensor.int8": 28 * DEEP_FLOP}, "none", False),
        # What it ran on was not counted, or a counter does not see its matrix instructions.
        (ANY, "fp32", SCALAR, "none", False),
        (ANY, "fp32", {**TF32, "tensor.bf16": None}, "none", False),
        (ANY, "tensor.bf16", {**TF32, "fp32": 4e6}, "none", False),
        (ANY, "fp32", {}, "none", False),
        (SIMT, "fp32", {"fp32": 0.0}, "none", False),
        # Of what does not run on tensor cores the pipes for scalars say all.
        (SIMT, "fp32", SCALAR, "none", True),
        ("gemv2T_kernel_val", "tensor.bf16", SCALAR, "none", False),
        (TENSOR, "tensor.bf16", {**SCALAR, "tensor.bf16": 0.75 * DEEP_FLOP}, "none", True),
        # Instructions of warp groups may be counted four times, unless a certificate says that they are not.
        (TENSOR, "tensor.bf16", {**SCALAR, "tensor.bf16": 4 * DEEP_FLOP}, "none", False),
        (TENSOR, "tensor.bf16", {**SCALAR, "tensor.bf16": 4 * DEEP_FLOP}, "certified", True),
        (TENSOR, "tensor.bf16", {**SCALAR, "tensor.bf16": DEEP_FLOP, "fp32": 4e6}, "certified", False),
    ],
)
def test_a_product_that_can_run_on_tensor_cores(
    name: str, path: str, work: Mapping[str, float | None], trust: Trust, *, refused: bool
) -> None:
    assert (contradiction(kernel(name, DEEP, DEEP_FLOP, path), counted(work, trust)) is not None) == refused


def test_only_a_kernel_that_does_the_whole_of_a_plain_product_is_judged() -> None:
    nothing = counted(TF32)
    assert contradiction(kernel(SIMT, DEEP, DEEP_FLOP), nothing) is not None
    assert contradiction(kernel(SIMT, DEEP, DEEP_FLOP, exact=False), nothing) is None
    assert contradiction(replace(kernel(SIMT, DEEP, DEEP_FLOP), operator_flop=None), nothing) is None


def test_the_reason_has_both_numbers() -> None:
    gap = contradiction(kernel(SIMT, DEEP, DEEP_FLOP), counted({**TF32, "fp32": 3_225_419_776.0}))
    assert gap is not None and gap.what == "counters"
    assert all(text in gap.why for text in ("3.23 GFLOP", "4.29 GFLOP", DEEP))


@each_row("kernel", ["#96", "#402", "#11", "#522"])
def test_counters_that_were_refused_are_named_wherever_the_kernel_is_shown(kernel: str) -> None:
    for form in ("table", "md"):
        done = gpuprof("show", str(RECORDED), "--kernel", kernel, "--format", form)
        told = "3.23 GFLOP" if kernel in ("#96", "#402") else "4.30 GFLOP"
        assert " ".join(done.stdout.split()).count(told) >= 1, form


@each_row(
    ("ranges", "operator", "size"),
    [
        (("layers.0", "aten::linear [8, 4, 2]×[6, 2]", "aten::addmm [32, 2]×[2, 6]"), "aten::addmm [32, 2]×[2, 6]",
         (32, 6, 2)),
        (("aten::linear [8, 4, 2]×[6, 2]",), "aten::linear [8, 4, 2]×[6, 2]", (32, 6, 2)),
        (("aten::bmm [8, 4, 2]×[8, 2, 6]",), "aten::bmm [8, 4, 2]×[8, 2, 6]", (4, 6, 2)),
        (("aten::mm",), "", None),
        (("aten::mv [4, 2]×[2]",), "aten::mv [4, 2]×[2]", None),
        (("aten::add [4, 2], [2]",), "aten::add [4, 2], [2]", None),
        (("layers.0",), "", None),
        ((), "", None),
    ],
)  # fmt: skip
def test_the_size_of_a_product_is_read_from_the_innermost_operator(
    ranges: tuple[str, ...], operator: str, size: tuple[int, int, int] | None
) -> None:
    assert (operator_with_shapes(ranges), product_size(ranges)) == (operator, size)


@each_row(
    ("name", "size", "ratio"),
    [
        # 128 × 256 whichever side is rows; 64 and the epilogue are 128.
        (XMMA, (100, 200, 64), 128 * 256 / 20_000 * 2),
        # 64 × 256 or 128 × 256.
        (XMMA, (10, 200, 63), 128 * 256 / 2_000 * 64 / 63),
        # The shape of an instruction is no tile, and a cluster has several.
        ("cutlass3x_sm90_tensorop_s64x128x16gemm_bf16_128x128x64_2x1x1_0_tnn", (100, 200, 100), 512**2 / 20_000 * 1.28),
        ("nvjet_tst_192x192_64x4_2x1_v_bz_coopB_TNN", (100, 200, 100), 512**2 / 20_000 * 1.28),
        (ANY, (100, 600, 100), 512 * 1024 / 60_000 * 1.28),
    ],
)
def test_a_product_is_filled_up_to_whole_tiles(name: str, size: tuple[int, int, int], ratio: float) -> None:
    assert padding(name, ProductSize(*size)) == pytest.approx(ratio)
