"""Which kernels of two sides belong together: a wrong pair is worse than none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuprof.comparison.compare import compare
from gpuprof.comparison.contract import MatchKind
from gpuprof.comparison.matching.pairs import pairs_of
from gpuprof.comparison.pair import NamedMatch, Pair
from gpuprof.comparison.sides import Run, Side, SideKernel, side_of
from gpuprof.errors import UsageError
from gpuprof.model.session import KernelProfile, RunTotals
from tests.compare_builders import kernel, run, side, source
from tests.real_sessions import loaded
from tests.table import each_row

Told = tuple[MatchKind, tuple[str, ...], tuple[str, ...]]


def told(pairs: Sequence[Pair]) -> set[Told]:
    """Return each pair by the names of its kernels."""
    return {
        (
            pair.match,
            tuple(sorted(item.key.name for item in pair.base)),
            tuple(sorted(item.key.name for item in pair.new)),
        )
        for pair in pairs
    }


def matched(base: Side, new: Side) -> set[Told]:
    """Return the pairs that are neither new nor gone."""
    return {pair for pair in told(pairs_of(base, new)) if pair[0] not in ("new", "gone")}


def alone(base: KernelProfile, new: KernelProfile) -> str:
    """Return what becomes of two kernels that are all their sides have; `none` where they are not paired."""
    pairs = pairs_of(side(base), side(new))
    return pairs[0].match if len(pairs) == 1 else "none"


def test_equal_kernels_in_another_order_match_exactly() -> None:
    kernels = [kernel("a"), kernel("b"), kernel("a", grid=(8, 1, 1)), kernel("a", ranges=("step",))]
    assert {pair.match for pair in pairs_of(side(*kernels), side(*kernels[::-1]))} == {"exact"}


def test_two_demanglers_write_one_kernel() -> None:
    ncu, torch = "void f<(int)4, (bool)1>(const float *, T1)", "void f<4, true>(float const*, int)"
    assert alone(kernel(ncu), kernel(torch)) == "exact"


def test_a_hundred_shapes_launched_in_another_order_match_exactly() -> None:
    shapes = [kernel("gemm", grid=(size, 1, 1)) for size in range(1, 101)]
    pairs = pairs_of(side(*shapes), side(*shapes[50:], *shapes[:50]))
    assert len(pairs) == 100
    assert all(pair.match == "exact" and pair.base[0].key == pair.new[0].key for pair in pairs)


def test_shapes_that_differ_match_in_the_order_of_their_size() -> None:
    base = side(*(kernel("gemm", grid=(size, 1, 1)) for size in (10, 20, 30, 40)))
    new = side(*(kernel("gemm", grid=(size, 1, 1)) for size in (44, 10, 31, 22)))
    grids = {(pair.match, pair.base[0].key.grid, pair.new[0].key.grid) for pair in pairs_of(base, new)}
    assert grids == {
        ("exact", (10, 1, 1), (10, 1, 1)),
        ("reconfigured", (20, 1, 1), (22, 1, 1)),
        ("reconfigured", (30, 1, 1), (31, 1, 1)),
        ("reconfigured", (40, 1, 1), (44, 1, 1)),
    }


def test_as_many_threads_in_other_blocks_are_the_same_shape() -> None:
    base = side(kernel("f", grid=(64, 1, 1), block=(256, 1, 1)), kernel("f", grid=(96, 1, 1), block=(256, 1, 1)))
    new = side(kernel("f", grid=(192, 1, 1), block=(128, 1, 1)), kernel("f", grid=(128, 1, 1), block=(128, 1, 1)))
    grids = {(pair.match, pair.base[0].key.grid, pair.new[0].key.grid) for pair in pairs_of(base, new)}
    assert grids == {("reconfigured", (64, 1, 1), (128, 1, 1)), ("reconfigured", (96, 1, 1), (192, 1, 1))}


def test_more_shapes_on_a_side_than_on_the_other_are_not_guessed() -> None:
    """As in serving, where the batch varies: 37 of one run is not 38 of the other."""
    base = side(*(kernel("gemm", grid=(size, 1, 1)) for size in (37, 41)))
    new = side(*(kernel("gemm", grid=(size, 1, 1)) for size in (38, 42, 60)))
    assert not matched(base, new)


def test_another_input_beside_an_equal_one_is_not_a_change_of_it() -> None:
    base = side(kernel("fill", grid=(8, 1, 1)), kernel("fill", grid=(50_176, 1, 1)))
    new = side(kernel("fill", grid=(8, 1, 1)), kernel("fill", grid=(1, 1, 1)))
    assert Counter(pair.match for pair in pairs_of(base, new)) == {"exact": 1, "gone": 1, "new": 1}


@each_row(
    ("base", "new"),
    [(("model", "layer"), ("net", "layer")), (("layer", "a"), ("layer", "b")), (("old",), ("new",))],
)
def test_a_renamed_range_keeps_its_kernel(base: tuple[str, ...], new: tuple[str, ...]) -> None:
    assert alone(kernel(ranges=base), kernel(ranges=new)) == "renamed"


def test_layers_under_another_model_match_layer_by_layer() -> None:
    base = side(*(kernel(ranges=("model", f"layers.{number}")) for number in range(12)))
    new = side(*(kernel(ranges=("decoder", f"layers.{number}")) for number in range(12)))
    pairs = pairs_of(base, new)
    assert len(pairs) == 12
    assert all(pair.base[0].key.ranges[1] == pair.new[0].key.ranges[1] for pair in pairs)


def test_ranges_that_one_side_has_none_of_tell_nothing_apart() -> None:
    base, new = (
        run(kernel("a", [1e-5] * 4), kernel("b")),
        run(*(kernel("a", ranges=(str(i),)) for i in range(4)), kernel("b")),
    )
    compared = compare([base], [new], "0")
    assert {pair.match for pair in compared.pairs} == {"exact"} and len(compared.pairs) == 2
    assert "The base side has no ranges: kernels are matched without them." in compared.comparison.notes


def test_launch_configurations_that_one_side_has_none_of_tell_nothing_apart() -> None:
    base = run(kernel("a", grid=None, block=None))
    compared = compare([base], [run(kernel("a"), kernel("a", grid=(9, 1, 1)))], "0")
    assert [pair.match for pair in compared.pairs] == ["exact"]
    assert any("no launch configurations" in note for note in compared.comparison.notes)


def test_other_template_arguments_are_the_same_function() -> None:
    assert alone(kernel("void mm<16, float>(float*)"), kernel("void mm<32, float>(float*)")) == "reconfigured"
    assert alone(kernel("void mm<16, float>(float*)"), kernel("void mm<16, __half>(__half*)")) == "reconfigured"


def test_one_carrier_of_two_functors_is_not_one_kernel() -> None:
    name = "void at::native::vectorized_elementwise_kernel<4, at::native::{}<float>, std::array<char*, {}> >(int)"
    assert alone(kernel(name.format("CUDAFunctor_add", 3)), kernel(name.format("FillFunctor", 1))) == "none"


def test_two_lambdas_of_one_function_are_two_kernels() -> None:
    name = "void run<main::{{lambda(int)#{}}}>(main::{{lambda(int)#{}}})"
    base = side(*(kernel(name.format(number, number)) for number in (1, 2)))
    assert told(pairs_of(base, base)) == {("exact", (item.key.name,), (item.key.name,)) for item in base.kernels}


def test_lines_in_names_of_openacc_match_in_their_order() -> None:
    base = side(*(kernel(f"compute_tendencies_x_{line}_gpu") for line in (279, 309)))
    new = side(*(kernel(f"compute_tendencies_x_{line}_gpu") for line in (315, 285)))
    assert matched(base, new) == {
        ("renamed", ("compute_tendencies_x_279_gpu",), ("compute_tendencies_x_285_gpu",)),
        ("renamed", ("compute_tendencies_x_309_gpu",), ("compute_tendencies_x_315_gpu",)),
    }


def test_a_counter_in_a_name_of_triton_or_julia_is_not_part_of_it() -> None:
    assert alone(kernel("triton_poi_fused_add_mul_0"), kernel("triton_poi_fused_add_mul_7")) == "renamed"
    assert alone(kernel("julia_frb_5885(Int)"), kernel("julia_frb_4477(Int)")) == "renamed"
    assert alone(kernel("julia_frb_5885(Int)"), kernel("julia_bb_5885(Int)")) == "none"


def test_kernels_without_numbers_in_their_names_are_not_paired_by_launch_alone() -> None:
    assert alone(kernel("volta_sgemm_32x128_nt"), kernel("void nhwcToNchwKernel<float, 0>(float*)")) == "none"


def test_names_that_share_most_of_what_they_say_are_renamed() -> None:
    base, new = kernel("cudnn_infer_volta_scudnn_relu_small_nn"), kernel("volta_scudnn_relu_small_nn")
    assert alone(base, new) == "renamed"


@each_row("names", [("kernel_a", "kernel_b"), ("add_kernel", "mul_kernel"), ("relu", "gelu")])
def test_names_that_share_only_what_all_have_are_not_paired(names: tuple[str, str]) -> None:
    assert alone(*map(kernel, names)) == "none"


def test_two_candidates_as_good_as_each_other_are_not_guessed_at() -> None:
    base = side(kernel("scan_blocks_wide"))
    assert not matched(base, side(kernel("scan_blocks_tall"), kernel("scan_blocks_flat")))


def test_work_that_agrees_tells_one_candidate_from_another() -> None:
    base = side(kernel("scan_blocks_wide", counts={"instructions": 1e6}))
    new = side(
        kernel("scan_blocks_tall", counts={"instructions": 1e6}),
        kernel("scan_blocks_flat", counts={"instructions": 2e5}),
    )
    assert matched(base, new) == {("renamed", ("scan_blocks_wide",), ("scan_blocks_tall",))}


def test_a_hundred_shapes_of_a_renamed_kernel_match_shape_by_shape() -> None:
    base = side(*(kernel("fast_gemm_tiled", grid=(size, 1, 1)) for size in range(1, 101)))
    new = side(*(kernel("fast_gemm_pipelined", grid=(size, 1, 1)) for size in range(1, 101)))
    pairs = pairs_of(base, new)
    assert len(pairs) == 100
    assert all(pair.match == "renamed" and pair.base[0].key.grid == pair.new[0].key.grid for pair in pairs)


def test_a_rewritten_kernel_of_many_flop_is_known_by_them() -> None:
    flop = {"fp32": 2.0**31}
    base, new = kernel("basic", flop=flop, grid=(1024, 1, 1)), kernel("gmem_coalesce", flop=flop, grid=(1024, 1, 1))
    assert alone(base, new) == "renamed"
    assert alone(kernel("relu", flop={"fp32": 1e6}), kernel("add", flop={"fp32": 1e6})) == "none"
    assert not matched(side(base), side(new, kernel("smem_blocking", flop=flop)))


def test_names_that_are_contained_in_another_were_fused() -> None:
    base = side(kernel("triton_poi_fused_add_0"), kernel("triton_poi_fused_mul_1"), kernel("gemm"))
    new = side(kernel("triton_poi_fused_add_mul_0"), kernel("gemm"))
    fused = ("triton_poi_fused_add_0", "triton_poi_fused_mul_1")
    assert ("fused", fused, ("triton_poi_fused_add_mul_0",)) in told(pairs_of(base, new))
    assert ("split", ("triton_poi_fused_add_mul_0",), fused) in told(pairs_of(new, base))


def test_names_that_are_contained_are_not_fused_where_their_flop_do_not_add_up() -> None:
    base = side(kernel("fused_add", flop={"fp32": 1e6}), kernel("fused_mul", flop={"fp32": 1e6}))
    assert not matched(base, side(kernel("fused_add_mul", flop={"fp32": 9e6})))


def test_work_that_adds_up_was_split() -> None:
    base = side(kernel("attention", flop={"fp32": 3e9}))
    parts = kernel("scores", flop={"fp32": 1e9}), kernel("values", flop={"fp32": 2e9})
    assert ("split", ("attention",), ("scores", "values")) in told(pairs_of(base, side(*parts)))
    assert not matched(base, side(parts[0], kernel("values", flop={"fp32": 2.2e9})))
    assert not matched(base, side(*parts, kernel("noise", flop={"fp32": 1.0})))


def test_a_match_by_hand_comes_first() -> None:
    base, new = side(kernel("a"), kernel("b")), side(kernel("a"), kernel("c"))
    pairs = told(pairs_of(base, new, [NamedMatch("^a$", "^c$")]))
    assert pairs == {("named", ("a",), ("c",)), ("gone", ("b",), ()), ("new", (), ("a",))}


def test_of_one_recording_what_a_match_by_hand_leaves_is_neither_new_nor_gone() -> None:
    both = side(kernel("a"), kernel("b"), kernel("c"))
    pairs = told(pairs_of(both, both, [NamedMatch("^a$", "^b$")], identical=True))
    assert pairs == {("named", ("a",), ("b",)), ("exact", ("c",), ("c",))}


def test_a_report_and_the_session_that_was_made_of_it_are_one_recording() -> None:
    """A session has its kernels in an order of its own."""
    report, other = (
        run(*kernels) for kernels in ((kernel("a"), kernel("b", (2e-5,))), (kernel("b", (2e-5,)), kernel("a")))
    )
    comparison = compare([report], [other], "0").comparison
    assert comparison.sentence == "both sides are the same recording: nothing to compare"
    assert {change.time.verdict for change in comparison.kernels} == {"same"}
    slower = compare([report], [run(kernel("a"), kernel("b", (3e-5,)))], "0").comparison
    assert "same recording" not in slower.sentence


def test_steps_in_one_report_are_compared_and_not_called_the_same(reports: Path) -> None:
    recorded = loaded(reports / "esmm-research-profile_output.ncu-rep")
    runs = [Run("steps.ncu-rep", recorded)]
    comparison = compare(runs, runs, "0", [NamedMatch("two_blocktiling", "vectorized")]).comparison
    words = sorted((change.match, change.time.verdict) for change in comparison.kernels)
    assert words == [("exact", "same"), ("exact", "same"), ("named", "unclear")]
    assert comparison.sentence.startswith("both sides are the same recording: 1 kernel is unclear (time −12 %)")


def test_a_match_by_hand_takes_numbers_and_several_kernels() -> None:
    base, new = side(kernel("whole")), side(kernel("part_1"), kernel("part_2"))
    assert told(pairs_of(base, new, [NamedMatch("#0", "part")])) == {("split", ("whole",), ("part_1", "part_2"))}
    assert told(pairs_of(new, base, [NamedMatch("part", "#0")])) == {("fused", ("part_1", "part_2"), ("whole",))}


def test_a_match_by_hand_of_many_shapes_keeps_them_apart() -> None:
    base, new = (side(*(kernel(name, grid=(size, 1, 1)) for size in (1, 2, 3))) for name in ("old", "young"))
    pairs = pairs_of(base, new, [NamedMatch("old", "young")])
    assert len(pairs) == 3
    assert all(pair.match == "named" and pair.base[0].key.grid == pair.new[0].key.grid for pair in pairs)


@each_row(
    ("matches", "said"),
    [
        ([NamedMatch("nothing", "a")], ["nothing", "base side"]),
        ([NamedMatch("a", "#7")], ["#7", "new side"]),
        ([NamedMatch("a", "a"), NamedMatch("^a", "b")], ["twice", "'a=a'", "'^a=b'"]),
        ([NamedMatch("(", "a")], ["regular expression"]),
    ],
)
def test_a_match_by_hand_that_is_wrong_is_told(matches: list[NamedMatch], said: list[str]) -> None:
    both = side(kernel("a"), kernel("b"))
    with pytest.raises(UsageError) as raised:
        pairs_of(both, both, matches)
    assert all(word in str(raised.value) for word in said)


def test_a_number_that_is_another_kernel_in_each_file_is_told() -> None:
    base = side_of([run(kernel("a")), run(kernel("b"))])
    with pytest.raises(UsageError, match="another kernel in each file"):
        pairs_of(base, side(kernel("a")), [NamedMatch("#0", "a")])


def test_an_empty_side_has_nothing_to_pair() -> None:
    full, empty = side(kernel("a")), side()
    assert told(pairs_of(full, empty)) == {("gone", ("a",), ())}
    assert told(pairs_of(empty, full)) == {("new", (), ("a",))}
    compared = compare([run()], [run()], "0")
    assert compared.comparison.kernels == ()
    assert compared.comparison.notes == ("The base side has no kernels.", "The new side has no kernels.")


def test_no_side_at_all_is_empty() -> None:
    assert compare([], [], "0").comparison.kernels == ()


@each_row("name", ["k" * 15_000, "a::" * 5_000 + "f", "f<" * 3_000, "_ZN3foo6kernelILi4EEvPf", "", "\x1b[31m"])
def test_names_that_no_one_would_write_are_paired(name: str) -> None:
    assert alone(kernel(name), kernel(name)) == "exact"
    assert sum(len(pair.base) for pair in pairs_of(side(kernel(name)), side(kernel(name + "x", ranges=("r",))))) == 1


def test_long_names_that_differ_at_their_end_are_told_apart() -> None:
    base = side(kernel("k" * 15_000 + "a"), kernel("k" * 15_000 + "b"))
    assert {pair.match for pair in pairs_of(base, base)} == {"exact"} and len(pairs_of(base, base)) == 2


def test_a_kernel_that_is_gone_from_a_part_of_a_run_may_have_run() -> None:
    totals = RunTotals(
        kernels=9, launches=90, timed_launches=90, timed_shapes=9, time_s=1.0, main_kernels=1, main_time_s=0.9
    )
    base = run(kernel("a"), kernel("z"))
    notes = compare([base], [run(kernel("a"), run=totals)], "0").comparison.notes
    assert (
        "The new side was profiled in part (1 of 90 launches): 1 kernel that is gone may have run on both sides."
        in notes
    )
    assert not compare([base], [run(kernel("a"))], "0").comparison.notes


@each_row(
    ("command", "option"),
    [
        ("/opt/ncu -k regex:gemm -o out ./app", "-k"),
        ("ncu --set full --launch-count 5 ./app", "--launch-count"),
        ("ncu --nvtx --nvtx-include step/ ./app", "--nvtx-include"),
        ("ncu --set full -o out ./app -c 5", None),
        ("ncu --nvtx ./app -k 5", None),
        ("python -c 5", None),
    ],
)
def test_options_of_ncu_that_choose_launches_make_a_part_of_a_run(command: str, option: str | None) -> None:
    new = run(kernel("a"), sources=(source(command=command),))
    notes = compare([run(kernel("a"), kernel("z"))], [new], "0").comparison.notes
    assert any(f"profiled in part ({option})" in note for note in notes) == (option is not None)


def test_labels_of_a_comparison_are_unique() -> None:
    base = run(
        kernel("f"), kernel("f", grid=(2, 1, 1)), kernel("g", ranges=("a",)), kernel("g", ranges=("b",)),
        kernel("h", label="f"), kernel("h"),
    )  # fmt: skip
    labels = [item.label for item in compare([base], [base], "0").comparison.kernels]
    assert len(labels) == 5 == len(set(labels))
    assert "f 64×256" in labels and "g @a" in labels


NAMES = st.sampled_from(
    ["gemm_nn", "gemm_tn", "void f<4>(float*)", "void f<8>(float*)", "fused_add", "fused_mul", "fused_add_mul",
     "step_12_gpu", "step_15_gpu", "_Z1fv", "relu", "void run<ns::A<float> >(int)"]
)  # fmt: skip
GRIDS = st.sampled_from([None, (1, 1, 1), (2, 1, 1), (64, 1, 1)])
KERNELS = st.builds(
    lambda name, grid, ranges, flop, times: kernel(name, times, grid=grid, ranges=ranges, flop=flop),
    NAMES, GRIDS, st.sampled_from([(), ("a",), ("b", "c")]), st.sampled_from([None, {"fp32": 1e9}, {"fp32": 2e9}]),
    st.lists(st.floats(1e-6, 1e-3), max_size=3),
)  # fmt: skip
RUNS = st.lists(st.lists(KERNELS, max_size=8), min_size=1, max_size=2)
SWAPPED = {"new": "gone", "gone": "new", "split": "fused", "fused": "split"}


def sides(runs: Sequence[Sequence[KernelProfile]]) -> list[Run]:
    return [run(*kernels) for kernels in runs]


def by_key(pairs: Sequence[Pair]) -> Counter[tuple[str, frozenset[object], frozenset[object]]]:
    return Counter(
        (pair.match, frozenset(item.key for item in pair.base), frozenset(item.key for item in pair.new))
        for pair in pairs
    )


@given(RUNS, RUNS)
def test_every_kernel_of_both_sides_is_in_one_pair(
    base: list[list[KernelProfile]], new: list[list[KernelProfile]]
) -> None:
    ours, theirs = side_of(sides(base)), side_of(sides(new))
    pairs = pairs_of(ours, theirs)
    assert Counter(item.key for pair in pairs for item in pair.base) == Counter(item.key for item in ours.kernels)
    assert Counter(item.key for pair in pairs for item in pair.new) == Counter(item.key for item in theirs.kernels)


@given(RUNS)
def test_a_side_and_itself_are_exactly_the_same(runs: list[list[KernelProfile]]) -> None:
    assert all(pair.match == "exact" for pair in compare(sides(runs), sides(runs), "0").pairs)


@given(RUNS, RUNS)
def test_swapped_sides_have_swapped_pairs(base: list[list[KernelProfile]], new: list[list[KernelProfile]]) -> None:
    there, back = (
        compare(first, second, "0").pairs for first, second in ((sides(base), sides(new)), (sides(new), sides(base)))
    )
    assert by_key(there) == by_key([Pair(SWAPPED.get(pair.match, pair.match), pair.new, pair.base) for pair in back])  # type: ignore[arg-type]


@given(RUNS, RUNS)
def test_the_order_of_launches_and_files_tells_nothing(
    base: list[list[KernelProfile]], new: list[list[KernelProfile]]
) -> None:
    turned = [kernels[::-1] for kernels in new[::-1]]
    assert by_key(compare(sides(base), sides(new), "0").pairs) == by_key(compare(sides(base), sides(turned), "0").pairs)


@each_row("order", [1, -1])
def test_of_launches_of_the_same_time_that_with_most_known_speaks(order: int) -> None:
    """Else whether a kernel was renamed hung on which of its launches came first."""
    flop = {"fp32": 1e9}
    base = [[kernel("gemm_nn", [1.0], flop=flop)]]
    new = [[kernel("gemm_tn", [1.0], flop=None), kernel("gemm_tn", [1.0], flop=flop)][::order]]
    (pair,) = compare(sides(base), sides(new), "0").pairs
    assert pair.match == "renamed"
    assert [path.flop for path in pair.new[0].speaker.work] == [1e9]


def real(reports: Path, base: str, new: str) -> Counter[tuple[str, str, str]]:
    """Return the pairs of two reports, by how each was found and the labels of its kernels."""
    before, after = (Run(name, loaded(reports / f"{name}.ncu-rep")) for name in (base, new))
    return Counter((pair.match, labels(pair.base), labels(pair.new)) for pair in compare([before], [after], "0").pairs)


def labels(kernels: Sequence[SideKernel]) -> str:
    return ", ".join(item.speaker.label for item in kernels)


def test_the_tiles_of_a_real_matrix_multiplication_changed(reports: Path) -> None:
    pairs = real(reports, "esmm-research-profile-71fb9e5", "esmm-research-profile-26b457a")
    assert pairs.keys() >= {
        ("exact", "one_blocktiling<64, 64, 8, 8>", "one_blocktiling<64, 64, 8, 8>"),
        ("exact", "two_blocktiling<128, 128, 8, 8, 8>", "two_blocktiling<128, 128, 8, 8, 8>"),
        ("exact", "vectorized_blocktiling<128, 128, 8, 8, 8>", "vectorized_blocktiling<128, 128, 8, 8, 8>"),
        (
            "reconfigured",
            "warptiling<128, 128, 16, 64, 64, 4, 8, 4, 128>",
            "warptiling<128, 128, 32, 64, 32, 1, 8, 4, 256>",
        ),
    }
    assert Counter(match for match, _, _ in pairs.elements()) == {"exact": 3, "reconfigured": 1, "new": 6}


def test_one_kernel_was_added_to_a_real_program(reports: Path) -> None:
    pairs = real(reports, "esmm-research-profile-26b457a", "esmm-research-profile")
    others = [pair for pair in pairs.elements() if pair[0] != "exact"]
    assert others == [("new", "", "esmm<128, 128, 16, 32, 64, 4, 1, 8, 256>")]


def test_a_real_kernel_of_other_types_is_the_same_function(reports: Path) -> None:
    assert set(real(reports, "cutlass-384", "cutlass-report80")) == {
        ("reconfigured", "cutlass B2bGemm 32x384x64 s8", "cutlass B2bGemm 192x384x128 s4"),
        ("gone", "cutlass Gemm 128x96x64 s8", ""),
    }


def test_real_kernels_of_two_programs_are_not_paired(reports: Path) -> None:
    assert {match for match, _, _ in real(reports, "cutlass-report-s8-persist", "cutlass-384")} == {"gone", "new"}
    programs = real(reports, "indexspaces.jl-profile", "indexspaces.jl-profile-3176628")
    assert {match for match, _, _ in programs} == {"gone", "new"}


def test_real_kernels_of_miniweather_match_exactly(reports: Path) -> None:
    pairs = real(reports, "gpu_workshop-MW_Baseline", "gpu_workshop-MW_DivToMult")
    assert len(pairs) == 5 and all(match == "exact" and base == new for match, base, new in pairs)


def test_real_traces_of_two_releases_of_one_network_pair_only_kernels_of_one_function(reports: Path) -> None:
    traces = [reports / "traces" / f"{name}.pt.trace.json.gz" for name in ("rank0-v100", "resnet50-v100")]
    if not all(path.is_file() for path in traces):
        pytest.skip("the traces of ResNet-50 do not lie beside the checkout")
    base_side, new_side = (side_of([Run(path.name, loaded(path))]) for path in traces)
    pairs = [pair for pair in pairs_of(base_side, new_side) if pair.base and pair.new]
    assert len(pairs) > 40
    families = ("bn_fw", "bn_bw", "sgemm", "scudnn", "wgrad", "dgrad", "winograd", "max_pool", "softmax", "reduce")
    for pair in pairs:
        base, new = pair.base[0].key.name, pair.new[0].key.name
        assert [family in base for family in families] == [family in new for family in families], (base, new)


def test_a_copy_of_a_recording_is_no_other_run() -> None:
    base = [run(kernel("f", [1e-3])), run(kernel("f", [1e-3])), run(kernel("f", [1.001e-3]))]
    new = [run(kernel("f", [2e-3]))] * 5
    told = compare(base, new, "0").comparison
    assert (told.kernels[0].time.base_runs, told.kernels[0].time.new_runs) == (2, 1)
    assert told.notes[:2] == (
        "On the base side 1 file is a copy of another and not counted as runs: a copy does not show noise.",
        "On the new side 4 files are copies of another and not counted as runs: a copy does not show noise.",
    )
    paired = compare(new, new, "0", paired=True).comparison.kernels[0].time
    assert (paired.base_runs, paired.new_runs) == (5, 5)
