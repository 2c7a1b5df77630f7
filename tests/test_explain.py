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
from tests.cli import gpuprof as run
from tests.hand_made import finding, kernel
from tests.readings import session_of
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


def test_the_tree_goes_from_issue_slots_to_warps_to_stalls_to_lines() -> None:
    tree = explain(kernel(0, finding()))
    issue = the(tree, "issue")
    assert issue in tree.children and issue.value == pytest.approx(30)
    warps = the(issue, "warps")
    assert warps in issue.children and warps.value == 0.5
    assert "of 9.60 active, of 16 slots" in warps.text
    waiting = stall(warps, "Long Scoreboard")
    assert waiting.value == 50 and "10.0 cycles per issue" in waiting.detail
    found = the(waiting, "finding")
    assert (found.value, found.text) == (30, "headline of uncoalesced-global")
    line = the(found, "line")
    assert line.text == "gather.cu:41  out[i] = in[j];"
    assert line.value == 62 and line.detail == "of the finding, 60 % of all samples"


def test_stall_reasons_come_largest_first_and_being_selected_is_none() -> None:
    tree = explain(kernel())
    assert [node.text for node in of_kind(tree, "stall")] == [
        "Long Scoreboard",
        "Wait",
        "Barrier",
        "other stall reasons",
    ]
    ready = the(tree, "not-stalled")
    assert ready.value == pytest.approx(14)
    assert ready.detail == "Selected 10 %, Not Selected 4.0 %"


def test_warp_states_that_were_not_collected_are_told_as_the_rest_of_the_time() -> None:
    some = replace(kernel(), stalls=tuple(stall for stall in kernel().stalls if stall.reason == "long_scoreboard"))
    rest = stall(explain(some), "of warp time in states that were not collected")
    assert rest.value == pytest.approx(50) and "WarpStateStats" in rest.detail
    assert not any("not collected" in node.text for node in of_kind(explain(kernel()), "stall"))


def test_waiting_for_memory_is_explained_by_hit_rates_dram_and_the_path_of_the_bytes() -> None:
    causes = stall(explain(kernel()), "Long Scoreboard").children
    assert [(node.value, node.kind) for node in causes[:4]] == [
        (25, "cause"), (50, "cause"), (45, "cause"), (None, "cause"),
    ]  # fmt: skip
    assert causes[3].text == "of 100 B requested from L1, 75.0 B go on to L2 and 30.0 B to DRAM"


def test_bytes_that_pass_by_l1_are_told_as_they_are() -> None:
    l1, l2, dram = kernel().traffic
    tree = explain(kernel(traffic=(replace(l1, bytes=1e3), replace(l2, bytes=2e6), replace(dram, bytes=1e6))))
    assert "1.00 kB requested from L1, 2.00 MB from L2, 1.00 MB from DRAM" in [
        node.text for node in of_kind(tree, "cause")
    ]
    none = explain(kernel(traffic=(replace(l1, bytes=None), l2, dram)))
    assert not any("requested from L1, " in node.text for node in of_kind(none, "cause"))


def test_sampled_stalls_say_that_they_are() -> None:
    tree = explain(kernel(stalls=(Stall("wait", 0.5, None, family="sampled-not-issued"),)))
    assert stall(tree, "Wait").detail.endswith("; of the samples without an issue")


def test_two_reasons_of_one_unit_explain_it_once() -> None:
    stalls = (Stall("long_scoreboard", 0.5, None, family="counter"), Stall("lg_throttle", 0.3, None, family="counter"))
    tree = explain(kernel(stalls=stalls))
    assert stall(tree, "Long Scoreboard").children[0].kind == "cause"
    assert stall(tree, "LG Throttle").children == ()


def test_the_queue_of_shared_memory_is_explained_by_its_pipes() -> None:
    tree = explain(kernel(stalls=(Stall("mio_throttle", 0.9, None, family="counter"),)))
    causes = stall(tree, "MIO Throttle").children
    assert [node.value for node in causes] == [40, 5, None]
    assert causes[2].text == "2 KiB of shared memory per block"


def test_a_busy_arithmetic_pipe_is_explained_by_the_arithmetic_pipes() -> None:
    causes = stall(
        explain(kernel(stalls=(Stall("math_pipe_throttle", 0.9, None, family="counter"),))), "Math Pipe Throttle"
    )
    assert [node.text for node in causes.children] == [
        "busy in active cycles: ALU pipe",
        "busy in active cycles: FMA pipe",
    ]


def test_every_rule_has_its_place_in_the_tree() -> None:
    for rule in RULES:
        assert set(rule.place.reasons) <= set(STALL_MEANINGS), rule.id
        tree = explain(kernel(0, finding(rule.id)))
        (kind,) = [node.kind for node in nodes(tree) if any(child.kind == "finding" for child in node.children)]
        assert kind in {"stall", rule.place.otherwise} if rule.place.reasons else kind == rule.place.otherwise, rule.id


def test_a_barrier_names_the_warps_of_a_block() -> None:
    (cause, line) = stall(explain(kernel()), "Barrier").children
    assert cause.value == 8 and "250 threads" in cause.text
    assert line.text == "gather.cu:42  __syncthreads();" and line.value == 20
    assert line.detail == "of all samples, 90 % of them for this reason"


def test_full_issue_slots_are_told_to_need_fewer_instructions() -> None:
    tree = explain(
        kernel(scheduler=Scheduler(issue_active=0.9, eligible_warps=3.0, active_warps=12.0, warp_slots=16.0))
    )
    issue = the(tree, "issue")
    assert "fewer or cheaper instructions" in issue.detail
    assert [node.kind for node in issue.children[:3]] == ["cause"] * 3


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


@each_row(("rule", "kind", "name"), PLACES)
def test_a_finding_hangs_where_it_belongs(rule: str, kind: str, name: str | None) -> None:
    tree = explain(kernel(0, finding(rule)))
    (parent,) = [node for node in nodes(tree) if any(child.kind == "finding" for child in node.children)]
    assert parent.kind == kind and name in (None, parent.text)


def test_a_finding_with_nothing_to_gain_is_a_note() -> None:
    tree = explain(kernel(0, finding("dram-bandwidth", 0.0, severity="info")))
    assert of_kind(tree, "finding") == []
    assert the(tree, "note").value is None


def test_a_hot_line_is_not_repeated_below_its_finding() -> None:
    waiting = stall(explain(kernel(0, finding())), "Long Scoreboard")
    assert len(of_kind(waiting, "line")) == 1
    other = stall(explain(kernel(0, finding(location=None))), "Long Scoreboard")
    assert the(other, "line").text.startswith("gather.cu:41")


def test_a_place_without_a_line_is_its_instruction() -> None:
    place = Location(file=None, line=None, pc=0x2A0, sass="LDG.E R2, [R4]", share=None)
    line = the(the(explain(kernel(0, finding(location=place))), "finding"), "line")
    assert (line.text, line.value) == ("0x2a0  LDG.E R2, [R4]", None)


def test_a_basic_report_says_at_each_level_what_would_collect_it() -> None:
    tree = explain(kernel(0, finding("low-occupancy"), scheduler=None, stalls=(), pipes=(), traffic=(), excerpts=()))
    missing = {node.text: node.detail for node in of_kind(tree, "missing")}
    assert missing["issue slots and eligible warps"] == "collect with ncu --section SchedulerStats"
    assert missing["stall reasons"] == "collect with ncu --section WarpStateStats"
    assert "--section SourceCounters" in missing["source lines"]
    assert the(tree, "unit").value == 45
    assert the(tree, "occupancy").value == pytest.approx(60)
    assert the(tree, "finding").text == "headline of low-occupancy"


def test_an_empty_profile_still_has_a_tree() -> None:
    empty = kernel(
        scheduler=None, stalls=(), pipes=(), traffic=(), excerpts=(), throughput=(), waves=None, block=None, grid=None,
        duration_s=None, time_share=None, occupancy=Occupancy(None, None, ()),
    )  # fmt: skip
    tree = explain(empty)
    assert tree.detail == "duration not collected"
    assert {node.kind for node in tree.children} == {"missing"}
    assert tree.children[0].text == "speed of light"


def test_missing_hit_rates_and_pipes_are_named_where_they_would_stand() -> None:
    traffic = tuple(replace(moved, hit_rate=None) for moved in kernel().traffic)
    stalls = (
        Stall("long_scoreboard", 0.5, None, family="counter"),
        Stall("short_scoreboard", 0.4, None, family="counter"),
    )
    tree = explain(kernel(traffic=traffic, pipes=(), stalls=stalls, throughput=()))
    assert [node.text for node in of_kind(stall(tree, "Long Scoreboard"), "missing")] == [
        "L1 hit rate", "L2 hit rate", "DRAM utilisation",
    ]  # fmt: skip
    assert the(stall(tree, "Short Scoreboard"), "missing").text == "pipes"


def test_a_text_export_is_not_told_to_be_compiled_again() -> None:
    tree = explain(kernel(excerpts=()), from_text=True)
    assert of_kind(tree, "missing") == []
    assert "it has no code" in the(tree, "left-out").detail


def test_what_a_text_export_left_out_may_be_in_the_report() -> None:
    tree = explain(kernel(stalls=(), excerpts=()), from_text=True)
    details = [node.detail for node in of_kind(tree, "left-out")]
    assert "the .ncu-rep may have it, else collect with ncu --section WarpStateStats" in details


def test_memory_as_a_whole_speaks_for_a_part_without_a_figure() -> None:
    units = (
        Throughput("sm", 0.1),
        Throughput("memory", 0.97),
        Throughput("l2", 0.1),
        Throughput("l1", 0.99, "of active"),
    )
    unit = the(explain(kernel(throughput=units)), "unit")
    assert unit.value == 97 and "part of memory" in unit.text and "well used" in unit.detail


def test_every_finding_of_a_real_report_is_in_the_tree_once(real_report: Path) -> None:
    for one in session_of(real_report).kernels:
        told = [node.text for node in nodes(explain(one)) if node.kind in ("finding", "finding-held", "note")]
        assert sorted(told) == sorted(item.headline for item in one.findings)


# The command


def test_explain_prints_the_longest_match_and_says_so(reports: Path) -> None:
    done = run("show", "--explain", "semi|compute", reports / "gpu_workshop-MW_Baseline.ncu-rep")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("#2 compute_tendencies_x_279_gpu: 6.19 ms, 40 % of the run\n")
    assert done.stderr.startswith("3 kernels match: #2 compute_tendencies_x_279_gpu is explained, the longest")
    assert "--kernel '#2'" in done.stderr
    assert "of issue slots used" in done.stdout and "Long Scoreboard" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_explain_of_a_number_says_nothing_of_others(reports: Path) -> None:
    done = run("show", "--explain", "#4", reports / "gpu_workshop-MW_Baseline.ncu-rep")
    assert "match" not in done.stderr and done.stdout.startswith("#4 ")


def test_explain_as_json_is_the_same_tree(reports: Path) -> None:
    report = reports / "gpu_workshop-MW_Baseline.ncu-rep"
    done = run("show", "--explain", "#4", "--format", "json", report)
    document = json.loads(done.stdout)
    assert done.stderr == "" and document["kernel"] == 4

    def plain(node: ExplanationNode) -> dict[str, object]:
        return {
            "kind": node.kind, "text": node.text, "value": node.value, "unit": node.unit, "detail": node.detail,
            "children": [plain(child) for child in node.children],
        }  # fmt: skip

    (one,) = [kernel for kernel in session_of(report).kernels if kernel.id == 4]
    assert document["tree"] == plain(explain(one))


def test_explain_works_for_every_real_report(real_report: Path) -> None:
    done = run("show", "--explain", ".", real_report, encoding="ascii")
    assert done.returncode == 0, done.stderr
    assert done.stdout.isascii() and max(map(len, done.stdout.splitlines())) <= 80


@each_row("more", [["--kernel", "x"], ["--format", "csv"], ["--format", "md"]])
def test_explain_excludes_what_it_cannot_be_combined_with(more: list[str]) -> None:
    done = run("show", "--explain", "x", *more, "report.ncu-rep")
    assert done.returncode == 2 and "cannot be combined" in done.stderr
