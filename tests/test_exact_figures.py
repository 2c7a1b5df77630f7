"""Figures are as exact as the report, and evidence that names a metric has the value of that metric."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuprof._version import __version__
from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.hardware_finder import HardwareFinder
from gpuprof.model.analyse import analyse
from gpuprof.model.quantities import NO_CLOCKS, first_counted
from gpuprof.model.recorded import DictMetrics, Metric, printed_rounding
from gpuprof.model.session import Evidence, KernelProfile
from gpuprof.model.stalls import stall_breakdown
from gpuprof.read.ncu_text import read_ncu_text
from gpuprof.recordings import Recording, recordings
from gpuprof.words.profile_values import issue_text, shared_text
from tests import builders
from tests.cli import gpuprof
from tests.kernels import made, pipes, stall_metric
from tests.readings import report_of, unpacked
from tests.table import each_row
from tests.worded import diagnose

_ISSUED, _ISSUED_PERCENT = (
    "smsp__issue_active.avg.per_cycle_active", "smsp__issue_active.avg.pct_of_peak_sustained_active",
)  # fmt: skip
_EXECUTED = "smsp__inst_executed.avg.per_cycle_active"
_SECTION = """
  kernel(float *) (64, 1, 1)x(128, 1, 1), Context 1, Stream 7, Device 0, CC 8.0
    Section: Scheduler Statistics
    ---------------------------- ----------- ------------
    Metric Name                  Metric Unit Metric Value
    ---------------------------- ----------- ------------
    One or More Eligible                   %{percent:>13}
    Issued Warp Per Scheduler               {warps:>13}
    Eligible Warps Per Scheduler         warp         0.03
    ---------------------------- ----------- ------------
"""


def printed(percent: str, warps: str) -> KernelFacts:
    """A launch of which a text has issued warps as a percentage and per cycle."""
    text = _SECTION.format(percent=percent, warps=warps)
    analysis = analyse([read_ncu_text(text, "log.txt", "0" * 64)], builders.hardware_of, "1")
    return KernelFacts(analysis.session.kernels[0], analysis.recorded[0])


@each_row(
    ("percent", "warps", "issued", "metric"),
    [
        ("2.96", "0.03", 0.0296, _ISSUED_PERCENT),
        ("0.27", "0.00", 0.0027, _ISSUED_PERCENT),
        ("25.3", "0.25", 0.253, _ISSUED_PERCENT),
        # A number in full comes first.
        ("25.3", "0.2534", 0.2534, _ISSUED),
    ],
)
def test_issue_slots_are_of_the_value_with_most_digits(percent: str, warps: str, issued: float, metric: str) -> None:
    facts = printed(percent, warps)
    assert facts.issue_active == pytest.approx(issued)
    (evidence,) = facts.issue_evidence()
    assert evidence.metric == metric
    assert evidence.value == pytest.approx(100 * issued)


def test_digits_that_a_text_does_not_have_are_not_written() -> None:
    assert "0.03 eligible" in issue_text(printed("2.96", "0.03").kernel)


@each_row(
    ("number", "digits", "rounding"), [(0.03, 1, 1 / 6), (2.96, 3, 0.005 / 2.96), (0.0, 0, 1.0), (3.0, None, 0.0)]
)
def test_what_a_printed_number_can_be_off(number: float, digits: int | None, rounding: float) -> None:
    assert printed_rounding(number, digits) == pytest.approx(rounding)


def test_another_definition_is_no_more_exact_value_of_a_quantity() -> None:
    # Executed instructions are not issued ones.
    table = {_ISSUED: Metric(0.03, "", digits=1), _EXECUTED: Metric(0.0287, "", digits=3)}
    chain = builders.a100().arch.counters["scheduler.issue-active"]
    counted = first_counted(chain, "scheduler.issue-active", DictMetrics(table), NO_CLOCKS)
    assert counted is not None and counted.metrics == (_ISSUED,)


def test_the_whole_of_some_stall_reasons_is_of_the_most_exact_issue_slots() -> None:
    # 4 warps ÷ 0.0296 issued per cycle: a warp takes 135 cycles per instruction, and 27 of them are a fifth.
    table = {
        stall_metric("long_scoreboard"): Metric(27.0, "inst"),
        "smsp__warps_active.avg.per_cycle_active": Metric(4.0, "warp"),
        _ISSUED: Metric(0.03, "", digits=1),
        _ISSUED_PERCENT: Metric(2.96, "%", digits=3),
    }
    (stall,) = stall_breakdown(DictMetrics(table), builders.a100().arch).stalls
    assert stall.share == pytest.approx(27 / (4 / 0.0296))


@each_row(
    ("suffix", "text"),
    [("pct_of_peak_sustained_active", "active cycles"), ("pct_of_peak_sustained_elapsed", "elapsed cycles")],
)
def test_pipes_of_active_cycles_are_printed_as_such(suffix: str, text: str, tmp_path: Path) -> None:
    columns = (
        f'"ID","Process ID","Kernel Name","sm__pipe_fma_cycles_active.avg.{suffix}"\n"","","","%"\n"0","1","k","40"\n'
    )
    (tmp_path / "raw.csv").write_text(columns, encoding="utf-8")
    shown = gpuprof("show", "--kernel", "#0", tmp_path / "raw.csv").stdout
    assert re.search(rf"Pipes, % of {text}\n *FMA +40 %", shown)


@each_row("active", [500.0, 1000.0])
def test_a_pipe_that_is_rescaled_to_elapsed_cycles_is_not_shown_as_its_metric(active: float) -> None:
    metric = "sm__inst_executed_pipe_lsu.avg.pct_of_peak_sustained_active"
    cycles = {"sm__cycles_active.avg": active, "sm__cycles_elapsed.max": 1000.0}
    analysis = analyse([builders.report(builders.launch({metric: 80.0, **cycles}))], builders.hardware_of, "1")
    (evidence,) = KernelFacts(analysis.session.kernels[0], analysis.recorded[0]).l1_evidence()
    assert evidence.value == pytest.approx(80.0 * active / 1000.0)
    expected = (metric, "unit-busy") if active == 1000.0 else ("", "unit-busy-of-elapsed")
    assert (evidence.metric, evidence.role) == expected


def test_a_pipe_of_active_cycles_keeps_its_value_and_its_name() -> None:
    profile = made(pipes(fma=40.0)).profile()
    (pipe,) = profile.pipes
    assert (pipe.metric, pipe.fraction) == ("sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_elapsed", 0.4)


@each_row(
    ("shared", "driver", "text"),
    [
        (32768, 1024, "32 KiB + 1 KiB for the driver"),
        (0, 1024, "0 B"),
        (32768, 0, "32 KiB"),
        (None, None, "not collected"),
    ],
)
def test_shared_memory_is_shown_with_what_the_driver_adds(shared: int | None, driver: int | None, text: str) -> None:
    values = {"launch__registers_per_thread": 32.0}
    if shared is not None:
        values |= {"launch__shared_mem_per_block_static": float(shared), "launch__shared_mem_per_block_dynamic": 0.0}
        values["launch__shared_mem_per_block_driver"] = float(driver or 0)
    profile = analyse([builders.report(builders.launch(values))], builders.hardware_of, "1").session.kernels[0]
    assert shared_text(profile) == text


SHARE_OF_COUNTS = frozenset((
    "stall",  # of the values of all stall reasons
    "sms-with-work",  # of the elapsed cycles
    "work-of-peak",  # of the rate that the GPU can do
    "divisions", "at-most-2-bytes",  # of the instructions of a histogram
))  # fmt: skip
"""Roles of a share whose metric is what is counted of it: no percentage, so that nobody takes it for the value."""


def evidence_of(recording: Recording) -> Iterator[tuple[Evidence, float, str]]:
    """Yield the evidence in percent that names a metric of the launch, with that metric's value and unit."""
    analysis = analyse([report_of(unpacked(recording))], HardwareFinder(None), __version__)
    for kernel, recorded in zip(diagnose(analysis).kernels, analysis.recorded, strict=True):
        for item in _in_percent(kernel):
            metric = recorded.launch.metrics.get(item.metric)
            if metric is not None and isinstance(metric.value, float | int):
                yield item, float(metric.value), metric.unit


def _in_percent(kernel: KernelProfile) -> list[Evidence]:
    return [item for finding in kernel.findings for item in finding.evidence if item.unit == "%" and item.metric]


@each_row("recording", recordings(), ids=lambda recording: recording.place.name)
def test_evidence_in_percent_has_the_value_of_the_metric_that_it_names(recording: Recording) -> None:
    for item, value, unit in evidence_of(recording):
        if item.role in SHARE_OF_COUNTS:
            assert unit != "%"
        else:
            # Speeds of light above 100 % are written as 100 %.
            percent = value if unit == "%" else 100 * value
            assert min(100.0, item.value) == pytest.approx(min(100.0, percent), rel=1e-4), item
