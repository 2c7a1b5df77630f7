"""Which source lines do more or less: matched by text in order, else by number."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from gpuprof.comparison.contract import LineChange
from gpuprof.comparison.lines import line_changes
from gpuprof.model.session import LineWork
from tests.compare_builders import kernel, pair_of
from tests.steps import steps
from tests.table import each_row


def line(
    number: int, text: str = "", instructions: float | None = 0.0, local: float | None = None,
    samples: float | None = None, file: str = "/a/solve.cu",
) -> LineWork:  # fmt: skip
    return LineWork(file=file, number=number, text=text, instructions=instructions, local=local, samples=samples)


def changes(base: Sequence[LineWork], new: Sequence[LineWork], dropped: int = 0) -> tuple[LineChange, ...]:
    """The changes between two launches with these lines; of the base so many were not kept."""
    return line_changes(pair_of(kernel(lines=base, lines_dropped=dropped), kernel(lines=new)))


A, B = line(10, "a = b;", 1000.0), line(12, "e = a;", 10.0)
TWO = [line(10, "a", 300.0, file="/x/solve.cu"), line(10, "a", 200.0, file="/y/solve.cu")]


@each_row(
    ("base", "new", "told"),
    [
        # A line that moved down is the same line.
        ([A, line(11, "c = a / d;", 5000.0)], [line(12, "a = b;", 1000.0), line(14, "  c = a /  d;", 9000.0)],
         [(11, 14, 5000.0, 9000.0)]),
        # A line whose text changed is matched by position, but not with a line that is nothing like it.
        ([A, line(11, "flux = value / dx;", 5000.0), B], [A, line(11, "flux = value * dx_inverse;", 1000.0), B],
         [(11, 11, 5000.0, 1000.0)]),
        ([A, line(11, "exp(x) + sin(y);", 5000.0)], [A, line(11, "__syncthreads", 700.0)],
         [(11, None, 5000.0, 0.0), (None, 11, 0.0, 700.0)]),
        # Lines without text are matched by number.
        ([line(10, "", 100.0), line(11, "", 50.0)], [line(10, "", 100.0), line(11, "", 90.0)], [(11, 11, 50.0, 90.0)]),
        # A file in another folder is matched by name only if one file has that name.
        ([line(10, "a", 100.0, file="/old/solve.cu")], [line(10, "a", 300.0, file="C:\\new\\solve.cu")],
         [(10, 10, 100.0, 300.0)]),
        (TWO, [line(10, "a", 100.0, file="/old/solve.cu")],
         [(10, None, 300.0, 0.0), (10, None, 200.0, 0.0), (None, 10, 0.0, 100.0)]),
        ([line(10, "a", 100.0, file="/old/solve.cu")], TWO,
         [(None, 10, 0.0, 300.0), (None, 10, 0.0, 200.0), (10, None, 100.0, 0.0)]),
        # Small changes of a large kernel are left out.
        ([line(1, "a", 1e6), line(2, "b", 1000.0)], [line(1, "a", 1e6), line(2, "b", 2000.0)], []),
        ([line(1, "a", 1e6), line(2, "b", 1000.0)], [line(1, "a", 1e6), line(2, "b", 7000.0)],
         [(2, 2, 1000.0, 7000.0)]),
        ([], [line(1, "a", 10.0)], []),
    ],
)  # fmt: skip
def test_lines_are_matched_by_text_in_order_else_by_number(
    base: list[LineWork], new: list[LineWork], told: list[tuple[object, ...]]
) -> None:
    assert [(change.base_line, change.new_line, change.base, change.new) for change in changes(base, new)] == told


def test_what_a_side_did_not_keep_is_not_known_and_not_zero() -> None:
    base = [line(1, "a", 1000.0), line(2, "b", 400.0)]
    told = changes(base, [*base, line(3, "c", 500.0), line(4, "d", 390.0)], dropped=7)
    assert [(change.new_line, change.base) for change in told] == [(3, None)]
    # Lines of local memory are kept before all others, so that one which is not kept may execute more.
    local = [line(1, "a", 50.0, 9.0), line(2, "b", 40.0, 8.0)]
    assert changes(local, [*local, line(3, "c", 900.0, 0.0)], dropped=7) == ()


_texts = st.text(alphabet="ab;\x1b<\n ", max_size=6)
_numbers = st.one_of(st.none(), st.floats(min_value=0), st.just(float("nan")))
_lines = st.lists(
    st.builds(line, st.integers(0, 9), _texts, _numbers, _numbers, _numbers, st.sampled_from(["a.cu", "b/a.cu", ""])),
    max_size=12,
)


@settings(max_examples=20)
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
