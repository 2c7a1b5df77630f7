"""SARIF of a comparison: what is reported, at which line of the repository, and what is told of the rest."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import unquote

from hypothesis import given
from hypothesis import strategies as st

from gpuprof.comparison.compare import Compared
from gpuprof.comparison.contract import ChangeCause, Direction, KernelChange, SourceLine, TimeWord
from gpuprof.privacy.source_files import PathMap, path_in_repository
from gpuprof.views.exports.comparison import comparison_report
from gpuprof.views.exports.problems import without_line_texts
from gpuprof.views.formats import formats_of
from gpuprof.views.options import WriteOptions
from tests import made_comparisons as made
from tests.table import each_row
from tests.test_compare_formats import HOSTILE_TEXTS

ROOTED = WriteOptions(root=made.ROOT)
NEEDED = {
    "result": {"ruleId", "ruleIndex", "level", "message", "locations", "partialFingerprints"},
    "rule": {"id", "shortDescription", "fullDescription", "help", "defaultConfiguration", "properties"},
}


def lines(compared: Compared, options: WriteOptions) -> Iterable[str]:
    return formats_of("comparison")["sarif"].lines(compared, options)


def without_line(compared: Compared, options: WriteOptions) -> tuple[str, ...]:
    return tuple(without_line_texts(comparison_report(compared, options)))


def run_of(compared: Compared, options: WriteOptions = ROOTED) -> dict[str, Any]:
    """The run of a document, with what every document needs: by the specification, and by GitHub."""
    document = json.loads("\n".join(lines(compared, options)))
    assert set(document) == {"$schema", "version", "runs"} and document["version"] == "2.1.0"
    (run,) = document["runs"]
    driver = run["tool"]["driver"]
    assert driver["name"] == "gpuprof" and driver["version"] == "9.9"
    for rule in driver["rules"]:
        assert set(rule) == NEEDED["rule"]
        assert all(rule[part]["text"] for part in ("shortDescription", "fullDescription", "help"))
    assert len({rule["id"] for rule in driver["rules"]}) == len(driver["rules"])
    for result in run["results"]:
        assert set(result) == NEEDED["result"]
        assert driver["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] in ("error", "warning", "note") and result["message"]["text"]
        assert place(result)[1] >= 1
    for notification in run["invocations"][0]["toolExecutionNotifications"]:
        assert set(notification) == {"descriptor", "level", "message"} and notification["message"]["text"]
    return dict(run)


def place(result: dict[str, Any]) -> tuple[str, int]:
    (location,) = result["locations"]
    physical = location["physicalLocation"]
    assert physical["artifactLocation"]["uriBaseId"] == "%SRCROOT%"
    uri = physical["artifactLocation"]["uri"]
    assert re.fullmatch(r"[A-Za-z0-9/._~%-]+", uri) and not uri.startswith("/")
    return unquote(uri), physical["region"]["startLine"]


def told(run: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [
        (notification["level"], notification["descriptor"]["id"], notification["message"]["text"])
        for notification in run["invocations"][0]["toolExecutionNotifications"]
    ]


def reported(compared: Compared, options: WriteOptions = ROOTED) -> list[tuple[str, str, tuple[str, int]]]:
    return [(result["ruleId"], result["level"], place(result)) for result in run_of(compared, options)["results"]]


def without(**changes: Any) -> KernelChange:
    return made.change(findings=(), **{"causes": (), "lines": (), **changes})


def cause(line: int | None, direction: Direction = "slower") -> ChangeCause:
    location = SourceLine(made.FILE, line) if line is not None else None
    return ChangeCause(mechanism="m", sentence="s", direction=direction, certainty="counted", location=location)


@each_row(
    ("kernel", "line"),
    [(without(causes=(cause(7, "faster"), cause(9))), 9),
     (without(causes=(cause(7, "faster"),), lines=made.change().lines), 88),
     (without(causes=(cause(7, "faster"),)), 7), (without(causes=(cause(None),)), 41),
     (without(), 41)],
    ids=["slower cause", "line that gained", "other cause", "hottest line", "hottest line alone"],
)  # fmt: skip
def test_a_slower_kernel_is_reported_at_the_line_that_tells_most_of_it(kernel: KernelChange, line: int) -> None:
    assert reported(made.compared(kernel)) == [("kernel-slower", "warning", ("src/gather.cu", line))]


def prints(compared: Compared) -> list[str]:
    return [result["partialFingerprints"]["gpuprofKernel/v1"] for result in run_of(compared)["results"]]


def test_fingerprints_name_rule_and_kernel_and_not_numbers_lines_or_order() -> None:
    def at(ratio: float, line: int, *order: str) -> set[str]:
        time = made.time("slower", ratio)
        kernels = [
            made.change(number, label, time=time, causes=(cause(line),), effect_s=ratio)
            for number, label in enumerate(order)
        ]
        return set(prints(made.compared(*kernels)))

    assert at(1.18, 88, "a", "b") == at(1.5, 90, "b", "a")
    assert len(at(1.18, 88, "a", "b")) == 4
    assert at(1.18, 88, "a") < at(1.18, 88, "a", "b")


@each_row("text", HOSTILE_TEXTS.values(), ids=HOSTILE_TEXTS)
def test_no_text_of_a_report_is_a_link_or_a_place(text: str) -> None:
    run = run_of(made.everything(text, text))
    messages = [result["message"]["text"] for result in run["results"]] + [text for _, _, text in told(run)]
    assert not any(re.search(r"\]\(", message) for message in messages)
    assert not any(char in message for message in messages for char in "\x00\x1b\u202e\n")
    assert max(map(len, messages)) < 4000


@each_row(
    ("file", "path"),
    [("/home/me/project/src/a.cu", "src/a.cu"), ("/home/me/project/./src/../src//a.cu", "src/a.cu"),
     ("/home/me/project/../other/a.cu", None), ("src/a.cu", "src/a.cu"), ("../a.cu", None), ("src/../../a.cu", None),
     ("", None), ("/build/src/kernels/a.cu", "kernels/a.cu"), ("/build/src/../a.cu", None),
     ("/ci/work/a.cu", "gpu/a.cu"), ("C:\\src\\sub\\a.cu", "win/sub/a.cu"), ("a\x1b.cu", None), ("a" * 2000, None)],
)  # fmt: skip
def test_a_file_lies_where_a_path_map_or_the_root_says_or_nowhere(file: str, path: str | None) -> None:
    maps = (
        PathMap("/build/src", ""), PathMap("/ci/work/", "/home/me/project/gpu"), PathMap("C:\\src", "win"),
    )  # fmt: skip
    assert path_in_repository(file, "/home/me/project/", maps) == path


@given(st.text(), st.text(), st.text(max_size=5))
def test_no_path_leaves_the_repository(file: str, source: str, target: str) -> None:
    for name in (file, f"/r/{file}", f"{source}/{file}"):
        path = path_in_repository(name, "/r", (PathMap(source, target),))
        assert path is None or (not path.startswith("/") and ".." not in path.split("/") and path not in ("", "."))


def test_regressions_are_errors_at_their_cause_and_slower_kernels_and_findings_that_came_warnings() -> None:
    gated = made.compared(made.change(), gate=made.gate(made.check()))
    assert reported(gated) == [
        ("gate-regression", "error", ("src/gather.cu", 88)),
        ("uncoalesced-global", "warning", ("src/gather.cu", 41)),
    ]
    assert reported(made.compared(made.change(findings=()))) == [("kernel-slower", "warning", ("src/gather.cu", 88))]
    verdicts: tuple[TimeWord, ...] = ("same", "faster", "unclear", "new", "gone", "unknown")
    assert reported(made.compared(*(made.change(index, word, word) for index, word in enumerate(verdicts)))) == []
    gate = made.gate(made.check("unclear", 0), exit_code=7)
    assert reported(made.compared(made.change(0, "a", "unclear"), gate=gate)) == [
        ("gate-unclear", "error", ("src/gather.cu", 41))
    ]
    # Accepted and unclear limits, and unlike conditions, are reported and open no alert.
    gate = made.gate(made.check("accepted", 0, accepted="known since May"), made.check("unclear", 0))
    run = run_of(made.compared(made.change(findings=()), gate=gate, conditions=(made.condition(),)))
    notes = {about: (level, text) for level, about, text in told(run)}
    assert run["results"] == [] and {"gate-accepted", "gate-unclear", "not-alike"} <= set(notes)
    assert (notes["gate-accepted"][0], notes["not-alike"][0]) == ("note", "warning")
    assert "known since May" in notes["gate-accepted"][1]


def test_what_has_no_line_in_the_repository_is_at_the_report_and_counted() -> None:
    compared = made.compared(made.change(findings=()), gate=made.gate(made.check(kernel=None)))
    assert reported(compared) == [
        ("gate-regression", "error", ("new.ncu-rep", 1)),
        ("kernel-slower", "warning", ("src/gather.cu", 88)),
    ]
    run = run_of(compared)
    # A limit of the whole run needs no line.
    assert without_line(compared, ROOTED) == ()
    assert run["invocations"][0]["exitCode"] == 6
    compared = made.compared(made.change(), gate=made.gate(made.check()), base=made.side("/home/me/base.ncu-rep"))
    assert without_line(compared, ROOTED) == ()
    for root in (None, "/home/me/other", made.ROOT):
        options = WriteOptions(root=root)
        assert "/home/me" not in "\n".join(lines(compared, options))
        if root != made.ROOT:
            run = run_of(compared, options)
            (left_out,) = without_line(compared, options)
            assert {place(result) for result in run["results"]} == {("new.ncu-rep", 1)}
            assert told(run)[-1] == ("warning", "without-line", left_out)
            assert left_out.startswith("2 results") and "--path-map" in left_out


@each_row("file", ["/home/me/r\x1b[31m ü#?.ncu-rep", "", "..", "a:b.ncu-rep", "r" * 5000], ids=range(5))
def test_the_name_of_a_report_is_a_path_that_github_and_gitlab_accept(file: str) -> None:
    gate = made.gate(made.check(kernel=None))
    for side in (made.side(file), made.side()):
        compared = made.compared(made.change(findings=(), verdict="same"), gate=gate, new=side)
        (result,) = run_of(compared)["results"]
        name, line = place(result)
        assert line == 1 and name and "/" not in name and name.isprintable() and len(name) <= 200
        (entry,) = json.loads("\n".join(formats_of("comparison")["gitlab"].lines(compared, ROOTED)))
        assert entry["location"] == {"path": name, "lines": {"begin": 1}}
