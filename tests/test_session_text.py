"""What every presenter says alike: what counts as a kernel, what is missing and what is zero, what to fix first."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from gpuprof.diagnose.priorities import fix_first
from gpuprof.diagnose.ranking import ranking
from gpuprof.model.recorded import Missing
from gpuprof.model.session import KernelProfile, Occupancy, Session, Throughput, Traffic, Work
from gpuprof.present.figures import overview, without_point
from gpuprof.present.finding_text import CONFIDENCE_WORDS, diagnosis_sentence, fix_first_note, found_in, value_text
from gpuprof.present.html import render_html
from gpuprof.present.markdown import markdown_lines
from gpuprof.present.notebook_html import notebook_html
from gpuprof.present.session_text import limit_text, occupancy_text, paths_text, roof_text, row_noun, verdict_text
from tests import hand_made
from tests.cli import gpuprof as run
from tests.hand_made import finding, kernel
from tests.readings import shown_session_of
from tests.test_console import flat, shown
from tests.test_html import Outline


def session(*kernels: KernelProfile) -> Session:
    """A session whose ranking is the product's."""
    return replace(hand_made.session(*kernels), ranking=ranking(kernels))


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


def test_a_kernel_in_two_launch_shapes_is_one_kernel_and_two_launch_shapes_everywhere() -> None:
    assert verdict_text(SHAPES) == (
        "1 kernel takes all of 10.0 ms of GPU time profiled in 5 launches (2 launch shapes) "
        "on an NVIDIA A100 80GB PCIe."
    )
    assert overview(SHAPES).subtitle.startswith("0 of 2 launch shapes drawn")
    assert "1 more launch shape not shown" in "\n".join(markdown_lines(SHAPES, list(SHAPES.kernels), 1))
    text = " ".join(Outline(render_html(SHAPES, top=1)).texts)
    assert "A row is a kernel in one launch shape, or a launch whose shape is not known." in text
    assert "Sections are given for the launch shapes with most time; 1 launch shape more in 2 launches" in text


def test_launches_of_unknown_shape_are_called_launches() -> None:
    assert verdict_text(LAUNCHES).startswith("1 kernel takes all of 6.00 ms of GPU time profiled in 3 launches on ")
    assert overview(LAUNCHES).subtitle.startswith("0 of 3 launches drawn")
    assert "2 more launches not shown" in "\n".join(markdown_lines(LAUNCHES, list(LAUNCHES.kernels), 1))


def test_kernels_of_different_names_are_called_kernels() -> None:
    assert row_noun((kernel(0), kernel(1, label="other", launches=7))) == ("kernel", "s")


@pytest.mark.parametrize(
    ("name", "verdict", "rows"),
    [
        ("hyper-spec-m-profile.ncu-rep", "profiled in 8 launches (2 launch shapes)", "2 launch shapes"),
        ("sglang-profile.ncu-rep", "profiled in 4 launches (2 launch shapes)", "3 launch shapes"),
        ("csv/bert-torch-details.csv", "9 of 12 kernels take 91 % of 178 µs of GPU time profiled in 26 launches on",
         "26 launches"),
        ("gpu_workshop-MW_Baseline.ncu-rep", "of 5 kernels take", "5 kernels"),
    ],
)  # fmt: skip
def test_real_reports_count_alike_in_terminal_and_page(reports: Path, name: str, verdict: str, rows: str) -> None:
    done = run("show", reports / name)
    assert verdict in flat(done.stdout)
    assert f" of {rows}, #" in done.stderr
    subtitle = overview(shown_session_of(reports / name)).subtitle
    assert f"{rows} drawn" in subtitle


# What to fix first


def test_what_a_rule_finds_in_several_shapes_of_a_kernel_is_one_entry() -> None:
    read = session(
        kernel(0, finding(gain=0.4, gain_total=0.2), grid=(64, 1, 1), launches=2),
        kernel(1, finding(gain=0.6, gain_total=0.25), grid=(128, 1, 1)),
        kernel(2, finding(gain=0.6, gain_total=0.1), label="other"),
    )
    first, second = fix_first(read)
    assert (first.kernel.id, first.shapes) == (1, 2)
    assert first.gain_total == pytest.approx(0.45)
    assert (found_in(first, read), found_in(second, read)) == ("in 2 launch shapes", "")
    assert diagnosis_sentence(read).endswith("It can save at most 45 % of the run, in 2 launch shapes.")
    assert "≤ 45 % headline of uncoalesced-global #1 gather_rows, in 2 launch shapes, uncoalesced-global, measured" in (
        flat(shown(read))
    )
    assert "**≤ 45 %** headline of uncoalesced-global – gather\\_rows (kernel 1, in 2 launch shapes, " in (
        "\n".join(markdown_lines(read, list(read.kernels), 20))
    )
    assert "≤ 45 %" in notebook_html(read) and "in 2 launch shapes" in notebook_html(read)
    assert ", in 2 launch shapes" in " ".join(Outline(render_html(read)).texts)


def test_many_small_gains_of_one_kernel_count_together() -> None:
    small = [kernel(number, finding(gain=0.4, gain_total=0.004), grid=(number + 1, 1, 1)) for number in range(50)]
    read = session(*small, kernel(99, finding(gain=0.5, gain_total=0.1), label="other"))
    assert [(item.kernel.label, item.shapes) for item in fix_first(read)] == [("gather_rows", 50), ("other", 1)]


def test_a_rule_that_speaks_twice_of_a_kernel_has_two_entries() -> None:
    twice = kernel(0, finding(headline="a", gain_total=0.2), finding(headline="b", gain_total=0.1))
    assert [(item.finding.headline, item.shapes) for item in fix_first(session(twice))] == [("a", 1), ("b", 1)]


def test_kernels_of_two_reports_are_not_added_up() -> None:
    read = session(kernel(0, finding()), kernel(1, finding(), source=1))
    read = replace(read, sources=(*read.sources, replace(read.sources[0], file="other.ncu-rep")))
    assert [item.shapes for item in fix_first(read)] == [1, 1]


def test_without_durations_entries_keep_the_order_of_the_ranking() -> None:
    bare: dict[str, object] = {"gain_total": None}
    read = session(
        kernel(0, finding("tail-effect", 0.2, severity="low", **bare)),
        kernel(1, finding("small-grid", 0.1, **bare), label="other"),
        kernel(2, finding("tail-effect", 0.3, severity="low", **bare)),
    )
    assert [(item.finding.rule, item.shapes, item.gain) for item in fix_first(read)] == [
        ("small-grid", 1, 0.1),
        ("tail-effect", 2, 0.3),
    ]
    assert fix_first_note(fix_first(read)) == "at most this much of its kernel; by gain and how sure it is"


def test_a_real_kernel_of_198_launches_has_each_rule_once(reports: Path) -> None:
    first = fix_first(shown_session_of(reports / "csv" / "interpolate-with-program-output.csv"))
    assert len({item.finding.rule for item in first}) == len(first) > 1
    assert all(item.shapes > 40 for item in first)
    whole = sum(item.gain_total or 0.0 for item in first)
    assert 0.3 < whole < 1


def test_page_and_markdown_say_what_fix_first_is_ordered_by() -> None:
    read = session(kernel(0, finding()))
    for text in (" ".join(Outline(render_html(read)).texts), "\n".join(markdown_lines(read, list(read.kernels), 20))):
        assert "by gain and how sure it is" in text


def test_a_guess_is_not_proved() -> None:
    assert CONFIDENCE_WORDS["guess"] == "a guess: the report does not prove it"


def test_sizes_of_memories_are_binary_in_evidence_as_in_facts() -> None:
    assert value_text(24_144.0, "B") == "23.6 KiB"
    assert value_text(1.27e12, "B/s") == "1.27 TB/s"


def test_a_real_kernel_has_one_size_of_shared_memory(reports: Path) -> None:
    text = flat(run("show", reports / "nukexc-profile.ncu-rep", "--kernel", "Kokkos").stdout)
    assert "23.6 KiB shared memory" in text and "shared memory a block: 23.6 KiB" in text


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


@pytest.mark.parametrize("name", ["nukexc-profile.ncu-rep", "hyper-spec-m-profile.ncu-rep", "csv/rtx5090-details.csv"])
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
    assert roof_text(known) == "no roof known"
    assert roof_text(with_work(1e6, 0.0)) == "no traffic"
    assert roof_text(with_work(0.0, 1e6)) == "no FLOP"
    assert roof_text(with_work(1e6, None)) == "not collected"
    text = shown(session(known))
    assert "no roof: work and traffic are known, the GPU's peak rates are not" in text and "n/c" not in text
    assert "no roof known" in Outline(render_html(session(known))).texts


def test_an_unknown_architecture_has_no_name(reports: Path) -> None:
    read = shown_session_of(reports / "csv" / "bert-torch-details.csv")
    (gap,) = (gap for gap in read.kernels[0].missing if gap.what == "peak.fp32")
    assert gap.why == "no rate of fp32 is known for this GPU, whose architecture is not known"
    assert {roof_text(one) for one in read.kernels} == {"no roof known", "no traffic", "no FLOP"}


def test_a_grid_of_unknown_shape_may_have_a_known_number_of_blocks(reports: Path) -> None:
    read = shown_session_of(reports / "csv" / "bert-torch-details.csv")
    facts = page_facts(read, 18)
    assert (facts["Grid"], facts["Block"]) == ("shape not collected, 0.07 waves", "shape not collected")
    assert "launch grid and block shape not collected, 118 registers" in flat(shown(read, read.kernels[18:19]))


def test_equal_launches_without_durations_are_told_in_whole_phrases(reports: Path) -> None:
    read = shown_session_of(reports / "darknet-profile.nsight-cuprof-report")
    facts = page_facts(read, 0)
    assert (facts["Duration"], facts["Occupancy"]) == ("not collected", "100 % theoretical, achieved not collected")
    assert "launches 7 equal launches; figures are of the first" in flat(shown(read))


@pytest.mark.parametrize(
    ("occupancy", "text"),
    [
        (Occupancy(0.5, 0.4, ("registers",)), "40 % achieved of 50 % theoretical, limited by registers"),
        (Occupancy(0.5, None, ("registers",)), "50 % theoretical, achieved not collected, limited by registers"),
        (Occupancy(None, 0.4, ()), "40 % achieved, theoretical not known"),
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
    assert "memory as a whole" in text and "an L1 that was recorded of active cycles only is left out" in text
