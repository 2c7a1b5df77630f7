"""What every presenter tells alike: what counts as a kernel, what is missing and what is zero, what to fix first."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest
from msgspec.structs import replace

from gpuprof.diagnose.diagnose import diagnose
from gpuprof.model.analyse import analyse
from gpuprof.model.recorded import Missing
from gpuprof.model.session import KernelProfile, Occupancy, Remaining, Session, Throughput, Traffic, Work
from gpuprof.present.figures import without_point
from gpuprof.present.finding_text import cause_text, gain_text, place_text, remains_text, value_text
from gpuprof.present.fix_text import command_text, fixes, headline_text, nothing_text, unknown_text
from gpuprof.present.html import render_html
from gpuprof.present.markdown import markdown_lines
from gpuprof.present.notebook_html import notebook_html
from gpuprof.present.session_text import limit_text, occupancy_text, paths_text, roof_text, row_noun, verdict_text
from tests import builders
from tests.hand_made import finding, kernel, session
from tests.table import each_row
from tests.test_console import flat, shown
from tests.test_html import Outline


def page_facts(read: Session, kernel_number: int | None = None) -> dict[str, str]:
    """The names and values of the page's facts: of its head, or of the section of a kernel."""
    page = render_html(read)
    part = page if kernel_number is None else page.split(f'<h3 id="kernel-{kernel_number}">')[1]
    pairs = re.findall(r"<div><dt>(.*?)</dt><dd>(.*?)</dd></div>", part.split("</dl>")[0])
    return {name: html.unescape(re.sub("<[^>]*>", "", value)).replace("\u00a0", " ") for name, value in pairs}


def numbers(text: str) -> list[float]:
    """The numbers that a text names."""
    return [float(number) for number in re.findall(r"(?<![\w.])\d+(?:\.\d+)?", text)]


def percents(text: str) -> list[float]:
    """The percentages that a text names."""
    return [float(number) for number in re.findall(r"([\d.]+) %", text)]


# What is counted


def test_kernels_launches_and_launch_configurations_are_counted_apart() -> None:
    shapes = session(
        kernel(0, grid=(64, 1, 1), launches=3, time_total_s=6e-3),
        kernel(1, grid=(128, 1, 1), launches=2, time_total_s=4e-3),
    )
    assert numbers(verdict_text(shapes))[:4] == [1, 5, 2, 10.0]
    unknown = session(*(kernel(number, grid=None) for number in range(3)))
    assert numbers(verdict_text(unknown))[:3] == [1, 3, 6.00]
    assert row_noun(shapes.kernels)[0] == "launch configuration"
    assert row_noun(unknown.kernels)[0] == "launch"
    assert row_noun((kernel(0), kernel(1, label="other", launches=7))) == ("kernel", "s")


# What to fix first


def views(read: Session) -> list[str]:
    """What terminal, Markdown, notebook and page say of a session, without their markup."""
    markdown = "\n".join(markdown_lines(read, list(read.kernels), 20)).replace("\\", "").replace("**", "")
    notebook = html.unescape(re.sub("<[^>]*>", " ", notebook_html(read)))
    page = " ".join(Outline(render_html(read)).texts)
    return [flat(text) for text in (shown(read, width=200), markdown, notebook, page)]


def test_what_a_rule_finds_in_several_shapes_of_a_kernel_is_one_repair() -> None:
    read = session(
        kernel(0, finding(gain=0.4, gain_total=0.2), grid=(64, 1, 1), launches=2),
        kernel(1, finding(gain=0.6, gain_total=0.25), grid=(128, 1, 1)),
        kernel(2, finding(gain=0.6, gain_total=0.1, action="Something else"), label="other"),
    )
    first, second = fixes(read)
    assert (first.kernel.id, first.gain) == (1, "≤ 45 %") and first.bar == pytest.approx(0.45)
    assert "gather_rows" in first.kernels and numbers(first.kernels) == [2]
    assert (second.kernels, second.gain) == ("#2 other", "≤ 10 %")
    for text in views(read):
        assert "≤ 45 %" in text and first.kernels in text and "gather.cu:41" in text
    many = session(*(kernel(number, finding(gain=0.1, gain_total=0.01), label=f"k{number}") for number in range(7)))
    (only,) = fixes(many)
    assert (numbers(only.kernels), only.gain) == ([7], "≤ 7.0 %")


def test_every_view_has_the_same_repairs_in_the_same_order() -> None:
    read = session(
        kernel(
            0, finding("tail-effect", 0.2, action="A"), finding("low-occupancy", 0.9, confidence="guess", action="G")
        ),
        kernel(1, finding("small-grid", 0.5, gain_kind="fixed-work", held="the same bytes", action="B"), label="other"),
        kernel(2, finding(gain=0.8, action="S"), name="FillFunctor", label="fill", demangled="FillFunctor<float>"),
    )
    items = fixes(read)
    assert [(item.action, item.gain, bool(item.doubt)) for item in items] == [
        ("B", "~ 25 %", False), ("A", "≤ 10 %", False), ("G", "≤ 45 %", True), ("S", "≤ 40 %", True),
    ]  # fmt: skip
    for text in views(read):
        places = [text.index(item.headline, text.index("saved")) for item in items]
        assert places == sorted(places)
        assert "the same bytes" in text and all(item.doubt in text for item in items)


def test_what_is_held_in_each_of_several_kernels_decides_whether_it_is_a_bound() -> None:
    held: dict[str, Any] = {"gain_kind": "fixed-work", "held": "the same bytes"}
    mixed = session(kernel(0, finding(gain=0.2)), kernel(1, finding(gain=0.2, **held), label="other"))
    ((gain, condition),) = [(item.gain, item.held) for item in fixes(mixed)]
    assert gain == "~ 20 %" and "the same bytes" in condition
    two = session(
        kernel(0, finding(gain=0.2, **{**held, "held": "x"})), kernel(1, finding(gain=0.2, **held), label="b")
    )
    ((told,),) = [(item.held,) for item in fixes(two)]
    assert told and "the same bytes" not in told


def test_without_durations_gains_are_of_the_kernel() -> None:
    bare: dict[str, Any] = {"gain_total": None}
    read = session(kernel(0, finding("tail-effect", 0.2, **bare), duration_s=None, time_share=None, time_total_s=None))
    (only,) = fixes(read)
    assert (only.gain, only.of, only.bar, only.after) == ("≤ 20 %", "of the kernel", 0.2, "")
    unknown = session(kernel(0, finding("launch-gaps", None, severity="low")))
    assert [(item.gain, item.bar) for item in fixes(unknown)] == [("–", None)]


def test_what_is_unknown_comes_with_its_command_in_every_view() -> None:
    made = session(kernel(0, finding()))
    assert made.verdict is not None
    read = replace(made, verdict=replace(made.verdict, unknown="U.", command="ncu --set full -o again ./app"))
    for text in views(read):
        assert flat(unknown_text(read)) in text and "ncu --set full -o again " in text
    without = replace(made, verdict=replace(made.verdict, unknown="U.", command=None))
    assert (unknown_text(without), command_text(without)) == ("U.", "")
    known = replace(made, verdict=replace(made.verdict, unknown=None, command="ncu"))
    assert (unknown_text(known), command_text(known)) == ("", "")
    placeholders = replace(made.verdict, unknown="U.", command="ncu -o again …/app PROGRAM")
    told = unknown_text(replace(made, verdict=placeholders))
    assert "PROGRAM" in told and "…" in told


def test_nothing_to_repair_is_said_where_enough_is_known() -> None:
    done = session(kernel(0))
    assert nothing_text(done) and all(nothing_text(done) in text and "saved: " not in text for text in views(done))
    assert nothing_text(session(kernel(0, stalls=()))) == nothing_text(session()) == ""
    assert nothing_text(session(kernel(0, finding()))) == ""


# One finding


@each_row(
    ("changes", "bound", "shares"),
    [
        ({}, True, [30, 15]),
        ({"gain_total": 0.3}, True, [30]),
        ({"gain_kind": "fixed-work", "held": "the same instructions"}, False, [30, 15]),
        ({"gain_kernel": None, "gain_total": 0.2}, True, [20]),
        ({"gain_kernel": None, "gain_total": 0.2, "gain_kind": "fixed-work"}, False, [20]),
        ({"gain_kernel": None, "gain_total": None, "gain_kind": None}, False, []),
        ({"gain_kernel": 0.0}, False, []),
    ],
)
def test_at_most_is_said_of_bounds_alone(changes: dict[str, Any], bound: bool, shares: list[float]) -> None:
    text = gain_text(finding(**changes))
    assert (text.startswith("at most"), percents(text)) == (bound, shares)


def test_what_remains_is_told_of_the_unit_that_needs_most() -> None:
    for unit, name in (("dram", "DRAM"), ("issue", "issue slots"), ("fma", "FMA"), ("launch", "launch")):
        text = remains_text(finding(remains=(Remaining(unit, 0.62), Remaining("l2", 0.5))))
        assert name in text and percents(text) == [62]
    needs = (Remaining("dram", 0.62),)
    assert remains_text(finding()) == remains_text(finding(gain=0.0, remains=needs)) == ""
    assert remains_text(finding(remains=needs, cause="0.x")) == ""


def test_a_cause_is_to_be_repaired_first_unless_it_is_a_roof() -> None:
    symptom = finding("memory-latency", id="3.memory-latency", severity="info", cause="3.dram-bandwidth")
    texts = {}
    for severity in ("high", "info"):
        cause = finding("dram-bandwidth", id="3.dram-bandwidth", severity=severity)
        texts[severity] = cause_text(symptom, kernel(3, cause, symptom))
    assert texts["info"].endswith("#3 dram-bandwidth") and texts["high"].startswith(f"{texts['info']}: ")
    assert cause_text(symptom, kernel(3, symptom)) == cause_text(finding(), kernel(3, finding())) == ""


# Missing is not zero


VECTORS = Missing("work.fp64, work.fp32, work.fp16, work.int32", "no counter", "collect with ncu --set roofline")
IDLE = (Work("tensor.fp16", 0.0, 0.0, basis="counted"), Work("tensor.int8", 0.0, 0.0, basis="counted"))


def test_an_idle_tensor_pipe_alone_is_no_collected_work() -> None:
    read = session(kernel(0, work=IDLE, missing=(VECTORS,)))
    facts = page_facts(read)
    assert "work" not in facts["Collected"].split(", ")
    assert re.findall(r"FP\d+|INT\d+|--set \w+", facts["Not collected"]) == [
        "FP64", "FP32", "FP16", "INT32", "--set roofline",
    ]  # fmt: skip
    reason = without_point(read.kernels[0])
    assert re.findall(r"FP\d+", reason.why) == ["FP64", "FP32", "FP16"] and reason.how == VECTORS.how
    assert roof_text(read.kernels[0]) == "not collected"


def test_work_of_one_path_that_is_missing_everywhere_is_named() -> None:
    half = Missing("work.fp16", "no counter", "collect with ncu --set full")
    some = kernel(0, work=(Work("fp32", 0.0, 0.0, basis="counted"),), missing=(half,))
    facts = page_facts(session(some))
    assert "work" in facts["Collected"].split(", ")
    assert facts["Not collected"].startswith("FP16 work (") and "--set full" in facts["Not collected"]
    whole = kernel(1, work=(Work("fp32", 0.0, 0.0, basis="counted"),), label="other")
    assert "Not collected" not in page_facts(session(some, whole))
    assert "FP16" in without_point(some).why and "FP16" not in without_point(whole).why
    assert paths_text(("fp64", "fp32", "tensor.fp16", "tensor.int8")) == "FP64, FP32 and tensor work"


def with_work(flop: float, dram: float | None) -> KernelProfile:
    traffic = () if dram is None else (Traffic("dram", dram, dram * 1e3, definition="dram", basis="counted"),)
    return kernel(0, work=(Work("fp32", flop, flop * 1e3, basis="counted"),), traffic=traffic)


def test_a_roof_that_is_not_known_is_not_called_uncollected() -> None:
    known = with_work(1e6, 1e6)
    assert roof_text(known) == "no ceiling known"
    assert roof_text(with_work(1e6, 0.0)) == "no traffic"
    assert roof_text(with_work(0.0, 1e6)) == "no FLOP"
    assert roof_text(with_work(1e6, None)) == "not collected"
    assert "n/c" not in shown(session(known))
    assert "no ceiling known" in Outline(render_html(session(known))).texts


@each_row(
    ("times", "told", "fact"),
    [
        ((0.5, 2.0), "2 equal launches, 2.50 s in all, 500 ms to 2.00 s each", [2.00, 500, 500, 2.00, 2.00]),
        ((1.0, 3.0, 2.0), "3 equal launches, 6.00 s in all, 1.00 s to 3.00 s each", [2.00, 1.00, 3.00, 3.00]),
        ((None, 2.0), "2 equal launches, 2.00 s in all, 1 of them timed", [2.00]),
    ],
)
def test_the_figures_of_a_group_are_those_of_its_median_launch(
    times: tuple[float | None, ...], told: str, fact: list[float]
) -> None:
    every = [builders.launch({"gpu__time_duration.sum": time} if time is not None else {}) for time in times]
    read = diagnose(analyse([builders.report(*every)], builders.hardware_of, "1", one_of_a_kind=True))
    text = flat(shown(read))
    assert numbers(told) == numbers(text[text.index("equal launches") - 2 :])[: len(numbers(told))]
    durations = page_facts(read, read.kernels[0].id)["Duration"]
    assert [float(value) for value in re.findall(r"([\d.]+) m?s", durations)][: len(fact)] == fact


def test_what_tells_rows_of_one_name_and_grid_apart_stands_in_them() -> None:
    def read(*launches: tuple[float, float]) -> Session:
        every = [
            builders.launch({
                "gpu__time_duration.sum": 1.0,
                "launch__registers_per_thread": registers,
                "launch__shared_mem_per_block_static": shared,
                "launch__shared_mem_per_block_dynamic": 0.0,
            })
            for registers, shared in launches
        ]  # fmt: skip
        return diagnose(analyse([builders.report(*every)], builders.hardware_of, "1", one_of_a_kind=True))

    builds = read((50, 0), (80, 0))
    assert "# kernel grid×block registers time" in flat(shown(builds))
    assert {"64×256, 50 registers", "64×256, 80 registers"} <= set(Outline(render_html(builds)).texts)
    assert "# kernel grid×block shared time" in flat(shown(read((50, 0), (50, 4096))))
    assert "registers time" not in flat(shown(read((50, 0), (50, 0))))


@each_row(
    ("occupancy", "shares"),
    [
        (Occupancy(0.5, 0.4, ("registers",)), [40, 50]),
        (Occupancy(0.5, None, ("registers",)), [50]),
        (Occupancy(None, 0.4, ()), [40]),
        (Occupancy(0.25, 0.252, ()), [25, 25]),
        (Occupancy(0.25, 0.49, ()), [49, 25]),
        (Occupancy(None, None, ()), []),
    ],
)
def test_occupancy_is_told_as_far_as_it_is_known(occupancy: Occupancy, shares: list[float]) -> None:
    text = occupancy_text(occupancy)
    assert percents(text) == shares
    assert ("registers" in text) is bool(occupancy.limiters)
    assert ("disagree" in text) is (shares == [49, 25])


def test_values_and_places_are_short() -> None:
    assert (value_text(24_144.0, "B"), value_text(1.27e12, "B/s")) == ("23.6 KiB", "1.27 TB/s")
    place = finding().location
    assert place is not None
    assert place_text(replace(place, file="C:\\src\\a.cu")) == "a.cu:41"
    assert place_text(replace(place, line=None)) == "LDG.E R2, [R4]"
    assert place_text(replace(place, line=None, sass=None)) == place_text(None) == ""
    # An L1 that was recorded over active cycles alone is no limit.
    busy = (Throughput("memory", 0.996), Throughput("sm", 0.07), Throughput("l1", 0.999, "of active cycles"))
    assert limit_text(kernel(0, throughput=busy)) == "Memory 99.6 %"
    long = session(kernel(0, finding(headline="89 % of sectors, 2.90 TB/s"), label="a" * 300))
    assert headline_text(long).startswith("a" * 48 + "…" + "a" * 23 + " ")
    assert headline_text(replace(long, verdict=None)) == headline_text(session()) == ""
    page = render_html(long)
    assert "89\u00a0%" in page and "2.90\u00a0TB/s" in page
