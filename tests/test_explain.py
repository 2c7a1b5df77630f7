"""Why a kernel takes its time, from the top down: the tree on hand-made profiles, and that real ones are whole."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from gpuprof.diagnose.registry import RULES
from gpuprof.model.session import CodeLine, Excerpt, Location, Occupancy, Pipe, Stall
from gpuprof.recordings import recordings
from gpuprof.words.explain import STALL_MEANINGS, explain
from gpuprof.words.explain_node import ExplanationNode
from tests.cli import gpuprof as run
from tests.hand_made import finding, kernel
from tests.readings import session_of, unpacked
from tests.table import each_row


def nodes(tree: ExplanationNode) -> Iterator[ExplanationNode]:
    yield tree
    for child in tree.children:
        yield from nodes(child)


def of_kind(tree: ExplanationNode, kind: str) -> list[ExplanationNode]:
    return [node for node in nodes(tree) if node.kind == kind]


def the(tree: ExplanationNode, kind: str) -> ExplanationNode:
    (node,) = of_kind(tree, kind)
    return node


def stall(tree: ExplanationNode, name: str) -> ExplanationNode:
    return next(node for node in of_kind(tree, "stall") if node.text == name)


def stalled(**fractions: float) -> ExplanationNode:
    """The tree of a kernel whose warps wait for these reasons."""
    stalls = tuple(Stall(reason, part, None, family="counter") for reason, part in fractions.items())
    return explain(kernel(stalls=stalls))


@each_row(
    ("metric", "said"),
    [
        ("sm__inst_executed_pipe_lsu.avg.pct_of_peak_sustained_elapsed", "busy in elapsed cycles: LSU pipe"),
        ("sm__inst_executed_pipe_lsu.avg.pct_of_peak_sustained_active", "busy in active cycles: LSU pipe"),
        ("what a rule says", "busy: LSU pipe"),
    ],
)
def test_cycles_are_those_of_the_collected_metric(metric: str, said: str) -> None:
    busy = Stall("mio_throttle", 0.5, None, family="counter")
    tree = explain(kernel(stalls=(busy,), pipes=(Pipe("lsu", 0.4, metric),)))
    assert said in [node.text.partition(" (")[0] for node in of_kind(tree, "cause")]
    assert the(tree, "issue").text == "of issue slots used", "it is of elapsed cycles if a report has no more"


def test_the_tree_goes_from_issue_slots_to_warps_to_stalls_to_lines() -> None:
    tree = explain(kernel(0, finding()))
    issue = the(tree, "issue")
    assert issue in tree.children and issue.value == pytest.approx(30)
    warps = the(issue, "warps")
    assert warps in issue.children and warps.value == 0.5
    assert "9.60" in warps.text and "16 slots" in warps.text
    waiting = stall(warps, "Long Scoreboard")
    assert waiting.value == 50 and "10.0 cycles" in waiting.detail
    told = the(waiting, "finding")
    assert (told.value, told.text) == (30, "headline of uncoalesced-global")
    line = the(told, "line")
    assert line.text == "gather.cu:41  out[i] = in[j];"
    assert line.value == 62 and "60 %" in line.detail
    # A hot line is not repeated below its finding.
    assert len(of_kind(waiting, "line")) == 1


def test_stall_reasons_come_largest_first_and_being_selected_is_none() -> None:
    tree = explain(kernel())
    names = ["Long Scoreboard", "Wait", "Barrier"]
    assert [node.text for node in of_kind(tree, "stall")][:3] == names and len(of_kind(tree, "stall")) == 4
    assert the(tree, "not-stalled").value == pytest.approx(14)
    # Warp states that were not collected are reported as the rest of the time.
    some = replace(kernel(), stalls=tuple(item for item in kernel().stalls if item.reason == "long_scoreboard"))
    assert of_kind(explain(some), "stall")[1].value == pytest.approx(50)


def test_what_warps_wait_for_is_explained_by_its_units() -> None:
    # Memory: hit rates, DRAM, and the path of the bytes.
    causes = stall(explain(kernel()), "Long Scoreboard").children
    assert [(node.value, node.kind) for node in causes[:4]] == [
        (25, "cause"), (50, "cause"), (45, "cause"), (None, "cause"),
    ]  # fmt: skip
    assert [text in causes[3].text for text in ("100 B", "75.0 B", "30.0 B")] == [True] * 3
    causes = stall(stalled(mio_throttle=0.9), "MIO Throttle").children
    assert [node.value for node in causes] == [40, 5, None] and "2 KiB" in causes[2].text
    causes = stall(stalled(math_pipe_throttle=0.9), "Math Pipe Throttle").children
    assert ["ALU" in node.text for node in causes] == [True, False] and "FMA" in causes[1].text
    assert stall(stalled(no_instruction=0.9), "No Instruction").children[0].value == 2.5
    (cause, line) = stall(explain(kernel()), "Barrier").children
    assert cause.value == 8 and "250 threads" in cause.text
    assert (line.text, line.value) == ("gather.cu:42  __syncthreads();", 20) and "90 %" in line.detail


@each_row(("place", "lacks"), [(Location(file="gather.cu", line=41, pc=0x100, sass="LDG"), 0), (None, 1)])
def test_source_lines_are_missing_only_if_none_is_known(place: Location | None, lacks: int) -> None:
    lines = (CodeLine(number=None, pc=0x100, text="LDG", share=0.6, stalls=()),)
    sass = Excerpt(language="sass", file=None, weight="samples", lines=lines)
    tree = explain(kernel(0, finding(place=place), excerpts=(sass,)))
    assert [node.text for node in of_kind(tree, "missing")].count("source lines") == lacks


PLACES = [
    ("dram-bandwidth", "stall", "Long Scoreboard"), ("barrier-wait", "stall", "Barrier"),
    ("shared-bank-conflict", "unit", None), ("low-occupancy", "warps", None), ("latency-bound", "issue", None),
    ("short-kernel", "kernel", None), ("a-rule-of-tomorrow", "kernel", None),
]  # fmt: skip


def parent_of_finding(rule: str) -> ExplanationNode:
    tree = explain(kernel(0, finding(rule)))
    (parent,) = [node for node in nodes(tree) if any(child.kind == "finding" for child in node.children)]
    return parent


@each_row(("rule", "kind", "name"), PLACES)
def test_a_finding_hangs_where_it_belongs(rule: str, kind: str, name: str | None) -> None:
    parent = parent_of_finding(rule)
    assert parent.kind == kind and name in (None, parent.text)


def test_every_rule_has_its_place_in_the_tree() -> None:
    for rule in RULES:
        assert set(rule.place.reasons) <= set(STALL_MEANINGS), rule.id
        kinds = {"stall", rule.place.otherwise} if rule.place.reasons else {rule.place.otherwise}
        assert parent_of_finding(rule.id).kind in kinds, rule.id


def test_a_basic_report_says_at_each_level_what_would_collect_it() -> None:
    tree = explain(kernel(0, finding("low-occupancy"), scheduler=None, stalls=(), pipes=(), traffic=(), excerpts=()))
    details = [node.detail for node in of_kind(tree, "missing")]
    for section in ("SchedulerStats", "WarpStateStats", "SourceCounters"):
        assert any(f"--section {section}" in detail for detail in details)
    assert the(tree, "unit").value == 45 and the(tree, "occupancy").value == pytest.approx(60)
    assert the(tree, "finding").text == "headline of low-occupancy"
    empty = kernel(
        scheduler=None, stalls=(), pipes=(), traffic=(), excerpts=(), throughput=(), waves=None, block=None, grid=None,
        duration_s=None, time_share=None, occupancy=Occupancy(None, None, ()),
    )  # fmt: skip
    assert {node.kind for node in explain(empty).children} == {"missing"}


def test_every_finding_of_a_real_report_is_in_the_tree_once(real_report: Path) -> None:
    for profile in session_of(real_report).kernels:
        told = [node.text for node in nodes(explain(profile)) if node.kind in ("finding", "finding-held", "note")]
        assert sorted(told) == sorted(item.headline for item in profile.findings)


# The command.


def test_explain_prints_the_tree_of_the_longest_match() -> None:
    report = unpacked(next(recording for recording in recordings() if recording.name == "a10g-sgemm"))
    done = run("show", "--explain", "basic|shared", report, encoding="ascii")
    assert done.returncode == 0 and done.stdout.startswith("#0 ") and "#0" in done.stderr
    assert done.stdout.isascii() and max(map(len, done.stdout.splitlines())) <= 80
    done = run("show", "--explain", "#1", "--format", "json", report)
    document = json.loads(done.stdout)
    assert done.stderr == "" and document["kernel"] == 1

    tree = explain(session_of(report).kernels[1])
    assert document["tree"]["kind"] == tree.kind and len(document["tree"]["children"]) == len(tree.children)
    for more in (["--kernel", "x"], ["--format", "csv"], ["--format", "md"]):
        assert run("show", "--explain", "x", *more, "report.ncu-rep").returncode == 2
