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

from gpuprof.model.headline import by_time
from gpuprof.model.session import Session
from gpuprof.present.console import Depth, print_session
from gpuprof.present.console_parts import Sheet
from gpuprof.present.fix_text import fixes
from gpuprof.present.text import cut_end, cut_middle, without_shared_start
from tests.cli import gpuprof as run
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


def test_a_real_report_takes_a_screen_with_the_next_command(real_report: Path) -> None:
    text = screen(session_of(real_report, groups=True))
    assert len(text.splitlines()) + 1 <= 30
    assert max(map(len, commands_aside(text))) <= 100


@each_row("count", [1, 3, 500])
@each_row("label", ["kernel_{}", LONG + "{}", "{}" + LONG])
def test_any_number_of_kernels_with_any_names_takes_a_screen(count: int, label: str) -> None:
    text = screen(many(count, label))
    assert len(text.splitlines()) + 1 <= 30
    assert max(map(len, text.splitlines())) <= 100
    assert len([line for line in text.splitlines() if "≤" in line and "saved" not in line]) == min(count, 5)


@each_row("width", WIDTHS)
def test_every_width_is_kept_and_texts_stop_at_120(width: int, reports: Path) -> None:
    for text in (
        screen(many(500, LONG + "{}"), width),
        screen(session_of(reports / "gpu_workshop-MW_Baseline.ncu-rep"), width),
        screen(session_of(reports / "traces" / "resnet50-v100.pt.trace.json.gz", groups=True), width),
    ):
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


def test_a_wide_text_breaks_where_its_columns_end() -> None:
    for indent in (0, 15):
        lines = Sheet(60).wrapped("核函数 " * 4 + "矩阵乘法" * 30 + " ends after 5.20 ms", indent)
        assert max(map(cell_len, lines)) <= 60 - indent and min(map(cell_len, lines[:-1])) > 20
        assert "".join("".join(lines).split()) == "核函数" * 4 + "矩阵乘法" * 30 + "endsafter5.20ms"


def test_notes_and_warnings_leave_room_for_fixes_and_kernels(reports: Path) -> None:
    read = session_of(reports / "csv" / "interpolate-with-program-output.csv", groups=True)
    text = screen(read)
    assert len(text.splitlines()) + 1 <= 30
    assert text.count("→") == 2 and len(table(text)) >= 4
    (source,) = read.sources
    warned = replace(read, sources=(replace(source, warnings=tuple(f"block {number} is cut" for number in range(9))),))
    text = screen(warned)
    assert len(text.splitlines()) + 1 <= 30
    assert "block 1 is cut\n… and 7 more warnings: -v shows all" in text and "block 2" not in text
    assert "block 8 is cut" in screen(warned, depth="longest")


# What to do


def test_an_opportunity_is_what_it_gains_what_where_and_how_sure() -> None:
    block = screen(many(2)).split("Fix first")[1].split("\n\n")[0].splitlines()
    assert [line.strip() for line in block] == [
        "share of the run saved: ≤ at most",
        "██        ≤ 25 %  headline of uncoalesced-global",
        "→ Change 0",
        "#0 kernel_0 · gather.cu:41 · measured",
        "██        ≤ 25 %  headline of uncoalesced-global",
        "→ Change 1",
        "#1 kernel_1 · gather.cu:41 · measured",
    ]


def test_bars_fall_and_a_guess_has_none() -> None:
    doubted = kernel(9, finding("low-occupancy", 0.95, confidence="guess", action="G"), label="other")
    text = screen(session(*many(3).kernels, doubted))
    lines = [line for line in text.splitlines() if re.search(r"≤ +\d", line) and "headline" in line]
    bars = [len(line[2:10].rstrip()) for line in lines]
    assert bars == sorted(bars, reverse=True) and bars[-1] == 0 and min(bars[:-1]) > 0
    assert "#9 other · gather.cu:41 · a guess" in text
    alone = screen(session(kernel(0, finding("low-occupancy", 0.95, confidence="guess", severity="low"))))
    assert "what would make it faster is only a guess" in " ".join(alone.split())
    assert re.search(r"^ {2} +≤ 48 %", alone, re.MULTILINE) and "█" not in alone


def test_no_finding_is_told_more_than_once_but_for_its_name(reports: Path) -> None:
    read = session_of(reports / "gpu_workshop-MW_Baseline.ncu-rep")
    text = " ".join(screen(read, width=200).split())
    for item in fixes(read):
        assert text.count(" ".join(item.headline.split())[:40]) == 1
    assert text.startswith("compute_tendencies_x_279_gpu, 40 % of the time, keeps the SMs 70 % busy: ")


def test_how_sure_it_is_outlasts_a_long_place(reports: Path) -> None:
    for name, doubts in (("sglang-profile.ncu-rep", {"only sets up data"}), ("cutlass-384.ncu-rep", {"measured"})):
        read = session_of(reports / name, groups=True)
        for width in (80, 100):
            text = " ".join(screen(read, width).split())
            assert sum(text.count(f" · {doubt}") for doubt in doubts) == text.count("→") > 0


def test_in_how_many_launches_outlasts_a_long_name(reports: Path) -> None:
    read = session_of(reports / "csv" / "interpolate-with-program-output.csv", groups=True)
    for width in (80, 100):
        text = screen(read, width)
        assert re.search(r" {20}upsample.* in 45 launches · measured", text)


def test_a_type_is_not_glued_to_the_word_behind_it() -> None:
    assert Sheet(60).wrapped("about 65 % of FP64 instructions", 60 - 18) == ["about 65 % of FP64", "instructions"]
    assert Sheet(60).wrapped("loads take 12.5 ms", 60 - 15) == ["loads take", "12.5 ms"]
    assert Sheet(60).wrapped("traits<(int)128, (int)64>", 60 - 20) == ["traits<(int)128,", "(int)64>"]
    assert Sheet(60).wrapped("it saves ≤ 5 %", 60 - 11) == ["it saves", "≤ 5 %"]


@each_row("width", [100, 140])
@each_row("name", ["sglang-profile.ncu-rep", "traces/rank0-v100.pt.trace.json.gz"])
def test_no_line_of_a_command_ends_before_the_value_of_its_option(name: str, width: int, reports: Path) -> None:
    read = session_of(reports / name, groups=True)
    assert read.verdict is not None and read.verdict.command is not None
    text = screen(read, width)
    shown = text.partition(":\n   ")[2].partition("\n\n")[0]
    assert shown.replace(" \\\n   ", " ") == read.verdict.command
    assert not re.search(r" (-o|--[a-z-]*) \\\n +[^-\s]", text)


def test_what_is_not_known_and_its_command_leave_the_table_its_rows(reports: Path) -> None:
    text = screen(session_of(reports / "sglang-profile.ncu-rep", groups=True))
    assert "ncu --set full" in text
    assert len(table(text)) >= 4


# The table


def test_a_column_without_values_is_left_out() -> None:
    full = table(screen(many(2)))[0]
    assert full.split() == ["#", "kernel", "time", "share", "busiest", "occ.", "main", "stall"]
    bare = table(screen(many(2, throughput=(), stalls=())))[0]
    assert bare.split() == ["#", "kernel", "time", "share", "occ."]
    assert "n/c" not in screen(many(2, throughput=(), stalls=()))


def test_where_a_name_repeats_the_launch_configuration_tells_the_rows_apart() -> None:
    repeated = session(kernel(0, grid=(64, 8, 1), block=(32, 8, 1)), kernel(1, grid=(64, 1, 1), block=(128, 1, 1)))
    head, *rows = table(screen(repeated))
    assert "grid×block" in head
    assert [row.split()[2] for row in rows] == ["(64,8)×(32,8)", "64×128"]
    assert "grid×block" not in screen(many(2))


def test_rows_that_are_left_out_are_counted_with_their_time() -> None:
    text = screen(many(500))
    shown = len(table(text)) - 2
    assert f"… and {500 - shown} more kernels, " in text and text.endswith("of the time: --top 0 shows all\n")
    assert len(table(screen(many(500), top=0))) == 501
    assert len(table(screen(many(500), top=40))) == 42


def test_the_line_of_a_single_row_left_out_goes_to_that_row() -> None:
    for count in range(1, 30):
        assert "and 1 more kernel" not in screen(many(count))


# The command


def test_depth_is_asked_for(reports: Path) -> None:
    report = reports / "gpu_workshop-MW_Baseline.ncu-rep"
    brief, verbose = run("show", report).stdout, run("show", report, "-v").stdout
    chosen = run("show", report, "--kernel", "#2").stdout
    assert "warp states" not in brief and "\nReport " not in brief
    for text in (verbose, chosen):
        assert "\n#2 compute_tendencies_x_279_gpu\n" in text and "warp states" in text and "\nReport " in text
    # What to fix first would repeat the findings of the kernel that was asked for.
    assert "Fix first" in verbose and "Fix first" not in chosen


def test_a_pipe_gets_80_columns_without_colour(reports: Path) -> None:
    done = run("show", reports / "traces" / "resnet50-v100.pt.trace.json.gz")
    assert max(map(len, commands_aside(done.stdout))) <= 80
    assert "\x1b" not in done.stdout
    assert done.stderr.startswith("next: gpuprof show ")


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


def test_a_guess_of_which_nothing_is_left_is_not_listed(reports: Path) -> None:
    read = session_of(reports / "gpu_workshop-MW_Baseline.ncu-rep")
    (settled,) = (item for item in read.opportunities if item.confidence == "guess")
    assert settled.gain_after == 0 and settled.rule == "non-fused-fp"
    assert "non-fused-fp" not in {item.rule for item in fixes(read)}


def test_a_gain_under_a_condition_names_it_where_its_line_is_cut() -> None:
    held = finding("dram-bandwidth", gain_kind="fixed-work", held="the same bytes", action="Move fewer bytes")
    several = session(*(kernel(number, held, label=LONG + str(number)) for number in range(2)), *many(9).kernels[2:])
    text = screen(several)
    assert "in 2 kernels · gather.cu:41 · measured · with the same bytes" in text


def test_the_file_of_a_kernel_stays_behind_its_cut_name(reports: Path) -> None:
    both = session_of(*(reports / f"gpu_workshop-MW_{name}.ncu-rep" for name in ("Baseline", "DivToMult")))
    rows = table(screen(both, width=80, top=0))[1:]
    assert {re.search(r" in (\w+) ", row)[1] for row in rows} == {"Baseline", "DivToMult"}  # type: ignore[index]
    assert len({row[3:40] for row in rows}) == len(rows)


def test_what_is_next_is_more_of_the_run_where_that_is_to_be_fixed_first(reports: Path) -> None:
    idle = run("show", reports / "traces" / "miniweather-gp100.nsys.sqlite")
    assert idle.stderr.endswith("miniweather-gp100.nsys.sqlite -v\n")
    assert "pauses" in run("show", reports / "traces" / "miniweather-gp100.nsys.sqlite", "-v").stdout
    assert run("show", reports / "gpu_workshop-MW_Baseline.ncu-rep").stderr.endswith(" --kernel '#2'\n")
