"""The report of a product to a CI system: its problems, each at a line of code if there is one, and its test cases."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal, get_args

from msgspec import Struct
from msgspec.structs import replace

from gpuprof.comparison.contract import ComparedKernel, Gate, GateCheck, SourceLine
from gpuprof.model.field_types import Severity
from gpuprof.model.session import KernelProfile
from gpuprof.privacy.source_files import path_in_repository
from gpuprof.text import cut_end, cut_middle, printable
from gpuprof.views.options import WriteOptions
from gpuprof.words.file_names import file_name
from gpuprof.words.profile_values import count_text
from gpuprof.words.sentences import full_stop, joined_by, sentences

ProblemLevel = Literal["error", "warning", "note"]
LEVELS: tuple[ProblemLevel, ...] = get_args(ProblemLevel)
CaseResult = Literal["passed", "failure", "skipped"]
# Findings of severity info need no fix.
FINDING_LEVELS: dict[Severity, ProblemLevel] = {"high": "warning", "medium": "warning", "low": "note"}
WHOLE_RUN = "the whole run"
CODE_RULES = "code-rules"
"""The page of the reference with the rules on compiled code."""
REGRESSION = "gate-regression"
ACCEPTED = "gate-accepted"
UNCLEAR = "gate-unclear"
SLOWER = "kernel-slower"
UNREVIEWED = "kernel-unreviewed"
# Title and meaning of the rules of a comparison, which the diagnosis does not have.
RULES = {
    REGRESSION: ("A limit of the gate does not hold", "A kernel, or the whole run, exceeds a limit of --fail-on."),
    UNCLEAR: ("A limit of the gate cannot be judged", "The noise or missing data allow no verdict on a limit."),
    UNREVIEWED: ("A kernel was not reviewed", "Its code is not there, or could not be read: it has no findings."),
    SLOWER: ("A kernel is slower", "A launch takes longer than on the base side, beyond the noise of both."),
}
# Rule and words of a check by its result.
_CHECKS = {
    "regression": (REGRESSION, "regression"),
    "accepted": (ACCEPTED, "accepted regression"),
    "unclear": (UNCLEAR, "unclear result"),
    "not-compared": (UNCLEAR, "no comparison"),
}
# The largest line number that readers of the formats accept: a signed 32-bit integer.
_LAST_LINE = 2**31 - 1
_NAME_WIDTH = 120
_TEXT_WIDTH = 600
_FILE_WIDTH = 200


class Problem(Struct, frozen=True):
    """A problem to report.

    `key` is the same in each run for the same rule and kernel, whatever the numbers. Without a `place` it has no line,
    or only lines in files `outside` of the repository. What is not an `alarm` fails nothing: an accepted regression, or
    an unclear limit. One that is not `of_code`, such as the registers of a kernel, needs no line.
    """

    rule: str
    level: ProblemLevel
    title: str
    message: str
    key: str
    place: SourceLine | None = None
    outside: bool = False
    alarm: bool = True
    of_code: bool = False


class TestCase(Struct, frozen=True):
    """A kernel, or a limit for it, that was judged. `kind` and `message` say why it failed or was skipped."""

    name: str
    result: CaseResult
    kind: str
    message: str = ""
    time_s: float | None = None
    details: tuple[str, ...] = ()


class ProblemReport(Struct, frozen=True, kw_only=True):
    """The report of a command. `problems` begin with the errors; those without a line are shown at `fallback`.

    `exit_code` is None without a gate. `reference` is the page that describes the rules. `conditions` are what forbids
    a verdict, `facts` names and values of the run.
    """

    command: str
    version: str
    verdict: str
    fallback: SourceLine
    reference: str = "rules"
    problems: tuple[Problem, ...]
    cases: tuple[TestCase, ...] = ()
    gate: str = ""
    exit_code: int | None = None
    conditions: tuple[str, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def alarms(self) -> list[Problem]:
        """Return the problems that are to be acted on."""
        return [problem for problem in self.problems if problem.alarm]


def problem_of(
    name: str,
    rule: str,
    level: ProblemLevel,
    title: str,
    texts: Iterable[str],
    identity: Iterable[str],
    *,
    alarm: bool = True,
) -> Problem:
    """Return a problem of a kernel or of the whole run: its `name`, and `identity`, which is the same in each run.

    The title follows the name. The message has each of the texts once.
    """
    shown = short_name(name)
    message = sentences(dict.fromkeys(map(short_text, texts)))
    return Problem(
        rule=rule,
        level=level,
        title=f"{shown}{title}",
        message=f"{shown}: {message}" if message else f"{shown}.",
        key=_hashed(rule, *identity),
        alarm=alarm,
    )


def problem_of_check(check: GateCheck, gate: Gate, name: str, texts: Iterable[str], identity: Iterable[str]) -> Problem:
    """Return the problem of a limit that is not kept or not judged; `texts` follow the change."""
    rule, word = _CHECKS[check.word]
    alarm = gate.fails(check)
    accepted = f"Accepted: {check.accepted}" if check.accepted else ""
    return problem_of(
        name,
        rule,
        "error" if alarm else "note",
        f": {word} of {short_name(check.limit)}",
        (check.sentence, *texts, accepted),
        (joined_by("=", check.pattern or "", check.quantity), *identity),
        alarm=alarm,
    )


def cases_of_gate(
    gate: Gate, kernels: Iterable[int], case: Callable[[int | None, CaseResult, str, str, str], TestCase]
) -> Iterator[TestCase]:
    """Yield a case for each check that fails or is unclear, then for the kernels whose limits are all kept.

    `case` makes one of a kernel's id, result, kind, message and limit.
    """
    checked = set()
    for check in gate.checks:
        message = sentence(check.sentence)
        if check.accepted:
            message = f"Accepted: {sentence(check.accepted)} {message}"
        result: CaseResult = "failure" if gate.fails(check) else "skipped"
        checked.add(check.kernel)
        yield case(check.kernel, result, check.word, message, short_name(check.limit))
    for kernel in kernels:
        if kernel not in checked:
            yield case(kernel, "passed", "ok", "", "all limits")


def identity_of(kernel: ComparedKernel | KernelProfile) -> tuple[str, ...]:
    """Return the name, the ranges and the launch configuration of a kernel."""
    return (kernel.demangled, *kernel.ranges, str(kernel.grid), str(kernel.block))


def placed(problem: Problem, places: Iterable[SourceLine | None], options: WriteOptions) -> Problem:
    """Return a problem of code with the first of its places that is in the repository."""
    problem = replace(problem, of_code=True)
    for place in places:
        if place is None:
            continue
        path = path_in_repository(place.file, options.root, options.path_maps)
        if path is not None and 1 <= place.line <= _LAST_LINE:
            return replace(problem, place=SourceLine(path, place.line))
        problem = replace(problem, outside=True)
    return problem


def in_order(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Return problems with errors first, in each level those that are an alarm; no two have one key."""
    seen: Counter[str] = Counter()
    ordered = []
    for problem in sorted(problems, key=lambda problem: (LEVELS.index(problem.level), not problem.alarm)):
        seen[problem.key] += 1
        number = seen[problem.key]
        ordered.append(problem if number == 1 else replace(problem, key=_hashed(problem.key, str(number))))
    return tuple(ordered)


def _hashed(*parts: str) -> str:
    text = "\0".join(parts).encode("utf-8", "backslashreplace")
    return hashlib.sha256(text).hexdigest()


def first_line(files: Sequence[str]) -> SourceLine:
    """Return line 1 of the first file, named without its folder, so that the place is the same in each run."""
    name = file_name(files[0]) if files else ""
    return SourceLine(cut_middle(printable(name or "report"), _FILE_WIDTH), 1)


def without_line_texts(report: ProblemReport) -> Iterator[str]:
    """Yield how many problems are shown at the report instead of a line, and how they would get one."""
    unplaced = [problem for problem in report.alarms if problem.place is None and problem.of_code]
    outside = sum(problem.outside for problem in unplaced)
    lineless = len(unplaced) - outside
    if outside:
        yield (
            f"{count_text(outside, 'result')} in files outside of the repository, shown at the report: "
            "--path-map FROM=TO says where their folder lies in the repository."
        )
    if lineless:
        yield (
            f"{count_text(lineless, 'result')} without a source line, shown at the report: "
            "nvcc -lineinfo and ncu --set full record the lines of kernels."
        )


def short_name(name: str) -> str:
    """Return the name of a kernel or a limit, safe to print and not too long."""
    return cut_middle(printable(name), _NAME_WIDTH)


def short_text(text: str) -> str:
    """Return a text safe to print and not too long."""
    return cut_end(printable(text).strip(), _TEXT_WIDTH)


def sentence(text: str) -> str:
    """Return a text safe to print, not too long, and with a full stop."""
    return full_stop(short_text(text))
