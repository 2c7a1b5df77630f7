"""Pages of a text with other metrics of the same launches: they are put together, and nothing else is."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from gpuprof.api import load
from gpuprof.model.analyse import analyse
from gpuprof.model.pages import with_pages_together
from gpuprof.model.recorded import Launch, Report
from tests import builders

TIME, L1, LSU = "gpu__time_duration.sum", "l1tex__throughput.avg.pct_of_peak_sustained_elapsed", "sm__pipe_lsu.avg"
REGISTERS = "launch__registers_per_thread"

TEXT = """\
scale(float *, int) (128, 128, 1)x(16, 16, 1), Context 1, Stream 7, Device 0, CC 8.6
    Section: GPU Speed Of Light Throughput
    ----------------------- ----------- ------------
    Metric Name             Metric Unit Metric Value
    ----------------------- ----------- ------------
    Memory Throughput                 %        91.20
    DRAM Throughput                   %        20.10
    Duration                         ms        10.00
    L1/TEX Cache Throughput           %        91.20
    Compute (SM) Throughput           %        91.10
    ----------------------- ----------- ------------

some words in between

scale(float *, int) (128, 128, 1)x(16, 16, 1), Context 1, Stream 7, Device 0, CC 8.6
    Section: Command line profiler metrics
    ------------------------------------------------------------ ----------- ------------
    Metric Name                                                  Metric Unit Metric Value
    ------------------------------------------------------------ ----------- ------------
    sm__inst_executed_pipe_lsu.avg.pct_of_peak_sustained_active            %        91.30
    ------------------------------------------------------------ ----------- ------------
"""


def text_of(*launches: Launch) -> Report:
    return replace(builders.report(*launches), kind="ncu-text")


def test_pages_of_one_launch_are_one_launch_in_every_view(tmp_path: Path) -> None:
    path = tmp_path / "pages.txt"
    path.write_text(TEXT)
    session = load(path)
    (kernel,) = session.kernels
    assert kernel.duration_s == 0.01 and [(pipe.name, pipe.fraction) for pipe in kernel.pipes] == [("lsu", 0.913)]
    assert len(session.sources[0].warnings) == 1


def test_the_first_launch_of_a_page_is_the_first_of_each_other() -> None:
    every = [{TIME: 1.0, REGISTERS: 40}, {TIME: 2.0, REGISTERS: 40}, {L1: 10.0, REGISTERS: 40}, {L1: 20.0}]
    launches = [builders.launch(values) for values in every]
    report = with_pages_together(text_of(*launches, builders.launch({TIME: 3.0}, name="other")))
    assert [launch.name for launch in report.launches] == ["kernel", "kernel", "other"]
    first, second, _ = report.launches
    assert (first.metrics.number(TIME), first.metrics.number(L1), second.metrics.number(L1)) == (1.0, 10.0, 20.0)
    assert "2 launches" in report.warnings[-1]
    assert [kernel.id for kernel in analyse([report], builders.hardware_of, "1").session.kernels] == [0, 1, 2]


def test_what_may_be_two_launches_stays_apart() -> None:
    both_timed = builders.launch({TIME: 1.0}), builders.launch({TIME: 1.0, L1: 10.0})
    two_builds = builders.launch({TIME: 1.0, REGISTERS: 40}), builders.launch({L1: 1.0, REGISTERS: 48})
    which_of_two = builders.launch({TIME: 1.0}), builders.launch({TIME: 2.0}), builders.launch({L1: 1.0})
    apart: list[tuple[Launch, ...]] = [
        both_timed,
        two_builds,
        which_of_two,
        (builders.launch({TIME: 1.0}), builders.launch({L1: 1.0}, name="other")),
        (builders.launch({TIME: 1.0}), builders.launch({L1: 1.0}, block=(128, 1, 1))),
        (builders.launch({TIME: 1.0}, block=None), builders.launch({L1: 1.0}, block=None)),
        (builders.launch({TIME: 1.0}), builders.launch({L1: 1.0}), builders.launch({L1: 1.0, LSU: 1.0})),
        (builders.launch({}), builders.launch({})),
        (builders.launch({TIME: 1.0}), builders.launch({REGISTERS: 40})),  # the second measured nothing
    ]
    for launches in apart:
        report = text_of(*launches)
        assert with_pages_together(report) is report
    report = builders.report(builders.launch({TIME: 1.0}), builders.launch({L1: 10.0}))
    assert with_pages_together(report) is report
