"""What NVIDIA's rules said, from the bytes of reports, against NVIDIA's reader."""

from __future__ import annotations

import math
import struct
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.rule_messages import RuleResult, rule_results
from gpuprof.read.container import walk
from gpuprof.read.protobuf import Malformed, fields
from gpuprof.read.wire import message, number, varint
from tests import ncu_bytes
from tests.table import each_row

RULE_RESULTS = 19
KINDS = {0: "none", 1: "ok", 2: "optimization", 3: "warning", 4: "error"}
"""Types of messages as NVIDIA's reader numbers them; reports number them otherwise."""


def read_by_nvidia(data: bytes) -> list[list[RuleResult]]:
    """Return what NVIDIA's reader says of each launch of a report."""
    import ncu_report

    with tempfile.NamedTemporaryFile(suffix=".ncu-rep") as file:
        file.write(data)
        file.flush()
        context = ncu_report.load_report(file.name)
        ranges = [context.range_by_idx(index) for index in range(context.num_ranges())]
        actions = [some.action_by_idx(index) for some in ranges for index in range(some.num_actions())]
        return [[_rule(entry) for entry in action.rule_results_as_dicts()] for action in actions]


def _rule(entry: Mapping[str, Any]) -> RuleResult:
    said, speedup = entry["rule_message"], entry.get("speedup_estimation", {})
    return RuleResult(
        rule=entry["rule_identifier"],
        section=entry["section_identifier"],
        kind=KINDS[said["type"]],
        title=said["title"],
        message=said["message"],
        speedup_percent=speedup.get("speedup"),
        speedup_scope={1: "local", 2: "global"}.get(speedup.get("type")),
    )


def report(rules: Sequence[bytes]) -> bytes:
    launch = ncu_bytes.launch("k", {0: 1.0}) + b"".join(message(RULE_RESULTS, rule) for rule in rules)
    details = ncu_bytes.session_details("ncu", {"Nsight Compute Target": "2024.1.1.0 (build 1)"})
    return ncu_bytes.report(ncu_bytes.block([], session=details), ncu_bytes.block([launch], ["x__y.sum"], process=7))


def rule(*items: bytes, section: str | None = "Section") -> bytes:
    body = message(3, b"".join(message(1, item) for item in items)) if items else b""
    return message(1, b"Rule") + message(2, b"A rule") + body + (message(4, section.encode()) if section else b"")


def said(text: str = "text", kind: int | None = 1, title: str | None = None) -> bytes:
    content = message(1, text.encode()) + (number(2, kind) if kind is not None else b"") + number(3, 7)
    return message(1, content + (message(4, title.encode()) if title is not None else b""))


def speedup(scope: int | None, percent: float | None) -> bytes:
    value = varint(2 << 3 | 1) + struct.pack("<d", percent) if percent is not None else b""
    return message(10, (number(1, scope) if scope is not None else b"") + value)


def focus() -> bytes:
    return message(8, number(1, 7) + message(2, b"x__y.sum") + varint(3 << 3 | 1) + struct.pack("<d", 2.0))


def test_rules_of_real_reports_are_those_of_nvidia_s_reader(real_report: Path) -> None:
    data = real_report.read_bytes()
    ours = [
        [
            result
            for field, value, _ in fields(data[span.start : span.end], span.start)
            if field == RULE_RESULTS and isinstance(value, bytes)
            for result in rule_results(value)
        ]
        for span in walk(data).spans
    ]
    assert ours == read_by_nvidia(data)


@each_row("percent", [None, math.nan, math.inf])
def test_a_speed_up_without_a_number_is_missing_and_not_zero(percent: float | None) -> None:
    (finding,) = rule_results(rule(said() + speedup(2, percent)))
    assert (finding.speedup_percent, finding.speedup_scope) == (None, "global")


@each_row(
    "data",
    [
        b"", message(1, b"Rule"), rule(said(kind=None)), rule(said(kind=5)), rule(message(1, number(2, 1))),
        rule(said())[:-1], rule(said()) + b"\xff" * 11, rule(said()) + b"\x33", rule(said()) + b"\x80",
        rule(said() + message(10, b"\x11\0")), message(0, b"zero") + rule(said()),
    ],
)  # fmt: skip
def test_bytes_that_are_no_rule_are_damaged(data: bytes) -> None:
    with pytest.raises(Malformed):
        rule_results(data)


def test_bytes_that_are_no_text_are_marked() -> None:
    data = rule(message(1, message(1, b"a\xffb") + number(2, 1)))
    assert rule_results(data)[0].message == "a\N{REPLACEMENT CHARACTER}b"


texts = st.text(st.characters(codec="utf-8"), max_size=20)
items = st.builds(
    lambda text, kind, title, estimate: said(text, kind, title) + estimate,
    texts,
    st.integers(0, 4),
    st.none() | texts,
    st.just(b"") | st.builds(speedup, st.none() | st.integers(0, 4), st.floats(allow_nan=False, allow_infinity=False)),
)


@given(st.lists(st.lists(items | st.just(b"") | st.just(focus()), max_size=3), max_size=3))
def test_rules_are_read_as_nvidia_s_reader_does(made: list[list[bytes]]) -> None:
    rules = [rule(*each) for each in made]
    assert [finding for entry in rules for finding in rule_results(entry)] == read_by_nvidia(report(rules))[0]


def _altered(at: int, byte: int) -> bytes:
    whole = rule(said("first", 2, "Title") + speedup(1, 12.5), said("second"))
    at %= len(whole)
    return whole[:at] + bytes([byte]) + whole[at + 1 :]


@given(st.binary(max_size=200) | st.builds(_altered, st.integers(0, 80), st.integers(0, 255)))
def test_altered_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        findings = rule_results(data)
    except Malformed:
        return
    assert all(isinstance(finding, RuleResult) for finding in findings)
