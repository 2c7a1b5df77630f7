"""CUDA graphs that ncu profiled as one: their time is that of a replay, and is held against no time of kernels.

Recorded on an H100: four launches of a graph of three kernels, once as whole graphs and once by their nodes.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import structs

from gpuprof.comparison.compare import compare
from gpuprof.comparison.contract import Comparison, TimeDoubt
from gpuprof.comparison.pair import NamedMatch
from gpuprof.comparison.sides import Run
from gpuprof.hardware_finder import HardwareFinder
from gpuprof.model.analyse import Analysis, analyse
from gpuprof.model.recorded import WHOLE_GRAPH, Launch, Report
from gpuprof.model.run_totals import run_of
from gpuprof.model.session import Session
from gpuprof.model.surveyed import ONLY_TIMES, joined, only_timed
from gpuprof.model.time_by import time_by
from gpuprof.model.timed import GRAPH_REPLAY
from gpuprof.read.ncu_text import read_ncu_text
from gpuprof.words.profile_values import NOT_COLLECTED, share_text, verdict_text
from gpuprof.words.time_by import note_texts
from tests import builders
from tests.kernels import DURATION
from tests.readings import report_of, session_of
from tests.table import each_row
from tests.test_across import RULE, WORK, pair
from tests.worded import diagnose

GRAPHS = Path(__file__).parent / "data/gpu/nvidia-h100-80gb-hbm3/graphs"
WHOLE, NODES = GRAPHS / "graph.ncu-rep", GRAPHS / "node.ncu-rep"
REPLAYS_S, NODES_S = 766.496e-6, 34.816e-6


def analysed(*reports: Report, one_of_a_kind: bool = True) -> Analysis:
    return analyse(reports, HardwareFinder(), "1", one_of_a_kind=one_of_a_kind)


def compared(base: Session, new: Session, *named: NamedMatch) -> Comparison:
    return compare([Run("base", base)], [Run("new", new)], "1", named).comparison


@each_row("file", ["graph.ncu-rep", "graph.csv"])
def test_the_duration_of_a_whole_graph_is_that_of_a_replay(file: str) -> None:
    (graph,) = session_of(GRAPHS / file, groups=True).kernels
    assert graph.duration_source == GRAPH_REPLAY and graph.launches == 4
    assert graph.time_total_s == pytest.approx(REPLAYS_S, rel=1e-3) and graph.time_share == pytest.approx(1.0)
    assert graph.duration_percentiles_s is not None
    assert (graph.duration_percentiles_s.min, graph.duration_percentiles_s.max) == pytest.approx(
        (139.5e-6, 327.6e-6), rel=1e-3
    )


def test_nodes_are_kernels() -> None:
    kernels = session_of(NODES, groups=True).kernels
    assert {kernel.duration_source for kernel in kernels} == {"counters"}
    assert sum(kernel.time_total_s or 0.0 for kernel in kernels) == pytest.approx(NODES_S, rel=1e-3)


def test_it_is_said_once_what_the_time_of_a_graph_is() -> None:
    whole, nodes = session_of(WHOLE, groups=True), session_of(NODES, groups=True)
    assert whole.verdict is not None and nodes.verdict is not None
    assert sum("whole CUDA graph" in note for note in whole.verdict.notes) == 1
    assert not any("graph" in note for note in nodes.verdict.notes)
    assert "766 µs" in verdict_text(whole) and "GPU time" not in verdict_text(whole)


def test_a_graph_beside_kernels_has_no_share_of_their_time() -> None:
    mixed = session_of(WHOLE, NODES, groups=True)
    graph = next(kernel for kernel in mixed.kernels if kernel.duration_source == GRAPH_REPLAY)
    assert (graph.time_total_s, graph.time_share) == (None, None)
    assert graph.duration_s == pytest.approx(149.504e-6, rel=1e-3)
    others = [kernel.time_share or 0.0 for kernel in mixed.kernels if kernel is not graph]
    assert len(others) == 2 and sum(others) == pytest.approx(1.0)
    assert run_of(mixed).time_s == pytest.approx(NODES_S, rel=1e-3)
    assert "without a duration" not in verdict_text(mixed)


def test_a_graph_beside_kernels_is_not_called_untimed() -> None:
    for files, notes, replays in (((WHOLE,), 1, 4), ((WHOLE, NODES), 1, 4), ((NODES,), 0, 0)):
        mixed = session_of(*files, groups=True)
        times = time_by(mixed, mixed.kernels, "kernel")
        assert times.replays == replays and len(list(note_texts(times))) == notes
        assert not any("without a duration" in note for note in note_texts(times))
    beside = session_of(WHOLE, NODES, groups=True).kernels
    assert NOT_COLLECTED not in map(share_text, beside)


def test_the_time_of_a_graph_is_not_compared_with_that_of_nodes() -> None:
    whole, nodes = session_of(WHOLE, groups=True), session_of(NODES, groups=True)
    for base, new in ((whole, nodes), (nodes, whole)):
        found = compared(base, new)
        assert not found.alike and found.total == ()
        of_graphs, of_kernels = sorted((found.base, found.new), key=lambda side: side.launches)
        assert (of_graphs.launches, of_graphs.time_s) == (4, None)
        assert of_kernels.launches == 12 and of_kernels.time_s == pytest.approx(NODES_S, rel=1e-3)
        (reason,) = [each for each in found.conditions if each.affects == "time"]
        assert reason.name == "durations" and {*reason.base, *reason.new} == {"counters", GRAPH_REPLAY}
        assert {change.time.ratio for change in found.kernels} == {None}
        assert {(change.effect, change.effect_s) for change in found.kernels} == {(None, None)}


def test_a_graph_that_is_named_for_a_kernel_has_no_ratio_and_no_effect() -> None:
    mixed, nodes = session_of(WHOLE, NODES, groups=True), session_of(NODES, groups=True)
    for base, new in ((mixed, nodes), (session_of(WHOLE, groups=True), nodes)):
        found = compared(base, new, NamedMatch("graph", "left"))
        change = next(change for change in found.kernels if change.match == "named")
        assert change.time.base_s == pytest.approx(149.7e-6, rel=1e-3) and change.time.new_s is not None
        assert (change.time.verdict, change.time.ratio, change.time.interval) == ("unknown", None, None)
        assert change.time.doubt == TimeDoubt(kind="graph-replay") and change.effect_s is None


def test_graphs_are_compared_with_graphs() -> None:
    found = compared(session_of(WHOLE, groups=True), session_of(GRAPHS / "graph.csv", groups=True))
    assert found.alike and not any(condition.name == "durations" for condition in found.conditions)
    assert (found.base.time_s, found.new.time_s) == (None, None)
    total = found.total[0]
    assert total.name == "graph-replays" and total.base == pytest.approx(REPLAYS_S, rel=1e-3)
    assert total.ratio == pytest.approx(1.0, rel=1e-3)
    (change,) = found.kernels
    assert change.time.ratio == pytest.approx(1.0, rel=1e-3)


def test_a_survey_of_whole_graphs_keeps_what_their_times_are() -> None:
    whole = analysed(report_of(WHOLE))
    for made in (only_timed(whole, ONLY_TIMES), joined(whole, whole)):
        (graph,) = made.session.kernels
        assert graph.duration_source == GRAPH_REPLAY
    # Kernels that were surveyed are not held against graphs that were profiled, nor take their counters.
    kernels = joined(whole, analysed(report_of(NODES))).session.kernels
    assert {(kernel.duration_source, kernel.launches) for kernel in kernels} == {("survey", 8), ("survey", 4)}
    assert all(gap.what == "counters" for kernel in kernels for gap in kernel.missing)


def test_two_graphs_are_no_configurations_of_one_kernel() -> None:
    launches = [made.launch() for made in pair(WORK, WORK)]
    for kind, findings in (("kernel", 1), (WHOLE_GRAPH, 0)):
        report = builders.report(*(structs.replace(launch, kind=kind) for launch in launches))
        session = diagnose(analyse([report], builders.hardware_of, "1"))
        found = [each for kernel in session.kernels for each in kernel.findings if each.rule == RULE]
        assert len(found) == findings


@each_row(("first", "whole"), [
    ("graph, Context 1, Device 0, CC 9.0", True),
    ("graph (256, 1, 1)x(256, 1, 1), Context 1, Stream 13, Device 0, CC 9.0", False),
    ("graph(float *) (256, 1, 1)x(256, 1, 1), Context 1, Stream 13, Device 0, CC 9.0", False),
])  # fmt: skip
def test_a_graph_is_known_by_its_line_in_a_log(first: str, whole: bool) -> None:
    text = f"""  {first}
    Section: GPU Speed Of Light Throughput
    ----------------------- ----------- ------------
    Metric Name             Metric Unit Metric Value
    ----------------------- ----------- ------------
    Duration                         us       150.00
    ----------------------- ----------- ------------
"""
    (launch,) = read_ncu_text(text, "log.txt", "0" * 64).launches
    assert (launch.kind == WHOLE_GRAPH) is whole
    assert launch.metrics.number(DURATION) == pytest.approx(150e-6)


def test_a_kernel_by_the_name_of_graph_is_none() -> None:
    def source(launch: Launch) -> str | None:
        (kernel,) = analyse([builders.report(launch)], builders.hardware_of, "1").session.kernels
        return kernel.duration_source

    kernel = builders.launch(builders.FLOP_1, name="graph")
    assert source(kernel) == "counters"
    assert source(structs.replace(kernel, kind=WHOLE_GRAPH)) == GRAPH_REPLAY
    untimed = builders.launch({"launch__grid_size": 64.0}, name="graph")
    assert source(structs.replace(untimed, kind=WHOLE_GRAPH)) is None
