"""What went wrong in a run of `ncu`: recognised by its own words, never by its exit code.

ncu returns 1 for a missing driver, an unknown metric and a failing program alike. When it fails itself it ends the
program, and then says that the program ended with code 9: so the program is blamed last.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from gpuprof.collect.failure_table import (
    BACKED_UP,
    HANG,
    NOTES,
    OF_PROGRAM,
    OPTIONS,
    PROGRAM_SAYS,
    ROWS,
    FailureCause,
    metric_names,
    refused,
)
from gpuprof.errors import EnvironmentProblem, GpuprofError, ProgramFailed, UsageError


@dataclass(frozen=True, slots=True)
class NcuFailure:
    """One recognised cause: an id, what happened, what to type, and a remedy that can be tried at once.

    `metrics` are those that were refused, `code` is that of a program that failed. A `note` is no failure: ncu says it
    beside good reports too.
    """

    cause: str
    what: str
    hint: str
    remedy: str | None = None
    metrics: tuple[str, ...] = ()
    code: int | None = None
    note: bool = False

    def error(self, log: str | None = None) -> GpuprofError:
        """Return it as the error that a command ends with."""
        where = f"; ncu's log: {log}" if log is not None else ""
        return _ERRORS.get(self.cause, EnvironmentProblem)(self.what, f"{self.hint}{where}")


_ERRORS: dict[str, type[GpuprofError]] = {
    "program-failed": ProgramFailed,
    "program-missing": UsageError,
    "no-kernels": ProgramFailed,
}
"""Which error a cause ends in; the others are problems of the environment."""

_OPTIONS = [row for row in ROWS if row.cause == OPTIONS]
_LINE = re.compile(r"^==(ERROR|WARNING)== ?(.*)$", re.MULTILINE | re.IGNORECASE)
_EXCEPTION = re.compile(r"^[^\S\n]*what\(\):.*", re.MULTILINE)
_LONGEST_LINE = 12_000
_OF_PROCESSES = re.compile(r"^==PROF== ?(?:Connected to|Disconnected from|Report:)[^\n]*", re.MULTILINE | re.IGNORECASE)
"""Where paths stand, in which anything may stand too."""
_OF_KERNELS = re.compile(r'^(==PROF== ?Profiling )".*"|^()[^\S\n]*\d+\. .*|()"[^"\n]*"', re.MULTILINE | re.IGNORECASE)
"""Where names of kernels stand, in which anything may stand."""
_DONE = re.compile(r"100%")
_APPLICATION = re.compile(r"The application returned an error code \((\d+)\)", re.IGNORECASE)
_SHUT_DOWN = re.compile("Trying to shutdown target application", re.IGNORECASE)
_RECEIVED = re.compile("Received signal", re.IGNORECASE)
_ENDED_BY_NCU = (9, 15)
_STOPPED = NcuFailure(
    "stopped",
    "the run was ended before it finished; ncu does not say why",
    "it may be a time limit, a signal or ncu itself; see the end of its log",
)
_CRASHES = {6: "it aborted", 11: "it crashed", 134: "it aborted", 139: "it crashed"}
_KILLED = {9: "it may have been killed", 15: "it may have been ended by a signal", 137: "it was killed"}


def failures_of(log: str, output: str) -> tuple[NcuFailure, ...]:
    """Return the causes that ncu names in its log, and in the output, which the program writes to as well.

    The one that explains the others comes first. What stands in the output alone is told, but nothing is tried because
    of it.
    """
    ours = _without_kernel_names(log)
    theirs = _short("\n".join(ncu_lines(output)))
    rows = [row for row in ROWS if row.injected] if _LINE.search(log) else ROWS
    failures = [*_of_rows(rows, theirs), *_of_rows(_OPTIONS, "\n".join(_EXCEPTION.findall(output)))]
    from_output = {failure.cause: replace(failure, remedy=None) for failure in failures}
    from_log = {failure.cause: failure for failure in _of_rows(ROWS, ours)}
    order = [row.cause for row in ROWS]
    causes = sorted({**from_output, **from_log}.values(), key=lambda failure: order.index(failure.cause))
    return _complete(causes, ours if _LINE.search(log) else f"{ours}\n{theirs}", output)


def failures_in(text: str) -> tuple[NcuFailure, ...]:
    """Return the causes that a text names in ncu's own lines, each once."""
    return failures_of("", text)


def _without_kernel_names(log: str) -> str:
    return _short(_OF_KERNELS.sub(r'\1\2\3""', _OF_PROCESSES.sub("", log)))


def _short(text: str) -> str:
    """Cut lines that are too long to be looked at."""
    return "\n".join(line[:_LONGEST_LINE] for line in text.split("\n"))


def _complete(causes: list[NcuFailure], text: str, output: str) -> tuple[NcuFailure, ...]:
    """Put behind what ncu names how the program ended, and what ncu says last; each cause once."""
    if not causes or causes[0].cause == "launch-failed":
        causes = [*_interrupted(text), *_waiting(text), *_memory(text, causes), *causes]
    causes = [*causes, *_of_rows(OF_PROGRAM, output)]
    causes += _program(text, output, is_explained=any(not failure.note for failure in causes))
    causes += _of_rows(NOTES, text)
    return tuple(_once(causes))


def _of_rows(rows: Sequence[FailureCause], text: str) -> list[NcuFailure]:
    return _once(_failure(row, match) for row in rows for match in row.pattern.finditer(text))


def _failure(row: FailureCause, match: re.Match[str]) -> NcuFailure:
    what = row.what if isinstance(row.what, str) else row.what(match)
    metrics = tuple(metric_names(match[1])) if row.remedy == "without-metrics" else ()
    return NcuFailure(cause=row.cause, what=what, hint=row.hint, remedy=row.remedy, metrics=metrics, note=row.note)


def _once(failures: Iterable[NcuFailure]) -> list[NcuFailure]:
    """Return the first of each cause, with the refused metrics of all."""
    first: dict[str, NcuFailure] = {}
    for failure in failures:
        known = first.setdefault(failure.cause, failure)
        metrics = tuple(dict.fromkeys((*known.metrics, *failure.metrics)))
        if metrics != known.metrics:
            first[failure.cause] = replace(known, metrics=metrics, what=refused(metrics))
    return list(first.values())


def _interrupted(text: str) -> list[NcuFailure]:
    return [_STOPPED] if _RECEIVED.search(text) is not None else []


def _waiting(text: str) -> list[NcuFailure]:
    """Return that a kernel hangs, if none was done after ncu had said that it takes long: many a kernel just does."""
    said_last = list(HANG.pattern.finditer(text))
    if not said_last or _DONE.search(text, said_last[-1].end()) is not None:
        return []
    return [_failure(HANG, said_last[-1])]


def _memory(text: str, causes: Sequence[NcuFailure]) -> list[NcuFailure]:
    """Return that a kernel failed for what had to be saved between its passes, if ncu said that this is much."""
    return [replace(failure, note=False) for failure in _of_rows((BACKED_UP,), text)] if causes else []


def _program(text: str, output: str, *, is_explained: bool) -> list[NcuFailure]:
    """Return how the program ended, if ncu says so and has not ended it itself."""
    match = _APPLICATION.search(text)
    if match is None:
        return []
    code = int(match[1])
    if code in _ENDED_BY_NCU and (is_explained or _SHUT_DOWN.search(text) is not None):
        return [] if is_explained else [_STOPPED]
    says = next((meaning for pattern, meaning in PROGRAM_SAYS if pattern.search(output)), None)
    ended = {**_CRASHES, **_KILLED}.get(code)
    what = f"the program exited with code {code}" + (f": {says or ended}" if says or ended else "")
    if code in _CRASHES and says is None:
        hint = "run it without gpuprof first; a crash only under ncu can come from a driver too old for it"
    elif code in _KILLED:
        hint = "run it without gpuprof first; the system kills programs that exceed its memory or time limits"
    else:
        hint = "run it without gpuprof first; its output says why"
    return [NcuFailure("program-failed", what, hint, code=code)]


def ncu_lines(text: str) -> Iterator[str]:
    """Yield ncu's own error and warning lines, without their marks."""
    for match in _LINE.finditer(text):
        yield match[2].strip()


def unknown_failure(log: str, output: str, code: int) -> NcuFailure:
    """Return the failure of a run in which nothing names a known cause: with ncu's last words, else the output's."""
    last_lines = list(ncu_lines(log) if _LINE.search(log) else ncu_lines(output))[-3:]
    if not last_lines:
        others = [[line for line in text.splitlines() if _says_something(line)] for text in (log, output)]
        last_lines = [line for lines in others for line in lines[-2:]][:2]
    quoted = f": {' / '.join(line.strip() for line in last_lines)}" if last_lines else ""
    how = f"exited with code {code}" if code >= 0 else f"was ended by signal {-code}"
    return NcuFailure(
        "unknown", f"ncu {how if code else 'wrote no report'}{quoted}", "gpuprof doctor checks what profiling needs"
    )


def _says_something(line: str) -> bool:
    """Tell whether a line is neither empty nor what Python draws below a line of code."""
    return line.strip(" ^~") != ""
