"""`gpuprof check --fail-on`: what limits are refused, what they say of a kernel, and the exit code. Made-up values."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gpuprof.comparison.contract import GateCheck
from gpuprof.errors import UsageError
from gpuprof.model.session import Finding
from gpuprof.review import review as reviewing
from gpuprof.review.contract import CodeAccess, Review, ReviewedKernel, SpillCount
from gpuprof.review.gate import gated_review
from gpuprof.review.inputs.request import ReviewRequest
from gpuprof.review.limits import CodeLimit, code_limits
from gpuprof.views.exports import sarif
from gpuprof.views.exports.problems import without_line_texts
from gpuprof.views.exports.review import review_report
from gpuprof.views.options import WriteOptions
from tests import reviews as made
from tests.cli import Done, gpuprof
from tests.table import each_row

SPILLS = SpillCount(loads=4, stores=3, load_bytes=16, store_bytes=12, in_loops=2)
NO_SPILLS = SpillCount(loads=0, stores=0, load_bytes=0, store_bytes=0, in_loops=0)


def kernel(*findings: Finding, accesses: tuple[CodeAccess, ...] = (), **changes: Any) -> ReviewedKernel:
    """A kernel whose changes are of its resources; without spills unless it is given some."""
    occupancy = changes.pop("occupancy", 0.5)
    unreviewed = changes.pop("unreviewed", None)
    resources = made.resources(**{"spills": NO_SPILLS, **changes})
    return made.kernel(
        0, *findings, accesses=accesses, unreviewed=unreviewed, resources=resources,
        occupancy=made.occupancy(fraction=occupancy) if occupancy is not None else None,
    )  # fmt: skip


def checks(
    new: ReviewedKernel, *limits: str, base: ReviewedKernel | None = None, unclear: str = "pass"
) -> tuple[list[GateCheck], int]:
    """Return the checks that are not ok, and the exit code."""
    answers = [made.review(side) for side in (new, base) if side is not None]
    files = ("old.cubin",) if base is not None else ()
    request = ReviewRequest(files=("new.cubin",))
    gate = gated_review(request, lambda _: answers.pop(0), base=files, fail_on=limits, unclear=unclear).gate
    assert gate is not None
    return list(gate.checks), gate.exit_code


def words(new: ReviewedKernel, limit: str, base: ReviewedKernel | None = None) -> str:
    found, code = checks(new, limit, base=base)
    assert code == (6 if any(check.word == "regression" for check in found) else 0)
    return " ".join(check.word for check in found) or "ok"


# Limits as they are written


def test_a_limit_is_a_kernel_a_quantity_and_an_amount() -> None:
    assert code_limits(
        ["registers:64", "gemm|conv=spills", "occupancy:37.5%", "uncoalesced-global:high", "sectors:8"], has_base=False
    ) == (
        CodeLimit("registers:64", "registers", 64.0),
        CodeLimit("gemm|conv=spills", "spills", 0.0, "gemm|conv"),
        CodeLimit("occupancy:37.5%", "occupancy", 0.375),
        CodeLimit("uncoalesced-global:high", "uncoalesced-global", 0.0, level="high"),
        CodeLimit("sectors:8", "sectors", 8.0),
    )
    amounts = ["registers", "sectors", "conflicts", "occupancy", "instructions:5%"]
    assert [limit.most for limit in code_limits(amounts, has_base=True)] == [0, 0, 0, 0, 0.05]


@each_row(
    ("limit", "hint"),
    [
        ("", ""), ("=spills", ""), ("(=spills", "escape"), ("#0=spills", "name"), ("regs:4", "registers"),
        ("spils", "spills"), ("uncoalesced_global", "uncoalesced-global"), ("nothing-like-it", "uncoalesced-global"),
        ("registers", "registers:64"), ("registers:-1", "registers:64"), ("registers:5%", "registers:64"),
        ("registers:1.5", "registers:64"), ("registers:9999999999", "registers:64"), ("sectors", "sectors:4"),
        ("occupancy", "occupancy:50%"), ("occupancy:50", "50%"), ("occupancy:x%", "3%"), ("spills:3", "spills"),
        ("occupancy:101%", "occupancy:50%"), ("conflicts", "--base"), ("instructions:5%", "--base"),
        ("uncoalesced-global:severe", ":high"), ("uncoalesced-global:", ":high"), ("SPILLS", "spills"),
    ],
)  # fmt: skip
def test_a_limit_that_cannot_be_is_refused_with_what_to_write(limit: str, hint: str) -> None:
    with pytest.raises(UsageError) as error:
        code_limits([limit], has_base=False)
    assert error.value.message.startswith("--fail-on ")
    assert hint in (error.value.hint or "")


def test_limits_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(UsageError, match="registers:4"):
        code_limits(["registers:4", "registers:5"], has_base=False)
    assert len(code_limits(["registers:4", "registers:4", "gemm=registers:5"], has_base=False)) == 2


# Limits of one build


@each_row(
    ("limit", "changes", "word"),
    [
        ("registers:72", {}, "ok"), ("registers:71", {}, "regression"),
        ("registers:71", {"registers": None}, "unclear"),
        ("spills", {}, "ok"), ("spills", {"spills": SPILLS}, "regression"),
        ("spills", {"spills": None}, "unclear"), ("occupancy:50%", {}, "ok"), ("occupancy:51%", {}, "regression"),
        ("occupancy:50%", {"occupancy": None}, "unclear"), ("spills", {"unreviewed": "damaged"}, "unclear"),
        ("registers:72", {"unreviewed": "damaged"}, "ok"), ("uncoalesced-global", {"unreviewed": "damaged"}, "unclear"),
    ],
)  # fmt: skip
def test_resources_are_held_to_their_limits_and_what_is_not_known_is_unclear(
    limit: str, changes: dict[str, Any], word: str
) -> None:
    assert words(kernel(**changes), limit) == word


@each_row(
    ("limit", "changes", "word"),
    [
        ("sectors:31", {}, "regression"), ("sectors:32", {}, "ok"), ("sectors:4", {"space": "local"}, "ok"),
        ("sectors:4", {"space": "shared", "sectors_per_request": None, "wavefronts_per_request": 8.0}, "ok"),
        ("sectors:4", {"sectors_per_request": None, "unknown": "of an argument"}, "unclear"),
    ],
)  # fmt: skip
def test_the_sectors_of_global_accesses_are_held_to_a_limit(limit: str, changes: dict[str, Any], word: str) -> None:
    assert words(kernel(accesses=(made.access(sectors_per_request=4.0), made.access(**changes))), limit) == word


@each_row(
    ("limit", "changes", "word"),
    [
        ("uncoalesced-global", {}, "regression"), ("uncoalesced-global:high", {}, "regression"),
        ("uncoalesced-global:high", {"severity": "medium"}, "ok"), ("uncoalesced-global:low", {}, "regression"),
        ("uncoalesced-global", {"confidence": "guess"}, "unclear"), ("shared-bank-conflict", {}, "ok"),
        ("uncoalesced-global", {"severity": "info"}, "regression"),
    ],
)  # fmt: skip
def test_findings_of_a_rule_are_a_limit_from_a_severity_on(limit: str, changes: dict[str, Any], word: str) -> None:
    assert words(kernel(made.finding(**changes)), limit) == word


def test_a_check_says_where_it_is_and_the_worst_result_decides() -> None:
    accesses = (made.access(sectors_per_request=None, unknown="?"), made.access(line=20, sectors_per_request=16.0))
    ((check,), code) = checks(kernel(accesses=accesses), "sectors:8", unclear="fail")
    assert (check.word, check.kernel, check.quantity, check.allowed, code) == ("regression", 0, "sectors", 8.0, 6)
    assert check.location is not None and (check.location.file, check.location.line) == (made.FILE, 20)
    assert "16" in check.sentence


def test_unclear_limits_fail_only_if_asked_for() -> None:
    unknown = kernel(spills=None)
    assert checks(unknown, "spills")[1] == 0
    assert checks(unknown, "spills", unclear="fail")[1] == 7
    assert checks(kernel(spills=None, registers=100), "spills", "registers:64", unclear="fail")[1] == 6


def test_a_limit_for_some_kernels_takes_the_place_of_that_for_all() -> None:
    assert words(kernel(), "transpose=registers:80") == "ok"
    assert checks(kernel(), "registers:8", "transpose=registers:80") == ([], 0)
    with pytest.raises(UsageError, match="gemm=spills"):
        checks(kernel(), "gemm=spills")


# Limits against a base


@each_row(
    ("limit", "old", "new", "word"),
    [
        ("registers", {}, {"registers": 73}, "regression"), ("registers", {}, {"registers": 60}, "ok"),
        ("registers:8", {}, {"registers": 80}, "ok"), ("registers:8", {}, {"registers": 81}, "regression"),
        ("registers", {"registers": None}, {}, "unclear"), ("spills", {}, {"spills": SPILLS}, "regression"),
        ("spills", {"spills": SPILLS}, {"spills": SPILLS}, "ok"),
        ("spills", {"spills": None}, {}, "unclear"), ("occupancy", {}, {"occupancy": 0.375}, "regression"),
        ("occupancy:25%", {}, {"occupancy": 0.375}, "ok"), ("occupancy", {}, {"occupancy": 1.0}, "ok"),
        ("occupancy:24%", {}, {"occupancy": 0.375}, "regression"), ("occupancy", {}, {"occupancy": None}, "unclear"),
        ("instructions", {}, {"instructions": 118}, "regression"), ("instructions:1%", {}, {"instructions": 118}, "ok"),
        ("instructions", {"unreviewed": "damaged"}, {}, "unclear"),
    ],
)  # fmt: skip
def test_with_a_base_limits_are_about_the_change(
    limit: str, old: dict[str, Any], new: dict[str, Any], word: str
) -> None:
    assert words(kernel(**new), limit, kernel(**old)) == word


def unknown(why: str, space: str = "global") -> dict[str, Any]:
    return {"space": space, "sectors_per_request": None, "lane_stride_bytes": None, "unknown": why}


def shared(wavefronts: float) -> dict[str, Any]:
    passes = {"sectors_per_request": None, "wavefronts_per_request": wavefronts, "needed_per_request": 1.0}
    return {"space": "shared", **passes}


@each_row(
    ("limit", "old", "new", "word"),
    [
        ("sectors", {"sectors_per_request": 4.0}, {}, "regression"),
        ("sectors", {}, {"sectors_per_request": 4.0}, "ok"),
        ("sectors", {}, {"line": 90}, "ok"), ("sectors:28", {"sectors_per_request": 4.0}, {}, "ok"),
        ("sectors", {"sectors_per_request": 4.0}, {"sectors_per_request": 16.0, "needed_per_request": 16.0}, "ok"),
        ("sectors", {}, {"sectors_per_request": None, "unknown": "an argument"}, "unclear"),
        ("sectors", unknown("n × 4 B"), unknown("n × 4 B"), "ok"),
        ("sectors", unknown("a gather at a.cu:7"), unknown("a gather at a.cu:19"), "ok"),
        ("sectors", unknown("n × 4 B"), unknown("m × 4 B"), "unclear"),
        ("conflicts", unknown("n", space="shared"), unknown("m", space="shared"), "unclear"),
        ("sectors", shared(1.0), {}, "regression"),
        ("conflicts", shared(1.0), shared(4.0), "regression"),
        ("conflicts", shared(4.0), shared(2.0), "ok"),
        ("conflicts", {}, shared(1.0), "ok"),
        ("conflicts", {}, shared(2.0), "regression"),
    ],
)  # fmt: skip
def test_accesses_are_compared_beyond_what_their_lanes_need(
    limit: str, old: dict[str, Any], new: dict[str, Any], word: str
) -> None:
    assert words(kernel(accesses=(made.access(**new),)), limit, kernel(accesses=(made.access(**old),))) == word


@each_row(
    ("old", "new", "word"),
    [
        # Copies of an unrolled access that begin inside a sector.
        ([(4.0, 12)], [(4.0, 12), (5.0, 12), (5.0, 12)], "ok"),
        ([(4.0, 12), (5.0, 12)], [(4.0, 12)], "ok"),
        # One that begins there now, and one of another line.
        ([(4.0, 12)], [(5.0, 12)], "regression"),
        ([(4.0, 12)], [(4.0, 12), (5.0, 13)], "regression"),
    ],
)
def test_copies_of_an_access_are_compared_by_the_cheapest(
    old: list[tuple[float, int]], new: list[tuple[float, int]], word: str
) -> None:
    sides = []
    for costs in (new, old):
        accesses = (made.access(sectors_per_request=cost, line=line, lane_stride_bytes=4) for cost, line in costs)
        sides.append(kernel(accesses=tuple(accesses)))
    assert words(sides[0], "sectors", sides[1]) == word
    assert words(sides[0], "sectors:4") == ("ok" if max(new)[0] == 4 else "regression")


def test_rules_on_files_are_limits_for_the_files() -> None:
    lineless = made.finding("no-line-info", severity="info", place=None, places=())
    answer = made.review(kernel(), findings=(lineless,))
    request = ReviewRequest(files=("new.cubin",))
    gate = gated_review(request, lambda _: answer, fail_on=["no-line-info", "no-sass-for-target"]).gate
    assert gate is not None and (gate.exit_code, gate.ok) == (6, 1)
    assert [(check.limit, check.kernel, check.word) for check in gate.checks] == [("no-line-info", None, "regression")]
    # With a base it fails if that has line tables.
    sides = {("old.cubin",): answer, ("clean.cubin",): made.review(kernel()), request.files: answer}
    for base, code in (("old.cubin", 0), ("clean.cubin", 6)):
        gate = gated_review(request, lambda asked: sides[asked.files], base=[base], fail_on=["no-line-info"]).gate
        assert gate is not None and gate.exit_code == code
    with pytest.raises(UsageError, match="files"):
        code_limits(["gemm=no-line-info"], has_base=False)


def test_a_finding_is_a_regression_only_if_the_base_has_fewer_of_that_severity() -> None:
    low, high = made.finding(severity="low"), made.finding()
    assert words(kernel(high), "uncoalesced-global", kernel(high)) == "ok"
    assert words(kernel(high, high), "uncoalesced-global", kernel(high)) == "regression"
    assert words(kernel(high), "uncoalesced-global:high", kernel(low)) == "regression"
    assert words(kernel(), "uncoalesced-global", kernel(high)) == "ok"


def test_a_guess_of_the_base_does_not_excuse_a_finding_that_the_code_shows() -> None:
    guess, sure = made.finding(severity="low", confidence="guess"), made.finding()
    assert words(kernel(sure), "uncoalesced-global", kernel(guess)) == "regression"
    assert words(kernel(guess), "uncoalesced-global", kernel(sure)) == "ok"
    assert words(kernel(sure, guess), "uncoalesced-global", kernel(sure)) == "unclear"


def test_architectures_are_told_apart() -> None:
    new = made.review(kernel(registers=80), replace(kernel(registers=81), id=1, target="sm_80"))
    old = made.review(kernel(), replace(kernel(), id=1, target="sm_80"))
    answers = [new, old]
    review = gated_review(ReviewRequest(files=("new",)), lambda _: answers.pop(0), base=["old"], fail_on=["registers"])
    names = [case.name for case in review_report(review, WriteOptions()).cases]
    assert names == ["transpose_naive (sm_90): registers", "transpose_naive (sm_80): registers"]


def test_launches_of_a_report_have_test_cases_of_their_own() -> None:
    launches = [replace(kernel(registers=80 + number), id=number, launch=number) for number in range(3)]
    review = gated_review(ReviewRequest(files=("new",)), lambda _: made.review(*launches), fail_on=["registers:80"])
    names = [case.name for case in review_report(review, WriteOptions()).cases]
    assert len(set(names)) == 3 and all("transpose_naive" in name for name in names)


def test_only_what_is_about_code_is_missed_a_line() -> None:
    lineless = made.access(file=None, line=None)
    review = made.review(kernel(made.finding("low-occupancy", place=None, places=()), accesses=(lineless,)))
    missed = {}
    for limit in ("registers:8", "sectors:4", "low-occupancy"):
        gated = gated_review(ReviewRequest(files=("new",)), lambda _: review, fail_on=[limit])
        missed[limit] = len(list(without_line_texts(review_report(gated, WriteOptions()))))
    assert missed == {"registers:8": 0, "sectors:4": 1, "low-occupancy": 0}


def test_a_new_kernel_is_checked_for_spills_and_findings_alone() -> None:
    new = replace(kernel(made.finding(), spills=SPILLS), name="other", mangled="other")
    base = replace(kernel(), target="sm_80")
    assert words(new, "spills", base) == words(new, "uncoalesced-global", base) == "regression"
    assert words(new, "registers", base) == "not-compared"


# Reports for CI


def test_limits_and_findings_become_problems_and_test_cases() -> None:
    answer = made.review(
        kernel(made.finding(), made.finding("register-spills", confidence="guess")),
        replace(kernel(made.finding()), id=1, label="other", name="other", target="sm_80"),
    )
    request = ReviewRequest(files=("new.cubin",))
    review = gated_review(request, lambda _: answer, fail_on=["transpose=uncoalesced-global", "spills"])
    report = review_report(review, WriteOptions())
    assert [(problem.rule, problem.level, problem.place is not None) for problem in report.problems] == [
        ("gate-regression", "error", True), ("uncoalesced-global", "warning", True), ("register-spills", "note", True),
    ]  # fmt: skip
    assert report.exit_code == 6
    assert [(case.name, case.result) for case in report.cases] == [
        ("transpose_naive: transpose=uncoalesced-global", "failure"), ("other: all limits", "passed"),
    ]  # fmt: skip
    assert review_report(answer, WriteOptions()).exit_code is None


def test_sarif_leads_to_the_reference_of_rules_on_code() -> None:
    report = review_report(made.review(kernel(made.finding("shared-bank-conflict"))), WriteOptions())
    (rule,) = json.loads("".join(sarif.lines(report)))["runs"][0]["tool"]["driver"]["rules"]
    assert "docs/reference/code-rules.md#shared-bank-conflict" in rule["help"]["text"]


def test_with_a_base_only_new_findings_are_problems() -> None:
    answers = [made.review(kernel(made.finding(), made.finding("x"))), made.review(kernel(made.finding()))]
    review = gated_review(ReviewRequest(files=("new",)), lambda _: answers.pop(0), base=["old"])
    assert [problem.rule for problem in review_report(review, WriteOptions()).problems] == ["x"]


# On the command line


@pytest.fixture
def answered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[Review], None]:
    """Make up the review of each file: the one given last, and for old.cubin one without findings."""
    answers: list[Review] = []

    def answer(request: ReviewRequest, *_: object) -> Review:
        return replace(answers[-1] if request.files != ("old.cubin",) else made.review(kernel()), files=request.files)

    monkeypatch.setattr(reviewing, "review", answer)
    for name in ("new.cubin", "old.cubin"):
        (tmp_path / name).write_bytes(b"")
    return answers.append


def check(folder: Path, *typed: str) -> Done:
    return gpuprof("check", "new.cubin", *typed, cwd=folder)


def test_the_exit_code_and_the_last_line_say_whether_limits_are_kept(
    answered: Callable[[Review], None], tmp_path: Path
) -> None:
    answered(made.review(kernel(made.finding())))
    kept = check(tmp_path, "--fail-on", "registers:72")
    assert (kept.returncode, kept.stderr) == (0, "gate passed: 1 check ok\n")
    broken = check(tmp_path, "--fail-on", "uncoalesced-global", "--base", "old.cubin", "-o", "a.json", "-o", "a.xml")
    assert broken.returncode == 6 and "gate failed: uncoalesced-global of transpose_naive: " in broken.stderr
    review = json.loads((tmp_path / "a.json").read_text())
    assert (review["gate"]["exit_code"], review["changes"]["files"]) == (6, ["old.cubin"])
    assert [finding["rule"] for finding in review["changes"]["kernels"][0]["came"]] == ["uncoalesced-global"]
    assert "<failure" in (tmp_path / "a.xml").read_text()


@each_row(
    ("typed", "named"),
    [
        ("--fail-on spils", "spils"), ("--unclear fail", "--unclear"), ("--base new.cubin", "new.cubin"),
        ("--format junit", "junit"), ("-o a.xml", "junit"), ("--base old.cubin --kernel #0", "--kernel #0"),
        ("--base old.cubin -o old.cubin", "old.cubin"), ("--path-map x", "--path-map"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(answered: Callable[[Review], None], tmp_path: Path, typed: str, named: str) -> None:
    done = check(tmp_path, *typed.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert named in done.stderr


def test_a_pattern_that_takes_forever_is_refused(answered: Callable[[Review], None], tmp_path: Path) -> None:
    answered(made.review(replace(kernel(), name="a" * 40, label="a" * 40)))
    done = check(tmp_path, "--fail-on", "(a+)+b=spills")
    assert done.returncode == 2 and "--fail-on" in done.stderr


@each_row("form", ["json", "md", "html", "github", "gitlab", "sarif", "junit", "table"])
def test_every_format_has_the_limit_that_failed(answered: Callable[[Review], None], tmp_path: Path, form: str) -> None:
    answered(made.review(kernel(registers=255)))
    done = check(tmp_path, "--base", "old.cubin", "--fail-on", "registers:100", "--format", form)
    assert done.returncode == 6
    assert "255" in done.stdout and "72" in done.stdout
