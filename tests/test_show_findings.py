"""Findings of a session as SARIF, GitHub annotations and GitLab code quality: which, where, and with hostile names."""

from __future__ import annotations

import json
import re
from typing import Any

from gpuprof.comparison.contract import SourceLine
from gpuprof.model.session import Location, Session
from gpuprof.resources import data_dir
from gpuprof.views.exports import github
from gpuprof.views.exports.problems import Problem, ProblemReport
from gpuprof.views.exports.session import session_report
from gpuprof.views.formats import formats_of
from gpuprof.views.options import WriteOptions
from tests import hand_made
from tests.cli import gpuprof
from tests.hand_made import HOSTILE
from tests.table import each_row

REPORT = data_dir("recordings") / "h100-transpose.ncu-rep.gz"
ROOTED = WriteOptions(root="/home/me/project")


def at(file: str | None, line: int | None = 41) -> Location:
    return Location(file=file, line=line, pc=None, sass=None, share=0.5)


def text_of(form: str, session: Session) -> str:
    return "\n".join(formats_of("session")[form].lines(session, ROOTED))


def test_findings_to_act_on_that_no_other_explains_are_reported_by_rank() -> None:
    every = (
        hand_made.finding("uncoalesced-global", 0.3, id="0.a", severity="high", action="Do a."),
        hand_made.finding("short-kernel", 0.1, id="0.b", severity="medium"),
        hand_made.finding("bank-conflicts", 0.2, id="0.c", severity="high", cause="0.a"),
        hand_made.finding("low-occupancy", 0.01, id="0.d", severity="low"),
        hand_made.finding("dram-bandwidth", None, id="0.e", severity="info"),
    )
    report = session_report(hand_made.session(hand_made.kernel(0, *every)), ROOTED)
    assert [(problem.rule, problem.level) for problem in report.problems] == [
        ("uncoalesced-global", "warning"),
        ("short-kernel", "warning"),
    ]
    message = report.problems[0].message
    assert message.startswith(f"gather_rows: {every[0].headline}") and message.endswith("Do a.")
    assert "30 % of this kernel's time" in message
    assert report.cases == () and report.exit_code is None


def test_a_title_on_github_has_at_most_255_characters() -> None:
    problem = Problem("rule", "error", "x" * 300, "message", "key")
    report = ProblemReport(command="gpuprof", version="", verdict="", fallback=SourceLine("f", 1), problems=(problem,))
    title = next(github.lines(report)).removeprefix("::error title=").removesuffix("::message")
    assert title == f"{'x' * 170}…{'x' * 84}"


@each_row(
    ("place", "expected"),
    [(at("/home/me/project/src/a.cu"), ("src/a.cu", 41)), (at("src/a.cu"), ("src/a.cu", 41)),
     (at("/usr/include/b.h"), ("made.ncu-rep", 1)), (at("src/a.cu", None), ("made.ncu-rep", 1)),
     (None, ("made.ncu-rep", 1))],
)  # fmt: skip
def test_a_finding_is_at_its_line_or_at_the_report(place: Location | None, expected: tuple[str, int]) -> None:
    session = hand_made.session(hand_made.kernel(0, hand_made.finding(place=place)))
    report = session_report(session, ROOTED)
    (result,) = json.loads(text_of("sarif", session))["runs"][0]["results"]
    location = result["locations"][0]["physicalLocation"]
    fallback = (report.fallback.file, report.fallback.line)
    wanted = fallback if expected[0] == "made.ncu-rep" else expected
    assert (location["artifactLocation"]["uri"], location["region"]["startLine"]) == wanted
    (entry,) = json.loads(text_of("gitlab", session))
    assert (entry["location"]["path"], entry["location"]["lines"]["begin"]) == wanted
    assert entry["severity"] == "major" and entry["fingerprint"] == report.problems[0].key
    notes = list(formats_of("session")["sarif"].notes(session, ROOTED))
    assert len(notes) == (wanted == fallback) and not list(formats_of("session")["github"].notes(session, ROOTED))


def test_equal_rules_of_equal_kernels_have_keys_of_their_own() -> None:
    two = [hand_made.finding(id="0.a"), hand_made.finding(id="0.b", gain=0.1)]
    report = session_report(hand_made.session(hand_made.kernel(0, *two)), ROOTED)
    assert len({problem.key for problem in report.problems}) == 2


def test_hostile_names_steer_nothing() -> None:
    finding = hand_made.finding(headline=f"[a](http://x.example)\n::error::{HOSTILE}", place=at(HOSTILE))
    session = hand_made.session(hand_made.kernel(0, finding, label=HOSTILE, demangled=HOSTILE))
    for form in ("sarif", "github", "gitlab"):
        text = text_of(form, session)
        assert not re.search("[\x00-\x09\x0b-\x1f\u202e]", text)
    run: dict[str, Any] = json.loads(text_of("sarif", session))["runs"][0]
    assert "](" not in run["results"][0]["message"]["text"]
    commands = text_of("github", session).split("\n")
    assert [command.split(" ")[0] for command in commands] == ["::warning", "::notice"]


def test_show_prints_them_and_says_what_has_no_line() -> None:
    done = gpuprof("show", "--format", "sarif", REPORT)
    assert done.returncode == 0
    run = json.loads(done.stdout)["runs"][0]
    assert run["results"][0]["ruleId"] == "uncoalesced-global"
    assert "note: 1 result in files outside of the repository" in done.stderr
    done = gpuprof(
        "show", "--format", "github", "--keep-private", "--path-map", "/=src", "--kernel", "transpose", REPORT
    )
    first, notice = done.stdout.splitlines()
    assert re.match(r"::warning file=src/[^,]*launches\.cu,line=58,title=transpose%3A uncoalesced-global::", first)
    assert notice.startswith("::notice title=gpuprof show::transpose is L2-bound")


@each_row("options", ["--by kernel", "--sass x", "--explain x", "--top 3", "--sort roof", "-v"])
def test_options_of_tables_are_refused(options: str) -> None:
    assert gpuprof("show", "--format", "sarif", *options.split(), REPORT).returncode == 2
