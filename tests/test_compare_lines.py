"""Which source lines do more or less: matched by text in order, else by number."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from gpuprof.comparison.contract import LineChange
from gpuprof.comparison.lines import line_changes
from gpuprof.model.session import LineWork
from tests.compare_builders import kernel, pair_of
from tests.steps import steps


def line(
    number: int,
    text: str = "",
    instructions: float | None = 0.0,
    local: float | None = None,
    samples: float | None = None,
    file: str = "/a/solve.cu",
) -> LineWork:
    """What a line did in a launch."""
    return LineWork(file=file, number=number, text=text, instructions=instructions, local=local, samples=samples)


def changes(base: Sequence[LineWork], new: Sequence[LineWork], dropped: int = 0) -> tuple[LineChange, ...]:
    """The changes between two launches with these lines; of the base so many were not kept."""
    return line_changes(pair_of(kernel(lines=base, lines_dropped=dropped), kernel(lines=new)))


def test_a_line_that_moved_down_is_the_same_line() -> None:
    base = [line(10, "a = b;", 1000.0), line(11, "c = a / d;", 5000.0)]
    new = [line(12, "a = b;", 1000.0), line(14, "  c = a /  d;", 9000.0)]
    (change,) = changes(base, new)
    assert (change.base_line, change.new_line, change.base, change.new) == (11, 14, 5000.0, 9000.0)


def test_a_line_whose_text_changed_is_matched_where_it_stands() -> None:
    base = [line(10, "a = b;", 1000.0), line(11, "flux = value / dx;", 5000.0), line(12, "e = a;", 10.0)]
    new = [line(10, "a = b;", 1000.0), line(11, "flux = value * dx_inverse;", 1000.0), line(12, "e = a;", 10.0)]
    (change,) = changes(base, new)
    assert (change.base_line, change.new_line) == (11, 11)
    assert change.text == "flux = value * dx_inverse;"


def test_a_line_that_is_nothing_like_the_other_went_and_another_came() -> None:
    base = [line(10, "a = b;", 1000.0), line(11, "exp(x) + sin(y);", 5000.0)]
    new = [line(10, "a = b;", 1000.0), line(11, "__syncthreads", 700.0)]
    told = changes(base, new)
    assert [(change.base_line, change.new_line, change.base, change.new) for change in told] == [
        (11, None, 5000.0, 0.0),
        (None, 11, 0.0, 700.0),
    ]


def test_lines_without_text_are_matched_by_number() -> None:
    (change,) = changes([line(10, "", 100.0), line(11, "", 50.0)], [line(10, "", 100.0), line(11, "", 90.0)])
    assert (change.base_line, change.new_line, change.new) == (11, 11, 90.0)


def test_files_of_other_folders_are_matched_by_name_only_where_there_is_one() -> None:
    base = [line(10, "a", 100.0, file="/old/solve.cu")]
    (change,) = changes(base, [line(10, "a", 300.0, file="C:\\new\\solve.cu")])
    assert (change.file, change.base, change.new) == ("C:\\new\\solve.cu", 100.0, 300.0)
    two = [line(10, "a", 300.0, file="/x/solve.cu"), line(10, "a", 200.0, file="/y/solve.cu")]
    assert all(change.base_line is None or change.new_line is None for change in changes(base, two))


def test_files_of_one_name_on_a_side_are_matched_with_none_of_another_path_whichever_side_it_is() -> None:
    two = [line(10, "a", 300.0, file="/x/solve.cu"), line(10, "a", 200.0, file="/y/solve.cu")]
    told = changes(two, [line(10, "a", 100.0, file="/old/solve.cu")])
    assert len(told) == 3 and all(change.base_line is None or change.new_line is None for change in told)


def test_local_accesses_are_told_against_all_instructions_of_the_kernel() -> None:
    base = [line(88, "a[i] = b;", 400.0, 0.0), line(89, "c", 600.0, 0.0)]
    new = [line(88, "a[i] = b;", 400.0, 12.0), line(89, "c", 600.0, 0.0)]
    (change,) = changes(base, new)
    assert (change.what, change.base, change.new, change.new_line) == ("local", 0.0, 12.0, 88)


def test_small_changes_of_a_large_kernel_are_left_out() -> None:
    base = [line(1, "a", 1e6), line(2, "b", 1000.0)]
    assert changes(base, [line(1, "a", 1e6), line(2, "b", 2000.0)]) == ()
    assert len(changes(base, [line(1, "a", 1e6), line(2, "b", 7000.0)])) == 1


def test_samples_count_where_instructions_do_not_and_must_be_beyond_chance() -> None:
    def sampled(first: float, second: float) -> list[LineWork]:
        return [line(1, "a", None, samples=first), line(2, "b", None, samples=second)]

    assert changes(sampled(50.0, 50.0), sampled(60.0, 50.0)) == ()
    (change,) = changes(sampled(500.0, 500.0), sampled(900.0, 500.0))
    assert (change.what, change.base, change.new) == ("samples", 500.0, 900.0)


def test_what_a_side_did_not_keep_is_not_known_and_not_zero() -> None:
    base = [line(1, "a", 1000.0), line(2, "b", 400.0)]
    new = [*base, line(3, "c", 500.0), line(4, "d", 390.0)]
    told = changes(base, new, dropped=7)
    assert [(change.new_line, change.base) for change in told] == [(3, None)]


def test_a_line_below_what_a_side_did_not_keep_may_be_unchanged() -> None:
    base = [line(1, "a", 1000.0), line(2, "b", 400.0)]
    assert changes(base, [*base, line(3, "c", 100.0)], dropped=7) == ()


def test_lines_of_local_memory_tell_nothing_of_what_others_execute() -> None:
    """They are kept before all others, so that a line which is not kept may execute more."""
    base = [line(1, "a", 50.0, 9.0), line(2, "b", 40.0, 8.0)]
    assert changes(base, [*base, line(3, "c", 900.0, 0.0)], dropped=7) == ()


def test_at_most_twenty_lines_are_told_largest_first() -> None:
    base = [line(number, f"line {number}", 100.0) for number in range(50)]
    new = [line(number, f"line {number}", 100.0 + 10 * number) for number in range(50)]
    told = changes(base, new)
    assert len(told) == 20
    assert [change.new_line for change in told] == list(range(49, 29, -1))


def test_a_side_without_lines_tells_nothing() -> None:
    assert changes([], [line(1, "a", 10.0)]) == ()


_texts = st.text(alphabet="ab;\x1b<\n ", max_size=6)
_numbers = st.one_of(st.none(), st.floats(min_value=0), st.just(float("nan")))
_lines = st.lists(
    st.builds(line, st.integers(0, 9), _texts, _numbers, _numbers, _numbers, st.sampled_from(["a.cu", "b/a.cu", ""])),
    max_size=12,
)


@given(base=_lines, new=_lines, dropped=st.integers(0, 2))
def test_no_lines_break_the_comparison_and_equal_ones_differ_in_nothing(
    base: list[LineWork], new: list[LineWork], dropped: int
) -> None:
    for change in changes(base, new, dropped):
        assert change.base_line is not None or change.new_line is not None
    assert changes(base, base, dropped) == ()


def test_a_text_on_every_other_line_of_a_long_file_takes_no_time() -> None:
    """Matching those with one another takes the cube of the lines: 48 s for 2,000."""
    base, new = (
        [line(place, f"{name}{place}();" if place % 2 else "__syncwarp();", 100.0) for place in range(1, 1001)]
        for name in ("load", "store")
    )
    assert steps(lambda: changes(base, new)) < 1_000 * len(base)
