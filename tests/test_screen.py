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

import gpuprof
from gpuprof.model.headline import by_time
from gpuprof.model.session import Session
from gpuprof.present.console import Depth, print_session
from gpuprof.present.console_parts import Sheet
from gpuprof.present.text import cut_end, cut_middle, without_shared_start
from tests import ncu_bytes
from tests.cli import gpuprof as run
from tests.conftest import OWN_REPORTS
from tests.hand_made import HOSTILE, finding, kernel, session
from tests.readings import session_of
from tests.table import each_row

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
        kernel(number, finding(gain=0.5 - number / 2000, action=f"Change {number}"), label=label.format(number))
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


@each_row("count", [1, 3, 500])
@each_row("label", ["kernel_{}", LONG + "{}", "{}" + LONG])
def test_any_number_of_kernels_with_any_names_takes_a_screen(count: int, label: str) -> None:
    text = screen(many(count, label))
    assert len(text.splitlines()) + 1 <= 30
    assert max(map(len, text.splitlines())) <= 100
    assert len([line for line in text.splitlines() if "≤" in line and "saved" not in line]) == min(count, 5)


@each_row("width", WIDTHS)
def test_every_width_is_kept_and_texts_stop_at_120(width: int) -> None:
    text = screen(many(500, LONG + "{}"), width)
    lines = commands_aside(text)
    rows = set(table(text))
    assert max(map(len, lines)) <= width
    assert max(len(line) for line in lines if line not in rows and set(line) != {"─"}) <= 120


def test_a_kernel_is_a_line_and_its_name_is_cut_in_the_middle() -> None:
    rows = table(screen(many(3, "void reduce_kernel<512, 1, ReduceOp<float, MeanOps<float, float>>>_number_{}")))
    assert [re.sub(r" {2,}.*", "", row[3:]) for row in rows[1:]] == [
        f"void reduce_kernel<512, 1,…number_{number}" for number in range(3)
    ]


@each_row("width", [80, 100, 140])
@each_row("name", ["核函数矩阵乘法" * 45, "מכפלת_מטריצות_" * 22, HOSTILE * 4])
def test_wide_and_hostile_names_take_a_screen(name: str, width: int) -> None:
    lines = screen(many(500, name + "{}"), width).splitlines()
    assert len(lines) + 1 <= 30
    assert max(map(cell_len, lines)) <= width


def test_notes_and_warnings_leave_room_for_fixes_and_kernels() -> None:
    read = many(40)
    (source,) = read.sources
    warned = replace(read, sources=(replace(source, warnings=tuple(f"block {number} is cut" for number in range(9))),))
    text = screen(warned)
    assert len(text.splitlines()) + 1 <= 30 and text.count("→") >= 2 and len(table(text)) >= 4
    assert "block 1 is cut\n… and 7 more" in text and "block 2" not in text
    assert "block 8 is cut" in screen(warned, depth="longest")


# What to do


def test_how_sure_it_is_and_its_condition_outlast_long_names() -> None:
    held = finding("dram-bandwidth", gain_kind="fixed-work", held="the same bytes", action="Move fewer bytes")
    several = session(*(kernel(number, held, label=LONG + str(number)) for number in range(2)), *many(9).kernels[2:])
    for width in (80, 100):
        text = screen(several, width)
        assert " · measured" in text and "the same bytes" in text
        assert "in 2 kernels" in text
    long = many(3, LONG + "{}")
    for width in (80, 100):
        text = " ".join(screen(long, width).split())
        assert text.count(" · measured") == text.count("→") > 0


def test_a_type_is_not_glued_to_the_word_behind_it() -> None:
    assert Sheet(60).wrapped("about 65 % of FP64 instructions", 60 - 18) == ["about 65 % of FP64", "instructions"]
    assert Sheet(60).wrapped("loads take 12.5 ms", 60 - 15) == ["loads take", "12.5 ms"]
    assert Sheet(60).wrapped("traits<(int)128, (int)64>", 60 - 20) == ["traits<(int)128,", "(int)64>"]
    assert Sheet(60).wrapped("it saves ≤ 5 %", 60 - 11) == ["it saves", "≤ 5 %"]


# The table


def test_columns_without_values_are_left_out_and_repeated_names_told_apart() -> None:
    full = table(screen(many(2)))[0]
    assert full.split() == ["#", "kernel", "time", "share", "busiest", "occ.", "main", "stall"]
    bare = table(screen(many(2, throughput=(), stalls=())))[0]
    assert bare.split() == ["#", "kernel", "time", "share", "occ."]
    repeated = session(kernel(0, grid=(64, 8, 1), block=(32, 8, 1)), kernel(1, grid=(64, 1, 1), block=(128, 1, 1)))
    head, *rows = table(screen(repeated))
    assert "grid×block" in head and "grid×block" not in full
    assert [row.split()[2] for row in rows] == ["(64,8)×(32,8)", "64×128"]


def test_rows_that_are_left_out_are_counted() -> None:
    text = screen(many(500))
    shown = len(table(text)) - 2
    assert re.search(rf"{500 - shown} more kernels, .* --top 0 \w+ \w+\n\Z", text)
    assert len(table(screen(many(500), top=0))) == 501
    assert len(table(screen(many(500), top=40))) == 42
    # The line of a single row left out goes to that row.
    assert all("and 1 more kernel" not in screen(many(count)) for count in range(5, 30))


# The command


def test_depth_is_asked_for(tmp_path: Path) -> None:
    report = OWN_REPORTS[0]
    brief, verbose = run("show", report), run("show", report, "-v").stdout
    chosen = run("show", report, "--kernel", "#0").stdout
    assert "warp states" not in brief.stdout and "\nReport " not in brief.stdout
    for text in (verbose, chosen):
        assert "\n#0 " in text and "warp states" in text and "\nReport " in text
    # What to fix first would repeat the findings of the kernel that was asked for.
    assert "Fix first" in verbose and "Fix first" not in chosen
    assert max(map(len, commands_aside(brief.stdout))) <= 80 and "\x1b" not in brief.stdout
    assert brief.stderr.startswith(f"next: gpuprof show {report} --kernel ")


# Cuts


def test_a_cut_has_a_single_ellipsis() -> None:
    assert cut_middle("aten::batch_norm · cudnn bn_bw_kernel…, 128>", 26) == "aten::batch_norm…128>"
    assert cut_middle("[param|model|alex_net|0|0|…relu_xregs", 24) == "[param|model|…relu_xregs"


def test_what_two_names_begin_with_goes_up_to_the_word_that_differs() -> None:
    assert without_shared_start("esmm-profile-26b457a.ncu-rep", "esmm-profile-26c.ncu-rep") == "…26b457a.ncu-rep"
    assert without_shared_start("before.json", "after.json") == "before.json"
    assert without_shared_start("run-1", "run-1.json") == "…1"
    assert without_shared_start("run-1.json", "run-1") == "….json"


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


def test_the_file_of_a_kernel_stays_behind_its_cut_name(tmp_path: Path) -> None:
    paths = [tmp_path / f"gpu_workshop-{name}.ncu-rep" for name in ("Baseline", "DivToMult")]
    names = [f"compute_tendencies_of_many_{number}_gpu_{'x' * 40}" for number in range(3)]
    for path in paths:
        path.write_bytes(ncu_bytes.simple_report([(name, {"gpu__time_duration.sum": 1000.0}) for name in names]))
    rows = table(screen(gpuprof.load(*paths), width=80, top=0))[1:]
    assert {re.search(r" in (\w+) ", row)[1] for row in rows} == {"Baseline", "DivToMult"}  # type: ignore[index]
    assert len(rows) == 6
