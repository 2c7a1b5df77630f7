"""The page of a comparison: what it says, in which order, that it is safe and complete, and how a browser shows it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as bounded
from hypothesis import strategies as st
from msgspec import structs

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
    SourceLine,
    TimeChange,
    WorkChange,
)
from gpuprof.comparison.pair import Pair
from gpuprof.comparison.sides import Run, Side, side_of
from gpuprof.model.session import Session
from gpuprof.views.comparison import page_lines, whole_comparison
from gpuprof.views.comparison_figure import compared_roofline
from gpuprof.views.document import Cell, Facts, Fold
from tests import made_comparisons as made
from tests.chromium import CHROMIUM, Browser, lowest_contrast
from tests.outline import Outline
from tests.test_figures import HOSTILE, kernel, session

SLOWER = made.time("slower", 1.2, interval=Interval(1.15, 1.25), base_cycles=1e6, new_cycles=1.2e6, cycles_ratio=1.2)
SAME = made.time("same", 1.0, interval=Interval(0.99, 1.01), base_cycles=1e6, new_cycles=1e6, cycles_ratio=1.0)
count = made.count


def change(number: int = 0, label: str = "kernel_0", time: TimeChange = SLOWER, **fields: Any) -> KernelChange:
    every = {
        "base": (), "new": (), "sentence": f"{time.verdict} by 20 %", "time": time, "causes": (), "lines": (),
        "work": WorkChange(verdict="same", counts=()), "findings": (), "effect_s": 2e-4, "effect": 0.1,
    }  # fmt: skip
    return made.change(number, label, **{**every, **fields})


def compared_of(
    *changes: KernelChange, base: Session | None = None, new: Session | None = None,
    sentence: str = "GPU time 2.00 ms → 2.40 ms (+20 %).", **fields: object,
) -> Compared:  # fmt: skip
    """A comparison of two sessions with these changes; the nth is of the nth kernels of both."""
    base = base if base is not None else two_kernels()
    new = new if new is not None else two_kernels(1.2)
    sides = [_side(read, name) for read, name in ((base, "old"), (new, "new"))]
    pairs = tuple(_pair(sides, item.label) for item in changes)
    whole = compare(sides[0].runs, sides[1].runs, "0.1.0").comparison
    told = structs.replace(whole, kernels=changes, sentence=sentence, **fields)
    return Compared(told, pairs, sides[0], new=sides[1])


def _side(read: Session, name: str) -> Side:
    return side_of([Run(f"{name}.ncu-rep", read)])


def _pair(sides: list[Side], label: str) -> Pair:
    base, new = (tuple(item for item in side.kernels if item.representative.label == label) for side in sides)
    return Pair("exact" if base and new else "new" if new else "gone", base, new)


@cache
def two_kernels(factor: float = 1.0) -> Session:
    return session(
        kernel(0, {"fp32": 1e9}, {"dram": 4e8}, duration_s=1e-3 * factor),
        kernel(1, {"fp32": 1e9}, {"dram": 4e7}, duration_s=1e-3),
    )


def many(number: int, factor: float = 1.0) -> Session:
    kernels = [
        kernel(
            index, {"fp32": 1e7 * (1 + index % 37)}, {"dram": 1e6 * (1 + index % 53)},
            duration_s=1e-3 * (1 + index % 11) * (factor if index % 10 == 0 else 1.0),
        )
        for index in range(number)
    ]  # fmt: skip
    return session(*kernels)


def comparison_page(compared: Compared) -> str:
    return "\n".join(page_lines(compared))


def of_runs(base: Session | None, new: Session | None) -> Compared:
    """What the comparison itself makes of two sessions; None: a side without a file."""
    sides = [[Run(name, read)] if read is not None else [] for name, read in (("a", base), ("b", new))]
    return compare(sides[0], sides[1], "0.1.0")


def rich() -> Compared:
    went = FindingChange(
        id="0.x",
        word="went", rule="uncoalesced-global", severity="high", base="Uncoalesced loads", new="", promised=0.31,
        gained=0.2, location=SourceLine("mlp.cu", 41),
    )  # fmt: skip
    cause = ChangeCause(
        mechanism="occupancy", sentence="registers 40 → 72, occupancy 75 % → 50 %", direction="slower",
        certainty="counted", location=SourceLine("mlp.cu", 88),
    )  # fmt: skip
    line = LineChange(
        file="mlp.cu", base_line=80, new_line=88, text="  acc += a[i];", what="local", base=0.0, new=1.2e7
    )
    first = change(
        work=WorkChange(verdict="more", counts=(count("dram-bytes", 2e9, 3e9, unit="B"), count("registers", 40, 40))),
        causes=(cause,), findings=(went,), lines=(line,),
    )  # fmt: skip
    limits: tuple[tuple[str, GateWord], ...] = (
        ("third:1%", "regression"), ("second:1%", "unclear"), ("first:1%", "accepted"),
    )  # fmt: skip
    checks = tuple(made.check(word, limit=limit, change=0.2, sentence=f"said of {limit}") for limit, word in limits)
    condition = RunCondition(
        name="clock-control", base=("base",), new=("none",), affects="time", sentence="Lock the clocks on both sides."
    )
    total = QuantityChange(name="gpu-time", unit="s", base=2e-3, new=2.4e-3, ratio=1.2, verdict="slower")
    return compared_of(
        first, change(1, "kernel_1", SAME, effect_s=0.0, effect=0.0),
        gate=Gate(passed=False, exit_code=6, checks=checks, ok=4), conditions=(condition,), total=(total,),
        notes=("Both sides are of one program.",),
    )  # fmt: skip


def test_the_figure_leads_an_arrow_from_the_hollow_base_point_to_the_filled_new_one() -> None:
    figure = compared_roofline(rich())
    ((start, end),) = figure.arrows
    base, new = figure.points[start], figure.points[end]
    assert (base.side, base.is_hollow, new.side, new.is_hollow) == ("base", True, "new", False)
    assert base.flop_per_s == pytest.approx(1e12)
    assert new.flop_per_s == pytest.approx(1e9 / 1.2e-3)
    assert [point.key for point in figure.points if point.key] == [
        "kernel_0: slower by 20 %, 40 % → 33 % of the roofline"
    ]
    assert [point.kernel for point in figure.points if point.faint] == [1]


def test_checks_that_did_not_fail_are_folded_if_they_are_many() -> None:
    compared = compared_of(change(), gate=made.gate(*[made.check("unclear")] * 30, made.check()))
    blocks = whole_comparison(compared).blocks
    (fold,) = (block for block in blocks if isinstance(block, Fold) and block.title == "21 more checks")
    (shown,) = (block for block in blocks if isinstance(block, Facts) and block.rows[0][0] == "regression")
    (folded,) = fold.blocks
    assert isinstance(folded, Facts) and len(shown.rows) + len(folded.rows) == 31
    assert not any(
        isinstance(block, Fold) for block in whole_comparison(compared, compared.comparison.kernels).blocks[:6]
    )


def test_hostile_names_and_sentences_are_text() -> None:
    sessions = [session(kernel(0, {"fp32": 1e9}, {"dram": 4e8}, label=HOSTILE)) for _ in range(2)]
    bad = FindingChange(
        id="0.x", word="came", rule=HOSTILE, severity="low", base="", new=HOSTILE, promised=None, gained=None
    )
    line = LineChange(file=HOSTILE, base_line=1, new_line=2, text=HOSTILE, what=HOSTILE, base=1.0, new=2.0)
    cause = ChangeCause(
        mechanism="x", sentence=HOSTILE, direction="slower", certainty="guess", location=SourceLine(HOSTILE, 3)
    )
    check = made.check(limit=HOSTILE, pattern=HOSTILE, change=math.nan, sentence=HOSTILE, accepted=HOSTILE)
    hostile = compared_of(
        change(
            label=HOSTILE, sentence=HOSTILE, findings=(bad,), lines=(line,), causes=(cause,),
            work=WorkChange(verdict="more", counts=(count(HOSTILE, 1.0, 2.0, unit=HOSTILE),), reason=HOSTILE),
        ),
        base=sessions[0], new=sessions[1], sentence=HOSTILE, notes=(HOSTILE,),
        gate=Gate(passed=False, exit_code=6, checks=(check,), ok=0),
        conditions=(RunCondition(name=HOSTILE, base=(HOSTILE,), new=(HOSTILE,), affects=None, sentence=HOSTILE),),
    )  # fmt: skip
    page = comparison_page(hostile)
    outline = Outline(page)
    assert outline.open == []
    assert "img" not in outline.tags
    assert outline.tags.count("script") == 1
    assert not any(name.startswith("on") for _, name, _ in outline.attributes)
    assert "\x1b" not in page
    assert "\u202e" not in page


NUMBERS = st.sampled_from([None, 0.0, 1.0, -1.0, 1e-300, 1e300, math.nan, math.inf, -math.inf])


@bounded(max_examples=10)
@given(st.tuples(*[NUMBERS] * 8))
def test_no_number_breaks_the_page(numbers: tuple[float | None, ...]) -> None:
    base, new, ratio, low, high, effect, counted, gained = numbers
    interval = Interval(low, high) if low is not None and high is not None else None
    time = structs.replace(SLOWER, base_s=base, new_s=new, ratio=ratio, interval=interval, base_cycles=base, noise=low)
    odd = structs.replace(count("instructions", 1.0, 2.0), base=counted, new=new, ratio=ratio)
    went = FindingChange(
        id="0.r", word="went", rule="r", severity="low", base="b", new="", promised=high, gained=gained
    )
    item = change(
        time=time, effect_s=effect, effect=effect, findings=(went,), work=WorkChange(verdict="more", counts=(odd,)),
        lines=(LineChange(file="f", base_line=1, new_line=None, text="", what="local", base=base, new=new),),
    )  # fmt: skip
    total = QuantityChange(name="gpu-time", unit="s", base=base, new=new, ratio=ratio, verdict="unclear")
    page = comparison_page(compared_of(item, total=(total,)))
    assert Outline(page).open == []
    assert "--p:nan" not in page
    assert "--c:nan" not in page


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("no Chromium")
    with Browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


def test_tags_are_balanced_ids_unique_every_link_leads_somewhere_and_limits_keep_their_order() -> None:
    page = comparison_page(rich())
    outline = Outline(page)
    assert outline.open == []
    assert len(outline.ids) == len(set(outline.ids))
    inner = {link[1:] for link in outline.links if link.startswith("#")}
    assert {"row-0", "kernel-0"} <= inner <= set(outline.ids)
    assert all(link.startswith(("#", "data:,")) for link in outline.links)
    scopes = [value for tag, name, value in outline.attributes if (tag, name) == ("th", "scope")]
    assert len(scopes) == outline.tags.count("th")
    assert "old.ncu-rep" in page and "ab" * 32 in page
    checks = [
        value
        for block in whole_comparison(rich()).blocks
        if isinstance(block, Facts)
        for name, value in block.rows
        if name in ("regression", "unclear", "accepted") and isinstance(value, Cell)
    ]
    assert checks[0].href == "kernel-0"
    assert [check.text.split(": ")[0] for check in checks] == [
        "kernel_0, third:1%", "kernel_0, second:1%", "kernel_0, first:1%"
    ]  # fmt: skip


def test_a_page_stays_small_for_many_kernels_and_long_names() -> None:
    sessions = [session(kernel(0, {"fp32": 1e9}, {"dram": 4e8}, label="f" * 15_000)) for _ in range(2)]
    named = compared_of(change(label="f" * 15_000), base=sessions[0], new=sessions[1])
    assert len(comparison_page(named)) < 150_000
    compared = of_runs(many(200), many(200, 1.5))
    page = comparison_page(compared)
    assert len(page.encode()) < 1_000_000 and Outline(page).ids.count("row-199") == 1
    figure = compared_roofline(compared)
    assert 0 < len(figure.arrows) <= 8
    assert sum(bool(point.key) for point in figure.points) <= 8
    assert len({point.kernel for point in figure.points}) <= 100


@pytest.mark.browser
def test_a_browser_shows_the_page_without_scrolling_sideways_in_any_colours_and_without_scripts(
    browser: Browser, tmp_path: Path
) -> None:
    path = tmp_path / "page.html"
    path.write_text(comparison_page(rich()))
    for width, dark in ((420, False), (1000, True), (1400, False)):
        browser.open(path, width=width, dark=dark)
        assert browser.run("document.documentElement.scrollWidth") == width
        assert browser.messages() == []
        requests = [event for event in browser.events if event.get("method") == "Network.requestWillBeSent"]
        assert {event["params"]["request"]["url"] for event in requests} == {path.as_uri()}
        lowest = lowest_contrast(browser, ".word, .muted, .side, .direction, .result, .mark, small, th, td")
        assert lowest["ratio"] >= 4.5, json.dumps(lowest)
    browser.open(path, scripts=False)
    browser.send("Emulation.setScriptExecutionDisabled", value=False)
    shown = browser.run("document.body.innerText")
    for text in ("slower", "registers 40 → 72", "old.ncu-rep"):
        assert text in shown
