"""What the limits of a kernel leave open, and what is asked of it in a second run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace

import gpuprof
from gpuprof.collect.asking import asked_about, may_use_groups_of_warps
from gpuprof.collect.counter_sets import SETS
from gpuprof.collect.launches import Seen
from gpuprof.collect.plan import make_plan
from gpuprof.collect.questions import Question, open_questions
from gpuprof.hardware.library import SpecLibrary
from gpuprof.model.field_types import ThroughputUnit
from gpuprof.model.session import KernelProfile, OperatorFlop, Pipe, Throughput
from tests import hand_made
from tests.table import each_row

RECORDED = Path(__file__).parent / "data/gpu/nvidia-h100-80gb-hbm3/run-transformer/run/session.json"
EXACT = OperatorFlop(
    path="fp32", flop=1e9, flop_per_s=1e12, exact=True, utilisation=(), operand_bytes=None, dram_fraction=None
)
ABOUT = OperatorFlop(
    path="fp32", flop=1e9, flop_per_s=1e12, exact=False, utilisation=(), operand_bytes=None, dram_fraction=None
)


def kernel(
    busy: Mapping[ThroughputUnit, float], pipes: Mapping[str, float], flop: OperatorFlop | None = EXACT
) -> KernelProfile:
    """A kernel with these units and pipes, each with the part of its peak that it reaches."""
    return hand_made.kernel(
        throughput=tuple(Throughput(unit, fraction) for unit, fraction in busy.items()),
        pipes=tuple(Pipe(name, fraction, name) for name, fraction in pipes.items()),
        operator_flop=flop,
    )


@each_row(
    ("busy", "pipes", "questions"),
    [
        # Arithmetic near its peak: nothing. Up to there: what executes, and where warps wait.
        ({"sm": 0.95}, {"tensor": 0.9}, set()),
        ({"sm": 0.95, "dram": 0.7}, {"fma": 0.95}, set()),
        ({"sm": 0.95}, {"fp64": 0.93}, set()),
        ({"sm": 0.9}, {"tensor": 0.89}, {"waits", "pipes"}),
        ({"sm": 0.9}, {"alu": 0.95, "lsu": 0.95}, {"waits", "pipes"}),
        # A busy level of memory: how its bytes are used.
        ({"sm": 0.3, "dram": 0.6}, {"fma": 0.1}, {"waits", "memory"}),
        ({"sm": 0.3, "l2": 0.8}, {"fma": 0.1}, {"waits", "memory"}),
        ({"sm": 0.3, "l1": 0.8}, {"fma": 0.1}, {"waits", "memory"}),
        # Both are busy, or nothing is: anything may be the cause.
        ({"sm": 0.7, "dram": 0.7}, {"fma": 0.1}, {"waits", "memory", "pipes"}),
        ({"sm": 0.59, "dram": 0.59}, {"fma": 0.1}, {"waits", "memory", "pipes"}),
        ({}, {}, {"waits", "memory", "pipes"}),
    ],
)
def test_a_question_is_open_where_limits_do_not_answer_it(
    busy: Mapping[ThroughputUnit, float], pipes: Mapping[str, float], questions: set[Question]
) -> None:
    assert open_questions(kernel(busy, pipes)) == questions


@each_row(("flop", "questions"), [(EXACT, set()), (ABOUT, {"work", "tensor-work"}), (None, {"work", "tensor-work"})])
def test_work_is_open_where_shapes_do_not_tell_it(flop: OperatorFlop | None, questions: set[Question]) -> None:
    assert open_questions(kernel({"sm": 0.7}, {"tensor": 0.5}, flop)) - {"waits", "pipes"} == questions


@each_row(
    ("arch", "flop", "tensor", "questions"),
    [
        ("sm_90", EXACT, 0.5, set()),
        ("sm_90", ABOUT, 0.04, {"work"}),
        ("sm_90", None, 0.04, {"work"}),
        ("sm_80", None, 0.5, {"work"}),
        ("sm_90", None, 0.5, {"work", "tensor-work"}),
        ("sm_90", ABOUT, 0.5, {"work", "tensor-work"}),
    ],
)
def test_tensor_work_is_asked_about_where_opcodes_do_not_give_it(
    arch: str, flop: OperatorFlop | None, tensor: float, questions: set[Question]
) -> None:
    made, spec = kernel({"sm": 0.7}, {"tensor": tensor}, flop), SpecLibrary().arch(arch)
    assert made.grid is not None and made.block is not None and spec is not None
    plan = make_plan([Seen(None, made.demangled, made.grid, made.block, 1e-3)])
    for counters in ("diagnose", "roofline"):
        asked = asked_about(plan, hand_made.session(made), spec, SETS[counters])
        if counters == "diagnose":
            assert asked.questions - {"waits", "pipes"} == questions and not asked.with_limits
        else:
            assert ("tensor-work" in asked.questions) == (arch == "sm_90" and tensor > 0.05)


@each_row(
    ("name", "needs"),
    [
        # Names of kernels that were recorded on an H100. What was built for an older GPU has no instructions of groups.
        ("fmha_cutlassF_f32_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel<float>::Params)", False),
        ("ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn", False),
        ("void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_256x128_16x3_nn_align4>(Params)", False),
        ("void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4> >(Flash_fwd_params)", True),
        ("nvjet_tst_128x256_64x4_2x1_v_bz_coopA_TNT", True),
        ("cutlass3x_sm90_tensorop_s64x128x16gemm_bf16_bf16_f32", True),
        ("cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x64x128", True),
        ("void lambda_kernel_sm8000(float *)", True),
    ],
)
def test_counters_of_tensor_work_are_for_what_groups_of_warps_may_do(name: str, needs: bool) -> None:
    assert may_use_groups_of_warps(replace(kernel({"sm": 0.7}, {"tensor": 0.21}), demangled=name)) == needs
    assert not may_use_groups_of_warps(replace(kernel({"sm": 0.7}, {"tensor": 0.033}), demangled=name))


def test_no_kernel_of_the_recorded_transformer_needs_counters_of_tensor_work() -> None:
    """Its attention is for sm_80, and what else keeps the pipe busy on an H100 was counted to do no tensor work."""
    recorded = gpuprof.load(RECORDED)
    busy = [
        kernel for kernel in recorded.kernels if any(pipe.name == "tensor" and pipe.fraction for pipe in kernel.pipes)
    ]
    assert len(busy) > 50 and not [kernel.label for kernel in busy if may_use_groups_of_warps(kernel)]
