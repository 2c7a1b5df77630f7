"""Model FLOP of a timeline and MFU, worked out by hand; traces are made by hand where they are not called recorded."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from msgspec.structs import replace

from gpuprof.errors import DamagedInput
from gpuprof.hardware.device import RecordedDevice
from gpuprof.hardware_finder import HardwareFinder
from gpuprof.model.measured_flop import measured_flop
from gpuprof.model.session import (
    Ceiling,
    DurationSpread,
    KernelProfile,
    MeasuredFlop,
    ModelFlop,
    PathFlop,
    Session,
    StepFlop,
    Work,
)
from gpuprof.store.read import read_session
from gpuprof.store.write import session_bytes
from gpuprof.timeline.analysis import analyse_traces
from gpuprof.timeline.mfu import MOST_UNCOUNTED, utilisation
from gpuprof.timeline.trace import COPY, KERNEL, Activity, MatrixProduct, ProgramStep, Trace
from gpuprof.words.timeline import timeline_facts
from tests import hand_made
from tests.table import each_row
from tests.worded import diagnose

H100 = RecordedDevice("NVIDIA H100 80GB HBM3", "9.0", sm_count=132)
BF16, FP32 = "c10::BFloat16", "float"
CUBE = ((4096, 4096), (4096, 4096))
"""A product of 2 · 4096³ = 137.4 GFLOP."""


def mm(start_ms: float, dtype: str = BF16, shapes: object = CUBE, name: str = "aten::mm") -> MatrixProduct:
    return MatrixProduct(name, start_ms * 1e-3, shapes, (dtype, dtype))  # type: ignore[arg-type]


def kernel(start_ms: float, ms: float | None, product: int | None, name: str = "nvjet", **more: object) -> Activity:
    activity = Activity(
        KERNEL, name, 0, start_ms * 1e-3, ms * 1e-3 if ms is not None else None, 7, (8, 1, 1), (128, 1, 1)
    )
    return activity._replace(launched_s=start_ms * 1e-3, product=product)._replace(**more)  # type: ignore[arg-type]


def steps(count: int, ms: float, name: str = "ProfilerStep") -> tuple[ProgramStep, ...]:
    return tuple(ProgramStep(name, number * ms * 1e-3, ms * 1e-3, 1) for number in range(count))


def trace(
    products: list[MatrixProduct],
    activities: list[Activity],
    *of_program: ProgramStep,
    devices: tuple[RecordedDevice, ...] = (H100,),
) -> Trace:
    """A trace of these on H100s."""
    return Trace(
        "t.json",
        "0" * 64,
        "torch-trace",
        "torch",
        None,
        devices,
        tuple(activities),
        of_program,
        products=tuple(products),
    )


def session(*traces: Trace) -> Session:
    return diagnose(analyse_traces(traces, HardwareFinder(), "1"))


def model_of(*traces: Trace) -> ModelFlop:
    found = session(*traces).timeline
    assert found is not None
    (one,) = found.model_flop
    return one


def step_of(*traces: Trace) -> StepFlop:
    step = model_of(*traces).step
    assert step is not None
    return step


def a_loop(count: int = 3, dtype: str = BF16, ms: float = 1.0, busy_ms: float = 0.5) -> Trace:
    products = [mm(number * ms, dtype) for number in range(count)]
    return trace(products, [kernel(n * ms, busy_ms, n) for n in range(count)], *steps(count, ms))


def test_mfu_is_flop_over_time_over_the_rated_ceiling() -> None:
    model = model_of(a_loop())
    assert model.total == (PathFlop("tensor.bf16", 3 * 2.0 * 4096**3, 3),)
    assert model.step is not None and model.step.count == 3
    # 137.4 GFLOP in 1 ms are 137.4 of 989.4 TFLOP/s.
    assert model.step.flop_per_s == pytest.approx(137.438953472e12)
    (mfu,) = model.step.utilisation
    assert mfu.fraction == pytest.approx(0.13891, rel=1e-4)
    assert (mfu.ceiling_path, mfu.origin, mfu.ceiling_flop_per_s, mfu.clock_hz) == (
        "tensor.bf16", "rated", 989.4e12, 1830e6,
    )  # fmt: skip
    assert (model.uncounted, model.missing) == ((), ())
    told = dict(timeline_facts(session(a_loop())))["model FLOP"]
    for number in ("1.00 ms", "137 GFLOP", "137 TFLOP/s", "14 %", "989 TFLOP/s", "412 GFLOP"):
        assert number in told
    # Operators before and after the steps count in the trace only.
    outside = replace(a_loop(), products=(*a_loop().products, mm(3.0), mm(99.0)))
    model = model_of(outside)
    assert model.total is not None and model.total[0].calls == 5
    assert model.step is not None and (model.step.count, model.step.max_flop) == (3, 2.0 * 4096**3)
    # Two more steps without an operator: the GPU could have computed in their time, too.
    step = step_of(replace(a_loop(), steps=steps(5, 1.0)))
    assert (step.count, step.min_flop) == (5, 0)
    assert step.utilisation[0].fraction == pytest.approx(0.13891 * 3 / 5, rel=1e-4)


def test_fp32_is_held_against_the_paths_that_it_can_have_run_on() -> None:
    loop = a_loop(dtype=FP32, ms=4.0)
    unnamed = replace(loop, activities=tuple(own._replace(name="triton_mm") for own in loop.activities))
    found = {one.ceiling_path: one.fraction for one in step_of(unnamed).utilisation}
    assert found == {"fp32": pytest.approx(0.5136, rel=1e-4), "tensor.tf32": pytest.approx(0.069456, rel=1e-4)}
    # The names of all kernels say that they run on tensor cores, but not if one of them says nothing.
    assert [one.ceiling_path for one in step_of(loop).utilisation] == ["tensor.tf32"]
    mixed = replace(loop, activities=(*loop.activities[:2], *unnamed.activities[2:]))
    assert len(step_of(mixed).utilisation) == 2
    # 137.4 TFLOP/s are more than the 66.9 of FP32: it must have run as TF32, of 494.7.
    found = {one.ceiling_path: one.fraction for one in step_of(a_loop(dtype=FP32)).utilisation}
    assert found == {"tensor.tf32": pytest.approx(0.27782, rel=1e-4)}


def test_the_mean_of_the_steps_speaks_for_all() -> None:
    # 1, 4 and 2 ms, with one, two and three products.
    at = (0.0, 1.0, 5.0, 7.0)
    made = [ProgramStep("ProfilerStep", start * 1e-3, (end - start) * 1e-3, 1) for start, end in pairwise(at)]
    products = [mm(start + 0.1 * n) for start, count in zip(at, (1, 2, 3), strict=False) for n in range(count)]
    step = step_of(trace(products, [kernel(one.start_s * 1e3, 0.01, n) for n, one in enumerate(products)], *made))
    # 7 ms and six products in three steps.
    assert step.time_s == pytest.approx(7e-3 / 3)
    assert step.flop == (PathFlop("tensor.bf16", 2 * 2.0 * 4096**3, 2),)
    assert step.max_flop / step.min_flop == 3


def test_a_step_that_overlaps_the_one_before_is_no_longer_than_their_mean() -> None:
    # The copy of a step runs beside the product of the one before: what it launched takes 2 and 2.5 ms, a step 1.5 ms.
    copies = [Activity(COPY, "host to device", 0, n * 1e-3, 1e-3, launched_s=n * 1e-3) for n in range(1, 3)]
    kernels = [kernel(1.5 * n, 1.5, n, launched_s=n * 1e-3) for n in range(3)]
    step = step_of(trace([mm(float(n)) for n in range(3)], [*kernels, *copies], *steps(3, 1.0)))
    assert step.time_s == pytest.approx(1.5e-3)
    # 137.4 GFLOP in 1.5 ms of 989.4 TFLOP/s.
    assert step.utilisation[0].fraction == pytest.approx(0.13891 / 1.5, rel=1e-4)


def test_nothing_is_used_by_more_than_all_of_it() -> None:
    # 137.4 GFLOP in 0.136 ms would be 1010 of 989.4 TFLOP/s.
    model = model_of(a_loop(ms=0.136, busy_ms=0.136))
    assert model.step is not None and model.step.utilisation == ()
    assert [gap.what for gap in model.missing] == ["MFU"]


def test_a_step_takes_no_less_than_the_gpu_takes_for_it() -> None:
    # The program launches 1.5 ms of work every millisecond.
    products = [mm(float(n)) for n in range(3)]
    kernels = [kernel(1.5 * n, 1.5, n, launched_s=n * 1e-3) for n in range(3)]
    assert step_of(trace(products, kernels, *steps(3, 1.0))).time_s == pytest.approx(1.5e-3)


def test_the_ceiling_is_that_of_all_gpus_that_run_kernels() -> None:
    one = a_loop()
    second = [kernel(0.1, 0.1, None, "add", device=1)]
    step = step_of(replace(one, devices=(H100, H100, H100), activities=(*one.activities, *second)))
    assert step.gpus == 2 and step.utilisation[0].ceiling_flop_per_s == 2 * 989.4e12
    assert step.utilisation[0].fraction == pytest.approx(0.13891 / 2, rel=1e-4)


def test_what_a_trace_does_not_tell_leaves_flop_or_mfu_missing() -> None:
    # Without shapes; graphs alone have no operators to count.
    for unknown in (trace([mm(0.1, shapes=None)], [kernel(0.1, 0.5, 0)], *steps(1, 1.0)),
                    trace([], [kernel(0.1, 0.5, None)], *steps(1, 1.0))):  # fmt: skip
        model = model_of(unknown)
        assert (model.total, model.step) == (None, None) and model.missing
    # Without steps, and if steps of several threads overlap.
    loop = a_loop()
    for steps_of in ((), (*loop.steps, replace(loop.steps[0], thread=2))):
        model = model_of(replace(loop, steps=steps_of))
        assert model.total == (PathFlop("tensor.bf16", 3 * 2.0 * 4096**3, 3),) and model.step is None
        assert model.missing
    # A GPU without a spec.
    model = model_of(replace(loop, devices=(RecordedDevice("NVIDIA Unheard-of", "9.0", sm_count=132),)))
    assert model.step is not None and model.step.utilisation == () and "--spec FILE" in model.missing[0].how
    # What multiplies nothing, and what Nsight Systems recorded, says nothing of FLOP.
    for silent in (trace([], [kernel(0.1, 0.5, None, "add")], *steps(1, 1.0)), replace(loop, kind="nsys-sqlite")):
        timeline = session(silent).timeline
        assert timeline is not None and timeline.model_flop == ()


@each_row(("ms", "told"), [(0.1, True), (0.2, False)])
def test_much_time_in_what_is_not_counted_leaves_no_mfu(ms: float, told: bool) -> None:
    # 0.1 of 1.6 ms, and 0.2 of 1.7.
    one = a_loop()
    other = kernel(0.6, ms, None, "void flash_fwd_kernel<T>(P)", operator="flash_attn::_flash_attn_forward [2, 3]")
    model = model_of(replace(one, activities=(*one.activities, other)))
    assert (0.1 / 1.6 < MOST_UNCOUNTED < 0.2 / 1.7) and model.step is not None
    assert [(each.name, each.count) for each in model.uncounted] == [("flash_attn::_flash_attn_forward", 1)]
    assert bool(model.step.utilisation) is told


@each_row(("name", "multiplies"), [
    ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_cublas", True),
    ("void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_tn_align8>(P)", True),
    ("nvjet_tst_128x256_64x4_1x2_h_bz_coopA_TNT", True), ("volta_scudnn_128x64_relu_small_nn_v1", True),
    ("void implicit_convolve_sgemm<float, float, 1024, 6, 7, 3, 3, 5, 1, false, true, true>(int)", True),
    ("void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4> >(P)", True),
    ("fmha_cutlassF_bf16_aligned_64x64_rf_sm80", True), ("triton_tem_fused_mm_0", True),
    ("gemv2T_kernel_val<int, int, float, float, float, float, 128, 16, 4, 4, false>", False),
    ("void cudnn::ops::nchwToNhwcKernel<float, float, float, true, false>(P)", False),
    ("void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float> >(int)", False),
    ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", False),
    ("triton_poi_fused_add_relu_0", False),
])  # fmt: skip
def test_kernels_that_multiply_outside_of_operators_are_known_by_their_words(name: str, multiplies: bool) -> None:
    one = a_loop()
    found = model_of(replace(one, activities=(*one.activities, kernel(0.6, 0.01, None, name))))
    assert bool(found.uncounted) is multiplies


def test_a_saved_session_has_the_same_flop_and_names_no_file_that_is_not_there() -> None:
    found = session(a_loop())
    assert found.timeline is not None
    counted = MeasuredFlop("tensor.bf16", 4e11, 0.93)
    found = structs.replace(found, timeline=structs.replace(found.timeline, measured_flop=(counted,)))
    text = session_bytes(found)
    assert read_session(text.decode(), "s.json") == found
    data = json.loads(text)
    data["timeline"]["model_flop"][0]["source"] = 1
    with pytest.raises(DamagedInput, match="source 1"):
        read_session(json.dumps(data), "s.json")
    for name in ("model_flop", "measured_flop"):
        del data["timeline"][name]
    assert read_session(json.dumps(data), "s.json").kernels == found.kernels, "a session of before is still read"


def test_a_ceiling_that_was_measured_stands_beside_the_rated_one() -> None:
    rated = Ceiling(
        device=0, id="rated/tensor.bf16", path="tensor.bf16", level=None, value=989.4e12, clock_hz=None,
        origin="rated", source="",
    )  # fmt: skip
    ceilings = [rated, structs.replace(rated, id="measured/tensor.bf16", value=800e12, origin="measured")]
    found = utilisation((PathFlop("tensor.bf16", 4e11, 1),), 1e-3, ceilings)
    assert [(one.origin, one.fraction) for one in found] == [
        ("rated", pytest.approx(0.40429, rel=1e-4)),
        ("measured", 0.5),
    ]


def test_counted_flop_are_those_of_all_launches_with_the_share_of_time_that_they_cover() -> None:
    def one(number: int, launches: int, total_s: float, *work: Work) -> KernelProfile:
        return hand_made.kernel(number, launches=launches, time_total_s=total_s, work=work)

    def counted(path: str, flop: float | None) -> Work:
        return Work(path, flop, None, basis="counted")

    kernels = (
        one(0, 10, 0.006, counted("tensor.bf16", 1e9), counted("fp32", 1e6), counted("int32", 5e6)),
        one(1, 2, 0.003, counted("tensor.bf16", 5e8), counted("fp32", None)),
        one(2, 99, 0.001),
    )
    # 10 · 10⁹ + 2 · 5 · 10⁸ in 9 of 10 ms.
    totals = measured_flop(kernels)
    assert [(one.path, one.flop) for one in totals] == [("fp32", 1e7), ("tensor.bf16", 1.1e10)]
    assert [one.time_share for one in totals] == pytest.approx([0.6, 0.9])
    # One of 8 ms speaks for a kernel that was launched twice in 10 ms: 1.25 times its work, not twice.
    spread = DurationSpread(min=2e-3, p50=2e-3, p95=8e-3, p99=8e-3, max=8e-3, count=2)
    kernel = structs.replace(one(0, 2, 10e-3, counted("fp32", 8e9)), duration_s=8e-3, duration_percentiles_s=spread)
    assert [one.flop for one in measured_flop([kernel])] == [pytest.approx(10e9)]
    # A third launch has no time: it counts as the others do on average.
    assert [one.flop for one in measured_flop([structs.replace(kernel, launches=3)])] == [pytest.approx(15e9)]


@given(st.lists(st.tuples(st.floats(0, 5), st.sampled_from([BF16, FP32, "x"]), st.booleans()), min_size=1, max_size=12))
def test_the_flop_of_steps_are_never_more_than_those_of_the_trace(calls: list[tuple[float, str, bool]]) -> None:
    products = [mm(at, dtype, CUBE if shaped else None) for at, dtype, shaped in sorted(calls)]
    activities = [kernel(one.start_s * 1e3, 0.1, number) for number, one in enumerate(products)]
    found = model_of(trace(products, activities, *steps(3, 1.0)))
    assert sum(each.count for each in found.uncounted) == sum(not shaped for *_, shaped in calls)
    total = sum(each.flop for each in found.total) if found.total is not None else 0.0
    assert total == sum(shaped for *_, shaped in calls) * 2.0 * 4096**3
    if found.step is not None:
        # A mean of thirds is rounded.
        rounding = 1 + 1e-12
        mean = sum(each.flop for each in found.step.flop)
        assert found.step.count * found.step.min_flop <= total * rounding
        assert found.step.min_flop <= mean * rounding and mean <= found.step.max_flop * rounding
