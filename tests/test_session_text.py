"""Facts that every presenter shares: what counts as a kernel, what is missing or zero, what to fix first."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest
from msgspec.structs import replace

from gpuprof.model.findings import Cases
from gpuprof.model.recorded import Missing
from gpuprof.model.session import KernelProfile, Session, Traffic, Work
from gpuprof.views.profile import session_page
from gpuprof.words.finding_text import gain_text
from gpuprof.words.profile_values import roof_text, row_noun, verdict_text
from gpuprof.words.recommendations import recommendation_texts
from gpuprof.words.roofline_points import without_point
from tests.hand_made import finding, kernel, session
from tests.outline import Outline
from tests.table import each_row
from tests.test_console import shown


def page_facts(read: Session, kernel_number: int | None = None) -> dict[str, str]:
    """The names and values of the page's facts: of its head, or of the section of a kernel."""
    page = session_page(read)
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


def test_what_a_rule_finds_in_several_shapes_of_a_kernel_is_one_fix() -> None:
    read = session(
        kernel(0, finding(gain=0.4, gain_total=0.2), grid=(64, 1, 1), launches=2),
        kernel(1, finding(gain=0.6, gain_total=0.25), grid=(128, 1, 1)),
        kernel(2, finding(gain=0.6, gain_total=0.1, cases=Cases(action=("else",))), label="other"),
    )
    first, second = recommendation_texts(read)
    assert (first.kernel, first.gain) == (1, "≤ 45 %") and first.bar == pytest.approx(0.45)
    assert "gather_rows" in first.name and numbers(first.spread) == [3, 100]
    assert (second.name, second.spread, second.gain) == ("#2 other", "", "≤ 10 %")
    many = session(*(kernel(number, finding(gain=0.1, gain_total=0.01), label=f"k{number}") for number in range(7)))
    (only,) = recommendation_texts(many)
    assert (numbers(only.name + only.spread), only.gain) == ([7], "≤ 7.0 %")


def test_without_durations_gains_are_of_the_kernel() -> None:
    bare: dict[str, Any] = {"gain_total": None}
    read = session(kernel(0, finding("tail-effect", 0.2, **bare), duration_s=None, time_share=None, time_total_s=None))
    (only,) = recommendation_texts(read)
    assert (only.gain, only.of, only.bar, only.after) == ("≤ 20 %", "of the kernel", 0.2, "")
    unknown = session(kernel(0, finding("launch-gaps", None, severity="low")))
    assert [(item.gain, item.bar) for item in recommendation_texts(unknown)] == [("–", None)]


# One finding


@each_row(
    ("changes", "bound", "shares"),
    [
        ({}, True, [30, 15]),
        ({"gain_total": 0.3}, True, [30]),
        # Half of the fixes save 41 to 76 % of such a gain: 12 to 23 % of the time.
        ({"gain_kind": "conditional", "held": "the same instructions"}, False, [23, 30, 15]),
        ({"gain_kind": "conditional", "held": "the same instructions", "severity": "info"}, False, [30, 15]),
        ({"gain_kernel": None, "gain_total": 0.2}, True, [20]),
        ({"gain_kernel": None, "gain_total": 0.2, "gain_kind": "conditional"}, False, [20]),
        ({"gain_kernel": None, "gain_total": None, "gain_kind": None}, False, []),
        ({"gain_kernel": 0.0}, False, []),
    ],
)
def test_at_most_is_said_of_bounds_alone(changes: dict[str, Any], bound: bool, shares: list[float]) -> None:
    text = gain_text(finding(**changes))
    assert (text.startswith("at most"), percents(text)) == (bound, shares)


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
    assert "no ceiling" in Outline(session_page(session(known))).texts


@each_row(("target", "level", "is_above"), [
    ("fp32", "dram", True), ("fp32", "l2", True), ("dram", "dram", True), ("l2", "dram", False), ("l2", "l2", True),
])  # fmt: skip
def test_a_rate_above_its_ceiling_is_no_percentage(target: str, level: str, is_above: bool) -> None:
    gap = Missing(f"roofline.{target}", "1.30 PFLOP/s are 94 times 13.8 TFLOP/s", "profile it again")
    made = replace(with_work(1e6, 1e6), missing=(VECTORS, gap))
    assert (without_point(made, level) == gap) is is_above
    read = session(made)
    for text in (roof_text(made), shown(read), " ".join(Outline(session_page(read)).texts)):
        assert ("impossible" in text) is (target != "l2")
