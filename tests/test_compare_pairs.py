"""Which kernels of two sides belong together: a wrong pair is worse than none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from gpuprof.comparison.compare import compare
from gpuprof.comparison.contract import MatchKind
from gpuprof.comparison.matching.pairs import pairs_of
from gpuprof.comparison.pair import NamedMatch, Pair
from gpuprof.comparison.sides import Run, Side, SideKernel, side_of
from gpuprof.errors import UsageError
from gpuprof.model.recorded import Dim3
from gpuprof.model.session import KernelProfile, RunTotals
from tests.compare_builders import kernel, run, side, source
from tests.table import each_row

Told = tuple[MatchKind, tuple[str, ...], tuple[str, ...]]


def told(pairs: Sequence[Pair]) -> set[Told]:
    return {
        (pair.match, tuple(sorted(item.key.name for item in pair.base)),
         tuple(sorted(item.key.name for item in pair.new)))
        for pair in pairs
    }  # fmt: skip


def matched(base: Side, new: Side) -> set[Told]:
    return {pair for pair in told(pairs_of(base, new)) if pair[0] not in ("new", "gone")}


FUNCTOR = "void at::native::vectorized_elementwise_kernel<4, at::native::{}<float>, std::array<char*, {}> >(int)"
FLOP = {"fp32": 2.0**31}


@each_row(
    ("base", "new", "match"),
    [
        # Two demanglers write one kernel.
        (kernel("void f<(int)4, (bool)1>(const float *, T1)"), kernel("void f<4, true>(float const*, int)"), "exact"),
        # Ranges are no part of a kernel's identity.
        (kernel(ranges=("model", "layer")), kernel(ranges=("net", "layer")), "exact"),
        (kernel(ranges=("model", "layer")), kernel(), "exact"),
        # Other template arguments are the same function; one carrier of two functors is not one kernel.
        (kernel("void mm<16, float>(float*)"), kernel("void mm<32, float>(float*)"), "reconfigured"),
        (kernel(FUNCTOR.format("CUDAFunctor_add", 3)), kernel(FUNCTOR.format("FillFunctor", 1)), "none"),
        # A counter in a name of Triton or Julia is not part of it.
        (kernel("triton_poi_fused_add_mul_0"), kernel("triton_poi_fused_add_mul_7"), "renamed"),
        (kernel("julia_frb_5885(Int)"), kernel("julia_frb_4477(Int)"), "renamed"),
        # Names that share most of what they say are renamed, those that share only what all have are not.
        (kernel("volta_sgemm_32x128_nt"), kernel("void nhwcToNchwKernel<float, 0>(float*)"), "none"),
        (kernel("cudnn_infer_volta_scudnn_relu_small_nn"), kernel("volta_scudnn_relu_small_nn"), "renamed"),
        (kernel("kernel_a"), kernel("kernel_b"), "none"),
        # A rewritten kernel of many FLOP is known by them.
        (kernel("basic", flop=FLOP, grid=(9, 1, 1)), kernel("coalesce", flop=FLOP, grid=(9, 1, 1)), "renamed"),
        (kernel("relu", flop={"fp32": 1e6}), kernel("add", flop={"fp32": 1e6}), "none"),
    ],
)
def test_two_kernels_are_paired_by_what_their_names_and_work_share(
    base: KernelProfile, new: KernelProfile, match: str
) -> None:
    pairs = pairs_of(side(base), side(new))
    assert (pairs[0].match if len(pairs) == 1 else "none") == match


def test_kernels_in_another_order_and_renamed_ones_match_shape_by_shape() -> None:
    kernels = [kernel("a"), kernel("b"), kernel("a", grid=(8, 1, 1)), kernel("a", ranges=("step",))]
    kernels += [kernel(f"void run<main::{{lambda(int)#{number}}}>(int)") for number in (1, 2)]
    assert {pair.match for pair in pairs_of(side(*kernels), side(*kernels[::-1]))} == {"exact"}
    for old, young, match, matches in (
        ("gemm", "gemm", "exact", []),
        ("fast_gemm_tiled", "fast_gemm_pipelined", "renamed", []),
        ("old", "young", "named", [NamedMatch("old", "young")]),
    ):
        base, new = ([kernel(name, grid=(size, 1, 1)) for size in range(1, 41)] for name in (old, young))
        pairs = pairs_of(side(*base), side(*new[20:], *new[:20]), matches)
        assert len(pairs) == 40
        assert all(pair.match == match and pair.base[0].key.grid == pair.new[0].key.grid for pair in pairs)


def test_shapes_that_differ_match_in_the_order_of_their_size() -> None:
    base = side(*(kernel("gemm", grid=(size, 1, 1)) for size in (10, 20, 30, 40)))
    new = side(*(kernel("gemm", grid=(size, 1, 1)) for size in (44, 10, 31, 22)))
    grids = {(pair.match, pair.base[0].key.grid, pair.new[0].key.grid) for pair in pairs_of(base, new)}
    assert grids == {
        ("exact", (10, 1, 1), (10, 1, 1)), ("reconfigured", (20, 1, 1), (22, 1, 1)),
        ("reconfigured", (30, 1, 1), (31, 1, 1)), ("reconfigured", (40, 1, 1), (44, 1, 1)),
    }  # fmt: skip


def test_more_shapes_on_a_side_than_on_the_other_are_not_guessed_but_without_counters_the_function_is_compared() -> (
    None
):
    """As in serving, where the batch varies: 37 of one run is not 38 of the other."""
    counts = {"instructions": 1e6}
    base, new = (
        [kernel("gemm", grid=(size, 1, 1), counts=counts) for size in sizes] for sizes in ((37, 41), (38, 42, 60))
    )
    assert not matched(side(*base), side(*new))
    timed = [[replace(one, counts=()) for one in kernels] for kernels in (base, new)]
    (pair,) = pairs_of(side(*timed[0]), side(*timed[1]))
    assert (pair.match, pair.launches) == ("reconfigured", (2, 3))


def test_a_function_that_is_launched_in_another_grid_for_a_part_is_one_kernel_with_the_change_of_its_total() -> None:
    """Half of the launches of `gemm` get another grid, in layers with other names; the run takes as long."""
    base = [kernel("gemm", [60e-6] * 2, ranges=(f"layer_{at}", "mm"), grid=(40, 1, 1)) for at in range(3)]
    base += [kernel("gemm", [20e-6] * 2, ranges=(f"layer_{at}", "mm2"), grid=(40, 1, 1)) for at in range(3)]
    new = [
        replace(one, ranges=("block", one.ranges[1]), grid=(9 if one.ranges[1] == "mm" else 40, 1, 1)) for one in base
    ]
    others = [kernel("attention", [1e-4])]
    found = compare([run(*base, *others)], [run(*new, *others)], "0").comparison.kernels
    (gemm,) = [change for change in found if change.label == "gemm"]
    assert (gemm.match, gemm.effect_s, gemm.new[0].launches, gemm.new[0].grid) == ("reconfigured", 0.0, 12, None)
    assert {change.match for change in found if change is not gemm} == {"exact"}
    more = [kernel("gemm", [20e-6], grid=(7, 1, 1))]
    added = compare([run(*base)], [run(*base, *more)], "0").comparison.kernels
    assert {change.match for change in added} == {"exact", "new"}, "what is as often on both sides is compared alone"


def test_a_side_without_launch_configurations_is_compared_with_a_kernel_of_several_that_is_new() -> None:
    base = run(kernel("f", grid=None, block=None))
    new = run(kernel("f"), kernel("g", [1e-3]), kernel("g", [3e-3], grid=(8, 1, 1)))
    changes = compare([base], [new], "0").comparison.kernels
    assert {(change.label, change.match) for change in changes} == {("f", "exact"), ("g", "new")}


@each_row(
    ("base_ranges", "new_ranges", "new_grid", "launches"),
    [
        (("layer_0", "layer_1"), ("layer_0", "layer_0"), (512, 1, 1), (4, 4)),
        (("layer_0", "layer_0"), ("layer_0", "layer_1"), (512, 1, 1), (4, 4)),
        (("layer_0", "layer_1"), ("layer_0",), (512, 1, 1), (4, 2)),
        (("layer_0", "layer_1"), ("layer_0",), (40, 1, 2), (4, 2)),
    ],
)
def test_no_part_of_a_kernel_is_gone_or_new_when_its_ranges_and_its_grid_differ(
    base_ranges: Sequence[str], new_ranges: Sequence[str], new_grid: Dim3, launches: tuple[int, int]
) -> None:
    base = [kernel("f", [2e-3] * 2, ranges=(name,), grid=(256, 1, 1)) for name in base_ranges]
    new = [kernel("f", [3e-3] * 2, ranges=(name,), grid=new_grid) for name in new_ranges]
    others = [kernel("g", ranges=("layer_0",))]
    pairs = [pair for pair in pairs_of(side(*base, *others), side(*new, *others)) if pair.match != "exact"]
    assert [(pair.match, pair.launches) for pair in pairs] == [("reconfigured", launches)]
    assert [kernel.key.grid for kernel in (*pairs[0].base, *pairs[0].new)] == [(256, 1, 1), new_grid]


def test_candidates_as_good_as_each_other_are_told_apart_by_their_work_or_not_at_all() -> None:
    tall, flat = (
        kernel(name, counts={"instructions": count})
        for name, count in (("scan_blocks_tall", 1e6), ("scan_blocks_flat", 2e5))
    )
    wide = kernel("scan_blocks_wide", counts={"instructions": 1e6})
    assert not matched(side(kernel("scan_blocks_wide")), side(tall, flat))
    assert matched(side(wide), side(tall, flat)) == {("renamed", ("scan_blocks_wide",), ("scan_blocks_tall",))}
    same = kernel("gmem_coalesce", flop=FLOP), kernel("smem_blocking", flop=FLOP)
    assert not matched(side(kernel("basic", flop=FLOP)), side(*same))


def test_names_that_are_contained_in_another_were_fused_or_split_unless_their_flop_do_not_add_up() -> None:
    base = side(kernel("triton_poi_fused_add_0"), kernel("triton_poi_fused_mul_1"), kernel("gemm"))
    new = side(kernel("triton_poi_fused_add_mul_0"), kernel("gemm"))
    fused = ("triton_poi_fused_add_0", "triton_poi_fused_mul_1")
    assert ("fused", fused, ("triton_poi_fused_add_mul_0",)) in told(pairs_of(base, new))
    assert ("split", ("triton_poi_fused_add_mul_0",), fused) in told(pairs_of(new, base))
    base = side(kernel("fused_add", flop={"fp32": 1e6}), kernel("fused_mul", flop={"fp32": 1e6}))
    assert not matched(base, side(kernel("fused_add_mul", flop={"fp32": 9e6})))


def compiled(blocks: dict[int, int]) -> Side:
    """A side with a compiled kernel of each of these numbers, which launches so many blocks."""
    return side(*(kernel(f"triton_poi_fused_add_{number}", grid=(grid, 1, 1)) for number, grid in blocks.items()))


@each_row(
    ("base", "new", "pairs"),
    [
        # Numbers that moved on, and some of them are those of other kernels before.
        ({0: 6, 2: 7, 4: 8}, {2: 6, 4: 7, 6: 8}, {(0, 2), (2, 4), (4, 6)}),
        # One more kernel moves those behind it on.
        ({0: 6, 1: 7, 2: 8}, {0: 6, 1: 5, 2: 7, 3: 8}, {(0, 0), (1, 2), (2, 3), (None, 1)}),
        # Of two with the same launch configuration, the order is that of their numbers.
        ({0: 6, 2: 6, 4: 8}, {8: 6, 10: 6, 12: 8}, {(0, 8), (2, 10), (4, 12)}),
        # Two that changed places.
        ({0: 6, 1: 7}, {0: 7, 1: 6}, {(0, 1), (1, 0)}),
        # Another batch size moves no number, even if a kernel has the configuration of another one before.
        ({0: 6, 1: 12, 2: 24}, {0: 12, 1: 24, 2: 48}, {(0, 0), (1, 1), (2, 2)}),
        # Equal names and launch configurations are one kernel.
        ({0: 6, 2: 6}, {2: 6, 4: 6}, {(2, 2), (0, 4)}),
    ],
)
def test_kernels_of_a_compiler_are_paired_by_launch_configuration_if_their_numbers_moved(
    base: dict[int, int], new: dict[int, int], pairs: set[tuple[int | None, int | None]]
) -> None:
    for before, after, expected in ((base, new, pairs), (new, base, {(other, one) for one, other in pairs})):
        found = {(_number(pair.base), _number(pair.new)) for pair in pairs_of(compiled(before), compiled(after))}
        assert found == expected


def _number(kernels: Sequence[SideKernel]) -> int | None:
    return int(kernels[0].key.name.rpartition("_")[2]) if kernels else None


def test_work_that_adds_up_was_split() -> None:
    base = side(kernel("attention", flop={"fp32": 3e9}))
    parts = kernel("scores", flop={"fp32": 1e9}), kernel("values", flop={"fp32": 2e9})
    assert ("split", ("attention",), ("scores", "values")) in told(pairs_of(base, side(*parts)))
    assert not matched(base, side(parts[0], kernel("values", flop={"fp32": 2.2e9})))
    assert not matched(base, side(*parts, kernel("noise", flop={"fp32": 1.0})))


def test_a_match_by_hand_comes_first_and_takes_numbers_and_several_kernels() -> None:
    base, new = side(kernel("a"), kernel("b")), side(kernel("a"), kernel("c"))
    pairs = told(pairs_of(base, new, [NamedMatch("^a$", "^c$")]))
    assert pairs == {("named", ("a",), ("c",)), ("gone", ("b",), ()), ("new", (), ("a",))}
    both = side(kernel("a"), kernel("b"), kernel("c"))
    pairs = told(pairs_of(both, both, [NamedMatch("^a$", "^b$")], identical=True))
    assert pairs == {("named", ("a",), ("b",)), ("exact", ("c",), ("c",))}
    base, new = side(kernel("whole")), side(kernel("part_1"), kernel("part_2"))
    assert told(pairs_of(base, new, [NamedMatch("#0", "part")])) == {("split", ("whole",), ("part_1", "part_2"))}
    assert told(pairs_of(new, base, [NamedMatch("part", "#0")])) == {("fused", ("part_1", "part_2"), ("whole",))}


@each_row(
    ("matches", "said"),
    [
        ([NamedMatch("nothing", "a")], ["nothing", "base"]),
        ([NamedMatch("a", "#7")], ["#7", "new"]),
        ([NamedMatch("a", "a"), NamedMatch("^a", "b")], ["'a=a'", "'^a=b'"]),
        ([NamedMatch("(", "a")], ["("]),
    ],
)
def test_a_match_by_hand_that_is_wrong_is_told(matches: list[NamedMatch], said: list[str]) -> None:
    both = side(kernel("a"), kernel("b"))
    with pytest.raises(UsageError) as raised:
        pairs_of(both, both, matches)
    assert all(word in str(raised.value) for word in said)
    files = side_of([run(kernel("a")), run(kernel("b"))])
    with pytest.raises(UsageError, match="#0"):
        pairs_of(files, side(kernel("a")), [NamedMatch("#0", "a")])


def test_a_copy_of_a_recording_is_no_other_run() -> None:
    base = [run(kernel("f", [1e-3])), run(kernel("f", [1e-3])), run(kernel("f", [1.001e-3]))]
    new = [run(kernel("f", [2e-3]))] * 5
    comparison = compare(base, new, "0").comparison
    assert (comparison.kernels[0].time.base_runs, comparison.kernels[0].time.new_runs) == (2, 1)
    assert [(fact.kind, fact.side, fact.numbers) for fact in comparison.facts] == [
        ("copies", "base", (1,)), ("copies", "new", (4,))
    ]  # fmt: skip
    paired = compare(new, new, "0", paired=True).comparison.kernels[0].time
    assert (paired.base_runs, paired.new_runs) == (5, 5)


def test_names_that_no_one_would_write_are_paired() -> None:
    for name in ("k" * 15_000, "a::" * 5_000 + "f", "f<" * 3_000, "_ZN3foo6kernelILi4EEvPf", "", "\x1b[31m"):
        assert [pair.match for pair in pairs_of(side(kernel(name)), side(kernel(name)))] == ["exact"]
        others = pairs_of(side(kernel(name)), side(kernel(name + "x", ranges=("r",))))
        assert sum(len(pair.base) for pair in others) == 1
    base = side(kernel("k" * 15_000 + "a"), kernel("k" * 15_000 + "b"))
    assert [pair.match for pair in pairs_of(base, base)] == ["exact"] * 2


def test_a_kernel_that_is_gone_from_a_part_of_a_run_may_have_run() -> None:
    totals = RunTotals(
        kernels=9, launches=90, timed_launches=90, timed_shapes=9, time_s=1.0, main_kernels=1, main_time_s=0.9
    )
    base = run(kernel("a"), kernel("z"))
    (fact,) = compare([base], [run(kernel("a"), run=totals)], "0").comparison.facts
    assert (fact.kind, fact.side, fact.numbers) == ("launches-profiled", "new", (1, 1, 90))
    assert not compare([base], [run(kernel("a"))], "0").comparison.facts
    for command, option in (
        ("/opt/ncu -k regex:gemm -o out ./app", "-k"), ("ncu --set full --launch-count 5 ./app", "--launch-count"),
        ("ncu --nvtx ./app -k 5", None), ("python -c 5", None),
    ):  # fmt: skip
        facts = compare([base], [run(kernel("a"), sources=(source(command=command),))], "0").comparison.facts
        assert [(fact.kind, fact.texts) for fact in facts] == ([("option", (option,))] if option else []), command


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


def members(kernels: Iterable[SideKernel]) -> Counter[tuple[int, KernelProfile]]:
    return Counter((member.run, member.profile) for item in kernels for member in item.members)


@given(RUNS, RUNS)
@settings(max_examples=25)
def test_every_kernel_of_both_sides_is_in_one_pair(
    base: list[list[KernelProfile]], new: list[list[KernelProfile]]
) -> None:
    ours, theirs = side_of(sides(base)), side_of(sides(new))
    pairs = pairs_of(ours, theirs)
    assert members(item for pair in pairs for item in pair.base) == members(ours.kernels)
    assert members(item for pair in pairs for item in pair.new) == members(theirs.kernels)


@given(RUNS, RUNS)
@settings(max_examples=25)
def test_swapped_sides_have_swapped_pairs(base: list[list[KernelProfile]], new: list[list[KernelProfile]]) -> None:
    there, back = (
        compare(first, second, "0").pairs for first, second in ((sides(base), sides(new)), (sides(new), sides(base)))
    )
    assert by_key(there) == by_key([Pair(SWAPPED.get(pair.match, pair.match), pair.new, pair.base) for pair in back])  # type: ignore[arg-type]


@given(RUNS, RUNS)
@settings(max_examples=25)
def test_the_order_of_launches_and_files_tells_nothing(
    base: list[list[KernelProfile]], new: list[list[KernelProfile]]
) -> None:
    turned = [kernels[::-1] for kernels in new[::-1]]
    assert by_key(compare(sides(base), sides(new), "0").pairs) == by_key(compare(sides(base), sides(turned), "0").pairs)


@each_row(("base_layers", "new_layers", "expected"), [
    # Twice the batch: the grid of a layer is that of the layer before it of the other side.
    ({"a": 256, "b": 128, "c": 64}, {"a": 512, "b": 256, "c": 128}, {(256, 512), (128, 256), (64, 128)}),
    # A layer alone has another grid.
    ({"a": 256, "b": 128, "c": 64}, {"a": 256, "b": 128, "c": 32}, {(256, 256), (128, 128), (64, 32)}),
    # Another set of layers says nothing of a layer: a grid of both sides is the same kernel, the rest is one.
    ({"a": 256, "b": 128}, {"a": 512, "x": 256}, {(256, 256), (128, 512)}),
])  # fmt: skip
def test_a_function_with_other_grids_in_the_same_layers_is_compared_layer_by_layer(
    base_layers: dict[str, int], new_layers: dict[str, int], expected: set[tuple[int, int]]
) -> None:
    base, new = (
        side(*(
            kernel("conv", [size * 1e-7] * 4, grid=(size, 1, 1), ranges=(layer, f"aten::conv2d [{size}, 64]"))
            for layer, size in layers.items()
        ))
        for layers in (base_layers, new_layers)
    )  # fmt: skip
    pairs = pairs_of(base, new)
    grids = [[one.key.grid or (0,) for one in (*pair.base, *pair.new)] for pair in pairs]
    assert {(before[0], after[0]) for before, after in grids} == expected
    assert {pair.match for pair in pairs} <= {"exact", "reconfigured"}
