"""What a product reports to a CI system: its problems, each at a line of code if there is one, and its test cases."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, get_args

from msgspec import Struct

from gpuprof.comparison.contract import SourceLine
from gpuprof.text import cut_end, cut_middle, printable
from gpuprof.words.profile_values import count_text
from gpuprof.words.sentences import full_stop

ProblemLevel = Literal["error", "warning", "note"]
LEVELS: tuple[ProblemLevel, ...] = get_args(ProblemLevel)
CaseResult = Literal["passed", "failure", "skipped"]
REGRESSION = "gate-regression"
ACCEPTED = "gate-accepted"
UNCLEAR = "gate-unclear"
SLOWER = "kernel-slower"
# Title and meaning of rules that are not the diagnosis'.
RULES = {
    REGRESSION: ("A limit of the gate does not hold", "The new side exceeds a limit of --fail-on against the base."),
    UNCLEAR: ("A limit of the gate cannot be judged", "The noise or missing data allow no verdict on a limit."),
    SLOWER: ("A kernel is slower", "A launch takes longer than on the base side, beyond the noise of both."),
}
_NAME_WIDTH = 120
_TEXT_WIDTH = 600


class Problem(Struct, frozen=True):
    """One thing to report.

    `key` is the same in each run for the same rule and kernel, whatever the numbers. Without a `place` it has no line,
    or only lines in files `outside` of the repository. What is not an `alarm` fails nothing: an accepted regression, or
    an unclear limit.
    """

    rule: str
    level: ProblemLevel
    title: str
    message: str
    key: str
    place: SourceLine | None = None
    outside: bool = False
    alarm: bool = True


class TestCase(Struct, frozen=True):
    """A kernel, or a limit for it, that was judged. `kind` and `message` say why it failed or was skipped."""

    name: str
    result: CaseResult
    kind: str
    message: str = ""
    time_s: float | None = None
    details: tuple[str, ...] = ()


class ProblemReport(Struct, frozen=True, kw_only=True):
    """What a command reports. `problems` begin with the errors; those without a line are shown at `fallback`.

    `exit_code` is None without a gate. `conditions` are what forbids a verdict, `facts` names and values of the run.
    """

    command: str
    version: str
    verdict: str
    fallback: SourceLine
    problems: tuple[Problem, ...]
    cases: tuple[TestCase, ...]
    gate: str = ""
    exit_code: int | None = None
    conditions: tuple[str, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def alarms(self) -> list[Problem]:
        """Return the problems that are to be acted on."""
        return [problem for problem in self.problems if problem.alarm]


def without_line_texts(report: ProblemReport) -> Iterator[str]:
    """Yield how many problems are shown at the report instead of a line, and how they would get one."""
    unplaced = [problem for problem in report.alarms if problem.place is None]
    outside = sum(problem.outside for problem in unplaced)
    if outside:
        yield (
            f"{count_text(outside, 'result')} in files outside of the repository, shown at the report: "
            "--path-map FROM=TO says where their folder lies in the repository."
        )
    if len(unplaced) > outside:
        yield (
            f"{count_text(len(unplaced) - outside, 'result')} without a source line, shown at the report: "
            "nvcc -lineinfo and ncu --set full record the lines of kernels."
        )


def short_name(label: str) -> str:
    """Return the name of a kernel, safe to print and not too long."""
    return cut_middle(printable(label), _NAME_WIDTH)


def short_limit(limit: str) -> str:
    """Return a limit as it was written, safe to print and not too long."""
    return cut_end(printable(limit), _NAME_WIDTH)


def short_text(text: str) -> str:
    """Return a text safe to print and not too long."""
    return cut_end(printable(text).strip(), _TEXT_WIDTH)


def sentence(text: str) -> str:
    """Return a text safe to print, not too long, and with a full stop."""
    return full_stop(short_text(text))
