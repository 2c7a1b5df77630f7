"""A kernel function is one thing in verdicts and comparisons, whatever layer, range or operator launched it."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from gpuprof.cli.select import select_kernels
from gpuprof.comparison.compare import compare
from gpuprof.comparison.contract import Comparison
from gpuprof.comparison.sides import Run
from gpuprof.diagnose.verdict import is_typical
from gpuprof.model.labels import launch_labels
from gpuprof.model.run_totals import run_of
from gpuprof.model.session import KernelProfile, Session
from gpuprof.words.comparison import whole_sentence
from gpuprof.words.recommendations import recommendation_texts
from tests import compare_builders, hand_made
from tests.conftest import OWN_REPORTS
from tests.readings import session_of
from tests.table import each_row
from tests.worded import summarised, without_excluded

TRANSFORMER = OWN_REPORTS[0].parents[2] / "run-transformer" / "run" / "survey.pt.trace.json.gz"
LAYERS = 8
SOFTMAX = "void (anonymous namespace)::cunn_SoftMaxForward<8, float, float, float, Epilogue>(float*, float const*, int)"


def trace(path: Path, *, softmax_us: float = 100.0, prefix: str = "Attention") -> Path:
    """Write a trace of layers, each with a softmax and a product, and of a last product that takes longer."""
    events: list[dict[str, object]] = []
    busy_us: list[float] = []

    def launch(module: str, operator: str, kernel: str, duration_us: float, blocks: int) -> None:
        number = len(events) // 4 + 1
        start_us = 1000.0 + sum(busy_us)
        busy_us.append(duration_us)
        host = {"ph": "X", "pid": 1, "tid": 1}
        gpu = {"stream": 7, "device": 0, "correlation": number, "grid": [blocks, 1, 1], "block": [128, 1, 1]}
        events.extend(
            [
                {**host, "cat": "python_function", "name": f"nn.Module: {module}", "ts": start_us, "dur": 30.0},
                {**host, "cat": "cpu_op", "name": operator, "ts": start_us + 1, "dur": 20.0},
                {**host, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": start_us + 2, "dur": 5.0,
                 "args": {"correlation": number}},
                {"ph": "X", "cat": "kernel", "name": kernel, "pid": 0, "tid": 7, "ts": start_us + 50,
                 "dur": duration_us, "args": gpu},
            ]
        )  # fmt: skip

    for layer in range(LAYERS):
        launch(f"{prefix}_{layer}", "aten::_softmax", SOFTMAX, softmax_us, 1000 + layer)
        launch(f"{prefix}_{layer}", "aten::bmm", "gemm_128x64", 60.0, 500)
    launch("Head", "aten::addmm", "gemm_256x128", 150.0, 64)
    properties = [{"id": 0, "name": "NVIDIA H100 80GB HBM3", "computeMajor": 9, "computeMinor": 0, "numSms": 132}]
    path.write_text(json.dumps({"schemaVersion": 1, "deviceProperties": properties, "traceEvents": events}))
    return path


def layers(*shares: float, name: str = "softmax", first: int = 0) -> list[KernelProfile]:
    """Return launches of one function in as many layers, as a trace has them."""
    return [
        hand_made.kernel(
            first + place, label=f"Layer_{place} · aten::{name}", function=name, time_share=share, time_total_s=share,
            ranges=(f"Layer_{place}", f"aten::{name}"), demangled=f"void {name}(float*)", throughput=(),
        )
        for place, share in enumerate(shares)
    ]  # fmt: skip


def judged(*kernels: KernelProfile) -> Session:
    return summarised(hand_made.session(*kernels))


def test_a_function_in_many_layers_is_the_verdict_with_the_sum_of_its_launches(tmp_path: Path) -> None:
    session = session_of(trace(tmp_path / "trace.json"))
    verdict = session.verdict
    assert verdict is not None and verdict.kernel is not None
    first = session.kernels[verdict.kernel]
    assert first.function.startswith("cunn_SoftMaxForward") and first.label.startswith("Attention_0 · aten::_softmax")
    # 8 · 100 of 8 · 160 + 150 µs
    assert verdict.sentence.startswith(first.function)
    assert "56 % of GPU time in 8 launches of aten::_softmax" in verdict.sentence
    assert "Attention" not in verdict.sentence
    totals = run_of(session)
    assert (totals.kernels, totals.main_kernels, totals.launches, totals.timed_shapes) == (3, 3, 17, 10)


def test_an_operator_with_more_time_than_any_function_leads_the_verdict_of_a_trace(tmp_path: Path) -> None:
    path = trace(tmp_path / "trace.json")
    events = path.read_text().replace('"gemm_256x128"', '"gemm_64x64"').replace('"aten::addmm"', '"aten::bmm"')
    path.write_text(events.replace('"dur": 100.0', '"dur": 70.0'))
    session = session_of(path)
    verdict = session.verdict
    assert verdict is not None and verdict.kernel is not None
    # Products take 8 · 60 + 150 of 1190 µs with two functions, the softmax 8 · 70.
    assert verdict.sentence.startswith(
        "aten::bmm takes 53 % of GPU time with 2 kernels. Its longest kernel, gemm_128x64"
    )
    assert session.kernels[verdict.kernel].function_name == "gemm_128x64"


def test_the_longest_launch_of_the_leading_function_represents_it() -> None:
    session = judged(*layers(0.1, 0.2, 0.15), *layers(0.3, name="gemm", first=3), *layers(0.25, name="add", first=4))
    assert session.verdict is not None and session.verdict.kernel == 1
    assert "45 % of GPU time in 3 launches" in session.verdict.sentence


def compiled(*numbers: int | str, time_s: float = 1.0, first: int = 0) -> list[KernelProfile]:
    """Return kernels that inductor made of the same operators, as a session has them."""
    names = [f"triton_poi_fused_add_{number}" for number in numbers]
    labels = launch_labels(names, [()] * len(names))
    return [
        hand_made.kernel(
            first + place, label=label, function=function, demangled=name, time_total_s=time_s, ranges=(),
            time_share=time_s / 6, throughput=(), launches=3,
        )
        for place, (name, (label, function)) in enumerate(zip(names, labels, strict=True))
    ]  # fmt: skip


def test_fused_kernels_that_differ_in_their_number_are_judged_as_one() -> None:
    session = judged(*compiled(0, 1, 2, 3), *layers(1 / 3, name="gemm", first=4))
    assert session.verdict is not None and session.verdict.kernel == 0
    assert session.verdict.sentence.startswith("triton_poi_fused_add (")
    assert "67 % of GPU time with 4 kernels in 12 launches" in session.verdict.sentence
    assert run_of(session).kernels == 5


@each_row("numbers", [("3_0d1d2d", "3_0d1d2de3"), ("3_0d1d2d", "3_0d1d2de3", "4_0d1d2d", "4_0d1d2de3")])
def test_specialisations_of_one_fused_kernel_are_kernels_of_their_own(numbers: tuple[str, ...]) -> None:
    session = judged(*compiled(*numbers))
    assert run_of(session).kernels == len(numbers)
    assert [kernel.numbered_name for kernel in session.kernels] == [kernel.demangled for kernel in session.kernels]


def test_fused_kernels_keep_their_numbers_in_a_comparison() -> None:
    base, new = compiled(0, 1, 2), compiled(2, 1, 0)
    changes = compared(base, new).kernels
    assert {change.match for change in changes} == {"exact"}
    for change in changes:
        assert change.label == change.base[0].demangled == change.new[0].demangled == change.base[0].function


def test_a_fix_for_one_function_in_many_layers_names_it_once_with_launches_and_share() -> None:
    kernels = [
        replace(kernel, findings=(replace(hand_made.finding(), id=f"{kernel.id}.uncoalesced-global"),))
        for kernel in layers(0.2, 0.2, 0.12)
    ]
    (text,) = recommendation_texts(judged(*kernels, *layers(0.48, name="gemm", first=3)))
    assert text.name + text.spread == "softmax (3 launches, 52 %)"


def test_shapes_of_a_function_in_other_states_do_not_lend_it_theirs() -> None:
    waiting = hand_made.finding("latency-bound", gain=0.8)
    first, second, third = layers(0.4, 0.3, 0.3)
    same = hand_made.session(first, second, third)
    assert is_typical(same, first)
    mixed = hand_made.session(replace(first, findings=(replace(waiting, id="0.latency-bound"),)), second, third)
    assert not is_typical(mixed, mixed.kernels[0])
    small = hand_made.session(first, second, replace(third, findings=(waiting,), time_total_s=0.01))
    assert is_typical(small, first)
    sentence = (summarised(mixed).verdict or pytest.fail()).sentence
    assert sentence.startswith("In #0")


def test_a_function_is_chosen_and_excluded_by_its_own_name() -> None:
    session = judged(*layers(0.4, 0.3), *layers(0.3, name="gemm", first=2))
    assert [kernel.id for kernel in select_kernels(session, ("^softmax$",))] == [0, 1]
    left = without_excluded(session, ["^softmax$"])
    assert [kernel.id for kernel in left.kernels] == [2]
    assert left.excluded is not None and (left.excluded.kernels, left.excluded.launches) == (1, 2)


# Comparisons.


def entry(name: str, *ranges: str, blocks: int = 64, time_s: float = 1e-5, launches: int = 1) -> KernelProfile:
    return compare_builders.kernel(name, [time_s] * launches, ranges=ranges, grid=(blocks, 1, 1))


def compared(base: list[KernelProfile], new: list[KernelProfile]) -> Comparison:
    return compare([compare_builders.run(*base)], [compare_builders.run(*new)], "0").comparison


def launches_of(comparison: Comparison) -> list[tuple[str, float, float]]:
    """Return the match of each kernel with its launches on both sides."""
    sums: list[tuple[str, float, float]] = []
    for change in comparison.kernels:
        base, new = (sum(kernel.launches for kernel in side) for side in (change.base, change.new))
        sums.append((change.match, base, new))
    return sorted(sums)


@each_row(
    ("base", "new", "expected"),
    [
        # Some launches of a side lie outside the ranges that label the others.
        ([entry("f", "a", launches=8), entry("f", launches=2)], [entry("f", "a", launches=9)], [("exact", 10, 9)]),
        # Every layer has another name.
        ([entry("f", "L0"), entry("f", "L1")], [entry("f", "M0"), entry("f", "M1")], [("exact", 2, 2)]),
        # Only a side has ranges.
        ([entry("f", "a"), entry("f", "b")], [entry("f"), entry("f")], [("exact", 2, 2)]),
        # An operator has another name.
        ([entry("f", "m", "aten::bmm")], [entry("f", "m", "aten::matmul")], [("exact", 1, 1)]),
        # Both sides have the same ranges: each is compared for itself.
        ([entry("f", "a"), entry("f", "b")], [entry("f", "a"), entry("f", "b")], [("exact", 1, 1)] * 2),
        ([entry("f", "a"), entry("f", "b"), entry("f", "c")], [entry("f", "a"), entry("f", "d")], [("exact", 3, 2)]),
        # A layer has another launch configuration, as all layers of another function have.
        (
            [entry("f", "a"), entry("f", "b"), entry("g", "a"), entry("g", "b")],
            [entry("f", "a"), entry("f", "b", blocks=96), entry("g", "a", blocks=96), entry("g", "b", blocks=96)],
            [("exact", 1, 1), *[("reconfigured", 1, 1)] * 3],
        ),
        # Every layer has another name and another launch configuration.
        (
            [entry("f", "L0"), entry("f", "L1")], [entry("f", "M0", blocks=96), entry("f", "M1", blocks=96)],
            [("reconfigured", 1, 1)] * 2,
        ),
        # torch.compile counts its kernels anew, in ranges of other names.
        (
            [entry("triton_poi_fused_add_0", "L0"), entry("triton_poi_fused_add_0", "L1")],
            [entry("triton_poi_fused_add_3", "M0"), entry("triton_poi_fused_add_3", "M1")],
            [("renamed", 1, 1)] * 2,
        ),
        # Another function is gone.
        ([entry("f", "a"), entry("gather", "a")], [entry("f", "b")], [("exact", 1, 1), ("gone", 1, 0)]),
    ],
)  # fmt: skip
def test_kernels_are_paired_by_function_grid_and_block_before_their_ranges(
    base: list[KernelProfile], new: list[KernelProfile], expected: list[tuple[str, int, int]]
) -> None:
    assert launches_of(compared(base, new)) == expected
    swapped = {"gone": "new", "new": "gone"}
    back = sorted((swapped.get(match, match), after, before) for match, before, after in expected)
    assert launches_of(compared(new, base)) == back


def test_a_launch_is_not_faster_because_longer_ones_are_in_a_range_of_the_other_side() -> None:
    short, long = entry("f", "a", time_s=1e-5, launches=8), entry("f", "b", time_s=4e-5, launches=8)
    (change,) = compared([short, long], [short]).kernels
    assert (change.time.verdict, change.time.doubt and change.time.doubt.kind) == ("unclear", "other-ranges")
    assert change.effect_s == pytest.approx(-3.2e-4)
    (change,) = compared([entry("f", "a", launches=8)], [entry("f", "b", time_s=4e-5, launches=8)]).kernels
    assert change.time.verdict == "slower"


def test_layers_renamed_in_a_trace_make_no_kernel_new_or_gone(tmp_path: Path) -> None:
    base = session_of(trace(tmp_path / "base.json"))
    new = session_of(trace(tmp_path / "new.json", prefix="Block", softmax_us=200.0))
    comparison = compare([Run("base", base)], [Run("new", new)], "0").comparison
    assert {change.match for change in comparison.kernels} == {"exact"}
    labels = {change.label.partition(" ")[0] for change in comparison.kernels}
    assert all("Attention" not in label and "Block" not in label for label in labels)
    assert (comparison.base.kernels, comparison.new.kernels) == (3, 3)
    # 800 and 1600 µs of softmax in eight launch configurations are one function.
    sentence = whole_sentence(comparison)
    assert "cunn_SoftMaxForward" in sentence and "800 µs → 1.60 ms" in sentence
    assert "2 kernels inconclusive" in sentence


def test_a_function_of_both_sides_is_not_said_to_be_new_or_gone() -> None:
    base = [entry("gemm", blocks=blocks) for blocks in (37, 41)]
    new = [entry("gemm", blocks=blocks) for blocks in (38, 42, 60)]
    comparison = compared([*base, entry("relu")], [*new, entry("relu"), entry("rotary")])
    sentence = whole_sentence(comparison)
    assert "gemm runs 2 → 3 times" in sentence and "rotary is new" in sentence and "gone" not in sentence
    assert not comparison.facts
    (fact,) = compared([*base, entry("relu")], [*new, entry("rotary")]).facts
    assert (fact.kind, fact.numbers) == ("unmatched", (1, 1))


RECORDED = session_of(TRANSFORMER)


@given(st.randoms(use_true_random=False), st.integers(1, 4))
@settings(max_examples=5, deadline=None)
def test_times_of_pairs_add_up_to_those_of_both_sides_however_launches_are_split_into_ranges(
    generator: random.Random, ranges: int
) -> None:
    def split() -> Run:
        names = [(), *((f"range {number}",) for number in range(ranges))]
        kernels = tuple(replace(kernel, ranges=generator.choice(names)) for kernel in RECORDED.kernels)
        return Run("made", replace(RECORDED, kernels=kernels))

    base, new = split(), split()
    comparison = compare([base], [new], "0").comparison
    assert {change.match for change in comparison.kernels} == {"exact"}
    for run, side in ((base, "base"), (new, "new")):
        kernels = [kernel for change in comparison.kernels for kernel in getattr(change, side)]
        times = [kernel.time_total_s for kernel in kernels if kernel.time_total_s is not None]
        own = [kernel.time_total_s for kernel in run.session.kernels if kernel.time_total_s is not None]
        # All of them are per step, of three steps.
        assert 3 * sum(times) == pytest.approx(sum(own))
        launches = sum(kernel.launches for kernel in run.session.kernels)
        assert 3 * sum(kernel.launches for kernel in kernels) == pytest.approx(launches)
