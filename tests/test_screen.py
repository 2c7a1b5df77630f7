"""What `gpuprof show` prints by default: one screen, with what to do, whatever the report holds and however wide."""

from __future__ import annotations

import io
import re
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from rich.cells import cell_len
from rich.console import Console

from gpuprof.model.findings import Cases
from gpuprof.model.headline import by_time
from gpuprof.model.session import Session
from gpuprof.text import cut_end, cut_middle
from gpuprof.timeline.trace import GRAPH, Activity
from gpuprof.views.profile import Depth, print_session
from tests.hand_made import HOSTILE, finding, kernel, session
from tests.readings import session_of
from tests.table import each_row
from tests.test_timeline import A100, trace
from tests.test_timeline import session as traced

WIDTHS = (60, 80, 100, 140, 200)
LONG = "void at::native::<unnamed>::vectorized_elementwise_kernel<(int)4, at::native::BinaryFunctor<float, " + "x" * 200


def screen(what: Session, width: int = 100, top: int | None = None, depth: Depth = "none") -> str:
    out = io.StringIO()
    print_session(Console(file=out, width=width), what, by_time(what.kernels), top=top, depth=depth)
    return out.getvalue()


def table(text: str) -> list[str]:
    """The lines of the table: its head and its rows."""
    lines = text[re.search(r"^ *#  kernel", text, re.MULTILINE).start() :].splitlines()  # type: ignore[union-attr]
    return [lines[0], *lines[2:]]


def many(count: int, label: str = "kernel_{}", **changes: object) -> Session:
    made = [
        kernel(
            number,
            finding(gain=0.5 - number / 2000, cases=Cases(action=(f"change-{number}",))),
            label=label.format(number),
        )
        for number in range(count)
    ]
    return session(*(replace(item, **changes) for item in made))


def commands_aside(text: str) -> list[str]:
    """The lines, but for those of a command line, whose words are not cut: it is to be copied."""
    return [line for line in text.splitlines() if not re.match(r" {3}\S", line)]


# One screen


def test_a_report_takes_a_screen_with_the_next_command(real_report: Path) -> None:
    read = session_of(real_report, groups=True)
    for width in WIDTHS:
        text = screen(read, width)
        assert max(map(len, commands_aside(text))) <= width
        if width == 100:
            assert len(text.splitlines()) + 1 <= 30
        # No line of a command ends before the value of its option.
        assert not re.search(r" (-o|--[a-z-]*) \\\n +[^-\s]", text)


def test_fixes_stand_in_a_column_and_a_long_headline_takes_two_lines_if_there_is_room() -> None:
    # As a share of the run: 0.38 to 0.62 of 1.3 % and of 30 %.
    small, large = (
        finding(rule, gain, headline="word " * 40, gain_kind="conditional", held="the same bytes", gain_total=gain)
        for rule, gain in (("tail-effect", 0.013), ("uncoalesced-global", 0.3))
    )
    lines = screen(session(kernel(0, small), kernel(1, large))).splitlines()
    heads = [line for line in lines if "word word" in line]
    assert [" %  " in line for line in heads] == [True, False] * 2
    assert [line.endswith("…") for line in heads] == [False, True] * 2
    assert len({line.index("word") for line in heads}) == 1


@each_row("count", [1, 3, 500])
@each_row("label", ["kernel_{}", LONG + "{}", "{}" + LONG])
def test_any_number_of_kernels_with_any_names_takes_a_screen(count: int, label: str) -> None:
    text = screen(many(count, label))
    assert len(text.splitlines()) + 1 <= 30
    assert max(map(len, text.splitlines())) <= 100
    assert len([line for line in text.splitlines() if "≤" in line and "saved" not in line]) == min(count, 5)


@each_row("width", [80, 100, 140])
@each_row("name", ["核函数矩阵乘法" * 45, "מכפלת_מטריצות_" * 22, HOSTILE * 4])
def test_wide_and_hostile_names_take_a_screen(name: str, width: int) -> None:
    lines = screen(many(500, name + "{}"), width).splitlines()
    assert len(lines) + 1 <= 30
    assert max(map(cell_len, lines)) <= width


def test_of_several_gpus_the_least_busy_one_is_shown_if_there_is_no_room_for_all() -> None:
    def of(*gpus: int) -> str:
        """The screen of GPUs that replay a graph of their own, the first two for 80 and 40 of 100 µs."""
        activities = (
            Activity(GRAPH, f"graph {gpu}", gpu, (at + 100 * number) * 1e-6, us * 1e-6)
            for gpu in gpus
            for number in range(2)
            for at, us in ((0, (80, 40, 60)[gpu] - 1), (99, 1))
        )
        return screen(traced(trace(*activities, devices=(A100,) * 3)))

    both = of(0, 1)
    assert "GPU 1" in both and "graph 1" in both and "of 2" in both
    assert "GPU 0" not in both and "graph 0" not in both
    assert [gpu for gpu in range(3) if f"GPU {gpu}" in of(0, 1, 2)] == [1]
    assert "graph 0" in of(0)


# What to do


# The table


# The command


# Cuts


@given(st.text("ab_:<>,. ", max_size=80), st.integers(0, 90))
def test_a_cut_name_fits_and_keeps_its_ends(text: str, width: int) -> None:
    cut = cut_middle(text, width)
    assert len(cut) <= max(width, 1)
    if cut != text:
        head, _, tail = cut.partition("…")
        assert text.startswith(head) and text.endswith(tail)
        if width >= 8:
            assert len(cut) >= width // 3


@given(st.text("ab; ", max_size=80), st.integers(1, 90))
def test_a_cut_sentence_fits_and_keeps_its_start(text: str, width: int) -> None:
    cut = cut_end(text, width)
    assert len(cut) <= width
    assert text.startswith(cut.removesuffix("…"))
