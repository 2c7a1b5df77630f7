"""A trace by operator: numbers worked out by hand, sums of a recorded trace, and a table that fits every width."""

from __future__ import annotations

import gzip
import io
import json
import math
import re
from collections import Counter

import pytest
from msgspec import structs
from msgspec.structs import replace
from rich.cells import cell_len
from rich.console import Console

from gpuprof.model.headline import by_time
from gpuprof.model.session import KernelProfile, OperatorBytes, OperatorFlop, Session, Utilisation
from gpuprof.model.time_by import TimeBy, TimeGroup, first_times
from gpuprof.timeline.trace import Activity, MatrixProduct, ProgramStep
from gpuprof.views.profile import print_session, session_page, summary_lines
from gpuprof.words.time_by import header_text
from tests.cli import gpuprof as run
from tests.hand_made import HOSTILE, session
from tests.readings import shown_session_of, trace_of
from tests.table import each_row
from tests.test_time_by import RECORDED, TRAINING, launched, of_kind
from tests.test_timeline import A100, kernel, trace
from tests.test_timeline import session as analysed

BF16 = "c10::BFloat16"
LARGE, SMALL = ((1000, 2000), (2000, 3000)), ((100, 2000), (2000, 3000))
"""Products of 2 · 1000 · 2000 · 3000 = 12 GFLOP and of 1.2 GFLOP."""
GEMM, REDUCE, NCCL = (
    "ampere_bf16_s16816gemm",
    "cublasLt::splitKreduce_kernel",
    "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
)


def launches(start_us: float, first: int) -> list[Activity]:
    """What a step of 1 ms launches: two products, the first with a sum over slices, an addition and a collective."""
    large, small = "aten::mm [1000, 2000]×[2000, 3000]", "aten::mm [100, 2000]×[2000, 3000]"
    made = [
        (GEMM, 0, 100, large, first), (REDUCE, 100, 20, large, first), (GEMM, 200, 50, small, first + 1),
        (NCCL, 500, 30, "record_param_comms", None), ("add", 800, 200, "aten::add", None),
    ]  # fmt: skip
    return [
        kernel(name, start_us + at, us, operator=operator, product=product, launched_s=(start_us + at) * 1e-6)
        for name, at, us, operator, product in made
    ]


def stepped(*others: Activity) -> Session:
    """A trace of two steps on an A100, which rates BF16 at 312 TFLOP/s."""
    activities = [*launches(0, 0), *launches(1000, 2)]
    steps = (ProgramStep("ProfilerStep", 0.0, 1e-3), ProgramStep("ProfilerStep", 1e-3, 1e-3))
    products = tuple(
        MatrixProduct("aten::mm", 0.0, shapes, (BF16, BF16), ()) for shapes in (LARGE, SMALL, LARGE, SMALL)
    )
    return analysed(structs.replace(trace(*activities, *others, steps=steps), products=products))


def groups(of: Session) -> dict[str, TimeGroup]:
    return {group.name: group for group in by_operator(of).groups}


def by_operator(of: Session) -> TimeBy:
    times = first_times(of, of.kernels)
    assert times is not None
    return times


def test_time_flop_and_part_of_the_peak_are_sums_over_all_shapes_and_launches() -> None:
    found = groups(stepped())
    mm = found["aten::mm"]
    # 2 · (100 + 20 + 50) µs, of two steps of 1 ms.
    assert mm.time_s == pytest.approx(340e-6) and mm.share_of_step == pytest.approx(0.17)
    assert (mm.kernels, mm.launches, mm.flop_bound) == (2, 6, None)
    assert mm.flop == pytest.approx(2 * (12e9 + 1.2e9))
    # 26.4 GFLOP take 84.6 µs at 312 TFLOP/s; the sum over slices is part of the operator's time.
    assert mm.of_peak is not None and (mm.of_peak.of, mm.of_peak.bound) == ("bf16", None)
    assert mm.of_peak.least == mm.of_peak.most == pytest.approx(26.4e9 / 312e12 / 340e-6, rel=1e-3)
    assert mm.longest is not None and mm.longest.launches == 4
    assert mm.longest.time_s == pytest.approx(300e-6)
    # Which collective it is only its kernel says.
    (collective,) = (group for group in found.values() if group.kind == "kernel")
    assert "nccl" in collective.name.lower() and "record_param_comms" not in found
    assert sum(group.time_share or 0 for group in found.values()) == pytest.approx(1)


def test_a_share_is_of_the_step_only_if_all_kernels_ran_in_steps() -> None:
    steps = by_operator(stepped()).steps
    assert steps is not None and (steps.count, round(steps.time_s, 9)) == (2, 2e-3)
    outside = by_operator(stepped(kernel("warm_up", -500, 50, operator="aten::fill_", launched_s=-501e-6)))
    assert (outside.steps is None) == ("aten::fill_" in {group.name for group in outside.groups})
    assert by_operator(analysed(trace(kernel("k", 0, 1, operator="aten::add")))).steps is None


def test_steps_on_several_gpus_are_counted_as_those_of_each() -> None:
    steps = tuple(ProgramStep("ProfilerStep", number * 1e-3, 1e-3) for number in range(3))
    launches = [
        kernel("k", 1000.0 * number, 900 - 300 * gpu, operator="aten::add")._replace(device=gpu)
        for number in range(3)
        for gpu in range(2)
    ]
    times = by_operator(analysed(structs.replace(trace(*launches, steps=steps), devices=(A100, A100))))
    assert times.steps is not None and (times.steps.count, times.steps.gpus) == (6, 2)
    # 3 · (900 + 600) µs in six steps of a GPU.
    assert "3 × 2 GPUs" in header_text(times) and "750 µs" in header_text(times)


def product_of(path: str, flop: float, *fractions: float) -> OperatorFlop:
    parts = tuple(
        Utilisation(path=path, fraction=part, ceiling_path=path, ceiling_flop_per_s=1.0, clock_hz=None, origin="rated",
                    source="") for part in fractions
    )  # fmt: skip
    return OperatorFlop(path=path, flop=flop, flop_per_s=flop, exact=True, utilisation=parts, operand_bytes=None,
                        dram_fraction=None)  # fmt: skip


def moved(fraction: float | None) -> OperatorBytes:
    return OperatorBytes(bytes=1.0, bytes_per_s=1.0, dram_fraction=fraction)


def test_what_is_not_known_of_a_part_makes_a_lower_bound_and_of_most_nothing() -> None:
    mm, gemm = "aten::mm [8, 8]×[8, 8]", product_of("tensor.bf16", 1e9, 0.5)
    found = groups(traced(
        launched(0, "gemm_a", 3e-3, mm, launches=1, operator_flop=gemm),
        launched(1, "gemm_b", 1e-3, "aten::mm [9, 9]×[9, 9]", kind="gemm"),
        launched(2, "add", 2e-3, "aten::add", operator_bytes=moved(0.8)),
        launched(3, "add", 1e-3, "aten::add", operator_bytes=moved(None)),
        launched(4, "mul", 1e-3, "aten::mul", operator_bytes=moved(0.8)),
        launched(5, "mul", 2e-3, "aten::mul"),
        launched(6, "fp32", 1e-3, "aten::bmm", operator_flop=product_of("fp32", 2e9, 0.08, 0.6)),
        launched(7, "late", None, "aten::cat"),
    ))  # fmt: skip
    # 3 ms at a half of 4 ms.
    assert (found["aten::mm"].flop, found["aten::mm"].flop_bound) == (1e9, "at-least")
    assert peak(found["aten::mm"]) == ("bf16", pytest.approx(0.375), pytest.approx(0.375), "at-least")
    assert peak(found["aten::add"]) == ("dram", pytest.approx(1.6 / 3), pytest.approx(1.6 / 3), "at-least")
    assert found["aten::mul"].of_peak is None and found["aten::mul"].flop is None
    assert peak(found["aten::bmm"]) == ("fp32", pytest.approx(0.08), pytest.approx(0.6), None)
    assert found["aten::cat"].of_peak is None and found["aten::cat"].time_s is None


def peak(group: TimeGroup) -> tuple[object, ...]:
    assert group.of_peak is not None
    return group.of_peak.of, group.of_peak.least, group.of_peak.most, group.of_peak.bound


def traced(*made: KernelProfile) -> Session:
    """A session of a PyTorch trace."""
    timeline = analysed(trace()).timeline
    return replace(of_kind("torch-trace", session(*made)), timeline=timeline)


def test_the_peak_of_most_time_comes_first_where_shapes_differ_in_what_limits_them() -> None:
    small = structs.replace(product_of("tensor.bf16", 1e6, 0.01), dram_fraction=0.9)
    found = groups(traced(
        launched(0, "gemm", 1e-3, "aten::mm [9, 9]×[9, 9]", operator_flop=product_of("tensor.bf16", 1e9, 0.5)),
        launched(1, "gemv", 3e-3, "aten::mm [1, 9]×[9, 9]", operator_flop=small),
    ))  # fmt: skip
    # 1 ms at a half and 3 ms at nine tenths.
    assert peak(found["aten::mm"]) == ("dram/bf16", pytest.approx(3.2 / 4), pytest.approx(3.2 / 4), None)


def test_flop_of_a_recorded_trace_are_those_of_the_shapes_of_its_calls() -> None:
    expected: Counter[str] = Counter()
    factors = {"aten::mm": (0, 1), "aten::bmm": (0, 1), "aten::addmm": (1, 2)}
    for event in json.loads(gzip.decompress(RECORDED.read_bytes()))["traceEvents"]:
        if event.get("cat") == "cpu_op" and event["name"] in factors:
            left, right = (event["args"]["Input Dims"][place] for place in factors[event["name"]])
            expected[event["name"]] += 2 * math.prod(left) * right[-1]
    # Without steps, all of a recording from the start is shown.
    found = groups(analysed(structs.replace(trace_of(RECORDED), steps=(), from_start=True)))
    assert expected.keys() == {"aten::mm", "aten::addmm"}
    for name, flop in expected.items():
        assert found[name].flop == flop and found[name].flop_bound is None


def test_a_trace_is_shown_by_operator_unless_kernels_are_asked_for() -> None:
    assert first_times(TRAINING, TRAINING.kernels) is None
    nothing = traced(launched(0, "k", 1e-3))
    assert first_times(nothing, nothing.kernels) is None
    whole, ordered, named, by_kernel = (
        run("show", RECORDED, *options).stdout
        for options in ((), ("--sort", "launch"), ("--kernel", "gemm"), ("--by", "kernel"))
    )
    assert "aten::mm " in whole and "#  kernel" not in whole
    assert "#  kernel" in ordered and "Time by operator" not in ordered + named
    assert by_kernel.startswith("Time by kernel")
    both = run("show", RECORDED, "-v").stdout
    assert "Time by operator" in both and "#  kernel" in both
    assert "| aten::mm |" in run("show", RECORDED, "--format", "md").stdout


def test_without_operators_a_trace_whose_ranges_split_a_function_is_shown_by_function() -> None:
    """Of 24 launches of `attention` and one of `norm`, 900 µs and 300 µs each: 21.6 and 0.3 ms."""
    layers = [kernel("attention", 1000 * at, 900, ranges=(f"layer_{at}",)) for at in range(24)]
    found = analysed(structs.replace(trace(*layers, kernel("norm", 24_000, 300)), kind="nsys-sqlite"))
    times = first_times(found, found.kernels)
    assert times is not None and times.by == "kernel"
    assert [(group.name, group.launches) for group in times.groups] == [("attention", 24), ("norm", 1)]
    assert times.groups[0].time_s == pytest.approx(21.6e-3)
    once = analysed(structs.replace(trace(layers[0], kernel("norm", 1000, 300)), kind="nsys-sqlite"))
    assert first_times(once, once.kernels) is None, "each function is one kernel"


def screen(of: Session, width: int, top: int | None = None) -> list[str]:
    out = io.StringIO()
    times = first_times(of, of.kernels)
    print_session(Console(file=out, width=width), of, by_time(of.kernels), times=times, top=top)
    text = out.getvalue()
    return text[text.index("Time by operator") :].splitlines()


def test_attention_backward_has_the_flop_of_the_kernel_that_multiplies() -> None:
    name = "aten::_scaled_dot_product_flash_attention_backward"
    around = ("pytorch_flash::flash_bwd_dot_do_o_kernel", "pytorch_flash::flash_bwd_convert_dq_kernel")
    main = "pytorch_flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel"
    made = [
        kernel(one, 100.0 * at, us, operator=f"{name} [2, 8, 128, 64]", product=0)
        for at, (one, us) in enumerate(((around[0], 10), (main, 80), (around[1], 10)))
    ]
    shapes = ((2, 8, 128, 64),) * 4
    product = MatrixProduct(name, 0.0, shapes, (BF16,) * 4, ())
    found = groups(analysed(structs.replace(trace(*made), products=(product,))))[name]
    # Five products of 2 · 2 · 8 · 128 · 128 · 64 FLOP.
    assert (found.flop, found.flop_bound) == (5 * 2 * 2 * 8 * 128 * 128 * 64, None)
    assert found.of_peak is not None and found.of_peak.bound is None


def test_an_operator_has_the_flop_that_several_kernels_do() -> None:
    shapes = ((64, 64, 56, 56), (64, 64, 56, 56), (64, 64, 3, 3))
    settings = ("", "", "", "[0]", "[1, 1]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1", "[True, True, False]")
    name = "aten::convolution_backward"
    made = [
        kernel("sm80_xmma_dgrad_implicit_gemm_f16f16", 0, 120, operator=name, product=0),
        kernel("sm80_xmma_wgrad_implicit_gemm_f16f16", 200, 130, operator=name, product=0),
    ]
    product = MatrixProduct(name, 0.0, shapes, ("c10::Half",) * 3, settings)
    found = groups(analysed(structs.replace(trace(*made), products=(product,))))[name]
    # Two gradients of 2 · 64 · 56 · 56 · 64 · 64 · 3 · 3 FLOP in 250 µs of 312 TFLOP/s.
    flop = 2 * 2 * 64 * 56 * 56 * 64 * 64 * 9
    assert found.flop == pytest.approx(flop) and found.flop_bound is None
    assert peak(found) == ("fp16", *2 * (pytest.approx(flop / 250e-6 / 312e12),), None)


@each_row("width", [60, 80, 100, 140, 200])
def test_long_names_and_many_operators_fit_every_width(width: int) -> None:
    long = "fbgemm::split_embedding_codegen_lookup_" + "x" * 260
    gemm = product_of("fp32", 1e9, 0.05, 0.5)
    many = traced(
        launched(0, "k" * 300, 5e-3, long, operator_flop=gemm),
        launched(1, HOSTILE, 4e-3, "aten::mm [8, 8]×[8, 8]", operator_flop=gemm),
        *(launched(number, f"k{number}", 1e-5, f"my::operator_{number}") for number in range(2, 502)),
        launched(502, "z" * 300, 3e-3),
    )
    for top in (None, 3, 0):
        lines = screen(many, width, top)
        assert max(map(cell_len, lines)) <= width
        assert "\x1b" not in "".join(lines)
        assert len(lines) >= 5 if top is None else len(lines) > top
    # 5 ms of 17 ms.
    (rest,) = (line for line in screen(many, width, 3) if line.startswith("… and 500 more"))
    assert "29 %" in rest
    assert not any("more" in line for line in screen(many, width, 0))


@each_row("width", [80, 100, 140])
def test_share_flop_peak_and_kernel_fit_a_piped_table(width: int) -> None:
    head = screen(stepped(), width)[1]
    assert re.match(r"operator .*of step +FLOP +of peak +longest kernel", head)
    assert ("launches" in head) == (width >= 140)


def test_markdown_and_the_page_have_the_operators() -> None:
    found = shown_session_of(RECORDED)
    times = first_times(found, found.kernels)
    assert times is not None
    lines = list(summary_lines(found, by_time(found.kernels), 3, times))
    assert sum(line.startswith(("| aten::mm |", "| aten::addmm |")) for line in lines) == 2
    page = session_page(found)
    assert '<h2 id="operators">' in page and page.index("aten::addmm") > 0
    assert '<h2 id="operators">' not in session_page(TRAINING)
