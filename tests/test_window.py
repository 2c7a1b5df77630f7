"""Which consecutive launches are profiled, and which of what came is what the survey saw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from gpuprof.collect.launches import Seen
from gpuprof.collect.plan import ProfilePlan, make_plan
from gpuprof.collect.window import Window, aligned, choose_window
from gpuprof.timeline.trace import is_communication
from tests.table import each_row

NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"
DEEP, WIDE = "aten::mm [64, 256]×[256, 64]", "aten::mm [64, 64]×[64, 64]"


def seen(name: str, duration_s: float | None = 1e-3, *ranges: str, grid: int = 1) -> Seen:
    """A launch of a kernel, not placed yet."""
    return Seen(name, f"{name}()", (grid, 1, 1), (128, 1, 1), duration_s, ranges=ranges)


def placed(launches: Sequence[Seen], after: int = 0) -> list[Seen]:
    """The launches of one process in their order, one a second; so many came before and are not among them."""
    return [
        replace(launch, position=after + place, launched_s=float(place), process="p")
        for place, launch in enumerate(launches)
    ]


def named(text: str) -> list[Seen]:
    """A program in letters: a kernel each, `!` one of NCCL, `*` a kernel `g` in a graph; each has its own duration."""
    made = {"!": seen(NCCL, 9e-3), "*": replace(seen("g"), in_graph=True)}
    return placed([made[letter] if letter in made else seen(letter, 1e-3 * (ord(letter) - 96)) for letter in text])


def in_letters(window: Window | None) -> str | None:
    """The kernels of a window by their letters; None where there is none."""
    return (
        "".join("!" if one.demangled.startswith(NCCL) else one.demangled[0] for one in window.launches)
        if window
        else None
    )


def plan_of(launches: Sequence[Seen], only: str = "", *, peers: bool = False) -> ProfilePlan:
    """A plan of all kernels, or of some by their letters."""
    return make_plan([one for one in launches if not only or one.demangled[0] in only], coverage=1, peers=peers)


def chosen(
    launches: Sequence[Seen], only: str = "", *, steps: Sequence[int] = (), most: int = 1000, whole: bool = True
) -> Window | None:
    """The window for kernels, or for some by their letters; `steps` are the places where each begins, and the end."""
    return choose_window(
        launches,
        plan_of(launches, only).kernels,
        steps=[(float(start), float(end)) for start, end in pairwise(steps)],
        is_barred=lambda launch: is_communication(launch.demangled),
        most=most,
        whole=whole,
    )


@each_row(
    ("program", "steps", "window", "skip"),
    [
        # Of equal steps the second, since the first may warm up; of others that which has kernels of most time.
        ("wwab" + "abc" * 3, (4, 7, 10, 13), "abc", 7),
        ("wwab" + "abc", (4, 7), "abc", 4),
        ("abz" + "ab" * 2, (0, 3, 5, 7), "abz", 0),
        ("ab" + "abz" + "ab" * 2, (0, 2, 5, 7, 9), "abz", 2),
        # What waits for a peer splits a step, and so does a graph: the part of more time is taken.
        ("ab!cde", (0, 6), "cde", 3),
        ("cde!ab", (0, 6), "cde", 0),
        ("a*bcd", (0, 5), "bcd", 2),
        # A short program without steps is profiled as a whole, or between what must not be profiled.
        ("abcab", (), "abcab", 0),
        ("abc!ab", (), "abc", 0),
        ("ab!abc", (), "abc", 3),
        ("!!", (0, 2), None, None),
        ("!", (), None, None),
        ("**", (), None, None),
    ],
)
def test_a_window_is_a_step_or_what_lies_between_barred_launches(
    program: str, steps: tuple[int, ...], window: str | None, skip: int | None
) -> None:
    found = chosen(named(program), "abcdez", steps=steps)
    assert (in_letters(found), found.skip if found else None) == (window, skip)


def test_a_window_without_most_of_the_planned_time_is_none() -> None:
    # a, b, c take 1, 2, 3 of 6: without c it is half; without a, five sixths.
    assert chosen(named("ab!c")) is None
    assert in_letters(chosen(named("a!bc"))) == "bc"
    assert chosen(named("abccab"), steps=(0, 2)) is None


def test_positions_count_what_is_not_in_the_survey() -> None:
    found = chosen(placed(named("abc"), after=41))
    assert found is not None and (found.skip, len(found.launches)) == (41, 3)
    # What an autotuner tried in between is launched, but is not the program's own: a window has none of it.
    launches = [replace(one, position=one.position + 5 * (place > 1)) for place, one in enumerate(named("abcde"))]
    found = chosen(launches)
    assert found is not None and (in_letters(found), found.skip) == ("cde", 7)


def test_of_a_long_program_without_steps_the_shortest_stretch_with_each_kernel_is_taken() -> None:
    # 66 launches: the shortest stretch that has each of them is at the end, and is not of first launches.
    found = chosen(named("cab" + "a" * 30 + "b" * 30 + "cab"), "abc")
    assert found is not None and (in_letters(found), found.skip) == ("bca", 62)
    # Only some are planned: others come along.
    found = chosen(named("ab" + "ax" * 32 + "xba"), "ab")
    assert found is not None and in_letters(found) == "ba"


def test_a_stretch_has_usual_launches_alone() -> None:
    # The first of several launches warms something up; the second was held up.
    times = [1.0, 2.0, 1.0, 1.1, 1.0]
    launches = placed([*[seen("x") for _ in range(70)], *[seen("a", 1e-3 * time) for time in times]])
    found = chosen(launches, "a", whole=False)
    assert found is not None and (found.skip, len(found.launches)) == (72, 1)
    once = placed([seen("a", 1e-3), *[seen("x")] * 70])
    found = chosen(once, "a")
    assert found is not None and (found.skip, len(found.launches)) == (0, 1), "what is launched once has no other"


def test_a_stretch_has_each_size_that_matters_of_a_kernel_whose_operator_is_not_known() -> None:
    # 121 and 33 µs in turn, under one name and grid.
    launches = placed([seen("gemm", time) for time in [121e-6, 33e-6, 121e-6] * 30])
    found = chosen(launches)
    assert found is not None
    assert {one.duration_s for one in found.launches} == {121e-6, 33e-6} and len(found.launches) == 2
    # What takes under a twentieth of the time of all is not looked for.
    launches = placed([seen("gemm", time) for time in [1e-6, *[121e-6] * 40, *[1e-6] * 40]])
    found = chosen(launches)
    assert found is not None and [one.duration_s for one in found.launches] == [121e-6]


def test_of_operators_each_is_a_kernel_of_its_own() -> None:
    launches = placed([seen("gemm", 91e-6, DEEP), seen("gemm", 73e-6, WIDE)] * 40)
    found = chosen(launches)
    assert found is not None and {one.operator for one in found.launches} == {DEEP, WIDE} and len(found.launches) == 2


def test_a_window_of_too_many_launches_is_cut_or_there_is_none() -> None:
    step = "x" * 10 + "abc" + "x" * 10 + "abc"
    found = chosen(named(step * 2), "abc", steps=(0, 26, 52), most=10)
    assert found is not None and (in_letters(found), found.skip) == ("abc", 36)
    assert in_letters(chosen(named(step * 2), steps=(0, 26, 52), most=26)) == step
    assert chosen(named("a" + "x" * 10 + "b"), "ab", most=11) is None


def test_a_part_of_a_step_is_found_as_in_any_program() -> None:
    launches = named("abxxcabxx")
    found = chosen(launches, "bc", whole=False)
    assert found is not None and in_letters(found) == "cab"
    assert in_letters(chosen(launches, "c", whole=False)) == "c"


def barred_or_graph(launch: Seen) -> bool:
    return is_communication(launch.demangled) or launch.in_graph


@given(
    st.text("abcdefx!*", min_size=1, max_size=90),
    st.sets(st.sampled_from("abcdef"), min_size=1),
    st.lists(st.integers(0, 90), max_size=6, unique=True),
    st.integers(1, 90),
    st.booleans(),
)
def test_any_window_is_consecutive_without_barred_launches_and_not_too_long(
    program: str, only: set[str], steps: list[int], most: int, whole: bool
) -> None:
    launches = named(program)
    if not any(one.demangled[0] in only for one in launches):
        return
    kernels = plan_of(launches, "".join(only)).kernels
    found = chosen(launches, "".join(only), steps=sorted(steps), most=most, whole=whole)
    if found is None:
        return
    assert 1 <= len(found.launches) <= most and not any(map(barred_or_graph, found.launches))
    assert list(found.launches) == launches[found.skip : found.skip + len(found.launches)]
    assert {kernel.shape for kernel in kernels} & {one.shape for one in found.launches}


@given(st.text("abcx", min_size=1, max_size=60), st.booleans())
def test_any_window_of_one_piece_has_each_kernel_that_the_piece_has(program: str, whole: bool) -> None:
    launches = named(program)
    kernels = plan_of(launches).kernels
    found = chosen(launches, whole=whole)
    assert found is not None and {kernel.shape for kernel in kernels} == {one.shape for one in found.launches}


WINDOW = Window(7, tuple(placed([seen(letter, grid=1 + number % 3) for number, letter in enumerate("abcdefghij" * 3)])))


def places_of(came: Sequence[Seen], window: Window = WINDOW) -> list[tuple[int, int]] | None:
    """The places in what came and in the window of launches that are the same; None where they do not align."""
    pairs = aligned(came, window)
    return [(place, window.launches.index(surveyed)) for place, surveyed in pairs] if pairs is not None else None


def test_what_came_as_surveyed_is_aligned_one_by_one() -> None:
    came = list(WINDOW.launches)
    assert places_of(came) == [(place, place) for place in range(30)]
    more = [*came[:4], seen("new"), *came[4:29]]
    assert places_of(more) == [(place + (place > 3), place) for place in range(29)]
    less = [*came[:4], *came[5:], seen("j")]
    assert places_of(less) == [(place - (place > 4), place) for place in range(30) if place != 4]
    # Two more or fewer launches before the window move it.
    assert places_of([*came[2:], seen("later"), seen("later")]) == [(place - 2, place) for place in range(2, 30)]


def test_other_names_for_the_same_kernels_align() -> None:
    ours = Window(0, (Seen(None, "void f<4, true>(float const*, int)", (4, 1, 1), (64, 1, 1), 1e-3),))
    theirs = Seen("_Z1fILi4ELb1EEvPKfi", "void f<(int)4, (bool)1>(const float *, T1)", (4, 1, 1), (64, 1, 1), 2e-3)
    assert places_of([theirs], ours) == [(0, 0)]
    assert places_of([replace(theirs, grid=(5, 1, 1))], ours) is None


def test_what_came_of_a_run_that_was_ended_early_is_its_beginning() -> None:
    assert places_of(WINDOW.launches[:12]) == [(place, place) for place in range(12)]
    # A few launches of its middle are no beginning: another process launched them, or the program ended sooner.
    assert places_of(WINDOW.launches[12:16]) is None


@each_row("came", [[], [seen("z")] * 30, [seen("b")], [*WINDOW.launches[15:], *WINDOW.launches[:15]]])
def test_what_does_not_fit_is_not_aligned(came: list[Seen]) -> None:
    assert places_of(came) is None


def alternating(count: int, first: str, second: str) -> list[Seen]:
    return placed([seen("gemm", 91e-6, first if number % 2 == 0 else second) for number in range(count)])


def test_a_launch_whose_operator_is_known_to_be_another_one_is_not_aligned() -> None:
    # Two sizes of one kernel and grid in turn: names alone cannot show that a launch more came before them.
    window = Window(0, tuple(alternating(20, DEEP, WIDE)))
    assert places_of(alternating(20, DEEP, WIDE), window) == [(place, place) for place in range(20)]
    assert places_of(alternating(20, WIDE, DEEP), window) is None
    assert places_of([*alternating(19, DEEP, WIDE), seen("gemm", 91e-6, DEEP)], window) == [
        (at, at) for at in range(19)
    ]
    # One that is not known fits any.
    bare = [replace(one, ranges=()) for one in window.launches]
    assert places_of(bare, window) == [(place, place) for place in range(20)]


def test_launches_are_aligned_by_symbols_where_a_survey_has_no_other_names() -> None:
    # cupti-python gives symbols, and ncu has both names; PyTorch's traces have none of the symbols of C++.
    came = [replace(one, symbol=f"_Z1{one.symbol}v") for one in WINDOW.launches]
    by_cupti = Window(0, tuple(replace(one, demangled=one.symbol or "") for one in came))
    by_pytorch = Window(0, tuple(replace(one, symbol=None) for one in came))
    every = [(place, place) for place in range(len(came))]
    assert places_of(came, by_cupti) == places_of(came, by_pytorch) == every


def test_a_launch_that_the_program_has_in_another_range_is_not_aligned() -> None:
    # Without operators: the program's own ranges tell two sizes apart. Some tools see more of the ranges around.
    window = Window(0, tuple(alternating(20, "small", "large")))
    assert places_of(alternating(20, "large", "small"), window) is None
    more = [replace(one, ranges=("epoch", *one.ranges)) for one in window.launches]
    assert places_of(more, window) == [(place, place) for place in range(20)]
