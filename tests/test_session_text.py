"""What every presenter says alike: what counts as a kernel, what is missing and what is zero, what to fix first."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gpuprof.diagnose.diagnose import diagnose
from gpuprof.model.analyse import analyse
from gpuprof.model.recorded import Missing
from gpuprof.model.session import KernelProfile, Occupancy, Remaining, Session, Throughput, Traffic, Work
from gpuprof.present.figures import overview, without_point
from gpuprof.present.finding_text import CONFIDENCE_WORDS, cause_text, gain_text, place_text, remains_text, value_text
from gpuprof.present.fix_text import command_text, fixes, fixes_note, headline_text, nothing_text, unknown_text
from gpuprof.present.html import render_html
from gpuprof.present.markdown import markdown_lines
from gpuprof.present.notebook_html import notebook_html
from gpuprof.present.session_text import limit_text, occupancy_text, paths_text, roof_text, row_noun, verdict_text
from tests import builders
from tests.cli import gpuprof as run
from tests.hand_made import finding, kernel, session
from tests.readings import shown_session_of
from tests.table import each_row
from tests.test_console import flat, shown
from tests.test_html import Outline


def page_facts(read: Session, kernel_number: int | None = None) -> dict[str, str]:
    """The names and values of the page's facts: of its head, or of the section of a kernel."""
    page = render_html(read)
    part = page if kernel_number is None else page.split(f'<h3 id="kernel-{kernel_number}">')[1]
    pairs = re.findall(r"<div><dt>(.*?)</dt><dd>(.*?)</dd></div>", part.split("</dl>")[0])
    return {name: html.unescape(re.sub("<[^>]*>", "", value)).replace("\u00a0", " ") for name, value in pairs}


# What is counted


SHAPES = session(
    kernel(0, grid=(64, 1, 1), launches=3, time_total_s=6e-3),
    kernel(1, grid=(128, 1, 1), launches=2, time_total_s=4e-3),
)
LAUNCHES = session(kernel(0, grid=None), kernel(1, grid=None), kernel(2, grid=None))


def test_a_kernel_in_two_launch_configurations_is_one_kernel_and_two_launch_configurations_everywhere() -> None:
    assert verdict_text(SHAPES) == (
        "1 kernel, 5 launches, 2 launch configurations: 10.0 ms of GPU time on an NVIDIA A100 80GB PCIe."
    )
    assert overview(SHAPES).subtitle.startswith("0 of 2 launch configurations drawn")
    assert "1 more launch configuration not shown" in "\n".join(markdown_lines(SHAPES, list(SHAPES.kernels), 1))
    text = " ".join(Outline(render_html(SHAPES, top=1)).texts)
    assert "A row is a kernel in one launch configuration, or a launch whose configuration is not known." in text
    listed = "Details are given for the launch configurations with most time; 1 more launch configuration in 2 launches"
    assert listed in text


def test_launches_of_unknown_shape_are_called_launches() -> None:
    assert verdict_text(LAUNCHES).startswith("1 kernel, 3 launches: 6.00 ms of GPU time on ")
    assert overview(LAUNCHES).subtitle.startswith("0 of 3 launches drawn")
    assert "2 more launches not shown" in "\n".join(markdown_lines(LAUNCHES, list(LAUNCHES.kernels), 1))


def test_kernels_of_different_names_are_called_kernels() -> None:
    assert row_noun((kernel(0), kernel(1, label="other", launches=7))) == ("kernel", "s")


@each_row(
    ("name", "verdict", "rows"),
    [
        ("hyper-spec-m-profile.ncu-rep", "1 kernel, 8 launches, 2 launch configurations: ", "2 launch configurations"),
        ("sglang-profile.ncu-rep", "1 kernel, 4 launches, 2 launch configurations: ", "3 launch configurations"),
        ("csv/bert-torch-details.csv", "9 of 12 kernels take 91 % of 178 µs of GPU time (26 launches) on",
         "26 launches"),
        ("gpu_workshop-MW_Baseline.ncu-rep", "of 5 kernels take", "5 kernels"),
    ],
)  # fmt: skip
def test_real_reports_count_alike_in_terminal_and_page(reports: Path, name: str, verdict: str, rows: str) -> None:
    done = run("show", reports / name)
    assert verdict in flat(done.stdout)
    subtitle = overview(shown_session_of(reports / name)).subtitle
    assert f"{rows} drawn" in subtitle


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
    assert (first.kernel.id, first.kernels, first.gain) == (1, "gather_rows in 2 launch configurations", "≤ 45 %")
    assert first.bar == pytest.approx(0.45)
    assert (second.kernels, second.gain) == ("#2 other", "≤ 10 %")
    for text in views(read):
        assert "≤ 45 %" in text and "gather_rows in 2 launch configurations" in text and "gather.cu:41" in text


def test_a_repair_that_helps_many_kernels_is_told_once_with_their_number() -> None:
    read = session(*(kernel(number, finding(gain=0.1, gain_total=0.01), label=f"k{number}") for number in range(7)))
    (only,) = fixes(read)
    assert (only.kernels, only.gain) == ("in 7 kernels", "≤ 7.0 %")


def test_every_view_has_the_same_repairs_in_the_same_order() -> None:
    read = session(
        kernel(
            0, finding("tail-effect", 0.2, action="A"), finding("low-occupancy", 0.9, confidence="guess", action="G")
        ),
        kernel(1, finding("small-grid", 0.5, gain_kind="fixed-work", held="the same bytes", action="B"), label="other"),
        kernel(2, finding(gain=0.8, action="S"), name="FillFunctor", label="fill", demangled="FillFunctor<float>"),
    )
    items = fixes(read)
    assert [(item.action, item.gain, item.doubt) for item in items] == [
        ("B", "~ 25 %", ""), ("A", "≤ 10 %", ""), ("G", "≤ 45 %", "a guess"), ("S", "≤ 40 %", "only sets up data"),
    ]  # fmt: skip
    for text in views(read):
        places = [text.index(item.headline, text.index("of the run saved")) for item in items]
        assert places == sorted(places)
        for words in ("with the same bytes", "a guess", "only sets up data", "→ B"):
            assert words in text or words.removeprefix("→ ") in text
        assert "Kernels that only set up data take 50 % of the time; they come last." in text


def test_what_is_held_in_one_of_several_kernels_is_held_in_part() -> None:
    held: dict[str, Any] = {"gain_kind": "fixed-work", "held": "the same bytes"}
    mixed = session(kernel(0, finding(gain=0.2)), kernel(1, finding(gain=0.2, **held), label="other"))
    assert [(item.gain, item.held) for item in fixes(mixed)] == [("~ 20 %", "in part with the same bytes")]
    two = session(
        kernel(0, finding(gain=0.2, **{**held, "held": "x"})), kernel(1, finding(gain=0.2, **held), label="b")
    )
    assert [item.held for item in fixes(two)] == ["under the condition named at each kernel"]


def test_without_durations_gains_are_of_the_kernel() -> None:
    bare: dict[str, Any] = {"gain_total": None}
    read = session(kernel(0, finding("tail-effect", 0.2, **bare), duration_s=None, time_share=None, time_total_s=None))
    (only,) = fixes(read)
    assert (only.gain, only.of, only.bar, only.after) == ("≤ 20 %", "of the kernel", 0.2, "")
    assert fixes_note(read) == "share of the kernel saved: ≤ at most"
    unknown = session(kernel(0, finding("launch-gaps", None, severity="low")))
    assert [(item.gain, item.of, item.bar) for item in fixes(unknown)] == [("–", "gain not known", None)]


def test_a_real_kernel_of_198_launches_has_each_repair_once(reports: Path) -> None:
    read = shown_session_of(reports / "csv" / "interpolate-with-program-output.csv")
    named = [(item.rule, item.action) for item in fixes(read)]
    assert len(set(named)) == len(named) >= 1


def test_the_sentence_on_the_longest_kernel_comes_before_the_spread_of_the_time() -> None:
    read = session(kernel(0, finding(), label="a" * 300))
    assert headline_text(read).startswith("a" * 48 + "…" + "a" * 23 + " ")
    for text in views(read):
        assert text.index("a" * 48 + "…") < text.index("1 kernel: 2.00 ms")
    assert headline_text(replace(read, verdict=None)) == headline_text(session()) == ""
    assert "No kernel was profiled" in shown(session())


def test_what_cannot_be_told_is_a_line_with_a_command_in_every_view() -> None:
    made = session(kernel(0, finding()))
    assert made.verdict is not None
    unknown = "The report does not show why warps stall."
    read = replace(made, verdict=replace(made.verdict, unknown=unknown, command="ncu --set full -o again ./app"))
    assert unknown_text(read) == f"{unknown} To collect what is missing:"
    for text in views(read):
        assert f"{unknown} To collect what is missing: " in text
        assert "ncu --set full -o again " in text
    without = replace(made, verdict=replace(made.verdict, unknown=unknown, command=None))
    assert (unknown_text(without), command_text(without)) == (unknown, "")
    known = replace(made, verdict=replace(made.verdict, unknown=None, command="ncu"))
    assert (unknown_text(known), command_text(known)) == ("", "")


def test_a_command_whose_folders_are_left_out_says_so() -> None:
    made = session(kernel(0, finding()))
    assert made.verdict is not None
    told = replace(made.verdict, unknown="It is not known.", command="ncu -o again …/app PROGRAM")
    assert unknown_text(replace(made, verdict=told)) == (
        "It is not known. To collect what is missing, with your command line for PROGRAM, with your folders and "
        "arguments for …:"
    )


def test_nothing_to_repair_is_said_where_enough_is_known() -> None:
    done = session(kernel(0))
    for text in views(done):
        assert "No rule found anything worth fixing." in text and "saved: " not in text
    assert nothing_text(session(kernel(0, stalls=()))) == nothing_text(session()) == ""
    assert nothing_text(session(kernel(0, finding()))) == ""


# One finding


@each_row(
    ("changes", "text"),
    [
        ({}, "at most 30 % of this kernel's time, 15 % of the run"),
        ({"gain_total": 0.3}, "at most 30 % of this kernel's time"),
        (
            {"gain_kind": "fixed-work", "held": "the same instructions"},
            "30 % of this kernel's time with the same instructions, 15 % of the run",
        ),
        ({"gain_kernel": None, "gain_total": 0.2}, "at most 20 % of the run"),
        ({"gain_kernel": None, "gain_total": 0.2, "gain_kind": "fixed-work"}, "about 20 % of the run"),
        ({"gain_kernel": None, "gain_total": None, "gain_kind": None}, "gain not known"),
        ({"gain_kernel": 0.0}, "nothing to gain by itself"),
    ],
)
def test_at_most_is_said_of_bounds_alone(changes: dict[str, Any], text: str) -> None:
    assert gain_text(finding(**changes)) == text


@each_row(
    ("unit", "text"),
    [
        ("dram", "then DRAM still needs 62 % of this kernel's time"),
        ("issue", "then the issue slots still need 62 % of this kernel's time"),
        ("fma", "then the FMA pipe still needs 62 % of this kernel's time"),
        ("launch", "then the launch itself still needs 62 % of this kernel's time"),
    ],
)
def test_what_remains_is_told_of_the_unit_that_needs_most(unit: str, text: str) -> None:
    assert remains_text(finding(remains=(Remaining(unit, 0.62), Remaining("l2", 0.5)))) == text


def test_nothing_remains_to_be_told_without_needs_or_a_gain() -> None:
    needs = (Remaining("dram", 0.62),)
    assert remains_text(finding()) == remains_text(finding(gain=0.0, remains=needs)) == ""
    assert remains_text(finding(remains=needs, cause="0.x")) == ""


def test_a_cause_is_to_be_repaired_first_unless_it_is_a_roof() -> None:
    symptom = finding("memory-latency", id="3.memory-latency", severity="info", cause="3.dram-bandwidth")
    for severity, ending in (("high", ": fix that first"), ("info", "")):
        cause = finding("dram-bandwidth", id="3.dram-bandwidth", severity=severity)
        assert cause_text(symptom, kernel(3, cause, symptom)) == f"explained by #3 dram-bandwidth{ending}"
    assert cause_text(symptom, kernel(3, symptom)) == cause_text(finding(), kernel(3, finding())) == ""


def test_a_place_is_a_line_or_an_instruction() -> None:
    place = finding().location
    assert place is not None
    assert place_text(place) == "gather.cu:41"
    assert place_text(replace(place, file="C:\\src\\a.cu")) == "a.cu:41"
    assert place_text(replace(place, line=None)) == "LDG.E R2, [R4]"
    assert place_text(replace(place, line=None, sass=None)) == place_text(None) == ""


def test_a_guess_is_not_proved() -> None:
    assert CONFIDENCE_WORDS["guess"] == "a guess, not proven by the report"


def test_sizes_of_memories_are_binary_in_evidence_as_in_facts() -> None:
    assert value_text(24_144.0, "B") == "23.6 KiB"
    assert value_text(1.27e12, "B/s") == "1.27 TB/s"


def test_a_real_kernel_has_one_size_of_shared_memory(reports: Path) -> None:
    text = flat(run("show", reports / "nukexc-profile.ncu-rep", "--kernel", "Kokkos").stdout)
    assert "23.6 KiB shared memory" in text and "shared memory per block: 23.6 KiB" in text


# Missing is not zero


VECTORS = Missing("work.fp64, work.fp32, work.fp16, work.int32", "no counter", "collect with ncu --set roofline")
IDLE = (Work("tensor.fp16", 0.0, 0.0, basis="counted"), Work("tensor.int8", 0.0, 0.0, basis="counted"))


def test_an_idle_tensor_pipe_alone_is_no_collected_work() -> None:
    read = session(kernel(0, work=IDLE, missing=(VECTORS,)))
    facts = page_facts(read)
    assert "work" not in facts["Collected"].split(", ")
    assert facts["Not collected"] == "FP64, FP32, FP16 and INT32 work (collect with ncu --set roofline)"
    reason = without_point(read.kernels[0])
    assert (reason.why, reason.how) == ("FP64, FP32 and FP16 work not collected", "collect with ncu --set roofline")
    assert roof_text(read.kernels[0]) == "not collected"


def test_work_of_one_path_that_is_missing_everywhere_is_named() -> None:
    half = Missing("work.fp16", "no counter", "collect with ncu --set full")
    some = kernel(0, work=(Work("fp32", 0.0, 0.0, basis="counted"),), missing=(half,))
    facts = page_facts(session(some))
    assert "work" in facts["Collected"].split(", ")
    assert facts["Not collected"] == "FP16 work (collect with ncu --set full)"
    whole = kernel(1, work=(Work("fp32", 0.0, 0.0, basis="counted"),), label="other")
    assert "Not collected" not in page_facts(session(some, whole))
    assert without_point(some).why == "FP16 work not collected"
    assert without_point(whole).why == "no floating-point work"


@each_row("name", ["nukexc-profile.ncu-rep", "hyper-spec-m-profile.ncu-rep", "csv/rtx5090-details.csv"])
def test_real_reports_without_work_say_so(reports: Path, name: str) -> None:
    read = shown_session_of(reports / name)
    facts = page_facts(read)
    assert "work" not in facts["Collected"].split(", ")
    assert re.match(r"FP64, FP32, FP16(,| and) INT32 .*work \(.*--set full", facts["Not collected"])
    assert "FP64, FP32" in without_point(read.kernels[0]).why
    assert "no floating-point work" not in " ".join(Outline(render_html(read)).texts)


def test_tensor_paths_are_told_as_one() -> None:
    assert paths_text(("fp32",)) == "FP32 work"
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
    text = shown(session(known))
    assert "no ceiling: work and traffic are known, the GPU's peak rates are not" in text and "n/c" not in text
    assert "no ceiling known" in Outline(render_html(session(known))).texts


def test_an_unknown_architecture_has_no_name(reports: Path) -> None:
    read = shown_session_of(reports / "csv" / "bert-torch-details.csv")
    (gap,) = (gap for gap in read.kernels[0].missing if gap.what == "peak.fp32")
    assert gap.why == "no rate of fp32 is known for this GPU, whose architecture is not known"
    assert {roof_text(one) for one in read.kernels} == {"no ceiling known", "no traffic", "no FLOP"}


def test_a_grid_of_unknown_shape_may_have_a_known_number_of_blocks(reports: Path) -> None:
    read = shown_session_of(reports / "csv" / "bert-torch-details.csv")
    facts = page_facts(read, 18)
    assert (facts["Grid"], facts["Block"]) == (
        "16 blocks, shape not collected, 0.07 waves", "256 threads, shape not collected",
    )  # fmt: skip
    text = flat(shown(read, read.kernels[18:19]))
    assert (
        "launch grid 16 blocks, shape not collected, block 256 threads, shape not collected, 118 registers per thread"
        in text
    )


def test_equal_launches_without_durations_are_told_in_whole_phrases(reports: Path) -> None:
    read = shown_session_of(reports / "darknet-profile.nsight-cuprof-report")
    facts = page_facts(read, 0)
    assert (facts["Duration"], facts["Occupancy"]) == ("not collected", "100 % theoretical, achieved not collected")
    assert "launches 7 equal launches; figures are of the first" in flat(shown(read))


def test_the_words_of_a_group_say_whose_figures_are_shown() -> None:
    def told(*times: float | None) -> tuple[str, str]:
        every = [builders.launch({"gpu__time_duration.sum": time} if time is not None else {}) for time in times]
        analysis = analyse([builders.report(*every)], builders.hardware_of, "1", one_of_a_kind=True)
        read = diagnose(analysis)
        return flat(shown(read)), page_facts(read, read.kernels[0].id)["Duration"]

    text, fact = told(0.5, 2.0)
    assert "2 equal launches, 2.50 s in all, 500 ms to 2.00 s each; figures are of one that took 2.00 s" in text
    assert fact == "2.00 s here, median 500 ms, 500 ms to 2.00 s, p95 2.00 s"
    text, fact = told(1.0, 3.0, 2.0)
    assert "3 equal launches, 6.00 s in all, 1.00 s to 3.00 s each; figures are of the median" in text
    assert fact == "2.00 s median, 1.00 s to 3.00 s, p95 3.00 s"
    text, fact = told(None, 2.0)
    assert "2 equal launches, 2.00 s in all, 1 of them timed, 2.00 s each; figures are of the median" in text


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
    ("occupancy", "text"),
    [
        (Occupancy(0.5, 0.4, ("registers",)), "40 % achieved of 50 % theoretical, limited by registers"),
        (Occupancy(0.5, None, ("registers",)), "50 % theoretical, achieved not collected, limited by registers"),
        (Occupancy(None, 0.4, ()), "40 % achieved, theoretical not known"),
        (Occupancy(0.25, 0.252, ()), "25 % achieved of 25 % theoretical"),
        (Occupancy(0.25, 0.49, ()), "49 % achieved, 25 % theoretical: the two disagree"),
        (Occupancy(None, None, ()), "achieved not collected, theoretical not known"),
    ],
)
def test_occupancy_is_told_as_far_as_it_is_known(occupancy: Occupancy, text: str) -> None:
    assert occupancy_text(occupancy) == text


def test_the_note_on_the_nearest_limit_allows_what_the_table_shows() -> None:
    busy = (Throughput("memory", 0.996), Throughput("sm", 0.07), Throughput("l1", 0.999, "of active cycles"))
    read = session(kernel(0, throughput=busy))
    assert limit_text(read.kernels[0]) == "Memory 99.6 %"
    text = " ".join(Outline(render_html(read)).texts)
    assert "memory as a whole" in text and "an L1 recorded over active cycles only is left out" in text


def test_a_figure_and_its_prefix_or_unit_stay_on_one_line() -> None:
    many_sectors = finding(headline="Uncoalesced: 89 % of sectors (28.3 M of 31.9 M), 2.90 TB/s in 3 Mouse")
    page = render_html(session(kernel(0, many_sectors)))
    assert "89\u00a0% of sectors (28.3\u00a0M of 31.9\u00a0M), 2.90\u00a0TB/s in 3 Mouse" in page
