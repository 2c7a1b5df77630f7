"""Why a kernel takes its time, from the top down: the tree on hand-made profiles, and that real ones are whole."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from gpuprof.diagnose.explain import STALL_MEANINGS, explain
from gpuprof.diagnose.explain_node import ExplanationNode
from gpuprof.diagnose.registry import RULES
from gpuprof.model.session import Location, Occupancy, Scheduler, Stall, Throughput
from gpuprof.recordings import recordings
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
    other = stall(explain(kernel(0, finding(location=None))), "Long Scoreboard")
    assert the(other, "line").text.startswith("gather.cu:41")
    # A place without a line is its instruction.
    place = Location(file=None, line=None, pc=0x2A0, sass="LDG.E R2, [R4]", share=None)
    line = the(the(explain(kernel(0, finding(location=place))), "finding"), "line")
    assert (line.text, line.value) == ("0x2a0  LDG.E R2, [R4]", None)
    note = explain(kernel(0, finding("dram-bandwidth", 0.0, severity="info")))
    assert of_kind(note, "finding") == [] and the(note, "note").value is None


def test_stall_reasons_come_largest_first_and_being_selected_is_none() -> None:
    tree = explain(kernel())
    names = ["Long Scoreboard", "Wait", "Barrier"]
    assert [node.text for node in of_kind(tree, "stall")][:3] == names and len(of_kind(tree, "stall")) == 4
    assert the(tree, "not-stalled").value == pytest.approx(14)
    # Warp states that were not collected are told as the rest of the time.
    some = replace(kernel(), stalls=tuple(item for item in kernel().stalls if item.reason == "long_scoreboard"))
    rest = of_kind(explain(some), "stall")[1]
    assert rest.value == pytest.approx(50) and "WarpStateStats" in rest.detail
    sampled = Stall("wait", 0.5, None, family="sampled-not-issued")
    assert stall(explain(kernel(stalls=(sampled,))), "Wait").detail != stall(stalled(wait=0.5), "Wait").detail


def test_what_warps_wait_for_is_explained_by_its_units() -> None:
    # Memory: hit rates, DRAM, and the path of the bytes.
    causes = stall(explain(kernel()), "Long Scoreboard").children
    assert [(node.value, node.kind) for node in causes[:4]] == [
        (25, "cause"), (50, "cause"), (45, "cause"), (None, "cause"),
    ]  # fmt: skip
    assert [text in causes[3].text for text in ("100 B", "75.0 B", "30.0 B")] == [True] * 3
    # Two reasons of one unit explain it once.
    tree = stalled(long_scoreboard=0.5, lg_throttle=0.3)
    assert stall(tree, "Long Scoreboard").children[0].kind == "cause" and stall(tree, "LG Throttle").children == ()
    causes = stall(stalled(mio_throttle=0.9), "MIO Throttle").children
    assert [node.value for node in causes] == [40, 5, None] and "2 KiB" in causes[2].text
    causes = stall(stalled(math_pipe_throttle=0.9), "Math Pipe Throttle").children
    assert ["ALU" in node.text for node in causes] == [True, False] and "FMA" in causes[1].text
    assert stall(stalled(no_instruction=0.9), "No Instruction").children[0].value == 2.5
    (cause, line) = stall(explain(kernel()), "Barrier").children
    assert cause.value == 8 and "250 threads" in cause.text
    assert (line.text, line.value) == ("gather.cu:42  __syncthreads();", 20) and "90 %" in line.detail


def test_bytes_that_pass_by_l1_are_told_as_they_are() -> None:
    l1, l2, dram = kernel().traffic
    tree = explain(kernel(traffic=(replace(l1, bytes=1e3), replace(l2, bytes=2e6), replace(dram, bytes=1e6))))
    paths = [node.text for node in of_kind(tree, "cause") if "1.00 kB" in node.text]
    assert len(paths) == 1 and "2.00 MB" in paths[0] and "1.00 MB" in paths[0]
    none = explain(kernel(traffic=(replace(l1, bytes=None), l2, dram)))
    assert not any("30.0 B" in node.text for node in of_kind(none, "cause"))


PLACES = [
    ("dram-bandwidth", "stall", "Long Scoreboard"),
    ("dependency-latency", "stall", "Wait"),
    ("barrier-wait", "stall", "Barrier"),
    ("shared-bank-conflict", "unit", None),
    ("tensor-cores-idle", "unit", None),
    ("low-occupancy", "warps", None),
    ("latency-bound", "issue", None),
    ("branch-divergence", "issue", None),
    ("short-kernel", "kernel", None),
    ("a-rule-of-tomorrow", "kernel", None),
]


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


def test_the_speed_of_units_and_issue_slots_is_told() -> None:
    full = Scheduler(issue_active=0.9, eligible_warps=3.0, active_warps=12.0, warp_slots=16.0)
    issue = the(explain(kernel(scheduler=full)), "issue")
    assert issue.value == pytest.approx(90) and [node.kind for node in issue.children[:3]] == ["cause"] * 3
    # Memory as a whole speaks for a part without a figure.
    units = (Throughput("sm", 0.1), Throughput("memory", 0.97), Throughput("l2", 0.1))
    assert the(explain(kernel(throughput=(*units, Throughput("l1", 0.99, "of active")))), "unit").value == 97


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


def test_missing_hit_rates_and_pipes_are_named_where_they_would_stand() -> None:
    traffic = tuple(replace(moved, hit_rate=None) for moved in kernel().traffic)
    stalls = tuple(
        Stall(reason, part, None, family="counter")
        for reason, part in (("long_scoreboard", 0.5), ("short_scoreboard", 0.4))
    )
    tree = explain(kernel(traffic=traffic, pipes=(), stalls=stalls, throughput=()))
    texts = [node.text for node in of_kind(stall(tree, "Long Scoreboard"), "missing")]
    assert [text.partition(" ")[0] for text in texts] == ["L1", "L2", "DRAM"]
    assert the(stall(tree, "Short Scoreboard"), "missing").text == "pipes"


def test_what_a_text_export_left_out_may_be_in_the_report() -> None:
    tree = explain(kernel(stalls=(), excerpts=()), from_text=True)
    assert of_kind(tree, "missing") == []
    details = [node.detail for node in of_kind(tree, "left-out")]
    assert any(".ncu-rep" in detail and "--section WarpStateStats" in detail for detail in details)


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

    def plain(node: ExplanationNode) -> dict[str, object]:
        return {
            "kind": node.kind, "text": node.text, "value": node.value, "unit": node.unit, "detail": node.detail,
            "children": [plain(child) for child in node.children],
        }  # fmt: skip

    (profile,) = [kernel for kernel in session_of(report).kernels if kernel.id == 1]
    assert document["tree"] == plain(explain(profile))
    for more in (["--kernel", "x"], ["--format", "csv"], ["--format", "md"]):
        assert run("show", "--explain", "x", *more, "report.ncu-rep").returncode == 2
