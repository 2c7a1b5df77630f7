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
















def test_lines_in_names_of_openacc_match_in_their_order() -> None:
    base = side(*(kernel(f"compute_tendencies_x_{line}_gpu") for line in (279, 309)))
    new = side(*(kernel(f"compute_tendencies_x_{line}_gpu") for line in (315, 285)))
    assert matched(base, new) == {
        ("renamed", ("compute_tendencies_x_279_gpu",), ("compute_tendencies_x_285_gpu",)),
        ("renamed", ("compute_tendencies_x_309_gpu",), ("compute_tendencies_x_315_gpu",)),
    }
















def test_a_rewritten_kernel_of_many_flop_is_known_by_them() -> None:
    flop = {"fp32": 2.0**31}
    base, new = kernel("basic", flop=flop, grid=(1024, 1, 1)), kernel("gmem_coalesce", flop=flop, grid=(1024, 1, 1))
    assert alone(base, new) == "renamed"
    assert alone(kernel("relu", flop={"fp32": 1e6}), kernel("add", flop={"fp32": 1e6})) == "none"
    assert not matched(side(base), side(new, kernel("smem_blocking", flop=flop)))






def test_work_that_adds_up_was_split() -> None:
    base = side(kernel("attention", flop={"fp32": 3e9}))
    parts = kernel("scores", flop={"fp32": 1e9}), kernel("values", flop={"fp32": 2e9})
    assert ("split", ("attention",), ("scores", "values")) in told(pairs_of(base, side(*parts)))
    assert not matched(base, side(parts[0], kernel("values", flop={"fp32": 2.2e9})))
    assert not matched(base, side(*parts, kernel("noise", flop={"fp32": 1.0})))






























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


















