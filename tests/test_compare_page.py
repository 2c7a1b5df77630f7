"""The page of a comparison: what it says, in which order, that it is safe and complete, and how a browser shows it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as bounded
from hypothesis import strategies as st
from msgspec import structs
from msgspec.structs import replace

from gpuprof.comparison.compare import Compared, compare
from gpuprof.comparison.contract import (
    ChangeCause,
    CountChange,
    FindingChange,
    Gate,
    GateCheck,
    GateWord,
    Interval,
    KernelChange,
    LineChange,
    QuantityChange,
    RunCondition,
    TimeChange,
    WorkChange,
)
from gpuprof.comparison.pair import Pair
from gpuprof.comparison.sides import Run, Side, side_of
from gpuprof.model.session import CodeLine, Excerpt, LineWork, Session, Stall
from gpuprof.present.compare_figure import compared_figure
from gpuprof.present.compare_page.build import comparison_page
from gpuprof.present.compare_page.contents import contents_of
from gpuprof.present.compare_page.parts import span_of, span_reach
from tests.chromium import CHROMIUM, Browser, lowest_contrast
from tests.real_sessions import loaded
from tests.table import each_row
from tests.test_figures import BANDWIDTHS, HOSTILE, PEAKS, kernel, session
from tests.test_html import Outline

SLOWER = TimeChange(
    verdict="slower", base_s=1e-3, new_s=1.2e-3, ratio=1.2, interval=Interval(1.15, 1.25), base_cycles=1e6,
    new_cycles=1.2e6, cycles_ratio=1.2, cycles_interval=Interval(1.15, 1.25), base_runs=10, new_runs=10,
    base_launches=10, new_launches=10, noise=0.008, noise_source="medians of 10 runs",
)  # fmt: skip
SAME = structs.replace(SLOWER, verdict="same", new_s=1e-3, ratio=1.0, interval=Interval(0.99, 1.01), new_cycles=1e6,
                       cycles_ratio=1.0, cycles_interval=Interval(0.99, 1.01))  # fmt: skip
NO_WORK = WorkChange(verdict="same", counts=())


def count(name: str, base: float | None, new: float | None, unit: str = "inst", **fields: object) -> CountChange:
    """A count of both sides, judged as exact."""
    ratio = new / base if base and new is not None else None
    word = "same" if base == new else "more" if (new or 0.0) > (base or 0.0) else "less"
    every = {
        "name": name, "unit": unit, "base": base, "new": new, "ratio": ratio, "word": word, "tolerance": 0.001,
        "data_dependent": False, "metric": f"{name}__sum",
    }  # fmt: skip
    return CountChange(**{**every, **fields})  # type: ignore[arg-type]


def change(number: int = 0, label: str = "kernel_0", time: TimeChange = SLOWER, **fields: object) -> KernelChange:
    """A change of a kernel by hand."""
    every = {
        "id": number, "label": label, "match": "exact", "base": (), "new": (), "sentence": f"{time.verdict} by 20 %",
        "time": time, "work": NO_WORK, "causes": (), "lines": (), "findings": (), "effect_s": 2e-4, "effect": 0.1,
    }  # fmt: skip
    return KernelChange(**{**every, **fields})  # type: ignore[arg-type]


def compared_of(
    *changes: KernelChange,
    base: Session | None = None,
    new: Session | None = None,
    sentence: str = "GPU time 2.00 → 2.40 ms (+20 %).",
    **fields: object,
) -> Compared:
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
    base, new = (tuple(item for item in side.kernels if item.speaker.label == label) for side in sides)
    return Pair("exact" if base and new else "new" if new else "gone", base, new)


@cache
def two_kernels(factor: float = 1.0) -> Session:
    """Two kernels, the first of them so many times slower."""
    return session(
        kernel(0, {"fp32": 1e9}, {"dram": 4e8}, duration_s=1e-3 * factor),
        kernel(1, {"fp32": 1e9}, {"dram": 4e7}, duration_s=1e-3),
    )


def many(number: int, factor: float = 1.0) -> Session:
    """Kernels of which every tenth is so many times slower."""
    kernels = [
        kernel(
            index,
            {"fp32": 1e7 * (1 + index % 37)},
            {"dram": 1e6 * (1 + index % 53)},
            duration_s=1e-3 * (1 + index % 11) * (factor if index % 10 == 0 else 1.0),
        )
        for index in range(number)
    ]
    return session(*kernels)


def of_runs(base: Session | None, new: Session | None) -> Compared:
    """What the comparison itself makes of two sessions; None: a side without a file."""
    sides = [[Run(name, read)] if read is not None else [] for name, read in (("a", base), ("b", new))]
    return compare(sides[0], sides[1], "0.1.0")


def texts(page: str) -> str:
    return " ".join(Outline(page).texts)


def rich() -> Compared:
    """A comparison with all that a page can show."""
    went = FindingChange(
        word="went", rule="uncoalesced-global", severity="high", base="Uncoalesced loads", new="", promised=0.31,
        gained=0.2, location="mlp.cu:41",
    )  # fmt: skip
    cause = ChangeCause(
        mechanism="occupancy", sentence="registers 40 → 72, occupancy 75 % → 50 %", direction="slower",
        certainty="counted", location="mlp.cu:88",
    )  # fmt: skip
    line = LineChange(
        file="mlp.cu", base_line=80, new_line=88, text="  acc += a[i];", what="local", base=0.0, new=1.2e7
    )
    first = change(
        work=WorkChange(verdict="more", counts=(count("dram-bytes", 2e9, 3e9, "B"), count("registers", 40.0, 40.0))),
        causes=(cause,), findings=(went,), lines=(line,),
    )  # fmt: skip
    limits: tuple[tuple[str, GateWord], ...] = (
        ("first:1%", "accepted"),
        ("second:1%", "unclear"),
        ("third:1%", "regression"),
    )
    checks = tuple(
        GateCheck(limit=limit, kernel=0, word=word, change=0.2, sentence=f"said of {limit}") for limit, word in limits
    )
    condition = RunCondition(
        name="clock-control", base="base", new="none", affects="time", sentence="Lock the clocks on both sides."
    )
    total = QuantityChange(name="gpu-time", unit="s", base=2e-3, new=2.4e-3, ratio=1.2, verdict="slower")
    return compared_of(
        first,
        change(1, "kernel_1", SAME, effect_s=0.0, effect=0.0),
        gate=Gate(passed=False, exit_code=6, checks=checks, ok=4),
        conditions=(condition,),
        total=(total,),
        notes=("Both sides are of one program.",),
    )


def test_parts_come_in_the_order_of_what_a_reviewer_asks() -> None:
    page = comparison_page(rich())
    places = [
        page.index(f'id="{name}"')
        for name in ("gate", "conditions", "total", "kernels", "roofline", "details", "provenance", "glossary")
    ]
    assert places == sorted(places)
    assert page.index("GPU time 2.00") < places[0]
    assert "Both sides are of one program." in page


def test_tags_are_balanced_ids_unique_and_every_link_leads_somewhere() -> None:
    outline = Outline(comparison_page(rich()))
    assert outline.open == []
    assert len(outline.ids) == len(set(outline.ids))
    inner = {link[1:] for link in outline.links if link.startswith("#")}
    assert inner <= set(outline.ids)
    assert {"row-0", "kernel-0"} <= inner
    assert all(link.startswith(("#", "data:,")) for link in outline.links)
    scopes = [value for tag, name, value in outline.attributes if (tag, name) == ("th", "scope")]
    assert len(scopes) == outline.tags.count("th")


def test_the_limits_that_failed_come_first_and_lead_to_their_kernel() -> None:
    gate = contents_of(rich()).gate
    assert gate is not None
    assert [row.limit for row in gate.rows] == ["third:1%", "second:1%", "first:1%"]
    assert gate.text == "Gate failed: 1 regression, 1 unclear, 1 accepted; 4 checks hold."
    assert gate.rows[0].href == "#kernel-0"


def test_a_condition_says_which_verdict_it_forbids() -> None:
    said = contents_of(rich()).conditions[0]
    assert (said.name, said.base, said.new, said.affects) == ("Clock control", "base", "none", "no verdict on time")


def test_total_has_both_values_with_bars_in_proportion() -> None:
    total = contents_of(rich()).total[0]
    assert (total.name, total.base, total.new, total.change) == ("GPU time", "2.00 ms", "2.40 ms", "+20 %")
    assert (total.base_bar, total.new_bar) == ("83.33", "100")


def test_a_row_has_both_verdicts_the_cause_and_the_effect_on_the_run() -> None:
    row = contents_of(rich()).table.rows[0]
    assert (row.time, row.change, row.interval) == ("slower", "+20 %", "+15 % to +25 %")
    assert (row.work, row.work_what) == ("more", "DRAM bytes +50 %")
    assert (row.effect.text, row.effect_share) == ("+200 µs", "+10 %")
    assert row.why == "registers 40 → 72, occupancy 75 % → 50 %"


def test_the_span_is_a_logarithmic_place_around_no_change() -> None:
    reach = math.log(2.0)
    halved = structs.replace(SLOWER, ratio=0.5, interval=Interval(0.5, 1.0))
    span = span_of(halved, reach)
    assert span is not None
    assert (span.low, span.high, span.middle) == ("0", "50", "0")
    assert span_of(structs.replace(SLOWER, ratio=None), reach) is None


def test_an_unclear_kernel_says_what_would_settle_it() -> None:
    unclear = structs.replace(SLOWER, verdict="unclear", reason="the interval holds no change", runs_needed=12)
    page = contents_of(compared_of(change(time=unclear)))
    assert page.table.rows[0].needs == "Time: the interval holds no change. 12 runs a side would settle it."
    told = structs.replace(
        unclear, reason="so few runs do not show the noise; with what is assumed of it, −18 % to +2 %"
    )
    page = contents_of(compared_of(change(time=told)))
    assert page.table.rows[0].needs == "Time: so few runs do not show the noise. 12 runs a side would settle it."
    assert page.sections == (), "its work is the same"


def test_the_verdict_is_the_beginning_of_the_sentence_and_said_once() -> None:
    faster = structs.replace(SLOWER, verdict="faster")
    section = contents_of(compared_of(change(time=faster, sentence="1.8x faster: FP64 21 → 9 GFLOP"))).sections[0]
    assert (section.verdict, section.sentence) == ("1.8x faster", ": FP64 21 → 9 GFLOP")
    section = contents_of(compared_of(change(time=faster, sentence="launched more often"))).sections[0]
    assert (section.verdict, section.sentence) == ("faster", "launched more often")


def test_where_the_causes_stand_below_the_verdict_has_its_size_in_their_place() -> None:
    cause = ChangeCause(mechanism="x", sentence="registers 40 → 72", direction="slower", certainty="counted")
    item = change(sentence="slower by 20 %: registers 40 → 72", causes=(cause,))
    section = contents_of(compared_of(item)).sections[0]
    assert section.verdict == "slower by 20 %"
    assert section.sentence == ": 1.00 → 1.20 ms (+20 %; +15 % to +25 % at 99 %), +10 % of the base's GPU time."


def test_a_total_that_is_the_same_is_told_once_and_not_drawn() -> None:
    launches = QuantityChange(name="launches", unit="count", base=5.0, new=5.0, ratio=1.0, verdict="same")
    (row,) = contents_of(compared_of(change(), total=(launches,))).total
    assert (row.name, row.both) == ("Launches per run", "5")


def test_of_a_kernel_on_one_side_there_is_a_section_where_something_was_counted() -> None:
    gone = change(match="gone", time=structs.replace(SLOWER, verdict="gone", new_s=None, ratio=None, interval=None))
    counted = session(kernel(0, {"fp32": 1e9}, {"dram": 4e8}))
    timed = session(structs.replace(kernel(0), throughput=(), roofline=()))
    empty = session(kernel(5, {"fp32": 1e9}, {"dram": 4e7}))
    assert len(contents_of(compared_of(gone, base=counted, new=empty)).sections) == 1
    assert contents_of(compared_of(gone, base=timed, new=empty)).sections == ()


def test_the_verdict_on_the_whole_begins_like_a_sentence() -> None:
    assert contents_of(compared_of(change(), sentence="no verdict on time")).verdict == "No verdict on time"


def test_a_huge_change_does_not_flatten_all_other_spans() -> None:
    huge = structs.replace(SLOWER, ratio=1e6, interval=None)
    assert span_reach([change(), change(1, time=huge)]) == math.log(4.0)


def test_kernels_without_a_change_are_folded_when_there_are_many() -> None:
    changes = [change(number, "kernel_0", SLOWER if number < 2 else SAME) for number in range(40)]
    table = contents_of(compared_of(*changes)).table
    assert [row.id for row in table.rows] == [0, 1]
    assert len(table.folded) == 38
    assert table.folded_title == "38 more kernels, time and work the same"


def test_few_kernels_are_all_open() -> None:
    table = contents_of(rich()).table
    assert ([row.id for row in table.rows], table.folded) == ([0, 1], ())


def test_changed_counters_have_both_values_with_unit_change_and_tolerance() -> None:
    section = contents_of(rich()).sections[0]
    assert [(row.name, row.base, row.new, row.change, row.tolerance) for row in section.counts] == [
        ("DRAM bytes", "2.00 GB", "3.00 GB", "+50 %", "±0.10 %")
    ]
    assert [(row.name, row.base) for row in section.same_counts] == [("Registers per thread", "40")]


def test_a_finding_that_went_has_what_was_promised_and_gained() -> None:
    group = contents_of(rich()).sections[0].findings[0]
    assert (group.word, group.lines[0].headline) == ("went", "Uncoalesced loads")
    assert group.lines[0].worth == "promised at most 31 %, gained 20 % of the kernel's time"
    assert group.lines[0].where == "mlp.cu:41"


def test_a_finding_that_went_while_the_kernel_slowed_down_gained_nothing() -> None:
    went = FindingChange(
        word="went", rule="low-occupancy", severity="low", base="Occupancy", new="", promised=0.1, gained=-0.05
    )
    group = contents_of(compared_of(change(findings=(went,)))).sections[0].findings[0]
    assert group.lines[0].worth == "promised at most 10 %, gained nothing, the kernel took +5.0 %"


def test_a_kernel_that_is_the_same_has_no_section() -> None:
    assert [section.id for section in contents_of(rich()).sections] == [0]


def test_more_changed_kernels_than_have_a_section_are_counted() -> None:
    page = contents_of(compared_of(*(change(number) for number in range(23))))
    assert len(page.sections) == 20
    assert page.sections_left_out == "Details are given for the 20 with most effect; 3 more changed kernels."


def test_stall_shares_are_paired_by_reason_on_one_scale() -> None:
    before = (Stall("long_scoreboard", 0.2, 2.0, family="counter"), Stall("wait", 0.4, 4.0, family="counter"))
    after = (Stall("long_scoreboard", 0.8, 8.0, family="counter"),)
    stalls = contents_of(_with(stalls=(before, after))).sections[0].stalls
    assert stalls is not None
    first, second = stalls.states
    assert (first.name, first.base, first.new, first.base_bar, first.new_bar) == (
        "Long Scoreboard", "20 %", "80 %", "25", "100",
    )  # fmt: skip
    assert (first.base_cycles, first.new_cycles) == ("2.00", "8.00")
    assert (second.name, second.base, second.new, second.new_bar) == ("Wait", "40 %", "0 %", "0")


def test_stalls_of_two_families_are_not_paired() -> None:
    sampled = (Stall("wait", 1.0, None, family="sampled"),)
    counted = (Stall("wait", 1.0, 1.0, family="counter"),)
    stalls = contents_of(_with(stalls=(sampled, counted))).sections[0].stalls
    assert stalls is not None
    assert stalls.states == ()
    assert stalls.note == "Not paired: base is from PC samples, new is from hardware counters."


def _with_change(item: KernelChange) -> Compared:
    """A comparison of one kernel on both sides, with this change."""
    return compared_of(item, base=session(kernel(0)), new=session(kernel(0)))


def _with(**fields: tuple[object, object]) -> Compared:
    """A comparison whose first kernel has these fields on the base and on the new side."""
    sides = []
    for side in (0, 1):
        plain = kernel(0, {"fp32": 1e9}, {"dram": 4e8})
        sides.append(session(structs.replace(plain, **{name: values[side] for name, values in fields.items()})))
    return compared_of(change(), base=sides[0], new=sides[1])


def lines_of(*code: str, start: int = 10) -> tuple[LineWork, ...]:
    return tuple(
        LineWork(file="/src/mlp.cu", number=start + place, text=text, instructions=1e6, local=None, samples=None)
        for place, text in enumerate(code)
    )


def test_source_stands_side_by_side_with_what_is_new_marked() -> None:
    before = lines_of("  for (;;) {", "    sum += a[i];", "  }")
    after = lines_of("  // tile", "  for (;;) {", "    sum += a[i] * 2;", "  }")
    table = contents_of(_with(lines=(before, after))).sections[0].code[0]
    seen = [
        (row.base.number if row.base else None, row.new.number if row.new else None, row.changed) for row in table.rows
    ]
    assert seen == [(None, "10", True), ("10", "11", False), ("11", "12", True), ("12", "13", False)]
    assert (table.title, table.weight) == ("mlp.cu", "Instr.")
    assert table.rows[2].base is not None
    assert table.rows[2].base.text == "  sum += a[i];", "the indentation that all lines share goes"


def test_what_a_line_gained_stands_beside_it() -> None:
    gain = LineChange(file="/x/mlp.cu", base_line=10, new_line=10, text="a", what="local", base=0.0, new=12.0)
    pages = compared_of(
        change(lines=(gain,)),
        base=session(kernel(0, {"fp32": 1e9}, {"dram": 4e8}, lines=lines_of("a"))),
        new=session(kernel(0, {"fp32": 1e9}, {"dram": 4e8}, lines=lines_of("a"))),
    )
    section = contents_of(pages).sections[0]
    assert section.code[0].rows[0].gains == ("+12 local accesses",)
    assert section.lines == (), "the source shows it"


def test_lines_without_source_beside_each_other_are_a_list() -> None:
    gain = LineChange(file="/x/mlp.cu", base_line=10, new_line=12, text="a", what="local", base=4.0, new=12.0)
    (row,) = contents_of(_with_change(change(lines=(gain,)))).sections[0].lines
    assert (row.place, row.gain) == ("mlp.cu:10 → 12", "+8 (+200 %)")


def test_source_on_one_side_alone_is_said_to_lack_on_the_other() -> None:
    section = contents_of(_with(lines=((), lines_of("a")))).sections[0]
    assert section.code == ()
    assert section.code_note.startswith("Source: not collected on the base side")


def test_a_file_of_thousands_of_lines_is_aligned_in_part_and_the_rest_counted() -> None:
    base, new = ([f"{name}{place}();" if place % 2 else "__syncwarp();" for place in range(3000)] for name in "ab")
    (code,) = contents_of(_with(lines=(lines_of(*base), lines_of(*new)))).sections[0].code
    assert len(code.rows) == 60 and code.left_out == 2940


def test_source_of_excerpts_is_aligned_where_no_line_was_counted() -> None:
    excerpt = Excerpt(
        language="source", file="a.cu", weight="samples",
        lines=(CodeLine(number=7, pc=None, text="x = y;", share=0.5, stalls=()),),
    )  # fmt: skip
    table = contents_of(_with(excerpts=((excerpt,), (excerpt,)))).sections[0].code[0]
    row = table.rows[0]
    assert (table.weight, row.base and row.base.weight, row.changed) == ("Samples", "50 %", False)


def test_the_figure_leads_an_arrow_from_the_hollow_base_point_to_the_filled_new_one() -> None:
    figure = compared_figure(rich())
    (arrow,) = figure.arrows
    assert (arrow.base.side, arrow.base.hollow, arrow.new.side, arrow.new.hollow) == ("base", True, "new", False)
    assert arrow.base.flop_per_s == pytest.approx(1e12)
    assert arrow.new.flop_per_s == pytest.approx(1e9 / 1.2e-3)
    assert [point.caption for point in figure.points if point.main] == ["kernel_0, slower by 20 %"]
    assert [point.kernel for point in figure.points if point.faint] == [1, 1]


def test_ceilings_of_one_gpu_are_drawn_once_and_those_of_two_apart() -> None:
    assert {roof.origin for roof in compared_figure(rich()).roofs} == {"at-clock"}
    other = structs.replace(
        two_kernels(),
        ceilings=tuple(structs.replace(item, value=item.value * 2) for item in two_kernels().ceilings),
        devices=(structs.replace(two_kernels().devices[0], name="NVIDIA Other GPU"),),
    )
    figure = compared_figure(compared_of(change(), base=two_kernels(), new=other))
    assert {(roof.id, roof.style, roof.value) for roof in figure.roofs} == {
        ("base/dram", "dashed", BANDWIDTHS["dram"]),
        ("base/fp32", "dashed", PEAKS["fp32"]),
        ("new/dram", "solid", 2 * BANDWIDTHS["dram"]),
        ("new/fp32", "solid", 2 * PEAKS["fp32"]),
    }
    assert any("dashed is base (NVIDIA Test GPU), solid is new (NVIDIA Other GPU)" in note for note in figure.notes)


def test_a_kernel_without_a_point_is_counted_with_its_reason() -> None:
    bare = session(kernel(0), kernel(1, {"fp32": 1e9}, {"dram": 4e7}))
    figure = compared_figure(compared_of(change(), change(1, "kernel_1"), base=bare, new=bare))
    assert "Not drawn: 1 of 2 kernels: work not collected." in figure.notes


def test_of_many_kernels_only_those_that_changed_have_arrows_and_labels() -> None:
    figure = compared_figure(of_runs(many(300), many(300, 1.5)))
    assert 0 < len(figure.arrows) <= 8
    assert sum(point.main for point in figure.points) <= 8
    assert len({point.kernel for point in figure.points}) <= 100


def test_the_page_names_the_files_and_their_hashes() -> None:
    page = comparison_page(rich())
    assert "old.ncu-rep" in page
    assert "ab" * 32 in page, "the hash of a file"


def test_hostile_names_and_sentences_are_text() -> None:
    sessions = [session(kernel(0, {"fp32": 1e9}, {"dram": 4e8}, label=HOSTILE)) for _ in range(2)]
    bad = FindingChange(word="came", rule=HOSTILE, severity="low", base="", new=HOSTILE, promised=None, gained=None)
    line = LineChange(file=HOSTILE, base_line=1, new_line=2, text=HOSTILE, what=HOSTILE, base=1.0, new=2.0)
    cause = ChangeCause(mechanism="x", sentence=HOSTILE, direction="slower", certainty="guess", location=HOSTILE)
    check = GateCheck(limit=HOSTILE, kernel=0, word="regression", change=math.nan, sentence=HOSTILE, accepted=HOSTILE)
    hostile = compared_of(
        change(
            label=HOSTILE, sentence=HOSTILE, findings=(bad,), lines=(line,), causes=(cause,),
            work=WorkChange(verdict="more", counts=(count(HOSTILE, 1.0, 2.0, HOSTILE),), reason=HOSTILE),
        ),
        base=sessions[0], new=sessions[1], sentence=HOSTILE, notes=(HOSTILE,),
        gate=Gate(passed=False, exit_code=6, checks=(check,), ok=0),
        conditions=(RunCondition(name=HOSTILE, base=HOSTILE, new=HOSTILE, affects=None, sentence=HOSTILE),),
    )  # fmt: skip
    page = comparison_page(hostile)
    outline = Outline(page)
    assert outline.open == []
    assert "img" not in outline.tags
    assert outline.tags.count("script") == 1
    assert not any(name.startswith("on") for _, name, _ in outline.attributes)
    assert "\x1b" not in page
    assert "\u202e" not in page


def test_a_name_of_fifteen_thousand_characters_does_not_swell_the_page() -> None:
    sessions = [session(kernel(0, {"fp32": 1e9}, {"dram": 4e8}, label="f" * 15_000)) for _ in range(2)]
    page = comparison_page(compared_of(change(label="f" * 15_000), base=sessions[0], new=sessions[1]))
    assert len(page) < 150_000


NUMBERS = st.sampled_from([None, 0.0, 1.0, -1.0, 1e-300, 1e300, math.nan, math.inf, -math.inf])


@bounded(max_examples=40)
@given(st.tuples(*[NUMBERS] * 8))
def test_no_number_breaks_the_page(numbers: tuple[float | None, ...]) -> None:
    base, new, ratio, low, high, effect, counted, gained = numbers
    interval = Interval(low, high) if low is not None and high is not None else None
    time = structs.replace(SLOWER, base_s=base, new_s=new, ratio=ratio, interval=interval, base_cycles=base, noise=low)
    odd = structs.replace(count("instructions", 1.0, 2.0), base=counted, new=new, ratio=ratio)
    went = FindingChange(word="went", rule="r", severity="low", base="b", new="", promised=high, gained=gained)
    item = change(
        time=time, effect_s=effect, effect=effect, findings=(went,), work=WorkChange(verdict="more", counts=(odd,)),
        lines=(LineChange(file="f", base_line=1, new_line=None, text="", what="local", base=base, new=new),),
    )  # fmt: skip
    total = QuantityChange(name="gpu-time", unit="s", base=base, new=new, ratio=ratio, verdict="unclear")
    page = comparison_page(compared_of(item, total=(total,)))
    assert Outline(page).open == []
    assert "--p:nan" not in page
    assert "--c:nan" not in page


@each_row("sides", [(None, None), (None, 2), (2, None)])
def test_an_empty_side_is_said_to_be_empty(sides: tuple[int | None, int | None]) -> None:
    base, new = (many(side) if side is not None else None for side in sides)
    page = comparison_page(of_runs(base, new))
    assert Outline(page).open == []
    assert "No file." in texts(page)
    if sides == (None, None):
        assert "No kernel on either side." in texts(page)


def test_the_same_file_twice_is_the_same_everywhere() -> None:
    page = contents_of(of_runs(two_kernels(), two_kernels()))
    assert page.chart is not None
    assert page.chart.svg is not None
    assert not any(row.work in ("more", "less", "changed") for row in page.table.rows)
    assert {row.effect.text for row in page.table.rows} == {"0 s"}


def test_a_page_of_five_hundred_kernels_stays_below_a_megabyte_and_a_half() -> None:
    page = comparison_page(of_runs(many(500), many(500, 1.4)))
    assert len(page.encode()) < 1_500_000
    assert Outline(page).ids.count("row-499") == 1


def test_a_kernel_that_is_gone_has_one_column_and_no_arrow() -> None:
    item = change(match="gone", time=structs.replace(SLOWER, verdict="gone", new_s=None, ratio=None, interval=None))
    gone = compared_of(item, base=two_kernels(), new=session(kernel(1, {"fp32": 1e9}, {"dram": 4e7})))
    section = contents_of(gone).sections[0]
    assert (section.one_sided, section.stalls, section.code_note) == ("gone", None, "")
    assert compared_figure(gone).arrows == ()
    assert [point.caption for point in compared_figure(gone).points if point.main] == ["kernel_0, gone"]


def test_several_kernels_of_a_side_are_named_and_the_longest_speaks() -> None:
    split = session(kernel(0, {"fp32": 1e9}, {"dram": 4e8}), kernel(1, {"fp32": 1e9}, {"dram": 4e7}, duration_s=9e-3))
    whole = compared_of(change(), base=split, new=two_kernels())
    pair = replace(whole.pairs[0], base=whole.base.kernels, match="fused")
    facts = contents_of(replace(whole, pairs=(pair,))).sections[0].facts
    assert (facts[0].name, facts[0].base, facts[0].new) == ("Kernels", "kernel_1, kernel_0", "kernel_0")


def real_pair(reports: Path, base: str, new: str) -> Compared:
    runs = [[Run(str(reports / name), loaded(reports / name))] for name in (base, new)]
    return compare(runs[0], runs[1], "0.1.0")


@pytest.fixture
def divisions(reports: Path) -> Compared:
    """The pair of reports in which divisions became multiplications."""
    return real_pair(reports, "gpu_workshop-MW_Baseline.ncu-rep", "gpu_workshop-MW_DivToMult.ncu-rep")


def test_the_changed_line_of_a_real_pair_is_marked(divisions: Compared) -> None:
    section = contents_of(divisions).sections[0]
    marked = {row.base.number: (row.base.text, row.new.text) for row in section.code[0].rows
              if row.base and row.new and row.changed}  # fmt: skip
    assert "/12" in marked["288"][0]
    assert "0.0833" in marked["288"][1]


def test_a_real_pair_leads_with_the_kernel_of_most_effect(divisions: Compared) -> None:
    page = contents_of(divisions)
    assert page.table.rows[0].label.text == "compute_tendencies_x_279_gpu"
    assert page.table.rows[0].effect.text == "−2.71 ms"
    assert page.sections[0].counts[0].name == "Instructions"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("no Chromium")
    with Browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@each_row("width", [420, 1000, 1400])
def test_the_page_never_scrolls_sideways_and_reports_nothing(browser: Browser, tmp_path: Path, width: int) -> None:
    path = tmp_path / "page.html"
    path.write_text(comparison_page(rich()))
    browser.open(path, width=width)
    assert browser.run("document.documentElement.scrollWidth") == width
    assert browser.messages() == []
    requests = [event for event in browser.events if event.get("method") == "Network.requestWillBeSent"]
    assert [event["params"]["request"]["url"] for event in requests] == [path.as_uri()]


def test_everything_can_be_read_without_the_script(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(comparison_page(rich()))
    browser.open(path, scripts=False)
    browser.send("Emulation.setScriptExecutionDisabled", value=False)
    shown = browser.run("document.body.innerText")
    for text in ("Gate failed", "slower", "registers 40 → 72", "gained 20", "old.ncu-rep"):
        assert text in shown


def test_the_table_sorts_by_the_change_and_filters_by_a_word(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(comparison_page(rich()))
    browser.open(path)
    first = "[...document.querySelectorAll('#kernel-table tbody tr')].filter(row => !row.hidden).map(row => row.id)"
    browser.run("document.querySelector('#kernel-table th.change button').click()")
    assert browser.run(first) == ["row-0", "row-1"]
    browser.run("document.querySelector('#kernel-table th.change button').click()")
    assert browser.run(first) == ["row-1", "row-0"]
    browser.run("document.getElementById('filter').focus()")
    browser.type("registers")
    assert browser.run(first) == ["row-0"]


def test_a_point_can_be_reached_by_keyboard_and_shows_its_row(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(comparison_page(rich()))
    browser.open(path)
    browser.press("Tab")
    browser.run("document.querySelector('a[data-kernel=\"1\"]').focus()")
    assert "kernel_1" in browser.run("document.getElementById('readout').innerText")


@each_row("dark", [False, True])
def test_texts_stand_out_from_the_background(browser: Browser, tmp_path: Path, dark: bool) -> None:
    path = tmp_path / "page.html"
    path.write_text(comparison_page(rich()))
    browser.open(path, dark=dark)
    lowest = lowest_contrast(browser, ".word, .muted, .side, .direction, .result, .mark, small, th, td")
    assert lowest["ratio"] >= 4.5, json.dumps(lowest)
