"""What `gpuprof compare` prints: a screen whatever is compared and however wide, and kernels in depth."""

from __future__ import annotations

import io
import re
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import settings as bounded
from hypothesis import strategies as st
from msgspec.structs import replace
from rich.cells import cell_len
from rich.console import Console

from gpuprof.comparison.compare import Compared, compare
from gpuprof.comparison.contract import (
    ChangeCause,
    FindingChange,
    Gate,
    GateWord,
    Interval,
    KernelChange,
    LineChange,
    QuantityChange,
    RunCondition,
    WorkChange,
)
from gpuprof.comparison.sides import Run
from gpuprof.present.compare_console import print_comparison
from gpuprof.present.compare_verdict import beside_figures, parts_of
from gpuprof.present.text import tolerate
from tests import made_comparisons as made
from tests.hand_made import HOSTILE
from tests.readings import session_of
from tests.table import each_row

WIDTHS = (60, 80, 100, 140, 200)
LONG = "void cutlass::Kernel<cutlass::gemm::kernel::GemmUniversal<cute::tuple<int, int, int, int>, " + "x" * 220
WIDE = "核函数矩阵乘法" * 45
CAUSES = ("registers 40 → 72", "occupancy 75 % → 50 % (limited by registers)", "DRAM bytes unchanged",
          "instructions 1.20 M → 1.42 M (+18 %)", "Long Scoreboard 3.3 → 8.6 cycles per instruction")  # fmt: skip


def screen(compared: Compared, width: int = 100, **asked: Any) -> str:
    out = io.StringIO()
    print_comparison(Console(file=out, width=width), compared, **asked)
    return out.getvalue()


def lines_of(compared: Compared, width: int = 100, **asked: Any) -> list[str]:
    return screen(compared, width, **asked).splitlines()


def many(count: int, label: str = "kernel_{}", **fields: Any) -> list[KernelChange]:
    verdicts = ("slower", "faster", "unclear", "new", "gone")
    sentence = f"slower by 18 %: {', '.join(CAUSES)}; gather.cu:88 gained 12 local accesses"
    every = {"sentence": sentence, **fields}
    return [
        made.change(number, label.format(number), verdicts[number % 5], **every)  # type: ignore[arg-type]
        for number in range(count)
    ]


@cache
def crowded(count: int = 500, label: str = "kernel_{}") -> Compared:
    """Everything at once: kernels that changed, a gate that failed for most, conditions, notes, totals."""
    word: tuple[GateWord, ...] = ("regression", "unclear", "not-compared", "accepted")
    checks = [made.check(word[number % 4], number, f"time:{number % 7}%") for number in range(min(160, count))]
    told = "The clocks were locked on one side only, so that times are of another clock: lock them on both. " * 2
    conditions = [
        RunCondition(name=f"condition-{number}", base="a", new="b", affects="time" if number < 6 else None,
                     sentence=told) for number in range(9)
    ]  # fmt: skip
    totals = [
        QuantityChange(name=name, unit="s", base=1.0, new=1.5, ratio=1.5, verdict="unclear")
        for name in ("gpu-time", "step", "span", "busy", "idle", "copies")
    ]
    gpu = "NVIDIA GeForce RTX 2060 with Max-Q Design"
    base, new = (made.side(f"/data/{'folder/' * 30}{name}.ncu-rep", gpus=(gpu,)) for name in ("base", "new"))
    return made.compared(
        *many(count, label), gate=Gate(passed=False, exit_code=6, checks=tuple(checks), ok=7),
        conditions=tuple(conditions), total=tuple(totals), notes=(told,) * 9,
        sentence=f"GPU time 10 → 12 ms (+18 %): {label.format(0)[:60]} is slower by 18 %; " + "more " * 60,
        base=base, new=new,
    )  # fmt: skip


@cache
def real(base: Path, new: Path) -> Compared:
    groups = "traces" in base.parts
    sides = [[Run(str(path), session_of(path, groups=groups))] for path in (base, new)]
    return compare(sides[0], sides[1], "0.1.0")


def table(lines: list[str]) -> list[str]:
    """The lines from the head of the table on."""
    return lines[next(place for place, line in enumerate(lines) if re.match(r" *#  kernel", line)) :]


# One screen


def test_a_real_report_against_another_takes_a_screen(real_report: Path, reports: Path) -> None:
    for other in (real_report, reports / "gpu_workshop-MW_Baseline.ncu-rep"):
        for width in (60, 100):
            lines = lines_of(real(real_report, other), width)
            assert len(lines) + 1 <= 30, "\n".join(lines)
            assert max(map(cell_len, lines)) <= width


@each_row("width", WIDTHS)
@each_row("label", ["kernel_{}", LONG + "{}", "{}" + WIDE, "{}" + HOSTILE * 4])
def test_all_at_once_takes_a_screen(label: str, width: int) -> None:
    lines = lines_of(crowded(160, label), width)
    assert len(lines) + 1 <= 30, "\n".join(lines)
    assert max(map(cell_len, lines)) <= width
    assert len([line for line in lines if re.search(r"−20 %|\+18 %|  0 %| – ", line)]) >= 2, "kernels have room"


@each_row("count", [0, 1, 2, 3, 6, 12, 500])
def test_any_number_of_changed_kernels_takes_a_screen_and_uses_it(count: int) -> None:
    lines = lines_of(made.compared(*many(count)))
    assert len(lines) + 1 <= 30
    if count > 20:
        assert len(lines) + 1 >= 27
        assert re.search(r"and \d+ more kernels that changed \(.*\): --top 0 shows all", "\n".join(lines))


def test_few_kernels_have_all_their_reasons_and_many_have_a_line_each() -> None:
    assert "gather.cu:88 gained 12 local accesses" in " ".join(screen(made.compared(*many(1))).split())
    rows = table(lines_of(made.compared(*many(500))))
    assert all(not (before.startswith("   ") and after.startswith("     ")) for before, after in pairwise(rows))


@bounded(max_examples=25)
@given(st.text(min_size=1, max_size=60), st.integers(min_value=60, max_value=160), st.integers(1, 40))
def test_any_name_and_sentence_take_a_screen(text: str, width: int, count: int) -> None:
    kernels = [replace(kernel, label=text * 5, sentence=text * 20) for kernel in many(count)]
    lines = lines_of(made.compared(*kernels, sentence=text * 30, notes=(text * 30,) * 4), width)
    assert len(lines) + 1 <= 30
    assert max(map(cell_len, lines)) <= width


def test_with_top_there_are_as_many_rows_as_asked_for() -> None:
    for top, rows in ((3, 3), (40, 40), (0, 60)):
        text = screen(made.compared(*many(60)), top=top)
        assert len(re.findall(r"^ *\d+  kernel_\d+ ", text, re.MULTILINE)) == rows


# What a screen says


def test_arrows_and_columns_stand_below_each_other() -> None:
    kernels = [
        made.change(0, "first", "slower", time=made.time("slower", 1.18)),
        made.change(1, "a_second_name", "faster", time=made.time("faster", 0.0123, base_s=1e-2, new_s=1.23e-4)),
        made.change(2, "third", "new"),
        made.change(3, "fourth", "gone"),
    ]
    rows = [line for line in table(lines_of(made.compared(*kernels))) if re.match(r"\d  \w", line)]
    assert len({row.index("→") for row in rows}) == 1
    assert [re.split(r" {2,}", row)[-1] for row in rows] == ["+1.0 %", "0 %", "0 %", "0 %"]
    assert "– → 1.00 ms" in re.sub(r" +", " ", rows[2])
    assert "1.00 ms → –" in re.sub(r" +", " ", rows[3])


def test_what_the_figures_say_is_not_said_again_below_them() -> None:
    text = screen(made.compared(made.change(), made.change(1, "b", "new", sentence="new: 1.00 ms a launch")))
    assert "registers 40 → 72" in text
    assert "slower by 18 %" not in text
    assert "a launch\n" not in text.replace("time of a launch", "")


@each_row(
    ("sentence", "verdict", "reasons"),
    [
        ("1.8x faster: FP64 21.4 → 9.10 GFLOP", "1.8x faster", "FP64 21.4 → 9.10 GFLOP"),
        ("same time: the same work", "same time", "the same work"),
        ("slower by 18 %", "slower by 18 %", ""),
        ("unclear whether the time changed (+17 %): registers 1 → 2", "unclear whether the time changed (+17 %)",
         "registers 1 → 2"),
        ("grid: 1 → 2", "", "grid: 1 → 2"),
    ],
)  # fmt: skip
def test_a_sentence_is_a_verdict_and_its_reasons(sentence: str, verdict: str, reasons: str) -> None:
    assert parts_of(made.change(sentence=sentence)) == (verdict, reasons)


def test_more_launches_are_told_beside_the_time_of_one() -> None:
    sentence = "1.5x faster a launch, 5 → 9 launches, together 5.00 → 6.00 ms (+20 %): registers 40 → 32"
    assert beside_figures(made.change(sentence=sentence)) == (
        "5 → 9 launches, together 5.00 → 6.00 ms (+20 %); registers 40 → 32"
    )


def test_a_kernel_that_was_matched_by_its_likeness_says_what_it_was() -> None:
    renamed = made.change(match="renamed", base=(made.side_kernel("gather_v1"),))
    assert beside_figures(renamed).startswith("renamed; ")


def test_an_unclear_kernel_says_between_what_it_lies_and_what_would_settle_it() -> None:
    unclear = made.change(
        0, "a", "unclear", sentence="unclear whether the time changed (+2.0 %): the same work",
        time=made.time("unclear", 1.02, interval=Interval(0.98, 1.06), runs_needed=7),
    )  # fmt: skip
    assert beside_figures(unclear) == "time −2.0 % to +6.0 % at 99 %, 7 runs a side would tell"
    explained = replace(unclear, match="reconfigured", sentence="time +2.0 %, unclear: registers 128 → 228")
    assert beside_figures(explained) == (
        "another launch configuration; time −2.0 % to +6.0 % at 99 %, 7 runs a side would tell; registers 128 → 228"
    )


@each_row("width", (60, 80))
def test_two_files_whose_long_names_begin_alike_are_told_apart(width: int) -> None:
    start = "/data/softmax-of-the-attention-of-the-decoder-"
    base, new = (made.side(f"{start}{end}.ncu-rep", gpus=("NVIDIA H100 80GB HBM3",)) for end in ("26b457a", "71fb9e5"))
    lines = lines_of(made.compared(made.change(), base=base, new=new), width)
    assert any(line.startswith("base ") and "26b457a" in line for line in lines)
    assert any(line.startswith("new ") and "71fb9e5" in line for line in lines)


def test_kernels_that_are_left_out_are_counted_by_what_is_known_of_them() -> None:
    def quiet(number: int, verdict: Any, work: Any) -> KernelChange:
        return made.change(number, f"k{number}", verdict, work=WorkChange(verdict=work, counts=()))

    text = screen(
        made.compared(
            made.change(), quiet(1, "same", "same"), quiet(2, "same", "same"), quiet(3, "unclear", "same"),
            quiet(4, "unclear", "unknown"),
        )
    )  # fmt: skip
    assert "2 kernels with the same work in the same time: k1, k2" in text
    assert "1 kernel with the same work; whether the time changed is unclear: k3" in text
    assert "1 kernel whose change of time is unclear, and whose work is not known: k4" in text


# The gate


def gated(*words: Any, passed: bool = False, labels: str = "kernel_{}") -> list[str]:
    checks = tuple(made.check(word, number) for number, word in enumerate(words))
    gate = Gate(passed=passed, exit_code=0 if passed else 6, checks=checks, ok=3)
    return lines_of(made.compared(*many(max(len(words), 1), labels), gate=gate))


def test_a_failed_limit_names_its_kernel() -> None:
    (line,) = [line for line in gated("regression") if "regression:" in line]
    assert line == "  regression: kernel_0: time rose by 18 %, 3 % is allowed"


def test_forty_failed_limits_are_the_first_ones_and_a_number() -> None:
    lines = gated(*(["regression"] * 40))
    shown = sum(line.startswith("  regression: ") for line in lines)
    assert 2 <= shown <= 5
    assert f"  … and {40 - shown} more checks: -v shows all" in lines


def test_what_is_not_judged_is_counted_by_limit_and_named_where_it_is_little() -> None:
    assert "  unclear: time:3% of kernel_0; -v says why" in gated("unclear", passed=True)
    assert "  unclear: time:3% of 4 kernels; -v says why" in gated(*["unclear"] * 4, passed=True)


def test_a_limit_on_the_run_is_not_said_to_be_of_a_kernel() -> None:
    check = made.check("unclear", None, "total-time:1%")
    gate = Gate(passed=True, exit_code=0, checks=(check,), ok=3)
    lines = lines_of(made.compared(made.change(), gate=gate))
    assert "  unclear: total-time:1% of the run; -v says why" in lines


def test_what_is_unclear_is_told_one_by_one_where_the_gate_failed_for_it() -> None:
    assert "  unclear: kernel_0: time rose by 18 %, 3 % is allowed" in gated("unclear")


# Colours


def coloured(verdict: Any) -> str:
    out = io.StringIO()
    console = Console(file=out, width=100, force_terminal=True, color_system="standard", _environ={})
    print_comparison(console, made.compared(made.change(0, "a", verdict)))
    return next(line for line in out.getvalue().splitlines() if re.match(r"(\x1b\[\d+m)*0  a", line))


@each_row(("verdict", "colour"), [("slower", "31"), ("faster", "32"), ("unclear", "33"), ("new", "36"), ("gone", "36")])
def test_a_verdict_has_its_colour_and_its_word(verdict: str, colour: str) -> None:
    assert re.search(rf"\x1b\[(?:1;)?{colour}m *{verdict}\b", coloured(verdict))


# Where there is only ASCII


def test_an_ascii_terminal_has_every_word() -> None:
    kept = io.BytesIO()
    out = io.TextIOWrapper(kept, encoding="ascii")
    tolerate(out)
    print_comparison(Console(file=out, width=100), crowded(30), verbose=True)
    out.flush()
    text = kept.getvalue().decode("ascii")
    assert "?" not in text
    assert "1.00 ms -> 1.18 ms" in text
    assert max(map(len, text.splitlines())) <= 100


# In depth


def in_depth(change: KernelChange, width: int = 100) -> str:
    text = screen(made.compared(change), width, chosen=True)
    return text[text.index("#0 ") :]


def test_a_kernel_in_depth_leads_from_the_verdict_to_the_lines() -> None:
    text = in_depth(made.change(effect=0.05))
    marks = ["slower by 18 %; +5.0 % of the base's GPU time", "why ", "time ", "launch ", "work ", "counter ",
             "findings ", "lines "]  # fmt: skip
    places = [text.index(mark) for mark in marks]
    assert places == sorted(places)


def test_a_cause_that_no_counter_tells_says_so_and_a_place_is_told_once() -> None:
    causes = (
        ChangeCause(mechanism="x", sentence="fewer roots", direction="faster", certainty="inferred"),
        ChangeCause(mechanism="source-line", sentence="a.cu:8 lost 4 M instructions", direction="faster",
                    certainty="counted", location="/src/a.cu:8"),
        ChangeCause(mechanism="source-line", sentence="line 9 lost 4 M instructions", direction="faster",
                    certainty="counted", location="/src/a.cu:9"),
    )  # fmt: skip
    text = in_depth(made.change(causes=causes))
    assert "fewer roots (inferred)\n" in text
    assert "a.cu:8 lost 4 M instructions\n" in text
    assert "line 9 lost 4 M instructions (a.cu:9)\n" in text


def test_of_opcodes_those_that_moved_most_are_shown_and_the_others_counted() -> None:
    counts = tuple(made.count(f"opcode.OP{number}", 1e6, 1e6 + 1e4 * number) for number in range(1, 31))
    text = in_depth(made.change(work=WorkChange(verdict="more", counts=(made.count(), *counts))))
    assert re.findall(r"(OP\d+) instructions", text) == ["OP30", "OP29", "OP28", "OP27", "OP26", "OP25"]
    assert "… and 24 more opcodes that changed less: --format json has all" in text


def test_counters_that_are_the_same_are_named_in_a_line_and_have_no_row() -> None:
    counts = (made.count(), made.count("registers", 40.0, 40.0), made.count("dram-bytes", 1e6, 1e6, unit="B"))
    text = in_depth(made.change(work=WorkChange(verdict="more", counts=counts)))
    assert "unchanged   registers, DRAM bytes\n" in text
    assert "40 → 40" not in text


def test_one_launch_configuration_on_both_sides_is_told_once() -> None:
    assert "launch      grid 64, block 256, 10 launches, on both sides\n" in in_depth(made.change())
    other = made.change(new=(made.side_kernel(grid=(128, 1, 1)),))
    assert re.search(r"base +grid 64, block 256.*\n +new +grid 128, block 256", in_depth(other))


def test_a_line_that_is_new_or_gone_says_so_and_its_code_is_cut_to_a_line() -> None:
    def line(base: int | None, new: int | None, text: str) -> LineChange:
        return LineChange(file="/src/a.cu", base_line=base, new_line=new, text=text, what="instructions",
                          base=5.0 if base else None, new=7.0 if new else None)  # fmt: skip

    text = in_depth(made.change(lines=(line(None, 4, "x();"), line(5, None, "y();"), line(6, 7, "z();" * 90))))
    assert "a.cu:4 is new: 7 instructions: x();" in text
    assert "a.cu:5 is gone: 5 instructions: y();" in text
    (moved,) = [row for row in text.splitlines() if "a.cu:7 (was 6): 5 → 7 instructions: z();" in row]
    assert len(moved) <= 100


def test_a_finding_that_went_without_a_gain_says_what_the_kernel_takes_instead() -> None:
    went = FindingChange(word="went", rule="barriers", severity="low", base="Barriers: 7 %", new="", promised=0.07,
                         gained=-1.8)  # fmt: skip
    flat = " ".join(in_depth(made.change(findings=(went,))).split())
    assert "promised at most 7.0 %, gained nothing: the kernel takes +180 %" in flat


@each_row("width", [60, 80, 100])
def test_in_depth_hostile_and_wide_names_keep_the_width(width: int) -> None:
    for name in (HOSTILE, WIDE, LONG):
        cause = ChangeCause(mechanism="x", sentence=name, direction="slower", certainty="guess", location=name)
        line = LineChange(file=name, base_line=1, new_line=2, text=name, what="local", base=1.0, new=2.0)
        odd = made.change(
            label=name, sentence=f"slower by 18 %: {name}", causes=(cause,), lines=(line,),
            work=WorkChange(verdict="more", counts=(made.count(name, 1.0, 2.0),), reason=name),
            base=(made.side_kernel(name, ranges=(name,)),),
        )  # fmt: skip
        lines = lines_of(made.compared(odd), width, verbose=True)
        assert max(map(cell_len, lines)) <= width
        assert "\x1b" not in "".join(lines)
        assert "\u202e" not in "".join(lines)


def test_the_changed_line_of_a_real_pair_is_on_its_screen(reports: Path) -> None:
    names = ("gpu_workshop-MW_Baseline.ncu-rep", "gpu_workshop-MW_DivToMult.ncu-rep")
    flat = " ".join(screen(real(reports / names[0], reports / names[1])).split())
    assert "compute_tendencies_x_279_gpu 6.19 ms → 3.48 ms −44 % faster less −18 %" in flat
    assert "line 288 lost 422 M instructions" in flat
