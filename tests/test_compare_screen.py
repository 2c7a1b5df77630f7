"""What `gpuprof compare` prints: a screen whatever is compared and however wide, and kernels in depth."""

from __future__ import annotations

import io
import re
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as bounded
from hypothesis import strategies as st
from msgspec.structs import replace
from rich.cells import cell_len
from rich.console import Console

from gpuprof.api_compare import worded
from gpuprof.comparison.compare import Compared, compare
from gpuprof.comparison.contract import (
    ChangeCause,
    Gate,
    GateWord,
    KernelChange,
    LineChange,
    QuantityChange,
    RunCondition,
    SourceLine,
    WorkChange,
)
from gpuprof.views.comparison import print_comparison
from gpuprof.words.comparison_rows import folded
from tests import made_comparisons as made
from tests.compare_builders import kernel, run
from tests.hand_made import HOSTILE
from tests.table import each_row

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
def crowded(count: int, label: str = "kernel_{}") -> Compared:
    """Everything at once: kernels that changed, a gate that failed for most, conditions, notes, totals."""
    word: tuple[GateWord, ...] = ("regression", "unclear", "not-compared", "accepted")
    checks = [made.check(word[number % 4], number, f"time:{number % 7}%") for number in range(min(160, count))]
    told = "The clocks were locked on one side only, so that times are of another clock: lock them on both. " * 2
    conditions = [
        RunCondition(name=f"condition-{number}", base=("a",), new=("b",), affects="time" if number < 6 else None,
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
        sentence=f"GPU time 10 ms → 12 ms (+18 %): {label.format(0)[:60]} is slower by 18 %; " + "more " * 60,
        base=base, new=new,
    )  # fmt: skip


@bounded(max_examples=10)
@given(st.text(min_size=1, max_size=60), st.integers(min_value=60, max_value=160), st.integers(1, 40))
def test_any_name_and_sentence_take_a_screen(text: str, width: int, count: int) -> None:
    kernels = [replace(kernel, label=text * 5, sentence=text * 20) for kernel in many(count)]
    lines = lines_of(made.compared(*kernels, sentence=text * 30, notes=(text * 30,) * 4), width)
    assert len(lines) + 1 <= 30
    assert max(map(cell_len, lines)) <= width


@each_row("label", [LONG + "{}", "{}" + WIDE + HOSTILE * 4])
def test_all_at_once_takes_a_screen(label: str) -> None:
    width = 60
    lines = lines_of(crowded(20, label), width)
    assert len(lines) + 1 <= 30, "\n".join(lines)
    assert max(map(cell_len, lines)) <= width
    assert not {"\x1b", "\u202e"} & set("".join(lines))
    assert len([line for line in lines if re.search(r"−20 %|\+18 %|  0 %| – ", line)]) >= 2, "kernels have room"


def test_in_depth_hostile_and_wide_names_keep_the_width() -> None:
    for name in (HOSTILE, WIDE, LONG):
        cause = ChangeCause(
            mechanism="x", sentence=name, direction="slower", certainty="guess", location=SourceLine(name, 3)
        )
        line = LineChange(file=name, base_line=1, new_line=2, text=name, what="local", base=1.0, new=2.0)
        odd = made.change(
            label=name, sentence=f"slower by 18 %: {name}", causes=(cause,), lines=(line,),
            work=WorkChange(verdict="more", counts=(made.count(name, 1.0, 2.0),), reason=name),
            base=(made.side_kernel(name, ranges=(name,)),),
        )  # fmt: skip
        for width in (60, 100):
            lines = lines_of(made.compared(odd), width, verbose=True, chosen=True)
            assert max(map(cell_len, lines)) <= width
            assert not {"\x1b", "\u202e"} & set("".join(lines))


def test_a_function_in_many_ranges_is_one_row_without_counters_and_each_with_all_asked_for() -> None:
    """Of 24 layers the attention is launched in a grid twice as large: 51.2 µs become 102.4 µs in each."""
    sides = [
        run(
            *(kernel("attention", [time_s] * 4, ranges=(f"layer_{at}",), grid=(grid, 1, 1)) for at in range(24)),
            *(kernel("norm", [5e-6], ranges=(f"layer_{at}",)) for at in range(24)),
        )
        for time_s, grid in ((51.2e-6, 16), (102.4e-6, 32))
    ]
    compared = worded(compare([sides[0]], [sides[1]], "0"))
    brief = screen(compared)
    assert len([line for line in brief.splitlines() if re.match(r" *\d+  attention", line)]) == 1
    assert re.search(r"51\.2 µs +102 µs", brief)
    attention, norm = folded(compared.comparison.kernels)
    assert [(row.label, len(row.base)) for row in (attention, norm)] == [("attention", 24), ("norm", 24)]
    # Of the base's 24 · (4 · 51.2 + 5) µs the attention takes 24 · 4 · 51.2 µs more.
    assert [attention.effect, norm.effect] == pytest.approx([204.8 / 209.8, 0.0])
    assert len(compared.comparison.kernels) == 48


def test_without_a_row_of_a_kernel_there_is_room_for_the_figures_of_the_run() -> None:
    totals = [
        QuantityChange(name=name, unit="s", base=1.0, new=1.5, ratio=1.5, verdict="slower")
        for name in ("gpu-time", "span", "busy", "idle", "copies")
    ]
    same = made.change(0, "gemm", "same", work=WorkChange(verdict="same", counts=()))
    assert screen(made.compared(same, total=tuple(totals))).count("1.00 s → 1.50 s") == 4
